// Package proxy forwards connections to PostgreSQL, follows their transactions, and breaks them on request.
package proxy

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Point is a moment of a transaction at which a fault can be injected.
type Point int

// These are the points of a transaction.
const (
	AtStatement          Point = iota // the server sends a statement
	AtCommit                          // the server sends COMMIT
	AtCommitReply                     // PostgreSQL has committed and sends the reply
	PointsOfATransaction = iota
)

func (p Point) String() string {
	return [...]string{"at a statement", "before COMMIT", "at the reply to COMMIT"}[p]
}

// Gate calls Strike once, at the first message of its point. Strike returns whether to forward the message.
type Gate struct {
	Point  Point
	Strike func() (pass bool)
}

// Proxy forwards the connections between one server and PostgreSQL, and parses their messages.
type Proxy struct {
	listener net.Listener
	upstream string // path of PostgreSQL's socket
	Aim      atomic.Pointer[Aim]

	mu      sync.Mutex
	links   map[*Link]struct{}
	gate    *Gate
	stalled chan struct{} // closed when the stall ends; nil: no stall
	done    sync.WaitGroup
}

// Start starts a proxy to a socket of PostgreSQL.
func Start(upstream string) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start proxy: %w", err)
	}
	p := &Proxy{listener: listener, upstream: upstream, links: map[*Link]struct{}{}}
	p.done.Go(p.accept)
	return p, nil
}

// Address returns the address at which the proxy listens.
func (p *Proxy) Address() string { return p.listener.Addr().String() }

// Stop closes the proxy and its connections.
func (p *Proxy) Stop() {
	p.Resume()
	_ = p.listener.Close() // the close ends the accept loop
	p.Reset()
	p.done.Wait()
}

// Stall holds back every byte, also on new connections, until Resume.
func (p *Proxy) Stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stalled == nil {
		p.stalled = make(chan struct{})
	}
}

// Resume ends a stall.
func (p *Proxy) Resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stalled != nil {
		close(p.stalled)
		p.stalled = nil
	}
}

// Reset breaks every connection and returns their number.
func (p *Proxy) Reset() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.cut()
	}
	return len(p.links)
}

// Arm sets the gate. The next message at the point of the gate triggers it. Disarm removes the gate.
func (p *Proxy) Arm(g *Gate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gate = g
}

// Disarm removes the gate.
func (p *Proxy) Disarm() { p.Arm(nil) }

// takeGate removes and returns the gate if the gate is for this point. Otherwise it returns nil.
func (p *Proxy) takeGate(at Point) *Gate {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gate == nil || p.gate.Point != at {
		return nil
	}
	g := p.gate
	p.gate = nil
	return g
}

func (p *Proxy) waitWhileStalled() {
	p.mu.Lock()
	stalled := p.stalled
	p.mu.Unlock()
	if stalled != nil {
		<-stalled
	}
}

func (p *Proxy) accept() {
	for {
		server, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.done.Go(func() { p.serve(server) })
	}
}

func (p *Proxy) serve(server net.Conn) {
	postgres, err := net.DialTimeout("unix", p.upstream, 5*time.Second)
	if err != nil {
		_ = server.Close() // for the server, this has the same effect as a refused connection
		return
	}
	l := &Link{Proxy: p, server: server, postgres: postgres, Over: make(chan struct{})}
	defer close(l.Over)
	p.mu.Lock()
	p.links[l] = struct{}{}
	p.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { defer l.cut(); l.relay(server, postgres, true, l.watchRequest) })
	both.Go(func() { defer l.cut(); l.relay(postgres, server, false, l.watchReply) })
	both.Wait()
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

// Link is one connection of a server to PostgreSQL.
type Link struct {
	Proxy            *Proxy
	server, postgres net.Conn
	committed        bool // the last completed command has changed data; used by watchReply only
	trace            trace
	Over             chan struct{} // closed when both sides are closed
}

// cut closes both sides of the connection. The server gets a TCP reset.
func (l *Link) cut() {
	if tcp, ok := l.server.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // makes Close send a reset; an error means that the connection is already closed
	}
	_ = l.server.Close()
	_ = l.postgres.Close()
}

// relay forwards messages until one side closes or a gate stops the connection. opening is true if the first message has no type byte, as the first message of
// a client.
func (l *Link) relay(from io.Reader, to io.Writer, opening bool, watch func(kind byte, message []byte) (pass bool)) {
	in, out := bufio.NewReaderSize(from, 64<<10), bufio.NewWriterSize(to, 64<<10)
	for {
		kind, message, err := readMessage(in, opening)
		if err != nil {
			return
		}
		opening = false
		// All messages before the message that triggers a gate have already been forwarded.
		l.Proxy.waitWhileStalled()
		if !watch(kind, message) {
			return
		}
		if _, err := out.Write(message); err != nil {
			return
		}
		if in.Buffered() == 0 && out.Flush() != nil {
			return
		}
	}
}

// readMessage reads one message of the PostgreSQL protocol, including its header.
func readMessage(in *bufio.Reader, opening bool) (kind byte, message []byte, err error) {
	head := 5
	if opening {
		head = 4
	}
	if message, err = in.Peek(head); err != nil {
		return 0, nil, err
	}
	if !opening {
		kind = message[0]
	}
	length := int(binary.BigEndian.Uint32(message[head-4:])) + head - 4
	if length < head || length > 1<<28 {
		return 0, nil, fmt.Errorf("invalid length of a message: %d bytes", length)
	}
	message = make([]byte, length)
	_, err = io.ReadFull(in, message)
	return kind, message, err
}

// watchRequest observes a message of the server. It returns false if the message must not be forwarded.
func (l *Link) watchRequest(kind byte, message []byte) bool {
	if !l.request(kind, message) {
		return false
	}
	switch {
	case kind == 'E': // Execute
		return l.meet(AtStatement)
	case kind == 'Q' && bytes.EqualFold(bytes.TrimRight(message[5:], "\x00"), []byte("commit")):
		return l.meet(AtCommit)
	}
	return true
}

// watchReply observes a message of PostgreSQL. It returns false if the message must not be forwarded. A statement outside a transaction counts as committed
// when PostgreSQL is ready for the next statement.
func (l *Link) watchReply(kind byte, message []byte) bool {
	if !l.reply(kind, message) {
		return false
	}
	switch kind {
	case 'C': // CommandComplete
		tag := message[5:]
		l.committed = bytes.HasPrefix(tag, []byte("COMMIT")) || bytes.HasPrefix(tag, []byte("INSERT"))
	case 'Z': // ReadyForQuery
		if idle := message[5] == 'I'; idle && l.committed {
			l.committed = false
			return l.meet(AtCommitReply)
		}
	}
	return true
}

// meet triggers the gate of a point if a gate is armed.
func (l *Link) meet(at Point) (pass bool) {
	if g := l.Proxy.takeGate(at); g != nil {
		return g.Strike()
	}
	return true
}
