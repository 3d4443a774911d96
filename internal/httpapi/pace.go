package httpapi

import (
	"context"
	"maps"
	"net/http"
	"sync"
	"time"

	"lksms/internal/outbound"
)

// Some answers are cheap, but not by thousands a second: those to callers that are not known (by network, health and callbacks without
// proof included) and rejections (by company). The first paceBurst of them go out at once, more at paceRate, and none waits longer
// than paceWait. The connections of a network are bounded, so a client that asks in a loop gets few answers however many connections
// it opens. A good request of a company makes up for a rejected one: among many messages some are always wrong.
const (
	paceRate  = 20 // answers a second
	paceBurst = 50
	paceWait  = time.Second

	paceEach   = time.Second / paceRate
	paceCredit = paceBurst * paceEach

	// paceMost is how many are remembered before those that owe nothing are forgotten.
	paceMost = 1000
)

// pace delays answers, by who gets them. The zero value is ready.
type pace struct {
	mu    sync.Mutex
	until map[string]time.Time // when what was answered so far is paid for at paceRate; none: it owes nothing
}

// owe counts an answer and returns how long it must wait.
func (p *pace) owe(who string, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.until == nil {
		p.until = map[string]time.Time{}
	}
	least, most := now.Add(-paceCredit), now.Add(paceWait)
	if len(p.until) >= paceMost {
		maps.DeleteFunc(p.until, func(_ string, until time.Time) bool { return until.Before(least) })
	}
	until := p.until[who]
	if until.Before(least) {
		until = least
	}
	if until = until.Add(paceEach); until.After(most) {
		until = most
	}
	p.until[who] = until
	return max(0, until.Sub(now))
}

// earn makes up for one answer.
func (p *pace) earn(who string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if until, owes := p.until[who]; owes {
		p.until[who] = until.Add(-paceEach)
	}
}

// paced delays the answer to a request until it is due or the caller has gone.
func (s *Server) paced(ctx context.Context, x *exchange, status int) {
	company, is := x.company()
	var wait time.Duration
	switch {
	case isBusy(ctx) || x.isProven: // a connection without room is to be free soon; a provider may call often
	case x.who.Username == "":
		wait = s.pace.owe(outbound.NetworkOf(x.origin.SourceIP), time.Now())
	case is && status < http.StatusBadRequest:
		s.pace.earn("company " + company)
	case is && status < http.StatusInternalServerError:
		wait = s.pace.owe("company "+company, time.Now())
	}
	if wait > 0 {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
}
