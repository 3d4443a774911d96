package queue

import (
	"context"
	"time"

	"lksms/gen/dbq"
	"lksms/internal/platform/postgres"
)

// forgetBatch is the number of rows that one statement deletes.
const forgetBatch = 5000

// Forget deletes the deliveries of tasks that were dropped, the submissions without a task of their own that are older than the setting
// history.log_days says, and the dedup keys that are older than history.dedup_keep_days says and whose task has ended. It returns how many.
func (s *Service) Forget(ctx context.Context) (int, error) {
	deliveries, err := postgres.InBatches(forgetBatch, func() (int64, error) {
		n, err := s.q.DeliveriesForget(ctx, forgetBatch)
		return n, postgres.Wrap("delete deliveries", err, nil)
	})
	if err != nil {
		return deliveries, err
	}
	submissions, err := s.settings.ForgetLogs(ctx, forgetBatch, func(keep time.Duration) (int64, error) {
		n, err := s.q.SubmissionsForget(ctx, dbq.SubmissionsForgetParams{BatchSize: forgetBatch, Keep: keep})
		return n, postgres.Wrap("delete submissions", err, nil)
	})
	if err != nil {
		return deliveries + submissions, err
	}
	keys, err := s.settings.ForgetDedupKeys(ctx, forgetBatch, func(keep time.Duration) (int64, error) {
		n, err := s.q.DedupKeysForget(ctx, dbq.DedupKeysForgetParams{BatchSize: forgetBatch, Keep: keep})
		return n, postgres.Wrap("delete dedup keys", err, nil)
	})
	return deliveries + submissions + keys, err
}
