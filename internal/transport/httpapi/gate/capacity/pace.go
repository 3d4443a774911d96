package capacity

import (
	"context"
	"sync"
	"time"
)

// Some answers are cheap, but not by thousands a second: answers to unknown callers, counted by network (unproven callbacks included),
// and rejections, counted by company. The first paceBurst of them go out at once, more at paceRate, and none waits longer than PaceWait.
// So a client that asks in a loop gets at most one answer on each of its connections in PaceWait. An accepted request of a company makes
// up for a rejected one, because some of many messages are always wrong.
const (
	paceRate  = 20 // answers a second
	paceBurst = 50

	// PaceWait is the longest time that an answer waits.
	PaceWait = time.Second

	// ProbeWait is the PaceWait of health probes. A probe gives up after a second, and other unknown callers may share its network.
	ProbeWait = 200 * time.Millisecond

	paceEach   = time.Second / paceRate
	paceCredit = paceBurst * paceEach

	// paceSweep is the time between two removals of callers that owe nothing.
	paceSweep = time.Second
)

// Pace delays answers, for each caller separately. The zero value is ready to use.
type Pace struct {
	mu    sync.Mutex
	debts map[string]time.Time // by caller: when its answers so far are paid for at paceRate; other callers owe nothing
	swept time.Time
}

// Delay counts an answer and waits until it is due, for at most most, or until ctx ends.
func (p *Pace) Delay(ctx context.Context, who string, most time.Duration) {
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
func (p *Pace) owe(who string, now time.Time, most time.Duration) time.Duration {
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
func (p *Pace) sweep(least time.Time) {
	kept := map[string]time.Time{}
	for who, until := range p.debts {
		if until.After(least) {
			kept[who] = until
		}
	}
	p.debts = kept
}

// Earn makes up for one answer.
func (p *Pace) Earn(who string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if until, owes := p.debts[who]; owes {
		p.debts[who] = until.Add(-paceEach)
	}
}
