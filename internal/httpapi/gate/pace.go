package gate

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"lksms/internal/outbound"
)

// Some answers are cheap, but not by thousands a second: those to callers that are not known (by network, callbacks without proof included)
// and rejections (by company). The first paceBurst of them go out at once, more at paceRate, and none waits longer than paceWait. So a
// client that asks in a loop gets at most one answer for each of its connections in paceWait. A good request of a company makes up for a
// rejected one: among many messages some are always wrong.
const (
	paceRate  = 20 // answers a second
	paceBurst = 50
	paceWait  = time.Second

	// A probe gives up after a second, and strangers may call from its address.
	paceProbe = 200 * time.Millisecond

	paceEach   = time.Second / paceRate
	paceCredit = paceBurst * paceEach

	// paceSweep is how often those that owe nothing are forgotten.
	paceSweep = time.Second
)

// pace delays answers, by who gets them. The zero value is ready.
type pace struct {
	mu    sync.Mutex
	debts map[string]time.Time // when what was answered so far is paid for at paceRate; nobody else owes anything
	swept time.Time
}

// delay counts an answer and waits until it is due, for at most most, or until ctx ends.
func (p *pace) delay(ctx context.Context, who string, most time.Duration) {
	wait := p.owe(who, time.Now(), most)
	if wait <= 0 {
		return
	}
	select {
	case <-time.After(wait):
	case <-ctx.Done():
	}
}

// owe counts an answer and returns how long it must wait, at most most.
func (p *pace) owe(who string, now time.Time, most time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	least, latest := now.Add(-paceCredit), now.Add(most)
	if p.debts == nil || now.Sub(p.swept) >= paceSweep {
		p.sweep(least)
		p.swept = now
	}
	until := p.debts[who]
	if until.Before(least) {
		until = least
	}
	if until = until.Add(paceEach); until.After(latest) {
		until = latest
	}
	p.debts[who] = until
	return max(0, until.Sub(now))
}

// sweep keeps those that owe something, in a new map: one that was large once would stay so.
func (p *pace) sweep(least time.Time) {
	kept := map[string]time.Time{}
	for who, until := range p.debts {
		if until.After(least) {
			kept[who] = until
		}
	}
	p.debts = kept
}

// earn makes up for one answer.
func (p *pace) earn(who string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if until, owes := p.debts[who]; owes {
		p.debts[who] = until.Add(-paceEach)
	}
}

// paced delays the answer to a request until it is due or the caller has gone.
func (g *Gate) paced(ctx context.Context, x *Exchange, status int) {
	company, is := x.company()
	switch {
	case isBusy(ctx) || x.Provider != "": // a connection without room is to be free soon; a provider may call often
	case x.Who.Username == "":
		who := outbound.NetworkOf(x.Origin.SourceIP)
		if slices.Contains(alwaysServed, x.Operation) {
			g.pace.delay(ctx, "probe "+who, paceProbe)
			return
		}
		g.pace.delay(ctx, who, paceWait)
	case is && status < http.StatusBadRequest:
		g.pace.earn("company " + company)
	case is && status < http.StatusInternalServerError:
		g.pace.delay(ctx, "company "+company, paceWait)
	}
}
