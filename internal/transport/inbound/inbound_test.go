package inbound_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
)

func TestMain(m *testing.M) { apptest.Main(m) }

const (
	admin = "/api/v1/admin/inbounds"
	posts = "/api/v1/inbound/"
)

// add adds an inbound whose number equals its preset.
func add(b *apptest.Bundle, preset string, more map[string]any) api.Inbound {
	b.T.Helper()
	body := map[string]any{"inbound_no": preset, "preset": preset}
	for k, v := range more {
		body[k] = v
	}
	return apptest.Decode[api.Inbound](b.T, b.Expect(200, "", "POST", admin, body))
}

// post posts a body and fails the test unless at least one message is accepted.
func post(b *apptest.Bundle, no, body string, headers ...string) api.InboundPosted {
	b.T.Helper()
	return apptest.Decode[api.InboundPosted](b.T, b.Expect(200, "", "POST", posts+no, body, headers...))
}

const (
	alerts = `{"receiver":"phones","status":"firing","alerts":[
		{"status":"firing","labels":{"alertname":"HostDown","instance":"db1"},"annotations":{"summary":"db1 does not answer"},"startsAt":"2026-11-24T10:00:00.123Z","endsAt":"0001-01-01T00:00:00Z","generatorURL":"http://prometheus:9090/graph?g0.expr=up","fingerprint":"c6eadffa33fcdf37"},
		{"status":"firing","labels":{"alertname":"HostDown","instance":"db2"},"annotations":{"summary":"db2 does not answer"},"startsAt":"2026-11-24T10:00:05Z","endsAt":"0001-01-01T00:00:00Z","generatorURL":"","fingerprint":"bc97ff14869b13e3"}],
		"groupLabels":{"alertname":"HostDown"},"commonLabels":{"alertname":"HostDown"},"commonAnnotations":{},"externalURL":"http://alertmanager:9093",
		"version":"4","groupKey":"{}:{alertname=\"HostDown\"}","truncatedAlerts":3}`
	grafana = `{"receiver":"phones","status":"firing","alerts":[
		{"status":"firing","labels":{"alertname":"High CPU","grafana_folder":"ops"},"annotations":{"summary":"CPU of db1 is at 97 %"},"startsAt":"2026-11-24T10:00:00+08:00","endsAt":"0001-01-01T00:00:00Z","generatorURL":"https://grafana/alerting/1/edit","fingerprint":"fac0861a85de433a","silenceURL":"https://grafana/silence","dashboardURL":"","panelURL":"","values":{"B":97.1,"C":1},"valueString":"[ var='B' ]","orgId":1}],
		"groupLabels":{"alertname":"High CPU"},"commonLabels":{"alertname":"High CPU","grafana_folder":"ops"},"commonAnnotations":{"summary":"CPU of db1 is at 97 %"},"externalURL":"https://grafana/",
		"version":"1","groupKey":"{}/{}:{alertname=\"High CPU\"}","truncatedAlerts":0,"orgId":1,"title":"[FIRING:1] High CPU ops","state":"alerting","message":"**Firing**\n\nValue: B=97.1"}`
	listmonk = `{"subject":"Hello","content_type":"plain","body":"Your bill is ready","recipients":[{"uuid":"e44b4135-1e1d-40c5-8a30-0f9a886c2884","email":"anon@example.com","name":"Anon","attribs":{"phone":"13800138000","city":"Bengaluru"},"status":"enabled"}],
		"campaign":{"from_email":"x@example.com","uuid":"2e7e4b51-f31b-418a-a120-e41800cb689f","name":"Bills","headers":null,"tags":["bill"]},"attachments":null}`
	apprise = `{"version":"1.0","title":"Backup","message":"The backup of db1 is done","attachments":[],"type":"success","phone_number":"13800138000"}`
	kuma    = `{"heartbeat":{"monitorID":7,"status":0,"time":"2026-11-24 10:00:00.123","msg":"timeout of 48000ms exceeded","ping":null,"important":true,"duration":60,"timezone":"Asia/Shanghai","timezoneOffset":"+08:00","localDateTime":"2026-11-24 18:00:00"},"monitor":{"id":7,"name":"db1","url":"https://db1","hostname":null,"type":"http","tags":[]},"msg":"[db1] [🔴 Down] timeout of 48000ms exceeded"}`
	logto   = `{"to":"8613800138000","type":"SignIn","payload":{"code":"123456"},"ip":"192.168.1.100"}`
	novu    = `{"to":"+8613800138000","from":"shop","content":"Your order has been shipped","id":"65f1c0ffee65f1c0ffee","customData":{},"sender":"shop"}`
)

// B16: the bodies are real posts of each program.
func TestEachPresetConvertsThePostOfItsProgram(t *testing.T) {
	b := apptest.New(t)
	numbers := map[string]any{"phone_numbers": []string{"138 0013 8000"}}
	for _, c := range []struct {
		preset, body, text string
		more               map[string]any
		ofType             api.MessageType
	}{
		{"alertmanager", alerts, "[firing:5] HostDown: db1 does not answer", numbers, api.Notification},
		{"grafana", grafana, "[FIRING:1] High CPU ops: CPU of db1 is at 97 %", numbers, api.Notification},
		{"listmonk", listmonk, "Your bill is ready", nil, api.Marketing},
		{"apprise", apprise, "Backup: The backup of db1 is done", nil, api.Notification},
		{"uptime-kuma", kuma, "[db1] [🔴 Down] timeout of 48000ms exceeded", numbers, api.Notification},
		{"logto", logto, "Your verification code is 123456", nil, api.Verification},
		{"novu", novu, "Your order has been shipped", nil, api.Notification},
	} {
		t.Run(c.preset, func(t *testing.T) {
			add(b, c.preset, c.more)
			headers := b.AddUser("user-of-"+c.preset, "submit", nil)
			posted := post(b, c.preset, c.body, headers...)
			if posted.Accepted != 1 || posted.Refused != 0 || len(posted.Items) != 1 {
				t.Fatalf("%+v", posted)
			}
			task := apptest.Decode[api.Task](t, b.Expect(200, "", "GET", "/api/v1/sms/task/"+*posted.Items[0].TaskID, nil, headers...))
			if task.Content != c.text || task.MessageType != c.ofType || *task.Source != c.preset || strings.TrimPrefix(task.PhoneNumber, "+86") != "13800138000" {
				t.Errorf("%+v", task)
			}
		})
	}
}

// These are the bodies that the programs post in other cases.
func TestPresetsConvertFurtherBodiesOfTheirPrograms(t *testing.T) {
	b := apptest.New(t)
	numbers := map[string]any{"phone_numbers": []string{"13800138000"}}
	for _, preset := range []string{"alertmanager", "grafana", "uptime-kuma"} {
		add(b, preset, numbers)
	}
	for _, preset := range []string{"listmonk", "apprise", "logto"} {
		add(b, preset, nil)
	}
	for _, c := range []struct{ name, no, body, number, text string }{
		{"an alert without annotations", "alertmanager", `{"version":"4","status":"resolved","groupKey":"g","truncatedAlerts":0,"commonLabels":{"alertname":"A"},"commonAnnotations":{},"alerts":[{"labels":{},"annotations":{}}]}`, "13800138000", "[resolved:1] A"},
		{"a group of which one alert fires and one is resolved", "alertmanager", `{"version":"4","status":"firing","groupKey":"g2","truncatedAlerts":0,"commonLabels":{"alertname":"HostDown"},"commonAnnotations":{},"alerts":[` +
			`{"status":"resolved","annotations":{"summary":"db1 does not answer"}},{"status":"firing","annotations":{"summary":"db2 does not answer"}}]}`, "13800138000", "[firing:1, resolved:1] HostDown: db2 does not answer"},
		{"such a group whose firing alert has no text", "alertmanager", `{"version":"4","status":"firing","groupKey":"g3","truncatedAlerts":0,"commonLabels":{"alertname":"HostDown"},"commonAnnotations":{},"alerts":[` +
			`{"status":"resolved","annotations":{"summary":"db1 does not answer"}},{"status":"firing","annotations":{}}]}`, "13800138000", "[firing:1, resolved:1] HostDown"},
		{"such a group with two names", "alertmanager", `{"version":"4","status":"firing","groupKey":"g4","truncatedAlerts":0,"commonLabels":{},"commonAnnotations":{},"alerts":[` +
			`{"status":"resolved","labels":{"alertname":"DiskFull"},"annotations":{"summary":"disk of db1 full"}},{"status":"firing","labels":{"alertname":"HostDown"}}]}`, "13800138000", "[firing:1, resolved:1] HostDown"},
		{"such a group whose firing alert has no name", "alertmanager", `{"version":"4","status":"firing","groupKey":"g5","truncatedAlerts":0,"commonLabels":{},"commonAnnotations":{},"alerts":[` +
			`{"status":"resolved","labels":{"alertname":"DiskFull"},"annotations":{"summary":"disk of db1 full"}},{"status":"firing","labels":{}}]}`, "13800138000", "[firing:2] g5"},
		{"a group whose firing alerts are omitted", "alertmanager", `{"version":"4","status":"firing","groupKey":"g6","truncatedAlerts":1,"commonLabels":{},"commonAnnotations":{},"alerts":[` +
			`{"status":"resolved","labels":{"alertname":"DiskFull"},"annotations":{"summary":"disk of db1 full"}}]}`, "13800138000", "[firing:2] g6"},
		{"a resolved group with two names", "alertmanager", `{"version":"4","status":"resolved","groupKey":"g7","truncatedAlerts":0,"commonLabels":{},"commonAnnotations":{},"alerts":[` +
			`{"status":"resolved","labels":{"alertname":"DiskFull"},"annotations":{"description":"disk of db1 full"}},{"status":"resolved","labels":{"alertname":"HostDown"}}]}`, "13800138000", "[resolved:2] DiskFull: disk of db1 full"},
		{"a group of Grafana whose firing alert has no text", "grafana", `{"status":"firing","title":"T","groupKey":"g3","commonLabels":{},"alerts":[{"status":"resolved","annotations":{"summary":"old"}},{"status":"firing","labels":{"alertname":"B"}}]}`,
			"13800138000", "T"},
		{"a resolved group of Grafana", "grafana", `{"status":"resolved","title":"T","groupKey":"g4","commonLabels":{},"alerts":[{"status":"resolved","annotations":{"summary":"old"}}]}`, "13800138000", "T: old"},
		{"such a group of Grafana", "grafana", `{"status":"firing","title":"","groupKey":"g2","commonLabels":{},"alerts":[{"status":"resolved","labels":{"alertname":"A"}},{"status":"firing","labels":{"alertname":"B"}}]}`,
			"13800138000", "[firing:1, resolved:1] B"},
		{"alerts without a name", "alertmanager", `{"version":"4","status":"firing","groupKey":"{}:{}","truncatedAlerts":0,"commonLabels":{},"commonAnnotations":{},"alerts":[]}`, "13800138000", "[firing:0] {}:{}"},
		{"a title of the contact point is empty", "grafana", `{"status":"firing","title":"","groupKey":"g","commonLabels":{"alertname":"A"},"alerts":[{}]}`, "13800138000", "[firing:1] A"},
		{"the test button of Uptime Kuma", "uptime-kuma", `{"heartbeat":null,"monitor":null,"msg":"Phones Testing"}`, "13800138000", "Phones Testing"},
		{"a transactional message of listmonk", "listmonk", `{"subject":"s","content_type":"plain","body":"hello","recipients":[{"uuid":"u","attribs":{"phone":13900139000}}],"campaign":null,"attachments":null}`, "13900139000", "hello"},
		{"no title", "apprise", `{"version":"1.0","title":"","message":"hello","attachments":[],"type":"info","phone_number":"13800138000, +85251234567"}`, "13800138000", "hello"},
		{"a number of another country", "logto", `{"to":"12015550123","type":"Register","payload":{"code":"1"}}`, "+12015550123", "Your verification code is 1"},
		{"a link", "logto", `{"to":"+12015550123","type":"OrganizationInvitation","payload":{"link":"https://x"}}`, "+12015550123", "https://x"},
	} {
		posted := post(b, c.no, c.body)
		if first := posted.Items[0]; posted.Refused > 0 || first.PhoneNumber != c.number && first.PhoneNumber != "+86"+c.number || *first.FinalContent != c.text {
			t.Errorf("%s: %+v", c.name, posted)
		}
	}
	for _, c := range []struct{ name, no, body, field string }{
		{"another version", "alertmanager", strings.Replace(alerts, `"4"`, `"5"`, 1), "version"},
		{"another program", "alertmanager", kuma, "status"},
		{"a campaign in HTML", "listmonk", strings.Replace(listmonk, "plain", "html", 1), "content_type"},
		{"a subscriber without a number", "listmonk", strings.Replace(listmonk, `"phone"`, `"mobile"`, 1), "recipients.*.attribs.phone"},
		{"a wrong number", "listmonk", strings.Replace(listmonk, "13800138000", "12", 1), "recipients.*.attribs.phone"},
		{"no number in the URL", "apprise", `{"version":"1.0","title":"","message":"hello","attachments":[],"type":"info"}`, "phone_number"},
		{"an empty text", "apprise", `{"title":"","message":" ","phone_number":"13800138000"}`, "message"},
		{"an object in place of a number", "logto", `{"to":{"a":1},"payload":{"code":"1"}}`, "to"},
		{"a list in place of an object", "logto", `{"to":"8613800138000","payload":[]}`, "payload.link"},
		{"nothing", "logto", `{}`, "to"},
	} {
		a := b.Expect(422, "request.invalid", "POST", posts+c.no, c.body)
		if a.Fields() != c.field {
			t.Errorf("%s: %s", c.name, a.Raw)
		}
	}
	b.Expect(400, "request.malformed", "POST", posts+"logto", `{"to":`)
	b.Expect(422, "request.invalid", "POST", posts+"logto", `[]`)
	b.Expect(415, "request.unsupported_media_type", "POST", posts+"logto", "to=1", "Content-Type", "application/x-www-form-urlencoded")
	b.Expect(413, "request.too_large", "POST", posts+"logto", `{"to":"`+strings.Repeat("1", 2<<20)+`"}`)
	// S4.10: an erasure finds a rejected message by its phone number. A complete body could contain numbers in any field, so it is not stored.
	if n := b.Count("SELECT count(*) FROM fruitless_submissions WHERE status_code = 422 AND phone_number = '12' AND NOT request_data::text LIKE '%anon@example.com%'"); n != 1 || b.Count("SELECT count(*) FROM fruitless_submissions") != 1 {
		t.Errorf("%d refused messages are stored", n)
	}
}

// A program that receives no response posts again. Several Alertmanagers post the same alerts.
func TestRepeatedPostSendsNoDuplicate(t *testing.T) {
	b := apptest.New(t)
	add(b, "alertmanager", map[string]any{"phone_numbers": []string{"13800138000", "13900139000"}})
	add(b, "listmonk", nil)
	add(b, "novu", nil)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { post(b, "alertmanager", alerts) })
	}
	all.Wait()
	again := post(b, "alertmanager", alerts)
	if again.Accepted != 2 || again.Items[0].Deduplicated == nil || again.Items[1].Deduplicated == nil {
		t.Errorf("%+v", again)
	}
	count := func(want int) {
		t.Helper()
		if n := b.Count("SELECT count(*) FROM messages"); n != want {
			t.Errorf("%d messages, want %d", n, want)
		}
	}
	count(2)
	post(b, "alertmanager", strings.Replace(alerts, `{"status":"firing"`, `{"status":"resolved"`, 1)) // one of the two alerts has ended
	count(4)
	post(b, "alertmanager", strings.Replace(alerts, "10:00:05Z", "11:00:05Z", 1)) // one alert began again
	count(6)
	post(b, "listmonk", listmonk)
	post(b, "listmonk", listmonk)
	post(b, "listmonk", strings.Replace(listmonk, "ready", "due", 1)) // the test of a campaign had another text
	count(8)
	post(b, "novu", novu)
	post(b, "novu", novu)
	count(9)
	post(b, "alertmanager", alerts, b.AddUser("another", "submit", nil)...) // each user has its own dedup keys
	count(11)
	b.Exec("DELETE FROM queue")
	b.Exec("DELETE FROM messages") // the same state as after the tasks were dropped: an alert can fire for longer than the history is kept
	for range 2 {
		if posted := post(b, "alertmanager", alerts); posted.Accepted != 2 || posted.Items[0].TaskID != nil || !*posted.Items[0].Deduplicated {
			t.Errorf("%+v", posted)
		}
		if posted := post(b, "novu", novu); posted.Accepted != 1 || posted.Items[0].TaskID != nil {
			t.Errorf("%+v", posted)
		}
	}
	if posted := post(b, "novu?dry_run=true", novu); *posted.Items[0].Verdict != api.InboundWouldRepeat {
		t.Errorf("%+v", posted)
	}
	count(0)
	b.Exec("UPDATE inbounds SET repeat_seconds = 60")
	b.Exec("DELETE FROM dedup_keys")
	post(b, "alertmanager", alerts)
	count(2)
	b.Exec("UPDATE inbounds SET repeat_seconds = 3600")
	post(b, "alertmanager", alerts) // the next period of RepeatSeconds has begun
	count(4)
}

// The time of repeat_seconds begins with the message that was sent, also if a period of the clock ends meanwhile.
func TestRepeatIsDetectedAfterAPeriodOfTheClockEnded(t *testing.T) {
	b := apptest.New(t)
	add(b, "novu", nil)
	add(b, "alertmanager", map[string]any{"phone_numbers": []string{"13800138000", "13900139000"}})
	// Now is in the period with the number `period` of this length, and in the period before with the other length.
	const length = 20_000_000
	now := time.Now().Unix()
	period := now / length
	b.Exec("UPDATE inbounds SET repeat_seconds = $1", now/(period-1))
	first, firsts := post(b, "novu", novu), post(b, "alertmanager", alerts)
	b.Exec("UPDATE inbounds SET repeat_seconds = $1", length)
	count := func(want int) {
		t.Helper()
		if n := b.Count("SELECT count(*) FROM messages"); n != want {
			t.Errorf("%d messages, want %d", n, want)
		}
	}
	if again := post(b, "novu", novu); *again.Items[0].TaskID != *first.Items[0].TaskID || again.Items[0].Deduplicated == nil {
		t.Errorf("%+v", again)
	}
	if again := post(b, "alertmanager", alerts); *again.Items[1].TaskID != *firsts.Items[1].TaskID || again.Items[0].Deduplicated == nil {
		t.Errorf("%+v", again)
	}
	if again := post(b, "novu?dry_run=true", novu); *again.Items[0].Verdict != api.InboundWouldRepeat {
		t.Errorf("%+v", again)
	}
	count(3)
	b.Exec("UPDATE messages SET created_at = created_at - make_interval(secs => $1) WHERE recipient <> '+8613900139000'", length)
	next := post(b, "novu", novu)
	if again := post(b, "novu", novu); *again.Items[0].TaskID != *next.Items[0].TaskID {
		t.Errorf("%+v", again)
	}
	count(4)
	if again := post(b, "alertmanager", alerts); again.Items[0].Deduplicated != nil || again.Items[1].Deduplicated == nil {
		t.Errorf("%+v", again)
	}
	count(5)
	b.Exec("DELETE FROM queue")
	b.Exec("DELETE FROM messages") // the same state as after the tasks were dropped
	post(b, "alertmanager", alerts)
	count(1)
}

// For a large group, a program omits alerts and posts only the number of omitted alerts. A larger number is a new message.
func TestChangedNumberOfOmittedAlertsSendsNewMessage(t *testing.T) {
	b := apptest.New(t)
	alert := func(i int) string {
		return fmt.Sprintf(`{"status":"firing","labels":{},"annotations":{},"startsAt":"2026-11-24T10:00:%02dZ","fingerprint":"f%d"}`, i, i)
	}
	shown := make([]string, 20)
	for i := range shown {
		shown[i] = alert(i)
	}
	for _, preset := range []string{"alertmanager", "grafana"} {
		add(b, preset, map[string]any{"phone_numbers": []string{"13800138000"}})
		group := func(truncated int) string {
			return fmt.Sprintf(`{"version":"4","status":"firing","groupKey":"g","title":"t","truncatedAlerts":%d,"commonLabels":{"alertname":"A"},"alerts":[%s]}`,
				truncated, strings.Join(shown, ","))
		}
		for _, truncated := range []int{0, 1, 2} {
			if posted := post(b, preset, group(truncated)); posted.Items[0].Deduplicated != nil {
				t.Errorf("%s: with %d alerts left out: %+v", preset, truncated, posted)
			}
			if posted := post(b, preset, group(truncated)); posted.Items[0].Deduplicated == nil {
				t.Errorf("%s: repeated with %d alerts left out: %+v", preset, truncated, posted)
			}
		}
	}
}

func TestTextIsShortenedToLimitOfMessageType(t *testing.T) {
	b := apptest.New(t)
	add(b, "novu", map[string]any{"sign": "示例公司"})
	add(b, "apprise", nil)
	long := func(no, text string) string {
		posted := post(b, no, `{"to":"13800138000","phone_number":"13800138000","content":"`+text+`","message":"`+text+`"}`)
		return *posted.Items[0].FinalContent
	}
	if got, want := long("novu", strings.Repeat("字", 50_000)), "【示例公司】"+strings.Repeat("字", 199)+"…"; got != want {
		t.Errorf("%d characters: %.300s", len([]rune(got)), got)
	}
	if got, want := long("apprise", strings.Repeat("a", 201)), strings.Repeat("a", 197)+"..."; got != want {
		t.Errorf("%s", got)
	}
	if got := long("apprise", strings.Repeat("b", 200)); got != strings.Repeat("b", 200) {
		t.Errorf("%s", got)
	}
	b.Expect(200, "", "PUT", "/api/v1/admin/settings/sms", `{"max_segments_notification":1}`)
	if got, want := long("apprise", strings.Repeat("c", 180)), strings.Repeat("c", 157)+"..."; got != want {
		t.Errorf("%s", got)
	}
}

// With a template, the body contains the parameters. The longest parameters are shortened.
func TestInboundRendersTemplate(t *testing.T) {
	b := apptest.New(t)
	b.AddCompany("acme", 1)
	template := func(no, content, status string, companies ...string) {
		b.Expect(200, "", "POST", "/api/v1/admin/template", map[string]any{"template_no": no, "template_name": no, "template_content": content, "status": status, "sign": "示例公司", "companies": append([]string{}, companies...)})
	}
	template("code", "您的验证码是{code}", "active")
	template("of-acme", "{code}", "active", "acme")
	template("draft", "{code}", "draft")
	template("alert", "告警{name}：{text}，请处理", "active")
	add(b, "logto", map[string]any{"template_no": "code"})
	if posted := post(b, "logto", logto); *posted.Items[0].FinalContent != "【示例公司】您的验证码是123456" {
		t.Errorf("%+v", posted)
	}
	bad := func(more map[string]any) apptest.Answer {
		body := map[string]any{"inbound_no": "x", "preset": "logto"}
		for k, v := range more {
			body[k] = v
		}
		return b.Call("POST", admin, body)
	}
	for name, c := range map[string]struct {
		body   map[string]any
		status int
		fields string
	}{
		"of another company":  {map[string]any{"template_no": "of-acme"}, 422, "template_no"},
		"none":                {map[string]any{"template_no": "none"}, 422, "template_no"},
		"not active":          {map[string]any{"template_no": "draft"}, 409, ""},
		"other parameters":    {map[string]any{"template_no": "alert"}, 422, "description.params,description.params"},
		"missing a parameter": {map[string]any{"template_no": "alert", "description": map[string]any{"params": map[string]string{"name": "a"}}}, 422, "description.params"},
	} {
		if a := bad(c.body); a.Status != c.status || a.Fields() != c.fields {
			t.Errorf("%s: %s", name, a.Raw)
		}
	}
	add(b, "alertmanager", map[string]any{"template_no": "alert", "phone_numbers": []string{"13800138000"}, "sign": "运维", "description": map[string]any{
		"params": map[string]string{"name": "commonLabels.alertname", "text": "alerts.*.annotations.summary"},
	}})
	if posted := post(b, "alertmanager", alerts); *posted.Items[0].FinalContent != "【运维】告警HostDown：db1 does not answer, db2 does not answer，请处理" {
		t.Errorf("%+v", *posted.Items[0].FinalContent)
	}
	posted := post(b, "alertmanager", strings.NewReplacer("db1 does not", strings.Repeat("长", 5000), "10:00:05Z", "11:00:05Z").Replace(alerts))
	if got := []rune(strings.TrimPrefix(*posted.Items[0].FinalContent, "【运维】")); len(got) != 200 || !strings.HasSuffix(string(got), "长…，请处理") {
		t.Errorf("%d: %s", len(got), string(got))
	}
	if a := b.Expect(422, "request.invalid", "POST", posts+"logto", `{"to":"8613800138000","payload":{}}`); a.Fields() != "payload.code" {
		t.Error(a.Raw)
	}
	b.Expect(200, "", "PATCH", "/api/v1/admin/template/1", `{"status":"disabled"}`)
	b.Expect(409, "template.not_active", "POST", posts+"logto", logto)
	b.Expect(200, "", "PATCH", admin+"/logto", `{"status":"off"}`) // allowed although the template of the inbound is disabled
}

// Since the first post, the template can be disabled, or have other parameters.
func TestARepeatedPostGetsTheFirstTaskIfItsTextCannotBeRenderedAnyMore(t *testing.T) {
	b := apptest.New(t)
	b.Expect(200, "", "POST", "/api/v1/admin/template", map[string]any{"template_no": "alert", "template_name": "alert", "template_content": "{name}", "status": "active"})
	alerting := func(preset string, numbers ...string) {
		add(b, preset, map[string]any{
			"template_no": "alert", "phone_numbers": numbers, "description": map[string]any{"params": map[string]string{"name": "commonLabels.alertname"}},
		})
	}
	alerting("grafana", "13800138000")
	alerting("alertmanager", "13800138000", "13900139000")
	one, two := post(b, "grafana", grafana), post(b, "alertmanager", alerts)
	for _, change := range []string{`{"status":"disabled"}`, `{"status":"active","template_content":"{name} {other}"}`} {
		b.Expect(200, "", "PATCH", "/api/v1/admin/template/1", change)
		if again := post(b, "grafana", grafana); *again.Items[0].TaskID != *one.Items[0].TaskID || again.Items[0].Deduplicated == nil {
			t.Errorf("%s: %+v", change, again)
		}
		if again := post(b, "grafana?dry_run=true", grafana); *again.Items[0].Verdict != api.InboundWouldRepeat {
			t.Errorf("%s: %+v", change, again)
		}
		if again := post(b, "alertmanager", alerts); again.Accepted != 2 || *again.Items[1].TaskID != *two.Items[1].TaskID {
			t.Errorf("%s: %+v", change, again)
		}
	}
	b.Expect(200, "", "PATCH", "/api/v1/admin/template/1", `{"status":"disabled"}`)
	b.Expect(409, "template.not_active", "POST", posts+"grafana", strings.Replace(grafana, "10:00:00+08:00", "11:00:00+08:00", 1))
	b.Expect(409, "template.not_active", "POST", posts+"grafana?dry_run=true", strings.Replace(grafana, "10:00:00+08:00", "11:00:00+08:00", 1))
	b.Expect(200, "", "PATCH", admin+"/alertmanager", `{"phone_numbers":["13800138000","13700137000"]}`) // the second number is new: it gets no text
	if again := post(b, "alertmanager", alerts); again.Accepted != 1 || again.Items[1].Code != 409 || again.Items[1].Error.Reason != "template.not_active" {
		t.Errorf("%+v", again)
	}
}

func TestPostReturnsOutcomeOfEachRecipient(t *testing.T) {
	b := apptest.New(t)
	add(b, "apprise", map[string]any{"test": true, "priority": 0})
	body := func(numbers string) string {
		return fmt.Sprintf(`{"title":"t","message":"m","phone_number":%s}`, numbers)
	}
	posted := post(b, "apprise", body(`["13800138000","12","138-0013-8000;+86 139 0013 9000"]`), apptest.KeyHeader, "k")
	if posted.Accepted != 2 || posted.Refused != 1 || len(posted.Items) != 3 || posted.Items[1].Code != 422 || posted.Items[1].PhoneNumber != "12" {
		t.Errorf("%+v", posted)
	}
	if first, last := posted.Items[0], posted.Items[2]; first.Recipient == nil || *first.Recipient != "+8613800138000" || first.Region == nil || *first.Region != "CN" ||
		posted.Items[1].Recipient != nil || last.Recipient == nil || *last.Recipient != "+8613900139000" {
		t.Errorf("how the numbers were read: %+v", posted)
	}
	add(b, "logto", nil)
	for _, number := range []string{"\u202a8613800138000\u202c", "\u202a0086 138\u20110013\u20118000", "００８６（１３８）００１３８０００", "\u2066+8613800138000"} {
		if posted := post(b, "logto", strings.Replace(logto, "8613800138000", number, 1)); *posted.Items[0].Recipient != "+8613800138000" {
			t.Errorf("%+q is sent to %s", number, *posted.Items[0].Recipient)
		}
	}
	task := apptest.Decode[api.Task](t, b.Expect(200, "", "GET", "/api/v1/sms/task/"+*posted.Items[0].TaskID, nil))
	if !task.Test || task.Priority != 0 {
		t.Errorf("%+v", task)
	}
	if n := b.Count("SELECT count(*) FROM fruitless_submissions WHERE phone_number = '12' AND status_code = 422"); n != 1 {
		t.Errorf("the refused message is stored %d times", n)
	}
	if again := post(b, "apprise", body(`["13800138000","12","138-0013-8000;+86 139 0013 9000"]`), apptest.KeyHeader, "k"); *again.Items[0].TaskID != task.TaskID {
		t.Errorf("%+v", again)
	}
	many := make([]string, 101)
	for i := range many {
		many[i] = fmt.Sprintf(`"138001380%02d"`, i%100)
	}
	many[100] = `"13900139000"`
	if posted := post(b, "apprise", body("["+strings.Join(many[:100], ",")+"]")); posted.Accepted != 100 {
		t.Errorf("%d", posted.Accepted)
	}
	if a := b.Expect(422, "request.invalid", "POST", posts+"apprise", body("["+strings.Join(many, ",")+"]")); a.Fields() != "phone_number" {
		t.Error(a.Raw)
	}
	// The priority that the administrator set can exceed the limit of the user.
	low := b.AddUser("low", "submit", map[string]any{"top_priority": 9})
	if posted := post(b, "apprise", body(`"13700137000"`), low...); posted.Accepted != 1 {
		t.Errorf("%+v", posted)
	}
}

// If one message cannot be stored, no message is stored. So the program can post again without duplicates, even without a dedup key.
func TestPostIsStoredCompletelyOrNotAtAll(t *testing.T) {
	b := apptest.New(t)
	add(b, "apprise", nil)
	b.Exec(`CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF NEW.recipient = '+8613900139000' THEN RAISE EXCEPTION 'broken'; END IF; RETURN NEW; END $$;
		CREATE TRIGGER fails BEFORE INSERT ON messages FOR EACH ROW EXECUTE FUNCTION fail()`)
	body := `{"title":"t","message":"m","phone_number":["13800138000","13900139000"]}`
	b.Expect(500, "internal", "POST", posts+"apprise", body)
	if n := b.Count("SELECT count(*) FROM messages"); n != 0 {
		t.Errorf("%d messages are stored", n)
	}
	b.Exec("DROP FUNCTION fail() CASCADE")
	if posted := post(b, "apprise", body); posted.Accepted != 2 {
		t.Errorf("%+v", posted)
	}
}

func TestDryRunShowsMessages(t *testing.T) {
	b := apptest.New(t)
	add(b, "alertmanager", map[string]any{"phone_numbers": []string{"13800138000"}})
	add(b, "apprise", nil)
	posted := post(b, "alertmanager?dry_run=true", alerts)
	if item := posted.Items[0]; *item.Recipient != "+8613800138000" || *item.Region != "CN" || posted.Accepted != 1 || item.TaskID != nil || *item.FinalContent != "[firing:5] HostDown: db1 does not answer" || *item.Segments != 1 || *item.Verdict != api.InboundWouldWait {
		t.Errorf("%+v", item)
	}
	if posted := post(b, "apprise?dry_run=true", `{"message":"m","phone_number":["12","13800138000"]}`); posted.Refused != 1 || posted.Items[0].Code != 422 {
		t.Errorf("%+v", posted)
	}
	b.Expect(422, "request.invalid", "POST", posts+"apprise?dry_run=true", `{"message":"m","phone_number":"12"}`)
	if n := b.Count("SELECT (SELECT count(*) FROM messages) + (SELECT count(*) FROM fruitless_submissions)"); n != 0 {
		t.Errorf("%d rows", n)
	}
	post(b, "alertmanager", alerts)
	if posted := post(b, "alertmanager?dry_run=true", alerts); *posted.Items[0].Verdict != api.InboundWouldRepeat {
		t.Errorf("%+v", posted)
	}
}

// R5: a dry run of an inbound shows why and until when a message waits, as a dry run of a submission does.
func TestDryRunShowsQuietHours(t *testing.T) {
	b := apptest.New(t)
	b.SetQuiet("notification", -time.Hour, 2*time.Hour)
	end := time.Now().Add(2 * time.Hour).Truncate(time.Minute)
	add(b, "alertmanager", map[string]any{"phone_numbers": []string{"13800138000"}, "message_type": "notification"})
	item := post(b, "alertmanager?dry_run=true", alerts).Items[0]
	if *item.Verdict != api.InboundWouldBeScheduled || item.Reason == nil || *item.Reason != api.DelayQuietHours || item.DueAt.Before(end) {
		t.Errorf("%+v", item)
	}
}

// B16: users of another company can neither find an inbound nor post to it.
func TestInboundIsHiddenFromOtherCompanies(t *testing.T) {
	b := apptest.New(t)
	acme, beta := b.AddCompany("acme", 1), b.AddCompany("beta", 1)
	add(b, "logto", map[string]any{"company_no": "acme"})
	b.Expect(404, "inbound.not_found", "POST", posts+"logto", logto, beta...)
	b.Expect(404, "inbound.not_found", "POST", posts+"logto", logto) // the admin belongs to the default company
	b.Expect(404, "inbound.not_found", "POST", posts+"none", logto, acme...)
	posted := post(b, "logto", logto, acme...)
	b.Expect(404, "task.not_found", "GET", "/api/v1/sms/task/"+*posted.Items[0].TaskID, nil, beta...)
	b.Expect(403, "auth.forbidden", "POST", posts+"logto", logto, b.AddUser("reads", "read", map[string]any{"company_no": "acme"})...)
	b.Expect(401, "auth.required", "POST", posts+"logto", logto, "Authorization", "")
	b.Expect(409, "in_use", "DELETE", "/api/v1/admin/companies/acme", nil)
	b.Expect(200, "", "PATCH", admin+"/logto", `{"status":"off"}`)
	b.Expect(404, "inbound.not_found", "POST", posts+"logto", logto, acme...)
	b.Expect(200, "", "PATCH", admin+"/logto", `{"status":"on"}`)
	post(b, "logto", logto, acme...)
	b.Expect(200, "", "DELETE", admin+"/logto", nil)
	b.Expect(404, "inbound.not_found", "POST", posts+"logto", logto, acme...)
	b.Expect(404, "inbound.not_found", "DELETE", admin+"/logto", nil)
	b.Expect(404, "inbound.not_found", "PATCH", admin+"/logto", `{"status":"on"}`)
	b.Expect(404, "inbound.not_found", "GET", admin+"/logto", nil)
}

func TestAdministratorsManageInbounds(t *testing.T) {
	b := apptest.New(t)
	path := admin + "/shop"
	description := map[string]any{"number": "order.phones.*", "text": []string{"Order ${order.id} of ${shop | order.shop}: ${order.sum + order.fee}"}, "dedup": []string{"order.id"}}
	made := add(b, "custom", map[string]any{"inbound_no": "shop", "description": description, "message_type": "marketing", "repeat_seconds": 60})
	if made.InboundNo != "shop" || made.CompanyNo != "default" || made.PhoneNumbers != nil || made.MessageType != api.Marketing || made.Version != 1 || *made.RepeatSeconds != 60 {
		t.Errorf("%+v", made)
	}
	const order = `{"order":{"id":42,"phones":["13800138000"],"shop":"A","sum":10,"fee":2}}`
	if posted := post(b, "shop", order); *posted.Items[0].FinalContent != "Order 42 of A: 12" {
		t.Errorf("%s", *posted.Items[0].FinalContent)
	}
	if a := b.Expect(422, "request.invalid", "POST", posts+"shop", strings.Replace(order, `"fee":2`, `"fee":2.5`, 1)); a.Fields() != "order.sum + order.fee" {
		t.Error(a.Raw)
	}
	b.Expect(409, "exists", "POST", admin, map[string]any{"inbound_no": "shop", "preset": "logto"})
	patch := func(body string) api.Inbound {
		t.Helper()
		return apptest.Decode[api.Inbound](t, b.Expect(200, "", "PATCH", path, body))
	}
	if p := patch(`{"phone_numbers":["139 0013 9000"],"priority":3,"sign":"公司","version":1}`); (*p.PhoneNumbers)[0] != "+8613900139000" || *p.Priority != 3 || p.Version != 2 || p.Description == nil {
		t.Errorf("%+v", p)
	}
	if posted := post(b, "shop", strings.Replace(order, "42", "43", 1)); posted.Items[0].PhoneNumber != "+8613900139000" {
		t.Errorf("%+v", posted)
	}
	b.Expect(409, "version.stale", "PATCH", path, `{"priority":3,"version":1}`)
	if p := patch(`{"priority":null,"sign":null,"repeat_seconds":null,"preset":"novu","description":{"dedup":[],"text":["${content}!"]}}`); p.Priority != nil || p.Sign != nil || p.RepeatSeconds != nil ||
		p.Description.Dedup == nil || len(*p.EffectiveDescription.Dedup) != 0 || *p.EffectiveDescription.Number != "to" {
		t.Errorf("%+v", p)
	}
	if p := patch(`{"description":null,"phone_numbers":null}`); p.Description != nil || p.PhoneNumbers != nil || (*p.EffectiveDescription.Text)[0] != "${content}" {
		t.Errorf("%+v", p)
	}
	for name, c := range map[string]struct{ body, fields string }{
		"no numbers and no path":       {`{"preset":"alertmanager"}`, "phone_numbers"},
		"a path that is taken away":    {`{"description":{"number":""}}`, "phone_numbers"},
		"no text":                      {`{"preset":"custom","description":{"number":"a"}}`, "description.text"},
		"a wrong number":               {`{"phone_numbers":["13800138000","12345678901"]}`, "phone_numbers.1"},
		"a number twice":               {`{"phone_numbers":["13800138000","+86 138 0013 8000"]}`, "phone_numbers.1"},
		"a path with an empty step":    {`{"description":{"dedup":["a..b"]}}`, "description.dedup"},
		"a number in the middle":       {`{"description":{"number":"a.#.b"}}`, "description.number"},
		"an empty placeholder":         {`{"description":{"text":["${}"]}}`, "description.text"},
		"an empty alternative":         {`{"description":{"text":["${a |}"]}}`, "description.text"},
		"a wrong parameter":            {`{"description":{"params":{"a":"b.*c"}}}`, "description.params"},
		"an unknown member":            {`{"description":{"colour":"a"}}`, "description.colour"},
		"an unknown preset":            {`{"preset":"kannel"}`, "preset"},
		"a priority out of range":      {`{"priority":10}`, "priority"},
		"a list of numbers that empty": {`{"phone_numbers":[]}`, "phone_numbers"},
	} {
		if a := b.Call("PATCH", path, c.body); a.Status != http.StatusUnprocessableEntity || a.Fields() != c.fields {
			t.Errorf("%s: %s", name, a.Raw)
		}
	}
	if a := b.Call("POST", admin, `{"inbound_no":"x","preset":"logto","company_no":"none"}`); a.Status != 422 || a.Fields() != "company_no" {
		t.Error(a.Raw)
	}
	add(b, "logto", nil)
	page := apptest.Decode[api.InboundPage](t, b.Expect(200, "", "GET", admin+"?limit=1", nil))
	if len(page.Items) != 1 || page.Items[0].InboundNo != "logto" || page.NextCursor == nil {
		t.Errorf("%+v", page)
	}
	page = apptest.Decode[api.InboundPage](t, b.Expect(200, "", "GET", admin+"?limit=1&cursor="+*page.NextCursor, nil))
	if len(page.Items) != 1 || page.Items[0].InboundNo != "shop" || page.NextCursor != nil {
		t.Errorf("%+v", page)
	}
}

// S4.10: after an erasure, an inbound must not send to the erased person.
func TestNumbersInABodyAreSeparatedByCommasAndSemicolons(t *testing.T) {
	b := apptest.New(t)
	add(b, "apprise", nil)
	for _, separator := range []string{",", ";", ", ", "，", "；", "、"} {
		posted := post(b, "apprise", `{"title":"","message":"hello","phone_number":"13800138000`+separator+`13900139000"}`)
		if len(posted.Items) != 2 || posted.Refused > 0 {
			t.Errorf("%q: %+v", separator, posted)
		}
	}
}

func TestErasureRemovesNumberFromInbounds(t *testing.T) {
	b := apptest.New(t)
	b.AddCompany("acme", 1)
	for no, company := range map[string]string{"one": "default", "of-acme": "acme"} {
		add(b, "uptime-kuma", map[string]any{"inbound_no": no, "company_no": company, "phone_numbers": []string{"13800138000", "13900139000"}})
	}
	add(b, "apprise", map[string]any{"phone_numbers": []string{"13800138000"}})
	b.Expect(200, "", "POST", "/api/v1/contacts/erasures", `{"phone":"13800138000"}`)
	if _, err := b.App.Erasures.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	numbers := func(no string) []string {
		return *apptest.Decode[api.Inbound](t, b.Expect(200, "", "GET", admin+"/"+no, nil)).PhoneNumbers
	}
	if got := fmt.Sprint(numbers("one"), numbers("of-acme"), numbers("apprise")); got != "[+8613900139000] [+8613800138000 +8613900139000] []" {
		t.Error(got)
	}
	// Numbers in the body must not replace the emptied list.
	if a := b.Expect(422, "request.invalid", "POST", posts+"apprise", apprise); a.Fields() != "phone_numbers" {
		t.Error(a.Raw)
	}
	if n := b.Count("SELECT count(*) FROM audit WHERE entity = 'inbound' AND concat(before, after) LIKE '%138%'"); n != 0 {
		t.Errorf("%d entries of the audit have the number", n)
	}
}

// Older Alertmanagers send neither truncatedAlerts nor fingerprints.
func TestRepeatedPostOfOlderAlertmanagerIsDetected(t *testing.T) {
	b := apptest.New(t)
	add(b, "alertmanager", map[string]any{"phone_numbers": []string{"13800138000"}})
	body := regexp.MustCompile(`,"fingerprint":"[0-9a-f]+"`).ReplaceAllString(strings.Replace(alerts, `,"truncatedAlerts":3`, "", 1), "")
	first, again := post(b, "alertmanager", body), post(b, "alertmanager", body)
	if *first.Items[0].TaskID != *again.Items[0].TaskID {
		t.Errorf("the repeat made another task: %+v", again)
	}
	changed := post(b, "alertmanager", strings.Replace(body, "10:00:05", "10:00:06", 1))
	if *changed.Items[0].TaskID == *first.Items[0].TaskID {
		t.Error("another state of the group was taken for a repeat")
	}
	if other := post(b, "alertmanager", strings.Replace(body, `"instance":"db2"`, `"instance":"db9"`, 1)); *other.Items[0].TaskID == *first.Items[0].TaskID {
		t.Error("an alert of another host was taken for a repeat")
	}
	keyless := strings.Replace(body, `"groupKey"`, `"other"`, 1)
	if a, c := post(b, "alertmanager", keyless), post(b, "alertmanager", keyless); *a.Items[0].TaskID == *c.Items[0].TaskID {
		t.Error("bodies without the first value of the key were treated as repeats")
	}
}
