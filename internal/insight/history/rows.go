package history

import "lksms/gen/historyq"

// Types of rows that other rooms read.
type (
	// PartitionRow is a partition of tasks and its state.
	PartitionRow = historyq.TaskPartitionListRow
)
