package httpapi

import (
	"fmt"
	"testing"
	"time"
)

func TestAnswersArePacedByWhoGetsThem(t *testing.T) {
	t.Parallel()
	var p pace
	now := time.Now()
	for i := range paceBurst {
		if wait := owe(&p, "a", now); wait > 0 {
			t.Fatalf("answer %d waits %s", i+1, wait)
		}
	}
	if wait := owe(&p, "a", now); wait != time.Second/paceRate {
		t.Errorf("the first one beyond waits %s", wait)
	}
	if wait := owe(&p, "b", now); wait != 0 {
		t.Errorf("another waits %s", wait)
	}
	for range 10 * paceRate {
		owe(&p, "a", now)
	}
	if wait := owe(&p, "a", now); wait != paceWait {
		t.Errorf("a flood waits %s", wait)
	}
	now = now.Add(paceWait + paceCredit)
	for i := range paceBurst {
		if wait := owe(&p, "a", now); wait > 0 {
			t.Fatalf("answer %d waits %s when all was paid", i+1, wait)
		}
	}
	// Good requests do not raise the burst.
	for range 3 * paceBurst {
		p.earn("a")
	}
	for range paceBurst {
		owe(&p, "a", now)
	}
	if wait := owe(&p, "a", now); wait != paceEach {
		t.Errorf("after good ones the first one beyond waits %s", wait)
	}
	p.earn("a")
	if wait := owe(&p, "a", now); wait != paceEach {
		t.Errorf("after one good one the next waits %s", wait)
	}
	// Those that owe nothing are forgotten.
	for i := range 10_000 {
		owe(&p, fmt.Sprint(i), now.Add(time.Duration(i)*10*time.Millisecond))
	}
	if n := len(p.debts); n > 500 {
		t.Errorf("%d are remembered", n)
	}
}

// owe is the wait of an answer that is given afterwards.
func owe(p *pace, who string, now time.Time) time.Duration {
	wait, release := p.owe(who, now)
	if release != nil {
		release()
	}
	return wait
}

func TestFewDelayedAnswersHoldConnections(t *testing.T) {
	t.Parallel()
	var p pace
	now := time.Now()
	for range paceBurst {
		owe(&p, "a", now)
	}
	var last func()
	for i := range paceHeld {
		wait, release := p.owe("a", now)
		if wait <= 0 {
			t.Fatalf("answer %d does not wait", i+1)
		}
		last = release
	}
	if wait, _ := p.owe("a", now); wait != 0 {
		t.Errorf("one more waits %s", wait)
	}
	last()
	if wait, _ := p.owe("a", now); wait != paceWait {
		t.Errorf("when one has ended the next waits %s", wait)
	}
}
