package httpapi_test

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	contract "lksms/gen/api"
	"lksms/internal/testkit/apptest"
)

// checkedByContract contains the lists whose items only the contract restricts. The validator names each wrong item by its index.
var checkedByContract = []string{
	"add", "remove", "biz_ids", "expected_statuses", "leases", "retry_minutes", // an unknown item has no effect
	"messages", "reports", // each item has its own result
	"description.dedup", "description.text", // names of fields
}

// An answer names each wrong item of a list by its index, not only the first one. The test has a case for each list of the contract.
func TestAnAnswerNamesEachWrongItemOfAList(t *testing.T) {
	b := apptest.New(t)
	missing := listsOfBodies(t)
	b.Expect(200, "", "POST", "/api/v1/admin/companies", map[string]any{"company_no": "acme", "name": "Acme"})
	b.AddSender(map[string]any{"sender_no": "phone"})
	b.AddCountry("CN", "86", nil)
	rule := map[string]any{"action": "acknowledge", "match": "regexp", "words": []string{"(", "fine", "["}}
	past := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	for name, c := range map[string]struct {
		method, path string
		body         any
		fields       string
	}{
		"contacts": {
			"PUT", "/api/v1/admin/contacts",
			`{"contacts":[{"user_id":"a","phone":"12","email":"nobody"},{"user_id":"b","email":"nobody"},{"user_id":"a"}]}`,
			"contacts.0.phone,contacts.0.email,contacts.1.email,contacts.2.user_id",
		},
		"attributes": {
			"PUT", "/api/v1/admin/contacts", `{"contacts":[{"user_id":"a","attributes":{"{":"x"," ":"x"}},{"user_id":"b","attributes":{"}":"x"}}]}`,
			"contacts.0.attributes,contacts.0.attributes,contacts.1.attributes",
		},
		"rows": {
			"POST", "/api/v1/batches", `{"name":"n","content":"x","rows":[{"phone":"13800138000","a":[1]},{"phone":"13800138000"},{"phone":{},"a":{}}]}`,
			"rows.0.a,rows.2.phone,rows.2.a",
		},
		"a batch": {
			"POST", "/api/v1/batches",
			map[string]any{"name": "n", "content": "{", "expires_at": past, "sender_no": "nowhere", "rows": []any{map[string]any{"phone": []any{}}}},
			"expires_at,sender_no,rows.0.phone",
		},
		"tags": {
			"POST", "/api/v1/batches", map[string]any{"name": "n", "content": "x", "tags_all": []string{"a", "b"}, "tags_any": []string{"d"}, "tags_none": []string{"c"}},
			"tags_all.0,tags_all.1,tags_any.0,tags_none.0",
		},
		"channels": {
			"POST", "/api/v1/notifications",
			map[string]any{"biz_type": 0, "biz_id": 1, "channels": []string{"nowhere", "oa", "none"}, "payload": map[string]any{}, "user_ids": []string{"u"}},
			"channels.0,channels.2",
		},
		"channels of a receiver": {
			"POST", "/api/v1/admin/alert-receivers",
			map[string]any{"name": "n", "kind": "notification", "company_no": "acme", "channels": []string{"nowhere", "oa", "none"}, "user_ids": []string{"u"}},
			"channels.0,channels.2",
		},
		"SIMs": {
			"PUT", "/api/v1/admin/senders/phone/sims", map[string]any{"sims": []map[string]any{{"slot": 1}, {"slot": 1}, {"slot": 2}, {"slot": 1}}},
			"sims.1.slot,sims.3.slot",
		},
		"events of a webhook": {
			"POST", "/api/v1/webhooks",
			map[string]any{"url": "https://example.com", "company_no": "acme", "events": []string{"sender.silent", "message.sent", "alert.firing"}},
			"events.0,events.2",
		},
		"repeated events of a webhook": {
			"POST", "/api/v1/webhooks", map[string]any{"url": "https://example.com", "events": []string{"message.sent", "message.failed", "message.sent", "message.sent"}},
			"events.2,events.3",
		},
		"repeated channels": {
			"POST", "/api/v1/notifications",
			map[string]any{"biz_type": 0, "biz_id": 1, "channels": []string{"oa", "oa"}, "payload": map[string]any{}, "user_ids": []string{"u"}},
			"channels.1",
		},
		"repeated people of a receiver": {
			"POST", "/api/v1/admin/alert-receivers",
			map[string]any{"name": "n", "kind": "notification", "company_no": "acme", "channels": []string{"oa", "oa"}, "user_ids": []string{"u", "v", "u"}},
			"channels.1,user_ids.2",
		},
		"countries of a company": {
			"PATCH", "/api/v1/admin/companies/acme", map[string]any{"countries": []string{"ZZ", "CN", "CN", "QQ"}, "countries_off": []string{"XX"}},
			"countries.0,countries.3,countries_off.0",
		},
		"countries of a channel": {
			"PATCH", "/api/v1/admin/channels/sms", map[string]any{"countries_off": []string{"CN", "QQ"}}, "countries_off.1",
		},
		"countries that are on and off": {
			"PATCH", "/api/v1/admin/companies/acme", map[string]any{"countries": []string{"CN"}, "countries_off": []string{"CN"}}, "countries_off.0",
		},
		"companies of a template": {
			"POST", "/api/v1/admin/template", map[string]any{"template_name": "t", "template_content": "x", "companies": []string{"nowhere", "acme", "acme", "none"}},
			"companies.0,companies.3",
		},
		"receivers of a rule": {
			"POST", "/api/v1/admin/alert-rules", map[string]any{"name": "n", "kind": "provider_trouble", "level": "warning", "receivers": []int64{8, 7}}, "receivers.0,receivers.1",
		},
		"events of a replay": {"POST", "/api/v1/webhooks/1/replay", map[string]any{"event_ids": []string{"x", "y"}}, "event_ids.0,event_ids.1"},
		"orbits": {
			"POST", "/api/v1/notifications/events",
			map[string]any{"event": "orbit_plan", "task_id": 1, "channels": []string{"oa"}, "user_ids": []string{"u"}, "payload": map[string]any{}, "orbits": []map[string]any{
				{"orbit_no": 1, "in_time": "2200-01-01T00:00:00Z"}, {"orbit_no": 2, "in_time": "2200-01-01T00:00:00Z"},
			}},
			"orbits.0.in_time,orbits.1.in_time",
		},
		"opt-in words": {
			"PATCH", "/api/v1/admin/companies/acme", map[string]any{"recipient": map[string]any{"opt_in_words": []string{"!", "START", "?"}}},
			"recipient.opt_in_words.0,recipient.opt_in_words.2",
		},
		"words of a rule": {"POST", "/api/v1/reply-rules", rule, "words.0,words.2"},
		"opt-out words": {
			"PATCH", "/api/v1/admin/companies/acme", map[string]any{"recipient": map[string]any{"opt_out_words": []string{"!", "STOP", "?"}, "time_zone": "Mars"}},
			"recipient.opt_out_words.0,recipient.opt_out_words.2,recipient.time_zone",
		},
		"countries of codes": {
			"PATCH", "/api/v1/admin/companies/acme", map[string]any{"recipient": map[string]any{"verification_countries": []string{"XX", "DE", "YY"}}},
			"recipient.verification_countries.0,recipient.verification_countries.2",
		},
		"numbers of an inbound": {
			"POST", "/api/v1/admin/inbounds", map[string]any{"inbound_no": "apprise", "preset": "apprise", "phone_numbers": []string{"12", "13800138000", "13"}},
			"phone_numbers.0,phone_numbers.2",
		},
		"repeated numbers of an inbound": {
			"POST", "/api/v1/admin/inbounds", map[string]any{"inbound_no": "apprise", "preset": "apprise", "phone_numbers": []string{"13800138000", "+8613800138000"}},
			"phone_numbers.1",
		},
	} {
		if a := b.Call(c.method, c.path, c.body); a.Status != 422 || a.Fields() != c.fields {
			t.Errorf("%s: got %d %s, want %s\n%s", name, a.Status, a.Fields(), c.fields, a.Raw)
		}
		for field := range strings.SplitSeq(c.fields, ",") {
			list, _, _ := strings.Cut(regexp.MustCompile(`\.[0-9]+`).ReplaceAllString(field, "|"), "|")
			delete(missing, list)
		}
	}
	for _, list := range checkedByContract {
		delete(missing, list)
	}
	if len(missing) > 0 {
		t.Errorf("no case for the lists %v", slices.Sorted(maps.Keys(missing)))
	}
}

// listsOfBodies returns the names of the lists in bodies of the contract.
func listsOfBodies(t *testing.T) map[string]bool {
	t.Helper()
	spec, err := contract.GetSpec()
	if err != nil {
		t.Fatal(err)
	}
	lists := map[string]bool{}
	for _, item := range spec.Paths.Map() {
		for _, operation := range item.Operations() {
			if operation.RequestBody == nil {
				continue
			}
			if body := operation.RequestBody.Value.Content.Get("application/json"); body != nil {
				addLists(lists, body.Schema.Value, "")
			}
		}
	}
	return lists
}

// addLists adds the lists of an object, and of the objects in it. The lists of a list's items are not added.
func addLists(lists map[string]bool, of *openapi3.Schema, within string) {
	for _, parts := range []openapi3.SchemaRefs{of.AllOf, of.OneOf, of.AnyOf} {
		for _, part := range parts {
			addLists(lists, part.Value, within)
		}
	}
	for name, property := range of.Properties {
		if property.Value.Items != nil {
			lists[within+name] = true
		}
		addLists(lists, property.Value, within+name+".")
	}
}
