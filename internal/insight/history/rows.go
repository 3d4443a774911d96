package history

import "lksms/gen/historyq"

// These are the row types that other packages read.
type (
	// PartitionRow is a partition of tasks and its state.
	PartitionRow = historyq.TaskPartitionListRow
)
