package app_test

import (
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"lksms/internal/app"
	"lksms/internal/testkit/apptest"
)

func TestSlowCallersDoNotBlockHealthAndMetrics(t *testing.T) {
	b := apptest.NewWith(t, apptest.DefaultRules, func(o *app.Options) { o.MaxConnections = 20 })
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stop, served := apptest.ServeUntil(t, b.App, listener)
	address := listener.Addr().String()
	// A caller without credentials gets 401 immediately, although its body never comes.
	began := time.Now()
	status, err := apptest.ReadStatus(apptest.DialSlowly(t, address, "POST /api/v1/sms/send-batch HTTP/1.1\r\n"), 4*time.Second)
	if status != 401 {
		t.Fatalf("a caller without credentials: %d %v after %s", status, err, time.Since(began))
	}
	r, _ := http.NewRequest(http.MethodPost, "/", nil)
	r.SetBasicAuth(apptest.Username, apptest.Password)
	head := "POST /api/v1/sms/send HTTP/1.1\r\nAuthorization: " + r.Header.Get("Authorization") + "\r\n"
	slow := make([]net.Conn, 40)
	for i := range slow {
		slow[i] = apptest.DialSlowly(t, address, head)
	}
	// While slow callers use all connections, health and metrics still work. Other requests get 503.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 3 * time.Second}
	get := func(path string) int {
		req, _ := http.NewRequest(http.MethodGet, "http://"+address+path, nil)
		req.SetBasicAuth(apptest.Username, apptest.Password)
		res, err := client.Do(req)
		if err != nil {
			t.Logf("%s: %v", path, err)
			return 0
		}
		defer res.Body.Close()
		return res.StatusCode
	}
	for path, want := range map[string]int{"/health": 200, "/ready": 200, "/metrics": 200, "/api/v1/sms/tasks": 503} {
		if got := get(path); got != want {
			t.Errorf("%s: %d while slow callers hold the connections", path, got)
		}
	}
	if status, err := apptest.ReadStatus(slow[0], 15*time.Second); status != 400 {
		t.Errorf("a slow caller: %d %v", status, err)
	}
	apptest.Eventually(t, "callers are served again", func() bool { return get("/api/v1/sms/tasks") == 200 })
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func TestANewConnectionReplacesAnIdleConnection(t *testing.T) {
	b := apptest.NewWith(t, apptest.DefaultRules, func(o *app.Options) { o.MaxConnections, o.MaxOfAddress = 2, 2 })
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stop, served := apptest.ServeUntil(t, b.App, listener)
	ask := func(conn net.Conn) (int, error) {
		if _, err := io.WriteString(conn, "GET /api/v1/nothing HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			return 0, err
		}
		return apptest.ReadStatus(conn, 10*time.Second)
	}
	var conns []net.Conn
	for range 5 {
		var conn net.Conn
		apptest.Eventually(t, "a connection is served", func() bool { // a connection becomes idle only a moment after its response
			if conn, err = net.Dial("tcp", listener.Addr().String()); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
			got, _ := ask(conn)
			return got == 404
		})
		conns = append(conns, conn)
	}
	if got, err := ask(conns[4]); got != 404 {
		t.Errorf("the last connection: %d %v", got, err)
	}
	open := 0
	for _, conn := range conns {
		if _, err := ask(conn); err == nil {
			open++
		}
	}
	if open > 2 {
		t.Errorf("%d connections are open", open)
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
