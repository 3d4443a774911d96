package push

import (
	"context"
	"slices"
	"sync"
	"time"

	"lksms/gen/pushq"
	"lksms/internal/dispatch/driver/provider"
	"lksms/internal/dispatch/queue"
	"lksms/internal/dispatch/queue/claim"
)

const (
	lookEvery = 100 * time.Millisecond // a call begins at most this long after the last look
	lookLimit = 2 * time.Second        // time for one look
	heldPause = 250 * time.Millisecond // after leases of a held batch were returned, so that its tasks are held before the next claim
)

// Reasons for returning leases that a look found.
const (
	becauseEnded    = "the lease ended before this message was sent"
	becauseUnlooked = "the database could not say whether this message may still be sent"
)

// heldReasons are the answers of TaskMayBegin, as reasons for returning leases.
var heldReasons = map[string]string{
	"sender_off":      "the sender was switched off before this message was sent",
	"sender_paused":   becausePaused,
	"batch_paused":    "the batch was paused before this message was sent",
	"batch_cancelled": "the batch was cancelled before this message was sent",
	"switched_off":    "a switch was turned off before this message was sent",
}

// isOfHeldBatch reports whether a lease was returned because of its batch. A claim can take the task until the sweep has held or cancelled it.
func isOfHeldBatch(u queue.Unused) bool {
	return u.Reason == heldReasons["batch_paused"] || u.Reason == heldReasons["batch_cancelled"]
}

// look says which messages of a batch may still be sent. What was claimed may be held since: its sender, batch, company, channel or country was
// switched off, paused or cancelled. It reads the database again before a call if the last time was lookEvery ago, so that fast providers cost nothing.
type look struct {
	w *worker
	b batch

	mu      sync.Mutex
	at      time.Time         // of the last look
	held    map[string]string // by task: why it may not be sent, by the last look
	refused map[string]string // by task: why it was not sent
}

// newLook returns a look. A claim is the first one, unless there are messages of batches: until the sweep has held or cancelled them, it takes them.
func newLook(w *worker, b batch, claimed time.Time) *look {
	l := &look{w: w, b: b, at: claimed, held: map[string]string{}, refused: map[string]string{}}
	if slices.ContainsFunc(b.rows, func(row claim.Lease) bool { return row.BatchID != nil }) {
		l.at = time.Time{}
	}
	return l
}

// mayBegin reports whether a message may be sent now.
func (l *look) mayBegin(ctx context.Context, m provider.Message) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.at) >= lookEvery {
		l.renew(ctx)
	}
	reason := l.held[m.TaskID]
	if reason != "" && ctx.Err() == nil {
		l.refused[m.TaskID] = reason
	}
	return reason == ""
}

// why returns why a message was not sent; empty: nothing held it.
func (l *look) why(taskID string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refused[taskID]
}

// renew reads what holds the messages. If it cannot, none is sent: its outcome could not be reported either.
func (l *look) renew(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	began := time.Now()
	p := pushq.TaskMayBeginParams{SenderNo: l.w.senderNo}
	for _, row := range l.b.rows {
		p.TaskIds, p.LeaseIds = append(p.TaskIds, row.TaskID), append(p.LeaseIds, row.LeaseID)
	}
	rows, err := l.w.p.q.TaskMayBegin(ctx, p)
	l.at = began
	otherwise := becauseEnded
	if err != nil {
		otherwise = becauseUnlooked
	}
	for _, row := range l.b.rows {
		l.held[row.TaskID] = otherwise
	}
	for _, row := range rows {
		l.held[row.TaskID] = heldReasons[row.Why]
	}
}
