package model

import (
	"cmp"
	"fmt"
	"math"
	"time"
)

// What a claim may give. The documents promise an order by priority, then new before retries, then fairness between companies
// and the order of submission within one; they do not promise which of two tasks of different companies comes first. So the
// model does not say what a claim gives but judges what it gave.

// degree says how surely something holds. The service learns late who has gone silent, so the model does not always know.
type degree int

const (
	no degree = iota
	maybe
	yes
)

// isThere tells whether a sender counts as one that takes its part: it is ready, and polled since it became so and lately. The
// service notes polls a quarter of the time late, and reports count for some purposes.
func (w *world) isThere(s *sender) degree {
	switch {
	case !s.isReady(w.now):
		return no
	case s.routedAt.After(w.now.Add(-silentAfter*3/4)) && !s.routedAt.Before(s.next):
		return yes
	case s.heard.After(w.now.Add(-silentAfter - time.Second)):
		return maybe
	default:
		return no
	}
}

// rivals tell whether another sender of the same sort, or one of a smaller sort, takes its part of a pool that routes name.
func (w *world) rivals(s *sender, p pool) (same, smaller degree) {
	for _, r := range w.routesOf(p) {
		switch {
		case r.sender == s:
		case r.sort == w.sortOf(s, p):
			same = max(same, w.isThere(r.sender))
		case r.sort < w.sortOf(s, p):
			smaller = max(smaller, w.isThere(r.sender))
		}
	}
	return same, smaller
}

// isOutranked tells whether a sender is a backup for a task: another of a larger sort is available. What is too large for that one
// does not wait for it for ever.
func (w *world) isOutranked(s *sender, x *task) degree {
	p := w.pool(x)
	most := no
	for _, o := range w.senders {
		if o == s || !w.mayServe(o, p) || w.sortOf(o, p) <= w.sortOf(s, p) || !o.isAvailable(w.now) {
			continue
		}
		switch {
		case w.isRouted(p) && o.costAtMost(x) <= o.budget(w.now) && o.routedAt.After(w.now.Add(-silentAfter*3/4)):
			most = yes
		case o.heard.After(w.now.Add(-silentAfter - seenApart - time.Second)): // the polls of shared senders are noted later
			most = max(most, maybe)
		}
	}
	return most
}

// urgency orders tasks: the smaller goes first.
type urgency struct{ priority, retries int }

func (u urgency) compare(o urgency) int {
	return cmp.Or(cmp.Compare(u.priority, o.priority), cmp.Compare(u.retries, o.retries))
}

// urgencies are the first and the last place that a task may have: what has waited too long counts as more urgent, at the
// latest when a sweep has moved it.
func (w *world) urgencies(t *task) (first, last urgency) {
	first, last = urgency{t.priority, t.retries}, urgency{t.priority, t.retries}
	if w.isAgedRetry(t) {
		first.retries = 0
	}
	if w.isAgedPriority(t) {
		first.priority = 0
	}
	if t.prioAged {
		last.priority = 0
	}
	if t.retryAged && !t.prioAged { // of the two, the sweep may do one at a time
		last.retries = 0
	}
	return first, last
}

// offer is a task that a sender may be given.
type offer struct {
	task        *task
	pool        pool
	cost        int
	first, last urgency
	// surely says that it must not be left while there is room; otherwise another sender may have a part in it.
	surely bool
}

// offers are the tasks that a sender may be given now.
func (w *world) offers(s *sender) map[*task]offer {
	offers := map[*task]offer{}
	for _, t := range w.tasks {
		p := w.pool(t)
		if !w.waits(t) || !w.mayServe(s, p) {
			continue
		}
		same, smaller := w.rivals(s, p)
		outranked := w.isOutranked(s, t)
		if outranked == yes {
			continue
		}
		o := offer{task: t, pool: p, cost: s.cost(t), surely: same == no && outranked == no}
		o.first, o.last = w.urgencies(t)
		// A retry goes to another sender than the one that failed, if there is one, until it has waited for too long.
		if w.isRouted(p) && t.retries > 0 && t.failedBy == s.no {
			if same == yes && !w.isAgedRetry(t) {
				continue
			}
			o.surely = o.surely && smaller == no
		}
		offers[t] = o
	}
	return offers
}

// claim is what a sender claimed and was given.
type claim struct {
	sender *sender
	limit  int
	given  []*task
	leases []int64
	// unordered: it is not known in which order; amongOthers: others claimed at the same time, and had what is missing in their hands.
	unordered, amongOthers bool
}

// judge tells what is wrong with what a claim gave of what was offered.
func (w *world) judge(c claim, offers map[*task]offer) error {
	s, given := c.sender, c.given
	most, budget := s.most(w.now, c.limit), s.budget(w.now)
	got, spent := map[*task]bool{}, 0
	for i, t := range given {
		o, offered := offers[t]
		switch {
		case got[t]:
			return fmt.Errorf("%s was given twice", t.name)
		case !offered:
			return fmt.Errorf("%s is not for it: %s", t.name, w.whyNot(s, t))
		}
		got[t] = true
		spent += o.cost
		for _, before := range given[:i] {
			if !c.unordered && offers[before].isBehind(o) {
				return fmt.Errorf("%s came before %s, which goes first", before.name, t.name)
			}
		}
	}
	if len(given) > most {
		return fmt.Errorf("%d tasks, it may have %d", len(given), most)
	}
	if spent > max(0, budget) {
		return fmt.Errorf("%d segments, it may have %d", spent, budget)
	}
	for t, o := range offers {
		if got[t] || !o.surely || c.amongOthers {
			continue
		}
		before, cost := 0, 0 // of what may go before it
		for _, g := range given {
			if !offers[g].isBehind(o) {
				before, cost = before+1, cost+offers[g].cost
			}
		}
		if before < most && cost <= budget-o.cost {
			return fmt.Errorf("%s was left, with room for %d of %d tasks and %s of %s segments before what was given",
				t.name, most-before, most, amount(budget-cost), amount(budget))
		}
	}
	return nil
}

// isBehind tells whether o must not be given before other.
func (o offer) isBehind(other offer) bool {
	if c := o.first.compare(other.last); c != 0 {
		return c > 0
	}
	a, b := o.task, other.task
	return o.first == o.last && other.first == other.last && o.pool == other.pool && a.company == b.company &&
		a.queued && b.queued && a.place > 0 && b.place > 0 && a.place > b.place
}

// whyNot says why a task is not for a sender.
func (w *world) whyNot(s *sender, t *task) string {
	switch p := w.pool(t); {
	case t.status != pending:
		return fmt.Sprintf("its status is %d", t.status)
	case t.due.After(w.now):
		return "it is due at " + t.due.String()
	case w.isOver(t):
		return "its time is over"
	case !w.mayServe(s, p):
		return "it belongs to " + p.String()
	case w.isOutranked(s, t) == yes:
		return "another of a larger sort is available"
	default:
		return "it failed there, and another is ready"
	}
}

// take carries out what a claim gave.
func (w *world) take(c claim) {
	s, given, leases := c.sender, c.given, c.leases
	paced, spent := s.isPaced(), 0
	before := valueOf(s.balance)
	for i, t := range given {
		w.give(t, s, leases[i])
		cost := s.cost(t)
		spent += cost
		if s.balance != nil {
			s.change(-cost, leases[i])
		}
	}
	s.attempts += len(given)
	if len(given) == 0 || !paced {
		return
	}
	for u, window := range windows(w.now, s.zone) {
		s.used[units[u]+" "+window] += spent
	}
	s.took, s.tookAt = len(given), w.now
	if s.interval > 0 {
		s.next = w.now.Add(time.Duration(len(given)) * s.interval)
	}
	if s.balance != nil {
		for _, mark := range []struct {
			name  string
			level *int
		}{{"sender.low_warning", s.lowWarning}, {"sender.low_switch", s.lowSwitch}} {
			if mark.level != nil && before > *mark.level && *s.balance <= *mark.level {
				s.events = append(s.events, mark.name)
			}
		}
	}
}

// ahead tells how many tasks of its pool go before one that is in line: at least and at most.
func (w *world) ahead(x *task) (least, most int) {
	place := func(t *task) offer {
		o := offer{task: t, pool: w.pool(t)}
		o.first, o.last = w.urgencies(t)
		return o
	}
	of := place(x)
	for _, t := range w.tasks {
		if o := place(t); t == x || t.status != pending || o.pool != of.pool || t.due.After(w.now) {
			continue
		} else if !o.isBehind(of) {
			most++
			if t.queued && of.isBehind(o) {
				least++
			}
		}
	}
	return least, most
}

// polls notes that a sender asked.
func (w *world) polls(s *sender) {
	s.polled, s.heard = w.now, w.now
	for _, r := range w.routes {
		if r.on && r.sender == s && s.isOn() {
			s.routedAt = w.now
		}
	}
}

// canTake tells whether an explanation says that a sender can take a task.
func (w *world) canTake(s *sender, t *task) degree {
	p := w.pool(t)
	switch {
	case !s.isReady(w.now):
		return no
	case s.cost(t) > s.budget(w.now):
		return no
	case s.polled.Before(w.now.Add(-silentAfter - seenApart)), s.polled.IsZero():
		if s.heard.After(s.polled) {
			return maybe
		}
		return no
	case s.polled.Before(w.now.Add(-silentAfter + time.Second)):
		return maybe
	}
	outranked := w.isOutranked(s, t)
	if outranked == yes {
		return no
	}
	same, smaller := w.rivals(s, p)
	if outranked == maybe || same != no || t.failedBy == s.no && smaller != no { // ahead of the others, or it failed there
		return maybe
	}
	return yes
}

func amount(n int) string {
	if n > math.MaxInt/2 {
		return "any"
	}
	return fmt.Sprint(n)
}
