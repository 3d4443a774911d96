package erasure_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	api "lksms/gen/client"
	"lksms/internal/audience/erasure"
	"lksms/internal/dispatch/phone"
	"lksms/internal/platform/erase"
	"lksms/internal/testkit/apptest"
)

func TestMain(m *testing.M) { apptest.Main(m) }

// person to erase, and another person who shares no data with this person.
const (
	userID, number, address, name = "zhang-3-feng", "13712345678", "zhang.3@example.com", "张三丰七"
	otherNumber                   = "13798765432"
)

// traces contains the texts that identify the person.
var traces = []string{userID, number, "712345678", address, name, "给三丰的话"}

const path = "/api/v1/contacts/erasures"

// world is a server with two companies. Each company stores the same person, with a row of every kind.
type world struct {
	*apptest.Bundle
	acme, beta []string
	held       string // a task of acme that a sender holds
}

func newWorld(t *testing.T) *world {
	t.Helper()
	b := apptest.NewWith(t, apptest.DefaultRules, apptest.WithSecrets)
	w := &world{Bundle: b, acme: b.AddCompany("acme", 1), beta: b.AddCompany("beta", 1)}
	for no, headers := range map[string][]string{"acme": w.acme, "beta": w.beta} {
		b.AddSender(map[string]any{"sender_no": no + "-sender"})
		b.AddRoute(no, no+"-sender", 1)
		w.fill(no, headers)
	}
	return w
}

func (w *world) fill(no string, headers []string) {
	w.T.Helper()
	call := func(method, path string, body any, more ...string) apptest.Answer {
		w.T.Helper()
		return w.Expect(200, "", method, path, body, append(slices.Clone(headers), more...)...)
	}
	send := func(phone, text string, more map[string]any, headers ...string) string {
		w.T.Helper()
		body := map[string]any{"phone_number": phone, "content": text}
		maps.Copy(body, more)
		return apptest.Decode[api.Submitted](w.T, call("POST", "/api/v1/sms/send", body, headers...)).TaskID
	}
	call("PUT", "/api/v1/admin/contacts", map[string]any{"contacts": []any{
		map[string]any{"user_id": userID, "phone": number, "email": address, "name": name, "attributes": map[string]any{"别名": name}},
		map[string]any{"user_id": "li-4", "phone": otherNumber},
	}})
	call("PUT", "/api/v1/admin/contacts", map[string]any{"contacts": []any{map[string]any{"user_id": userID, "name": name}}}) // recorded in the audit
	call("PUT", "/api/v1/tags/vip", nil)
	call("POST", "/api/v1/tags/vip/contacts", map[string]any{"add": []string{userID, "li-4"}})
	sent := send(number, "给三丰的话", map[string]any{"dedup_key": "for-" + number}, apptest.KeyHeader, "k-1")
	again := send(number, "给三丰的话", map[string]any{"dedup_key": "for-" + number})
	if again != sent {
		w.T.Fatal("the dedup key made two tasks")
	}
	w.Report(w.Claim(no+"-sender", 1)[0].TaskID, no+"-sender", 3, apptest.Report{"error_message": "no such number " + number})
	// This row is the row that a driver stores when it calls a provider.
	w.Exec(`INSERT INTO deliveries (task_id, lease_id, sender_no, recipient, provider_no, error, answer) VALUES ($1, 1, $2, $3, 'p-1', $3, '200 ' || $3)`, sent, no+"-sender", "+86"+number)
	w.Exec(`INSERT INTO sender_answers (sender_id, task_id, outcome, error, answer) SELECT s.id, $1, 'refused', $3, '200 ' || $3 FROM senders s WHERE s.sender_no = $2`,
		sent, no+"-sender", "+86"+number)
	w.Exec(`WITH c AS (
		INSERT INTO callbacks (sender_no, source_ip, body) VALUES ($1, '1.1.1.1', $2) RETURNING id
	) INSERT INTO receipts (callback_id, sender_no, provider_no, recipient, state) SELECT c.id, $1, 'p-1', $3, 1 FROM c`,
		no+"-sender", `[{"id":"p-1","to":"`+number+`"},{"id":"p-2","to":"`+otherNumber+`"}]`, number)
	w.Expect(200, "", "POST", "/api/v1/sms/received", map[string]any{"app_id": no + "-sender", "messages": []any{map[string]any{"from": number, "content": "给三丰的话 7"}}})
	send(number, "给三丰的话 2", nil)
	send(otherNumber, "to somebody else", nil)
	w.held = send(number, "给三丰的话 3", map[string]any{"priority": 1})
	w.Expect(422, "request.invalid", "POST", "/api/v1/sms/send", map[string]any{"phone_number": "137 1234 5678", "content": "", "source": "x"}, headers...)
	w.Expect(200, "", "POST", "/api/v1/admin/default-sms", map[string]any{"phone_number": number, "content": "给三丰的话 4", "company_no": no}, apptest.KeyHeader, "d-"+no)
	call("POST", "/api/v1/notifications", map[string]any{
		"biz_type": 3, "biz_id": 1, "channels": []string{"email"}, "payload": map[string]any{"taskName": "给三丰的话 5"}, "user_ids": []string{userID},
	})
	call("POST", "/api/v1/notifications", map[string]any{
		"biz_type": 3, "biz_id": 2, "channels": []string{"email"}, "payload": map[string]any{"taskName": "to all"}, "user_ids": []string{"li-4", userID},
	})
	call("POST", "/api/v1/subscribe-messages", map[string]any{
		"business_type": "b", "business_id": 1, "template_type": "t", "receiver_user_id": userID, "template_id": "x", "data": map[string]any{"k": "给三丰的话 6"},
	})
	list := "phone,word\n137-1234-5678,给三丰的话\n" + number + ",\n" + otherNumber + ",hello\n"
	call("POST", "/api/v1/batches", apptest.Form("file", "list.csv", list, "name", "n", "content", "{word}"), "Content-Type", apptest.FormType)
	if _, err := w.App.Batches.Check(w.T.Context()); err != nil {
		w.T.Fatal(err)
	}
	job := map[string]any{"action": "cancel", "filter": map[string]any{"status": 0, "phone_number": number, "company_no": no}}
	job["count"] = apptest.Decode[api.TaskJobPlan](w.T, w.Expect(200, "", "POST", "/api/v1/admin/task-jobs", job)).Count
	w.Expect(200, "", "POST", "/api/v1/admin/task-jobs", job)
}

// erase requests an erasure, performs it, and returns it.
func (w *world) erase(body map[string]any, headers []string) api.Erasure {
	w.T.Helper()
	made := apptest.Decode[api.Erasure](w.T, w.Expect(200, "", "POST", path, body, headers...))
	return w.run(made.ErasureID, headers)
}

// run makes an erasure due and runs it, twice, and returns it.
func (w *world) run(id int64, headers []string) api.Erasure {
	w.T.Helper()
	w.RunErasures()
	return apptest.Decode[api.Erasure](w.T, w.Expect(200, "", "GET", fmt.Sprint(path, "/", id), nil, headers...))
}

// found returns how many rows of each table contain the person.
func (w *world) found() map[string]int {
	w.T.Helper()
	found := map[string]int{}
	for _, table := range tables(w.Bundle) {
		for _, trace := range traces {
			n := w.Count(`SELECT count(*) FROM "`+table+`" r WHERE strpos(r::text, $1) > 0`, trace)
			if table == "idempotency_keys" || table == "upload_parts" {
				column := map[string]string{"idempotency_keys": "response", "upload_parts": "bytes"}[table]
				n = w.Count(`SELECT count(*) FROM "`+table+`" r WHERE position(convert_to($1, 'UTF8') IN r.`+column+`) > 0`, trace)
			}
			found[table] = max(found[table], n)
		}
	}
	maps.DeleteFunc(found, func(_ string, n int) bool { return n == 0 })
	return found
}

func tables(b *apptest.Bundle) []string {
	return strings.Split(apptest.Scan[string](b, `SELECT string_agg(c.relname, ',' ORDER BY c.relname) FROM pg_class c
		WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relnamespace = 'public'::regnamespace`), ",")
}

// S4.10: after an erasure, no table contains the person for this company. The data of the other company is unchanged. A leased task is erased after its lease
// has ended.
func TestAPersonIsErasedFromAllTables(t *testing.T) {
	w := newWorld(t)
	before := w.found()
	var held string
	for _, task := range w.Claim("acme-sender", 1) { // the task with the highest priority
		held = task.TaskID
	}
	e := w.erase(map[string]any{"user_id": userID}, w.acme)
	if e.Status != api.ErasureRunning || e.Held != 1 || e.Counts.Contacts != 1 || e.FinishedAt != nil {
		t.Errorf("%+v", e)
	}
	w.Report(held, "acme-sender", 2, nil)
	e = w.run(e.ErasureID, w.acme)
	if e.Status != api.ErasureFinished || e.Held != 0 || e.FinishedAt == nil {
		t.Errorf("%+v", e)
	}
	after := w.found()
	for table, n := range before {
		if after[table]*2 != n && table != "sessions" {
			t.Errorf("%s: %d of %d rows name the person, want the half", table, after[table], n)
		}
	}
	c := e.Counts
	if c.Contacts != 1 || c.Tags != 1 || c.TasksCancelled < 1 || c.Tasks < 5 || c.Reports < 2 || c.Attempts != 1 || c.Receipts != 1 || c.Callbacks != 1 ||
		c.Received != 1 || c.Texts < 1 || c.Notifications != 2 || c.SendOnce != 1 || c.BatchRows != 2 || c.DefaultContents != 1 || c.Submissions != 2 || c.DedupKeys != 1 ||
		c.Answers < 2 || c.TaskJobs != 1 || c.Audit < 3 {
		t.Errorf("%+v", c)
	}
	// Facts are not erased.
	if n := w.Count("SELECT count(*) FROM messages WHERE recipient = '' AND content = '已清除' AND company_id = (SELECT id FROM companies WHERE company_no = 'acme')"); n != int(c.Tasks) {
		t.Errorf("%d messages are erased, want %d", n, c.Tasks)
	}
	task := w.Task(held)
	if task.Status != 2 || task.PhoneNumber != "" || task.Content != "已清除" {
		t.Errorf("%+v", task)
	}
	w.Expect(200, "", "GET", "/api/v1/admin/contacts/li-4", nil, w.acme...)
	if n := w.Count("SELECT count(*) FROM callbacks WHERE strpos(body, $1) > 0", otherNumber); n != 2 {
		t.Errorf("%d callbacks have the receipt of somebody else", n)
	}
	// A second erasure finds nothing.
	if e := w.erase(map[string]any{"user_id": userID, "phone": number, "email": address}, w.acme); e.Status != api.ErasureFinished || e.Counts != (api.ErasureCounts{}) {
		t.Errorf("%+v", e)
	}
	// The other company can still erase the person by the phone number.
	if e := w.erase(map[string]any{"phone": number}, w.beta); e.Status != api.ErasureFinished || e.Counts.Contacts != 1 || e.Counts.Tasks < 5 {
		t.Errorf("%+v", e)
	}
	if left := w.found(); len(left) > 0 {
		t.Errorf("%v", left)
	}
}

func TestErasureRequestsAreValidated(t *testing.T) {
	w := apptest.NewTwoCompanies(t)
	for field, body := range map[string]string{
		"user_id": `{}`, "phone": `{"phone":"12"}`, "email": `{"email":"x"}`,
	} {
		if a := w.Expect(422, "request.invalid", "POST", path, body, w.Acme...); a.Fields() != field {
			t.Errorf("%s: %s", body, a.Raw)
		}
	}
	w.Expect(400, "request.malformed", "POST", path, `{`, w.Acme...)
	w.Expect(415, "request.unsupported_media_type", "POST", path, `{}`, append([]string{"Content-Type", "text/plain"}, w.Acme...)...)
	w.Expect(401, "auth.required", "POST", path, `{}`, "Authorization", "")
	w.Expect(403, "auth.forbidden", "POST", path, `{"user_id":"of-acme"}`, w.Reader...)
	w.Expect(403, "auth.other_company", "POST", path, `{"user_id":"of-beta","company_no":"beta"}`, w.Acme...)
	w.Expect(404, "company.not_found", "POST", path, `{"user_id":"of-beta","company_no":"nobody"}`)
	key := append([]string{apptest.KeyHeader, "k"}, w.Acme...)
	made := apptest.Decode[api.Erasure](t, w.Expect(200, "", "POST", path, `{"user_id":"of-acme"}`, key...))
	if again := apptest.Decode[api.Erasure](t, w.Expect(200, "", "POST", path, `{"user_id":"of-acme"}`, key...)); again.ErasureID != made.ErasureID {
		t.Error("a key made two erasures")
	}
	if a := w.Expect(200, "", "GET", fmt.Sprint(path, "/", made.ErasureID), nil, w.Reader...); strings.Contains(a.Raw, `"of-acme"`) {
		t.Errorf("%s says whom it is about", a.Raw)
	}
	list := apptest.Decode[api.ErasurePage](t, w.Expect(200, "", "GET", path+"?limit=1", nil, w.Acme...))
	if len(list.Items) != 1 || list.Items[0].ErasureID != made.ErasureID {
		t.Errorf("%+v", list)
	}
	for _, at := range []string{path, fmt.Sprint(path, "/", made.ErasureID)} {
		w.Expect(401, "auth.required", "GET", at, nil, "Authorization", "")
		w.Expect(403, "auth.other_company", "GET", at+"?company_no=beta", nil, w.Acme...)
		w.Expect(404, "company.not_found", "GET", at+"?company_no=nobody", nil)
		w.Expect(422, "request.invalid", "GET", at+"?x=1", nil)
	}
	w.Expect(404, "erasure.not_found", "GET", fmt.Sprint(path, "/", made.ErasureID), nil, w.Beta...)
}

// An import that started before the erasure adds the contact again. The contact is erased after the import has ended. Rows of a batch that are not tasks yet
// are rejected.
func TestAnErasureWaitsForRunningImportsAndBatches(t *testing.T) {
	b := apptest.New(t)
	form := append([]string{}, "Content-Type", apptest.FormType)
	b.Expect(200, "", "POST", "/api/v1/contacts/import", apptest.Form("file", "list.csv", "user_id,phone\n"+userID+","+number+"\nli-4,"+otherNumber+"\n"), form...)
	w := &world{Bundle: b}
	batch := apptest.Decode[api.BatchCreated](t, b.Expect(200, "", "POST", "/api/v1/batches",
		apptest.Form("file", "list.csv", "phone\n"+number+"\n"+otherNumber+"\n", "name", "n", "content", "x", "auto_confirm", "true"), form...))
	e := w.erase(map[string]any{"phone": number}, nil)
	if e.Status != api.ErasureRunning || e.Held != 2 {
		t.Fatalf("%+v", e)
	}
	if _, err := b.App.Contacts.Import(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := b.App.Batches.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	e = w.run(e.ErasureID, nil)
	if e.Status != api.ErasureFinished || e.Counts.Contacts != 1 || e.Counts.BatchRows != 1 {
		t.Errorf("%+v", e)
	}
	if left := w.found(); len(left) > 0 {
		t.Errorf("%v", left)
	}
	if _, err := b.App.Batches.Feed(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := apptest.Decode[api.Batch](t, b.Expect(200, "", "GET", fmt.Sprint("/api/v1/batches/", batch.BatchID), nil))
	if got.Counts.Valid != 1 || got.Counts.Invalid != 1 || b.Count("SELECT count(*) FROM messages") != 1 {
		t.Errorf("%+v", got.Counts)
	}
}

// An import and a check end after the erasure has searched contacts and batches, and before the erasure counts the lists that are being read.
func TestAnErasureFindsListsThatEndDuringItsPass(t *testing.T) {
	b := apptest.New(t)
	form := append([]string{}, "Content-Type", apptest.FormType)
	b.Expect(200, "", "POST", "/api/v1/contacts/import", apptest.Form("file", "list.csv", "user_id,phone\n"+userID+","+number+"\n"), form...)
	b.Expect(200, "", "POST", "/api/v1/batches",
		apptest.Form("file", "list.csv", "phone\n"+number+"\n"+otherNumber+"\n", "name", "n", "content", "x", "auto_confirm", "true"), form...)
	services := b.App.Erasures.Services
	services.Owners = append(slices.Clone(services.Owners), erasure.Owner{
		Room: "test", EraseSourcePortions: func(ctx context.Context, _ *erase.Person, _ erase.Runner) error {
			_, err := b.App.Contacts.Import(ctx)
			if err == nil {
				_, err = b.App.Batches.Check(ctx)
			}
			return err
		},
	})
	b.Expect(200, "", "POST", path, map[string]any{"phone": number})
	if ended, err := erasure.New(b.App.DB, services).Run(t.Context()); ended != 0 || err != nil {
		t.Errorf("%d erasures ended, %v", ended, err)
	}
	b.RunErasures()
	if left := (&world{Bundle: b}).found(); len(left) > 0 {
		t.Errorf("%v", left)
	}
	if n := b.Count("SELECT count(*) FROM batch_rows WHERE code = 7"); n != 1 {
		t.Errorf("%d rows are refused", n)
	}
}

// A response can contain the number of the person in a text about somebody else. Such a response is unchanged, and does not hide a later one.
func TestAnErasureReadsAllStoredResponses(t *testing.T) {
	b := apptest.New(t)
	b.Exec(`INSERT INTO idempotency_keys (username, operation, key, request_hash, response)
		SELECT 'admin', 'a', lpad(i::text, 4, '0'), '', convert_to('{"data":{"phone_number":"+8613798765432","content":"call +86' || $1 || '"}}', 'UTF8')
		FROM generate_series(1, 1000) i`, number)
	b.Expect(200, "", "POST", "/api/v1/sms/send", map[string]any{"phone_number": number, "content": "x"}, apptest.KeyHeader, "later")
	w := &world{Bundle: b}
	e := w.erase(map[string]any{"phone": number}, nil)
	if e.Counts.Answers != 1 {
		t.Errorf("%d responses are erased", e.Counts.Answers)
	}
	if n := b.Count("SELECT count(*) FROM idempotency_keys WHERE key = 'later' AND position(convert_to($1, 'UTF8') IN response) > 0", number); n != 0 {
		t.Error("the response to the person is left")
	}
}

// An erasure finds its tasks in portions, and continues after an interruption. An erased task is not sent again.
func TestAnInterruptedErasureContinues(t *testing.T) {
	b := apptest.New(t)
	messages := make([]map[string]any, 520)
	for i := range messages {
		messages[i] = map[string]any{"phone_number": number, "content": fmt.Sprint("给三丰的话 ", i)}
	}
	b.Expect(200, "", "POST", apptest.BatchPath, map[string]any{"messages": messages})
	id := apptest.Scan[string](b, "SELECT max(task_id) FROM messages")
	b.Exec(`CREATE FUNCTION broken_off() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF NEW.recipient = '' AND OLD.task_id = '` + id + `' THEN RAISE 'broken off'; END IF; RETURN NEW; END $$`)
	b.Exec("CREATE TRIGGER broken_off BEFORE UPDATE ON messages FOR EACH ROW EXECUTE FUNCTION broken_off()")
	w := &world{Bundle: b}
	made := apptest.Decode[api.Erasure](t, b.Expect(200, "", "POST", path, map[string]any{"phone": number}))
	if _, err := b.App.Erasures.Run(t.Context()); err == nil {
		t.Error("no failure is reported")
	}
	get := func() api.Erasure {
		return apptest.Decode[api.Erasure](t, b.Expect(200, "", "GET", fmt.Sprint(path, "/", made.ErasureID), nil))
	}
	if e := get(); e.Status != api.ErasureRunning || e.Counts.Tasks != 500 || e.Counts.TasksCancelled != 520 {
		t.Errorf("%+v", e)
	}
	b.Exec("DROP FUNCTION broken_off() CASCADE")
	if e := w.run(made.ErasureID, nil); e.Status != api.ErasureFinished || e.Counts.Tasks != 520 || e.Counts.TasksCancelled != 520 {
		t.Errorf("%+v", e)
	}
	b.Expect(409, "task.erased", "POST", "/api/v1/sms/task/"+id+"/requeue", nil)
	b.Exec("INSERT INTO erasures (company_id, user_ids, recipients, asked_recipients, created_by) SELECT 1, '{u}', '{}', '{}', 'admin' FROM generate_series(1, 100)")
	b.Expect(409, "limit.reached", "POST", path, map[string]any{"phone": number})
	b.Exec("DELETE FROM erasures WHERE status = 'running'")
	if n, err := b.App.Erasures.DeleteExpired(t.Context()); err != nil || n != 0 {
		t.Error(n, err)
	}
	b.Exec("UPDATE erasures SET finished_at = now() - interval '10 years'")
	if n, err := b.App.Erasures.DeleteExpired(t.Context()); err != nil || n != 1 {
		t.Error(n, err)
	}
}

// S4.10: a contact that has another address in common with the person is a different person.
func TestAnErasureByPhoneKeepsPeopleWhoShareAnotherAddress(t *testing.T) {
	b := apptest.New(t)
	b.PutContacts(
		map[string]any{"user_id": "a", "phone": "13800138000", "email": "info@example.com"},
		map[string]any{"user_id": "b", "phone": "13900139000", "email": "info@example.com"},
	)
	b.Expect(200, "", "POST", path, `{"phone":"13800138000"}`)
	b.RunErasures()
	b.Expect(404, "contact.not_found", "GET", "/api/v1/admin/contacts/a", nil)
	b.Expect(200, "", "GET", "/api/v1/admin/contacts/b", nil)
	if n := b.Count("SELECT count(*) FROM erasures WHERE status = 'finished'"); n != 1 {
		t.Error("the erasure has not ended")
	}
}

// S4.10: a provider can use one number for messages to several people, and a callback can contain any text. The data of other people is kept.
func TestAnErasureKeepsTheReceiptsOfOtherPeople(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "app"})
	id := b.Submit("hello") // to apptest.Phone
	b.Report(b.Claim("app", 1)[0].TaskID, "app", 2, nil)
	b.Exec("INSERT INTO deliveries (task_id, lease_id, sender_no, recipient, provider_no) VALUES ($1, 1, 'app', '+8613800138000', 'p')", id)
	const body = `[{"id":"913800138000","to":"13800138000"},{"id":"p","to":"%2B8613800138000"},{"to":"008613800138000"},{"to":"13900138000"},{"to":"138001380001"}] %2213800138000%22`
	b.Exec(`WITH c AS (
		INSERT INTO callbacks (sender_no, source_ip, body) VALUES ('app', '1.1.1.1', $1) RETURNING id
	) INSERT INTO receipts (callback_id, sender_no, provider_no, recipient, state)
	SELECT c.id, 'app', 'p', r.recipient, 1 FROM c CROSS JOIN unnest(ARRAY['138-0013-8000', '13900138000', '']) AS r (recipient)`, body)
	b.Expect(200, "", "POST", path, `{"phone":"13800138000"}`)
	b.RunErasures()
	if got := apptest.Scan[string](b, "SELECT string_agg(recipient, ',' ORDER BY id) FROM receipts"); got != "13900138000," {
		t.Errorf("receipts of %s are left", got)
	}
	const want = `[{"id":"913800138000","to":"********"},{"id":"p","to":"********"},{"to":"********"},{"to":"13900138000"},{"to":"138001380001"}] %22********%22`
	if got := apptest.Scan[string](b, "SELECT body FROM callbacks"); got != want {
		t.Errorf("the callback is %s", got)
	}
}

// S4.10: an erasure matches an e-mail address in any case. It does not match a part of a longer address.
func TestAnErasureMatchesAddressesInAnyCase(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "mail-app", "channel": "email"})
	b.PutContacts(map[string]any{"user_id": "a", "email": "bob@example.com"})
	b.Expect(200, "", "POST", "/api/v1/notifications", map[string]any{
		"biz_type": 3, "biz_id": 1, "channels": []string{"email"}, "payload": map[string]any{"taskName": "x"}, "user_ids": []string{"a"},
	})
	id := b.Claim("mail-app", 1)[0].TaskID
	b.Report(id, "mail-app", 2, nil)
	b.Exec("INSERT INTO deliveries (task_id, lease_id, sender_no, recipient, provider_no) VALUES ($1, 1, 'mail-app', 'bob@example.com', 'p')", id)
	b.Exec(`WITH c AS (
		INSERT INTO callbacks (sender_no, source_ip, body) VALUES ('mail-app', '1.1.1.1', 'to=bob%40example.com&%22bob%40example.com%22 \u003cbob@example.com\u003e \nbob@example.com %253Dbob@example.com, jim.bob@example.com, bob@example.com.cn') RETURNING id
	) INSERT INTO receipts (callback_id, sender_no, provider_no, recipient, state) SELECT c.id, 'mail-app', 'p', 'bob@example.com', 1 FROM c`)
	b.PutContacts(map[string]any{"user_id": "a", "email": "other@example.com"})
	b.Exec("UPDATE messages SET user_id = NULL") // so that only the address identifies the person
	b.Expect(200, "", "POST", path, `{"email":"Bob@Example.com"}`)
	b.RunErasures()
	if n := b.Count("SELECT count(*) FROM messages WHERE recipient = ''"); n != 1 {
		t.Errorf("%d tasks are erased", n)
	}
	if got := apptest.Scan[string](b, "SELECT body FROM callbacks"); got != "to=********&%22********%22 \\u003c********\\u003e \\n******** %253D********, jim.bob@example.com, bob@example.com.cn" {
		t.Errorf("the callback is %s", got)
	}
}

// The result of the PostgreSQL function lower depends on the locale of the database.
func TestAnErasureMatchesMailAddressesInAnyLocale(t *testing.T) {
	b := apptest.New(t)
	b.PutContacts(map[string]any{"user_id": "a", "email": "Bob@EXÄMPLE.com"}, map[string]any{"user_id": "b", "email": "bob@example.com"},
		map[string]any{"user_id": "c", "email": "bob@xn--exmple-cua.com"}, map[string]any{"user_id": "d", "email": "other@example.com"})
	b.Exec("UPDATE contacts SET email = 'Bob@xn--exmple-cua.com' WHERE user_id = 'd'") // by an earlier version
	b.Expect(200, "", "POST", path, `{"email":"bob@exämple.com"}`)
	b.RunErasures()
	if left := apptest.Scan[string](b, "SELECT string_agg(user_id, ' ') FROM contacts"); left != "b" {
		t.Errorf("the contacts %s are left", left)
	}
}

// A contact and its messages can have different forms of a domain that is not ASCII.
func TestAnErasureMatchesDomainsInAnyForm(t *testing.T) {
	for contact, message := range map[string]string{"bob@xn--exmple-cua.com": "bob@exämple.com", "bob@exämple.com": "bob@xn--exmple-cua.com"} {
		t.Run(contact, func(t *testing.T) {
			b := apptest.New(t)
			b.AddSender(map[string]any{"sender_no": "mail-app", "channel": "email"})
			b.PutContacts(map[string]any{"user_id": "a", "email": "bob@example.com"})
			b.Expect(200, "", "POST", "/api/v1/notifications", map[string]any{
				"biz_type": 3, "biz_id": 1, "channels": []string{"email"}, "payload": map[string]any{"taskName": "x"}, "user_ids": []string{"a"},
			})
			b.Report(b.Claim("mail-app", 1)[0].TaskID, "mail-app", 2, nil)
			b.Exec("UPDATE contacts SET email = $1", contact)
			b.Exec("UPDATE messages SET user_id = NULL, recipient = $1", message)
			b.Expect(200, "", "POST", path, `{"user_id":"a"}`)
			b.RunErasures()
			if n := b.Count("SELECT count(*) FROM messages WHERE recipient = ''"); n != 1 {
				t.Errorf("contact %s, message %s: %d tasks are erased", contact, message, n)
			}
		})
	}
}

// S4.10: rows of batches on other channels lose the address and the values, and e-mail addresses match in any case.
func TestAnErasureMatchesAddressesInBatches(t *testing.T) {
	b := apptest.New(t)
	create := func(list string, fields ...string) {
		form := apptest.Form("file", "list.csv", list, append([]string{"name", "n", "auto_confirm", "true"}, fields...)...)
		b.Expect(200, "", "POST", "/api/v1/batches", form, "Content-Type", apptest.FormType)
	}
	b.PutContacts(map[string]any{"user_id": "bob-1", "email": "bob@example.com", "dingtalk_name": "bobby"})
	create("email,name\nBob@example.com,Bob\nann@example.com,Ann\n", "channel", "email", "subject", "{name}", "content", "x {name}")
	create("工号,name\nbob-1,Bob\nann-1,Ann\n", "channel", "oa", "content", "x {name}")
	create("钉钉,name\nbobby,Bob\nann,Ann\n", "channel", "dingtalk", "content", "x {name}")
	for _, do := range []func(context.Context) (int, error){b.App.Batches.Check, b.App.Batches.Feed} {
		if _, err := do(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	b.Exec("UPDATE batch_rows SET task_id = NULL WHERE batch_id = (SELECT min(id) FROM batches) AND row_no = 2")
	b.Exec("UPDATE batches SET status = 'paused', fed_row = 0, fed = 1 WHERE id = (SELECT min(id) FROM batches)")
	b.Exec("DELETE FROM queue WHERE recipient = 'Bob@example.com'")
	b.Exec("DELETE FROM messages WHERE recipient = 'Bob@example.com'")
	b.Expect(200, "", "POST", path, `{"user_id":"bob-1"}`)
	b.RunErasures()
	if n := b.Count("SELECT count(*) FROM batch_rows WHERE recipient = '' AND content = '' AND contact_values IS NULL"); n != 3 {
		t.Errorf("%d rows are erased", n)
	}
	if n := b.Count("SELECT count(*) FROM batch_rows WHERE code = 7"); n != 1 {
		t.Errorf("%d rows are refused", n)
	}
	if n := b.Count("SELECT count(*) FROM messages WHERE recipient = '' AND contact_values IS NULL"); n != 2 {
		t.Errorf("%d tasks are erased", n)
	}
	if n := b.Count("SELECT count(*) FROM messages WHERE contact_values::text LIKE '%Bob%'") + b.Count("SELECT count(*) FROM batch_rows WHERE contact_values::text LIKE '%Bob%'"); n != 0 {
		t.Errorf("%d values are left", n)
	}
}

// A rejected submission or row contains the number in its original notation.
func TestAnErasureMatchesANumberInAnyNotation(t *testing.T) {
	w := apptest.New(t)
	acme := w.AddCompany("acme", 1)
	list := "phone,word\n"
	for i, number := range []string{"13712345678", "１３７１２３４５６７８", "13712345678.0", "١٣٧١٢٣٤٥٦٧٨", "\u202a+86 137\u20111234\u00a05678\u202c"} {
		w.Expect(422, "request.invalid", "POST", "/api/v1/sms/send", map[string]any{"phone_number": number, "content": strings.Repeat("x", 2000)}, acme...)
		if n := w.Count("SELECT count(*) FROM fruitless_submissions WHERE phone_number IS NOT NULL"); n != i+1 {
			t.Fatalf("%d submissions have numbers", n)
		}
		list += number + ",\n"
	}
	w.Expect(200, "", "POST", "/api/v1/batches", apptest.Form("file", "list.csv", list, "name", "n", "content", "{word}"),
		append([]string{"Content-Type", apptest.FormType}, acme...)...)
	if _, err := w.App.Batches.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Expect(200, "", "POST", path, `{"phone":"13712345678"}`, acme...)
	w.RunErasures()
	if n := w.Count("SELECT count(*) FROM fruitless_submissions WHERE phone_number IS NOT NULL"); n != 0 {
		t.Errorf("%d submissions have the number of the person", n)
	}
	if n := w.Count("SELECT count(*) FROM batch_rows WHERE number_digits(recipient) LIKE '%12345678%'"); n != 0 {
		t.Errorf("%d rows have the number of the person", n)
	}
}

// The SQL function number_digits finds the numbers that an erasure or a receipt concerns, and the package phone decides about them.
func TestGoAndSQLReadTheSameDigitsOfANumber(t *testing.T) {
	w := apptest.New(t)
	for _, number := range []string{
		"13712345678", "+86 137-1234-5678", "１３７１２３４５６７８", "١٣٧١٢٣٤٥٦٧٨", "۱۳۷۱۲۳۴۵۶۷۸", "\u202a+86 137\u20111234\u00a05678\u202c", "(+86) [137] 12345678", "'13712345678",
		"13712345678.0", "13712345678.00", "13712345678.000", "１３７１２３４５６７８．０", "13712345678·0", "13712345678•00", "13712345678。0", "13712345678 . 0",
		"+62-812-345-678.0", "+62-812-345-678.00", "'0812345678.0", "’0812345678.0", "(0812)345678.0", "[62]812345678.0", "030-1234567.0", "030 1234567.0", "+1-650-555-012.0",
		"0812345678.0-", "0812345678.-0", "0812345678.(00)", "+62.812.345.678.0", "01.23.45.67.00", ".0812345678.0", "0812345678.0.", "0812345678..0", "123456.0", "1234567.0", ".0", "",
	} {
		digits, isNumber := phone.Digits(number)
		if sql := apptest.Scan[string](w, "SELECT number_digits($1)", number); !isNumber || sql != strings.TrimPrefix(digits, "+") {
			t.Errorf("%q: Go reads %q (%v), SQL reads %q", number, digits, isNumber, sql)
		}
	}
}
