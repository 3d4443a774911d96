// Package backlog reads which tasks wait in the queue, for how long, and why.
package backlog

import (
	"context"

	"lksms/gen/dispatchq"
	"lksms/internal/dispatch/queue/claim"
	"lksms/internal/platform/postgres"
)

// Types of rows that a Reader returns.
type (
	// Held counts the tasks that one switch holds.
	Held = dispatchq.TasksHeldRow
	// Late is the longest wait of a company on a channel.
	Late = dispatchq.TasksLateRow
	// Pool is a pool with due tasks and its longest wait.
	Pool = dispatchq.PoolsWaitingRow
)

// Reader reads the backlog. Each method walks the indexes of the queue in a transaction of its own, and is bounded.
type Reader struct{ db *postgres.DB }

// NewReader returns a Reader on db.
func NewReader(db *postgres.DB) Reader { return Reader{db} }

// LongestWait returns for how many seconds the longest due task has waited. Zero: no task is due.
func (r Reader) LongestWait(ctx context.Context) (seconds float64, err error) {
	err = claim.Dispatch(ctx, r.db, func(q *dispatchq.Queries) (err error) {
		seconds, err = q.LongestWait(ctx)
		return err
	})
	return seconds, postgres.Wrap("read longest wait", err, nil)
}

// CompanyLongestWait is LongestWait for one company, among the maxTasks tasks that have waited longest. Nil: none of them belongs to the company.
func (r Reader) CompanyLongestWait(ctx context.Context, company int64, maxTasks int32) (seconds *float64, err error) {
	err = claim.Dispatch(ctx, r.db, func(q *dispatchq.Queries) (err error) {
		seconds, err = q.CompanyLongestWait(ctx, dispatchq.CompanyLongestWaitParams{CompanyID: company, Most: maxTasks})
		return err
	})
	return seconds, postgres.Wrap("read longest wait of company", err, nil)
}

// Held returns what holds tasks, and how many: up to maxTasks of each pool, and up to maxSwitches switches. A nil company means all.
func (r Reader) Held(ctx context.Context, company *int64, maxTasks, maxSwitches int32) (held []Held, err error) {
	err = claim.Dispatch(ctx, r.db, func(q *dispatchq.Queries) (err error) {
		held, err = q.TasksHeld(ctx, dispatchq.TasksHeldParams{CompanyID: company, Most: maxTasks, Named: maxSwitches})
		return err
	})
	return held, postgres.Wrap("count held tasks", err, nil)
}

// Late returns up to maxTasks waits of more than after seconds. It skips tasks of the renderings in ignored.
func (r Reader) Late(ctx context.Context, after float64, maxTasks int32, ignored []int64) (late []Late, err error) {
	err = claim.Dispatch(ctx, r.db, func(q *dispatchq.Queries) (err error) {
		late, err = q.TasksLate(ctx, dispatchq.TasksLateParams{AfterSeconds: after, Most: maxTasks, Ignored: ignored})
		return err
	})
	return late, postgres.Wrap("read waits", err, nil)
}

// Due returns how many of pending tasks are due. If more than maxLater tasks are not due yet, it counts the due ones instead, up to maxDue.
func (r Reader) Due(ctx context.Context, pending float64, maxLater, maxDue int64) (due float64, err error) {
	err = claim.Dispatch(ctx, r.db, func(q *dispatchq.Queries) error {
		later, err := q.TasksLater(ctx, maxLater)
		if err != nil {
			return err
		}
		if due = pending - float64(later); later < maxLater {
			return nil
		}
		queued, err := q.TasksDue(ctx, maxDue)
		due = float64(queued)
		return err
	})
	return due, postgres.Wrap("count due tasks", err, nil)
}

// Pools returns up to maxPools pools with due tasks. It skips tasks of the renderings in ignored.
func (r Reader) Pools(ctx context.Context, maxPools int32, ignored []int64) (pools []Pool, err error) {
	err = claim.Dispatch(ctx, r.db, func(q *dispatchq.Queries) (err error) {
		pools, err = q.PoolsWaiting(ctx, dispatchq.PoolsWaitingParams{Most: maxPools, Ignored: ignored})
		return err
	})
	return pools, postgres.Wrap("find pools with due tasks", err, nil)
}
