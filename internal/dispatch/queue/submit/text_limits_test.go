package submit_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
)

func putSMS(b *apptest.Bundle, values map[string]any) {
	b.T.Helper()
	b.Expect(200, "", "PUT", "/api/v1/admin/settings/sms", values)
}

// expectTooLong submits a message and expects that it is refused with an error that contains words.
func expectTooLong(b *apptest.Bundle, body map[string]any, words string) {
	b.T.Helper()
	a := b.Expect(422, "request.invalid", "POST", "/api/v1/sms/send", body)
	if a.Fields() != "content" || !strings.Contains(a.Body.Error.Fields[0].Message, words) {
		b.T.Errorf("%s, want %q", a.Raw, words)
	}
}

func message(kind, content string) map[string]any {
	return map[string]any{"phone_number": apptest.Phone, "message_type": kind, "content": content}
}

func TestSettingLimitsTheLengthOfTextsByMessageType(t *testing.T) {
	b := apptest.New(t)
	long := strings.Repeat("验", 200)
	for _, kind := range []string{"verification", "notification", "marketing"} {
		b.SubmitBody(message(kind, long))
		expectTooLong(b, message(kind, long+"验"), "has 201 characters, and a message of this type at most 200")
	}
	chinese := b.Expect(422, "request.invalid", "POST", "/api/v1/sms/send", message("marketing", long+"验"), "Accept-Language", "zh")
	if !strings.Contains(chinese.Raw, "文本有 201 个字符，该类型的消息最多 200 个") {
		t.Error(chinese.Raw)
	}
	putSMS(b, map[string]any{"max_content_marketing": 1024})
	longest := strings.Repeat("验", 1024)
	if got := b.SubmitBody(message("marketing", longest)); got.FinalContent != longest || b.Task(got.TaskID).Segments != 16 {
		t.Errorf("%+v", b.Task(got.TaskID))
	}
	expectTooLong(b, message("marketing", longest+"验"), "at most 1024 characters")
	expectTooLong(b, message("notification", long+"验"), "at most 200")
	b.Expect(422, "request.invalid", "PUT", "/api/v1/admin/settings/sms", map[string]any{"max_content_marketing": 1025})
	b.Expect(422, "request.invalid", "PUT", "/api/v1/admin/settings/sms", map[string]any{"max_segments_marketing": 17})
	var taken []string
	for _, task := range b.Take("app", 10) {
		taken = append(taken, task.Content)
	}
	if len(taken) != 4 || taken[3] != longest {
		t.Errorf("the sender got %d texts, the last with %d bytes", len(taken), len(taken[len(taken)-1]))
	}
}

func TestSettingLimitsTheSegmentsOfTextsByMessageType(t *testing.T) {
	b := apptest.New(t)
	putSMS(b, map[string]any{"max_content_marketing": 1024})
	b.SubmitBody(message("marketing", strings.Repeat("😀", 16*33))) // each character has two UTF-16 units, which are never split between segments
	signed := message("marketing", strings.Repeat("😀", 16*33))
	signed["sign"] = "签"
	expectTooLong(b, signed, "takes 17 segments, and a message of this type at most 16")
	putSMS(b, map[string]any{"max_segments_verification": 1})
	b.SubmitBody(message("verification", strings.Repeat("验", 70)))
	expectTooLong(b, message("verification", strings.Repeat("验", 71)), "takes 2 segments, and a message of this type at most 1")
	b.SubmitBody(message("notification", strings.Repeat("验", 71)))
}

// The limit of the message type applies to templates, default contents, batches and previews. A refused default content can still be sent later.
func TestLengthLimitsApplyToEveryInterface(t *testing.T) {
	b := apptest.New(t)
	putSMS(b, map[string]any{"max_content_marketing": 500})
	b.Expect(200, "", "POST", "/api/v1/admin/template", `{"template_name":"n","template_content":"{a}"}`)
	rendered := func(kind string, n int) map[string]any {
		m := message(kind, "a="+url.QueryEscape(strings.Repeat("x", n)))
		m["use_template"] = true
		return m
	}
	b.SubmitBody(rendered("marketing", 500))
	expectTooLong(b, rendered("marketing", 501), "has 501 characters, and a message of this type at most 500")
	expectTooLong(b, rendered("notification", 201), "has 201 characters")

	const defaults = "/api/v1/admin/default-sms"
	text := strings.Repeat("x", 400)
	a := b.Expect(422, "request.invalid", "POST", defaults, map[string]any{"phone_number": apptest.Phone, "content": strings.Repeat("x", 501)})
	if a.Fields() != "content" {
		t.Error(a.Raw)
	}
	made := apptest.Decode[api.DefaultContent](t, b.Expect(200, "", "POST", defaults, map[string]any{"phone_number": apptest.Phone, "content": text}))
	path := fmt.Sprint(defaults, "/", made.ID)
	b.Expect(422, "request.invalid", "PATCH", path, map[string]any{"content": strings.Repeat("x", 501)})
	b.Expect(200, "", "PATCH", path, map[string]any{"content": strings.Repeat("x", 501), "use_template": true}) // the content contains parameters of the template
	b.Expect(422, "request.invalid", "PATCH", path, map[string]any{"use_template": false})
	b.Expect(200, "", "PATCH", path, map[string]any{"content": text, "use_template": false})
	empty := map[string]any{"phone_number": apptest.Phone}
	expectTooLong(b, empty, "has 400 characters, and a message of this type at most 200")
	a = b.Expect(422, "request.invalid", "POST", "/api/v1/sms/send?dry_run=true", empty)
	if a.Fields() != "content" {
		t.Error(a.Raw)
	}
	long, fits := message("marketing", strings.Repeat("x", 501)), message("marketing", strings.Repeat("x", 500))
	ofDefault := map[string]any{"phone_number": apptest.Phone, "message_type": "marketing"}
	for _, headers := range [][]string{nil, {apptest.KeyHeader, "k"}} {
		data := apptest.Decode[api.SentBatch](t, b.Expect(200, "", "POST", apptest.BatchPath, map[string]any{"messages": []any{long, fits, empty, ofDefault}}, headers...))
		want := "422 content,200,422 content,200"
		if got := strings.Join(apptest.Outcomes(data.Items), ","); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		b.Expect(200, "", "POST", path+"/reset", nil)
	}
}

// A sender with few segments left receives the tasks that fit, even if a longer text is before them in the queue.
func TestLongTextDoesNotBlockASenderWithFewSegmentsLeft(t *testing.T) {
	b := apptest.New(t)
	putSMS(b, map[string]any{"max_content_marketing": 1024})
	b.AddSender(map[string]any{"sender_no": "few", "limits": map[string]any{"per_day": 12}, "is_shared": true})
	b.SubmitBody(message("marketing", strings.Repeat("验", 1024)))
	for range 3 {
		b.SubmitBody(message("marketing", "short"))
	}
	if got := b.Take("few", 10); len(got) != 3 || got[0].Content != "short" {
		t.Errorf("got %d tasks", len(got))
	}
	b.AddSender(map[string]any{"sender_no": "enough", "limits": map[string]any{"per_day": 16}, "is_shared": true})
	if got := b.Take("enough", 10); len(got) != 1 {
		t.Errorf("got %d tasks", len(got))
	}
}

func TestSettingsContainTheLengthLimits(t *testing.T) {
	b := apptest.New(t)
	var sms map[string]any
	if err := json.Unmarshal(apptest.Decode[json.RawMessage](t, b.Expect(200, "", "GET", "/api/v1/admin/settings/sms", nil)), &sms); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"verification", "notification", "marketing"} {
		if sms["max_content_"+kind] != 200.0 || sms["max_segments_"+kind] != 16.0 {
			t.Errorf("%v", sms)
		}
	}
}
