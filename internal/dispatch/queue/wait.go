package queue

import (
	"context"
	"fmt"
	"time"

	"lksms/gen/dispatchq"
	"lksms/internal/dispatch/queue/claim"
	"lksms/internal/dispatch/queue/line"
)

// maxWalked bounds the pools with work that one poll finds for senders that wait for many pools.
const maxWalked = 200

// ClaimOrWait is Claim that waits for up to wait if it finds nothing. A caller that goes away while it waits gets no tasks, and
// neither does a caller that may no longer claim, which gets the fault of c.StillMay. Of several senders that wait at this server
// for the same tasks, the first by sender.Usage is woken.
func (s *Service) ClaimOrWait(ctx context.Context, c claim.Request, wait time.Duration) ([]claim.Lease, error) {
	if wait <= 0 {
		return s.Claim(ctx, c)
	}
	enough := time.NewTimer(wait)
	defer enough.Stop()
	return s.ClaimUntil(ctx, c, enough.C)
}

// ClaimUntil is ClaimOrWait until enough fires.
func (s *Service) ClaimUntil(ctx context.Context, c claim.Request, enough <-chan time.Time) ([]claim.Lease, error) {
	var by *line.WakeUp
	for {
		waiter := s.line.Join(c.SenderNo) // before the claim: a task that comes after it must find a sender to wake
		rows, pause, err := s.tryClaim(ctx, waiter, c)
		if by != nil {
			s.line.Settle(c.SenderNo, *by, len(rows) > 0)
		}
		var again bool
		switch {
		case err != nil || len(rows) > 0:
			s.line.Leave(waiter)
			if len(rows) == c.Limit {
				s.line.Wake(rows[len(rows)-1].PoolID, 1) // there may be more
			}
			return rows, err
		case pause > 0: // the sender may not claim before the pause ends: tasks wake others
			by, again = nil, s.line.Sleep(ctx, waiter, pause, enough)
		default:
			by, again = s.line.Await(ctx, waiter, enough)
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

// AwaitTasks waits for up to wait until tasks may wait for a sender that claims later, and reports whether there may be some. It claims none. Of
// senders that wait for the same tasks, those that claim at once are woken too.
func (s *Service) AwaitTasks(ctx context.Context, senderNo string, wait time.Duration) (bool, error) {
	enough := time.NewTimer(wait)
	defer enough.Stop()
	for {
		waiter := s.line.Join(senderNo)
		pause, pools, err := s.senders.Waits(ctx, senderNo)
		if err != nil {
			s.line.Leave(waiter)
			return false, err
		}
		if pause > 0 {
			if !s.line.Sleep(ctx, waiter, pause, enough.C) {
				return false, nil
			}
			continue
		}
		s.line.Narrow(waiter, pools)
		by, again := s.line.Await(ctx, waiter, enough.C)
		if by != nil {
			s.line.PassOn(*by)
			return true, nil
		}
		if !again {
			return false, nil
		}
	}
}

// tryClaim claims, unless the last poll found no task for the sender and a claim would do nothing else. If it gets no task, it narrows the
// waiter to the pools for which it must be woken, or returns the pause: how long the interval of the sender still lasts.
func (s *Service) tryClaim(ctx context.Context, p *line.Waiter, c claim.Request) (rows []claim.Lease, pause time.Duration, err error) {
	if err := s.senders.Polled(ctx, c.SenderNo); err != nil {
		return nil, 0, err
	}
	pools, mayWait, err := s.senders.MayWait(ctx, c.SenderNo)
	if err == nil && (!mayWait || !s.line.IsQuiet(pools)) {
		if rows, err = s.Claim(ctx, c); err == nil && len(rows) == 0 {
			pause, pools, err = s.senders.Waits(ctx, c.SenderNo)
		}
	}
	if err == nil && len(rows) == 0 && pause == 0 && s.line.NeedsUsage(p) {
		err = s.readUsage(ctx, c.SenderNo)
	}
	s.line.Narrow(p, pools)
	return rows, pause, err
}

// readUsage reads the usage of senders for the waiters.
func (s *Service) readUsage(ctx context.Context, senderNos ...string) error {
	before := s.line.Given(senderNos)
	usages, err := s.senders.Usages(ctx, senderNos)
	if err == nil {
		s.line.Learn(usages, before)
	}
	return err
}

// StopWaiting ends every wait without tasks, now and from now on, because the server stops.
func (s *Service) StopWaiting() { s.line.Close() }

// Waiting is the number of claims that wait for tasks or for the end of their interval.
func (s *Service) Waiting() int { return s.line.Count() }

// RecordPolls stores which senders polled or wait at this server, and returns how many rows it changed.
func (s *Service) RecordPolls(ctx context.Context) (int, error) {
	waiting, sleeping := s.line.SenderNos()
	s.senders.Waiting(waiting, sleeping)
	return s.senders.SweepSeen(ctx)
}

// poll finds pools with tasks. Its cost depends on the pools for which senders wait, and is bounded: of many pools only those with
// tasks cost something, and at most maxWalked of them.
func (s *Service) poll(ctx context.Context, w line.Question) (found line.Finding, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	began := time.Now()
	defer func() { s.polls.Observe(time.Since(began).Seconds()) }()
	version, err := s.directory.Version(ctx)
	if err != nil {
		return found, err
	}
	found.IsChanged = s.senders.Notice(version)
	if len(w.Pools) == 0 && !w.Walk {
		return found, nil
	}
	err = claim.Dispatch(ctx, s.db, func(q *dispatchq.Queries) (err error) {
		if len(w.Pools) > 0 {
			if found.Pools, err = q.TaskWaits(ctx, w.Pools); err != nil {
				return err
			}
		}
		if !w.Walk {
			return nil
		}
		queued, err := q.TaskWaitsQueued(ctx, dispatchq.TaskWaitsQueuedParams{AfterID: w.After, Most: maxWalked})
		if len(queued) == maxWalked {
			found.Next = queued[maxWalked-1]
		}
		found.All = w.After == 0 && found.Next == 0
		found.Pools = append(found.Pools, queued...)
		return err
	})
	return found, err
}
