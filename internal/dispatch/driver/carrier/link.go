package carrier

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"time"

	"lksms/internal/dispatch/driver/provider"
	"lksms/internal/platform/characters"
	"lksms/internal/platform/pdulink"
)

const (
	firstRetry = time.Second // wait after the first failure of a link
	maxRetry   = time.Minute // each further failure doubles the wait, up to this
	steadyFor  = time.Minute // a link that was open for this time, or that carried anything, begins again with firstRetry
	closeLimit = 1500 * time.Millisecond
	maxError   = 500 // characters of LinkState.Error
)

// link is one link to the carrier. It has one session, or a session that sends and another that receives.
type link[P any] struct {
	d         *Driver[P]
	isRunning atomic.Bool
	received  atomic.Int64
	sent      atomic.Int64
	carried   atomic.Int64 // messages that the carrier accepted, and requests of the carrier that were accepted
	trace     trace

	session *pdulink.Link[P]   // the session that sends; nil: the link is not open. Guarded by d.mu
	state   provider.LinkState // guarded by d.mu
}

func (l *link[P]) current() provider.LinkState {
	l.d.mu.Lock()
	defer l.d.mu.Unlock()
	state := l.state
	state.Sent, state.Received = l.sent.Load(), l.received.Load()
	if l.session != nil {
		state.InFlight = l.session.Unanswered()
		if isClosed(l.session.Ending()) {
			state.BoundAt = time.Time{}
		}
	}
	return state
}

// run keeps the link open until ctx ends. It tries the hosts in their order, and waits longer after each failure in a row. In a test of the sender, it tries each host
// once.
func (l *link[P]) run(ctx context.Context) {
	l.isRunning.Store(true)
	defer func() {
		l.isRunning.Store(false)
		l.d.change(0)
	}()
	l.sent.Store(0)
	l.received.Store(0)
	wait, hosts := firstRetry, l.d.settings.hosts
	for nth := 0; ctx.Err() == nil; nth++ {
		began, carried := time.Now(), l.carried.Load()
		err := l.connect(ctx, hosts[nth%len(hosts)])
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > steadyFor || l.carried.Load() > carried {
			wait = firstRetry
		}
		l.fail(err)
		l.d.tools.Log.WarnContext(ctx, "the link to a carrier is not open", "host", hosts[nth%len(hosts)], "error", err)
		if l.d.isTest() && nth+1 == len(hosts) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait/2 + rand.N(wait)): //nolint:gosec // spreads the links
		}
		wait = min(2*wait, maxRetry)
	}
}

func (l *link[P]) fail(err error) {
	l.d.mu.Lock()
	defer l.d.mu.Unlock()
	l.state.Error, l.state.FailedAt = characters.First(l.d.tools.Mask.Replace(err.Error()), maxError), time.Now()
}

// connect opens the link and keeps it open until it fails or ctx ends. It returns the failure.
func (l *link[P]) connect(ctx context.Context, host string) error {
	logins := l.d.protocol.logins(l.d.isTest())
	ended := make(chan struct{}, len(logins))
	var sessions []*pdulink.Link[P]
	defer func() {
		l.setSession(nil)
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeLimit)
		defer cancel()
		for _, s := range sessions {
			_ = s.End(closing) // the session ends in any case
		}
	}()
	for _, login := range logins {
		s, err := l.bind(ctx, login, host)
		if err != nil {
			return err
		}
		sessions = append(sessions, s)
		go func() {
			<-s.Done()
			ended <- struct{}{}
		}()
	}
	l.setSession(sessions[0])
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-ended:
	}
	for _, s := range sessions {
		if err := s.Err(); err != nil {
			return fmt.Errorf("the link was closed: %w", err)
		}
	}
	return errors.New("the link was closed")
}

// setSession sets the session that sends. nil means that the link is not open.
func (l *link[P]) setSession(s *pdulink.Link[P]) {
	l.d.mu.Lock()
	defer l.d.mu.Unlock()
	l.session, l.state.BoundAt = s, time.Time{}
	if s != nil {
		l.state.BoundAt = time.Now()
		l.d.wake()
	}
}

// bind connects to a host and logs in.
func (l *link[P]) bind(ctx context.Context, login login[P], host string) (*pdulink.Link[P], error) {
	ctx, cancel := context.WithTimeout(ctx, l.d.settings.response)
	defer cancel()
	conn, err := l.d.dial(ctx, host)
	if err != nil {
		return nil, err
	}
	return login(ctx, conn, watcher[P]{
		take: func(ctx context.Context, request P) P {
			l.received.Add(1)
			response, isTaken := l.d.take(ctx, request)
			if isTaken {
				l.carried.Add(1)
			}
			return response
		},
		observe: l.observe,
	})
}

// These are the prefixes of the errors of logins.
const (
	unanswered = "the carrier did not answer the bind"
	refused    = "the carrier refused the bind"
)

// dial connects to a host. Its errors are texts for people.
func (d *Driver[P]) dial(ctx context.Context, host string) (net.Conn, error) {
	dial := d.tools.Outbound.Dial
	if d.settings.tls {
		name, _, _ := net.SplitHostPort(host) // checked by readHosts
		dial = d.tools.Outbound.DialTLS(name, d.settings.roots)
	}
	conn, err := dial(ctx, "tcp", host)
	if err != nil {
		return nil, errors.New(provider.Plain(err))
	}
	return conn, nil
}
