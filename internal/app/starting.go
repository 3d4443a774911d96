package app

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"lksms/internal/config"
	"lksms/internal/httpapi/gate"
)

// Starting answers requests before there is an App: while PostgreSQL starts, and while migrations run. A listener without answers would let proxies and
// callers wait for nothing.
type Starting struct {
	server   *http.Server
	listener *lent
	handler  atomic.Pointer[http.Handler]
	served   chan struct{}
}

// Start begins to answer on a listener, which the caller gets back with HandOver or Close.
func Start(cfg *config.Server, listener net.Listener, log *slog.Logger) (*Starting, error) {
	deadline, ok := listener.(interface{ SetDeadline(time.Time) error })
	if !ok {
		return nil, fmt.Errorf("start on %T: it has no deadline", listener)
	}
	o, err := edgeOf(cfg, log)
	if err != nil {
		return nil, err
	}
	s := &Starting{listener: &lent{Listener: listener, deadline: deadline.SetDeadline}, served: make(chan struct{})}
	handler := gate.Starting(o.TLS != nil)
	s.handler.Store(&handler)
	var bounded *connections
	s.server, bounded = newServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*s.handler.Load()).ServeHTTP(w, r) }), s.listener, o)
	s.server.SetKeepAlivesEnabled(false) // the next request comes to the App
	go func() {
		defer close(s.served)
		_ = serve(s.server, bounded) // ends with Shutdown
	}()
	return s, nil
}

// HandOver gives the listener back. Requests that come later, on connections that were accepted, are answered by a handler.
func (s *Starting) HandOver(handler http.Handler) error {
	s.handler.Store(&handler)
	return s.stop()
}

// Close gives the listener back. It may be called after HandOver.
func (s *Starting) Close() { _ = s.stop() }

func (s *Starting) stop() error {
	go func() { _ = s.server.Shutdown(context.Background()) }() // each connection ends after its request, or without one after 5 seconds
	<-s.served
	return s.listener.deadline(time.Time{})
}

// lent is a listener that belongs to another: Close ends Accept, and no more.
type lent struct {
	net.Listener
	deadline func(time.Time) error
}

// Close implements net.Listener.
func (l *lent) Close() error { return l.deadline(time.Unix(1, 0)) }
