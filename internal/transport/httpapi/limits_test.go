package httpapi_test

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"lksms/gen/accessq"
	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
)

// bounds contains the maximum number of rows of each table. If the maximum applies to each value of a column, the name of the column follows the number. The
// contract contains the same numbers.
var bounds = map[string]string{
	"companies": "10000", "channels": "1000", "countries": "1000", "senders": "10000 is_self_registered", "routes": "100000", "pools": "200000",
	"users": "100000", "api_keys": "1000 user_id", "templates": "10000", "template_versions": "1000 template_id", "notification_templates": "10000",
	"company_notification_templates": "1000 company_id",
	"default_contents":               "100000 company_id", "contacts": "2000000", "tags": "10000 company_id",
	"batches": "10000 company_id", "alert_rules": "1000", "alert_receivers": "100", "inbounds": "1000", "reply_rules": "100 company_id", "webhooks": "20 owner", "verification_safe": "10000",
}

// unbounded contains the tables without a limit in a trigger, and the reason.
var unbounded = map[string]string{
	"messages": "messages", "queue": "messages", "dedup_keys": "messages", "renderings": "messages", "deliveries": "messages", "smsgate_messages": "messages", "subscribe_messages": "messages", "receipts": "messages",
	"blocks":            "numbers that must not get messages",
	"sim_recipients":    "numbers with recent messages through a SIM; deleted after 32 days",
	"capped_recipients": "numbers with recent messages; deleted after two days",
	"received_messages": "messages from senders; old ones are deleted", "conversations": "by company, number and submitter of received messages",
	"verifications": "codes that were sent; deleted by age", "block_requests": "one for a company and a number; deleted with its message",
	"reply_actions": "received messages that a rule matched",
	"business_ends": "ends of business tasks, kept like messages", "callbacks": "bodies from providers",
	"fruitless_submissions": "history", "report_logs": "history", "sender_ledger": "history", "events": "history", "audit": "history",
	"announcements": "texts of notifications", "credentials_version": "one row",
	"notifications":    "each request counts the waiting ones, the others are history",
	"idempotency_keys": "one for each request that did something, for a day", "idempotency_secret": "one row",
	"user_addresses": "the oldest of a user is deleted",
	"sessions":       "the oldest of a user ends",
	"phones":         "one for a sender", "phone_inboxes": "one for a sender", "phone_leases": "leases of phones; those that are over are deleted by the next pull",
	"sender_links": "32 for a sender", "received_parts": "parts of messages; joined within an hour", "received_part_identities": "parts of messages; deleted after two hours",
	"smpp_passwords": "one for a user", "smpp_receivers": "one for a user", "smpp_long_messages": "10,000 of a user; joined or ended within minutes", "smpp_numbers": "messages",
	"sender_sims": "ten for a sender", "sim_usages": "ten for a sender",
	"sender_states": "one for a sender", "sender_tokens": "one for a sender", "fair_ranks": "by pool, priority and company", "task_partitions": "one for some days", "number_partitions": "one for some days",
	"quiet_changes":     "two of a change of quiet hours; deleted within minutes",
	"channel_countries": "by channel and country", "company_countries": "by company and country",
	"contact_counts": "one for a company", "tag_contacts": "by tag and contact", "deleted_tags": "emptied within minutes",
	"erasures":        "history; a hundred of a company run at a time",
	"contact_imports": "history; ten of a company run at a time", "contact_import_errors": "10,000 of an import",
	"sql_roles": "one for a role of PostgreSQL", "sql_inbox": "moved within a second",
	"business_locks": "256 rows", "sender_answers": "ten of a sender",
	"servers": "one for a server of the last day", "settings": "named in the contract", "directory_version": "one row",
	"daily_totals": "by day, company, sender, type and country", "reconciliations": "history; ten files are compared at a time", "reconciliation_rows": "the rows of files, of at most 100 MiB; deleted when they are compared",
	"reconciliation_differences": "10,000 of a kind and reconciliation",
	"uploads":                    "1 GiB of a company at a time; deleted after an hour unless used", "upload_parts": "uploads",
	"batch_rows": "the rows of lists, of at most 100 MiB; deleted with their batches", "batch_counts": "by batch and sender", "batch_acts": "one of each act of a user; deleted with their batches",
	"task_jobs": "history; a hundred run at a time", "task_job_parts": "the tasks of jobs that run",
	"webhook_secrets": "five of a webhook", "webhook_deliveries": "a hundred of a webhook, and one of each retry",
	"webhook_retries": "1,000 of a webhook that failed, and 10,000 that are replayed",
	"feed":            "history of a week", "feed_staged": "moved within seconds", "feed_listeners": "one for a company", "feed_state": "one row",
	"verification_hours": "deleted after days", "verification_hours_staged": "moved within seconds", "verification_subjects": "of one day",
	"facts": "folded within seconds", "statistics_staged": "moved within minutes", "statistics": "by step, company and key", "pool_channels": "one for a pool", "task_counts": "one for a company",
	"alerts": "a hundred at a time for a rule; the others are history", "alert_deliveries": "by alert and receiver",
	"alert_receiver_states": "one for a receiver", "disk_spaces": "one for a folder of a server",
}

// A new table needs a limit, or a reason in unbounded.
func TestEveryTableHasLimitOrReasonWithoutLimit(t *testing.T) {
	b := apptest.New(t)
	rows, err := b.DB.Query(t.Context(), `
		SELECT c.relname::text, coalesce((
			SELECT rtrim(replace(encode(g.tgargs, 'escape'), '\000', ' '))
			FROM pg_trigger g WHERE g.tgrelid = c.oid AND g.tgfoid IN ('rows_bound'::regproc, 'contacts_count'::regproc) AND g.tgnargs > 0
		), '')
		FROM pg_class c
		WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relname <> 'schema_migrations'
			AND c.relname NOT LIKE 'lock\_%' -- they have no rows`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	found := map[string]string{}
	for rows.Next() {
		var table, bound string
		if err := rows.Scan(&table, &bound); err != nil {
			t.Fatal(err)
		}
		if bound != "" {
			found[table] = bound
		} else if unbounded[table] == "" {
			t.Errorf("%s has no bound", table)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(found, bounds) {
		t.Errorf("bounds are %v, want %v", found, bounds)
	}
}

// bound replaces the limit of a table.
func bound(b *apptest.Bundle, table string, limit int) {
	b.T.Helper()
	if table == "contacts" {
		b.Exec(fmt.Sprintf(`DROP TRIGGER contacts_counted ON contacts;
			CREATE TRIGGER contacts_counted AFTER INSERT ON contacts REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION contacts_count(%d)`, limit))
		return
	}
	_, column, isOfSome := strings.Cut(bounds[table], " ")
	if isOfSome {
		column = ", " + column
	}
	b.Exec(fmt.Sprintf(`DROP TRIGGER %[1]s_rows_bound ON %[1]s;
		CREATE TRIGGER %[1]s_rows_bound AFTER INSERT ON %[1]s REFERENCING NEW TABLE AS added
		FOR EACH STATEMENT EXECUTE FUNCTION rows_bound(%[2]d%[3]s)`, table, limit, column))
}

// expectFull fails the test unless another row is rejected and the response contains the limit.
func expectFull(b *apptest.Bundle, limit int, method, path string, body any, headers ...string) {
	b.T.Helper()
	a := b.Expect(http.StatusConflict, "limit.reached", method, path, body, headers...)
	if a.Body.Error.Limit != int64(limit) || !strings.Contains(a.Body.Message, fmt.Sprint(limit)) {
		b.T.Errorf("%s does not name the limit of %d", a.Raw, limit)
	}
}

// creation describes how requests create rows of a table.
type creation struct {
	table, counted string // counted is the SQL condition of rows that count; empty: all rows
	create         func(i int) (method, path, body string)
	change         string // body of a PUT that changes an existing row
	elsewhere      func() // creates a row that does not count
}

// posts returns a function that returns POST requests to an administrative path. %d in body becomes the number of the request.
func posts(path, body string) func(i int) (string, string, string) {
	return func(i int) (string, string, string) {
		return "POST", "/api/v1/admin/" + path, strings.ReplaceAll(body, "%d", fmt.Sprint(i))
	}
}

// setupCreations returns the creations of rows that administrators configure.
func setupCreations(b *apptest.Bundle) []creation {
	pools := []string{`"message_type":"marketing"`, `"message_type":"verification"`, `"message_type":"verification","country_no":"NZ"`}
	return []creation{
		{table: "companies", create: posts("companies", `{"company_no":"c%d","name":"c"}`)},
		{table: "channels", create: posts("channels", `{"channel":"c%d","name":"c"}`)},
		{table: "countries", create: posts("countries", `{"country_no":"c%d","name":"c","dial_prefix":"99%d"}`)},
		{table: "senders", counted: "NOT is_self_registered", create: posts("senders", `{"sender_no":"n%d","name":"n"}`), elsewhere: func() {
			b.Claim("polls", 1)
		}},
		{table: "routes", create: posts("routes", `{"company_no":"default","message_type":"notification","sender_no":"s%d"}`)},
		{table: "pools", create: func(i int) (string, string, string) {
			return "POST", "/api/v1/admin/routes", `{"company_no":"default","sender_no":"s0",` + pools[i] + `}`
		}},
		{table: "users", create: posts("users", `{"username":"u%d","role":"read"}`)},
		{table: "api_keys", counted: "user_id = (SELECT id FROM users WHERE username = 'holder')", create: posts("users/holder/keys", `{"name":"k%d"}`), elsewhere: func() {
			b.Expect(200, "", "POST", "/api/v1/admin/users/other/keys", `{"name":"k"}`)
		}},
		{table: "templates", create: posts("template", `{"template_name":"n%d","template_content":"c"}`)},
		{table: "default_contents", counted: "company_id = 1", create: posts("default-sms", `{"phone_number":"1380013800%d","content":"c"}`), elsewhere: func() {
			b.Expect(200, "", "POST", "/api/v1/admin/default-sms", `{"phone_number":"13800138000","content":"c","company_no":"acme"}`)
		}},
		{table: "alert_rules", create: posts("alert-rules", `{"name":"r%d","kind":"pool_unserved","level":"warning"}`)},
		{table: "alert_receivers", create: posts("alert-receivers", `{"name":"r%d","kind":"alertmanager","url":"http://alerts.example"}`)},
		{table: "verification_safe", create: posts("verifications/safe", `{"subject":"+49151%d"}`)},
	}
}

// contentCreations returns the creations of inbounds, notification templates and contacts. acme contains the credentials of a user of another company.
func contentCreations(b *apptest.Bundle, acme []string) []creation {
	return []creation{
		{table: "inbounds", create: posts("inbounds", `{"inbound_no":"i%d","preset":"logto"}`)},
		{table: "notification_templates", create: func(i int) (string, string, string) {
			return "PUT", fmt.Sprint("/api/v1/admin/notification-templates/", 900+i, "/oa"), `{"title":"t","content":"c"}`
		}, change: `{"title":"changed","content":"c"}`},
		{table: "company_notification_templates", counted: "company_id = 1", create: func(i int) (string, string, string) {
			return "PUT", fmt.Sprint("/api/v1/admin/notification-templates/", 900+i, "/oa?company_no=default"), `{"title":"t","content":"c"}`
		}, change: `{"title":"changed","content":"c"}`, elsewhere: func() {
			b.Expect(200, "", "PUT", "/api/v1/admin/notification-templates/900/oa", `{"title":"t","content":"c"}`, acme...)
		}},
		{table: "contacts", counted: "company_id = 1", create: func(i int) (string, string, string) {
			return "PUT", "/api/v1/admin/contacts", fmt.Sprintf(`{"contacts":[{"user_id":"u%d"}]}`, i)
		}, change: `{"contacts":[{"user_id":"u0","email":"u@example.com"},{"user_id":"u1"}]}`, elsewhere: func() {
			b.Expect(200, "", "PUT", "/api/v1/admin/contacts", `{"contacts":[{"user_id":"u0"}]}`, acme...)
		}},
		{table: "reply_rules", counted: "company_id = 1", create: func(i int) (string, string, string) {
			return "POST", "/api/v1/reply-rules", fmt.Sprintf(`{"match":"exact","words":["w%d"],"action":"acknowledge"}`, i)
		}, elsewhere: func() {
			b.Expect(200, "", "POST", "/api/v1/reply-rules", `{"match":"exact","words":["w"],"action":"acknowledge"}`, acme...)
		}},
		{table: "tags", counted: "company_id = 1", create: func(i int) (string, string, string) { return "PUT", fmt.Sprint("/api/v1/tags/t", i), "" }, elsewhere: func() {
			b.Expect(200, "", "PUT", "/api/v1/tags/t0", nil, acme...)
		}},
	}
}

// expectBounded fails the test unless requests can create exactly as many rows as the limit allows.
func (c creation) expectBounded(t *testing.T, b *apptest.Bundle) {
	t.Helper()
	if c.counted == "" {
		c.counted = "true"
	}
	count := func() int { return b.Count("SELECT count(*) FROM " + c.table + " WHERE " + c.counted) }
	limit := count() + 2
	bound(b, c.table, limit)
	for i := range 2 {
		method, path, body := c.create(i)
		b.Expect(200, "", method, path, body)
	}
	method, path, body := c.create(2)
	expectFull(b, limit, method, path, body)
	if c.change != "" {
		_, path, _ := c.create(0)
		b.Expect(200, "", method, path, c.change)
	}
	if got := count(); got != limit {
		t.Errorf("%d rows, want %d", got, limit)
	}
	if c.elsewhere != nil {
		c.elsewhere()
	}
	bound(b, c.table, limit+1)
	b.Expect(200, "", method, path, body)
	bound(b, c.table, 1000)
}

func TestNoTableGrowsBeyondItsLimit(t *testing.T) {
	b := apptest.New(t)
	acme := b.AddCompany("acme", 1)
	b.AddUser("holder", "submit", nil)
	b.AddUser("other", "submit", nil)
	b.Expect(200, "", "POST", "/api/v1/admin/countries", `{"country_no":"NZ","name":"New Zealand","dial_prefix":"64"}`)
	for i := range 3 {
		b.AddSender(map[string]any{"sender_no": fmt.Sprint("s", i)})
	}
	for _, c := range append(setupCreations(b), contentCreations(b, acme)...) {
		t.Run(c.table, func(t *testing.T) { c.expectBounded(t, b) })
	}
	bound(b, "verification_safe", b.Count("SELECT count(*) FROM verification_safe"))
	b.Expect(409, "limit.reached", "POST", "/api/v1/admin/verifications/suspects/release", `{"company_no":"default","subject":"+33"}`)
	bound(b, "contacts", b.Count("SELECT count(*) FROM contacts WHERE company_id = 1")+1)
	b.Expect(409, "limit.reached", "PUT", "/api/v1/admin/contacts", `{"contacts":[{"user_id":"new1"},{"user_id":"new2"}]}`) // no contact is stored
	b.Expect(404, "contact.not_found", "GET", "/api/v1/admin/contacts/new1", nil)
	if a := b.Call("PUT", "/api/v1/admin/contacts", `{"contacts":[{"user_id":"new1"},{"user_id":"new2"}]}`, "Accept-Language", "zh"); !strings.Contains(a.Body.Message, "已达上限") {
		t.Errorf("in Chinese: %s", a.Raw)
	}
}

// Polls with many different app_ids register only a limited number of senders. Known apps are not affected.
func TestNumberOfSelfRegisteredAppsIsLimited(t *testing.T) {
	b := apptest.New(t)
	bound(b, "senders", 2)
	phones := b.AddUser("phones", "send", nil)
	poll := func(app string) string { return "/api/v1/sms/tasks/pending?app_id=" + app }
	b.Expect(200, "", "GET", poll("a"), nil, phones...)
	b.Expect(200, "", "GET", poll("b"), nil, phones...)
	bound := b.AddUser("phone", "send", map[string]any{"app_id": "c"})
	for _, headers := range [][]string{phones, bound} {
		expectFull(b, 2, "GET", poll("c"), nil, headers...)
		expectFull(b, 2, "GET", poll("c")+"&wait=30", nil, headers...)
		expectFull(b, 2, "GET", "/app"+poll("c"), nil, headers...)
		expectFull(b, 2, "POST", "/api/v1/sms/tasks/claim", `{"app_id":"c","limit":10}`, headers...)
	}
	if n := b.Count("SELECT count(*) FROM senders") + b.Count("SELECT count(*) FROM sender_states"); n != 4 {
		t.Errorf("%d rows of senders, want 4", n)
	}
	b.Submit("x")
	if got := b.Claim("a", 1); len(got) != 1 {
		t.Errorf("a known app claimed %v", got)
	}
	b.AddSender(map[string]any{"sender_no": "c"}) // an admin is allowed to add a sender
	b.Expect(200, "", "GET", poll("c"), nil, bound...)
	b.Expect(403, "auth.other_app", "GET", poll("d"), nil, bound...)
	b.Expect(200, "", "DELETE", "/api/v1/admin/senders/b", nil)
	b.Expect(200, "", "GET", poll("d"), nil, phones...)
}

func TestWaitingNotificationsOfCompanyAreLimited(t *testing.T) {
	const limit = 100_000
	b := apptest.New(t)
	acme := b.AddCompany("acme", 1)
	b.Exec(`WITH a AS (INSERT INTO announcements (payload, user_ids) VALUES ('{}', '{u}') RETURNING id)
		INSERT INTO notifications (company_id, channel_id, biz_type, biz_id, announcement_id, next_run_at, submitted_by)
		SELECT 1, c.id, 2, g, a.id, now() + interval '1 day', 'x' FROM a, channels c, generate_series(1, $1::bigint) g WHERE c.channel = 'oa'`, limit-1)
	const path = "/api/v1/notifications"
	notify := func(more map[string]any) map[string]any {
		body := map[string]any{"biz_type": 2, "biz_id": 1, "channels": []string{"oa"}, "payload": map[string]any{"taskName": "x"}, "user_ids": []string{"u"}}
		for k, v := range more {
			body[k] = v
		}
		return body
	}
	tomorrow := time.Now().Add(24 * time.Hour)
	last := notify(map[string]any{"next_run_time": tomorrow, "dedup_key": "last"})
	event := func(name string) map[string]any {
		return map[string]any{"event": name, "task_id": 1, "node_inst_id": 7, "channels": []string{"oa"}, "user_ids": []string{"u"}, "max_duration": 60,
			"payload": map[string]any{"taskName": "x", "nodeName": "y"}}
	}
	b.Expect(200, "", "POST", path, last)
	expectFull(b, limit, "POST", path, notify(map[string]any{"next_run_time": tomorrow}))
	expectFull(b, limit, "POST", path, notify(map[string]any{"biz_type": 3, "repeat_minutes": 5}))
	expectFull(b, limit, "POST", path+"/events", event("node_started"))
	if n := b.Count("SELECT count(*) FROM notifications"); n != limit {
		t.Errorf("%d notifications, want %d", n, limit)
	}
	// Repeated notifications, notifications that do not wait, requests that end a notification, and notifications of other companies are accepted.
	if made := apptest.Decode[api.NotificationsMade](t, b.Expect(200, "", "POST", path, last)); !made.Items[0].Deduplicated {
		t.Errorf("%+v", made)
	}
	b.Expect(200, "", "POST", path, notify(nil))
	b.Expect(200, "", "POST", path+"/events", event("node_finished"))
	b.Expect(200, "", "POST", path, notify(map[string]any{"next_run_time": tomorrow}), acme...)
	b.Expect(200, "", "POST", path+"/status", `{"biz_type":2,"biz_ids":[2],"status":3}`)
	b.Expect(200, "", "POST", path, notify(map[string]any{"next_run_time": tomorrow}))
}

func TestAddressesOfUserAreLimited(t *testing.T) {
	b := apptest.New(t)
	b.Exec("INSERT INTO user_addresses (network, username, seen_at) SELECT 'n' || g, 'roams', now() - g * interval '1 minute' FROM generate_series(1, 1000) g")
	if err := accessq.New(b.DB).UserAddressRecord(t.Context(), accessq.UserAddressRecordParams{Username: "roams", Network: "new"}); err != nil {
		t.Fatal(err)
	}
	if n := b.Count("SELECT count(*) FROM user_addresses"); n != 1000 {
		t.Errorf("%d addresses are stored, want 1000", n)
	}
	if n := b.Count("SELECT count(*) FROM user_addresses WHERE network IN ('new', 'n999')"); n != 2 {
		t.Error("another address than the oldest was deleted")
	}
}
