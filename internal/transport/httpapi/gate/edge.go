package gate

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/rs/cors"

	"lksms/internal/platform/fault"
	"lksms/internal/transport/httpapi/gate/contract"
)

// clientIP returns the address of the client: the address of the peer, or, if the peer is a trusted proxy, the last address in X-Forwarded-For that is not a
// trusted proxy. A client can forge all earlier addresses.
func (g *Gate) clientIP(r *http.Request) string {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	client := peer.Addr().Unmap()
	if !g.trusts(client) {
		return client.WithZone("").String()
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(hops) {
		if !g.trusts(client) {
			break
		}
		before, isAddress := hopAddress(hop)
		if !isAddress {
			break
		}
		client = before
	}
	return client.WithZone("").String()
}

// hopAddress parses an address in the forms that proxies write: alone, with a port, or an IPv6 address in brackets.
func hopAddress(hop string) (netip.Addr, bool) {
	hop = strings.Trim(strings.TrimSpace(hop), `"`)
	if with, err := netip.ParseAddrPort(hop); err == nil {
		return with.Addr().Unmap(), true
	}
	address, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(hop, "["), "]"))
	return address.Unmap(), err == nil
}

// isSecure reports whether the client uses TLS to this server or to a trusted proxy in front of it. If the header contains several schemes, the first scheme
// is the client's. A client that forges the scheme affects only its own cookie.
func (g *Gate) isSecure(r *http.Request) bool {
	if r.TLS != nil {
		return true
	}
	scheme, _, _ := strings.Cut(r.Header.Get("X-Forwarded-Proto"), ",")
	if scheme == "" {
		return false
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && g.trusts(peer.Addr().Unmap()) && strings.EqualFold(strings.TrimSpace(scheme), "https")
}

func (g *Gate) trusts(address netip.Addr) bool {
	return slices.ContainsFunc(g.options.TrustedProxies, func(network netip.Prefix) bool { return network.Contains(address) })
}

// crossOrigin allows web pages of the configured origins to call the API. Without configured origins, browsers block all other sites.
func (g *Gate) crossOrigin(next http.Handler) http.Handler {
	if len(g.options.CORSOrigins) == 0 {
		return next
	}
	return cors.New(cors.Options{
		AllowedOrigins: g.options.CORSOrigins,
		AllowedMethods: []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete},
		AllowedHeaders: []string{"Authorization", "Content-Type", "Accept-Language", "X-Request-Id", contract.IdempotencyHeader},
		ExposedHeaders: []string{"X-Request-Id", "Retry-After"},
		MaxAge:         600,
	}).Handler(next)
}

var errCrossSite = fault.New(fault.Forbidden, fault.RequestCrossSite)

// claimPaths contains the paths where a GET request changes state: it claims tasks.
var claimPaths = []string{"/api/v1/sms/tasks/pending", "/app/api/v1/sms/tasks/pending"}

// refuseOtherSites rejects state-changing requests that a browser sends with stored credentials for a web page of another site, including claims by GET. It
// accepts pages of the configured origins, and clients that are not browsers. Callbacks are exempt, because a browser does not store the credentials of
// providers.
func (g *Gate) refuseOtherSites(next http.Handler) (http.Handler, error) {
	protection := http.NewCrossOriginProtection()
	protection.AddInsecureBypassPattern(contract.Callback)
	for _, origin := range g.options.CORSOrigins {
		if err := protection.AddTrustedOrigin(origin); err != nil {
			return nil, fmt.Errorf("read CORS origins: %w", err)
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		checked, isElsewhere := r, false
		if slices.Contains(claimPaths, r.URL.Path) {
			checked, isElsewhere = new(*r), g.isReferredElsewhere(r)
			checked.Method = http.MethodPost // the library treats every GET as safe
		}
		if isElsewhere || protection.Check(checked) != nil {
			g.Fail(w, r, errCrossSite)
			return
		}
		next.ServeHTTP(w, r)
	}), nil
}

// isReferredElsewhere reports whether the header Referer names a page of another host. Over plain HTTP, a browser sends no other header about the origin of
// a GET request. A page can suppress the Referer, see docs/security.md.
func (g *Gate) isReferredElsewhere(r *http.Request) bool {
	page, err := url.Parse(r.Referer())
	return r.Referer() != "" && (err != nil || page.Host != r.Host && !slices.Contains(g.options.CORSOrigins, page.Scheme+"://"+page.Host))
}

// nothingPolicy is the Content-Security-Policy of API responses. It forbids a browser to load or run anything from such a response.
const nothingPolicy = "default-src 'none'; frame-ancestors 'none'"

// headersOf returns the headers of every response. All responses share these slices: replace a slice, never change it.
func headersOf(options Options) http.Header {
	header := http.Header{}
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Content-Security-Policy", nothingPolicy)
	if options.TLS {
		header.Set("Strict-Transport-Security", "max-age=31536000")
	}
	return header
}
