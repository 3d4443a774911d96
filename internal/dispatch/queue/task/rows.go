package task

import "lksms/gen/queueq"

// These are the row types that other packages read.
type (
	// Row is a task in the form that users see.
	Row = queueq.Task
	// OriginRow contains the company, channel, notification and last provider number of a task.
	OriginRow = queueq.TaskOriginsRow
	// PersonRow is a task to a person.
	PersonRow = queueq.ErasureTasksRow
	// TimelineRow is an entry of the timeline of a task.
	TimelineRow = queueq.TaskTimelineRow
)
