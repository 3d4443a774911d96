package httpapi

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"lksms/internal/access"
	"lksms/internal/fault"
	"lksms/internal/queue"
)

// accessKey is where an operation of the contract lists the roles that may call it.
const accessKey = "x-lksms-access"

// public is the entry of an operation that needs no credentials, readAll that of one which a reader may call that sees every
// company.
const (
	public  = "public"
	readAll = "read_all"
)

// rolesOf reads from the contract who may call each operation, by its pattern in a ServeMux; one that does not say is an
// error.
func rolesOf(spec *openapi3.T) (map[string][]string, error) {
	known := []string{access.RoleSubmit, access.RoleSend, access.RoleRead, access.RoleAdmin, public, readAll}
	allowed := map[string][]string{}
	for pattern, operation := range operationsOf(spec) {
		list, _ := operation.Extensions[accessKey].([]any)
		for _, entry := range list {
			role, _ := entry.(string)
			if !slices.Contains(known, role) {
				return nil, fmt.Errorf("contract: %s of %s: %v is no role", accessKey, pattern, entry)
			}
			allowed[pattern] = append(allowed[pattern], role)
		}
		if len(list) == 0 {
			return nil, fmt.Errorf("contract: %s does not say %s", pattern, accessKey)
		}
	}
	return allowed, nil
}

// operationsOf gives the operations of the contract by their patterns in a ServeMux.
func operationsOf(spec *openapi3.T) iter.Seq2[string, *openapi3.Operation] {
	return func(yield func(string, *openapi3.Operation) bool) {
		for path, item := range spec.Paths.Map() {
			for method, operation := range item.Operations() {
				if !yield(method+" "+path, operation) {
					return
				}
			}
		}
	}
}

// guard lets in who may call the operation that the request is for, before anything of its body is read. What is no
// operation goes on, to be told so.
func (s *Server) guard(operations *http.ServeMux, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, operation := operations.Handler(r)
		x := exchangeOf(r.Context())
		x.operation = operation
		if isBusy(r.Context()) && !slices.Contains(alwaysServed, operation) {
			s.fail(w, r, errUnavailable)
			return
		}
		if roles := s.contract.roles[operation]; operation != "" && !slices.Contains(roles, public) {
			x.authorise = func() error { return s.authorise(r, roles) }
			if err := x.authorise(); err != nil {
				s.fail(w, r, err)
				return
			}
		}
		if operation == callbackOperation {
			x.request = r
			senderNo, err := url.PathUnescape(path.Base(r.URL.EscapedPath())) // it may contain a slash
			if err != nil {
				s.fail(w, r, fault.New(fault.Malformed, fault.RequestMalformed))
				return
			}
			isKnown, err := s.receipts.Admit(r.Context(), callbackOf(x, senderNo))
			if err != nil {
				s.fail(w, r, err)
				return
			}
			if isKnown {
				x.provider = senderNo
			}
		}
		next.ServeHTTP(w, r)
	})
}

// alwaysServed are the operations that are answered when all connections are taken, beside the metrics.
var alwaysServed = []string{"GET /health", "GET /ready"}

type busyKey struct{}

// Busy marks what comes by a connection for which there is no room: only health and metrics are served there.
func Busy(ctx context.Context) context.Context { return context.WithValue(ctx, busyKey{}, true) }

func isBusy(ctx context.Context) bool { return ctx.Value(busyKey{}) != nil }

// authorise finds out who calls and whether one of the roles is theirs. An admin may do everything.
func (s *Server) authorise(r *http.Request, roles []string) error {
	who, err := s.authenticate(r)
	if err != nil {
		return err
	}
	x := exchangeOf(r.Context())
	x.who, x.origin.User, x.origin.CompanyID, x.origin.TopPriority = who, who.Username, who.CompanyID, who.TopPriority
	isAllowed := slices.Contains(roles, who.Role) || who.Role == access.RoleRead && who.SeesAll && slices.Contains(roles, readAll)
	if who.Role != access.RoleAdmin && !isAllowed {
		return fault.New(fault.Forbidden, fault.AuthForbidden)
	}
	return nil
}

func (s *Server) authenticate(r *http.Request) (access.Principal, error) {
	address := exchangeOf(r.Context()).origin.SourceIP
	if username, password, ok := r.BasicAuth(); ok {
		return s.access.Basic(r.Context(), username, password, address)
	}
	if scheme, key, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		return s.access.Bearer(r.Context(), key, address)
	}
	return access.Principal{}, access.ErrRequired
}

// only guards what is not in the contract.
func (s *Server) only(roles []string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.authorise(r, roles); err != nil {
			s.fail(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// viewer is what the caller may see of tasks and notifications: those of its company unless it sees every one, and with the role
// submit only its own of them.
func viewer(ctx context.Context) queue.Viewer {
	seen := queue.Viewer{CompanyID: ownCompany(ctx)}
	if who := exchangeOf(ctx).who; who.Role == access.RoleSubmit {
		seen.Owner = &who.Username
	}
	return seen
}

// ownCompany is the only company of which the caller may see anything; nil if it sees every one.
func ownCompany(ctx context.Context) *int64 {
	if who := exchangeOf(ctx).who; !who.SeesAll {
		return &who.CompanyID
	}
	return nil
}

// companyID is the company that is named, or the caller's. Fault: auth.other_company.
func (s *Server) companyID(ctx context.Context, no *string) (int64, error) {
	who := exchangeOf(ctx).who
	if no == nil {
		return who.CompanyID, nil
	}
	if own := ownCompany(ctx); own != nil {
		return *own, s.requireCompany(ctx, no)
	}
	row, err := s.directory.GetCompany(ctx, *no)
	return row.ID, err
}

// requireCompany refuses a company, if one is named, that is not the caller's, whether it is there or not.
func (s *Server) requireCompany(ctx context.Context, no *string) error {
	own := ownCompany(ctx)
	if no == nil || own == nil {
		return nil
	}
	ownNo, err := s.directory.CompanyNo(ctx, *own)
	if err == nil && ownNo != *no {
		err = fault.New(fault.Forbidden, fault.AuthOtherCompany)
	}
	return err
}

// requireSender refuses a sender that the caller's company cannot reach. Fault: sender.not_found.
func (s *Server) requireSender(ctx context.Context, no string) error {
	if own := ownCompany(ctx); own != nil {
		_, err := s.senders.Get(ctx, own, no)
		return err
	}
	return nil
}

// requireApp refuses an app that the caller is not bound to, and the number of a sender that the server drives.
func (s *Server) requireApp(ctx context.Context, appID string) error {
	if err := requireBinding(ctx, appID); err != nil {
		return err
	}
	return s.senders.CheckApp(ctx, appID)
}

// requireBinding refuses an app that the caller is not bound to.
func requireBinding(ctx context.Context, appID string) error {
	if who := exchangeOf(ctx).who; who.AppID != "" && who.AppID != appID {
		return fault.New(fault.Forbidden, fault.AuthOtherApp)
	}
	return nil
}

// noStore keeps every answer of the API out of caches: one of its GETs changes state, and the others show it.
func noStore(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}
