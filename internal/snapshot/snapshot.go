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

// Cache holds one value. The zero value with Load is ready. Load is given the context of whoever asks: in a transaction it
// must make do with that one's connection, for there may be no other left.
type Cache[T any] struct {
	Load func(ctx context.Context) (T, error)

	loading sync.Mutex
	held    atomic.Pointer[reading[T]]
}

type reading[T any] struct {
	value T
	at    time.Time
}

// Get returns the value, at most twice Fresh old. While one caller reads it again, the others are given what was read before;
// nobody waits for anybody.
func (c *Cache[T]) Get(ctx context.Context) (T, error) {
	if r := c.held.Load(); r != nil {
		age := time.Since(r.at)
		if age < Fresh {
			return r.value, nil
		}
		if age < 2*Fresh {
			if !c.loading.TryLock() {
				return r.value, nil
			}
			defer c.loading.Unlock()
		}
	}
	ctx, cancel := context.WithTimeout(ctx, loadLimit)
	defer cancel()
	at := time.Now()
	value, err := c.Load(ctx)
	if err == nil {
		c.held.Store(&reading[T]{value, at})
	}
	return value, err
}

// Forget makes the next Get read again: this server changed what is kept.
func (c *Cache[T]) Forget() { c.held.Store(nil) }
