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
		if wait := p.owe("a", now, PaceWait); wait > 0 {
			t.Fatalf("answer %d waits %s", i+1, wait)
		}
	}
	if wait := p.owe("a", now, PaceWait); wait != time.Second/paceRate {
		t.Errorf("the first answer beyond the burst waits %s", wait)
	}
	if wait := p.owe("b", now, PaceWait); wait != 0 {
		t.Errorf("another caller waits %s", wait)
	}
	for range 10 * paceRate {
		p.owe("a", now, PaceWait)
	}
	if wait := p.owe("a", now, PaceWait); wait != PaceWait {
		t.Errorf("an answer in a flood waits %s", wait)
	}
	now = now.Add(PaceWait + paceCredit)
	for i := range paceBurst {
		if wait := p.owe("a", now, PaceWait); wait > 0 {
			t.Fatalf("response %d waits %s although no delay is due", i+1, wait)
		}
	}
	// Credit for accepted requests does not increase the burst.
	for range 3 * paceBurst {
		p.Earn("a")
	}
	for range paceBurst {
		p.owe("a", now, PaceWait)
	}
	if wait := p.owe("a", now, PaceWait); wait != paceEach {
		t.Errorf("after good requests, the first answer beyond the burst waits %s", wait)
	}
	p.Earn("a")
	if wait := p.owe("a", now, PaceWait); wait != paceEach {
		t.Errorf("after one good request, the next answer waits %s", wait)
	}
	// Callers without debt are removed.
	for i := range 10_000 {
		p.owe(fmt.Sprint(i), now.Add(time.Duration(i)*10*time.Millisecond), PaceWait)
	}
	if n := len(p.debts); n > 500 {
		t.Errorf("%d callers are remembered", n)
	}
}

func TestProbeIsDelayedByAtMostProbeWait(t *testing.T) {
	t.Parallel()
	var p Pace
	now := time.Now()
	for range 1000 {
		if wait := p.owe("probe", now, ProbeWait); wait > ProbeWait {
			t.Fatalf("a probe waits %s", wait)
		}
	}
}
