package submit

import (
	"context"
	"slices"
	"time"

	"lksms/internal/dispatch/queue/explain"
	"lksms/internal/platform/fault"
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
	heldBy := slices.DeleteFunc(wouldBe.HeldBy, func(w explain.Switch) bool { return w.Kind == explain.NoSharedSenders }) // its sender is chosen
	if len(heldBy) > 0 {
		return Submitted{}, fault.InvalidField("phone_number", fault.SwitchedOff, heldBy)
	}
	return s.Submit(ctx, sub, origin)
}
