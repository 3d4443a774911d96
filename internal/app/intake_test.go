package app_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"lksms/internal/app"
)

// countedBody tells how much of it was read.
type countedBody struct {
	io.Reader
	read int
}

func (c *countedBody) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.read += n
	return n, err
}

// send calls the handler itself and tells how much of the body it read.
func (b *testBundle) send(method, path, body string, headers ...string) (w *httptest.ResponseRecorder, read int) {
	b.t.Helper()
	counted := &countedBody{Reader: strings.NewReader(body)}
	r := httptest.NewRequestWithContext(b.t.Context(), method, path, counted)
	r.ContentLength = int64(len(body))
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w = httptest.NewRecorder()
	b.app.Handler.ServeHTTP(w, r)
	return w, counted.read
}

// answered reads the answer in a recorder.
func answered(t *testing.T, w *httptest.ResponseRecorder) answer {
	t.Helper()
	a := answer{status: w.Code, header: w.Header(), raw: w.Body.String()}
	if err := json.Unmarshal(w.Body.Bytes(), &a.body); err != nil {
		t.Fatalf("no envelope: %.500s", w.Body)
	}
	return a
}

func TestNothingOfABodyIsReadBeforeItsCallerAndOperationAreKnown(t *testing.T) {
	b := setup(t)
	large := strings.Repeat(" ", 8<<20)
	admin := basic(username, password)
	for name, c := range map[string]struct {
		method, path string
		headers      []string
		status       int
	}{
		"no credentials":          {"POST", "/api/v1/sms/send-batch", nil, 401},
		"a wrong password":        {"POST", "/api/v1/sms/send-batch", basic(username, "wrong"), 401},
		"a wrong method":          {"PUT", "/api/v1/sms/send-batch", admin, 405},
		"a wrong method, nobody":  {"DELETE", "/api/v1/sms/send-batch", nil, 405},
		"no operation":            {"POST", "/api/v1/sms/nothing", admin, 404},
		"not enough rights":       {"POST", "/api/v1/admin/users", b.user("reader", "read", nil), 403},
		"an operation without":    {"POST", "/api/v1/sms/task/t/cancel", admin, 404},
		"health":                  {"GET", "/health", nil, 200},
		"a length beyond its own": {"POST", "/api/v1/sms/send", admin, 413},
	} {
		w, read := b.send(c.method, c.path, large, c.headers...)
		if w.Code != c.status || read > 2<<20 || c.status != 413 && read > 0 {
			t.Errorf("%s: %d after %d bytes", name, w.Code, read)
		}
	}
}

// A body is refused where its shape says that it can be no good one, however long it is.
func TestABodyOfTooManyValuesIsRefusedAtItsStart(t *testing.T) {
	b := setup(t)
	ones := strings.Repeat("1,", 4<<20-100) + "1"
	var unknown strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&unknown, `"f%d":1,`, i)
	}
	for name, c := range map[string]struct{ path, body, field string }{
		"messages":    {"/api/v1/sms/send-batch", `{"messages":[` + ones + `]}`, "messages"},
		"reports":     {"/api/v1/sms/report-batch", `{"reports":[` + ones + `]}`, "reports"},
		"1001":        {"/api/v1/sms/send-batch", `{"messages":[` + strings.Repeat("{},", 1000) + `{}]}`, "messages"},
		"a list":      {"/api/v1/sms/send", `[` + ones[:500_000] + `1]`, "body"},
		"within":      {"/api/v1/sms/send", `{"a":{"b":[` + ones[:500_000] + `1]}}`, "a.b"},
		"members":     {"/api/v1/sms/send", `{` + unknown.String() + `"x":1}`, "body"},
		"an item's":   {"/api/v1/sms/send-batch", `{"messages":[{` + unknown.String() + `"x":1}]}`, "messages.0"},
		"a long name": {"/api/v1/sms/send", `{"` + strings.Repeat("n", 500_000) + `":1}`, strings.Repeat("n", 199) + "…"},
	} {
		w, read := b.send("POST", c.path, c.body, basic(username, password)...)
		a := answered(t, w)
		if w.Code != 422 || a.fields() != c.field && !strings.Contains(","+a.fields()+",", ","+c.field+",") {
			t.Errorf("%s: %d with the fields %.200q", name, w.Code, a.fields())
		}
		if most := 100_000; name != "a long name" && read > most {
			t.Errorf("%s: refused after %d bytes", name, read)
		}
		if w.Body.Len() > 16<<10 {
			t.Errorf("%s: an answer of %d bytes", name, w.Body.Len())
		}
	}
	if n := b.count("SELECT coalesce(max(pg_column_size(l.*)), 0) FROM receive_logs l"); n > 20<<10 {
		t.Errorf("a row of %d bytes is kept of a refused request", n)
	}
}

func TestAnAnswerNamesAHundredWrongFieldsAtMost(t *testing.T) {
	b := setup(t)
	var fields strings.Builder
	for i := range 400 {
		fmt.Fprintf(&fields, `"f%d":1,`, i)
	}
	item := "{" + fields.String() + `"content":"x"}`
	w, _ := b.send("POST", "/api/v1/sms/send", item, basic(username, password)...)
	if a := answered(t, w); w.Code != 422 || len(a.body.Error.Fields) != 100 {
		t.Errorf("%d with %d fields", w.Code, len(a.body.Error.Fields))
	}
	batch := `{"messages":[` + strings.Repeat(item+",", 39) + item + `]}`
	w, _ = b.send("POST", "/api/v1/sms/send-batch", batch, basic(username, password)...)
	if w.Code != 200 || w.Body.Len() > len(batch) {
		t.Errorf("%d with %d bytes for %d", w.Code, w.Body.Len(), len(batch))
	}
	if n := b.count("SELECT count(*) FROM receive_logs WHERE status_code = 422"); n != 41 {
		t.Errorf("%d refusals are kept", n)
	}
}

// Such answers are cheap, but not by thousands a second: 50 go out at once, and 20 a second.
func TestRejectionsAndAnswersToStrangersArePaced(t *testing.T) {
	b := setup(t)
	tenant := b.company("tenant", 1)
	for what, ask := range map[string]func() answer{
		"a company":  func() answer { return b.call("POST", "/api/v1/sms/send", "{}", tenant...) },
		"a stranger": func() answer { return b.call("GET", "/health", nil, "Authorization", "") },
	} {
		began := time.Now()
		for range 75 {
			ask()
		}
		if took := time.Since(began); took < 500*time.Millisecond {
			t.Errorf("%s got 75 answers in %s", what, took)
		}
	}
}

// slowly opens a connection, sends the head of a request with a body and then nothing of the body.
func slowly(t *testing.T, address, head string) net.Conn {
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

// answerOn reads the answer that comes on a connection within limit, and gives its status.
func answerOn(conn net.Conn, limit time.Duration) (int, error) {
	_ = conn.SetReadDeadline(time.Now().Add(limit))
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, err
}

func TestSlowCallersDoNotHoldTheConnections(t *testing.T) {
	b := setupWith(t, defaultRules, func(o *app.Options) { o.MaxConnections = 20 })
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stop, served := serveUntil(t, b.app, listener)
	address := listener.Addr().String()
	// A caller without credentials gets 401 at once, although its body never comes.
	began := time.Now()
	status, err := answerOn(slowly(t, address, "POST /api/v1/sms/send-batch HTTP/1.1\r\n"), 4*time.Second)
	if status != 401 {
		t.Fatalf("a stranger: %d %v after %s", status, err, time.Since(began))
	}
	r, _ := http.NewRequest(http.MethodPost, "/", nil)
	r.SetBasicAuth(username, password)
	head := "POST /api/v1/sms/send HTTP/1.1\r\nAuthorization: " + r.Header.Get("Authorization") + "\r\n"
	slow := make([]net.Conn, 40)
	for i := range slow {
		slow[i] = slowly(t, address, head)
	}
	// While slow callers hold the connections, health and metrics are served; other requests get 503.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 3 * time.Second}
	get := func(path string) int {
		req, _ := http.NewRequest(http.MethodGet, "http://"+address+path, nil)
		req.SetBasicAuth(username, password)
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
	if status, err := answerOn(slow[0], 15*time.Second); status != 400 {
		t.Errorf("a slow caller: %d %v", status, err)
	}
	eventually(t, "callers are served again", func() bool { return get("/api/v1/sms/tasks") == 200 })
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func TestAnIdleConnectionMakesRoomForANewOne(t *testing.T) {
	b := setupWith(t, defaultRules, func(o *app.Options) { o.MaxConnections, o.MaxOfAddress = 2, 2 })
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stop, served := serveUntil(t, b.app, listener)
	ask := func(conn net.Conn) (int, error) {
		if _, err := io.WriteString(conn, "GET /api/v1/nothing HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			return 0, err
		}
		return answerOn(conn, 10*time.Second)
	}
	var conns []net.Conn
	for range 5 {
		var conn net.Conn
		eventually(t, "a connection is served", func() bool { // which of them are idle the server knows a moment after the answer
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
		t.Errorf("the last: %d %v", got, err)
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
