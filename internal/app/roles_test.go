package app_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/app"
	"lksms/internal/platform/servers"
	"lksms/internal/testkit/apptest"
)

// serving starts a server with some roles on the database of b, as lksms serve does. It returns the server and a function that stops it.
func serving(b *apptest.Bundle, roles ...servers.Role) (other *apptest.Bundle, stop func()) {
	b.T.Helper()
	options := b.Options
	options.Roles = roles
	started, err := app.New(b.T.Context(), options)
	if err != nil {
		b.T.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.T.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.T.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- started.Serve(ctx, listener) }()
	copied := *b
	copied.App, copied.URL = started, "http://"+listener.Addr().String()
	isStopped := false
	stop = func() {
		if isStopped {
			return
		}
		isStopped = true
		cancel()
		if err := <-stopped; err != nil {
			b.T.Error(err)
		}
		started.Close()
	}
	b.T.Cleanup(stop)
	return &copied, stop
}

// answers reports whether a server answers an operation itself, instead of rejecting it because another role is needed.
func answers(b *apptest.Bundle, o apptest.Operation) bool {
	b.T.Helper()
	body, headers := o.Content("X-No-Body", "")
	return b.Call(o.Method, o.Path, body, headers...).Body.Error.Reason != "server.other_role"
}

// ownRoles contains the roles of the operations that do not belong to servers.API. An empty role means that every server answers.
var ownRoles = map[string]servers.Role{
	"claimTasks": servers.Claim, "claimTasksNow": servers.Claim, "reportTask": servers.Claim, "reportTasks": servers.Claim, "exchangeTasks": servers.Claim, "startTasks": servers.Claim, "receiveMessages": servers.Claim, "appClaimTasks": servers.Claim,
	"appReportTask": servers.Claim, "appTaskStatistics": servers.Claim, "takeCallback": servers.Callback,
	"createSession": servers.Console, "getSession": servers.Console, "deleteSession": servers.Console, "streamOverview": servers.Console,
	"health": "", "ready": "",
}

// The proxy of deploy/haproxy sends each operation to a server whose role answers it.
func TestTheProxySendsEachOperationToItsRole(t *testing.T) {
	t.Parallel()
	config, err := os.ReadFile("../../deploy/haproxy/roles.cfg")
	if err != nil {
		t.Fatal(err)
	}
	paths := map[servers.Role][]string{}
	for _, rule := range regexp.MustCompile(`use_backend (\w+) if .*path_beg ([^}]*)}`).FindAllStringSubmatch(string(config), -1) {
		paths[servers.Role(rule[1])] = strings.Fields(rule[2])
	}
	if len(paths) != 3 {
		t.Fatalf("the proxy has rules for %v", paths)
	}
	backend := func(path string) servers.Role {
		for role, starts := range paths {
			if slices.ContainsFunc(starts, func(start string) bool { return strings.HasPrefix(path, start) }) {
				return role
			}
		}
		return servers.API
	}
	for id, operation := range apptest.Operations {
		want, isOwn := ownRoles[id]
		if !isOwn {
			want = servers.API
		}
		if got := backend(operation.Path); want != "" && got != want {
			t.Errorf("%s is sent to %s, want %s", id, got, want)
		}
	}
	for path, want := range map[string]servers.Role{
		"/console/": servers.Console, "/smsgate/mobile/v1/message": servers.Claim, "/smsgate/3rdparty/v1/messages": servers.API, "/cgi-bin/sendsms": servers.API,
	} {
		if got := backend(path); got != want {
			t.Errorf("%s is sent to %s, want %s", path, got, want)
		}
	}
}

// S3.1: a server with one role answers only the operations of this role.
func TestAServerAnswersOnlyTheOperationsOfItsRole(t *testing.T) {
	b := apptest.New(t)
	own := ownRoles
	foreign := map[string]servers.Role{
		"GET /smsgate/mobile/v1/message": servers.Claim, "GET /smsgate/3rdparty/v1/messages": servers.API, "GET /smsgate/3rdparty/v1/nothing": servers.API,
	}
	for _, role := range servers.All() {
		other, stop := serving(b, role)
		serves := func(needed servers.Role) bool {
			return needed == "" || needed == role || needed == servers.API && role == servers.Console
		}
		for id, operation := range apptest.Operations {
			needed, isOwn := own[id]
			if !isOwn {
				needed = servers.API
			}
			if id == "streamOverview" && serves(needed) {
				continue // its response has no end
			}
			if got := answers(other, operation); got != serves(needed) {
				t.Errorf("%s: %s is answered: %v", role, id, got)
			}
		}
		for call, needed := range foreign {
			method, path, _ := strings.Cut(call, " ")
			r, err := http.NewRequestWithContext(t.Context(), method, other.URL+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.SetBasicAuth(apptest.Username, apptest.Password)
			a, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = a.Body.Close()
			if (a.StatusCode == http.StatusServiceUnavailable) == serves(needed) {
				t.Errorf("%s: %s is answered %d", role, call, a.StatusCode)
			}
		}
		if a := other.Call("GET", "/console/", nil, "Accept", "text/html"); (a.Status == http.StatusOK) != (role == servers.Console) {
			t.Errorf("%s: the console is answered %d", role, a.Status)
		}
		other.Expect(200, "", "GET", "/ready?role="+string(role), nil)
		another := servers.All()[(slices.Index(servers.All(), role)+1)%len(servers.All())]
		other.Expect(503, "server.other_role", "GET", "/ready?role="+string(another), nil)
		other.Expect(422, "request.invalid", "GET", "/ready?role=nothing", nil)
		stop()
	}
}

// S3.1: together, servers with one role each do the work of one server with all roles.
func TestServersWithOneRoleEachReplaceOneServerWithAllRoles(t *testing.T) {
	b, _ := apptest.NewReceiving(t, nil)
	b.App.Pusher.StopClaiming() // this server must not send
	by := map[servers.Role]*apptest.Bundle{}
	for _, role := range servers.All() {
		by[role], _ = serving(b, role)
	}
	send := func() string {
		soon := time.Now().Add(time.Second).UTC().Format(time.RFC3339Nano) // queued by a sweep
		return by[servers.API].SubmitBody(map[string]any{"phone_number": apptest.Phone, "content": "x", "use_template": false, "expect_send_time": soon}).TaskID
	}
	pushed := send()
	by[servers.API].AwaitStatus(pushed, 2)
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/pushed", map[string]any{"status": "off", "version": b.GetSender("pushed").Version})
	b.AddSender(map[string]any{"sender_no": "phone"})
	polled := send()

	apptest.Eventually(t, "the claim server leases the tasks that the sweep server queued", func() bool {
		return slices.ContainsFunc(by[servers.Claim].Claim("phone", 10), func(task api.ClaimedTask) bool { return task.TaskID == polled })
	})
	by[servers.Claim].Report(polled, "phone", 2, apptest.Report{})
	if a := by[servers.Callback].Call("POST", "/api/v1/callbacks/pushed?token="+apptest.CallbackKey, `{"msgid":"n-1","status":"DELIVRD"}`); a.Status != http.StatusOK {
		t.Errorf("the callback is answered %d", a.Status)
	}
	apptest.Eventually(t, "the sweep server matches the receipt", func() bool { return by[servers.API].Task(pushed).Delivery != nil })
	for _, task := range []string{pushed, polled} {
		by[servers.Console].AwaitStatus(task, 2)
	}
	apptest.Eventually(t, "the watch server counts", func() bool {
		return b.Count("SELECT coalesce(sum(success), 0)::int FROM task_counts") == 2
	})
}

// S3.1: the response of /ready contains the roles that the role of the server needs and that no server has.
func TestAServerReportsMissingRoles(t *testing.T) {
	b := apptest.New(t)
	alone, _ := serving(b, servers.API)
	missing := func() []api.ServerRole {
		if _, err := alone.App.Servers.Beat(t.Context()); err != nil {
			t.Fatal(err)
		}
		return apptest.Decode[api.Readiness](t, alone.Expect(200, "", "GET", "/ready", nil)).MissingRoles
	}
	if got := missing(); !slices.Equal(got, []api.ServerRole{"sweep", "watch", "webhook"}) {
		t.Errorf("alone, these are missing: %v", got)
	}
	second := another(b, servers.Sweep, servers.Watch, servers.Webhook)
	if _, err := second.Servers.Beat(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := missing(); len(got) != 0 {
		t.Errorf("with a second server, these are missing: %v", got)
	}
	listed := func() map[string]bool {
		found := map[string]bool{}
		for _, one := range apptest.Decode[struct{ Items []api.ListedServer }](t, alone.Expect(200, "", "GET", "/api/v1/admin/servers", nil)).Items {
			found[strings.Join(namesOf(one.Roles), ",")] = one.IsAlive
		}
		return found
	}
	if got := listed(); len(got) != 2 || !got["api"] || !got["sweep,watch,webhook"] {
		t.Errorf("listed: %v", got)
	}
	// A server that dies does not delete its row in the list of servers.
	b.Exec("UPDATE servers SET seen_at = now() - interval '1 minute' WHERE roles = '{sweep,watch,webhook}'")
	if got := missing(); len(got) != 3 {
		t.Errorf("after the server died, the missing roles are %v", got)
	}
	if got := listed(); got["sweep,watch,webhook"] || len(got) != 2 {
		t.Errorf("after the server died, the listed servers are %v", got)
	}
}

// A driven sender needs a server with the role push. If its provider sends callbacks, it also needs a server with the role callback.
func TestAMissingRoleThatASenderNeedsIsReported(t *testing.T) {
	b := apptest.NewWith(t, apptest.DefaultRules, apptest.WithSecrets)
	alone, _ := serving(b, servers.API, servers.Sweep, servers.Watch, servers.Webhook)
	expect := func(when string, want ...servers.Role) {
		t.Helper()
		if _, err := alone.App.Servers.Beat(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := alone.App.Servers.Missing(); !slices.Equal(got, servers.Roles(want)) {
			t.Errorf("%s, these are missing: %v, want %v", when, got, want)
		}
		metrics := alone.Expect(200, "", "GET", "/metrics", nil).Raw
		for _, role := range servers.All() {
			value := "0"
			if slices.Contains(want, role) {
				value = "1"
			}
			if line := fmt.Sprintf("lksms_role_missing{role=%q} %s\n", role, value); !strings.Contains(metrics, line) {
				t.Errorf("%s, the metrics have no %s", when, line)
			}
		}
	}
	expect("without a sender")
	b.AddSender(map[string]any{"sender_no": "phone"})
	expect("with an app")
	provider := apptest.NewProvider(t)
	b.AddSender(map[string]any{"sender_no": "pushed", "kind": "http-sms", "config": provider.SenderConfig()})
	expect("with a driven sender", servers.Push)
	b.AddSender(map[string]any{"sender_no": "called", "kind": "http-sms", "config": apptest.ReceiverConfig(provider, nil)})
	expect("with one that is called back", servers.Callback, servers.Push)
	if _, err := another(b, servers.Push).Servers.Beat(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect("with a server that pushes", servers.Callback)
	for _, no := range []string{"pushed", "called"} {
		b.Expect(200, "", "PATCH", "/api/v1/admin/senders/"+no, map[string]any{"status": "off", "version": b.GetSender(no).Version})
	}
	b.Exec("DELETE FROM servers WHERE roles = '{push}'")
	expect("as both are off, and receipts of the last messages may come", servers.Callback)
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/called", map[string]any{"status": "retired", "version": b.GetSender("called").Version})
	expect("as it is retired, and late receipts count", servers.Callback)
	b.Exec("UPDATE senders SET updated_at = now() - interval '31 days' WHERE sender_no = 'called'")
	expect("as none is left that is called back")
}

// another returns a server with some roles. The server is not started.
func another(b *apptest.Bundle, roles ...servers.Role) *app.App {
	b.T.Helper()
	with := *b
	with.Options.Roles = roles
	return apptest.Another(&with)
}

func namesOf(roles []api.ServerRole) []string {
	names := make([]string, len(roles))
	for i, role := range roles {
		names[i] = string(role)
	}
	return names
}

// A server that stops removes itself from the list of servers.
func TestAServerThatStopsIsRemovedFromTheList(t *testing.T) {
	b := apptest.New(t)
	other, stop := serving(b, servers.All()...)
	if _, err := other.App.Servers.Beat(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := b.Count("SELECT count(*) FROM servers"); n != 1 {
		t.Errorf("%d servers", n)
	}
	stop()
	if n := b.Count("SELECT count(*) FROM servers"); n != 0 {
		t.Errorf("after the server stopped, %d servers are listed", n)
	}
}

// A heartbeat that was in progress when the server stopped must not list the server again.
func TestALateHeartbeatDoesNotListAStoppedServer(t *testing.T) {
	b := apptest.New(t)
	for _, act := range []func(context.Context) (int, error){
		b.App.Servers.Beat, func(ctx context.Context) (int, error) { return 0, b.App.Servers.Leave(ctx) }, b.App.Servers.Beat,
	} {
		if _, err := act(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := b.Count("SELECT count(*) FROM servers"); n != 0 {
		t.Errorf("%d servers", n)
	}
}
