package queue

import (
	"context"
	"fmt"
	"time"

	"lksms/gen/dbq"
	"lksms/internal/queue/claim"
	"lksms/internal/queue/line"
)

// walkedMost bounds the pools with work that one poll finds for the senders that wait for more than a few.
const walkedMost = 200

// ClaimOrWait is Claim that waits for up to wait when there is nothing to claim. A caller that goes away while it waits
// is given nothing, nor is one that may not claim any more; its fault is that of c.StillMay. Of several senders that wait at
// this server for the same, the one that sender.Standing puts first is woken.
func (s *Service) ClaimOrWait(ctx context.Context, c claim.Request, wait time.Duration) ([]claim.Lease, error) {
	if wait <= 0 {
		return s.Claim(ctx, c)
	}
	enough := time.NewTimer(wait)
	defer enough.Stop()
	var by *line.WakeUp
	for {
		waiter := s.line.Join(c.AppID) // before the look: what comes after it finds somebody to wake
		rows, rest, err := s.look(ctx, waiter, c)
		if by != nil {
			s.line.Settle(c.AppID, *by, len(rows) > 0)
		}
		var again bool
		switch {
		case err != nil || len(rows) > 0:
			s.line.Leave(waiter)
			if len(rows) == c.Limit {
				s.line.Wake(rows[len(rows)-1].PoolID, 1) // there may be more
			}
			return rows, err
		case rest > 0: // it need not be woken before that is over, and others should be
			by, again = nil, s.line.Sleep(ctx, waiter, rest, enough.C)
		default:
			by, again = s.line.Await(ctx, waiter, enough.C)
		}
		if !again {
			if err := ctx.Err(); err != nil {
				return nil, fmt.Errorf("wait for tasks: %w", err)
			}
			return nil, nil
		}
		if c.StillMay == nil {
			continue
		}
		if err := c.StillMay(ctx); err != nil {
			if by != nil {
				s.line.PassOn(*by)
			}
			return nil, err
		}
	}
}

// look claims, unless it is known that there is nothing to claim, and says of a place from which pools it is to be woken, or
// for how long it need not be.
func (s *Service) look(ctx context.Context, p *line.Waiter, c claim.Request) (rows []claim.Lease, rest time.Duration, err error) {
	pools, unhindered := s.senders.Unhindered(c.AppID)
	if unhindered && s.line.IsQuiet(pools) {
		err = s.senders.Polled(ctx, c.AppID)
	} else if rows, err = s.Claim(ctx, c); err == nil && len(rows) == 0 {
		rest, pools, err = s.senders.Waits(ctx, c.AppID)
	}
	if err == nil && len(rows) == 0 && rest == 0 && s.line.IsUnranked(p) {
		err = s.rank(ctx, c.AppID)
	}
	s.line.Narrow(p, pools)
	return rows, rest, err
}

// rank reads how senders stand.
func (s *Service) rank(ctx context.Context, appIDs ...string) error {
	before := s.line.Given(appIDs)
	standings, err := s.senders.Standings(ctx, appIDs)
	if err == nil {
		s.line.Learn(standings, before)
	}
	return err
}

// StopWaiting answers every sender that waits, now and from now on, with nothing: the server is going away.
func (s *Service) StopWaiting() { s.line.Close() }

// Waiting is how many claims wait for work that comes, or for their interval to end.
func (s *Service) Waiting() int { return s.line.Count() }

// poll looks for work. Its cost depends on the pools that somebody waits for, and is bounded: of many pools only those cost
// something in which there is work, and no more than walkedMost of them.
func (s *Service) poll(ctx context.Context, w line.Question) (found line.Finding, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err = s.db.Dispatch(ctx, func(q *dbq.Queries) error {
		version, err := q.DirectoryVersion(ctx)
		if err != nil {
			return err
		}
		found.IsChanged = s.senders.Notice(version)
		if len(w.Pools) > 0 {
			if found.Pools, err = q.TaskWaits(ctx, w.Pools); err != nil {
				return err
			}
		}
		if !w.Walk {
			return nil
		}
		queued, err := q.TaskWaitsQueued(ctx, dbq.TaskWaitsQueuedParams{AfterID: w.After, Most: walkedMost})
		if len(queued) == walkedMost {
			found.Next = queued[walkedMost-1]
		}
		found.All = w.After == 0 && found.Next == 0
		found.Pools = append(found.Pools, queued...)
		return err
	})
	return found, err
}
