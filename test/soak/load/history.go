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

// Outcome is what a client knows about a call.
type Outcome int

// The outcomes of a call.
const (
	Answered Outcome = iota // the call was done
	Refused                 // the call was not done, and will not be
	Unknown                 // the call may have been done: no answer, or one that asks for a retry
)

// OutcomeOf returns the outcome of an answer. A 5xx proves nothing: the server may have lost its database after the
// COMMIT.
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

// message is a text that a submitter wants to send once. Texts are unique, so that a text identifies its tasks.
type message struct {
	Answered, Unknown int
	Ids               map[string]struct{} // ids of the tasks in the answers
}

// reportCount counts the reports of one task.
type reportCount struct{ Answered, Unknown int }

// Claimed is a lease that an answer gave to an app.
type Claimed struct {
	AppID string
	Task  api.ClaimedTask
}

// History records the answers of all clients, to be compared with the database.
type History struct {
	Mu        sync.Mutex
	Messages  map[string]*message
	Claims    []Claimed
	Reports   map[string]*reportCount
	Cancelled []string
	Requeued  map[string]bool // tasks that somebody tried to requeue, with or without success
	Lists     []*list         // batches whose creation was answered
	Pauses    []*pausePeriod
	breaches  []string // violations visible in the answers themselves
	Erased    sync.Map // ids of tasks whose person is to be erased

	Calls       [3]atomic.Int64 // by outcome
	drainErrors atomic.Int64    // 5xx of a server during its shutdown
	lockouts    atomic.Int64    // 429s for callers with the right password
	failures    atomic.Int64    // 500s: unexpected errors of a server
	latest      sync.Map        // server -> *atomic.Int64, start of its latest answered call in Unix nanoseconds

	OnAnswer func(r *http.Request, began time.Time, status int) // called for each answer; nil: not
}

// NewHistory returns a history without an answer.
func NewHistory() *History {
	return &History{Messages: map[string]*message{}, Reports: map[string]*reportCount{}, Requeued: map[string]bool{}}
}

// Breach records a violation.
func (h *History) Breach(format string, args ...any) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	h.breaches = append(h.breaches, fmt.Sprintf(format, args...))
}

// Submitted records a submission of text and its outcome.
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

// Took records claimed leases.
func (h *History) Took(claims ...Claimed) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	h.Claims = append(h.Claims, claims...)
}

// Reported records a report. logged: the server has written it to its log.
func (h *History) Reported(taskID string, o Outcome, logged bool) {
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

// cancel records a cancelled task.
func (h *History) cancel(taskID string) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	h.Cancelled = append(h.Cancelled, taskID)
}

// requeue records that somebody tries to requeue a task.
func (h *History) requeue(taskID string) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	h.Requeued[taskID] = true
}

// listed records a batch.
func (h *History) listed(b *list) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	h.Lists = append(h.Lists, b)
}

// Batches returns all batches.
func (h *History) Batches() []*list {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	return slices.Clone(h.Lists)
}

// beginPause records that a batch is paused or cancelled from now on.
func (h *History) beginPause(b *list) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	if b.paused == nil {
		b.paused = &pausePeriod{BatchID: b.ID, Since: time.Now()}
		h.Pauses = append(h.Pauses, b.paused)
	}
}

// endPause records that a batch may go on from now on.
func (h *History) endPause(b *list) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	if b.paused != nil {
		b.paused.Until, b.paused = time.Now(), nil
	}
}

// Accepted returns the number of messages whose acceptance was answered.
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

// ServedSince reports whether s has answered a call that began after t.
func (h *History) ServedSince(s *stack.Server, t time.Time) bool {
	latest, ok := h.latest.Load(s)
	return ok && latest.(*atomic.Int64).Load() > t.UnixNano()
}

// Observer records the answers of one server.
type Observer struct {
	History *History
	Server  *stack.Server
	Base    http.RoundTripper
}

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
		// The request waited until its message had expired: the client repeated it, or a failover held it back.
	case res.StatusCode == http.StatusBadRequest || res.StatusCode == http.StatusUnprocessableEntity || res.StatusCode == http.StatusUnauthorized:
		o.History.Breach("a good request was refused: %s %s: %d", r.Method, r.URL.Path, res.StatusCode)
	case res.StatusCode == http.StatusTooManyRequests:
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

// Verdicts checks the recorded answers themselves.
func (h *History) Verdicts() []check.Verdict {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	answers := check.Verdict{Name: "no answer violates the contract, and every fault is survived"}
	for _, b := range h.breaches {
		answers.Add(b)
	}
	return []check.Verdict{
		answers,
		{Name: "a server answers no 5xx during its shutdown", Broken: int(h.drainErrors.Load())},
		{Name: "nobody with the right password is refused for wrong passwords of others (429)", Broken: int(h.lockouts.Load())},
		{Name: "no server answers an unexpected error (500)", Broken: int(h.failures.Load())},
	}
}
