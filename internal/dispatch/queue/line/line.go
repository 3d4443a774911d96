// Package line keeps the senders that wait at this server for tasks, and decides which of them is woken for a new task. One poll of the
// database serves all of them. The package does not use the database itself: its owner polls.
package line

import (
	"cmp"
	"container/list"
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"lksms/internal/dispatch/sender"
)

const (
	// pollEvery is the time between polls of the database while senders wait. A poll finds tasks that other servers stored, and tasks
	// that came due. A task that this server queues wakes a sender at once.
	pollEvery = 200 * time.Millisecond
	// usageEvery is how many polls apart the usage of the waiting senders is read again: every two seconds.
	usageEvery = 10
	// maxWoken bounds the senders that one announcement of tasks wakes, those included that are tried because others got nothing.
	maxWoken = 8
	// maxProbed bounds the pools that one poll probes one by one; the last sender may exceed it by its own pools. A walk finds the
	// tasks for the other senders, and for senders that serve more than fewPools pools.
	maxProbed, fewPools = 500, 100
)

// Question is the input of a poll. A poll without pools and walk still reports changes.
type Question struct {
	Pools []int64 // pools to probe for queued and due tasks
	Walk  bool    // also find other pools, by id, with queued tasks; a due task is found only after a sweep has queued it
	After int64   // the walk begins after this pool
}

// Finding is the result of a poll.
type Finding struct {
	Pools     []int64 // pools with tasks
	Next      int64   // the next walk begins after this pool; 0: this walk came to the end
	All       bool    // no other pool has queued tasks
	IsChanged bool    // the pools or intervals of senders may have changed
}

// Line holds the waiting senders.
type Line struct {
	poll      func(context.Context, Question) (Finding, error)
	readUsage func(ctx context.Context, senderNos ...string) error

	mu        sync.Mutex
	waiters   list.List            // of *Waiter, in the order in which they joined
	sleeping  map[*Waiter]struct{} // claims that wait for the end of their interval
	changed   chan struct{}        // closed when the pools or intervals of senders may have changed
	usages    map[string]*usage    // by sender_no
	polling   bool                 // pollWhileAnyWait runs
	polls     int                  // number of polls begun
	announced map[int64]int        // pools that may have tasks, and the value of polls when that was learned
	polledAt  time.Time            // when the last successful poll began
	probed    map[int64]struct{}   // pools that it probed
	all       bool                 // its Finding.All
	after     int64                // Question.After of the next walk
	tries     map[int64]*tries     // by pool
	done      sync.WaitGroup

	closing sync.Once
	closed  chan struct{}
}

// New returns a Line. poll polls the database. readUsage reads the usage of senders between calls of Given and Learn.
func New(poll func(context.Context, Question) (Finding, error), readUsage func(context.Context, ...string) error) *Line {
	return &Line{
		poll: poll, readUsage: readUsage, usages: map[string]*usage{}, announced: map[int64]int{}, probed: map[int64]struct{}{},
		tries: map[int64]*tries{}, sleeping: map[*Waiter]struct{}{}, closed: make(chan struct{}), changed: make(chan struct{}),
	}
}

// Wait waits until polling has ended. Call Close before.
func (l *Line) Wait() { l.done.Wait() }

// Count returns how many claims wait for tasks, or for the end of their interval.
func (l *Line) Count() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n = len(l.sleeping)
	for e := l.waiters.Front(); e != nil; e = e.Next() {
		if !e.Value.(*Waiter).anyPool {
			n++
		}
	}
	return n
}

// SenderNos returns the senders that wait for tasks, and those that wait for the end of their interval.
func (l *Line) SenderNos() (waiting, sleeping []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for e := l.waiters.Front(); e != nil; e = e.Next() {
		if w := e.Value.(*Waiter); !w.anyPool { // otherwise it claims now
			waiting = append(waiting, w.senderNo)
		}
	}
	for w := range l.sleeping {
		sleeping = append(sleeping, w.senderNo)
	}
	return waiting, sleeping
}

// Waiter is a claim that waits.
type Waiter struct {
	element  *list.Element // nil: it waits no longer
	senderNo string
	anyPool  bool              // its pools are not known yet: it can be woken for any pool
	pools    map[int64]float64 // pools that the sender serves, with its sort in each
	woken    chan WakeUp       // holds one wake-up
	changed  chan struct{}     // Line.changed when the waiter joined
	usage    *usage
}

// WakeUp wakes a waiter because a pool may have tasks for it.
type WakeUp struct {
	pool int64
	left int // number of others that are tried if the sender gets nothing
}

// usage is the usage of a sender as it was read, and the tasks that this server gave the sender since.
type usage struct {
	sender.Usage
	at    time.Time // when it was read; zero: not yet
	given int64     // tasks since the entry exists
}

// tries records the results of the senders that were woken for a pool, by sender_no.
type tries struct {
	underway int                 // woken senders that have not claimed yet
	missed   map[string]struct{} // senders that got nothing since the last poll that found no tasks
	hindered map[string]struct{} // those of missed for which tasks stayed from poll to poll: something keeps them from taking these
	found    bool                // the last poll of the pool found tasks
}

// forget drops the results, but not the senders that have not claimed yet.
func (t *tries) forget() {
	clear(t.missed)
	clear(t.hindered)
	t.found = false
}

// serves reports whether the waiter may be woken for a pool.
func (p *Waiter) serves(pool int64) bool {
	_, serves := p.pools[pool]
	return p.anyPool || serves
}

// isBefore reports whether p is woken for a pool before o, which joined earlier.
func (p *Waiter) isBefore(o *Waiter, pool int64) bool {
	if p.usage.at.IsZero() || o.usage.at.IsZero() {
		return !p.usage.at.IsZero()
	}
	return cmp.Or(cmp.Compare(o.sort(pool), p.sort(pool)), p.usage.Compare(o.usage.Usage)) < 0
}

func (p *Waiter) sort(pool int64) float64 {
	if sort, known := p.pools[pool]; known {
		return sort
	}
	return p.usage.Sort
}

// Join adds a claim of a sender to the waiters. Until Narrow is called, it can be woken for any pool.
func (l *Line) Join(senderNo string) *Waiter {
	p := &Waiter{senderNo: senderNo, anyPool: true, woken: make(chan WakeUp, 1)}
	l.mu.Lock()
	defer l.mu.Unlock()
	p.changed = l.changed
	p.usage = l.usages[senderNo]
	if p.usage == nil {
		p.usage = &usage{}
		l.usages[senderNo] = p.usage
	}
	p.element = l.waiters.PushBack(p)
	l.startPolling()
	return p
}

func (l *Line) startPolling() {
	if !l.polling {
		l.polling = true
		l.done.Go(l.pollWhileAnyWait)
	}
}

// Narrow sets the pools for which a waiter is woken, with the sort of the sender in each.
func (l *Line) Narrow(p *Waiter, pools map[int64]float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.anyPool, p.pools = false, pools
}

// NeedsUsage reports whether the usage of a waiting sender was not read yet, or too long ago.
func (l *Line) NeedsUsage(p *Waiter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(p.usage.at) > 2*usageEvery*pollEvery
}

// Given is how many tasks this server gave senders until a moment, by entry of usages: an entry that was made later counts from zero.
type Given map[*usage]int64

// Given returns how many tasks this server gave senders until now, for Learn.
func (l *Line) Given(senderNos []string) Given {
	l.mu.Lock()
	defer l.mu.Unlock()
	given := make(Given, len(senderNos))
	for _, senderNo := range senderNos {
		if known := l.usages[senderNo]; known != nil {
			given[known] = known.given
		}
	}
	return given
}

// Learn stores the usage of senders, and adds the tasks that they were given since before, which Given returned before the usage was read.
func (l *Line) Learn(read map[string]sender.Usage, before Given) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for senderNo, u := range read {
		if known := l.usages[senderNo]; known != nil {
			known.Usage, known.at = u.After(known.given-before[known]), time.Now()
		}
	}
}

// Took counts tasks that this server gave a sender.
func (l *Line) Took(senderNo string, tasks int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.usages[senderNo]; known != nil {
		known.given += int64(tasks)
		known.Usage = known.After(int64(tasks))
	}
}

// Await waits until p is woken, or until its pools or interval may have changed. again: the caller should claim again. It is false if
// enough, Close or the end of ctx came before. by is the wake-up, if any. Afterwards p is no longer a waiter.
func (l *Line) Await(ctx context.Context, p *Waiter, enough <-chan time.Time) (by *WakeUp, again bool) {
	changed, soon := p.changed, (<-chan time.Time)(nil)
	for {
		select {
		case w := <-p.woken:
			if !p.serves(w.pool) { // the wake-up came before Narrow
				l.PassOn(w)
				return nil, true
			}
			return &w, true
		case <-changed:
			changed, soon = nil, l.soon()
			continue
		case <-soon:
			l.Leave(p)
			return nil, true
		case <-enough:
		case <-l.closed:
		case <-ctx.Done():
		}
		l.Leave(p)
		return nil, false
	}
}

// soon fires after a random time, of at most a millisecond for each waiting claim. All claims notice a change at the same time, and
// without the delay all would query the database at the same time.
func (l *Line) soon() <-chan time.Time {
	l.mu.Lock()
	waiting := l.waiters.Len() + len(l.sleeping)
	l.mu.Unlock()
	return time.After(rand.N(time.Duration(waiting+1) * time.Millisecond)) //nolint:gosec // no secret depends on it
}

// Sleep removes p from the waiters, and waits for d or until the interval may have changed. It reports whether to claim again; false if
// enough, Close or the end of ctx came before.
func (l *Line) Sleep(ctx context.Context, p *Waiter, d time.Duration, enough <-chan time.Time) bool {
	l.Leave(p)
	l.mu.Lock()
	l.sleeping[p] = struct{}{}
	l.startPolling()
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.sleeping, p)
	}()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-p.changed:
	case <-enough:
		return false
	case <-l.closed:
		return false
	case <-ctx.Done():
		return false
	}
	select {
	case <-l.soon():
		return true
	case <-enough:
	case <-l.closed:
	case <-ctx.Done():
	}
	return false
}

// Leave removes p from the waiters. A wake-up that p has not taken goes to the next waiter.
func (l *Line) Leave(p *Waiter) {
	l.mu.Lock()
	l.remove(p)
	l.mu.Unlock()
	select {
	case w := <-p.woken:
		l.PassOn(w)
	default:
	}
}

// remove takes p out of the waiters, if it has not left yet.
func (l *Line) remove(p *Waiter) {
	if p.element != nil {
		l.waiters.Remove(p.element)
		p.element = nil
	}
}

// Wake announces n new tasks in a pool; n is at least 1. It wakes up to n of the waiters that serve the pool.
func (l *Line) Wake(pool int64, n int) {
	n = min(n, maxWoken)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wakeAll(l.first(pool, n, nil), pool, maxWoken/n-1)
}

// PassOn gives an unused wake-up to the next waiter.
func (l *Line) PassOn(w WakeUp) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.triesOf(w.pool).underway--
	l.wakeAll(l.first(w.pool, 1, nil), w.pool, w.left)
}

// Settle records whether a woken sender got tasks. If it got none, the next waiter is woken: a limit, its share or a quicker sender may
// keep one sender from the tasks, but must not keep the others from them.
func (l *Line) Settle(senderNo string, w WakeUp, got bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.triesOf(w.pool)
	t.underway--
	if got {
		delete(t.missed, senderNo)
		delete(t.hindered, senderNo)
		return
	}
	t.missed[senderNo] = struct{}{}
	if w.left > 0 {
		l.wakeAll(l.first(w.pool, 1, t.missed), w.pool, w.left-1)
	}
}

func (l *Line) triesOf(pool int64) *tries {
	t := l.tries[pool]
	if t == nil {
		t = &tries{missed: map[string]struct{}{}, hindered: map[string]struct{}{}}
		l.tries[pool] = t
	}
	return t
}

// wakeAll wakes waiters for a pool. For each that gets nothing, up to left others are tried.
func (l *Line) wakeAll(waiters []*Waiter, pool int64, left int) {
	l.announced[pool] = l.polls
	for _, p := range waiters {
		l.remove(p)
		l.triesOf(pool).underway++
		p.woken <- WakeUp{pool, left}
	}
}

// first returns the first n waiters for a pool, in their order. It leaves out the hindered senders, and the senders in without.
func (l *Line) first(pool int64, n int, without map[string]struct{}) []*Waiter {
	var hindered map[string]struct{}
	if t := l.tries[pool]; t != nil {
		hindered = t.hindered
	}
	var best []*Waiter // n at most, in order
	for e := l.waiters.Front(); e != nil; e = e.Next() {
		p := e.Value.(*Waiter)
		if !p.serves(pool) || has(hindered, p.senderNo) || has(without, p.senderNo) {
			continue
		}
		at := len(best)
		for at > 0 && p.isBefore(best[at-1], pool) {
			at--
		}
		if at < n {
			best = slices.Insert(best, at, p)
			best = best[:min(n, len(best))]
		}
	}
	return best
}

func has(set map[string]struct{}, senderNo string) bool {
	_, found := set[senderNo]
	return found
}

// Close ends every wait, now and from now on.
func (l *Line) Close() { l.closing.Do(func() { close(l.closed) }) }

// pollWhileAnyWait polls the database until no sender waits.
func (l *Line) pollWhileAnyWait() {
	for {
		select {
		case <-l.closed:
			return
		case <-time.After(pollEvery):
		}
		if l.stopIfIdle() {
			return
		}
		l.pollOnce()
	}
}

// stopIfIdle ends polling if no sender waits, and reports whether it did. Woken senders that have not claimed yet stay counted.
func (l *Line) stopIfIdle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiters.Len() > 0 || len(l.sleeping) > 0 {
		return false
	}
	l.polling = false
	maps.DeleteFunc(l.tries, func(_ int64, t *tries) bool {
		t.forget()
		return t.underway == 0
	})
	clear(l.usages)
	return true
}

// pollOnce polls the database, and wakes a waiter for each pool with tasks, unless a woken sender is about to claim there. If the poll
// fails, the next one repeats it; claims report the error.
func (l *Line) pollOnce() {
	l.mu.Lock()
	l.polls++
	asked, due := l.question(), l.usageDue()
	l.mu.Unlock()
	began := time.Now()
	found, err := l.poll(context.Background(), asked)
	l.mu.Lock()
	if found.IsChanged { // a change is reported once, so it counts even if the poll failed after that
		close(l.changed)
		l.changed = make(chan struct{})
	}
	if err != nil {
		l.mu.Unlock()
		return
	}
	l.polledAt, l.after, l.all = began, found.Next, found.All
	clear(l.probed)
	for _, pool := range asked.Pools {
		l.probed[pool] = struct{}{}
	}
	maps.DeleteFunc(l.announced, func(_ int64, poll int) bool { return poll < l.polls })
	l.wakeFor(found.Pools)
	l.mu.Unlock()
	if len(due) > 0 {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = l.readUsage(ctx, due...) // after an error, the order follows the usage that was read before
	}
}

// wakeFor wakes a waiter for each pool in which the last poll found tasks, unless a woken sender is about to claim there. Senders that
// got nothing although two polls in a row found tasks come after all others.
func (l *Line) wakeFor(found []int64) {
	work := make(map[int64]struct{}, len(found))
	for _, pool := range found {
		work[pool] = struct{}{}
	}
	maps.DeleteFunc(l.tries, func(pool int64, t *tries) bool {
		if _, hasWork := work[pool]; !hasWork && l.checked(pool) {
			t.forget()
		}
		return t.underway == 0 && len(t.missed) == 0 && !t.found
	})
	for pool := range work {
		l.announced[pool] = l.polls
		t := l.triesOf(pool)
		if t.found {
			maps.Copy(t.hindered, t.missed)
		}
		t.found = true
		if t.underway > 0 {
			continue
		}
		next := l.first(pool, 1, t.missed)
		if len(next) == 0 { // all have been tried
			clear(t.missed)
			clear(t.hindered)
			next = l.first(pool, 1, nil)
		}
		l.wakeAll(next, pool, maxWoken-1)
	}
}

// question returns the input of the next poll.
func (l *Line) question() (w Question) {
	pools := map[int64]struct{}{}
	for e := l.waiters.Front(); e != nil; e = e.Next() {
		p := e.Value.(*Waiter)
		if len(p.pools) > fewPools || len(pools) > maxProbed {
			w.Walk = true
			continue
		}
		for pool := range p.pools {
			pools[pool] = struct{}{}
		}
	}
	if w.Walk {
		w.After = l.after
	}
	w.Pools = slices.Collect(maps.Keys(pools))
	return w
}

// usageDue returns the senders whose usage must be read again, and drops the usage of senders that have not waited for a minute.
func (l *Line) usageDue() (senderNos []string) {
	if l.polls%usageEvery != 0 || l.waiters.Len() < 2 {
		return nil
	}
	waiting := map[string]struct{}{}
	for e := l.waiters.Front(); e != nil; e = e.Next() {
		waiting[e.Value.(*Waiter).senderNo] = struct{}{}
	}
	maps.DeleteFunc(l.usages, func(senderNo string, u *usage) bool {
		_, waits := waiting[senderNo]
		return !waits && time.Since(u.at) > time.Minute
	})
	return slices.Collect(maps.Keys(waiting))
}

// checked reports whether the last successful poll would have found tasks in a pool.
func (l *Line) checked(pool int64) bool {
	_, probed := l.probed[pool]
	return probed || l.all
}

// IsQuiet reports whether a recent poll found no tasks in pools, and no task was announced since. A task that comes now wakes the
// senders that have joined.
func (l *Line) IsQuiet(pools map[int64]float64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.polledAt) > 2*pollEvery {
		return false
	}
	for pool := range pools {
		if _, announced := l.announced[pool]; announced || !l.checked(pool) {
			return false
		}
	}
	return true
}
