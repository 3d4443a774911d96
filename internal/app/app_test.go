package app_test

import (
	"bytes"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/app"
	"lksms/internal/platform/setting"
	"lksms/internal/testkit/apptest"
)

func TestMain(m *testing.M) { apptest.Main(m) }

func TestS0_12_TheServerRunsItsSweeps(t *testing.T) {
	b := apptest.NewWith(t, setting.Rules{MaxRetryCount: 3, ProcessingTimeout: 200 * time.Millisecond}, nil)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stop, served := apptest.ServeUntil(t, b.App, listener)
	id := b.Submit("x")
	b.Claim("gone", 1)
	apptest.Eventually(t, "the lease is recovered", func() bool { return b.Task(id).Status == api.TaskPending })
	stop()
	if err := <-served; err != nil {
		t.Errorf("stop: %v", err)
	}
}

func TestMetricsAreExported(t *testing.T) {
	b := apptest.New(t)
	b.Submit("x")
	b.Submit("y")
	b.Report(b.Claim("app", 1)[0].TaskID, "app", 2, nil)
	b.Expect(422, "request.invalid", "POST", "/api/v1/sms/send", `{}`)
	if _, err := b.App.History.Fold(t.Context()); err != nil {
		t.Fatal(err)
	}
	a := b.Call("GET", "/metrics", nil)
	for _, want := range []string{
		`lksms_http_requests_total{route="POST /api/v1/sms/send",status="200"} 2`,
		`lksms_http_requests_total{route="POST /api/v1/sms/send",status="422"} 1`,
		`lksms_tasks_claimed_total 1`,
		`lksms_reports_total{effect="success"} 1`,
		`lksms_queue_tasks{state="pending_new"} 1`,
		`lksms_queue_oldest_pending_seconds `,
		`lksms_pool_connections{state="max"} `,
		`lksms_task_wait_seconds_count{channel="sms",message_type="notification"} 1`,
		`lksms_task_delivery_seconds_count{channel="sms",message_type="notification"} 1`,
		`lksms_task_delivery_seconds_bucket{channel="sms",message_type="notification",le="60"} 1`,
		`lksms_tasks_finished_total{channel="sms",message_type="notification",outcome="success"} 1`,
		`lksms_tasks_finished_total{channel="sms",message_type="notification",outcome="failed"} 0`,
		`lksms_build_info{go="` + runtime.Version() + `",version="devel"} 1`,
	} {
		if !strings.Contains(a.Raw, want) {
			t.Errorf("/metrics has no %s", want)
		}
	}
}

func TestAServerThatStopsFinishesItsRequests(t *testing.T) {
	b := apptest.New(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stop, served := apptest.ServeUntil(t, b.App, listener)
	b.Expect(200, "", "POST", "/api/v1/admin/default-sms", map[string]any{"phone_number": apptest.Phone, "content": "欢迎"})
	// The server stops while this request waits in the database.
	tx, err := b.DB.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT 1 FROM default_contents FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	answered := make(chan int, 1)
	go func() {
		req, err := http.NewRequest("POST", "http://"+listener.Addr().String()+"/api/v1/sms/send", strings.NewReader(`{"phone_number":"13800138000"}`))
		if err != nil {
			panic(err)
		}
		req.SetBasicAuth(apptest.Username, apptest.Password)
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Error(err)
			answered <- 0
			return
		}
		res.Body.Close()
		answered <- res.StatusCode
	}()
	b.AwaitLockWait()
	// A connection that a client has opened without a request must not delay the stop.
	silent, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	stop()
	apptest.Eventually(t, "the server accepts no more connections", func() bool {
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if status := <-answered; status != 200 {
		t.Errorf("the waiting request got %d", status)
	}
	if err := <-served; err != nil {
		t.Errorf("stop: %v", err)
	}
}

func TestAServerWarnsOfAUserWithTheNameOfItsAdmin(t *testing.T) {
	b := apptest.New(t)
	for _, isThere := range []bool{false, true} {
		if isThere {
			b.Exec("INSERT INTO users (username, role, password_hash, company_id) VALUES ($1, 'read', '', 1)", apptest.Username)
		}
		var log bytes.Buffer
		options := b.Options
		options.Log = slog.New(slog.NewTextHandler(&log, nil))
		second, err := app.New(t.Context(), options)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(second.Close)
		if got := strings.Contains(log.String(), "has the name of the configured admin"); got != isThere {
			t.Errorf("a warning: %v, a user: %v", got, isThere)
		}
	}
}
