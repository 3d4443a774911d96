package push

import (
	"context"
	"sync"
	"time"

	"lksms/internal/dispatch/driver/provider"
	"lksms/internal/dispatch/queue"
)

const (
	renewedFor = 30 * time.Second        // from a renewal to the new end of the leases
	renewEarly = 20 * time.Second        // from the next renewal to the end of the renewed leases
	renewFirst = 1500 * time.Millisecond // from the first renewal to the end of the leases: less than leaseSpare, so that it comes after the normal end of Send
	renewRetry = time.Second             // wait after a renewal that failed
)

// remaining contains the leases of a batch without a reported outcome.
type remaining struct {
	mu     sync.Mutex
	leases map[int]queue.Unused // by the index in the batch
	end    time.Time            // of the leases, with renewals
}

func newRemaining(b batch) *remaining {
	r := &remaining{leases: make(map[int]queue.Unused, len(b.rows)), end: b.leaseEnd}
	for i, u := range unused(b.rows, "") {
		r.leases[i] = u
	}
	return r
}

// tried records a message that the sender could not send.
func (r *remaining) tried(i int, o provider.Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	u := r.leases[i]
	u.Tried, u.Reason, u.Answer = true, o.Error, o.Answer
	r.leases[i] = u
}

// settled removes the leases of outcomes that were reported.
func (r *remaining) settled(all []answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range all {
		delete(r.leases, k.i)
	}
}

// end returns the end of the leases, with renewals.
func (b batch) end() time.Time {
	if b.left == nil {
		return b.leaseEnd
	}
	b.left.mu.Lock()
	defer b.left.mu.Unlock()
	return b.left.end
}

func (r *remaining) renewed(end time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.end = end
}

func (r *remaining) list() []queue.Held {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]queue.Held, 0, len(r.leases))
	for _, u := range r.leases {
		all = append(all, queue.Held{TaskID: u.TaskID, LeaseID: u.LeaseID})
	}
	return all
}

// renew renews the leases without an outcome while Send still sends the parts of messages that were begun. It returns when ctx ends. If the leases could not be
// renewed, it stops the sending of these parts.
func (w *worker) renew(ctx context.Context, left *remaining, cut func()) {
	until := left.end
	for wait := time.Until(until) - renewFirst; ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		began := time.Now()
		renewing, cancel := context.WithTimeout(ctx, renewEarly/2)
		err := w.p.queue.Renew(renewing, w.senderNo, left.list(), renewedFor)
		cancel()
		switch {
		case err == nil:
			until = began.Add(renewedFor)
			left.renewed(until)
			wait = time.Until(until) - renewEarly
		case time.Now().After(until):
			w.p.log.Error("leases could not be renewed", "sender_no", w.senderNo, "error", err)
			cut()
			return
		default:
			wait = renewRetry
		}
	}
}
