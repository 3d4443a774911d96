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

// clientIP returns the address of the client: the peer, or, if the peer is a trusted proxy, the last address in X-Forwarded-For
// that is not a trusted proxy. A client can forge the addresses before it.
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

// hopAddress reads an address as proxies write it: alone, with a port, or, of IPv6, in brackets.
func hopAddress(hop string) (netip.Addr, bool) {
	hop = strings.Trim(strings.TrimSpace(hop), `"`)
	if with, err := netip.ParseAddrPort(hop); err == nil {
		return with.Addr().Unmap(), true
	}
	address, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(hop, "["), "]"))
	return address.Unmap(), err == nil
}

// isSecure reports whether the client speaks TLS with this server, or with a trusted proxy in front of it. Of several schemes, the first is that of the
// client. A client that forges it changes only its own cookie.
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

// crossOrigin lets web pages of the configured origins call the API. Without configured origins, browsers block all other sites.
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

// claimPaths are the paths where a GET changes state: it claims tasks.
var claimPaths = []string{"/api/v1/sms/tasks/pending", "/app/api/v1/sms/tasks/pending"}

// refuseOtherSites rejects requests that a web page of another site makes a browser send with remembered credentials, if they can
// change state. Claims by GET are such requests. Pages of the configured origins and clients other than browsers are allowed.
// Callbacks are exempt: their proof is not a credential that a browser remembers.
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
			checked.Method = http.MethodPost // the library considers every GET safe
		}
		if isElsewhere || protection.Check(checked) != nil {
			g.Fail(w, r, errCrossSite)
			return
		}
		next.ServeHTTP(w, r)
	}), nil
}

// isReferredElsewhere reports whether a page of another host made a browser send the request. Over plain HTTP the Referer is all that
// a browser sends about the origin of a GET, and a page can suppress it: see docs/security.md.
func (g *Gate) isReferredElsewhere(r *http.Request) bool {
	page, err := url.Parse(r.Referer())
	return r.Referer() != "" && (err != nil || page.Host != r.Host && !slices.Contains(g.options.CORSOrigins, page.Scheme+"://"+page.Host))
}

// nothingPolicy is the Content-Security-Policy of answers of the API: a browser renders nothing of them.
const nothingPolicy = "default-src 'none'; frame-ancestors 'none'"

// headersOf returns the headers of every answer. The answers share their values: set other values, never change these.
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
