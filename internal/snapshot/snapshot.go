// Package snapshot keeps what is read often and changed rarely.
package snapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Fresh is how old a value may be before it is read again, unless a Cache says otherwise, and so how long a server may take
// to notice what another changed.
const Fresh = 2 * time.Second

// loadLimit bounds one reading.
const loadLimit = 5 * time.Second

// Cache holds one value. The zero value with Load is ready. Load must need nothing that its callers may hold.
type Cache[T any] struct {
	Load  func(ctx context.Context) (T, error)
	Fresh time.Duration    // 0: the constant of this name
	Now   func() time.Time // nil: the clock

	held atomic.Pointer[reading[T]]

	mu      sync.Mutex
	current *reading[T] // under way
}

// reading is one call of Load. The caller that began it sets value and err before done is closed.
type reading[T any] struct {
	at    time.Time // when it began
	done  chan struct{}
	value T
	err   error
}

// errUnread is the outcome of a reading that did not come to an end.
var errUnread = errors.New("reading was given up")

// Get returns the value, at most twice Fresh old. One caller reads it again; meanwhile the others are given what was read
// before, or wait for the reading when that is too old.
func (c *Cache[T]) Get(ctx context.Context) (T, error) {
	now, fresh := c.now(), cmp.Or(c.Fresh, Fresh)
	r := c.held.Load()
	if r != nil && now.Sub(r.at) < fresh {
		return r.value, nil
	}
	if r != nil && now.Sub(r.at) < 2*fresh && c.isReading() {
		return r.value, nil
	}
	return c.Since(ctx, now.Add(-fresh))
}

// Since returns the value as it was after at: it is read again, unless somebody has begun to read it since. Callers that wait
// for one reading share its outcome, a failure too: while the database hangs, none of them waits for more than two readings.
func (c *Cache[T]) Since(ctx context.Context, at time.Time) (T, error) {
	for {
		if r := c.held.Load(); r != nil && r.at.After(at) {
			return r.value, nil
		}
		r, isOwn := c.join()
		if isOwn {
			c.read(ctx, r)
			return r.value, r.err
		}
		select {
		case <-r.done:
			if r.at.After(at) {
				return r.value, r.err
			}
		case <-ctx.Done():
			var none T
			return none, fmt.Errorf("wait for a reading: %w", ctx.Err())
		}
	}
}

// Forget makes the next Get read again: this server changed what is kept. A reading that is under way may have missed the
// change, so that it is neither kept nor joined.
func (c *Cache[T]) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current = nil
	c.held.Store(nil)
}

func (c *Cache[T]) now() time.Time {
	if c.Now != nil {
		return c.Now()
	}
	return time.Now()
}

func (c *Cache[T]) isReading() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current != nil
}

// join gives the reading that is under way. If there is none, the caller is to read what it is given.
func (c *Cache[T]) join() (r *reading[T], isOwn bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current != nil {
		return c.current, false
	}
	c.current = &reading[T]{at: c.now(), done: make(chan struct{}), err: errUnread}
	return c.current, true
}

// read carries a reading out, and keeps what it found unless something was forgotten meanwhile.
func (c *Cache[T]) read(ctx context.Context, r *reading[T]) {
	defer close(r.done)
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.current != r {
			return
		}
		c.current = nil
		if r.err == nil {
			c.held.Store(r)
		}
	}()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), loadLimit) // who asked may go; the others still want it
	defer cancel()
	r.value, r.err = c.Load(ctx)
}
