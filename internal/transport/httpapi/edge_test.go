package httpapi_test

import (
	"net/netip"
	"strings"
	"testing"

	"lksms/internal/app"
	"lksms/internal/testkit/apptest"
)

func TestForwardedForIsTrustedOnlyFromProxies(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, trusted, forwarded, want string
	}{
		{"nobody is trusted", "", "203.0.113.7", "127.0.0.1"},
		{"somebody else is trusted", "10.0.0.0/8", "203.0.113.7", "127.0.0.1"},
		{"a trusted proxy", "127.0.0.0/8", "203.0.113.7", "203.0.113.7"},
		{"two of them", "127.0.0.0/8 10.0.0.0/8", "203.0.113.7, 10.1.2.3", "203.0.113.7"},
		{"what the client wrote before it", "127.0.0.0/8", "1.2.3.4, 203.0.113.7", "203.0.113.7"},
		{"nothing but proxies", "127.0.0.0/8 10.0.0.0/8", "10.1.2.3", "10.1.2.3"},
		{"no address", "127.0.0.0/8", "unknown", "127.0.0.1"},
		{"none at all", "127.0.0.0/8", "", "127.0.0.1"},
		{"version 6", "127.0.0.0/8", "2001:db8::1", "2001:db8::1"},
		{"with a port", "127.0.0.0/8", "203.0.113.7:52311", "203.0.113.7"},
		{"version 6 in brackets", "127.0.0.0/8", "[2001:db8::1]", "2001:db8::1"},
		{"version 6 with a port", "127.0.0.0/8 10.0.0.0/8", `"[2001:db8::1]:443", 10.0.0.1:80`, "2001:db8::1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := apptest.NewWith(t, apptest.DefaultRules, func(o *app.Options) {
				for network := range strings.FieldsSeq(c.trusted) {
					o.TrustedProxies = append(o.TrustedProxies, netip.MustParsePrefix(network))
				}
			})
			b.Expect(200, "", "POST", "/api/v1/sms/send", map[string]any{"phone_number": apptest.Phone, "content": "x"}, "X-Forwarded-For", c.forwarded)
			if got := apptest.Scan[string](b, "SELECT source_ip FROM receive_logs"); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestOtherOriginsAreRejectedUnlessConfigured(t *testing.T) {
	const console = "https://console.example.com"
	preflight := []string{"Authorization", "", "Origin", console, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization,content-type"}
	closed := apptest.New(t)
	if a := closed.Call("OPTIONS", "/api/v1/sms/send", nil, preflight...); a.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("not configured: %v", a.Header)
	}
}

func TestConfiguredOriginsAreAccepted(t *testing.T) {
	const console = "https://console.example.com"
	b := apptest.NewWith(t, apptest.DefaultRules, func(o *app.Options) { o.CORSOrigins = []string{console} })
	preflight := func(origin string) apptest.Answer {
		return b.Call("OPTIONS", "/api/v1/sms/send", nil, "Authorization", "", "Origin", origin,
			"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization,content-type")
	}
	if a := preflight(console); a.Header.Get("Access-Control-Allow-Origin") != console || a.Status >= 300 {
		t.Errorf("%d %v", a.Status, a.Header)
	}
	if a := preflight("https://evil.example.com"); a.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("another origin: %v", a.Header)
	}
	if a := b.Call("GET", "/api/v1/sms/tasks", nil, "Origin", console); a.Status != 200 || a.Header.Get("Access-Control-Allow-Origin") != console {
		t.Errorf("%d %v", a.Status, a.Header)
	}
}

func TestResponsesContainSecurityHeaders(t *testing.T) {
	b := apptest.New(t)
	for path, policy := range map[string]string{
		"/docs/": "default-src 'self'", "/console/": "default-src 'none'; script-src 'self';", "/console/senders/a.b": "default-src 'none'; script-src 'self';",
		"/api/v1/sms/tasks": "default-src 'none'", "/nothing": "default-src 'none'",
	} {
		header := b.Call("GET", path, nil).Header
		if !strings.HasPrefix(header.Get("Content-Security-Policy"), policy) || header.Get("X-Content-Type-Options") != "nosniff" ||
			header.Get("X-Frame-Options") != "DENY" || header.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%s: %v", path, header)
		}
	}
}

func TestTooDeeplyNestedBodyIsRejected(t *testing.T) {
	b := apptest.New(t)
	for _, body := range []string{
		strings.Repeat("[", 100_000),
		`{"phone_number":` + strings.Repeat(`{"a":`, 33) + "1" + strings.Repeat("}", 34),
	} {
		b.Expect(400, "request.too_deep", "POST", "/api/v1/sms/send", body)
		b.Expect(400, "request.too_deep", "POST", "/app/api/v1/sms/report", body)
	}
	// Brackets in a text do not count.
	b.Expect(200, "", "POST", "/api/v1/sms/send", map[string]any{"phone_number": apptest.Phone, "content": strings.Repeat(`[{\"`, 50)})
}
