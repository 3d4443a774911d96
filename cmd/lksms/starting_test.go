package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"lksms/internal/testkit/pgtest"
)

// A migration that waits keeps the server from serving for as long as it takes.
func TestAServerThatMigratesAnswersThatItIsNotReady(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"http", "https"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			databaseURL := pgtest.New(t)
			holder := connect(t, databaseURL)
			tx, err := holder.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec(t.Context(), "LOCK TABLE schema_migrations IN ACCESS EXCLUSIVE MODE"); err != nil {
				t.Fatal(err)
			}
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			address := listener.Addr().String()
			_, port, _ := net.SplitHostPort(address)
			_ = listener.Close()
			env := []string{"DATABASE_URL=" + databaseURL}
			if scheme == "https" {
				certFile, keyFile := writeCertificate(t)
				env = append(env, "TLS_CERT_FILE="+certFile, "TLS_KEY_FILE="+keyFile)
			}
			p, serving := launch(t, pgtest.Dir(t), nil, port, env...)

			client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
			var answer struct {
				Code      int
				RequestID string `json:"request_id"`
				Error     struct{ Reason string }
			}
			call := func(method, path, body string) (*http.Response, error) {
				req, err := http.NewRequestWithContext(t.Context(), method, scheme+"://"+address+path, strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				req.SetBasicAuth("admin", testPassword)
				res, err := client.Do(req)
				if err != nil {
					return nil, err
				}
				defer res.Body.Close()
				answer.Error.Reason = ""
				return res, json.NewDecoder(res.Body).Decode(&answer)
			}
			for { // until the process listens
				if res, err := call("GET", "/health", ""); err == nil { //nolint:bodyclose // call closes it
					if res.StatusCode != 200 || answer.Code != 200 {
						t.Fatalf("/health: %d", res.StatusCode)
					}
					break
				} else if !errors.Is(err, syscall.ECONNREFUSED) {
					t.Fatal(err)
				}
				select {
				case <-p.exited:
					t.Fatalf("the server ended: %v", p.err)
				default:
				}
			}
			for path, method := range map[string]string{"/ready": "GET", "/api/v1/sms/send": "POST", "/console/": "GET"} {
				res, err := call(method, path, `{"phone_number": "13800138000", "content": "x"}`) //nolint:bodyclose // call closes it
				if err != nil {
					t.Fatal(err)
				}
				if res.StatusCode != 503 || res.Header.Get("Retry-After") == "" || answer.Error.Reason != "server.starting" || answer.Code != 503 ||
					answer.RequestID == "" || answer.RequestID != res.Header.Get("X-Request-Id") {
					t.Errorf("%s: %d %v %+v", path, res.StatusCode, res.Header, answer)
				}
			}

			// A connection from before the server serves is answered by it then.
			silent, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer silent.Close()
			if err := tx.Rollback(context.WithoutCancel(t.Context())); err != nil {
				t.Fatal(err)
			}
			for { // no call gets anything but 503 until the server is ready
				res, err := call("GET", "/ready", "") //nolint:bodyclose // call closes it
				if err != nil {
					t.Fatal(err)
				}
				if res.StatusCode == 200 {
					break
				}
				if res.StatusCode != 503 || answer.Error.Reason != "server.starting" {
					t.Fatalf("/ready: %d %+v", res.StatusCode, answer)
				}
			}
			p.await(serving)
			if scheme == "http" {
				_ = silent.SetDeadline(time.Now().Add(10 * time.Second))
				if _, err := silent.Write([]byte("GET /ready HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
					t.Fatal(err)
				}
				first := make([]byte, 12)
				if n, err := silent.Read(first); err != nil || string(first[:n]) != "HTTP/1.1 200" {
					t.Errorf("got %q, %v", first[:n], err)
				}
			}
			if err := p.stop(syscall.SIGTERM); err != nil {
				t.Error(err)
			}
		})
	}
}
