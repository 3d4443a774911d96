package gate

import (
	"net/http"
	"strings"
	"time"

	"lksms/internal/platform/access"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/servers"
)

// ForeignOperation is an operation of another program's protocol. It is not in the contract, but has the limits of operations in the contract: size and rate
// of bodies, slots, rate of responses, and delays after wrong credentials.
type ForeignOperation struct {
	Pattern   string   // ServeMux pattern
	Roles     []string // roles that can call the operation, in addition to admins; empty: all callers
	ServedBy  servers.Role
	BodyBytes int64 // maximum size of the body; 0: no body. If the body contains the credentials: at most capacity.MaxBodyBytesPerNetwork
	IsJSON    bool  // the body is JSON, which Body.Plain contains
	IsCostly  bool  // the operation reads or writes many rows
	IsAudited bool  // changes by the operation are recorded in the audit
	Limit     time.Duration

	// AnswersHead: a HEAD is answered like GET. It is false for operations that can change something.
	AnswersHead bool

	// IsCostlyFor reports whether a single request reads or writes many rows. nil means that no request does. It is used in addition to IsCostly.
	IsCostlyFor func(r *http.Request, body []byte) bool

	// Credentials returns the user name and password from the query or body. nil: the credentials are in the header Authorization.
	Credentials func(r *http.Request, body []byte) (username, password string)

	// Answer writes the response of a failure. status is the HTTP status of f in the API. nil: the response has the format of the API.
	Answer func(w http.ResponseWriter, r *http.Request, status int, f *fault.Error)
	Handle func(w http.ResponseWriter, r *http.Request) error
}

// MountForeign registers an operation of a foreign protocol with a ServeMux, protected by the gate. It does not accept session cookies.
func (g *Gate) MountForeign(mux *http.ServeMux, o ForeignOperation) {
	g.refusesHead[o.Pattern] = !o.AnswersHead
	mux.Handle(o.Pattern, noStore(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := g.serveForeign(w, r, o); err != nil {
			f := g.faultOf(r, err)
			if o.Answer == nil {
				g.answerFault(w, r, f)
				return
			}
			g.setHeaders(w.Header(), r, f)
			o.Answer(w, r, statuses[f.Kind], f)
		}
	})))
}

// serveForeign handles a request of a foreign protocol. If it returns an error, it has written no response.
func (g *Gate) serveForeign(w http.ResponseWriter, r *http.Request, o ForeignOperation) error {
	x := Of(r.Context())
	x.Operation, x.isCostly = o.Pattern, o.IsCostly
	if isBusy(r.Context()) {
		return ErrUnavailable
	}
	if !g.serves(o.ServedBy) {
		return ErrOtherRole
	}
	if r.Method == http.MethodHead && !o.AnswersHead { // a ServeMux routes HEAD to the GET handler, which can send messages
		return g.NoRoute(r)
	}
	authorise := func() error { return g.authoriseForeign(r, o) }
	if o.Credentials == nil {
		if len(o.Roles) > 0 {
			x.Caller.Authorise = func() error {
				x.Caller.isRepeated = true
				return authorise()
			}
		}
		if err := authorise(); err != nil {
			return err
		}
	}
	if !postgres.IsText(r.URL.Path) {
		return fault.New(fault.NotFound, fault.RouteNotFound)
	}
	release := func() {}
	defer func() { release() }()
	if began := time.Now(); o.BodyBytes > 0 && r.Body != nil && r.Body != http.NoBody {
		done, err := g.receive(w, r, x, o.BodyBytes)
		if err != nil {
			return err
		}
		release = done
		if x.Caller.Authorise != nil && time.Since(began) > bodySoon {
			if err := x.Caller.Authorise(); err != nil { // the user can have been disabled while the body arrived
				return err
			}
		}
	}
	r.Body = http.NoBody
	if x.Body.Cut != nil {
		return x.Body.Cut
	}
	if o.Credentials != nil {
		if err := authorise(); err != nil {
			return err
		}
	}
	if o.IsCostlyFor != nil {
		x.isCostly = o.IsCostlyFor(r, x.Body.Raw)
	}
	leave, err := g.slot(r.Context(), x)
	if err != nil {
		return err
	}
	defer leave()
	done := release
	x.answering = func() { leave(); done() } // a slow reader must not occupy memory and slots for which other requests wait
	if o.IsJSON {
		if err := g.parse(x); err != nil {
			return err
		}
		if x.Body.Broken != nil {
			return fault.New(fault.Malformed, fault.RequestMalformed)
		}
	}
	if o.IsAudited {
		r = r.WithContext(postgres.As(r.Context(), postgres.Actor{
			Name: x.Caller.User.Username, Role: x.Caller.User.Role, SourceIP: x.Origin.SourceIP, RequestID: x.Origin.RequestID,
		}))
	}
	x.within(o.Limit)
	return o.Handle(w, r)
}

// authoriseForeign authenticates the caller and checks that it has one of the roles.
func (g *Gate) authoriseForeign(r *http.Request, o ForeignOperation) error {
	x := Of(r.Context())
	switch {
	case len(o.Roles) == 0:
		return nil
	case o.Credentials == nil && r.Header.Get("Authorization") == "": // only pages of this server are allowed to use sessions
		return access.ErrRequired
	case o.Credentials == nil:
		return g.authorise(r, o.Roles)
	}
	username, password := o.Credentials(r, x.Body.Raw)
	if username == "" || !postgres.IsText(username) || !postgres.IsText(password) {
		return access.ErrRequired
	}
	who, err := g.services.Access.Basic(r.Context(), username, password, x.Origin.SourceIP)
	if err != nil {
		return err
	}
	return x.admit(who, o.Roles)
}

// IsForm reports whether the Content-Type of a request is application/x-www-form-urlencoded.
func IsForm(r *http.Request) bool {
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	return strings.EqualFold(strings.TrimSpace(kind), "application/x-www-form-urlencoded")
}
