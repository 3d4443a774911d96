package contact_test

import (
	"fmt"
	"strings"
	"testing"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
)

func TestMain(m *testing.M) { apptest.Main(m) }

func TestContactsCanBeStoredListedAndDeleted(t *testing.T) {
	b := apptest.New(t)
	const path = "/api/v1/admin/contacts"
	for field, contact := range map[string]map[string]any{
		"contacts.0.phone": {"user_id": "x", "phone": "12"},
		"contacts.0.email": {"user_id": "x", "email": "nobody"},

		"contacts.0.dingtalk_name": {"user_id": "x", "dingtalk_name": "a\nb"},
		"contacts.0.wechat_openid": {"user_id": "x", "wechat_openid": strings.Repeat("x", 101)},

		"contacts.0.name":            {"user_id": "x", "name": strings.Repeat("张", 101)},
		"contacts.0.attributes":      {"user_id": "x", "attributes": map[string]any{"": "x"}},
		"contacts.0.attributes.city": {"user_id": "x", "attributes": map[string]any{"city": 7}},
		"contacts.0.attributes.long": {"user_id": "x", "attributes": map[string]any{"long": strings.Repeat("张", 501)}},
	} {
		if a := b.Expect(422, "request.invalid", "PUT", path, map[string]any{"contacts": []any{contact}}); a.Fields() != field {
			t.Errorf("%v: wrong fields %s", contact, a.Fields())
		}
	}
	many := map[string]string{}
	for i := range 51 {
		many[fmt.Sprint("k", i)] = "v"
	}
	for _, attributes := range []map[string]string{{"a{b": "x"}, {"a\nb": "x"}, {" a": "x"}, {strings.Repeat("张", 51): "x"}, many} {
		body := map[string]any{"contacts": []any{map[string]any{"user_id": "x", "attributes": attributes}}}
		if a := b.Expect(422, "request.invalid", "PUT", path, body); a.Fields() != "contacts.0.attributes" {
			t.Errorf("%v: wrong fields %s", attributes, a.Fields())
		}
	}
	for _, c := range []map[string]any{{"user_id": "a", "phone": "138 0013 8000"}, {"user_id": "b"}, {"user_id": "a", "email": "a@example.com"}} {
		b.Expect(200, "", "PUT", path, map[string]any{"contacts": []any{c}})
	}
	if got := apptest.Decode[api.Contact](t, b.Expect(200, "", "GET", path+"/a", nil)); *got.Phone != "+8613800138000" || *got.Email != "a@example.com" {
		t.Errorf("%+v", got)
	}
	first := apptest.Decode[api.ContactPage](t, b.Expect(200, "", "GET", path+"?limit=1", nil))
	second := apptest.Decode[api.ContactPage](t, b.Expect(200, "", "GET", path+"?limit=1&cursor="+*first.NextCursor, nil))
	if first.Items[0].UserID != "a" || second.Items[0].UserID != "b" || second.NextCursor != nil {
		t.Errorf("%+v %+v", first, second)
	}
	b.Expect(200, "", "DELETE", path+"/a", nil)
	b.Expect(404, "contact.not_found", "DELETE", path+"/a", nil)
	b.Expect(404, "contact.not_found", "GET", path+"/a", nil)
	b.Expect(404, "company.not_found", "GET", path+"?company_no=nobody", nil)
}

// A change keeps the fields that it does not contain. If it contains attributes, they replace all existing attributes.
func TestAContactStoresANameAndAttributes(t *testing.T) {
	b := apptest.New(t)
	put := func(contact string) api.Contact {
		t.Helper()
		b.Expect(200, "", "PUT", "/api/v1/admin/contacts", `{"contacts":[`+contact+`]}`)
		return apptest.Decode[api.Contact](t, b.Expect(200, "", "GET", "/api/v1/admin/contacts/u", nil))
	}
	for _, step := range []struct{ contact, name, attributes string }{
		{`{"user_id":"u","name":"张三","attributes":{"城市":"杭州","level":"VIP","none":""}}`, "张三", "map[level:VIP 城市:杭州]"},
		{`{"user_id":"u","email":"u@example.com"}`, "张三", "map[level:VIP 城市:杭州]"},
		{`{"user_id":"u","attributes":{"level":"1"}}`, "张三", "map[level:1]"},
		{`{"user_id":"u","name":null}`, "<nil>", "map[level:1]"},
		{`{"user_id":"u","name":"李四","attributes":{}}`, "李四", "map[]"},
		{`{"user_id":"u","attributes":{"a":"b"}}`, "李四", "map[a:b]"},
		{`{"user_id":"u","attributes":null}`, "李四", "map[]"},
	} {
		got := put(step.contact)
		name := "<nil>"
		if got.Name != nil {
			name = *got.Name
		}
		if name != step.name || fmt.Sprint(*got.Attributes) != step.attributes || strings.Contains(step.contact, "email") && *got.Email != "u@example.com" {
			t.Errorf("%s: %s %v", step.contact, name, *got.Attributes)
		}
	}
	// SQL statements of other programs cannot exceed the limits either.
	for _, attributes := range []string{`[]`, `"a"`, `{"a":1}`, `{"a":"b","c":null}`, `{"a":"` + strings.Repeat("x", 200_000) + `"}`} {
		if _, err := b.DB.Exec(t.Context(), "UPDATE contacts SET attributes = $1", attributes); err == nil {
			t.Errorf("%.20s was stored", attributes)
		}
	}
}

func TestTheUsersOfACompanyMaintainItsContacts(t *testing.T) {
	w := apptest.NewTwoCompanies(t)
	const path = "/api/v1/admin/contacts"
	put := func(headers []string, body string) { w.Expect(200, "", "PUT", path, body, headers...) }
	get := func(id string, headers []string) api.Contact {
		t.Helper()
		return apptest.Decode[api.Contact](t, w.Expect(200, "", "GET", path+"/"+id, nil, headers...))
	}
	put(w.Acme, `{"contacts":[{"user_id":"u","phone":"13800138000","email":"u@example.com","dingtalk_name":"ding","wechat_openid":"open"}]}`)
	put(w.Beta, `{"contacts":[{"user_id":"u","email":"beta@example.com"}]}`)
	// A missing field keeps its value. A null or an empty text clears the field.
	put(w.Acme, `{"company_no":"acme","contacts":[{"user_id":"u","email":"new@example.com"},{"user_id":"v"}]}`)
	if c := get("u", w.Acme); *c.Email != "new@example.com" || *c.Phone != "+8613800138000" || *c.DingtalkName != "ding" || *c.WechatOpenid != "open" {
		t.Errorf("%+v", c)
	}
	put(w.Acme, `{"contacts":[{"user_id":"v","phone":"13800138000"},{"user_id":"u","phone":null,"dingtalk_name":""}]}`)
	if c := get("u", w.Acme); *c.Email != "new@example.com" || c.Phone != nil || c.DingtalkName != nil || *c.WechatOpenid != "open" {
		t.Errorf("%+v", c)
	}
	if c := get("u", w.Beta); *c.Email != "beta@example.com" || c.Phone != nil {
		t.Errorf("contact of beta: %+v", c)
	}
	// A user cannot access the contacts of another company, and cannot find out whether a company exists.
	for _, no := range []string{"beta", "default", "nobody"} {
		w.Expect(403, "auth.other_company", "PUT", path, map[string]any{"company_no": no, "contacts": []any{map[string]any{"user_id": "u"}}}, w.Acme...)
		w.Expect(403, "auth.other_company", "GET", path+"?company_no="+no, nil, w.Acme...)
		w.Expect(403, "auth.other_company", "GET", path+"/u?company_no="+no, nil, w.Acme...)
		w.Expect(403, "auth.other_company", "DELETE", path+"/u?company_no="+no, nil, w.Acme...)
	}
	w.Expect(403, "auth.forbidden", "DELETE", path+"/u", nil, w.Reader...)
	w.Expect(200, "", "DELETE", path+"/u", nil, w.Acme...)
	w.Expect(404, "contact.not_found", "GET", path+"/u", nil, w.Acme...)
	get("u", w.Beta)
	w.Expect(200, "", "DELETE", path+"/u?company_no=beta", nil)
	// Either all contacts are stored, or no contact is stored.
	w.Expect(422, "request.invalid", "PUT", path, `{"contacts":[{"user_id":"new"},{"user_id":"v","phone":"12"}]}`, w.Acme...)
	w.Expect(404, "contact.not_found", "GET", path+"/new", nil, w.Acme...)
}

// Concurrent requests that change different fields of the same new contacts lose no change.
func TestConcurrentChangesOfContactsLoseNothing(t *testing.T) {
	b := apptest.New(t)
	bodies := []string{`"phone":"13800138000","name":"n"`, `"email":"u@example.com"`, `"dingtalk_name":"ding","attributes":{"a":"b"}`, `"wechat_openid":"open"`}
	apptest.Together(len(bodies), func(i int) {
		contacts := make([]string, 50)
		for n := range contacts {
			id := n
			if i%2 == 1 { // every second request has its contacts in the reverse order
				id = len(contacts) - 1 - n
			}
			contacts[n] = fmt.Sprintf(`{"user_id":"u%d",%s}`, id, bodies[i])
		}
		b.Expect(200, "", "PUT", "/api/v1/admin/contacts", `{"contacts":[`+strings.Join(contacts, ",")+`]}`)
	})
	if n := b.Count("SELECT count(*) FROM contacts WHERE phone IS NOT NULL AND email IS NOT NULL AND dingtalk_name IS NOT NULL AND wechat_openid IS NOT NULL AND name IS NOT NULL AND attributes <> '{}'"); n != 50 {
		t.Errorf("%d of 50 contacts have all fields", n)
	}
}
