package queue

import (
	"context"

	"lksms/gen/dispatchq"
	"lksms/internal/platform/result"
)

// Expire ends PENDING tasks that have expired, as FAILED, and returns how many.
func (s *Service) Expire(ctx context.Context) (int, error) {
	return s.inBatches(ctx, "end expired tasks", sweepBatch, func(q *dispatchq.Queries) (int64, error) {
		row, err := q.TaskExpire(ctx, dispatchq.TaskExpireParams{BatchSize: sweepBatch, Result: result.Expired})
		s.unreached.WithLabelValues("expired").Add(float64(row.Unreached))
		return row.Expired, err
	})
}
