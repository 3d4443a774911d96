// Package merge lets work that arrives at the same time be done as one: hundreds of rows in a statement and its commit cost
// little more than one.
package merge

import (
	"context"
	"sync"
	"time"
)

// Options says how items are merged.
type Options[In, Out any] struct {
	// Run does all items or none, and returns their outcomes in their order.
	Run func(ctx context.Context, items []In) ([]Out, error)
	// Hopeless tells the errors that are no item's fault: to try the items apart is of no use.
	Hopeless func(error) bool
	// Key, if set, keeps two items of one key out of one run: the second sees what the first did.
	Key func(In) string

	Most     int           // items in one run
	Patience time.Duration // a run that lasts longer is stuck: another is started beside it
	AtOnce   int           // runs side by side, stuck ones included
	Limit    time.Duration // deadline of one run, which is nobody's in particular
}

// Merger runs items in the order in which they come. The next run starts when one returns, with what has come meanwhile:
// who comes alone waits for nobody. Two runs side by side would be half as large, and cost more in all.
type Merger[In, Out any] struct {
	options Options[In, Out]

	mu      sync.Mutex
	waiting []*call[In, Out]
	running int
	latest  time.Time // when the latest run began
	runs    sync.WaitGroup
}

type call[In, Out any] struct {
	ctx  context.Context //nolint:containedctx // whether the caller still waits
	item In
	done chan Result[Out]
}

// Result is what became of one item.
type Result[Out any] struct {
	Out Out
	Err error
}

// New returns a Merger. It needs no end; Wait waits for the runs that are left.
func New[In, Out any](options Options[In, Out]) *Merger[In, Out] {
	return &Merger[In, Out]{options: options}
}

// Do does item together with others and returns its own outcome. When ctx ends first, item may be done or not.
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

// Wait returns when nothing runs or waits any more.
func (m *Merger[In, Out]) Wait() { m.runs.Wait() }

func (m *Merger[In, Out]) run() {
	for {
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

// take returns the calls of the next run; none ends the run that asked.
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
			continue // nobody waits for it, and nothing of it was done
		}
		if m.options.Key != nil {
			key := m.options.Key(c.item)
			if _, twice := keys[key]; twice {
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

// Apart runs items together, and where that fails in halves, so that an item that cannot be done fails alone. An error that
// is hopeless is every item's at once.
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
