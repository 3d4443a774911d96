package capacity

import (
	"context"
	"sync"
	"time"
)

// Some responses are cheap, but not in thousands per second: responses to unknown callers (including unproven callbacks) and rejections. Responses to unknown
// callers are counted by network, and rejections by company. The first paceBurst responses are sent at once, and later responses at paceRate. No response
// waits longer than PaceWait. A client that sends requests in a loop therefore receives at most one response per PaceWait on each connection. An accepted
// request of a company cancels one rejected request, because a few of many messages are always invalid.
const (
	paceRate  = 20 // responses per second
	paceBurst = 50

	// PaceWait is the maximum delay of a response.
	PaceWait = time.Second

	// ProbeWait replaces PaceWait for health probes. A probe often times out after a second, and other unknown callers can share its network.
	ProbeWait = 200 * time.Millisecond

	paceEach   = time.Second / paceRate
	paceCredit = paceBurst * paceEach

	// paceSweep is the interval of removing callers without debt.
	paceSweep = time.Second
)

// Pace delays responses, separately for each caller. The zero value is ready to use.
type Pace struct {
	mu    sync.Mutex
	debts map[string]time.Time // by caller: the time at which all responses so far are paid for at paceRate; a missing caller has no debt
	swept time.Time
}

// Delay counts a response and waits until it is due. It waits at most most, and ends when ctx ends.
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

// owe counts a response and returns its delay, which is at most most.
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

// sweep copies the callers with debt to a new map, because a map never frees memory.
func (p *Pace) sweep(least time.Time) {
	kept := map[string]time.Time{}
	for who, until := range p.debts {
		if until.After(least) {
			kept[who] = until
		}
	}
	p.debts = kept
}

// Earn cancels one counted response.
func (p *Pace) Earn(who string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if until, owes := p.debts[who]; owes {
		p.debts[who] = until.Add(-paceEach)
	}
}
