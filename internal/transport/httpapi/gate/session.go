package gate

import (
	"net/http"
	"net/url"
	"slices"
	"time"

	"lksms/internal/platform/access"
)

// signInOperation begins a session. Its caller proves a password in the body.
const signInOperation = "POST /api/v1/session"

// The cookie of a session. Browsers accept the name with the prefix over TLS only, and only for this very host, so that a neighbour of the same
// site cannot put another session in its place.
const (
	cookieName       = "lksms_session"
	secureCookieName = "__Host-" + cookieName
)

// cookieName returns the name of the cookie of sessions. Browsers accept __Host- for the path / only.
func (x *Exchange) cookieName() string {
	switch {
	case !x.isSecure:
		return cookieName
	case x.basePath != "":
		return "__Secure-" + cookieName
	}
	return secureCookieName
}

// cookie returns the header Set-Cookie for a token. A negative maxAge, in seconds, deletes the cookie.
func (x *Exchange) cookie(token string, maxAge int) string {
	c := http.Cookie{ //nolint:gosec // without TLS, a browser would not send it back if it were Secure
		Name: x.cookieName(), Value: token, Path: x.basePath + "/", MaxAge: maxAge, Secure: x.isSecure, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	}
	return c.String()
}

// SessionCookie returns the header Set-Cookie for a session that begins.
func (x *Exchange) SessionCookie(token string, expiresAt time.Time) string {
	return x.cookie(token, max(1, int(time.Until(expiresAt).Seconds())))
}

// NoSessionCookie returns the header Set-Cookie that deletes the cookie of a session.
func (x *Exchange) NoSessionCookie() string { return x.cookie("", -1) }

// SessionToken returns the token in the cookie of a request; empty: it has none.
func (x *Exchange) SessionToken() string {
	c, err := x.request.Cookie(x.cookieName())
	if err != nil {
		return ""
	}
	return c.Value
}

// resume returns the user of the session whose cookie a request has. A browser may send the cookie with a request that another site caused, so a request
// that may change state must come from a page of this server.
func (g *Gate) resume(r *http.Request, x *Exchange) (access.Principal, error) {
	token := x.SessionToken()
	if token == "" {
		return access.Principal{}, access.ErrRequired
	}
	if mayChange(r) && !isOfOwnPage(r, x.isSecure) {
		return access.Principal{}, errCrossSite
	}
	session, err := g.services.Access.Session(r.Context(), token, x.Origin.SourceIP, x.Caller.isRepeated)
	if err == nil {
		x.Caller.SessionEnd = &session.ExpiresAt
	}
	return session.Principal, err
}

// mayChange reports whether a request may change state.
func mayChange(r *http.Request) bool {
	isRead := r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions
	return !isRead || slices.Contains(claimPaths, r.URL.Path)
}

// isOfOwnPage reports whether a browser says that a page of this server made it send a request. Without TLS, browsers do not send Sec-Fetch-Site.
func isOfOwnPage(r *http.Request, isSecure bool) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-origin":
		return true
	case "", "none":
		origin, err := url.Parse(r.Header.Get("Origin"))
		return err == nil && origin.Host != "" && origin.Host == r.Host && (origin.Scheme == "https" || !isSecure)
	default:
		return false
	}
}

// isOfNoPage reports whether a request has none of the headers by which browsers say where it comes from.
func isOfNoPage(r *http.Request) bool {
	return r.Header.Get("Sec-Fetch-Site") == "" && r.Header.Get("Origin") == ""
}

// challengeTo returns the header WWW-Authenticate of an answer of 401. A browser asks for a password in a window of its own if the answer names
// Basic. Scripts of a page, which show their own form, ask for another answer; EventSource can send no header but Accept.
func challengeTo(r *http.Request) string {
	if r.Header.Get("X-Requested-With") != "" || r.Header.Get("Accept") == "text/event-stream" {
		return `Session realm="lksms"`
	}
	return `Basic realm="lksms", charset="UTF-8"`
}

// OperationsOf returns the ids of the operations that a user may call.
func (g *Gate) OperationsOf(who access.Principal) []string {
	ids := []string{}
	for _, o := range g.contract.Operations() {
		if isAllowed(who, o.Roles) {
			ids = append(ids, o.ID)
		}
	}
	slices.Sort(ids)
	return ids
}
