// Package line keeps the senders that wait at this server for tasks, and decides who is woken for what comes. One poll of the database
// serves all of them. It knows nothing of the database: its owner polls.
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

	"lksms/internal/sender"
)

const (
	// pollEvery is how often the database is asked for work while senders wait: for what other servers were given, and for
	// what comes due. What this server was given wakes a sender at once.
	pollEvery = 200 * time.Millisecond
	// rankEvery is how many polls apart the standings of the senders that wait are read again: every two seconds.
	rankEvery = 10
	// wokenMost is how many senders a batch of new tasks wakes; each that takes all it may wakes the next. It is also how many
	// are tried for a task that those in front of them do not get.
	wokenMost = 8
	// probedMost bounds the pools that one poll looks into one by one; fewMost is how many of them one sender may ask for.
	probedMost, fewMost = 500, 100
)

// Question is what a poll asks: whether there is work in each of pools, and, if walk is true, in which pools after one anything is
// queued. What comes due there is heard of when the sweep has queued it. A poll that asks for nothing still hears of changes.
type Question struct {
	Pools []int64
	Walk  bool
	After int64
}

// Finding is what a poll found: pools with work. next is where the next walk goes on; 0: this one came to the end. all tells
// whether there is nothing in any other pool. IsChanged tells that senders may have other pools now than they were told.
type Finding struct {
	Pools     []int64
	Next      int64
	All       bool
	IsChanged bool
}

// Line is the senders that wait, the first to come in front.
type Line struct {
	poll func(context.Context, Question) (Finding, error)
	rank func(ctx context.Context, appIDs ...string) error

	mu        sync.Mutex
	places    list.List     // of *Waiter
	sleeping  int           // claims that wait for their interval
	changed   chan struct{} // closed when senders may have other pools, or another interval
	standings map[string]*standing
	asking    bool               // whether the database is being polled
	polls     int                // how often it was
	loud      map[int64]int      // pools where there may be work, and as of which poll
	heard     time.Time          // when the last poll that was answered began
	probed    map[int64]struct{} // pools into which it looked
	all       bool               // it found all that there was
	after     int64              // where the next walk begins
	tries     map[int64]*tries   // of those that were woken for a pool
	done      sync.WaitGroup

	closing sync.Once
	closed  chan struct{}
}

// New returns a Line that polls the database by poll and reads the standings of senders by rank, which calls Given and Learn.
func New(poll func(context.Context, Question) (Finding, error), rank func(context.Context, ...string) error) *Line {
	return &Line{
		poll: poll, rank: rank, standings: map[string]*standing{}, loud: map[int64]int{}, probed: map[int64]struct{}{},
		tries: map[int64]*tries{}, closed: make(chan struct{}), changed: make(chan struct{}),
	}
}

// Wait waits until nothing is polled any more, after Close.
func (l *Line) Wait() { l.done.Wait() }

// Count is how many claims wait for work that comes, or for their interval to end.
func (l *Line) Count() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n = l.sleeping
	for e := l.places.Front(); e != nil; e = e.Next() {
		if !e.Value.(*Waiter).anyPool {
			n++
		}
	}
	return n
}

// Waiter is a claim that waits.
type Waiter struct {
	element *list.Element
	appID   string
	anyPool bool              // it is not known yet from which pools it may take
	pools   map[int64]float64 // from which it may take, and its sort there
	woken   chan WakeUp       // holds one
	changed chan struct{}     // as of when it was taken

	standing *standing
}

// WakeUp is for a pool. left is how many others are tried if it is in vain.
type WakeUp struct {
	pool int64
	left int
}

// standing is how a sender stood when it was read, and what this server gave it since.
type standing struct {
	sender.Standing
	at    time.Time // zero: it has not been read
	given int64     // tasks, ever
}

// tries is what became of those that were woken for a pool.
type tries struct {
	underway int                 // they have not looked yet
	missed   map[string]struct{} // got nothing, since the last poll that found nothing left
	kept     map[string]struct{} // of these, those that got nothing where work stayed: something keeps them from it
	found    bool                // by the last poll: work
}

// serves tells whether whoever has the place may take from a pool.
func (p *Waiter) serves(pool int64) bool {
	_, serves := p.pools[pool]
	return p.anyPool || serves
}

// isBefore tells whether p should have what comes into a pool rather than o, which came first.
func (p *Waiter) isBefore(o *Waiter, pool int64) bool {
	if p.standing.at.IsZero() || o.standing.at.IsZero() {
		return !p.standing.at.IsZero()
	}
	return cmp.Or(cmp.Compare(o.sort(pool), p.sort(pool)), p.standing.Compare(o.standing.Standing)) < 0
}

func (p *Waiter) sort(pool int64) float64 {
	if sort, known := p.pools[pool]; known {
		return sort
	}
	return p.standing.Sort
}

// Join puts a claim of a sender into the line.
func (l *Line) Join(appID string) *Waiter {
	p := &Waiter{appID: appID, anyPool: true, woken: make(chan WakeUp, 1)}
	l.mu.Lock()
	defer l.mu.Unlock()
	p.changed = l.changed
	p.standing = l.standings[appID]
	if p.standing == nil {
		p.standing = &standing{}
		l.standings[appID] = p.standing
	}
	p.element = l.places.PushBack(p)
	l.keepAsking()
	return p
}

func (l *Line) keepAsking() {
	if !l.asking {
		l.asking = true
		l.done.Go(l.ask)
	}
}

// Narrow says from which pools whoever has the place may take.
func (l *Line) Narrow(p *Waiter, pools map[int64]float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.anyPool, p.pools = false, pools
}

// IsUnranked tells whether it is not known, or not any more, how whoever has the place stands.
func (l *Line) IsUnranked(p *Waiter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(p.standing.at) > 2*rankEvery*pollEvery
}

// Given is what this server gave senders until now.
func (l *Line) Given(appIDs []string) map[string]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	given := make(map[string]int64, len(appIDs))
	for _, appID := range appIDs {
		if known := l.standings[appID]; known != nil {
			given[appID] = known.given
		}
	}
	return given
}

// Learn keeps how senders stand, and what they were given since before.
func (l *Line) Learn(standings map[string]sender.Standing, before map[string]int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for appID, read := range standings {
		if known := l.standings[appID]; known != nil {
			known.Standing, known.at = read.After(known.given-before[appID]), time.Now()
		}
	}
}

// Took counts what a sender was given.
func (l *Line) Took(appID string, tasks int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.standings[appID]; known != nil {
		known.given += int64(tasks)
		known.Standing = known.After(int64(tasks))
	}
}

// Await waits until whoever has the place is woken, or should look anew what it waits for, and reports whether that was before enough;
// if not, the place is given up.
func (l *Line) Await(ctx context.Context, p *Waiter, enough <-chan time.Time) (by *WakeUp, again bool) {
	changed, turn := p.changed, (<-chan time.Time)(nil)
	for {
		select {
		case w := <-p.woken:
			if !p.serves(w.pool) { // it came before it was known who may take from it
				l.PassOn(w)
				return nil, true
			}
			return &w, true
		case <-changed:
			changed, turn = nil, l.turn()
			continue
		case <-turn:
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

// turn comes at some moment within a millisecond for each claim that waits: all of them hear of a change at once, and would ask the
// database at once.
func (l *Line) turn() <-chan time.Time {
	l.mu.Lock()
	waiting := l.places.Len() + l.sleeping
	l.mu.Unlock()
	return time.After(rand.N(time.Duration(waiting+1) * time.Millisecond)) //nolint:gosec // it guards nothing
}

// Sleep gives up a place, waits for d or until the interval may be another, and reports whether that was before enough.
func (l *Line) Sleep(ctx context.Context, p *Waiter, d time.Duration, enough <-chan time.Time) bool {
	l.Leave(p)
	l.mu.Lock()
	l.sleeping++
	l.keepAsking()
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.sleeping--
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
	case <-l.turn():
		return true
	case <-enough:
	case <-l.closed:
	case <-ctx.Done():
	}
	return false
}

// Leave gives up a place. A wake-up that came to it meanwhile goes to the next: it was for whoever is there.
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

// remove takes a place out of the line, if it is there.
func (l *Line) remove(p *Waiter) {
	if p.element != nil {
		l.places.Remove(p.element)
		p.element = nil
	}
}

// Wake says that n tasks came into a pool: it wakes as many that wait and may take from it, those that should have it first.
func (l *Line) Wake(pool int64, n int) {
	n = min(n, wokenMost)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.call(l.first(pool, n, nil), pool, wokenMost/n-1)
}

// PassOn passes a wake-up on that has not been used.
func (l *Line) PassOn(w WakeUp) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.triesOf(w.pool).underway--
	l.call(l.first(w.pool, 1, nil), w.pool, w.left)
}

// Settle says whether whoever was woken got something. If not, the next is tried: a limit, its share or another that was quicker
// may keep a sender from what it was woken for, and must not keep the others from it.
func (l *Line) Settle(appID string, w WakeUp, got bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.triesOf(w.pool)
	t.underway--
	if got {
		delete(t.missed, appID)
		delete(t.kept, appID)
		return
	}
	t.missed[appID] = struct{}{}
	if w.left > 0 {
		l.call(l.first(w.pool, 1, t.missed), w.pool, w.left-1)
	}
}

func (l *Line) triesOf(pool int64) *tries {
	t := l.tries[pool]
	if t == nil {
		t = &tries{missed: map[string]struct{}{}, kept: map[string]struct{}{}}
		l.tries[pool] = t
	}
	return t
}

// call wakes senders for a pool, and has up to left others tried for each that gets nothing.
func (l *Line) call(those []*Waiter, pool int64, left int) {
	l.loud[pool] = l.polls
	for _, p := range those {
		l.remove(p)
		l.triesOf(pool).underway++
		p.woken <- WakeUp{pool, left}
	}
}

// first are the n who should have what comes into a pool, without those that something keeps from it, and those in without.
func (l *Line) first(pool int64, n int, without map[string]struct{}) []*Waiter {
	var kept map[string]struct{}
	if t := l.tries[pool]; t != nil {
		kept = t.kept
	}
	var best []*Waiter // n at most, in order
	for e := l.places.Front(); e != nil; e = e.Next() {
		p := e.Value.(*Waiter)
		if !p.serves(pool) || has(kept, p.appID) || has(without, p.appID) {
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

func has(set map[string]struct{}, appID string) bool {
	_, there := set[appID]
	return there
}

// Close ends every wait, now and from now on.
func (l *Line) Close() { l.closing.Do(func() { close(l.closed) }) }

// ask polls the database until nobody waits.
func (l *Line) ask() {
	for {
		select {
		case <-l.closed:
			return
		case <-time.After(pollEvery):
		}
		l.mu.Lock()
		if l.places.Len() == 0 && l.sleeping == 0 {
			l.asking = false
			clear(l.tries)
			clear(l.standings)
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		l.hear()
	}
}

// hear asks the database once, and wakes somebody for each pool where there is work, unless somebody is about to look there. A
// database that cannot be asked will be asked again; the claim says what is wrong with it.
func (l *Line) hear() {
	l.mu.Lock()
	l.polls++
	asked, ranked := l.question(), l.ranked()
	l.mu.Unlock()
	began := time.Now()
	found, err := l.poll(context.Background(), asked)
	l.mu.Lock()
	if found.IsChanged { // a poll hears of a change once, so this counts even if the poll failed after that
		close(l.changed)
		l.changed = make(chan struct{})
	}
	if err != nil {
		l.mu.Unlock()
		return
	}
	l.heard, l.after, l.all = began, found.Next, found.All
	clear(l.probed)
	for _, pool := range asked.Pools {
		l.probed[pool] = struct{}{}
	}
	maps.DeleteFunc(l.loud, func(_ int64, poll int) bool { return poll < l.polls })
	l.offer(found.Pools)
	l.mu.Unlock()
	if len(ranked) > 0 {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = l.rank(ctx, ranked...) // what was read before is good enough for the order
	}
}

// offer wakes somebody for each pool where the last poll found work, unless somebody is about to look there. Those that got
// nothing where it found work twice come after all others.
func (l *Line) offer(found []int64) {
	work := make(map[int64]struct{}, len(found))
	for _, pool := range found {
		work[pool] = struct{}{}
	}
	maps.DeleteFunc(l.tries, func(pool int64, t *tries) bool {
		if _, there := work[pool]; !there && l.looked(pool) {
			clear(t.missed)
			clear(t.kept)
			t.found = false
		}
		return t.underway == 0 && len(t.missed) == 0 && !t.found
	})
	for pool := range work {
		l.loud[pool] = l.polls
		t := l.triesOf(pool)
		if t.found {
			maps.Copy(t.kept, t.missed)
		}
		t.found = true
		if t.underway > 0 {
			continue
		}
		next := l.first(pool, 1, t.missed)
		if len(next) == 0 { // all have been tried
			clear(t.missed)
			clear(t.kept)
			next = l.first(pool, 1, nil)
		}
		l.call(next, pool, wokenMost-1)
	}
}

// Question is what to ask for those that wait.
func (l *Line) question() (w Question) {
	pools := map[int64]struct{}{}
	for e := l.places.Front(); e != nil; e = e.Next() {
		p := e.Value.(*Waiter)
		if len(p.pools) > fewMost || len(pools) > probedMost {
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

// ranked are the senders whose standings are to be read again, and forgets those that are not there any more.
func (l *Line) ranked() (appIDs []string) {
	if l.polls%rankEvery != 0 || l.places.Len() < 2 {
		return nil
	}
	waiting := map[string]struct{}{}
	for e := l.places.Front(); e != nil; e = e.Next() {
		waiting[e.Value.(*Waiter).appID] = struct{}{}
	}
	maps.DeleteFunc(l.standings, func(appID string, s *standing) bool {
		_, waits := waiting[appID]
		return !waits && time.Since(s.at) > time.Minute
	})
	return slices.Collect(maps.Keys(waiting))
}

// looked tells whether the last poll looked into a pool.
func (l *Line) looked(pool int64) bool {
	_, probed := l.probed[pool]
	return probed || l.all
}

// IsQuiet tells whether the last poll, not long ago, found nothing in pools, and nothing was announced since. What comes
// now wakes who is in line.
func (l *Line) IsQuiet(pools map[int64]float64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.heard) > 2*pollEvery {
		return false
	}
	for pool := range pools {
		if _, loud := l.loud[pool]; loud || !l.looked(pool) {
			return false
		}
	}
	return true
}
