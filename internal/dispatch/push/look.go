package push

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"lksms/gen/dbq"
	"lksms/internal/dispatch/driver/provider"
	"lksms/internal/dispatch/queue"
	"lksms/internal/dispatch/queue/claim"
)

const (
	lookEvery = 100 * time.Millisecond // a call begins at most this long after the last look
	lookLimit = 2 * time.Second        // time for one look
	heldPause = 250 * time.Millisecond // after tasks of a held batch could not be held: a claim takes them until the sweep has held them
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

// followBatches holds or cancels the tasks of leases that were returned because their batch is paused or cancelled: the next claim would take them again.
// The sweep feed-batches does so too, but later.
func (w *worker) followBatches(b batch, left []queue.Unused) {
	paused, cancelled := map[int64]bool{}, []string(nil)
	for _, row := range b.rows {
		i := slices.IndexFunc(left, func(u queue.Unused) bool { return u.TaskID == row.TaskID })
		switch {
		case i < 0 || row.BatchID == nil:
		case left[i].Reason == heldReasons["batch_paused"]:
			paused[*row.BatchID] = true
		case left[i].Reason == heldReasons["batch_cancelled"]:
			cancelled = append(cancelled, row.TaskID)
		}
	}
	if len(paused)+len(cancelled) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(w.p.sending, maxBackoff)
	defer cancel()
	var failures error
	for id := range paused {
		_, err := w.p.tasks.HoldBatch(ctx, id)
		failures = errors.Join(failures, err)
	}
	if len(cancelled) > 0 {
		_, err := w.p.tasks.CancelAll(ctx, cancelled, queue.ByBatches)
		failures = errors.Join(failures, err)
	}
	if failures != nil {
		w.p.log.Warn("tasks of batches could not be held or cancelled", "sender_no", w.senderNo, "error", failures)
		w.p.sleep(heldPause)
	}
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
	p := dbq.TaskMayBeginParams{SenderNo: l.w.senderNo}
	for _, row := range l.b.rows {
		p.TaskIds, p.LeaseIds = append(p.TaskIds, row.TaskID), append(p.LeaseIds, row.LeaseID)
	}
	rows, err := l.w.p.q.TaskMayBegin(ctx, p)
	l.at = began
	otherwise := becauseEnded
	if err != nil {
		l.at, otherwise = time.Now(), becauseUnlooked // a look that failed may have taken longer than lookEvery
	}
	for _, row := range l.b.rows {
		l.held[row.TaskID] = otherwise
	}
	for _, row := range rows {
		l.held[row.TaskID] = heldReasons[row.Why]
	}
}
