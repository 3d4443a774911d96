package access

import (
	"context"

	"lksms/internal/platform/outbound"
)

// TryCode checks a code that replaces credentials. use reports whether the code is right, and consumes a right code. Wrong codes delay all further codes from
// the same network, including right codes, because a code is short enough to be guessed. TryCode checks one code per network at a time. Faults: auth.required,
// auth.too_many_failures, unavailable, and the faults of use.
func (s *Service) TryCode(ctx context.Context, address string, use func(context.Context) (isRight bool, err error)) error {
	v, network := s.verifier, outbound.NetworkOf(address)
	if wait := v.failures.waitWithCode(network); wait > 0 {
		return tooMany(wait)
	}
	leave, err := v.enterLookup(ctx, "code", network)
	if err != nil {
		return err
	}
	defer leave()
	if wait := v.failures.waitWithCode(network); wait > 0 { // wrong codes arrived meanwhile
		return tooMany(wait)
	}
	isRight, err := use(ctx)
	if err == nil && !isRight {
		v.failures.addCode(network)
		err = ErrRequired
	}
	return err
}
