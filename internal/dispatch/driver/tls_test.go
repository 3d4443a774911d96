package driver_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"lksms/internal/dispatch/driver/provider"
)

var certificate tls.Certificate

// TestMain creates a certificate that this process trusts like a certificate authority of the system.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "lksms-driver-")
	if err != nil {
		panic(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	is := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "lksms"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, is, is, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	certificate = tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	file := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		panic(err)
	}
	if err := os.Setenv("SSL_CERT_FILE", file); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

func TestMailIsSentEncrypted(t *testing.T) {
	t.Parallel()
	message := []provider.Message{{TaskID: "1", Recipient: "a@example.com", Title: "t", Content: "c"}}
	for _, mode := range []string{"starttls", "implicit"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s, config := newMailServerWith(t, &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}, mode == "implicit")
			config["tls"] = mode
			if o := send(t.Context(), makeDriver(t, "email", config), message)[0]; !o.OK || len(s.mails) != 1 {
				t.Errorf("%+v", o)
			}
			config["host"] = "localhost" // the certificate has another name
			if o := send(t.Context(), makeDriver(t, "email", config), message)[0]; !o.Trouble || o.Permanent || o.Unknown {
				t.Errorf("a certificate of another host: %+v", o)
			}
		})
	}
	// A server without encryption receives no mail.
	s, config := newMailServer(t)
	config["tls"] = "starttls"
	if o := send(t.Context(), makeDriver(t, "email", config), message)[0]; o.OK || len(s.mails) > 0 {
		t.Errorf("%+v", o)
	}
}

func TestProvidersAreCalledByTLS(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	if o := send(t.Context(), makeDriver(t, "oa", map[string]any{"url": server.URL, "secret": "s"}), []provider.Message{{TaskID: "1"}})[0]; !o.OK {
		t.Errorf("%+v", o)
	}
}
