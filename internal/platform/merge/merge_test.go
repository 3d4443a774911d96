package merge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var errBad, errDown = errors.New("bad item"), errors.New("all is down")

// doubler doubles numbers. runs contains the items of each run. If gate is set, each run waits for gate.
type doubler struct {
	mu   sync.Mutex
	runs [][]int
	gate chan struct{}
}

func (d *doubler) run(ctx context.Context, items []int) ([]int, error) {
	d.mu.Lock()
	d.runs = append(d.runs, slices.Clone(items))
	d.mu.Unlock()
	if d.gate != nil {
		select {
		case <-d.gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if slices.Contains(items, -1) {
		return nil, errDown
	}
	outs := make([]int, len(items))
	for i, n := range items {
		if n%13 == 0 {
			return nil, errBad
		}
		outs[i] = 2 * n
	}
	return outs, nil
}

func (d *doubler) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.runs)
}

func (d *doubler) merger(change func(*Options[int, int])) *Merger[int, int] {
	o := Options[int, int]{
		Run: d.run, Hopeless: func(err error) bool { return errors.Is(err, errDown) }, Most: 100, Patience: time.Hour, AtOnce: 3, Limit: time.Minute,
	}
	if change != nil {
		change(&o)
	}
	return New(o)
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if condition() {
			return
		}
	}
	t.Fatalf("never happened: %s", what)
}

func (m *Merger[In, Out]) waitingNow() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.waiting)
}

func TestCallsDuringARunAreMergedIntoTheNextRun(t *testing.T) {
	t.Parallel()
	d := &doubler{gate: make(chan struct{})}
	m := d.merger(nil)
	var all sync.WaitGroup
	do := func(n int) {
		all.Go(func() {
			if got, err := m.Do(t.Context(), n); err != nil || got != 2*n {
				t.Errorf("%d gave %d, %v", n, got, err)
			}
		})
	}
	do(1)
	eventually(t, "the first call runs alone and at once", func() bool { return d.count() == 1 })
	for n := 2; n <= 12; n++ {
		do(n)
	}
	eventually(t, "the other calls wait", func() bool { return m.waitingNow() == 11 })
	d.gate <- struct{}{}
	d.gate <- struct{}{}
	all.Wait()
	m.Wait()
	if len(d.runs) != 2 || len(d.runs[0]) != 1 || len(d.runs[1]) != 11 {
		t.Errorf("runs %v", d.runs)
	}
}

func TestABadItemDoesNotFailOtherItems(t *testing.T) {
	t.Parallel()
	d := &doubler{gate: make(chan struct{})}
	m := d.merger(nil)
	var all sync.WaitGroup
	for n := 1; n <= 60; n++ {
		all.Go(func() {
			got, err := m.Do(t.Context(), n)
			if n%13 == 0 && !errors.Is(err, errBad) || n%13 != 0 && (err != nil || got != 2*n) {
				t.Errorf("%d gave %d, %v", n, got, err)
			}
		})
	}
	eventually(t, "the first call runs and the others wait", func() bool { return d.count() == 1 && len(d.runs[0])+m.waitingNow() == 60 })
	close(d.gate)
	all.Wait()
}

func TestAPermanentErrorFailsAllItems(t *testing.T) {
	t.Parallel()
	runs := 0
	results := Apart([]int{1, -1, 2}, func(items []int) ([]int, error) {
		runs++
		return (&doubler{}).run(t.Context(), items)
	}, func(err error) bool { return errors.Is(err, errDown) })
	for _, r := range results {
		if !errors.Is(r.Err, errDown) {
			t.Errorf("got %+v", r)
		}
	}
	if runs != 1 {
		t.Errorf("%d runs", runs)
	}
}

func TestCallsWithTheSameKeyAreInSeparateRuns(t *testing.T) {
	t.Parallel()
	d := &doubler{gate: make(chan struct{})}
	m := d.merger(func(o *Options[int, int]) { o.Key = func(n int) string { return fmt.Sprint(n % 10) } })
	var all sync.WaitGroup
	all.Go(func() { _, _ = m.Do(t.Context(), 5) })
	eventually(t, "the first call runs", func() bool { return d.count() == 1 })
	for _, n := range []int{1, 11, 21, 2} {
		waiting := m.waitingNow()
		all.Go(func() { _, _ = m.Do(t.Context(), n) })
		eventually(t, "the call waits", func() bool { return m.waitingNow() == waiting+1 })
	}
	close(d.gate)
	all.Wait()
	if want := [][]int{{5}, {1, 2}, {11}, {21}}; !slices.EqualFunc(d.runs, want, slices.Equal) {
		t.Errorf("runs %v, want %v", d.runs, want)
	}
}

func TestARunContainsAtMostTheMaximumOfItems(t *testing.T) {
	t.Parallel()
	var running atomic.Int32
	m := New(Options[int, int]{
		Run: func(_ context.Context, items []int) ([]int, error) {
			if n := running.Add(1); n > 1 || len(items) > 7 {
				t.Errorf("%d runs at once, one with %d items", n, len(items))
			}
			defer running.Add(-1)
			return make([]int, len(items)), nil
		},
		Hopeless: func(error) bool { return false }, Most: 7, Patience: time.Hour, AtOnce: 3, Limit: time.Minute,
	})
	var all sync.WaitGroup
	for n := range 2000 {
		all.Go(func() {
			if _, err := m.Do(t.Context(), n); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	m.Wait()
	if m.waitingNow() != 0 || m.running != 0 {
		t.Errorf("%d wait and %d run at the end", m.waitingNow(), m.running)
	}
}

func TestARunThatHangsDoesNotDelayOtherCalls(t *testing.T) {
	t.Parallel()
	stuck := make(chan struct{})
	m := New(Options[int, int]{
		Run: func(_ context.Context, items []int) ([]int, error) {
			if slices.Contains(items, 0) {
				<-stuck
			}
			return items, nil
		},
		Hopeless: func(error) bool { return false }, Most: 100, Patience: time.Nanosecond, AtOnce: 2, Limit: time.Minute,
	})
	var first sync.WaitGroup
	first.Go(func() { _, _ = m.Do(t.Context(), 0) })
	eventually(t, "the first call runs", func() bool { m.mu.Lock(); defer m.mu.Unlock(); return m.running == 1 && len(m.waiting) == 0 })
	for n := 1; n < 10; n++ {
		if got, err := m.Do(t.Context(), n); got != n || err != nil {
			t.Errorf("%d gave %d, %v", n, got, err)
		}
	}
	close(stuck)
	first.Wait()
}

func TestAnItemOfACancelledCallerIsNotRun(t *testing.T) {
	t.Parallel()
	d := &doubler{gate: make(chan struct{})}
	m := d.merger(nil)
	var all sync.WaitGroup
	all.Go(func() { _, _ = m.Do(t.Context(), 1) })
	eventually(t, "the first call runs", func() bool { return d.count() == 1 })
	ctx, cancel := context.WithCancel(t.Context())
	all.Go(func() {
		if _, err := m.Do(ctx, 2); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
	eventually(t, "the second call waits", func() bool { return m.waitingNow() == 1 })
	cancel()
	all.Go(func() { _, _ = m.Do(t.Context(), 3) })
	eventually(t, "the third call waits", func() bool { return m.waitingNow() == 2 })
	close(d.gate)
	all.Wait()
	if want := [][]int{{1}, {3}}; !slices.EqualFunc(d.runs, want, slices.Equal) {
		t.Errorf("runs %v, want %v", d.runs, want)
	}
}

func TestTheTimeBetweenRunsIsAtLeastPace(t *testing.T) {
	t.Parallel()
	const pace = 20 * time.Millisecond
	d := &doubler{}
	m := d.merger(func(o *Options[int, int]) { o.Pace = pace })
	began := time.Now()
	var callers sync.WaitGroup
	for range 20 {
		callers.Go(func() {
			for range 5 {
				if out, err := m.Do(t.Context(), 1); out != 2 || err != nil {
					t.Errorf("%d, %v", out, err)
				}
			}
		})
	}
	callers.Wait()
	m.Wait()
	if n, most := d.count(), int(time.Since(began)/pace)+1; n > most || n < 5 {
		t.Errorf("%d runs, at most %d keep the pace", n, most)
	}
	alone := &doubler{}
	if out, err := alone.merger(func(o *Options[int, int]) { o.Pace = time.Hour }).Do(t.Context(), 1); out != 2 || err != nil {
		t.Errorf("the first item: %d, %v", out, err)
	}
}
