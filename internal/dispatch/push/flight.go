package push

import (
	"context"
	"sync"
	"time"

	"lksms/internal/dispatch/driver"
	"lksms/internal/dispatch/driver/provider"
	"lksms/internal/dispatch/queue/claim"
)

// flight counts the messages that a worker sends. A driver with links has several batches at the same time, so that one slow answer does not keep the slots of the
// other messages empty. Any other driver has one batch.
type flight struct {
	all     sync.WaitGroup
	changed chan struct{} // signals that room can have changed

	mu         sync.Mutex
	driver     driver.Driver // of the batches
	batches    int
	open       int  // claimed messages without a stored outcome
	isTroubled bool // the provider refused the sender: the next batch begins after the last one has ended, and its circuit breaker decides
	isDoubtful bool // the last outcome was unclear: the next batch begins after a clear one, or after the last batch has ended
}

func newFlight() *flight { return &flight{changed: make(chan struct{}, 1)} }

// room returns how many messages can be claimed now, if limit messages can be sent at the same time. Further batches begin only when half of the slots are free:
// a claim of each free slot would cost much more than the claim of a batch.
func (f *flight) room(s *setup, limit int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.batches == 0:
		return limit
	case s.links == nil || f.isTroubled || f.isDoubtful || s.circuit.openings > 0 || s.driver != f.driver || s.row.IntervalMs > 0 || f.open > limit/2:
		return 0
	default:
		return limit - f.open
	}
}

// await waits until room can have changed, or until ctx ends. The setup can also change: room is therefore asked again after linkPoll.
func (f *flight) await(ctx context.Context) {
	poll := time.NewTimer(linkPoll)
	defer poll.Stop()
	select {
	case <-f.changed:
	case <-poll.C:
	case <-ctx.Done():
	}
}

// learn records whether an outcome permits further batches. The caller has locked f.
func (f *flight) learn(o provider.Outcome) {
	switch {
	case isThrough(o):
		f.isDoubtful = false
	case isFailure(o) && o.Trouble:
		f.isTroubled = true
	case isFailure(o):
		f.isDoubtful = true
	}
}

// change changes the counts.
func (f *flight) change(change func()) {
	f.mu.Lock()
	change()
	f.mu.Unlock()
	select {
	case f.changed <- struct{}{}:
	default: // a signal is pending already
	}
}

// begin delivers claimed tasks in a new batch, and does not wait for the end of the batch.
func (w *worker) begin(current *setup, rows []claim.Lease) {
	f, left := w.flight, len(rows)
	f.change(func() { f.driver, f.batches, f.open = current.driver, f.batches+1, f.open+len(rows) })
	f.all.Go(func() {
		w.deliver(current, rows, func(outcomes []answer) {
			left -= len(outcomes)
			f.change(func() {
				f.open -= len(outcomes)
				for _, k := range outcomes {
					f.learn(k.outcome)
				}
			})
		})
		f.change(func() {
			f.batches, f.open = f.batches-1, f.open-left
			if f.batches == 0 {
				f.isTroubled, f.isDoubtful = false, false
			}
		})
	})
}
