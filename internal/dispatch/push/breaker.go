package push

import (
	"context"
	"time"

	"lksms/gen/pushq"
	"lksms/internal/dispatch/driver/provider"
	"lksms/internal/dispatch/sender"
)

// These constants configure the circuit breaker of a sender. While the breaker is closed, the sender sends. When the breaker opens, the sender is paused. After
// the pause, one worker among all servers sends one message as a probe. A successful probe closes the breaker. A failed probe doubles the pause.
const (
	firstPause   = 2 * time.Second
	maxPause     = 5 * time.Minute
	fruitlessMax = 5               // number of consecutive failed batches that opens the breaker (failed: no answer, failure or overload of the provider). In a failed batch, each answer that was not understood counts as one failed batch
	probeSpare   = 5 * time.Second // time from the end of a probe's lease to the end of the right to probe
)

// circuit is the state of a sender's circuit breaker, as last read from the database. All servers share the state in the database.
type circuit struct {
	openings  int64     // openings since the last message that the provider accepted or refused; 0: closed
	pauseEnd  time.Time // end of the pause, by the clock of this process
	isUnbound bool      // the breaker opened because no link was open
}

func circuitOfRow(row pushq.SendersDrivenRow) circuit {
	c := circuitOf(row.Openings, row.PauseSeconds)
	c.isUnbound = row.IsUnbound
	return c
}

func circuitOf(openings int64, restSeconds float64) circuit {
	return circuit{openings: openings, pauseEnd: time.Now().Add(time.Duration(restSeconds * float64(time.Second)))}
}

// pause returns the remaining pause of the sender. A closed breaker has a negative or zero pause.
func (c circuit) pause() time.Duration { return time.Until(c.pauseEnd) }

// setCircuit stores the state of the circuit breaker in the setup. It does nothing if the setup has another version.
func (w *worker) setCircuit(version int64, c circuit) {
	for {
		current := w.setup.Load()
		if current == nil || current.row.Version != version || w.setup.CompareAndSwap(current, &setup{row: current.row, driver: current.driver, links: current.links, circuit: c}) {
			return
		}
	}
}

// probe reserves the right to send one message after the pause. The right ends probeSpare after the lease. probe reports whether this worker has the
// right.
func (w *worker) probe(ctx context.Context, openings int64, lease time.Duration) bool {
	isReserved, err := w.p.senders.ProbeBreaker(ctx, sender.Breaker{SenderNo: w.senderNo, Openings: openings}, lease+probeSpare)
	return err == nil && isReserved
}

// tally counts the outcomes of a batch, to find out whether the sender works. A refused message proves that the sender works. Otherwise refused texts of one
// company could stop the sender for all companies. A message that cannot be sent proves nothing. If no answer was understood, the configuration of the sender
// does not fit the provider.
type tally struct {
	tried   int               // messages with an outcome
	unread  int               // answers that were not understood
	through int               // messages that the provider accepted or refused
	failure *provider.Outcome // a failure of the sender or the provider; Trouble takes precedence
}

func (t *tally) count(o provider.Outcome) {
	t.tried++
	if o.IsUnread() && !o.SameCall {
		t.unread++
	}
	switch {
	case isThrough(o):
		t.through++
	case isFailure(o):
		if t.failure == nil || o.Trouble && (!t.failure.Trouble || o.Pause != provider.Pause{}) {
			t.failure = &o
		}
	}
}

// isFailure reports whether an outcome is a failure of the sender or the provider.
func isFailure(o provider.Outcome) bool { return !o.InPart && (o.Trouble || o.Outage || o.Unknown) }

// isThrough reports whether the provider accepted a message, or a part of it, or refused it.
func isThrough(o provider.Outcome) bool { return o.InPart || !isFailure(o) && !o.Unasked }

// updateBreaker opens or closes the circuit breaker after a batch. Trouble opens the breaker if no message was accepted or refused, or if the provider
// requested a pause. If a probe was not sent or proved nothing, the breaker does not change, and another message is the next probe. A closed link is no trouble if the
// sender has another one, and no reason to change an open breaker.
func (w *worker) updateBreaker(ctx context.Context, current *setup, t tally) {
	c := current.circuit
	if t.failure != nil && t.failure.Code == provider.NotBound && current.links != nil && (c.openings > 0 || w.isBound(ctx, current)) {
		t.failure = nil
	}
	switch {
	case t.failure != nil && t.failure.Trouble && (t.through == 0 || t.failure.Pause != provider.Pause{}):
		w.open(ctx, current, *t.failure)
	case t.through > 0:
		w.fruitless.Store(0)
		if c.openings > 0 {
			w.close(ctx, current, "")
		}
	case t.failure != nil:
		if n := w.fruitless.Add(int64(max(1, t.unread))); c.openings > 0 || n >= fruitlessMax {
			w.open(ctx, current, *t.failure)
		}
	case c.openings > 0:
		err := w.p.senders.EndBreakerProbe(ctx, w.breaker(current))
		if err != nil {
			w.p.log.WarnContext(ctx, "the end of a probe could not be stored", "sender_no", w.senderNo, "error", err) // the probe expires without this update
		}
	}
}

func (w *worker) open(ctx context.Context, current *setup, cause provider.Outcome) {
	w.fruitless.Store(0)
	defer w.endWait() // a claim that waits beside other batches has the limit of the closed breaker
	openings, pause, isOpened, err := w.p.senders.OpenBreaker(ctx, w.breaker(current), sender.Opening{
		Reason: cause.Code + ": " + cause.Error, DayOf: cause.Pause.DayOf, For: cause.Pause.For, First: firstPause, Longest: maxPause,
	})
	switch {
	case err != nil:
		w.p.log.WarnContext(ctx, "the pause of a sender could not be stored", "sender_no", w.senderNo, "error", err)
		w.setCircuit(current.row.Version, circuitOf(current.circuit.openings, firstPause.Seconds()))
	case isOpened: // otherwise another worker opened the breaker, or the sender was changed
		w.p.log.WarnContext(ctx, "sender paused", "sender_no", w.senderNo, "code", cause.Code, "reason", cause.Error, "seconds", pause.Seconds())
		opened := circuitOf(openings, pause.Seconds())
		opened.isUnbound = cause.Code == provider.NotBound
		w.setCircuit(current.row.Version, opened)
	}
}

func (w *worker) breaker(current *setup) sender.Breaker {
	return sender.Breaker{SenderNo: w.senderNo, Version: current.row.Version, Openings: current.circuit.openings}
}

// close closes the circuit breaker. With a code, it closes only a breaker that opened with this code.
func (w *worker) close(ctx context.Context, current *setup, code string) {
	isClosed, err := w.p.senders.CloseBreaker(ctx, w.breaker(current), code)
	if err != nil {
		w.p.log.WarnContext(ctx, "the end of a sender's pause could not be stored", "sender_no", w.senderNo, "error", err)
		return // the probe expires, and the next probe closes the breaker
	}
	if !isClosed {
		return
	}
	w.p.log.InfoContext(ctx, "sender resumed", "sender_no", w.senderNo)
	w.setCircuit(current.row.Version, circuit{})
}
