package queue

import (
	"context"
	"encoding/json"
	"fmt"

	"lksms/gen/dbq"
	"lksms/gen/dispatchq"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/result"
)

// Cancel ends a PENDING task and logs that by did it. Faults: task.not_found, task.not_pending.
func (s *Service) Cancel(ctx context.Context, viewer Viewer, id, by string) (dbq.Task, error) {
	if _, err := s.Get(ctx, viewer, id); err != nil {
		return dbq.Task{}, err
	}
	switch n, err := s.CancelAll(ctx, []string{id}, by); {
	case err != nil:
		return dbq.Task{}, err
	case n == 0:
		return dbq.Task{}, fault.New(fault.Conflict, fault.TaskNotPending)
	}
	return s.Get(ctx, viewer, id)
}

// CancelAll ends those of ids that are PENDING, logs that by did it, and returns how many.
func (s *Service) CancelAll(ctx context.Context, ids []string, by string) (int, error) {
	detail, err := json.Marshal(map[string]string{"by": by})
	if err != nil {
		return 0, fmt.Errorf("cancel tasks: %w", err)
	}
	ended, err := s.q.TaskCancel(ctx, dbq.TaskCancelParams{TaskIds: ids, RequestData: detail})
	return len(ended), postgres.Wrap("cancel tasks", err, nil)
}

// Withdraw cancels the PENDING tasks of notifications and returns how many there were. A task that a sender holds is not sent again.
func (s *Service) Withdraw(ctx context.Context, notificationIDs []int64, by string) (int, error) {
	detail, err := json.Marshal(map[string]string{"by": by})
	if err != nil {
		return 0, fmt.Errorf("withdraw tasks: %w", err)
	}
	n, err := s.q.TaskWithdraw(ctx, dbq.TaskWithdrawParams{NotificationIds: notificationIDs, RequestData: detail})
	return int(n), postgres.Wrap("withdraw tasks", err, nil)
}

// Expire ends PENDING tasks that have expired, as FAILED, and returns how many.
func (s *Service) Expire(ctx context.Context) (int, error) {
	return s.inBatches(ctx, "end expired tasks", sweepBatch, func(q *dispatchq.Queries) (int64, error) {
		row, err := q.TaskExpire(ctx, dispatchq.TaskExpireParams{BatchSize: sweepBatch, Result: result.Expired})
		s.unreached.WithLabelValues("expired").Add(float64(row.Unreached))
		return row.Expired, err
	})
}
