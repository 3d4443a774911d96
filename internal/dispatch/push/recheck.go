package push

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"lksms/gen/pushq"
	"lksms/internal/dispatch/driver/provider"
	"lksms/internal/dispatch/queue"
	"lksms/internal/dispatch/queue/claim"
)

const (
	recheckInterval = 100 * time.Millisecond // maximum age of the last check when a call begins
	recheckLimit    = 2 * time.Second        // time limit of one check
)

// These are the reasons for returning leases after a check.
const (
	becauseEnded   = "the lease ended before this message was sent"
	becauseUnknown = "the database could not say whether this message may still be sent"
)

// heldReasons maps the answers of TaskMayBegin to reasons for returning leases.
var heldReasons = map[string]string{
	"taken_back":      "the message was taken back before it was sent",
	"sender_off":      "the sender was switched off before this message was sent",
	"sender_hours":    "the hours of the sender ended before this message was sent",
	"sender_paused":   becausePaused,
	"not_served":      "the sender stopped serving this message before it was sent",
	"batch_paused":    "the batch was paused before this message was sent",
	"batch_cancelled": "the batch was cancelled before this message was sent",
	"switched_off":    "a switch was turned off before this message was sent",
}

// followBatches updates the tasks whose leases were returned because their batch is paused or cancelled. It holds tasks of paused batches and cancels tasks
// of cancelled batches. Otherwise each claim would read these tasks, and skip them, until the sweep feed-batches does the same work.
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
		_, err := w.p.queue.HoldBatch(ctx, id)
		failures = errors.Join(failures, err)
	}
	if len(cancelled) > 0 {
		_, err := w.p.tasks.CancelAll(ctx, cancelled, queue.ByBatches)
		failures = errors.Join(failures, err)
	}
	if failures != nil {
		w.p.log.Warn("tasks of batches could not be held or cancelled", "sender_no", w.senderNo, "error", failures)
	}
}

// recheck checks which messages of a claimed batch are still allowed to be sent. After the claim, an operator can switch off, pause or cancel the sender, its
// route, batch, company, channel or country, and the message can be taken back. recheck reads the database before a call only if the last check is older than
// recheckInterval, so that a fast provider needs few checks.
type recheck struct {
	w     *worker
	b     batch
	rests context.Context //nolint:containedctx // of messages that the provider has in part: see renew

	mu      sync.Mutex
	at      time.Time         // time of the last check; zero: no check yet
	held    map[string]string // result of the last check by task id: the reason why the message is forbidden; empty: the message is allowed
	refused map[string]string // reason why a message was not sent, by task id
}

// newRecheck returns a recheck. The claim counts as the first check, unless the claim contains messages of batches: a batch can be paused or cancelled while the
// claim runs.
func newRecheck(w *worker, b batch, rests context.Context) *recheck { //nolint:revive // ctx is not the context of this call
	l := &recheck{w: w, b: b, rests: rests, at: b.claimed, held: map[string]string{}, refused: map[string]string{}}
	if slices.ContainsFunc(b.rows, func(row claim.Lease) bool { return row.BatchID != nil }) {
		l.at = time.Time{}
	}
	return l
}

// recheckOf returns the check of the batch of a message that is being sent.
func (w *worker) recheckOf(m provider.Message) *recheck {
	l, _ := w.rechecks.Load(m.LeaseID)
	return l.(*recheck) //nolint:forcetypeassert // send stores it before the driver gets the message
}

// mayBegin reports whether a message is allowed to be sent now.
func (l *recheck) mayBegin(ctx context.Context, m provider.Message) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.at) >= recheckInterval {
		l.renew(ctx)
	}
	reason := l.held[m.TaskID]
	if reason != "" && ctx.Err() == nil {
		l.refused[m.TaskID] = reason
	}
	return reason == ""
}

// stoppedBy returns the reason why a message was not sent. It returns an empty text if no check forbade the message.
func (l *recheck) stoppedBy(taskID string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refused[taskID]
}

// renew asks the database which messages are still allowed. If the database cannot answer, renew forbids all messages, because their outcomes could
// not be reported either.
func (l *recheck) renew(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, recheckLimit)
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
		l.at, otherwise = time.Now(), becauseUnknown // a failed check can take longer than recheckInterval
	}
	for _, row := range l.b.rows {
		l.held[row.TaskID] = otherwise
	}
	for _, row := range rows {
		l.held[row.TaskID] = heldReasons[row.StoppedBy]
	}
}
