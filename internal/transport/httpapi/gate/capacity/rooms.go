// Package capacity shares what a server has among its callers: slots for costly requests, memory for bodies, and the pace of cheap answers.
package capacity

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"lksms/internal/platform/fault"
)

// Limits of bodies. A request needs many times the memory of its body, so the sums below bound the memory of the server.
const (
	// SmallBody is the size up to which a body is small.
	SmallBody = 64 << 10

	// BodiesOfOne is how many bytes of small bodies, and of larger ones, one company, one provider, or one user without a company has at once.
	BodiesOfOne = 8 << 20
	// BodiesOfSource is how many bytes of bodies the unknown callers of one network have at once.
	BodiesOfSource = 2 << 20

	smallBodies = 16 << 20 // bytes of all small bodies at once
	largeBodies = 24 << 20 // bytes of all larger bodies at once
	strangers   = 4 << 20  // bytes of all bodies of unknown callers at once
	roomWait    = 5 * time.Second
)

// ErrUnavailable is the fault of a server that cannot serve a request now: the database is unreachable, or the requests of others
// hold the connections, memory or slots.
var ErrUnavailable = &fault.Error{Kind: fault.Unavailable, Reason: fault.ServiceUnavailable, RetryAfter: 2 * time.Second}

// Room bounds the bytes of bodies that are in memory at once: of all callers together, and of each.
type Room struct {
	all *semaphore.Weighted
	one int64

	mu      sync.Mutex
	callers map[string]*callerRoom
}

type callerRoom struct {
	bytes *semaphore.Weighted
	users int // requests that hold room or wait for it
}

// NewRoom returns a Room for all bytes, of which one caller may have one.
func NewRoom(all, one int64) *Room {
	return &Room{all: semaphore.NewWeighted(all), one: one, callers: map[string]*callerRoom{}}
}

// errTooMuch is the fault for a caller whose own requests hold all the memory or slots that it may have.
var errTooMuch = &fault.Error{Kind: fault.TooMany, Reason: fault.RequestTooMuch, RetryAfter: time.Second}

// Take waits for room for n bytes of a caller; n is at most the room of one caller. A caller waits for its own room first, so that it
// takes none from others while it waits. give returns a part of the room; the parts must add up to n. Faults: request.too_much, unavailable.
func (r *Room) Take(ctx context.Context, caller string, n int64) (give func(part int64), err error) {
	late := time.Now().Add(roomWait)
	own := r.enter(caller)
	if acquire(ctx, own.bytes, n, late) != nil {
		r.leave(caller)
		return nil, goneOr(ctx, errTooMuch)
	}
	if acquire(ctx, r.all, n, late) != nil {
		own.bytes.Release(n)
		r.leave(caller)
		return nil, goneOr(ctx, ErrUnavailable)
	}
	held := n
	return func(part int64) {
		r.all.Release(part)
		own.bytes.Release(part)
		if held -= part; held == 0 {
			r.leave(caller)
		}
	}, nil
}

// acquire waits for n bytes until a time. Nearly always they are free, and the timer is spared.
func acquire(ctx context.Context, bytes *semaphore.Weighted, n int64, late time.Time) error {
	if bytes.TryAcquire(n) {
		return nil
	}
	waiting, cancel := context.WithDeadline(ctx, late)
	defer cancel()
	return bytes.Acquire(waiting, n) //nolint:wrapcheck // take answers a fault
}

// goneOr returns err, or another error if the caller has gone.
func goneOr(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("wait for room: %w", ctx.Err())
	}
	return err
}

func (r *Room) enter(caller string) *callerRoom {
	r.mu.Lock()
	defer r.mu.Unlock()
	own := r.callers[caller]
	if own == nil {
		own = &callerRoom{bytes: semaphore.NewWeighted(r.one)}
		r.callers[caller] = own
	}
	own.users++
	return own
}

func (r *Room) leave(caller string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	own := r.callers[caller]
	if own.users--; own.users == 0 {
		delete(r.callers, caller)
	}
}

// Rooms holds a Room for each kind of body.
type Rooms struct {
	Small, Large *Room
	Strangers    *Room // of unknown callers
}

// NewRooms returns the Rooms of a server.
func NewRooms() Rooms {
	return Rooms{Small: NewRoom(smallBodies, BodiesOfOne), Large: NewRoom(largeBodies, BodiesOfOne), Strangers: NewRoom(strangers, BodiesOfSource)}
}
