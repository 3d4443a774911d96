// Package simulated contains what the simulated carriers of all protocols have in common: they accept clients, answer messages, and send receipts and messages of
// people.
package simulated

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"lksms/internal/platform/pdulink"
)

// Options describes how a Server behaves. Its zero value accepts every message.
type Options struct {
	Account, Secret string                 // that a client needs; empty: the protocol decides
	Answer          func(m Message) Answer // called for each message in order of arrival; nil: accepts all
	TLS             *tls.Config            // nil: connections are not encrypted
	Window          int                    // requests that are handled at the same time; 0: 1000
	Forgets         bool                   // Seen returns nothing, so that the server can run for a long time

	// Receipted is called when a receipt needs no further attempt: a client accepted it, or none did for a long time. Close ends receipts without a call. nil: none.
	Receipted func(m Message, r Receipt, isAccepted bool)
}

// Message is a message that a client submitted, or a part of one.
type Message struct {
	Nth      int    // number of the message at the server, from 1
	Account  string // of the client
	From, To string
	Text     string // of this part
	Body     any    // the request of the protocol
}

// Answer is the reaction to a message.
type Answer struct {
	Status   uint32 // 0: accepted
	ID       string // empty: the number of the message
	Delay    time.Duration
	Cut      bool      // the connection is cut without an answer
	Silent   bool      // no answer
	Receipts []Receipt // after the answer, in this order
}

// Receipt is a receipt that follows a message.
type Receipt struct {
	ID    string // empty: the id of the answer
	Stat  string // for example DELIVRD
	Err   string // the number of an error, if the protocol has such a field
	After time.Duration
	Early bool // before the answer
}

// Delivered is the Stat of a message that a phone has received.
const Delivered = "DELIVRD"

// Protocol is what the server of a protocol does in its own way. P is the type of its PDUs.
type Protocol[P any] interface {
	// Serve serves a client until its connection ends.
	Serve(c *Client[P])
	// Receipt returns a request with a receipt.
	Receipt(m Message, r Receipt) P
	// Parts returns the requests with a message of a person.
	Parts(from, to, text string, reference uint16) ([]P, error)
	// IsAccepted reports whether the client accepted one of these requests.
	IsAccepted(response P) bool
}

// Server is a simulated carrier. Close ends it.
type Server[P any] struct {
	listener net.Listener
	protocol Protocol[P]
	options  Options
	running  sync.WaitGroup
	ctx      context.Context //nolint:containedctx // ends the receipts that wait
	stop     context.CancelFunc

	mu      sync.Mutex
	bound   []*Client[P]
	seen    []Message
	nth     int // number of the last message
	accepts int
}

// Client is a connection of a client.
type Client[P any] struct {
	Conn net.Conn

	server   *Server[P]
	session  *pdulink.Link[P] // nil before Bind. Guarded by server.mu, like the following
	account  string
	sends    bool
	receives bool
}

// Listen starts a server on an address, for example 127.0.0.1:0.
func Listen[P any](address string, protocol Protocol[P], o Options) (*Server[P], error) {
	listener, err := net.Listen("tcp", address) //nolint:noctx // Close ends it
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	if o.TLS != nil {
		listener = tls.NewListener(listener, o.TLS)
	}
	s := &Server[P]{listener: listener, protocol: protocol, options: o}
	s.ctx, s.stop = context.WithCancel(context.Background()) //nolint:gosec // Close calls it
	s.running.Go(s.accept)
	return s, nil
}

// Addr returns the address of the server.
func (s *Server[P]) Addr() string { return s.listener.Addr().String() }

// Port returns the port of the server.
func (s *Server[P]) Port() int { return s.listener.Addr().(*net.TCPAddr).Port } //nolint:forcetypeassert // it listens on TCP

// Close cuts all connections and ends the server.
func (s *Server[P]) Close() error {
	s.stop()
	err := s.listener.Close()
	s.Cut()
	s.running.Wait()
	return err
}

// Cut cuts all connections.
func (s *Server[P]) Cut() {
	s.mu.Lock()
	all := slices.Clone(s.bound)
	s.mu.Unlock()
	for _, c := range all {
		_ = c.Conn.Close() // the session notices it
	}
}

// Seen returns the messages in the order of their arrival.
func (s *Server[P]) Seen() []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

// Binds returns the number of accepted binds, and of sessions that are open now.
func (s *Server[P]) Binds() (accepted, open int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.accepts, len(s.bound)
}

func (s *Server[P]) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.running.Go(func() {
			c := &Client[P]{Conn: conn, server: s}
			s.protocol.Serve(c)
			_ = conn.Close()
			s.mu.Lock()
			defer s.mu.Unlock()
			s.bound = slices.DeleteFunc(s.bound, func(other *Client[P]) bool { return other == c })
		})
	}
}

// Bind accepts the client. It sends messages to the server, receives messages, or both.
func (c *Client[P]) Bind(session *pdulink.Link[P], account string, sends, receives bool) {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	c.session, c.account, c.sends, c.receives = session, account, sends, receives
	c.server.bound = append(c.server.bound, c)
	c.server.accepts++
}

// Sends reports whether the client was accepted and sends messages.
func (c *Client[P]) Sends() bool {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	return c.sends
}

// Submit receives a message. It returns the answer, and whether the server sends it.
func (c *Client[P]) Submit(ctx context.Context, m Message) (a Answer, isSent bool) {
	s := c.server
	s.mu.Lock()
	s.nth++
	m.Nth, m.Account = s.nth, cmp.Or(m.Account, c.account)
	if !s.options.Forgets {
		s.seen = append(s.seen, m)
	}
	if s.options.Answer != nil {
		a = s.options.Answer(m)
	}
	s.mu.Unlock()
	a.ID = cmp.Or(a.ID, strconv.Itoa(m.Nth))
	if a.Delay > 0 {
		select {
		case <-ctx.Done():
		case <-time.After(a.Delay):
		}
	}
	var late []Receipt
	for _, r := range a.Receipts {
		if r.ID = cmp.Or(r.ID, a.ID); !r.Early {
			late = append(late, r)
			continue
		}
		s.deliverReceipt(m, r)
	}
	if len(late) > 0 {
		s.running.Go(func() {
			for _, r := range late {
				select {
				case <-s.ctx.Done():
					return
				case <-time.After(r.After):
				}
				s.deliverReceipt(m, r)
			}
		})
	}
	if a.Cut {
		_ = c.Conn.Close() // the session notices it
	}
	return a, !a.Cut && !a.Silent
}

// deliverReceipt sends a receipt. If no client accepts it, it is lost.
func (s *Server[P]) deliverReceipt(m Message, r Receipt) {
	err := s.deliver(s.protocol.Receipt(m, r))
	if s.options.Receipted != nil && s.ctx.Err() == nil {
		s.options.Receipted(m, r, err == nil)
	}
}

// repeats is how often a receipt or a message is sent until a client accepts it.
const repeats = 100

// errNoClient is the error of a message that no client accepted.
var errNoClient = errors.New("no client accepted the message")

// deliver sends a request to a client that receives, again until one accepts it.
func (s *Server[P]) deliver(request P) error {
	for range repeats {
		if session := s.receiver(); session != nil {
			response, err := session.Request(s.ctx, request)
			if err == nil && s.protocol.IsAccepted(response) {
				return nil
			}
		}
		select {
		case <-s.ctx.Done():
			return errNoClient
		case <-time.After(100 * time.Millisecond):
		}
	}
	return errNoClient
}

func (s *Server[P]) receiver() *pdulink.Link[P] {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.bound {
		if c.receives {
			return c.session
		}
	}
	return nil
}

// Deliver sends a message of a person, in several parts if it is long. It returns when a client has accepted all parts.
func (s *Server[P]) Deliver(from, to, text string) error { return s.DeliverWithout(from, to, text, -1) }

// DeliverWithout works like Deliver, but does not send the part with an index.
func (s *Server[P]) DeliverWithout(from, to, text string, without int) error {
	s.mu.Lock()
	reference := uint16(s.nth + len(text))
	s.mu.Unlock()
	parts, err := s.protocol.Parts(from, to, text, reference)
	if err != nil {
		return err
	}
	for i, part := range parts {
		if i == without {
			continue
		}
		if err := s.deliver(part); err != nil {
			return err
		}
	}
	return nil
}
