package app_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
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
	"lksms/internal/queue"
	"lksms/internal/secret"
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
	b.becomes(id, queue.Success)
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
	b.becomes(b.submit("x"), queue.Success)
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
	b.becomes(id, queue.Success)
	p.says(200, `{"code":"9","text":"黑名单"}`)
	id = b.submit("y")
	b.becomes(id, queue.Failed)
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
	b.becomes(id, queue.Success)
	if n := b.count("SELECT count(*) FROM deliveries WHERE task_id = $1 AND provider_no = 'ab'", id); n != 1 {
		t.Errorf("%d deliveries", n)
	}
	p.says(200, "{\"code\":\"9\",\"text\":\"\\u0000\xba\xda\"}")
	id = b.submit("y")
	b.becomes(id, queue.Failed)
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
	if got := b.task(id); int16(got.Status) != queue.Processing {
		t.Fatalf("it is %v", got.Status)
	}
	p.says(200, `{"code":"0"}`)
	b.exec("UPDATE tasks SET lease_until = now() WHERE task_id = $1", id)
	if n, err := b.app.Tasks.Recover(t.Context()); n != 1 || err != nil {
		t.Fatalf("recovered %d, %v", n, err)
	}
	b.becomes(id, queue.Success)
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
		b.becomes(b.submit("x"), queue.Success)
	}
	if got := b.task(slow); int16(got.Status) != queue.Processing {
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
	if got := b.task(id); int16(got.Status) != queue.Success {
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
	if got := b.task(id); int16(got.Status) != queue.Processing {
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
	b.becomes(b.submit("x"), queue.Success)
	after := newProvider(t)
	for range 5 {
		before, after = after, before
		sent := len(after.seen())
		b.expect(200, "", "PATCH", "/api/v1/admin/senders/pushed", map[string]any{"config": before.config()})
		b.becomes(b.submit("x"), queue.Success)
		if len(after.seen()) != sent {
			t.Fatal("it was sent as it was before")
		}
	}
}

// What a caller does not see it cannot have sent elsewhere: secrets are bound to the provider that they were given for.
func TestSecretsAreGivenAgainForAnotherProvider(t *testing.T) {
	b, p := receiving(t, nil)
	thief := newProvider(t)
	const path = "/api/v1/admin/senders/pushed"
	_, port, err := net.SplitHostPort(p.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	const both = "config.callbackSecret,config.secrets"
	change := func(change func(config map[string]any)) map[string]any {
		config := receiverConfig(p, nil)
		config["secrets"], config["callbackSecret"] = "***", "***"
		change(config)
		return map[string]any{"config": config}
	}
	for name, c := range map[string]struct {
		body   map[string]any
		fields string
	}{
		"another host":   {change(func(c map[string]any) { c["url"] = "http://localhost:" + port }), both},
		"another port":   {change(func(c map[string]any) { c["url"] = thief.URL }), both},
		"another scheme": {change(func(c map[string]any) { c["url"] = strings.Replace(p.URL, "http", "https", 1) }), both},
		"left out": {change(func(c map[string]any) {
			c["url"] = thief.URL
			delete(c, "secrets")
			delete(c, "callbackSecret")
		}), both},
		"in the credentials' place": {change(func(c map[string]any) { c["url"] = p.URL + "@" + thief.Listener.Addr().String() }), both},
		"a host that a value names": {change(func(c map[string]any) {
			c["url"], c["values"] = "http://${values.host}/", map[string]any{"host": "localhost"}
		}), both},
		"a host that the secret names": {change(func(c map[string]any) { c["url"] = "http://${secrets.password}.example.com" }), both},
		"without callbacks": {change(func(c map[string]any) {
			c["url"] = thief.URL
			delete(c, "callback")
		}), "config.secrets"},
		"another proof":        {change(func(c map[string]any) { c["callback"].(map[string]any)["verify"] = "standard-webhooks" }), "config.callbackSecret"},
		"another kind":         {map[string]any{"kind": "oa", "config": map[string]any{"url": thief.URL, "secret": "***"}}, "config.secret"},
		"the kind alone":       {map[string]any{"kind": "wechat"}, "config.callbackSecret"},
		"half of another host": {change(func(c map[string]any) { c["url"] = thief.URL + "/***" }), both + ",config.url"},
	} {
		if a := b.expect(422, "request.invalid", "PATCH", path, c.body); a.fields() != c.fields {
			t.Errorf("%s: names %s", name, a.fields())
		}
	}
	if a := b.expect(422, "request.invalid", "POST", "/api/v1/admin/senders", map[string]any{
		"sender_no": "x", "name": "x", "kind": "oa", "config": map[string]any{"url": thief.URL, "secret": "***"},
	}); a.fields() != "config.secret" {
		t.Errorf("a new sender: names %s", a.fields())
	}
	for _, name := range []string{"Secrets", "\u017fecrets", "URL"} {
		body := change(func(c map[string]any) { c[name] = map[string]any{"password": "hunter2"} })
		if a := b.expect(422, "request.invalid", "PATCH", path, body); a.fields() != "config."+name {
			t.Errorf("%s: names %s", name, a.fields())
		}
	}
	// As an app it has none, whatever it becomes after that.
	b.expect(200, "", "PATCH", path, map[string]any{"kind": "app"})
	if shown := b.getSender("pushed").Config; shown["secrets"] != nil || shown["callbackSecret"] != nil {
		t.Errorf("shown: %v", shown)
	}
	b.expect(422, "request.invalid", "PATCH", path, map[string]any{"kind": "http-sms", "config": map[string]any{"url": thief.URL, "secrets": "***"}})
	b.expect(200, "", "PATCH", path, map[string]any{"kind": "http-sms", "config": receiverConfig(p, nil)})
	// For the same provider they stay, also where a new one was given for callbacks.
	for _, body := range []map[string]any{
		change(func(c map[string]any) { c["url"], c["timeoutSeconds"] = p.URL+"/v2?x=1", 5 }),
		change(func(c map[string]any) { c["callback"].(map[string]any)["state"] = "stat" }),
		change(func(c map[string]any) {
			c["callback"].(map[string]any)["verify"], c["callbackSecret"] = "standard-webhooks", callbackKey
		}),
	} {
		b.expect(200, "", "PATCH", path, body)
	}
	b.becomes(b.submit("x"), queue.Success)
	if got := p.seen(); len(got) != 1 || !strings.Contains(got[0], "hunter2") || len(thief.seen()) > 0 {
		t.Errorf("sent %v, %v", got, thief.seen())
	}
}

func TestAMailServersPasswordIsGivenAgainForAnother(t *testing.T) {
	b := setupWith(t, defaultRules, withSecrets)
	config := func(more map[string]any) map[string]any {
		c := map[string]any{"host": "mail.example.com", "username": "u", "password": "***", "from": "a@example.com"}
		for name, value := range more {
			c[name] = value
		}
		return map[string]any{"config": c}
	}
	created := config(map[string]any{"password": "hunter2"})
	created["sender_no"], created["kind"], created["channel"], created["status"] = "mail", "email", "email", "off"
	b.sender(created)
	for _, more := range []map[string]any{{"host": "mail.example.org"}, {"port": 2525}, {"tls": "none"}, {"tls": "implicit"}} {
		if a := b.expect(422, "request.invalid", "PATCH", "/api/v1/admin/senders/mail", config(more)); a.fields() != "config.password" {
			t.Errorf("%v: names %s", more, a.fields())
		}
	}
	for _, more := range []map[string]any{{"host": "MAIL.example.com"}, {"port": 587}, {"tls": "starttls"}, {"replyTo": "b@example.com"}} {
		b.expect(200, "", "PATCH", "/api/v1/admin/senders/mail", config(more))
	}
}

// Of an address the host is shown, and what may hold a token is kept sealed: in the database, in answers, in the log and in events.
func TestTokensInAddressesAreSealedAndHidden(t *testing.T) {
	b, p := pushing(t, nil)
	const path = "/api/v1/admin/senders/pushed"
	called := make(chan string, 10)
	p.does(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		called <- user + ":" + password + " " + r.URL.RequestURI()
		_, _ = io.WriteString(w, `{"code":"0"}`)
	})
	const want = "tok1:tok2 /hook/tok3?access_token=tok4"
	config := p.config()
	config["url"] = strings.Replace(p.URL, "://", "://tok1:tok2@", 1) + "/hook/tok3?access_token=tok4"
	hidden := func() {
		t.Helper()
		if a := b.expect(200, "", "GET", path, nil); strings.Contains(a.raw, "tok") || b.getSender("pushed").Config["url"] != p.URL+"/***" {
			t.Errorf("shown: %s", a.raw)
		}
		if a := b.expect(200, "", "GET", "/api/v1/admin/senders", nil); strings.Contains(a.raw, "tok") {
			t.Errorf("listed: %s", a.raw)
		}
	}
	sends := func() {
		t.Helper()
		b.becomes(b.submit("x"), queue.Success)
		if got := <-called; got != want {
			t.Errorf("called %s", got)
		}
	}
	if a := b.expect(200, "", "PATCH", path, map[string]any{"config": config}); strings.Contains(a.raw, "tok") {
		t.Errorf("answered: %s", a.raw)
	}
	hidden()
	if n := b.count("SELECT count(*) FROM senders s WHERE s::text ~ 'tok[1-4]'"); n != 0 {
		t.Error("the address is in the database as it is")
	}
	sends()
	// What was shown may be given back: the address stays.
	shown := b.getSender("pushed").Config
	shown["timeoutSeconds"] = 5
	b.expect(200, "", "PATCH", path, map[string]any{"config": shown})
	sends()
	// One that was stored before addresses were sealed goes on working, is hidden, and is sealed with the keys.
	b.exec("UPDATE senders SET version = version + 1, config = config || jsonb_build_object('url', $1::text) WHERE sender_no = 'pushed'", config["url"])
	b.app.Pusher.Changed()
	hidden()
	sends()
	for want := 1; want >= 0; want-- {
		if n, err := app.RotateSecrets(t.Context(), b.db.Config().ConnString(), b.options.Secrets); n != want || err != nil {
			t.Fatalf("sealed %d anew, %v", n, err)
		}
	}
	if n := b.count("SELECT count(*) FROM senders s WHERE s::text ~ 'tok[1-4]'"); n != 0 {
		t.Error("the address is in the database as it is")
	}
	// Nothing that is told of a failure holds it.
	p.Close()
	id := b.submit("y")
	rest := b.resting("pushed")
	timeline := b.expect(200, "", "GET", "/api/v1/sms/task/"+id+"/timeline", nil)
	events := b.expect(200, "", "GET", "/api/v1/admin/events?event=sender.resting", nil)
	for _, text := range []string{rest.Reason, timeline.raw, events.raw, b.log.String()} {
		if strings.Contains(text, "tok1") || strings.Contains(text, "tok2") || strings.Contains(text, "tok3") || strings.Contains(text, "tok4") {
			t.Errorf("told: %s", text)
		}
	}
}

// Without a key, an address is kept as it is unless it has a place for credentials, and is hidden all the same.
func TestWithoutAKeyAnAddressHoldsNoCredentials(t *testing.T) {
	b := setup(t)
	sender := func(url string) map[string]any {
		return map[string]any{
			"sender_no": "ding", "name": "x", "channel": "dingtalk", "kind": "dingtalk", "status": "off",
			"config": map[string]any{"baseUrl": url, "agentId": "A", "corpId": "C"},
		}
	}
	for _, url := range []string{"http://x/send?access_token=t", "http://u:p@x/send"} {
		if a := b.expect(422, "request.invalid", "POST", "/api/v1/admin/senders", sender(url)); a.fields() != "config.baseUrl" {
			t.Errorf("%s: names %s", url, a.fields())
		}
	}
	b.expect(200, "", "POST", "/api/v1/admin/senders", sender("http://x/mc/send"))
	shown := b.getSender("ding").Config
	b.expect(200, "", "PATCH", "/api/v1/admin/senders/ding", map[string]any{"config": shown})
	if got := scan[string](b, "SELECT config ->> 'baseUrl' FROM senders WHERE sender_no = 'ding'"); shown["baseUrl"] != "http://x/***" || got != "http://x/mc/send" {
		t.Errorf("shown %v, kept %s", shown, got)
	}
}

// A text that looks sealed is a secret like any other: only what was stored is ever opened.
func TestASecretThatLooksSealedIsTakenAsItIs(t *testing.T) {
	b, p := pushing(t, nil)
	const path = "/api/v1/admin/senders/pushed"
	config := p.config()
	config["secrets"] = map[string]any{"password": "sealed:x"}
	config["callbackSecret"] = "sealed:0123456789abcdef"
	b.expect(200, "", "PATCH", path, map[string]any{"config": config})
	b.becomes(b.submit("x"), queue.Success)
	if got := p.seen(); !strings.Contains(got[0], "sealed:x") {
		t.Errorf("sent %v", got)
	}
	config["secrets"] = scan[string](b, "SELECT config ->> 'secrets' FROM senders WHERE sender_no = 'pushed'")
	if a := b.expect(422, "request.invalid", "PATCH", path, map[string]any{"config": config}); a.fields() != "config.secrets" {
		t.Errorf("names %s", a.fields())
	}
}
