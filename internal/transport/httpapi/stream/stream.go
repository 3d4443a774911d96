// Package stream writes responses that last as long as their clients read: server-sent events, until the caller loses its permission, and CSV files.
package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"lksms/internal/platform/fault"
)

const (
	// heartbeat is the maximum time without data on the connection, so that proxies keep it open and clients detect a broken connection.
	heartbeat = 15 * time.Second
	// writeLimit is the maximum time in which a client must read one event. The shutdown timeout of the server is longer.
	writeLimit = 3 * time.Second
	// ofUser is the maximum number of streams of one user.
	ofUser = 20
)

// Streams counts and ends the streams of a server.
type Streams struct {
	maxStreams, maxOfCompany int
	heartbeat                time.Duration // normally the constant heartbeat

	mu        sync.Mutex
	count     int
	users     map[string]int
	companies map[string]int

	stopping chan struct{}
	stop     sync.Once
}

// New returns Streams that allows maxStreams streams at a time, and half of them for one company.
func New(maxStreams int) *Streams {
	return &Streams{
		maxStreams: maxStreams, maxOfCompany: max(1, maxStreams/2), heartbeat: heartbeat,
		users: map[string]int{}, companies: map[string]int{}, stopping: make(chan struct{}),
	}
}

// Stop makes all streams send a bye event and end, which takes at most writeLimit.
func (s *Streams) Stop() { s.stop.Do(func() { close(s.stopping) }) }

// errTooMany is the fault for a new stream beyond the limit of the user, the company or the server.
var errTooMany = &fault.Error{Kind: fault.TooMany, Reason: fault.RequestTooMuch, RetryAfter: 30 * time.Second}

// Open counts a stream of a user and its company until leave is called. An empty company means all companies. Fault: request.too_much.
func (s *Streams) Open(username, company string) (leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count >= s.maxStreams || s.users[username] >= ofUser || s.companies[company] >= s.maxOfCompany {
		return nil, errTooMany
	}
	s.count++
	s.users[username]++
	s.companies[company]++
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.count--
		decrement(s.users, username)
		decrement(s.companies, company)
	}), nil
}

func decrement(counts map[string]int, key string) {
	if counts[key]--; counts[key] == 0 {
		delete(counts, key)
	}
}

// Source provides the events of a stream.
type Source struct {
	Event   string
	EventOf func() string // returns the name of the event that Next returned; nil: Event
	Every   time.Duration
	// Next returns the data of the event as one line of JSON. identity identifies the data: an event with the identity of the
	// previous event is skipped.
	Next func(context.Context) (data, identity []byte, err error)
	// MayRead is called before each event. An error that is final (see isFinal) ends the stream. After any other error the event is skipped.
	MayRead func() error
	Limit   *time.Duration // maximum duration of the stream; nil: unlimited
	// IsPlain is true for a client that accepts only its own events: heartbeats are comments, and the stream ends without a bye event.
	IsPlain bool
}

// These are the reasons with which a server ends a stream.
const (
	byeShutdown = "shutdown"
	byeAccess   = "access"
	byeOver     = "over"
)

// Serve sends the events of a source until the client disconnects, the server stops, the time limit ends, or the caller loses its permission.
func (s *Streams) Serve(ctx context.Context, w http.ResponseWriter, from Source) error {
	out := writer{ResponseWriter: w, connection: http.NewResponseController(w)}
	// A connection without write deadlines could be blocked forever.
	if err := out.connection.SetWriteDeadline(time.Now().Add(writeLimit)); err != nil {
		return fmt.Errorf("prepare stream: %w", err)
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // disables buffering of events in nginx
	w.WriteHeader(http.StatusOK)
	bye, err := s.serve(ctx, &out, from)
	if err == nil && bye != "" && !from.IsPlain {
		err = out.send("event: bye\ndata: {\"reason\":\"" + bye + "\"}\n\n")
	}
	return err
}

// serve returns the reason why the server ends the stream; empty if the client disconnected.
func (s *Streams) serve(ctx context.Context, out *writer, from Source) (bye string, err error) {
	over := make(<-chan time.Time)
	if from.Limit != nil {
		over = time.After(*from.Limit)
	}
	tick := time.NewTicker(from.Every)
	defer tick.Stop()
	for {
		err := from.MayRead()
		if isFinal(err) {
			return byeAccess, nil
		}
		isCurrent := err == nil
		if isCurrent {
			if isCurrent, err = out.event(ctx, from); err != nil {
				return "", err
			}
		}
		if time.Since(out.last) >= s.heartbeat {
			ping := fmt.Sprintf("event: ping\ndata: {\"current\":%t}\n\n", isCurrent)
			if from.IsPlain {
				ping = ":\n\n"
			}
			if err := out.send(ping); err != nil {
				return "", err
			}
		}
		select {
		case <-s.stopping: // has priority over the end of the stream
			return byeShutdown, nil
		default:
		}
		select {
		case <-ctx.Done():
			return "", nil
		case <-s.stopping:
			return byeShutdown, nil
		case <-over:
			return byeOver, nil
		case <-tick.C:
		case <-time.After(s.heartbeat - time.Since(out.last)):
		}
	}
}

// isFinal reports whether an error means that the caller has lost its permission. The error of an unreachable database does not mean this.
func isFinal(err error) bool {
	var expected *fault.Error
	return errors.As(err, &expected) && expected.Kind != fault.Unavailable && expected.Kind != fault.Internal
}

// writer writes to one stream.
type writer struct {
	http.ResponseWriter
	connection *http.ResponseController
	last       time.Time // time of the last write
	latest     []byte    // identity that Source.Next returned for the last event
}

// event sends the next event unless it is unchanged. isCurrent reports whether the data could be read.
func (w *writer) event(ctx context.Context, from Source) (isCurrent bool, err error) {
	data, what, err := from.Next(ctx)
	if err != nil {
		return false, nil //nolint:nilerr // the next attempt can succeed
	}
	if bytes.Equal(what, w.latest) {
		return true, nil
	}
	w.latest = what
	name := from.Event
	if from.EventOf != nil {
		name = from.EventOf()
	}
	return true, w.send("event: " + name + "\ndata: " + string(data) + "\n\n")
}

func (w *writer) send(text string) error {
	w.last = time.Now()
	if err := w.connection.SetWriteDeadline(w.last.Add(writeLimit)); err != nil {
		return fmt.Errorf("write to stream: %w", err)
	}
	_, err := w.Write([]byte(text))
	if err == nil {
		err = w.connection.Flush()
	}
	if err != nil {
		return fmt.Errorf("write to stream: %w", err)
	}
	return nil
}
