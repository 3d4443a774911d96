package provider

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Attempts decides whether a Send can try another message.
type Attempts struct {
	ctx      context.Context //nolint:containedctx // the context of one Send
	until    time.Time       // no attempt starts after this time; zero: no limit
	tools    Tools
	troubled atomic.Bool
	unread   atomic.Int32 // answers in a row that could not be understood
}

// NewAttempts returns the attempts of a Send, each of which takes at most limit. No attempt starts that could be cut
// off, unless so little time is left that none would start at all.
func NewAttempts(ctx context.Context, limit time.Duration, tools Tools) *Attempts {
	a := &Attempts{ctx: ctx, tools: tools}
	if deadline, ok := ctx.Deadline(); ok {
		a.until = deadline.Add(-min(limit, time.Until(deadline)/2))
	}
	return a
}

// CanStart reports whether another message can be tried.
func (a *Attempts) CanStart() bool {
	return a.ctx.Err() == nil && !a.troubled.Load() && (a.until.IsZero() || time.Now().Before(a.until))
}

// MayBegin reports whether a message may be sent now: it has not expired, and nothing holds it.
func (a *Attempts) MayBegin(m Message) bool { return !m.IsExpired() && a.tools.MayBegin(a.ctx, m) }

// Try tries a message, unless it may not be sent any more.
func (a *Attempts) Try(m Message, send func(ctx context.Context) Outcome) Outcome {
	if !a.MayBegin(m) {
		return Untried
	}
	return a.Begin(m, send)
}

// Begin tries a message for which MayBegin has just returned true, and which may stand for others of its group.
func (a *Attempts) Begin(m Message, send func(ctx context.Context) Outcome) Outcome {
	ctx, ended := a.tools.Began(a.ctx, m)
	o := a.tools.Mask.hideIn(send(ctx))
	ended(o)
	return o
}

// MaxUnread is the number of answers in a row that could not be understood, after which no further message is tried: most likely the
// configuration is wrong, and each message would go out again.
const MaxUnread = 5

// Record records an outcome: after trouble no further message is tried, nor after MaxUnread answers that could not be understood. It reports whether the
// outcome has to be reported. A message that was not tried changes nothing.
func (a *Attempts) Record(o Outcome) bool {
	if o == Untried {
		return false
	}
	if !o.IsUnread() {
		a.unread.Store(0)
	}
	if o.Trouble || o.IsUnread() && a.unread.Add(1) >= MaxUnread {
		a.troubled.Store(true)
	}
	return true
}

// Each sends messages one by one, up to atOnce at the same time, and reports each outcome as soon as it is known.
func (a *Attempts) Each(messages []Message, atOnce int, report func(int, Outcome), send func(ctx context.Context, m Message) Outcome) {
	slots := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for i := range messages {
		slots <- struct{}{}
		if !a.CanStart() {
			break
		}
		all.Go(func() {
			o := a.Try(messages[i], func(ctx context.Context) Outcome { return send(ctx, messages[i]) })
			if a.Record(o) {
				report(i, o)
			}
			<-slots
		})
	}
	all.Wait()
}
