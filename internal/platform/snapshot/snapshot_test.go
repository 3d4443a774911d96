package snapshot

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestAValueReadBeforeAChangeIsNotCached(t *testing.T) {
	t.Parallel()
	stored := 1
	c := Cache[int]{}
	c.Load = func(context.Context) (int, error) {
		read := stored
		if stored == 1 { // the change commits during the read
			stored = 2
			c.Invalidate()
		}
		return read, nil
	}
	for _, want := range []int{1, 2, 2} {
		if got, err := c.Get(t.Context()); got != want || err != nil {
			t.Errorf("got %d %v, want %d", got, err, want)
		}
	}
}

// While the database hangs, all waiting callers share one read, and each caller can give up before the read ends.
func TestConcurrentCallersShareOneRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		failure, reads, end := errors.New("the database is away"), 0, make(chan struct{})
		c := Cache[int]{Load: func(context.Context) (int, error) {
			reads++
			<-end
			return 0, failure
		}}
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if _, err := c.Get(t.Context()); !errors.Is(err, failure) {
					t.Errorf("got %v", err)
				}
			})
		}
		synctest.Wait()
		gone, leave := context.WithCancel(t.Context())
		leave()
		if _, err := c.Get(gone); !errors.Is(err, context.Canceled) {
			t.Errorf("a cancelled caller got %v", err)
		}
		close(end)
		all.Wait()
		if reads != 1 {
			t.Errorf("%d reads for 50 callers", reads)
		}
	})
}

func TestACachedValueIsReadAgainWhenItIsTooOld(t *testing.T) {
	t.Parallel()
	now, reads := time.Now(), 0
	c := Cache[int]{Fresh: time.Second, Now: func() time.Time { return now }, Load: func(context.Context) (int, error) {
		reads++
		return reads, nil
	}}
	for _, step := range []struct {
		later time.Duration
		want  int
	}{{0, 1}, {time.Second - 1, 1}, {1, 2}, {0, 2}, {time.Hour, 3}} {
		now = now.Add(step.later)
		if got, err := c.Get(t.Context()); got != step.want || err != nil {
			t.Errorf("after %v: %d %v, want %d", step.later, got, err, step.want)
		}
	}
	if got, err := c.Since(t.Context(), now.Add(-1)); got != 3 || err != nil {
		t.Errorf("for a time before the read: %d %v", got, err)
	}
	now = now.Add(1)
	if got, err := c.Since(t.Context(), now.Add(-1)); got != 4 || err != nil {
		t.Errorf("for the time of the read: %d %v", got, err)
	}
}
