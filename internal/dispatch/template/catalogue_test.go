package template_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
)

const templatePath = "/api/v1/admin/template"

// add adds a template with a text.
func add(b *apptest.Bundle, content string, more map[string]any) api.Template {
	b.T.Helper()
	body := map[string]any{"template_name": "n", "template_content": content}
	maps.Copy(body, more)
	return apptest.Decode[api.Template](b.T, b.Expect(200, "", "POST", templatePath, body))
}

func pathOf(t api.Template) string { return fmt.Sprint(templatePath, "/", t.ID) }

// chosen returns a message that is rendered with a template.
func chosen(no string, params any, more map[string]any) map[string]any {
	body := map[string]any{"phone_number": apptest.Phone, "template_no": no, "params": params}
	maps.Copy(body, more)
	return body
}

// fields lists the invalid fields of an answer with their messages.
func fields(a apptest.Answer) string {
	var all []string
	for _, f := range a.Body.Error.Fields {
		all = append(all, f.Field+" "+f.Message)
	}
	return strings.Join(all, "; ")
}

func TestS3_10_AMessageChoosesItsTemplate(t *testing.T) {
	b := apptest.New(t)
	b.Expect(200, "", "POST", templatePath, `{"template_name":"first","template_content":"first {code}"}`)
	add(b, "您的验证码是{code}，用户{name}", map[string]any{"template_no": "login", "translations": map[string]string{"en": "{name}, {code}"}, "language": "zh"})
	for name, c := range map[string]struct{ body, want, log any }{
		"by name":          {chosen("login", map[string]any{"code": 123456, "name": "张三"}, nil), "您的验证码是123456，用户张三", `{"code":123456,"name":"张三"}`},
		"in order":         {chosen("login", "1;张三", nil), "您的验证码是1，用户张三", "1;张三"},
		"in a language":    {chosen("login", "1;张三", map[string]any{"language": "en-GB"}), "张三, 1", "1;张三"},
		"null is nothing":  {chosen("login", "1;x", map[string]any{"content": nil, "use_template": nil, "language": nil}), "您的验证码是1，用户x", "1;x"},
		"an empty content": {chosen("login", "1;x", map[string]any{"content": "", "use_template": false}), "您的验证码是1，用户x", "1;x"},
		"the first one":    {map[string]any{"phone_number": apptest.Phone, "content": "code=7", "use_template": true}, "first 7", "code=7"},
		"no number":        {map[string]any{"phone_number": apptest.Phone, "content": "x", "template_no": nil, "params": nil, "language": nil}, "x", "x"},
		"many digits": {
			`{"phone_number":"13800138000","template_no":"login","params":{"code": 12345678901234567890.10, "name": ""}}`,
			"您的验证码是12345678901234567890.10，用户", `{"code":12345678901234567890.10,"name":""}`,
		},
		"a semicolon":       {chosen("login", map[string]any{"code": "a;b", "name": ""}, nil), "您的验证码是a;b，用户", `{"code":"a;b","name":""}`},
		"no second reading": {chosen("login", "{name};{code}", nil), "您的验证码是{name}，用户{code}", "{name};{code}"},
	} {
		if got := apptest.Decode[api.Submitted](t, b.Expect(200, "", "POST", "/api/v1/sms/send?dry_run=true", c.body)); got.FinalContent != c.want || got.TaskID != "" {
			t.Errorf("%s: a dry run gives %+v", name, got)
		}
		made := b.SubmitBody(c.body)
		if made.FinalContent != c.want || b.Task(made.TaskID).Content != c.want {
			t.Errorf("%s: %q, want %q", name, made.FinalContent, c.want)
		}
		if n := b.Count("SELECT count(*) FROM receive_logs WHERE task_id = $1 AND content = $2 AND use_template = $3", made.TaskID, c.log, name != "no number"); n != 1 {
			t.Errorf("%s: the log does not show %q", name, c.log)
		}
	}
}

// One list can contain messages with the first active template and messages with a chosen template. An invalid message does not cause the rejection of other
// messages.
func TestS3_10_BatchCanContainSeveralTemplates(t *testing.T) {
	b := apptest.New(t)
	add(b, "first {code}", nil)
	off := add(b, "off", map[string]any{"template_no": "off", "status": "draft"})
	add(b, "second {n}", map[string]any{"template_no": "second"})
	messages := []any{
		chosen("second", map[string]any{"n": 1}, nil),
		map[string]any{"phone_number": apptest.Phone, "content": "code=2", "use_template": true},
		chosen("none", "1", nil),
		chosen("second", map[string]any{"m": 1}, nil),
		chosen("off", nil, nil),
		map[string]any{"phone_number": apptest.Phone, "content": "plain"},
		chosen("second", map[string]any{"n": map[string]any{"deep": 1}}, nil),
		chosen("second", "3", map[string]any{"dedup_key": "k"}),
		chosen("second", "4", map[string]any{"dedup_key": "k"}),
	}
	want := []string{"200 second 1", "200 first 2", "422 template_no", "422 params,params", "409 ", "200 plain", "422 params.n", "200 second 3", "200 second 3"}
	for _, headers := range [][]string{nil, {apptest.KeyHeader, "key"}} {
		b.Exec("DELETE FROM dedup_keys")
		var got []string
		for _, item := range apptest.Decode[api.SentBatch](t, b.Expect(200, "", "POST", apptest.BatchPath, map[string]any{"messages": messages}, headers...)).Items {
			text := ""
			if item.FinalContent != nil {
				text = *item.FinalContent
			} else if item.Error.Fields != nil {
				var names []string
				for _, f := range *item.Error.Fields {
					names = append(names, f.Field)
				}
				text = strings.Join(names, ",")
			}
			got = append(got, fmt.Sprint(item.Code, " ", text))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", headers, got, want)
		}
	}
	if n := b.Count("SELECT count(*) FROM receive_logs WHERE status_code = 422 AND content = '1' AND use_template AND request_data ->> 'template_no' = 'none'"); n != 2 {
		t.Errorf("%d refusals show their parameters, want 2", n)
	}
	b.Expect(409, "template.not_active", "POST", "/api/v1/sms/send", chosen(off.TemplateNo, nil, nil))
}

func TestS3_10_FieldsThatExcludeEachOtherAreRefused(t *testing.T) {
	b := apptest.New(t)
	add(b, "{a}{b}", map[string]any{"template_no": "t"})
	long := strings.Repeat("x", 1025)
	for name, c := range map[string]struct {
		body   any
		fields string
		says   string
	}{
		"content":            {chosen("t", "1;2", map[string]any{"content": "x"}), "content", "template_no"},
		"use_template":       {chosen("t", "1;2", map[string]any{"use_template": true}), "use_template", "template_no"},
		"no template_no":     {map[string]any{"phone_number": apptest.Phone, "content": "x", "params": "1"}, "params", "template_no"},
		"a language alone":   {map[string]any{"phone_number": apptest.Phone, "content": "x", "language": "en"}, "language", "template_no"},
		"no parameters":      {chosen("t", nil, nil), "params", "a, b"},
		"one is missing":     {chosen("t", map[string]any{"a": "1"}, nil), "params", "b"},
		"one is unknown":     {chosen("t", map[string]any{"a": "1", "b": "2", "c": "3"}, nil), "params", "c"},
		"too many":           {chosen("t", "1;2;3", nil), "params", "a, b"},
		"nested":             {chosen("t", map[string]any{"a": map[string]any{"x": 1}, "b": "2"}, nil), "params.a", "string, number"},
		"a list":             {chosen("t", []any{"1", "2"}, nil), "params", "string, object"},
		"a number":           {chosen("t", 1, nil), "params", "string, object"},
		"null":               {chosen("t", map[string]any{"a": nil, "b": "2"}, nil), "params.a", "string, number"},
		"a NUL":              {`{"phone_number":"13800138000","template_no":"t","params":{"a":"\u0000","b":"2"}}`, "params.a", ""},
		"a NUL in a name":    {`{"phone_number":"13800138000","template_no":"t","params":{"a\u0000":"1","b":"2"}}`, "params.a", ""},
		"too long":           {chosen("t", map[string]any{"a": long, "b": "2"}, nil), "params.a", "1024"},
		"too long in order":  {chosen("t", long+long+";", nil), "params", "2048"},
		"too long together":  {chosen("t", map[string]any{"a": long[:1000], "b": long[:1000]}, nil), "content", ""},
		"an unknown number":  {chosen("T", "1;2", nil), "template_no", ""},
		"a bad language":     {chosen("t", "1;2", map[string]any{"language": "zh_CN"}), "language", ""},
		"an empty number":    {chosen("", "1;2", nil), "template_no", ""},
		"blank":              {chosen("t", " ; ", nil), "content", ""},
		"an unknown country": {chosen("t", "1;2", map[string]any{"phone_number": "12345678901"}), "phone_number", ""},
	} {
		a := b.Expect(422, "request.invalid", "POST", "/api/v1/sms/send", c.body)
		if a.Fields() != c.fields || !strings.Contains(fields(a), c.says) {
			t.Errorf("%s: %s", name, fields(a))
		}
	}
	if n := b.Count("SELECT count(*) FROM tasks"); n != 0 {
		t.Errorf("%d tasks were stored", n)
	}
}

// Two companies have templates of the same scene. A company can neither use the other company's template nor find out that it exists.
func TestS3_10_ATemplateOfAnotherCompanyIsHidden(t *testing.T) {
	b := apptest.New(t)
	acme, beta := b.AddCompany("acme", 1), b.AddCompany("beta", 1)
	add(b, "acme {n}", map[string]any{"template_no": "acme-login", "scene": "login", "companies": []string{"acme"}})
	add(b, "beta {n}", map[string]any{"template_no": "beta-login", "scene": "login", "companies": []string{"beta"}, "status": "draft"})
	add(b, "all {n}", map[string]any{"template_no": "all-login", "scene": "login", "companies": []string{}})
	send := func(no string, who []string) apptest.Answer {
		return b.Call("POST", "/api/v1/sms/send", chosen(no, "1", nil), append([]string{"X-Request-Id", "same"}, who...)...)
	}
	for no, want := range map[string][2]int{"acme-login": {200, 422}, "beta-login": {422, 409}, "all-login": {200, 200}, "none": {422, 422}} {
		for i, who := range [][]string{acme, beta} {
			a := send(no, who)
			if a.Status != want[i] {
				t.Errorf("%s: %d, want %d: %s", no, a.Status, want[i], a.Raw)
			}
			if a.Status == 422 && a.Raw != send("none", who).Raw {
				t.Errorf("%s is answered with %s", no, a.Raw)
			}
		}
	}
	list := func(query string) (numbers []string) {
		for _, item := range apptest.Decode[api.TemplatePage](t, b.Expect(200, "", "GET", templatePath+query, nil)).Items {
			numbers = append(numbers, item.TemplateNo)
		}
		return numbers
	}
	for query, want := range map[string]string{
		"?scene=login": "[all-login beta-login acme-login]", "?scene=none": "[]", "?company_no=acme": "[all-login acme-login]",
		"?scene=login&company_no=beta&status=draft": "[beta-login]", "?template_no=acme-login": "[acme-login]", "?status=voided": "[]",
	} {
		if got := fmt.Sprint(list(query)); got != want {
			t.Errorf("%s lists %s, want %s", query, got, want)
		}
	}
	b.Expect(409, "in_use", "DELETE", "/api/v1/admin/companies/acme", nil)
}

func TestS3_10_ATemplateWithoutANumberGetsAGeneratedNumber(t *testing.T) {
	b := apptest.New(t)
	first := add(b, "x", nil)
	if want := fmt.Sprint("template-", first.ID); first.TemplateNo != want {
		t.Errorf("got %q, want %q", first.TemplateNo, want)
	}
	if got := b.SubmitBody(chosen(first.TemplateNo, nil, nil)).FinalContent; got != "x" {
		t.Errorf("got %q", got)
	}
	add(b, "y", map[string]any{"template_no": "MOD001"})
	b.Expect(409, "exists", "POST", templatePath, `{"template_name":"n","template_content":"c","template_no":"MOD001"}`)
	for _, no := range []string{first.TemplateNo, "template-99", "template-007"} {
		a := b.Expect(422, "request.invalid", "POST", templatePath, map[string]any{"template_name": "n", "template_content": "c", "template_no": no})
		if a.Fields() != "template_no" {
			t.Errorf("%s: fields %q", no, a.Fields())
		}
	}
	for _, no := range []string{"", ".", "..", "a b", "a/b", strings.Repeat("x", 51)} {
		b.Expect(422, "request.invalid", "POST", templatePath, map[string]any{"template_name": "n", "template_content": "c", "template_no": no})
	}
	b.Expect(422, "request.invalid", "PATCH", pathOf(first), `{"template_no":"other"}`)
	b.Expect(200, "", "DELETE", pathOf(first), nil)
	if next := add(b, "z", nil); next.TemplateNo == first.TemplateNo {
		t.Error("a number was given twice")
	}
}

// Each state can change only to the states that the contract allows.
func TestS3_10_ATemplateChangesOnlyBetweenAllowedStates(t *testing.T) {
	next := map[string]string{
		"draft": "in_review voided", "in_review": "draft active voided", "active": "disabled voided", "disabled": "active draft voided",
	}
	way := map[string][]string{"draft": nil, "in_review": {"in_review"}, "active": {"in_review", "active"}, "disabled": {"in_review", "active", "disabled"}, "voided": {"voided"}}
	b := apptest.New(t)
	for from := range way {
		for to := range way {
			made := add(b, "{a}", map[string]any{"status": "draft"})
			for _, status := range way[from] {
				b.Expect(200, "", "PATCH", pathOf(made), map[string]any{"status": status})
			}
			a := b.Call("PATCH", pathOf(made), map[string]any{"status": to})
			isAllowed := from != "voided" && (from == to || slices.Contains(strings.Fields(next[from]), to))
			switch {
			case isAllowed:
				if got := apptest.Decode[api.Template](t, a); string(got.Status) != to || got.IsActive != (to == "active") || got.Version != 1 {
					t.Errorf("%s to %s: %s", from, to, a.Raw)
				}
			case from == "voided":
				if a.Status != 409 || a.Body.Error.Reason != "template.voided" {
					t.Errorf("voided to %s: %s", to, a.Raw)
				}
			default:
				names := strings.ReplaceAll(next[from], " ", ", ")
				if a.Status != 409 || a.Body.Error.Reason != "template.wrong_status" || !strings.HasSuffix(fields(a), ": "+names) {
					t.Errorf("%s to %s: %s", from, to, a.Raw)
				}
			}
			want := 409
			if stored := apptest.Decode[api.Template](t, b.Expect(200, "", "GET", pathOf(made), nil)); stored.Status == api.TemplateActive {
				want = 200
			}
			if a := b.Call("POST", "/api/v1/sms/send", chosen(made.TemplateNo, "1", nil)); a.Status != want || want == 409 && a.Body.Error.Reason != "template.not_active" {
				t.Errorf("%s to %s: a message gets %s", from, to, a.Raw)
			}
		}
	}
	b.Expect(422, "request.invalid", "POST", templatePath, `{"template_name":"n","template_content":"c","status":"voided"}`)
}

// is_active enables and disables a template as documented.
func TestS0_5_IsActiveEnablesAndDisablesATemplate(t *testing.T) {
	b := apptest.New(t)
	if made := add(b, "x", nil); made.Status != api.TemplateActive || !made.IsActive {
		t.Errorf("%+v", made)
	}
	made := add(b, "x", map[string]any{"is_active": false})
	for _, c := range []struct {
		body string
		want api.TemplateStatus
	}{
		{`{"is_active":false}`, "disabled"}, {`{"is_active":true}`, "active"}, {`{"is_active":true}`, "active"}, {`{"is_active":false}`, "disabled"},
		{`{"status":"draft"}`, "draft"}, {`{"is_active":false,"template_name":"m"}`, "draft"}, {`{"status":"in_review"}`, "in_review"},
		{`{"is_active":false}`, "in_review"}, {`{"is_active":true}`, "active"},
	} {
		if got := apptest.Decode[api.Template](t, b.Expect(200, "", "PATCH", pathOf(made), c.body)); got.Status != c.want || got.IsActive != (c.want == "active") {
			t.Errorf("%s: %s", c.body, got.Status)
		}
	}
	for method, path := range map[string]string{"POST": templatePath, "PATCH": pathOf(made)} {
		body := `{"is_active":true,"status":"active"}`
		if method == "POST" {
			body = `{"template_name":"n","template_content":"c","is_active":true,"status":"active"}`
		}
		if a := b.Expect(422, "request.invalid", method, path, body); a.Fields() != "is_active" {
			t.Errorf("fields %q", a.Fields())
		}
	}
	draft := add(b, "x", map[string]any{"status": "draft"})
	b.Expect(409, "template.wrong_status", "PATCH", pathOf(draft), `{"is_active":true}`)
	b.Expect(200, "", "PATCH", pathOf(made), `{"status":"voided"}`)
	for _, body := range []string{`{"is_active":true}`, `{"is_active":false}`, `{"template_name":"x"}`, `{"template_content":"y"}`} {
		b.Expect(409, "template.voided", "PATCH", pathOf(made), body)
	}
	b.Expect(200, "", "DELETE", pathOf(made), nil)
}

// A template that is in review cannot be changed, so that the approved text is the reviewed text.
func TestS3_10_TextsInReviewCannotBeChanged(t *testing.T) {
	b := apptest.New(t)
	made := add(b, "{a}", map[string]any{"status": "in_review", "sign": "公司"})
	for _, body := range []string{
		`{"template_content":"{b}"}`, `{"template_content":"{b}","status":"active"}`, `{"sign":null}`, `{"language":"en"}`, `{"translations":{"en":"{a}"}}`, `{"is_active":true,"sign":"x"}`,
	} {
		b.Expect(409, "template.in_review", "PATCH", pathOf(made), body)
	}
	got := apptest.Decode[api.Template](t, b.Expect(200, "", "PATCH", pathOf(made), `{"template_name":"m","purpose":"p","template_content":"{a}"}`))
	if got.Version != 1 || got.TemplateName != "m" || got.Status != api.TemplateInReview {
		t.Errorf("%+v", got)
	}
	got = apptest.Decode[api.Template](t, b.Expect(200, "", "PATCH", pathOf(made), `{"template_content":"{b}","status":"draft"}`))
	if got.Version != 2 || got.Status != api.TemplateDraft {
		t.Errorf("%+v", got)
	}
}

func TestS3_10_EarlierVersionsAreStored(t *testing.T) {
	b := apptest.New(t)
	editor := b.AddUser("editor", "admin", nil)
	made := add(b, "one {a}", map[string]any{"template_no": "t", "language": "zh"})
	send := func() string { return b.SubmitBody(chosen("t", "1", map[string]any{"language": "en"})).TaskID }
	first := send()
	for _, c := range []struct {
		body    string
		version int64
	}{
		{`{"template_content":"two {a}","version":1}`, 2}, {`{"template_name":"m","scene":"s","companies":[],"send_type":"realtime","is_active":true}`, 2},
		{`{"template_content":"two {a}"}`, 2}, {`{"translations":{"en":"en {a}"}}`, 3}, {`{"sign":"公司"}`, 4}, {`{"language":null}`, 5}, {`{"translations":{},"sign":null,"language":"zh"}`, 6},
	} {
		if got := apptest.Decode[api.Template](t, b.Expect(200, "", "PATCH", pathOf(made), c.body, editor...)); got.Version != c.version {
			t.Errorf("%s: version %d, want %d", c.body, got.Version, c.version)
		}
	}
	b.Expect(409, "version.stale", "PATCH", pathOf(made), `{"template_content":"x","version":5}`)
	var got []string
	for cursor := ""; ; {
		page := apptest.Decode[api.TemplateVersionPage](t, b.Expect(200, "", "GET", pathOf(made)+"/versions?limit=4"+cursor, nil))
		for _, v := range page.Items {
			got = append(got, fmt.Sprintln(v.Version, v.TemplateContent, text(v.Language), v.Translations, text(v.Sign), text(v.CreatedBy)))
		}
		if page.NextCursor == nil {
			break
		}
		cursor = "&cursor=" + *page.NextCursor
	}
	want := []string{
		"6 two {a} zh map[]  editor\n", "5 two {a}  map[en:en {a}] 公司 editor\n", "4 two {a} zh map[en:en {a}] 公司 editor\n",
		"3 two {a} zh map[en:en {a}]  editor\n", "2 two {a} zh map[]  editor\n", "1 one {a} zh map[]  " + apptest.Username + "\n",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	last := send()
	for id, version := range map[string]int64{first: 1, last: 6} {
		events := apptest.Decode[[]api.TimelineEvent](t, b.Expect(200, "", "GET", "/api/v1/sms/task/"+id+"/timeline", nil))
		from := events[0].Template
		if from == nil || from.TemplateNo != "t" || from.Version != version || from.ID != made.ID || text(from.Language) != "zh" {
			t.Errorf("the timeline of %s shows %+v", id, from)
		}
		if n := b.Count("SELECT count(*) FROM receive_logs WHERE task_id = $1 AND (request_data #>> '{template,version}')::int = $2", id, version); n != 1 {
			t.Errorf("the log of %s does not name the version", id)
		}
	}
	plain := apptest.Decode[[]api.TimelineEvent](t, b.Expect(200, "", "GET", "/api/v1/sms/task/"+b.Submit("x")+"/timeline", nil))
	if plain[0].Template != nil {
		t.Errorf("a message without a template names %+v", plain[0].Template)
	}
	b.Expect(404, "template.not_found", "GET", templatePath+"/999/versions", nil)
	b.Expect(200, "", "DELETE", pathOf(made), nil)
	b.Expect(404, "template.not_found", "GET", pathOf(made)+"/versions", nil)
	if n := b.Count("SELECT count(*) FROM template_versions"); n != 0 {
		t.Errorf("%d versions are left", n)
	}
}

func text(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}

// Concurrent changes create consecutive versions.
func TestConcurrentChangesOfATemplateCreateConsecutiveVersions(t *testing.T) {
	b := apptest.New(t)
	made := add(b, "x", nil)
	apptest.Together(8, func(i int) {
		b.Call("PATCH", pathOf(made), map[string]any{"template_content": fmt.Sprint("x", i), "template_name": fmt.Sprint(i)})
		b.Call("PATCH", pathOf(made), map[string]any{"scene": fmt.Sprint("s", i)})
	})
	if got := apptest.Decode[api.Template](t, b.Expect(200, "", "GET", pathOf(made), nil)); got.Version != 9 || got.TemplateContent != "x"+got.TemplateName || got.Scene == "" {
		t.Errorf("%+v", got)
	}
	if n := b.Count("SELECT count(DISTINCT template_content) FROM template_versions"); n != 9 {
		t.Errorf("%d versions", n)
	}
}

func TestS3_10_TranslationsMustHaveThePlaceholdersOfTheText(t *testing.T) {
	b := apptest.New(t)
	for name, c := range map[string]struct {
		body map[string]any
		want string // the invalid fields
		says string
	}{
		"the same in another order":      {map[string]any{"translations": map[string]string{"en": "{b} {a} {b}", "zh-TW": "{a}{b}"}}, "", ""},
		"one only in a translation":      {map[string]any{"translations": map[string]string{"en": "{a} {b} {c}"}}, "translations.en", ": c"},
		"one is missing":                 {map[string]any{"translations": map[string]string{"en": "{a}"}}, "translations.en", ": b"},
		"others, in two languages":       {map[string]any{"translations": map[string]string{"en": "{a} {c}", "fr": "{b}"}}, "translations.en,translations.fr", ": b, c"},
		"a spaced one":                   {map[string]any{"translations": map[string]string{"en": "{a} { b }"}}, "translations.en", "{ b }"},
		"in the language of the text":    {map[string]any{"language": "en", "translations": map[string]string{"en": "{a} {b}"}}, "translations.en", ""},
		"no language":                    {map[string]any{"translations": map[string]string{"english": "{a} {b}"}}, "translations.english", ""},
		"an empty text":                  {map[string]any{"translations": map[string]string{"en": ""}}, "translations.en", ""},
		"too long":                       {map[string]any{"translations": map[string]string{"en": strings.Repeat("x", 1025)}}, "translations.en", "1024"},
		"no text":                        {map[string]any{"translations": map[string]any{"en": 1}}, "translations.en", ""},
		"a language of no right form":    {map[string]any{"language": "zh_CN"}, "language", ""},
		"a placeholder in two spellings": {map[string]any{"template_content": "{t\u00ean}", "translations": map[string]string{"en": "{te\u0302n}"}}, "", ""},
	} {
		body := map[string]any{"template_name": "n", "template_content": "{a}{b}"}
		maps.Copy(body, c.body)
		a := b.Call("POST", templatePath, body)
		if c.want == "" && a.Status != 200 || c.want != "" && (a.Status != 422 || a.Fields() != c.want || !strings.Contains(fields(a), c.says)) {
			t.Errorf("%s: %s", name, a.Raw)
		}
	}
	made := add(b, "{a}", map[string]any{"translations": map[string]string{"en": "en {a}"}, "language": "zh"})
	for body, want := range map[string]string{
		`{"template_content":"{b}"}`: "translations.en", `{"language":"en"}`: "translations.en", `{"template_content":"{a}!"}`: "",
		`{"template_content":"{b}","translations":{"en":"en {b}"}}`: "", `{"template_content":"x","translations":{}}`: "",
	} {
		a := b.Call("PATCH", pathOf(made), body)
		if want == "" && a.Status != 200 || want != "" && (a.Status != 422 || a.Fields() != want) {
			t.Errorf("%s: %s", body, a.Raw)
		}
		b.Exec(`UPDATE templates SET template_content = '{a}', translations = '{"en": "en {a}"}', language = 'zh' WHERE id = $1`, made.ID)
	}
}

// S3.5: the signature of a template satisfies the requirement of a signature, and counts for the segments.
func TestS3_5_TheSignatureOfATemplateIsAdded(t *testing.T) {
	b := apptest.New(t)
	b.AddCountry("CN", "86", map[string]any{"signature_required": true})
	signed := add(b, "{text}", map[string]any{"template_no": "signed", "sign": "示例公司"})
	plain := add(b, "{text}", map[string]any{"template_no": "plain"})
	for name, c := range map[string]struct {
		body     map[string]any
		want     string
		segments int16
	}{
		"of the template":                    {chosen("signed", "x", nil), "【示例公司】x", 1},
		"of the request":                     {chosen("signed", "x", map[string]any{"sign": "本次"}), "【本次】x", 1},
		"of the request, without another":    {chosen("plain", "x", map[string]any{"sign": "本次"}), "【本次】x", 1},
		"the first template":                 {map[string]any{"phone_number": apptest.Phone, "content": "text=x", "use_template": true}, "【示例公司】x", 1},
		"a text that fills its segment":      {chosen("signed", strings.Repeat("短", 64), nil), "【示例公司】" + strings.Repeat("短", 64), 1},
		"a signature that makes one more":    {chosen("signed", strings.Repeat("短", 65), nil), "【示例公司】" + strings.Repeat("短", 65), 2},
		"a signature that makes it Unicode":  {chosen("signed", strings.Repeat("x", 65), nil), "【示例公司】" + strings.Repeat("x", 65), 2},
		"the longest text, with a signature": {chosen("signed", strings.Repeat("短", 200), nil), "【示例公司】" + strings.Repeat("短", 200), 4},
	} {
		dry := apptest.Decode[api.Submitted](t, b.Expect(200, "", "POST", "/api/v1/sms/send?dry_run=true", c.body))
		made := b.SubmitBody(c.body)
		task := b.Task(made.TaskID)
		if made.FinalContent != c.want || dry.FinalContent != c.want || task.Segments != c.segments || *dry.Segments != int(c.segments) || "【"+text(task.Sign)+"】"+task.Content != c.want {
			t.Errorf("%s: %q with %d segments, %+v", name, made.FinalContent, task.Segments, dry)
		}
	}
	if a := b.Expect(422, "request.invalid", "POST", "/api/v1/sms/send", chosen("plain", "x", nil)); a.Fields() != "sign" {
		t.Errorf("fields %q", a.Fields())
	}
	// A channel requires a signature in the same way as a country.
	b.Expect(200, "", "PATCH", "/api/v1/admin/countries/CN", `{"signature_required":false}`)
	b.Expect(200, "", "POST", "/api/v1/sms/send", chosen("plain", "x", nil))
	b.Expect(200, "", "PATCH", "/api/v1/admin/channels/sms", `{"signature_required":true}`)
	b.Expect(422, "request.invalid", "POST", "/api/v1/sms/send", chosen("plain", "x", nil))
	b.Expect(200, "", "POST", "/api/v1/sms/send", chosen("signed", "x", nil))
	// A default content that contains parameters also gets the signature, as a single message and in a list.
	b.Expect(200, "", "POST", "/api/v1/admin/default-sms", map[string]any{"phone_number": apptest.Phone, "content": "text=欢迎", "use_template": true})
	for i, headers := range [][]string{nil, {apptest.KeyHeader, "key"}} {
		if got := *apptest.Decode[api.SentBatch](t, b.Expect(200, "", "POST", apptest.BatchPath, map[string]any{"messages": []any{map[string]any{"phone_number": apptest.Phone}}}, headers...)).Items[0].FinalContent; got != "【示例公司】欢迎" {
			t.Errorf("%d: %q", i, got)
		}
		b.Exec("UPDATE default_contents SET is_sent = false")
	}
	b.Expect(200, "", "PATCH", pathOf(signed), `{"sign":null}`)
	if a := b.Expect(422, "request.invalid", "POST", "/api/v1/sms/send", map[string]any{"phone_number": apptest.Phone}); a.Fields() != "sign" {
		t.Errorf("fields %q", a.Fields())
	}
	if n := b.Count("SELECT count(*) FROM default_contents WHERE is_sent"); n != 0 {
		t.Error("a default content that was refused was consumed")
	}
	b.Expect(200, "", "PATCH", pathOf(plain), `{"sign":"甲"}`)
	for sign, status := range map[string]int{"": 422, strings.Repeat("长", 20): 200, strings.Repeat("长", 21): 422, "【": 422} {
		if a := b.Call("PATCH", pathOf(plain), map[string]any{"sign": sign}); a.Status != status {
			t.Errorf("%q: %s", sign, a.Raw)
		}
	}
}

// A template can be longer than most messages. Its rendered messages, including the signature, must fit the limits of the message type.
func TestS3_10_ARenderedMessageObeysTheLimitsOfItsType(t *testing.T) {
	b := apptest.New(t)
	a := func(n int) string { return strings.Repeat("短", n) }
	free := add(b, "{x}", map[string]any{"template_no": "free"})
	for _, n := range []int{201, 1024} {
		made := add(b, a(n), map[string]any{"template_no": fmt.Sprint("of-", n)})
		if got := b.Call("POST", "/api/v1/sms/send", chosen(made.TemplateNo, nil, nil)); got.Status != 422 || got.Fields() != "content" || !strings.Contains(fields(got), fmt.Sprint(n)) || !strings.Contains(fields(got), "200") {
			t.Errorf("%d characters: %s", n, got.Raw)
		}
	}
	for _, path := range []string{templatePath, pathOf(free)} {
		method := map[bool]string{true: "POST", false: "PATCH"}[path == templatePath]
		body := map[string]any{"template_content": a(1025)}
		if method == "POST" {
			body["template_name"] = "n"
		}
		if got := b.Expect(422, "request.invalid", method, path, body); got.Fields() != "template_content" {
			t.Errorf("fields %q", got.Fields())
		}
	}
	b.SubmitBody(chosen("free", a(200), nil))
	b.Expect(422, "request.invalid", "POST", "/api/v1/sms/send", chosen("free", a(201), nil))
	b.Expect(200, "", "PUT", "/api/v1/admin/settings/sms", map[string]any{"max_content_marketing": 1024, "max_segments_marketing": 3})
	marketing := map[string]any{"message_type": "marketing"}
	for n, status := range map[int]int{200: 200, 201: 200, 202: 422, 1024: 422} { // 201 characters are three segments
		for _, path := range []string{"/api/v1/sms/send", "/api/v1/sms/send?dry_run=true"} {
			if got := b.Call("POST", path, chosen("free", a(n), marketing)); got.Status != status || status == 422 && got.Fields() != "content" {
				t.Errorf("%d characters: %s", n, got.Raw)
			}
		}
		got := b.Call("POST", pathOf(free)+"/preview", map[string]any{"params": a(n), "message_type": "marketing"})
		if got.Status != status || status == 422 && got.Fields() != "content" {
			t.Errorf("a preview of %d characters: %s", n, got.Raw)
		}
		got = b.Call("POST", pathOf(free)+"/test", map[string]any{"params": a(n), "message_type": "marketing", "phone_number": apptest.Phone})
		if got.Status != status || status == 422 && got.Fields() != "content" {
			t.Errorf("a trial of %d characters: %s", n, got.Raw)
		}
	}
	// The signature of the template causes a fourth segment.
	b.Expect(200, "", "PATCH", pathOf(free), `{"sign":"公司"}`)
	if got := b.Expect(422, "request.invalid", "POST", "/api/v1/sms/send", chosen("free", a(201), marketing)); got.Fields() != "content" || !strings.Contains(fields(got), "4") {
		t.Errorf("%s", got.Raw)
	}
	b.Expect(422, "request.invalid", "POST", pathOf(free)+"/preview", map[string]any{"params": a(201), "message_type": "marketing"})
	b.Expect(200, "", "PUT", "/api/v1/admin/settings/sms", map[string]any{"max_segments_marketing": 16})
	task := b.Task(b.SubmitBody(chosen("of-1024", nil, marketing)).TaskID)
	if task.Content != a(1024) || task.Segments != 16 {
		t.Errorf("%d segments", task.Segments)
	}
}

// S3.2: the send type of the chosen template applies, and not the send type of the first template.
func TestS3_2_ChosenTemplateCanScheduleItsMessages(t *testing.T) {
	b := apptest.New(t)
	add(b, "first", nil)
	add(b, "news {n}", map[string]any{"template_no": "news", "send_type": "scheduled"})
	b.Expect(200, "", "PUT", "/api/v1/admin/settings/sms", map[string]any{"scheduled_every_seconds": 600})
	task := b.Task(b.SubmitBody(chosen("news", "1", nil)).TaskID)
	if at := task.ExpectSendTime; at == nil || at.Unix()%600 != 0 || !task.DueAt.Equal(*at) || at.Before(task.CreatedAt) {
		t.Errorf("%+v", task)
	}
	dry := apptest.Decode[api.Submitted](t, b.Expect(200, "", "POST", "/api/v1/sms/send?dry_run=true", chosen("news", "1", nil)))
	if *dry.Verdict != "would_be_scheduled" {
		t.Errorf("%+v", dry)
	}
	at := time.Now().Add(3 * time.Hour).Truncate(time.Second)
	if task := b.Task(b.SubmitBody(chosen("news", "1", map[string]any{"expect_send_time": at})).TaskID); !task.DueAt.Equal(at) {
		t.Errorf("requested %s, due %s", at, task.DueAt)
	}
	if got := b.ClaimIDs(10); len(got) != 0 {
		t.Errorf("%d messages were sent at once", len(got))
	}
}

// A template that is voided after a submission has read it is still used for this submission, but not for later submissions.
func TestATemplateVoidedDuringASubmissionIsStillUsed(t *testing.T) {
	b := apptest.New(t)
	made := add(b, "one {n}", map[string]any{"template_no": "t"})
	b.Submit("x") // creates the row of fair_ranks
	for name, c := range map[string]struct {
		path string
		body any
	}{
		"alone":     {"/api/v1/sms/send", chosen("t", "1", nil)},
		"in a list": {apptest.BatchPath, map[string]any{"messages": []any{chosen("t", "1", nil)}}},
	} {
		b.Exec("UPDATE templates SET status = 'active'")
		tx, err := b.DB.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback(t.Context())
		if _, err := tx.Exec(t.Context(), "SELECT FROM fair_ranks FOR UPDATE"); err != nil {
			t.Fatal(err)
		}
		answer := make(chan apptest.Answer, 1)
		go func() { answer <- b.Call("POST", c.path, c.body) }()
		b.AwaitLockWait()
		b.Expect(200, "", "PATCH", pathOf(made), `{"status":"voided"}`)
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		if a := <-answer; a.Status != 200 || !strings.Contains(a.Raw, `"final_content":"one 1"`) {
			t.Errorf("%s: %s", name, a.Raw)
		}
		b.Expect(409, "template.not_active", "POST", "/api/v1/sms/send", chosen("t", "1", nil))
	}
}

// Dedup keys and idempotency keys also apply to messages with a template: a repeated message returns the first answer, even if the template has changed.
func TestARepeatedMessageIsNotRenderedAgain(t *testing.T) {
	b := apptest.New(t)
	made := add(b, "one {n}", map[string]any{"template_no": "t"})
	named, keyed := chosen("t", "1", map[string]any{"dedup_key": "k"}), chosen("t", "2", nil)
	first := b.SubmitBody(named)
	second := apptest.Decode[api.Submitted](t, b.Expect(200, "", "POST", "/api/v1/sms/send", keyed, apptest.KeyHeader, "key"))
	b.Expect(200, "", "PATCH", pathOf(made), `{"status":"voided"}`)
	if again := b.SubmitBody(named); again.TaskID != first.TaskID || again.FinalContent != "one 1" || again.Deduplicated == nil {
		t.Errorf("%+v", again)
	}
	if n := b.Count("SELECT count(*) FROM receive_logs WHERE task_id = $1 AND content = '1' AND use_template", first.TaskID); n != 2 {
		t.Errorf("%d log rows", n)
	}
	if again := apptest.Decode[api.Submitted](t, b.Expect(200, "", "POST", "/api/v1/sms/send", keyed, apptest.KeyHeader, "key")); again.TaskID != second.TaskID {
		t.Errorf("%+v", again)
	}
	b.Expect(422, "idempotency.key_reused", "POST", "/api/v1/sms/send", chosen("t", "3", nil), apptest.KeyHeader, "key")
}

func TestAPreviewRendersATemplate(t *testing.T) {
	b := apptest.New(t)
	made := add(b, "您的验证码是{code}，用户{name}", map[string]any{
		"status": "draft", "sign": "示例公司", "language": "zh", "translations": map[string]string{"en": "{name}, {code}"},
	})
	preview := func(body any) api.TemplatePreview {
		return apptest.Decode[api.TemplatePreview](t, b.Expect(200, "", "POST", pathOf(made)+"/preview", body))
	}
	got := preview(`{"params":{"code":"123456","name":"张三"}}`)
	if got.Content != "【示例公司】您的验证码是123456，用户张三" || got.Characters != 23 || got.Segments != 1 || !slices.Equal(got.Placeholders, []string{"code", "name"}) || got.Version != 1 || text(got.Language) != "zh" {
		t.Errorf("%+v", got)
	}
	if got := preview(`{"params":"1;张三","language":"en-GB","sign":"甲","message_type":"marketing"}`); got.Content != "【甲】张三, 1" || text(got.Language) != "en" {
		t.Errorf("%+v", got)
	}
	for digits, segments := range map[int]int{54: 1, 55: 2} {
		if got := preview(map[string]any{"params": strings.Repeat("1", digits) + ";x"}); got.Characters != 16+digits || got.Segments != segments {
			t.Errorf("%+v", got)
		}
	}
	for body, want := range map[string]string{
		`{}`: "params", `{"params":"1"}`: "params", `{"params":{"code":1,"name":2,"x":3}}`: "params", `{"params":{"code":{},"name":2}}`: "params.code",
		`{"params":"1;2","language":"x"}`: "language", `{"params":"1;2","phone_number":"1"}`: "phone_number",
	} {
		if a := b.Expect(422, "request.invalid", "POST", pathOf(made)+"/preview", body); a.Fields() != want {
			t.Errorf("%s: %s", body, fields(a))
		}
	}
	b.Expect(404, "template.not_found", "POST", templatePath+"/999/preview", `{}`)
	b.Expect(200, "", "PATCH", pathOf(made), `{"status":"voided"}`)
	preview(`{"params":"1;2"}`)
	if n := b.Count("SELECT count(*) FROM receive_logs"); n != 0 {
		t.Errorf("%d submissions are logged", n)
	}
}

func TestATrialSendsAMessageWithATemplate(t *testing.T) {
	b := apptest.New(t)
	b.AddCompany("acme", 1)
	b.AddSender(map[string]any{"sender_no": "of-acme"})
	b.AddRoute("acme", "of-acme", 1)
	made := add(b, "您的验证码是{code}", map[string]any{"status": "draft", "sign": "示例公司", "send_type": "scheduled", "companies": []string{"acme"}})
	try := func(body map[string]any, headers ...string) api.Submitted {
		body["phone_number"] = apptest.Phone
		return apptest.Decode[api.Submitted](t, b.Expect(200, "", "POST", pathOf(made)+"/test", body, headers...))
	}
	sent := try(map[string]any{"params": map[string]any{"code": 7}, "company_no": "acme", "message_type": "notification"}, apptest.KeyHeader, "key")
	if again := try(map[string]any{"params": map[string]any{"code": 7}, "company_no": "acme", "message_type": "notification"}, apptest.KeyHeader, "key"); again.TaskID != sent.TaskID {
		t.Errorf("a repeat made %+v", again)
	}
	task := b.Task(sent.TaskID)
	if sent.FinalContent != "【示例公司】您的验证码是7" || !task.Test || task.ExpectSendTime != nil || text(task.Sign) != "示例公司" {
		t.Errorf("%+v %+v", sent, task)
	}
	if got := b.Claim("of-acme", 10); len(got) != 1 || got[0].TaskID != sent.TaskID {
		t.Errorf("the sender of the company got %+v", got)
	}
	if n := b.Count("SELECT count(*) FROM messages m JOIN companies c ON c.id = m.company_id WHERE m.task_id = $1 AND c.company_no = 'acme' AND m.submitted_by = $2 AND m.request_data #>> '{template,template_no}' = $3", sent.TaskID, apptest.Username, made.TemplateNo); n != 1 {
		t.Error("the message is not the company's, or does not name its template")
	}
	b.AddSender(map[string]any{"sender_no": "second"})
	if second := try(map[string]any{"params": "9", "sender_no": "second"}); b.Task(second.TaskID).Status != 0 || len(b.Claim("third", 10)) != 0 {
		t.Error("another sender got the message")
	} else if got := b.Claim("second", 10); len(got) != 1 || got[0].TaskID != second.TaskID {
		t.Errorf("the sender got %+v", got)
	}
	if other := try(map[string]any{"params": "8", "sign": "甲"}); other.FinalContent != "【甲】您的验证码是8" {
		t.Errorf("%+v", other)
	}
	for body, want := range map[string]string{
		`{"params":"1"}`: "phone_number", `{"phone_number":"13800138000"}`: "params", `{"phone_number":"12345678901","params":"1"}`: "phone_number",
		`{"phone_number":"13800138000","params":"1","company_no":"none"}`: "company_no", `{"phone_number":"13800138000","params":"1","sender_no":"none"}`: "sender_no",
		`{"phone_number":"13800138000","params":"1","sender_no":"of-acme"}`: "sender_no",
	} {
		if a := b.Expect(422, "request.invalid", "POST", pathOf(made)+"/test", body); a.Fields() != want {
			t.Errorf("%s: %s", body, fields(a))
		}
	}
	b.Expect(404, "template.not_found", "POST", templatePath+"/999/test", `{"phone_number":"13800138000"}`)
	b.Expect(200, "", "PATCH", pathOf(made), `{"status":"voided"}`)
	b.Expect(http.StatusConflict, "template.voided", "POST", pathOf(made)+"/test", `{"phone_number":"13800138000","params":"1"}`)
}
