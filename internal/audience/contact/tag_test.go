package contact_test

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	api "lksms/gen/client"
	"lksms/internal/audience/contact"
	"lksms/internal/testkit/apptest"
)

// ids returns the user ids on a page of contacts, and the cursor of the next page.
func ids(t *testing.T, a apptest.Answer) (found []string, next *string) {
	t.Helper()
	page := apptest.Decode[api.ContactPage](t, a)
	found = []string{}
	for _, c := range page.Items {
		found = append(found, c.UserID)
	}
	return found, page.NextCursor
}

// tagged creates tags with contacts. The contacts must exist.
func tagged(b *apptest.Bundle, tags map[string][]string, headers ...string) {
	b.T.Helper()
	for tag, holds := range tags {
		b.Expect(200, "", "PUT", "/api/v1/tags/"+url.PathEscape(tag), nil, headers...)
		if len(holds) > 0 {
			b.Expect(200, "", "POST", "/api/v1/tags/"+url.PathEscape(tag)+"/contacts", map[string]any{"add": holds}, headers...)
		}
	}
}

func contactsNamed(names ...string) (all []map[string]any) {
	for _, name := range names {
		all = append(all, map[string]any{"user_id": name})
	}
	return all
}

// S4.10: every change of the contacts of a tag updates the count of the tag.
func TestATagContainsContacts(t *testing.T) {
	b := apptest.New(t)
	b.PutContacts(contactsNamed("a", "b", "c")...)
	const path = "/api/v1/tags/VIP%20%E5%AE%A2%E6%88%B7"
	b.Expect(404, "tag.not_found", "POST", path+"/contacts", `{"add":["a"]}`)
	b.Expect(404, "tag.not_found", "GET", path+"/contacts", nil)
	b.Expect(404, "company.not_found", "PUT", path+"?company_no=nobody", nil)
	for range 2 {
		if tag := apptest.Decode[api.Tag](t, b.Expect(200, "", "PUT", path, nil)); tag.Tag != "VIP 客户" || tag.Contacts != 0 {
			t.Errorf("%+v", tag)
		}
	}
	for _, step := range []struct {
		add, remove, want string
		holds             []string
	}{
		{`["a","b","nobody","b"]`, `["c"]`, "{2 0 [nobody]}", []string{"a", "b"}},
		{`["b","c"]`, `["a","b"]`, "{2 2 []}", []string{"b", "c"}},
		{`["b","c"]`, `["a","x"]`, "{0 0 []}", []string{"b", "c"}},
	} {
		a := b.Expect(200, "", "POST", path+"/contacts", `{"add":`+step.add+`,"remove":`+step.remove+`}`)
		if got := fmt.Sprint(apptest.Decode[api.TagChange](t, a)); got != step.want {
			t.Errorf("%+v: %s", step, got)
		}
		if found, _ := ids(t, b.Expect(200, "", "GET", path+"/contacts", nil)); !slices.Equal(found, step.holds) {
			t.Errorf("%+v holds %v", step, found)
		}
		tags := apptest.Decode[api.TagPage](t, b.Expect(200, "", "GET", "/api/v1/tags", nil))
		if len(tags.Items) != 1 || int(tags.Items[0].Contacts) != len(step.holds) {
			t.Errorf("%+v: %+v", step, tags)
		}
	}
	tagged(b, map[string][]string{"other": {"b"}, "empty": nil})
	ofContact := func(id string) (names []string) {
		for _, tag := range apptest.Decode[api.TagPage](t, b.Expect(200, "", "GET", "/api/v1/tags?user_id="+id, nil)).Items {
			names = append(names, tag.Tag)
		}
		return names
	}
	if got := ofContact("b"); !slices.Equal(got, []string{"other", "VIP 客户"}) {
		t.Errorf("of b: %v", got)
	}
	b.Expect(404, "contact.not_found", "GET", "/api/v1/tags?user_id=nobody", nil)
	// Deleting a contact removes it from its tags.
	b.Expect(200, "", "DELETE", "/api/v1/admin/contacts/b", nil)
	if n := b.Count("SELECT sum(contacts) FROM tags"); n != 1 {
		t.Errorf("the tags count %d contacts, want c only", n)
	}
	// A tag is deleted immediately. Its contacts are removed from it later. A new tag with the same name does not contain them.
	b.Expect(200, "", "DELETE", path, nil)
	b.Expect(404, "tag.not_found", "DELETE", path, nil)
	b.Expect(200, "", "PUT", path, nil)
	if found, _ := ids(t, b.Expect(200, "", "GET", path+"/contacts", nil)); len(found) > 0 || len(ofContact("c")) > 0 {
		t.Errorf("the new tag contains %v, and the tags with c are %v", found, ofContact("c"))
	}
	for _, want := range []int{1, 0} {
		if n, err := b.App.Contacts.EmptyTags(t.Context()); err != nil || n != want {
			t.Errorf("%d contacts were removed, want %d: %v", n, want, err)
		}
	}
	if n := b.Count("SELECT (SELECT count(*) FROM deleted_tags) + (SELECT count(*) FROM tag_contacts)"); n != 0 {
		t.Errorf("%d rows are left", n)
	}
	b.Expect(200, "", "GET", "/api/v1/admin/contacts/c", nil)
}

func TestInvalidTagNamesAreRefused(t *testing.T) {
	b := apptest.New(t)
	for _, name := range []string{"a", "客户", "a.b", "a b", strings.Repeat("长", 100), "50%", "a?b#c", "+-~"} {
		path := "/api/v1/tags/" + url.PathEscape(name)
		if tag := apptest.Decode[api.Tag](t, b.Expect(200, "", "PUT", path, nil)); tag.Tag != name {
			t.Errorf("%q became %q", name, tag.Tag)
		}
		b.Expect(200, "", "GET", "/api/v1/contacts?tag="+url.QueryEscape(name), nil)
	}
	for _, name := range []string{" a", "a ", ".a", "a\nb", strings.Repeat("长", 101)} {
		b.Expect(422, "request.invalid", "PUT", "/api/v1/tags/"+url.PathEscape(name), nil)
	}
}

// Two companies can have a contact with the same id and a tag with the same name. Neither company sees or changes the data of the other.
func TestCompaniesHaveTheirOwnTags(t *testing.T) {
	w := apptest.NewTwoCompanies(t)
	for no, headers := range map[string][]string{"acme": w.Acme, "beta": w.Beta} {
		w.Expect(200, "", "PUT", "/api/v1/admin/contacts", map[string]any{"contacts": []any{map[string]any{"user_id": "same", "name": no}}}, headers...)
		tagged(w.Bundle, map[string][]string{"same": {"same"}}, headers...)
	}
	name := func(headers []string) string {
		return *apptest.Decode[api.ContactPage](t, w.Expect(200, "", "GET", "/api/v1/contacts?tag=same", nil, headers...)).Items[0].Name
	}
	if name(w.Acme) != "acme" || name(w.Beta) != "beta" || name(w.Reader) != "acme" {
		t.Errorf("acme sees %s, beta %s, the reader of acme %s", name(w.Acme), name(w.Beta), name(w.Reader))
	}
	for _, call := range [][3]string{
		{"PUT", "/api/v1/tags/x?company_no=beta"}, {"DELETE", "/api/v1/tags/same?company_no=beta"},
		{"POST", "/api/v1/tags/same/contacts", `{"company_no":"beta","remove":["same"]}`},
	} {
		var body any
		if call[2] != "" {
			body = call[2]
		}
		w.Expect(403, "auth.other_company", call[0], call[1], body, w.Acme...)
		w.Expect(403, "auth.forbidden", call[0], call[1], body, w.Reader...)
	}
	w.Expect(200, "", "DELETE", "/api/v1/tags/same", nil, w.Acme...)
	w.Expect(200, "", "DELETE", "/api/v1/admin/contacts/same", nil, w.Acme...)
	if _, err := w.App.Contacts.EmptyTags(t.Context()); err != nil {
		t.Fatal(err)
	}
	if name(w.Beta) != "beta" {
		t.Error("acme changed the tag of beta")
	}
	if a := w.Expect(200, "", "GET", "/api/v1/contacts?tag=same&company_no=beta", nil); !strings.Contains(a.Raw, "beta") {
		t.Errorf("an admin sees %s", a.Raw)
	}
	w.Expect(409, "in_use", "DELETE", "/api/v1/admin/companies/acme", nil)
}

// S4.10: a selection names tags of three kinds: contacts must have all tags of one kind, at least one tag of another kind, and no tag of the third kind.
func TestContactsAreSelectedByTags(t *testing.T) {
	b := apptest.New(t)
	b.PutContacts(contactsNamed("a", "ab", "abc", "ac", "b", "bc", "c", "none")...)
	tagged(b, map[string][]string{"A": {"a", "ab", "abc", "ac"}, "B": {"b", "ab", "abc", "bc"}, "C": {"c", "ac", "bc", "abc"}, "empty": nil})
	for query, want := range map[string]string{
		"":                          "[a ab abc ac b bc c none]",
		"tag=A":                     "[a ab abc ac]",
		"tag=A&not_tag=B":           "[a ac]",
		"tag=A&tag=B":               "[ab abc]",
		"tag=A&tag=B&tag=C":         "[abc]",
		"tag=A&not_tag=B&not_tag=C": "[a]",
		"not_tag=A":                 "[b bc c none]",
		"not_tag=A&not_tag=B":       "[c none]",
		"tag=A&not_tag=A":           "[]",
		"tag=A&tag=A":               "[a ab abc ac]",
		"tag=empty":                 "[]",
		"tag=A&tag=empty":           "[]",
		"tag=A&not_tag=empty":       "[a ab abc ac]",
	} {
		var all []string
		cursor := ""
		for {
			found, next := ids(t, b.Expect(200, "", "GET", "/api/v1/contacts?limit=2&"+query+cursor, nil))
			if all = append(all, found...); next == nil {
				break
			}
			cursor = "&cursor=" + *next
		}
		if fmt.Sprint(all) != want {
			t.Errorf("%s: %v, want %s", query, all, want)
		}
		count := apptest.Decode[api.ContactCount](t, b.Expect(200, "", "GET", "/api/v1/contacts/count?"+query, nil))
		if int(count.Count) != len(all) || !count.Exact {
			t.Errorf("%s: %+v, want %d", query, count, len(all))
		}
	}
	b.Expect(404, "tag.not_found", "GET", "/api/v1/contacts?tag=A&not_tag=Z", nil)
	b.Expect(404, "tag.not_found", "GET", "/api/v1/contacts/count?tag=Z", nil)
	if a := b.Expect(422, "request.invalid", "GET", "/api/v1/contacts?tag="+strings.Repeat("A&tag=", 10)+"A", nil); a.Fields() != "tag" {
		t.Errorf("eleven tags: %s", a.Raw)
	}
}

// A page reads at most 5000 contacts, even if few of them match.
func TestAPageOfSelectedContactsIsBounded(t *testing.T) {
	b := apptest.New(t)
	b.Exec("INSERT INTO contacts (company_id, user_id) SELECT 1, to_char(n, 'FM00000') FROM generate_series(1, 12000) n")
	tagged(b, map[string][]string{"A": nil, "B": nil})
	b.Exec("INSERT INTO tag_contacts (tag_id, company_id, user_id) SELECT t.id, 1, c.user_id FROM tags t CROSS JOIN contacts c WHERE t.tag = 'A' OR c.user_id <> '11000'")
	of := contact.Selection{CompanyID: 1, Tags: []string{"A"}, NotTags: []string{"B"}}
	list := func(after string) (found int, end string) {
		rows, end, err := b.App.Contacts.ListSelected(context.Background(), of, after, 10)
		if err != nil {
			t.Fatal(err)
		}
		return len(rows), end
	}
	for _, step := range []struct {
		after, end string
		found      int
	}{{"", "05000", 0}, {"05000", "10000", 0}, {"10000", "", 1}, {"12000", "", 0}} {
		if found, end := list(step.after); found != step.found || end != step.end {
			t.Errorf("after %q: %d contacts and the cursor %q, want %d and %q", step.after, found, end, step.found, step.end)
		}
	}
	if found, next := ids(t, b.Expect(200, "", "GET", "/api/v1/contacts?tag=A&not_tag=B", nil)); len(found) > 0 || next == nil {
		t.Errorf("%v, %v", found, next)
	}
	if n, isExact, err := b.App.Contacts.Count(t.Context(), of); err != nil || n != 1 || !isExact {
		t.Errorf("%d, %t, %v", n, isExact, err)
	}
}

// Concurrent changes of contacts and tags never fail, and the counts stay correct.
func TestConcurrentChangesOfTagsCountEachContactOnce(t *testing.T) {
	b := apptest.New(t)
	names := make([]string, 40)
	for i := range names {
		names[i] = fmt.Sprint("u", i)
	}
	backwards := slices.Clone(names)
	slices.Reverse(backwards)
	tagged(b, map[string][]string{"A": nil, "B": nil})
	apptest.Together(8, func(i int) {
		order := [][]string{names, backwards}[i%2]
		for _, tag := range []string{"A", "B"} {
			b.Expect(200, "", "PUT", "/api/v1/admin/contacts", map[string]any{"contacts": contactsNamed(order...)})
			b.Expect(200, "", "POST", "/api/v1/tags/"+tag+"/contacts", map[string]any{"add": order, "remove": order[i:]})
			b.Call("DELETE", "/api/v1/admin/contacts/"+order[i], nil)
		}
	})
	if n := b.Count("SELECT contacts - (SELECT count(*) FROM contacts) FROM contact_counts"); n != 0 {
		t.Errorf("the contacts are counted wrong by %d", n)
	}
	if n := b.Count("SELECT count(*) FROM tags t WHERE t.contacts <> (SELECT count(*) FROM tag_contacts m WHERE m.tag_id = t.id)"); n != 0 {
		t.Errorf("%d tags count wrong", n)
	}
}

func TestACompanyHasAtMostTwoMillionContacts(t *testing.T) {
	b := apptest.New(t)
	b.PutContacts(contactsNamed("a")...)
	b.Exec("UPDATE contact_counts SET contacts = 1999999")
	b.PutContacts(contactsNamed("b")...)
	if a := b.Expect(409, "limit.reached", "PUT", "/api/v1/admin/contacts", `{"contacts":[{"user_id":"c"}]}`); a.Body.Error.Limit != 2_000_000 {
		t.Errorf("%s", a.Raw)
	}
	b.PutContacts(map[string]any{"user_id": "b", "name": "changed"})
	b.Expect(200, "", "DELETE", "/api/v1/admin/contacts/a", nil)
	b.PutContacts(contactsNamed("c")...)
}
