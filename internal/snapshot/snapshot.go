// Package snapshot keeps what is read often and changed rarely.
package snapshot

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Fresh is how old a value may be before it is read again, and so how long a server may take to notice what another
// changed.
const Fresh = 2 * time.Second

// loadLimit bounds one reading.
const loadLimit = 5 * time.Second

// Cache holds one value. The zero value with Load is ready. Load must need nothing that its callers may hold.
type Cache[T any] struct {
	Load func(ctx context.Context) (T, error)

	loading sync.Mutex
	held    atomic.Pointer[reading[T]]

	forgetting sync.Mutex
	forgotten  int // how often; what was being read meanwhile is not kept
}

type reading[T any] struct {
	value T
	at    time.Time
}

// Get returns the value, at most twice Fresh old. One caller reads it again; meanwhile the others are given what was read
// before, or wait for it when that is too old.
func (c *Cache[T]) Get(ctx context.Context) (T, error) {
	r := c.held.Load()
	if r != nil && time.Since(r.at) < Fresh {
		return r.value, nil
	}
	if !c.loading.TryLock() {
		if r != nil && time.Since(r.at) < 2*Fresh {
			return r.value, nil
		}
		c.loading.Lock()
	}
	defer c.loading.Unlock()
	return c.readSince(ctx, time.Now().Add(-Fresh))
}

// Since returns the value as it was after at: it is read again, unless somebody has begun to read it since.
func (c *Cache[T]) Since(ctx context.Context, at time.Time) (T, error) {
	if r := c.held.Load(); r != nil && r.at.After(at) {
		return r.value, nil
	}
	c.loading.Lock()
	defer c.loading.Unlock()
	return c.readSince(ctx, at)
}

// readSince reads unless what is held was read after at. The caller holds loading.
func (c *Cache[T]) readSince(ctx context.Context, at time.Time) (T, error) {
	if r := c.held.Load(); r != nil && r.at.After(at) {
		return r.value, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), loadLimit) // who asked may go; the others still want it
	defer cancel()
	began, before := time.Now(), c.timesForgotten()
	value, err := c.Load(ctx)
	if err == nil {
		c.keep(&reading[T]{value, began}, before)
	}
	return value, err
}

// Forget makes the next Get read again: this server changed what is kept. A reading that is under way may have missed the
// change.
func (c *Cache[T]) Forget() {
	c.forgetting.Lock()
	defer c.forgetting.Unlock()
	c.forgotten++
	c.held.Store(nil)
}

func (c *Cache[T]) timesForgotten() int {
	c.forgetting.Lock()
	defer c.forgetting.Unlock()
	return c.forgotten
}

// keep holds what was read unless something was forgotten since the reading began.
func (c *Cache[T]) keep(r *reading[T], before int) {
	c.forgetting.Lock()
	defer c.forgetting.Unlock()
	if c.forgotten == before {
		c.held.Store(r)
	}
}
