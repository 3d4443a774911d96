package alert_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	api "lksms/gen/client"
	"lksms/internal/app"
	"lksms/internal/platform/secret"
	"lksms/internal/testkit/apptest"
)

func TestMain(m *testing.M) { apptest.Main(m) }

const (
	rulesPath     = "/api/v1/admin/alert-rules"
	receiversPath = "/api/v1/admin/alert-receivers"
	alertsPath    = "/api/v1/admin/alerts"
)

func addRule(b *apptest.Bundle, body string) api.AlertRule {
	b.T.Helper()
	return apptest.Decode[api.AlertRule](b.T, b.Expect(200, "", "POST", rulesPath, body))
}

func addReceiver(b *apptest.Bundle, body string) api.AlertReceiver {
	b.T.Helper()
	return apptest.Decode[api.AlertReceiver](b.T, b.Expect(200, "", "POST", receiversPath, body))
}

func TestShippedRulesCoverEveryKindAndAreEnabled(t *testing.T) {
	b := apptest.New(t)
	rules := apptest.Decode[api.AlertRulePage](t, b.Expect(200, "", "GET", rulesPath+"?limit=100", nil)).Items
	var names []string
	for _, r := range rules {
		if !r.Enabled || r.Receivers != nil {
			t.Errorf("%+v", r)
		}
		names = append(names, string(r.Kind)+" "+string(r.Level))
	}
	slices.Sort(names)
	want := "balance_low warning,codes_suspected warning,disk_low critical,failure_rate warning,history_overdue warning,partition_missing critical,pool_unserved critical,provider_trouble warning," +
		"queue_depth warning,receipts_missing warning,receipts_unmatched warning,sender_failing warning,sender_silent warning,statement_differs warning,wait_time critical,wait_time emergency,wait_time warning,webhook_failing warning"
	if got := strings.Join(names, ","); got != want {
		t.Errorf("rules are %s", got)
	}
	for language, want := range map[string]string{"en": "wait time: critical", "zh-CN": "等待时间：严重"} {
		if a := b.Expect(200, "", "GET", rulesPath+"/2", nil, "Accept-Language", language); !strings.Contains(a.Raw, want) {
			t.Errorf("%s is not called %s", a.Raw, want)
		}
	}
	b.Expect(200, "", "DELETE", rulesPath+"/2", nil)
	b.Expect(404, "alert_rule.not_found", "GET", rulesPath+"/2", nil)
	b.Expect(404, "alert_rule.not_found", "DELETE", rulesPath+"/2", nil)
}

func TestRuleAcceptsOnlyFieldsOfItsKind(t *testing.T) {
	b := apptest.New(t)
	for body, field := range map[string]string{
		`{"kind":"pool_unserved","level":"warning","threshold":1}`:                                  "threshold",
		`{"kind":"failure_rate","level":"warning","threshold":1.5}`:                                 "threshold",
		`{"kind":"disk_low","level":"warning","window_seconds":60}`:                                 "window_seconds",
		`{"kind":"disk_low","level":"warning","channel":"sms"}`:                                     "channel",
		`{"kind":"queue_depth","level":"warning","channel":"sms"}`:                                  "channel",
		`{"kind":"failure_rate","level":"warning","channel":"sms","company_no":"default"}`:          "channel",
		`{"kind":"wait_time","level":"warning","company_no":"nobody"}`:                              "company_no",
		`{"kind":"wait_time","level":"warning","channel":"nothing"}`:                                "channel",
		`{"kind":"sender_silent","level":"warning","sender_no":"nobody"}`:                           "sender_no",
		`{"kind":"wait_time","level":"warning","receivers":[7]}`:                                    "receivers",
		`{"kind":"wait_time","level":"loud"}`:                                                       "level",
		`{"kind":"wait_time","level":"warning","for_seconds":-1}`:                                   "for_seconds",
		`{"kind":"nothing","level":"warning"}`:                                                      "kind",
		`{"kind":"wait_time","level":"warning","silenced_until":"soon"}`:                            "silenced_until",
		`{"kind":"wait_time","level":"warning","threshold":1e300}`:                                  "threshold",
		`{"kind":"receipts_missing","level":"warning","window_seconds":86400,"sender_no":"nobody"}`: "window_seconds",
	} {
		if a := b.Expect(422, "request.invalid", "POST", rulesPath, body); !strings.Contains(a.Fields(), field) {
			t.Errorf("%s: %s is not among %s", body, field, a.Fields())
		}
	}
	r := addRule(b, `{"kind":"failure_rate","level":"warning","company_no":"default"}`)
	if *r.Threshold != 0.2 || *r.WindowSeconds != 900 || r.ForSeconds != 120 || r.ResolveSeconds != 60 || r.RepeatSeconds != 0 {
		t.Errorf("the rule is %+v", r)
	}
	path := fmt.Sprint(rulesPath, "/", r.RuleNo)
	b.Expect(409, "in_use", "DELETE", "/api/v1/admin/companies/default", nil)
	b.Expect(422, "request.invalid", "PATCH", path, `{"kind":"wait_time"}`)
	b.Expect(409, "version.stale", "PATCH", path, `{"threshold":0.5,"version":7}`)
	changed := apptest.Decode[api.AlertRule](t, b.Expect(200, "", "PATCH", path,
		`{"threshold":0.5,"name":"acme fails","company_no":null,"channel":"sms","level":"critical","silenced_until":"2099-01-01T00:00:00Z","enabled":false,"version":1}`))
	if *changed.Threshold != 0.5 || changed.Name != "acme fails" || changed.CompanyNo != nil || *changed.Channel != "sms" || changed.Enabled ||
		changed.Level != "critical" || changed.SilencedUntil == nil || changed.Version != 2 || *changed.WindowSeconds != 900 {
		t.Errorf("the rule is %+v", changed)
	}
	again := apptest.Decode[api.AlertRule](t, b.Expect(200, "", "PATCH", path, `{"threshold":null,"name":null,"silenced_until":null}`))
	if *again.Threshold != 0.2 || again.Name != "failure rate: critical" || again.SilencedUntil != nil {
		t.Errorf("the rule is %+v", again)
	}
}

func TestReceiverAcceptsOnlyFieldsOfItsKind(t *testing.T) {
	b := apptest.NewWith(t, apptest.DefaultRules, func(o *app.Options) { o.Secrets = apptest.Secrets(secret.NewKey()) })
	for body, field := range map[string]string{
		`{"name":"n","kind":"notification","channels":["sms"],"user_ids":["u"]}`:                                                 "company_no",
		`{"name":"n","kind":"notification","company_no":"default","channels":["sms"]}`:                                           "user_ids",
		`{"name":"n","kind":"notification","company_no":"nobody","channels":["sms"],"user_ids":["u"]}`:                           "company_no",
		`{"name":"n","kind":"notification","company_no":"default","channels":["nothing"],"user_ids":["u"]}`:                      "channels",
		`{"name":"n","kind":"notification","company_no":"default","channels":["sms","sms"],"user_ids":["u"]}`:                    "channels",
		`{"name":"n","kind":"notification","company_no":"default","channels":["sms"],"user_ids":["u"],"url":"http://a.example"}`: "url",
		`{"name":"n","kind":"alertmanager"}`:                                                 "url",
		`{"name":"n","kind":"alertmanager","url":"http://user:password@a.example"}`:          "url",
		`{"name":"n","kind":"alertmanager","url":"ftp://a.example"}`:                         "url",
		`{"name":"n","kind":"alertmanager","url":"http://%zz"}`:                              "url",
		`{"name":"n","kind":"alertmanager","url":"http://a.example","channels":["sms"]}`:     "channels",
		`{"name":"n","kind":"alertmanager","url":"http://a.example","authorization":"a\nb"}`: "authorization",
	} {
		if a := b.Expect(422, "request.invalid", "POST", receiversPath, body); !strings.Contains(a.Fields(), field) {
			t.Errorf("%s: %s is not among %s", body, field, a.Fields())
		}
	}
	people := addReceiver(b, `{"name":"people","kind":"notification","company_no":"default","channels":["sms","email"],"user_ids":["u1"]}`)
	path := fmt.Sprint(receiversPath, "/", people.ReceiverNo)
	rule := addRule(b, fmt.Sprintf(`{"kind":"wait_time","level":"warning","receivers":[%d]}`, people.ReceiverNo))
	b.Expect(409, "in_use", "DELETE", path, nil)
	b.Expect(409, "in_use", "DELETE", "/api/v1/admin/companies/default", nil)
	b.Expect(422, "request.invalid", "PATCH", path, `{"url":"http://a.example"}`)
	changed := apptest.Decode[api.AlertReceiver](t, b.Expect(200, "", "PATCH", path, `{"user_ids":["u2","u3"],"language":"en"}`))
	if len(*changed.UserIds) != 2 || changed.Language != "en" || changed.Name != "people" || len(*changed.Channels) != 2 {
		t.Errorf("the receiver is %+v", changed)
	}
	b.Expect(409, "version.stale", "PATCH", path, `{"language":"zh","version":1}`)
	b.Expect(200, "", "PATCH", path, fmt.Sprintf(`{"language":"zh","version":%d}`, changed.Version))
	b.Expect(200, "", "PATCH", fmt.Sprint(rulesPath, "/", rule.RuleNo), `{"receivers":null}`)
	b.Expect(200, "", "DELETE", path, nil)
	b.Expect(404, "alert_receiver.not_found", "GET", path, nil)
	b.Expect(404, "alert_receiver.not_found", "DELETE", path, nil)
}

func TestAuthorizationOfReceiverIsEncryptedAndBoundToHost(t *testing.T) {
	first := apptest.Secrets(secret.NewKey())
	b := apptest.NewWith(t, apptest.DefaultRules, func(o *app.Options) { o.Secrets = first })
	r := addReceiver(b, `{"name":"a","kind":"alertmanager","url":"http://a.example:9093/x","authorization":"Bearer s3cret"}`)
	path := fmt.Sprint(receiversPath, "/", r.ReceiverNo)
	if a := b.Call("GET", path, nil); !r.HasAuthorization || strings.Contains(a.Raw, "s3cret") {
		t.Errorf("shown as %s", a.Raw)
	}
	if kept := apptest.Scan[string](b, "SELECT sealed_authorization FROM alert_receivers"); strings.Contains(kept, "s3cret") {
		t.Errorf("kept as %s", kept)
	}
	if a := b.Expect(422, "request.invalid", "PATCH", path, `{"url":"http://evil.example:9093/x"}`); a.Fields() != "authorization" {
		t.Errorf("wrong: %s", a.Fields())
	}
	b.Expect(200, "", "PATCH", path, `{"url":"http://a.example:9093/y"}`)
	b.Expect(200, "", "PATCH", path, `{"url":"http://b.example","authorization":"Bearer other"}`)
	fresh, old := secret.NewKey(), apptest.Scan[string](b, "SELECT sealed_authorization FROM alert_receivers")
	both := apptest.Secrets(fresh)
	if _, err := app.RotateSecrets(t.Context(), b.DB.Config().ConnString(), both); err == nil {
		t.Error("a header was encrypted again without its old key")
	}
	if now := apptest.Scan[string](b, "SELECT sealed_authorization FROM alert_receivers"); now != old {
		t.Error("a failed rotation changed the header")
	}
	if n, err := app.RotateSecrets(t.Context(), b.DB.Config().ConnString(), first); n != 0 || err != nil {
		t.Errorf("encrypted %d again, %v", n, err)
	}
	none := apptest.Decode[api.AlertReceiver](t, b.Expect(200, "", "PATCH", path, `{"authorization":null}`))
	if none.HasAuthorization {
		t.Error("the header is still there")
	}
}

func TestAuthorizationIsNotStoredWithoutSecretsKey(t *testing.T) {
	b := apptest.New(t)
	a := b.Expect(422, "request.invalid", "POST", receiversPath, `{"name":"a","kind":"alertmanager","url":"http://a.example","authorization":"Bearer s"}`)
	if a.Fields() != "authorization" || b.Count("SELECT count(*) FROM alert_receivers") != 0 {
		t.Errorf("%s", a.Raw)
	}
}

// A receiver is deleted while a rule is changed to use it. One of the two requests is rejected.
func TestRuleCannotReferToDeletedReceiver(t *testing.T) {
	b := apptest.New(t)
	for range 5 {
		r := addReceiver(b, `{"name":"a","kind":"alertmanager","url":"http://a.example"}`)
		apptest.Together(2, func(i int) {
			if i == 0 {
				b.Call("DELETE", fmt.Sprint(receiversPath, "/", r.ReceiverNo), nil)
				return
			}
			b.Call("POST", rulesPath, fmt.Sprintf(`{"kind":"disk_low","level":"warning","receivers":[%d]}`, r.ReceiverNo))
		})
	}
	if n := b.Count("SELECT count(*) FROM alert_rules u CROSS JOIN unnest(u.receivers) x WHERE x NOT IN (SELECT id FROM alert_receivers)"); n > 0 {
		t.Errorf("%d rules name deleted receivers", n)
	}
}
