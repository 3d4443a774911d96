package driver

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// attempts decides whether another message of a Send may be tried.
type attempts struct {
	ctx      context.Context //nolint:containedctx // of the one Send that it belongs to
	until    time.Time       // nothing is begun any more; zero: no end
	troubled atomic.Bool
}

// begin starts the attempts of a Send, each of which takes limit at most: nothing is begun that might be cut off, unless
// there is so little time that nothing would be begun at all.
func begin(ctx context.Context, limit time.Duration) *attempts {
	a := &attempts{ctx: ctx}
	if deadline, ok := ctx.Deadline(); ok {
		a.until = deadline.Add(-min(limit, time.Until(deadline)/2))
	}
	return a
}

// more reports whether another message may be tried.
func (a *attempts) more() bool {
	return a.ctx.Err() == nil && !a.troubled.Load() && (a.until.IsZero() || time.Now().Before(a.until))
}

// took notes an outcome: after trouble nothing more is tried. It reports whether there is anything to tell.
func (a *attempts) took(o Outcome) bool {
	if o.Trouble {
		a.troubled.Store(true)
	}
	return o != untried
}

// each sends messages one by one, several at once, and tells of each as soon as its outcome is known.
func (a *attempts) each(messages []Message, atOnce int, tell func(int, Outcome), send func(m Message) Outcome) {
	slots := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for i := range messages {
		slots <- struct{}{}
		if !a.more() {
			break
		}
		all.Go(func() {
			if o := send(messages[i]); a.took(o) {
				tell(i, o)
			}
			<-slots
		})
	}
	all.Wait()
}
