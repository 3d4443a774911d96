// Package smppserver accepts messages over SMPP 3.4: programs bind as users, submit messages, and get their receipts and the messages of people.
// docs/integrations.md#smpp lists what is supported.
package smppserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	proxyproto "github.com/pires/go-proxyproto"
	"github.com/prometheus/client_golang/prometheus"

	"lksms/gen/smppserverq"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/dispatch/queue/task"
	"lksms/internal/events/feed"
	"lksms/internal/platform/access"
	"lksms/internal/platform/outbound"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/servers"
	"lksms/internal/platform/smpp"
	"lksms/internal/platform/sweep"
	"lksms/internal/transport/httpapi/gate/capacity"
)

// Services contains the services that a Server uses.
type Services struct {
	Access      *access.Service
	Submissions *submit.Service
	Tasks       *task.Service
	Feed        *feed.Service
}

// Options configures a Server.
type Options struct {
	Listen    string      // address without TLS; empty: none
	ListenTLS string      // address with TLS; empty: none
	TLS       *tls.Config // of ListenTLS

	BindsPerUser   int // maximum number of binds of a user on this server
	Window         int // maximum number of concurrent requests from a bind, and of unanswered requests to a bind
	PerSecond      int // maximum number of messages of a user per second on this server; 0: no limit
	MaxBinds       int // maximum number of binds on this server
	HasShortIDs    bool
	Alphabet       smpp.Alphabet // of data_coding 0
	TrustedProxies []netip.Prefix

	Pace    *capacity.Pace // delays rejections
	Log     *slog.Logger
	Metrics prometheus.Registerer
}

// Server accepts connections of programs.
type Server struct {
	services Services
	options  Options
	style    smpp.TextStyle
	db       *postgres.DB
	q        *smppserverq.Queries
	metrics  metrics

	ctx       context.Context //nolint:containedctx // ends the work for users that are bound
	stop      context.CancelFunc
	listeners []net.Listener
	running   sync.WaitGroup // goroutines of listeners and connections
	isEnding  atomic.Bool

	mu        sync.Mutex
	strangers map[*bind]struct{} // connections without a bind
	users     map[userKey]*user  // users that are bound
	binds     int                // number of binds of all users
}

// userKey identifies a user and the company for which the user submits.
type userKey struct {
	companyID int64
	username  string
}

// New returns a Server. Call Start to accept connections.
func New(db *postgres.DB, services Services, o Options) *Server {
	s := &Server{
		services: services, options: o, style: smpp.TextStyle{Default: o.Alphabet}, db: db, q: smppserverq.New(db),
		strangers: map[*bind]struct{}{}, users: map[userKey]*user{},
	}
	s.metrics = newMetrics(o.Metrics, s)
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// Sweeps returns the periodic jobs of the server.
func (s *Server) Sweeps() []sweep.Job {
	return []sweep.Job{
		{Roles: servers.Roles{servers.Sweep}, Name: "end-smpp-messages", Interval: 30 * time.Second, Run: s.EndIncomplete},
		{Roles: servers.Roles{servers.Sweep}, Name: "delete-expired-smpp", Interval: time.Hour, Run: s.DeleteExpired},
	}
}

// headerLimit is how long a connection from a trusted proxy waits for the header with the address of the client.
const headerLimit = 5 * time.Second

// Start listens on the addresses of the options, if there are any, and accepts connections until Stop.
func (s *Server) Start() error {
	for _, one := range []struct {
		address string
		tls     *tls.Config
	}{{s.options.Listen, nil}, {s.options.ListenTLS, s.options.TLS}} {
		if one.address == "" {
			continue
		}
		listener, err := net.Listen("tcp", one.address) //nolint:noctx // Stop ends it
		if err != nil {
			return errors.Join(fmt.Errorf("listen for SMPP: %w", err), s.closeListeners())
		}
		listener = &proxyproto.Listener{Listener: listener, ReadHeaderTimeout: headerLimit, ConnPolicy: s.proxyPolicy}
		if one.tls != nil {
			listener = tls.NewListener(listener, one.tls)
		}
		s.listeners = append(s.listeners, listener)
	}
	for _, listener := range s.listeners {
		s.options.Log.Info("listening for SMPP", "address", listener.Addr().String())
		s.running.Go(func() { s.accept(listener) })
	}
	return nil
}

// Addresses returns the addresses on which the server listens.
func (s *Server) Addresses() []string {
	all := make([]string, len(s.listeners))
	for i, listener := range s.listeners {
		all[i] = listener.Addr().String()
	}
	return all
}

// proxyPolicy accepts the header of the PROXY protocol from trusted proxies only: another program could send any address in it.
func (s *Server) proxyPolicy(o proxyproto.ConnPolicyOptions) (proxyproto.Policy, error) {
	peer, err := netip.ParseAddrPort(o.Upstream.String())
	if err != nil || !outbound.Contains(s.options.TrustedProxies, peer.Addr()) { // an address that is no IP address is no proxy
		return proxyproto.SKIP, nil //nolint:nilerr // see above
	}
	return proxyproto.USE, nil
}

// acceptPause is the pause after an error of Accept, for example because no file descriptor is free.
const acceptPause = 50 * time.Millisecond

func (s *Server) accept(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		switch {
		case err == nil:
			s.running.Go(func() { s.serve(conn) })
		case s.isEnding.Load():
			return
		default:
			s.options.Log.Warn("an SMPP connection could not be accepted", "error", err)
			select {
			case <-s.ctx.Done():
				return
			case <-time.After(acceptPause):
			}
		}
	}
}

func (s *Server) closeListeners() error {
	var failure error
	for _, listener := range s.listeners {
		failure = errors.Join(failure, listener.Close())
	}
	s.listeners = nil
	return failure
}

// Stop stops accepting connections, and ends all binds: it waits for the requests in progress, and sends unbind. It returns when all goroutines have ended, or
// shortly after the end of ctx.
func (s *Server) Stop(ctx context.Context) {
	s.isEnding.Store(true)
	s.stop()
	if err := s.closeListeners(); err != nil {
		s.options.Log.WarnContext(ctx, "an SMPP listener could not be closed", "error", err)
	}
	var ending sync.WaitGroup
	for _, b := range s.connections() {
		ending.Go(func() {
			if session := s.sessionOf(b); session != nil {
				_ = session.End(ctx) // the connection ends in any case
				return
			}
			_ = b.conn.Close() // serve notices it
		})
	}
	ending.Wait()
	s.running.Wait()
}

func (s *Server) sessionOf(b *bind) *smpp.Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return b.session
}

// connections returns all connections.
func (s *Server) connections() []*bind {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*bind
	for b := range s.strangers {
		all = append(all, b)
	}
	for _, u := range s.users {
		all = append(all, u.binds...)
	}
	return all
}
