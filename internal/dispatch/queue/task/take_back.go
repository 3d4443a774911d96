package task

import (
	"context"
	"fmt"
	"time"

	"lksms/gen/queueq"
	"lksms/internal/dispatch/queue"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/result"
)

// Blocked names the tasks that a block forbids.
type Blocked struct {
	Recipient    string  // in E.164
	CompanyID    *int64  // nil: tasks of all companies
	MessageTypes []int16 // the forbidden types
}

// Lease is a task that a sender holds.
type Lease struct {
	TaskID, SenderNo string
	LeaseUntil       time.Time
}

// takeBackPortion is the maximum number of tasks that one statement takes back.
const takeBackPortion = 1000

// TakeBack cancels the PENDING tasks to a recipient, and logs by as the user. It returns their number, and the tasks that senders hold: such a message can still
// be sent once, and is not sent again: Expire cancels it if its sender returns it. The caller first stores the block, and calls AwaitWriters after the block is committed. If a partition is locked, because it is being moved to another tablespace, the database counts as unavailable. Each portion of tasks is one transaction.
func (s *Service) TakeBack(ctx context.Context, b Blocked, by string) (cancelled int, held []Lease, err error) {
	for after := ""; ; {
		var ids []string
		err := s.db.Briefly(ctx, func(ctx context.Context) (err error) {
			ids, err = s.inParts.TaskIDsTo(ctx, queueq.TaskIDsToParams{
				Recipient: b.Recipient, CompanyID: b.CompanyID, MessageTypes: b.MessageTypes, AfterID: after, Portion: takeBackPortion,
			})
			return err
		})
		if err != nil || len(ids) == 0 {
			return cancelled, held, postgres.Wrap("find blocked tasks", err, nil)
		}
		n, leases, err := s.takeBack(ctx, ids, queueq.TaskTakeBackParams{By: by, Result: result.Blocked})
		if err != nil {
			return cancelled, held, fmt.Errorf("take back tasks: %w", err)
		}
		cancelled, held = cancelled+n, append(held, leases...)
		if after = ids[len(ids)-1]; len(ids) < takeBackPortion {
			return cancelled, held, nil
		}
	}
}

// Waiting returns those of recipients to whom a task is PENDING or leased. One statement finds them, because most numbers of a long list have none.
func (s *Service) Waiting(ctx context.Context, recipients []string) (waiting map[string]bool, err error) {
	var found []string
	err = s.db.Briefly(ctx, func(ctx context.Context) (err error) {
		found, err = s.inParts.RecipientsWaiting(ctx, recipients)
		return err
	})
	waiting = make(map[string]bool, len(found))
	for _, recipient := range found {
		waiting[recipient] = true
	}
	return waiting, postgres.Wrap("find recipients of waiting tasks", err, nil)
}

// takeBack cancels the PENDING tasks of ids, and returns their number, and the tasks that senders hold.
func (s *Service) takeBack(ctx context.Context, ids []string, p queueq.TaskTakeBackParams) (cancelled int, held []Lease, err error) {
	p.TaskIds = ids
	rows, err := postgres.Again(ctx, s.db, func() ([]queueq.TaskTakeBackRow, error) { return s.q.TaskTakeBack(ctx, p) })
	for _, row := range rows {
		if row.LeaseUntil == nil {
			cancelled++
		} else {
			held = append(held, Lease{TaskID: row.TaskID, SenderNo: row.SenderNo, LeaseUntil: *row.LeaseUntil})
		}
	}
	return cancelled, held, err
}

// CancelUnsent cancels the PENDING tasks of ids, logs by as the user, and returns their number. A message that a sender holds can still be sent once, and is not
// sent again.
func (s *Service) CancelUnsent(ctx context.Context, ids []string, by string) (cancelled int, err error) {
	cancelled, _, err = s.takeBack(ctx, ids, queueq.TaskTakeBackParams{By: by})
	return cancelled, postgres.Wrap("cancel unsent tasks", err, nil)
}

// AwaitWriters waits until all transactions that now write queue have ended. The tasks that they added are then visible.
func (s *Service) AwaitWriters(ctx context.Context) error {
	return postgres.Wrap("wait for submissions", queue.AwaitEnd(ctx, s.q.QueueWriters), nil)
}
