package line

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"lksms/internal/sender"
)

func newLine() *Line {
	l := New(nil, func(context.Context, ...string) error { return nil })
	l.polling = true // nobody polls but the test
	return l
}

// stand makes a place of a sender that waits for pools.
func (l *Line) stand(appID string, s sender.Usage, pools ...int64) *Waiter {
	p := l.Join(appID)
	l.Learn(map[string]sender.Usage{appID: s}, nil)
	sorts := map[int64]float64{}
	for _, pool := range pools {
		sorts[pool] = s.Sort
	}
	l.Narrow(p, sorts)
	return p
}

// hears runs a poll that finds work in pools, and returns what it asked.
func (l *Line) hears(found ...int64) (asked Question) {
	l.poll = func(_ context.Context, w Question) (Finding, error) {
		asked = w
		return Finding{Pools: found, All: w.Walk && w.After == 0}, nil
	}
	l.pollOnce()
	return asked
}

// woken gives those of places that have been woken, and takes their wake-ups.
func woken(places ...*Waiter) (names []string, by WakeUp) {
	for _, p := range places {
		select {
		case by = <-p.woken:
			names = append(names, p.appID)
		default:
		}
	}
	return names, by
}

func TestAPoolIsQuietWhenAPollFoundNothingAndNothingCameSince(t *testing.T) {
	t.Parallel()
	const pool, other, unasked = 1, 2, 3
	for _, c := range []struct {
		name  string
		act   func(l *Line)
		quiet bool
	}{
		{"nobody has asked", func(*Line) {}, false},
		{"the poll found nothing", func(l *Line) { l.hears() }, true},
		{"the poll found something", func(l *Line) { l.hears(pool) }, false},
		{"it found something elsewhere", func(l *Line) { l.hears(other) }, true},
		{"something came before the poll", func(l *Line) { l.Wake(pool, 1); l.hears() }, true},
		{"something came after it", func(l *Line) { l.hears(); l.Wake(pool, 1) }, false},
		{"something came while it was under way", func(l *Line) {
			l.poll = func(context.Context, Question) (Finding, error) { l.Wake(pool, 1); return Finding{}, nil }
			l.pollOnce()
		}, false},
		{"the poll was long ago", func(l *Line) { l.hears(); l.polledAt = time.Now().Add(-time.Second) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLine()
			l.stand("app", sender.Usage{}, pool, other)
			l.stand("another", sender.Usage{}, pool, other)
			c.act(l)
			if got := l.IsQuiet(map[int64]float64{pool: 0}); got != c.quiet {
				t.Errorf("quiet: %t", got)
			}
			if l.IsQuiet(map[int64]float64{unasked: 0}) {
				t.Error("a pool that nobody looked into is quiet")
			}
		})
	}
}

func TestWhoShouldHaveItIsServedFirst(t *testing.T) {
	t.Parallel()
	const pool = 1
	l := newLine()
	var places []*Waiter
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
		places = append(places, l.stand(c.name, c.Usage, pool))
	}
	unknown := l.Join("unknown")
	l.Narrow(unknown, map[int64]float64{pool: 0})
	var order []string
	for len(order) < len(places) {
		l.Wake(pool, 1)
		names, _ := woken(places...)
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

func TestWhatASenderWasGivenCounts(t *testing.T) {
	t.Parallel()
	const pool = 1
	l := newLine()
	l.stand("a", sender.Usage{}, pool)
	b := l.stand("b", sender.Usage{}, pool)
	before := l.Given([]string{"a"})
	l.Took("a", 3)
	l.Learn(map[string]sender.Usage{"a": {Today: 10}}, before) // read meanwhile
	if got := l.usages["a"].Today; got != 13 {
		t.Errorf("a was given %d", got)
	}
	l.Wake(pool, 1)
	if names, _ := woken(b); len(names) != 1 {
		t.Error("the least used was not woken")
	}
}

func TestAWakeUpThatGaveNothingGoesToTheNext(t *testing.T) {
	t.Parallel()
	const pool = 1
	l := newLine()
	var places []*Waiter
	for i := range 2 * wokenMost {
		places = append(places, l.stand(string(rune('a'+i)), sender.Usage{Sort: float64(-i)}, pool))
	}
	tries := func() (names []string) {
		for {
			got, by := woken(places...)
			if len(got) == 0 {
				return names
			}
			names = append(names, got...)
			i := slices.IndexFunc(places, func(p *Waiter) bool { return p.appID == got[0] })
			places[i] = l.stand(got[0], places[i].usage.Usage, pool)
			l.Settle(got[0], by, false)
		}
	}
	l.Wake(pool, 1)
	if got := tries(); !slices.Equal(got, []string{"a", "b", "c", "d", "e", "f", "g", "h"}) {
		t.Errorf("first %v", got)
	}
	l.Wake(pool, 1) // what is new may be for those that got nothing of what was there
	if got := tries(); len(got) == 0 || got[0] != "a" {
		t.Errorf("of what is new %v", got)
	}
	l.hears(pool)
	if got := tries(); !slices.Equal(got, []string{"p"}) {
		t.Errorf("then %v", got)
	}
	l.hears(pool) // all have been tried
	if got := tries(); len(got) != wokenMost || got[0] != "a" {
		t.Errorf("after that %v", got)
	}
	// Something keeps them from it: even what is new is for others first.
	last := l.stand("q", sender.Usage{Sort: -100}, pool)
	l.hears(pool)
	tries()
	l.hears(pool)
	if got, by := woken(last); len(got) != 1 {
		t.Error("one that has not been tried was not woken")
	} else {
		last = l.stand("q", sender.Usage{Sort: -100}, pool)
		l.Settle("q", by, true)
	}
	l.Wake(pool, 1)
	if got, by := woken(last); len(got) != 1 {
		t.Error("it was not woken again")
	} else {
		l.Settle("q", by, true)
	}
	l.hears() // nothing is left
	l.Wake(pool, 1)
	got, by := woken(places...)
	if !slices.Equal(got, []string{"a"}) {
		t.Errorf("afterwards %v", got)
	}
	l.Settle("a", by, true)
	l.hears()
	if len(l.tries) != 0 {
		t.Errorf("it remembers %v", l.tries)
	}
}

// Work that somebody is about to take is not offered to the next by a poll that sees it still there.
func TestAPollLeavesWorkToWhoWasWokenForIt(t *testing.T) {
	t.Parallel()
	const pool = 1
	l := newLine()
	a, b := l.stand("a", sender.Usage{}, pool), l.stand("b", sender.Usage{}, pool)
	l.Wake(pool, 1)
	l.hears(pool)
	names, by := woken(a, b)
	if !slices.Equal(names, []string{"a"}) {
		t.Errorf("woken %v", names)
	}
	l.Settle("a", by, true)
	l.hears(pool)
	if names, _ := woken(b); len(names) != 1 {
		t.Error("what is left wakes nobody")
	}
}

func TestAPollAsksForThePoolsThatSomebodyWaitsFor(t *testing.T) {
	t.Parallel()
	l := newLine()
	l.stand("a", sender.Usage{}, 1, 2)
	l.stand("b", sender.Usage{}, 2, 3)
	asked := l.hears()
	slices.Sort(asked.Pools)
	if !slices.Equal(asked.Pools, []int64{1, 2, 3}) || asked.Walk {
		t.Errorf("asked %+v", asked)
	}
	// One that waits for many has the walk find them; those that wait for few are not kept waiting by it.
	var many []int64
	for pool := range int64(10_000) {
		many = append(many, pool)
	}
	wide := l.stand("wide", sender.Usage{}, many...)
	if asked = l.hears(); len(asked.Pools) != 3 || !asked.Walk {
		t.Errorf("asked %d pools, walk %t", len(asked.Pools), asked.Walk)
	}
	if !l.IsQuiet(map[int64]float64{7777: 0}) {
		t.Error("a walk that came to the end did not look into all")
	}
	// A walk that found as much as it may goes on where it ended.
	l.poll = func(context.Context, Question) (Finding, error) {
		return Finding{Pools: []int64{4000}, Next: 4000}, nil
	}
	l.pollOnce()
	if names, _ := woken(wide); len(names) != 1 {
		t.Error("it was not woken")
	}
	l.stand("wide", sender.Usage{}, many...)
	if asked = l.hears(); asked.After != 4000 || l.IsQuiet(map[int64]float64{7777: 0}) {
		t.Errorf("the next walk begins after %d", asked.After)
	}
	// However many wait for a few each, a poll looks into a bounded number of pools one by one.
	for i := range int64(3000) {
		l.stand(string(rune('a'+i)), sender.Usage{}, 20_000+2*i, 20_001+2*i)
	}
	if asked = l.hears(); len(asked.Pools) > probedMost+fewMost || !asked.Walk {
		t.Errorf("asked %d pools, walk %t", len(asked.Pools), asked.Walk)
	}
	if waits := maps.Keys(l.usages); len(slices.Collect(waits)) < 3000 {
		t.Error("somebody is not in line")
	}
}

func TestAChangeIsToldAlsoByAPollThatFails(t *testing.T) {
	t.Parallel()
	l := newLine()
	p := l.stand("app", sender.Usage{}, 1)
	l.poll = func(context.Context, Question) (Finding, error) { return Finding{IsChanged: true}, errors.New("away") }
	l.pollOnce()
	select {
	case <-p.changed:
	default:
		t.Error("whoever waits has not heard of it")
	}
}
