package task

import (
	"container/list"
	"context"
	"fmt"
	"sync"
	"time"

	"lksms/gen/dbq"
)

// pollEvery is how often the database is asked for work while senders wait: for what other servers were given, and for
// retries that come due. What this server was given wakes a sender at once.
const pollEvery = 200 * time.Millisecond

// wokenMost is how many senders a batch of new tasks wakes; each that takes all it may wakes the next.
const wokenMost = 8

// ClaimOrWait is Claim that waits for up to wait when there is nothing to claim. A caller that goes away while it waits
// is given nothing.
func (s *Service) ClaimOrWait(ctx context.Context, appID string, limit int, wait time.Duration) ([]dbq.TaskClaimRow, error) {
	if wait <= 0 {
		return s.Claim(ctx, appID, limit)
	}
	enough := time.NewTimer(wait)
	defer enough.Stop()
	for {
		// In line before the look: what comes after the look finds somebody to wake.
		place := s.line.join()
		rows, err := s.Claim(ctx, appID, limit)
		if err != nil || len(rows) > 0 {
			s.line.leave(place)
			if len(rows) == limit {
				s.line.wake(1) // there may be more
			}
			return rows, err
		}
		// Its interval may hold it back: it need not be woken before that is over, and others should be.
		if rest, err := s.senders.Rest(ctx, appID); err == nil && rest > 0 {
			s.line.leave(place)
			if !s.sleep(ctx, rest, enough.C) {
				return nil, ctx.Err()
			}
			continue
		}
		select {
		case <-place.woken:
			continue
		case <-enough.C:
		case <-s.line.closed:
		case <-ctx.Done():
			err = fmt.Errorf("wait for tasks: %w", ctx.Err())
		}
		s.line.leave(place)
		return nil, err
	}
}

// sleep waits for d, and reports whether that much time was left.
func (s *Service) sleep(ctx context.Context, d time.Duration, enough <-chan time.Time) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-enough:
	case <-s.line.closed:
	case <-ctx.Done():
	}
	return false
}

// StopWaiting answers every sender that waits, now and from now on, with nothing: the server is going away.
func (s *Service) StopWaiting() { s.line.close() }

// poll asks for work while anybody waits.
func (s *Service) poll(ctx context.Context) (waits bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err = s.db.Dispatch(ctx, func(q *dbq.Queries) (err error) {
		waits, err = q.TaskWaits(ctx)
		return err
	})
	return waits, err
}

// line is the senders that wait, the first to come in front.
type line struct {
	poll func(context.Context) (bool, error)

	mu     sync.Mutex
	places list.List // of *place
	asking bool      // whether the database is being polled
	done   sync.WaitGroup

	closing sync.Once
	closed  chan struct{}
}

type place struct {
	element *list.Element
	woken   chan struct{} // holds one wake-up
}

func (l *line) join() *place {
	p := &place{woken: make(chan struct{}, 1)}
	l.mu.Lock()
	defer l.mu.Unlock()
	p.element = l.places.PushBack(p)
	if !l.asking {
		l.asking = true
		l.done.Go(l.ask)
	}
	return p
}

// leave gives up a place. A wake-up that came to it meanwhile goes to the next: it was for whoever is there.
func (l *line) leave(p *place) {
	l.mu.Lock()
	l.places.Remove(p.element)
	l.mu.Unlock()
	select {
	case <-p.woken:
		l.wake(1)
	default:
	}
}

// wake wakes the first n that wait.
func (l *line) wake(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for range n {
		front := l.places.Front()
		if front == nil {
			return
		}
		l.places.Remove(front).(*place).woken <- struct{}{}
	}
}

func (l *line) close() { l.closing.Do(func() { close(l.closed) }) }

// ask polls the database until nobody waits.
func (l *line) ask() {
	for {
		select {
		case <-l.closed:
			return
		case <-time.After(pollEvery):
		}
		l.mu.Lock()
		if l.places.Len() == 0 {
			l.asking = false
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		// A database that cannot be asked will be asked again; the claim says what is wrong with it.
		if waits, err := l.poll(context.Background()); err == nil && waits {
			l.wake(1)
		}
	}
}
