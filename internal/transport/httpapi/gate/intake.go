package gate

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"lksms/internal/platform/access"
	"lksms/internal/platform/bom"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/outbound"
	"lksms/internal/transport/httpapi/jsonbody"
)

// Limits of bodies. A request needs many times the memory of its body, so the sums below bound the memory of the server.
const (
	smallBody = 64 << 10

	smallBodies    = 16 << 20 // bytes of all small bodies at once
	largeBodies    = 24 << 20 // bytes of all larger bodies at once
	bodiesOfOne    = 8 << 20  // of these, and of the small ones: those of one company, one provider, or one user without a company
	strangers      = 4 << 20  // bytes of all bodies of unknown callers at once
	bodiesOfSource = 2 << 20  // of these: those of one network
	roomWait       = 5 * time.Second

	// A body must arrive whole within bodyGrace, or as fast as bodyRate after that.
	bodyGrace   = 5 * time.Second
	bodyRate    = 64 << 10 // bytes a second
	bodyLongest = 30 * time.Second
	bodySoon    = time.Second // after a body that took longer, the caller is authorised again

	// leftoverWait bounds the wait for an unread body: net/http reads some of it before the answer goes out.
	leftoverWait = 500 * time.Millisecond

	// A caller must read its answer within answerLongest, an unknown caller within strangersAnswer.
	answerLongest   = 30 * time.Second
	strangersAnswer = 15 * time.Second
)

// room bounds the bytes of bodies that are in memory at once: of all callers together, and of each.
type room struct {
	all *semaphore.Weighted
	one int64

	mu      sync.Mutex
	callers map[string]*callerRoom
}

type callerRoom struct {
	bytes *semaphore.Weighted
	users int // requests that hold room or wait for it
}

func newRoom(all, one int64) *room {
	return &room{all: semaphore.NewWeighted(all), one: one, callers: map[string]*callerRoom{}}
}

// errTooMuch is the fault for a caller whose own requests hold all the memory or turns that it may have.
var errTooMuch = &fault.Error{Kind: fault.TooMany, Reason: fault.RequestTooMuch, RetryAfter: time.Second}

// take waits for room for n bytes of a caller; n is at most the room of one caller. A caller waits for its own room first, so that it
// takes none from others while it waits. give returns a part of the room; the parts must add up to n. Faults: request.too_much, unavailable.
func (r *room) take(ctx context.Context, caller string, n int64) (give func(part int64), err error) {
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

func (r *room) enter(caller string) *callerRoom {
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

func (r *room) leave(caller string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	own := r.callers[caller]
	if own.users--; own.users == 0 {
		delete(r.callers, caller)
	}
}

// rooms holds a room for each kind of body.
type rooms struct{ small, large, strangers *room }

func newRooms() rooms {
	return rooms{small: newRoom(smallBodies, bodiesOfOne), large: newRoom(largeBodies, bodiesOfOne), strangers: newRoom(strangers, bodiesOfSource)}
}

// receive reads the body of a request, up to most bytes, into x. done must be called when the body is no longer needed.
func (g *Gate) receive(w http.ResponseWriter, r *http.Request, x *Exchange, most int64) (done func(), err error) {
	coding, err := codingOf(w, r)
	if err != nil {
		return nil, err
	}
	needed := most // for a body of unknown length
	if r.ContentLength >= 0 && coding == "" {
		needed = min(r.ContentLength, most)
	}
	needed = max(needed, 1)
	where, caller := g.rooms.large, x.holder()
	switch {
	case caller == "":
		where, caller = g.rooms.strangers, outbound.NetworkOf(x.Origin.SourceIP)
	case needed <= smallBody:
		where = g.rooms.small
	}
	give, err := where.take(r.Context(), caller, needed)
	if err != nil {
		return nil, err
	}
	paced := &pacedReader{body: http.MaxBytesReader(w, r.Body, most), connection: http.NewResponseController(w), started: time.Now()}
	body := bytes.NewBuffer(make([]byte, 0, min(needed, smallBody)+bytes.MinRead)) // grows with the bytes that arrive, not with Content-Length
	_, err = body.ReadFrom(&jsonbody.ShapeReader{Reader: decoded(w, paced, coding, most)})
	paced.clearDeadline()
	x.Body.Raw = body.Bytes()
	if x.Operation != callbackOperation { // a signature covers the body as it came
		x.Body.Raw = bom.Skip(x.Body.Raw)
	}
	if err != nil {
		x.Body.Cut = unreadable(err, x.Body.Raw)
	}
	held := min(max(int64(len(x.Body.Raw)), 1), needed)
	if held < needed {
		give(needed - held)
	}
	return sync.OnceFunc(func() { give(held) }), nil
}

// codingOf returns how a body is coded: gzip, or empty for as it is. Fault: request.unsupported_coding.
func codingOf(w http.ResponseWriter, r *http.Request) (string, error) {
	switch coding := strings.ToLower(strings.TrimSpace(strings.Join(r.Header.Values("Content-Encoding"), ","))); coding {
	case "", "identity":
		return "", nil
	case "gzip", "x-gzip":
		return "gzip", nil
	}
	w.Header().Set("Accept-Encoding", "gzip")
	return "", fault.New(fault.UnsupportedMedia, fault.RequestCoding)
}

// decoded returns the plain bytes of a body, of which most may come.
func decoded(w http.ResponseWriter, body io.Reader, coding string, most int64) io.Reader {
	if coding == "" {
		return body
	}
	return http.MaxBytesReader(w, &gunzip{coded: body}, most)
}

// gunzip reads a gzipped body. Unlike gzip.NewReader, it reads nothing before its first Read.
type gunzip struct {
	coded io.Reader
	plain *gzip.Reader
}

func (g *gunzip) Read(b []byte) (n int, err error) {
	if g.plain == nil {
		if g.plain, err = gzip.NewReader(g.coded); err != nil {
			return 0, err //nolint:wrapcheck // unreadable judges it
		}
	}
	return g.plain.Read(b) //nolint:wrapcheck // a Reader returns io.EOF as it is
}

func (g *gunzip) Close() error { return nil }

// holder returns the name under which the bodies of a caller are counted: its company, so that many users have one share; else the
// provider or the user. Empty: an unknown caller.
func (x *Exchange) holder() string {
	if x.Caller.Provider != "" {
		return "provider " + x.Caller.Provider
	}
	if company, is := x.company(); is {
		return "company " + company // no user name contains a space
	}
	return x.Caller.User.Username
}

// company returns the company for which the caller acts, if any.
func (x *Exchange) company() (id string, is bool) {
	if x.Caller.User.Username == "" || x.Caller.User.SeesAll || x.Caller.User.Role == access.RoleSend {
		return "", false
	}
	return strconv.FormatInt(x.Caller.User.CompanyID, 10), true
}

// pacedReader reads a body and fails if the body arrives too slowly.
type pacedReader struct {
	body       io.Reader
	connection *http.ResponseController
	started    time.Time
	read       int64
	allowed    time.Duration // since started, as the deadline of the connection says
}

func (p *pacedReader) Read(b []byte) (int, error) {
	if allowed := min(bodyGrace+time.Duration(p.read/bodyRate)*time.Second, bodyLongest); allowed != p.allowed {
		p.allowed = allowed
		_ = p.connection.SetReadDeadline(p.started.Add(allowed)) // the recorders of tests have no deadlines
	}
	n, err := p.body.Read(b)
	p.read += int64(n)
	return n, err
}

// clearDeadline removes the deadline: if it passed while the handler runs, it would cancel the context of the request.
func (p *pacedReader) clearDeadline() { _ = p.connection.SetReadDeadline(time.Time{}) }
