package model

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"lksms/internal/segment"
)

// What the documents promise, as plain values and rules: README.md, docs/dispatch.md and api/openapi.yaml in Go. Nothing in
// this file and in claim_test.go knows of HTTP or of PostgreSQL.

// The settings and rules that the sequences run under are the defaults.
const (
	maxRetries     = 3
	retryDelay     = 5 * time.Minute
	retryMaxWait   = 10 * time.Minute
	usualLease     = 30 * time.Minute
	priorityWait   = time.Hour
	silentAfter    = time.Minute
	seenApart      = 10 * time.Minute // how much later the service may note a poll
	scheduledEvery = 5 * time.Minute
)

// The states of a task.
const (
	pending = iota
	processing
	success
	failed
	cancelled
)

// world is everything that the service holds.
type world struct {
	now       time.Time
	companies []*company
	senders   []*sender
	routes    []*route
	templates []*template
	defaults  []*defaultContent
	tasks     []*task
	places    int            // how many places in line were given
	leases    map[int64]bool // every lease that was ever given
	kept      []*keptAnswer
}

type company struct {
	no        string
	users     []*user
	top       int // the most urgent priority that its users may ask for
	weight    float64
	countries []string // to which it may send; none: everywhere
	gone      bool
}

// user submits for its company.
type user struct{ name, key string }

// route says that a sender sends a company's messages of a type to a country; of no country: to every country that has no
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

// pool is the tasks that the same routes serve. The zero pool is the shared one.
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

// keptAnswer is what an Idempotency-Key got.
type keptAnswer struct {
	key, user, body, answer string
	at                      time.Time
}

// number is a phone number as people write it, and what it means.
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
	lease    int64 // live, run out, or the one that settled it
	until    time.Time
	leasedTo map[int64]string // every lease and its sender
	ranOut   bool             // its last lease was taken back, and nobody was given it since
	failedBy string
	timeline []event

	first pool  // where it belonged when it was submitted
	moved *pool // where it belonged when somebody looked last; nil: in first
	place int   // in line, among those of its company, pool and urgency; 0: none is promised
	// queued says that a sweep, or the submission, has put it in line; until then a claim finds it by its time.
	queued              bool
	retryAged, prioAged bool // a sweep has moved it because it waited too long
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

// Where tasks wait.

// poolOf is the pool of a company's messages of a type to a country, as routes are now: that of the country, else that of
// any country, else the shared one.
func (w *world) poolOf(c *company, kind, country string) pool {
	for _, p := range []pool{{c, kind, country}, {c, kind, ""}} {
		if w.isRouted(p) {
			return p
		}
	}
	return pool{}
}

// pool is where a task waits.
func (w *world) pool(t *task) pool {
	return w.poolOf(t.company, t.kind, t.to.country)
}

// routesOf gives the routes of a pool that are on.
func (w *world) routesOf(p pool) []*route {
	var routes []*route
	for _, r := range w.routes {
		if r.on && r.pool() == p {
			routes = append(routes, r)
		}
	}
	return routes
}

// isRouted tells whether routes say who sends what waits in a pool.
func (w *world) isRouted(p pool) bool { return len(w.routesOf(p)) > 0 }

// mayServe tells whether a sender may ever take from a pool: one of its routes names it, or it is shared and no route does.
func (w *world) mayServe(s *sender, p pool) bool {
	if !w.isRouted(p) {
		return s.shared
	}
	return w.routeOf(s, p) != nil
}

// sortOf is the rank of a sender among those that may serve a pool: only the largest is served, while anybody of it is available.
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

// activeTemplate is the first active template that a company may use.
func (w *world) activeTemplate(c *company) *template {
	for _, t := range w.templates {
		if t.active && (len(t.companies) == 0 || slices.Contains(t.companies, c)) {
			return t
		}
	}
	return nil
}

// named is the task that a user gave a name to: a colleague's task of the name is another.
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

// defaultFor is the default content of a number for a company.
func (w *world) defaultFor(c *company, to number) *defaultContent {
	for _, d := range w.defaults {
		if d.to.e164 == to.e164 && d.company == c {
			return d
		}
	}
	return nil
}

// waits tells whether a task could be claimed now by somebody.
func (w *world) waits(t *task) bool {
	return t.status == pending && !t.due.After(w.now) && !w.isOver(t)
}

// isOver tells whether a task's time is over: nobody is given it any more.
func (w *world) isOver(t *task) bool { return t.expires != nil && !t.expires.After(w.now) }

// ranOut tells whether the lease of a task has run out.
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
	size       int // characters that its provider counts as one segment; 0: as the standard says
	balance    *int
	lowWarning *int
	lowSwitch  *int

	used      map[string]int // segments, by window
	took      int            // tasks of the last claim that was counted
	tookAt    time.Time
	next      time.Time // ready again
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

// windows names the minute, hour, day and month of a time, each as a clock and a calendar on a wall show it.
func windows(at time.Time, zone *time.Location) [4]string {
	local := at.In(zone)
	return [4]string{local.Format("2006-01-02 15:04 -07:00"), local.Format("2006-01-02 15 -07:00"), local.Format("2006-01-02"), local.Format("2006-01")}
}

// isPaced tells whether anything is counted for a sender.
func (s *sender) isPaced() bool {
	return s.interval > 0 || s.balance != nil || slices.ContainsFunc(s.limits[:], func(l *int) bool { return l != nil })
}

func (s *sender) usedNow(at time.Time) (used [4]int) {
	for u, window := range windows(at, s.zone) {
		used[u] = s.used[units[u]+" "+window]
	}
	return used
}

// isAvailable: it would be served, now or when it has rested, unless it is silent.
func (s *sender) isAvailable(at time.Time) bool { return s.isOn() && s.hasQuota(at) && s.hasFunds() }
func (s *sender) isOn() bool                    { return s.status == "on" }
func (s *sender) isRested(at time.Time) bool    { return !at.Before(s.next) }
func (s *sender) hasFunds() bool                { return s.balance == nil || *s.balance > valueOf(s.lowSwitch) }
func (s *sender) isReady(at time.Time) bool {
	return s.isOn() && s.isRested(at) && s.hasQuota(at) && s.hasFunds()
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

// budget is how many segments a sender may still take.
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

// most is how many tasks one claim of a sender may give: no more than it can send before the lease runs out.
func (s *sender) most(at time.Time, limit int) int {
	switch {
	case !s.isReady(at):
		return 0
	case s.interval > 0:
		return min(limit, max(1, int(s.lease/s.interval)))
	default:
		return limit
	}
}

// cost is how many segments an attempt of a task by a sender takes.
func (s *sender) cost(t *task) int {
	text := s.text(t)
	if s.size > 0 {
		return max(1, (len([]rune(text))+s.size-1)/s.size)
	}
	return segment.Count(text)
}

// costAtMost is what others suppose a task costs a sender that counts by a size of its own or adds its signature: they do not
// count the text anew for each of their primaries.
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

// text is what a sender sends: with the message's own signature, or else with the sender's.
func (s *sender) text(t *task) string {
	sign := t.sign
	if sign == "" {
		sign = s.sign
	}
	return segment.Signed(sign, t.content)
}

// retime is what a changed interval means: it counts from the last claim.
func (s *sender) retime(interval time.Duration) {
	s.interval = interval
	if !s.tookAt.IsZero() {
		s.next = s.tookAt.Add(time.Duration(s.took) * interval)
	}
}

// change books a change of the balance.
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

// What happens to tasks.

// give leases a task to a sender.
func (w *world) give(t *task, s *sender, lease int64) {
	t.status, t.holder, t.lease, t.until, t.ranOut = processing, s.no, lease, w.now.Add(s.lease), false
	t.leasedTo[lease] = s.no
	t.happened(event{Event: "claimed", AppID: s.no, Attempt: t.retries + 1, LeaseID: lease, At: w.now})
}

// report is what a sender says of a task; lease 0 is none named.
type report struct {
	app         string
	lease       int64
	ok          bool
	shouldRetry bool
	after       *time.Duration
}

// effectOf tells what a report means.
func (w *world) effectOf(t *task, r report) string {
	names := r.lease == 0 || r.lease == t.lease
	holds := t.status == processing && t.holder == r.app && names && (r.ok || !w.ranOut(t))
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

// report ends a lease, or changes nothing.
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
	if t.prioAged && t.priority > 0 { // it waits anew in its own priority, behind what its company has there
		t.place = 0
	}
	t.status, t.retries, t.due, t.failedBy, t.holder = pending, t.retries+1, due, failedBy, ""
	t.queued, t.retryAged, t.prioAged = false, false, false
}

// recover takes back what ran out, and tells how much that was.
func (w *world) recover() (n int) {
	for _, t := range w.tasks {
		if !w.ranOut(t) {
			continue
		}
		n++
		e := event{Event: "recovered", AppID: t.holder, LeaseID: t.lease, Effect: "retry", At: w.now}
		if t.retries < maxRetries {
			w.again(t, t.holder, w.now)
			t.ranOut = true
		} else {
			now := w.now
			e.Effect = "exhausted"
			t.status, t.failedBy, t.holder, t.settled = failed, t.holder, "", &now
		}
		t.happened(e)
	}
	return n
}

// expire ends what nobody was given in time.
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

// queue puts in line what has come due.
func (w *world) queue() {
	for _, t := range w.tasks {
		if t.status == pending && !t.due.After(w.now) {
			t.queued = true
		}
	}
}

// age lets what is in line for too long go first: a retry at its place among the new ones, any other behind what its company has
// among the most urgent.
func (w *world) age() {
	w.places++
	for _, t := range w.tasks {
		if t.status != pending || !t.queued {
			continue
		}
		t.retryAged = t.retryAged || w.isAgedRetry(t)
		if w.isAgedPriority(t) && !t.prioAged {
			t.prioAged = true
			if t.place > 0 && t.priority > 0 {
				t.place = w.places
			}
		}
	}
}

// follow lets the tasks that wait follow the routes; there they are of no promised place, and in line when a sweep has queued them.
func (w *world) follow() {
	for _, t := range w.tasks {
		p := w.pool(t)
		if p != t.first {
			t.place = 0
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

// render puts parameters into a template; ok is false where one is missing.
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
