package submit

import (
	"context"
	"fmt"
)

// RefusedError identifies the refused submission of a group. No submission of the group was stored.
type RefusedError struct {
	Index int
	Err   error
}

// Error implements error.
func (e *RefusedError) Error() string { return fmt.Sprintf("submission %d: %v", e.Index, e.Err) }

// Unwrap returns the fault of the submission.
func (e *RefusedError) Unwrap() error { return e.Err }

// SubmitAllOrNone submits either all messages or no message. If also is non-nil, it runs after the messages in the same transaction. If a message is refused,
// the error is a RefusedError with the fault.
func (s *Service) SubmitAllOrNone(
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
