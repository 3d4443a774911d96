package submit_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
)

func TestS0_1_SubmitStoresATask(t *testing.T) {
	b := apptest.New(t)
	a := b.Expect(200, "", "POST", "/api/v1/sms/send", `{"phone_number":"13800138000","content":"您好","use_template":false,"source":"system_a"}`)
	made := apptest.Decode[api.Submitted](t, a)
	want := fmt.Sprintf(`{"code":200,"message":"success","data":{"task_id":%q,"final_content":"您好","recipient":"+8613800138000","region":"CN","status":0}}`, made.TaskID)
	if strings.TrimSpace(a.Raw) != want {
		t.Errorf("got  %s\nwant %s", a.Raw, want)
	}
	if !strings.HasPrefix(made.TaskID, "task_"+time.Now().UTC().Format("2006")) || len(made.TaskID) > 50 {
		t.Errorf("task id %q", made.TaskID)
	}

	// The limit is 200 characters, not 200 bytes.
	long := strings.Repeat("验", 200)
	if got := b.SubmitBody(map[string]any{"phone_number": apptest.Phone, "content": long}).FinalContent; got != long {
		t.Errorf("200 characters were returned as %d bytes", len(got))
	}

	for _, c := range []struct {
		name, body, fields string
	}{
		{"no phone number", `{"content":"x"}`, "phone_number"},
		{"a short phone number", `{"phone_number":"138","content":"x"}`, "phone_number"},
		{"a long phone number", `{"phone_number":"+86 138 0013 8000 0000","content":"x"}`, "phone_number"},
		{"letters", `{"phone_number":"1380013800a","content":"x"}`, "phone_number"},
		{"a number nobody can have", `{"phone_number":"12345678901","content":"x"}`, "phone_number"},
		{"201 characters", `{"phone_number":"13800138000","content":"` + long + `验"}`, "content"},
		{"blank content", `{"phone_number":"13800138000","content":" \n"}`, "content"},
		{"a NUL", `{"phone_number":"13800138000","content":"a\u0000b"}`, "content"},
		{"a long source", `{"phone_number":"13800138000","content":"x","source":"` + strings.Repeat("s", 51) + `"}`, "source"},
		{"wrong types", `{"phone_number":13800138000,"content":[],"use_template":"yes","source":1}`, "content,phone_number,source,use_template"},
		{"an empty dedup key", `{"phone_number":"13800138000","content":"x","dedup_key":""}`, "dedup_key"},
		{"a long dedup key", `{"phone_number":"13800138000","content":"x","dedup_key":"` + strings.Repeat("k", 101) + `"}`, "dedup_key"},
		{"an unknown field", `{"phone_number":"13800138000","content":"x","colour":"red"}`, "colour"},
	} {
		a := b.Expect(422, "request.invalid", "POST", "/api/v1/sms/send", c.body)
		if a.Fields() != c.fields {
			t.Errorf("%s: fields %q, want %q", c.name, a.Fields(), c.fields)
		}
		if strings.Contains(a.Raw, "138001380") || strings.Contains(a.Raw, "12345678901") {
			t.Errorf("%s: the answer repeats the value: %s", c.name, a.Raw)
		}
	}
	b.Expect(400, "request.malformed", "POST", "/api/v1/sms/send", `{"phone_number":`)
	b.Expect(400, "request.malformed", "POST", "/api/v1/sms/send", ``)
	b.Expect(415, "request.unsupported_media_type", "POST", "/api/v1/sms/send", `phone_number=1`, "Content-Type", "text/plain")
	b.Expect(413, "request.too_large", "POST", "/api/v1/sms/send", `{"phone_number":"`+strings.Repeat("1", 1<<20)+`"}`)
	if n := b.Count("SELECT count(*) FROM tasks"); n != 2 {
		t.Errorf("%d tasks, want the 2 good ones", n)
	}
}

func TestS0_1_PhoneNumberIsNormalisedAndShownAsSent(t *testing.T) {
	b := apptest.New(t)
	for _, sent := range []string{"13800138000", "138-0013-8000", "+86 138 0013 8000", "+8613800138000"} {
		id := b.SubmitBody(map[string]any{"phone_number": sent, "content": "x"}).TaskID
		if got := b.Task(id).PhoneNumber; got != sent {
			t.Errorf("sent %q, shown %q", sent, got)
		}
	}
	if n := b.Count("SELECT count(DISTINCT recipient) FROM tasks"); n != 1 {
		t.Errorf("four ways to write one number became %d recipients", n)
	}
	if got := apptest.Decode[api.TaskPage](t, b.Expect(200, "", "GET", "/api/v1/sms/tasks?phone_number=138+0013+8000", nil)); len(got.Items) != 4 {
		t.Errorf("found %d tasks by another spelling of the number, want 4", len(got.Items))
	}
	b.SubmitBody(map[string]any{"phone_number": "+1 202 555 0143", "content": "x"})
	b.SubmitBody(map[string]any{"phone_number": "010-62552266", "content": "x", "default_region": "CN"})
}

func TestRefusedSubmissionDoesNotConsumeTheDefaultContent(t *testing.T) {
	b := apptest.New(t)
	b.Expect(200, "", "POST", "/api/v1/admin/default-sms", map[string]any{"phone_number": apptest.Phone, "content": "code=1", "use_template": true})
	b.Expect(409, "template.none_active", "POST", "/api/v1/sms/send", map[string]any{"phone_number": apptest.Phone})
	b.Expect(200, "", "POST", "/api/v1/admin/template", `{"template_name":"n","template_content":"{code} {name}{name}"}`)
	b.Expect(422, "request.invalid", "POST", "/api/v1/sms/send", map[string]any{"phone_number": apptest.Phone})
	b.Expect(200, "", "PATCH", "/api/v1/admin/default-sms/1", map[string]any{"content": "code=1&name=" + strings.Repeat("x", 180)})
	b.Expect(422, "request.invalid", "POST", "/api/v1/sms/send", map[string]any{"phone_number": apptest.Phone})
	if n := b.Count("SELECT count(*) FROM default_contents WHERE is_sent"); n != 0 {
		t.Error("a refused submission consumed the default content")
	}
	b.Expect(200, "", "PATCH", "/api/v1/admin/default-sms/1", `{"content":"code=1&name=2"}`)
	if got := b.SubmitBody(map[string]any{"phone_number": apptest.Phone}); got.FinalContent != "1 22" {
		t.Errorf("got %q", got.FinalContent)
	}
}

func TestConcurrentSubmissionsOfADefaultContentCreateOneTask(t *testing.T) {
	b := apptest.New(t)
	b.Expect(200, "", "POST", "/api/v1/admin/default-sms", map[string]any{"phone_number": apptest.Phone, "content": "欢迎"})
	statuses := make([]int, 50)
	apptest.Together(len(statuses), func(i int) {
		statuses[i] = b.Call("POST", "/api/v1/sms/send", map[string]any{"phone_number": apptest.Phone}).Status
	})
	slices.Sort(statuses)
	if statuses[0] != 200 || statuses[1] != 409 || statuses[49] != 409 {
		t.Errorf("answers %v", statuses)
	}
	if n := b.Count("SELECT count(*) FROM tasks"); n != 1 {
		t.Errorf("%d tasks, want 1", n)
	}
}

func TestSubmissionAboveTheUsersTopPriorityIsRefused(t *testing.T) {
	b := apptest.New(t)
	usual := b.AddUser("usual", "submit", nil)
	low := b.AddUser("low", "submit", map[string]any{"top_priority": 7})
	for _, c := range []struct {
		who      []string
		priority int
		kind     string
		status   int
	}{{usual, 1, "notification", 200}, {usual, 0, "notification", 422}, {low, 7, "marketing", 200}, {low, 6, "marketing", 422},
		{low, 5, "notification", 200}, {low, 1, "verification", 200}, {nil, 0, "marketing", 200}} {
		a := b.Call("POST", "/api/v1/sms/send", map[string]any{"phone_number": apptest.Phone, "content": "x", "priority": c.priority, "message_type": c.kind}, c.who...)
		if a.Status != c.status || c.status == 422 && a.Fields() != "priority" {
			t.Errorf("priority %d of a %s: %s", c.priority, c.kind, a.Raw)
		}
	}
}

func TestDedupKeyBelongsToItsCompany(t *testing.T) {
	b := apptest.New(t)
	one, two := b.AddCompany("one", 1), b.AddCompany("two", 1)
	body := map[string]any{"phone_number": apptest.Phone, "content": "x", "dedup_key": "order-1"}
	ids := map[string]bool{}
	for _, who := range [][]string{one, two, one, two, nil} {
		ids[apptest.Decode[api.Submitted](t, b.Expect(200, "", "POST", "/api/v1/sms/send", body, who...)).TaskID] = true
	}
	if len(ids) != 3 {
		t.Errorf("%d tasks, want one for each of three companies", len(ids))
	}
}

func TestMessageThatExpiresBeforeItIsSentIsRefused(t *testing.T) {
	b := apptest.New(t)
	b.Expect(200, "", "PUT", "/api/v1/admin/settings/sms", map[string]any{"scheduled_every_seconds": 3600})
	b.Expect(200, "", "POST", "/api/v1/admin/template", map[string]any{
		"template_name": "n", "template_no": "hourly", "template_content": "{n}", "send_type": "scheduled",
	})
	next := time.Now().Truncate(time.Hour).Add(time.Hour)
	later := time.Now().Add(5 * time.Hour)
	for name, bad := range map[string]map[string]any{
		"a scheduled template": {"template_no": "hourly", "params": map[string]any{"n": "1"}, "expires_at": next},
		"the time of sending":  {"content": "x", "expect_send_time": later, "expires_at": later},
		"a moment after it":    {"content": "x", "expect_send_time": later, "expires_at": later.Add(time.Second)},
		"less than a second":   {"content": "x", "expires_at": time.Now().Add(900 * time.Millisecond)},
	} {
		bad["phone_number"] = apptest.Phone
		for _, path := range []string{"/api/v1/sms/send", "/api/v1/sms/send?dry_run=true"} {
			if a := b.Expect(422, "request.invalid", "POST", path, bad); a.Fields() != "expires_at" {
				t.Errorf("%s, %s: wrong fields %s", name, path, a.Fields())
			}
		}
		sent := apptest.Decode[api.SentBatch](t, b.Expect(200, "", "POST", "/api/v1/sms/send-batch", map[string]any{"messages": []any{bad}}))
		if item := sent.Items[0]; item.Code != 422 || item.Error.Reason != "request.invalid" {
			t.Errorf("%s of several: %+v", name, item)
		}
	}
	b.SubmitBody(map[string]any{"phone_number": apptest.Phone, "template_no": "hourly", "params": map[string]any{"n": "1"}, "expires_at": next.Add(time.Hour)})
}
