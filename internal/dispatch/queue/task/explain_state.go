package task

import (
	"context"
	"fmt"
	"time"

	"lksms/gen/dispatchq"
	"lksms/internal/dispatch/queue"
	"lksms/internal/dispatch/queue/admit"
	"lksms/internal/dispatch/queue/claim"
	"lksms/internal/dispatch/queue/explain"
	"lksms/internal/dispatch/quiet"
	"lksms/internal/dispatch/sender"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/postgres"
)

// These are the reasons of an Explanation.
const (
	BecauseScheduled  = "scheduled"
	BecauseRetryLater = "retry_later"
	BecauseQuiet      = "quiet_hours"       // the recipient has quiet hours
	BecauseLimited    = "recipient_limited" // caps of the recipient delay the task
	BecauseHeld       = "held"              // see Explanation.HeldBy
	BecauseExpiring   = "expiring"          // the task expires before it is due
	BecauseQueued     = "queued"
	BecauseNoSender   = "no_sender" // the task is queued, but no sender can claim it now
	BecauseProcessing = "processing"
	BecauseSettled    = "settled"
)

// MaxAhead is the largest number of tasks ahead that an explanation counts.
const MaxAhead = 10_000

// Explanation contains the reason why a task has its state. The task is read shortly before the senders, so a change in between affects only the senders.
type Explanation struct {
	Task    Row
	Reason  string
	IsDue   bool
	Routed  bool
	Ahead   *int64 // number of tasks before this task; MaxAhead+1: more than MaxAhead; nil: the task is not queued
	Senders []sender.Candidate
	HeldBy  []explain.Switch // switches that hold a PENDING task

	RequeuedAt *time.Time // time of the last requeue; nil: the task was never requeued
	RequeuedBy string

	StartUntil *time.Time // deadline for the sender of a PROCESSING task to start it; nil: the sender has started the task, or need not start it

	OnUnclear string // retry or fail; empty: the setting of the sender that claims the task
}

// Explain returns the reason why a task has its state. Fault: task.not_found.
func (s *Service) Explain(ctx context.Context, viewer Viewer, id string) (Explanation, error) {
	row, err := s.Get(ctx, viewer, id)
	if err != nil {
		return Explanation{}, err
	}
	e := Explanation{Task: row, Reason: BecauseSettled, IsDue: true}
	switch last, err := s.inParts.TaskLastRequeue(ctx, id); {
	case err == nil:
		e.RequeuedAt, e.RequeuedBy = &last.CreatedAt, last.By
	case !postgres.IsNoRows(err):
		return e, fmt.Errorf("read requeues of task: %w", err)
	}
	switch {
	case row.OnUnclear != nil:
		e.OnUnclear = *row.OnUnclear
	case row.ProcessingAppID != nil:
		if e.OnUnclear, err = s.q.SenderOnUnclear(ctx, *row.ProcessingAppID); err != nil && !postgres.IsNoRows(err) {
			return e, fmt.Errorf("read on_unclear of the sender: %w", err)
		}
	}
	switch row.Status {
	case queue.Processing:
		e.Reason = BecauseProcessing
		switch until, err := s.q.TaskStartUntil(ctx, id); {
		case err == nil:
			e.StartUntil = &until
		case !postgres.IsNoRows(err):
			return e, fmt.Errorf("read the start of the lease: %w", err)
		}
		return e, nil
	case queue.Success, queue.Failed, queue.Cancelled:
		return e, nil
	}
	due, err := s.explain.Due(ctx, id)
	if err != nil {
		return e, err
	}
	e.IsDue = due.IsDue
	if e.HeldBy, err = s.explain.Switches(ctx, due.PoolID, row.CompanyID, row.CountryNo, row.SubmittedBy, row.BatchID); err != nil {
		return e, err
	}
	if e.Senders, e.Routed, err = s.explain.Candidates(ctx, explain.NeedOf(row, due.PoolID), due.FailedAppID, e.HeldBy); err != nil {
		return e, err
	}
	message := quiet.Message{Channel: due.Channel, CompanyID: row.CompanyID, MessageType: row.MessageType, Priority: row.Priority, Recipient: row.Recipient}
	period, err := s.quiet.At(ctx, message, due.AllowedFrom)
	if err != nil {
		return e, fmt.Errorf("find quiet hours: %w", err)
	}
	able := explain.CanTake(e.Senders) > 0
	switch {
	case due.IsExpiring:
		e.Reason = BecauseExpiring
	case row.DueAt == nil || len(e.HeldBy) > 0:
		e.Reason = BecauseHeld
	case due.HasQuietHours && period.Delays(*row.DueAt):
		e.Reason = BecauseQuiet
		if row.DueAt.Before(period.Until) { // the sweep moves the task soon
			planned, _, err := s.quiet.Plan(ctx, message, row.TaskID, row.ExpiresAt, due.AllowedFrom)
			if err != nil {
				return e, fmt.Errorf("find the end of quiet hours: %w", err)
			}
			e.Task.DueAt, e.IsDue = &planned, false
		}
	case !e.IsDue && due.FailedAppID != "": // also without a counted attempt, for example if a lease was never started
		e.Reason = BecauseRetryLater
	case !e.IsDue:
		if e.Reason, err = s.whyLater(ctx, row, due.Channel); err != nil {
			return e, err
		}
	case !able:
		e.Reason = BecauseNoSender
	default:
		e.Reason = BecauseQueued
	}
	if row.Lane != nil && row.Rank != nil {
		var ahead int64
		err := claim.Dispatch(ctx, s.db, func(q *dispatchq.Queries) (err error) {
			ahead, err = q.TaskAhead(ctx, dispatchq.TaskAheadParams{TaskID: row.TaskID, MaxTasks: MaxAhead + 1})
			return err
		})
		if err != nil {
			return e, fmt.Errorf("count tasks ahead: %w", err)
		}
		e.Ahead = &ahead
	}
	return e, nil
}

// whyLater tells why a task is due later, if no sender has given it back: caps of its recipient delay it, or it is scheduled.
func (s *Service) whyLater(ctx context.Context, row Row, channel string) (string, error) {
	isLimited, err := s.admit.IsDelayedByCaps(ctx, admit.Message{
		TaskID: row.TaskID, Channel: channel, CompanyID: row.CompanyID, MessageType: row.MessageType, Priority: row.Priority, Recipient: row.Recipient,
		DueAt: optional.Or(row.ExpectSendTime, row.CreatedAt), ExpiresAt: row.ExpiresAt,
	})
	switch {
	case err != nil:
		return "", fmt.Errorf("find caps: %w", err)
	case isLimited:
		return BecauseLimited, nil
	default:
		return BecauseScheduled, nil
	}
}
