package sender

import (
	"context"
	"fmt"
	"time"

	"lksms/gen/dbq"
)

// Why a sender cannot take what waits.
const (
	WhyOff          = "off"
	WhyResting      = "resting"
	WhyNoQuota      = "no_quota"
	WhyNoFunds      = "no_funds"
	WhySilent       = "silent"
	WhyOutranked    = "outranked" // a sender of a larger sort is there
	WhyAhead        = "ahead"     // it has had its share, and a rival has not
	WhyFailedBefore = "failed_before"
)

// Candidate is a sender that may take what waits in a pool. Why is empty if it can now.
type Candidate struct {
	SenderNo string
	Why      string
	Until    *time.Time // when a sender that rests is ready
	Weight   *int64     // of its route
	Served   float64    // of its route: tasks over weight
	Shares   bool       // its rivals count on it
	Segments int        // that an attempt costs it
	Sort     float64    // in the pool
	GivesWay bool       // it was in trouble, and leaves what brought it there to all others
}

// Need is what a task needs of a sender.
type Need struct {
	PoolID   int64
	Content  string
	Sign     *string
	Segments int16 // with its own signature
}

// Candidates gives the senders that may take a task, the one that should before others that can, and whether routes name them.
func (s *Service) Candidates(ctx context.Context, n Need) ([]Candidate, bool, error) {
	values, err := s.settings.Get(ctx)
	if err != nil {
		return nil, false, err
	}
	rows, err := s.q.PoolSenders(ctx, dbq.PoolSendersParams{
		PoolID: n.PoolID, Content: n.Content, Sign: n.Sign, Segments: n.Segments,
		SilentAfter: values.Queue.SilentAfter(), NotedApart: seenApart,
	})
	if err != nil {
		return nil, false, fmt.Errorf("look at senders of pool: %w", err)
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
		switch {
		case !row.IsOn:
			c.Why = WhyOff
		case !row.HasFunds:
			c.Why = WhyNoFunds
		case !row.HasQuota:
			c.Why = WhyNoQuota
		case !row.IsRested:
			c.Why, c.Until = WhyResting, row.NextAvailableAt
		case !row.IsThere && !s.polledLately(row.SenderNo):
			c.Why = WhySilent
		case row.IsOutranked:
			c.Why = WhyOutranked
		}
	}
	return candidates, !isShared, nil
}
