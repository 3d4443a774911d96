package capacity

import (
	"fmt"
	"testing"
	"time"
)

func TestResponsesAreDelayedForEachCaller(t *testing.T) {
	t.Parallel()
	var p Pace
	now := time.Now()
	for i := range paceBurst {
		if wait := p.count("a", now, PaceWait); wait > 0 {
			t.Fatalf("answer %d waits %s", i+1, wait)
		}
	}
	if wait := p.count("a", now, PaceWait); wait != time.Second/paceRate {
		t.Errorf("the first answer beyond the burst waits %s", wait)
	}
	if wait := p.count("b", now, PaceWait); wait != 0 {
		t.Errorf("another caller waits %s", wait)
	}
	for range 10 * paceRate {
		p.count("a", now, PaceWait)
	}
	if wait := p.count("a", now, PaceWait); wait != PaceWait {
		t.Errorf("an answer in a flood waits %s", wait)
	}
	now = now.Add(PaceWait + paceBurst*paceEach)
	for i := range paceBurst {
		if wait := p.count("a", now, PaceWait); wait > 0 {
			t.Fatalf("response %d waits %s although no delay is due", i+1, wait)
		}
	}
	// Accepted requests do not increase the burst.
	for range 3 * paceBurst {
		p.Uncount("a")
	}
	for range paceBurst {
		p.count("a", now, PaceWait)
	}
	if wait := p.count("a", now, PaceWait); wait != paceEach {
		t.Errorf("after good requests, the first answer beyond the burst waits %s", wait)
	}
	p.Uncount("a")
	if wait := p.count("a", now, PaceWait); wait != paceEach {
		t.Errorf("after one good request, the next answer waits %s", wait)
	}
	// Callers whose responses are no longer delayed are removed.
	for i := range 10_000 {
		p.count(fmt.Sprint(i), now.Add(time.Duration(i)*10*time.Millisecond), PaceWait)
	}
	if n := len(p.busyUntil); n > 500 {
		t.Errorf("%d callers are remembered", n)
	}
}

func TestProbeIsDelayedByAtMostProbeWait(t *testing.T) {
	t.Parallel()
	var p Pace
	now := time.Now()
	for range 1000 {
		if wait := p.count("probe", now, ProbeWait); wait > ProbeWait {
			t.Fatalf("a probe waits %s", wait)
		}
	}
}
