// Package merge merges concurrent work into one run: a statement and commit for hundreds of rows cost little more than for one row.
package merge

import (
	"context"
	"sync"
	"time"
)

// Options configures a Merger.
type Options[In, Out any] struct {
	// Run does all items or no item, and returns their outcomes in the order of the items.
	Run func(ctx context.Context, items []In) ([]Out, error)
	// Hopeless reports whether an error is independent of the items, so that running each item separately would fail, too.
	Hopeless func(error) bool
	// Key, if set, returns the key of an item. Two items with the same key are never in the same run, so that the second item sees the effect of the first.
	Key func(In) string

	Pace     time.Duration // minimum time between the starts of two runs, so that a run contains more items; 0: no minimum
	Most     int           // maximum number of items of one run
	Patience time.Duration // a run that takes longer counts as hanging, and another run starts concurrently
	AtOnce   int           // maximum number of concurrent runs, including hanging runs
	Limit    time.Duration // deadline of one run; the run ignores the deadlines of its callers
}

// Merger runs items in the order of their arrival. When a run returns, the next run starts with the items that arrived meanwhile. An item that arrives while no
// run is in progress starts at once, unless Pace delays it. Unless a run hangs (Options.Patience), a Merger has at most one run at a time: two concurrent
// runs would each contain half of the items, and cost more in total.
type Merger[In, Out any] struct {
	options Options[In, Out]

	mu      sync.Mutex
	waiting []*call[In, Out]
	running int
	latest  time.Time // when the latest run started, or started to wait for Pace
	next    time.Time // earliest start of the next run that Pace allows
	runs    sync.WaitGroup
}

type call[In, Out any] struct {
	ctx  context.Context //nolint:containedctx // ends when the caller no longer waits
	item In
	done chan Result[Out]
}

// Result is the outcome of one item.
type Result[Out any] struct {
	Out Out
	Err error
}

// New returns a Merger. A Merger needs no Close; Wait waits for its runs.
func New[In, Out any](options Options[In, Out]) *Merger[In, Out] {
	return &Merger[In, Out]{options: options}
}

// Do runs item, possibly in one run with other items, and returns the outcome of item. If ctx ends first, Do returns the error of ctx, and it is unknown
// whether item was done.
func (m *Merger[In, Out]) Do(ctx context.Context, item In) (Out, error) {
	c := &call[In, Out]{ctx: ctx, item: item, done: make(chan Result[Out], 1)}
	m.mu.Lock()
	m.waiting = append(m.waiting, c)
	if m.running == 0 || m.running < m.options.AtOnce && time.Since(m.latest) > m.options.Patience {
		m.running++
		m.latest = time.Now()
		m.runs.Go(m.run)
	}
	m.mu.Unlock()
	select {
	case r := <-c.done:
		return r.Out, r.Err
	case <-ctx.Done():
		var none Out
		return none, ctx.Err()
	}
}

// Wait returns when no item runs or waits.
func (m *Merger[In, Out]) Wait() { m.runs.Wait() }

func (m *Merger[In, Out]) run() {
	for {
		m.pause()
		calls := m.take()
		if len(calls) == 0 {
			return
		}
		items := make([]In, len(calls))
		for i, c := range calls {
			items[i] = c.item
		}
		ctx, cancel := context.WithTimeout(context.Background(), m.options.Limit)
		results := Apart(items, func(items []In) ([]Out, error) { return m.options.Run(ctx, items) }, m.options.Hopeless)
		cancel()
		for i, c := range calls {
			c.done <- results[i]
		}
	}
}

// pause waits until the next run is allowed to start. Concurrent runs share one Pace.
func (m *Merger[In, Out]) pause() {
	if m.options.Pace == 0 {
		return
	}
	now := time.Now()
	m.mu.Lock()
	if m.next.Before(now) {
		m.next = now
	}
	at := m.next
	m.next = at.Add(m.options.Pace)
	m.mu.Unlock()
	time.Sleep(at.Sub(now))
}

// take returns the calls of the next run. It returns no calls if no call waits: the loop of its caller then ends.
func (m *Merger[In, Out]) take() []*call[In, Out] {
	m.mu.Lock()
	defer m.mu.Unlock()
	var taken, left []*call[In, Out]
	keys := map[string]struct{}{}
	for i, c := range m.waiting {
		if len(taken) == m.options.Most {
			left = append(left, m.waiting[i:]...)
			break
		}
		if c.ctx.Err() != nil {
			continue // the caller's ctx has ended, and the item was not started
		}
		if m.options.Key != nil {
			key := m.options.Key(c.item)
			if _, isTaken := keys[key]; isTaken {
				left = append(left, c)
				continue
			}
			keys[key] = struct{}{}
		}
		taken = append(taken, c)
	}
	m.waiting = left
	if len(taken) == 0 {
		m.running--
	} else {
		m.latest = time.Now()
	}
	return taken
}

// Apart runs all items together. If the run fails, Apart runs each half separately, so that only the items that cause the error fail. If the error is hopeless,
// it is the result of every item.
func Apart[In, Out any](items []In, run func([]In) ([]Out, error), hopeless func(error) bool) []Result[Out] {
	results := make([]Result[Out], len(items))
	outs, err := run(items)
	switch {
	case err == nil:
		for i := range results {
			results[i].Out = outs[i]
		}
	case len(items) == 1 || hopeless(err):
		for i := range results {
			results[i].Err = err
		}
	default:
		half := len(items) / 2
		copy(results, Apart(items[:half], run, hopeless))
		copy(results[half:], Apart(items[half:], run, hopeless))
	}
	return results
}
