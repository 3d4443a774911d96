package history

import (
	"context"
	"fmt"
	"time"

	"lksms/gen/dbq"
)

// partitionsAhead is how far ahead partitions are made: making them may fail for days before a task is without one.
const partitionsAhead = 7 * 24 * time.Hour

// MakePartitions makes the partitions of tasks that the next days need, and returns how many. Tasks without a partition are accepted too:
// they wait in the default partition, and move when theirs is made.
func (s *Service) MakePartitions(ctx context.Context) (int, error) {
	values, err := s.settings.Get(ctx)
	if err != nil {
		return 0, err
	}
	var n int32
	err = patiently(ctx, func() (err error) {
		n, err = s.q.TaskPartitionsMake(ctx, dbq.TaskPartitionsMakeParams{Width: values.History.PartitionWidth, Ahead: partitionsAhead})
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("make partitions: %w", err)
	}
	return int(n), nil
}
