package httpapi_test

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
)

func TestInvalidItemDoesNotRejectOtherItems(t *testing.T) {
	b := apptest.New(t)
	wrong := map[string]string{
		`{"phone_number":"13800138000","content":"x","expect_send_time":"tomorrow"}`:            "expect_send_time",
		`{"phone_number":"13800138000","content":"x","expect_send_time":"2026-12-01T10:00:00"}`: "expect_send_time",
		`{"phone_number":"13800138000","content":"x","expires_at":"2026-02-30T10:00:00Z"}`:      "expires_at",
		`{"phone_number":"13800138000","content":"x","priority":70000}`:                         "priority",
		`{"phone_number":"13800138000","content":"x","priority":1e40}`:                          "priority",
		`{"phone_number":"13800138000","content":5}`:                                            "content",
		`{"phone_number":"13800138000","content":"x","colour":1}`:                               "colour",
		`"x"`: "body", `null`: "body", `[{}]`: "body",
	}
	good := `{"phone_number":"13800138000","content":"x","use_template":false,"priority":9.0,"message_type":"marketing"}`
	var texts, fields []string
	for text, field := range wrong {
		if field == "body" { // an item that is no object is named by its index
			field = fmt.Sprintf("messages.%d", len(texts))
		}
		texts, fields = append(texts, text, good), append(fields, field, "")
	}
	sent := apptest.Decode[api.SentBatch](t, b.Expect(200, "", "POST", apptest.BatchPath, `{"messages":[`+strings.Join(texts, ",")+`]}`))
	if sent.Accepted != len(wrong) || sent.Refused != len(wrong) {
		t.Errorf("%d accepted, %d refused", sent.Accepted, sent.Refused)
	}
	for i, item := range sent.Items {
		if fields[i] == "" != (item.Code == 200) || fields[i] != "" && (item.Code != 422 || item.Error.Fields == nil || (*item.Error.Fields)[0].Field != fields[i]) {
			t.Errorf("%s: %d %+v", texts[i], item.Code, item.Error)
		}
	}
	if n := b.Count("SELECT count(*) FROM receive_logs WHERE task_id IS NULL"); n != len(wrong) {
		t.Errorf("%d refusals are logged", n)
	}

	task := b.ClaimIDs(1)[0]
	reported := apptest.Decode[api.ReportedBatch](t, b.Expect(200, "", "POST", "/api/v1/sms/report-batch", `{"reports":[
		{"task_id":"`+task+`","app_id":"app","status":3,"should_retry":true,"retry_after_seconds":3000000000},
		{"task_id":"not one","app_id":"app","status":2},
		{"task_id":5,"app_id":"app","status":2},
		{"task_id":"`+task+`","app_id":"app","status":2.0}]}`))
	for i, want := range []struct {
		task  *string
		field string
	}{{&task, "retry_after_seconds"}, {nil, "task_id"}, {nil, "task_id"}, {&task, ""}} {
		item := reported.Items[i]
		if (want.task == nil) != (item.TaskID == nil) || want.task != nil && *item.TaskID != *want.task {
			t.Errorf("item %d is about task %v", i, item.TaskID)
		}
		if want.field == "" != (item.Code == 200) || want.field != "" && (*item.Error.Fields)[0].Field != want.field {
			t.Errorf("item %d: %d %+v", i, item.Code, item.Error)
		}
	}
}

func TestErrorOfNonexistentDateNamesField(t *testing.T) {
	b := apptest.New(t)
	a := b.Expect(422, "request.invalid", "POST", "/api/v1/sms/send", `{"phone_number":"13800138000","content":"x","use_template":false,"expect_send_time":"2026-02-30T10:00:00Z"}`)
	if a.Fields() != "expect_send_time" {
		t.Errorf("fields %q", a.Fields())
	}
}

func TestIntegerCanHaveDecimalPoint(t *testing.T) {
	b := apptest.New(t)
	b.Expect(200, "", "POST", "/api/v1/sms/tasks/claim", `{"app_id":"app","limit":1.0}`)
	b.Expect(200, "", "POST", "/api/v1/sms/tasks/claim", `{"app_id":"app","limit":1e2}`)
	id := b.Submit("x")
	lease := b.Claim("app", 1)[0].LeaseID
	b.Expect(200, "", "POST", "/api/v1/sms/report", fmt.Sprintf(`{"task_id":%q,"app_id":"app","status":2e0,"lease_id":%d.000}`, id, lease))
	b.AwaitStatus(id, 2)
	b.Expect(200, "", "PUT", "/api/v1/admin/settings/queue", `{"sender_silent_after_seconds":30.0}`)
	a := b.Expect(422, "request.invalid", "POST", "/api/v1/sms/tasks/claim", `{"app_id":"app","limit":1.5}`)
	if a.Fields() != "limit" {
		t.Errorf("fields %q", a.Fields())
	}
}

func TestNamesThatDoNotFitIntoURLAreRejected(t *testing.T) {
	b := apptest.New(t)
	for _, name := range []string{".", ".."} {
		b.Expect(422, "request.invalid", "POST", "/api/v1/sms/tasks/claim", map[string]any{"app_id": name})
		b.Expect(422, "request.invalid", "POST", "/api/v1/admin/companies", map[string]any{"company_no": name, "name": "x"})
		b.Expect(422, "request.invalid", "POST", "/api/v1/admin/users", map[string]any{"username": name, "role": "read"})
		b.Expect(422, "request.invalid", "PUT", "/api/v1/admin/contacts", map[string]any{"contacts": []any{map[string]any{"user_id": name}}})
	}
	for _, name := range []string{"...", ".a", "..a", "a.", "app/1 ?ü"} {
		b.Expect(200, "", "POST", "/api/v1/sms/tasks/claim", map[string]any{"app_id": name})
		if got := b.GetSender(url.PathEscape(name)); got.SenderNo != name {
			t.Errorf("%q is shown as %q", name, got.SenderNo)
		}
		b.Expect(200, "", "GET", "/api/v1/admin/routes?sender_no="+url.QueryEscape(name), nil)
		b.Expect(200, "", "DELETE", "/api/v1/admin/senders/"+url.PathEscape(name), nil)
	}
}

// A header that has one value, but is given twice, is named by the fault.
func TestAHeaderThatIsGivenTwiceIsNamed(t *testing.T) {
	b := apptest.New(t)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.URL+"/api/v1/sms/send", strings.NewReader(`{"phone_number":"13800138000","content":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{"Content-Type": {"application/json"}, "Idempotency-Key": {"one", "two"}}
	r.SetBasicAuth(apptest.Username, apptest.Password)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 422 || !strings.Contains(string(raw), `"field":"Idempotency-Key"`) {
		t.Errorf("%d %s, %v", resp.StatusCode, raw, err)
	}
}
