package gate

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
// requests run at once. With fewer than eight processors one request runs at a time, and the next one starts after a pause, which is at
// most turnPauseMost: a company whose requests are slower gets more. Companies take turns by request, not by duration.
// The costly requests of all companies use at most half of the processors, so that two do not take both of a small machine. A request
// occupies the server and PostgreSQL in turn, so the bound holds for both together. A company that is active alone has no bound.
const (
	turnPart      = 8
	turnPauseMost = 2 * time.Second        // a request may have been slow for another reason
	turnPauseGone = 250 * time.Millisecond // at least, after a request whose caller went: PostgreSQL may still be busy with it
	turnWait      = 10 * time.Second       // a request that gets no turn within this time is rejected
	turnWaiters   = 32                     // of one company; more are rejected at once
	turnCheck     = 20 * time.Millisecond  // how often it is checked whether a pause is over or a company has become inactive
	companyGone   = time.Second            // a company without requests for this long is not active
)

// costlyOperations lists the operations that read or write many rows: those with a cursor, the batches, the forms, and the ones named here. Any
// other request is costly if its body is large, or if it is a dry run, which compares all senders.
func costlyOperations(spec *openapi3.T, batches, forms iter.Seq[string]) map[string]bool {
	costly := map[string]bool{
		"GET /api/v1/sms/task/{task_id}/explain": true, "GET /api/v1/sms/task/{task_id}/timeline": true,
		"GET /api/v1/admin/statistics": true, "GET /api/v1/subscribe-messages/statistics": true, "GET /api/v1/admin/notification-templates": true,
		"PUT /api/v1/admin/contacts":       true,
		"POST /api/v1/tags/{tag}/contacts": true, "GET /api/v1/contacts/count": true,
		"GET /api/v1/contacts/export.csv": true, "GET /api/v1/contacts/imports/{import_id}/errors.csv": true,
		"POST /api/v1/notifications": true, "DELETE /api/v1/notifications": true, "POST /api/v1/notifications/status": true,
	}
	for _, all := range []iter.Seq[string]{batches, forms} {
		for pattern := range all {
			costly[pattern] = true
		}
	}
	for pattern, names := range parametersOf(spec) {
		if slices.Contains(names, "cursor") {
			costly[pattern] = true
		}
	}
	return costly
}

// turns limits the costly requests of each company. Among companies whose requests wait, the one goes first that has waited longest since
// its latest turn, however many of its requests wait.
type turns struct {
	most   int     // requests at once
	atOnce int     // of them, those of one company
	pause  float64 // after a request, as a multiple of its duration

	mu         sync.Mutex
	companies  map[string]*companyTurn // those with requests that run or wait, or with a pause
	last       string                  // the company of the latest request
	lastAt     time.Time               // time of the latest request
	othersAt   time.Time               // time of the latest request of any company but last
	isChecking bool                    // whether checkLater has a timer running
}

type companyTurn struct {
	running    int
	waiting    []chan struct{} // closed when the turn begins; the first one is next
	since      time.Time       // when the first one began to wait, or the latest turn began if that is later
	pauseUntil time.Time
}

func newTurns(processors int) *turns {
	return &turns{
		most: max(1, processors/2), atOnce: max(1, processors/turnPart), pause: max(0, float64(turnPart)/float64(processors)-1),
		companies: map[string]*companyTurn{},
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

// take waits for a turn of a company. leave ends the turn; further calls of it do nothing. Faults: request.too_much, and
// service.unavailable if the requests of others took the time.
func (t *turns) take(ctx context.Context, company string) (leave func(), err error) {
	mine, err := t.join(company)
	if err != nil {
		return nil, err
	}
	enough := time.NewTimer(turnWait)
	defer enough.Stop()
	select {
	case <-mine:
	case <-enough.C:
		err = t.late(company)
	case <-ctx.Done():
		err = fmt.Errorf("wait for a turn: %w", ctx.Err())
	}
	if err != nil {
		if !t.quit(company, mine) {
			t.end(company, 0, false) // the turn began at the same time
		}
		return nil, err
	}
	began := time.Now()
	return sync.OnceFunc(func() { t.end(company, time.Since(began), ctx.Err() != nil) }), nil
}

// late returns why a request of a company got no turn in time.
func (t *turns) late(company string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if own := t.companies[company]; own.running > 0 || time.Since(own.since) < turnWait {
		return errTooMuch
	}
	return ErrUnavailable
}

// join puts a request in the queue of its company. The turn may begin at once.
func (t *turns) join(company string) (mine chan struct{}, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	own := t.companies[company]
	if own == nil {
		own = &companyTurn{}
		t.companies[company] = own
	}
	now := time.Now()
	if len(own.waiting) == 0 {
		own.since = now
	}
	mine = make(chan struct{})
	own.waiting = append(own.waiting, mine)
	t.grant(now)
	if len(own.waiting) > turnWaiters {
		own.waiting = own.waiting[:turnWaiters]
		return nil, errTooMuch
	}
	t.checkLater()
	return mine, nil
}

// quit takes a request out of the queue, and reports whether it was still waiting.
func (t *turns) quit(company string, mine chan struct{}) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	own := t.companies[company]
	i := slices.Index(own.waiting, mine)
	if i < 0 {
		return false
	}
	own.waiting = slices.Delete(own.waiting, i, i+1)
	t.forget(time.Now())
	return true
}

func (t *turns) end(company string, took time.Duration, isGone bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	own, now := t.companies[company], time.Now()
	own.running--
	pause := min(turnPauseMost, time.Duration(t.pause*float64(took)))
	if isGone {
		pause = max(pause, turnPauseGone)
	}
	if until := now.Add(pause); until.After(own.pauseUntil) {
		own.pauseUntil = until
	}
	t.grant(now)
	t.forget(now)
}

// grant begins all turns that may begin now.
func (t *turns) grant(now time.Time) {
	for {
		var next *companyTurn
		counted := 0
		for _, one := range t.companies {
			if one.running <= t.atOnce { // a company with more was alone when they began: nobody waits until they are done
				counted += one.running
			}
		}
		for name, one := range t.companies {
			may := one.running < t.atOnce && counted < t.most && !now.Before(one.pauseUntil) || t.isAlone(name, now)
			if len(one.waiting) > 0 && may && (next == nil || one.since.Before(next.since)) {
				next = one
			}
		}
		if next == nil {
			return
		}
		close(next.waiting[0])
		next.waiting = next.waiting[1:]
		next.running++
		next.since = now
	}
}

// isAlone reports whether no other company is active. A company is active while its requests run or wait, and for companyGone after a
// request.
func (t *turns) isAlone(company string, now time.Time) bool {
	othersAt := t.lastAt
	if company == t.last {
		othersAt = t.othersAt
	}
	if now.Sub(othersAt) < companyGone {
		return false
	}
	for name, one := range t.companies {
		if name != company && one.running+len(one.waiting) > 0 {
			return false
		}
	}
	return true
}

// checkLater calls grant every turnCheck while requests wait: pauses end, and companies become inactive.
func (t *turns) checkLater() {
	if t.isChecking || !t.hasWaiting() {
		return
	}
	t.isChecking = true
	time.AfterFunc(turnCheck, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.isChecking = false
		t.grant(time.Now())
		t.checkLater()
	})
}

func (t *turns) hasWaiting() bool {
	for _, one := range t.companies {
		if len(one.waiting) > 0 {
			return true
		}
	}
	return false
}

// forget drops the companies without running or waiting requests whose pause is over.
func (t *turns) forget(now time.Time) {
	for company, one := range t.companies {
		if one.running == 0 && len(one.waiting) == 0 && !now.Before(one.pauseUntil) {
			delete(t.companies, company)
		}
	}
}

// turn waits for a turn if the request needs one. Requests that act for no company (admins, senders) need none.
func (g *Gate) turn(ctx context.Context, x *Exchange) (leave func(), err error) {
	company, is := x.company()
	if !is {
		return func() {}, nil
	}
	g.turns.see(company)
	if !g.contract.costly[x.Operation] && !x.isCostly && !x.DryRun && len(x.Body.Raw) <= smallBody {
		return func() {}, nil
	}
	return g.turns.take(ctx, company)
}
