package app

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"lksms/internal/platform/bom"
)

// certificateCheck is the minimum time between two checks whether the files have changed.
const certificateCheck = time.Second

// TLSConfig returns a configuration that serves the certificate in two files. If the files change, it reads them again. If the changed files cannot be read,
// it logs the error and serves the previous certificate. TLSConfig returns an error if the first certificate cannot be read.
func TLSConfig(certFile, keyFile string, log *slog.Logger) (*tls.Config, error) {
	c := &certificate{certFile: certFile, keyFile: keyFile, log: log}
	if err := c.load(); err != nil {
		return nil, fmt.Errorf("TLS_CERT_FILE, TLS_KEY_FILE: %w", err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.get}, nil
}

type certificate struct {
	certFile, keyFile string
	log               *slog.Logger

	mu      sync.Mutex
	current *tls.Certificate
	changed [2]time.Time
	checked time.Time
}

func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.checked) >= certificateCheck {
		if err := c.load(); err != nil {
			c.log.Error("changed certificate could not be read: the previous one is served", "error", err)
		}
	}
	return c.current, nil
}

func (c *certificate) load() error {
	c.checked = time.Now()
	var changed [2]time.Time
	var texts [2][]byte
	files := [2]string{c.certFile, c.keyFile}
	for i, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			return err
		}
		changed[i] = info.ModTime()
	}
	if changed == c.changed {
		return nil
	}
	for i, file := range files {
		text, err := os.ReadFile(file) //nolint:gosec // the path comes from the operator's configuration
		if err != nil {
			return err
		}
		texts[i] = bom.Decode(text) // a byte order mark would hide the first certificate
	}
	pair, err := tls.X509KeyPair(texts[0], texts[1])
	if err != nil {
		return err
	}
	c.current, c.changed = &pair, changed
	return nil
}
