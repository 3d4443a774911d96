package queue_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	api "lksms/gen/client"
	"lksms/internal/app"
	"lksms/internal/dispatch/queue/claim"
	"lksms/internal/platform/secret"
	"lksms/internal/testkit/apptest"
)

const (
	sendPath      = "/api/v1/sms/send"
	sendBatchPath = "/api/v1/sms/send-batch"
	sensitiveCode = "Kx7Qz9" // cannot occur by chance in an id or a time
	sensitiveText = "您的验证码是" + sensitiveCode + "，5 minutes"
	maskedText    = "＊＊＊＊＊＊" + "******" + "＊" + "*********"
)

func sensitiveMessage(more map[string]any) map[string]any {
	body := map[string]any{"phone_number": apptest.Phone, "content": sensitiveText, "sensitive": true}
	for name, value := range more {
		if body[name] = value; value == nil {
			delete(body, name)
		}
	}
	return body
}

func TestOnlyTheSenderGetsASensitiveText(t *testing.T) {
	b := apptest.NewWith(t, apptest.DefaultRules, apptest.WithSecrets)
	b.AddSender(map[string]any{"sender_no": "app", "sign": "ACME"})
	b.Expect(200, "", "POST", "/api/v1/admin/template", map[string]any{"template_no": "login", "template_name": "login", "template_content": "code {code}"})
	for name, c := range map[string]struct {
		more         map[string]any
		final, given string
	}{
		"content":            {nil, maskedText, "【ACME】" + sensitiveText},
		"signature":          {map[string]any{"sign": "公司"}, "【公司】" + maskedText, "【公司】" + sensitiveText},
		"signature in text":  {map[string]any{"content": "【ACME】" + sensitiveCode}, "＊****＊******", "【ACME】" + sensitiveCode},
		"code in brackets":   {map[string]any{"content": "【" + sensitiveCode + "】 is your code"}, "＊******＊*************", "【ACME】【" + sensitiveCode + "】 is your code"},
		"template":           {map[string]any{"content": nil, "template_no": "login", "params": map[string]any{"code": sensitiveCode}}, "***********", "【ACME】code " + sensitiveCode},
		"repeated signature": {map[string]any{"content": "【公司】【公司】" + sensitiveCode, "sign": "公司"}, "【公司】******", "【公司】" + sensitiveCode},
	} {
		b.T = t
		made := b.SubmitBody(sensitiveMessage(c.more))
		if made.FinalContent != c.final {
			t.Errorf("%s: the answer is %q, want %q", name, made.FinalContent, c.final)
		}
		b.ExpectNowhere(sensitiveCode)
		tasks := b.Claim("app", 1)
		if len(tasks) != 1 || tasks[0].Content != c.given {
			t.Fatalf("%s: claimed %+v, want %q", name, tasks, c.given)
		}
		if task := b.Task(made.TaskID); strings.Contains(task.Content, sensitiveCode) {
			t.Errorf("%s: the task shows %q", name, task.Content)
		}
		b.Report(made.TaskID, "app", 2, nil)
		if n := b.Count(`SELECT count(*) FROM queue`); n != 0 {
			t.Errorf("%s: %d rows in the queue", name, n)
		}
		b.Expect(200, "", "GET", "/api/v1/sms/task/"+made.TaskID+"/timeline", nil)
		b.ExpectNowhere(sensitiveCode)
	}
}

func TestASensitiveTextKeepsItsSegments(t *testing.T) {
	b := apptest.NewWith(t, apptest.DefaultRules, apptest.WithSecrets)
	for _, content := range []string{strings.Repeat("a", 161), strings.Repeat("€", 81), strings.Repeat("验", 71), strings.Repeat("😀", 36)} {
		made := b.SubmitBody(sensitiveMessage(map[string]any{"content": content}))
		if task := b.Task(made.TaskID); task.Segments != 2 || len([]rune(task.Content)) != len([]rune(content)) {
			t.Errorf("%q is stored as %q with %d segments", content, task.Content, task.Segments)
		}
	}
}

func TestSubmissionsOfSensitiveTextsAreLoggedMasked(t *testing.T) {
	b := apptest.NewWith(t, apptest.DefaultRules, apptest.WithSecrets)
	first := b.SubmitBody(sensitiveMessage(map[string]any{"dedup_key": "k"}))
	if again := b.SubmitBody(sensitiveMessage(map[string]any{"dedup_key": "k"})); again.TaskID != first.TaskID || strings.Contains(again.FinalContent, sensitiveCode) {
		t.Errorf("repeated: %+v", again)
	}
	b.Expect(422, "request.invalid", "POST", sendPath, sensitiveMessage(map[string]any{"phone_number": "1"}))
	b.Expect(422, "request.invalid", "POST", sendPath, sensitiveMessage(map[string]any{"sensitive": "yes"}))
	b.Expect(422, "request.invalid", "POST", sendPath, sensitiveMessage(map[string]any{"expires_at": "2001-01-01T00:00:00Z"}))
	b.Expect(400, "request.malformed", "POST", sendPath, `{"sensitive":true,"content":"`+sensitiveCode+`"`)
	b.Expect(200, "", "POST", sendBatchPath, map[string]any{"messages": []any{sensitiveMessage(nil), sensitiveMessage(map[string]any{"phone_number": "1"})}}, "Idempotency-Key", "key")
	b.Expect(200, "", "POST", sendBatchPath, map[string]any{"messages": []any{sensitiveMessage(nil), sensitiveMessage(map[string]any{"phone_number": "1"})}}, "Idempotency-Key", "key")
	b.Expect(200, "", "POST", sendPath+"?dry_run=true", sensitiveMessage(nil))
	b.ExpectNowhere(sensitiveCode)
	if n := b.Count(`SELECT count(*) FROM fruitless_submissions`); n != 6 {
		t.Errorf("%d submissions without a task are logged", n)
	}
}

func TestASensitiveTaskIsNotSentAgainAfterItsEnd(t *testing.T) {
	b := apptest.NewWith(t, apptest.DefaultRules, apptest.WithSecrets)
	id := b.SubmitBody(sensitiveMessage(nil)).TaskID
	b.Claim("app", 1)
	b.Report(id, "app", 3, nil)
	b.Expect(409, "task.sensitive", "POST", "/api/v1/sms/task/"+id+"/requeue", nil)
	cancelled := b.SubmitBody(sensitiveMessage(nil)).TaskID
	b.Expect(200, "", "POST", "/api/v1/sms/task/"+cancelled+"/cancel", nil)
	b.Expect(409, "task.sensitive", "POST", "/api/v1/sms/task/"+cancelled+"/requeue", nil)
}

func TestARetryOfASensitiveTaskHasItsText(t *testing.T) {
	b := apptest.NewWith(t, apptest.DefaultRules, apptest.WithSecrets)
	id := b.SubmitBody(sensitiveMessage(nil)).TaskID
	b.Claim("app", 1)
	b.ExpireLeases()
	b.Recover()
	if tasks := b.Claim("app", 1); len(tasks) != 1 || tasks[0].TaskID != id || tasks[0].Content != sensitiveText {
		t.Errorf("claimed %+v", tasks)
	}
}

func TestTheAnswerOfAProviderIsStoredWithoutTheText(t *testing.T) {
	b, p := apptest.NewPushing(t, nil)
	p.Does(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"code":"9","text":"rejected: %s"}`, sensitiveText)
	})
	id := b.SubmitBody(sensitiveMessage(nil)).TaskID
	b.AwaitStatus(id, 3)
	if seen := p.Seen(); len(seen) != 1 || !strings.Contains(seen[0], sensitiveText) {
		t.Errorf("the provider got %q", seen)
	}
	if task := b.Task(id); task.Result == nil || !strings.Contains(*task.Result, "***") {
		t.Errorf("the task is %+v", task)
	}
	if events := b.Timeline(id); !slices.ContainsFunc(events, func(e api.TimelineEvent) bool { return e.Answer != nil && *e.Answer == "200 ***" }) {
		t.Errorf("the timeline is %+v", events)
	}
	b.ExpectNowhere(sensitiveCode)
}

// The words of LKSMS contain nothing of the message.
func TestTheWordsOfLKSMSAboutASensitiveMessageAreStored(t *testing.T) {
	b, p := apptest.NewPushing(t, nil)
	p.Says(400, sensitiveText)
	id := b.SubmitBody(sensitiveMessage(nil)).TaskID
	b.AwaitStatus(id, 3)
	if task := b.Task(id); task.Result == nil || *task.Result != "the provider answered 400" {
		t.Errorf("the task is %+v", task)
	}
	p.Close()
	b.SubmitBody(sensitiveMessage(nil))
	if pause := b.AwaitOpenBreaker("pushed"); pause.Reason != "unreachable: the provider could not be reached" {
		t.Errorf("the pause is %+v", pause)
	}
	b.ExpectNowhere(sensitiveCode)
}

func TestOtherFieldsOfAReportAreStoredWithoutTheText(t *testing.T) {
	b := apptest.NewWith(t, apptest.DefaultRules, apptest.WithSecrets)
	id := b.SubmitBody(sensitiveMessage(nil)).TaskID
	lease := b.Claim("app", 1)[0].LeaseID
	b.Expect(200, "", "POST", "/app/api/v1/sms/report", map[string]any{
		"task_id": id, "app_id": "app", "lease_id": lease, "status": 2, "text": sensitiveText, sensitiveCode: 1,
	})
	b.ExpectNowhere(sensitiveCode)
	if raw := apptest.Scan[string](b, `SELECT request_data::text FROM report_logs WHERE event = 'reported'`); !strings.Contains(raw, fmt.Sprint(lease)) {
		t.Errorf("the report is stored as %s", raw)
	}
}

func TestTheReportOfAnAppIsStoredWithoutTheText(t *testing.T) {
	b := apptest.NewWith(t, apptest.DefaultRules, apptest.WithSecrets)
	for range 2 {
		id := b.SubmitBody(sensitiveMessage(nil)).TaskID
		lease := b.Claim("app", 1)[0].LeaseID
		report := map[string]any{"task_id": id, "app_id": "app", "lease_id": lease, "status": 3, "error_message": "rejected: " + sensitiveText}
		b.Expect(200, "", "POST", "/api/v1/sms/report", report)
		b.Expect(200, "", "POST", "/api/v1/sms/report", report) // the late report of an ended task
	}
	b.ExpectNowhere(sensitiveCode)
}

func TestADefaultContentIsNotSensitive(t *testing.T) {
	b := apptest.NewWith(t, apptest.DefaultRules, apptest.WithSecrets)
	if a := b.Expect(422, "request.invalid", "POST", sendPath, sensitiveMessage(map[string]any{"content": nil})); a.Fields() != "sensitive" {
		t.Errorf("wrong fields %s", a.Fields())
	}
}

func TestTheLogOfASenderDoesNotContainTheText(t *testing.T) {
	b := apptest.NewWith(t, apptest.DefaultRules, apptest.WithSecrets)
	b.AddSender(map[string]any{"sender_no": "logged", "kind": "log", "config": map[string]any{"showContent": true}})
	b.App.Pusher.Start()
	id := b.SubmitBody(sensitiveMessage(nil)).TaskID
	b.AwaitStatus(id, 2)
	if !strings.Contains(b.Log.String(), "message sent to the log") {
		t.Error("the message was not logged")
	}
	b.ExpectNowhere(sensitiveCode)
}

func TestSensitiveMessagesNeedTheKeyOfTheServer(t *testing.T) {
	b := apptest.New(t)
	if a := b.Expect(422, "request.invalid", "POST", sendPath, sensitiveMessage(nil)); a.Fields() != "sensitive" {
		t.Errorf("wrong fields %s", a.Fields())
	}
	b.ExpectNowhere(sensitiveCode)
}

func TestATextWaitsForAServerWithItsKey(t *testing.T) {
	b := apptest.NewWith(t, apptest.DefaultRules, apptest.WithSecrets)
	id := b.SubmitBody(sensitiveMessage(nil)).TaskID
	plain := b.Submit("plain")
	if tasks := claimAt(b, secret.NewKey()); len(tasks) != 1 || tasks[0].TaskID != plain {
		t.Errorf("a server with another key handed out %+v", tasks)
	}
	for range 5 { // no attempt counts, however often such a server tries
		b.Exec(`UPDATE queue SET due_at = now(), troubles = 0`)
		if _, err := b.App.Queue.Queue(t.Context()); err != nil {
			t.Fatal(err)
		}
		claimAt(b, secret.NewKey())
	}
	if task := b.Task(id); task.Status != api.TaskPending || task.RetryCount != 0 {
		t.Errorf("the task is %+v", task)
	}
	b.Exec(`UPDATE queue SET due_at = now()`)
	if _, err := b.App.Queue.Queue(t.Context()); err != nil {
		t.Fatal(err)
	}
	if tasks := b.Claim("app", 1); len(tasks) != 1 || tasks[0].Content != sensitiveText {
		t.Errorf("the server with the key handed out %+v", tasks)
	}
}

func TestAnotherKeyOpensWaitingTexts(t *testing.T) {
	before, after := secret.NewKey(), secret.NewKey()
	b := apptest.NewWith(t, apptest.DefaultRules, func(o *app.Options) { o.Secrets = apptest.Secrets(before) })
	b.SubmitBody(sensitiveMessage(nil))
	for _, want := range []int{1, 0} {
		n, err := app.RotateSecrets(t.Context(), b.Options.DatabaseURL, apptest.Secrets(after, before))
		if err != nil || n != want {
			t.Errorf("changed %d texts, %v", n, err)
		}
	}
	if tasks := claimAt(b, after); len(tasks) != 1 || tasks[0].Content != sensitiveText {
		t.Errorf("claimed %+v", tasks)
	}
}

// claimAt claims tasks at a second server with another key.
func claimAt(b *apptest.Bundle, key string) []claim.Lease {
	b.T.Helper()
	options := b.Options
	options.Secrets = apptest.Secrets(key)
	other, err := app.New(b.T.Context(), options)
	if err != nil {
		b.T.Fatal(err)
	}
	defer other.Close()
	tasks, err := other.Queue.Claim(b.T.Context(), claim.Request{SenderNo: "app", Limit: 5})
	if err != nil {
		b.T.Fatal(err)
	}
	return tasks
}

// A plain hash of a request would reveal the code: it could be found by trying all codes.
func TestTheHashOfASensitiveRequestNeedsTheKey(t *testing.T) {
	b := apptest.NewWith(t, apptest.DefaultRules, apptest.WithSecrets)
	body := `{"phone_number":"13800138000","content":"` + sensitiveText + `","sensitive":true}`
	first := b.Expect(200, "", "POST", sendPath, body, "Idempotency-Key", "key")
	if again := b.Expect(200, "", "POST", sendPath, body, "Idempotency-Key", "key"); again.Raw != first.Raw {
		t.Errorf("first %s, then %s", first.Raw, again.Raw)
	}
	b.Expect(422, "idempotency.key_reused", "POST", sendPath, strings.Replace(body, sensitiveCode, "Kx7Qz8", 1), "Idempotency-Key", "key")
	if n := b.Count("SELECT count(*) FROM idempotency_keys WHERE request_hash = sha256(convert_to($1, 'UTF8'))", body); n != 0 {
		t.Error("the hash can be computed without the key")
	}
}
