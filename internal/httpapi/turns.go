package httpapi

import (
	"context"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// A company's costly requests (turnFree are the others) take at most a quarter of the processors while another company is there: so
// many at once, and on a machine of fewer processors one, after which it rests. PostgreSQL works as long for such a request as the
// server does, and what is bounded is both.
const (
	turnPart    = 4
	turnWait    = 10 * time.Second // for the turn, before the request is refused
	turnRest    = time.Second      // at most, after one request
	companyGone = time.Second      // a company that asks for nothing for so long is not there
)

// turnFree are the operations of one row, which need no turn.
var turnFree = map[string]bool{
	"POST /api/v1/sms/send": true, "GET /api/v1/sms/tasks/{task_id}": true, "GET /health": true, "GET /ready": true,
}

// turns lets the costly requests of each company be done in turn.
type turns struct {
	atOnce int64
	rest   float64 // of what the request before took

	mu        sync.Mutex
	companies map[string]*companyTurn
	last      string    // the company that asked for something last
	lastAt    time.Time // when
	othersAt  time.Time // when one of the others did last
}

type companyTurn struct {
	slots    *semaphore.Weighted
	users    int       // requests that have a turn or wait for one
	restedAt time.Time // no turn before
}

func newTurns(processors int) *turns {
	return &turns{
		atOnce: int64(max(1, processors/turnPart)), rest: max(0, float64(turnPart)/float64(processors)-1), companies: map[string]*companyTurn{},
	}
}

// see notes that a company is there.
func (t *turns) see(company string, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if company != t.last {
		t.last, t.othersAt = company, t.lastAt
	}
	t.lastAt = now
}

// hasOthers says whether another company is there.
func (t *turns) hasOthers(company string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := t.lastAt
	if company == t.last {
		at = t.othersAt
	}
	return now.Sub(at) < companyGone
}

// take waits for a company's turn. leave ends it, and may be called twice.
func (t *turns) take(ctx context.Context, company string) (leave func(), err error) {
	waiting, cancel := context.WithTimeout(ctx, turnWait)
	defer cancel()
	own := t.enter(company)
	if own.slots.Acquire(waiting, 1) != nil {
		t.leave(own)
		return nil, goneOr(ctx, errTooMuch)
	}
	if t.hasOthers(company, time.Now()) {
		select {
		case <-time.After(time.Until(t.restedAt(own))):
		case <-ctx.Done():
			own.slots.Release(1)
			t.leave(own)
			return nil, goneOr(ctx, errTooMuch)
		}
	}
	began := time.Now()
	return sync.OnceFunc(func() {
		t.mu.Lock()
		now := time.Now()
		own.restedAt = now.Add(min(time.Duration(t.rest*float64(now.Sub(began))), turnRest))
		t.mu.Unlock()
		own.slots.Release(1)
		t.leave(own)
	}), nil
}

func (t *turns) restedAt(own *companyTurn) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return own.restedAt
}

func (t *turns) enter(company string) *companyTurn {
	t.mu.Lock()
	defer t.mu.Unlock()
	own := t.companies[company]
	if own == nil {
		own = &companyTurn{slots: semaphore.NewWeighted(t.atOnce)}
		t.companies[company] = own
	}
	own.users++
	return own
}

// leave forgets the companies for which nothing is done and whose rest is over.
func (t *turns) leave(own *companyTurn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	own.users--
	for name, one := range t.companies {
		if one.users == 0 && !time.Now().Before(one.restedAt) {
			delete(t.companies, name)
		}
	}
}

// turn waits for the turn of a request, if it needs one.
func (s *Server) turn(ctx context.Context, x *exchange) (leave func(), err error) {
	company, is := x.company()
	if !is {
		return func() {}, nil
	}
	s.turns.see(company, time.Now())
	if turnFree[x.operation] && len(x.body) <= smallBody {
		return func() {}, nil
	}
	return s.turns.take(ctx, company)
}

// processors is how many the server may use.
func processors() int { return runtime.GOMAXPROCS(0) }
