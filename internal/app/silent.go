package app

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// silentGrace is how long a stopping server waits for the first byte of a connection that has sent none.
const silentGrace = 300 * time.Millisecond

// silentConns are the connections on which no request has come yet. Clients open them in advance, and http.Server would
// wait five seconds for each when it stops.
type silentConns struct {
	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

func trackSilent(server *http.Server) *silentConns {
	s := &silentConns{conns: map[net.Conn]struct{}{}}
	server.ConnState = func(conn net.Conn, state http.ConnState) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if state == http.StateNew {
			s.conns[conn] = struct{}{}
		} else {
			delete(s.conns, conn)
		}
	}
	return s
}

func (s *silentConns) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for conn := range s.conns {
		_ = conn.Close() // nothing was asked on it
	}
}
