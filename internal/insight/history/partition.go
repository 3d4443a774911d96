package history

import (
	"context"
	"fmt"
	"time"

	"lksms/gen/historyq"
	"lksms/internal/platform/postgres"
)

// partitionsAhead is how far ahead partitions are made: making them may fail for days before a task is without one.
const partitionsAhead = 7 * 24 * time.Hour

// MakePartitions makes the partitions of tasks that the next days need, and returns how many of tasks it made. Tasks without a partition are accepted too:
// they wait in the default partition, and move when theirs is made. It makes those of charges and of rows of batches too, and begins their next ones.
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
