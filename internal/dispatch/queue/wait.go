package queue

import (
	"context"
	"fmt"
	"time"

	"lksms/gen/dispatchq"
	"lksms/internal/dispatch/queue/claim"
	"lksms/internal/dispatch/queue/line"
)

// maxWalked is the maximum number of pools with tasks that one poll returns for senders that wait for many pools.
const maxWalked = 200

// ClaimOrWait claims tasks like Claim. If no task is found, it waits for a task, for at most `wait`. A caller that disconnects during the wait receives no
// tasks. A caller that has lost the right to claim receives the fault of c.StillMay. If several senders wait at this server for the same tasks, these senders
// are woken in the order of sender.Usage.
func (s *Service) ClaimOrWait(ctx context.Context, c claim.Request, wait time.Duration) ([]claim.Lease, error) {
	if wait <= 0 {
		return s.Claim(ctx, c)
	}
	timeUp := time.NewTimer(wait)
	defer timeUp.Stop()
	return s.ClaimUntil(ctx, c, timeUp.C)
}

// ClaimUntil works like ClaimOrWait, but waits until timeUp fires.
func (s *Service) ClaimUntil(ctx context.Context, c claim.Request, timeUp <-chan time.Time) ([]claim.Lease, error) {
	var by *line.WakeUp
	for {
		waiter := s.line.Join(c.SenderNo) // Join before the claim: a task that arrives after the claim must find a waiter
		rows, pause, err := s.tryClaim(ctx, waiter, c, by != nil)
		if by != nil {
			s.line.Settle(c.SenderNo, *by, len(rows) > 0)
		}
		var again bool
		switch {
		case err != nil || len(rows) > 0:
			s.line.Leave(waiter)
			if len(rows) == c.Limit {
				s.line.Wake(rows[len(rows)-1].PoolID, 1) // the pool can contain more tasks
			}
			return rows, err
		case pause > 0: // this sender must wait until the pause ends, so new tasks wake other senders
			by, again = nil, s.line.Sleep(ctx, waiter, pause, timeUp)
		default:
			by, again = s.line.Await(ctx, waiter, timeUp)
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

// AwaitTasks waits, for at most `wait`, until the pools of a sender contain tasks. It reports whether they contain tasks, and claims no task. It also wakes a
// sender that can claim the same tasks at once.
func (s *Service) AwaitTasks(ctx context.Context, senderNo string, wait time.Duration) (bool, error) {
	timeUp := time.NewTimer(wait)
	defer timeUp.Stop()
	for {
		waiter := s.line.Join(senderNo)
		pause, pools, err := s.senders.Waits(ctx, senderNo, false)
		if err != nil {
			s.line.Leave(waiter)
			return false, err
		}
		if pause > 0 {
			if !s.line.Sleep(ctx, waiter, pause, timeUp.C) {
				return false, nil
			}
			continue
		}
		s.line.SetPools(waiter, pools)
		by, again := s.line.Await(ctx, waiter, timeUp.C)
		if by != nil {
			s.line.PassOn(*by)
			return true, nil
		}
		if !again {
			return false, nil
		}
	}
}

// tryClaim claims tasks. It skips the claim if the last poll found no task for the sender and a claim would have no other effect. If no task is
// claimed, it limits the waiter to the pools of the sender, or returns the pause until the next claim: the rest of the sender's interval, or a time after which a
// sender that was woken in vain claims again.
func (s *Service) tryClaim(ctx context.Context, p *line.Waiter, c claim.Request, wasWoken bool) (rows []claim.Lease, pause time.Duration, err error) {
	if err := s.senders.RecordPoll(ctx, c.SenderNo); err != nil {
		return nil, 0, err
	}
	pools, mayWait, err := s.senders.MayWait(ctx, c.SenderNo)
	if err == nil && (!mayWait || !s.line.IsQuiet(pools)) {
		if rows, err = s.Claim(ctx, c); err == nil && len(rows) == 0 {
			pause, pools, err = s.senders.Waits(ctx, c.SenderNo, wasWoken)
		}
	}
	if err == nil && len(rows) == 0 && pause == 0 && s.line.NeedsUsage(p) {
		err = s.readUsage(ctx, c.SenderNo)
	}
	s.line.SetPools(p, pools)
	return rows, pause, err
}

// readUsage reads the usage of senders and passes it to line, which stores the waiting senders.
func (s *Service) readUsage(ctx context.Context, senderNos ...string) error {
	before := s.line.Given(senderNos)
	usages, err := s.senders.Usages(ctx, senderNos)
	if err == nil {
		s.line.StoreUsages(usages, before)
	}
	return err
}

// StopWaiting ends every current and later wait without tasks, because the server stops.
func (s *Service) StopWaiting() { s.line.Close() }

// Waiting returns the number of claims that wait for tasks or for the end of the sender's interval.
func (s *Service) Waiting() int { return s.line.Count() }

// RecordPolls stores which senders polled or wait at this server. It returns the number of changed rows.
func (s *Service) RecordPolls(ctx context.Context) (int, error) {
	waiting, sleeping := s.line.SenderNos()
	s.senders.RecordWaiting(waiting, sleeping)
	return s.senders.SweepSeen(ctx)
}

// poll finds pools that contain tasks. It only asks about pools for which senders wait. If senders wait for many pools, poll reads only pools with
// tasks, at most maxWalked of them.
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
		queued, err := q.TaskWaitsQueued(ctx, dispatchq.TaskWaitsQueuedParams{AfterID: w.After, MaxPools: maxWalked})
		if len(queued) == maxWalked {
			found.Next = queued[maxWalked-1]
		}
		found.All = w.After == 0 && found.Next == 0
		found.Pools = append(found.Pools, queued...)
		return err
	})
	return found, err
}
