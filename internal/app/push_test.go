package app_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lksms/gen/api"
	"lksms/internal/app"
	"lksms/internal/config"
	"lksms/internal/secret"
	"lksms/internal/task"
)

// provider is a stub that listens. It keeps what it was sent, and answers as it is told.
type provider struct {
	*httptest.Server
	mu     sync.Mutex
	bodies []string
	answer atomic.Pointer[http.HandlerFunc]
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	p := &provider{}
	p.says(200, `{"code":"0","id":"p-1"}`)
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		p.mu.Lock()
		p.bodies = append(p.bodies, string(body))
		p.mu.Unlock()
		(*p.answer.Load())(w, r)
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *provider) does(answer http.HandlerFunc) { p.answer.Store(&answer) }

func (p *provider) says(status int, body string) {
	p.does(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
}

func (p *provider) seen() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.bodies...)
}

// config is that of a sender of kind http-sms that speaks to it.
func (p *provider) config() map[string]any {
	return map[string]any{
		"url": p.URL, "timeoutSeconds": 30, "secrets": map[string]any{"password": "hunter2"},
		"body": map[string]any{"to": "${recipient}", "text": "${content}", "password": "${secrets.password}"},
		"answer": map[string]any{
			"success": "code", "equals": []string{"0"}, "number": "id", "code": "code", "error": "text", "permanent": []string{"9"},
		},
	}
}

func withSecrets(o *app.Options) {
	box, err := secret.NewBox(secret.NewKey())
	if err != nil {
		panic(err)
	}
	o.Secrets = box
}

// another is a second server on the same database, which is not started.
func another(b *testBundle) *app.App {
	b.t.Helper()
	options := b.options
	options.Log = slog.New(slog.DiscardHandler)
	second, err := app.New(b.t.Context(), options)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(second.Close)
	return second
}

// pushing is a server that drives senders, with one of them for short messages.
func pushing(t *testing.T, more map[string]any) (*testBundle, *provider) {
	t.Helper()
	rules := defaultRules
	rules.RetryDelay, rules.MaxRetryCount = 10*time.Millisecond, 20
	b := setupWith(t, rules, withSecrets)
	p := newProvider(t)
	sender := map[string]any{"sender_no": "pushed", "kind": "http-sms", "config": p.config()}
	for name, value := range more {
		sender[name] = value
	}
	b.sender(sender)
	b.app.Pusher.Start()
	return b, p
}

func (b *testBundle) becomes(id string, status int16) {
	b.t.Helper()
	eventually(b.t, fmt.Sprintf("%s is %d", id, status), func() bool { return int16(b.task(id).Status) == status })
}

func TestADrivenSenderSendsAndReportsLikeAnApp(t *testing.T) {
	b, p := pushing(t, map[string]any{"balance": 10, "sign": "平台"})
	id := b.submit("你好")
	b.becomes(id, task.Success)
	if got := p.seen(); len(got) != 1 || !strings.Contains(got[0], `"to":"+8613800138000"`) || !strings.Contains(got[0], "【平台】你好") {
		t.Errorf("it was sent %v", got)
	}
	if n := b.count("SELECT count(*) FROM deliveries d JOIN send_logs s ON s.id = d.lease_id WHERE d.task_id = $1 AND d.provider_no = 'p-1' AND d.sender_no = 'pushed'", id); n != 1 {
		t.Errorf("%d deliveries", n)
	}
	if got := decode[api.Sender](t, b.expect(200, "", "GET", "/api/v1/admin/senders/pushed", nil)); *got.Balance != 9 || got.LeaseSeconds == nil {
		t.Errorf("sender %+v", got)
	}
}

func TestSecretsOfSendersAreSealedAndShownToNobody(t *testing.T) {
	b, p := pushing(t, nil)
	const path = "/api/v1/admin/senders/pushed"
	shown := decode[api.Sender](t, b.expect(200, "", "GET", path, nil))
	if shown.Config["secrets"] != "***" {
		t.Errorf("shown: %v", shown.Config)
	}
	if n := b.count("SELECT count(*) FROM senders s WHERE s::text LIKE '%hunter2%'"); n != 0 {
		t.Error("the secret is in the database as it is")
	}
	// What was shown may be given back: the secret stays.
	shown.Config["timeoutSeconds"] = 1
	b.expect(200, "", "PATCH", path, map[string]any{"config": shown.Config})
	b.becomes(b.submit("x"), task.Success)
	if got := p.seen(); !strings.Contains(got[0], "hunter2") {
		t.Errorf("sent %v", got)
	}
	for field, body := range map[string]map[string]any{
		"kind":              {"kind": "pigeon"},
		"config.timeoutSec": {"config": map[string]any{"url": p.URL, "timeoutSec": 1}},
		"config.body":       {"config": map[string]any{"url": p.URL, "body": "${nothing}"}},
	} {
		if a := b.expect(422, "request.invalid", "PATCH", path, body); a.fields() != field {
			t.Errorf("%v names %s", body, a.fields())
		}
	}
	if strings.Contains(b.log.String(), "hunter2") {
		t.Error("the secret is in the log")
	}
}

func TestWithoutAKeyNoSecretIsTaken(t *testing.T) {
	b := setup(t)
	a := b.expect(422, "request.invalid", "POST", "/api/v1/admin/senders", map[string]any{
		"sender_no": "x", "name": "x", "kind": "oa", "config": map[string]any{"url": "http://x", "secret": "s"},
	})
	if a.fields() != "config.secret" {
		t.Errorf("names %s", a.fields())
	}
}

func TestARefusalIsTriedAgainOrNot(t *testing.T) {
	b, p := pushing(t, nil)
	p.says(500, "")
	id := b.submit("x")
	eventually(t, "it failed once", func() bool { return b.task(id).RetryCount >= 1 })
	p.says(200, `{"code":"0"}`)
	b.becomes(id, task.Success)
	p.says(200, `{"code":"9","text":"黑名单"}`)
	id = b.submit("y")
	b.becomes(id, task.Failed)
	if got := b.task(id); got.RetryCount != 0 || got.Result == nil || *got.Result != "黑名单" {
		t.Errorf("%+v", got)
	}
}

// What a provider says may be no text that PostgreSQL keeps. It is kept without that: a report that is lost is a message that
// goes out twice.
func TestWhateverAProviderSaysIsKept(t *testing.T) {
	b, p := pushing(t, nil)
	p.says(200, `{"code":"0","id":"a\u0000b"}`)
	id := b.submit("x")
	b.becomes(id, task.Success)
	if n := b.count("SELECT count(*) FROM deliveries WHERE task_id = $1 AND provider_no = 'ab'", id); n != 1 {
		t.Errorf("%d deliveries", n)
	}
	p.says(200, "{\"code\":\"9\",\"text\":\"\\u0000\xba\xda\"}")
	id = b.submit("y")
	b.becomes(id, task.Failed)
	p.says(200, "\x00\xff")
	id = b.submit("z")
	eventually(t, "it is known to be unclear", func() bool {
		return b.count("SELECT count(*) FROM deliveries WHERE task_id = $1 AND error <> ''", id) == 1
	})
	if got := p.seen(); len(got) != 3 {
		t.Errorf("sent %d times", len(got))
	}
}

// Nobody knows whether it went out: it is not sent again before its lease has run out.
func TestWhatIsUnclearWaitsForItsLease(t *testing.T) {
	b, p := pushing(t, nil)
	p.says(200, "<html>")
	id := b.submit("x")
	eventually(t, "it is known to be unclear", func() bool {
		return b.count("SELECT count(*) FROM deliveries WHERE task_id = $1 AND provider_no IS NULL AND error <> ''", id) == 1
	})
	if got := b.task(id); int16(got.Status) != task.Processing {
		t.Fatalf("it is %v", got.Status)
	}
	p.says(200, `{"code":"0"}`)
	b.exec("UPDATE tasks SET lease_until = now() WHERE task_id = $1", id)
	if n, err := b.app.Tasks.Recover(t.Context()); n != 1 || err != nil {
		t.Fatalf("recovered %d, %v", n, err)
	}
	b.becomes(id, task.Success)
	if got := p.seen(); len(got) != 2 {
		t.Errorf("sent %d times", len(got))
	}
}

func TestASlowProviderHoldsOnlyItsOwnSender(t *testing.T) {
	b, p := pushing(t, nil)
	release := make(chan struct{})
	defer close(release)
	p.does(func(http.ResponseWriter, *http.Request) { <-release })
	slow := b.submit("slow")
	eventually(t, "it is being sent", func() bool { return len(p.seen()) == 1 })
	b.sender(map[string]any{"sender_no": "logs", "kind": "log"})
	for range 20 {
		b.becomes(b.submit("x"), task.Success)
	}
	if got := b.task(slow); int16(got.Status) != task.Processing {
		t.Errorf("it is %v", got.Status)
	}
}

func TestWhatIsUnderWayWhenTheServerStops(t *testing.T) {
	b, p := pushing(t, nil)
	release := make(chan struct{})
	p.does(func(w http.ResponseWriter, _ *http.Request) {
		<-release
		_, _ = io.WriteString(w, `{"code":"0"}`)
	})
	id := b.submit("x")
	eventually(t, "it is being sent", func() bool { return len(p.seen()) == 1 })
	stopped := make(chan struct{})
	go func() {
		b.app.Pusher.Stop(t.Context())
		close(stopped)
	}()
	close(release)
	<-stopped
	if got := b.task(id); int16(got.Status) != task.Success {
		t.Errorf("it was finished and is %v", got.Status)
	}
}

func TestWhatCannotBeFinishedKeepsItsLease(t *testing.T) {
	b, p := pushing(t, nil)
	release := make(chan struct{})
	defer close(release)
	p.does(func(http.ResponseWriter, *http.Request) { <-release })
	id := b.submit("x")
	eventually(t, "it is being sent", func() bool { return len(p.seen()) == 1 })
	now, cancel := context.WithCancel(t.Context())
	cancel()
	b.app.Pusher.Stop(now)
	if got := b.task(id); int16(got.Status) != task.Processing {
		t.Errorf("it is %v", got.Status)
	}
}

// A provider that is in trouble gives its share to the others, and is tried again later.
func TestABrokenProviderGivesItsShareAway(t *testing.T) {
	b, p := pushing(t, map[string]any{"is_shared": false})
	p.says(500, "")
	b.route("default", "pushed", 1)
	for i := range 8 {
		b.submit(fmt.Sprint(i))
	}
	eventually(t, "it is left alone", func() bool {
		return b.count("SELECT count(*) FROM sender_states st JOIN senders s ON s.id = st.sender_id WHERE s.sender_no = 'pushed' AND st.next_available_at > now()") == 1
	})
	b.sender(map[string]any{"sender_no": "other", "kind": "log", "is_shared": false})
	b.route("default", "other", 1)
	eventually(t, "the other sends everything", func() bool { return b.count("SELECT count(*) FROM tasks WHERE status <> 2") == 0 })
}

func TestSecretsAreSealedAnew(t *testing.T) {
	old, fresh := secret.NewKey(), secret.NewKey()
	b := setupWith(t, defaultRules, func(o *app.Options) { o.Secrets = box(t, old) })
	p := newProvider(t)
	b.sender(map[string]any{"sender_no": "pushed", "kind": "http-sms", "config": p.config()})
	for want := 1; want >= 0; want-- {
		if n, err := app.RotateSecrets(t.Context(), b.db.Config().ConnString(), box(t, fresh, old)); n != want || err != nil {
			t.Fatalf("sealed %d anew, %v", n, err)
		}
	}
	if _, err := app.RotateSecrets(t.Context(), b.db.Config().ConnString(), box(t, old)); err == nil {
		t.Error("the old key still opens it")
	}
}

func box(t *testing.T, keys ...string) *secret.Box {
	t.Helper()
	b, err := secret.NewBox(keys...)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestAKeyForSecretsIsKeptBesideAPrivateDatabase(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := config.SecretBox(config.Outbound{}, config.Database{DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := first.Seal("x", "here")
	if err != nil {
		t.Fatal(err)
	}
	again, err := config.SecretBox(config.Outbound{}, config.Database{DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := again.Open(sealed, "here"); got != "x" || err != nil {
		t.Errorf("opened %q, %v", got, err)
	}
	if _, err := again.Open(sealed, "there"); err == nil {
		t.Error("it can be opened elsewhere")
	}
}

func TestTheProvidersOfTheDocumentsCanBeAdded(t *testing.T) {
	b := setupWith(t, defaultRules, withSecrets)
	files, err := filepath.Glob("../../docs/providers/*.json")
	if err != nil || len(files) < 3 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		b.expect(200, "", "POST", "/api/v1/admin/senders", string(content))
	}
}

// What is sent after a change is sent as it is now.
func TestAChangedSenderIsDrivenAsItIsNow(t *testing.T) {
	b, before := pushing(t, nil)
	b.becomes(b.submit("x"), task.Success)
	after := newProvider(t)
	for range 5 {
		before, after = after, before
		sent := len(after.seen())
		b.expect(200, "", "PATCH", "/api/v1/admin/senders/pushed", map[string]any{"config": before.config()})
		b.becomes(b.submit("x"), task.Success)
		if len(after.seen()) != sent {
			t.Fatal("it was sent as it was before")
		}
	}
}
