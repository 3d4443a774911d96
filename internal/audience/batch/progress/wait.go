package progress

import (
	"context"
	"errors"
	"time"

	"lksms/gen/batchq"
	"lksms/internal/platform/fault"
)

// These are the reasons of a Wait.
const (
	WaitsForTime   = "scheduled"
	WaitsForSender = "sender_gone"       // the only sender of the batch was deleted, or does not serve the company any more
	WaitsForAny    = "no_sender"         // the remaining rows have no available sender that polls, or their countries are switched off
	WaitsForQuiet  = "quiet_hours"       // all remaining rows wait for the end of quiet hours
	WaitsForLimit  = "recipient_limited" // all remaining rows wait, because their recipients have got the maximum number of messages
	WaitsInVain    = "expired"           // the batch expired before it was confirmed
)

// Wait is the reason why a running batch waits, or why a ready batch can no longer be sent.
type Wait struct {
	Reason   string
	SenderNo *string
	Until    *time.Time // nil: unknown
}

func (r *Reader) waitOf(ctx context.Context, st Progress) (*Wait, error) {
	if st.Status == Ready && st.ExpiresAt != nil {
		start, err := r.startOf(ctx, st.Batch)
		if err != nil || st.ExpiresAt.After(start) {
			return nil, err
		}
		return &Wait{Reason: WaitsInVain}, nil
	}
	if st.Status != Running || st.Counts.Waiting == 0 {
		return nil, nil //nolint:nilnil // the batch does not wait
	}
	isServed, err := r.HasServingSender(ctx, st.Batch)
	switch {
	case err != nil:
		return nil, err
	case !isServed:
		return &Wait{Reason: WaitsForSender, SenderNo: st.SenderNo}, nil
	case st.ExpectSendTime != nil && st.ExpectSendTime.After(time.Now()):
		open, err := r.openingOf(ctx, st, *st.ExpectSendTime)
		if err != nil || open.reason == "" || !open.first.After(*st.ExpectSendTime) {
			return &Wait{Reason: WaitsForTime, Until: st.ExpectSendTime}, err
		}
		return &Wait{Reason: open.reason, Until: &open.first}, nil
	}
	isClaimed, err := r.isClaimed(ctx, st)
	if err != nil {
		return nil, err
	}
	if !isClaimed {
		return &Wait{Reason: WaitsForAny, SenderNo: st.SenderNo}, nil
	}
	now := time.Now()
	open, err := r.openingOf(ctx, st, now)
	if err == nil && open.isHeld {
		return &Wait{Reason: WaitsForAny, SenderNo: st.SenderNo}, nil
	}
	if err != nil || open.reason == "" || open.first.Sub(now) < time.Second { // less than a second can be a difference of clocks
		return nil, err
	}
	return &Wait{Reason: open.reason, Until: &open.first}, nil
}

// startOf returns the time at which a batch would start if it were confirmed now. BatchConfirm computes this time in the same way.
func (r *Reader) startOf(ctx context.Context, b batchq.Batch) (time.Time, error) {
	now := time.Now()
	switch {
	case b.ExpectSendTime != nil && b.ExpectSendTime.After(now):
		return *b.ExpectSendTime, nil
	case b.ExpectSendTime != nil || !b.IsDeferred:
		return now, nil
	}
	values, err := r.settings.Get(ctx)
	return values.SMS.NextInterval(now), err
}

// HasServingSender reports whether the only sender of a batch serves the company. It returns true for a batch that names no sender.
func (r *Reader) HasServingSender(ctx context.Context, b batchq.Batch) (bool, error) {
	if b.SenderNo == nil {
		return true, nil
	}
	_, err := r.directory.ServingSender(ctx, b.Channel, b.CompanyID, b.MessageType, *b.SenderNo)
	var refused *fault.Error
	if errors.As(err, &refused) {
		return false, nil
	}
	return err == nil, err //nolint:wrapcheck // the error is already wrapped
}
