// Package pdulink exchanges requests and responses over a connection, with sequence numbers, a window and tests of the link. Protocols of carriers share it.
//
// Both sides of a link send requests, and answer the requests of the other side in any order. The package knows no PDUs: see Protocol.
package pdulink

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// The errors of Request wrap one of the first two, and their cause.
var (
	// ErrNotSent means that the other side cannot have executed the request: sending it again sends nothing twice.
	ErrNotSent = errors.New("the request was not sent")
	// ErrUnclear means that the other side may have executed the request: see UnclearError.
	ErrUnclear = errors.New("the request was sent, and its outcome is unclear")
	// ErrNotAllowed is the cause of ErrNotSent if the function of RequestWhen returned false.
	ErrNotAllowed = errors.New("the request was not allowed any more")

	// ErrTimeout is the cause if the response did not arrive in time.
	ErrTimeout = errors.New("no response in time")
	// ErrSilent is the cause of the end of a link whose other side did not answer the tests.
	ErrSilent = errors.New("the link is dead: the other side does not answer tests")
	// ErrClosed is the cause of the end of a link that Close ended.
	ErrClosed = errors.New("the link was closed")
	// ErrEnded is the cause of the end of a link that one of its sides ended in the way of the protocol.
	ErrEnded = errors.New("the link was ended")
	// ErrStray is the error of an Event about a response that no Request receives, such as a response after its timeout.
	ErrStray = errors.New("no request waits for the response")
)

// An UnclearError is the error of a request that was sent and not answered. It wraps ErrUnclear and its cause. A response that arrives later is an Event with
// ErrStray and the same sequence number.
type UnclearError struct {
	Sequence uint32
	Cause    error
}

func (e *UnclearError) Error() string { return fmt.Sprintf("%v: %v", ErrUnclear, e.Cause) }

// Unwrap returns the wrapped errors.
func (e *UnclearError) Unwrap() []error { return []error{ErrUnclear, e.Cause} }

// A Protocol tells a Link what it needs to know about PDUs of type P.
type Protocol[P any] interface {
	// Read reads one PDU and its sequence number. Errors other than *Malformed end the link.
	Read(r *bufio.Reader) (sequence uint32, pdu P, err error)
	// Append appends the encoded PDU to dst, or returns an error.
	Append(dst []byte, sequence uint32, pdu P) ([]byte, error)
	IsResponse(pdu P) bool
	// Answers reports whether a response with the sequence number of a request is a response to this request.
	Answers(request, response P) bool
	// Test returns a request that asks whether the link is alive.
	Test() P
	// End returns a request to end the link.
	End() P
	// Automatic returns the response to a request that the Link answers itself, such as a test. The link ends after the response if ends is true.
	Automatic(request P) (response P, ends, isAutomatic bool)
	// Refuse returns the response to a request that is not handled. Without a response to an Overloaded request, the Link waits until it can handle the request.
	Refuse(request P, reason Refusal) (response P, hasResponse bool)
}

// Refusal is the reason why a request of the other side is not handled.
type Refusal int

// These are the reasons.
const (
	Overloaded Refusal = iota // MaxHandled requests are being handled
	Ending                    // the link is being ended
	Unencoded                 // the response of Handle cannot be encoded
)

// Malformed is the error of a PDU that could not be decoded.
type Malformed[P any] struct {
	Sequence   uint32
	IsResponse bool
	Answer     P // to a request, if HasAnswer is true
	HasAnswer  bool
	IsFatal    bool // the next PDU cannot be found: the link ends after the answer
	Err        error
}

func (e *Malformed[P]) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Malformed[P]) Unwrap() error { return e.Err }

// Options are the limits and functions of a Link. All limits except Idle must be above zero.
type Options[P any] struct {
	Window      int           // requests without a response at a time
	MaxHandled  int           // requests of the other side that Handle handles at a time. 1 keeps their order
	Response    time.Duration // to wait for a response
	Write       time.Duration // to wait until the connection accepts octets
	Idle        time.Duration // without a PDU of the other side until the first test; 0: no tests
	Tests       int           // tests without a PDU of the other side until the link ends
	MaxSequence uint32        // the sequence numbers start again at 1 after it

	// Handle answers a request of the other side. It must not be nil. It is called in a goroutine for each request. The context ends with the link. Without a
	// response, the request stays unanswered, or is answered later with Send.
	Handle func(ctx context.Context, request P) (response P, hasResponse bool)
	// Observe is called for each PDU, if it is not nil. It must not block, and must not call the Link.
	Observe func(Event[P])
}

// An Event is a PDU that was queued for sending or received. Err is ErrStray or a *Malformed; the latter has no PDU.
type Event[P any] struct {
	Sent     bool
	Sequence uint32
	PDU      P
	Err      error
}

// A Link is a connection to the other side. Its methods are safe for concurrent use.
//
// One goroutine reads, one writes, and one tests the link. The writer sends all PDUs that were queued during its last write in one write.
type Link[P any] struct {
	conn     net.Conn
	protocol Protocol[P]
	options  Options[P]

	window   chan struct{} // contains one element for each open request, except tests
	handling chan struct{} // contains one element for each request in Handle
	heard    atomic.Int64  // the time of the last PDU of the other side, in nanoseconds since created
	created  time.Time
	ctx      context.Context // of Handle
	cancel   context.CancelFunc
	loops    sync.WaitGroup // the reader, the writer and the tests
	handlers sync.WaitGroup
	draining chan struct{} // closed when no more requests are sent
	failed   chan struct{} // closed when the connection is closed
	done     chan struct{} // closed when all goroutines have stopped

	mu         sync.Mutex
	changed    *sync.Cond // the queue is longer or shorter, finish is set, or the link failed
	queue      []byte     // encoded PDUs that the writer did not take yet
	queued     uint64     // octets that were ever queued
	written    uint64     // octets that the connection ever accepted
	finish     error      // the connection is closed for this cause when the queue is written
	isDraining bool       // draining is closed
	sequence   uint32
	calls      map[uint32]*call[P]
	err        error // not nil when failed is closed
}

// A purpose is the reason for a request of this side.
type purpose int

const (
	ordinary purpose = iota // the request has a slot in the window
	probe                   // is the link alive?
	farewell                // the link ends with the response
)

// A call is an open request.
type call[P any] struct {
	request     P
	purpose     purpose
	sequence    uint32
	end         uint64 // octets that were queued with the request
	isAbandoned bool   // Request has returned
	timer       *time.Timer
	done        chan struct{} // closed when response and err are set
	response    P
	err         error
}

// New returns a Link on a connection, which the Link closes at its end. The caller must call Start, and then Close or End.
func New[P any](conn net.Conn, protocol Protocol[P], options Options[P]) *Link[P] {
	l := &Link[P]{
		conn: conn, protocol: protocol, options: options, created: time.Now(),
		window: make(chan struct{}, options.Window), handling: make(chan struct{}, options.MaxHandled),
		draining: make(chan struct{}), failed: make(chan struct{}), done: make(chan struct{}), calls: map[uint32]*call[P]{},
	}
	l.changed = sync.NewCond(&l.mu)
	l.ctx, l.cancel = context.WithCancel(context.Background()) //nolint:gosec // fail calls it
	return l
}

// Start starts to read, to write and to test the link.
func (l *Link[P]) Start() {
	l.loops.Go(l.read)
	l.loops.Go(l.write)
	if l.options.Idle > 0 {
		l.loops.Go(l.test)
	}
	go l.settle()
}

// Done returns a channel that is closed after the end of the link: no goroutine of the link runs, and all requests have their results.
func (l *Link[P]) Done() <-chan struct{} { return l.done }

// Err returns the cause of the end of the link, or nil before it.
func (l *Link[P]) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Load returns the number of requests that have a slot in the window, and the number of requests of the other side in Handle.
func (l *Link[P]) Load() (open, handled int) { return len(l.window), len(l.handling) }

// Unanswered returns the number of requests in the window that were sent and have no response.
func (l *Link[P]) Unanswered() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, c := range l.calls {
		if c.purpose == ordinary {
			n++
		}
	}
	return n
}

// Ending returns a channel that is closed when the link sends no more requests.
func (l *Link[P]) Ending() <-chan struct{} { return l.draining }

// Request sends a request and returns its response. It waits for a slot in the window. Its errors wrap ErrNotSent or ErrUnclear.
//
// If the context ends after the request was queued, the request keeps its slot in the window until its response or its timeout, so that the other side never has
// more unanswered requests than the window allows.
func (l *Link[P]) Request(ctx context.Context, request P) (P, error) {
	return l.RequestWhen(ctx, request, func() bool { return true })
}

// RequestWhen works like Request, but calls may when the request has its slot in the window. If may returns false, the request is not sent. may can
// wait until Ending.
func (l *Link[P]) RequestWhen(ctx context.Context, request P, may func() bool) (P, error) {
	var none P
	select {
	case l.window <- struct{}{}:
	case <-ctx.Done():
		return none, fmt.Errorf("%w: %w", ErrNotSent, context.Cause(ctx))
	case <-l.draining:
		return none, l.notSent()
	}
	if !may() {
		<-l.window
		return none, fmt.Errorf("%w: %w", ErrNotSent, ErrNotAllowed)
	}
	c, err := l.send(request, ordinary)
	if err != nil {
		<-l.window
		return none, fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	return l.await(ctx, c)
}

func (l *Link[P]) notSent() error {
	cause := l.Err()
	if cause == nil {
		cause = ErrEnded
	}
	return fmt.Errorf("%w: %w", ErrNotSent, cause)
}

// await waits for the response to a request.
func (l *Link[P]) await(ctx context.Context, c *call[P]) (P, error) {
	select {
	case <-c.done:
		return c.response, c.err
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c.isAbandoned = true
	select {
	case <-c.done: // both happened: the response says more
		return c.response, c.err
	default:
		return c.response, &UnclearError{Sequence: c.sequence, Cause: context.Cause(ctx)}
	}
}

// Send sends a response, or a request without a response. It does not wait until it is written.
func (l *Link[P]) Send(sequence uint32, pdu P) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.enqueue(sequence, pdu)
}

// send queues a request. Only ordinary requests are rejected when the link is being ended.
func (l *Link[P]) send(request P, purpose purpose) (*call[P], error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if purpose == ordinary && l.isDraining && l.err == nil {
		return nil, ErrEnded
	}
	c := &call[P]{request: request, purpose: purpose, sequence: l.nextSequence(), done: make(chan struct{})}
	if err := l.enqueue(c.sequence, request); err != nil {
		return nil, err
	}
	c.end = l.queued
	l.calls[c.sequence] = c
	c.timer = time.AfterFunc(l.options.Response, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.conclude(c, c.response, &UnclearError{Sequence: c.sequence, Cause: ErrTimeout})
	})
	return c, nil
}

// nextSequence skips the numbers of open requests. The caller holds mu.
func (l *Link[P]) nextSequence() uint32 {
	for {
		if l.sequence++; l.sequence == 0 || l.sequence > l.options.MaxSequence {
			l.sequence = 1
		}
		if l.calls[l.sequence] == nil {
			return l.sequence
		}
	}
}

// enqueue adds a PDU to the queue. The caller holds mu.
func (l *Link[P]) enqueue(sequence uint32, pdu P) error {
	switch {
	case l.err != nil:
		return l.err
	case l.finish != nil:
		return l.finish
	}
	before := len(l.queue)
	queue, err := l.protocol.Append(l.queue, sequence, pdu)
	if err != nil {
		return err
	}
	l.queue = queue
	l.queued += uint64(len(queue) - before)
	l.changed.Broadcast()
	l.observe(Event[P]{Sent: true, Sequence: sequence, PDU: pdu})
	return nil
}

// conclude ends an open request, and frees its slot in the window. The caller holds mu.
func (l *Link[P]) conclude(c *call[P], response P, err error) {
	if l.calls[c.sequence] != c {
		return
	}
	delete(l.calls, c.sequence)
	c.timer.Stop()
	c.response, c.err = response, err
	close(c.done)
	if c.purpose == ordinary {
		<-l.window
	}
}

// stopRequests rejects further requests. It returns false if they were already rejected. The caller holds mu.
func (l *Link[P]) stopRequests() bool {
	if l.isDraining {
		return false
	}
	l.isDraining = true
	close(l.draining)
	return true
}

func (l *Link[P]) observe(e Event[P]) {
	if l.options.Observe != nil {
		l.options.Observe(e)
	}
}
