package model

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"lksms/internal/dispatch/segment"
)

// This file and claim_test.go contain the promises of docs/start.md, docs/dispatch.md and api/openapi.yaml as plain values and rules in Go. They use neither
// HTTP nor PostgreSQL.

// These constants are the default settings and rules, which all sequences use.
const (
	maxRetries     = 3
	retryDelay     = 5 * time.Minute
	retryMaxWait   = 10 * time.Minute
	usualLease     = 30 * time.Minute
	priorityWait   = time.Hour
	agedPriority   = 2 // priority of a task that waited for priorityWait: the most urgent priority below real-time messages
	silentAfter    = time.Minute
	seenApart      = 10 * time.Minute // maximum delay until the service stores a poll
	scheduledEvery = 5 * time.Minute

	minLease    = time.Second // a task that expires sooner is not claimed
	reportGrace = time.Minute // how long after the expiry of its task a sender can still report, if the lease ended because the task expired

	// releaseDelay is the wait of a task after its second unstarted lease. Each further unstarted lease doubles the wait, up to maxReleaseDelay.
	releaseDelay    = 5 * time.Second
	maxReleaseDelay = 10 * time.Minute
)

// These are the states of a task.
const (
	pending = iota
	processing
	success
	failed
	cancelled
)

// world is the model of the whole state of the service.
type world struct {
	now       time.Time
	companies []*company
	senders   []*sender
	routes    []*route
	templates []*template
	defaults  []*defaultContent
	blocks    []*block
	counted   map[capped][]*counted
	tasks     []*task
	ranks     int            // the highest rank so far
	leases    map[int64]bool // ids of all leases so far
	kept      []*keptAnswer

	channelOff   bool
	countriesOff map[string]bool
}

type company struct {
	no        string
	users     []*user
	top       int // the most urgent priority that its users can request
	weight    float64
	countries []string // the only countries to which the company can send; empty: all countries
	off       bool
	routed    bool // only senders of its own routes send its messages, and no shared senders
	gone      bool
	caps      map[string]caps // by message type
}

// user submits messages for its company.
type user struct{ name, key string }

// route allows a sender to send a company's messages of a type to a country. An empty country means every country for which the company has no route.
type route struct {
	no            int64
	company       *company
	kind, country string
	sender        *sender
	weight        int
	sort          float64
	on            bool
}

func (r *route) pool() pool { return pool{r.company, r.kind, r.country} }

// pool is the set of tasks that the same routes serve. The zero pool is the shared pool.
type pool struct {
	company       *company
	kind, country string
}

func (p pool) String() string {
	if p.company == nil {
		return "shared"
	}
	return fmt.Sprintf("%s/%s/%s", p.company.no, p.kind, p.country)
}

type template struct {
	id        int64
	text      string
	active    bool
	scheduled bool
	companies []*company
}

type defaultContent struct {
	id          int64
	company     *company
	to          number
	content     string
	useTemplate bool
	sent        bool
}

// keptAnswer is the response that is stored for an Idempotency-Key.
type keptAnswer struct {
	key, user, body, answer string
	at                      time.Time
}

// number is a phone number: as people write it, and in E.164, with its country.
type number struct{ written, e164, country string }

type task struct {
	id       string
	name     string // name in the log of a sequence
	company  *company
	by       *user
	to       number
	kind     string
	priority int
	content  string
	sign     string
	dedupKey string
	created  time.Time
	asked    *time.Time // expect_send_time
	due      time.Time
	expires  *time.Time
	stopped  *time.Time // a block forbade the message while a sender had it: the task expires at this time, and is cancelled if the sender returns it
	sent     *time.Time
	settled  *time.Time

	status   int
	retries  int
	holder   string
	lease    int64 // the current lease, the last expired lease, or the lease that settled the task
	until    time.Time
	leasedTo map[int64]string // sender of each lease
	ranOut   bool             // a sweep recovered its last lease, and no sender has claimed the task since
	leasedAt time.Time        // start of the current lease
	toStart  bool             // the current lease must be started, and has not been started yet
	charged  int              // segments of the current lease that count for the sender's limits
	paid     int              // segments of the current lease that were deducted from the balance
	untried  int              // number of leases that were never started, since the submission or the last requeue
	failedBy string
	timeline []event

	first pool  // its pool at submission
	moved *pool // its pool at the last check; nil: the pool in first
	rank  int   // order among the tasks of its user, pool and urgency; 0: no order is promised
	// queued is true if the submission or a sweep has queued the task. Until then, a claim finds the task by its due time.
	queued              bool
	retryAged, prioAged bool // a sweep has changed the order of the task because the task waited too long
	mayBeAged           bool // a sweep possibly raised the priority of the task for its age, before an unstarted lease made the task due again
	held                bool // a switch held the waiting task at the last check
}

// event is an entry of a timeline.
type event struct {
	Event, AppID, Effect string
	Attempt              int
	LeaseID              int64
	Status               int
	At                   time.Time
}

func (t *task) segments() int { return segment.Count(segment.Signed(t.sign, t.content)) }

func (t *task) happened(e event) { t.timeline = append(t.timeline, e) }

// poolOf returns the pool of a company's messages of a type to a country, by the current routes. It prefers the pool of the country, then the pool for any
// country, then the shared pool.
func (w *world) poolOf(c *company, kind, country string) pool {
	for _, p := range []pool{{c, kind, country}, {c, kind, ""}} {
		if w.isRouted(p) {
			return p
		}
	}
	return pool{}
}

// pool returns the pool of a task by the current routes.
func (w *world) pool(t *task) pool {
	return w.poolOf(t.company, t.kind, t.to.country)
}

// routesOf returns the routes of a pool that are on.
func (w *world) routesOf(p pool) []*route {
	var routes []*route
	for _, r := range w.routes {
		if r.on && r.pool() == p {
			routes = append(routes, r)
		}
	}
	return routes
}

// isRouted reports whether a pool has routes.
func (w *world) isRouted(p pool) bool { return len(w.routesOf(p)) > 0 }

// mayServe reports whether a sender is allowed to claim from a pool. A routed pool allows the senders of its routes. Other pools allow shared senders.
func (w *world) mayServe(s *sender, p pool) bool {
	if !w.isRouted(p) {
		return s.shared
	}
	return w.routeOf(s, p) != nil
}

// sortOf returns the sort of a sender in a pool. While a sender with the largest sort is available, senders with a smaller sort get no tasks.
func (w *world) sortOf(s *sender, p pool) float64 {
	if r := w.routeOf(s, p); r != nil {
		return r.sort
	}
	return s.sort
}

func (w *world) routeOf(s *sender, p pool) *route {
	for _, r := range w.routesOf(p) {
		if r.sender == s {
			return r
		}
	}
	return nil
}

// activeTemplate returns the first active template that a company can use.
func (w *world) activeTemplate(c *company) *template {
	for _, t := range w.templates {
		if t.active && (len(t.companies) == 0 || slices.Contains(t.companies, c)) {
			return t
		}
	}
	return nil
}

// named returns the task of a user with a dedup key, or nil. Dedup keys of different users are independent.
func (w *world) named(by *user, dedupKey string) *task {
	for _, t := range w.tasks {
		if dedupKey != "" && t.by == by && t.dedupKey == dedupKey {
			return t
		}
	}
	return nil
}

func (w *world) task(id string) *task {
	for _, t := range w.tasks {
		if t.id == id {
			return t
		}
	}
	return nil
}

func (w *world) sender(no string) *sender {
	for _, s := range w.senders {
		if s.no == no {
			return s
		}
	}
	return nil
}

// defaultFor returns the default content of a number for a company, or nil.
func (w *world) defaultFor(c *company, to number) *defaultContent {
	for _, d := range w.defaults {
		if d.to.e164 == to.e164 && d.company == c {
			return d
		}
	}
	return nil
}

// isHeld reports whether a switch holds the waiting messages of a company to a country in a pool.
func (w *world) isHeld(c *company, country string, p pool) bool {
	return c.off || w.channelOff || w.countriesOff[country] || c.routed && p == pool{}
}

// holds reports whether a switch holds a task.
func (w *world) holds(t *task) bool {
	return t.status == pending && w.isHeld(t.company, t.to.country, w.pool(t))
}

// release updates a task that a switch no longer holds. due is its new due time. Its order is not promised.
func (t *task) release(due time.Time) {
	t.held, t.due, t.rank = false, due, 0
	t.leaveQueue()
	t.mayBeAged = true // whether the priority was raised depends on whether a sweep removed the task from the queue before
}

// waits reports whether any sender could claim a task now.
func (w *world) waits(t *task) bool {
	return t.status == pending && !t.due.After(w.now) && t.lastsUntil(w.now.Add(minLease)) && !w.holds(t)
}

// end returns when a task expires; nil: never.
func (t *task) end() *time.Time {
	if t.stopped != nil {
		return t.stopped
	}
	return t.expires
}

// lastsUntil reports whether a task expires only after a time.
func (t *task) lastsUntil(at time.Time) bool { return t.end() == nil || t.end().After(at) }

// bounded returns the end of a lease: leaseEnd, but not later than the expiry of the task.
func (t *task) bounded(leaseEnd time.Time) time.Time {
	if t.lastsUntil(leaseEnd) {
		return leaseEnd
	}
	return *t.end()
}

// isOver reports whether a task has expired. No sender can claim an expired task.
func (w *world) isOver(t *task) bool { return !t.lastsUntil(w.now) }

// ranOut reports whether the lease of a task has expired.
func (w *world) ranOut(t *task) bool { return t.status == processing && !t.until.After(w.now) }

// sender is the model of a sender: its configuration, counters and ledger.

type sender struct {
	no         string
	status     string // on, off or retired
	shared     bool
	sort       float64
	interval   time.Duration
	limits     [4]*int // segments per minute, hour, day and month of its time zone
	zone       *time.Location
	lease      time.Duration
	sign       string
	size       int // characters that its provider counts as one segment; 0: the provider uses the standard sizes
	balance    *int
	lowWarning *int
	lowSwitch  *int

	used       map[string]int // used segments, by window
	took       int            // number of tasks in the last claim that returned tasks
	tookAt     time.Time
	next       time.Time // time at which the sender is ready again
	polled     time.Time // last claim
	routedAt   time.Time // last claim while the sender was on and had a route
	heard      time.Time // last claim or settling report
	ledger     []ledgerEntry
	events     []string
	attempts   int
	succeeded  int
	failed     int
	unreported int // leases that ended without a report, after they were started or needed no start
}

type ledgerEntry struct {
	Change  int
	Balance int
	LeaseID int64
}

var units = [4]string{"minute", "hour", "day", "month"}

// windows returns the names of the minute, hour, day and month that contain a time, in a time zone.
func windows(at time.Time, zone *time.Location) [4]string {
	local := at.In(zone)
	return [4]string{local.Format("2006-01-02 15:04 -07:00"), local.Format("2006-01-02 15 -07:00"), local.Format("2006-01-02"), local.Format("2006-01")}
}

// isPaced reports whether a sender has an interval, a limit or a balance.
func (s *sender) isPaced() bool {
	return s.interval > 0 || s.balance != nil || slices.ContainsFunc(s.limits[:], func(l *int) bool { return l != nil })
}

func (s *sender) usedNow(at time.Time) (used [4]int) {
	for u, window := range windows(at, s.zone) {
		used[u] = s.used[units[u]+" "+window]
	}
	return used
}

// isAvailable reports whether a sender can get tasks, now or after its interval. It does not check when the sender polled.
func (s *sender) isAvailable(at time.Time) bool    { return s.isOn() && s.hasQuota(at) && s.hasFunds() }
func (s *sender) isOn() bool                       { return s.status == "on" }
func (s *sender) isPastInterval(at time.Time) bool { return !at.Before(s.next) }
func (s *sender) hasFunds() bool                   { return s.balance == nil || *s.balance > valueOf(s.lowSwitch) }
func (s *sender) isReady(at time.Time) bool {
	return s.isOn() && s.isPastInterval(at) && s.hasQuota(at) && s.hasFunds()
}
func (s *sender) hasQuota(at time.Time) bool {
	used := s.usedNow(at)
	for u, limit := range s.limits {
		if limit != nil && used[u] >= *limit {
			return false
		}
	}
	return true
}

// budget returns the number of segments that a sender can still use.
func (s *sender) budget(at time.Time) int {
	left := math.MaxInt
	used := s.usedNow(at)
	for u, limit := range s.limits {
		if limit != nil {
			left = min(left, *limit-used[u])
		}
	}
	if s.balance != nil {
		left = min(left, *s.balance)
	}
	return left
}

// maxClaim returns the maximum number of tasks for one claim of a sender: no more than the sender can send before the leases expire.
func (s *sender) maxClaim(at time.Time, limit int) int { return s.maxClaimIn(at, limit, s.lease) }

// maxClaimIn works like maxClaim for leases of another duration.
func (s *sender) maxClaimIn(at time.Time, limit int, lease time.Duration) int {
	switch {
	case !s.isReady(at):
		return 0
	case s.interval > 0:
		return min(limit, max(1, int(lease/s.interval)))
	default:
		return limit
	}
}

// cost returns the number of segments that a sender uses for one attempt of a task.
func (s *sender) cost(t *task) int {
	text := s.text(t)
	if s.size > 0 {
		return max(1, (len([]rune(text))+s.size-1)/s.size)
	}
	return segment.Count(text)
}

// maxCost returns an upper bound of cost. The service uses this bound for other senders of a pool, because counting the segments for each sender would be slow.
func (s *sender) maxCost(t *task) int {
	segments := t.segments()
	if s.sign != "" {
		segments++
	}
	if s.size > 0 {
		segments *= (160 + s.size - 1) / s.size
	}
	return segments
}

// text returns the text that a sender sends. It contains the signature of the message. If the message has no signature, it contains the signature of the
// sender.
func (s *sender) text(t *task) string {
	sign := t.sign
	if sign == "" {
		sign = s.sign
	}
	return segment.Signed(sign, t.content)
}

// retime applies a changed interval, which counts from the last claim.
func (s *sender) retime(interval time.Duration) {
	s.interval = interval
	if !s.tookAt.IsZero() {
		s.next = s.tookAt.Add(time.Duration(s.took) * interval)
	}
}

// change applies a change of the balance, and adds it to the ledger.
func (s *sender) change(by int, lease int64) {
	before := valueOf(s.balance)
	after := before + by
	s.balance = &after
	s.ledger = append(s.ledger, ledgerEntry{by, after, lease})
}

func valueOf(p *int) int {
	if p == nil {
		return 0
	}
	return *p
}

// give adds a lease of a sender to a task.
func (w *world) give(t *task, s *sender, lease int64) {
	t.status, t.holder, t.lease, t.until, t.ranOut = processing, s.no, lease, t.bounded(w.now.Add(s.lease)), false
	t.leasedAt, t.toStart, t.charged, t.paid = w.now, false, 0, 0
	t.leasedTo[lease] = s.no
	t.happened(event{Event: "claimed", AppID: s.no, Attempt: t.retries + 1, LeaseID: lease, At: w.now})
}

// report is a report of a sender on a task. lease is 0 if the report contains no lease id.
type report struct {
	app         string
	lease       int64
	ok          bool
	shouldRetry bool
	after       *time.Duration
}

// effectOf returns the effect of a report.
func (w *world) effectOf(t *task, r report) string {
	names := r.lease == 0 || r.lease == t.lease
	holds := t.status == processing && t.holder == r.app && names && (r.ok || !w.ranOut(t) || w.isOver(t))
	returns := t.status == pending && t.ranOut && r.ok && t.leasedTo[t.lease] == r.app && names
	held := false
	for lease, app := range t.leasedTo {
		held = held || app == r.app && (r.lease == 0 || r.lease == lease)
	}
	switch {
	case (holds || returns) && r.ok:
		return "success"
	case holds && !r.shouldRetry:
		return "failed"
	case holds && t.retries < maxRetries:
		return "retry"
	case holds:
		return "exhausted"
	case held:
		return "ignored"
	default:
		return "refused"
	}
}

// report applies a report, which ends a lease or changes nothing, and returns its effect.
func (w *world) report(t *task, r report) (effect string) {
	effect = w.effectOf(t, r)
	e := event{Event: "reported", AppID: r.app, Effect: effect, LeaseID: r.lease, Status: failed, At: w.now}
	if r.ok {
		e.Status = success
	}
	settles := effect != "ignored" && effect != "refused"
	if settles {
		e.LeaseID = t.lease
		if s := w.sender(r.app); s != nil {
			s.heard = w.now
			if r.ok {
				s.succeeded++
			} else {
				s.failed++
			}
		}
	}
	t.happened(e)
	now := w.now
	switch effect {
	case "success":
		t.status, t.holder, t.sent, t.settled = success, r.app, &now, &now
	case "failed":
		t.status, t.holder, t.settled, t.failedBy = failed, r.app, &now, r.app
	case "exhausted":
		t.status, t.settled, t.failedBy = failed, &now, r.app
	case "retry":
		delay := retryDelay
		if r.after != nil {
			delay = *r.after
		}
		t.lease = 0
		if end := t.end(); end != nil && end.After(w.now) && !end.After(w.now.Add(delay)) {
			delay = end.Sub(w.now) / 2
		}
		w.again(t, r.app, w.now.Add(delay))
	}
	return effect
}

// again makes a task wait for another attempt.
func (w *world) again(t *task, failedBy string, due time.Time) {
	if t.prioAged && t.priority > agedPriority { // the task returns to its own priority, and its order among the tasks of this priority is not promised
		t.rank = 0
	}
	t.status, t.retries, t.due, t.failedBy, t.holder = pending, t.retries+1, due, failedBy, ""
	t.leaveQueue()
}

// leaveQueue marks a task as not queued. A sweep will queue it again.
func (t *task) leaveQueue() {
	t.queued, t.retryAged, t.prioAged, t.mayBeAged = false, false, false, false
}

// start starts a lease of a sender, and returns its new end. It returns nil if the sender does not hold the lease.
func (w *world) start(t *task, app string, lease int64) *time.Time {
	if t.status != processing || t.holder != app || t.lease != lease || w.ranOut(t) || w.isOver(t) {
		return nil
	}
	if t.toStart {
		t.toStart = false
		if until := t.bounded(t.leasedAt.Add(w.sender(app).lease)); until.After(t.until) {
			t.until = until
		}
	}
	until := t.until
	return &until
}

// giveBack recovers an unstarted lease. The lease does not count as an attempt, and the sender gets its segments back. After its first unstarted lease, the
// task keeps its position in the queue. After each further unstarted lease, the task waits longer.
func (w *world) giveBack(t *task) {
	s := w.sender(t.holder)
	t.happened(event{Event: "recovered", AppID: t.holder, LeaseID: t.lease, Effect: "untried", At: w.now})
	t.mayBeAged = t.mayBeAged || w.isAgedPriority(t)
	t.status, t.failedBy, t.holder, t.due, t.ranOut, t.toStart = pending, t.holder, "", w.now, true, false
	if t.untried > 0 {
		t.due = w.now.Add(min(maxReleaseDelay, releaseDelay<<(t.untried-1)))
		if t.prioAged && t.priority > agedPriority {
			t.rank = 0
		}
		t.leaveQueue()
	}
	t.untried++
	if t.charged == 0 || !s.isPaced() {
		return
	}
	for u, window := range windows(t.leasedAt, s.zone) {
		s.used[units[u]+" "+window] -= t.charged
	}
	if t.paid > 0 {
		s.change(t.paid, t.lease)
	}
}

// recover recovers the expired leases, and returns their number.
func (w *world) recover() (n int) {
	var unstarted []*task
	for _, t := range w.tasks {
		if w.ranOut(t) && t.toStart {
			unstarted = append(unstarted, t)
		}
	}
	slices.SortFunc(unstarted, func(a, b *task) int { return cmp.Compare(a.lease, b.lease) }) // the ledger has this order
	for _, t := range unstarted {
		w.giveBack(t)
	}
	n = len(unstarted)
	for _, t := range w.tasks {
		if !w.ranOut(t) || w.isOver(t) && t.until.Add(reportGrace).After(w.now) {
			continue
		}
		n++
		if s := w.sender(t.holder); s != nil {
			s.unreported++
		}
		e := event{Event: "recovered", AppID: t.holder, LeaseID: t.lease, Effect: "retry", At: w.now}
		switch {
		case w.isOver(t) && t.stopped == nil:
			e.Effect = "expired"
		case t.retries >= maxRetries:
			e.Effect = "exhausted"
		}
		if e.Effect == "retry" {
			w.again(t, t.holder, w.now)
			t.ranOut = true
		} else {
			now := w.now
			t.status, t.failedBy, t.holder, t.settled = failed, t.holder, "", &now
		}
		t.happened(e)
	}
	return n
}

// expire fails the waiting tasks that have expired, cancels those that a block stopped while a sender had them, and returns their number.
func (w *world) expire() (n int) {
	for _, t := range w.tasks {
		switch {
		case t.status != pending || !w.isOver(t):
		case t.stopped != nil:
			n++
			w.cancel(t)
		default:
			n++
			now := w.now
			t.status, t.settled = failed, &now
			t.happened(event{Event: "expired", Effect: "expired", At: w.now})
		}
	}
	return n
}

// queue queues the tasks that have become due.
func (w *world) queue() {
	for _, t := range w.tasks {
		if t.status == pending && !t.due.After(w.now) && !w.holds(t) {
			t.queued = true
		}
	}
}

// age makes tasks that were queued too long more urgent. A retry is then sorted like a new task. Any other task gets agedPriority, behind the tasks of the same
// company that already have this priority.
func (w *world) age() {
	w.ranks++
	for _, t := range w.tasks {
		if t.status != pending || !t.queued || w.holds(t) {
			continue
		}
		t.retryAged = t.retryAged || w.isAgedRetry(t)
		if w.isAgedPriority(t) && !t.prioAged {
			t.prioAged = true
			if t.rank > 0 && t.priority > agedPriority {
				t.rank = w.ranks
			}
		}
	}
}

// follow moves waiting tasks to the pools of the current routes. In a new pool, the order of a moved task is not promised, and a sweep must queue it again.
func (w *world) follow() {
	for _, t := range w.tasks {
		p := w.pool(t)
		if p != t.first {
			t.rank = 0
		}
		if was := orElse(t.moved, t.first); p != was {
			t.moved, t.queued = &p, false
		}
	}
}

func (w *world) isAgedRetry(t *task) bool {
	return t.retries > 0 && !t.due.Add(retryMaxWait).After(w.now)
}

func (w *world) isAgedPriority(t *task) bool { return !t.due.Add(priorityWait).After(w.now) }

func orElse[T any](p *T, standard T) T {
	if p == nil {
		return standard
	}
	return *p
}

// cancel ends a waiting task.
func (w *world) cancel(t *task) {
	t.status = cancelled
	t.happened(event{Event: "cancelled", Effect: "cancelled", At: w.now})
}

// requeueRefused returns the reason why a requeue of the task is rejected, or "" if it is allowed.
func (w *world) requeueRefused(t *task) string {
	switch {
	case t.status == pending || t.status == processing:
		return "task.not_ended"
	case t.status == success:
		return "task.succeeded"
	case t.expires != nil && !t.expires.After(w.now.Add(minLease)): // stopped does not matter here, because a requeue clears it
		return "task.expired"
	case w.isBlocked(t.company, t.kind, t.to):
		return "recipient.blocked"
	default:
		return ""
	}
}

// dueAgain returns the due time of a task that is requeued at now.
func (t *task) dueAgain(now time.Time) time.Time {
	if t.asked != nil && t.asked.After(now) {
		return *t.asked
	}
	return now
}

// requeue makes an ended task wait again like a new task, for any sender, in the pool of the current routes. The order of the task is not promised. Reports of
// its earlier leases change nothing.
func (w *world) requeue(t *task) {
	t.status, t.retries, t.holder, t.failedBy, t.lease, t.ranOut, t.sent, t.settled = pending, 0, "", "", 0, false, nil, nil
	t.due = t.dueAgain(w.now)
	p := w.pool(t)
	t.rank, t.moved, t.untried, t.held, t.stopped = 0, &p, 0, false, nil
	t.leaveQueue()
	t.happened(event{Event: "requeued", Effect: "requeued", At: w.now})
}

// counts are the task statistics.
type counts struct {
	PendingNew   int `json:"pending_new_tasks"`
	PendingRetry int `json:"pending_retry_tasks"`
	Processing   int `json:"processing_tasks"`
	Success      int `json:"success_tasks"`
	Failed       int `json:"failed_tasks"`
}

func (w *world) counts() (c counts) {
	for _, t := range w.tasks {
		switch {
		case t.status == pending && t.retries == 0:
			c.PendingNew++
		case t.status == pending:
			c.PendingRetry++
		case t.status == processing:
			c.Processing++
		case t.status == success:
			c.Success++
		case t.status == failed:
			c.Failed++
		}
	}
	return c
}

// render returns the text of a template with its parameters replaced. ok is false if a parameter is missing.
func (t *template) render(params map[string]string) (text string, ok bool) {
	text = t.text
	for _, name := range []string{"code", "name"} {
		placeholder := "{" + name + "}"
		if !strings.Contains(text, placeholder) {
			continue
		}
		value, given := params[name]
		if !given {
			return "", false
		}
		text = strings.ReplaceAll(text, placeholder, value)
	}
	return text, true
}
