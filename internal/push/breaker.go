package push

import (
	"context"
	"time"

	"lksms/gen/dbq"
	"lksms/internal/push/driver"
)

// The circuit breaker of a sender. While it is closed, the sender sends; when it opens, the sender rests; after the rest one message
// is tried, by one worker of all servers, which closes it or opens it for twice as long.
const (
	restFirst    = 2 * time.Second
	restMost     = 5 * time.Minute
	fruitlessMax = 5               // batches in a row without an answer, or in which the provider said that it is broken or too busy
	probeSpare   = 5 * time.Second // for which a probe is held longer than its lease
)

// circuit is a sender's circuit breaker as it was seen last. It is kept in the database, for all servers.
type circuit struct {
	openings int64     // since something last got through; 0: it is closed
	restEnd  time.Time // by the clock of this process
}

func circuitOf(openings int64, restSeconds float64) circuit {
	return circuit{openings: openings, restEnd: time.Now().Add(time.Duration(restSeconds * float64(time.Second)))}
}

// rest is how long the sender rests from now on.
func (c circuit) rest() time.Duration { return time.Until(c.restEnd) }

// see remembers how the circuit breaker of a version of the sender stands.
func (w *worker) see(version int64, c circuit) {
	for {
		now := w.now.Load()
		if now == nil || now.row.Version != version || w.now.CompareAndSwap(now, &way{row: now.row, driver: now.driver, circuit: c}) {
			return
		}
	}
}

// probe asks for the right to try one message after the rest, for as long as its lease may last.
func (w *worker) probe(ctx context.Context, openings int64, lease time.Duration) bool {
	n, err := w.p.q.BreakerProbe(ctx, dbq.BreakerProbeParams{SenderNo: w.senderNo, Openings: openings, Seconds: (lease + probeSpare).Seconds()})
	return err == nil && n > 0
}

// tally is what a batch tells of its sender. A message that the provider refuses tells that the sender is well: else the texts of one
// company could stop it for all. A message that cannot be sent, and an answer that cannot be understood, tell nothing.
type tally struct {
	tried   int             // messages
	through int             // messages that the provider took or refused
	failure *driver.Outcome // one for which the sender or the provider is to blame: trouble before anything else
}

func (t *tally) count(o driver.Outcome) {
	t.tried++
	switch {
	case o.Trouble || o.Outage:
		if t.failure == nil || o.Trouble && (!t.failure.Trouble || o.Rest != driver.Rest{}) {
			t.failure = &o
		}
	case !o.Unknown && !o.Unasked:
		t.through++
	}
}

// conclude opens or closes the circuit breaker by what became of a batch. Trouble opens it where nothing got through, or where the
// provider said how long to rest. A probe that told nothing leaves it as it is, and another message is tried.
func (w *worker) conclude(ctx context.Context, now *way, t tally) {
	c := now.circuit
	switch {
	case t.failure != nil && t.failure.Trouble && (t.through == 0 || t.failure.Rest != driver.Rest{}):
		w.open(ctx, now, *t.failure)
	case t.through > 0:
		w.fruitless = 0
		if c.openings > 0 {
			w.close(ctx, now)
		}
	case t.failure != nil:
		w.fruitless++
		if c.openings > 0 || w.fruitless >= fruitlessMax {
			w.open(ctx, now, *t.failure)
		}
	case t.tried > 0 && c.openings > 0:
		err := w.p.q.BreakerProbed(ctx, dbq.BreakerProbedParams{SenderNo: w.senderNo, Openings: c.openings})
		if err != nil {
			w.p.log.WarnContext(ctx, "the end of a probe could not be noted", "sender_no", w.senderNo, "error", err) // it runs out
		}
	}
}

func (w *worker) open(ctx context.Context, now *way, because driver.Outcome) {
	w.fruitless = 0
	rows, err := w.p.q.BreakerOpen(ctx, dbq.BreakerOpenParams{
		SenderNo: w.senderNo, Version: now.row.Version, Openings: now.circuit.openings, Reason: because.Code + ": " + because.Error,
		DayOf: because.Rest.DayOf, ForSeconds: because.Rest.For.Seconds(), Rest: restFirst, RestMost: restMost,
	})
	if err != nil {
		w.p.log.WarnContext(ctx, "the rest of a sender could not be noted", "sender_no", w.senderNo, "error", err)
		w.see(now.row.Version, circuitOf(now.circuit.openings, restFirst.Seconds()))
		return
	}
	for _, row := range rows { // none: another worker did, or the sender was changed
		w.p.log.WarnContext(ctx, "sender rests", "sender_no", w.senderNo, "code", because.Code, "reason", because.Error, "seconds", row.RestSeconds)
		w.see(now.row.Version, circuitOf(row.Openings, row.RestSeconds))
	}
}

func (w *worker) close(ctx context.Context, now *way) {
	if _, err := w.p.q.BreakerClose(ctx, dbq.BreakerCloseParams{SenderNo: w.senderNo, Openings: now.circuit.openings}); err != nil {
		w.p.log.WarnContext(ctx, "the end of a sender's rest could not be noted", "sender_no", w.senderNo, "error", err)
		return // the probe runs out, and the next one closes it
	}
	w.p.log.InfoContext(ctx, "sender sends again", "sender_no", w.senderNo)
	w.see(now.row.Version, circuit{})
}
