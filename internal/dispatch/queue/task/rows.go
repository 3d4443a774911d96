package task

import "lksms/gen/queueq"

// Types of rows that other rooms read.
type (
	// Row is a task as users see it.
	Row = queueq.Task
	// OriginRow is the origin of a task.
	OriginRow = queueq.TaskOriginsRow
	// PersonRow is a task to a person.
	PersonRow = queueq.ErasureTasksRow
	// TimelineRow is an entry of the timeline of a task.
	TimelineRow = queueq.TaskTimelineRow
)
