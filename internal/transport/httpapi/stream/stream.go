// Package stream answers requests for as long as their callers read: with server-sent events, while the caller may read them, and with CSV files.
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
	// heartbeat is the longest time without anything on the connection, so that proxies keep it and readers notice when it breaks.
	heartbeat = 15 * time.Second
	// writeLimit is how long a reader may take for an event. A server that stops waits longer.
	writeLimit = 3 * time.Second
	// ofUser is how many streams one user has.
	ofUser = 20
)

// Streams are the streams of a server.
type Streams struct {
	most, ofCompany int
	heartbeat       time.Duration // see the constant

	mu        sync.Mutex
	count     int
	users     map[string]int
	companies map[string]int

	stopping chan struct{}
	stop     sync.Once
}

// New returns Streams that allows most at once, half of them to one company.
func New(most int) *Streams {
	return &Streams{most: most, ofCompany: max(1, most/2), heartbeat: heartbeat, users: map[string]int{}, companies: map[string]int{}, stopping: make(chan struct{})}
}

// Stop makes all streams say goodbye and end, which takes them writeLimit at the longest.
func (s *Streams) Stop() { s.stop.Do(func() { close(s.stopping) }) }

// errTooMany is the fault for a caller that has too many streams, or of which others have too many.
var errTooMany = &fault.Error{Kind: fault.TooMany, Reason: fault.RequestTooMuch, RetryAfter: 30 * time.Second}

// Open counts a stream of a user and its company until leave is called. Fault: request.too_much.
func (s *Streams) Open(username, company string) (leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count >= s.most || s.users[username] >= ofUser || s.companies[company] >= s.ofCompany {
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

// Source is what a stream sends.
type Source struct {
	Event string
	Every time.Duration
	// Next returns the data of the event, one line of JSON. An event is not sent if what is the same as of the event before.
	Next func(context.Context) (data, what []byte, err error)
	// MayRead is called before each event. A fault ends the stream; after any other error the event is left out.
	MayRead func() error
	Limit   *time.Duration // ends the stream; nil: none
	// IsPlain: the reader knows only its own events. Comments keep the connection, and the stream ends without a goodbye.
	IsPlain bool
}

// The reasons with which a server ends a stream.
const (
	byeShutdown = "shutdown"
	byeAccess   = "access"
	byeOver     = "over"
)

// Serve sends the events of a source until the caller goes, the server stops, or the caller may not read any more.
func (s *Streams) Serve(ctx context.Context, w http.ResponseWriter, from Source) error {
	out := writer{ResponseWriter: w, connection: http.NewResponseController(w)}
	// A connection without deadlines could be held for ever.
	if err := out.connection.SetWriteDeadline(time.Now().Add(writeLimit)); err != nil {
		return fmt.Errorf("prepare stream: %w", err)
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx would collect events
	w.WriteHeader(http.StatusOK)
	bye, err := s.serve(ctx, &out, from)
	if err == nil && bye != "" && !from.IsPlain {
		err = out.send("event: bye\ndata: {\"reason\":\"" + bye + "\"}\n\n")
	}
	return err
}

// serve returns why the server ends the stream; empty: the caller has gone.
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
		case <-s.stopping: // also if the stream is over
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

// isFinal reports whether an error says that the caller may not read any more. While the database is out of reach, nobody knows.
func isFinal(err error) bool {
	var expected *fault.Error
	return errors.As(err, &expected) && expected.Kind != fault.Unavailable && expected.Kind != fault.Internal
}

// writer writes to one stream.
type writer struct {
	http.ResponseWriter
	connection *http.ResponseController
	last       time.Time // when something was sent
	latest     []byte    // what was sent
}

// event sends the next event if it has changed, and reports whether it could be read.
func (w *writer) event(ctx context.Context, from Source) (isCurrent bool, err error) {
	data, what, err := from.Next(ctx)
	if err != nil {
		return false, nil //nolint:nilerr // the next try may succeed; meanwhile there is nothing to send
	}
	if bytes.Equal(what, w.latest) {
		return true, nil
	}
	w.latest = what
	return true, w.send("event: " + from.Event + "\ndata: " + string(data) + "\n\n")
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
