package queue

import (
	"context"
	"fmt"
	"time"

	"lksms/gen/dispatchq"
	"lksms/internal/dispatch/queue/claim"
)

// Claim leases up to limit tasks to the sender senderNo, as many as its interval, limits, balance and shares allow (S0.3, S0.10,
// S4.2). Leases and what they take from the sender are one transaction. An app that polls for the first time is
// registered, unless settings forbid it. Faults: sender.not_found, limit.reached, those of c.Note.
func (s *Service) Claim(ctx context.Context, c claim.Request) ([]claim.Lease, error) {
	if err := s.senders.Polled(ctx, c.SenderNo); err != nil {
		return nil, err
	}
	values, err := s.settings.Get(ctx)
	if err != nil {
		return nil, err
	}
	rules := values.Queue.Rules()
	started := time.Now()
	var leases []claim.Lease
	err = s.db.Dispatch(ctx, func(q *dispatchq.Queries) (err error) {
		leases, err = claim.On(ctx, q, c, claim.Rules{
			Lease: rules.ProcessingTimeout, RetryMaxWait: rules.RetryWait(), SilentAfter: values.Queue.SilentAfter(),
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("claim tasks: %w", err)
	}
	s.traceClaim(ctx, c.SenderNo, started, leases)
	s.claimed.Add(float64(len(leases)))
	if len(leases) > 0 {
		s.line.Took(c.SenderNo, len(leases))
		s.senders.Took(c.SenderNo)
	}
	return leases, nil
}
