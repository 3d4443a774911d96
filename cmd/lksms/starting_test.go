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

	"github.com/jackc/pgx/v5"
)

// startingServer is a server whose migrations wait for a lock, and a client of this server.
type startingServer struct {
	t       *testing.T
	base    string // URL of the server
	address string
	client  *http.Client
	process *process
	serving <-chan string
	tx      pgx.Tx // holds the lock
}

// startingAnswer is the response of a server before it is ready.
type startingAnswer struct {
	status    int
	header    http.Header
	Code      int
	RequestID string `json:"request_id"`
	Error     struct{ Reason string }
}

func (a startingAnswer) isStarting() bool {
	return a.status == 503 && a.Error.Reason == "server.starting"
}

func launchStarting(t *testing.T, scheme string) *startingServer {
	t.Helper()
	databaseURL := pgtest.New(t)
	tx, err := connect(t, databaseURL).Begin(t.Context())
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
	s := &startingServer{
		t: t, base: scheme + "://" + address, address: address, tx: tx,
		client: &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}},
	}
	s.process, s.serving = launch(t, pgtest.Dir(t), nil, port, env...)
	return s
}

func (s *startingServer) call(method, path, body string) (answer startingAnswer, err error) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.base+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.SetBasicAuth("admin", testPassword)
	res, err := s.client.Do(req)
	if err != nil {
		return answer, err
	}
	defer res.Body.Close()
	answer.status, answer.header = res.StatusCode, res.Header
	return answer, json.NewDecoder(res.Body).Decode(&answer)
}

// awaitListening waits until the process listens.
func (s *startingServer) awaitListening() {
	s.t.Helper()
	for {
		answer, err := s.call("GET", "/health", "")
		if err == nil {
			if answer.status != 200 || answer.Code != 200 {
				s.t.Fatalf("/health: %d", answer.status)
			}
			return
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			s.t.Fatal(err)
		}
		select {
		case <-s.process.exited:
			s.t.Fatalf("the server ended: %v", s.process.err)
		default:
		}
	}
}

// A server does not serve requests while its migrations wait.
func TestAServerServesNoRequestsDuringItsMigrations(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"http", "https"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			s := launchStarting(t, scheme)
			s.awaitListening()
			for path, method := range map[string]string{"/ready": "GET", "/api/v1/sms/send": "POST", "/console/": "GET"} {
				answer, err := s.call(method, path, `{"phone_number": "13800138000", "content": "x"}`)
				if err != nil {
					t.Fatal(err)
				}
				if !answer.isStarting() || answer.header.Get("Retry-After") == "" || answer.Code != 503 ||
					answer.RequestID == "" || answer.RequestID != answer.header.Get("X-Request-Id") {
					t.Errorf("%s: %+v", path, answer)
				}
			}

			// A connection that was opened before the server is ready gets its response once the server is ready.
			silent, err := net.Dial("tcp", s.address)
			if err != nil {
				t.Fatal(err)
			}
			defer silent.Close()
			if err := s.tx.Rollback(context.WithoutCancel(t.Context())); err != nil {
				t.Fatal(err)
			}
			for { // until the server is ready, every call must get 503
				answer, err := s.call("GET", "/ready", "")
				if err != nil {
					t.Fatal(err)
				}
				if answer.status == 200 {
					break
				}
				if !answer.isStarting() {
					t.Fatalf("/ready: %+v", answer)
				}
			}
			s.process.await(s.serving)
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
			if err := s.process.stop(syscall.SIGTERM); err != nil {
				t.Error(err)
			}
		})
	}
}
