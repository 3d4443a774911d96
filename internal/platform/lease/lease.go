// Package lease does work that one process at a time does, such as keeping a connection open. A row of the database says which process does the work.
package lease

import (
	"context"
	"math/rand/v2"
	"time"
)

// The process that does the work has a lease of Length, and renews it at the interval Renewal. Without a renewal, another process takes over at the end of the
// lease. A process that cannot renew its lease stops the work Spare before this end.
const (
	Length  = 10 * time.Second
	Renewal = 2 * time.Second
	Spare   = 3 * time.Second
)

// Work is work that one process at a time does.
type Work struct {
	// Hold takes over or renews the lease. It returns false if another process has it.
	Hold func(ctx context.Context) (isHeld bool, err error)
	// Do does the work until ctx ends.
	Do func(ctx context.Context)
	// Release ends the lease, so that another process can take over at once.
	Release func()
	// Failed is called with an error of Hold outside of the work, and with nil or an error if the lease was lost during the work.
	Failed func(ctx context.Context, isLost bool, err error)
}

// Keep does the work whenever no other process does it, until ctx ends. It returns after Do has returned.
func (w Work) Keep(ctx context.Context) {
	for ctx.Err() == nil {
		began := time.Now()
		if isHeld, err := w.Hold(ctx); isHeld {
			w.run(ctx, began.Add(Length-Spare))
			w.Release()
		} else if err != nil && ctx.Err() == nil {
			w.Failed(ctx, false, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(Renewal/2 + rand.N(Renewal/2)): //nolint:gosec // spreads the processes
		}
	}
}

// run does the work while the lease is renewed, at first until the given time. It returns early if Do does.
func (w Work) run(ctx context.Context, until time.Time) {
	doing, cut := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.Do(doing)
	}()
	defer func() {
		cut()
		<-ended
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ended:
			return
		case <-time.After(Renewal):
		}
		began := time.Now()
		renewing, cancel := context.WithDeadline(ctx, until)
		isHeld, err := w.Hold(renewing)
		cancel()
		switch {
		case isHeld:
			until = began.Add(Length - Spare)
		case err == nil, !time.Now().Before(until):
			w.Failed(ctx, true, err)
			return
		}
	}
}
