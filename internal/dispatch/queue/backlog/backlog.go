// Package backlog reads which tasks wait in the queue, how long they have waited, and why.
package backlog

import (
	"context"

	"lksms/gen/dispatchq"
	"lksms/internal/dispatch/queue/claim"
	"lksms/internal/platform/postgres"
)

// These are the row types that a Reader returns.
type (
	// Held counts the tasks that one switch holds.
	Held = dispatchq.TasksHeldRow
	// Late is the longest wait of a company on a channel.
	Late = dispatchq.TasksLateRow
	// Pool is a pool with due tasks and its longest wait.
	Pool = dispatchq.PoolsWaitingRow
)

// Reader reads the backlog. Each method walks indexes of the queue in its own transaction, and reads a limited number of rows.
type Reader struct{ db *postgres.DB }

// NewReader returns a Reader on db.
func NewReader(db *postgres.DB) Reader { return Reader{db} }

// LongestWait returns the wait of the due task that has waited longest, in seconds. Zero means that no task is due.
func (r Reader) LongestWait(ctx context.Context) (seconds float64, err error) {
	err = claim.Dispatch(ctx, r.db, func(q *dispatchq.Queries) (err error) {
		seconds, err = q.LongestWait(ctx)
		return err
	})
	return seconds, postgres.Wrap("read longest wait", err, nil)
}

// CompanyLongestWait returns the longest wait of a task of one company, in seconds. It reads only the maxTasks tasks that have waited longest. Nil
// means that none of these tasks belongs to the company.
func (r Reader) CompanyLongestWait(ctx context.Context, company int64, maxTasks int32) (seconds *float64, err error) {
	err = claim.Dispatch(ctx, r.db, func(q *dispatchq.Queries) (err error) {
		seconds, err = q.CompanyLongestWait(ctx, dispatchq.CompanyLongestWaitParams{CompanyID: company, MaxRows: maxTasks})
		return err
	})
	return seconds, postgres.Wrap("read longest wait of company", err, nil)
}

// Held returns the switches that hold tasks, with the number of held tasks. It reads up to maxTasks of each pool and returns up to maxSwitches
// switches. A nil company means all companies.
func (r Reader) Held(ctx context.Context, company *int64, maxTasks, maxSwitches int32) (held []Held, err error) {
	err = claim.Dispatch(ctx, r.db, func(q *dispatchq.Queries) (err error) {
		held, err = q.TasksHeld(ctx, dispatchq.TasksHeldParams{CompanyID: company, MaxTasks: maxTasks, Named: maxSwitches})
		return err
	})
	return held, postgres.Wrap("count held tasks", err, nil)
}

// Late returns up to maxTasks waits that are longer than `after`, a number of seconds. It skips tasks of the renderings in ignored.
func (r Reader) Late(ctx context.Context, after float64, maxTasks int32, ignored []int64) (late []Late, err error) {
	err = claim.Dispatch(ctx, r.db, func(q *dispatchq.Queries) (err error) {
		late, err = q.TasksLate(ctx, dispatchq.TasksLateParams{AfterSeconds: after, MaxTasks: maxTasks, Ignored: ignored})
		return err
	})
	return late, postgres.Wrap("read waits", err, nil)
}

// Due returns the number of pending tasks that are due. It subtracts the tasks that are not due yet from pending. If more than maxLater tasks are not due
// yet, it counts the due tasks instead, up to maxDue.
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
		pools, err = q.PoolsWaiting(ctx, dispatchq.PoolsWaitingParams{MaxPools: maxPools, Ignored: ignored})
		return err
	})
	return pools, postgres.Wrap("find pools with due tasks", err, nil)
}
