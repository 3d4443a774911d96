package line

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"lksms/internal/dispatch/sender"
)

func newLine() *Line {
	l := New(nil, func(context.Context, ...string) error { return nil })
	l.polling = true // only the test polls
	return l
}

// joinAs adds a waiter for pools, for a sender with the usage s.
func (l *Line) joinAs(senderNo string, s sender.Usage, pools ...int64) *Waiter {
	p := l.Join(senderNo)
	l.StoreUsages(map[string]sender.Usage{senderNo: s}, nil)
	sorts := map[int64]float64{}
	for _, pool := range pools {
		sorts[pool] = s.Sort
	}
	l.SetPools(p, sorts)
	return p
}

// pollFinding runs a poll that finds tasks in pools, and returns the input of the poll.
func (l *Line) pollFinding(found ...int64) (asked Question) {
	l.poll = func(_ context.Context, w Question) (Finding, error) {
		asked = w
		return Finding{Pools: found, All: w.Walk && w.After == 0}, nil
	}
	l.pollOnce()
	return asked
}

// woken returns the senders of waiters that were woken, and the last wake-up. It consumes the wake-ups.
func woken(waiters ...*Waiter) (names []string, by WakeUp) {
	for _, p := range waiters {
		select {
		case by = <-p.woken:
			names = append(names, p.senderNo)
		default:
		}
	}
	return names, by
}

func TestPoolCountsAsEmptyFromAnEmptyPollUntilTheNextTask(t *testing.T) {
	t.Parallel()
	const pool, other, unasked = 1, 2, 3
	for _, c := range []struct {
		name  string
		act   func(l *Line)
		quiet bool
	}{
		{"no poll so far", func(*Line) {}, false},
		{"the poll found nothing", func(l *Line) { l.pollFinding() }, true},
		{"the poll found work", func(l *Line) { l.pollFinding(pool) }, false},
		{"the poll found work in another pool", func(l *Line) { l.pollFinding(other) }, true},
		{"work came before the poll", func(l *Line) { l.Wake(pool, 1); l.pollFinding() }, true},
		{"work came after the poll", func(l *Line) { l.pollFinding(); l.Wake(pool, 1) }, false},
		{"work came during the poll", func(l *Line) {
			l.poll = func(context.Context, Question) (Finding, error) { l.Wake(pool, 1); return Finding{}, nil }
			l.pollOnce()
		}, false},
		{"the poll was long ago", func(l *Line) { l.pollFinding(); l.polledAt = time.Now().Add(-time.Second) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLine()
			l.joinAs("app", sender.Usage{}, pool, other)
			l.joinAs("another", sender.Usage{}, pool, other)
			c.act(l)
			if got := l.IsQuiet(map[int64]float64{pool: 0}); got != c.quiet {
				t.Errorf("quiet: %t", got)
			}
			if l.IsQuiet(map[int64]float64{unasked: 0}) {
				t.Error("a pool that no poll has probed is quiet")
			}
		})
	}
}

func TestSendersAreWokenInTheOrderOfTheirUsage(t *testing.T) {
	t.Parallel()
	const pool = 1
	l := newLine()
	var waiters []*Waiter
	for _, c := range []struct {
		name string
		sender.Usage
	}{
		{"first app", sender.Usage{}},
		{"slow", sender.Usage{DayLimit: 10, DayUsed: 1, ResponseMS: 500}},
		{"used", sender.Usage{DayLimit: 10, DayUsed: 5, ResponseMS: 10}},
		{"quick", sender.Usage{DayLimit: 100, DayUsed: 10, ResponseMS: 20}},
		{"preferred", sender.Usage{Sort: 1, DayLimit: 10, DayUsed: 9}},
		{"used app", sender.Usage{Today: 3}},
		{"second app", sender.Usage{}},
	} {
		waiters = append(waiters, l.joinAs(c.name, c.Usage, pool))
	}
	unknown := l.Join("unknown")
	l.SetPools(unknown, map[int64]float64{pool: 0})
	var order []string
	for len(order) < len(waiters) {
		l.Wake(pool, 1)
		names, _ := woken(waiters...)
		if len(names) == 0 {
			break
		}
		order = append(order, names...)
	}
	want := []string{"preferred", "first app", "second app", "used app", "quick", "slow", "used"}
	if !slices.Equal(order, want) || l.waiters.Len() != 1 {
		t.Errorf("order %v, want %v", order, want)
	}
}

func TestUsageIncludesClaimedTasksAtOnce(t *testing.T) {
	t.Parallel()
	const pool = 1
	l := newLine()
	l.joinAs("a", sender.Usage{}, pool)
	b := l.joinAs("b", sender.Usage{}, pool)
	before := l.Given([]string{"a"})
	l.RecordGiven("a", 3)
	l.StoreUsages(map[string]sender.Usage{"a": {Today: 10}}, before) // this usage was read before the sender "a" received the tasks
	if got := l.usages["a"].Today; got != 13 {
		t.Errorf("a has %d tasks today, want 13", got)
	}
	l.Wake(pool, 1)
	if names, _ := woken(b); len(names) != 1 {
		t.Error("the least used sender was not woken")
	}
}

func TestUnusedWakeUpGoesToTheNextSender(t *testing.T) {
	t.Parallel()
	const pool = 1
	l := newLine()
	var waiters []*Waiter
	for i := range 2 * maxWoken {
		waiters = append(waiters, l.joinAs(string(rune('a'+i)), sender.Usage{Sort: float64(-i)}, pool))
	}
	tries := func() (names []string) {
		for {
			got, by := woken(waiters...)
			if len(got) == 0 {
				return names
			}
			names = append(names, got...)
			i := slices.IndexFunc(waiters, func(p *Waiter) bool { return p.senderNo == got[0] })
			waiters[i] = l.joinAs(got[0], waiters[i].usage.Usage, pool)
			l.Settle(got[0], by, false)
		}
	}
	l.Wake(pool, 1)
	if got := tries(); !slices.Equal(got, []string{"a", "b", "c", "d", "e", "f", "g", "h"}) {
		t.Errorf("after a new task: %v", got)
	}
	l.Wake(pool, 1) // senders that did not receive the first task can possibly claim the second task
	if got := tries(); len(got) == 0 || got[0] != "a" {
		t.Errorf("after a second new task: %v", got)
	}
	l.pollFinding(pool)
	if got := tries(); !slices.Equal(got, []string{"p"}) {
		t.Errorf("after a poll: %v", got)
	}
	l.pollFinding(pool) // every sender has been tried
	if got := tries(); len(got) != maxWoken || got[0] != "a" {
		t.Errorf("after a poll, with every sender tried: %v", got)
	}
	// Senders that twice received no task are hindered in this pool. Other senders are woken first, even for new tasks.
	last := l.joinAs("q", sender.Usage{Sort: -100}, pool)
	l.pollFinding(pool)
	tries()
	l.pollFinding(pool)
	if got, by := woken(last); len(got) != 1 {
		t.Error("a sender that was not woken before was not woken")
	} else {
		last = l.joinAs("q", sender.Usage{Sort: -100}, pool)
		l.Settle("q", by, true)
	}
	l.Wake(pool, 1)
	if got, by := woken(last); len(got) != 1 {
		t.Error("the sender that got a task was not woken again")
	} else {
		l.Settle("q", by, true)
	}
	l.pollFinding() // the pool is empty
	l.Wake(pool, 1)
	got, by := woken(waiters...)
	if !slices.Equal(got, []string{"a"}) {
		t.Errorf("after the pool was empty: %v", got)
	}
	l.Settle("a", by, true)
	l.pollFinding()
	if len(l.tries) != 0 {
		t.Errorf("tries of empty pools are kept: %v", l.tries)
	}
}

// A poll that still finds a task wakes no second sender while the first woken sender is about to claim.
func TestPollDoesNotWakeASecondSenderForTheSameTask(t *testing.T) {
	t.Parallel()
	const pool = 1
	l := newLine()
	a, b := l.joinAs("a", sender.Usage{}, pool), l.joinAs("b", sender.Usage{}, pool)
	l.Wake(pool, 1)
	l.pollFinding(pool)
	names, by := woken(a, b)
	if !slices.Equal(names, []string{"a"}) {
		t.Errorf("woken %v", names)
	}
	l.Settle("a", by, true)
	l.pollFinding(pool)
	if names, _ := woken(b); len(names) != 1 {
		t.Error("a remaining task wakes no sender")
	}
}

func TestPollReadsOnlyPoolsOfWaitingSenders(t *testing.T) {
	t.Parallel()
	l := newLine()
	l.joinAs("a", sender.Usage{}, 1, 2)
	l.joinAs("b", sender.Usage{}, 2, 3)
	asked := l.pollFinding()
	slices.Sort(asked.Pools)
	if !slices.Equal(asked.Pools, []int64{1, 2, 3}) || asked.Walk {
		t.Errorf("asked %+v", asked)
	}
	// The walk finds the pools of a sender that waits for many pools. Pools of other senders are still probed individually.
	var many []int64
	for pool := range int64(10_000) {
		many = append(many, pool)
	}
	wide := l.joinAs("wide", sender.Usage{}, many...)
	if asked = l.pollFinding(); len(asked.Pools) != 3 || !asked.Walk {
		t.Errorf("asked %d pools, walk %t", len(asked.Pools), asked.Walk)
	}
	if !l.IsQuiet(map[int64]float64{7777: 0}) {
		t.Error("a walk that reached the end does not count for all pools")
	}
	// If a walk stopped at its limit, the next poll continues after the last pool.
	l.poll = func(context.Context, Question) (Finding, error) {
		return Finding{Pools: []int64{4000}, Next: 4000}, nil
	}
	l.pollOnce()
	if names, _ := woken(wide); len(names) != 1 {
		t.Error("the wide sender was not woken")
	}
	l.joinAs("wide", sender.Usage{}, many...)
	if asked = l.pollFinding(); asked.After != 4000 || l.IsQuiet(map[int64]float64{7777: 0}) {
		t.Errorf("the next walk begins after %d", asked.After)
	}
	// The number of individually probed pools is limited, however many senders wait.
	for i := range int64(3000) {
		l.joinAs(string(rune('a'+i)), sender.Usage{}, 20_000+2*i, 20_001+2*i)
	}
	if asked = l.pollFinding(); len(asked.Pools) > maxProbed+fewPools || !asked.Walk {
		t.Errorf("asked %d pools, walk %t", len(asked.Pools), asked.Walk)
	}
	if waits := maps.Keys(l.usages); len(slices.Collect(waits)) < 3000 {
		t.Error("fewer than 3000 senders wait")
	}
}

func TestFailedPollStillAnnouncesAChange(t *testing.T) {
	t.Parallel()
	l := newLine()
	p := l.joinAs("app", sender.Usage{}, 1)
	l.poll = func(context.Context, Question) (Finding, error) { return Finding{IsChanged: true}, errors.New("away") }
	l.pollOnce()
	select {
	case <-p.changed:
	default:
		t.Error("the waiting sender was not notified of the change")
	}
}

func TestClaimOfASenderIsCountedAfterTheLastWaiterLeft(t *testing.T) {
	t.Parallel()
	const pool = 1
	l := newLine()
	_, by := func() ([]string, WakeUp) {
		p := l.joinAs("slow", sender.Usage{}, pool)
		l.Wake(pool, 1)
		return woken(p)
	}()
	if !l.stopIfIdle() {
		t.Fatal("a sender waits")
	}
	l.polling = true // only the test polls
	l.Settle("slow", by, true)
	if n := l.triesOf(pool).underway; n != 0 {
		t.Errorf("%d senders are about to claim", n)
	}
}

func TestUsageReadAfterPollingStoppedIncludesEarlierTasks(t *testing.T) {
	t.Parallel()
	l := newLine()
	p := l.joinAs("app", sender.Usage{}, 1)
	l.RecordGiven("app", 7)
	before := l.Given([]string{"app"})
	l.Leave(p)
	l.stopIfIdle()
	l.polling = true // only the test polls
	p = l.Join("app")
	l.RecordGiven("app", 3)
	l.StoreUsages(map[string]sender.Usage{"app": {}}, before)
	if want := (sender.Usage{}).After(3); p.usage.Usage != want {
		t.Errorf("usage %+v, want %+v", p.usage.Usage, want)
	}
}

func TestSenderWithoutTasksIsWokenAfterPollingRestarts(t *testing.T) {
	t.Parallel()
	const pool = 1
	l := newLine()
	first, second := l.joinAs("first", sender.Usage{}, pool), l.joinAs("second", sender.Usage{Today: 1}, pool)
	l.pollFinding(pool)
	_, by := woken(first)
	l.Settle("first", by, false) // wakes the sender "second"
	first = l.joinAs("first", sender.Usage{}, pool)
	l.pollFinding(pool) // a second poll finds tasks that the sender "first" did not receive
	_, by = woken(second)
	l.Leave(first)
	if !l.stopIfIdle() {
		t.Fatal("a sender waits")
	}
	l.polling = true // only the test polls
	l.Settle("second", by, true)
	first = l.joinAs("first", sender.Usage{}, pool)
	l.Wake(pool, 1)
	if names, _ := woken(first); len(names) != 1 {
		t.Error("no sender was woken")
	}
}

func TestOnePollServesAllSenders(t *testing.T) {
	t.Parallel()
	for _, senders := range []int{1, 400} {
		looks := make(chan Question)
		l := New(func(_ context.Context, w Question) (Finding, error) {
			looks <- w
			return Finding{}, nil
		}, func(context.Context, ...string) error { return nil })
		began := time.Now()
		for i := range senders {
			l.SetPools(l.Join(fmt.Sprint("app-", i)), map[int64]float64{int64(i): 0}) // each sender has one pool
		}
		const n = 4
		for range n {
			if asked := <-looks; len(asked.Pools) != senders {
				t.Errorf("a poll for %d senders probes %d pools", senders, len(asked.Pools))
			}
		}
		if took := time.Since(began); took < n*pollEvery {
			t.Errorf("%d polls for %d senders in %v", n, senders, took)
		}
		l.Close()
		l.Wait()
	}
}
