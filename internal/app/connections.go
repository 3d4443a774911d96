package app

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"lksms/internal/platform/outbound"
	"lksms/internal/transport/httpapi/gate"
)

const (
	// silentGrace is how long a stopping server waits for the first byte on a connection without a request.
	silentGrace = 300 * time.Millisecond
	// maxSpare is the maximum number of connections that are accepted beyond the limits, for health, readiness, metrics and the documentation.
	maxSpare = 32
)

// connections limits the open connections, in total and per address. At a limit, a new connection replaces the connection that has been idle longest. If no
// connection is idle, the new connection is spare: on a spare connection, all operations except health and readiness get 503.
type connections struct {
	net.Listener
	limit      int            // maximum in total; 0: no limit
	perAddress int            // maximum per address
	exempt     []netip.Prefix // proxies, which carry the connections of many clients
	mu         sync.Mutex
	open       map[net.Conn]*connection
	regular    int            // number of connections that are not spare
	from       map[string]int // number of regular connections, by address
	spare      []net.Conn     // oldest first
}

type connection struct {
	address string
	isSpare bool
	state   http.ConnState
	since   time.Time // start of the current state
}

func newConnections(listener net.Listener, limit, perAddress int, exempt []netip.Prefix) *connections {
	return &connections{Listener: listener, limit: limit, perAddress: perAddress, exempt: exempt, open: map[net.Conn]*connection{}, from: map[string]int{}}
}

// attach makes a server report the states of its connections, and mark the requests on spare connections.
func (c *connections) attach(server *http.Server) {
	server.ConnState = c.changed
	server.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		c.mu.Lock()
		defer c.mu.Unlock()
		if one := c.open[withoutTLS(conn)]; one != nil && one.isSpare {
			return gate.Busy(ctx)
		}
		return ctx
	}
}

// withoutTLS returns the connection that Accept returned, without TLS.
func withoutTLS(conn net.Conn) net.Conn {
	if secured, ok := conn.(*tls.Conn); ok {
		return secured.NetConn()
	}
	return conn
}

// Accept implements net.Listener.
func (c *connections) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.admit(conn)
	}
	return conn, err
}

func (c *connections) admit(conn net.Conn) {
	one := &connection{address: c.addressOf(conn), state: http.StateNew, since: time.Now()}
	c.mu.Lock()
	defer c.mu.Unlock()
	one.isSpare = !c.hasCapacity(one.address)
	c.open[conn] = one
	if !one.isSpare {
		c.regular++
		c.from[one.address]++
		return
	}
	if len(c.spare) >= maxSpare {
		c.end(c.oldestSpare())
	}
	c.spare = append(c.spare, conn)
}

// oldestSpare returns the oldest spare connection of the address with the most spare connections. So a client that connects in a loop loses its own
// connections, and not those of other clients.
func (c *connections) oldestSpare() net.Conn {
	count := map[string]int{}
	for _, conn := range c.spare {
		count[c.open[conn].address]++
	}
	most := c.spare[0]
	for _, conn := range c.spare {
		if count[c.open[conn].address] > count[c.open[most].address] {
			most = conn
		}
	}
	return most
}

// hasCapacity reports whether a connection from an address can be regular. If necessary, hasCapacity closes an idle connection.
func (c *connections) hasCapacity(address string) bool {
	switch {
	case c.limit == 0:
		return true
	case address != "" && c.from[address] >= c.perAddress:
		return c.endIdle(address)
	case c.regular >= c.limit:
		return c.endIdle("")
	default:
		return true
	}
}

// endIdle closes the connection that has been idle longest. It returns false if no connection is idle. If address is not empty, only connections of this
// address count.
func (c *connections) endIdle(address string) bool {
	var longest net.Conn
	for conn, one := range c.open {
		if one.state == http.StateIdle && !one.isSpare && (address == "" || one.address == address) &&
			(longest == nil || one.since.Before(c.open[longest].since)) {
			longest = conn
		}
	}
	if longest == nil {
		return false
	}
	c.end(longest)
	return true
}

// end closes a connection and removes it from all counts.
func (c *connections) end(conn net.Conn) {
	c.remove(conn)
	_ = conn.Close() // the server notices this at its next read
}

func (c *connections) remove(conn net.Conn) {
	one := c.open[conn]
	if one == nil {
		return
	}
	delete(c.open, conn)
	if one.isSpare {
		c.spare = slices.DeleteFunc(c.spare, func(s net.Conn) bool { return s == conn })
		return
	}
	c.regular--
	if c.from[one.address]--; c.from[one.address] == 0 {
		delete(c.from, one.address)
	}
}

// addressOf returns the network for which a connection is counted. If it returns "", the connection counts only in total.
func (c *connections) addressOf(conn net.Conn) string {
	peer, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil {
		return ""
	}
	if outbound.Contains(c.exempt, peer.Addr()) {
		return ""
	}
	return outbound.NetworkOf(peer.Addr().Unmap().WithZone("").String())
}

func (c *connections) changed(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	conn = withoutTLS(conn)
	if state == http.StateClosed || state == http.StateHijacked {
		c.remove(conn)
		return
	}
	if one := c.open[conn]; one != nil {
		one.state, one.since = state, time.Now()
	}
}

// closeSilent closes the connections on which no request has arrived yet. Clients open such connections in advance. Without closeSilent, http.Server would
// wait five seconds for each of these connections when it stops.
func (c *connections) closeSilent() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn, one := range c.open {
		if one.state == http.StateNew {
			_ = conn.Close() // no request came on this connection
		}
	}
}
