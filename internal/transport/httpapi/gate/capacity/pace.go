package capacity

import (
	"context"
	"sync"
	"time"
)

// Some responses are cheap, but not in thousands per second: responses to unknown callers (including unproven callbacks) and rejections. Responses to unknown
// callers are counted by network, and rejections by company. The first paceBurst responses are sent at once, and later responses at paceRate. No response
// waits longer than PaceWait. A client that sends requests in a loop therefore receives at most one response per PaceWait on each connection. After an
// accepted request of a company, one of its rejected requests no longer counts, because a few of many messages are always invalid.
const (
	paceRate  = 20 // responses per second
	paceBurst = 50

	// PaceWait is the maximum delay of a response.
	PaceWait = time.Second

	// ProbeWait replaces PaceWait for health probes. A probe often times out after a second, and other unknown callers can share its network.
	ProbeWait = 200 * time.Millisecond

	paceEach = time.Second / paceRate

	// paceSweep is the interval at which the callers whose responses are no longer delayed are removed.
	paceSweep = time.Second
)

// OfCompany returns the name under which the callers of a company are counted. It cannot equal the name of a user, which contains no space.
func OfCompany(id string) string { return "company " + id }

// Pace delays responses, separately for each caller. The zero value is ready to use.
type Pace struct {
	mu        sync.Mutex
	busyUntil map[string]time.Time // by caller: the time until which its responses so far use up paceRate; responses to a missing caller are not delayed
	swept     time.Time
}

// Delay counts a response and waits until it is due. It waits at most maxWait, and ends when ctx ends.
func (p *Pace) Delay(ctx context.Context, caller string, maxWait time.Duration) {
	wait := p.count(caller, time.Now(), maxWait)
	if wait <= 0 {
		return
	}
	select {
	case <-time.After(wait):
	case <-ctx.Done():
	}
}

// count counts a response and returns its delay, which is at most maxWait.
func (p *Pace) count(caller string, now time.Time, maxWait time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	earliest, latest := now.Add(-paceBurst*paceEach), now.Add(maxWait)
	if p.busyUntil == nil || now.Sub(p.swept) >= paceSweep {
		p.sweep(earliest)
		p.swept = now
	}
	until := p.busyUntil[caller]
	if until.Before(earliest) {
		until = earliest
	}
	if until = until.Add(paceEach); until.After(latest) {
		until = latest
	}
	p.busyUntil[caller] = until
	return max(0, until.Sub(now))
}

// sweep copies the callers that are busy after a time to a new map, because a map never frees memory.
func (p *Pace) sweep(after time.Time) {
	kept := map[string]time.Time{}
	for caller, until := range p.busyUntil {
		if until.After(after) {
			kept[caller] = until
		}
	}
	p.busyUntil = kept
}

// Uncount removes one response from the count of a caller.
func (p *Pace) Uncount(caller string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if until, isBusy := p.busyUntil[caller]; isBusy {
		p.busyUntil[caller] = until.Add(-paceEach)
	}
}
