package submit

import (
	"context"
	"fmt"

	"lksms/internal/platform/setting"
)

// RefusedError says which of several submissions was refused, so that none was stored.
type RefusedError struct {
	Index int
	Err   error
}

// Error implements error.
func (e *RefusedError) Error() string { return fmt.Sprintf("submission %d: %v", e.Index, e.Err) }

// Unwrap returns the fault of the submission.
func (e *RefusedError) Unwrap() error { return e.Err }

// SubmitTogether submits several messages, all or none. also runs in the same transaction, after the messages; nil: nothing does. If a message is
// refused, the error is a RefusedError with its fault.
func (s *Service) SubmitTogether(
	ctx context.Context, subs []Submission, origin Origin, also func(context.Context, []Submitted) error,
) ([]Submitted, error) {
	made := make([]Submitted, len(subs))
	err := s.db.Tx(ctx, func(ctx context.Context) error {
		outcomes, err := s.SubmitAll(ctx, subs, origin)
		if err != nil {
			return err
		}
		for i, o := range outcomes {
			if o.Err != nil {
				return &RefusedError{i, o.Err}
			}
			made[i] = o.Submitted
		}
		if also == nil {
			return nil
		}
		return also(ctx, made)
	})
	if err != nil {
		return nil, err
	}
	return made, nil
}

// leastUrgent is the least urgent priority.
const leastUrgent = 9

// Scaled returns the priority for an urgency of another program: 0 is the priority of the message type, 1 the most urgent that the user may ask for,
// -1 the least urgent. It is nil, the priority of the message type, for 0.
func (s *Service) Scaled(ctx context.Context, messageType int16, urgency float64, origin Origin) (*int16, error) {
	if urgency == 0 {
		return nil, nil
	}
	values, err := s.settings.Get(ctx)
	if err != nil {
		return nil, err
	}
	return new(scaled(values.SMS, messageType, urgency, origin.TopPriority)), nil
}

func scaled(values setting.SMS, messageType int16, urgency float64, top int16) int16 {
	usual := priorityOf(values, messageType)
	to := int16(leastUrgent)
	if urgency > 0 {
		to = min(usual, top)
	}
	part := min(1, max(-1, urgency))
	if part < 0 {
		part = -part
	}
	return usual + int16(part*float64(to-usual)) // towards the usual one
}
