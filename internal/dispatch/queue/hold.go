package queue

import (
	"context"

	"lksms/gen/dispatchq"
	"lksms/internal/dispatch/queue/claim"
	"lksms/internal/platform/postgres"
)

// HoldBatch holds the PENDING tasks of a paused batch until ReleaseBatch. It returns the number of held tasks. Each portion is one transaction. If the batch
// is not paused, HoldBatch holds no task. No sender can claim a held task, but the task can still expire or be cancelled. HoldBatch does not change leased
// tasks. If a leased task must be retried, the task can be claimed again until the next call of HoldBatch.
func (s *Service) HoldBatch(ctx context.Context, batchID int64) (held int, err error) {
	err = s.inPortions(ctx, "hold tasks of batch", func(q *dispatchq.Queries, after string) (n int, last string, err error) {
		row, err := q.TaskHold(ctx, dispatchq.TaskHoldParams{BatchID: batchID, AfterID: after, Portion: sweepBatch})
		held += int(row.Held)
		return int(row.Held), row.LastID, err
	})
	return held, err
}

// ReleaseBatch releases the held tasks of a running batch and returns the number of released tasks. Each portion is one transaction. Each task keeps
// the due time that it had before the hold, so a retry still waits. If this time is over, the task is due at once.
func (s *Service) ReleaseBatch(ctx context.Context, batchID int64) (released int, err error) {
	news := map[int64]int{}
	err = s.inPortions(ctx, "release tasks of batch", func(q *dispatchq.Queries, after string) (n int, last string, err error) {
		row, err := q.TaskUnhold(ctx, dispatchq.TaskUnholdParams{BatchID: batchID, AfterID: after, Portion: sweepBatch})
		for _, pool := range row.PoolIds {
			news[pool]++
		}
		released += int(row.Released)
		return int(row.Released), row.LastID, err
	})
	s.Wake(news)
	return released, err
}

// ByBatches is the user name in the log if a task of a cancelled batch is cancelled after its sender returned the task.
const ByBatches = "system:batches"

// inPortions repeats a statement until a portion is not full. Each run continues after the last task of the previous run.
func (s *Service) inPortions(ctx context.Context, act string, run func(q *dispatchq.Queries, after string) (n int, last string, err error)) error {
	for after, n := "", sweepBatch; n == sweepBatch; {
		err := claim.Dispatch(ctx, s.db, func(q *dispatchq.Queries) (err error) {
			n, after, err = run(q, after)
			return err
		})
		if err != nil {
			return postgres.Wrap(act, err, nil)
		}
	}
	return nil
}

// WaitingOfBatch returns the number of PENDING tasks of a batch, and of those that are due. It counts at most limit tasks.
func (s *Service) WaitingOfBatch(ctx context.Context, batchID int64, limit int) (tasks, due int, err error) {
	err = claim.Dispatch(ctx, s.db, func(q *dispatchq.Queries) error {
		row, err := q.TasksWaiting(ctx, dispatchq.TasksWaitingParams{BatchID: batchID, MaxTasks: int32(limit)})
		tasks, due = int(row.Tasks), int(row.Due)
		return err
	})
	return tasks, due, postgres.Wrap("count tasks of batch", err, nil)
}
