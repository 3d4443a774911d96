package load

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
	"lksms/test/soak/check"
	"lksms/test/soak/stack"
)

// Outcome is what a client knows about the effect of a call.
type Outcome int

// These are the outcomes of a call.
const (
	Answered Outcome = iota // the call was executed
	Refused                 // the call was not executed, and never will be
	Unknown                 // the call was possibly executed: no response was received, or the response asks for a retry
)

// OutcomeOf returns the outcome of a response. A 5xx gives Unknown, because the server can lose its database after the COMMIT.
func OutcomeOf(status int, err error) Outcome {
	var op *net.OpError
	switch {
	case errors.As(err, &op) && op.Op == "dial":
		return Refused
	case err != nil || status >= http.StatusInternalServerError:
		return Unknown
	case status == http.StatusOK:
		return Answered
	default:
		return Refused
	}
}

// message is a text that a submitter wants to send once. Texts are unique, so a text identifies its tasks.
type message struct {
	Answered, Unknown int
	Ids               map[string]struct{} // task ids from the responses
}

// reportCount counts the reports of one task by outcome.
type reportCount struct{ Answered, Unknown int }

// Claimed is a lease from the response to a claim.
type Claimed struct {
	AppID string
	Task  api.ClaimedTask
}

// History records the responses of all clients, so that they can be compared with the database.
type History struct {
	Mu        sync.Mutex
	Messages  map[string]*message
	Claims    []Claimed
	Reports   map[string]*reportCount
	Cancelled []string
	Requeued  map[string]bool // tasks that a client tried to requeue, with or without success
	Lists     []*list         // batches whose creation got a response
	Pauses    []*pausePeriod
	breaches  []string // violations that are visible in the responses themselves
	Erased    sync.Map // ids of tasks whose recipient was or will be erased

	Calls       [3]atomic.Int64 // number of calls, by outcome
	drainErrors atomic.Int64    // 5xx responses of a server during its shutdown
	lockouts    atomic.Int64    // 429 responses to callers with the right password
	failures    atomic.Int64    // 500 responses: unexpected errors of a server
	latest      sync.Map        // server -> *atomic.Int64, start of its latest answered call in Unix nanoseconds

	OnAnswer func(r *http.Request, began time.Time, status int) // called for each response; can be nil
}

// NewHistory returns an empty history.
func NewHistory() *History {
	return &History{Messages: map[string]*message{}, Reports: map[string]*reportCount{}, Requeued: map[string]bool{}}
}

// Breach records a violation.
func (h *History) Breach(format string, args ...any) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	h.breaches = append(h.breaches, fmt.Sprintf(format, args...))
}

// Submitted records a submission of text and its outcome. id is the task id, or "" if unknown.
func (h *History) Submitted(text string, o Outcome, id string) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	m := h.Messages[text]
	if m == nil {
		m = &message{Ids: map[string]struct{}{}}
		h.Messages[text] = m
	}
	switch o {
	case Answered:
		m.Answered++
		m.Ids[id] = struct{}{}
	case Unknown:
		m.Unknown++
	case Refused:
	}
}

// RecordClaims records claimed leases.
func (h *History) RecordClaims(claims ...Claimed) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	h.Claims = append(h.Claims, claims...)
}

// RecordReport records a report. logged is true if the server has written a row of report_logs.
func (h *History) RecordReport(taskID string, o Outcome, logged bool) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	r := h.Reports[taskID]
	if r == nil {
		r = &reportCount{}
		h.Reports[taskID] = r
	}
	switch {
	case o == Unknown:
		r.Unknown++
	case logged:
		r.Answered++
	}
}

// cancel records that a task was cancelled.
func (h *History) cancel(taskID string) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	h.Cancelled = append(h.Cancelled, taskID)
}

// requeue records that a client tries to requeue a task.
func (h *History) requeue(taskID string) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	h.Requeued[taskID] = true
}

// listed records the creation of a batch.
func (h *History) listed(b *list) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	h.Lists = append(h.Lists, b)
}

// Batches returns all recorded batches.
func (h *History) Batches() []*list {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	return slices.Clone(h.Lists)
}

// beginPause records that a batch is paused or cancelled from this moment.
func (h *History) beginPause(b *list) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	if b.paused == nil {
		b.paused = &pausePeriod{BatchID: b.ID, Since: time.Now()}
		h.Pauses = append(h.Pauses, b.paused)
	}
}

// endPause records that tasks of a batch can be leased again from this moment.
func (h *History) endPause(b *list) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	if b.paused != nil {
		b.paused.Until, b.paused = time.Now(), nil
	}
}

// Accepted returns the number of accepted messages.
func (h *History) Accepted() (n int) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	for _, m := range h.Messages {
		if m.Answered > 0 {
			n++
		}
	}
	return n
}

// ServedSince reports whether s has answered a call that started after t.
func (h *History) ServedSince(s *stack.Server, t time.Time) bool {
	latest, ok := h.latest.Load(s)
	return ok && latest.(*atomic.Int64).Load() > t.UnixNano()
}

// Observer records the responses of one server.
type Observer struct {
	History *History
	Server  *stack.Server
	Base    http.RoundTripper
}

// Capped is a header of submissions that a cap can refuse with 429. Their client checks the reason.
const Capped = "Soak-Capped"

// RoundTrip implements http.RoundTripper.
func (o Observer) RoundTrip(r *http.Request) (*http.Response, error) {
	began := time.Now()
	res, err := o.Base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if o.History.OnAnswer != nil {
		o.History.OnAnswer(r, began, res.StatusCode)
	}
	switch {
	case res.StatusCode == http.StatusUnprocessableEntity && hasExpired(r):
		// This rejection is not a breach: the message expired while the client repeated the request, or while the request waited during a failover.
	case res.StatusCode == http.StatusBadRequest || res.StatusCode == http.StatusUnprocessableEntity || res.StatusCode == http.StatusUnauthorized:
		o.History.Breach("a valid request was rejected: %s %s: %d", r.Method, r.URL.Path, res.StatusCode)
	case res.StatusCode == http.StatusTooManyRequests && r.Header.Get(Capped) == "":
		o.History.lockouts.Add(1)
	case res.StatusCode >= http.StatusInternalServerError:
		if o.Server.Draining(time.Now()) {
			o.History.drainErrors.Add(1)
		}
		if res.StatusCode == http.StatusInternalServerError {
			o.History.failures.Add(1)
		}
	case res.StatusCode == http.StatusOK:
		latest, _ := o.History.latest.LoadOrStore(o.Server, new(atomic.Int64))
		newest := latest.(*atomic.Int64)
		for old := newest.Load(); began.UnixNano() > old && !newest.CompareAndSwap(old, began.UnixNano()); old = newest.Load() {
		}
	}
	return res, nil
}

// hasExpired reports whether the server must reject the message of r: its expires_at has passed, or is less than a second ahead.
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
	return json.NewDecoder(body).Decode(&m) == nil && !m.ExpiresAt.IsZero() && m.ExpiresAt.Before(time.Now().Add(time.Second))
}

// Verdicts returns the violations that the responses show without the database.
func (h *History) Verdicts() []check.Verdict {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	answers := check.Verdict{Name: "no response violates the contract, and the servers recover from every fault"}
	for _, b := range h.breaches {
		answers.Add(b)
	}
	return []check.Verdict{
		answers,
		{Name: "a server returns no 5xx during its shutdown", Broken: int(h.drainErrors.Load())},
		{Name: "no caller with the right password gets 429 because of wrong passwords of others", Broken: int(h.lockouts.Load())},
		{Name: "no server returns an unexpected error (500)", Broken: int(h.failures.Load())},
	}
}
