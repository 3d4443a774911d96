package sender

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lksms/client"
	api "lksms/gen/client"
)

// answering returns a client of a server that returns these statuses in order, and then success. An error has an HTML page instead of JSON, like an error of
// a proxy.
func answering(t *testing.T, asked *atomic.Int64, statuses ...int) *client.Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if n := int(asked.Add(1)); n <= len(statuses) {
			w.WriteHeader(statuses[n-1])
			io.WriteString(w, "<html>the page of a proxy")
			return
		}
		io.WriteString(w, `{"code":200,"message":"ok","data":{}}`)
	}))
	t.Cleanup(server.Close)
	c, err := client.New(server.URL, client.Key("k"), client.WithRetries(0), client.WithHTTPClient(&http.Client{Transport: &http.Transport{}}))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// refusing returns a client of a server that rejects calls like LKSMS. The server returns these statuses in order, and repeats the last status. Status 200
// accepts the report.
func refusing(t *testing.T, asked *atomic.Int64, statuses ...int) *client.Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		status := statuses[min(int(asked.Add(1)), len(statuses))-1]
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"code":%d,"message":"m","data":{},"error":{"reason":"r"}}`, status)
	}))
	t.Cleanup(server.Close)
	c, err := client.New(server.URL, client.Key("k"), client.WithRetries(0), client.WithHTTPClient(&http.Client{Transport: &http.Transport{}}))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The attempts are made at 0, 1, 3 and 7 seconds. The lease has ended before the first attempt.
func TestASuccessIsReportedAfterTheEndOfItsLease(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		status api.ReportStatus
		stops  bool
		lost   bool
	}{
		"success":             {client.ReportSuccess, false, false},
		"success at the stop": {client.ReportSuccess, true, true},
		"failure":             {client.ReportFailed, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int64
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			if one.stops {
				stop()
			}
			r := &scriptRunner{client: answering(t, &asked, 404, 200, 503), log: slog.New(slog.DiscardHandler), life: t.Context()}
			err := r.report(ctx, client.Report{TaskID: "task_1", LeaseID: new(int64(1)), Status: one.status}, time.Now().Add(-time.Minute))
			if (err != nil) != one.lost {
				t.Errorf("%v after %d attempts", err, asked.Load())
			}
		})
	}
}

// With one slot, a report that the server never accepts would block all other messages.
func TestAnUnacceptedSuccessIsGivenUpAnHourAfterItsLease(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	life, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	r := &scriptRunner{client: refusing(t, &asked, 500), log: slog.New(slog.DiscardHandler), life: life}
	err := r.report(t.Context(), client.Report{TaskID: "task_1", LeaseID: new(int64(1)), Status: client.ReportSuccess}, time.Now().Add(-time.Hour))
	if err == nil || !strings.HasPrefix(err.Error(), "given up 1h0m0s after the end of its lease: 500 r") || asked.Load() < 2 {
		t.Errorf("%v after %d attempts", err, asked.Load())
	}
}

// The credentials can be invalid for a minute, while a key is replaced or a user is disabled. A dropped report would let the message be sent again.
func TestAReportIsRepeatedWhileTheCredentialsAreRejected(t *testing.T) {
	t.Parallel()
	for _, refusal := range []int{http.StatusUnauthorized, http.StatusForbidden} {
		for left, want := range map[time.Duration]int64{time.Minute: 2, -time.Minute: 1} {
			for _, status := range []api.ReportStatus{client.ReportSuccess, client.ReportFailed} {
				var asked atomic.Int64
				r := &scriptRunner{client: refusing(t, &asked, refusal, 200), log: slog.New(slog.DiscardHandler), life: t.Context()}
				err := r.report(t.Context(), client.Report{TaskID: "task_1", LeaseID: new(int64(1)), Status: status}, time.Now().Add(left))
				if (err == nil) != (left > 0) || asked.Load() != want {
					t.Errorf("%d with %s left: %v after %d attempts", refusal, left, err, asked.Load())
				}
			}
		}
	}
	var asked atomic.Int64
	r := &scriptRunner{client: refusing(t, &asked, http.StatusConflict), log: slog.New(slog.DiscardHandler), life: t.Context()}
	err := r.report(t.Context(), client.Report{TaskID: "task_1", LeaseID: new(int64(1)), Status: client.ReportSuccess}, time.Now().Add(time.Minute))
	if err == nil || asked.Load() != 1 {
		t.Errorf("the lease is another's: %v after %d attempts", err, asked.Load())
	}
}

func TestAScriptThatCannotRunIsNotStartedAgain(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	r := &scriptRunner{
		client: answering(t, &asked), log: slog.New(slog.DiscardHandler), life: t.Context(), limit: time.Minute,
		script: script{path: "/bin/sh", args: []string{"-c", "exit 0"}},
	}
	r.broken.Store(new(errors.New("it does not work")))
	r.send(t.Context(), client.ClaimedTask{TaskID: "task_1", LeaseID: 1, LeaseUntil: time.Now().Add(time.Hour)})
	if r.sent.Load() != 0 || r.retried.Load() != 1 || asked.Load() != 1 {
		t.Errorf("sent %d, to be tried again %d, reports %d", r.sent.Load(), r.retried.Load(), asked.Load())
	}
}

func TestNoScriptIsStartedForAMessageThatExpired(t *testing.T) {
	t.Parallel()
	reported := make(chan map[string]any, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body map[string]any
		_ = json.NewDecoder(r.Body).Decode(&body)
		reported <- body
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"code":200,"message":"success","data":{}}`)
	}))
	t.Cleanup(server.Close)
	caller, err := client.New(server.URL, client.Key("k"))
	if err != nil {
		t.Fatal(err)
	}
	started := filepath.Join(t.TempDir(), "started")
	late := scriptRunner{
		client: caller, script: script{"/bin/sh", []string{"-c", "touch " + started}}, limit: time.Minute, log: slog.New(slog.DiscardHandler),
		slots: make(chan struct{}, 1), life: t.Context(),
	}
	past := time.Now().Add(-time.Second)
	if err := late.send(t.Context(), client.ClaimedTask{TaskID: "task_1", LeaseID: 1, Attempt: 1, LeaseUntil: past, ExpiresAt: &past}); err != nil {
		t.Error(err)
	}
	if body := <-reported; body["status"] != 3.0 || body["should_retry"] != true {
		t.Errorf("reported %v", body)
	}
	if _, err := os.Stat(started); err == nil {
		t.Error("the script was started")
	}
}

func TestAScriptThatCanBeRunIsFound(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "good.sh")
	if err := os.WriteFile(path, []byte("#!\t/usr/bin/env sh\nexit 0\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := findProgram(path); err != nil {
		t.Error(err)
	}
}
