package app_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lksms/gen/api"
	"lksms/internal/app"
	"lksms/internal/queue"
)

// One test for each row of the document, through HTTP on a real PostgreSQL; the number is the row's.

func TestS0_1_Submit(t *testing.T) {
	b := setup(t)
	a := b.expect(200, "", "POST", "/api/v1/sms/send", `{"phone_number":"13800138000","content":"您好","use_template":false,"source":"system_a"}`)
	made := decode[api.Submitted](t, a)
	want := fmt.Sprintf(`{"code":200,"message":"success","data":{"task_id":%q,"final_content":"您好","status":0}}`, made.TaskID)
	if strings.TrimSpace(a.raw) != want {
		t.Errorf("got  %s\nwant %s", a.raw, want)
	}
	if !strings.HasPrefix(made.TaskID, "task_"+time.Now().UTC().Format("2006")) || len(made.TaskID) > 50 {
		t.Errorf("task id %q", made.TaskID)
	}

	// 200 characters, not bytes.
	long := strings.Repeat("验", 200)
	if got := b.submitted(map[string]any{"phone_number": phone, "content": long}).FinalContent; got != long {
		t.Errorf("200 characters came back as %d bytes", len(got))
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
		a := b.expect(422, "request.invalid", "POST", "/api/v1/sms/send", c.body)
		if a.fields() != c.fields {
			t.Errorf("%s: fields %q, want %q", c.name, a.fields(), c.fields)
		}
		if strings.Contains(a.raw, "138001380") || strings.Contains(a.raw, "12345678901") {
			t.Errorf("%s: the answer repeats the value: %s", c.name, a.raw)
		}
	}
	b.expect(400, "request.malformed", "POST", "/api/v1/sms/send", `{"phone_number":`)
	b.expect(400, "request.malformed", "POST", "/api/v1/sms/send", ``)
	b.expect(415, "request.unsupported_media_type", "POST", "/api/v1/sms/send", `phone_number=1`, "Content-Type", "text/plain")
	b.expect(413, "request.too_large", "POST", "/api/v1/sms/send", `{"phone_number":"`+strings.Repeat("1", 1<<20)+`"}`)
	if n := b.count("SELECT count(*) FROM tasks"); n != 2 {
		t.Errorf("%d tasks, want the 2 good ones", n)
	}
}

func TestS0_1_PhoneNumberIsNormalisedAndShownAsSent(t *testing.T) {
	b := setup(t)
	for _, sent := range []string{"13800138000", "138-0013-8000", "+86 138 0013 8000", "+8613800138000"} {
		id := b.submitted(map[string]any{"phone_number": sent, "content": "x"}).TaskID
		if got := b.task(id).PhoneNumber; got != sent {
			t.Errorf("sent %q, shown %q", sent, got)
		}
	}
	if n := b.count("SELECT count(DISTINCT recipient) FROM tasks"); n != 1 {
		t.Errorf("four ways to write one number became %d recipients", n)
	}
	if got := decode[api.TaskPage](t, b.expect(200, "", "GET", "/api/v1/sms/tasks?phone_number=138+0013+8000", nil)); len(got.Items) != 4 {
		t.Errorf("found %d of them by another way to write it, want 4", len(got.Items))
	}
	b.submitted(map[string]any{"phone_number": "+1 202 555 0143", "content": "x"})
	b.submitted(map[string]any{"phone_number": "010-62552266", "content": "x"})
}

func TestS0_2_LookAtATask(t *testing.T) {
	b := setup(t)
	id := b.submitted(map[string]any{"phone_number": phone, "content": "您好", "source": "system_a"}).TaskID
	a := b.expect(200, "", "GET", "/api/v1/sms/task/"+id, nil)
	got := decode[api.Task](t, a)
	if got.TaskID != id || got.PhoneNumber != phone || got.Content != "您好" || got.Status != api.TaskPending ||
		*got.Source != "system_a" || got.SentAt != nil {
		t.Errorf("got %+v", got)
	}
	for _, want := range []string{`"sent_at":null`, `"created_at":"20`} {
		if !strings.Contains(a.raw, want) {
			t.Errorf("no %s in %s", want, a.raw)
		}
	}
	b.claim("app", 1)
	b.report(id, "app", 2, nil)
	done := b.task(id)
	if done.Status != api.TaskSuccess || done.SentAt == nil || done.ReportedAt == nil || done.SentAt.Before(done.CreatedAt) {
		t.Errorf("after SUCCESS: %+v", done)
	}
	b.expect(404, "task.not_found", "GET", "/api/v1/sms/task/task_20231201_001", nil)
	b.expect(422, "request.invalid", "GET", "/api/v1/sms/task/"+strings.Repeat("x", 51), nil)
	b.expect(422, "request.invalid", "GET", "/api/v1/sms/task/a%00b", nil)
}

func TestS0_3_Pending(t *testing.T) {
	b := setup(t)
	for i := range 12 {
		b.submit(fmt.Sprint(i))
	}
	a := b.expect(200, "", "GET", "/api/v1/sms/tasks/pending?app_id=sms_app_001", nil)
	if got := decode[[]api.ClaimedTask](t, a); len(got) != 10 {
		t.Errorf("%d tasks by default, want 10", len(got))
	} else if got[0].PhoneNumber != phone || got[0].Content != "0" || got[0].Attempt != 1 || got[0].LeaseID == 0 ||
		got[0].LeaseUntil.Before(time.Now().Add(29*time.Minute)) {
		t.Errorf("first task %+v", got[0])
	}
	if a.header.Get("Cache-Control") != "no-store" {
		t.Errorf("Cache-Control %q", a.header.Get("Cache-Control"))
	}
	if got := b.claim("other", 100); len(got) != 2 {
		t.Errorf("the rest is %d, want 2", len(got))
	}
	if a := b.expect(200, "", "GET", "/api/v1/sms/tasks/pending?app_id=x&limit=1", nil); !strings.Contains(a.raw, `"data":[]`) {
		t.Errorf("an empty queue answers %s", a.raw)
	}
	for query, field := range map[string]string{
		"app_id=x&limit=0": "limit", "app_id=x&limit=101": "limit", "app_id=x&limit=ten": "limit", "limit=1": "app_id",
		"app_id=": "app_id", "app_id=" + strings.Repeat("a", 51): "app_id", "app_id=a%00b": "app_id",
	} {
		if a := b.expect(422, "request.invalid", "GET", "/api/v1/sms/tasks/pending?"+query, nil); a.fields() != field {
			t.Errorf("%s: fields %q, want %q", query, a.fields(), field)
		}
	}
}

func TestF23_SixtyFourPollersAtOnceShareTheTasksWithinTheirLimits(t *testing.T) {
	b := setup(t)
	const n, limit = 400, 7
	b.exec(`INSERT INTO tasks (task_id, phone_number, recipient, content) SELECT 't' || i, $1, $1, 'x' FROM generate_series(1, $2::int) i`, phone, n)
	var mu sync.Mutex
	seen := map[string]string{}
	together(64, func(i int) {
		appID := fmt.Sprint("app", i)
		for {
			got := b.claim(appID, limit)
			if len(got) > limit {
				t.Errorf("claimed %d, the limit is %d", len(got), limit)
			}
			mu.Lock()
			for _, claimed := range got {
				if other, twice := seen[claimed.TaskID]; twice {
					t.Errorf("%s went to %s and %s", claimed.TaskID, other, appID)
				}
				seen[claimed.TaskID] = appID
			}
			left := n - len(seen)
			mu.Unlock()
			if left == 0 {
				return
			}
		}
	})
	if got := b.count("SELECT count(*) FROM send_logs"); got != n {
		t.Errorf("%d log rows for %d leases", got, n)
	}
}

func TestS0_4_Report(t *testing.T) {
	b := setup(t)
	id := b.submit("x")
	b.claim("sms_app_001", 1)
	a := b.expect(200, "", "POST", "/api/v1/sms/report",
		`{"task_id":"`+id+`","app_id":"sms_app_001","status":2,"error_message":"","should_retry":false}`)
	if strings.TrimSpace(a.raw) != `{"code":200,"message":"success"}` {
		t.Errorf("got %s", a.raw)
	}
	if got := b.task(id); got.Status != api.TaskSuccess || *got.Result != "发送成功" || *got.ProcessingAppID != "sms_app_001" {
		t.Errorf("got %+v", got)
	}
	failed := b.submit("y")
	b.claim("sms_app_001", 1)
	b.report(failed, "sms_app_001", 3, report{"error_message": "空号"})
	if got := b.task(failed); got.Status != api.TaskFailed || *got.Result != "空号" || got.SentAt != nil || got.ReportedAt == nil {
		t.Errorf("got %+v", got)
	}
	for body, field := range map[string]string{
		`{"task_id":"t","app_id":"a","status":1}`:                      "status",
		`{"task_id":"t","app_id":"a","status":"2"}`:                    "status",
		`{"app_id":"a","status":2}`:                                    "task_id",
		`{"task_id":"t","status":2}`:                                   "app_id",
		`{"task_id":"t","app_id":"a","status":2,"lease_id":0}`:         "lease_id",
		`{"task_id":"t","app_id":"a","status":2,"lease_id":1e30}`:      "lease_id",
		`{"task_id":"t","app_id":"a","status":2,"should_retry":1}`:     "should_retry",
		`{"task_id":"t","app_id":"a","status":3,"error_message":[""]}`: "error_message",
	} {
		if a := b.expect(422, "request.invalid", "POST", "/api/v1/sms/report", body); a.fields() != field {
			t.Errorf("%s: fields %q, want %q", body, a.fields(), field)
		}
	}
	b.expect(404, "task.not_found", "POST", "/api/v1/sms/report", reportBody("nothing", "a", 2, nil))
}

func TestS0_4_ALongErrorMessageIsCutAndNotRefused(t *testing.T) {
	b := setup(t)
	id := b.submit("x")
	b.claim("app", 1)
	b.report(id, "app", 3, report{"error_message": strings.Repeat("错", 5000)})
	if got := b.task(id); *got.Result != strings.Repeat("错", 500) {
		t.Errorf("kept %d characters", len([]rune(*got.Result)))
	}
}

func TestS0_5_Templates(t *testing.T) {
	b := setup(t)
	made := decode[api.Template](t, b.expect(200, "", "POST", "/api/v1/admin/template",
		`{"template_name":"验证码模板","template_content":"您的验证码是{code}，用户{name}"}`))
	if !made.IsActive || made.ID == 0 {
		t.Errorf("made %+v", made)
	}
	path := fmt.Sprintf("/api/v1/admin/template/%d", made.ID)
	if got := decode[api.Template](t, b.expect(200, "", "GET", path, nil)); !reflect.DeepEqual(got, made) {
		t.Errorf("got %+v, want %+v", got, made)
	}
	off := decode[api.Template](t, b.expect(200, "", "PATCH", path, `{"is_active":false}`))
	if off.IsActive || off.TemplateContent != made.TemplateContent {
		t.Errorf("disabled %+v", off)
	}
	reworded := decode[api.Template](t, b.expect(200, "", "PATCH", path, `{"template_name":"新","template_content":"{code}","is_active":true}`))
	if !reworded.IsActive || reworded.TemplateContent != "{code}" || reworded.TemplateName != "新" {
		t.Errorf("reworded %+v", reworded)
	}
	for i := range 4 {
		b.expect(200, "", "POST", "/api/v1/admin/template", map[string]any{"template_name": fmt.Sprint(i), "template_content": "x"})
	}
	var names []string
	for cursor := ""; ; {
		page := decode[api.TemplatePage](t, b.expect(200, "", "GET", "/api/v1/admin/template?limit=2"+cursor, nil))
		for _, item := range page.Items {
			names = append(names, item.TemplateName)
		}
		if page.NextCursor == nil {
			break
		}
		cursor = "&cursor=" + *page.NextCursor
	}
	if want := []string{"3", "2", "1", "0", "新"}; !slices.Equal(names, want) {
		t.Errorf("listed %v, want %v", names, want)
	}
	b.expect(200, "", "DELETE", path, nil)
	for _, method := range []string{"GET", "DELETE"} {
		b.expect(404, "template.not_found", method, path, nil)
	}
	b.expect(404, "template.not_found", "PATCH", path, `{"is_active":true}`)
	for body, field := range map[string]string{
		`{"template_name":"","template_content":"x"}`:                                 "template_name",
		`{"template_name":"n"}`:                                                       "template_content",
		`{"template_name":"n","template_content":"` + strings.Repeat("x", 201) + `"}`: "template_content",
	} {
		if a := b.expect(422, "request.invalid", "POST", "/api/v1/admin/template", body); a.fields() != field {
			t.Errorf("%s: fields %q, want %q", body, a.fields(), field)
		}
	}
	b.expect(422, "request.invalid", "PATCH", path, `{}`)
	b.expect(422, "request.invalid", "GET", "/api/v1/admin/template/first", nil)
	b.expect(422, "request.invalid", "GET", "/api/v1/admin/template?cursor=nonsense", nil)
}

func TestS0_6_DefaultContents(t *testing.T) {
	b := setup(t)
	made := decode[api.DefaultContent](t, b.expect(200, "", "POST", "/api/v1/admin/default-sms",
		`{"phone_number":"13800138000","content":"欢迎使用我们的服务","use_template":false}`))
	if made.IsSent || made.PhoneNumber != phone {
		t.Errorf("made %+v", made)
	}
	path := fmt.Sprintf("/api/v1/admin/default-sms/%d", made.ID)
	if got := decode[api.DefaultContent](t, b.expect(200, "", "GET", path, nil)); got != made {
		t.Errorf("got %+v, want %+v", got, made)
	}
	if got := decode[api.DefaultContent](t, b.expect(200, "", "PATCH", path, `{"content":"欢迎回来"}`)); got.Content != "欢迎回来" || got.UseTemplate {
		t.Errorf("changed %+v", got)
	}
	b.submitted(map[string]any{"phone_number": phone})
	if got := decode[api.DefaultContent](t, b.expect(200, "", "GET", path, nil)); !got.IsSent {
		t.Errorf("after it was sent: %+v", got)
	}
	if got := decode[api.DefaultContent](t, b.expect(200, "", "POST", path+"/reset", nil)); got.IsSent {
		t.Errorf("after the reset: %+v", got)
	}
	b.submitted(map[string]any{"phone_number": phone})

	b.expect(200, "", "POST", "/api/v1/admin/default-sms", `{"phone_number":"13900139000","content":"x"}`)
	if got := decode[api.DefaultContentPage](t, b.expect(200, "", "GET", "/api/v1/admin/default-sms?limit=1", nil)); len(got.Items) != 1 || got.NextCursor == nil {
		t.Errorf("first page %+v", got)
	}
	if got := decode[api.DefaultContentPage](t, b.expect(200, "", "GET", "/api/v1/admin/default-sms?phone_number=138-0013-8000", nil)); len(got.Items) != 1 || got.Items[0].ID != made.ID {
		t.Errorf("by phone number %+v", got)
	}
	b.expect(200, "", "DELETE", path, nil)
	b.expect(404, "default_content.not_found", "GET", path, nil)
	b.expect(404, "default_content.not_found", "DELETE", path, nil)
	b.expect(404, "default_content.not_found", "POST", path+"/reset", nil)
	b.expect(404, "default_content.not_found", "PATCH", path, `{"content":"x"}`)
	b.expect(422, "request.invalid", "POST", "/api/v1/admin/default-sms", `{"phone_number":"13800138000","content":""}`)
	b.expect(422, "request.invalid", "POST", "/api/v1/admin/default-sms", `{"phone_number":"12345678901","content":"x"}`)
}

func TestS0_7_BasicAuthOnEveryAPI(t *testing.T) {
	b := setup(t)
	var contract struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal([]byte(b.call("GET", "/openapi.json", nil).raw), &contract); err != nil {
		t.Fatal(err)
	}
	calls := 0
	wrong := basic(username, "wrong")[1]
	for path, operations := range contract.Paths {
		path = strings.NewReplacer("{task_id}", "t", "{id}", "1").Replace(path)
		for method := range operations {
			if method == "parameters" || strings.HasPrefix(path, "/api/v1/callbacks/") { // providers prove otherwise who they are
				continue
			}
			calls++
			want := 401
			if path == "/health" || path == "/ready" {
				want = 200
			}
			for _, credentials := range []string{"", "Basic !", "Bearer x", wrong} {
				if credentials == wrong && path != "/api/v1/sms/tasks" {
					continue // more than a few would have to wait
				}
				a := b.call(strings.ToUpper(method), path, nil, "Authorization", credentials)
				if a.status != want {
					t.Errorf("%s %s as %q: %d, want %d", method, path, credentials, a.status, want)
				}
				if want == 401 && !strings.HasPrefix(a.header.Get("WWW-Authenticate"), "Basic ") {
					t.Errorf("%s %s asks for %q", method, path, a.header.Get("WWW-Authenticate"))
				}
			}
		}
	}
	if calls < 25 {
		t.Errorf("only %d operations were found in the contract", calls)
	}
	b.expect(401, "auth.required", "GET", "/metrics", nil, "Authorization", "")
	b.expect(200, "", "GET", "/api/v1/admin/task-statistics", nil)
	if n := b.count("SELECT count(*) FROM receive_logs"); n != 0 {
		t.Errorf("strangers left %d log rows", n)
	}
}

func TestS0_8_TemplateFlow(t *testing.T) {
	b := setup(t)
	send := func(params string) answer {
		return b.call("POST", "/api/v1/sms/send", map[string]any{"phone_number": phone, "content": params, "use_template": true})
	}
	if a := send("code=1"); a.status != 409 || a.body.Error.Reason != "template.none_active" {
		t.Errorf("without a template: %s", a.raw)
	}
	// The first active one, by id.
	b.expect(200, "", "POST", "/api/v1/admin/template", `{"template_name":"off","template_content":"off {code}","is_active":false}`)
	b.expect(200, "", "POST", "/api/v1/admin/template", `{"template_name":"first","template_content":"您的验证码是{code}，用户{name}"}`)
	b.expect(200, "", "POST", "/api/v1/admin/template", `{"template_name":"second","template_content":"second {code}"}`)

	a := send("code=123456&name=张三")
	if got := decode[api.Submitted](t, a); got.FinalContent != "您的验证码是123456，用户张三" {
		t.Errorf("got %q", got.FinalContent)
	}
	before := b.count("SELECT count(*) FROM tasks")
	for params, status := range map[string]int{
		"name=%E5%BC%A0%E4%B8%89&code=1+2": 200, // another order, escapes, a space
		"code=&name=":                      200, // blank is allowed
		"code=1":                           422, // missing is not
		"code=%zz&name=x":                  422,
		"code=%00&name=x":                  422,
		"code=%ff&name=x":                  422,
	} {
		if a := send(params); a.status != status {
			t.Errorf("%s: %d, want %d: %s", params, a.status, status, a.raw)
		} else if status == 422 && a.fields() != "content" {
			t.Errorf("%s: fields %q", params, a.fields())
		}
	}
	if n := b.count("SELECT count(*) FROM tasks") - before; n != 2 {
		t.Errorf("%d tasks were made, want 2", n)
	}
	a = send("code=" + strings.Repeat("1", 190) + "&name=x")
	if a.status != 422 || a.fields() != "content" {
		t.Errorf("rendered over 200 characters: %s", a.raw)
	}
}

func TestS0_9_DefaultContentFlow(t *testing.T) {
	b := setup(t)
	a := b.expect(422, "request.invalid", "POST", "/api/v1/sms/send", map[string]any{"phone_number": phone})
	if a.fields() != "content" {
		t.Errorf("fields %q", a.fields())
	}
	b.expect(200, "", "POST", "/api/v1/admin/default-sms", map[string]any{"phone_number": phone, "content": "欢迎"})
	for i, body := range []string{`{"phone_number":"138-0013-8000"}`, `{"phone_number":"13800138000","content":""}`, `{"phone_number":"13800138000","content":null}`} {
		a := b.call("POST", "/api/v1/sms/send", body)
		if i == 0 && decode[api.Submitted](t, a).FinalContent != "欢迎" {
			t.Errorf("the first: %s", a.raw)
		}
		if i > 0 && (a.status != 409 || a.body.Error.Reason != "default_content.already_sent") {
			t.Errorf("again: %s", a.raw)
		}
	}
}

func TestF14_F15_ARefusedSubmissionDoesNotConsumeTheDefaultContent(t *testing.T) {
	b := setup(t)
	b.expect(200, "", "POST", "/api/v1/admin/default-sms", map[string]any{"phone_number": phone, "content": "code=1", "use_template": true})
	b.expect(409, "template.none_active", "POST", "/api/v1/sms/send", map[string]any{"phone_number": phone})
	b.expect(200, "", "POST", "/api/v1/admin/template", `{"template_name":"n","template_content":"{code} {name}{name}"}`)
	b.expect(422, "request.invalid", "POST", "/api/v1/sms/send", map[string]any{"phone_number": phone})
	b.expect(200, "", "PATCH", "/api/v1/admin/default-sms/1", map[string]any{"content": "code=1&name=" + strings.Repeat("x", 180)})
	b.expect(422, "request.invalid", "POST", "/api/v1/sms/send", map[string]any{"phone_number": phone})
	if n := b.count("SELECT count(*) FROM default_contents WHERE is_sent"); n != 0 {
		t.Error("a refused submission consumed the default content")
	}
	b.expect(200, "", "PATCH", "/api/v1/admin/default-sms/1", `{"content":"code=1&name=2"}`)
	if got := b.submitted(map[string]any{"phone_number": phone}); got.FinalContent != "1 22" {
		t.Errorf("got %q", got.FinalContent)
	}
}

func TestF7_FiftyDefaultContentSendsAtOnceMakeOneTask(t *testing.T) {
	b := setup(t)
	b.expect(200, "", "POST", "/api/v1/admin/default-sms", map[string]any{"phone_number": phone, "content": "欢迎"})
	statuses := make([]int, 50)
	together(len(statuses), func(i int) {
		statuses[i] = b.call("POST", "/api/v1/sms/send", map[string]any{"phone_number": phone}).status
	})
	slices.Sort(statuses)
	if statuses[0] != 200 || statuses[1] != 409 || statuses[49] != 409 {
		t.Errorf("answers %v", statuses)
	}
	if n := b.count("SELECT count(*) FROM tasks"); n != 1 {
		t.Errorf("%d tasks, want 1", n)
	}
}

func TestS0_10_NewTasksFirstThenDueRetries(t *testing.T) {
	b := setup(t)
	// Letters in the order of their creation; r1 was attempted once, r2 twice; late is not due.
	for i, row := range []struct {
		id    string
		retry int
		due   string
	}{
		{"r2-old", 2, "-1 hour"}, {"r1-old", 1, "-1 minute"}, {"late", 1, "1 minute"}, {"new-old", 0, "0"},
		{"r1-young", 1, "-2 hours"}, {"new-young", 0, "0"}, {"r2-young", 2, "-3 hours"},
	} {
		b.exec(`INSERT INTO tasks (task_id, phone_number, recipient, content, retry_count, due_at, created_at)
			VALUES ($1, $2, $2, 'x', $3, now() + $4::interval, now() - interval '1 day' + make_interval(mins => $5))`,
			row.id, phone, row.retry, row.due, i)
	}
	var got []string
	for _, limit := range []int{1, 3, 10} {
		got = append(got, b.claimIDs(limit)...)
	}
	want := []string{"new-old", "new-young", "r1-old", "r1-young", "r2-old", "r2-young"}
	if !slices.Equal(got, want) {
		t.Errorf("claimed %v\nwant    %v", got, want)
	}
	if status := b.task("r1-old"); status.Status != api.TaskProcessing || *status.ProcessingAppID != "app" {
		t.Errorf("a claimed task: %+v", status)
	}
	b.exec("UPDATE tasks SET due_at = now() WHERE task_id = 'late'")
	if got := b.claimIDs(10); !slices.Equal(got, []string{"late"}) {
		t.Errorf("once it is due: %v", got)
	}
}

func TestS0_11_RetryIsTheSendersChoice(t *testing.T) {
	b := setup(t)
	id := b.submit("x")
	for attempt := 1; ; attempt++ {
		claimed := b.claim("app", 1)
		if len(claimed) != 1 || int(claimed[0].Attempt) != attempt {
			t.Fatalf("attempt %d: claimed %+v", attempt, claimed)
		}
		b.report(id, "app", 3, report{"should_retry": true, "error_message": "网络超时"})
		got := b.task(id)
		if attempt == 4 { // the first and MAX_RETRY_COUNT = 3 more
			if got.Status != api.TaskFailed || *got.Result != "超过最大重试次数: 网络超时" || got.RetryCount != 3 ||
				got.ProcessingAppID != nil || got.ReportedAt == nil {
				t.Errorf("after the last: %+v", got)
			}
			break
		}
		if got.Status != api.TaskPending || int(got.RetryCount) != attempt || *got.Result != "网络超时" || got.ProcessingAppID != nil {
			t.Errorf("after attempt %d: %+v", attempt, got)
		}
		if wait := got.DueAt.Sub(got.UpdatedAt); wait != 5*time.Minute {
			t.Errorf("due after %s, want RETRY_DELAY_MINUTES", wait)
		}
		if early := b.claimIDs(1); len(early) != 0 {
			t.Errorf("claimed before it is due: %v", early)
		}
		b.exec("UPDATE tasks SET due_at = now()")
	}
	if early := b.claimIDs(1); len(early) != 0 {
		t.Errorf("claimed after it failed: %v", early)
	}
}

func TestS0_11_ASenderMaySayHowLongToWait(t *testing.T) {
	b := setup(t)
	id := b.submit("x")
	b.claim("app", 1)
	b.report(id, "app", 3, report{"should_retry": true, "retry_after_seconds": 7})
	if got := b.task(id); got.DueAt.Sub(got.UpdatedAt) != 7*time.Second {
		t.Errorf("due after %s", got.DueAt.Sub(got.UpdatedAt))
	}
}

func TestS0_12_ZombiesAreTakenBack(t *testing.T) {
	b := setup(t)
	id := b.submit("x")
	for attempt := 1; attempt <= 4; attempt++ {
		if got := b.claimIDs(1); len(got) != 1 {
			t.Fatalf("attempt %d: claimed %v", attempt, got)
		}
		if n := b.recover(); n != 0 {
			t.Errorf("took back %d live leases", n)
		}
		b.expire()
		if n := b.recover(); n != 1 {
			t.Errorf("took back %d, want 1", n)
		}
		got := b.task(id)
		if attempt < 4 && (got.Status != api.TaskPending || int(got.RetryCount) != attempt || *got.Result != "处理超时，自动重试") {
			t.Errorf("attempt %d: %+v", attempt, got)
		}
		if attempt == 4 && (got.Status != api.TaskFailed || *got.Result != "处理超时，超过最大重试次数" || got.ReportedAt == nil) {
			t.Errorf("after the last: %+v", got)
		}
		if got.ProcessingAppID != nil || got.LeaseUntil != nil {
			t.Errorf("still held: %+v", got)
		}
	}
	a := b.expect(200, "", "POST", "/api/v1/admin/recover-zombie-tasks", nil, "Accept-Language", "zh-CN")
	if got := decode[api.Recovered](t, a); got.RecoveredCount != 0 || got.Message != "成功恢复 0 个僵尸任务" {
		t.Errorf("got %+v", got)
	}
}

func TestS0_12_TheServerSweepsByItself(t *testing.T) {
	b := setupWith(t, queue.Rules{MaxRetryCount: 3, ProcessingTimeout: 200 * time.Millisecond}, nil)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stop, served := serveUntil(t, b.app, listener)
	id := b.submit("x")
	b.claim("gone", 1)
	eventually(t, "the lease is taken back", func() bool { return b.task(id).Status == api.TaskPending })
	stop()
	if err := <-served; err != nil {
		t.Errorf("stop: %v", err)
	}
}

func TestS0_13_Statistics(t *testing.T) {
	b := setup(t)
	b.exec(`INSERT INTO tasks (task_id, phone_number, recipient, content, status, retry_count, processing_app_id, lease_id, lease_until)
		SELECT 't' || i, $1, $1, 'x', s.status, s.retry, CASE s.status WHEN 1 THEN 'a' END, CASE s.status WHEN 1 THEN i END, CASE s.status WHEN 1 THEN now() END
		FROM (VALUES (0, 0, 1, 5), (0, 2, 6, 9), (1, 0, 10, 12), (2, 0, 13, 14), (3, 3, 15, 15), (4, 0, 16, 20)) s (status, retry, lo, hi),
			LATERAL generate_series(s.lo, s.hi) i`, phone)
	a := b.expect(200, "", "GET", "/api/v1/admin/task-statistics", nil)
	want := api.Statistics{PendingNewTasks: 5, PendingRetryTasks: 4, ProcessingTasks: 3, SuccessTasks: 2, FailedTasks: 1}
	if got := decode[api.Statistics](t, a); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	info := decode[[]api.StatusInfo](t, b.expect(200, "", "GET", "/api/v1/admin/task-status-info", nil, "Accept-Language", "zh"))
	wantInfo := []api.StatusInfo{
		{StatusCode: 0, StatusName: "PENDING", Description: "待处理"},
		{StatusCode: 1, StatusName: "PROCESSING", Description: "处理中"},
		{StatusCode: 2, StatusName: "SUCCESS", Description: "成功"},
		{StatusCode: 3, StatusName: "FAILED", Description: "失败"},
	}
	if !slices.Equal(info, wantInfo) {
		t.Errorf("got %+v", info)
	}
}

func TestS0_14_EveryEventLeavesOneRow(t *testing.T) {
	b := setup(t)
	a := b.expect(200, "", "POST", "/api/v1/sms/send", map[string]any{"phone_number": phone, "content": "x", "source": "system_a"},
		"User-Agent", "system_a/1.0", "X-Request-Id", "req-1")
	id := decode[api.Submitted](t, a).TaskID
	if n := b.count(`SELECT count(*) FROM receive_logs WHERE request_id = 'req-1' AND task_id = $1 AND phone_number = $2 AND content = 'x'
		AND NOT use_template AND source_ip = '127.0.0.1' AND user_agent = 'system_a/1.0' AND request_data->>'source' = 'system_a'
		AND response_data->'data'->>'task_id' = $1 AND status_code = 200`, id, phone); n != 1 {
		t.Errorf("%d rows for the submission", n)
	}
	claimed := b.claim("app", 5)[0]
	if n := b.count(`SELECT count(*) FROM send_logs WHERE id = $1 AND task_id = $2 AND app_id = 'app' AND phone_number = $3 AND content = 'x'
		AND attempt = 1 AND (request_data->>'limit')::int = 5 AND (response_data->>'lease_id')::bigint = $1`, claimed.LeaseID, id, phone); n != 1 {
		t.Errorf("%d rows for the claim", n)
	}
	b.report(id, "app", 3, report{"error_message": "忙", "should_retry": true})
	if n := b.count(`SELECT count(*) FROM report_logs WHERE task_id = $1 AND app_id = 'app' AND status = 3 AND error_message = '忙'
		AND (request_data->>'should_retry')::boolean AND event = 'reported' AND effect = 'retry'`, id); n != 1 {
		t.Errorf("%d rows for the report", n)
	}
	// Refused submissions, whatever is wrong with them.
	for status, body := range map[int]string{
		400: `{"phone_number":`,
		422: `{"phone_number":"12345678901","content":"` + `\u0000\ud800` + `","n":1e999}`,
		409: `{"phone_number":"13800138000","content":"a=1","use_template":true}`,
		413: `{"phone_number":"` + strings.Repeat("1", 1<<20) + `"}`,
	} {
		if a := b.call("POST", "/api/v1/sms/send", body); a.status != status {
			t.Errorf("%.60s: %d, want %d", body, a.status, status)
		}
		if n := b.count("SELECT count(*) FROM receive_logs WHERE status_code = $1 AND (response_data->>'code')::int = $1 AND request_data IS NOT NULL AND task_id IS NULL", status); n != 1 {
			t.Errorf("%d rows for the %d", n, status)
		}
	}
	b.expect(401, "auth.required", "POST", "/api/v1/sms/send", `{}`, "Authorization", "")
	if n := b.count("SELECT count(*) FROM receive_logs"); n != 5 {
		t.Errorf("%d rows, want 5: strangers leave none", n)
	}
}

func TestS0_15_TablesAndStates(t *testing.T) {
	b := setup(t)
	for table, columns := range map[string]string{
		"templates":        "id template_name template_content is_active created_at updated_at",
		"default_contents": "id phone_number content use_template is_sent created_at updated_at",
		"tasks":            "task_id phone_number content status source retry_count processing_app_id result created_at updated_at sent_at reported_at",
		"receive_logs":     "id request_id phone_number content use_template source_ip user_agent request_data response_data status_code created_at",
		"send_logs":        "id task_id app_id phone_number content request_data response_data created_at",
		"report_logs":      "id task_id app_id status error_message request_data created_at",
	} {
		for _, column := range strings.Fields(columns) {
			if n := b.count("SELECT count(*) FROM information_schema.columns WHERE table_name = $1 AND column_name = $2", table, column); n != 1 {
				t.Errorf("%s has no column %s", table, column)
			}
		}
	}
	if queue.Pending != 0 || queue.Processing != 1 || queue.Success != 2 || queue.Failed != 3 {
		t.Error("the codes are not the documented ones")
	}
}

func TestS0_16_DocumentAndSwaggerUI(t *testing.T) {
	b := setup(t)
	if a := b.call("GET", "/", nil, "Authorization", ""); a.status != 302 || a.header.Get("Location") != "/docs/" {
		t.Errorf("/ leads to %d %s", a.status, a.header.Get("Location"))
	}
	page := b.call("GET", "/docs/", nil, "Authorization", "")
	if page.status != 200 || !strings.Contains(page.raw, "swagger-ui") {
		t.Errorf("/docs/ is %d: %.200s", page.status, page.raw)
	}
	for _, word := range []string{`src="http`, `href="http`, `src="//`} {
		if strings.Contains(page.raw, word) {
			t.Errorf("the page loads from the network: %s", word)
		}
	}
	if a := b.call("GET", "/openapi.json", nil, "Authorization", ""); a.status != 200 || !strings.Contains(a.raw, `"openapi":"3.0.3"`) {
		t.Errorf("/openapi.json is %d", a.status)
	}
	if a := b.call("GET", "/openapi.yaml", nil, "Authorization", ""); a.status != 200 || !strings.HasPrefix(a.raw, "openapi: 3.0.3") {
		t.Errorf("/openapi.yaml is %d", a.status)
	}
}

func TestS0_16_DocsCanBeTurnedOff(t *testing.T) {
	b := setupWith(t, defaultRules, func(o *app.Options) { o.EnableDocs = false })
	for _, path := range []string{"/", "/docs", "/docs/", "/openapi.json", "/openapi.yaml"} {
		b.expect(404, "route.not_found", "GET", path, nil)
	}
}

func TestS0_17_KeysAndTimesHaveRoom(t *testing.T) {
	b := setup(t)
	if n := b.count(`SELECT count(*) FROM information_schema.columns WHERE table_schema = 'public' AND table_name <> 'schema_migrations'
		AND (data_type = 'timestamp without time zone' OR data_type = 'integer' AND column_name = 'id')`); n != 0 {
		t.Errorf("%d columns are too small or without zone", n)
	}
	got := b.task(b.submit("x"))
	if _, offset := got.CreatedAt.Zone(); offset != 0 {
		t.Errorf("created_at %s is not in UTC", got.CreatedAt)
	}
}

// The installed app knows three operations, and of their answers only 200 with code 200.
func TestS0_18_TheInstalledSenderApp(t *testing.T) {
	b := setup(t)
	ids := []string{b.submit("一"), b.submit("二")}
	a := b.expect(200, "", "GET", "/app/api/v1/sms/tasks/pending?app_id=phone_1&limit=10", nil)
	var page map[string]any
	if err := json.Unmarshal(a.body.Data, &page); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"total_count": 2.0, "app_id": "phone_1", "tasks": []any{
		map[string]any{"task_id": ids[0], "phone_number": phone, "content": "一"},
		map[string]any{"task_id": ids[1], "phone_number": phone, "content": "二"},
	}}
	if a.body.Code != 200 || !reflect.DeepEqual(page, want) {
		t.Errorf("got  %v\nwant %v", page, want)
	}
	if a.header.Get("Cache-Control") != "no-store" {
		t.Errorf("Cache-Control %q", a.header.Get("Cache-Control"))
	}
	for _, id := range ids {
		// Fields of its own are passed over, and a repeat is fine.
		for range 2 {
			b.expect(200, "", "POST", "/app/api/v1/sms/report", reportBody(id, "phone_1", 2, report{"error_message": nil, "should_retry": nil, "battery": 80}))
		}
	}
	counts := b.expect(200, "", "GET", "/app/api/v1/admin/task-statistics", nil)
	if got := decode[api.Statistics](t, counts); got.SuccessTasks != 2 || counts.body.Code != 200 {
		t.Errorf("got %+v", got)
	}
	if a := b.expect(200, "", "GET", "/app/api/v1/sms/tasks/pending?app_id=phone_1", nil); !strings.Contains(a.raw, `"tasks":[]`) {
		t.Errorf("an empty queue answers %s", a.raw)
	}
}

func serveUntil(t *testing.T, a *app.App, listener net.Listener) (stop func(), served <-chan error) {
	ctx, cancel := contextWithCancel(t)
	done := make(chan error, 1)
	go func() { done <- a.Serve(ctx, listener) }()
	return cancel, done
}

func TestMetrics(t *testing.T) {
	b := setup(t)
	b.submit("x")
	b.submit("y")
	b.report(b.claim("app", 1)[0].TaskID, "app", 2, nil)
	b.expect(422, "request.invalid", "POST", "/api/v1/sms/send", `{}`)
	a := b.call("GET", "/metrics", nil)
	for _, want := range []string{
		`lksms_http_requests_total{route="POST /api/v1/sms/send",status="200"} 2`,
		`lksms_http_requests_total{route="POST /api/v1/sms/send",status="422"} 1`,
		`lksms_tasks_claimed_total 1`,
		`lksms_reports_total{effect="success"} 1`,
		`lksms_queue_tasks{state="pending_new"} 1`,
		`lksms_queue_oldest_pending_seconds `,
		`lksms_pool_connections{state="max"} `,
	} {
		if !strings.Contains(a.raw, want) {
			t.Errorf("no %s", want)
		}
	}
}

func TestRequestIDGoesInAndOutAndIntoTheLog(t *testing.T) {
	b := setup(t)
	a := b.expect(422, "request.invalid", "POST", "/api/v1/sms/send", `{"phone_number":"13800138000","content":5}`, "X-Request-Id", "abc-1")
	if a.body.RequestID != "abc-1" || a.header.Get("X-Request-Id") != "abc-1" {
		t.Errorf("got %q and %q", a.body.RequestID, a.header.Get("X-Request-Id"))
	}
	if a := b.call("GET", "/health", nil, "X-Request-Id", "bad id\t"); a.header.Get("X-Request-Id") == "bad id\t" || a.header.Get("X-Request-Id") == "" {
		t.Errorf("got %q", a.header.Get("X-Request-Id"))
	}
	b.submit("a secret text")
	b.call("GET", "/api/v1/sms/tasks?phone_number="+phone, nil)
	log := b.log.String()
	for _, want := range []string{`"request_id":"abc-1"`, `"phone":"138****8000"`} {
		if !strings.Contains(log, want) {
			t.Errorf("the log has no %s", want)
		}
	}
	for _, secret := range []string{phone, "a secret text", password} {
		if strings.Contains(log, secret) {
			t.Errorf("the log holds %q", secret)
		}
	}
}

func TestErrorsSpeakTheCallersLanguage(t *testing.T) {
	b := setup(t)
	for language, want := range map[string]string{
		"":                        "There is no such task.",
		"fr":                      "There is no such task.",
		"zh-CN,zh;q=0.9,en;q=0.8": "任务不存在。",
		"en-GB,zh;q=0.5":          "There is no such task.",
		"zh-TW":                   "任务不存在。",
		"nonsense;;;":             "There is no such task.",
	} {
		if a := b.expect(404, "task.not_found", "GET", "/api/v1/sms/task/t", nil, "Accept-Language", language); a.body.Message != want {
			t.Errorf("%q: %q", language, a.body.Message)
		}
	}
}

func TestUnknownRoutesAndMethods(t *testing.T) {
	b := setup(t)
	b.expect(404, "route.not_found", "GET", "/api/v2/sms", nil)
	b.expect(405, "route.method_not_allowed", "DELETE", "/api/v1/sms/send", nil)
	b.expect(405, "route.method_not_allowed", "POST", "/api/v1/sms/tasks", `{}`)
}

func TestHealthAndReadiness(t *testing.T) {
	b := setup(t)
	b.expect(200, "", "GET", "/health", nil, "Authorization", "")
	b.expect(200, "", "GET", "/ready", nil, "Authorization", "")
	b.exec("DELETE FROM schema_migrations WHERE version = (SELECT max(version) FROM schema_migrations)")
	a := b.expect(503, "unavailable", "GET", "/ready", nil, "Authorization", "")
	if a.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	b.expect(200, "", "GET", "/health", nil, "Authorization", "")
}

func TestWithoutItsDatabaseTheServerAnswers503(t *testing.T) {
	b := setupWith(t, defaultRules, func(o *app.Options) { o.DatabaseURL = "postgres://nobody@127.0.0.1:1/nothing" })
	b.expect(200, "", "GET", "/health", nil)
	b.expect(503, "unavailable", "GET", "/ready", nil)
	a := b.expect(503, "unavailable", "POST", "/api/v1/sms/send", map[string]any{"phone_number": phone, "content": "x"})
	if strings.Contains(a.raw, "127.0.0.1") || a.header.Get("Retry-After") == "" {
		t.Errorf("got %v %s", a.header, a.raw)
	}
}

func TestStopFinishesWhatIsInFlight(t *testing.T) {
	b := setup(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stop, served := serveUntil(t, b.app, listener)
	b.expect(200, "", "POST", "/api/v1/admin/default-sms", map[string]any{"phone_number": phone, "content": "欢迎"})
	// A request that waits in the database while the server is told to stop.
	tx, err := b.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT 1 FROM default_contents FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	answered := make(chan int, 1)
	go func() {
		req, err := http.NewRequest("POST", "http://"+listener.Addr().String()+"/api/v1/sms/send", strings.NewReader(`{"phone_number":"13800138000"}`))
		if err != nil {
			panic(err)
		}
		req.SetBasicAuth(username, password)
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Error(err)
			answered <- 0
			return
		}
		res.Body.Close()
		answered <- res.StatusCode
	}()
	b.someoneWaitsForALock()
	// One that a client opened in advance must not hold up the stop.
	silent, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	stop()
	eventually(t, "it accepts no more", func() bool {
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if status := <-answered; status != 200 {
		t.Errorf("the request in flight got %d", status)
	}
	if err := <-served; err != nil {
		t.Errorf("stop: %v", err)
	}
}

func TestATemplateThatWouldSendItsPlaceholderIsRefused(t *testing.T) {
	b := setup(t)
	const path = "/api/v1/admin/template"
	a := b.expect(422, "request.invalid", "POST", path, map[string]any{"template_name": "x", "template_content": "您的验证码是{ code }"})
	if a.fields() != "template_content" || !strings.Contains(a.raw, "{ code }") {
		t.Errorf("got %s", a.raw)
	}
	id := decode[api.Template](t, b.expect(200, "", "POST", path, map[string]any{"template_name": "x", "template_content": "您的验证码是{code}"})).ID
	b.expect(422, "request.invalid", "PATCH", fmt.Sprint(path, "/", id), map[string]any{"template_content": "{a b}"})
	// One that is stored already sends what it always has, and may be changed otherwise.
	b.exec("UPDATE templates SET template_content = '{ code } {code}'")
	b.expect(200, "", "PATCH", fmt.Sprint(path, "/", id), map[string]any{"template_name": "y"})
	if got := b.submitted(map[string]any{"phone_number": phone, "content": "code=1", "use_template": true}).FinalContent; got != "{ code } 1" {
		t.Errorf("got %q", got)
	}
}
