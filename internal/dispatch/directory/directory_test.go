package directory_test

import (
	"fmt"
	"strings"
	"testing"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
)

func TestMain(m *testing.M) { apptest.Main(m) }

// Each kind of resource can be created, read, listed and changed, and can be deleted while no row refers to it.
func TestDirectoryResourcesCanBeCreatedChangedAndDeleted(t *testing.T) {
	b := apptest.New(t)
	for _, c := range []struct {
		path, no     string
		body, change map[string]any
		gone         string // expected reason of the 404 answer after the deletion
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
				b.AddSender(map[string]any{"sender_no": "s2"})
			}
			b.Expect(404, c.gone, "GET", path+"/"+c.no, nil)
			b.Expect(200, "", "POST", path, c.body)
			b.Expect(409, "exists", "POST", path, c.body)
			made := apptest.Decode[map[string]any](t, b.Expect(200, "", "GET", path+"/"+c.no, nil))
			for k, v := range c.body {
				if fmt.Sprint(made[k]) != fmt.Sprint(v) {
					t.Errorf("%s is %v, want %v", k, made[k], v)
				}
			}
			c.change["version"] = 1
			changed := apptest.Decode[map[string]any](t, b.Expect(200, "", "PATCH", path+"/"+c.no, c.change))
			delete(c.change, "version")
			for k, v := range c.change {
				if fmt.Sprint(changed[k]) != fmt.Sprint(v) || changed["version"] != 2.0 {
					t.Errorf("%s is %v in version %v, want %v in 2", k, changed[k], changed["version"], v)
				}
			}
			c.change["version"] = 1
			b.Expect(409, "version.stale", "PATCH", path+"/"+c.no, c.change)
			b.Expect(404, c.gone, "PATCH", path+strings.Replace("/"+c.no, c.no, "99", 1), c.change)
			list := apptest.Decode[struct {
				Items      []map[string]any `json:"items"`
				NextCursor *string          `json:"next_cursor"`
			}](t, b.Expect(200, "", "GET", path+"?limit=1", nil))
			if len(list.Items) != 1 || list.Items[0]["version"] != 2.0 {
				t.Errorf("list: %v", list)
			}
			b.Expect(200, "", "DELETE", path+"/"+c.no, nil)
			b.Expect(404, c.gone, "DELETE", path+"/"+c.no, nil)
		})
	}
	b.Expect(200, "", "POST", "/api/v1/admin/companies", map[string]any{"company_no": "used", "name": "Used"})
	who := b.AddUser("theirs", "submit", map[string]any{"company_no": "used"})
	b.Expect(409, "in_use", "DELETE", "/api/v1/admin/companies/used", nil)
	b.SubmitMany("x", 1, nil, who...)
	b.Claim("app", 1)
	b.Expect(409, "in_use", "DELETE", "/api/v1/admin/senders/app", nil)
	b.Expect(409, "in_use", "DELETE", "/api/v1/admin/channels/sms", nil)
	b.AddRoute("used", "app", 1)
	b.Expect(409, "in_use", "DELETE", "/api/v1/admin/senders/app", nil)
	if u := apptest.Decode[api.User](t, b.Expect(200, "", "GET", "/api/v1/admin/users/theirs", nil)); u.CompanyNo != "used" || u.TopPriority != 1 {
		t.Errorf("%+v", u)
	}
	b.Expect(200, "", "PATCH", "/api/v1/admin/users/theirs", `{"top_priority":3,"version":1}`)
	b.Expect(409, "version.stale", "PATCH", "/api/v1/admin/users/theirs", `{"top_priority":2,"version":1}`)
}

func TestTheFaultNamesTheInvalidField(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "s"})
	for _, c := range []struct {
		method, path string
		body         map[string]any
		fields       string
	}{
		{"POST", "companies", map[string]any{"company_no": "a b", "name": ""}, "company_no,name"},
		{"POST", "companies", map[string]any{"company_no": "a", "name": "a", "countries": []string{"XX"}}, "countries.0"},
		{"PATCH", "companies/default", map[string]any{"countries": []string{"XX"}}, "countries.0"},
		{"POST", "countries", map[string]any{"country_no": "a", "name": "a", "dial_prefix": "+1"}, "dial_prefix"},
		{"POST", "senders", map[string]any{"sender_no": "x", "name": "x", "channel": "none"}, "channel"},
		{"POST", "senders", map[string]any{"sender_no": "x", "name": "x", "time_zone": "Mars/Olympus"}, "time_zone"},
		{"POST", "senders", map[string]any{"sender_no": "x", "name": "x", "limits": map[string]any{"per_day": -1}}, "limits.per_day"},
		{"PATCH", "senders/s", map[string]any{"time_zone": "Mars/Olympus"}, "time_zone"},
		{"PATCH", "senders/s", map[string]any{"time_zone": "UTC+8"}, "time_zone"}, // in POSIX, UTC+8 lies west of Greenwich
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
		a := b.Expect(422, "request.invalid", c.method, "/api/v1/admin/"+c.path, c.body)
		if a.Fields() != c.fields {
			t.Errorf("%s %s %v wrong fields %q, want %q: %s", c.method, c.path, c.body, a.Fields(), c.fields, a.Raw)
		}
	}
	b.Expect(422, "request.invalid", "GET", "/api/v1/admin/settings/none", nil)
}

// A patch clears fields that are null, and does not change missing fields.
func TestANullInAPatchClearsAField(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "s", "limits": map[string]any{"per_day": 5, "per_hour": 3}, "sign": "x", "lease_seconds": 9, "low_switch": 4})
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/s", `{"limits":{"per_day":null},"sign":null}`)
	s := b.GetSender("s")
	if s.Limits.PerDay != nil || s.Sign != nil || *s.Limits.PerHour != 3 || *s.LeaseSeconds != 9 || *s.LowSwitch != 4 {
		t.Errorf("%+v", s)
	}
	b.Expect(200, "", "PATCH", "/api/v1/admin/channels/sms", `{"retry_minutes":[1,5]}`)
	b.Expect(200, "", "PATCH", "/api/v1/admin/channels/sms", `{"name":"Messages"}`)
	if c := apptest.Decode[api.Channel](t, b.Expect(200, "", "GET", "/api/v1/admin/channels/sms", nil)); c.RetryMinutes == nil || len(*c.RetryMinutes) != 2 {
		t.Errorf("%+v", c)
	}
	b.Expect(200, "", "PATCH", "/api/v1/admin/channels/sms", `{"retry_minutes":null}`)
	if c := apptest.Decode[api.Channel](t, b.Expect(200, "", "GET", "/api/v1/admin/channels/sms", nil)); c.RetryMinutes != nil {
		t.Errorf("%+v", c)
	}
}

// Two concurrent patches without a version both succeed, and neither undoes changes of other fields.
func TestPatchesWithoutAVersionKeepConcurrentChanges(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "app"})
	bodies := []map[string]any{{"name": "n"}, {"sign": "签"}, {"limits": map[string]any{"per_day": 5}}}
	answers := make([]apptest.Answer, len(bodies))
	apptest.Together(len(bodies), func(i int) { answers[i] = b.Call("PATCH", "/api/v1/admin/senders/app", bodies[i]) })
	for i, a := range answers {
		if a.Status != 200 {
			t.Errorf("%v: %s", bodies[i], a.Raw)
		}
	}
	if got := b.GetSender("app"); got.Name != "n" || got.Sign == nil || *got.Sign != "签" || got.Limits.PerDay == nil || *got.Limits.PerDay != 5 {
		t.Errorf("%+v", got)
	}
}
