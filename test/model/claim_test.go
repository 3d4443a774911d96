package model

import (
	"cmp"
	"fmt"
	"math"
	"time"
)

// The result of a claim. The documents promise an order by priority, then new tasks before retries, then fairness between companies, turns between
// the users of a company, and the order of submission of a user. They do not promise which of two tasks of different companies or users comes first.
// So the model does not predict the result of a claim, but judges it.

// degree is how certain something is. The service learns late that a sender has gone silent, so that the model is not always certain.
type degree int

const (
	no degree = iota
	maybe
	yes
)

// isActive reports whether a sender counts as taking its share: it is ready, and has polled lately and since it became ready. The service
// stores polls up to a quarter of silentAfter late, and for some purposes a report counts like a poll.
func (w *world) isActive(s *sender) degree {
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

// rivals reports whether an active sender of the same sort, or of a smaller sort, has a route of the pool.
func (w *world) rivals(s *sender, p pool) (same, smaller degree) {
	for _, r := range w.routesOf(p) {
		switch {
		case r.sender == s:
		case r.sort == w.sortOf(s, p):
			same = max(same, w.isActive(r.sender))
		case r.sort < w.sortOf(s, p):
			smaller = max(smaller, w.isActive(r.sender))
		}
	}
	return same, smaller
}

// isOutranked reports whether a sender is a backup for a task: another sender of a larger sort is available. A task that is too large for
// that sender does not wait for it for ever.
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
		case o.heard.After(w.now.Add(-silentAfter - seenApart - time.Second)): // polls of shared senders are stored later
			most = max(most, maybe)
		}
	}
	return most
}

// urgency orders tasks: the smaller urgency goes first.
type urgency struct{ priority, retries int }

func (u urgency) compare(o urgency) int {
	return cmp.Or(cmp.Compare(u.priority, o.priority), cmp.Compare(u.retries, o.retries))
}

// urgencies returns the smallest and the largest urgency that a task may have now: a task that has waited too long counts as more urgent,
// at the latest when a sweep has moved it.
func (w *world) urgencies(t *task) (first, last urgency) {
	first, last = urgency{t.priority, t.retries}, urgency{t.priority, t.retries}
	if w.isAgedRetry(t) || t.retryAged { // also if a lease that nobody started made it due again
		first.retries = 0
	}
	if w.isAgedPriority(t) || t.prioAged || t.mayBeAged {
		first.priority = min(t.priority, agedPriority)
	}
	if t.prioAged {
		last.priority = min(t.priority, agedPriority)
	}
	if t.retryAged && !t.prioAged { // the sweep may do one of the two at a time
		last.retries = 0
	}
	return first, last
}

// offer is a task that a sender may claim.
type offer struct {
	task        *task
	pool        pool
	cost        int
	first, last urgency
	// surely: the claim must take the task if the sender has room for it. Otherwise another sender may be due to take it.
	surely bool
}

// offers returns the tasks that a sender may claim now.
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
		// A task that failed, or was not started, goes to another active sender, if one exists, until it has waited too long.
		if w.isRouted(p) && t.failedBy == s.no {
			if same == yes && t.due.Add(retryMaxWait).After(w.now) {
				continue
			}
			o.surely = o.surely && smaller == no
		}
		offers[t] = o
	}
	return offers
}

// claim is a claim of a sender and its result.
type claim struct {
	sender *sender
	limit  int
	given  []*task
	leases []int64
	// unordered: the order of given is not known. amongOthers: other claims ran at the same time and may hold what is missing.
	unordered, amongOthers bool
	toStart                *time.Duration // the leases must be started within this time; nil: they need no start
}

// lease returns how long the leases of a claim last.
func (c claim) lease() time.Duration {
	if c.toStart != nil {
		return min(*c.toStart, c.sender.lease)
	}
	return c.sender.lease
}

// judge reports what is wrong with the result of a claim, compared with what the sender could claim.
func (w *world) judge(c claim, offers map[*task]offer) error {
	s, given := c.sender, c.given
	most, budget := s.mostIn(w.now, c.limit, c.lease()), s.budget(w.now)
	got, spent := map[*task]bool{}, 0
	for i, t := range given {
		o, offered := offers[t]
		switch {
		case got[t]:
			return fmt.Errorf("%s was claimed twice", t.name)
		case !offered:
			return fmt.Errorf("%s may not be claimed: %s", t.name, w.whyNot(s, t))
		}
		got[t] = true
		spent += o.cost
		if !c.unordered && !t.lastsUntil(w.now.Add(time.Duration(i)*s.interval-time.Microsecond)) {
			return fmt.Errorf("%s is number %d, and expires before it can be sent", t.name, i+1)
		}
		for _, before := range given[:i] {
			if !c.unordered && offers[before].isBehind(o) {
				return fmt.Errorf("%s came before %s, which goes before it", before.name, t.name)
			}
		}
	}
	if len(given) > most {
		return fmt.Errorf("claimed %d tasks, may claim %d", len(given), most)
	}
	if spent > max(0, budget) {
		return fmt.Errorf("claimed %d segments, may claim %d", spent, budget)
	}
	for t, o := range offers {
		if got[t] || !o.surely || c.amongOthers {
			continue
		}
		before, cost := 0, 0 // of the tasks that may go before this task
		for _, g := range given {
			if !offers[g].isBehind(o) {
				before, cost = before+1, cost+offers[g].cost
			}
		}
		if before < most && cost <= budget-o.cost && t.lastsUntil(w.now.Add(time.Duration(before)*s.interval)) {
			return fmt.Errorf("%s was left, with room for %d of %d tasks and %s of %s segments before the claimed tasks",
				t.name, most-before, most, amount(budget-cost), amount(budget))
		}
	}
	return nil
}

// isBehind reports whether o must not be claimed before other.
func (o offer) isBehind(other offer) bool {
	if c := o.first.compare(other.last); c != 0 {
		return c > 0
	}
	a, b := o.task, other.task
	return o.first == o.last && other.first == other.last && o.pool == other.pool && a.company == b.company && a.by == b.by &&
		a.queued && b.queued && a.rank > 0 && b.rank > 0 && a.rank > b.rank
}

// whyNot says why a sender may not claim a task.
func (w *world) whyNot(s *sender, t *task) string {
	switch p := w.pool(t); {
	case t.status != pending:
		return fmt.Sprintf("its status is %d", t.status)
	case t.due.After(w.now):
		return "it is due at " + t.due.String()
	case w.holds(t):
		return "a switch holds it"
	case !w.waits(t):
		return "its time is over"
	case !w.mayServe(s, p):
		return "it belongs to " + p.String()
	case w.isOutranked(s, t) == yes:
		return "another sender of a larger sort is available"
	default:
		return "it failed with this sender, and another is ready"
	}
}

// take applies the result of a claim.
func (w *world) take(c claim) {
	s, given, leases := c.sender, c.given, c.leases
	paced, spent := s.isPaced(), 0
	before := valueOf(s.balance)
	for i, t := range given {
		w.give(t, s, leases[i])
		cost := s.cost(t)
		spent += cost
		t.until, t.toStart = t.bounded(w.now.Add(c.lease())), c.toStart != nil
		if paced {
			t.charged = cost
		}
		if s.balance != nil {
			s.change(-cost, leases[i])
			t.paid = cost
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

// ahead returns how many tasks of its pool go before a waiting task: at least and at most.
func (w *world) ahead(x *task) (least, most int) {
	offerOf := func(t *task) offer {
		o := offer{task: t, pool: w.pool(t)}
		o.first, o.last = w.urgencies(t)
		return o
	}
	of := offerOf(x)
	for _, t := range w.tasks {
		if o := offerOf(t); t == x || t.status != pending || o.pool != of.pool || t.due.After(w.now) {
			continue
		} else if !o.isBehind(of) {
			most++
			if t.queued && of.isBehind(o) && !w.holds(t) {
				least++
			}
		}
	}
	return least, most
}

// polls records a poll of a sender.
func (w *world) polls(s *sender) {
	s.polled, s.heard = w.now, w.now
	for _, r := range w.routes {
		if r.on && r.sender == s && s.isOn() {
			s.routedAt = w.now
		}
	}
}

// canTake reports whether an explanation should say that a sender can take a task.
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
	case !s.polled.After(w.now.Add(-silentAfter * 3 / 4)): // it may count from an earlier poll: the last is stored up to a quarter of silentAfter late
		return maybe
	case w.isRouted(p) && !s.routedAt.After(w.now.Add(-silentAfter*3/4)): // it had no route when it polled: such polls are stored later
		return maybe
	}
	outranked := w.isOutranked(s, t)
	if outranked == yes {
		return no
	}
	same, smaller := w.rivals(s, p)
	if outranked == maybe || same != no || t.failedBy == s.no && smaller != no { // the sender may be ahead of its share, or the task failed with it
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
