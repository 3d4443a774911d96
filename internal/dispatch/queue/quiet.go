package queue

import (
	"context"
	"time"

	"lksms/gen/dispatchq"
	"lksms/internal/dispatch/queue/claim"
	"lksms/internal/dispatch/quiet"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/postgres"
)

// MoveQuiet moves waiting tasks behind the quiet hours of their recipients (R5), and applies changes of quiet hours to waiting tasks. It returns the number of
// tasks that it changed. A task that waits in quiet hours is sent within quiet.Spread after their end. No claim returns a task in quiet hours, even if MoveQuiet has
// not run.
func (s *Service) MoveQuiet(ctx context.Context) (int, error) {
	if err := s.applyQuietChanges(ctx); err != nil {
		return 0, err
	}
	moved := 0
	for n := sweepBatch; n == sweepBatch; {
		var err error
		if n, err = s.moveQuiet(ctx); err != nil {
			return moved, postgres.Wrap("move tasks behind quiet hours", err, nil)
		}
		moved += n
	}
	return moved, nil
}

// QuietAt returns the period that contains a time for the recipient of a message.
func (s *Service) QuietAt(ctx context.Context, m quiet.Message, at time.Time) (quiet.Period, error) {
	return s.quiet.At(ctx, m, at)
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
		period, err := s.quiet.At(ctx, m, row.DueAt)
		if err != nil {
			return 0, err
		}
		if !period.IsQuiet {
			others.TaskIds, others.QuietFroms = append(others.TaskIds, row.TaskID), append(others.QuietFroms, optional.NonZero(period.Until))
			continue
		}
		next, err := s.quiet.At(ctx, m, period.Until)
		if err != nil {
			return 0, err
		}
		moved.TaskIds, moved.DueAts = append(moved.TaskIds, row.TaskID), append(moved.DueAts, period.After(row.TaskID, row.ExpiresAt, next))
		moved.QuietFroms = append(moved.QuietFroms, optional.NonZero(next.Until))
	}
	err = claim.Dispatch(ctx, s.db, func(q *dispatchq.Queries) error {
		if err := q.TaskQuietSet(ctx, others); err != nil {
			return err
		}
		return q.TaskDefer(ctx, moved)
	})
	return len(rows), err
}

// applyQuietChanges finds the waiting tasks for which quiet hours have changed, in portions. moveQuiet then computes their hours.
func (s *Service) applyQuietChanges(ctx context.Context) error {
	for isLeft := true; isLeft; {
		err := claim.Dispatch(ctx, s.db, func(q *dispatchq.Queries) error {
			change, err := q.QuietChange(ctx)
			if postgres.IsNoRows(err) {
				isLeft = false
				return nil
			}
			if err != nil {
				return err
			}
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
		if err != nil {
			return postgres.Wrap("apply change of quiet hours", err, nil)
		}
	}
	return nil
}
