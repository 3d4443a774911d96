// Package capacity divides the capacity of a server among its callers: slots for costly requests, memory for bodies, and the rate of cheap responses.
package capacity

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"lksms/internal/platform/fault"
)

// These limits bound the bytes of request bodies in memory. A request needs many times the memory of its body, so the limits also bound the memory of the
// server.
const (
	// SmallBody is the maximum size of a small body.
	SmallBody = 64 << 10

	// MaxBodyBytesPerCaller is the maximum number of bytes of small bodies that one caller has in memory. The same maximum applies to large bodies. A caller is
	// a company, a provider, or a user without a company.
	MaxBodyBytesPerCaller = 8 << 20
	// MaxBodyBytesPerNetwork is the maximum number of bytes of bodies from unknown callers of one network.
	MaxBodyBytesPerNetwork = 2 << 20

	smallBodies = 16 << 20 // maximum number of bytes of all small bodies together
	largeBodies = 24 << 20 // maximum number of bytes of all large bodies together
	strangers   = 4 << 20  // maximum number of bytes of all bodies from unknown callers together
	memoryWait  = 5 * time.Second
)

// ErrUnavailable is the fault of a server that cannot serve a request now: the database is unreachable, or other requests occupy the connections, memory or
// slots.
var ErrUnavailable = &fault.Error{Kind: fault.Unavailable, Reason: fault.ServiceUnavailable, RetryAfter: 2 * time.Second}

// Memory limits the bytes of bodies in memory, for all callers together and for each caller.
type Memory struct {
	total     *semaphore.Weighted
	perCaller int64

	mu      sync.Mutex
	callers map[string]*callerMemory
}

type callerMemory struct {
	bytes *semaphore.Weighted
	users int // number of requests that occupy memory or wait for it
}

// NewMemory returns a Memory with a limit of total bytes for all callers together, and a limit of perCaller bytes for each caller.
func NewMemory(total, perCaller int64) *Memory {
	return &Memory{total: semaphore.NewWeighted(total), perCaller: perCaller, callers: map[string]*callerMemory{}}
}

// errTooMuch is the fault for a caller whose own requests occupy its whole share of memory or slots.
var errTooMuch = &fault.Error{Kind: fault.TooMany, Reason: fault.RequestTooMuch, RetryAfter: time.Second}

// Take waits until n bytes of memory are free for a caller. n must not exceed the limit of one caller. Take waits for the caller's own limit first, so that a
// waiting caller occupies no memory of other callers. give frees part bytes; all parts must add up to n. Faults: request.too_much, service.unavailable.
func (r *Memory) Take(ctx context.Context, caller string, n int64) (give func(part int64), err error) {
	deadline := time.Now().Add(memoryWait)
	own := r.enter(caller)
	if acquire(ctx, own.bytes, n, deadline) != nil {
		r.leave(caller)
		return nil, orDisconnected(ctx, errTooMuch)
	}
	if acquire(ctx, r.total, n, deadline) != nil {
		own.bytes.Release(n)
		r.leave(caller)
		return nil, orDisconnected(ctx, ErrUnavailable)
	}
	held := n
	return func(part int64) {
		r.total.Release(part)
		own.bytes.Release(part)
		if held -= part; held == 0 {
			r.leave(caller)
		}
	}, nil
}

// acquire waits for n bytes until the deadline. TryAcquire succeeds almost always, and then no timer is needed.
func acquire(ctx context.Context, bytes *semaphore.Weighted, n int64, deadline time.Time) error {
	if bytes.TryAcquire(n) {
		return nil
	}
	waiting, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	return bytes.Acquire(waiting, n) //nolint:wrapcheck // Take returns a fault instead
}

// orDisconnected returns err, or the error of ctx if the client has disconnected.
func orDisconnected(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("wait for memory: %w", ctx.Err())
	}
	return err
}

func (r *Memory) enter(caller string) *callerMemory {
	r.mu.Lock()
	defer r.mu.Unlock()
	own := r.callers[caller]
	if own == nil {
		own = &callerMemory{bytes: semaphore.NewWeighted(r.perCaller)}
		r.callers[caller] = own
	}
	own.users++
	return own
}

func (r *Memory) leave(caller string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	own := r.callers[caller]
	if own.users--; own.users == 0 {
		delete(r.callers, caller)
	}
}

// Memories contains a Memory for each kind of body.
type Memories struct {
	Small, Large *Memory
	Strangers    *Memory // for unknown callers
}

// NewMemories returns the Memories of a server.
func NewMemories() Memories {
	return Memories{Small: NewMemory(smallBodies, MaxBodyBytesPerCaller), Large: NewMemory(largeBodies, MaxBodyBytesPerCaller), Strangers: NewMemory(strangers, MaxBodyBytesPerNetwork)}
}
