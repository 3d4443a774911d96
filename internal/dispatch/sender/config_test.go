package sender_test

import (
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	api "lksms/gen/client"
	"lksms/internal/app"
	"lksms/internal/dispatch/queue"
	"lksms/internal/platform/secret"
	"lksms/internal/testkit/apptest"
)

func TestMain(m *testing.M) { apptest.Main(m) }

func TestSecretsOfSendersAreStoredEncryptedAndMasked(t *testing.T) {
	b, p := apptest.NewPushing(t, nil)
	const path = "/api/v1/admin/senders/pushed"
	shown := apptest.Decode[api.Sender](t, b.Expect(200, "", "GET", path, nil))
	if shown.Config["secrets"] != "***" {
		t.Errorf("shown: %v", shown.Config)
	}
	if n := b.Count("SELECT count(*) FROM senders s WHERE s::text LIKE '%hunter2%'"); n != 0 {
		t.Error("the secret is in the database in plain text")
	}
	// A configuration can be sent back in its displayed form: the secret is kept.
	shown.Config["timeoutSeconds"] = 1
	b.Expect(200, "", "PATCH", path, map[string]any{"config": shown.Config})
	b.AwaitStatus(b.Submit("x"), queue.Success)
	if got := p.Seen(); !strings.Contains(got[0], "hunter2") {
		t.Errorf("sent %v", got)
	}
	for field, body := range map[string]map[string]any{
		"kind":              {"kind": "pigeon"},
		"config.timeoutSec": {"config": map[string]any{"url": p.URL, "timeoutSec": 1}},
		"config.body":       {"config": map[string]any{"url": p.URL, "body": "${nothing}"}},
	} {
		if a := b.Expect(422, "request.invalid", "PATCH", path, body); a.Fields() != field {
			t.Errorf("%v: wrong fields %s", body, a.Fields())
		}
	}
	if strings.Contains(b.Log.String(), "hunter2") {
		t.Error("the secret is in the log")
	}
}

func TestPatchWithNullRemovesASecret(t *testing.T) {
	b, p := apptest.NewPushing(t, nil)
	const path = "/api/v1/admin/senders/pushed"
	b.Expect(200, "", "PATCH", path, map[string]any{"config": map[string]any{
		"url": p.URL, "body": "${recipient} ${content}", "answer": map[string]any{"success": "status", "number": "id"}, "secrets": map[string]any{"password": "hunter2"}, "callbackSecret": "a-long-secret-of-callbacks",
		"callback": map[string]any{"verify": "hmac", "header": "X-Signature", "number": "id", "state": "state", "delivered": []string{"1"}},
	}})
	change := func(config map[string]any) map[string]any {
		t.Helper()
		return apptest.Decode[api.Sender](t, b.Expect(200, "", "PATCH", path, map[string]any{"config": config})).Config
	}
	shown := b.GetSender("pushed").Config
	shown["secrets"] = nil
	shown = change(shown)
	if _, found := shown["secrets"]; found || shown["callbackSecret"] != "***" {
		t.Errorf("shown: %v", shown)
	}
	// A secret that another field needs cannot be removed alone.
	shown["callbackSecret"] = nil
	if a := b.Expect(422, "request.invalid", "PATCH", path, map[string]any{"config": shown}); !strings.Contains(a.Fields(), "callback") {
		t.Errorf("wrong fields %s", a.Fields())
	}
	delete(shown, "callback")
	shown = change(shown)
	if _, found := shown["callbackSecret"]; found {
		t.Errorf("shown: %v", shown)
	}
	if n := b.Count("SELECT count(*) FROM senders s WHERE s.sender_no = 'pushed' AND (s.config ? 'secrets' OR s.config ? 'callbackSecret')"); n != 0 {
		t.Error("a removed secret is still in the database")
	}
}

func TestSecretsAreRefusedWithoutAKey(t *testing.T) {
	b := apptest.New(t)
	a := b.Expect(422, "request.invalid", "POST", "/api/v1/admin/senders", map[string]any{
		"sender_no": "x", "name": "x", "kind": "oa", "config": map[string]any{"url": "http://x", "secret": "s"},
	})
	if a.Fields() != "config.secret" {
		t.Errorf("wrong fields %s", a.Fields())
	}
}

func TestRotateSecretsEncryptsAllSecretsAgain(t *testing.T) {
	old, fresh := secret.NewKey(), secret.NewKey()
	b := apptest.NewWith(t, apptest.DefaultRules, func(o *app.Options) { o.Secrets = apptest.Secrets(old) })
	p := apptest.NewProvider(t)
	b.AddSender(map[string]any{"sender_no": "pushed", "kind": "http-sms", "config": p.SenderConfig()})
	for want := 1; want >= 0; want-- {
		if n, err := app.RotateSecrets(t.Context(), b.DB.Config().ConnString(), apptest.Secrets(fresh, old)); n != want || err != nil {
			t.Fatalf("encrypted %d again, %v", n, err)
		}
	}
	if _, err := app.RotateSecrets(t.Context(), b.DB.Config().ConnString(), apptest.Secrets(old)); err == nil {
		t.Error("the old key still opens the secret")
	}
}

func TestTheExampleProvidersOfTheDocumentsCanBeAdded(t *testing.T) {
	b := apptest.NewWith(t, apptest.DefaultRules, apptest.WithSecrets)
	files, err := filepath.Glob("../../../docs/providers/*.json")
	if err != nil || len(files) < 3 {
		t.Fatalf("%v, %v", files, err)
	}
	modes := map[api.SignMode]int{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		added := apptest.Decode[api.Sender](t, b.Expect(200, "", "POST", "/api/v1/admin/senders", string(content)))
		modes[added.SignMode]++
		// Only a provider that adds the signature itself needs the signature as a separate value.
		if takesSign := strings.Contains(string(content), "${sign}"); added.Kind == "http-sms" && takesSign != (added.SignMode == api.SignByProvider) {
			t.Errorf("%s has the sign_mode %s", file, added.SignMode)
		}
	}
	if modes[api.SignInText] == 0 || modes[api.SignByProvider] == 0 || modes[api.SignNone] == 0 {
		t.Errorf("no example of some way to sign: %v", modes)
	}
}

// A secret is bound to the provider for which it was set, so that a caller who cannot read the secret cannot send it to another host.
func TestAChangeOfTheProviderRequiresNewSecrets(t *testing.T) {
	b, p := apptest.NewReceiving(t, nil)
	thief := apptest.NewProvider(t)
	expectSecretsRequired(b, p, thief)
	expectOtherNamesRefused(b, p, thief)
	// A sender that becomes an app loses its secrets, even if it becomes a driven sender again.
	b.Expect(200, "", "PATCH", pushedPath, map[string]any{"kind": "app"})
	if shown := b.GetSender("pushed").Config; shown["secrets"] != nil || shown["callbackSecret"] != nil {
		t.Errorf("shown: %v", shown)
	}
	b.Expect(422, "request.invalid", "PATCH", pushedPath, map[string]any{"kind": "http-sms", "config": map[string]any{"url": thief.URL, "secrets": "***"}})
	b.Expect(200, "", "PATCH", pushedPath, map[string]any{"kind": "http-sms", "status": "on", "is_shared": true, "config": apptest.ReceiverConfig(p, nil)})
	expectSecretsKept(b, p)
	b.AwaitStatus(b.Submit("x"), queue.Success)
	if got := p.Seen(); len(got) != 1 || !strings.Contains(got[0], "hunter2") || len(thief.Seen()) > 0 {
		t.Errorf("sent %v, %v", got, thief.Seen())
	}
}

func TestSecretOfCallbacksWithoutCallbacksIsRejected(t *testing.T) {
	b, p := apptest.NewReceiving(t, nil)
	without := func(change func(config map[string]any)) map[string]any {
		return changed(p, func(c map[string]any) {
			delete(c, "callback")
			change(c)
		})
	}
	given := map[string]any{"config": apptest.ReceiverConfig(p, nil)}
	delete(given["config"].(map[string]any), "callback")
	for method, body := range map[string]map[string]any{
		"PATCH": given, "POST": {"sender_no": "x", "name": "x", "kind": "http-sms", "config": given["config"]},
	} {
		path := map[string]string{"PATCH": pushedPath, "POST": "/api/v1/admin/senders"}[method]
		if a := b.Expect(422, "request.invalid", method, path, body); a.Fields() != "config.callbackSecret" {
			t.Errorf("%s: wrong fields %s", method, a.Fields())
		}
	}
	// A sender of an earlier version continues to work, and loses the secret with its next configuration.
	b.Exec("UPDATE senders SET config = config - 'callback' WHERE sender_no = 'pushed'")
	if got := b.GetSender("pushed").ConfigGaps; !slices.Equal(got, []string{"config.callbackSecret"}) {
		t.Errorf("gaps %v", got)
	}
	for name, change := range map[string]func(config map[string]any){
		"masked":   func(map[string]any) {},
		"left out": func(c map[string]any) { delete(c, "callbackSecret") },
	} {
		b.Expect(200, "", "PATCH", pushedPath, map[string]any{"config": apptest.ReceiverConfig(p, nil)})
		b.Expect(200, "", "PATCH", pushedPath, without(change))
		if shown := b.GetSender("pushed"); shown.Config["callbackSecret"] != nil || len(shown.ConfigGaps) > 0 {
			t.Errorf("%s: %v, gaps %v", name, shown.Config, shown.ConfigGaps)
		}
	}
}

// pushedPath is the path of the sender of apptest.NewReceiving.
const pushedPath = "/api/v1/admin/senders/pushed"

// changed returns a request that changes the configuration of p's sender, with masked secrets.
func changed(p *apptest.Provider, change func(config map[string]any)) map[string]any {
	config := apptest.ReceiverConfig(p, nil)
	config["secrets"], config["callbackSecret"] = "***", "***"
	change(config)
	return map[string]any{"config": config}
}

// expectSecretsRequired fails the test if a change without new secrets can make the sender of p send to thief.
func expectSecretsRequired(b *apptest.Bundle, p, thief *apptest.Provider) {
	b.T.Helper()
	_, port, err := net.SplitHostPort(p.Listener.Addr().String())
	if err != nil {
		b.T.Fatal(err)
	}
	const both = "config.callbackSecret,config.secrets"
	for name, c := range map[string]struct {
		body   map[string]any
		fields string
	}{
		"another host":   {changed(p, func(c map[string]any) { c["url"] = "http://localhost:" + port }), both},
		"another port":   {changed(p, func(c map[string]any) { c["url"] = thief.URL }), both},
		"another scheme": {changed(p, func(c map[string]any) { c["url"] = strings.Replace(p.URL, "http", "https", 1) }), both},
		"left out": {changed(p, func(c map[string]any) {
			c["url"] = thief.URL
			delete(c, "secrets")
			delete(c, "callbackSecret")
		}), both},
		"in the credentials' place": {changed(p, func(c map[string]any) { c["url"] = p.URL + "@" + thief.Listener.Addr().String() }), both},
		"a host that a value names": {changed(p, func(c map[string]any) {
			c["url"], c["values"] = "http://${values.host}/", map[string]any{"host": "localhost"}
		}), both},
		"a host that the secret names": {changed(p, func(c map[string]any) { c["url"] = "http://${secrets.password}.example.com" }), both},
		"a host for batches":           {changed(p, func(c map[string]any) { c["batchUrl"] = thief.URL }), both},
		"half of a host for batches":   {changed(p, func(c map[string]any) { c["batchUrl"] = thief.URL + "/***" }), "config.batchUrl," + both},
		"a host for batches by value":  {changed(p, func(c map[string]any) { c["batchUrl"] = "http://${secrets.password}.example.com" }), both},
		"without callbacks": {changed(p, func(c map[string]any) {
			c["url"] = thief.URL
			delete(c, "callback")
		}), "config.secrets"},
		"another proof":        {changed(p, func(c map[string]any) { c["callback"].(map[string]any)["verify"] = "standard-webhooks" }), "config.callbackSecret"},
		"another kind":         {map[string]any{"kind": "oa", "config": map[string]any{"url": thief.URL, "secret": "***"}}, "config.secret"},
		"the kind alone":       {map[string]any{"kind": "wechat"}, "config.callbackSecret"},
		"half of another host": {changed(p, func(c map[string]any) { c["url"] = thief.URL + "/***" }), both + ",config.url"},
	} {
		if a := b.Expect(422, "request.invalid", "PATCH", pushedPath, c.body); a.Fields() != c.fields {
			b.T.Errorf("%s: wrong fields %s", name, a.Fields())
		}
	}
}

// expectOtherNamesRefused fails the test if a new sender can use a masked secret, or if a secret can be copied to another field.
func expectOtherNamesRefused(b *apptest.Bundle, p, thief *apptest.Provider) {
	b.T.Helper()
	if a := b.Expect(422, "request.invalid", "POST", "/api/v1/admin/senders", map[string]any{
		"sender_no": "x", "name": "x", "kind": "oa", "config": map[string]any{"url": thief.URL, "secret": "***"},
	}); a.Fields() != "config.secret" {
		b.T.Errorf("a new sender: wrong fields %s", a.Fields())
	}
	for _, name := range []string{"Secrets", "\u017fecrets", "URL"} {
		body := changed(p, func(c map[string]any) { c[name] = map[string]any{"password": "hunter2"} })
		if a := b.Expect(422, "request.invalid", "PATCH", pushedPath, body); a.Fields() != "config."+name {
			b.T.Errorf("%s: wrong fields %s", name, a.Fields())
		}
	}
}

// expectSecretsKept fails the test unless the secrets are kept for the same provider, even if the callback secret is replaced.
func expectSecretsKept(b *apptest.Bundle, p *apptest.Provider) {
	b.T.Helper()
	for _, body := range []map[string]any{
		changed(p, func(c map[string]any) { c["url"], c["timeoutSeconds"] = p.URL+"/v2?x=1", 5 }),
		changed(p, func(c map[string]any) { c["callback"].(map[string]any)["state"] = "stat" }),
		changed(p, func(c map[string]any) { c["batchUrl"] = p.URL + "/batch?token=tok1" }),
		changed(p, func(c map[string]any) { c["batchUrl"] = p.URL + "/***" }),
		changed(p, func(c map[string]any) {
			c["callback"].(map[string]any)["verify"], c["callbackSecret"] = "standard-webhooks", apptest.CallbackKey
		}),
	} {
		b.Expect(200, "", "PATCH", pushedPath, body)
	}
}

func TestAChangeOfTheMailServerRequiresTheNewPassword(t *testing.T) {
	b := apptest.NewWith(t, apptest.DefaultRules, apptest.WithSecrets)
	config := func(more map[string]any) map[string]any {
		c := map[string]any{"host": "mail.example.com", "username": "u", "password": "***", "from": "a@example.com"}
		for name, value := range more {
			c[name] = value
		}
		return map[string]any{"config": c}
	}
	created := config(map[string]any{"password": "hunter2"})
	created["sender_no"], created["kind"], created["channel"], created["status"] = "mail", "email", "email", "off"
	b.AddSender(created)
	for _, more := range []map[string]any{{"host": "mail.example.org"}, {"port": 2525}, {"tls": "none"}, {"tls": "implicit"}} {
		if a := b.Expect(422, "request.invalid", "PATCH", "/api/v1/admin/senders/mail", config(more)); a.Fields() != "config.password" {
			t.Errorf("%v: wrong fields %s", more, a.Fields())
		}
	}
	for _, more := range []map[string]any{{"host": "MAIL.example.com"}, {"port": 587}, {"tls": "starttls"}, {"replyTo": "b@example.com"}} {
		b.Expect(200, "", "PATCH", "/api/v1/admin/senders/mail", config(more))
	}
}

// Only the host of a URL is displayed. The rest can contain a token, so the URL is encrypted in the database, and masked in answers, logs and events.
func TestURLsOfSendersAreStoredEncryptedAndMasked(t *testing.T) {
	b, p := apptest.NewPushing(t, nil)
	const path = "/api/v1/admin/senders/pushed"
	called := make(chan string, 10)
	p.Does(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		called <- user + ":" + password + " " + r.URL.RequestURI()
		_, _ = io.WriteString(w, `{"code":"0"}`)
	})
	const want = "tok1:tok2 /hook/tok3?access_token=tok4"
	config := p.SenderConfig()
	config["url"] = strings.Replace(p.URL, "://", "://tok1:tok2@", 1) + "/hook/tok3?access_token=tok4"
	hidden := func() {
		t.Helper()
		if a := b.Expect(200, "", "GET", path, nil); strings.Contains(a.Raw, "tok") || b.GetSender("pushed").Config["url"] != p.URL+"/***" {
			t.Errorf("shown: %s", a.Raw)
		}
		if a := b.Expect(200, "", "GET", "/api/v1/admin/senders", nil); strings.Contains(a.Raw, "tok") {
			t.Errorf("listed: %s", a.Raw)
		}
	}
	sends := func() {
		t.Helper()
		b.AwaitStatus(b.Submit("x"), queue.Success)
		if got := <-called; got != want {
			t.Errorf("called %s", got)
		}
	}
	if a := b.Expect(200, "", "PATCH", path, map[string]any{"config": config}); strings.Contains(a.Raw, "tok") {
		t.Errorf("answered: %s", a.Raw)
	}
	hidden()
	if n := b.Count("SELECT count(*) FROM senders s WHERE s::text ~ 'tok[1-4]'"); n != 0 {
		t.Error("the URL is in the database in plain text")
	}
	sends()
	// The configuration can be sent back in its displayed form: the URL is kept.
	shown := b.GetSender("pushed").Config
	shown["timeoutSeconds"] = 5
	b.Expect(200, "", "PATCH", path, map[string]any{"config": shown})
	sends()
	// A URL that was stored before URLs were encrypted still works, is masked, and is encrypted when the keys are rotated.
	b.Exec("UPDATE senders SET version = version + 1, config = config || jsonb_build_object('url', $1::text) WHERE sender_no = 'pushed'", config["url"])
	b.App.Pusher.Refresh()
	hidden()
	sends()
	for want := 1; want >= 0; want-- {
		if n, err := app.RotateSecrets(t.Context(), b.DB.Config().ConnString(), b.Options.Secrets); n != want || err != nil {
			t.Fatalf("encrypted %d again, %v", n, err)
		}
	}
	if n := b.Count("SELECT count(*) FROM senders s WHERE s::text ~ 'tok[1-4]'"); n != 0 {
		t.Error("the URL is in the database in plain text")
	}
	// No report of a failure contains the tokens.
	p.Close()
	id := b.Submit("y")
	rest := b.AwaitOpenBreaker("pushed")
	timeline := b.Expect(200, "", "GET", "/api/v1/sms/task/"+id+"/timeline", nil)
	events := b.Expect(200, "", "GET", "/api/v1/admin/events?event=sender.paused", nil)
	for _, text := range []string{rest.Reason, timeline.Raw, events.Raw, b.Log.String()} {
		if strings.Contains(text, "tok1") || strings.Contains(text, "tok2") || strings.Contains(text, "tok3") || strings.Contains(text, "tok4") {
			t.Errorf("a token is in %s", text)
		}
	}
}

// Without a key, a URL that can contain credentials is refused. Any other URL is stored in plain text, but still masked.
func TestURLsWithCredentialsAreRefusedWithoutAKey(t *testing.T) {
	b := apptest.New(t)
	sender := func(url string) map[string]any {
		return map[string]any{
			"sender_no": "ding", "name": "x", "channel": "dingtalk", "kind": "dingtalk", "status": "off",
			"config": map[string]any{"baseUrl": url, "agentId": "A", "corpId": "C"},
		}
	}
	for _, url := range []string{"http://x/send?access_token=t", "http://u:p@x/send"} {
		if a := b.Expect(422, "request.invalid", "POST", "/api/v1/admin/senders", sender(url)); a.Fields() != "config.baseUrl" {
			t.Errorf("%s: wrong fields %s", url, a.Fields())
		}
	}
	b.Expect(200, "", "POST", "/api/v1/admin/senders", sender("http://x/mc/send"))
	shown := b.GetSender("ding").Config
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/ding", map[string]any{"config": shown})
	if got := apptest.Scan[string](b, "SELECT config ->> 'baseUrl' FROM senders WHERE sender_no = 'ding'"); shown["baseUrl"] != "http://x/***" || got != "http://x/mc/send" {
		t.Errorf("shown %v, stored %s", shown, got)
	}
}

// A new secret that looks encrypted is used literally. Only stored secrets are decrypted.
func TestANewSecretThatLooksEncryptedIsUsedLiterally(t *testing.T) {
	b, p := apptest.NewPushing(t, nil)
	const path = "/api/v1/admin/senders/pushed"
	config := apptest.ReceiverConfig(p, nil)
	config["secrets"] = map[string]any{"password": "sealed:x"}
	config["callbackSecret"] = "sealed:0123456789abcdef"
	b.Expect(200, "", "PATCH", path, map[string]any{"config": config})
	b.AwaitStatus(b.Submit("x"), queue.Success)
	if got := p.Seen(); !strings.Contains(got[0], "sealed:x") {
		t.Errorf("sent %v", got)
	}
	config["secrets"] = apptest.Scan[string](b, "SELECT config ->> 'secrets' FROM senders WHERE sender_no = 'pushed'")
	if a := b.Expect(422, "request.invalid", "PATCH", path, map[string]any{"config": config}); a.Fields() != "config.secrets" {
		t.Errorf("wrong fields %s", a.Fields())
	}
}

// A rotation of secrets changes the stored configuration but not the version. If a patch has read the sender before the rotation, and changes only other
// fields, the patch does not overwrite the configuration.
func TestAPatchDoesNotUndoARotationOfSecrets(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "app", "config": map[string]any{"a": "before"}})
	other, err := b.DB.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Rollback(t.Context())
	if _, err := other.Exec(t.Context(), `UPDATE senders SET config = '{"a":"after"}' WHERE sender_no = 'app'`); err != nil {
		t.Fatal(err)
	}
	done := make(chan apptest.Answer, 1)
	go func() { done <- b.Call("PATCH", "/api/v1/admin/senders/app", map[string]any{"name": "n"}) }()
	apptest.Eventually(t, "the patch waits", func() bool { return b.Count("SELECT count(*) FROM pg_locks WHERE NOT granted") > 0 })
	if err := other.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a := <-done; a.Status != 200 {
		t.Fatal(a.Raw)
	}
	if got := b.GetSender("app"); got.Name != "n" || got.Config["a"] != "after" {
		t.Errorf("%s %v", got.Name, got.Config)
	}
}

// The error for a value of the wrong type contains the required type, for a value at any position in the configuration.
func TestTheErrorForAWrongTypeContainsTheRequiredType(t *testing.T) {
	t.Parallel()
	b := apptest.Open(t, apptest.DefaultRules, apptest.WithSecrets)
	for field, c := range map[string]struct{ config, want string }{
		"config.answer.success":     {`{"answer":{"success":["code"]}}`, "must be of type string"},
		"config.answer.equals":      {`{"answer":{"equals":"0"}}`, "must be of type array"},
		"config.atOnce":             {`{"atOnce":"16"}`, "must be of type integer"},
		"config.headers":            {`{"headers":[]}`, "must be of type object"},
		"config.callback.delivered": {`{"callback":{"delivered":"yes"}}`, "must be of type array"},
		"config.callback":           {`{"callback":"yes"}`, "must be of type object"},
	} {
		a := b.Expect(422, "request.invalid", "POST", "/api/v1/admin/senders", `{"sender_no":"p","name":"p","kind":"http-sms","channel":"sms","config":`+c.config+`}`)
		if a.Fields() != field || !strings.Contains(a.Raw, c.want) {
			t.Errorf("%s: %s", c.config, a.Raw)
		}
	}
}

// The error for an unknown option contains its whole path.
func TestTheErrorForAnUnknownOptionContainsItsPath(t *testing.T) {
	t.Parallel()
	b := apptest.Open(t, apptest.DefaultRules, apptest.WithSecrets)
	for field, config := range map[string]string{
		"config.nope":                          `{"url":"http://x","nope":1}`,
		"config.answer.nope":                   `{"answer":{"nope":1}}`,
		"config.callback.nope":                 `{"callback":{"nope":1}}`,
		"config.callback.received.nope":        `{"callback":{"verify":"token","received":{"from":"f","nope":1}}}`,
		"config.callback.received.url":         `{"url":"http://x","callback":{"verify":"token","received":{"url":"known elsewhere"}}}`,
		"config.callback.received.answer.nope": `{"callback":{"received":{"answer":{"nope":1}}}}`,
	} {
		a := b.Expect(422, "request.invalid", "POST", "/api/v1/admin/senders", `{"sender_no":"p","name":"p","kind":"http-sms","channel":"sms","config":`+config+`}`)
		if a.Fields() != field {
			t.Errorf("%s: %s", config, a.Raw)
		}
	}
}
