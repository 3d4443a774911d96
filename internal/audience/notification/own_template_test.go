package notification_test

import (
	"testing"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
)

const templatesPath = "/api/v1/admin/notification-templates"

// titles returns the title and channel of each template of business type 77.
func titles(b *apptest.Bundle, query string, headers ...string) (all string) {
	b.T.Helper()
	for _, one := range apptest.Decode[api.NotificationTemplates](b.T, b.Expect(200, "", "GET", templatesPath+query, nil, headers...)).Items {
		if one.BizType == 77 {
			all += one.Channel + ":" + one.Title + " "
		}
	}
	return all
}

// S1.7: a company can have its own templates, which replace the templates of the platform. Only users of the company can change them.
func TestACompanyCanReplaceTemplatesOfThePlatform(t *testing.T) {
	b := apptest.New(t)
	acme, beta := b.AddCompany("acme", 1), b.AddCompany("beta", 1)
	reader := b.AddUser("reader", "read", map[string]any{"company_no": "acme"})
	b.AddSender(map[string]any{"sender_no": "oa-app", "channel": "oa"})
	at := templatesPath + "/77/oa"
	b.Expect(200, "", "PUT", at, map[string]any{"title": "platform", "content": "platform ${x}"})
	b.Expect(200, "", "PUT", at, map[string]any{"title": "acme", "content": "acme ${x}"}, acme...)
	text := func(headers []string) string {
		t.Helper()
		b.Expect(200, "", "POST", "/api/v1/notifications", map[string]any{
			"biz_type": 77, "biz_id": 1, "channels": []string{"oa"}, "payload": map[string]any{"x": "1"}, "user_ids": []string{"u"},
		}, headers...)
		claimed := b.Claim("oa-app", 10)
		if len(claimed) != 1 {
			t.Fatalf("%d tasks", len(claimed))
		}
		b.Report(claimed[0].TaskID, "oa-app", 2, nil)
		return claimed[0].Content
	}
	for _, c := range []struct {
		headers []string
		want    string
	}{{acme, "acme 1"}, {beta, "platform 1"}, {nil, "platform 1"}} {
		if got := text(c.headers); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	batch := map[string]any{"name": "n", "channel": "oa", "biz_type": 77, "rows": []any{map[string]any{"user_id": "u", "x": "1"}}}
	for want, headers := range map[string][]string{"acme ${x}": acme, "platform ${x}": beta} {
		id := apptest.Decode[api.BatchCreated](t, b.Expect(200, "", "POST", "/api/v1/batches", batch, headers...)).BatchID
		if got := apptest.Scan[string](b, "SELECT content FROM batches WHERE id = $1", id); got != want {
			t.Errorf("a batch has %q, want %q", got, want)
		}
	}
	// Each caller sees and changes these templates.
	for _, c := range []struct {
		query   string
		headers []string
		want    string
	}{
		{"", nil, "oa:platform "}, {"?company_no=acme", nil, "oa:acme "}, {"?company_no=beta", nil, ""}, {"", acme, "oa:platform "},
		{"?company_no=acme", acme, "oa:acme "}, {"?company_no=acme", reader, "oa:acme "}, {"?company_no=beta", beta, ""},
	} {
		if got := titles(b, c.query, c.headers...); got != c.want {
			t.Errorf("%q: %q, want %q", c.query, got, c.want)
		}
	}
	body := map[string]any{"title": "t", "content": "c"}
	b.Expect(403, "auth.other_company", "GET", templatesPath+"?company_no=acme", nil, beta...)
	b.Expect(403, "auth.other_company", "PUT", at+"?company_no=acme", body, beta...)
	b.Expect(403, "auth.other_company", "DELETE", at+"?company_no=acme", nil, beta...)
	b.Expect(404, "template.not_found", "DELETE", at, nil, beta...)
	b.Expect(403, "auth.forbidden", "PUT", at, body, reader...)
	b.Expect(404, "company.not_found", "PUT", at+"?company_no=nobody", body)
	b.Expect(404, "company.not_found", "GET", templatesPath+"?company_no=nobody", nil)
	b.Expect(200, "", "PUT", at+"?company_no=beta", map[string]any{"title": "beta", "content": "beta ${x}"})
	if got := text(beta); got != "beta 1" {
		t.Errorf("%q", got)
	}
	// If the template of a company is off or deleted, the template of the platform applies.
	b.Expect(200, "", "PUT", at, map[string]any{"title": "acme", "content": "acme ${x}", "enabled": false}, acme...)
	b.Expect(200, "", "DELETE", at, nil, beta...)
	for _, headers := range [][]string{acme, beta} {
		if got := text(headers); got != "platform 1" {
			t.Errorf("%q", got)
		}
	}
	b.Expect(200, "", "DELETE", at, nil)
	if got := titles(b, "?company_no=acme", acme...); got != "oa:acme " {
		t.Errorf("%q", got)
	}
	if n := b.Count("SELECT count(*) FROM audit WHERE entity = 'notification_template' AND company_no = 'acme' AND entity_key = 'acme/77/oa'"); n != 2 {
		t.Errorf("%d changes of the company", n)
	}
}
