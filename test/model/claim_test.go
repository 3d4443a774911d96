package model

import (
	"cmp"
	"fmt"
	"math"
	"time"
)

// This file judges the result of a claim. The documents promise this order: by priority, then new tasks before retries, then fairly between companies, then in
// turns between the users of a company, then in the order of submission of each user.
//
// The documents do not promise the order of two tasks of different companies or users. So the model cannot predict the result of a claim, and only checks it.

// degree is how certain a statement is. The model is not always certain, because the service notices late that a sender has become silent.
type degree int

const (
	no degree = iota
	maybe
	yes
)

// isActive reports whether a sender takes its share: it is ready, and has polled recently and since it became ready. The service stores polls up to a quarter
// of silentAfter late. For some purposes, a report counts as a poll.
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

// rivals compares s with the other active senders in the routes of the pool. It reports how certain it is that one of them has the same sort (same) or a
// smaller sort (smaller), and can take the task: the task can be too large for it.
func (w *world) rivals(s *sender, x *task) (same, smaller degree) {
	p := w.pool(x)
	for _, r := range w.routesOf(p) {
		active := w.isActive(r.sender)
		if r.sender.maxCost(x) > r.sender.budget(w.now) {
			active = min(active, maybe)
		}
		switch {
		case r.sender == s:
		case r.sort == w.sortOf(s, p):
			same = max(same, active)
		case r.sort < w.sortOf(s, p):
			smaller = max(smaller, active)
		}
	}
	return same, smaller
}

// isOutranked reports whether a sender is only a backup for a task: another sender with a larger sort is available, and the task is not too large for this
// other sender.
func (w *world) isOutranked(s *sender, x *task) degree {
	p := w.pool(x)
	most := no
	for _, o := range w.senders {
		if o == s || !w.mayServe(o, p) || w.sortOf(o, p) <= w.sortOf(s, p) || !o.isAvailable(w.now) {
			continue
		}
		switch {
		case w.isRouted(p) && o.maxCost(x) <= o.budget(w.now) && o.routedAt.After(w.now.Add(-silentAfter*3/4)):
			most = yes
		case o.heard.After(w.now.Add(-silentAfter - seenApart - time.Second)): // the service stores polls of shared senders later
			most = max(most, maybe)
		}
	}
	return most
}

// urgency orders tasks. Tasks with a smaller urgency are claimed first.
type urgency struct{ priority, retries int }

func (u urgency) compare(o urgency) int {
	return cmp.Or(cmp.Compare(u.priority, o.priority), cmp.Compare(u.retries, o.retries))
}

// urgencies returns the smallest and the largest possible urgency of a task now. A task that has waited too long can count as more urgent, and does so after a
// sweep has moved it.
func (w *world) urgencies(t *task) (first, last urgency) {
	first, last = urgency{t.priority, t.retries}, urgency{t.priority, t.retries}
	if w.isAgedRetry(t) || t.retryAged { // retryAged remains true if a lease that was never started made the task due again
		first.retries = 0
	}
	if w.isAgedPriority(t) || t.prioAged || t.mayBeAged {
		first.priority = min(t.priority, agedPriority)
	}
	if t.prioAged {
		last.priority = min(t.priority, agedPriority)
	}
	if t.retryAged && !t.prioAged { // a sweep can change the retries without changing the priority
		last.retries = 0
	}
	return first, last
}

// offer is a task that a sender is allowed to claim.
type offer struct {
	task        *task
	pool        pool
	cost        int
	first, last urgency
	// surely is true if the claim must return the task when the quota suffices. If it is false, the claim can leave the task to another sender.
	surely bool
}

// offers returns the tasks that a sender is allowed to claim now.
func (w *world) offers(s *sender) map[*task]offer {
	offers := map[*task]offer{}
	for _, t := range w.tasks {
		p := w.pool(t)
		if !w.waits(t) || !w.mayServe(s, p) {
			continue
		}
		same, smaller := w.rivals(s, t)
		outranked := w.isOutranked(s, t)
		if outranked == yes {
			continue
		}
		o := offer{task: t, pool: p, cost: s.cost(t), surely: same == no && outranked == no}
		o.first, o.last = w.urgencies(t)
		// A task whose last lease failed or was not started goes to another active sender, until the task has waited too long.
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
	sender  *sender
	limit   int
	claimed []*task
	leases  []int64
	// unordered is true if the order of the claimed tasks is unknown. amongOthers is true if concurrent claims can have got the missing tasks.
	unordered, amongOthers bool
	toStart                *time.Duration // time limit for the start of the leases; nil: the leases need no start
}

// lease returns the duration of the leases of a claim.
func (c claim) lease() time.Duration {
	if c.toStart != nil {
		return min(*c.toStart, c.sender.lease)
	}
	return c.sender.lease
}

// judge returns an error if a claim returned other tasks than the sender was allowed to claim (offers).
func (w *world) judge(c claim, offers map[*task]offer) error {
	s, claimed := c.sender, c.claimed
	maxClaim, budget := s.maxClaimIn(w.now, c.limit, c.lease()), s.budget(w.now)
	got, spent := map[*task]bool{}, 0
	for i, t := range claimed {
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
		for _, before := range claimed[:i] {
			if !c.unordered && offers[before].isBehind(o) {
				return fmt.Errorf("%s came before %s, which goes before it", before.name, t.name)
			}
		}
	}
	if len(claimed) > maxClaim {
		return fmt.Errorf("claimed %d tasks, may claim %d", len(claimed), maxClaim)
	}
	if spent > max(0, budget) {
		return fmt.Errorf("claimed %d segments, may claim %d", spent, budget)
	}
	for t, o := range offers {
		if got[t] || !o.surely || c.amongOthers {
			continue
		}
		before, cost := 0, 0 // number and cost of the claimed tasks that are allowed to be claimed before this task
		for _, g := range claimed {
			if !offers[g].isBehind(o) {
				before, cost = before+1, cost+offers[g].cost
			}
		}
		if before < maxClaim && cost <= budget-o.cost && t.lastsUntil(w.now.Add(time.Duration(before)*s.interval)) {
			return fmt.Errorf("%s was not claimed, with room for %d of %d tasks and %s of %s segments before the claimed tasks",
				t.name, maxClaim-before, maxClaim, amount(budget-cost), amount(budget))
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

// whyNot returns the reason why a sender is not allowed to claim a task.
func (w *world) whyNot(s *sender, t *task) string {
	switch p := w.pool(t); {
	case t.status != pending:
		return fmt.Sprintf("its status is %d", t.status)
	case t.due.After(w.now):
		return "it is due at " + t.due.String()
	case w.holds(t):
		return "a switch holds it"
	case !w.waits(t):
		return "it expires too soon"
	case !w.mayServe(s, p):
		return "it belongs to " + p.String()
	case w.isOutranked(s, t) == yes:
		return "another sender of a larger sort is available"
	default:
		return "it failed with this sender, and another is ready"
	}
}

// take applies the result of a claim to the model.
func (w *world) take(c claim) {
	s, claimed, leases := c.sender, c.claimed, c.leases
	paced, spent := s.isPaced(), 0
	before := valueOf(s.balance)
	for i, t := range claimed {
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
	s.attempts += len(claimed)
	if len(claimed) == 0 || !paced {
		return
	}
	for u, window := range windows(w.now, s.zone) {
		s.used[units[u]+" "+window] += spent
	}
	s.took, s.tookAt = len(claimed), w.now
	if s.interval > 0 {
		s.next = w.now.Add(time.Duration(len(claimed)) * s.interval)
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

// ahead returns the minimum and the maximum number of tasks in the same pool that are claimed before a waiting task.
func (w *world) ahead(x *task) (minimum, maximum int) {
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
			maximum++
			if t.queued && of.isBehind(o) && !w.holds(t) {
				minimum++
			}
		}
	}
	return minimum, maximum
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
	case !s.polled.After(w.now.Add(-silentAfter * 3 / 4)): // the service possibly knows only an earlier poll, because it stores polls up to a quarter of silentAfter late
		return maybe
	case w.isRouted(p) && !s.routedAt.After(w.now.Add(-silentAfter*3/4)): // the sender had no route when it polled, and such polls are stored later
		return maybe
	}
	outranked := w.isOutranked(s, t)
	if outranked == yes {
		return no
	}
	same, smaller := w.rivals(s, t)
	if outranked == maybe || same != no || t.failedBy == s.no && smaller != no { // the sender is possibly ahead of its share, or the task failed with this sender
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
