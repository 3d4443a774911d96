package insight_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/app"
	"lksms/internal/platform/optional"
	"lksms/internal/testkit/apptest"
)

func TestMain(m *testing.M) { apptest.Main(m) }

// events is an open stream of events.
type events struct {
	t    *testing.T
	from *bufio.Scanner
	res  *http.Response
}

// openStream opens the stream of a server for a caller.
func openStream(t *testing.T, url string, headers ...string) *events {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/api/v1/admin/stream", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth(apptest.Username, apptest.Password)
	for i := 0; i < len(headers); i += 2 {
		if req.Header.Del(headers[i]); headers[i+1] != "" {
			req.Header.Set(headers[i], headers[i+1])
		}
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	if res.StatusCode != http.StatusOK {
		t.Fatalf("the stream: %d", res.StatusCode)
	}
	return &events{t, bufio.NewScanner(res.Body), res}
}

// next returns the name and data of the next event. Both are empty at the end of the stream.
func (e *events) next() (name, data string) {
	e.t.Helper()
	for e.from.Scan() {
		line := e.from.Text()
		switch {
		case strings.HasPrefix(line, "event: "):
			name = line[len("event: "):]
		case strings.HasPrefix(line, "data: "):
			data = line[len("data: "):]
		case line == "" && name != "":
			return name, data
		}
	}
	return "", ""
}

// overview returns the data of the next event, which must be an overview.
func (e *events) overview() (figures api.Overview) {
	e.t.Helper()
	name, data := e.next()
	if err := json.Unmarshal([]byte(data), &figures); name != "overview" || err != nil {
		e.t.Fatalf("the event %q with %q: %v", name, data, err)
	}
	return figures
}

// bye returns the reason in the last event of a stream that the server ends.
func (e *events) bye() string {
	e.t.Helper()
	for {
		name, data := e.next()
		if name == "overview" {
			continue
		}
		if name, _ := e.next(); name != "" {
			e.t.Errorf("after the end: %s", name)
		}
		return name + " " + data
	}
}

func TestOverviewShowsCurrentFigures(t *testing.T) {
	w := apptest.NewTwoCompanies(t)
	get := func(headers ...string) api.Overview {
		t.Helper()
		return apptest.Decode[api.Overview](t, w.Expect(200, "", "GET", "/api/v1/admin/overview", nil, headers...))
	}
	w.Exec("INSERT INTO alerts (rule_id, kind, level, subject, value, fired_at) VALUES (1, 'wait_time', 'warning', 'sms', 1, now())")
	all, own := get(), get(w.Reader...)
	counts := func(headers ...string) api.Statistics {
		return apptest.Decode[api.Statistics](t, w.Expect(200, "", "GET", "/api/v1/admin/task-statistics", nil, headers...))
	}
	for name, c := range map[string]struct {
		got  api.Overview
		want api.Statistics
		no   string
	}{"all": {all, counts(), ""}, "acme": {own, counts(w.Reader...), "acme"}} {
		g, s := c.got.Tasks, c.want
		if g.PendingNew != s.PendingNewTasks || g.PendingRetry != s.PendingRetryTasks || g.Processing != s.ProcessingTasks || g.Success != s.SuccessTasks || g.Failed != s.FailedTasks {
			t.Errorf("%s: %+v, want %+v", name, g, s)
		}
		if optional.Value(c.got.CompanyNo) != c.no || c.got.Rates.In != nil {
			t.Errorf("%s: %+v", name, c.got)
		}
	}
	if all.FiringAlerts == nil || *all.FiringAlerts != 1 || own.FiringAlerts != nil {
		t.Errorf("firing alerts %v and %v", all.FiringAlerts, own.FiringAlerts)
	}
	// A user with the role submit can read only its own tasks, so the overview of its company is forbidden.
	submitter := w.AddUser("submitter", "submit", map[string]any{"company_no": "acme"})
	for _, path := range []string{"/api/v1/admin/overview", "/api/v1/admin/stream?seconds=0"} {
		w.Expect(403, "auth.forbidden", "GET", path, nil, submitter...)
	}
	// A company can read only the senders of its routes.
	if own.Senders.Ready+own.Senders.NotReady != 2 || all.Senders.Ready+all.Senders.NotReady < 3 {
		t.Errorf("senders of acme %+v, of all %+v", own.Senders, all.Senders)
	}
}

func TestOverviewShowsRatesAndLongestWait(t *testing.T) {
	b := apptest.New(t)
	from := openStream(t, b.URL)
	if first := from.overview(); first.Rates.In != nil || first.OldestWaitSeconds != nil {
		t.Errorf("at first %+v", first)
	}
	done, failed := b.Submit("x"), b.Submit("x")
	b.Submit("x")
	for range 3 { // a cancelled task was also submitted
		b.Expect(200, "", "POST", "/api/v1/sms/task/"+b.SubmitBody(map[string]any{"phone_number": apptest.Phone, "content": "x", "expect_send_time": time.Now().Add(time.Hour)}).TaskID+"/cancel", nil)
	}
	b.Expect(200, "", "GET", "/api/v1/sms/tasks/pending?app_id=a&limit=2", nil)
	b.Expect(200, "", "POST", "/api/v1/sms/report", map[string]any{"task_id": done, "app_id": "a", "status": 2})
	b.Exec("UPDATE queue SET due_at = due_at - interval '1 minute'")
	var now api.Overview
	for now.Tasks.Success == 0 {
		now = from.overview()
	}
	if in := math.Round(*now.Rates.In / *now.Rates.Out); in != 6 || *now.Rates.In > 6 || *now.Rates.Out <= 0 || *now.Rates.Out > 1 || *now.Rates.Failed != 0 {
		t.Errorf("rates %v %v %v", *now.Rates.In, *now.Rates.Out, *now.Rates.Failed)
	}
	if now.OldestWaitSeconds == nil || *now.OldestWaitSeconds < 60 || *now.OldestWaitSeconds > 120 {
		t.Errorf("the longest wait %v", now.OldestWaitSeconds)
	}
	if now.Tasks.PendingNew != 1 || now.Tasks.Processing != 1 {
		t.Errorf("%+v, and %s", now.Tasks, failed)
	}
	// A company without waiting tasks has no longest wait.
	b.AddCompany("other", 1)
	other := b.AddUser("other", "read", map[string]any{"company_no": "other"})
	for headers, isNone := range map[*[]string]bool{&other: true, new(b.AddUser("default", "read", map[string]any{"company_no": "default"})): false} {
		o := apptest.Decode[api.Overview](t, b.Expect(200, "", "GET", "/api/v1/admin/overview", nil, *headers...))
		if (o.OldestWaitSeconds == nil) != isNone {
			t.Errorf("the longest wait of %s: %v", optional.Value(o.CompanyNo), o.OldestWaitSeconds)
		}
	}
	// After a requeue, the task is no longer counted in tasks.failed, but its failure still counts in rates.failed.
	b.Expect(200, "", "POST", "/api/v1/sms/report", map[string]any{"task_id": failed, "app_id": "a", "status": 3})
	for now.Tasks.Failed == 0 {
		now = from.overview()
	}
	b.Expect(200, "", "POST", "/api/v1/sms/task/"+failed+"/requeue", `{}`)
	for now.Tasks.Failed > 0 {
		now = from.overview()
	}
	if *now.Rates.Failed <= 0 {
		t.Errorf("failures: %v a second", *now.Rates.Failed)
	}
}

func TestOverviewShowsReasonOfUnreadySender(t *testing.T) {
	b := apptest.New(t)
	for _, sender := range []string{"ready", "paused", "no_quota", "no_funds", "silent", "never", "off"} {
		b.Expect(200, "", "POST", "/api/v1/admin/senders", map[string]any{"sender_no": sender, "name": "Sender " + sender})
	}
	b.Exec("UPDATE sender_states SET seen_at = now()")
	at := func(sender, change string) {
		b.Exec("UPDATE sender_states SET "+change+" WHERE sender_id = (SELECT id FROM senders WHERE sender_no = $1)", sender)
	}
	at("paused", "rest_until = now() + interval '1 minute'")
	at("no_quota", "minute_used = 1, last_taken_at = now()")
	b.Exec("UPDATE senders SET per_day = 1 WHERE sender_no = 'no_quota'")
	at("no_quota", "day_used = 1, last_taken_at = now()")
	b.Exec("UPDATE senders SET has_balance = true WHERE sender_no = 'no_funds'")
	at("silent", "seen_at = now() - interval '12 minutes'")
	at("never", "seen_at = NULL")
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/off", `{"status":"off"}`)
	// If a sender has no route that is on, its polls are recorded less often. So two minutes after the last recorded poll, routed counts as silent, but
	// idle does not.
	for sender, status := range map[string]string{"idle": "off", "routed": "on"} {
		b.AddSender(map[string]any{"sender_no": sender, "name": "Sender " + sender})
		b.Expect(200, "", "PATCH", fmt.Sprint("/api/v1/admin/routes/", b.AddRoute("default", sender, 1).RouteNo), map[string]any{"status": status})
		at(sender, "seen_at = now() - interval '2 minutes'")
	}
	got := apptest.Decode[api.Overview](t, b.Expect(200, "", "GET", "/api/v1/admin/overview", nil))
	var reasons []string
	for _, s := range got.SendersNotReady {
		if s.Name != "Sender "+s.SenderNo {
			t.Errorf("%+v", s)
		}
		reasons = append(reasons, s.SenderNo+" "+string(s.Reason))
	}
	if want := "[never silent no_funds no_funds no_quota no_quota paused paused routed silent silent silent]"; fmt.Sprint(reasons) != want || got.Senders.Ready != 2 || got.Senders.NotReady != 6 {
		t.Errorf("%v, want %s; %+v", reasons, want, got.Senders)
	}
}

// The overview names the switches that hold messages. A company can read only the figures of its own messages.
func TestOverviewNamesSwitchesThatHoldMessages(t *testing.T) {
	b := apptest.New(t)
	users := map[string][]string{}
	for no, n := range map[string]int{"acme": 2, "other": 1, "open": 1} {
		users[no] = b.AddCompany(no, 1)
		b.SubmitMany(no, n, nil, users[no]...)
	}
	reader := b.AddUser("reader-of-acme", "read", map[string]any{"company_no": "acme"})
	for _, no := range []string{"acme", "other"} {
		b.Expect(200, "", "PATCH", "/api/v1/admin/companies/"+no, map[string]any{"status": "off"})
	}
	for want, headers := range map[string][]string{"company acme 2, company other 1": nil, "company acme 2": reader} {
		var got []string
		for _, one := range *apptest.Decode[api.Overview](t, b.Expect(200, "", "GET", "/api/v1/admin/overview", nil, headers...)).HeldBy {
			got = append(got, fmt.Sprint(one.By.Switch, " ", one.By.Name, " ", one.Tasks))
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%v, want %s", got, want)
		}
	}
}

func TestOverviewNamesAtMost20UnreadySenders(t *testing.T) {
	b := apptest.New(t)
	b.Exec("INSERT INTO senders (sender_no, name) SELECT 's' || n, 'n' FROM generate_series(1, 30) n")
	b.Exec("INSERT INTO sender_states (sender_id, seen_at) SELECT id, CASE WHEN sender_no IN ('s1', 's2', 's3') THEN now() END FROM senders")
	got := apptest.Decode[api.Overview](t, b.Expect(200, "", "GET", "/api/v1/admin/overview", nil))
	if got.Senders.Ready != 3 || got.Senders.NotReady != 27 || len(got.SendersNotReady) != 20 {
		t.Errorf("%+v and %d", got.Senders, len(got.SendersNotReady))
	}
}

// signIn signs in from a page and returns the headers for further requests.
func signIn(b *apptest.Bundle, username, password string) []string {
	b.T.Helper()
	page := []string{"Authorization", "", "Sec-Fetch-Site", "same-origin", "X-Requested-With", "console"}
	a := b.Expect(200, "", "POST", "/api/v1/session", map[string]string{"username": username, "password": password}, page...)
	cookie, err := http.ParseSetCookie(a.Header.Get("Set-Cookie"))
	if err != nil {
		b.T.Fatal(err)
	}
	return append(page, "Cookie", cookie.Name+"="+cookie.Value)
}

// A stream must not send figures to a user that has lost the permission to see them.
func TestStreamEndsWithSession(t *testing.T) {
	b := apptest.New(t)
	second := apptest.Another(b)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stop, served := apptest.ServeUntil(t, second, listener)
	defer func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	urls := []string{b.URL, "http://" + listener.Addr().String()}
	b.AddUser("user", "read", map[string]any{"company_no": "default"})
	b.AddCompany("acme", 1)
	for name, end := range map[string]func(as []string){
		"signed out":            func(as []string) { b.Expect(200, "", "DELETE", "/api/v1/session", nil, as...) },
		"signed out everywhere": func(as []string) { b.Expect(200, "", "DELETE", "/api/v1/session?everywhere=true", nil, as...) },
		"another role":          func([]string) { b.Expect(200, "", "PATCH", "/api/v1/admin/users/user", `{"role":"submit"}`) },
		"another company":       func([]string) { b.Expect(200, "", "PATCH", "/api/v1/admin/users/user", `{"company_no":"acme"}`) },
		"idle":                  func([]string) { b.Exec("UPDATE sessions SET last_seen_at = now() - interval '9 hours'") },
	} {
		as := signIn(b, "user", apptest.UserPassword)
		streams := []*events{openStream(t, urls[0], as...), openStream(t, urls[1], as...)}
		for _, s := range streams {
			if got := s.overview(); optional.Value(got.CompanyNo) != "default" {
				t.Errorf("figures of %v", got.CompanyNo)
			}
		}
		end(as)
		for _, s := range streams {
			if got := s.bye(); got != `bye {"reason":"access"}` {
				t.Errorf("%s: %s", name, got)
			}
		}
		b.Expect(200, "", "PATCH", "/api/v1/admin/users/user", `{"role":"read","company_no":"default"}`)
	}
	byBasic := openStream(t, b.URL, apptest.Basic("user", apptest.UserPassword)...)
	byBasic.overview()
	b.Expect(200, "", "PATCH", "/api/v1/admin/users/user", `{"is_disabled":true}`)
	if got := byBasic.bye(); got != `bye {"reason":"access"}` {
		t.Errorf("by Basic: %s", got)
	}
}

// Without a stream, a request ends after 15 seconds, and an idle connection is closed after 30 seconds.
func TestStreamOutlivesRequestTimeouts(t *testing.T) {
	b := apptest.New(t)
	a := b.Expect(200, "", "GET", "/api/v1/admin/stream?seconds=18", nil)
	if !strings.HasSuffix(a.Raw, "event: bye\ndata: {\"reason\":\"over\"}\n\n") || !strings.Contains(a.Raw, "\n\nevent: ping\ndata: {\"current\":true}\n\n") || strings.Count(a.Raw, "event: overview") > 3 {
		t.Errorf("the stream %s", a.Raw)
	}
	if metrics := b.Call("GET", "/metrics", nil).Raw; strings.Contains(metrics, `lksms_http_request_seconds_count{route="GET /api/v1/admin/stream"}`) ||
		!strings.Contains(metrics, `lksms_http_requests_total{route="GET /api/v1/admin/stream",status="200"} 1`) {
		t.Error("the time of a stream is counted, or the stream is not")
	}
}

// Streams neither delay the shutdown of a server nor use up the connections of requests.
func TestStreamsUseNoConnectionsOfRequestsAndEndWithServer(t *testing.T) {
	b := apptest.NewWith(t, apptest.DefaultRules, func(o *app.Options) { o.MaxConnections = 40 })
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stop, served := apptest.ServeUntil(t, b.App, listener)
	url := "http://" + listener.Addr().String()
	b.URL = url
	company := b.AddUser("user", "read", map[string]any{"company_no": "default"})
	var streams []*events
	for n := range 10 { // half of the streams belong to a company, half to an admin
		s := openStream(t, url, [][]string{nil, company}[n%2]...)
		s.overview()
		streams = append(streams, s)
	}
	for _, headers := range [][]string{nil, company} {
		a := b.Expect(429, "request.too_much", "GET", "/api/v1/admin/stream", nil, headers...)
		if a.Header.Get("Retry-After") == "" {
			t.Error("the response has no Retry-After")
		}
	}
	streams[1].res.Body.Close()
	apptest.Eventually(t, "a place is free", func() bool { return b.Call("GET", "/api/v1/admin/stream?seconds=0", nil, company...).Status == 200 })
	apptest.Together(8, func(int) { // concurrent requests of one company
		for range 5 {
			b.Expect(200, "", "GET", "/api/v1/sms/tasks", nil, company...)
		}
	})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodHead, b.URL+"/api/v1/admin/stream", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth(apptest.Username, apptest.Password)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("HEAD: %d", res.StatusCode)
	}
	began := time.Now()
	stop()
	for _, s := range append(streams[:1], streams[2:]...) {
		if got := s.bye(); got != `bye {"reason":"shutdown"}` {
			t.Error(got)
		}
	}
	if err := <-served; err != nil || time.Since(began) > 4*time.Second {
		t.Errorf("the server took %v to stop: %v", time.Since(began), err)
	}
}
