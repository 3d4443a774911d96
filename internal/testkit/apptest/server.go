package apptest

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"lksms/internal/app"
	"lksms/internal/testkit/pgtest"
)

// NewWithClock works like New with a database whose clock the test moves. See pgtest.NewWithClock.
func NewWithClock(t *testing.T) *Bundle {
	t.Helper()
	return NewWith(t, DefaultRules, func(o *app.Options) { o.DatabaseURL = pgtest.NewWithClock(t) })
}

// countedBody is a body that counts the bytes that were read.
type countedBody struct {
	io.Reader
	read int
}

func (c *countedBody) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.read += n
	return n, err
}

// Serve calls the handler without a connection. It returns the response, and the number of bytes of the body that the handler read.
func (b *Bundle) Serve(method, path, body string, headers ...string) (w *httptest.ResponseRecorder, read int) {
	b.T.Helper()
	counted := &countedBody{Reader: strings.NewReader(body)}
	r := httptest.NewRequestWithContext(b.T.Context(), method, path, counted)
	r.ContentLength = int64(len(body))
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w = httptest.NewRecorder()
	b.App.Handler.ServeHTTP(w, r)
	return w, counted.read
}

// DialSlowly opens a connection and sends only the head of a request and the first byte of its body.
func DialSlowly(t *testing.T, address, head string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, head+"Host: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"); err != nil {
		t.Fatal(err)
	}
	return conn
}

// ReadStatus reads a response from a connection within limit, and returns its status.
func ReadStatus(conn net.Conn, limit time.Duration) (int, error) {
	_ = conn.SetReadDeadline(time.Now().Add(limit))
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, err
}

// Another creates a second server on the same database. The server does not listen or sweep yet.
func Another(b *Bundle) *app.App {
	b.T.Helper()
	options := b.Options
	options.Log = slog.New(slog.DiscardHandler)
	second, err := app.New(b.T.Context(), options)
	if err != nil {
		b.T.Fatal(err)
	}
	b.T.Cleanup(second.Close)
	return second
}

// ServeUntil serves on listener until stop is called. Afterwards served contains the error of Serve.
func ServeUntil(t *testing.T, a *app.App, listener net.Listener) (stop func(), served <-chan error) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Serve(ctx, listener) }()
	return cancel, done
}
