package httpapi

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
)

// While another company is active, the costly requests of one company use at most an eighth of the processors: processors/turnPart
// requests run at once. With fewer than eight processors one request runs at a time, and the next one starts after a pause.
// The costly requests of all companies use at most half of the processors, so that two do not take both of a small machine. A request
// occupies the server and PostgreSQL in turn, so the bound holds for both together. A company that is active alone has no bound.
const (
	turnPart      = 8
	turnPauseMost = 2 * time.Second       // a request may have been slow for another reason
	turnWait      = 10 * time.Second      // a request that gets no turn within this time is rejected
	turnLook      = 20 * time.Millisecond // how often a waiting request checks again
	companyGone   = time.Second           // a company without requests for this long is not active
)

// costlyOperations lists the operations that read or write many rows: those with a cursor, the batches, and the ones named here. Any
// other request is costly if its body is large, or if it is a dry run, which compares all senders.
func costlyOperations(spec *openapi3.T, batches iter.Seq[string]) map[string]bool {
	costly := map[string]bool{
		"GET /api/v1/sms/task/{task_id}/explain": true, "PUT /api/v1/admin/contacts": true,
		"POST /api/v1/notifications": true, "DELETE /api/v1/notifications": true, "POST /api/v1/notifications/status": true,
	}
	for pattern := range batches {
		costly[pattern] = true
	}
	for pattern, names := range parametersOf(spec) {
		if slices.Contains(names, "cursor") {
			costly[pattern] = true
		}
	}
	return costly
}

// turns limits the costly requests of each company.
type turns struct {
	most   int     // requests at once
	atOnce int     // of them, those of one company
	pause  float64 // after a request, as a multiple of its duration

	mu        sync.Mutex
	running   int // requests of all companies
	companies map[string]*companyTurn
	last      string    // the company of the latest request
	lastAt    time.Time // time of the latest request
	othersAt  time.Time // time of the latest request of any company but last
}

type companyTurn struct {
	running    int
	pauseUntil time.Time
}

func newTurns(processors int) *turns {
	return &turns{
		most: max(1, processors/2), atOnce: max(1, processors/turnPart), pause: max(0, float64(turnPart)/float64(processors)-1), companies: map[string]*companyTurn{},
	}
}

// see records a request of a company.
func (t *turns) see(company string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if company != t.last {
		t.last, t.othersAt = company, t.lastAt
	}
	t.lastAt = time.Now()
}

// take waits for a turn of a company. leave ends the turn; further calls of it do nothing. Fault: request.too_much.
func (t *turns) take(ctx context.Context, company string) (leave func(), err error) {
	enough := time.Now().Add(turnWait)
	for {
		wait, may := t.begin(company)
		if may {
			began := time.Now()
			return sync.OnceFunc(func() { t.end(company, time.Since(began)) }), nil
		}
		if !time.Now().Before(enough) {
			return nil, errTooMuch
		}
		select {
		case <-time.After(min(wait, turnLook)):
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for a turn: %w", ctx.Err())
		}
	}
}

// begin starts a turn if the company may have one now. Otherwise it returns how long to wait at least.
func (t *turns) begin(company string) (wait time.Duration, may bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	t.forget(now)
	own := t.companies[company]
	if own == nil {
		own = &companyTurn{}
		t.companies[company] = own
	}
	othersAt := t.lastAt
	if company == t.last {
		othersAt = t.othersAt
	}
	switch {
	case now.Sub(othersAt) >= companyGone:
	case own.running >= t.atOnce || t.running >= t.most:
		return turnLook, false
	case now.Before(own.pauseUntil):
		return own.pauseUntil.Sub(now), false
	}
	own.running++
	t.running++
	return 0, true
}

func (t *turns) end(company string, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	own := t.companies[company]
	own.running--
	t.running--
	own.pauseUntil = time.Now().Add(min(turnPauseMost, time.Duration(t.pause*float64(took))))
}

// forget drops the companies without running requests whose pause is over.
func (t *turns) forget(now time.Time) {
	for company, one := range t.companies {
		if one.running == 0 && !now.Before(one.pauseUntil) {
			delete(t.companies, company)
		}
	}
}

// turn waits for a turn if the request needs one. Requests that act for no company (admins, senders) need none.
func (s *Server) turn(ctx context.Context, x *exchange) (leave func(), err error) {
	company, is := x.company()
	if !is {
		return func() {}, nil
	}
	s.turns.see(company)
	if !s.contract.costly[x.operation] && !x.dryRun && len(x.body) <= smallBody {
		return func() {}, nil
	}
	return s.turns.take(ctx, company)
}
