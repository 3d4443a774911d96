package app

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"lksms/internal/platform/config"
	"lksms/internal/transport/httpapi/gate"
)

// Starting answers requests before an App exists: while PostgreSQL starts, and while migrations run. Without responses, proxies and callers would wait until
// their timeouts.
type Starting struct {
	server   *http.Server
	listener *lent
	handler  atomic.Pointer[http.Handler]
	served   chan struct{}
	once     sync.Once
}

// Start starts to answer on a listener. HandOver or Close returns the listener to the caller.
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
	s.server.SetKeepAlivesEnabled(false) // so that the next request comes to the App
	go func() {
		defer close(s.served)
		_ = serve(s.server, bounded) // ends when the listener is returned
	}()
	return s, nil
}

// HandOver returns the listener to the caller. The handler answers later requests on connections that were already accepted.
func (s *Starting) HandOver(handler http.Handler) error {
	s.handler.Store(&handler)
	return s.stop()
}

// Close returns the listener to the caller. Close can be called after HandOver.
func (s *Starting) Close() { _ = s.stop() }

// stop ends the server without Shutdown, because Shutdown would close connections that were just accepted. Each connection closes after its request, or after
// five seconds without a request (ReadHeaderTimeout).
func (s *Starting) stop() (err error) {
	s.once.Do(func() {
		s.listener.isBack.Store(true)
		_ = s.listener.Close()
		<-s.served
		err = s.listener.deadline(time.Time{})
	})
	return err
}

// lent is a listener that belongs to the caller. Close ends Accept, but does not close the listener.
type lent struct {
	net.Listener
	deadline func(time.Time) error
	isBack   atomic.Bool
}

// errBack makes Serve return. After the error of a deadline, Serve would call Accept again.
var errBack = errors.New("the listener was given back")

// Accept implements net.Listener.
func (l *lent) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil && l.isBack.Load() {
		return nil, errBack
	}
	return conn, err
}

// Close implements net.Listener.
func (l *lent) Close() error { return l.deadline(time.Unix(1, 0)) }
