// Package line stores the senders that wait at this server for tasks. It decides which sender is woken for a new task. One poll of the database serves all
// waiting senders. The package does not read the database itself: its owner passes functions that read the database.
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
	// pollEvery is the time between two polls of the database while senders wait. A poll finds tasks that other servers stored and tasks that became
	// due. A task that this server queues wakes a sender at once.
	pollEvery = 200 * time.Millisecond
	// usageEvery is the number of polls between two reads of the usage of waiting senders. The time between the reads is two seconds.
	usageEvery = 10
	// maxWoken is the maximum number of senders that one announcement of tasks wakes. Senders that are woken because another sender received no task
	// count, too.
	maxWoken = 8
	// maxProbed is the maximum number of pools that one poll probes individually. The last sender can exceed this number with its own pools. Senders
	// with more than fewPools pools, and senders for which no probe is left, are served by a walk over all pools.
	maxProbed, fewPools = 500, 100
)

// Question is the input of a poll. A poll without pools and without a walk still reports changes.
type Question struct {
	Pools []int64 // pools to probe for queued and due tasks
	Walk  bool    // also search the other pools for queued tasks, in the order of their ids; a due task is found only after a sweep has queued it
	After int64   // the walk begins after this pool id
}

// Finding is the result of a poll.
type Finding struct {
	Pools     []int64 // pools with tasks
	Next      int64   // the next walk begins after this pool id; 0: this walk reached the end
	All       bool    // no other pool contains queued tasks
	IsChanged bool    // pools or intervals of senders possibly changed
}

// Line contains the waiting senders.
type Line struct {
	poll      func(context.Context, Question) (Finding, error)
	readUsage func(ctx context.Context, senderNos ...string) error

	mu        sync.Mutex
	waiters   list.List            // elements are *Waiter, in the order of Join
	sleeping  map[*Waiter]struct{} // claims that wait for the end of their sender's interval
	changed   chan struct{}        // closed when pools or intervals of senders possibly changed
	usages    map[string]*usage    // by sender_no
	polling   bool                 // pollWhileAnyWait is running
	polls     int                  // number of polls that have begun
	announced map[int64]int        // pools that possibly contain tasks, with the value of polls at the announcement
	polledAt  time.Time            // when the last successful poll began
	probed    map[int64]struct{}   // pools that the last successful poll probed
	all       bool                 // Finding.All of the last successful poll
	after     int64                // Question.After of the next walk
	tries     map[int64]*tries     // by pool
	done      sync.WaitGroup

	closing sync.Once
	closed  chan struct{}
}

// New returns a Line. poll polls the database. readUsage must call Given, then read the usage of the senders, and then call StoreUsages.
func New(poll func(context.Context, Question) (Finding, error), readUsage func(context.Context, ...string) error) *Line {
	return &Line{
		poll: poll, readUsage: readUsage, usages: map[string]*usage{}, announced: map[int64]int{}, probed: map[int64]struct{}{},
		tries: map[int64]*tries{}, sleeping: map[*Waiter]struct{}{}, closed: make(chan struct{}), changed: make(chan struct{}),
	}
}

// Wait waits until polling has ended. Call Close first.
func (l *Line) Wait() { l.done.Wait() }

// Count returns the number of claims that wait for tasks or for the end of an interval.
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

// SenderNos returns the senders that wait for tasks, and the senders that wait for the end of their interval.
func (l *Line) SenderNos() (waiting, sleeping []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for e := l.waiters.Front(); e != nil; e = e.Next() {
		if w := e.Value.(*Waiter); !w.anyPool { // a waiter for any pool is claiming now
			waiting = append(waiting, w.senderNo)
		}
	}
	for w := range l.sleeping {
		sleeping = append(sleeping, w.senderNo)
	}
	return waiting, sleeping
}

// Waiter is a claim that waits for tasks.
type Waiter struct {
	element  *list.Element // nil: the claim no longer waits
	senderNo string
	anyPool  bool              // the pools of the sender are unknown, so the waiter can be woken for any pool
	pools    map[int64]float64 // pools of the sender, with the sender's sort in each pool
	woken    chan WakeUp       // contains at most one wake-up
	changed  chan struct{}     // value of Line.changed when the waiter joined
	usage    *usage
}

// WakeUp is a message to a waiter: a pool possibly contains tasks for this waiter.
type WakeUp struct {
	pool int64
	left int // number of other waiters to try if the sender receives no task
}

// usage is the stored usage of a sender, plus the tasks that this server gave to the sender after the usage was read.
type usage struct {
	sender.Usage
	at    time.Time // when the usage was read; zero: never
	given int64     // tasks since the entry was created
}

// tries records which woken senders received tasks from one pool. Senders are identified by sender_no.
type tries struct {
	underway int                 // woken senders that have not claimed yet
	missed   map[string]struct{} // senders that received no task since the last poll that found no tasks
	hindered map[string]struct{} // senders that were in missed when two consecutive polls found tasks: something prevents these senders from claiming the tasks
	found    bool                // the last poll of the pool found tasks
}

// clear deletes the results. Woken senders that have not claimed yet still count.
func (t *tries) clear() {
	clear(t.missed)
	clear(t.hindered)
	t.found = false
}

// serves reports whether the waiter can be woken for a pool.
func (p *Waiter) serves(pool int64) bool {
	_, serves := p.pools[pool]
	return p.anyPool || serves
}

// isBefore reports whether p is woken for a pool before o. o joined earlier than p.
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

// Join adds a claim of a sender to the waiters. Until SetPools is called, the waiter can be woken for any pool.
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

// SetPools sets the pools for which a waiter can be woken, with the sender's sort in each pool.
func (l *Line) SetPools(p *Waiter, pools map[int64]float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.anyPool, p.pools = false, pools
}

// NeedsUsage reports whether the usage of a waiting sender is missing or too old.
func (l *Line) NeedsUsage(p *Waiter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(p.usage.at) > 2*usageEvery*pollEvery
}

// Given contains the number of tasks that this server has given to senders, by entry of usages. An entry that is created later counts from zero.
type Given map[*usage]int64

// Given returns the number of tasks that this server has given to senders until now. StoreUsages needs this number.
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

// StoreUsages stores the usage of senders. It adds the tasks that senders received after the call of Given that returned `before`. The usage was read after
// this call.
func (l *Line) StoreUsages(read map[string]sender.Usage, before Given) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for senderNo, u := range read {
		if known := l.usages[senderNo]; known != nil {
			known.Usage, known.at = u.After(known.given-before[known]), time.Now()
		}
	}
}

// RecordGiven counts tasks that this server has given to a sender.
func (l *Line) RecordGiven(senderNo string, tasks int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.usages[senderNo]; known != nil {
		known.given += int64(tasks)
		known.Usage = known.After(int64(tasks))
	}
}

// Await waits until p is woken, or until its pools or interval possibly changed. If `again` is true, the caller must claim again. If `enough` fires, Close
// is called or ctx ends first, `again` is false. `by` is the wake-up or nil. Afterwards, p is no longer a waiter.
func (l *Line) Await(ctx context.Context, p *Waiter, enough <-chan time.Time) (by *WakeUp, again bool) {
	changed, soon := p.changed, (<-chan time.Time)(nil)
	for {
		select {
		case w := <-p.woken:
			if !p.serves(w.pool) { // the wake-up was sent before SetPools
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

// soon returns a channel that fires after a random time of at most one millisecond per waiting claim. All claims notice a change at the same time. The
// random time spreads their queries of the database.
func (l *Line) soon() <-chan time.Time {
	l.mu.Lock()
	waiting := l.waiters.Len() + len(l.sleeping)
	l.mu.Unlock()
	return time.After(rand.N(time.Duration(waiting+1) * time.Millisecond)) //nolint:gosec // the random number is not secret
}

// Sleep removes p from the waiters. It waits for d, or until the interval possibly changed, and reports whether to claim again. If enough fires, Close
// is called or ctx ends first, it returns false.
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

// Leave removes p from the waiters. An unused wake-up of p goes to the next waiter.
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

// remove deletes p from the waiters, unless p has already left.
func (l *Line) remove(p *Waiter) {
	if p.element != nil {
		l.waiters.Remove(p.element)
		p.element = nil
	}
}

// Wake announces n new tasks in a pool; n is at least 1. It wakes up to n waiters that serve the pool, at most maxWoken.
func (l *Line) Wake(pool int64, n int) {
	n = min(n, maxWoken)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wakeAll(l.first(pool, n, nil), pool, maxWoken/n-1)
}

// PassOn sends an unused wake-up to the next waiter.
func (l *Line) PassOn(w WakeUp) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.triesOf(w.pool).underway--
	l.wakeAll(l.first(w.pool, 1, nil), w.pool, w.left)
}

// Settle records whether a woken sender received tasks. If the sender received no task, the next waiter is woken: a limit or a faster rival can stop one
// sender, but must not stop the others.
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

// wakeAll wakes waiters for a pool. If a waiter receives no task, up to left other waiters are tried.
func (l *Line) wakeAll(waiters []*Waiter, pool int64, left int) {
	l.announced[pool] = l.polls
	for _, p := range waiters {
		l.remove(p)
		l.triesOf(pool).underway++
		p.woken <- WakeUp{pool, left}
	}
}

// first returns the first n waiters for a pool, in order. It skips hindered senders and the senders in without.
func (l *Line) first(pool int64, n int, without map[string]struct{}) []*Waiter {
	var hindered map[string]struct{}
	if t := l.tries[pool]; t != nil {
		hindered = t.hindered
	}
	var best []*Waiter // at most n, in order
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

// Close ends every current and later wait.
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

// stopIfIdle ends polling if no sender waits, and reports whether it ended polling. It keeps the tries of each pool from which a woken sender has not claimed
// yet.
func (l *Line) stopIfIdle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiters.Len() > 0 || len(l.sleeping) > 0 {
		return false
	}
	l.polling = false
	maps.DeleteFunc(l.tries, func(_ int64, t *tries) bool {
		t.clear()
		return t.underway == 0
	})
	clear(l.usages)
	return true
}

// pollOnce polls the database and wakes a waiter for each pool with tasks. If a woken sender is about to claim from a pool, pollOnce wakes no other
// waiter for this pool. If the poll fails, the next poll repeats it, and claims report the error.
func (l *Line) pollOnce() {
	l.mu.Lock()
	l.polls++
	asked, due := l.question(), l.usageDue()
	l.mu.Unlock()
	began := time.Now()
	found, err := l.poll(context.Background(), asked)
	l.mu.Lock()
	if found.IsChanged { // IsChanged reports each change only once, so it counts even if the rest of the poll failed
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
		_ = l.readUsage(ctx, due...) // after an error, the order uses the previous usage
	}
}

// wakeFor wakes a waiter for each pool in which the last poll found tasks, unless a woken sender is about to claim from the pool. Senders that
// received no task although two consecutive polls found tasks are woken after all others.
func (l *Line) wakeFor(found []int64) {
	work := make(map[int64]struct{}, len(found))
	for _, pool := range found {
		work[pool] = struct{}{}
	}
	maps.DeleteFunc(l.tries, func(pool int64, t *tries) bool {
		if _, hasWork := work[pool]; !hasWork && l.checked(pool) {
			t.clear()
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
		if len(next) == 0 { // all waiters have been tried
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

// usageDue returns the senders whose usage must be read again. It deletes the usage of senders that have not waited for a minute.
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

// IsQuiet reports whether a recent poll found no tasks in pools and no task was announced later. A task that arrives now wakes the senders that have
// joined.
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
