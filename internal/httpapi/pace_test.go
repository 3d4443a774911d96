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
		if wait := p.owe("a", now); wait > 0 {
			t.Fatalf("answer %d waits %s", i+1, wait)
		}
	}
	if wait := p.owe("a", now); wait != time.Second/paceRate {
		t.Errorf("the first one beyond waits %s", wait)
	}
	if wait := p.owe("b", now); wait != 0 {
		t.Errorf("another waits %s", wait)
	}
	for range 10 * paceRate {
		p.owe("a", now)
	}
	if wait := p.owe("a", now); wait != paceWait {
		t.Errorf("a flood waits %s", wait)
	}
	now = now.Add(paceWait + paceCredit)
	for i := range paceBurst {
		if wait := p.owe("a", now); wait > 0 {
			t.Fatalf("answer %d waits %s when all was paid", i+1, wait)
		}
	}
	// What is earned is not saved up beyond the burst.
	for range 3 * paceBurst {
		p.earn("a")
	}
	for range paceBurst {
		p.owe("a", now)
	}
	if wait := p.owe("a", now); wait != paceEach {
		t.Errorf("after good ones the first one beyond waits %s", wait)
	}
	p.earn("a")
	if wait := p.owe("a", now); wait != paceEach {
		t.Errorf("after one good one the next waits %s", wait)
	}
	// Those that owe nothing are forgotten.
	for i := range 10 * paceMost {
		p.owe(fmt.Sprint(i), now.Add(time.Duration(i)*10*time.Millisecond))
	}
	if n := len(p.until); n > paceMost {
		t.Errorf("%d are remembered", n)
	}
}
