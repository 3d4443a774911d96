package submit

import (
	"context"
	"slices"
	"time"

	"lksms/internal/dispatch/queue/claim"
	"lksms/internal/dispatch/queue/explain"
	"lksms/internal/platform/fault"
)

// The task of a trial is due trialSpare after its submission, and expires another trialSpare later. trialSpare is longer than claim.MinLease, because a submission
// that expires sooner is refused.
const trialSpare = 2 * claim.MinLease

// SubmitTrial submits a test message for one sender, in the transaction of ctx. In the same transaction, ClaimTrial must lease the task, so that no other sender
// can get it. The message expires soon, and ClaimTrial prolongs only the task in the queue. Nobody can requeue the message, because other senders would then send
// it. Faults: those of Submit, and request.invalid if a switch holds messages to the number.
func (s *Service) SubmitTrial(ctx context.Context, sub Submission, origin Origin) (Submitted, error) {
	sub.Test, sub.IsTrial = true, true
	at := time.Now().Add(trialSpare) // a scheduled task uses no share of its company
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
