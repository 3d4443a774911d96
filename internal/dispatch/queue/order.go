package queue

import (
	"context"
	"time"

	"lksms/gen/dispatchq"
	"lksms/internal/platform/postgres"
)

// Queue adds every due task to the queue order: retries and scheduled tasks. It returns the number of added tasks. Each batch is one transaction. Claims also
// find due tasks that Queue has not added yet.
func (s *Service) Queue(ctx context.Context) (int, error) {
	values, err := s.settings.Get(ctx)
	if err != nil {
		return 0, err
	}
	return s.inBatches(ctx, "queue tasks that have come due", sweepBatch, func(q *dispatchq.Queries) (int64, error) {
		return q.TaskQueue(ctx, dispatchq.TaskQueueParams{
			BatchSize: sweepBatch, PriorityMaxWait: values.Queue.PriorityWait(), AgedPriority: values.AgedPriority(),
		})
	})
}

// viewLasts is the maximum time after a change of routes in which a server can still store a submission by the old routes. It is longer than the lifetime of
// cached routes plus the duration of a submission.
const viewLasts = time.Minute

// moveBatch is the maximum number of tasks that one statement moves. Each statement searches the pool from its beginning.
const moveBatch = 10_000

// Move moves waiting tasks to the pools of the current routes and returns the number of moved tasks. Each batch is one transaction.
func (s *Service) Move(ctx context.Context) (int, error) {
	began := time.Now()
	moved, err := s.move(ctx, nil)
	if err == nil && moved > 0 { // a task that a switch holds in its old pool can be claimed in its new pool
		_, err = s.releaseSwitched(ctx)
	}
	if err == nil {
		err = postgres.Wrap("end searches for tasks of new pools", s.q.PoolSettle(ctx, viewLasts+time.Since(began)), nil)
	}
	return moved, err
}

// move moves the tasks of one pool. A nil pool means all pools.
func (s *Service) move(ctx context.Context, pool *int64) (int, error) {
	return s.inBatches(ctx, "move tasks to the pools of their routes", moveBatch, func(q *dispatchq.Queries) (int64, error) {
		return q.TaskMove(ctx, dispatchq.TaskMoveParams{BatchSize: moveBatch, PoolID: pool})
	})
}

// Age raises tasks that have waited too long to the priority below real-time messages. It returns the number of raised tasks. A task that leaves its old
// position in the order for a higher priority is queued again at once.
func (s *Service) Age(ctx context.Context) (int, error) {
	values, err := s.settings.Get(ctx)
	if err != nil {
		return 0, err
	}
	aged, err := s.inBatches(ctx, "age tasks", sweepBatch, func(q *dispatchq.Queries) (int64, error) {
		return q.TaskAge(ctx, dispatchq.TaskAgeParams{
			BatchSize: sweepBatch, RetryMaxWait: values.Queue.Rules().RetryWait(), PriorityMaxWait: values.Queue.PriorityWait(),
			AgedPriority: values.AgedPriority(),
		})
	})
	if err == nil && aged > 0 {
		_, err = s.Queue(ctx)
	}
	return aged, err
}

// moveLimit is the maximum time for which a change of a route waits until its tasks are moved. A sweep moves the remaining tasks.
const moveLimit = 5 * time.Second

// routesChanged moves the waiting tasks of a pool. If the move fails, the sweep moves the tasks later and logs its errors. Afterwards, the directory calls
// Switched, because shared senders are possibly not allowed to send the moved tasks.
func (s *Service) routesChanged(pool int64) {
	ctx, cancel := context.WithTimeout(context.Background(), moveLimit)
	defer cancel()
	_, _ = s.move(ctx, &pool)
}
