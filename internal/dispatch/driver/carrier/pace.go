package carrier

import (
	"context"
	"sync"
	"time"
)

const (
	throttlePause = time.Second           // no message is sent for this time after the carrier asked for fewer messages
	recovery      = 1.1                   // factor of the rate for each second without such an answer
	minRate       = 1                     // messages per second
	lateness      = 10 * time.Millisecond // timers are not exact: the next message makes up for a delay up to this
	countedFor    = time.Second           // time over which the messages are counted
)

// pace limits the messages per second. If the carrier asks for fewer, pace halves the rate that was reached, and then raises it slowly.
type pace struct {
	turn chan struct{} // contains an element while a message waits for its time: the others wait for it. So a message that gives up uses no time

	mu      sync.Mutex
	max     float64 // messages per second; 0: no limit
	rate    float64 // the rate that applies now, at most max; 0: no limit
	next    time.Time
	changed time.Time // last change of rate

	counting time.Time // begin of count
	count    int
	reached  float64 // messages per second before counting
}

func newPace(perSecond float64) *pace {
	return &pace{turn: make(chan struct{}, 1), max: perSecond, rate: perSecond}
}

// wait waits until a message can be sent, and counts the message. It reports false, and counts nothing, if ctx or the link has ended, or if may reports false when the
// message is due. Messages that wait are sent in their order.
func (p *pace) wait(ctx context.Context, ending <-chan struct{}, may func() bool) bool {
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return false
	case <-ending:
		return false
	}
	defer func() { <-p.turn }()
	for wait := p.left(time.Now()); wait > 0; wait = p.left(time.Now()) { // a throttled answer makes it longer
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return false
		case <-ending:
			timer.Stop()
			return false
		case <-timer.C:
		}
	}
	if ctx.Err() != nil || isClosed(ending) || !may() {
		return false
	}
	p.take(time.Now())
	return true
}

func isClosed(channel <-chan struct{}) bool {
	select {
	case <-channel:
		return true
	default:
		return false
	}
}

// left returns how long the next message must wait.
func (p *pace) left(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.next.Sub(now)
}

// current returns the rate that applies now; 0 means no limit.
func (p *pace) current(now time.Time) float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.recover(now)
	return p.rate
}

// take counts a message that is sent now.
func (p *pace) take(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.recover(now)
	if since := now.Sub(p.counting); since >= countedFor {
		p.reached = float64(p.count) / since.Seconds()
		p.counting, p.count = now, 0
	}
	p.count++
	if p.rate > 0 {
		if earliest := now.Add(-lateness); p.next.Before(earliest) {
			p.next = earliest
		}
		p.next = p.next.Add(time.Duration(float64(time.Second) / p.rate))
	}
}

// recover raises the rate after a throttled answer. A pace without maximum has no limit again when its rate is far above the rate that is reached.
func (p *pace) recover(now time.Time) {
	if p.rate == p.max {
		return
	}
	for ; now.Sub(p.changed) >= time.Second; p.changed = p.changed.Add(time.Second) {
		p.rate *= recovery
	}
	if p.max > 0 {
		p.rate = min(p.rate, p.max)
	} else if p.rate > 2*max(p.reached, 100) {
		p.rate = 0
	}
}

// throttled slows down, because the carrier asks for fewer messages. Of the answers to messages that were sent together, only the first one counts.
func (p *pace) throttled(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.changed) < throttlePause && p.rate != p.max {
		return
	}
	reached := max(p.reached, float64(p.count)/max(now.Sub(p.counting).Seconds(), countedFor.Seconds()))
	if p.rate > 0 {
		reached = min(reached, p.rate)
	}
	p.rate, p.changed = max(reached/2, minRate), now
	p.next = now.Add(throttlePause)
}
