package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"lksms/internal/testkit/apptest"
)

// answered decodes the response in a recorder.
func answered(t *testing.T, w *httptest.ResponseRecorder) apptest.Answer {
	t.Helper()
	a := apptest.Answer{Status: w.Code, Header: w.Header(), Raw: w.Body.String()}
	if err := json.Unmarshal(w.Body.Bytes(), &a.Body); err != nil {
		t.Fatalf("no envelope: %.500s", w.Body)
	}
	return a
}

func TestBodyIsReadOnlyAfterCallerAndOperationAreChecked(t *testing.T) {
	b := apptest.New(t)
	large := strings.Repeat(" ", 8<<20)
	admin := apptest.Basic(apptest.Username, apptest.Password)
	for name, c := range map[string]struct {
		method, path string
		headers      []string
		status       int
	}{
		"no credentials":                      {"POST", "/api/v1/sms/send-batch", nil, 401},
		"a wrong password":                    {"POST", "/api/v1/sms/send-batch", apptest.Basic(apptest.Username, "wrong"), 401},
		"a wrong method":                      {"PUT", "/api/v1/sms/send-batch", admin, 405},
		"no credentials and a wrong method":   {"DELETE", "/api/v1/sms/send-batch", nil, 405},
		"no operation":                        {"POST", "/api/v1/sms/nothing", admin, 404},
		"not enough rights":                   {"POST", "/api/v1/admin/users", b.AddUser("reader", "read", nil), 403},
		"an operation without a body":         {"POST", "/api/v1/sms/task/t/cancel", admin, 404},
		"health":                              {"GET", "/health", nil, 200},
		"a body beyond the operation's limit": {"POST", "/api/v1/sms/send", admin, 413},
	} {
		w, read := b.Serve(c.method, c.path, large, c.headers...)
		if w.Code != c.status || read > 2<<20 || c.status != 413 && read > 0 {
			t.Errorf("%s: %d after %d bytes", name, w.Code, read)
		}
	}
}

// A body is rejected as soon as its shape exceeds a limit, regardless of its length.
func TestBodyWithTooManyValuesIsRejectedEarly(t *testing.T) {
	b := apptest.New(t)
	ones := strings.Repeat("1,", 4<<20-100) + "1"
	var unknown strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&unknown, `"f%d":1,`, i)
	}
	for name, c := range map[string]struct{ path, body, field string }{
		"messages":                      {"/api/v1/sms/send-batch", `{"messages":[` + ones + `]}`, "messages"},
		"reports":                       {"/api/v1/sms/report-batch", `{"reports":[` + ones + `]}`, "reports"},
		"reports of an exchange":        {"/api/v1/sms/exchange", `{"app_id":"a","reports":[` + ones + `]}`, "reports"},
		"1001 messages":                 {"/api/v1/sms/send-batch", `{"messages":[` + strings.Repeat("{},", 1000) + `{}]}`, "messages"},
		"a list instead of an object":   {"/api/v1/sms/send", `[` + ones[:500_000] + `1]`, "body"},
		"a nested list":                 {"/api/v1/sms/send", `{"a":{"b":[` + ones[:500_000] + `1]}}`, "a.b"},
		"too many members":              {"/api/v1/sms/send", `{` + unknown.String() + `"x":1}`, "body"},
		"an item with too many members": {"/api/v1/sms/send-batch", `{"messages":[{` + unknown.String() + `"x":1}]}`, "messages.0"},
		"a long name":                   {"/api/v1/sms/send", `{"` + strings.Repeat("n", 500_000) + `":1}`, strings.Repeat("n", 199) + "…"},
	} {
		w, read := b.Serve("POST", c.path, c.body, apptest.Basic(apptest.Username, apptest.Password)...)
		a := answered(t, w)
		if w.Code != 422 || a.Fields() != c.field && !strings.Contains(","+a.Fields()+",", ","+c.field+",") {
			t.Errorf("%s: %d with the fields %.200q", name, w.Code, a.Fields())
		}
		if limit := 100_000; name != "a long name" && read > limit {
			t.Errorf("%s: refused after %d bytes", name, read)
		}
		if w.Body.Len() > 16<<10 {
			t.Errorf("%s: an answer of %d bytes", name, w.Body.Len())
		}
	}
	if n := b.Count("SELECT coalesce(max(pg_column_size(l.*)), 0) FROM receive_logs l"); n > 20<<10 {
		t.Errorf("a refused request has a log row of %d bytes", n)
	}
}

func TestResponseNamesAtMostHundredInvalidFields(t *testing.T) {
	b := apptest.New(t)
	var fields strings.Builder
	for i := range 400 {
		fmt.Fprintf(&fields, `"f%d":1,`, i)
	}
	item := "{" + fields.String() + `"content":"x"}`
	w, _ := b.Serve("POST", "/api/v1/sms/send", item, apptest.Basic(apptest.Username, apptest.Password)...)
	if a := answered(t, w); w.Code != 422 || len(a.Body.Error.Fields) != 100 {
		t.Errorf("%d with %d fields", w.Code, len(a.Body.Error.Fields))
	}
	batch := `{"messages":[` + strings.Repeat(item+",", 39) + item + `]}`
	w, _ = b.Serve("POST", "/api/v1/sms/send-batch", batch, apptest.Basic(apptest.Username, apptest.Password)...)
	if w.Code != 200 || w.Body.Len() > len(batch) {
		t.Errorf("%d with %d bytes for %d", w.Code, w.Body.Len(), len(batch))
	}
	if n := b.Count("SELECT count(*) FROM receive_logs WHERE status_code = 422"); n != 41 {
		t.Errorf("%d refusals are logged, want 41", n)
	}
}

// Responses to rejected requests and to unknown callers are cheap, but limited: a caller receives 50 of them at once, and then 20 per second.
func TestRejectionsAndResponsesToUnknownCallersAreDelayed(t *testing.T) {
	b := apptest.New(t)
	tenant := b.AddCompany("tenant", 1)
	for what, ask := range map[string]func() apptest.Answer{
		"a company":         func() apptest.Answer { return b.Call("POST", "/api/v1/sms/send", "{}", tenant...) },
		"an unknown caller": func() apptest.Answer { return b.Call("GET", "/health", nil, "Authorization", "") },
	} {
		began := time.Now()
		for range 75 {
			ask()
		}
		if took := time.Since(began); took < 500*time.Millisecond {
			t.Errorf("%s got 75 answers in %s", what, took)
		}
	}
}

// Windows programs write a byte order mark before JSON. Such a body is accepted, and no stored text begins with the mark.
func TestByteOrderMarkBeforeBodyIsIgnored(t *testing.T) {
	b := apptest.New(t)
	b.Expect(200, "", "POST", "/api/v1/admin/inbounds", `{"inbound_no":"apprise","preset":"apprise"}`)
	for path, body := range map[string]string{
		"/api/v1/sms/send":              `{"phone_number":"13800138000","content":"x"}`,
		"/api/v1/inbound/apprise":       `{"version":"1.0","title":"t","message":"m","attachments":[],"type":"success","phone_number":"13800138000"}`,
		"/api/v1/admin/senders":         `{"sender_no":"logs","name":"Logs","kind":"log","config":{"showContent":true}}`,
		"/smsgate/3rdparty/v1/messages": `{"phoneNumbers":["+8613800138000"],"textMessage":{"text":"x"}}`,
	} {
		if a := b.Call("POST", path, "\uFEFF"+body); a.Status >= 300 {
			t.Errorf("%s: %d %s", path, a.Status, a.Raw)
		}
	}
	if n := b.Count(`SELECT count(*) FROM messages WHERE request_data::text LIKE '%' || chr(65279) || '%'`); n > 0 {
		t.Errorf("%d messages keep the mark", n)
	}
}
