package queue

import (
	"context"

	"lksms/gen/dispatchq"
	"lksms/internal/platform/result"
)

// Expire sets expired PENDING tasks to FAILED, and cancels tasks that senders returned after they were taken back. It returns the number of these tasks.
func (s *Service) Expire(ctx context.Context) (int, error) {
	return s.inBatches(ctx, "end expired tasks", sweepBatch, func(q *dispatchq.Queries) (int64, error) {
		row, err := q.TaskExpire(ctx, dispatchq.TaskExpireParams{BatchSize: sweepBatch, Result: result.Expired})
		s.unreached.WithLabelValues("expired").Add(float64(row.Unreached))
		return row.Expired, err
	})
}
