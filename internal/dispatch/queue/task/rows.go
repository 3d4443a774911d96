package task

import "lksms/gen/queueq"

// Rows as the database returns them.
type (
	Row         = queueq.Task
	OriginRow   = queueq.TaskOriginsRow
	TimelineRow = queueq.TaskTimelineRow
)
