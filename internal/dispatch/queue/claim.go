package queue

import (
	"context"
	"fmt"
	"time"

	"lksms/internal/dispatch/queue/claim"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/postgres"
)

// Claim leases up to c.Limit tasks to the sender c.SenderNo. The interval, limits, balance and shares of the sender can reduce the number (S0.3,
// S0.10, S4.2). The leases and the changes of the sender are one transaction. An app that polls for the first time is registered, unless the settings
// forbid this. Faults: sender.not_found, limit.reached, and the faults of c.OnLease.
func (s *Service) Claim(ctx context.Context, c claim.Request) ([]claim.Lease, error) {
	if err := s.senders.RecordPoll(ctx, c.SenderNo); err != nil {
		return nil, err
	}
	values, err := s.settings.Get(ctx)
	if err != nil {
		return nil, err
	}
	rules := values.Queue.Rules()
	started := time.Now()
	var leases []claim.Lease
	err = s.db.Dispatch(ctx, func(tx postgres.Runner) (err error) {
		leases, err = claim.On(ctx, tx, c, claim.Rules{
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
		s.line.RecordGiven(c.SenderNo, len(leases))
		s.senders.RecordClaim(c.SenderNo)
	}
	return s.open(ctx, c.SenderNo, leases)
}

// ClaimTrial leases the task of a sender test to its sender. The sender can be off, its circuit breaker can be open, and its limits can be used up. The attempt
// costs segments like any other attempt. The caller has submitted the task in the transaction of ctx. Fault: request.invalid if the balance of the sender would
// become negative.
func (s *Service) ClaimTrial(ctx context.Context, senderNo, taskID string, lease time.Duration) (claim.Lease, error) {
	one, err := claim.Trial(ctx, claim.TaskStatements(s.db), senderNo, taskID, lease)
	return one, postgres.Wrap("lease trial", err, fault.New(fault.NotFound, fault.SenderNotFound))
}
