package httpapi_test

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"testing"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
	"lksms/internal/testkit/contracttest"
)

// The response to every invalid body is a 4xx that names the field, and never a 5xx.
func TestHostileBodiesAreRejected(t *testing.T) {
	b := apptest.New(t)
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
		"a date that is too late":   {"/api/v1/notifications", `{"biz_type":0,"biz_id":1,"channels":["oa"],"payload":{},"user_ids":["u"],"next_run_time":"9999-12-31T23:59:59Z"}`, 422, "next_run_time"},
		"a date that is too early":  {"/api/v1/notifications/events", `{"event":"node_started","task_id":1,"node_inst_id":1,"channels":["oa"],"user_ids":["u"],"max_duration":525600,"started_at":"0001-01-01T00:00:00Z"}`, 0, ""},
		"an orbit that is too late": {"/api/v1/notifications/events", `{"event":"orbit_plan","task_id":1,"channels":["oa"],"user_ids":["u"],"orbits":[{"orbit_no":1,"in_time":"9999-12-31T23:59:59Z"}]}`, 0, ""},
		"an unknown channel":        {"/api/v1/notifications", `{"biz_type":0,"biz_id":1,"channels":["nowhere"],"payload":{},"user_ids":["u"],"dedup_key":"k"}`, 422, "channels.0"},
	} {
		a := b.Call("POST", c.path, c.body)
		if a.Status < 400 || a.Status >= 500 || c.status != 0 && a.Status != c.status || c.field != "" && !strings.Contains(a.Fields(), c.field) {
			t.Errorf("%s: %d with the fields %q: %s", name, a.Status, a.Fields(), a.Raw)
		}
	}
	if n := b.Count("SELECT count(*) FROM tasks"); n != 0 {
		t.Errorf("%d tasks were stored", n)
	}
	// A surrogate pair is one character.
	b.Expect(200, "", "POST", sendPath, `{"phone_number":"13800138000","content":"\ud83d\ude00"}`)
}

// No address or header causes a 5xx response. If an address contains invalid text, the error names the parameter.
func TestHostileAddressesAndHeadersCauseNoServerError(t *testing.T) {
	b := apptest.New(t)
	bads, n := []string{"%ff", "%00", "%ed%a0%80", "a%2F%ff", "%2e%2e", "%"}, 0
	for id, o := range apptest.Operations {
		path, query, _ := strings.Cut(o.Path, "?")
		segments := strings.Split(path, "/")
		for i := range segments[1:] {
			// Each segment is replaced by the next bad text. The order of operations is random, so the combinations vary.
			bad := bads[n%len(bads)]
			n++
			worse := strings.Join(segments[:i+1], "/") + "/" + bad
			if rest := segments[i+2:]; len(rest) > 0 {
				worse += "/" + strings.Join(rest, "/")
			}
			if !sendable(worse) {
				continue
			}
			body, headers := o.Content()
			if a := b.Call(o.Method, worse+"?"+query, body, headers...); a.Status >= 500 {
				t.Errorf("%s: %s %s: %s", id, o.Method, worse, a.Raw)
			}
		}
	}
	for path, field := range map[string]string{
		"/api/v1/sms/tasks?source=%ff": "source", "/api/v1/sms/tasks?source=%00": "source", "/api/v1/sms/tasks?source=a&source=%ff": "source",
		"/api/v1/sms/tasks/pending?app_id=%ff": "app_id", "/api/v1/admin/events?subject=%ed%a0%80": "subject",
		"/api/v1/sms/task/%ff": "task_id", "/api/v1/admin/users/%ff": "username", "/api/v1/admin/senders/%00/ledger": "sender_no",
		"/health?who=%ff": "who",
	} {
		if a := b.Call("GET", path, nil); a.Status != 422 || a.Fields() != field {
			t.Errorf("%s: %d with the fields %q", path, a.Status, a.Fields())
		}
	}
	if a := b.Call("POST", "/api/v1/callbacks/%ff", "{}", "Authorization", ""); a.Status != 403 { // the same response as for any unknown sender
		t.Errorf("a callback: %s", a.Raw)
	}
	body := map[string]any{"phone_number": apptest.Phone, "content": "x"}
	for _, header := range [][]string{
		{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte("\xff:x"))},
		{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte("a\x00:x"))},
		{"Authorization", "Bearer \xff"}, {"X-Request-Id", "\xff"}, {"User-Agent", "\xff"}, {"Accept-Language", "\xff"},
		{"Idempotency-Key", "\xff"}, {"Origin", "\xff"}, {"X-Forwarded-For", "\xff"},
	} {
		if a := b.Call("POST", "/api/v1/sms/send", body, header...); a.Status >= 500 {
			t.Errorf("%q: %s", header, a.Raw)
		}
	}
}

// A client can send any cursor. Every list either accepts a cursor or reports it as invalid.
func TestHostileCursorsCauseNoServerError(t *testing.T) {
	b := apptest.New(t)
	b.Expect(200, "", "POST", "/api/v1/admin/senders", `{"sender_no":"nobody","name":"n"}`)
	b.Exec("INSERT INTO templates (id, template_name, template_content) OVERRIDING SYSTEM VALUE VALUES (9, 'n', 'c')")
	b.Expect(200, "", "PUT", "/api/v1/tags/nobody", nil)
	b.Exec(`INSERT INTO batches (id, company_id, submitted_by, name, message_type, phone_column, content, dedup, request_id, source_ip, user_agent)
		OVERRIDING SYSTEM VALUE VALUES (9, 1, 'a', 'n', 1, 'p', 'c', 'none', '', '', '')`)
	b.Exec("INSERT INTO webhooks (id, url, events, created_by, after_id) OVERRIDING SYSTEM VALUE VALUES (9, 'https://x.example', '{}', 'a', 0)")
	keys := []string{
		"task_\xff", "task_\x00", "task_\xed\xa0\x80", "task_", "task_" + strings.Repeat("x", 4000), "\xff", "a\x00", "", "x",
		"9223372036854775807", "9223372036854775808", "-9223372036854775808", "1e3", "+1", "0x10", "1_000", "NaN",
		"2026-01-01T00:00:00Z,\xff", "2026-01-01T00:00:00Z,9223372036854775808", "9998-12-31T23:59:59Z,1", "9999-12-31T23:59:59-23:59,1",
		"0000-01-01T00:00:00+14:00,1", "1970-01-01T00:00:00+23:59,1", "2026-01-01T00:00:00.123456789012Z,-1",
	}
	lists := 0
	for id, o := range apptest.Operations {
		path, _, _ := strings.Cut(o.Path, "?")
		if o.Method != "GET" || !strings.Contains(b.Call("GET", path+"?cursor=!", nil, "Accept-Language", "en").Raw, "not a cursor") {
			continue // the operation accepts no cursor
		}
		lists++
		queries := []string{""}
		if id == "listOnce" { // the list of failures has another order
			queries = append(queries, "&send_status=2")
		}
		for _, query := range queries {
			for _, key := range keys {
				a := b.Call("GET", path+"?cursor="+base64.RawURLEncoding.EncodeToString([]byte(key))+query, nil)
				if a.Status != 200 && (a.Status != 422 || a.Fields() != "cursor") {
					t.Errorf("%s with the cursor %q: %d %s", id, key, a.Status, a.Raw)
				}
			}
		}
	}
	if lists < 14 {
		t.Errorf("%d lists have cursors", lists)
	}
}

// Every stored time can be returned. JSON has no year before 0, but a time zone can move the first hours of the year 0 to the year before.
func TestTimesOutsideJSONRangeAreRejected(t *testing.T) {
	b := apptest.New(t)
	const before, after = "0000-01-01T00:00:00+14:00", "9999-12-31T23:59:59-10:00"
	for _, c := range []struct{ path, body, field string }{
		{"/api/v1/sms/send", `{"phone_number":"13800138000","content":"x","expect_send_time":"%s"}`, "expect_send_time"},
		{"/api/v1/sms/send", `{"phone_number":"13800138000","content":"x","expires_at":"%s"}`, "expires_at"},
		{"/api/v1/notifications", `{"biz_type":0,"biz_id":1,"channels":["oa"],"payload":{},"user_ids":["u"],"next_run_time":"%s"}`, "next_run_time"},
		{"/api/v1/notifications", `{"biz_type":0,"biz_id":1,"channels":["oa"],"payload":{},"user_ids":["u"],"started_at":"%s"}`, "started_at"},
		{"/api/v1/notifications/events", `{"event":"orbit_plan","task_id":1,"channels":["oa"],"user_ids":["u"],"orbits":[{"orbit_no":1,"in_time":"%s"}]}`, "orbits.0.in_time"},
	} {
		for _, at := range []string{before, after} {
			if a := b.Call("POST", c.path, fmt.Sprintf(c.body, at)); a.Status != 422 || a.Fields() != c.field {
				t.Errorf("%s %s at %s: %d %s", c.path, c.field, at, a.Status, a.Raw)
			}
		}
	}
	a := b.Expect(200, "", "POST", "/api/v1/sms/send-batch", fmt.Sprintf(`{"messages":[{"phone_number":"13800138000","content":"x","expect_send_time":"%s"}]}`, before))
	if got := apptest.Decode[api.SentBatch](t, a); got.Refused != 1 || got.Items[0].Code != 422 {
		t.Errorf("in a batch: %s", a.Raw)
	}
	b.Expect(200, "", "GET", "/api/v1/sms/tasks?created_from=0001-01-01T00:00:00Z&created_to=9999-12-31T23:59:59Z", nil)
	b.Expect(200, "", "GET", "/api/v1/notifications", nil)
}

// A response names at most a hundred invalid fields, however many fields are invalid.
func TestResponseToManyInvalidFieldsIsLimited(t *testing.T) {
	b := apptest.New(t)
	many := func(one, between string) string {
		all := make([]string, 3000)
		for i := range all {
			all[i] = fmt.Sprintf(one, strconv.FormatInt(int64(i), 36))
		}
		return strings.Join(all, between)
	}
	for _, c := range []struct{ method, path, body string }{
		{"GET", "/api/v1/sms/tasks?" + many("%s", "&"), ""},
		{"POST", "/api/v1/sms/send", "{" + many(`"%s":1`, ",") + "}"},
		{"POST", "/api/v1/notifications/status", `{"biz_type":0,"status":3,"biz_ids":["` + many("%s", `","`) + `"]}`},
		{"POST", "/api/v1/sms/send-batch", `{"messages":[{` + many(`"%s":1`, ",") + "}]}"},
	} {
		a := b.Call(c.method, c.path, c.body)
		if limit := contracttest.MaxAnswer(len(c.path) + len(c.body)); a.Status >= 500 || len(a.Raw) > limit || strings.Count(a.Raw, `"field"`) > 100 {
			t.Errorf("%.30s: %d, an answer of %d bytes with %d fields to %d", c.path, a.Status, len(a.Raw), strings.Count(a.Raw, `"field"`), len(c.path)+len(c.body))
		}
	}
}

// A number that is short to write but long to store is rejected everywhere. Such a number uses little memory before the caller is authenticated.
func TestHostileNumbersAreRejected(t *testing.T) {
	b := apptest.New(t)
	for _, number := range []string{"1e999999", "-1e999999", "1E+99999999999999999999", "1e-999999", "1." + strings.Repeat("0", 200)} {
		for name, c := range map[string]struct{ method, path, body string }{
			"an unknown field":            {"POST", "/api/v1/sms/send", `{"phone_number":"13800138000","content":"x","a":%s}`},
			"a field of a payload":        {"POST", "/api/v1/notifications", `{"biz_type":0,"biz_id":1,"channels":["oa"],"payload":{"a":[%s]},"user_ids":["u"]}`},
			"an ignored field":            {"POST", "/api/v1/sms/tasks/claim", `{"app_id":"a","limit":1,"a":{"b":%s}}`},
			"an item of a batch":          {"POST", "/api/v1/sms/send-batch", `{"messages":[{"phone_number":"13800138000","content":"x","a":%s}]}`},
			"a configuration":             {"POST", "/api/v1/admin/senders", `{"sender_no":"x","name":"x","config":{"a":%s}}`},
			"a driver":                    {"POST", "/api/v1/admin/senders", `{"sender_no":"x","name":"x","kind":"http-sms","config":{"url":"http://x","timeoutSeconds":%s}}`},
			"a setting":                   {"PUT", "/api/v1/admin/settings", `{"queue":{"priority_max_wait_seconds":%s}}`},
			"data":                        {"POST", "/api/v1/subscribe-messages", `{"business_type":"b","business_id":1,"template_type":"t","receiver_user_id":"u","template_id":"x","data":{"a":%s}}`},
			"an operation without a body": {"POST", "/api/v1/admin/recover-zombie-tasks", `%s`},
		} {
			a := b.Call(c.method, c.path, fmt.Sprintf(c.body, number))
			switch isItem := name == "an item of a batch"; {
			case strings.HasPrefix(name, "an operation"), isItem:
				if a.Status != 200 || isItem != strings.Contains(a.Raw, `"code":422`) {
					t.Errorf("%s: %.20s: %d %s", name, number, a.Status, a.Raw)
				}
			case a.Status != 422:
				t.Errorf("%s: %.20s: %d %s", name, number, a.Status, a.Raw)
			}
		}
	}
	if n := b.Count("SELECT count(*) FROM receive_logs WHERE status_code = 422"); n != 2*5 {
		t.Errorf("%d of 10 refused submissions were logged", n)
	}
	// The server reads invalid JSON to its end, and reads a callback before it authenticates the caller. Written without an exponent, each of these numbers
	// would need a megabyte.
	body := "[1e999999" + strings.Repeat(",1e999999", 500)
	for path, text := range map[string]string{"/api/v1/callbacks/none": body + "]", "/api/v1/sms/send": body} {
		allocated := allocatedBy(func() { b.Call("POST", path, text) })
		if limit := uint64(400 << 20); allocated > limit {
			t.Errorf("%s: %d bytes took %d bytes of memory", path, len(text), allocated)
		}
	}
}

// allocatedBy returns the number of bytes that the process allocates while f runs, including parallel tests.
func allocatedBy(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// A secret in a request is encrypted unchanged, even if it looks like an encrypted secret. Only stored secrets are decrypted.
func TestHostileSecretsAreEncryptedUnchanged(t *testing.T) {
	b := apptest.NewWith(t, apptest.DefaultRules, apptest.WithSecrets)
	p := apptest.NewProvider(t)
	box := b.Options.Secrets
	stored := func(no string) string {
		return apptest.Scan[string](b, "SELECT config->>'secret' FROM senders WHERE sender_no = $1", no)
	}
	decrypted := func(no string) string {
		text, err := box.Decrypt(stored(no), no+"/secret")
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	body := func(no, secret string) map[string]any {
		return map[string]any{"sender_no": no, "name": no, "channel": "oa", "kind": "oa", "config": map[string]any{"url": p.URL, "secret": secret}}
	}
	for i, text := range []string{"sealed:", "sealed:x", "sealed:00000000:AAAA", "sealed:" + strings.Repeat("A", 100), "**"} {
		no := fmt.Sprint("s", i)
		b.AddSender(body(no, text))
		if got := decrypted(no); got != `"`+text+`"` {
			t.Errorf("%q is stored as %s", text, got)
		}
		b.Expect(200, "", "PATCH", "/api/v1/admin/senders/"+no, map[string]any{"config": map[string]any{"url": p.URL, "secret": text + "x"}})
		if got := decrypted(no); got != `"`+text+`x"` {
			t.Errorf("%q is changed to %s", text, got)
		}
	}
	// An encrypted text that was copied from the database is treated like any other secret.
	b.AddSender(body("other", "hunter2"))
	copied := stored("other")
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/other", map[string]any{"config": map[string]any{"url": p.URL, "secret": copied}})
	if got := decrypted("other"); got != `"`+copied+`"` {
		t.Errorf("the copied text was decrypted: %s", got)
	}
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/other", `{"kind":"oa"}`)
	if got := decrypted("other"); got != `"`+copied+`"` {
		t.Errorf("a patch without a configuration changed the secret to %s", got)
	}
	// The placeholder of a hidden secret is rejected if no secret is stored.
	if a := b.Expect(422, "request.invalid", "POST", "/api/v1/admin/senders", body("new", "***")); a.Fields() != "config.secret" {
		t.Errorf("wrong fields %s", a.Fields())
	}
	for _, field := range []string{"secrets", "callbackSecret"} {
		config := p.SenderConfig()
		config[field] = "sealed:x"
		if a := b.Call("POST", "/api/v1/admin/senders", map[string]any{"sender_no": "http", "name": "n", "kind": "http-sms", "config": config}); a.Status >= 500 {
			t.Errorf("%s: %s", field, a.Raw)
		}
	}
}

// sendable reports whether an HTTP client accepts path as a URL.
func sendable(path string) bool {
	_, err := url.Parse(path)
	return err == nil
}

// The response names invalid parts of the address and of the body.
func TestInvalidFieldsOfAddressAndBodyAreNamedTogether(t *testing.T) {
	b := apptest.New(t)
	for path, want := range map[string]string{
		"/api/v1/admin/senders/a%00":                 "sender_no,weight",
		"/api/v1/admin/senders/a?page=2":             "page,weight",
		"/api/v1/admin/senders/a%00?page=2":          "page,sender_no,weight",
		"/api/v1/admin/senders/a%00?page=2&weight=1": "page,sender_no,weight", // each field is named once
	} {
		a := b.Expect(422, "request.invalid", "PATCH", path, `{"weight":"much"}`)
		if a.Fields() != want {
			t.Errorf("%s: the wrong fields are %s, want %s", path, a.Fields(), want)
		}
	}
	if a := b.Expect(422, "request.invalid", "PATCH", "/api/v1/admin/senders/a%00", `{"weight":`); a.Fields() != "sender_no" {
		t.Errorf("a body that cannot be read: the wrong fields are %s", a.Fields())
	}
}
