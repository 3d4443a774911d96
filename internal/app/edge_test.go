package app_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lksms/internal/app"
)

func TestForwardedForIsBelievedFromTrustedProxiesOnly(t *testing.T) {
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
	} {
		t.Run(c.name, func(t *testing.T) {
			b := setupWith(t, defaultRules, func(o *app.Options) {
				for network := range strings.FieldsSeq(c.trusted) {
					o.TrustedProxies = append(o.TrustedProxies, netip.MustParsePrefix(network))
				}
			})
			b.expect(200, "", "POST", "/api/v1/sms/send", map[string]any{"phone_number": phone, "content": "x"}, "X-Forwarded-For", c.forwarded)
			if got := scan[string](b, "SELECT source_ip FROM receive_logs"); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestOtherOriginsAreLetInOnlyWhenConfigured(t *testing.T) {
	const console = "https://console.example.com"
	preflight := []string{"Authorization", "", "Origin", console, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization,content-type"}
	closed := setup(t)
	if a := closed.call("OPTIONS", "/api/v1/sms/send", nil, preflight...); a.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("not configured: %v", a.header)
	}
}

func TestConfiguredOriginsAreLetIn(t *testing.T) {
	const console = "https://console.example.com"
	b := setupWith(t, defaultRules, func(o *app.Options) { o.CORSOrigins = []string{console} })
	preflight := func(origin string) answer {
		return b.call("OPTIONS", "/api/v1/sms/send", nil, "Authorization", "", "Origin", origin,
			"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization,content-type")
	}
	if a := preflight(console); a.header.Get("Access-Control-Allow-Origin") != console || a.status >= 300 {
		t.Errorf("%d %v", a.status, a.header)
	}
	if a := preflight("https://evil.example.com"); a.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("another origin: %v", a.header)
	}
	if a := b.call("GET", "/api/v1/sms/tasks", nil, "Origin", console); a.status != 200 || a.header.Get("Access-Control-Allow-Origin") != console {
		t.Errorf("%d %v", a.status, a.header)
	}
}

func TestHeadersForBrowsers(t *testing.T) {
	b := setup(t)
	for path, policy := range map[string]string{"/docs/": "default-src 'self'", "/api/v1/sms/tasks": "default-src 'none'", "/nothing": "default-src 'none'"} {
		header := b.call("GET", path, nil).header
		if !strings.HasPrefix(header.Get("Content-Security-Policy"), policy) || header.Get("X-Content-Type-Options") != "nosniff" ||
			header.Get("X-Frame-Options") != "DENY" || header.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%s: %v", path, header)
		}
	}
}

func TestBodiesThatNestTooDeep(t *testing.T) {
	b := setup(t)
	for _, body := range []string{
		strings.Repeat("[", 100_000),
		`{"phone_number":` + strings.Repeat(`{"a":`, 33) + "1" + strings.Repeat("}", 34),
	} {
		b.expect(400, "request.too_deep", "POST", "/api/v1/sms/send", body)
		b.expect(400, "request.too_deep", "POST", "/app/api/v1/sms/report", body)
	}
	// Brackets in a text are no nesting.
	b.expect(200, "", "POST", "/api/v1/sms/send", map[string]any{"phone_number": phone, "content": strings.Repeat(`[{\"`, 50)})
}

// writeCertificate makes a self-signed certificate with this serial number.
func writeCertificate(t *testing.T, dir string, serial int64) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, block := range map[string]*pem.Block{
		keyFile: {Type: "PRIVATE KEY", Bytes: private}, certFile: {Type: "CERTIFICATE", Bytes: cert},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}

func TestTLSWithACertificateThatChanges(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := writeCertificate(t, dir, 1)
	config, err := app.TLSConfig(certFile, keyFile, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	b := setupWith(t, defaultRules, func(o *app.Options) { o.TLS = config })
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stop, served := serveUntil(t, b.app, listener)
	serial := func() int64 {
		conn, err := tls.Dial("tcp", listener.Addr().String(), &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	if got := serial(); got != 1 {
		t.Errorf("served %d", got)
	}
	writeCertificate(t, dir, 2)
	eventually(t, "the new certificate is served", func() bool { return serial() == 2 })
	if err := os.WriteFile(certFile, []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	time.Sleep(1100 * time.Millisecond) // past the next look
	if got := serial(); got != 2 {
		t.Errorf("with a broken file it serves %d, want the last good one", got)
	}
	if got := b.call("GET", "/health", nil).header.Get("Strict-Transport-Security"); got == "" {
		t.Error("browsers are not told to insist on TLS")
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if _, err := app.TLSConfig(certFile, keyFile, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "TLS_CERT_FILE") {
		t.Errorf("a first certificate that is broken: %v", err)
	}
}
