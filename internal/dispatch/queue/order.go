package queue

import (
	"context"
	"time"

	"lksms/gen/dispatchq"
	"lksms/internal/platform/postgres"
)

// Queue queues every task that has come due, retries and scheduled ones, in batches of their own transactions, and returns
// how many. Claims also take due tasks that are not queued yet.
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

// viewLasts is how long after a change of a route a submission may still be stored by an older view of the routes. It is longer than a
// server keeps a view and a submission takes.
const viewLasts = time.Minute

// moveBatch bounds how many tasks one statement moves. Each statement searches the pool from its head.
const moveBatch = 10_000

// Move moves waiting tasks to the pools of the routes as they are now, in batches of their own transactions, and returns how many.
func (s *Service) Move(ctx context.Context) (int, error) {
	began := time.Now()
	moved, err := s.move(ctx, nil)
	if err == nil && moved > 0 { // what was held where it waited may be free where it is now
		_, err = s.releaseSwitched(ctx)
	}
	if err == nil {
		err = postgres.Wrap("settle pools", s.q.PoolSettle(ctx, viewLasts+time.Since(began)), nil)
	}
	return moved, err
}

// move is Move for one pool; nil means all pools.
func (s *Service) move(ctx context.Context, pool *int64) (int, error) {
	return s.inBatches(ctx, "move tasks to the pools of their routes", moveBatch, func(q *dispatchq.Queries) (int64, error) {
		return q.TaskMove(ctx, dispatchq.TaskMoveParams{BatchSize: moveBatch, PoolID: pool})
	})
}

// Age moves tasks that have waited too long before the others, but never before real-time messages, and returns how many. Tasks that left the
// queue for a higher priority are queued again at once.
func (s *Service) Age(ctx context.Context) (int, error) {
	values, err := s.settings.Get(ctx)
	if err != nil {
		return 0, err
	}
	aged, err := s.inBatches(ctx, "let old tasks go first", sweepBatch, func(q *dispatchq.Queries) (int64, error) {
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

// moveLimit bounds how long the change of a route waits for the tasks that it moves; a sweep moves the rest.
const moveLimit = 5 * time.Second

// routesChanged moves the waiting tasks of a pool. If that fails, the sweep moves them and logs its errors. Switched follows: shared senders may not
// be allowed to send what was moved to them.
func (s *Service) routesChanged(pool int64) {
	ctx, cancel := context.WithTimeout(context.Background(), moveLimit)
	defer cancel()
	_, _ = s.move(ctx, &pool)
}
