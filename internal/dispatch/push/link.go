package push

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"lksms/gen/pushq"
	"lksms/internal/dispatch/driver"
	"lksms/internal/dispatch/driver/provider"
	"lksms/internal/platform/lease"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/postgres"
)

const (
	linkPoll   = 100 * time.Millisecond // time between two checks whether this process holds an open link
	boundWait  = 5 * time.Second        // time without an open link after which the circuit breaker opens; more than a renewal
	traceLimit = time.Second            // maximum time to store a trace
)

// links keeps the links of one setup of a sender open.
type links struct {
	p        *Pusher
	senderID int64
	senderNo string
	driver   driver.Linked

	held     atomic.Int32 // links that this process holds
	stopping sync.Once
	ctx      context.Context //nolint:containedctx // the links are closed when it ends
	cut      context.CancelFunc
	all      sync.WaitGroup
}

// startLinks starts the links of a driver. It opens no link before the links of the previous setup are closed. previous can be nil.
func (p *Pusher) startLinks(row pushq.SendersDrivenRow, d driver.Linked, previous *links) *links {
	ctx, cut := context.WithCancel(p.sending)
	l := &links{p: p, senderID: row.ID, senderNo: row.SenderNo, driver: d, ctx: ctx, cut: cut}
	for nth := range d.Links() {
		l.all.Go(func() {
			previous.close()
			l.keep(ctx, nth+1)
		})
	}
	return l
}

// stop begins to close the links. It first sends the remaining parts of messages that were begun.
func (l *links) stop() {
	l.stopping.Do(func() {
		l.all.Go(func() {
			l.driver.Finish(l.ctx)
			l.cut()
		})
	})
}

// close closes the links and waits until they are closed. l can be nil.
func (l *links) close() {
	if l != nil {
		l.stop()
		l.all.Wait()
	}
}

// canSend reports whether this process holds a link. A driver without links can always send: l is then nil.
func (l *links) canSend() bool { return l == nil || l.held.Load() > 0 }

// isOpen reports whether a link is open in this process. Without one, it returns the last failure of a link. A driver without links is always open.
func (l *links) isOpen() (isOpen bool, failure string) {
	if l == nil {
		return true, ""
	}
	for nth := range l.driver.Links() {
		state := l.driver.State(nth + 1)
		if !state.BoundAt.IsZero() {
			return true, ""
		}
		failure = cmp.Or(state.Error, failure)
	}
	return false, failure
}

// keep holds a link whenever no other process holds it, until ctx ends. The link is closed before its lease ends.
func (l *links) keep(ctx context.Context, nth int) {
	lease.Work{
		Hold: func(ctx context.Context) (bool, error) { return l.hold(ctx, nth) },
		Do: func(ctx context.Context) {
			l.held.Add(1)
			defer l.held.Add(-1)
			l.driver.Run(ctx, nth)
		},
		Release: func() { l.release(nth) },
		Failed: func(ctx context.Context, isLost bool, err error) {
			text := "a link of a sender could not be taken over"
			if isLost {
				text = "a link of a sender was lost to another server"
			}
			l.p.log.WarnContext(ctx, text, "sender_no", l.senderNo, "link", nth, "error", err)
		},
	}.Keep(ctx)
}

// hold takes over or renews a link, and stores its state. It reports whether this process holds the link.
func (l *links) hold(ctx context.Context, nth int) (bool, error) {
	state := l.driver.State(nth)
	held, err := l.p.q.LinkHold(ctx, pushq.LinkHoldParams{
		SenderID: l.senderID, Nth: int16(nth), HeldBy: l.p.process, Host: l.p.host, Lease: lease.Length, BoundAt: optional.NonZero(state.BoundAt),
		InFlight: int64(state.InFlight), Sent: state.Sent, Received: state.Received, Error: optional.NonZero(postgres.Text(state.Error)),
		FailedAt: optional.NonZero(state.FailedAt),
	})
	switch {
	case postgres.IsNoRows(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("hold link: %w", err)
	}
	l.storeTrace(ctx, nth)
	var from time.Time
	if held.IsTraced {
		from = optional.Value(held.TracedFrom)
	}
	l.driver.Record(nth, from)
	return true, nil
}

// storeTrace stores the recorded PDUs of a link. An error loses them, and does not end the link: a link is worth more than its trace.
func (l *links) storeTrace(ctx context.Context, nth int) {
	from, pdus := l.driver.Recorded(nth)
	if len(pdus) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, traceLimit)
	defer cancel()
	trace, err := json.Marshal(pdus)
	if err == nil {
		err = l.p.q.LinkTraceAdd(ctx, pushq.LinkTraceAddParams{
			SenderID: l.senderID, Nth: int16(nth), HeldBy: l.p.process, TracedFrom: &from, Pdus: trace, Most: provider.TraceLength,
		})
	}
	if err != nil {
		l.p.log.WarnContext(ctx, "the trace of a link could not be stored", "sender_no", l.senderNo, "link", nth, "error", err)
	}
}

func (l *links) release(nth int) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.p.sending), maxBackoff)
	defer cancel()
	l.storeTrace(ctx, nth)
	err := l.p.q.LinkRelease(ctx, pushq.LinkReleaseParams{SenderID: l.senderID, Nth: int16(nth), HeldBy: l.p.process})
	if err != nil { // another process takes over the link at the end of the lease
		l.p.log.WarnContext(ctx, "a link of a sender could not be released", "sender_no", l.senderNo, "link", nth, "error", err)
	}
}
