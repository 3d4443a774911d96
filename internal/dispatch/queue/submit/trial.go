package submit

import (
	"context"
	"slices"
	"time"

	"lksms/internal/dispatch/queue/explain"
	"lksms/internal/platform/fault"
)

// trialSpare is the time between the end of the longest lease of a trial and the expiry of its task. trialSpare is longer than claim.MinLease, because a task
// that expires sooner cannot be claimed. If the server stops before it leases the task, the task expires, because no other sender is allowed to send it.
const trialSpare = 2 * time.Second

// SubmitTrial submits a test message for one sender. Ordinary claims skip the task; ClaimTrial must lease it within the time lease. Faults: those of Submit,
// and request.invalid if a switch holds messages to the number.
func (s *Service) SubmitTrial(ctx context.Context, sub Submission, lease time.Duration, origin Origin) (Submitted, error) {
	sub.Test, sub.IsTrial = true, true
	at := time.Now().Add(lease + time.Minute) // the clocks of other servers can differ by some seconds
	sub.ExpectSendTime, sub.ExpiresAt = &at, new(at.Add(trialSpare))
	wouldBe, err := s.Preview(ctx, sub, origin)
	if err != nil {
		return Submitted{}, err
	}
	heldBy := slices.DeleteFunc(wouldBe.HeldBy, func(w explain.Switch) bool { return w.Kind == explain.NoSharedSenders }) // does not apply because the trial chooses the sender
	if len(heldBy) > 0 {
		return Submitted{}, fault.InvalidField("phone_number", fault.SwitchedOff, heldBy)
	}
	return s.Submit(ctx, sub, origin)
}
