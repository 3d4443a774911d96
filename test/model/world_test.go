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

// The promises of docs/start.md, docs/dispatch.md and api/openapi.yaml, as plain values and rules in Go. This file and claim_test.go know
// nothing of HTTP and PostgreSQL.

// The sequences run under the default settings and rules.
const (
	maxRetries     = 3
	retryDelay     = 5 * time.Minute
	retryMaxWait   = 10 * time.Minute
	usualLease     = 30 * time.Minute
	priorityWait   = time.Hour
	agedPriority   = 2 // of a task that waited for priorityWait: the first one that is not real-time
	silentAfter    = time.Minute
	seenApart      = 10 * time.Minute // how much later the service may store a poll
	scheduledEvery = 5 * time.Minute

	minLease    = time.Second // a task that expires sooner is not claimed
	reportGrace = time.Minute // after a lease that ended because its task expired

	// How long a task waits whose leases nobody starts, from the second one on.
	releaseDelay    = 5 * time.Second
	maxReleaseDelay = 10 * time.Minute
)

// The states of a task.
const (
	pending = iota
	processing
	success
	failed
	cancelled
)

// world is the whole state of the service.
type world struct {
	now       time.Time
	companies []*company
	senders   []*sender
	routes    []*route
	templates []*template
	defaults  []*defaultContent
	tasks     []*task
	ranks     int            // the last rank that was given
	leases    map[int64]bool // every lease so far
	kept      []*keptAnswer

	channelOff   bool
	countriesOff map[string]bool
}

type company struct {
	no        string
	users     []*user
	top       int // the most urgent priority that its users may ask for
	weight    float64
	countries []string // the company may send to these; none: to all
	off       bool
	routed    bool // only its own routes send its messages: it uses no shared senders
	gone      bool
}

// user submits messages for its company.
type user struct{ name, key string }

// route says that a sender sends a company's messages of a type to a country. Without a country it holds for every country that has no
// route of its own.
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

// pool is the tasks that the same routes serve. The zero pool is the shared pool.
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

// keptAnswer is the answer that is stored for an Idempotency-Key.
type keptAnswer struct {
	key, user, body, answer string
	at                      time.Time
}

// number is a phone number as people write it, in E.164, and its country.
type number struct{ written, e164, country string }

type task struct {
	id       string
	name     string // in the log of a sequence
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
	sent     *time.Time
	settled  *time.Time

	status   int
	retries  int
	holder   string
	lease    int64 // the live lease, the last one that ran out, or the one that settled the task
	until    time.Time
	leasedTo map[int64]string // every lease and its sender
	ranOut   bool             // its last lease was taken back, and no sender has got it since
	leasedAt time.Time        // the live lease
	toStart  bool             // its sender must start the live lease, and has not yet
	charged  int              // segments that the live lease took from a sender that counts them
	paid     int              // segments that it took from a balance
	untried  int              // leases that nobody started, since the task was submitted or requeued
	failedBy string
	timeline []event

	first pool  // its pool when it was submitted
	moved *pool // its pool at the last check; nil: first
	rank  int   // among the tasks of its user, pool and urgency; 0: no order is promised
	// queued: the submission or a sweep has queued the task. Until then a claim finds it by the time at which it is due.
	queued              bool
	retryAged, prioAged bool // a sweep has moved the task because it waited too long
	mayBeAged           bool // it may have been queued as one that waited too long, before a lease that nobody started made it due again
	held                bool // a switch held it at the last check while it waited
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

// The pools in which tasks wait.

// poolOf returns the pool of a company's messages of a type to a country by today's routes: that of the country, else that of any
// country, else the shared pool.
func (w *world) poolOf(c *company, kind, country string) pool {
	for _, p := range []pool{{c, kind, country}, {c, kind, ""}} {
		if w.isRouted(p) {
			return p
		}
	}
	return pool{}
}

// pool returns the pool in which a task waits.
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

// mayServe reports whether a sender may ever claim from a pool: a route of the pool names it, or it is shared and the pool has no routes.
func (w *world) mayServe(s *sender, p pool) bool {
	if !w.isRouted(p) {
		return s.shared
	}
	return w.routeOf(s, p) != nil
}

// sortOf returns the sort of a sender in a pool: while a sender of the largest sort is available, others are not served.
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

// activeTemplate returns the first active template that a company may use.
func (w *world) activeTemplate(c *company) *template {
	for _, t := range w.templates {
		if t.active && (len(t.companies) == 0 || slices.Contains(t.companies, c)) {
			return t
		}
	}
	return nil
}

// named returns the task of a user with a dedup key. Another user's task with this key is another task.
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

// defaultFor returns the default content of a number for a company.
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

// release lets a task go on that a switch held, when it was due or, if that is over, at once. No order is promised for it.
func (t *task) release(due time.Time) {
	t.held, t.due, t.rank = false, due, 0
	t.leaveQueue()
	t.mayBeAged = true // if no sweep had taken it out of the queue
}

// waits reports whether some sender could claim a task now.
func (w *world) waits(t *task) bool {
	return t.status == pending && !t.due.After(w.now) && t.lastsUntil(w.now.Add(minLease)) && !w.holds(t)
}

// lastsUntil reports whether a task expires after a time.
func (t *task) lastsUntil(at time.Time) bool { return t.expires == nil || t.expires.After(at) }

// bounded returns when a lease of a task ends that would end at a time: no lease outlasts its task.
func (t *task) bounded(until time.Time) time.Time {
	if t.lastsUntil(until) {
		return until
	}
	return *t.expires
}

// isOver reports whether a task has expired: no sender gets it any more.
func (w *world) isOver(t *task) bool { return t.expires != nil && !t.expires.After(w.now) }

// ranOut reports whether the lease of a task has run out.
func (w *world) ranOut(t *task) bool { return t.status == processing && !t.until.After(w.now) }

// Senders.

type sender struct {
	no         string
	status     string // on, off, retired
	shared     bool
	sort       float64
	interval   time.Duration
	limits     [4]*int // segments in a minute, hour, day and month of its time zone
	zone       *time.Location
	lease      time.Duration
	sign       string
	size       int // characters that its provider counts as one segment; 0: the standard's
	balance    *int
	lowWarning *int
	lowSwitch  *int

	used      map[string]int // segments, by window
	took      int            // tasks of the last claim that was counted
	tookAt    time.Time
	next      time.Time // the sender is ready again at this time
	polled    time.Time // last claim
	routedAt  time.Time // last claim while it was on and a route named it
	heard     time.Time // last claim or settling report
	ledger    []ledgerEntry
	events    []string
	attempts  int
	succeeded int
	failed    int
}

type ledgerEntry struct {
	Change  int
	Balance int
	LeaseID int64
}

var units = [4]string{"minute", "hour", "day", "month"}

// windows names the minute, hour, day and month of a time by the clock and calendar of a zone.
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

// isAvailable reports whether a sender would be served, now or after its interval, unless it is silent.
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

// budget returns how many segments a sender may still use.
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

// most returns how many tasks one claim of a sender may get: no more than the sender can send before the lease runs out.
func (s *sender) most(at time.Time, limit int) int { return s.mostIn(at, limit, s.lease) }

// mostIn is most for leases of another length.
func (s *sender) mostIn(at time.Time, limit int, lease time.Duration) int {
	switch {
	case !s.isReady(at):
		return 0
	case s.interval > 0:
		return min(limit, max(1, int(lease/s.interval)))
	default:
		return limit
	}
}

// cost returns how many segments an attempt of a task by a sender uses.
func (s *sender) cost(t *task) int {
	text := s.text(t)
	if s.size > 0 {
		return max(1, (len([]rune(text))+s.size-1)/s.size)
	}
	return segment.Count(text)
}

// costAtMost returns the segments that rivals assume for a task of a sender with its own segment size or signature. The service does not
// count a text again for each primary.
func (s *sender) costAtMost(t *task) int {
	segments := t.segments()
	if s.sign != "" {
		segments++
	}
	if s.size > 0 {
		segments *= (160 + s.size - 1) / s.size
	}
	return segments
}

// text returns the text that a sender sends: with the message's own signature, else with the sender's.
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

// Changes of tasks.

// give leases a task to a sender.
func (w *world) give(t *task, s *sender, lease int64) {
	t.status, t.holder, t.lease, t.until, t.ranOut = processing, s.no, lease, t.bounded(w.now.Add(s.lease)), false
	t.leasedAt, t.toStart, t.charged, t.paid = w.now, false, 0, 0
	t.leasedTo[lease] = s.no
	t.happened(event{Event: "claimed", AppID: s.no, Attempt: t.retries + 1, LeaseID: lease, At: w.now})
}

// report is a report of a sender on a task. Without a lease, lease is 0.
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

// report applies a report, which ends a lease or changes nothing.
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
		w.again(t, r.app, w.now.Add(delay))
	}
	return effect
}

// again lets a task wait for another attempt.
func (w *world) again(t *task, failedBy string, due time.Time) {
	if t.prioAged && t.priority > agedPriority { // the task waits in its own priority again, behind the other tasks of its company
		t.rank = 0
	}
	t.status, t.retries, t.due, t.failedBy, t.holder = pending, t.retries+1, due, failedBy, ""
	t.leaveQueue()
}

// leaveQueue lets a sweep queue the task anew.
func (t *task) leaveQueue() {
	t.queued, t.retryAged, t.prioAged, t.mayBeAged = false, false, false, false
}

// start starts a lease of a sender, and returns when it runs out; nil: the sender does not hold it.
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

// giveBack takes back a lease that nobody started: no attempt is counted, and the sender gets its segments back. The task keeps its position in the queue the first
// time, and waits longer each time after that.
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

// recover takes back the leases that ran out, and returns their number.
func (w *world) recover() (n int) {
	var unstarted []*task
	for _, t := range w.tasks {
		if w.ranOut(t) && t.toStart {
			unstarted = append(unstarted, t)
		}
	}
	slices.SortFunc(unstarted, func(a, b *task) int { return cmp.Compare(a.lease, b.lease) }) // the order of the ledger
	for _, t := range unstarted {
		w.giveBack(t)
	}
	n = len(unstarted)
	for _, t := range w.tasks {
		if !w.ranOut(t) || w.isOver(t) && t.until.Add(reportGrace).After(w.now) {
			continue
		}
		n++
		e := event{Event: "recovered", AppID: t.holder, LeaseID: t.lease, Effect: "retry", At: w.now}
		switch {
		case w.isOver(t):
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

// expire fails the waiting tasks that have expired, and returns their number.
func (w *world) expire() (n int) {
	for _, t := range w.tasks {
		if t.status == pending && w.isOver(t) {
			n++
			now := w.now
			t.status, t.settled = failed, &now
			t.happened(event{Event: "expired", Effect: "expired", At: w.now})
		}
	}
	return n
}

// queue queues the tasks that have come due.
func (w *world) queue() {
	for _, t := range w.tasks {
		if t.status == pending && !t.due.After(w.now) && !w.holds(t) {
			t.queued = true
		}
	}
}

// age lets tasks that are queued for too long go first: a retry goes like a new task of its rank, any other task behind the tasks of its
// company among the most urgent.
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

// follow moves waiting tasks to the pools of today's routes. In a new pool no order is promised for them, and a sweep has
// to queue them again.
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

// cancel ends a task that waits.
func (w *world) cancel(t *task) {
	t.status = cancelled
	t.happened(event{Event: "cancelled", Effect: "cancelled", At: w.now})
}

// requeueRefused returns the reason why a task may not be requeued; empty: it may.
func (w *world) requeueRefused(t *task) string {
	switch {
	case t.status == pending || t.status == processing:
		return "task.not_ended"
	case t.status == success:
		return "task.succeeded"
	case w.isOver(t):
		return "task.expired"
	default:
		return ""
	}
}

// requeue lets a task that has ended wait again as if it were new, for any sender, in the pool of today. No order is promised for it. Its leases are
// over: reports of them change nothing.
func (w *world) requeue(t *task) {
	t.status, t.retries, t.holder, t.failedBy, t.lease, t.ranOut, t.sent, t.settled = pending, 0, "", "", 0, false, nil, nil
	if t.due = w.now; t.asked != nil && t.asked.After(w.now) {
		t.due = *t.asked
	}
	p := w.pool(t)
	t.rank, t.moved, t.untried, t.held = 0, &p, 0, false
	t.leaveQueue()
	t.happened(event{Event: "requeued", Effect: "requeued", At: w.now})
}

// counts are the statistics.
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

// render puts parameters into a template; ok is false if one is missing.
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
