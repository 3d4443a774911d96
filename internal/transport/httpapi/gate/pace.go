package gate

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"lksms/internal/platform/outbound"
)

// Some answers are cheap, but not by thousands a second: answers to unknown callers, counted by network (unproven callbacks included),
// and rejections, counted by company. The first paceBurst of them go out at once, more at paceRate, and none waits longer than paceWait.
// So a client that asks in a loop gets at most one answer on each of its connections in paceWait. An accepted request of a company makes
// up for a rejected one, because some of many messages are always wrong.
const (
	paceRate  = 20 // answers a second
	paceBurst = 50
	paceWait  = time.Second

	// paceProbe is the paceWait of health probes. A probe gives up after a second, and other unknown callers may share its network.
	paceProbe = 200 * time.Millisecond

	paceEach   = time.Second / paceRate
	paceCredit = paceBurst * paceEach

	// paceSweep is the time between two removals of callers that owe nothing.
	paceSweep = time.Second
)

// pace delays answers, for each caller separately. The zero value is ready to use.
type pace struct {
	mu    sync.Mutex
	debts map[string]time.Time // by caller: when its answers so far are paid for at paceRate; other callers owe nothing
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

// sweep keeps the callers that owe something, in a new map: a map never shrinks.
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
	case isBusy(ctx) || x.Caller.Provider != "": // a connection beyond the limit must be free soon; a provider may call often
	case x.Caller.User.Username == "":
		who := outbound.NetworkOf(x.Origin.SourceIP)
		if x.isFile { // a page has many, and must not delay the rest
			who = "files " + who
		}
		if slices.Contains(alwaysServed, x.Operation) {
			g.pace.delay(ctx, "probe "+who, paceProbe)
			return
		}
		g.pace.delay(ctx, who, paceWait)
	case is && status < http.StatusBadRequest:
		g.pace.earn("company " + company)
	case is && !isFailure(status):
		g.pace.delay(ctx, "company "+company, paceWait)
	}
}
