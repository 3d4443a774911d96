package queue

import (
	"context"
	"slices"
	"time"

	"lksms/gen/dispatchq"
	"lksms/internal/dispatch/queue/claim"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/postgres"
)

// trialSpare is for how long after the longest lease of a trial its task would wait. It is longer than
// claim.MinLease, without which no message may expire. If the server stops before the lease, the task expires: its sender is the only one that may have it.
const trialSpare = 2 * time.Second

// SubmitTrial submits a message that one sender sends as a test. No claim takes the task: ClaimTrial leases it, within lease. Faults: those of Submit,
// and request.invalid for a number to which a switch lets nobody send.
func (s *Service) SubmitTrial(ctx context.Context, sub Submission, lease time.Duration, origin Origin) (Submitted, error) {
	sub.Test, sub.IsTrial = true, true
	at := time.Now().Add(lease + time.Minute) // other clocks may differ by some seconds
	sub.ExpectSendTime, sub.ExpiresAt = &at, new(at.Add(trialSpare))
	wouldBe, err := s.Preview(ctx, sub, origin)
	if err != nil {
		return Submitted{}, err
	}
	heldBy := slices.DeleteFunc(wouldBe.HeldBy, func(w Switch) bool { return w.Kind == noSharedSenders }) // its sender is chosen
	if len(heldBy) > 0 {
		return Submitted{}, fault.InvalidField("phone_number", fault.SwitchedOff, heldBy)
	}
	return s.Submit(ctx, sub, origin)
}

// ClaimTrial leases the task of a trial to a sender, also one that is off, whose circuit breaker is open, or that has used up its limits. The segments count as those of every
// attempt. Fault: request.invalid if the balance of the sender would become negative.
func (s *Service) ClaimTrial(ctx context.Context, senderNo, taskID string, lease time.Duration) (one claim.Lease, err error) {
	err = s.db.Dispatch(ctx, func(q *dispatchq.Queries) (err error) {
		one, err = claim.Trial(ctx, q, senderNo, taskID, lease)
		return err
	})
	return one, postgres.Wrap("lease trial", err, fault.New(fault.NotFound, fault.SenderNotFound))
}
