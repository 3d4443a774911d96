package audit_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/dispatch/callback"
	"lksms/internal/dispatch/driver"
	"lksms/internal/insight/audit"
	"lksms/internal/platform/postgres"
	"lksms/internal/testkit/apptest"
)

func TestMain(m *testing.M) { apptest.Main(m) }

// row is a row of audit without id and time.
type row struct {
	Actor, Role, IP, RequestID, Action, Entity, Key, Company *string
	Before, After                                            map[string]any
}

func (r row) String() string { return fmt.Sprint(*r.Action, " ", *r.Entity, " ", *r.Key) }

// rowsAfter returns the rows with ids greater than id, and their greatest id.
func rowsAfter(b *apptest.Bundle, id int64) ([]row, int64) {
	b.T.Helper()
	rows, err := b.DB.Query(b.T.Context(), `SELECT id, actor, actor_role, source_ip, request_id, action, entity, entity_key, company_no, before, after
		FROM audit WHERE id > $1 ORDER BY id`, id)
	if err != nil {
		b.T.Fatal(err)
	}
	defer rows.Close()
	var all []row
	for rows.Next() {
		var r row
		if err := rows.Scan(&id, &r.Actor, &r.Role, &r.IP, &r.RequestID, &r.Action, &r.Entity, &r.Key, &r.Company, &r.Before, &r.After); err != nil {
			b.T.Fatal(err)
		}
		all = append(all, r)
	}
	if err := rows.Err(); err != nil {
		b.T.Fatal(err)
	}
	return all, id
}

// recorded calls do, and returns the rows of audit that do added.
func recorded(b *apptest.Bundle, do func()) []row {
	b.T.Helper()
	_, last := rowsAfter(b, 0)
	do()
	rows, _ := rowsAfter(b, last)
	return rows
}

func texts(rows []row) []string {
	all := []string{}
	for _, r := range rows {
		all = append(all, r.String())
	}
	slices.Sort(all)
	return all
}

// step is one administrative change, and the rows of audit that it adds.
type step struct {
	// path is relative to /api/v1/admin/ unless it begins with a slash. If path is empty, the path comes from apptest.Operations. {entity} stands for the key
	// in the latest row of this entity.
	operation, path, body string
	want                  []string
	prepare               func(b *apptest.Bundle)
}

// steps contains each administrative operation of the contract. In this order, all steps succeed.
var steps = []step{
	{operation: "createCountry", body: `{"country_no":"NZ","name":"NZ","dial_prefix":"64"}`, want: []string{"created country NZ"}},
	{operation: "updateCountry", path: "countries/NZ", body: `{"name":"New Zealand"}`, want: []string{"changed country NZ"}},
	{operation: "createCompany", body: `{"company_no":"acme","name":"Acme","countries":["NZ"]}`, want: []string{"changed company acme", "created company acme"}},
	{operation: "updateCompany", path: "companies/acme", body: `{"weight":2,"countries":[]}`, want: []string{"changed company acme", "changed company acme"}},
	{operation: "updateCompany", path: "companies/acme", body: `{"countries":["NZ"]}`, want: []string{"changed company acme"}},
	{operation: "createChannel", body: `{"channel":"fax","name":"Fax","countries":["NZ"]}`, want: []string{"changed channel fax", "created channel fax"}},
	{operation: "updateChannel", path: "channels/fax", body: `{"signature_required":true}`, want: []string{"changed channel fax"}},
	{operation: "createSender", body: `{"sender_no":"s","name":"S"}`, want: []string{"created sender s"}},
	{operation: "createSender", body: `{"sender_no":"paid","name":"P","balance":10}`, want: []string{"created sender paid", "created sender_balance paid"}},
	{operation: "updateSender", path: "senders/s", body: `{"status":"off","low_warning":5}`, want: []string{"changed sender s"}},
	{operation: "changeBalance", path: "senders/paid/balance", body: `{"change":5}`, want: []string{"changed sender_balance paid"}},
	{operation: "pairPhone", path: "senders/paid/pairing", body: `{"sim_number":1}`, want: []string{"created phone paid"}},
	{operation: "replaceSims", path: "senders/paid/sims", body: `{"sims":[{"slot":1,"per_day":5},{"slot":2}]}`, want: []string{"created sender_sim paid/1", "created sender_sim paid/2"}},
	{operation: "replaceSims", path: "senders/paid/sims", body: `{"sims":[{"slot":1,"per_day":6}]}`, want: []string{"changed sender_sim paid/1", "deleted sender_sim paid/2"}},
	{operation: "createRoute", body: `{"company_no":"acme","message_type":"marketing","country_no":"NZ","sender_no":"s"}`, want: []string{"created route 1"}},
	{operation: "updateRoute", path: "routes/{route}", body: `{"weight":3}`, want: []string{"changed route 1"}},
	{operation: "deleteRoute", path: "routes/{route}", want: []string{"deleted route 1"}},
	{operation: "deleteSender", path: "senders/s", want: []string{"deleted sender s"}},
	{operation: "createTemplate", body: `{"template_name":"n","template_content":"c","companies":["acme"]}`, want: []string{"created template 1"}},
	{operation: "updateTemplate", path: "template/{template}", body: `{"is_active":false}`, want: []string{"changed template 1"}},
	{operation: "deleteTemplate", path: "template/{template}", want: []string{"deleted template 1"}},
	{operation: "createDefaultContent", body: `{"phone_number":"13800138000","content":"c"}`, want: []string{"created default_content 1"}},
	{operation: "updateDefaultContent", path: "default-sms/{default_content}", body: `{"content":"d"}`, want: []string{"changed default_content 1"}},
	{operation: "resetDefaultContent", path: "default-sms/{default_content}/reset", want: []string{"changed default_content 1"}, prepare: func(b *apptest.Bundle) {
		b.Exec("UPDATE default_contents SET is_sent = true")
	}},
	{operation: "deleteDefaultContent", path: "default-sms/{default_content}", want: []string{"deleted default_content 1"}},
	{operation: "createUser", body: `{"username":"jane","role":"submit","company_no":"acme","password":"a long password"}`, want: []string{"created user jane"}},
	{operation: "updateUser", path: "users/jane", body: `{"password":"another password"}`, want: []string{"changed user jane"}},
	{operation: "createKey", path: "users/jane/keys", body: `{"name":"n"}`, want: []string{"created api_key jane/1"}},
	{operation: "deleteKey", path: "users/jane/keys/1", want: []string{"deleted api_key jane/1"}},
	{operation: "createSmppPassword", path: "users/jane/smpp-password", want: []string{"created smpp_password jane"}},
	{operation: "deleteSmppPassword", path: "users/jane/smpp-password", want: []string{"deleted smpp_password jane"}},
	{operation: "updateUser", path: "users/jane", body: `{"company_no":"default"}`, want: []string{"changed user jane"}},
	{operation: "putSettings", body: `{"queue":{"priority_max_wait_seconds":7},"sms":{"priority_marketing":7}}`, want: []string{
		"changed setting queue/priority_max_wait_seconds", "changed setting sms/priority_marketing",
	}},
	{operation: "putSettingsCategory", path: "settings/sms", body: `{"priority_marketing":6}`, want: []string{"changed setting sms/priority_marketing"}},
	{operation: "putContacts", body: `{"contacts":[{"user_id":"u","phone":"13800138000"},{"user_id":"v"}]}`, want: []string{"created contact u", "created contact v"}},
	{operation: "putContacts", body: `{"contacts":[{"user_id":"u","email":"u@example.com"},{"user_id":"v"}]}`, want: []string{"changed contact u"}},
	{operation: "putTag", path: "/api/v1/tags/vip", want: []string{"created tag vip"}},
	{operation: "changeTag", path: "/api/v1/tags/vip/contacts", body: `{"add":["u","nobody"],"remove":["v"]}`, want: []string{"changed tag vip"}},
	{operation: "importContacts", path: "/api/v1/contacts/import", body: apptest.Form("file", "list.csv", "user_id\nw\n"), want: []string{"created contact_import 2"}},
	{operation: "eraseContacts", path: "/api/v1/contacts/erasures", body: `{"user_id":"nobody"}`, want: []string{"created erasure 2"}},
	{operation: "deleteTag", path: "/api/v1/tags/vip", want: []string{"deleted tag vip"}},
	{operation: "deleteContact", path: "contacts/u", want: []string{"deleted contact u"}},
	{operation: "putNotificationTemplate", path: "notification-templates/99/fax", body: `{"title":"t","content":"c"}`, want: []string{"created notification_template 99/fax"}},
	{operation: "putNotificationTemplate", path: "notification-templates/99/fax", body: `{"title":"u","content":"c"}`, want: []string{"changed notification_template 99/fax"}},
	{operation: "putNotificationTemplate", path: "notification-templates/99/fax?company_no=acme", body: `{"title":"t","content":"c"}`, want: []string{"created notification_template acme/99/fax"}},
	{operation: "deleteNotificationTemplate", path: "notification-templates/99/fax?company_no=acme", want: []string{"deleted notification_template acme/99/fax"}},
	{operation: "deleteNotificationTemplate", path: "notification-templates/99/fax", want: []string{"deleted notification_template 99/fax"}},
	{operation: "createWebhook", path: "/api/v1/webhooks", body: `{"url":"http://127.0.0.1:1/","events":["message.sent"]}`, want: []string{"created webhook 2"}},
	{operation: "updateWebhook", path: "/api/v1/webhooks/{webhook}", body: `{"description":"d"}`, want: []string{"changed webhook 2"}},
	{operation: "rotateWebhook", path: "/api/v1/webhooks/{webhook}/rotate", body: `{}`, want: []string{"changed webhook 2"}},
	{operation: "deleteWebhook", path: "/api/v1/webhooks/{webhook}", want: []string{"deleted webhook 2"}},
	{operation: "addSafe", path: "verifications/safe", body: `{"subject":"+49151"}`, want: []string{"created verification_safe +49151"}},
	{operation: "deleteSafe", path: "verifications/safe/2", want: []string{"deleted verification_safe +49151"}},
	{operation: "releaseSuspect", path: "verifications/suspects/release", body: `{"company_no":"default","subject":"+49152"}`, want: []string{"created verification_safe +49152"}},
	{operation: "createAlertRule", body: `{"kind":"queue_depth","level":"warning","threshold":5,"company_no":"acme"}`, want: []string{"created alert_rule 20"}},
	{operation: "updateAlertRule", path: "alert-rules/{alert_rule}", body: `{"threshold":6}`, want: []string{"changed alert_rule 20"}},
	{operation: "deleteAlertRule", path: "alert-rules/{alert_rule}", want: []string{"deleted alert_rule 20"}},
	{operation: "createAlertReceiver", body: `{"name":"n","kind":"alertmanager","url":"http://127.0.0.1:9093"}`, want: []string{"created alert_receiver 2"}},
	{operation: "updateAlertReceiver", path: "alert-receivers/{alert_receiver}", body: `{"name":"m"}`, want: []string{"changed alert_receiver 2"}},
	{operation: "deleteAlertReceiver", path: "alert-receivers/{alert_receiver}", want: []string{"deleted alert_receiver 2"}},
	{operation: "acknowledgeAlert", path: "alerts/1/acknowledge", body: `{"remark":"on it"}`, want: []string{"changed alert 1"}, prepare: func(b *apptest.Bundle) {
		b.Exec("INSERT INTO alerts (rule_id, kind, level, subject, value, fired_at) VALUES (1, 'wait_time', 'warning', 'sms', 1, now()) ON CONFLICT DO NOTHING")
	}},
	{operation: "createTaskJob", body: `{"action":"cancel","filter":{"source":"of the job"},"count":1}`, want: []string{"created task_job 2"}, prepare: func(b *apptest.Bundle) {
		b.Expect(200, "", "POST", "/api/v1/sms/send", `{"phone_number":"13800138000","content":"x","source":"of the job","dedup_key":"of the job"}`)
	}},
	{operation: "stopTaskJob", path: "task-jobs/{task_job}/stop", want: []string{"changed task_job 2"}},
	{operation: "createReconciliation", path: "reconciliations", body: `{"sender_no":"paid","day":"` + reconciledDay() + `","total":1}`, want: []string{"created reconciliation 2"}},
	{operation: "createInbound", body: `{"inbound_no":"alerts","preset":"alertmanager","phone_numbers":["13800138000"]}`, want: []string{"created inbound alerts"}},
	{operation: "updateInbound", path: "inbounds/alerts", body: `{"phone_numbers":["13900139000"]}`, want: []string{"changed inbound alerts"}},
	{operation: "deleteInbound", path: "inbounds/alerts", want: []string{"deleted inbound alerts"}},
	{operation: "deleteCompany", path: "companies/acme", want: []string{"changed company acme", "deleted company acme"}},
	{operation: "deleteChannel", path: "channels/fax", want: []string{"changed channel fax", "deleted channel fax"}},
	{operation: "deleteCountry", path: "countries/NZ", want: []string{"deleted country NZ"}},
	{operation: "recoverTasks", want: []string{"changed recovery tasks"}, prepare: func(b *apptest.Bundle) {
		b.Submit("x")
		b.Claim("paid", 1)
		b.ExpireLeases()
	}},
}

// changing returns the operations of the contract that change the configuration, and whether each operation accepts an Idempotency-Key.
func changing(b *apptest.Bundle) map[string]bool {
	b.T.Helper()
	var contract struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal([]byte(b.Call("GET", "/openapi.json", nil).Raw), &contract); err != nil {
		b.T.Fatal(err)
	}
	all := map[string]bool{}
	for path, methods := range contract.Paths {
		for method, raw := range methods {
			var o struct {
				OperationID string
				Access      []string `json:"x-lksms-access"`
				Parameters  []map[string]any
			}
			isTrial := func() bool { // these operations change no configuration
				return slices.Contains([]string{"previewTemplate", "testTemplate", "testSender", "testWebhook", "replayWebhook", "recordSenderTrace"}, o.OperationID)
			}
			if json.Unmarshal(raw, &o) != nil || o.OperationID == "" || isTrial() || method == "get" || !slices.ContainsFunc([]string{"/api/v1/admin/", "/api/v1/contacts", "/api/v1/tags", "/api/v1/webhooks"}, func(start string) bool { return strings.HasPrefix(path, start) }) && !slices.Equal(o.Access, []string{"admin"}) {
				continue
			}
			all[o.OperationID] = slices.ContainsFunc(o.Parameters, func(p map[string]any) bool { return fmt.Sprint(p["$ref"]) == "#/components/parameters/IdempotencyKey" })
		}
	}
	return all
}

// Each administrative operation is called three times: by a caller without permission, with a transaction that fails at its commit, and successfully. If an
// operation accepts an Idempotency-Key, it is then repeated with the same key.
func TestEachAdministrativeChangeIsRecordedOnceWithActor(t *testing.T) {
	b := apptest.NewWith(t, apptest.DefaultRules, apptest.WithSecrets)
	operations := changing(b)
	for id := range operations {
		if !slices.ContainsFunc(steps, func(s step) bool { return s.operation == id }) {
			t.Errorf("%s changes what administrators set, and has no step", id)
		}
	}
	b.Exec(`CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'the commit fails'; END $$;
		CREATE CONSTRAINT TRIGGER fails AFTER INSERT ON audit DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION fail();
		ALTER TABLE audit DISABLE TRIGGER fails`)
	sender := b.AddUser("sends", "send", nil)
	keys := map[string]string{} // key in the latest row of each entity
	for i, s := range steps {
		isKeyed, known := operations[s.operation]
		if !known {
			t.Fatalf("%s is no administrative operation", s.operation)
		}
		r := s.request(fmt.Sprint("request-", i), keys)
		if isKeyed {
			r.headers = append(r.headers, apptest.KeyHeader, fmt.Sprint("key-", i))
		}
		expectNothingRecorded(b, s, r, sender)
		if s.prepare != nil {
			s.prepare(b)
		}
		// The failed commit has used up values of the sequences.
		b.Exec(`SELECT setval(pg_get_serial_sequence(c.name, 'id'), 1, false) FROM (VALUES ('routes'), ('templates'), ('default_contents'), ('api_keys')) AS c (name)`)
		rows := recorded(b, func() { b.Expect(200, "", r.method, r.path, r.body, r.headers...) })
		if got := texts(rows); !slices.Equal(got, s.want) {
			t.Errorf("%s %s recorded %q, want %q", s.operation, s.body, got, s.want)
		}
		for _, row := range rows {
			keys[*row.Entity] = *row.Key
			checkRow(b, s, row, r.id)
		}
		if isKeyed {
			if again := recorded(b, func() { b.Expect(200, "", r.method, r.path, r.body, r.headers...) }); len(again) > 0 {
				t.Errorf("%s was replayed and recorded %v", s.operation, again)
			}
		}
	}
}

// request is the HTTP request of a step.
type request struct {
	id, method, path string
	body             any
	headers          []string
}

// request returns the HTTP request of a step. id is its request id, and keys contains the latest key of each entity.
func (s step) request(id string, keys map[string]string) request {
	o := apptest.Operations[s.operation]
	path := o.Path
	switch {
	case strings.HasPrefix(s.path, "/"):
		path = s.path
	case s.path != "":
		path = "/api/v1/admin/" + s.path
	}
	for entity, key := range keys {
		path = strings.ReplaceAll(path, "{"+entity+"}", key)
	}
	r := request{id: id, method: o.Method, path: path, headers: []string{"X-Request-Id", id}}
	if s.body != "" {
		r.body = s.body
		r.headers = append(r.headers, "Content-Type", apptest.Operation{Body: s.body}.Media())
	}
	return r
}

// expectNothingRecorded fails the test if a request is recorded that is forbidden, is invalid, or has a transaction that fails at its commit.
func expectNothingRecorded(b *apptest.Bundle, s step, r request, sender []string) {
	b.T.Helper()
	if s.prepare != nil {
		s.prepare(b)
	}
	none := recorded(b, func() {
		b.Expect(http.StatusForbidden, "auth.forbidden", r.method, r.path, r.body, append(sender, r.headers...)...)
		b.Expect(http.StatusUnprocessableEntity, "request.invalid", r.method, r.path+"?colour=1", r.body, r.headers...)
		b.Exec("ALTER TABLE audit ENABLE TRIGGER fails")
		b.Expect(http.StatusInternalServerError, "internal", r.method, r.path, r.body, r.headers...)
		b.Exec("ALTER TABLE audit DISABLE TRIGGER fails")
	})
	if len(none) > 0 {
		b.T.Errorf("%s was refused and rolled back, and left %v", s.operation, none)
	}
}

// checkRow fails the test unless a row contains the admin, the request id, and the state before and after the change.
func checkRow(b *apptest.Bundle, s step, r row, id string) {
	b.T.Helper()
	if r.Actor == nil || *r.Actor != apptest.Username || r.Role == nil || *r.Role != "admin" || r.IP == nil || *r.IP != "127.0.0.1" || r.RequestID == nil || *r.RequestID != id {
		b.T.Errorf("%s: %s is by %v %v %v %v", s.operation, r, r.Actor, r.Role, r.IP, r.RequestID)
	}
	if hasBefore, hasAfter := r.Before != nil, r.After != nil; hasBefore != (*r.Action != "created" && *r.Entity != "recovery") || hasAfter != (*r.Action != "deleted") {
		b.T.Errorf("%s: %s has before %v and after %v", s.operation, r, r.Before, r.After)
	}
}

// An update that does not change the stored value is not recorded.
func TestUpdateWithoutChangeIsNotRecorded(t *testing.T) {
	b := apptest.New(t)
	b.AddCompany("acme", 1)
	b.AddSender(map[string]any{"sender_no": "s", "config": map[string]any{"a": 1}})
	route := b.AddRoute("acme", "s", 1)
	b.PutContacts(map[string]any{"user_id": "u", "phone": "13800138000"})
	b.PutSMSTemplate(nil)
	b.Expect(200, "", "PUT", "/api/v1/tags/vip", nil)
	b.Expect(200, "", "POST", "/api/v1/tags/vip/contacts", `{"add":["u"]}`)
	b.Expect(200, "", "PUT", "/api/v1/admin/settings/sms", `{"priority_marketing":6}`)
	rows := recorded(b, func() {
		for path, body := range map[string]string{
			"companies/acme": `{"name":"acme","weight":1,"countries":[]}`, "senders/s": `{"name":"s","status":"on","config":{"a":1}}`, "users/user-of-acme": `{"role":"submit","company_no":"acme"}`,
			"routes/" + fmt.Sprint(route.RouteNo): `{"weight":1,"status":"on"}`, "channels/sms": `{"countries":[]}`,
		} {
			b.Expect(200, "", "PATCH", "/api/v1/admin/"+path, body)
		}
		b.PutContacts(map[string]any{"user_id": "u", "phone": "+86 138 0013 8000"})
		b.Expect(200, "", "PUT", "/api/v1/tags/vip", nil)
		b.Expect(200, "", "POST", "/api/v1/tags/vip/contacts", `{"add":["u","nobody"],"remove":["v"]}`)
		b.PutSMSTemplate(nil)
		b.Expect(200, "", "PUT", "/api/v1/admin/settings/sms", `{"priority_marketing":6,"priority_notification":5}`) // 5 is the default
	})
	if len(rows) > 0 {
		t.Errorf("recorded %v", rows)
	}
}

func TestAuditRecordContainsChangedFields(t *testing.T) {
	b := apptest.New(t)
	b.AddCompany("acme", 1)
	b.AddSender(map[string]any{"sender_no": "s", "balance": 10})
	b.AddCountry("NZ", "64", nil)
	b.AddCountry("AU", "61", nil)
	b.Expect(200, "", "POST", "/api/v1/admin/channels", `{"channel":"fax","name":"Fax","countries":["NZ"]}`)
	last := func(do func()) row {
		t.Helper()
		rows := recorded(b, do)
		if len(rows) != 1 {
			t.Fatalf("%d rows: %v", len(rows), rows)
		}
		return rows[0]
	}
	for _, c := range []struct {
		name          string
		do            func()
		company       string
		before, after string
	}{
		{"a route is named by what it joins", func() { b.AddRoute("acme", "s", 2) }, "acme", `null`,
			`{"channel":"sms","company_no":"acme","country_no":null,"message_type":"notification","sender_no":"s","sort":0,"status":"on","weight":2}`},
		{"only the changed fields are written", func() { b.Expect(200, "", "PATCH", "/api/v1/admin/routes/1", `{"weight":5}`) }, "acme", `{"weight":2}`, `{"weight":5}`},
		{"a balance", func() { b.Expect(200, "", "POST", "/api/v1/admin/senders/s/balance", `{"change":-3}`) }, "", `{"balance":10}`, `{"balance":7}`},
		{"countries", func() { b.Expect(200, "", "PATCH", "/api/v1/admin/channels/fax", `{"countries":["AU","NZ"]}`) }, "", `{}`, `{"countries":["AU"]}`},
		{"a removed country", func() { b.Expect(200, "", "PATCH", "/api/v1/admin/channels/fax", `{"countries":["AU"]}`) }, "", `{"countries":["NZ"]}`, `{}`},
		{"a password", func() {
			b.Expect(200, "", "PATCH", "/api/v1/admin/users/user-of-acme", `{"password":"another password"}`)
		}, "acme", `{"password_hash":"***"}`, `{"password_hash":"*** (changed)"}`},
		{"a first phone", func() { b.PutContacts(map[string]any{"user_id": "u", "phone": "13800138000"}) }, "default", `null`,
			`{"company_no":"default","dingtalk_name":null,"email":null,"name":null,"phone":"+86138****8000","user_id":"u","wechat_openid":null}`},
		{"a phone that looks as before", func() { b.PutContacts(map[string]any{"user_id": "u", "phone": "13811118000"}) }, "default",
			`{"phone":"+86138****8000"}`, `{"phone":"+86138****8000 (changed)"}`},
		{"a first address", func() { b.PutContacts(map[string]any{"user_id": "u", "email": "u@example.com"}) }, "default", `{"email":null}`, `{"email":"***"}`},
		{"a first name and attribute", func() {
			b.PutContacts(map[string]any{"user_id": "u", "name": "张三", "attributes": map[string]string{"city": "杭州"}})
		}, "default", `{"name":null}`, `{"attributes.city":"***","name":"***"}`},
		{"another attribute", func() {
			b.PutContacts(map[string]any{"user_id": "u", "attributes": map[string]string{"city": "上海"}})
		}, "default", `{"attributes.city":"***"}`, `{"attributes.city":"*** (changed)"}`},
		{"the filter of a job", func() {
			b.SubmitBody(map[string]any{"phone_number": apptest.Phone, "content": "x", "source": "shop"})
			b.Expect(200, "", "POST", "/api/v1/admin/task-jobs", `{"action":"cancel","filter":{"phone_number":"13800138000","source":"shop","message_type":"notification"},"count":1}`)
		}, "", `null`,
			`{"action":"cancel","filter.message_type":"notification","filter.phone_number":"138****8000","filter.source":"shop","remark":null,"stopped_by":null,"total":1}`},
		{"a number with dashes", func() {
			b.Expect(200, "", "POST", "/api/v1/admin/task-jobs", `{"action":"cancel","filter":{"phone_number":"138-0013-8000"},"count":1}`)
		}, "", `null`, `{"action":"cancel","filter.phone_number":"138****8000","remark":null,"stopped_by":null,"total":1}`},
		{"the first change of a setting", func() { b.Expect(200, "", "PUT", "/api/v1/admin/settings/sms", `{"priority_marketing":6}`) }, "",
			`{"value":8}`, `{"value":6}`},
		{"the next change of a setting", func() { b.Expect(200, "", "PUT", "/api/v1/admin/settings/sms", `{"priority_marketing":7}`) }, "",
			`{"value":6}`, `{"value":7}`},
		{"a setting that is added by hand", func() {
			b.Exec("INSERT INTO settings (category, name, value, updated_by) VALUES ('sms', 'priority_notification', '4', 'dba')")
		}, "", `null`, `{"category":"sms","name":"priority_notification","value":4}`},
		{"a deleted route", func() { b.Expect(200, "", "DELETE", "/api/v1/admin/routes/1", nil) }, "acme",
			`{"channel":"sms","company_no":"acme","country_no":null,"message_type":"notification","sender_no":"s","sort":0,"status":"on","weight":5}`, `null`},
	} {
		r := last(c.do)
		before, _ := json.Marshal(r.Before)
		after, _ := json.Marshal(r.After)
		company := ""
		if r.Company != nil {
			company = *r.Company
		}
		if string(before) != c.before || string(after) != c.after || company != c.company {
			t.Errorf("%s: company %q, %s to %s", c.name, company, before, after)
		}
	}
}

// Users of a company can change its contacts. They are recorded as actors in the same way as administrators.
func TestUserOfCompanyIsRecordedAsActor(t *testing.T) {
	b := apptest.New(t)
	acme := b.AddCompany("acme", 1)
	rows := recorded(b, func() {
		b.Expect(200, "", "PUT", "/api/v1/admin/contacts", `{"contacts":[{"user_id":"u"}]}`, acme...)
	})
	if len(rows) != 1 || *rows[0].Actor != "user-of-acme" || *rows[0].Role != "submit" || *rows[0].Company != "acme" {
		t.Errorf("recorded %+v", rows)
	}
}

// A change by manual SQL has no actor. The record of a row that a cascade has deleted still contains the number of its deleted parent.
func TestRecordOfManualChangeHasNoActor(t *testing.T) {
	b := apptest.New(t)
	b.AddCompany("acme", 1)
	b.AddCountry("NZ", "64", nil)
	b.Expect(200, "", "PATCH", "/api/v1/admin/companies/acme", `{"countries":["NZ"]}`)
	b.Expect(200, "", "POST", "/api/v1/admin/users/user-of-acme/keys", `{"name":"n"}`)
	company, user := b.Count("SELECT id FROM companies WHERE company_no = 'acme'"), b.Count("SELECT id FROM users WHERE username = 'user-of-acme'")
	rows := recorded(b, func() {
		b.Exec("DELETE FROM users WHERE username = 'user-of-acme'; DELETE FROM companies WHERE company_no = 'acme'; UPDATE countries SET name = 'n' WHERE country_no = 'NZ'")
	})
	want := []string{"changed company #" + fmt.Sprint(company), "changed country NZ", "deleted api_key #" + fmt.Sprint(user) + "/1", "deleted company acme", "deleted user user-of-acme"}
	if got := texts(rows); !slices.Equal(got, want) {
		t.Errorf("recorded %q, want %q", got, want)
	}
	for _, r := range rows {
		if r.Actor != nil || r.Role != nil || r.IP != nil || r.RequestID != nil {
			t.Errorf("%s has an actor: %+v", r, r)
		}
	}
}

// When an app polls for the first time, the service creates a sender. The record has no actor, because no administrator made this change.
func TestRecordOfSelfRegisteredSenderHasNoActor(t *testing.T) {
	b := apptest.New(t)
	rows := recorded(b, func() {
		for range 3 {
			b.Claim("phone", 1)
		}
	})
	if len(rows) != 1 || rows[0].String() != "created sender phone" || rows[0].Actor != nil || rows[0].After["is_self_registered"] != true {
		t.Errorf("recorded %+v", rows)
	}
}

// Submitting and sending messages adds no rows to audit. The transactions have no actor.
func TestMessageProcessingIsNotRecorded(t *testing.T) {
	b, p := apptest.NewPushing(t, map[string]any{"balance": 1000, "limits": map[string]any{"per_day": 1000}})
	b.AddCompany("acme", 1)
	b.AddSender(map[string]any{"sender_no": "app", "balance": 100, "interval_ms": 1, "limits": map[string]any{"per_minute": 1000}})
	b.AddRoute("acme", "app", 1)
	b.AddRoute("default", "app", 1)
	b.Expect(200, "", "POST", "/api/v1/admin/default-sms", `{"phone_number":"13900139000","content":"c"}`)
	b.Exec(`CREATE TABLE actors (actor text);
		CREATE FUNCTION record_actor() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN INSERT INTO actors VALUES (current_setting('lksms.actor', true)); RETURN NULL; END $$;
		CREATE TRIGGER actor_recorded AFTER INSERT OR UPDATE OR DELETE ON queue FOR EACH STATEMENT EXECUTE FUNCTION record_actor();
		CREATE TRIGGER actor_recorded AFTER INSERT ON messages FOR EACH STATEMENT EXECUTE FUNCTION record_actor();
		CREATE TRIGGER actor_recorded AFTER INSERT ON report_logs FOR EACH STATEMENT EXECUTE FUNCTION record_actor();
		CREATE TRIGGER actor_recorded AFTER UPDATE ON routes FOR EACH STATEMENT EXECUTE FUNCTION record_actor();
		CREATE TRIGGER actor_recorded AFTER UPDATE ON sender_states FOR EACH STATEMENT EXECUTE FUNCTION record_actor();
		CREATE TRIGGER actor_recorded AFTER UPDATE ON default_contents FOR EACH STATEMENT EXECUTE FUNCTION record_actor()`)
	rows := recorded(b, func() {
		b.SubmitBody(map[string]any{"phone_number": "13900139000"})
		for i := range 6 {
			b.Submit(fmt.Sprint("text ", i))
		}
		b.Expect(200, "", "POST", apptest.BatchPath, `{"messages":[{"phone_number":"13800138000","content":"x"}]}`, apptest.KeyHeader, "k")
		for i, id := range b.ClaimIDs(8) {
			b.Report(id, "app", 2+i%2, nil)
		}
		b.Expect(200, "", "POST", "/api/v1/sms/task/"+b.SubmitBody(map[string]any{"phone_number": apptest.Phone, "content": "x", "expect_send_time": time.Now().Add(time.Hour)}).TaskID+"/cancel", nil)
		pushed := func(text string) {
			b.SubmitBody(map[string]any{"phone_number": apptest.Phone, "content": text, "message_type": "marketing"})
		}
		pushed("by the provider")
		apptest.Eventually(t, "the provider got a message", func() bool { return len(p.Seen()) > 0 })
		p.Says(401, `{}`)
		pushed("to a provider in trouble")
		b.AwaitOpenBreaker("pushed")
		for _, run := range []func() (int, error){
			func() (int, error) { return b.App.History.Fold(t.Context()) },
			func() (int, error) { return b.App.Queue.Queue(t.Context()) },
			func() (int, error) { return b.App.Queue.Recover(t.Context()) },
			func() (int, error) { return b.App.Senders.SweepSeen(t.Context()) },
			func() (int, error) { return b.App.History.MakePartitions(t.Context()) },
		} {
			if _, err := run(); err != nil {
				t.Fatal(err)
			}
		}
	})
	if len(rows) > 0 {
		t.Errorf("recorded %v", rows)
	}
	if n := b.Count("SELECT count(*) FROM actors"); n < 20 {
		t.Errorf("only %d statements were seen", n)
	}
	if n := b.Count("SELECT count(*) FROM actors WHERE actor <> ''"); n > 0 {
		t.Errorf("%d statements had an actor", n)
	}
}

// If a table is written for each message, it has no audit trigger, or only a trigger for other columns.
func TestTablesWrittenForEachMessageHaveNoAuditTrigger(t *testing.T) {
	b := apptest.New(t)
	hot := []string{"queue", "messages", "report_logs", "facts", "dedup_keys", "sender_ledger", "fair_ranks", "deliveries", "pools", "events", "sender_tokens", "user_addresses", "idempotency_keys"}
	if n := b.Count(`SELECT count(*) FROM pg_trigger WHERE tgfoid = 'audit_change'::regproc AND tgrelid::regclass::text = ANY ($1)`, hot); n > 0 {
		t.Errorf("%d triggers", n)
	}
	// Bit 16 of tgtype means UPDATE.
	if n := b.Count(`SELECT count(*) FROM pg_trigger WHERE tgfoid = 'audit_change'::regproc AND tgtype & 16 > 0 AND tgattr = ''
		AND tgrelid::regclass::text = ANY ('{routes,sender_states,default_contents,api_keys,contacts}')`); n > 0 {
		t.Errorf("%d triggers fire for each column", n)
	}
}

func TestSecretsAreNotRecorded(t *testing.T) {
	b := apptest.NewWith(t, apptest.DefaultRules, apptest.WithSecrets)
	secrets := []string{"s3cret-password", "s3cret-second", "s3cret-webhook-0123456789abcdef", "s3cret-callback-0123456789", "s3cret-token", "s3cret-map", "s3cret-smtp", "s3cret-wechat", "s3cret-header", "s3cret-app", "u@example.com", "openid-of-u", "ding-of-u", "13800138000"}
	b.Expect(200, "", "POST", "/api/v1/admin/users", map[string]any{"username": "jane", "role": "read", "password": secrets[0]})
	b.Expect(200, "", "PATCH", "/api/v1/admin/users/jane", map[string]any{"password": secrets[1]})
	key := apptest.Decode[api.NewKey](t, b.Expect(200, "", "POST", "/api/v1/admin/users/jane/keys", `{"name":"n"}`)).Key
	hashes := apptest.Scan[string](b, "SELECT password_hash FROM users WHERE username = 'jane'")
	keyHash := apptest.Scan[string](b, "SELECT encode(key_hash, 'hex') FROM api_keys")

	callback := map[string]any{"verify": "hmac", "header": "X-Signature", "number": "id", "state": "state", "delivered": []string{"1"}}
	configs := map[string][2]map[string]any{
		"oa": {
			{"url": "https://hooks.example.com/x?token=s3cret-token", "secret": secrets[2], "answer": map[string]any{"success": "code", "equals": []string{"0"}}},
			{"url": "https://hooks.example.com/x?token=s3cret-token2", "secret": secrets[2] + "x", "answer": map[string]any{"success": "errcode", "equals": []string{"0"}}},
		},
		"email":  {{"host": "mail.example.com", "from": "a@example.org", "username": "u", "password": "s3cret-smtp"}, {"host": "mail.example.com", "from": "a@example.org", "username": "u", "password": "s3cret-smtp2"}},
		"wechat": {{"appId": "w", "appSecret": "s3cret-wechat"}, {"appId": "w", "appSecret": "s3cret-wechat2"}},
		"http-sms": {
			{"url": "https://api.example.com/send?key=s3cret-token", "headers": map[string]string{"Authorization": "s3cret-header"}, "secrets": map[string]string{"a": "s3cret-map"},
				"body": map[string]any{"to": "${recipient}", "text": "${content}"}, "answer": map[string]any{"success": "code", "equals": []string{"0"}, "number": "id"}, "callback": callback, "callbackSecret": secrets[3]},
			{"url": "https://api.example.com/send?key=s3cret-token3", "headers": map[string]string{"Authorization": "s3cret-header2"}, "secrets": map[string]string{"a": "s3cret-map2"},
				"body": map[string]any{"to": "${recipient}", "text": "${content}"}, "answer": map[string]any{"success": "code", "equals": []string{"0"}, "number": "id"}, "callback": callback, "callbackSecret": secrets[3] + "2"},
		},
		"app": {{"password": "s3cret-app", "callbackSecret": secrets[3]}, {"password": "s3cret-app2"}},
	}
	channels := map[string]string{"oa": "oa", "email": "email", "wechat": "wechat", "http-sms": "sms", "app": "sms"}
	for kind, of := range configs {
		b.AddSender(map[string]any{"sender_no": kind, "kind": kind, "channel": channels[kind], "config": of[0], "status": "off"})
		rows := recorded(b, func() {
			b.Expect(200, "", "PATCH", "/api/v1/admin/senders/"+kind, map[string]any{"config": of[1]})
		})
		if len(rows) != 1 || !strings.Contains(fmt.Sprint(rows[0].After), "*** (changed)") {
			t.Errorf("%s: a changed secret is recorded as %v", kind, rows)
		}
	}
	b.PutContacts(map[string]any{"user_id": "u", "phone": "13800138000", "email": "u@example.com", "wechat_openid": "openid-of-u", "dingtalk_name": "ding-of-u"})
	b.Expect(200, "", "DELETE", "/api/v1/admin/contacts/u", nil)
	b.Expect(200, "", "POST", "/api/v1/admin/default-sms", `{"phone_number":"13800138000","content":"c"}`)
	b.Exec("UPDATE users SET is_disabled = true; DELETE FROM senders WHERE sender_no <> 'oa'; DELETE FROM users")

	all := strings.ToLower(apptest.Scan[string](b, "SELECT string_agg(a::text, E'\n') FROM audit a"))
	for _, s := range append(secrets, key, hashes, keyHash, "s3cret", "sealed:", "$argon2id") {
		if strings.Contains(all, strings.ToLower(s)) {
			t.Errorf("audit has %s: %s", s, all)
		}
	}
	if !strings.Contains(all, "mail.example.com") || !strings.Contains(all, `""config.password"": ""*** (changed)""`) {
		t.Errorf("audit lacks a field that is not secret: %s", all)
	}
}

// The secrets and addresses of drivers are hidden, even if a field is added to the list of recorded fields.
func TestRecordedDriverFieldsAreNotSecret(t *testing.T) {
	b := apptest.New(t)
	arguments := apptest.Scan[string](b, "SELECT encode(tgargs, 'escape') FROM pg_trigger WHERE tgname = 'audited' AND tgrelid = 'senders'::regclass")
	shown := strings.Split(strings.Split(arguments, `\000`)[4], ",")
	if !slices.Contains(shown, "host") {
		t.Fatalf("read %q", arguments)
	}
	for _, kind := range driver.Kinds() {
		for _, hidden := range append(append(driver.Secrets(kind), driver.Addresses(kind)...), callback.Secret) {
			if slices.Contains(shown, hidden) {
				t.Errorf("%s of %s is shown", hidden, kind)
			}
		}
	}
}

// If a change keeps a secret, the stored encrypted secret does not change. The secret is therefore not recorded as changed.
func TestUnchangedSecretIsNotRecordedAsChanged(t *testing.T) {
	b := apptest.NewWith(t, apptest.DefaultRules, apptest.WithSecrets)
	config := func(timeout int, secret string) map[string]any {
		return map[string]any{"appId": "w", "appSecret": secret, "timeoutSeconds": timeout}
	}
	b.AddSender(map[string]any{"sender_no": "w", "kind": "wechat", "channel": "wechat", "status": "off", "config": config(3, "s")})
	for _, c := range []struct {
		config map[string]any
		after  string
	}{
		{config(4, "***"), `{"config.timeoutSeconds":4}`},
		{config(5, "s"), `{"config.timeoutSeconds":5}`},
		{map[string]any{"appId": "w", "timeoutSeconds": 6}, `{"config.timeoutSeconds":6}`},
		{config(6, "t"), `{"config.appSecret":"*** (changed)"}`},
	} {
		rows := recorded(b, func() { b.Expect(200, "", "PATCH", "/api/v1/admin/senders/w", map[string]any{"config": c.config}) })
		if len(rows) != 1 {
			t.Fatalf("recorded %v", rows)
		}
		if after, _ := json.Marshal(rows[0].After); string(after) != c.after {
			t.Errorf("recorded %s, want %s", after, c.after)
		}
	}
}

// A recovery is recorded after it is complete, even if the caller has disconnected.
func TestRecoveryIsRecordedAfterCallerDisconnects(t *testing.T) {
	b := apptest.New(t)
	ctx, cancel := context.WithCancel(postgres.As(t.Context(), postgres.Actor{Name: "jane"}))
	cancel()
	rows := recorded(b, func() {
		if err := b.App.Audit.RecordRecovery(ctx, 3); err != nil {
			t.Error(err)
		}
	})
	if len(rows) != 1 || *rows[0].Entity != "recovery" || rows[0].Actor == nil || *rows[0].Actor != "jane" {
		t.Errorf("recorded %v", rows)
	}
}

// Workers also open and close circuit breakers. Their changes are not administrative changes, and are not recorded.
func TestManualCloseOfCircuitBreakerIsRecorded(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "s"})
	open := func() {
		b.Exec("UPDATE sender_states SET openings = 3, rest_until = now() + interval '1 hour', rest_reason = 'a wrong key'")
	}
	if rows := recorded(b, func() { open(); b.Exec("UPDATE sender_states SET openings = 0"); open() }); len(rows) > 0 {
		t.Errorf("without an actor: %v", rows)
	}
	rows := recorded(b, func() { b.Expect(200, "", "PATCH", "/api/v1/admin/senders/s", `{"status":"on"}`) })
	if got := texts(rows); !slices.Equal(got, []string{"changed sender s"}) {
		t.Fatalf("recorded %q", got)
	}
	if r := rows[0]; *r.Actor != apptest.Username || fmt.Sprint(r.Before["openings"]) != "3" || r.Before["rest_reason"] != "a wrong key" || fmt.Sprint(r.After) != "map[openings:0 rest_reason:<nil> rest_until:<nil>]" {
		t.Errorf("%v to %v", r.Before, r.After)
	}
	if rows := recorded(b, func() { b.Expect(200, "", "PATCH", "/api/v1/admin/senders/s", `{"status":"on"}`) }); len(rows) > 0 {
		t.Errorf("nothing was closed: %v", rows)
	}
}

// A balance limits a sender: with a balance of 0, it receives no tasks.
func TestBalanceOfSenderChangesOnlyWithRecord(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "s"})
	const path = "/api/v1/admin/senders/s/balance"
	if rows := recorded(b, func() { b.Expect(422, "request.invalid", "POST", path, `{"change":0}`) }); len(rows) > 0 {
		t.Errorf("recorded %v", rows)
	}
	b.Submit("x")
	if got := b.Claim("s", 1); len(got) != 1 {
		t.Errorf("a sender without a balance got %d tasks", len(got))
	}
	rows := recorded(b, func() { b.Expect(200, "", "POST", path, `{"change":5}`) })
	if got := texts(rows); !slices.Equal(got, []string{"changed sender s", "changed sender_balance s"}) {
		t.Fatalf("recorded %q", got)
	}
	for _, r := range rows {
		if *r.Entity == "sender" && fmt.Sprint(r.Before, r.After) != "map[has_balance:false] map[has_balance:true]" {
			t.Errorf("%v to %v", r.Before, r.After)
		}
	}
}

func TestAuditListAppliesFilters(t *testing.T) {
	b := apptest.New(t)
	acme := b.AddCompany("acme", 1)
	b.Expect(200, "", "PUT", "/api/v1/admin/contacts", `{"contacts":[{"user_id":"u"},{"user_id":"v"}]}`, acme...)
	b.Expect(200, "", "PATCH", "/api/v1/admin/companies/acme", `{"weight":2}`)
	b.Exec("UPDATE audit SET at = at - interval '1 hour' WHERE entity = 'user'")
	const path = "/api/v1/admin/audit"
	list := func(query string, headers ...string) []api.AuditEntry {
		t.Helper()
		return apptest.Decode[api.AuditPage](t, b.Expect(200, "", "GET", path+"?"+query, nil, headers...)).Items
	}
	show := func(entries []api.AuditEntry) string {
		all := []string{}
		for _, e := range entries {
			all = append(all, string(e.Action)+" "+e.Entity+" "+e.EntityKey)
		}
		return strings.Join(all, ", ")
	}
	halfAnHourAgo := time.Now().Add(-30 * time.Minute).UTC().Format(time.RFC3339)
	for query, want := range map[string]string{
		"":                                         "changed company acme, created contact v, created contact u, created company acme, created user user-of-acme",
		"actor=user-of-acme":                       "created contact v, created contact u",
		"actor=nobody":                             "",
		"entity=company":                           "changed company acme, created company acme",
		"entity=contact&entity_key=u":              "created contact u",
		"entity_key=acme":                          "changed company acme, created company acme",
		"action=changed":                           "changed company acme",
		"from=" + halfAnHourAgo:                    "changed company acme, created contact v, created contact u, created company acme",
		"to=" + halfAnHourAgo:                      "created user user-of-acme",
		"actor=admin&to=" + halfAnHourAgo:          "created user user-of-acme",
		"action=deleted&entity=company":            "",
		"entity=company&from=2300-01-01T00:00:00Z": "",
	} {
		if got := show(list(query)); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	var paged []string
	for cursor := ""; ; {
		page := apptest.Decode[api.AuditPage](t, b.Expect(200, "", "GET", path+"?limit=2"+cursor, nil))
		paged = append(paged, show(page.Items))
		if page.NextCursor == nil {
			break
		}
		cursor = "&cursor=" + *page.NextCursor
	}
	if got, want := strings.Join(paged, ", "), show(list("")); got != want || len(paged) != 3 {
		t.Errorf("pages have %s, want %s", got, want)
	}
	first := list("action=changed")[0]
	if *first.Actor != "admin" || *first.ActorRole != "admin" || *first.SourceIP != "127.0.0.1" || *first.CompanyNo != "acme" || fmt.Sprint((*first.Before)["weight"]) != "1" || fmt.Sprint((*first.After)["weight"]) != "2" {
		t.Errorf("%+v", first)
	}
	reader := b.AddUser("reads-all", "read", nil)
	if len(list("", reader...)) == 0 {
		t.Error("a reader of all companies sees nothing")
	}
	b.Expect(403, "auth.forbidden", "GET", path, nil, b.AddUser("reads-acme", "read", map[string]any{"company_no": "acme"})...)
	b.Expect(403, "auth.forbidden", "GET", path, nil, acme...)
	b.Expect(422, "request.invalid", "GET", path+"?cursor=x", nil)
	b.Expect(422, "request.invalid", "GET", path+"?action=looked", nil)
	b.Expect(422, "request.invalid", "GET", path+"?from=yesterday", nil)
}

// Each filter uses its index, so that only the returned rows are read.
func TestAuditListReadsOnlyReturnedRows(t *testing.T) {
	b := apptest.New(t)
	b.Exec(`INSERT INTO audit (at, actor, action, entity, entity_key)
		SELECT now() - g * interval '1 second', 'actor' || g % 1000, CASE WHEN g % 100000 = 7 THEN 'deleted' ELSE 'changed' END, 'entity' || g % 1000, 'key' || g % 1000 FROM generate_series(1, 200000) g;
		ANALYZE audit`)
	read := func(ctx context.Context) (n int, err error) { // number of rows of audit that this connection has read since it last reported its statistics
		err = b.App.DB.QueryRow(ctx, "SELECT coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) FROM pg_stat_xact_user_tables WHERE relname = 'audit'").Scan(&n)
		return n, err
	}
	last := audit.Filter{BeforeAt: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), BeforeID: math.MaxInt64, Limit: 21}
	past, future := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, filter := range map[string]func(f *audit.Filter){
		"everything":          func(*audit.Filter) {},
		"an actor":            func(f *audit.Filter) { f.Actor = new("actor7") },
		"an unknown actor":    func(f *audit.Filter) { f.Actor = new("nobody") },
		"an entity":           func(f *audit.Filter) { f.Entity = new("entity7") },
		"a key":               func(f *audit.Filter) { f.EntityKey = new("key7") },
		"an entity and a key": func(f *audit.Filter) { f.Entity, f.EntityKey = new("entity7"), new("key8") },
		"a rare action":       func(f *audit.Filter) { f.Action = new("deleted") },
		"an absent action":    func(f *audit.Filter) { f.Action = new("created") },
		"the past":            func(f *audit.Filter) { f.To = &past },
		"the future":          func(f *audit.Filter) { f.From = &future },
	} {
		for range 7 { // after five executions, PostgreSQL considers a generic plan
			err := b.App.DB.Tx(t.Context(), func(ctx context.Context) error {
				f := last
				filter(&f)
				before, err := read(ctx)
				if err != nil {
					return err
				}
				if _, err := b.App.Audit.List(ctx, f); err != nil {
					return err
				}
				n, err := read(ctx)
				if n -= before; n > 250 {
					t.Errorf("the list of %s read %d rows", name, n)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestOldAuditRecordsAreDeleted(t *testing.T) {
	b := apptest.New(t)
	b.Exec(`INSERT INTO audit (at, action, entity, entity_key) SELECT now() - g * interval '1 day', 'changed', 'company', 'c' FROM generate_series(1, 200) g`)
	before := b.Count("SELECT count(*) FROM audit")
	b.Expect(200, "", "PUT", "/api/v1/admin/settings", `{"history":{"log_days":0}}`)
	if n, err := b.App.Audit.DeleteExpired(t.Context()); n != 0 || err != nil {
		t.Errorf("deleted %d, %v", n, err)
	}
	b.Expect(200, "", "PUT", "/api/v1/admin/settings", `{"history":{"log_days":100}}`)
	if n, err := b.App.Audit.DeleteExpired(t.Context()); n != 101 || err != nil {
		t.Errorf("deleted %d, %v", n, err)
	}
	if n := b.Count("SELECT count(*) FROM audit"); n != before-101+2 {
		t.Errorf("%d rows are left of %d", n, before)
	}
}

// reconciledDay returns the current day in the default time zone.
func reconciledDay() string { return time.Now().UTC().Add(8 * time.Hour).Format(time.DateOnly) }
