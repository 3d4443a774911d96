package httpapi_test

import (
	"testing"
	"time"

	"lksms/internal/testkit/apptest"
)

// An answer names each wrong item of a list by its index, not only the first one.
func TestAnAnswerNamesEachWrongItemOfAList(t *testing.T) {
	b := apptest.New(t)
	b.Expect(200, "", "POST", "/api/v1/admin/companies", map[string]any{"company_no": "acme", "name": "Acme"})
	b.AddSender(map[string]any{"sender_no": "phone"})
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
			"POST", "/api/v1/batches", map[string]any{"name": "n", "content": "x", "tags_all": []string{"a", "b"}, "tags_none": []string{"c"}},
			"tags_all.0,tags_all.1,tags_none.0",
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
		"words of a rule": {"POST", "/api/v1/reply-rules", rule, "words.0,words.2"},
		"opt-out words": {
			"PATCH", "/api/v1/admin/companies/acme", map[string]any{"recipient": map[string]any{"opt_out_words": []string{"!", "STOP", "?"}, "time_zone": "Mars"}},
			"recipient.opt_out_words.0,recipient.opt_out_words.2,recipient.time_zone",
		},
		"numbers of an inbound": {
			"POST", "/api/v1/admin/inbounds", map[string]any{"inbound_no": "apprise", "preset": "apprise", "phone_numbers": []string{"12", "13800138000", "13"}},
			"phone_numbers.0,phone_numbers.2",
		},
	} {
		if a := b.Call(c.method, c.path, c.body); a.Status != 422 || a.Fields() != c.fields {
			t.Errorf("%s: got %d %s, want %s\n%s", name, a.Status, a.Fields(), c.fields, a.Raw)
		}
	}
}
