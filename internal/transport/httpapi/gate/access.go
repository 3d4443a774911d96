package gate

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

	"lksms/internal/platform/access"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/postgres"
)

// accessKey is the extension of the contract that lists the roles which may call an operation.
const accessKey = "x-lksms-access"

// public marks an operation that needs no credentials. readAll allows readers who see all companies.
const (
	public  = "public"
	readAll = "read_all"
)

// rolesOf reads from the contract the roles that may call each operation, by its pattern in a ServeMux. An operation without
// roles or with an unknown role is an error.
func rolesOf(spec *openapi3.T) (map[string][]string, error) {
	known := []string{access.RoleSubmit, access.RoleSend, access.RoleRead, access.RoleAdmin, public, readAll}
	allowed := map[string][]string{}
	for pattern, operation := range operationsOf(spec) {
		list, _ := operation.Extensions[accessKey].([]any)
		for _, entry := range list {
			role, _ := entry.(string)
			if !slices.Contains(known, role) {
				return nil, fmt.Errorf("contract: %s of %s: unknown role %v", accessKey, pattern, entry)
			}
			allowed[pattern] = append(allowed[pattern], role)
		}
		if len(list) == 0 {
			return nil, fmt.Errorf("contract: %s lacks %s", pattern, accessKey)
		}
	}
	return allowed, nil
}

// operationsOf yields the operations of the contract by their patterns in a ServeMux.
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

// guard checks whether the caller may call the operation, before anything of the body is read. A request for no operation
// passes, and validate rejects it.
func (g *Gate) guard(operation string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := Of(r.Context())
		x.Operation = operation
		if isBusy(r.Context()) && !slices.Contains(alwaysServed, operation) {
			g.Fail(w, r, ErrUnavailable)
			return
		}
		if !g.serves(g.contract.servedBy[operation]) {
			g.Fail(w, r, ErrOtherRole)
			return
		}
		if operation == signInOperation && !isOfNoPage(r) && !isOfOwnPage(r, x.isSecure) {
			g.Fail(w, r, errCrossSite)
			return
		}
		if roles := g.contract.roles[operation]; operation != "" && !slices.Contains(roles, public) {
			x.Caller.Authorise = func() error {
				x.Caller.isRepeated = true
				return g.authorise(r, roles)
			}
			if err := g.authorise(r, roles); err != nil {
				g.Fail(w, r, err)
				return
			}
		}
		if operation == callbackOperation {
			senderNo, err := url.PathUnescape(path.Base(r.URL.EscapedPath())) // it may contain a slash
			if err != nil {
				g.Fail(w, r, fault.New(fault.Malformed, fault.RequestMalformed))
				return
			}
			isKnown, err := g.services.Receipts.Admit(r.Context(), x.Call(senderNo))
			if err != nil {
				g.Fail(w, r, err)
				return
			}
			if isKnown {
				x.Caller.Provider = senderNo
			}
		}
		if isAudited(operation) {
			r = r.WithContext(postgres.As(r.Context(), postgres.Actor{
				Name: x.Caller.User.Username, Role: x.Caller.User.Role, SourceIP: x.Origin.SourceIP, RequestID: x.Origin.RequestID,
			}))
		}
		answering := r // only the handler may read from a replica: a caller is always checked by what is true now
		if g.contract.stale[operation] {
			answering = r.WithContext(postgres.MayBeStale(r.Context()))
		}
		next.ServeHTTP(w, answering)
	})
}

// auditedPaths are how the paths of operations begin that change what administrators, or the users of a company for it, set, or what a colleague
// submitted.
var auditedPaths = []string{
	"/api/v1/admin/", "/api/v1/contacts", "/api/v1/tags", "/api/v1/webhooks", "/api/v1/batches", "/api/v1/notifications/status",
}

// auditedDeletion deletes what its path also creates; the creation is no act on what another user submitted.
const auditedDeletion = "DELETE /api/v1/notifications"

// isAudited reports whether an operation makes such changes, which are recorded with the caller.
func isAudited(operation string) bool {
	method, path, _ := strings.Cut(operation, " ")
	return operation == auditedDeletion || method != http.MethodGet && slices.ContainsFunc(auditedPaths, func(start string) bool { return strings.HasPrefix(path, start) })
}

// alwaysServed are the operations that are answered even when all connections are taken. The metrics and the documentation are
// answered too, because they do not pass guard.
var alwaysServed = []string{"GET /health", "GET /ready"}

type busyKey struct{}

// Busy marks the requests of a connection beyond the limit of connections. Of the operations, only alwaysServed are answered there.
func Busy(ctx context.Context) context.Context { return context.WithValue(ctx, busyKey{}, true) }

func isBusy(ctx context.Context) bool { return ctx.Value(busyKey{}) != nil }

// authorise authenticates the caller and checks that it has one of the roles. An admin may call everything.
func (g *Gate) authorise(r *http.Request, roles []string) error {
	who, err := g.authenticate(r)
	if err != nil {
		return err
	}
	return Of(r.Context()).admit(who, roles)
}

// admit makes a user the caller, and checks that it has one of the roles.
func (x *Exchange) admit(who access.Principal, roles []string) error {
	x.Caller.User, x.Origin.User, x.Origin.CompanyID, x.Origin.TopPriority = who, who.Username, who.CompanyID, who.TopPriority
	if !isAllowed(who, roles) {
		return fault.New(fault.Forbidden, fault.AuthForbidden)
	}
	return nil
}

// isAllowed reports whether a user may call the operation of these roles.
func isAllowed(who access.Principal, roles []string) bool {
	return who.Role == access.RoleAdmin || slices.Contains(roles, who.Role) || slices.Contains(roles, public) ||
		who.Role == access.RoleRead && who.SeesAll && slices.Contains(roles, readAll)
}

// authenticate returns the user whose credentials a request has. Authorization goes before the cookie of a session.
func (g *Gate) authenticate(r *http.Request) (access.Principal, error) {
	x := Of(r.Context())
	address := x.Origin.SourceIP
	if username, password, ok := r.BasicAuth(); ok {
		return g.services.Access.Basic(r.Context(), username, password, address)
	}
	if scheme, key, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		return g.services.Access.Bearer(r.Context(), key, address)
	}
	if r.Header.Get("Authorization") == "" {
		return g.resume(r, x)
	}
	return access.Principal{}, access.ErrRequired
}

// RequireReadAll guards a handler that is not in the contract. It admits admins, and readers who see all companies.
func (g *Gate) RequireReadAll(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := g.authorise(r, []string{readAll}); err != nil {
			g.Fail(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

var noStoreValue = []string{"no-store"} // shared by all answers

// noStore keeps every answer of the API out of caches: some GETs change state, and the others show it.
func noStore(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Cache-Control"] = noStoreValue
		next.ServeHTTP(w, r)
	})
}
