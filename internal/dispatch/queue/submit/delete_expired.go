package submit

import (
	"context"
	"time"

	"lksms/gen/queueq"
	"lksms/internal/platform/postgres"
)

// deleteBatch is the number of rows that one statement deletes.
const deleteBatch = 5000

// DeleteExpired deletes old deliveries, submissions and dedup keys, and returns the number of deleted rows. It deletes deliveries of tasks that were dropped,
// submissions that created no task and are older than the setting history.log_days, and dedup keys that are older than history.dedup_keep_days and whose tasks
// have ended.
func (s *Service) DeleteExpired(ctx context.Context) (int, error) {
	deliveries, err := postgres.InBatches(deleteBatch, func() (int64, error) {
		n, err := s.q.DeliveriesDeleteExpired(ctx, deleteBatch)
		return n, postgres.Wrap("delete deliveries", err, nil)
	})
	if err != nil {
		return deliveries, err
	}
	submissions, err := s.settings.DeleteExpiredLogs(ctx, deleteBatch, func(keep time.Duration) (int64, error) {
		n, err := s.q.SubmissionsDeleteExpired(ctx, queueq.SubmissionsDeleteExpiredParams{BatchSize: deleteBatch, Keep: keep})
		return n, postgres.Wrap("delete submissions", err, nil)
	})
	if err != nil {
		return deliveries + submissions, err
	}
	keys, err := s.settings.DeleteExpiredDedupKeys(ctx, deleteBatch, func(keep time.Duration) (int64, error) {
		n, err := s.q.DedupKeysDeleteExpired(ctx, queueq.DedupKeysDeleteExpiredParams{BatchSize: deleteBatch, Keep: keep})
		return n, postgres.Wrap("delete dedup keys", err, nil)
	})
	return deliveries + submissions + keys, err
}
