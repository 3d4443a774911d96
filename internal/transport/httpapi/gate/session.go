package gate

import (
	"net/http"
	"net/url"
	"slices"
	"time"

	"lksms/internal/platform/access"
)

// signInOperation creates a session. Its caller sends the password in the body.
const signInOperation = "POST /api/v1/session"

// These are the names of session cookies. Browsers accept the prefix __Host- only over TLS and only for exactly this host, so another host of the same site
// cannot replace the session.
const (
	cookieName       = "lksms_session"
	secureCookieName = "__Host-" + cookieName
)

// cookieName returns the name of the session cookie. Browsers accept the prefix __Host- only for the path /, so a server with a base path uses __Secure-.
func (x *Exchange) cookieName() string {
	switch {
	case !x.isSecure:
		return cookieName
	case x.basePath != "":
		return "__Secure-" + cookieName
	}
	return secureCookieName
}

// cookie returns a Set-Cookie header with token. maxAge is in seconds; a negative maxAge deletes the cookie.
func (x *Exchange) cookie(token string, maxAge int) string {
	c := http.Cookie{ //nolint:gosec // without TLS, browsers do not send Secure cookies
		Name: x.cookieName(), Value: token, Path: x.basePath + "/", MaxAge: maxAge, Secure: x.isSecure, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	}
	return c.String()
}

// SessionCookie returns the Set-Cookie header of a new session.
func (x *Exchange) SessionCookie(token string, expiresAt time.Time) string {
	return x.cookie(token, max(1, int(time.Until(expiresAt).Seconds())))
}

// NoSessionCookie returns the Set-Cookie header that deletes the session cookie.
func (x *Exchange) NoSessionCookie() string { return x.cookie("", -1) }

// SessionToken returns the token of the session cookie. It returns an empty text if the request has no such cookie.
func (x *Exchange) SessionToken() string {
	c, err := x.request.Cookie(x.cookieName())
	if err != nil {
		return ""
	}
	return c.Value
}

// resume returns the user of the session whose cookie the request contains. A browser can add the cookie to a request that another site caused. So a request
// that can change state must come from a page of this server.
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

// mayChange reports whether a request possibly changes state.
func mayChange(r *http.Request) bool {
	isRead := r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions
	return !isRead || slices.Contains(claimPaths, r.URL.Path)
}

// isOfOwnPage reports whether, according to the browser, a page of this server made the request. Without TLS, browsers do not send Sec-Fetch-Site.
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

// isOfNoPage reports whether a request lacks all headers with which browsers report the origin of a request.
func isOfNoPage(r *http.Request) bool {
	return r.Header.Get("Sec-Fetch-Site") == "" && r.Header.Get("Origin") == ""
}

// challengeTo returns the WWW-Authenticate header of a 401 response. If this header names Basic, a browser opens its own password dialog. Pages with a form
// of their own send X-Requested-With, and so get no Basic. EventSource cannot send this header, so Accept: text/event-stream has the same effect.
func challengeTo(r *http.Request) string {
	if r.Header.Get("X-Requested-With") != "" || r.Header.Get("Accept") == "text/event-stream" {
		return `Session realm="lksms"`
	}
	return `Basic realm="lksms", charset="UTF-8"`
}

// OperationsOf returns the ids of the operations that a user is allowed to call, sorted.
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
