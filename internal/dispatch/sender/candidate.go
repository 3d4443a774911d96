package sender

import (
	"context"
	"fmt"
	"time"

	"lksms/gen/senderq"
	"lksms/internal/platform/fault"
)

// These are the reasons why a sender cannot claim the tasks of a pool. The first that applies is named: the SQL function sender_obstacle decides about those
// between WhyNotServing and WhyOutranked.
const (
	WhyNotServing   = fault.WhyNotServing // the tasks name this sender, which does not serve their company any more
	WhyOff          = "off"
	WhySimsOff      = "sims_off" // each SIM of the sender is off
	WhyNoFunds      = "no_funds"
	WhySilent       = "silent"
	WhyNotBound     = "not_bound" // no link of the sender to its carrier is open
	WhyNoQuota      = "no_quota"
	WhyOutsideHours = "outside_hours"
	WhyPaused       = "paused"
	WhyOutranked    = "outranked" // another sender with a larger sort is available
	WhyAhead        = "ahead"     // the sender has used its share, but another sender of the pool has not
	WhyFailedBefore = "failed_before"
)

// Candidate is a sender that possibly serves a pool. An empty Why means that the sender can claim a task now.
type Candidate struct {
	SenderNo string
	Why      string
	Until    *time.Time // end of the pause of a paused sender
	Weight   *int64     // weight of the sender's route to the pool; nil: no route
	Served   float64    // tasks served by its route, divided by the weight
	Shares   bool       // the sender takes part in the distribution of tasks by weight
	Segments int        // segments that an attempt costs
	Sort     float64    // sort in the pool; a sender with a larger sort comes first
	GivesWay bool       // the circuit breaker is not closed: tasks that failed with this sender are left to other senders
}

// CanSend reports whether the sender can send a task that no other sender of the pool is allowed to send.
func (c Candidate) CanSend() bool { return c.Why == "" || c.Why == WhyOutranked || c.Why == WhyAhead }

// Need contains the properties of a task that decide which senders can send it.
type Need struct {
	PoolID    int64
	Recipient string
	Content   string
	Sign      *string
	Segments  int16 // number of segments with the task's own signature
}

// Candidates returns the senders of a task's pool, best first, and whether routes name these senders.
func (s *Service) Candidates(ctx context.Context, n Need) ([]Candidate, bool, error) {
	values, err := s.settings.Get(ctx)
	if err != nil {
		return nil, false, err
	}
	rows, err := s.q.PoolSenders(ctx, senderq.PoolSendersParams{
		PoolID: n.PoolID, Recipient: n.Recipient, Content: n.Content, Sign: n.Sign, Segments: n.Segments,
		SilentAfter: values.Queue.SilentAfter(), RecordedApart: SeenApart,
	})
	if err != nil {
		return nil, false, fmt.Errorf("read senders of pool: %w", err)
	}
	isShared, err := s.directory.IsShared(ctx, n.PoolID)
	if err != nil {
		return nil, false, err
	}
	candidates := make([]Candidate, len(rows))
	for i, row := range rows {
		c := &candidates[i]
		c.SenderNo, c.Weight = row.SenderNo, row.Weight
		c.Served, c.Shares, c.Segments, c.Sort, c.GivesWay = row.Served, row.Shares, int(row.Segments), row.Sort, row.GivesWay
		if c.Why = row.Why; c.Why == WhyPaused {
			c.Until = row.NextAvailableAt
		}
	}
	return candidates, !isShared, nil
}
