package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	api "lksms/gen/client"
)

// outcome is what a client knows about a call.
type outcome int

const (
	answered outcome = iota // the call was done
	refused                 // the call was not done, and will not be
	unknown                 // the call may have been done: no answer, or one that asks for a retry
)

// outcomeOf returns the outcome of an answer. A 5xx proves nothing: the server may have lost its database after the
// COMMIT.
func outcomeOf(status int, err error) outcome {
	var op *net.OpError
	switch {
	case errors.As(err, &op) && op.Op == "dial":
		return refused
	case err != nil || status >= http.StatusInternalServerError:
		return unknown
	case status == http.StatusOK:
		return answered
	default:
		return refused
	}
}

// message is a text that a submitter wants to send once. Texts are unique, so that a text identifies its tasks.
type message struct {
	answered, unknown int
	ids               map[string]struct{} // ids of the tasks in the answers
}

// reportCount counts the reports of one task.
type reportCount struct{ answered, unknown int }

// claimed is a lease that an answer gave to an app.
type claimed struct {
	appID string
	task  api.ClaimedTask
}

// history records the answers of all clients, to be compared with the database.
type history struct {
	mu        sync.Mutex
	messages  map[string]*message
	claims    []claimed
	reports   map[string]*reportCount
	cancelled []string
	requeued  map[string]bool // tasks that somebody tried to requeue, whatever became of it
	lists     []*list         // batches whose creation was answered
	pauses    []*pausePeriod
	breaches  []string // violations visible in the answers themselves
	erased    sync.Map // ids of tasks whose person is to be erased

	calls       [3]atomic.Int64 // by outcome
	drainErrors atomic.Int64    // 5xx of a server during its shutdown
	lockouts    atomic.Int64    // 429s for callers with the right password
	failures    atomic.Int64    // 500s: unexpected errors of a server
	latest      sync.Map        // server -> *atomic.Int64, start of its latest answered call in Unix nanoseconds

	note func(r *http.Request, began time.Time, status int) // called for each answer; nil: not
}

func newHistory() *history {
	return &history{messages: map[string]*message{}, reports: map[string]*reportCount{}, requeued: map[string]bool{}}
}

// breach records a violation.
func (h *history) breach(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.breaches = append(h.breaches, fmt.Sprintf(format, args...))
}

// submitted records a submission of text and its outcome.
func (h *history) submitted(text string, o outcome, id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.messages[text]
	if m == nil {
		m = &message{ids: map[string]struct{}{}}
		h.messages[text] = m
	}
	switch o {
	case answered:
		m.answered++
		m.ids[id] = struct{}{}
	case unknown:
		m.unknown++
	case refused:
	}
}

// took records claimed leases.
func (h *history) took(claims ...claimed) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.claims = append(h.claims, claims...)
}

// reported records a report. logged: the server has written it to its log.
func (h *history) reported(taskID string, o outcome, logged bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.reports[taskID]
	if r == nil {
		r = &reportCount{}
		h.reports[taskID] = r
	}
	switch {
	case o == unknown:
		r.unknown++
	case logged:
		r.answered++
	}
}

// cancel records a cancelled task.
func (h *history) cancel(taskID string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cancelled = append(h.cancelled, taskID)
}

// requeue records that somebody tries to requeue a task.
func (h *history) requeue(taskID string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.requeued[taskID] = true
}

// listed records a batch.
func (h *history) listed(b *list) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lists = append(h.lists, b)
}

// batches returns all batches.
func (h *history) batches() []*list {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.lists)
}

// beginPause records that a batch is paused or cancelled from now on.
func (h *history) beginPause(b *list) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if b.paused == nil {
		b.paused = &pausePeriod{batchID: b.id, since: time.Now()}
		h.pauses = append(h.pauses, b.paused)
	}
}

// endPause records that a batch may go on from now on.
func (h *history) endPause(b *list) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if b.paused != nil {
		b.paused.until, b.paused = time.Now(), nil
	}
}

// accepted returns the number of messages whose acceptance was answered.
func (h *history) accepted() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, m := range h.messages {
		if m.answered > 0 {
			n++
		}
	}
	return n
}

// servedSince reports whether s has answered a call that began after t.
func (h *history) servedSince(s *server, t time.Time) bool {
	latest, ok := h.latest.Load(s)
	return ok && latest.(*atomic.Int64).Load() > t.UnixNano()
}

// observer records the answers of one server.
type observer struct {
	history *history
	server  *server
	base    http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (o observer) RoundTrip(r *http.Request) (*http.Response, error) {
	began := time.Now()
	res, err := o.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if o.history.note != nil {
		o.history.note(r, began, res.StatusCode)
	}
	switch {
	case res.StatusCode == http.StatusUnprocessableEntity && hasExpired(r):
		// The request waited until its message had expired: the client repeated it, or a failover held it back.
	case res.StatusCode == http.StatusBadRequest || res.StatusCode == http.StatusUnprocessableEntity || res.StatusCode == http.StatusUnauthorized:
		o.history.breach("a good request was refused: %s %s: %d", r.Method, r.URL.Path, res.StatusCode)
	case res.StatusCode == http.StatusTooManyRequests:
		o.history.lockouts.Add(1)
	case res.StatusCode >= http.StatusInternalServerError:
		if o.server.draining(time.Now()) {
			o.history.drainErrors.Add(1)
		}
		if res.StatusCode == http.StatusInternalServerError {
			o.history.failures.Add(1)
		}
	case res.StatusCode == http.StatusOK:
		latest, _ := o.history.latest.LoadOrStore(o.server, new(atomic.Int64))
		newest := latest.(*atomic.Int64)
		for old := newest.Load(); began.UnixNano() > old && !newest.CompareAndSwap(old, began.UnixNano()); old = newest.Load() {
		}
	}
	return res, nil
}

// hasExpired reports whether the message that r submits has expired by now.
func hasExpired(r *http.Request) bool {
	if r.GetBody == nil {
		return false
	}
	body, err := r.GetBody()
	if err != nil {
		return false
	}
	var m struct {
		ExpiresAt time.Time `json:"expires_at"`
	}
	return json.NewDecoder(body).Decode(&m) == nil && !m.ExpiresAt.IsZero() && m.ExpiresAt.Before(time.Now())
}

// verdicts checks the recorded answers themselves.
func (h *history) verdicts() []verdict {
	h.mu.Lock()
	defer h.mu.Unlock()
	answers := verdict{name: "no answer violates the contract, and every fault is survived"}
	for _, b := range h.breaches {
		answers.add(b)
	}
	return []verdict{
		answers,
		{name: "a server answers no 5xx during its shutdown", broken: int(h.drainErrors.Load())},
		{name: "nobody with the right password is refused for wrong passwords of others (429)", broken: int(h.lockouts.Load())},
		{name: "no server answers an unexpected error (500)", broken: int(h.failures.Load())},
	}
}
