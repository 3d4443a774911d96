package queue

import (
	"context"

	"lksms/gen/dispatchq"
	"lksms/internal/dispatch/queue/claim"
	"lksms/internal/dispatch/quiet"
	"lksms/internal/platform/postgres"
)

// MoveQuiet moves waiting tasks behind the quiet hours of their recipients (R5), and applies changes of quiet hours to waiting tasks. It returns the number of
// tasks that it changed. A task that waits in quiet hours is sent within quiet.Spread after their end. No claim returns a task in quiet hours, even if MoveQuiet has
// not run.
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
	var moved dispatchq.TaskDeferParams
	var others dispatchq.TaskQuietSetParams
	for _, row := range rows {
		m := quiet.Message{Channel: row.Channel, CompanyID: row.CompanyID, MessageType: row.MessageType, Priority: row.Priority, Recipient: row.Recipient}
		due, from, err := s.quiet.Plan(ctx, m, row.TaskID, row.ExpiresAt, row.DueAt)
		switch {
		case err != nil:
			return 0, err
		case due.Equal(row.DueAt):
			others.TaskIds, others.QuietFroms = append(others.TaskIds, row.TaskID), append(others.QuietFroms, from)
		default:
			moved.TaskIds, moved.DueAts, moved.QuietFroms = append(moved.TaskIds, row.TaskID), append(moved.DueAts, due), append(moved.QuietFroms, from)
		}
	}
	err = claim.Dispatch(ctx, s.db, func(q *dispatchq.Queries) error {
		if err := q.TaskQuietSet(ctx, others); err != nil {
			return err
		}
		return q.TaskDefer(ctx, moved)
	})
	return len(rows), err
}

// maxQuietPortions is the maximum number of portions of a change that one run of MoveQuiet applies. The next run goes on.
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
		last, err := q.TaskQuietReset(ctx, dispatchq.TaskQuietResetParams{CompanyID: change.CompanyID, AfterID: change.AfterID, Portion: maxSwitched})
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
