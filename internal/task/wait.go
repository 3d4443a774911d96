package task

import (
	"cmp"
	"container/list"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"lksms/gen/dbq"
)

// pollEvery is how often the database is asked for work while senders wait: for what other servers were given, and for
// what comes due. What this server was given wakes a sender at once.
const pollEvery = 200 * time.Millisecond

// wokenMost is how many senders a batch of new tasks wakes; each that takes all it may wakes the next.
const wokenMost = 8

// Standing says which of several senders that wait should have what comes (S3.9): that of the greatest sort, then the least
// used, then the quickest. An app has none; of several the first to come is the first to be served.
type Standing struct {
	Sort       float64
	DayShare   float64 // used of the day's limit
	ResponseMS int64   // on average
}

// isBefore tells whether s should be served before o.
func (s Standing) isBefore(o Standing) bool {
	return cmp.Or(cmp.Compare(o.Sort, s.Sort), cmp.Compare(s.DayShare, o.DayShare), cmp.Compare(s.ResponseMS, o.ResponseMS)) < 0
}

// ClaimOrWait is Claim that waits for up to wait when there is nothing to claim. A caller that goes away while it waits
// is given nothing.
func (s *Service) ClaimOrWait(ctx context.Context, appID string, limit int, wait time.Duration, standing Standing) ([]dbq.TaskClaimRow, error) {
	if wait <= 0 {
		return s.Claim(ctx, appID, limit)
	}
	enough := time.NewTimer(wait)
	defer enough.Stop()
	for {
		place := s.line.join(standing) // before the look: what comes after it finds somebody to wake
		rows, rest, err := s.look(ctx, place, appID, limit)
		var again bool
		switch {
		case err != nil || len(rows) > 0:
			s.line.leave(place)
			if len(rows) == limit {
				s.line.wake(rows[len(rows)-1].PoolID, 1) // there may be more
			}
			return rows, err
		case rest > 0: // it need not be woken before that is over, and others should be
			s.line.leave(place)
			again = s.sleep(ctx, rest, enough.C)
		default:
			again = s.line.await(ctx, place, enough.C)
		}
		if !again {
			if err := ctx.Err(); err != nil {
				return nil, fmt.Errorf("wait for tasks: %w", err)
			}
			return nil, nil
		}
	}
}

// look claims, unless it is known that there is nothing to claim, and says of a place from which pools it is to be woken, or
// for how long it need not be.
func (s *Service) look(ctx context.Context, p *place, appID string, limit int) (rows []dbq.TaskClaimRow, rest time.Duration, err error) {
	pools, unhindered := s.senders.Unhindered(appID)
	if unhindered && s.line.isQuiet(pools) {
		err = s.senders.Polled(ctx, appID)
	} else if rows, err = s.Claim(ctx, appID, limit); err == nil && len(rows) == 0 {
		rest, pools, err = s.senders.Waits(ctx, appID)
	}
	s.line.narrow(p, pools)
	return rows, rest, err
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

// poll asks for work while anybody waits, and gives the pools where there is some.
func (s *Service) poll(ctx context.Context) (pools []int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err = s.db.Dispatch(ctx, func(q *dbq.Queries) (err error) {
		pools, err = q.TaskWaits(ctx)
		return err
	})
	return pools, err
}

// line is the senders that wait, the first to come in front.
type line struct {
	poll func(context.Context) ([]int64, error)

	mu     sync.Mutex
	places list.List     // of *place
	ranked int           // of them with a standing
	asking bool          // whether the database is being polled
	polls  int           // how often it was
	loud   map[int64]int // pools where there may be work, and as of which poll
	heard  time.Time     // when the last poll that was answered began
	done   sync.WaitGroup

	closing sync.Once
	closed  chan struct{}
}

type place struct {
	element *list.Element
	anyPool bool // it is not known yet from which pools it may take
	pools   []int64
	woken   chan int64 // holds one wake-up, for a pool

	standing Standing
}

// serves tells whether whoever has the place may take from a pool.
func (p *place) serves(pool int64) bool { return p.anyPool || slices.Contains(p.pools, pool) }

func (l *line) join(standing Standing) *place {
	p := &place{anyPool: true, woken: make(chan int64, 1), standing: standing}
	l.mu.Lock()
	defer l.mu.Unlock()
	p.element = l.places.PushBack(p)
	if standing != (Standing{}) {
		l.ranked++
	}
	if !l.asking {
		l.asking = true
		l.done.Go(l.ask)
	}
	return p
}

// narrow says from which pools whoever has the place may take.
func (l *line) narrow(p *place, pools []int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.anyPool, p.pools = false, pools
}

// await waits until whoever has the place is woken, and reports whether that was before enough; if not, the place is given up.
func (l *line) await(ctx context.Context, p *place, enough <-chan time.Time) bool {
	select {
	case pool := <-p.woken:
		if !p.serves(pool) { // it came before it was known who may take from it
			l.wake(pool, 1)
		}
		return true
	case <-enough:
	case <-l.closed:
	case <-ctx.Done():
	}
	l.leave(p)
	return false
}

// leave gives up a place. A wake-up that came to it meanwhile goes to the next: it was for whoever is there.
func (l *line) leave(p *place) {
	l.mu.Lock()
	l.remove(p)
	l.mu.Unlock()
	select {
	case pool := <-p.woken:
		l.wake(pool, 1)
	default:
	}
}

// remove takes a place out of the line, if it is there.
func (l *line) remove(p *place) {
	if p.element == nil {
		return
	}
	l.places.Remove(p.element)
	p.element = nil
	if p.standing != (Standing{}) {
		l.ranked--
	}
}

// wake wakes n that wait and may take from a pool, those that should have it first.
func (l *line) wake(pool int64, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.loud[pool] = l.polls
	for ; n > 0; n-- {
		p := l.first(pool)
		if p == nil {
			return
		}
		l.remove(p)
		p.woken <- pool
	}
}

// first is who should have what comes into a pool; nil if nobody waits for it.
func (l *line) first(pool int64) (best *place) {
	for e := l.places.Front(); e != nil; e = e.Next() {
		p := e.Value.(*place)
		if !p.serves(pool) {
			continue
		}
		if best == nil || p.standing.isBefore(best.standing) {
			best = p
		}
		if l.ranked == 0 { // the first is as good as any
			break
		}
	}
	return best
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
		l.hear()
	}
}

// hear asks the database once, and wakes somebody for each pool where there is work. A database that cannot be asked will be
// asked again; the claim says what is wrong with it.
func (l *line) hear() {
	l.mu.Lock()
	l.polls++
	l.mu.Unlock()
	began := time.Now()
	pools, err := l.poll(context.Background())
	if err != nil {
		return
	}
	l.mu.Lock()
	l.heard = began
	maps.DeleteFunc(l.loud, func(_ int64, poll int) bool { return poll < l.polls })
	l.mu.Unlock()
	for _, pool := range pools {
		l.wake(pool, 1)
	}
}

// isQuiet tells whether the last poll, not long ago, found nothing in pools, and nothing was announced since. What comes
// now wakes who is in line.
func (l *line) isQuiet(pools []int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.heard) < 2*pollEvery && !slices.ContainsFunc(pools, func(pool int64) bool {
		_, loud := l.loud[pool]
		return loud
	})
}
