package provider

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Attempts decides whether a Send is allowed to try another message.
type Attempts struct {
	ctx      context.Context //nolint:containedctx // the context of one Send
	until    time.Time       // no attempt starts after this time; zero: no limit
	tools    Tools
	troubled atomic.Bool
	unread   atomic.Int32 // consecutive answers that were not understood
}

// NewAttempts returns the attempts of a Send. Each attempt takes at most limit. No attempt starts during the last limit before ctx ends, so that every
// attempt has its full time. If less than twice limit remains, attempts start during the first half of the remaining time.
func NewAttempts(ctx context.Context, limit time.Duration, tools Tools) *Attempts {
	a := &Attempts{ctx: ctx, tools: tools}
	if deadline, ok := ctx.Deadline(); ok {
		a.until = deadline.Add(-min(limit, time.Until(deadline)/2))
	}
	return a
}

// CanStart reports whether another message can be tried now.
func (a *Attempts) CanStart() bool {
	return a.ctx.Err() == nil && !a.troubled.Load() && (a.until.IsZero() || time.Now().Before(a.until))
}

// MayBegin reports whether a message is allowed to be sent now: the message has not expired, and Tools.MayBegin returns true.
func (a *Attempts) MayBegin(m Message) bool { return !m.IsExpired() && a.tools.MayBegin(a.ctx, m) }

// Try tries a message. If the message must not be sent any more, Try returns Untried.
func (a *Attempts) Try(m Message, send func(ctx context.Context) Outcome) Outcome {
	if !a.MayBegin(m) {
		return Untried
	}
	return a.Begin(m, send)
}

// Begin tries a message after MayBegin returned true for it. The message can represent the other messages of its group.
func (a *Attempts) Begin(m Message, send func(ctx context.Context) Outcome) Outcome {
	ctx, ended := a.tools.Began(a.ctx, m)
	o := a.tools.Mask.hideIn(send(ctx))
	if m.IsSensitive {
		o = o.withoutTexts(m.Content)
	}
	ended(o)
	return o
}

// MaxUnread is the maximum number of consecutive answers that were not understood. After so many answers, no further message is tried: the
// configuration is probably wrong, and each message would be sent repeatedly.
const MaxUnread = 5

// Record counts an outcome. It returns false for Untried, which the caller must not report. After trouble, or after MaxUnread answers that were not understood,
// no further message is tried. Untried changes no count.
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

// Each sends messages with at most atOnce concurrent calls. It reports each outcome as soon as the outcome is known.
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
