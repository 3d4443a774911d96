// Package snapshot caches values that are read often and change rarely.
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

// Fresh is the default age after which a cache loads its value again. A server notices the change of another server within twice this time.
const Fresh = 2 * time.Second

// loadLimit bounds one call of Load.
const loadLimit = 5 * time.Second

// Cache caches one value. Only Load must be set. Load must not need a resource that a caller of the cache possibly occupies, for example a connection of the
// main pool.
type Cache[T any] struct {
	Load  func(ctx context.Context) (T, error)
	Fresh time.Duration    // 0: the constant Fresh
	Now   func() time.Time // nil: time.Now

	held atomic.Pointer[reading[T]]

	mu      sync.Mutex
	current *reading[T] // the call of Load in progress; nil if no call is in progress
}

// reading is one call of Load. The caller that started this call sets value and err, and then closes done.
type reading[T any] struct {
	at    time.Time // start of the call
	done  chan struct{}
	value T
	err   error
}

// errUnread is the error of a reading whose Load panicked.
var errUnread = errors.New("the value could not be read")

// Get returns the value, which is at most twice Fresh old. If the value is older than Fresh, one caller loads it again. Meanwhile the other callers get the
// previous value, or wait for the reading if the previous value is too old.
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

// Since returns a value whose reading started after the time `at`. Callers that wait for the same reading share its result or its error. So no caller waits for
// more than two readings while the database hangs.
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
			return none, fmt.Errorf("wait for a shared reading: %w", ctx.Err())
		}
	}
}

// Invalidate discards the value after a change by this server. A reading in progress possibly missed the change. Its result is therefore not cached, and new
// callers do not wait for it.
func (c *Cache[T]) Invalidate() {
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

// join returns the reading in progress. If no reading is in progress, join returns a new reading that the caller must perform.
func (c *Cache[T]) join() (r *reading[T], isOwn bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current != nil {
		return c.current, false
	}
	c.current = &reading[T]{at: c.now(), done: make(chan struct{}), err: errUnread}
	return c.current, true
}

// read performs a reading, and caches the value unless Invalidate was called meanwhile.
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
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), loadLimit) // the reading must continue for the other callers when the ctx of this caller ends
	defer cancel()
	r.value, r.err = c.Load(ctx)
}
