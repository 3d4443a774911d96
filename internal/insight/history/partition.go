package history

import (
	"context"
	"fmt"
	"time"

	"lksms/gen/historyq"
	"lksms/internal/platform/postgres"
)

// partitionsAhead is how far ahead partitions are created. The creation can fail for this time before a task has no partition.
const partitionsAhead = 7 * 24 * time.Hour

// MakePartitions creates the partitions of tasks for the next days, and the partitions of sender_ledger and batch_rows. It returns the number of created
// partitions. A task whose partition is missing is also accepted: it is stored in the default partition, and moves when its partition is created.
func (s *Service) MakePartitions(ctx context.Context) (int, error) {
	values, err := s.settings.Get(ctx)
	if err != nil {
		return 0, err
	}
	n, err := postgres.Patiently(ctx, func() (int32, error) {
		return s.q.TaskPartitionsMake(ctx, historyq.TaskPartitionsMakeParams{Width: values.History.PartitionWidth, Ahead: partitionsAhead})
	})
	if err != nil {
		return 0, fmt.Errorf("make partitions: %w", err)
	}
	for parent, width := range map[string]time.Duration{"sender_ledger": values.History.LedgerWidth(), "batch_rows": values.History.BatchWidth()} {
		_, err := postgres.InBatches(1, func() (int64, error) {
			return postgres.Patiently(ctx, func() (int64, error) {
				return s.q.NumberPartitionsAhead(ctx, historyq.NumberPartitionsAheadParams{Parent: parent, Width: width})
			})
		})
		if err != nil {
			return int(n), fmt.Errorf("make partitions of %s: %w", parent, err)
		}
	}
	return int(n), nil
}
