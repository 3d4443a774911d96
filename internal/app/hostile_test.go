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
