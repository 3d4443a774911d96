package batch_test

import (
	"fmt"
	"strings"
	"testing"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
)

// tag creates a tag and adds contacts to it.
func tag(b *apptest.Bundle, name string, userIDs ...string) {
	b.T.Helper()
	b.Expect(200, "", "PUT", "/api/v1/tags/"+name, map[string]any{})
	if len(userIDs) > 0 {
		b.Expect(200, "", "POST", "/api/v1/tags/"+name+"/contacts", map[string]any{"add": userIDs})
	}
}

// S4.8: a combination of tags can select the contacts of a batch, on every channel.
func TestTagsSelectTheContactsOfABatch(t *testing.T) {
	b := apptest.New(t)
	for i := range 6 {
		b.PutContacts(map[string]any{"user_id": fmt.Sprint("u", i), "phone": fmt.Sprint(13800138000 + i), "email": fmt.Sprintf("u%d@example.com", i)})
	}
	tag(b, "a", "u0", "u1", "u2", "u3")
	tag(b, "b", "u1", "u2", "u4")
	tag(b, "c", "u2", "u5")
	tag(b, "empty")
	for name, c := range map[string]struct {
		tags map[string]any
		want string
	}{
		"all":                 {map[string]any{"tags_all": []string{"a", "b"}}, "u1 u2"},
		"any":                 {map[string]any{"tags_any": []string{"b", "c"}}, "u1 u2 u4 u5"},
		"one of any":          {map[string]any{"tags_any": []string{"c"}}, "u2 u5"},
		"none":                {map[string]any{"tags_all": []string{"a"}, "tags_none": []string{"b", "c"}}, "u0 u3"},
		"a tag and others":    {map[string]any{"tag": "a", "tags_any": []string{"b", "c"}, "tags_none": []string{"c"}}, "u1"},
		"any and none":        {map[string]any{"tags_any": []string{"a", "b"}, "tags_none": []string{"c"}}, "u0 u1 u3 u4"},
		"all, any, none":      {map[string]any{"tags_all": []string{"a"}, "tags_any": []string{"b", "empty"}, "tags_none": []string{"empty"}}, "u1 u2"},
		"the same tag, twice": {map[string]any{"tag": "a", "tags_all": []string{"a"}}, "u0 u1 u2 u3"},
		"nobody":              {map[string]any{"tags_all": []string{"a", "empty"}}, ""},
	} {
		for channel, address := range map[string]string{"sms": "+861380013800%c", "email": "u%c@example.com"} {
			body := map[string]any{"name": name, "channel": channel, "content": "x {user_id}"}
			if channel == "email" {
				body["subject"] = "s"
			}
			for field, tags := range c.tags {
				body[field] = tags
			}
			at := createJSON(b, body)
			check(b)
			var found, want []string
			for _, r := range apptest.Decode[api.BatchRowPage](t, b.Expect(200, "", "GET", at+"/rows", nil)).Items {
				found = append(found, r.PhoneNumber)
			}
			for _, user := range strings.Fields(c.want) {
				want = append(want, fmt.Sprintf(address, user[1]))
			}
			if strings.Join(found, " ") != strings.Join(want, " ") {
				t.Errorf("%s, %s: %v, want %v", name, channel, found, want)
			}
		}
	}
	got := get(b, createJSON(b, map[string]any{"name": "n", "content": "x", "tag": "a", "tags_any": []string{"b", "c"}, "tags_none": []string{"c"}}))
	if got.Tag != nil || fmt.Sprint(*got.TagsAll, *got.TagsAny, *got.TagsNone) != "[a] [b c] [c]" {
		t.Errorf("%v %v %v %v", got.Tag, got.TagsAll, got.TagsAny, got.TagsNone)
	}
	if got := get(b, createJSON(b, map[string]any{"name": "n", "content": "x", "tags_all": []string{"a"}})); *got.Tag != "a" || got.TagsAll != nil {
		t.Errorf("%+v", got)
	}
	at := createForm(b, "name", "n", "content", "x", "tags_all", "a", "tags_all", "b", "auto_confirm", "true")
	check(b)
	feed(b) // reads the contacts again
	tag(b, "a", "u4")
	check(b)
	feed(b)
	expect(b, get(b, at), "running", "3 rows, 3 valid, 3 waiting")
}

// createForm creates a batch from a form without a list, and returns its path.
func createForm(b *apptest.Bundle, fields ...string) string {
	b.T.Helper()
	a := form(b, 200, apptest.Form("", "", "", fields...))
	return fmt.Sprintf("%s/%d", path, apptest.Decode[api.BatchCreated](b.T, a).BatchID)
}

func TestTheFaultOfAnInvalidTagNamesTheField(t *testing.T) {
	b := apptest.New(t)
	acme := b.AddCompany("acme", 1)
	tag(b, "a")
	for field, tags := range map[string]map[string]any{
		"tags_all.1": {"tags_all": []string{"a", "x"}},
		"tags_any.0": {"tags_all": []string{"a"}, "tags_any": []string{"x"}},
		"tags_none":  {"tags_none": []string{"a"}},
		"rows":       {"tags_all": []string{}},
		"tag":        {"tag": "x"},
	} {
		body := map[string]any{"name": "n", "content": "x"}
		for name, value := range tags {
			body[name] = value
		}
		if a := b.Expect(422, "request.invalid", "POST", path, body); a.Fields() != field {
			t.Errorf("%s: %s", field, a.Raw)
		}
	}
	// A request cannot use the tags of another company.
	if a := b.Expect(422, "request.invalid", "POST", path, map[string]any{"name": "n", "content": "x", "tags_all": []string{"a", "a"}}, acme...); a.Fields() != "tags_all.0,tags_all.1" {
		t.Errorf("%s", a.Raw)
	}
	// If the tag is deleted before the batch starts, the batch ends.
	tag(b, "b")
	at := createJSON(b, map[string]any{"name": "n", "content": "x", "tags_any": []string{"a", "b"}})
	b.Expect(200, "", "DELETE", "/api/v1/tags/b", nil)
	check(b)
	if got := get(b, at); got.Status != "cancelled" || got.Remark == nil || !strings.Contains(*got.Remark, "tags_any") {
		t.Errorf("%+v", got)
	}
}
