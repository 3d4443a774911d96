package smppserver

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"lksms/gen/smppserverq"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/dispatch/queue/task"
	"lksms/internal/platform/access"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/outbound"
	"lksms/internal/platform/pdulink"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/smpp"
	"lksms/internal/transport/httpapi/gate/capacity"
)

const (
	bindLimit     = 10 * time.Second // time in which a connection must bind
	responseLimit = 10 * time.Second
	idleLimit     = 30 * time.Second // without a PDU, until the server sends enquire_link
	requestLimit  = 30 * time.Second // to handle a request
	checkEvery    = time.Second      // interval at which the credentials of a bind are checked
	maxStrangers  = 256              // connections without a bind
)

// systemID is the name of the server in the answers to binds.
const systemID = "LKSMS"

// bind is a connection of a program. It belongs to a user after the program has bound.
type bind struct {
	s         *Server
	id        string // identifies the bind in logs and in tasks
	conn      net.Conn
	address   string // of the program
	since     time.Time
	session   *smpp.Session
	isSettled chan struct{} // closed when session is set

	binding     sync.Mutex // one request binds at a time
	mu          sync.Mutex
	user        *user // nil: not bound
	kind        smpp.CommandID
	credentials struct{ username, password string }
	userAgent   string
}

// serve runs a connection until its end.
func (s *Server) serve(conn net.Conn) {
	b := &bind{s: s, id: ulid.MustNew(ulid.Now(), rand.Reader).String(), conn: conn, since: time.Now(), isSettled: make(chan struct{})}
	s.enter(b)
	defer s.leave(b)
	address, _, _ := net.SplitHostPort(conn.RemoteAddr().String()) // waits for the header of a proxy
	s.mu.Lock()
	b.address = address
	b.session = smpp.Start(conn, smpp.Config{
		Window: s.options.Window, Incoming: s.options.Window, Overload: smpp.RThrottled, Response: responseLimit, Enquire: idleLimit,
		Handler: func(ctx context.Context, _ *smpp.Session, request *smpp.PDU) *smpp.PDU {
			<-b.isSettled
			answer := b.handle(ctx, request)
			if answer != nil {
				s.metrics.requests.WithLabelValues(request.Command.String(), answer.Status.String()).Inc()
			}
			return answer
		},
	})
	s.mu.Unlock()
	close(b.isSettled)
	if s.isEnding.Load() {
		b.session.Close()
		return
	}
	limit := time.AfterFunc(bindLimit, func() {
		if b.boundTo() == nil {
			_ = conn.Close() // the session notices it
		}
	})
	defer limit.Stop()
	s.await(b)
	if u := b.boundTo(); u != nil {
		s.options.Log.Info("an SMPP bind ended", "bind", b.id, "user", u.key.username, "ip", b.address, "cause", endOf(b.session.Err()))
	}
}

// await waits for the end of a connection. Meanwhile, it ends the bind if its user is no longer allowed to be bound, and prolongs the recording of the events of
// the company, because only binds that receive do this otherwise.
func (s *Server) await(b *bind) {
	check, again := time.NewTicker(checkEvery), time.NewTicker(listenAt)
	defer check.Stop()
	defer again.Stop()
	for {
		select {
		case <-b.session.Done():
			return
		case <-check.C:
			if b.boundTo() != nil && b.isRefused(s.ctx) {
				b.end(s.ctx)
			}
		case <-again.C:
			if u := b.boundTo(); u != nil {
				if err := s.see(s.ctx, u.key); err != nil && s.ctx.Err() == nil {
					s.options.Log.Warn("an SMPP bind could not be stored", "error", err)
				}
			}
		}
	}
}

// isRefused reports whether the user of the bind is no longer allowed to be bound.
func (b *bind) isRefused(ctx context.Context) bool {
	c := call{bind: b, request: &smpp.PDU{}}
	return statusOf(c.authorise(ctx)) == smpp.RInvBndSts
}

// endOf describes the end of a session.
func endOf(err error) string {
	switch {
	case errors.Is(err, pdulink.ErrEnded):
		return "unbound"
	case errors.Is(err, pdulink.ErrSilent):
		return "silent"
	default:
		return "closed"
	}
}

// enter adds a connection without a bind. Above the limit, it closes the oldest connection of the network with the most connections, so that a program that
// connects in a loop loses its own connections.
func (s *Server) enter(b *bind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.strangers) >= maxStrangers {
		count := map[string]int{}
		for other := range s.strangers {
			count[outbound.NetworkOf(other.address)]++
		}
		of := func(b *bind) int { return count[outbound.NetworkOf(b.address)] }
		var oldest *bind
		for other := range s.strangers {
			if oldest == nil || of(other) > of(oldest) || of(other) == of(oldest) && other.since.Before(oldest.since) {
				oldest = other
			}
		}
		delete(s.strangers, oldest)
		_ = oldest.conn.Close() // its session notices it
	}
	s.strangers[b] = struct{}{}
}

// leave removes a connection that has ended.
func (s *Server) leave(b *bind) {
	u := b.boundTo()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.strangers, b)
	if u == nil {
		return
	}
	u.binds = slices.DeleteFunc(u.binds, func(other *bind) bool { return other == b })
	s.binds--
	u.changed()
	if len(u.binds) == 0 {
		delete(s.users, u.key)
	}
}

func (b *bind) boundTo() *user {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.user
}

// isReceiver reports whether the bind gets receipts and messages.
func (b *bind) isReceiver() bool { return b.kind != smpp.BindTransmitter }

// handle answers a request. A panic ends only the request.
func (b *bind) handle(ctx context.Context, request *smpp.PDU) (answer *smpp.PDU) {
	defer func() {
		if p := recover(); p != nil {
			b.s.options.Log.Error("panic", "bind", b.id, "panic", p, "stack", string(debug.Stack()))
			answer = request.Response(smpp.RSysErr, nil)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	if request.Command == smpp.AlertNotification || request.Command == smpp.Outbind { // have no response
		return nil
	}
	if body, isBind := request.Body.(*smpp.Bind); isBind {
		return b.bind(ctx, request, body)
	}
	if b.boundTo() == nil {
		b.s.options.Pace.Delay(ctx, outbound.NetworkOf(b.address), capacity.PaceWait)
		return request.Response(smpp.RInvBndSts, nil)
	}
	c := call{bind: b, request: request}
	if err := c.authorise(ctx); err != nil {
		if statusOf(err) == smpp.RInvBndSts { // the user is no longer allowed to be bound
			go b.end(context.WithoutCancel(ctx)) // end waits for this handler
		}
		return c.refuse(ctx, err)
	}
	switch body := request.Body.(type) {
	case *smpp.Message:
		if request.Command != smpp.DeliverSM {
			return c.submit(ctx, body)
		}
	case *smpp.Multi:
		return c.submitMulti(ctx, body)
	case *smpp.Query:
		return c.query(ctx, body)
	case *smpp.Cancel:
		return c.cancel(ctx, body)
	case *smpp.Replace:
		return request.Response(smpp.RReplaceFail, nil) // a waiting message cannot be changed: cancel it, and submit another
	}
	return request.Response(smpp.RInvCmdID, nil)
}

// end unbinds the program.
func (b *bind) end(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, responseLimit)
	defer cancel()
	_ = b.session.End(ctx) // the connection ends in any case
}

// bind binds the connection to a user.
func (b *bind) bind(ctx context.Context, request *smpp.PDU, body *smpp.Bind) *smpp.PDU {
	b.binding.Lock()
	defer b.binding.Unlock()
	if b.boundTo() != nil {
		return request.Response(smpp.RAlyBnd, nil)
	}
	status := b.tryBind(ctx, request.Command, body)
	level := b.s.options.Log.InfoContext
	if status != smpp.OK {
		level = b.s.options.Log.WarnContext
	}
	level(ctx, "an SMPP bind", "bind", b.id, "user", postgres.Text(body.SystemID), "command", request.Command.String(), "status", status.String(), "ip", b.address)
	if status != smpp.OK {
		b.s.options.Pace.Delay(ctx, outbound.NetworkOf(b.address), capacity.PaceWait)
		return request.Response(status, nil)
	}
	answer := &smpp.BindResp{SystemID: systemID}
	answer.TLVs.AddUint8(smpp.TagSCInterfaceVersion, smpp.Version34)
	return request.Response(smpp.OK, answer)
}

func (b *bind) tryBind(ctx context.Context, kind smpp.CommandID, body *smpp.Bind) smpp.Status {
	b.credentials.username, b.credentials.password = body.SystemID, body.Password
	b.userAgent = "SMPP " + postgres.Text(body.SystemType)
	who, err := b.authenticate(ctx)
	if err != nil {
		return bindStatus(err)
	}
	key := userKey{who.CompanyID, who.Username}
	if err := b.s.see(ctx, key); err != nil {
		b.s.options.Log.WarnContext(ctx, "an SMPP bind could not be stored", "error", err)
		return smpp.RSysErr
	}
	return b.s.join(b, key, kind)
}

// see records a bind: from now on, the events of the company are recorded. A new user gets the events after this time.
func (s *Server) see(ctx context.Context, key userKey) error {
	_, last, err := s.services.Feed.Listen(ctx, &key.companyID, false)
	if err != nil {
		return err
	}
	err = s.q.SmppReceiverSee(ctx, smppserverq.SmppReceiverSeeParams{CompanyID: key.companyID, Username: key.username, AfterID: last})
	return postgres.Wrap("store bind", err, nil)
}

// join adds a connection to the binds of a user.
func (s *Server) join(b *bind, key userKey, kind smpp.CommandID) smpp.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, isOpen := s.strangers[b]; !isOpen || s.isEnding.Load() {
		return smpp.RBindFail
	}
	u := s.users[key]
	if s.options.MaxBinds > 0 && s.binds >= s.options.MaxBinds || u != nil && len(u.binds) >= s.options.BindsPerUser {
		return smpp.RBindFail
	}
	if u == nil {
		u = s.newUser(key)
		s.users[key] = u
	}
	delete(s.strangers, b)
	b.mu.Lock()
	b.user, b.kind = u, kind
	b.mu.Unlock()
	u.binds = append(u.binds, b)
	s.binds++
	u.changed()
	return smpp.OK
}

// authenticate returns the user of the credentials of the bind.
func (b *bind) authenticate(ctx context.Context) (access.Principal, error) {
	username, password := b.credentials.username, b.credentials.password
	if username == "" || !postgres.IsText(username) || !postgres.IsText(password) {
		return access.Principal{}, access.ErrRequired
	}
	who, err := b.s.services.Access.Bind(ctx, username, password, b.address)
	if err == nil && who.Role != access.RoleSubmit && who.Role != access.RoleAdmin {
		err = fault.New(fault.Forbidden, fault.AuthForbidden)
	}
	return who, err
}

// bindStatus returns the status of a refused bind.
func bindStatus(err error) smpp.Status {
	var f *fault.Error
	switch {
	case !errors.As(err, &f):
		return smpp.RSysErr
	case f.Kind == fault.Unauthorized:
		return smpp.RInvPaswd
	default:
		return smpp.RBindFail
	}
}

// call is a request of a program that is bound.
type call struct {
	*bind
	request *smpp.PDU
	origin  submit.Origin
}

// authorise checks the credentials of the bind again: the user can be disabled, and its role, company or password can have changed.
func (c *call) authorise(ctx context.Context) error {
	who, err := c.authenticate(ctx)
	if err != nil {
		return err
	}
	if key := (userKey{who.CompanyID, who.Username}); key != c.boundTo().key {
		return fault.New(fault.Forbidden, fault.AuthForbidden)
	}
	c.origin = submit.Origin{
		User: who.Username, CompanyID: who.CompanyID, TopPriority: who.TopPriority, SourceIP: c.address, UserAgent: c.userAgent,
		RequestID: c.id + "-" + strconv.FormatUint(uint64(c.request.Sequence), 10),
	}
	return nil
}

// viewer limits the tasks that the program can access to those of its user.
func (c *call) viewer() task.Viewer {
	return task.Viewer{Owner: &c.origin.User, CompanyID: &c.origin.CompanyID}
}
