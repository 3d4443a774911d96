package notification_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
)

// toTag creates a notification to a tag on the channel OA, and returns its id. On OA the user id is the address.
func toTag(b *apptest.Bundle, tag string, more map[string]any, headers ...string) int64 {
	b.T.Helper()
	body := map[string]any{"biz_type": 3, "biz_id": 7, "channels": []string{"oa"}, "payload": map[string]any{"taskName": "x"}, "tag": tag}
	for k, v := range more {
		body[k] = v
	}
	return apptest.Decode[api.NotificationsMade](b.T, b.Expect(200, "", "POST", "/api/v1/notifications", body, headers...)).Items[0].NotificationID
}

// makeVIPs creates the tag vip with n contacts.
func makeVIPs(b *apptest.Bundle, n int) {
	b.T.Helper()
	b.Expect(200, "", "PUT", "/api/v1/tags/vip", nil)
	b.Exec("INSERT INTO contacts (company_id, user_id) SELECT 1, to_char(i, 'FM00000') FROM generate_series(1, $1::integer) i ON CONFLICT DO NOTHING", n)
	b.Exec("INSERT INTO tag_contacts (tag_id, company_id, user_id) SELECT t.id, 1, c.user_id FROM tags t CROSS JOIN contacts c WHERE t.tag = 'vip' AND c.user_id <= to_char($1::integer, 'FM00000')", n)
}

func runAll(b *apptest.Bundle) {
	b.T.Helper()
	if _, err := b.App.Notifications.Run(b.T.Context()); err != nil {
		b.T.Fatal(err)
	}
}

func messages(b *apptest.Bundle) int {
	b.T.Helper()
	n := b.Count("SELECT count(*) FROM messages")
	if distinct := b.Count("SELECT count(DISTINCT user_id) FROM messages"); distinct != n {
		b.T.Errorf("%d tasks for %d contacts", n, distinct)
	}
	return n
}

// S4.10: a notification is sent to all contacts of a tag, in portions, and once to each contact, even if a run is interrupted.
func TestANotificationGoesToTheContactsOfATag(t *testing.T) {
	b := apptest.New(t)
	makeVIPs(b, 1200)
	id := toTag(b, "vip", nil)
	if n := messages(b); n != 500 {
		t.Errorf("the request notified %d, want the first portion", n)
	}
	if n := b.Notification(id); n.Status != 0 || n.People != 500 || *n.Tag != "vip" || len(n.UserIds) != 0 {
		t.Errorf("%+v", n)
	}
	b.Exec(`CREATE FUNCTION broken_off() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF (SELECT count(*) FROM messages) >= 1000 THEN RAISE SQLSTATE '57P01'; END IF; RETURN NEW; END $$`)
	b.Exec("CREATE TRIGGER broken_off BEFORE UPDATE OF run_after ON notifications FOR EACH ROW EXECUTE FUNCTION broken_off()")
	if _, err := b.App.Notifications.Run(t.Context()); err == nil {
		t.Error("no failure is reported")
	}
	if n := messages(b); n != 500 {
		t.Errorf("a run that was broken off notified %d", n)
	}
	b.Exec("DROP FUNCTION broken_off() CASCADE")
	runAll(b)
	if n := messages(b); n != 1200 {
		t.Errorf("%d are notified, want 1200", n)
	}
	if n := b.Notification(id); n.People != 1200 || len(*n.Recipients) != 1000 || b.Count("SELECT count(*) FROM renderings") != 1 {
		t.Errorf("%+v", n)
	}
	runAll(b)
	if n := messages(b); n != 1200 {
		t.Errorf("a second run notified %d", n)
	}
}

// S4.10: the contacts of a tag are read when the notification is sent.
func TestATagIsReadWhenItsNotificationIsSent(t *testing.T) {
	b := apptest.New(t)
	makeVIPs(b, 2)
	toTag(b, "vip", map[string]any{"next_run_time": time.Now().Add(time.Hour)})
	runAll(b)
	if n := messages(b); n != 0 {
		t.Errorf("%d were notified too early", n)
	}
	b.PutContacts(map[string]any{"user_id": "late"})
	b.Expect(200, "", "POST", "/api/v1/tags/vip/contacts", map[string]any{"add": []string{"late"}, "remove": []string{"00001"}})
	b.Exec("UPDATE notifications SET next_run_at = now()")
	runAll(b)
	if got := apptest.Scan[string](b, "SELECT string_agg(user_id, ' ' ORDER BY user_id) FROM messages"); got != "00002 late" {
		t.Errorf("notified %s", got)
	}
	// A notification that is sent again goes only to the contacts that it has not reached.
	b.AddSender(map[string]any{"sender_no": "oa-app", "channel": "oa"})
	for _, task := range b.Claim("oa-app", 10) {
		b.Report(task.TaskID, "oa-app", 2, nil)
	}
	b.PutContacts(map[string]any{"user_id": "later"})
	b.Expect(200, "", "POST", "/api/v1/tags/vip/contacts", map[string]any{"add": []string{"later"}})
	b.Expect(200, "", "POST", "/api/v1/notifications/status", map[string]any{"biz_type": 3, "biz_ids": []int64{7}, "status": 0, "expected_statuses": []int{0, 1, 2}})
	runAll(b)
	if got := apptest.Scan[string](b, "SELECT string_agg(user_id, ' ' ORDER BY user_id) FROM messages"); got != "00002 late later" {
		t.Errorf("notified %s", got)
	}
}

// S4.10: a request that names an unsuitable tag is refused. If the tag becomes unsuitable later, the notification fails when it is sent. A company does not see
// the tags of another company.
func TestInvalidTagsOfANotificationAreRefused(t *testing.T) {
	w := apptest.NewTwoCompanies(t)
	body := func(more map[string]any) map[string]any {
		all := map[string]any{"biz_type": 3, "biz_id": 7, "channels": []string{"oa"}, "payload": map[string]any{"taskName": "x"}}
		for k, v := range more {
			all[k] = v
		}
		return all
	}
	for _, c := range []struct {
		field string
		more  map[string]any
	}{
		{"tag", map[string]any{"tag": "nobody"}},
		{"tag", map[string]any{"tag": "tag-of-beta"}},
		{"tag", map[string]any{"tag": "vip", "user_ids": []string{"u"}}},
		{"tag", map[string]any{"tag": "vip", "repeat_minutes": 5}},
		{"user_ids", nil},
	} {
		if a := w.Expect(422, "request.invalid", "POST", "/api/v1/notifications", body(c.more), w.Acme...); a.Fields() != c.field {
			t.Errorf("%v: %s", c.more, a.Raw)
		}
	}
	w.Exec("UPDATE tags SET contacts = 100001 WHERE tag = 'tag-of-acme'")
	if a := w.Expect(422, "request.invalid", "POST", "/api/v1/notifications", body(map[string]any{"tag": "tag-of-acme"}), w.Acme...); a.Fields() != "tag" {
		t.Errorf("%s", a.Raw)
	}
	w.Exec("UPDATE tags SET contacts = 0 WHERE tag = 'tag-of-acme'")
	later := map[string]any{"next_run_time": time.Now().Add(time.Hour), "biz_id": 8}
	keyed := map[string]any{"tag": "vip", "dedup_key": "k", "next_run_time": time.Now().Add(time.Hour)}
	first := w.Expect(200, "", "POST", "/api/v1/notifications", body(keyed), w.Acme...)
	ids := []int64{toTag(w.Bundle, "tag-of-acme", nil, w.Acme...), toTag(w.Bundle, "vip", later, w.Acme...), toTag(w.Bundle, "tag-of-acme", later, w.Acme...)}
	w.Exec("DELETE FROM tags WHERE tag = 'vip'")
	again := apptest.Decode[api.NotificationsMade](t, w.Expect(200, "", "POST", "/api/v1/notifications", body(keyed), w.Acme...))
	if want := apptest.Decode[api.NotificationsMade](t, first).Items[0].NotificationID; again.Items[0].NotificationID != want || !again.Items[0].Deduplicated {
		t.Errorf("a repeat whose tag was deleted: %+v", again)
	}
	w.Exec("UPDATE tags SET contacts = 100001 WHERE tag = 'tag-of-acme'")
	w.Exec("UPDATE notifications SET next_run_at = now() WHERE next_run_at IS NOT NULL")
	runAll(w.Bundle)
	var remarks []string
	for _, id := range ids {
		n := w.Notification(id)
		remarks = append(remarks, fmt.Sprint(n.Status, *n.Remark))
	}
	if want := []string{"2标签中没有联系人", "2标签不存在", "2标签中的联系人超过 100000 个"}; !slices.Equal(remarks, want) {
		t.Errorf("%q", remarks)
	}
}

// settle makes a sender of a channel report every task as sent, except the tasks to the users in failed: it reports these as failed.
func settle(b *apptest.Bundle, channel string, failed ...string) {
	b.T.Helper()
	for tasks := b.Claim(channel+"-app", 100); len(tasks) > 0; tasks = b.Claim(channel+"-app", 100) {
		for _, task := range tasks {
			status := 2
			if slices.Contains(failed, apptest.Scan[string](b, "SELECT user_id FROM messages WHERE task_id = $1", task.TaskID)) {
				status = 3
			}
			b.Report(task.TaskID, channel+"-app", status, nil)
		}
	}
}

// again sets the notification about business object 7 back to waiting, so that it is sent to the contacts that were not reached.
func again(b *apptest.Bundle) {
	b.T.Helper()
	b.Expect(200, "", "POST", "/api/v1/notifications/status", map[string]any{"biz_type": 3, "biz_ids": []int64{7}, "status": 0, "expected_statuses": []int{0, 1, 2, 5}})
	runAll(b)
}

// A run in progress does not wait for the tasks of its own first portion. If it waited, the run would restart every minute, and send to the failed contacts
// again each time.
func TestANotificationToATagIsSentAgainOnce(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "oa-app", "channel": "oa"})
	makeVIPs(b, 600)
	toTag(b, "vip", nil)
	runAll(b)
	settle(b, "oa", "00003", "00599")
	again(b)
	for range 2 {
		if got := apptest.Scan[string](b, "SELECT string_agg(user_id, ' ' ORDER BY user_id) FROM (SELECT user_id FROM messages GROUP BY user_id HAVING count(*) = 2) m"); got != "00003 00599" {
			t.Errorf("notified twice: %s", got)
		}
		if n := b.Count("SELECT count(*) FROM messages"); n != 602 {
			t.Errorf("%d tasks, want 602", n)
		}
		b.Exec("UPDATE notifications SET next_run_at = now() WHERE next_run_at IS NOT NULL") // a minute later
		runAll(b)
	}
}

// Each portion of a run fills the placeholders of its own contacts, even if nobody in the first portion gets a message.
func TestEachPortionIsRenderedForEachContact(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "email-app", "channel": "email"})
	b.Expect(200, "", "PUT", "/api/v1/admin/notification-templates/3/email", map[string]any{"title": "t", "content": "${contact.name}: ${taskName}"})
	makeVIPs(b, 600)
	b.Exec("UPDATE contacts SET name = 'name of ' || user_id, email = user_id || '@example.com'")
	toTag(b, "vip", map[string]any{"channels": []string{"email"}})
	runAll(b)
	settle(b, "email", "00550")
	again(b)
	if got := apptest.Scan[string](b, "SELECT string_agg(content || ' ' || (contact_values IS NOT NULL), ', ') FROM messages WHERE user_id = '00550'"); got != "name of 00550: x true, name of 00550: x true" {
		t.Errorf("%s", got)
	}
}

// S4.10: a notification that ends between two portions fails. Its remark states that it did not reach the whole tag.
func TestANotificationInterruptedBetweenPortionsFails(t *testing.T) {
	b := apptest.New(t)
	makeVIPs(b, 600)
	for _, c := range []struct{ act, want string }{
		{"UPDATE notifications SET expires_at = now()", "通知完标签中的联系人之前已过期"},
		{"DELETE FROM tags", "通知完标签中的联系人之前，标签已被删除"},
	} {
		b.Exec("DELETE FROM queue")
		b.Exec("DELETE FROM messages")
		id := toTag(b, "vip", map[string]any{"expires_at": time.Now().Add(time.Hour)})
		b.Exec(c.act)
		runAll(b)
		if n := b.Notification(id); messages(b) != 500 || n.Status != api.NotificationFailed || *n.Remark != c.want {
			t.Errorf("%d are notified, status %d, %v", messages(b), n.Status, n.Remark)
		}
	}
}

// Several notifications with several portions run alternately, portion by portion.
func TestANotificationToATagLetsOthersRunAfterEachPortion(t *testing.T) {
	b := apptest.New(t)
	makeVIPs(b, 1)
	id := toTag(b, "vip", map[string]any{"next_run_time": time.Now().Add(time.Hour)})
	b.Exec("INSERT INTO contacts (company_id, user_id) SELECT 1, to_char(i, 'FM00000') FROM generate_series(2, 600) i")
	b.Exec("INSERT INTO tag_contacts (tag_id, company_id, user_id) SELECT t.id, 1, c.user_id FROM tags t CROSS JOIN contacts c ON CONFLICT DO NOTHING")
	b.Exec("UPDATE notifications SET next_run_at = now() - interval '1 hour' WHERE id = $1", id)
	b.Exec("CREATE TABLE runs (notification_id bigint, at timestamptz)")
	b.Exec(`CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO runs VALUES (NEW.id, NEW.next_run_at); RETURN NEW; END $$`)
	b.Exec("CREATE TRIGGER note AFTER UPDATE OF run_after ON notifications FOR EACH ROW EXECUTE FUNCTION note()")
	runAll(b)
	if n := b.Count("SELECT count(*) FROM runs WHERE notification_id = $1 AND at > now() - interval '1 minute'", id); n != 1 {
		t.Errorf("after its first portion, the notification was first again %d times", n)
	}
}
