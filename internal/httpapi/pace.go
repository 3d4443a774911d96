package httpapi

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"lksms/internal/outbound"
)

// Some answers are cheap, but not by thousands a second: those to callers that are not known (by network, callbacks without proof included)
// and rejections (by company). The first paceBurst of them go out at once, more at paceRate, and none waits longer than paceWait. A client
// that asks in a loop on a few connections gets few answers. A good request of a company makes up for a rejected one: among many messages
// some are always wrong.
const (
	paceRate  = 20 // answers a second
	paceBurst = 50
	paceWait  = time.Second

	// paceHeld is how many answers to one wait at once, each of which holds a connection; more go out at once.
	paceHeld = 64

	paceEach   = time.Second / paceRate
	paceCredit = paceBurst * paceEach

	// paceSweep is how often those that owe nothing are forgotten.
	paceSweep = time.Second
)

// pace delays answers, by who gets them. The zero value is ready.
type pace struct {
	mu    sync.Mutex
	debts map[string]*debt // nobody else owes anything
	swept time.Time
}

type debt struct {
	until time.Time // when what was answered so far is paid for at paceRate
	held  int       // answers that wait
}

// delay counts an answer and waits until it is due or ctx ends.
func (p *pace) delay(ctx context.Context, who string) {
	wait, release := p.owe(who, time.Now())
	if wait <= 0 {
		return
	}
	defer release()
	select {
	case <-time.After(wait):
	case <-ctx.Done():
	}
}

// owe counts an answer and returns how long it must wait. If it must, release is called afterwards.
func (p *pace) owe(who string, now time.Time) (wait time.Duration, release func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	least, most := now.Add(-paceCredit), now.Add(paceWait)
	if p.debts == nil || now.Sub(p.swept) >= paceSweep {
		p.sweep(least)
		p.swept = now
	}
	own := p.debts[who]
	if own == nil {
		own = &debt{}
		p.debts[who] = own
	}
	if own.until.Before(least) {
		own.until = least
	}
	if own.until = own.until.Add(paceEach); own.until.After(most) {
		own.until = most
	}
	if wait = own.until.Sub(now); wait <= 0 || own.held >= paceHeld {
		return 0, nil
	}
	own.held++
	return wait, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		own.held--
	}
}

// sweep keeps those that owe something, in a new map: one that was large once would stay so.
func (p *pace) sweep(least time.Time) {
	kept := map[string]*debt{}
	for who, one := range p.debts {
		if one.held > 0 || one.until.After(least) {
			kept[who] = one
		}
	}
	p.debts = kept
}

// earn makes up for one answer.
func (p *pace) earn(who string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if own := p.debts[who]; own != nil {
		own.until = own.until.Add(-paceEach)
	}
}

// paced delays the answer to a request until it is due or the caller has gone.
func (s *Server) paced(ctx context.Context, x *exchange, status int) {
	company, is := x.company()
	switch {
	case isBusy(ctx) || x.provider != "": // a connection without room is to be free soon; a provider may call often
	case x.who.Username == "":
		who := outbound.NetworkOf(x.origin.SourceIP)
		if slices.Contains(alwaysServed, x.operation) {
			who = "probe " + who // whoever shares the address of a probe must not delay it
		}
		s.pace.delay(ctx, who)
	case is && status < http.StatusBadRequest:
		s.pace.earn("company " + company)
	case is && status < http.StatusInternalServerError:
		s.pace.delay(ctx, "company "+company)
	}
}
