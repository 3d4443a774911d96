package admit

import (
	"cmp"
	"context"
	"time"

	"lksms/gen/admitq"
	"lksms/internal/dispatch/caps"
	"lksms/internal/dispatch/quiet"
	"lksms/internal/platform/fault"
)

// errLimited returns the fault of a message that a cap refuses: recipient.limited or recipient.suspected.
func errLimited(v caps.Verdict) error {
	if v.Subject.IsSuspicion {
		return &fault.Error{Kind: fault.Conflict, Reason: fault.RecipientSuspected, Fields: []fault.Field{{Name: v.Subject.Field, Rule: fault.IsSuspected}}}
	}
	return &fault.Error{
		Kind: fault.TooMany, Reason: fault.RecipientLimited, Fields: []fault.Field{{Name: cmp.Or(v.Subject.Field, "phone_number"), Rule: fault.IsLimited}}, RetryAfter: v.Wait,
	}
}

// IsCapped reports whether caps concern a message.
func (s *Service) IsCapped(ctx context.Context, m Message) (bool, error) {
	return s.caps.IsCapped(ctx, s.counted(ctx, m)) //nolint:wrapcheck // the error is already wrapped
}

// Slot is the decision of the caps about one message.
type Slot struct {
	DueAt time.Time    // the later due time, if a cap delays the message; zero: no cap delays it
	Quiet quiet.Period // contains DueAt; not set if DueAt is zero
	Err   error        // the fault recipient.limited, or recipient.blocked if a block forbids the message, too; nil: the message is counted
}

// Reservation contains the decisions of the caps about messages.
type Reservation struct {
	Slots []Slot // in the order of the messages
	plan  *caps.Plan
}

// Reserve decides when caps allow messages, and counts them. It runs in the transaction that stores the messages, before any other lock of this transaction on tasks or
// ranks. The caller then calls Commit.
func (s *Service) Reserve(ctx context.Context, messages []Message) (*Reservation, error) {
	counted := make([]caps.Message, len(messages))
	for i, m := range messages {
		counted[i] = s.counted(ctx, m)
	}
	plan, err := s.caps.Reserve(ctx, counted)
	if err != nil {
		return nil, err //nolint:wrapcheck // the error is already wrapped
	}
	r := &Reservation{Slots: make([]Slot, len(messages)), plan: plan}
	var blocked admitq.RecipientsBlockedParams
	var indexes []int
	for i, v := range plan.Verdicts {
		if v.IsRefused {
			m := messages[i]
			r.Slots[i].Err = errLimited(v)
			indexes, blocked.Recipients = append(indexes, i), append(blocked.Recipients, m.Recipient)
			blocked.CompanyIds, blocked.MessageTypes = append(blocked.CompanyIds, m.CompanyID), append(blocked.MessageTypes, m.MessageType)
			continue
		}
		if v.DueAt.IsZero() {
			continue
		}
		r.Slots[i].DueAt = v.DueAt
		if r.Slots[i].Quiet, err = s.quiet.At(ctx, messages[i].quiet(), v.DueAt); err != nil {
			return nil, err //nolint:wrapcheck // the error is already wrapped
		}
	}
	areBlocked, err := s.blocked(ctx, blocked)
	for n, i := range indexes {
		if err == nil && areBlocked[n] {
			r.Slots[i].Err = ErrBlocked()
		}
	}
	return r, err
}

// Commit stores what was counted. isStored(i) reports whether message i was stored. If a counted message is not stored, it possibly caused the refusal of other
// messages. Commit returns the indexes of these other messages, so that the caller decides about them again.
func (r *Reservation) Commit(ctx context.Context, isStored func(i int) bool) (again []int, err error) {
	return r.plan.Commit(ctx, isStored) //nolint:wrapcheck // the error is already wrapped
}

// Next returns when the caps allow one more message like message i, after Commit; a zero time: they allow it now.
func (r *Reservation) Next(i int) (time.Time, error) {
	return r.plan.Next(i) //nolint:wrapcheck // the error is already wrapped
}

// Move plans waiting messages again after a change of their quiet hours, or their release. due contains the new due times, and quietFroms the new values of
// queue.quiet_from. If caps apply to a message, they can delay it further, and they count it at its new due time. The caller runs Move in the transaction that
// stores the results, before this transaction locks tasks.
func (s *Service) Move(ctx context.Context, messages []Message) (due []time.Time, quietFroms []*time.Time, err error) {
	counted := make([]caps.Message, len(messages))
	for i, m := range messages {
		m.Waits = true
		counted[i] = s.counted(ctx, m)
	}
	plan, err := s.caps.Reserve(ctx, counted)
	if err != nil {
		return nil, nil, err //nolint:wrapcheck // the error is already wrapped
	}
	for i, v := range plan.Verdicts {
		at := messages[i].DueAt
		if !v.DueAt.IsZero() { // also if the message expires before
			at = v.DueAt
		}
		at, from, err := s.quiet.Plan(ctx, messages[i].quiet(), messages[i].TaskID, messages[i].ExpiresAt, at)
		if err != nil {
			return nil, nil, err //nolint:wrapcheck // the error is already wrapped
		}
		due, quietFroms = append(due, at), append(quietFroms, from)
	}
	_, err = plan.Commit(ctx, func(int) bool { return true })
	return due, quietFroms, err //nolint:wrapcheck // the error is already wrapped
}

// AfterQuiet plans a message without caps: it returns when the message is sent, which is never within its quiet hours, and the value of queue.quiet_from for
// this time.
func (s *Service) AfterQuiet(ctx context.Context, m Message) (due time.Time, quietFrom *time.Time, err error) {
	return s.quiet.Plan(ctx, m.quiet(), m.TaskID, m.ExpiresAt, m.DueAt) //nolint:wrapcheck // the error is already wrapped
}

// Planned returns when a message would be due, if a cap would delay it now; a zero time: no cap would. Fault: recipient.limited. It counts nothing.
func (s *Service) Planned(ctx context.Context, m Message) (time.Time, error) {
	v, err := s.caps.Preview(ctx, s.counted(ctx, m))
	if err == nil && v.IsRefused {
		err = errLimited(v)
	}
	return v.DueAt, err
}

// IsDelayedByCaps reports whether caps delayed a stored message. This is the case if the message was counted for a later time than the time that follows from
// DueAt and quiet hours.
func (s *Service) IsDelayedByCaps(ctx context.Context, m Message) (bool, error) {
	counted, isCounted, err := s.caps.CountedDueAt(ctx, caps.Message{TaskID: m.TaskID, CompanyID: m.CompanyID, MessageType: m.MessageType, Recipient: m.Recipient})
	if err != nil || !isCounted {
		return false, err //nolint:wrapcheck // the error is already wrapped
	}
	due, _, err := s.quiet.Plan(ctx, m.quiet(), m.TaskID, m.ExpiresAt, m.DueAt)
	return counted.Sub(due) > tolerance, err //nolint:wrapcheck // the error is already wrapped
}

// tolerance is longer than the time between the beginning of a transaction that stores a message, and the time for which the message is counted.
const tolerance = 10 * time.Second

func (s *Service) counted(ctx context.Context, m Message) caps.Message {
	return caps.Message{
		TaskID: m.TaskID, Channel: m.Channel, CompanyID: m.CompanyID, MessageType: m.MessageType, Recipient: m.Recipient, DueAt: m.DueAt, ExpiresAt: m.ExpiresAt,
		Waits: m.Waits, IsExempt: m.Exemption != "", Again: m.Again, DueBefore: m.DueBefore, Subjects: m.Subjects, Allowed: func(at time.Time) (time.Time, error) {
			due, _, err := s.quiet.Plan(ctx, m.quiet(), m.TaskID, m.ExpiresAt, at)
			return due, err
		},
	}
}
