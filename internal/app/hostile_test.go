package app_test

import (
	"encoding/base64"
	"net/url"
	"strings"
	"testing"
)

// F21: whatever a body holds, the answer is a 4xx that names the field, and never a 5xx.
func TestF21_HostileBodies(t *testing.T) {
	b := setup(t)
	const sendPath, reportPath = "/api/v1/sms/send", "/api/v1/sms/report"
	for name, c := range map[string]struct {
		path, body string
		status     int
		field      string
	}{
		"a NUL":                     {sendPath, `{"phone_number":"13800138000","content":"a\u0000"}`, 422, "content"},
		"a lone high surrogate":     {sendPath, `{"phone_number":"13800138000","content":"\ud800"}`, 422, "content"},
		"a lone low surrogate":      {sendPath, `{"phone_number":"13800138000","content":"x","source":"\udc00x"}`, 422, "source"},
		"bad UTF-8":                 {sendPath, "{\"phone_number\":\"13800138000\",\"content\":\"\xff\"}", 422, "content"},
		"bad UTF-8 in a name":       {sendPath, "{\"\xff\":1}", 422, "body"},
		"a name twice":              {sendPath, `{"phone_number":"13800138000","content":"x","content":"y"}`, 422, "content"},
		"an unknown name twice":     {reportPath, `{"a":1,"a":1}`, 422, "a"},
		"an unknown field":          {sendPath, `{"phone_number":"13800138000","content":"x","a":{"b":[]}}`, 422, "a"},
		"a number beyond int64":     {reportPath, `{"task_id":"t","app_id":"a","status":2,"lease_id":9223372036854775808}`, 422, "lease_id"},
		"a number beyond float64":   {reportPath, `{"task_id":"t","app_id":"a","status":2,"lease_id":1e999}`, 0, ""},
		"a fraction":                {reportPath, `{"task_id":"t","app_id":"a","status":2.5}`, 422, "status"},
		"not an object":             {sendPath, `[]`, 422, "body"},
		"null":                      {sendPath, `null`, 422, "body"},
		"two values":                {sendPath, `{"phone_number":"13800138000","content":"x"} {}`, 0, ""},
		"nested names with slashes": {sendPath, `{"a/b":{"c":1,"c":2}}`, 422, "a~1b.c"},
		"a NUL anywhere":            {"/api/v1/notifications", `{"biz_type":0,"biz_id":1,"channels":["oa"],"payload":{"a":{"b":["\u0000"]}},"user_ids":["u"]}`, 422, "payload.a.b.0"},
		"a NUL in a name":           {"/api/v1/admin/senders", `{"sender_no":"x","name":"x","config":{"a\u0000":1}}`, 422, "config"},
		"a NUL in data":             {"/api/v1/subscribe-messages", `{"business_type":"b","business_id":1,"template_type":"t","receiver_user_id":"u","template_id":"x","data":{"a":"\u0000"}}`, 422, "data.a"},
		"too much data":             {"/api/v1/subscribe-messages", `{"business_type":"b","business_id":1,"template_type":"t","receiver_user_id":"u","template_id":"x","data":{"a":"` + strings.Repeat("x", 200_000) + `"}}`, 422, "data"},
		"a date beyond all":         {"/api/v1/notifications", `{"biz_type":0,"biz_id":1,"channels":["oa"],"payload":{},"user_ids":["u"],"next_run_time":"9999-12-31T23:59:59Z"}`, 422, "next_run_time"},
		"a date before all":         {"/api/v1/notifications/events", `{"event":"node_started","task_id":1,"node_inst_id":1,"channels":["oa"],"user_ids":["u"],"max_duration":525600,"started_at":"0001-01-01T00:00:00Z"}`, 0, ""},
		"an orbit beyond all":       {"/api/v1/notifications/events", `{"event":"orbit_plan","task_id":1,"channels":["oa"],"user_ids":["u"],"orbits":[{"orbit_no":1,"in_time":"9999-12-31T23:59:59Z"}]}`, 0, ""},
		"a channel that is not":     {"/api/v1/notifications", `{"biz_type":0,"biz_id":1,"channels":["nowhere"],"payload":{},"user_ids":["u"],"dedup_key":"k"}`, 422, "channels"},
	} {
		a := b.call("POST", c.path, c.body)
		if a.status < 400 || a.status >= 500 || c.status != 0 && a.status != c.status || c.field != "" && !strings.Contains(a.fields(), c.field) {
			t.Errorf("%s: %d with the fields %q: %s", name, a.status, a.fields(), a.raw)
		}
	}
	if n := b.count("SELECT count(*) FROM tasks"); n != 0 {
		t.Errorf("%d tasks were made", n)
	}
	// A pair of surrogates is a character.
	b.expect(200, "", "POST", sendPath, `{"phone_number":"13800138000","content":"\ud83d\ude00"}`)
}

// F21: whatever stands in the address or in a header, the answer is no 5xx, and one that names the parameter that is no text.
func TestF21_HostileAddressesAndHeaders(t *testing.T) {
	b := setup(t)
	for id, o := range operations {
		for _, bad := range []string{"%ff", "%00", "%ed%a0%80", "a%2F%ff", "%2e%2e", "%"} {
			path, query, _ := strings.Cut(o.path, "?")
			segments := strings.Split(path, "/")
			for i := range segments[1:] {
				worse := strings.Join(segments[:i+1], "/") + "/" + bad
				if rest := segments[i+2:]; len(rest) > 0 {
					worse += "/" + strings.Join(rest, "/")
				}
				if !sendable(worse) {
					continue
				}
				if a := b.call(o.method, worse+"?"+query, o.body); a.status >= 500 {
					t.Errorf("%s: %s %s: %s", id, o.method, worse, a.raw)
				}
			}
		}
	}
	for path, field := range map[string]string{
		"/api/v1/sms/tasks?source=%ff": "source", "/api/v1/sms/tasks?source=%00": "source", "/api/v1/sms/tasks?source=a&source=%ff": "source",
		"/api/v1/sms/tasks/pending?app_id=%ff": "app_id", "/api/v1/admin/events?subject=%ed%a0%80": "subject",
		"/api/v1/sms/task/%ff": "task_id", "/api/v1/admin/users/%ff": "username", "/api/v1/admin/senders/%00/ledger": "sender_no",
		"/health?who=%ff": "who",
	} {
		if a := b.call("GET", path, nil); a.status != 422 || a.fields() != field {
			t.Errorf("%s: %d with the fields %q", path, a.status, a.fields())
		}
	}
	if a := b.call("POST", "/api/v1/callbacks/%ff", "{}", "Authorization", ""); a.status != 422 || a.fields() != "sender_no" {
		t.Errorf("a callback: %s", a.raw)
	}
	body := map[string]any{"phone_number": phone, "content": "x"}
	for _, header := range [][]string{
		{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte("\xff:x"))},
		{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte("a\x00:x"))},
		{"Authorization", "Bearer \xff"}, {"X-Request-Id", "\xff"}, {"User-Agent", "\xff"}, {"Accept-Language", "\xff"},
		{"Idempotency-Key", "\xff"}, {"Origin", "\xff"}, {"X-Forwarded-For", "\xff"},
	} {
		if a := b.call("POST", "/api/v1/sms/send", body, header...); a.status >= 500 {
			t.Errorf("%q: %s", header, a.raw)
		}
	}
}

// sendable tells whether a client takes it for an address.
func sendable(path string) bool {
	_, err := url.Parse(path)
	return err == nil
}
