package notification_test

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
)

// incompressible returns a text of the given number of bytes. PostgreSQL cannot compress this text.
func incompressible(bytes int) string {
	var text strings.Builder
	for text.Len() < bytes {
		text.WriteString(rand.Text())
	}
	return text.String()[:bytes]
}

// longIDs returns n user ids of the maximum length.
func longIDs(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = incompressible(64)
	}
	return ids
}

// fullPayload returns a payload of the maximum size.
func fullPayload() map[string]any {
	return map[string]any{"taskName": "x", "a": incompressible(16<<10 - len(`{"a":"","taskName":"x"}`))}
}

// stored returns the total size of all tables and indexes in bytes.
func stored(b *apptest.Bundle) int {
	b.T.Helper()
	return apptest.Scan[int](b, `SELECT sum(pg_total_relation_size(c.oid))::bigint FROM pg_class c WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace`)
}

func text(t *testing.T, v any) string {
	t.Helper()
	encoded, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(encoded)
}

func TestAnObjectThatIsTooLongIsRefusedAndNothingIsStored(t *testing.T) {
	b := apptest.NewWith(t, apptest.DefaultRules, apptest.WithSecrets)
	b.AddSender(map[string]any{"sender_no": "there", "name": "there"})
	const (
		notification = `{"biz_type":3,"biz_id":1,"channels":["oa"],"user_ids":["u"],"payload":%s}`
		event        = `{"event":"task_finished","task_id":1,"channels":["oa"],"user_ids":["u"],"payload":%s}`
		once         = `{"business_type":"b","business_id":1,"template_type":"t","receiver_user_id":"u","template_id":"x","data":%s}`
		newSender    = `{"sender_no":"new","name":"new","config":%s}`
		patch        = `{"config":%s}`
	)
	for _, o := range []struct{ method, path, body, field string }{
		{"POST", "/api/v1/notifications", notification, "payload"}, {"POST", "/api/v1/notifications/events", event, "payload"},
		{"POST", "/api/v1/subscribe-messages", once, "data"},
		{"POST", "/api/v1/admin/senders", newSender, "config"}, {"PATCH", "/api/v1/admin/senders/there", patch, "config"},
	} {
		longest := `{"a": "` + strings.Repeat("x", 16<<10-len(`{"a":""}`)) + `" ` + strings.Repeat(" ", 5000) + `}`
		for name, object := range map[string]string{
			"a long text":                       strings.Replace(longest, "x", "xx", 1),
			"many members":                      `{"a":[` + strings.Repeat(`12345,`, 3000) + `1]}`,
			"numbers that are long when stored": `{"a":[` + strings.Repeat(`1e99,`, 200) + `1e-99]}`,
		} {
			a := b.Expect(422, "request.invalid", o.method, o.path, fmt.Sprintf(o.body, object))
			if a.Fields() != o.field || !strings.Contains(a.Raw, "16384") {
				t.Errorf("%s for %s: %s", name, o.path, a.Raw)
			}
		}
		if n := b.Count("SELECT (SELECT count(*) FROM notifications) + (SELECT count(*) FROM renderings) + (SELECT count(*) FROM senders) - 1"); n != 0 {
			t.Errorf("%s stored %d rows", o.path, n)
		}
		b.Expect(200, "", o.method, o.path, fmt.Sprintf(o.body, longest))
		b.Exec("TRUNCATE notifications, renderings")
		b.Exec("DELETE FROM senders WHERE sender_no <> 'there'")
	}
}

// The test sends the largest body that the contract allows, and the smallest bodies that create the most rows. The server can store and answer a few times the
// size of the body, plus a few kB for each row.
func TestAnEventIsStoredOnceForAllItsNotifications(t *testing.T) {
	b := apptest.New(t)
	orbits := make([]any, 200)
	for i := range orbits {
		orbits[i] = map[string]any{"orbit_no": i, "in_time": time.Now().Add(time.Duration(2+i) * time.Hour).UTC()}
	}
	channels := make([]string, 10)
	for i := range channels {
		channels[i] = fmt.Sprintf("%s%d", strings.Repeat("c", 49), i)
		b.Expect(200, "", "POST", "/api/v1/admin/channels", map[string]any{"channel": channels[i], "name": "x"})
	}
	for name, c := range map[string]struct {
		people, channels, orbits, made int
	}{
		"most people":              {5000, 2, 1, 10},
		"most orbits":              {50, 1, 200, 1000},
		"most channels":            {50, 10, 20, 1000},
		"most people and channels": {5000, 10, 1, 50},
	} {
		t.Run(name, func(t *testing.T) {
			body := map[string]any{
				"event": "orbit_plan", "task_id": c.people + c.channels, "channels": channels[:c.channels], "user_ids": longIDs(c.people),
				"payload": fullPayload(), "orbits": orbits[:c.orbits],
			}
			sent := text(t, body)
			before := stored(b)
			a := b.Expect(200, "", "POST", "/api/v1/notifications/events", sent)
			if made := apptest.Decode[api.NotificationsMade](t, a).Items; len(made) != c.made {
				t.Errorf("%d notifications, want %d", len(made), c.made)
			}
			if most := 2*len(sent) + 200*c.made; len(a.Raw) > most {
				t.Errorf("a body of %d bytes is answered with %d", len(sent), len(a.Raw))
			}
			if grown, most := stored(b)-before, 6*len(sent)+1000*c.made+200_000; grown > most {
				t.Errorf("a body of %d bytes stored %d bytes, want at most %d", len(sent), grown, most)
			}
			// A repeat stores nothing.
			before = stored(b)
			for range 10 {
				b.Expect(200, "", "POST", "/api/v1/notifications/events", sent)
			}
			if grown := stored(b) - before; grown > 100_000 {
				t.Errorf("ten repeats stored %d bytes", grown)
			}
			if most := c.orbits; most < len(orbits) {
				body["orbits"] = orbits[:most+1]
				a := b.Expect(422, "request.invalid", "POST", "/api/v1/notifications/events", body)
				if a.Fields() != "orbits" || !strings.Contains(a.Raw, fmt.Sprint(most)) {
					t.Errorf("%s", a.Raw)
				}
			}
		})
	}
}

func TestListsLeaveOutPayloadsAndRecipients(t *testing.T) {
	b := apptest.New(t)
	people, payload := longIDs(5000), fullPayload()
	var last int64
	for i := range 3 {
		sent := text(t, map[string]any{
			"biz_type": 3, "biz_id": i, "channels": []string{"oa", "dingtalk", "email"}, "user_ids": people, "payload": payload,
			"next_run_time": time.Now().Add(time.Hour),
		})
		before := stored(b)
		made := apptest.Decode[api.NotificationsMade](t, b.Expect(200, "", "POST", "/api/v1/notifications", sent))
		if grown := stored(b) - before; grown > 6*len(sent)+200_000 {
			t.Errorf("a body of %d bytes stored %d bytes", len(sent), grown)
		}
		last = made.Items[2].NotificationID
	}
	if list := b.Expect(200, "", "GET", "/api/v1/notifications?limit=100", nil); len(list.Raw) > 10_000 {
		t.Errorf("the list of 9 notifications has %d bytes", len(list.Raw))
	}
	n := b.Notification(last)
	if !slices.Equal(n.UserIds, people) || n.Payload["a"] != payload["a"] {
		t.Error("a single notification differs from what was submitted")
	}
	found := apptest.Decode[api.NotificationPage](t, b.Expect(200, "", "GET", "/api/v1/notifications?limit=100&user_id="+people[7], nil))
	if len(found.Items) != 9 {
		t.Errorf("the filter by user id returns %d of 9 notifications", len(found.Items))
	}
}

func TestAnAnswerListsAtMostAHundredRecipientsWithoutAnAddress(t *testing.T) {
	b := apptest.New(t)
	body := map[string]any{
		"biz_type": 3, "biz_id": 1, "channels": []string{"dingtalk", "email"}, "user_ids": longIDs(150), "payload": map[string]any{"taskName": "x"},
		"dedup_key": "k",
	}
	for _, people := range [][]string{longIDs(150), longIDs(150)} { // the first request reached no recipient, so the second request is processed again
		body["user_ids"] = people
		a := b.Expect(200, "", "POST", "/api/v1/notifications", body)
		made, failed := apptest.Decode[api.NotificationsMade](t, a), 0
		for _, item := range made.Items {
			failed += len(item.Failed)
		}
		if failed != 100 || made.MoreFailed == nil || !*made.MoreFailed || len(a.Raw) > 20_000 {
			t.Errorf("%d people failed, more_failed %v, answer of %d bytes", failed, made.MoreFailed, len(a.Raw))
		}
	}
	body["dedup_key"], body["user_ids"] = "few", []string{"u"}
	if made := apptest.Decode[api.NotificationsMade](t, b.Expect(200, "", "POST", "/api/v1/notifications", body)); made.MoreFailed != nil || len(made.Items[0].Failed) != 1 {
		t.Errorf("%+v", made)
	}
}

// For each operation that stores its body, the test sends the largest body that the contract allows.
func TestTheStoredSizeOfTheLargestBodyIsBounded(t *testing.T) {
	b := apptest.NewWith(t, apptest.DefaultRules, apptest.WithSecrets)
	var countries, companies []string
	for i := range 300 {
		countries, companies = append(countries, fmt.Sprintf("%047d%d", 0, 100+i)), append(companies, fmt.Sprintf("%s%d", strings.Repeat("c", 47), 100+i))
		b.Exec("INSERT INTO countries (country_no, name, dial_prefix) VALUES ($1, 'x', $2)", countries[i], fmt.Sprint(9_000_000+i))
		b.Exec("INSERT INTO companies (company_no, name) VALUES ($1, 'x')", companies[i])
	}
	contacts := make([]any, 1000)
	for i := range contacts {
		contacts[i] = map[string]any{
			"user_id": incompressible(64), "phone": apptest.Phone, "dingtalk_name": strings.Repeat("丁", 100), "wechat_openid": incompressible(100),
			"email": incompressible(64) + "@" + strings.Repeat(strings.Repeat("x", 60)+".", 3) + "com",
		}
	}
	long := strings.Repeat("名", 100)
	for _, c := range []struct {
		method, path string
		body         any
	}{
		{"PUT", "/api/v1/admin/contacts", map[string]any{"contacts": contacts}},
		{"PUT", "/api/v1/admin/notification-templates/3/oa", map[string]any{
			"title": strings.Repeat("题", 200), "content": strings.Repeat("文", 20_000), "external_id": strings.Repeat("x", 64), "sign": strings.Repeat("签", 20),
		}},
		{"POST", "/api/v1/admin/companies", map[string]any{"company_no": strings.Repeat("n", 50), "name": long, "countries": countries}},
		{"POST", "/api/v1/admin/channels", map[string]any{"channel": strings.Repeat("n", 50), "name": long, "countries": countries, "retry_minutes": make([]int, 20)}},
		{"POST", "/api/v1/admin/countries", map[string]any{"country_no": strings.Repeat("n", 50), "name": long, "dial_prefix": "1234567"}},
		{"POST", "/api/v1/admin/senders", map[string]any{
			"sender_no": strings.Repeat("n", 50), "name": long, "config": map[string]any{"a": incompressible(16<<10 - len(`{"a":""}`))}, "sign": strings.Repeat("签", 20),
		}},
		{"POST", "/api/v1/admin/template", map[string]any{"template_name": long, "template_content": strings.Repeat("文", 200), "companies": companies}},
		{"POST", "/api/v1/subscribe-messages", map[string]any{
			"business_type": strings.Repeat("b", 50), "business_id": 1, "template_type": strings.Repeat("t", 50), "receiver_user_id": incompressible(64),
			"template_id": strings.Repeat("x", 100), "receiver_openid": strings.Repeat("o", 100), "page": strings.Repeat("p", 1024),
			"data": map[string]any{"a": incompressible(16<<10 - len(`{"a":""}`))},
		}},
		{"POST", "/api/v1/notifications/status", map[string]any{"biz_type": 3, "biz_ids": make([]int, 1000), "status": 3, "operator": strings.Repeat("o", 64)}},
	} {
		sent := text(t, c.body)
		before := stored(b)
		a := b.Expect(200, "", c.method, c.path, sent)
		if most := 2*len(sent) + 1000; len(a.Raw) > most {
			t.Errorf("%s: a body of %d bytes is answered with %d", c.path, len(sent), len(a.Raw))
		}
		if grown, most := stored(b)-before, 6*len(sent)+200_000; grown > most {
			t.Errorf("%s: a body of %d bytes stored %d bytes, want at most %d", c.path, len(sent), grown, most)
		}
	}
}
