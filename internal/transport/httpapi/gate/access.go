package gate

import (
	"context"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"lksms/internal/platform/access"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/servers"
	"lksms/internal/transport/httpapi/gate/contract"
)

// guard checks before the body is read whether the caller is allowed to call the operation. A request without an operation passes, and validate rejects it.
func (g *Gate) guard(operation string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := Of(r.Context())
		x.Operation = operation
		if isBusy(r.Context()) && !slices.Contains(contract.AlwaysServed, operation) {
			g.Fail(w, r, ErrUnavailable)
			return
		}
		asked, _ := g.contract.Operation(operation)
		if !g.serves(asked.ServedBy) {
			g.Fail(w, r, ErrOtherRole)
			return
		}
		if operation == signInOperation && !isOfNoPage(r) && !isOfOwnPage(r, x.isSecure) {
			g.Fail(w, r, errCrossSite)
			return
		}
		if operation != "" && !slices.Contains(asked.Roles, contract.Public) {
			x.Caller.Authorise = func() error {
				x.Caller.isRepeated = true
				return g.authorise(r, asked.Roles)
			}
			if err := g.authorise(r, asked.Roles); err != nil {
				g.Fail(w, r, err)
				return
			}
		}
		if operation == contract.Callback {
			senderNo, err := url.PathUnescape(path.Base(r.URL.EscapedPath())) // the number can contain a slash
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
		answering := r // only the handler is allowed to read from a replica: the check of the caller needs current data
		if asked.IsStale {
			answering = r.WithContext(postgres.MayBeStale(r.Context()))
		}
		next.ServeHTTP(w, answering)
	})
}

// auditedPaths contains prefixes of the paths of audited operations. These operations change the configuration, the contacts, blocks, rules or webhooks of a
// company, or data that a colleague submitted.
var auditedPaths = []string{
	"/api/v1/admin/", "/api/v1/contacts", "/api/v1/tags", "/api/v1/webhooks", "/api/v1/batches", "/api/v1/blocks", "/api/v1/reply-rules",
	"/api/v1/notifications/status",
}

// auditedDeletion is audited, although POST to the same path is not audited: creating notifications changes nothing that another user submitted.
const auditedDeletion = "DELETE /api/v1/notifications"

// isAudited reports whether the changes of an operation are recorded with their caller.
func isAudited(operation string) bool {
	method, path, _ := strings.Cut(operation, " ")
	return operation == auditedDeletion || method != http.MethodGet && slices.ContainsFunc(auditedPaths, func(start string) bool { return strings.HasPrefix(path, start) })
}

type busyKey struct{}

// Busy returns a context that marks the requests of a connection beyond the connection limit. On such a connection, the gate serves only the operations in
// contract.AlwaysServed.
func Busy(ctx context.Context) context.Context { return context.WithValue(ctx, busyKey{}, true) }

func isBusy(ctx context.Context) bool { return ctx.Value(busyKey{}) != nil }

// authorise authenticates the caller and checks that it has one of the roles. An admin is allowed to call every operation.
func (g *Gate) authorise(r *http.Request, roles []string) error {
	who, err := g.authenticate(r)
	if err != nil {
		return err
	}
	return Of(r.Context()).admit(who, roles)
}

// admit sets the caller to a user, and checks that this user has one of the roles.
func (x *Exchange) admit(who access.Principal, roles []string) error {
	x.Caller.User, x.Origin.User, x.Origin.CompanyID, x.Origin.TopPriority = who, who.Username, who.CompanyID, who.TopPriority
	if !isAllowed(who, roles) {
		return fault.New(fault.Forbidden, fault.AuthForbidden)
	}
	return nil
}

// isAllowed reports whether a user is allowed to call an operation with these roles.
func isAllowed(who access.Principal, roles []string) bool {
	return who.Role == access.RoleAdmin || slices.Contains(roles, who.Role) || slices.Contains(roles, contract.Public) ||
		who.Role == access.RoleRead && who.SeesAll && slices.Contains(roles, contract.ReadAll)
}

// authenticate returns the user of the request's credentials. The header Authorization has priority over the session cookie.
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

// RequireReadAll protects a handler that is not part of the contract. It admits admins, and readers who see all companies.
func (g *Gate) RequireReadAll(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := g.authorise(r, []string{contract.ReadAll}); err != nil {
			g.Fail(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

var noStoreValue = []string{"no-store"} // shared by all responses

// noStore forbids clients to cache responses of the API: some GET operations change state, and the data of all others can change.
func noStore(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Cache-Control"] = noStoreValue
		next.ServeHTTP(w, r)
	})
}

// ErrOtherRole is the fault of a request that only servers with another role can answer.
var ErrOtherRole = &fault.Error{Kind: fault.Unavailable, Reason: fault.ServerOtherRole, RetryAfter: ErrUnavailable.RetryAfter}

// serves reports whether this server answers the operations of a role. Every server answers operations without a role.
func (g *Gate) serves(role servers.Role) bool {
	return role == "" || g.options.Roles.Has(role) || role == servers.API && g.options.Roles.Has(servers.Console)
}
