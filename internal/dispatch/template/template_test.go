package template_test

import (
	"context"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
)

func TestMain(m *testing.M) { apptest.Main(m) }

func TestS3_2_TemplateCanScheduleItsMessages(t *testing.T) {
	b := apptest.New(t)
	b.Expect(200, "", "POST", "/api/v1/admin/template", map[string]any{"template_name": "news", "template_content": "news {n}", "send_type": "scheduled"})
	b.Expect(200, "", "PUT", "/api/v1/admin/settings/sms", map[string]any{"scheduled_every_seconds": 600})
	task := b.Task(b.SubmitBody(map[string]any{"phone_number": apptest.Phone, "content": "n=1", "use_template": true}).TaskID)
	if at := task.ExpectSendTime; at == nil || at.Unix()%600 != 0 || !task.DueAt.Equal(*at) || at.Sub(task.CreatedAt) > 10*time.Minute || at.Before(task.CreatedAt) {
		t.Errorf("%+v", task)
	}
	if got := b.ClaimIDs(10); len(got) != 0 {
		t.Errorf("the message was sent at once")
	}
	at := time.Now().Add(3 * time.Hour).Truncate(time.Second)
	task = b.Task(b.SubmitBody(map[string]any{"phone_number": apptest.Phone, "content": "n=1", "use_template": true, "expect_send_time": at}).TaskID)
	if !task.DueAt.Equal(at) {
		t.Errorf("requested %s, due %s", at, task.DueAt)
	}
}

func TestATemplateCanBeRestrictedToCompanies(t *testing.T) {
	b := apptest.New(t)
	acme, other := b.AddCompany("acme", 1), b.AddCompany("other", 1)
	b.Expect(422, "request.invalid", "POST", "/api/v1/admin/template", map[string]any{"template_name": "t", "template_content": "x", "companies": []string{"none"}})
	b.Expect(200, "", "POST", "/api/v1/admin/template", map[string]any{"template_name": "t", "template_content": "acme {n}", "companies": []string{"acme"}})
	body := map[string]any{"phone_number": apptest.Phone, "content": "n=1", "use_template": true}
	if got := apptest.Decode[api.Submitted](t, b.Expect(200, "", "POST", "/api/v1/sms/send", body, acme...)).FinalContent; got != "acme 1" {
		t.Errorf("acme: %s", got)
	}
	b.Expect(409, "template.none_active", "POST", "/api/v1/sms/send", body, other...)
	b.Expect(200, "", "POST", "/api/v1/admin/template", map[string]any{"template_name": "t", "template_content": "all {n}"})
	if got := apptest.Decode[api.Submitted](t, b.Expect(200, "", "POST", "/api/v1/sms/send", body, other...)).FinalContent; got != "all 1" {
		t.Errorf("other: %s", got)
	}
	b.Expect(200, "", "PATCH", "/api/v1/admin/companies/other", map[string]any{"name": "still here"})
	b.Expect(409, "in_use", "DELETE", "/api/v1/admin/companies/acme", nil)
}

// While a template that names a company is being stored, the company cannot be deleted.
func TestACompanyOfATemplateCannotBeDeleted(t *testing.T) {
	b := apptest.New(t)
	b.Expect(200, "", "POST", "/api/v1/admin/companies", `{"company_no":"acme","name":"n"}`)
	for act, want := range map[string]int{
		"INSERT INTO templates (template_name, template_content, companies) VALUES ('t', 'c', '{acme}')": 409,
		"SELECT FROM companies WHERE company_no = 'acme' FOR UPDATE":                                     200,
	} {
		tx, err := b.DB.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback(context.Background())
		if _, err := tx.Exec(t.Context(), "SELECT FROM companies WHERE company_no = 'acme' FOR KEY SHARE"); err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), act); err != nil {
			t.Fatal(err)
		}
		done := make(chan int, 1)
		go func() {
			if want == 409 {
				done <- b.Call("DELETE", "/api/v1/admin/companies/acme", nil).Status
			} else {
				done <- b.Call("POST", "/api/v1/admin/template", `{"template_name":"t","template_content":"c","companies":["acme","acme"]}`).Status
			}
		}()
		b.AwaitLockWait()
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := <-done; got != want {
			t.Errorf("%s: %d, want %d", act, got, want)
		}
	}
}

func TestPlaceholdersInValuesAreNotReplaced(t *testing.T) {
	b := apptest.New(t)
	b.Expect(200, "", "POST", "/api/v1/admin/template", `{"template_name":"n","template_content":"您的验证码是{code}，用户{name}"}`)
	for _, params := range []string{"code={name}&name=张三", "name=张三&code={name}"} {
		got := b.SubmitBody(map[string]any{"phone_number": apptest.Phone, "content": params, "use_template": true})
		if got.FinalContent != "您的验证码是{name}，用户张三" {
			t.Errorf("%s: %q", params, got.FinalContent)
		}
	}
}

func TestParametersThatExpandToMegabytesAreRefused(t *testing.T) {
	b := apptest.New(t)
	b.Expect(200, "", "POST", "/api/v1/admin/template", map[string]any{"template_name": "n", "template_content": strings.Repeat("{a}", 60)})
	body := map[string]any{"phone_number": apptest.Phone, "content": "a=" + strings.Repeat("x", 100_000), "use_template": true}
	if a := b.Expect(422, "request.invalid", "POST", "/api/v1/sms/send", body); a.Fields() != "content" {
		t.Errorf("fields %q", a.Fields())
	}
}

func TestASecondDefaultContentIsAConflict(t *testing.T) {
	b := apptest.New(t)
	b.Expect(200, "", "POST", "/api/v1/admin/default-sms", map[string]any{"phone_number": apptest.Phone, "content": "x"})
	a := b.Expect(409, "default_content.exists", "POST", "/api/v1/admin/default-sms", `{"phone_number":"+86 138-0013-8000","content":"x"}`)
	for _, word := range []string{"SQL", "constraint", "default_contents_recipient_key", "23505"} {
		if strings.Contains(a.Raw, word) {
			t.Errorf("the answer says %q: %s", word, a.Raw)
		}
	}
}

func TestS0_5_TemplatesCanBeCreatedChangedAndDeleted(t *testing.T) {
	b := apptest.New(t)
	made := apptest.Decode[api.Template](t, b.Expect(200, "", "POST", "/api/v1/admin/template",
		`{"template_name":"验证码模板","template_content":"您的验证码是{code}，用户{name}"}`))
	if !made.IsActive || made.ID == 0 {
		t.Errorf("made %+v", made)
	}
	path := fmt.Sprintf("/api/v1/admin/template/%d", made.ID)
	if got := apptest.Decode[api.Template](t, b.Expect(200, "", "GET", path, nil)); !reflect.DeepEqual(got, made) {
		t.Errorf("got %+v, want %+v", got, made)
	}
	off := apptest.Decode[api.Template](t, b.Expect(200, "", "PATCH", path, `{"is_active":false}`))
	if off.IsActive || off.TemplateContent != made.TemplateContent {
		t.Errorf("disabled %+v", off)
	}
	reworded := apptest.Decode[api.Template](t, b.Expect(200, "", "PATCH", path, `{"template_name":"新","template_content":"{code}","is_active":true}`))
	if !reworded.IsActive || reworded.TemplateContent != "{code}" || reworded.TemplateName != "新" {
		t.Errorf("reworded %+v", reworded)
	}
	for i := range 4 {
		b.Expect(200, "", "POST", "/api/v1/admin/template", map[string]any{"template_name": fmt.Sprint(i), "template_content": "x"})
	}
	var names []string
	for cursor := ""; ; {
		page := apptest.Decode[api.TemplatePage](t, b.Expect(200, "", "GET", "/api/v1/admin/template?limit=2"+cursor, nil))
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
	b.Expect(200, "", "DELETE", path, nil)
	for _, method := range []string{"GET", "DELETE"} {
		b.Expect(404, "template.not_found", method, path, nil)
	}
	b.Expect(404, "template.not_found", "PATCH", path, `{"is_active":true}`)
	for body, field := range map[string]string{
		`{"template_name":"","template_content":"x"}`:                                  "template_name",
		`{"template_name":"n"}`:                                                        "template_content",
		`{"template_name":"n","template_content":"` + strings.Repeat("x", 1025) + `"}`: "template_content",
	} {
		if a := b.Expect(422, "request.invalid", "POST", "/api/v1/admin/template", body); a.Fields() != field {
			t.Errorf("%s: fields %q, want %q", body, a.Fields(), field)
		}
	}
	b.Expect(422, "request.invalid", "PATCH", path, `{}`)
	b.Expect(422, "request.invalid", "GET", "/api/v1/admin/template/first", nil)
	b.Expect(422, "request.invalid", "GET", "/api/v1/admin/template?cursor=nonsense", nil)
}

func TestS0_6_DefaultContentsCanBeCreatedChangedAndDeleted(t *testing.T) {
	b := apptest.New(t)
	made := apptest.Decode[api.DefaultContent](t, b.Expect(200, "", "POST", "/api/v1/admin/default-sms",
		`{"phone_number":"13800138000","content":"欢迎使用我们的服务","use_template":false}`))
	if made.IsSent || made.PhoneNumber != apptest.Phone {
		t.Errorf("made %+v", made)
	}
	path := fmt.Sprintf("/api/v1/admin/default-sms/%d", made.ID)
	if got := apptest.Decode[api.DefaultContent](t, b.Expect(200, "", "GET", path, nil)); got != made {
		t.Errorf("got %+v, want %+v", got, made)
	}
	if got := apptest.Decode[api.DefaultContent](t, b.Expect(200, "", "PATCH", path, `{"content":"欢迎回来"}`)); got.Content != "欢迎回来" || got.UseTemplate {
		t.Errorf("changed %+v", got)
	}
	b.SubmitBody(map[string]any{"phone_number": apptest.Phone})
	if got := apptest.Decode[api.DefaultContent](t, b.Expect(200, "", "GET", path, nil)); !got.IsSent {
		t.Errorf("after it was sent: %+v", got)
	}
	if got := apptest.Decode[api.DefaultContent](t, b.Expect(200, "", "POST", path+"/reset", nil)); got.IsSent {
		t.Errorf("after the reset: %+v", got)
	}
	b.SubmitBody(map[string]any{"phone_number": apptest.Phone})

	b.Expect(200, "", "POST", "/api/v1/admin/default-sms", `{"phone_number":"13900139000","content":"x"}`)
	if got := apptest.Decode[api.DefaultContentPage](t, b.Expect(200, "", "GET", "/api/v1/admin/default-sms?limit=1", nil)); len(got.Items) != 1 || got.NextCursor == nil {
		t.Errorf("first page %+v", got)
	}
	if got := apptest.Decode[api.DefaultContentPage](t, b.Expect(200, "", "GET", "/api/v1/admin/default-sms?phone_number=138-0013-8000", nil)); len(got.Items) != 1 || got.Items[0].ID != made.ID {
		t.Errorf("by phone number %+v", got)
	}
	b.Expect(200, "", "DELETE", path, nil)
	b.Expect(404, "default_content.not_found", "GET", path, nil)
	b.Expect(404, "default_content.not_found", "DELETE", path, nil)
	b.Expect(404, "default_content.not_found", "POST", path+"/reset", nil)
	b.Expect(404, "default_content.not_found", "PATCH", path, `{"content":"x"}`)
	b.Expect(422, "request.invalid", "POST", "/api/v1/admin/default-sms", `{"phone_number":"13800138000","content":""}`)
	b.Expect(422, "request.invalid", "POST", "/api/v1/admin/default-sms", `{"phone_number":"12345678901","content":"x"}`)
}

func TestS0_8_TheFirstActiveTemplateIsRendered(t *testing.T) {
	b := apptest.New(t)
	send := func(params string) apptest.Answer {
		return b.Call("POST", "/api/v1/sms/send", map[string]any{"phone_number": apptest.Phone, "content": params, "use_template": true})
	}
	if a := send("code=1"); a.Status != 409 || a.Body.Error.Reason != "template.none_active" {
		t.Errorf("without a template: %s", a.Raw)
	}
	// The active template with the smallest id is used.
	b.Expect(200, "", "POST", "/api/v1/admin/template", `{"template_name":"off","template_content":"off {code}","is_active":false}`)
	b.Expect(200, "", "POST", "/api/v1/admin/template", `{"template_name":"first","template_content":"您的验证码是{code}，用户{name}"}`)
	b.Expect(200, "", "POST", "/api/v1/admin/template", `{"template_name":"second","template_content":"second {code}"}`)

	a := send("code=123456&name=张三")
	if got := apptest.Decode[api.Submitted](t, a); got.FinalContent != "您的验证码是123456，用户张三" {
		t.Errorf("got %q", got.FinalContent)
	}
	before := b.Count("SELECT count(*) FROM tasks")
	for params, status := range map[string]int{
		"name=%E5%BC%A0%E4%B8%89&code=1+2": 200, // another order of the parameters, escapes, and a space
		"code=&name=":                      200, // an empty value is allowed
		"code=1":                           422, // a missing value is not allowed
		"code=%zz&name=x":                  422,
		"code=%00&name=x":                  422,
		"code=%ff&name=x":                  422,
	} {
		if a := send(params); a.Status != status {
			t.Errorf("%s: %d, want %d: %s", params, a.Status, status, a.Raw)
		} else if status == 422 && a.Fields() != "content" {
			t.Errorf("%s: fields %q", params, a.Fields())
		}
	}
	if n := b.Count("SELECT count(*) FROM tasks") - before; n != 2 {
		t.Errorf("%d tasks were stored, want 2", n)
	}
	a = send("code=" + strings.Repeat("1", 191) + "&name=x")
	if a.Status != 422 || a.Fields() != "content" {
		t.Errorf("rendered over 200 characters: %s", a.Raw)
	}
}

func TestS0_9_ADefaultContentIsSentOnce(t *testing.T) {
	b := apptest.New(t)
	a := b.Expect(422, "request.invalid", "POST", "/api/v1/sms/send", map[string]any{"phone_number": apptest.Phone})
	if a.Fields() != "content" {
		t.Errorf("fields %q", a.Fields())
	}
	b.Expect(200, "", "POST", "/api/v1/admin/default-sms", map[string]any{"phone_number": apptest.Phone, "content": "欢迎"})
	for i, body := range []string{`{"phone_number":"138-0013-8000"}`, `{"phone_number":"13800138000","content":""}`, `{"phone_number":"13800138000","content":null}`} {
		a := b.Call("POST", "/api/v1/sms/send", body)
		if i == 0 && apptest.Decode[api.Submitted](t, a).FinalContent != "欢迎" {
			t.Errorf("the first submission: %s", a.Raw)
		}
		if i > 0 && (a.Status != 409 || a.Body.Error.Reason != "default_content.already_sent") {
			t.Errorf("the repeat: %s", a.Raw)
		}
	}
}

func TestASpacedPlaceholderIsRefusedWhenATemplateIsStored(t *testing.T) {
	b := apptest.New(t)
	const path = "/api/v1/admin/template"
	a := b.Expect(422, "request.invalid", "POST", path, map[string]any{"template_name": "x", "template_content": "您的验证码是{ code }"})
	if a.Fields() != "template_content" || !strings.Contains(a.Raw, "{ code }") {
		t.Errorf("got %s", a.Raw)
	}
	id := apptest.Decode[api.Template](t, b.Expect(200, "", "POST", path, map[string]any{"template_name": "x", "template_content": "您的验证码是{code}"})).ID
	b.Expect(422, "request.invalid", "PATCH", fmt.Sprint(path, "/", id), map[string]any{"template_content": "{a b}"})
	// A template that was stored before this check existed still produces the same text, and its other fields can be changed.
	b.Exec("UPDATE templates SET template_content = '{ code } {code}'")
	b.Expect(200, "", "PATCH", fmt.Sprint(path, "/", id), map[string]any{"template_name": "y"})
	if got := b.SubmitBody(map[string]any{"phone_number": apptest.Phone, "content": "code=1", "use_template": true}).FinalContent; got != "{ code } 1" {
		t.Errorf("got %q", got)
	}
}

// The users of a company send the default contents of their own company, even if another company has a default content for the same number.
func TestDefaultContentsBelongToOneCompany(t *testing.T) {
	w := apptest.NewTwoCompanies(t)
	const path = "/api/v1/admin/default-sms"
	store := func(no any, text string) api.DefaultContent {
		body := map[string]any{"phone_number": apptest.Phone, "content": text}
		if no != nil {
			body["company_no"] = no
		}
		return apptest.Decode[api.DefaultContent](t, w.Expect(200, "", "POST", path, body))
	}
	general, acmes, betas := store(nil, "of the default company"), store("acme", "of acme"), store("beta", "of beta")
	if general.CompanyNo != "default" || acmes.CompanyNo != "acme" {
		t.Errorf("%+v %+v", general, acmes)
	}
	w.Expect(409, "default_content.exists", "POST", path, map[string]any{"phone_number": "138 0013 8000", "content": "x", "company_no": "acme"})
	if a := w.Expect(422, "request.invalid", "POST", path, map[string]any{"phone_number": apptest.Phone, "content": "x", "company_no": "nobody"}); a.Fields() != "company_no" {
		t.Errorf("wrong fields %q", a.Fields())
	}
	send := map[string]any{"phone_number": apptest.Phone}
	for _, c := range []struct {
		headers []string
		want    string
	}{{w.Beta, "of beta"}, {w.Acme, "of acme"}, {nil, "of the default company"}} {
		if got := apptest.Decode[api.Submitted](t, w.Expect(200, "", "POST", "/api/v1/sms/send?dry_run=true", send, c.headers...)).FinalContent; got != c.want {
			t.Errorf("a dry run shows %q, want %q", got, c.want)
		}
		if got := apptest.Decode[api.Submitted](t, w.Expect(200, "", "POST", "/api/v1/sms/send", send, c.headers...)).FinalContent; got != c.want {
			t.Errorf("sent %q, want %q", got, c.want)
		}
		w.Expect(409, "default_content.already_sent", "POST", "/api/v1/sms/send", send, c.headers...)
	}
	// A company without a default content does not receive the default content of another company.
	if a := w.Expect(422, "request.invalid", "POST", "/api/v1/sms/send", send, w.AddCompany("gamma", 1)...); a.Fields() != "content" {
		t.Errorf("wrong fields %q", a.Fields())
	}
	listed := apptest.Decode[api.DefaultContentPage](t, w.Expect(200, "", "GET", path+"?company_no=beta", nil)).Items
	if len(listed) != 1 || listed[0].ID != betas.ID {
		t.Errorf("listed %+v", listed)
	}
	if all := apptest.Decode[api.DefaultContentPage](t, w.Expect(200, "", "GET", path+"?phone_number="+url.QueryEscape("+86 13800138000"), nil)).Items; len(all) != 3 {
		t.Errorf("listed %+v", all)
	}
	w.Expect(404, "company.not_found", "GET", path+"?company_no=nobody", nil)
	w.Expect(200, "", "POST", fmt.Sprint(path, "/", acmes.ID, "/reset"), nil)
	w.Expect(409, "default_content.already_sent", "POST", "/api/v1/sms/send", send, w.Beta...)
	w.Expect(200, "", "POST", "/api/v1/sms/send", send, w.Acme...)
}
