package queue

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"lksms/gen/dispatchq"
	"lksms/internal/dispatch/queue/admit"
	"lksms/internal/dispatch/queue/claim"
	"lksms/internal/platform/postgres"
)

// MoveQuiet delays waiting tasks until after the quiet hours of their recipients (R5), and applies changes of quiet hours to waiting tasks. It returns the
// number of tasks that it changed. Caps also apply to the delayed tasks, and to tasks that were held and are released (R6). A task that waits in quiet hours is
// sent within quiet.Spread after their end. No claim returns a task in quiet hours, even if MoveQuiet has not run.
func (s *Service) MoveQuiet(ctx context.Context) (int, error) {
	moved := 0
	for isLeft, portions := true, 0; isLeft && portions < maxQuietPortions; portions++ {
		var err error
		if isLeft, err = s.applyQuietChange(ctx); err != nil {
			return moved, postgres.Wrap("apply change of quiet hours", err, nil)
		}
		for n := sweepBatch; n == sweepBatch; moved += n {
			if n, err = s.moveQuiet(ctx); err != nil {
				return moved, postgres.Wrap("move tasks behind quiet hours", err, nil)
			}
		}
	}
	return moved, nil
}

// moveQuiet moves a portion, and returns its size.
func (s *Service) moveQuiet(ctx context.Context) (n int, err error) {
	var rows []dispatchq.TasksQuietRow
	err = claim.Dispatch(ctx, s.db, func(q *dispatchq.Queries) (err error) {
		rows, err = q.TasksQuiet(ctx, sweepBatch)
		return err
	})
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	var capped []admit.Message
	var plans plans
	for _, row := range rows {
		m := admit.Message{
			Channel: row.Channel, CompanyID: row.CompanyID, MessageType: row.MessageType, Priority: row.Priority, Recipient: row.Recipient, TaskID: row.TaskID,
			ExpiresAt: row.ExpiresAt, DueAt: row.DueAt, DueBefore: row.DueBefore, Exemption: admit.Exemption(row.Exemption),
		}
		isCapped, err := s.admit.IsCapped(ctx, m)
		switch {
		case err != nil:
			return 0, err
		case isCapped && row.IsNew: // a retry counts for its first attempt
			capped = append(capped, m)
			continue
		}
		due, from, err := s.admit.AfterQuiet(ctx, m)
		if err != nil {
			return 0, err
		}
		plans.add(m, due, from)
	}
	if err := claim.Dispatch(ctx, s.db, func(q *dispatchq.Queries) error { return plans.store(ctx, q) }); err != nil {
		return 0, err
	}
	slices.SortStableFunc(capped, func(a, b admit.Message) int { // of the messages to one person, a cap delays those that claims return last
		return cmp.Or(strings.Compare(a.Recipient, b.Recipient), cmp.Compare(a.Priority, b.Priority))
	})
	for len(capped) > 0 {
		n := min(maxCapped, len(capped))
		for n < len(capped) && capped[n].Recipient == capped[n-1].Recipient { // one transaction gets all messages to a person, because caps decide about them in their order
			n++
		}
		some := capped[:n]
		capped = capped[n:]
		if err := s.db.Tx(ctx, func(ctx context.Context) error { return s.moveCapped(ctx, some) }); err != nil {
			return 0, err
		}
	}
	return len(rows), nil
}

// maxCapped is the number of tasks with caps that one transaction moves. The transaction locks the counts of their recipients, so other submissions to these
// recipients wait.
const maxCapped = 100

// moveCapped works like moveQuiet for tasks with caps, in the transaction of ctx that also counts them.
func (s *Service) moveCapped(ctx context.Context, messages []admit.Message) error {
	due, froms, err := s.admit.Move(ctx, messages)
	if err != nil {
		return err
	}
	var plans plans
	for i, m := range messages {
		plans.add(m, due[i], froms[i])
	}
	return plans.store(ctx, claim.TaskStatements(s.db))
}

// plans contains tasks that get another due time, and those of which only the beginning of the next quiet hours changes.
type plans struct {
	moved  dispatchq.TaskDeferParams
	others dispatchq.TaskQuietSetParams
}

func (p *plans) add(m admit.Message, due time.Time, from *time.Time) {
	if due.Equal(m.DueAt) {
		p.others.TaskIds, p.others.QuietFroms = append(p.others.TaskIds, m.TaskID), append(p.others.QuietFroms, from)
		return
	}
	p.moved.TaskIds, p.moved.DueAts, p.moved.QuietFroms = append(p.moved.TaskIds, m.TaskID), append(p.moved.DueAts, due), append(p.moved.QuietFroms, from)
}

func (p *plans) store(ctx context.Context, q *dispatchq.Queries) error {
	if err := q.TaskQuietSet(ctx, p.others); err != nil {
		return err
	}
	return q.TaskDefer(ctx, p.moved)
}

// maxQuietPortions is the maximum number of portions of a change that one run of MoveQuiet applies. The next run continues.
const maxQuietPortions = 100

// applyQuietChange finds the tasks of the next portion of a change of quiet hours. moveQuiet then computes their hours. isLeft is false if no change is left.
func (s *Service) applyQuietChange(ctx context.Context) (isLeft bool, err error) {
	err = claim.Dispatch(ctx, s.db, func(q *dispatchq.Queries) error {
		change, err := q.QuietChange(ctx)
		if postgres.IsNoRows(err) {
			return nil
		}
		if err != nil {
			return err
		}
		isLeft = true
		last, err := q.TaskQuietReset(ctx, dispatchq.TaskQuietResetParams{
			CompanyID: change.CompanyID, BeginsAt: change.BeginsAt, AfterID: change.AfterID, Portion: maxSwitched,
		})
		switch {
		case err != nil:
			return err
		case last == "":
			return q.QuietChangeDelete(ctx, change.ID)
		default:
			return q.QuietChangeMove(ctx, dispatchq.QuietChangeMoveParams{AfterID: last, ID: change.ID})
		}
	})
	return isLeft, err
}
