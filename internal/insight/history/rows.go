package history

import "lksms/gen/historyq"

// Rows as the database returns them.
type (
	PartitionRow = historyq.TaskPartitionListRow
)
