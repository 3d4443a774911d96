package app_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	api "lksms/gen/client"
	"lksms/internal/app"
	"lksms/internal/testkit/apptest"
	"lksms/internal/testkit/pgtest"
)

// balancer is the proxy in front of the cells: HAProxy with the configuration of deploy/haproxy.
type balancer struct {
	t *testing.T
	*pgtest.HAProxy
	client *http.Client
}

// newBalancer starts the proxy of two cells with a map. a and b are the addresses of the cells.
func newBalancer(t *testing.T, a, b string, lines ...string) *balancer {
	t.Helper()
	content, err := os.ReadFile("../../deploy/haproxy/cells.cfg")
	if err != nil {
		t.Fatal(err)
	}
	config := string(content)
	for from, to := range map[string]string{
		"bind :8080": "bind ${ADDRESS}", "maxconn 20000": "maxconn 500", "/run/haproxy/admin.sock": "${SOCKET}", "lksms-a:8000": a, "lksms-b:8000": b, "inter 2s": "inter 100ms",
		// A test can run as any user. On a busy machine a response can take longer than the interval of the checks.
		"    user haproxy\n    group haproxy\n": "",
		"    timeout connect 3s\n":              "    timeout connect 3s\n    timeout check 10s\n",
	} {
		if strings.Count(config, from) != 1 {
			t.Fatalf("cells.cfg does not contain %q exactly once", from)
		}
		config = strings.ReplaceAll(config, from, to)
	}
	d := &balancer{t: t, HAProxy: pgtest.NewHAProxy(t, config, map[string]string{"cells.map": strings.Join(lines, "\n") + "\n"})}
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, d.Address)
	}
	d.client = &http.Client{
		Transport:     &http.Transport{DialContext: dial},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	t.Cleanup(d.client.CloseIdleConnections)
	for _, cell := range []string{"a", "b"} {
		d.awaitCell(cell, "UP")
	}
	return d
}

// awaitCell waits until the proxy considers a cell UP or DOWN.
func (d *balancer) awaitCell(cell, state string) {
	d.t.Helper()
	up := map[string]string{"UP": "2", "DOWN": "0"}[state]
	apptest.Eventually(d.t, "the cell "+cell+" is "+state, func() bool {
		for line := range strings.Lines(d.Command("show servers state cell_" + cell)) {
			if fields := strings.Fields(line); len(fields) > 5 && fields[1] == "cell_"+cell {
				return fields[5] == up
			}
		}
		return false
	})
}

// call sends a request to the proxy, under a host name.
func (d *balancer) call(host, method, path string, body any, headers ...string) apptest.Answer {
	d.t.Helper()
	var reader io.Reader
	switch body := body.(type) {
	case nil:
	case string:
		reader = strings.NewReader(body)
	default:
		encoded, err := json.Marshal(body)
		if err != nil {
			d.t.Fatal(err)
		}
		reader = strings.NewReader(string(encoded))
	}
	r, err := http.NewRequestWithContext(d.t.Context(), method, "http://"+host+path, reader)
	if err != nil {
		d.t.Fatal(err)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := d.client.Do(r)
	if err != nil {
		d.t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	a := apptest.Answer{Status: res.StatusCode, Header: res.Header, Raw: string(raw)}
	if strings.HasPrefix(a.Raw, "{") {
		if err := json.Unmarshal(raw, &a.Body); err != nil {
			d.t.Fatalf("the answer to %s %s is no envelope: %s", method, path, raw)
		}
	}
	return a
}

// expect sends a request. It fails the test unless the response has this status and, for an error, this reason.
func (d *balancer) expect(status int, reason, method, path string, body any, headers ...string) apptest.Answer {
	d.t.Helper()
	a := d.call(common, method, path, body, headers...)
	d.check(a, status, reason, method+" "+path)
	return a
}

func (d *balancer) check(a apptest.Answer, status int, reason, what string) {
	d.t.Helper()
	if a.Status != status || a.Body.Error.Reason != reason {
		d.t.Fatalf("%s: got %d %q, want %d %q: %s", what, a.Status, a.Body.Error.Reason, status, reason, a.Raw)
	}
	if isOwn := strings.HasPrefix(reason, "cell."); isOwn && (a.Body.Code != status || a.Body.Message == "" || a.Body.RequestID == "" ||
		a.Body.RequestID != a.Header.Get("X-Request-Id")) {
		d.t.Errorf("%s: the answer of the proxy is no whole envelope: %s %s", what, a.Raw, a.Header)
	}
}

// These are the host names of the proxy.
const (
	common = "lksms.example"
	nameA  = "a.lksms.example"
	nameB  = "b.lksms.example"
)

// stub starts a cell that answers every request with its name.
func stub(t *testing.T, cell string, seen *atomic.Int64) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.UserAgent(), "Go-http-client") { // a health check of the proxy
			return
		}
		seen.Add(1)
		w.Header().Set("X-Stub", cell)
	}))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

const keyOfA = "lksms_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

// keyLine returns the line of an API key in the map.
func keyLine(key, cell string) string {
	return fmt.Sprintf("key:%X %s", sha256.Sum256([]byte(key)), cell)
}

// byOtherThanAuthorization contains the operations whose cell does not depend on the header Authorization, with the reason. These operations can be called
// without the header.
var byOtherThanAuthorization = map[string]string{
	"takeCallback":  "a provider sends no credentials: its sender is in the path",
	"createSession": "the name is in the body",
	"health":        "the same everywhere", "ready": "the same everywhere",
}

// These are the callers of the proxy of two stubs: a user and a key of cell a, and a user and a browser of cell b.
var (
	callerOfA    = apptest.Basic("acme", "p")
	callerOfB    = apptest.Basic("beta", "p")
	keyCallerOfA = []string{"Authorization", "Bearer " + keyOfA}
	browserOfB   = []string{"Cookie", "lksms_session=x; lksms_cell=b"}
)

// newStubBalancer starts the proxy of two stubs that count requests in seen.
func newStubBalancer(t *testing.T, seen *atomic.Int64) *balancer {
	t.Helper()
	return newBalancer(t, stub(t, "a", seen), stub(t, "b", seen),
		"user:acme a", "user:beta b", "user:role-read b", "sender:nobody b", keyLine(keyOfA, "a"), "host:"+nameA+" a", "host:"+nameB+" b")
}

// S3.15: the proxy sends every operation of the contract to the cell of its caller. It sends no request of an unknown caller to any cell.
func TestTheProxyOfCellsSendsEachOperationToTheCellOfItsCaller(t *testing.T) {
	t.Parallel()
	var seen atomic.Int64
	d := newStubBalancer(t, &seen)
	for id, operation := range apptest.Operations {
		d.expectCells(id, operation)
	}
	for id := range byOtherThanAuthorization {
		if apptest.Operations[id].Path == "" {
			t.Errorf("%s is no operation", id)
		}
	}
	apptest.Eventually(t, "no stranger is counted", func() bool { // the entry of a request that has just ended still exists
		d.Command("clear table lksms")
		return strings.Contains(d.Command("show table lksms"), "used:0")
	})
	d.expectRefusals(&seen)
	d.expectCellsOfOtherPaths()
}

// expectCells fails the test unless an operation goes to the cell of each caller.
func (d *balancer) expectCells(id string, operation apptest.Operation) {
	d.t.Helper()
	body, media := operation.Content()
	to := func(host string, headers []string) string {
		a := d.call(host, operation.Method, operation.Path, body, append(slices.Clone(headers), media...)...)
		if a.Header.Get("X-Lksms-Cell") != a.Header.Get("X-Stub") {
			d.t.Errorf("%s: X-Lksms-Cell is %q", id, a.Header.Get("X-Lksms-Cell"))
		}
		if cell := a.Header.Get("X-Stub"); cell != "" {
			return cell
		}
		return fmt.Sprint(a.Status, " ", a.Body.Error.Reason)
	}
	want := map[string]string{"acme": "a", "beta": "b", "key": "a", "key as a password": "a", "browser": "b", "": "401 auth.required"}
	switch id {
	case "takeCallback", "createSession":
		want = map[string]string{"acme": "b", "beta": "b", "key": "b", "key as a password": "b", "browser": "b", "": "b"}
	case "health", "ready":
		want[""] = "a"
	}
	for caller, headers := range map[string][]string{"acme": callerOfA, "beta": callerOfB, "key": keyCallerOfA, "key as a password": apptest.Basic("", keyOfA), "browser": browserOfB, "": nil} {
		if got := to(common, headers); got != want[caller] {
			d.t.Errorf("%s of %q goes to %s, want %s", id, caller, got, want[caller])
		}
	}
	if got := to(nameB, callerOfB); got != "b" {
		d.t.Errorf("%s at the name of b goes to %s", id, got)
	}
	if want["acme"] == "a" {
		if got := to(nameB, callerOfA); got != "421 cell.other" {
			d.t.Errorf("%s of acme at the name of b goes to %s", id, got)
		}
	}
	if got := to(nameB, nil); got != "b" { // the server decides how to answer a request without credentials
		d.t.Errorf("%s without credentials at the name of b goes to %s", id, got)
	}
	if byOtherThanAuthorization[id] == "" {
		if got := to(common, apptest.Basic("stranger", "p")); got != "421 cell.unknown" && got != "429 cell.unknown" {
			d.t.Errorf("%s of a stranger goes to %s", id, got)
		}
	}
}

// expectRefusals fails the test if a request of a caller without a cell gets an unexpected error, or reaches a cell.
func (d *balancer) expectRefusals(seen *atomic.Int64) {
	d.t.Helper()
	before := seen.Load()
	for _, refused := range []struct {
		method, path, body, want string
		headers                  []string
	}{
		{"POST", "/api/v1/callbacks/unknown?token=x", "{}", "421 cell.unknown", nil},
		{"POST", "/api/v1/session", `{"username":"unknown","password":"x"}`, "421 cell.unknown", nil},
		{"POST", "/smsgate/mobile/v1/device", `{}`, "421 cell.unknown", []string{"Authorization", "Code 102938475610"}},
		{"GET", "/api/v1/sms/tasks", "", "421 cell.unknown", []string{"Authorization", "Bearer lksms_unknown"}},
		{"GET", "/api/v1/sms/tasks", "", "421 cell.unknown", []string{"Authorization", "Basic ?"}},
		{"GET", "/api/v1/sms/tasks", "", "421 cell.unknown", []string{"Cookie", "lksms_cell=c"}},
		{"GET", "/cgi-bin/sendsms?username=unknown&password=x", "", "421 cell.unknown", nil},
		{"GET", "/cgi-bin/sendsms?to=1", "", "401 auth.required", nil},
		{"GET", "/cgi-bin/sendsms?to=1", "", "421 cell.unknown", callerOfA}, // Kannel does not read Authorization
		{"POST", "/api/v1/session", "{}", "421 cell.unknown", callerOfA},
		{"GET", "/metrics", "", "401 auth.required", nil},
	} {
		a := d.call(common, refused.method, refused.path, refused.body, refused.headers...)
		if got := fmt.Sprint(a.Status, " ", a.Body.Error.Reason); got != refused.want {
			d.t.Errorf("%s %s: %s, want %s", refused.method, refused.path, got, refused.want)
		}
	}
	if now := seen.Load(); now != before {
		d.t.Errorf("%d requests of callers that no cell has reached one", now-before)
	}
}

// expectCellsOfOtherPaths fails the test unless requests outside the contract go to the cell of their caller, or to cell a by default.
func (d *balancer) expectCellsOfOtherPaths() {
	d.t.Helper()
	other := func(method, path, body string, headers ...string) string {
		return d.call(common, method, path, body, headers...).Header.Get("X-Stub")
	}
	form := []string{"Content-Type", "application/x-www-form-urlencoded"}
	for what, got := range map[string]string{
		"GET /":                            other("GET", "/", ""),
		"GET /console/":                    other("GET", "/console/", ""),
		"GET /docs/":                       other("GET", "/docs/", ""),
		"GET /openapi.yaml":                other("GET", "/openapi.yaml", ""),
		"GET /smsgate/3rdparty/v1/health":  other("GET", "/smsgate/3rdparty/v1/health", ""),
		"GET /smsgate/mobile/v1/device":    other("GET", "/smsgate/mobile/v1/device", ""),
		"OPTIONS":                          other("OPTIONS", "/api/v1/sms/send", "", "Origin", "https://x", "Access-Control-Request-Method", "POST"),
		"a phone":                          other("GET", "/smsgate/mobile/v1/message", "", keyCallerOfA...),
		"a program of SMSGate":             other("GET", "/smsgate/3rdparty/v1/messages", "", callerOfA...),
		"a program of Kannel, by GET":      other("GET", "/cgi-bin/sendsms?user=beta&username=acme&password=x&to=1&text=x", "", callerOfB...),
		"a program of Kannel, with a form": other("POST", "/cgi-bin/sendsms", "username=acme&password=x", append(form, callerOfB...)...),
	} {
		if got != "a" {
			d.t.Errorf("%s goes to %q", what, got)
		}
	}
	for what, got := range map[string]string{
		"GET /console/ of a browser that is signed in at b": other("GET", "/console/assets/x.js", "", browserOfB...),
		"a program of Kannel with user":                     other("POST", "/cgi-bin/sendsms", "user=beta&pass=x", form...),
		"a callback for an encoded sender":                  other("POST", "/api/v1/callbacks/%6eobody", "{}"),
	} {
		if got != "b" {
			d.t.Errorf("%s goes to %q", what, got)
		}
	}
}

// The proxy limits only the requests of clients that try unknown names.
func TestTheProxyLimitsClientsThatTryUnknownNames(t *testing.T) {
	t.Parallel()
	var seen atomic.Int64
	d := newBalancer(t, stub(t, "a", &seen), stub(t, "b", &seen), "user:acme a")
	for i := range 60 {
		d.expect(421, "cell.unknown", "GET", "/api/v1/sms/tasks", nil, apptest.Basic(fmt.Sprint("name", i), "x")...)
	}
	a := d.expect(429, "cell.unknown", "GET", "/api/v1/sms/tasks", nil, apptest.Basic("another", "x")...)
	if a.Header.Get("Retry-After") != "60" {
		t.Errorf("Retry-After is %q", a.Header.Get("Retry-After"))
	}
	d.expect(200, "", "GET", "/api/v1/sms/tasks", nil, apptest.Basic("acme", "x")...)
}

// If a request has two headers with credentials, the proxy and the server could read different headers.
func TestTheProxyOfCellsRefusesTwoCredentials(t *testing.T) {
	t.Parallel()
	var seen atomic.Int64
	d := newBalancer(t, stub(t, "a", &seen), stub(t, "b", &seen), "user:acme a", "user:beta b")
	r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+common+"/api/v1/sms/tasks", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header["Authorization"] = []string{apptest.Basic("acme", "x")[1], apptest.Basic("beta", "x")[1]}
	res, err := d.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusBadRequest || seen.Load() != 0 {
		t.Errorf("answered %d, and %d requests reached a cell", res.StatusCode, seen.Load())
	}
}

// cell is a real LKSMS, which can be stopped and started again at the same address.
type cell struct {
	*apptest.Bundle
	address string
	stop    func()
}

func newCell(t *testing.T, b *apptest.Bundle) *cell {
	t.Helper()
	c := &cell{Bundle: b, address: "127.0.0.1:0"}
	c.start()
	t.Cleanup(func() { c.stop() })
	return c
}

// start serves with all roles.
func (c *cell) start() {
	c.T.Helper()
	options := c.Options
	started, err := app.New(c.T.Context(), options)
	if err != nil {
		c.T.Fatal(err)
	}
	listener, err := net.Listen("tcp", c.address)
	if err != nil {
		c.T.Fatal(err)
	}
	c.address = listener.Addr().String()
	ctx, cancel := context.WithCancel(context.WithoutCancel(c.T.Context()))
	served := make(chan error, 1)
	go func() { served <- started.Serve(ctx, listener) }()
	c.stop = func() {
		cancel()
		if err := <-served; err != nil {
			c.T.Error(err)
		}
		started.Close()
		c.stop = func() {}
	}
}

// ofCell sets the options of a server of a cell.
func ofCell(o *app.Options) {
	apptest.WithSecrets(o)
	o.Kannel = true
	o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
}

// messages returns the number of messages with an id in a cell: 0 or 1.
func (c *cell) messages(id string) int {
	c.T.Helper()
	return c.Count("SELECT count(*) FROM messages WHERE task_id = $1", id)
}

// send submits a message through the proxy, and returns the id of its task. fields contains the optional fields.
func (d *balancer) send(fields map[string]any, headers []string) string {
	d.t.Helper()
	body := map[string]any{"phone_number": apptest.Phone, "content": "x"}
	maps.Copy(body, fields)
	return apptest.Decode[api.Submitted](d.t, d.expect(200, "", "POST", "/api/v1/sms/send", body, headers...)).TaskID
}

// poll claims tasks as the app phone through the proxy, and returns them.
func (d *balancer) poll(headers []string) []api.ClaimedTask {
	d.t.Helper()
	return apptest.Decode[[]api.ClaimedTask](d.t, d.expect(200, "", "GET", "/api/v1/sms/tasks/pending?app_id=phone&limit=10", nil, headers...))
}

// cellsMap runs the script that writes the map. extra contains additional lines.
func cellsMap(t *testing.T, extra string, a, b *cell) (string, error) {
	t.Helper()
	if _, err := exec.LookPath("psql"); err != nil {
		t.Skip("psql is not installed: apt-get install postgresql-client")
	}
	file := pgtest.Dir(t) + "/own"
	if err := os.WriteFile(file, []byte(extra), 0o600); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	cmd := exec.CommandContext(t.Context(), "../../deploy/haproxy/cells-map", file, "a="+a.Options.DatabaseURL, "b="+b.Options.DatabaseURL)
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return string(out), fmt.Errorf("%w: %s", err, said.String())
	}
	return string(out), nil
}

const ownLines = "# by hand\n\nhost:" + nameA + " a\nhost:" + nameB + " b\n"

// twoCells starts two cells with different companies. It returns the headers of a submitter and of a sender app for each company.
func twoCells(t *testing.T) (a, b *cell, callers map[string][]string) {
	t.Helper()
	a = newCell(t, apptest.NewWith(t, apptest.DefaultRules, ofCell))
	b = newCell(t, apptest.Open(t, apptest.DefaultRules, ofCell))
	callers = map[string][]string{"acme": a.AddCompany("acme", 1), "beta": b.AddCompany("beta", 1)}
	for no, c := range map[string]*cell{"acme": a, "beta": b} {
		c.AddSender(map[string]any{"sender_no": "phone"}) // the numbers of sender apps can be equal in all cells
		callers["app of "+no] = c.AddUser("app of "+no+" 应用", "send", map[string]any{"app_id": "phone"})
		callers["reader of "+no] = c.AddUser("reader-of-"+no, "read", map[string]any{"company_no": no})
		key := apptest.Decode[api.NewKey](t, c.Expect(200, "", "POST", "/api/v1/admin/users/user-of-"+no+"/keys", map[string]any{"name": "k"}))
		callers["key of "+no] = []string{"Authorization", "Bearer " + key.Key}
	}
	return a, b, callers
}

// S3.15: for companies, two cells behind one proxy behave like one LKSMS server.
func TestTwoCellsBehindOneProxyWorkLikeOneServer(t *testing.T) {
	a, b, callers := twoCells(t)
	p := apptest.NewProvider(t)
	var sent atomic.Int64
	p.Does(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"code":"0","id":"n-%d"}`, sent.Add(1))
	})
	b.AddSender(map[string]any{"sender_no": "provider of beta", "kind": "http-sms", "is_shared": false, "config": apptest.ReceiverConfig(p, nil)})
	b.Expect(200, "", "POST", "/api/v1/admin/routes", map[string]any{"company_no": "beta", "message_type": "verification", "sender_no": "provider of beta"})
	lines, err := cellsMap(t, ownLines, a, b)
	if err != nil {
		t.Fatal(err)
	}
	d := newBalancer(t, a.address, b.address, lines)
	cells := map[string]*cell{"acme": a, "beta": b}
	other := map[string]*cell{"acme": b, "beta": a}

	tasks := map[string]string{}
	for no, c := range cells {
		for _, caller := range []string{no, "key of " + no} {
			tasks[caller] = d.send(map[string]any{"content": "for " + no}, callers[caller])
			if c.messages(tasks[caller]) != 1 || other[no].messages(tasks[caller]) != 0 {
				t.Fatalf("the message of %s is not in its cell", caller)
			}
		}
		polled := d.poll(callers["app of "+no])
		if len(polled) != 2 || polled[0].Content != "for "+no || polled[1].Content != "for "+no {
			t.Fatalf("the app of %s gets %+v", no, polled)
		}
		for _, task := range polled {
			report := map[string]any{"task_id": task.TaskID, "app_id": "phone", "status": 2, "lease_id": task.LeaseID}
			d.expect(200, "", "POST", "/api/v1/sms/report", report, callers["app of "+no]...)
			c.AwaitStatus(task.TaskID, 2)
		}
		d.expect(404, "task.not_found", "GET", "/api/v1/sms/task/"+tasks[no], nil, callers[map[string]string{"acme": "beta", "beta": "acme"}[no]]...)
		page := apptest.Decode[api.TaskPage](t, d.expect(200, "", "GET", "/api/v1/sms/tasks", nil, callers["reader of "+no]...))
		if len(page.Items) != 2 {
			t.Errorf("the reader of %s sees %d tasks", no, len(page.Items))
		}
		asked := url.Values{"username": {"user-of-" + no}, "password": {apptest.UserPassword}, "to": {"13800138007"}, "text": {"kannel"}}
		if sms := d.call(common, "GET", "/cgi-bin/sendsms?"+asked.Encode(), nil); sms.Status != http.StatusAccepted {
			t.Errorf("Kannel's sendsms for %s: %d %s", no, sms.Status, sms.Raw)
		}
		if n := c.Count("SELECT count(*) FROM messages WHERE source = 'kannel'"); n != 1 {
			t.Errorf("the cell of %s has %d messages of Kannel", no, n)
		}
	}

	// A poll that waits must end when a message arrives.
	polled := make(chan apptest.Answer, 1)
	go func() {
		polled <- d.call(common, "GET", "/api/v1/sms/tasks/pending?app_id=phone&wait=20", nil, callers["app of beta"]...)
	}()
	woken := d.send(map[string]any{"content": "wake up"}, callers["beta"])
	if a := <-polled; !strings.Contains(a.Raw, woken) && !strings.Contains(a.Raw, "kannel") {
		t.Errorf("the waiting app gets %s", a.Raw)
	}

	// A provider of cell b sends a callback.
	pushed := d.send(map[string]any{"content": "by the provider", "message_type": "verification"}, callers["beta"])
	b.AwaitStatus(pushed, 2)
	called := d.call(common, "POST", "/api/v1/callbacks/provider%20of%20beta?token="+apptest.CallbackKey, `{"msgid":"n-1","status":"DELIVRD"}`)
	if called.Status != http.StatusOK {
		t.Fatalf("the callback is answered %d: %s", called.Status, called.Raw)
	}
	apptest.Eventually(t, "the receipt arrives", func() bool { return b.Task(pushed).Delivery != nil })
	if n := a.Count("SELECT count(*) FROM callbacks"); n != 0 {
		t.Errorf("the other cell has %d callbacks", n)
	}

	// The server must log the address of the caller behind the proxy, and a single request id.
	if log := b.Log.String(); !strings.Contains(log, `"path":"/api/v1/sms/send"`) || !strings.Contains(log, `"ip":"127.0.0.1"`) {
		t.Errorf("the log of the cell: %s", log)
	}
	got := d.expect(401, "auth.required", "GET", "/api/v1/sms/tasks", nil, append(apptest.Basic("user-of-acme", "wrong"), "X-Request-Id", "mine-1")...)
	if got.Body.RequestID != "mine-1" || got.Header.Get("X-Lksms-Cell") != "a" {
		t.Errorf("a wrong password is answered %s by %q", got.Raw, got.Header.Get("X-Lksms-Cell"))
	}
	d.expect(421, "cell.unknown", "POST", "/api/v1/sms/send", map[string]any{"phone_number": apptest.Phone, "content": "x"}, apptest.Basic("nobody", "x")...)
}

// S3.15: people use the console of their own cell, at the host name that all cells share, and at the host name of the cell.
func TestTheConsoleOfACellWorksBehindTheProxy(t *testing.T) {
	a, b, _ := twoCells(t)
	lines, err := cellsMap(t, ownLines, a, b)
	if err != nil {
		t.Fatal(err)
	}
	d := newBalancer(t, a.address, b.address, lines)
	page := []string{"Origin", "http://" + common, "X-Requested-With", "console"}
	if got := d.call(common, "GET", "/console/", nil, "Accept", "text/html"); got.Status != http.StatusOK || !strings.Contains(got.Raw, "<html") {
		t.Fatalf("the console is answered %d", got.Status)
	}
	asked := d.expect(401, "auth.required", "GET", "/api/v1/session", nil, page...)
	if asked.Header.Get("WWW-Authenticate") != `Session realm="lksms"` {
		t.Errorf("the response to a page requests the authentication %q", asked.Header.Get("WWW-Authenticate"))
	}
	if asked := d.expect(401, "auth.required", "GET", "/api/v1/session", nil); !strings.HasPrefix(asked.Header.Get("WWW-Authenticate"), "Basic ") {
		t.Errorf("the response to a program requests the authentication %q", asked.Header.Get("WWW-Authenticate"))
	}
	for no, want := range map[string]string{"acme": "a", "beta": "b"} {
		signed := d.expect(200, "", "POST", "/api/v1/session", map[string]any{"username": "reader-of-" + no, "password": apptest.UserPassword}, page...)
		cookies := cookiesOf(signed)
		if cookies["lksms_cell"] != want || cookies["lksms_session"] == "" {
			t.Fatalf("the cookies of %s: %v", no, cookies)
		}
		both := append(slices.Clone(page), "Cookie", "lksms_session="+cookies["lksms_session"]+"; lksms_cell="+want)
		session := apptest.Decode[api.Session](t, d.expect(200, "", "GET", "/api/v1/session", nil, both...))
		if session.Username != "reader-of-"+no {
			t.Errorf("the session is of %s", session.Username)
		}
		d.expect(200, "", "GET", "/api/v1/sms/tasks", nil, both...)
		forged := append(slices.Clone(page), "Cookie", "lksms_session="+cookies["lksms_session"]+"; lksms_cell="+map[string]string{"a": "b", "b": "a"}[want])
		d.expect(401, "auth.required", "GET", "/api/v1/sms/tasks", nil, forged...)
		d.expect(200, "", "DELETE", "/api/v1/session", nil, both...)
		d.expect(401, "auth.required", "GET", "/api/v1/sms/tasks", nil, both...)
	}
	// The admin has the same name in both cells, so the map does not contain the admin. At the name of a cell, the admin of this cell is used.
	admin := apptest.Basic(apptest.Username, apptest.Password)
	d.expect(421, "cell.unknown", "GET", "/api/v1/admin/companies", nil, admin...)
	for host, want := range map[string]string{nameA: "acme", nameB: "beta"} {
		got := d.call(host, "GET", "/api/v1/admin/companies", nil, admin...)
		if got.Status != http.StatusOK || !strings.Contains(got.Raw, `"`+want+`"`) {
			t.Errorf("the admin at %s sees %d %s", host, got.Status, got.Raw)
		}
		signed := d.call(host, "POST", "/api/v1/session", map[string]any{"username": apptest.Username, "password": apptest.Password}, "Origin", "http://"+host)
		if signed.Status != http.StatusOK {
			t.Errorf("the admin signs in at %s: %d %s", host, signed.Status, signed.Raw)
		}
	}
	d.check(d.call(nameB, "GET", "/api/v1/sms/tasks", nil, apptest.Basic("reader-of-acme", apptest.UserPassword)...), 421, "cell.other", "acme at b")

	// A phone is paired at the name of its cell, and calls this name from then on.
	paired := d.call(nameB, "POST", "/api/v1/admin/senders/phone/pairing", map[string]any{}, admin...)
	code := apptest.Decode[struct{ Address, Code string }](t, paired)
	if !strings.HasPrefix(code.Address, "http://"+nameB+"/") && !strings.HasPrefix(code.Address, "https://"+nameB+"/") {
		t.Fatalf("the phone gets %s", code.Address)
	}
	registered := d.call(nameB, "POST", "/smsgate/mobile/v1/device", `{"name":"p"}`, "Authorization", "Code "+code.Code)
	var phone struct{ Token string }
	if err := json.Unmarshal([]byte(registered.Raw), &phone); err != nil || registered.Status != http.StatusCreated {
		t.Fatalf("the phone is answered %d %s", registered.Status, registered.Raw)
	}
	if got := d.call(nameB, "GET", "/smsgate/mobile/v1/message", nil, "Authorization", "Bearer "+phone.Token); got.Status != http.StatusOK {
		t.Errorf("the phone is answered %d %s", got.Status, got.Raw)
	}
}

// cookiesOf returns the cookies that a response sets.
func cookiesOf(a apptest.Answer) map[string]string {
	set := map[string]string{}
	for _, cookie := range (&http.Response{Header: a.Header}).Cookies() {
		set[cookie.Name] = cookie.Value
	}
	return set
}

// S3.15: if one cell is down, the other cell still works.
func TestACellThatIsDownDoesNotAffectTheOtherCell(t *testing.T) {
	a, b, callers := twoCells(t)
	lines, err := cellsMap(t, ownLines, a, b)
	if err != nil {
		t.Fatal(err)
	}
	d := newBalancer(t, a.address, b.address, lines)
	message := map[string]any{"phone_number": apptest.Phone, "content": "x"}
	a.stop()
	for _, when := range []string{"at once", "when the check knows it"} {
		down := d.expect(503, "cell.unavailable", "POST", "/api/v1/sms/send", message, callers["acme"]...)
		if down.Header.Get("Retry-After") != "5" {
			t.Errorf("%s, Retry-After is %q", when, down.Header.Get("Retry-After"))
		}
		d.expect(200, "", "POST", "/api/v1/sms/send", message, callers["beta"]...)
		d.awaitCell("a", "DOWN")
	}
	if got := d.call(common, "GET", "/console/", nil, "Accept", "text/html"); got.Status != http.StatusOK || got.Header.Get("X-Lksms-Cell") != "b" {
		t.Errorf("the console is answered %d by %q", got.Status, got.Header.Get("X-Lksms-Cell"))
	}
	d.check(d.call(nameA, "GET", "/ready", nil), 503, "cell.unavailable", "a asks whether it is ready")
	a.start()
	d.awaitCell("a", "UP")
	d.expect(200, "", "POST", "/api/v1/sms/send", message, callers["acme"]...)
}

// S3.15: the map can be changed while the proxy runs. Requests of a company that moves get 503 meanwhile.
func TestTheCellMapCanBeChangedAtRunTime(t *testing.T) {
	a, b, callers := twoCells(t)
	lines, err := cellsMap(t, ownLines, a, b)
	if err != nil {
		t.Fatal(err)
	}
	d := newBalancer(t, a.address, b.address, lines)
	message := map[string]any{"phone_number": apptest.Phone, "content": "x"}
	d.expect(200, "", "POST", "/api/v1/sms/send", message, callers["acme"]...)

	// A new user has no cell until the map contains the user.
	gamma := b.AddCompany("gamma", 1)
	d.expect(421, "cell.unknown", "POST", "/api/v1/sms/send", message, gamma...)
	d.command("add map cells.map user:user-of-gamma b")
	d.expect(200, "", "POST", "/api/v1/sms/send", message, gamma...)

	// The company acme moves to cell b, with its passwords and API keys. Each of its users gets a line in the map before the user exists in both cells.
	names := []string{"user-of-acme", "app of acme 应用", "reader-of-acme", "left-of-acme"}
	a.AddUser("left-of-acme", "submit", map[string]any{"company_no": "acme"})
	a.Expect(200, "", "PATCH", "/api/v1/admin/users/left-of-acme", map[string]any{"is_disabled": true})
	b.Expect(200, "", "POST", "/api/v1/admin/companies", map[string]any{"company_no": "acme", "name": "acme"})
	onItsWay := "user:user-of-acme moving\nuser:left-of-acme moving\nuser:app%20of%20acme%20%E5%BA%94%E7%94%A8 a\nuser:reader-of-acme a\n"
	before, err := cellsMap(t, ownLines+onItsWay, a, b)
	if err != nil {
		t.Fatal(err)
	}
	d.command("set map cells.map user:user-of-acme moving")
	moving := d.expect(503, "cell.moving", "POST", "/api/v1/sms/send", message, callers["acme"]...)
	if moving.Header.Get("Retry-After") != "10" {
		t.Errorf("Retry-After is %q", moving.Header.Get("Retry-After"))
	}
	copyUsers(t, a, b, strings.Join(names, ","))
	expectLinesRequired(t, a, b, onItsWay)
	if n := b.Count("SELECT count(*) FROM users WHERE is_disabled AND username = 'left-of-acme'"); n != 1 {
		t.Error("a user who was disabled is not disabled in the new cell")
	}
	if lines, err = cellsMap(t, ownLines+onItsWay, a, b); err != nil || lines != before {
		t.Fatalf("the copy changed the map: %s, %v", lines, err)
	}
	d.restart(lines, "a")
	d.expect(503, "cell.moving", "POST", "/api/v1/sms/send", message, callers["acme"]...)
	d.expect(503, "cell.moving", "POST", "/api/v1/sms/send", message, callers["key of acme"]...)
	if got := d.expect(200, "", "GET", "/api/v1/sms/tasks", nil, callers["reader of acme"]...); got.Header.Get("X-Lksms-Cell") != "a" {
		t.Errorf("the reader of acme is answered by %q", got.Header.Get("X-Lksms-Cell"))
	}
	if left := d.poll(callers["app of acme"]); len(left) != 1 {
		t.Errorf("the app of acme gets tasks that acme has in cell a: %+v", left)
	}
	for _, name := range names {
		a.Expect(200, "", "PATCH", "/api/v1/admin/users/"+url.PathEscape(name), map[string]any{"is_disabled": true})
	}
	if lines, err = cellsMap(t, ownLines, a, b); err != nil || !strings.Contains(lines, "user:user-of-acme b\n") {
		t.Fatalf("after the users were disabled in a: %s, %v", lines, err)
	}
	d.command("set map cells.map user:user-of-acme b")
	if id := d.send(nil, callers["acme"]); b.messages(id) != 1 {
		t.Error("the message of acme is not in its new cell")
	}
	// A change of the map at run time is lost when the proxy ends, unless it is also in the file.
	d.restart(lines, "b")
	for _, caller := range [][]string{callers["acme"], callers["key of acme"], gamma} {
		d.expect(200, "", "POST", "/api/v1/sms/send", message, caller...)
	}
	if polled := d.poll(callers["app of acme"]); len(polled) == 0 {
		t.Error("the app of acme gets nothing in its new cell")
	}
}

// restart starts the proxy again with another map, and waits until a cell is up.
func (d *balancer) restart(lines, cell string) {
	d.t.Helper()
	d.Stop()
	d.Write("cells.map", lines)
	d.Start()
	d.awaitCell(cell, "UP")
	d.client.CloseIdleConnections()
}

// expectLinesRequired fails the test if the script writes a map that lacks a user who exists in both cells. onItsWay contains a line for each user of acme. A
// disabled user needs no line.
func expectLinesRequired(t *testing.T, a, b *cell, onItsWay string) {
	t.Helper()
	if out, err := cellsMap(t, ownLines, a, b); err == nil || out != "" || !strings.Contains(err.Error(), "user:user-of-acme is in the cells a and b") {
		t.Errorf("the map of two cells with the same user: %q, %v", out, err)
	}
	for line := range strings.Lines(onItsWay) {
		name := strings.Fields(line)[0]
		_, err := cellsMap(t, ownLines+strings.Replace(onItsWay, line, "", 1), a, b)
		if isDisabled := name == "user:left-of-acme"; isDisabled != (err == nil) || err != nil && !strings.Contains(err.Error(), name+" is in the cells a and b") {
			t.Errorf("the map without the line of %s: %v", name, err)
		}
	}
}

// copyUsers copies users from one cell to another with the commands of deploy/haproxy/README.md.
func copyUsers(t *testing.T, from, to *cell, names string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-euc", commandsOf(t, "users"))
	cmd.Dir = pgtest.Dir(t)
	cmd.Env = append(os.Environ(), "A="+from.Options.DatabaseURL, "B="+to.Options.DatabaseURL, "NAMES="+names)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// commandsOf returns the commands of deploy/haproxy/README.md after the line <!-- test-cells: name -->.
func commandsOf(t *testing.T, name string) string {
	t.Helper()
	page, err := os.ReadFile("../../deploy/haproxy/README.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?s)<!-- test-cells: " + name + " -->\n *```sh\n(.*?)```").FindStringSubmatch(string(page))
	if found == nil {
		t.Fatalf("deploy/haproxy/README.md has no commands %s", name)
	}
	return regexp.MustCompile("(?m)^   ").ReplaceAllString(found[1], "") // the commands can be indented in a list
}

// The commands of deploy/haproxy/README.md install a map only if the script wrote it completely.
func TestAFailedScriptDoesNotChangeTheCellMap(t *testing.T) {
	t.Parallel()
	dir, programs := pgtest.Dir(t), pgtest.Dir(t)
	for name, content := range map[string]string{
		programs + "/cells-map": "#!/bin/sh\necho 'user:new a'\nexit $CELLS_MAP_EXIT\n",
		programs + "/systemctl": "#!/bin/sh\necho \"$@\" >>reloads\n",
		dir + "/cells.map":      "user:old a\n",
	} {
		if err := os.WriteFile(name, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	commands := commandsOf(t, "map")
	if strings.Count(commands, "/etc/haproxy") != 1 {
		t.Fatalf("the commands name the folder not once: %s", commands)
	}
	for _, run := range []struct{ exit, content, reloads string }{{"1", "user:old a\n", ""}, {"0", "user:new a\n", "reload haproxy\n"}} {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", strings.Replace(commands, "/etc/haproxy", dir, 1))
		cmd.Env = append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH"), "CELLS_MAP_EXIT="+run.exit)
		if out, err := cmd.CombinedOutput(); (err == nil) != (run.exit == "0") {
			t.Errorf("cells-map exits with %s: %v: %s", run.exit, err, out)
		}
		content, _ := os.ReadFile(dir + "/cells.map")
		if reloads, _ := os.ReadFile(dir + "/reloads"); string(content) != run.content || string(reloads) != run.reloads {
			t.Errorf("cells-map exits with %s: the map is %q, and systemctl got %q", run.exit, content, reloads)
		}
	}
}

// command changes the map.
func (d *balancer) command(text string) {
	d.t.Helper()
	if said := d.Command(text); said != "" {
		d.t.Fatalf("%s: %s", text, said)
	}
	d.client.CloseIdleConnections()
}

// If the database of a cell does not answer, the map must keep the lines of the cell.
func TestTheCellMapIsNotWrittenIfADatabaseDoesNotAnswer(t *testing.T) {
	t.Parallel()
	a := &cell{Bundle: &apptest.Bundle{Options: app.Options{DatabaseURL: pgtest.New(t)}}}
	b := &cell{Bundle: &apptest.Bundle{Options: app.Options{DatabaseURL: "postgresql://nobody@127.0.0.1:1/nothing?connect_timeout=1"}}}
	if out, err := cellsMap(t, ownLines, a, b); err == nil || out != "" {
		t.Errorf("%q, %v", out, err)
	}
	if out, err := cellsMap(t, ownLines, a, a); err != nil || out != "host:"+nameA+" a\nhost:"+nameB+" b\n" {
		t.Errorf("%q, %v", out, err)
	}
}
