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
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lksms/internal/app"
	"lksms/internal/testkit/apptest"
)

// writeCertificate writes a self-signed certificate with this serial number.
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

// Editors on Windows write such files.
func TestTLSReadsFilesWithAByteOrderMark(t *testing.T) {
	certFile, keyFile := writeCertificate(t, t.TempDir(), 1)
	for _, file := range []string{certFile, keyFile} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, append([]byte("\uFEFF"), strings.ReplaceAll(string(text), "\n", "\r\n")...), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := app.TLSConfig(certFile, keyFile, slog.New(slog.DiscardHandler)); err != nil {
		t.Error(err)
	}
}

func TestTLSServesAChangedCertificate(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := writeCertificate(t, dir, 1)
	config, err := app.TLSConfig(certFile, keyFile, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	b := apptest.NewWith(t, apptest.DefaultRules, func(o *app.Options) { o.TLS = config })
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stop, served := apptest.ServeUntil(t, b.App, listener)
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
	apptest.Eventually(t, "the new certificate is served", func() bool { return serial() == 2 })
	if err := os.WriteFile(certFile, []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	time.Sleep(1100 * time.Millisecond) // longer than the interval of the server's checks
	if got := serial(); got != 2 {
		t.Errorf("with a broken file the server serves %d, want the last good one", got)
	}
	if got := b.Call("GET", "/health", nil).Header.Get("Strict-Transport-Security"); got == "" {
		t.Error("the answer lacks Strict-Transport-Security")
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if _, err := app.TLSConfig(certFile, keyFile, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "TLS_CERT_FILE") {
		t.Errorf("a broken certificate at the start: %v", err)
	}
}
