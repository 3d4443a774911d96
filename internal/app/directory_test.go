package app_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"lksms/gen/api"
	"lksms/internal/app"
)

// Everything that the directory holds is made, shown, listed, changed, and deleted when nothing refers to it.
func TestTheDirectory(t *testing.T) {
	b := setup(t)
	for _, c := range []struct {
		path, no     string
		body, change map[string]any
		gone         string // the reason of a 404
	}{
		{"countries", "NZ", map[string]any{"country_no": "NZ", "name": "New Zealand", "dial_prefix": "64"}, map[string]any{"signature_required": true}, "country.not_found"},
		{"companies", "acme", map[string]any{"company_no": "acme", "name": "ACME"}, map[string]any{"weight": 2.5}, "company.not_found"},
		{"channels", "voice", map[string]any{"channel": "voice", "name": "E-mail"}, map[string]any{"name": "Mail"}, "channel.not_found"},
		{"senders", "s1", map[string]any{"sender_no": "s1", "name": "S", "config": map[string]any{"a": 1}}, map[string]any{"interval_ms": 5}, "sender.not_found"},
		{"routes", "1", map[string]any{"company_no": "default", "message_type": "marketing", "sender_no": "s2"}, map[string]any{"weight": 7}, "routing.not_found"},
	} {
		t.Run(c.path, func(t *testing.T) {
			path := "/api/v1/admin/" + c.path
			if c.path == "routes" {
				b.sender(map[string]any{"sender_no": "s2"})
			}
			b.expect(404, c.gone, "GET", path+"/"+c.no, nil)
			b.expect(200, "", "POST", path, c.body)
			b.expect(409, "exists", "POST", path, c.body)
			made := decode[map[string]any](t, b.expect(200, "", "GET", path+"/"+c.no, nil))
			for k, v := range c.body {
				if fmt.Sprint(made[k]) != fmt.Sprint(v) {
					t.Errorf("%s is %v, want %v", k, made[k], v)
				}
			}
			c.change["version"] = 1
			changed := decode[map[string]any](t, b.expect(200, "", "PATCH", path+"/"+c.no, c.change))
			delete(c.change, "version")
			for k, v := range c.change {
				if fmt.Sprint(changed[k]) != fmt.Sprint(v) || changed["version"] != 2.0 {
					t.Errorf("%s is %v in version %v, want %v in 2", k, changed[k], changed["version"], v)
				}
			}
			c.change["version"] = 1
			b.expect(409, "version.stale", "PATCH", path+"/"+c.no, c.change)
			b.expect(404, c.gone, "PATCH", path+strings.Replace("/"+c.no, c.no, "99", 1), c.change)
			list := decode[struct {
				Items      []map[string]any `json:"items"`
				NextCursor *string          `json:"next_cursor"`
			}](t, b.expect(200, "", "GET", path+"?limit=1", nil))
			if len(list.Items) != 1 || list.Items[0]["version"] != 2.0 {
				t.Errorf("list: %v", list)
			}
			b.expect(200, "", "DELETE", path+"/"+c.no, nil)
			b.expect(404, c.gone, "DELETE", path+"/"+c.no, nil)
		})
	}
	b.expect(200, "", "POST", "/api/v1/admin/companies", map[string]any{"company_no": "used", "name": "Used"})
	who := b.user("theirs", "submit", map[string]any{"company_no": "used"})
	b.expect(409, "in_use", "DELETE", "/api/v1/admin/companies/used", nil)
	b.submitMany("x", 1, nil, who...)
	b.claim("app", 1)
	b.expect(409, "in_use", "DELETE", "/api/v1/admin/senders/app", nil)
	b.expect(409, "in_use", "DELETE", "/api/v1/admin/channels/sms", nil)
	b.route("used", "app", 1)
	b.expect(409, "in_use", "DELETE", "/api/v1/admin/senders/app", nil)
	if u := decode[api.User](t, b.expect(200, "", "GET", "/api/v1/admin/users/theirs", nil)); u.CompanyNo != "used" || u.TopPriority != 1 {
		t.Errorf("%+v", u)
	}
	b.expect(200, "", "PATCH", "/api/v1/admin/users/theirs", `{"top_priority":3,"version":1}`)
	b.expect(409, "version.stale", "PATCH", "/api/v1/admin/users/theirs", `{"top_priority":2,"version":1}`)
}

func TestTheDirectoryNamesTheFieldThatIsWrong(t *testing.T) {
	b := setup(t)
	b.sender(map[string]any{"sender_no": "s"})
	for _, c := range []struct {
		method, path string
		body         map[string]any
		fields       string
	}{
		{"POST", "companies", map[string]any{"company_no": "a b", "name": ""}, "company_no,name"},
		{"POST", "companies", map[string]any{"company_no": "a", "name": "a", "countries": []string{"XX"}}, "countries"},
		{"PATCH", "companies/default", map[string]any{"countries": []string{"XX"}}, "countries"},
		{"POST", "countries", map[string]any{"country_no": "a", "name": "a", "dial_prefix": "+1"}, "dial_prefix"},
		{"POST", "senders", map[string]any{"sender_no": "x", "name": "x", "channel": "none"}, "channel"},
		{"POST", "senders", map[string]any{"sender_no": "x", "name": "x", "time_zone": "Mars/Olympus"}, "time_zone"},
		{"POST", "senders", map[string]any{"sender_no": "x", "name": "x", "limits": map[string]any{"per_day": -1}}, "limits.per_day"},
		{"PATCH", "senders/s", map[string]any{"time_zone": "Mars/Olympus"}, "time_zone"},
		{"PATCH", "senders/s", map[string]any{"status": "asleep"}, "status"},
		{"POST", "routes", map[string]any{"company_no": "none", "message_type": "marketing", "sender_no": "s"}, "company_no"},
		{"POST", "routes", map[string]any{"company_no": "default", "message_type": "marketing", "sender_no": "none"}, "sender_no"},
		{"POST", "routes", map[string]any{"company_no": "default", "message_type": "marketing", "sender_no": "s", "country_no": "XX"}, "country_no"},
		{"POST", "routes", map[string]any{"company_no": "default", "message_type": "spam", "sender_no": "s"}, "message_type"},
		{"POST", "users", map[string]any{"username": "u", "role": "submit", "company_no": "none"}, "company_no"},
		{"POST", "senders/s/balance", map[string]any{"change": -1}, "change"},
		{"PUT", "settings", map[string]any{"queue": map[string]any{"none": 1}}, "queue.none"},
		{"PUT", "settings/queue", map[string]any{"priority_max_wait_seconds": -1}, "queue.priority_max_wait_seconds"},
		{"PUT", "settings/sms", map[string]any{"priority_marketing": "high"}, "sms.priority_marketing"},
	} {
		a := b.expect(422, "request.invalid", c.method, "/api/v1/admin/"+c.path, c.body)
		if a.fields() != c.fields {
			t.Errorf("%s %s %v names %q, want %q: %s", c.method, c.path, c.body, a.fields(), c.fields, a.raw)
		}
	}
	b.expect(422, "request.invalid", "GET", "/api/v1/admin/settings/none", nil)
}

// A patch empties what it says is null and leaves what it does not name.
func TestANullInAPatchEmpties(t *testing.T) {
	b := setup(t)
	b.sender(map[string]any{"sender_no": "s", "limits": map[string]any{"per_day": 5, "per_hour": 3}, "sign": "x", "lease_seconds": 9, "low_switch": 4})
	b.expect(200, "", "PATCH", "/api/v1/admin/senders/s", `{"limits":{"per_day":null},"sign":null}`)
	s := b.getSender("s")
	if s.Limits.PerDay != nil || s.Sign != nil || *s.Limits.PerHour != 3 || *s.LeaseSeconds != 9 || *s.LowSwitch != 4 {
		t.Errorf("%+v", s)
	}
	b.expect(200, "", "PATCH", "/api/v1/admin/channels/sms", `{"retry_minutes":[1,5]}`)
	b.expect(200, "", "PATCH", "/api/v1/admin/channels/sms", `{"name":"Messages"}`)
	if c := decode[api.Channel](t, b.expect(200, "", "GET", "/api/v1/admin/channels/sms", nil)); c.RetryMinutes == nil || len(*c.RetryMinutes) != 2 {
		t.Errorf("%+v", c)
	}
	b.expect(200, "", "PATCH", "/api/v1/admin/channels/sms", `{"retry_minutes":null}`)
	if c := decode[api.Channel](t, b.expect(200, "", "GET", "/api/v1/admin/channels/sms", nil)); c.RetryMinutes != nil {
		t.Errorf("%+v", c)
	}
}

// A setting that is changed on one server is in force on another within five seconds, and who changed it is kept.
func TestS4_7_SettingsAreInForceOnEveryServer(t *testing.T) {
	var options app.Options
	b := setupWith(t, defaultRules, func(o *app.Options) { options = *o })
	second, err := app.New(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(second.Close)
	server := httptest.NewServer(obeying(t, second.Handler))
	t.Cleanup(server.Close)
	other := *b
	other.url = server.URL
	priority := func() int16 {
		return other.task(other.submitted(map[string]any{"phone_number": phone, "content": "x", "message_type": "marketing"}).TaskID).Priority
	}
	if got := priority(); got != 8 {
		t.Fatalf("priority %d", got)
	}
	b.expect(200, "", "PUT", "/api/v1/admin/settings/sms", map[string]any{"priority_marketing": 3})
	b.expect(200, "", "PUT", "/api/v1/admin/settings/sms", map[string]any{"priority_marketing": 3}) // changes nothing
	if got := b.task(b.submitted(map[string]any{"phone_number": phone, "content": "x", "message_type": "marketing"}).TaskID).Priority; got != 3 {
		t.Errorf("here it is %d", got)
	}
	eventually(t, "it is in force on the other server", func() bool { return priority() == 3 })
	events := decode[api.EventPage](t, b.expect(200, "", "GET", "/api/v1/admin/events?event=setting.changed", nil))
	if len(events.Items) != 1 || events.Items[0].Subject != "sms.priority_marketing" || fmt.Sprint(events.Items[0].Detail) != "map[by:admin from:8 to:3]" {
		t.Errorf("%+v", events.Items)
	}
	all := decode[api.Settings](t, b.expect(200, "", "GET", "/api/v1/admin/settings", nil))
	if *all.Sms.PriorityMarketing != 3 || *all.Sms.PriorityVerification != 1 || !*all.Queue.RegisterUnknownSenders {
		t.Errorf("%+v", all)
	}
}

func TestExplain(t *testing.T) {
	b := setup(t)
	explain := func(id string) api.Explanation {
		t.Helper()
		return decode[api.Explanation](t, b.expect(200, "", "GET", "/api/v1/sms/task/"+id+"/explain", nil))
	}
	b.submitMany("before", 3, map[string]any{"message_type": "marketing"})
	id := b.submitted(map[string]any{"phone_number": phone, "content": "x", "message_type": "marketing"}).TaskID
	if e := explain(id); e.Reason != "no_sender" || e.Ahead == nil || *e.Ahead != 3 || e.Summary != "It waits, and no sender can take it now; 3 go before it." {
		t.Errorf("without a sender: %+v", e)
	}
	for no, body := range map[string]map[string]any{
		"good": {}, "poor": {"balance": 5, "low_switch": 5}, "off": {"status": "off"}, "full": {"limits": map[string]any{"per_day": 0}},
		"tired": {}, "silent": {},
	} {
		body["sender_no"], body["is_shared"] = no, false
		b.sender(body)
		b.route("default", no, 2)
	}
	routed := b.submit("y")
	b.exec("UPDATE sender_states SET seen_at = now()")
	b.exec("UPDATE sender_states st SET seen_at = NULL FROM senders s WHERE s.id = st.sender_id AND s.sender_no = 'silent'")
	b.exec("UPDATE sender_states st SET next_available_at = now() + interval '1 hour' FROM senders s WHERE s.id = st.sender_id AND s.sender_no = 'tired'")
	e := explain(routed)
	why := map[string]string{}
	for _, s := range e.Senders {
		if s.Why != nil {
			why[s.SenderNo] = string(*s.Why)
		} else {
			why[s.SenderNo] = fmt.Sprint(s.CanTake)
		}
	}
	if got := fmt.Sprint(why); got != "map[full:no_quota good:true off:off poor:no_funds silent:silent tired:resting]" || e.Reason != "queued" || !e.Routed || e.Senders[0].SenderNo != "good" {
		t.Errorf("%s: %+v", got, e)
	}
	b.take("good", 1)
	if e := explain(routed); e.Reason != "processing" {
		t.Errorf("held: %+v", e)
	}
	b.report(routed, "good", 3, report{"should_retry": true})
	if e := explain(routed); e.Reason != "retry_later" || e.IsDue {
		t.Errorf("failed: %+v", e)
	}
	b.expect(404, "task.not_found", "GET", "/api/v1/sms/task/none/explain", nil)
	a := b.call("GET", "/api/v1/sms/task/"+id+"/explain", nil, "Accept-Language", "zh")
	if !strings.Contains(a.raw, "前面还有 3 条") {
		t.Errorf("in Chinese: %s", a.raw)
	}
}

func TestDryRunCreatesNothing(t *testing.T) {
	b := setup(t)
	b.expect(200, "", "POST", "/api/v1/admin/default-sms", map[string]any{"phone_number": phone, "content": "default"})
	rows := func() int {
		return b.count("SELECT (SELECT count(*) FROM tasks) + (SELECT count(*) FROM receive_logs) + (SELECT count(*) FROM default_contents WHERE is_sent)")
	}
	dry := func(status int, body map[string]any) string {
		t.Helper()
		a := b.call("POST", "/api/v1/sms/send?dry_run=true", body, "Idempotency-Key", "one")
		if a.status != status {
			t.Errorf("%v: %s", body, a.raw)
		}
		return a.raw
	}
	if got := dry(200, map[string]any{"phone_number": "138-0013-8000", "content": strings.Repeat("长", 100), "sign": "签"}); !strings.Contains(got, `"segments":2`) ||
		!strings.Contains(got, `"recipient":"+8613800138000"`) || !strings.Contains(got, `"verdict":"would_wait"`) {
		t.Errorf("%s", got)
	}
	if got := dry(200, map[string]any{"phone_number": phone}); !strings.Contains(got, `"final_content":"default"`) {
		t.Errorf("%s", got)
	}
	dry(422, map[string]any{"phone_number": "123", "content": "x"})
	if n := rows(); n != 0 {
		t.Errorf("%d rows were made", n)
	}
	b.claim("app", 1)
	b.exec("UPDATE sender_states SET seen_at = now()")
	if got := dry(200, map[string]any{"phone_number": phone, "content": "x"}); !strings.Contains(got, `"verdict":"would_send"`) {
		t.Errorf("%s", got)
	}
	b.expect(200, "", "POST", "/api/v1/sms/send", map[string]any{"phone_number": phone, "content": "x", "dedup_key": "k"}, "Idempotency-Key", "one")
	if got := dry(200, map[string]any{"phone_number": phone, "content": "x", "dedup_key": "k"}); !strings.Contains(got, `"verdict":"would_repeat"`) {
		t.Errorf("%s", got)
	}
}
