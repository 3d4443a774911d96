package task

import (
	"context"
	"encoding/json"
	"fmt"

	"lksms/gen/dispatchq"
	"lksms/gen/queueq"
	"lksms/internal/dispatch/queue/claim"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/postgres"
)

// Cancel ends a PENDING task and logs by as the user. Faults: task.not_found, task.not_pending.
func (s *Service) Cancel(ctx context.Context, viewer Viewer, id, by string) (Row, error) {
	if _, err := s.Get(ctx, viewer, id); err != nil {
		return Row{}, err
	}
	switch n, err := s.CancelAll(ctx, []string{id}, by); {
	case err != nil:
		return Row{}, err
	case n == 0:
		return Row{}, fault.New(fault.Conflict, fault.TaskNotPending)
	}
	return s.Get(ctx, viewer, id)
}

// CancelAll ends the PENDING tasks in ids, logs by as the user, and returns the number of ended tasks.
func (s *Service) CancelAll(ctx context.Context, ids []string, by string) (int, error) {
	detail, err := json.Marshal(map[string]string{"by": by})
	if err != nil {
		return 0, fmt.Errorf("cancel tasks: %w", err)
	}
	ended, err := s.q.TaskCancel(ctx, queueq.TaskCancelParams{TaskIds: ids, RequestData: detail})
	return len(ended), postgres.Wrap("cancel tasks", err, nil)
}

// Withdraw cancels the PENDING tasks of notifications and returns their number. If a sender holds a lease of a task, Withdraw only prevents a retry of the
// task: queue.Expire cancels the task if the sender returns it.
func (s *Service) Withdraw(ctx context.Context, notificationIDs []int64, by string) (int, error) {
	ids, err := s.q.TaskIDsOfNotifications(ctx, notificationIDs)
	if err != nil {
		return 0, fmt.Errorf("find tasks of notifications: %w", err)
	}
	n, _, err := s.takeBack(ctx, ids, queueq.TaskTakeBackParams{By: by})
	return n, postgres.Wrap("withdraw tasks", err, nil)
}

// cancelPortion is the maximum number of tasks of a batch that one statement ends.
const cancelPortion = 1000

// CancelBatch ends the PENDING tasks of a batch, logs by as the user, and returns the number of ended tasks. Each portion of tasks is one transaction.
func (s *Service) CancelBatch(ctx context.Context, batchID int64, by string) (cancelled int, err error) {
	for after := ""; ; {
		var ids []string
		err := claim.Dispatch(ctx, s.db, func(q *dispatchq.Queries) (err error) {
			ids, err = q.TaskIDsWaiting(ctx, dispatchq.TaskIDsWaitingParams{BatchID: batchID, AfterID: after, Portion: cancelPortion})
			return err
		})
		if err != nil {
			return cancelled, postgres.Wrap("find tasks of batch", err, nil)
		}
		if len(ids) == 0 {
			return cancelled, nil
		}
		n, err := s.CancelAll(ctx, ids, by)
		if cancelled += n; err != nil {
			return cancelled, err
		}
		after = ids[len(ids)-1]
	}
}
