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

// A company's costly requests take at most a quarter of the processors while another company is there: so many at once, and on a machine
// of fewer than four processors one, after which it rests. PostgreSQL works about as long for such a request as the server does, and
// what is bounded is both. A company that is alone is not held back.
const (
	turnPart    = 4
	turnWait    = 10 * time.Second      // for the turn, before the request is refused
	turnLook    = 20 * time.Millisecond // how often one that waits looks again
	companyGone = time.Second           // a company that asks for nothing for so long is not there
)

// costlyOperations are those that touch many rows: lists, batches and these. Any other is costly with a large body or as a dry run,
// which compares all senders.
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

// turns lets the costly requests of each company be done in turn.
type turns struct {
	atOnce int
	rest   float64 // of what the request before took

	mu        sync.Mutex
	companies map[string]*companyTurn
	last      string    // the company that asked for something last
	lastAt    time.Time // when
	othersAt  time.Time // when one of the others did last
}

type companyTurn struct {
	done     int       // requests that are being done
	restedAt time.Time // no turn before
}

func newTurns(processors int) *turns {
	return &turns{
		atOnce: max(1, processors/turnPart), rest: max(0, float64(turnPart)/float64(processors)-1), companies: map[string]*companyTurn{},
	}
}

// see notes that a company is there.
func (t *turns) see(company string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if company != t.last {
		t.last, t.othersAt = company, t.lastAt
	}
	t.lastAt = time.Now()
}

// take waits for a company's turn. leave ends it, and may be called twice.
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

// begin takes a turn if there is one, and says how long it is at least until the next otherwise.
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
	case own.done >= t.atOnce:
		return turnLook, false
	case now.Before(own.restedAt):
		return own.restedAt.Sub(now), false
	}
	own.done++
	return 0, true
}

func (t *turns) end(company string, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	own := t.companies[company]
	own.done--
	own.restedAt = time.Now().Add(time.Duration(t.rest * float64(took)))
}

// forget forgets the companies for which nothing is done and whose rest is over.
func (t *turns) forget(now time.Time) {
	for company, one := range t.companies {
		if one.done == 0 && !now.Before(one.restedAt) {
			delete(t.companies, company)
		}
	}
}

// turn waits for the turn of a request, if it needs one.
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
