package app_test

import (
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
