package feed_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
)

// notify creates a notification to three people on the channel sms. It returns the id of the notification.
func notify(b *apptest.Bundle, more map[string]any) int64 {
	b.T.Helper()
	body := map[string]any{
		"biz_type": 0, "biz_id": 7, "channels": []string{"sms"}, "user_ids": []string{"boss", "u1", "u2"},
		"payload": map[string]any{"taskName": "应急成像", "creatorName": "张三", "createTime": "2025-08-01 10:20"},
	}
	for k, v := range more {
		body[k] = v
	}
	b.Expect(200, "", "PUT", "/api/v1/admin/notification-templates/0/sms", map[string]any{"title": "t", "content": "${taskName}"})
	made := apptest.Decode[api.NotificationsMade](b.T, b.Expect(200, "", "POST", "/api/v1/notifications", body))
	if _, err := b.App.Notifications.Run(b.T.Context()); err != nil {
		b.T.Fatal(err)
	}
	return made.Items[0].NotificationID
}

// finished returns the data of all events notification.finished after a cursor.
func finished(b *apptest.Bundle, after string) (all []api.NotificationEventData) {
	b.T.Helper()
	sequence(b)
	for _, e := range pull(b, after, "&type=notification.finished").Items {
		var d api.NotificationEventData
		if err := json.Unmarshal(e.Data, &d); err != nil {
			b.T.Fatal(err)
		}
		all = append(all, d)
	}
	return all
}

// B13: the end of a notification is published when its last task has ended. After a requeue, the new end is published again.
func TestANotificationEndsWithItsLastTask(t *testing.T) {
	b, _ := apptest.NewNotifying(t)
	start := pull(b, "", "").NextCursor
	id := notify(b, nil)
	ids := b.ClaimIDs(10)
	b.Report(ids[0], "app", 2, nil)
	b.Report(ids[1], "app", 3, nil)
	if got := finished(b, start); len(got) != 0 {
		t.Errorf("before the last task: %+v", got)
	}
	b.Report(ids[2], "app", 2, nil)
	got := finished(b, start)
	if len(got) != 1 {
		t.Fatalf("got %+v", got)
	}
	c := got[0].Counts
	if d := got[0]; d.NotificationID != id || d.Status != api.NotificationSomeFailed || d.Channel != "sms" || d.CompanyNo != "default" || d.BizID != 7 ||
		c.People != 3 || c.Success != 2 || c.Failed != 1 || c.Cancelled != 0 {
		t.Errorf("data %+v", d)
	}
	all := pull(b, start, "").Items
	if last := all[len(all)-1]; last.Type != api.EventNotificationFinished || len(all) != 4 {
		t.Errorf("the events are %+v", all)
	}
	b.Expect(200, "", "POST", "/api/v1/sms/task/"+ids[1]+"/requeue", map[string]any{})
	b.ClaimIDs(10)
	b.Report(ids[1], "app", 2, nil)
	if got := finished(b, start); len(got) != 2 || got[1].Status != api.NotificationSuccess || got[1].Counts.Success != 3 {
		t.Errorf("after a requeue: %+v", got)
	}
}

// B13: the sequencer can move the ends of a notification's tasks to the feed in several runs, long after these ends. The end of the notification is then
// published once, after the ends of all its tasks.
func TestTheEndOfANotificationIsPublishedOnceAfterItsTasks(t *testing.T) {
	b, _ := apptest.NewNotifying(t)
	start := pull(b, "", "").NextCursor
	notify(b, nil)
	ids := b.ClaimIDs(10)
	b.Report(ids[0], "app", 2, nil)
	b.Report(ids[1], "app", 2, nil)
	b.Exec("INSERT INTO feed_staged (company_id, submitted_by, type, at, data) SELECT 1, '', 'batch.finished', now(), jsonb_build_object('task_id', 'x') FROM generate_series(1, 1000)")
	b.Report(ids[2], "app", 2, nil)
	finished(b, start)
	reached := apptest.Scan[string](b, "SELECT string_agg((data #> '{counts,success}')::text, ', ') FROM feed WHERE type = 'notification.finished'")
	if reached != "3" {
		t.Errorf("%s people were reached, want once 3", reached)
	}
	last := apptest.Scan[string](b, "SELECT type FROM feed ORDER BY id DESC LIMIT 1")
	if last != "notification.finished" {
		t.Errorf("the last event is %s", last)
	}
}

// B13: a receipt that is staged after the last end of a task does not publish the end of the notification again, and does not delay it.
func TestAStagedReceiptDoesNotHideTheEndOfANotification(t *testing.T) {
	b, _ := apptest.NewNotifying(t)
	pull(b, "", "")
	notify(b, nil)
	ids := b.ClaimIDs(10)
	for _, id := range ids {
		b.Report(id, "app", 2, nil)
	}
	b.Exec("INSERT INTO feed_staged (company_id, submitted_by, type, at, data) SELECT 1, '', 'batch.finished', now(), jsonb_build_object('task_id', 'x') FROM generate_series(1, 1000)")
	b.Exec(`INSERT INTO feed_staged (company_id, submitted_by, type, task_id, log_id, at)
		SELECT 1, '', 'message.delivered', task_id, id, now() FROM report_logs WHERE task_id = $1 AND outcome IS NOT NULL`, ids[2])
	sequence(b)
	if n := b.Count("SELECT count(*) FROM feed WHERE type = 'notification.finished'"); n != 1 {
		t.Errorf("published %d times, want once", n)
	}
}

// B13: if the sequencer moves two causes of a notification's end in different runs, only the later run publishes the end.
func TestTheEndOfANotificationIsPublishedOnceForTwoCauses(t *testing.T) {
	b, _ := apptest.NewNotifying(t)
	pull(b, "", "")
	id := notify(b, nil)
	for _, task := range b.ClaimIDs(10) {
		b.Report(task, "app", 2, nil)
	}
	b.Exec("INSERT INTO feed_staged (company_id, submitted_by, type, at, data) SELECT 1, '', 'batch.finished', now(), jsonb_build_object('task_id', 'x') FROM generate_series(1, 1000)")
	b.Exec("INSERT INTO feed_staged (company_id, submitted_by, type, at, data) SELECT 1, '', 'notification.finished', now(), jsonb_build_object('notification_id', $1::bigint)", id)
	sequence(b)
	if n := b.Count("SELECT count(*) FROM feed WHERE type = 'notification.finished'"); n != 1 {
		t.Errorf("published %d times, want once", n)
	}
}

// B13: a task is requeued between the two reads of its notification. The notification has then not ended, and no event is published.
func TestANotificationWithARequeuedTaskHasNotEnded(t *testing.T) {
	b, _ := apptest.NewNotifying(t)
	start := pull(b, "", "").NextCursor
	notify(b, nil)
	ids := b.ClaimIDs(10)
	for _, id := range ids {
		b.Report(id, "app", 3, nil)
	}
	requeue, err := b.App.DB.Pool().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer requeue.Rollback(t.Context())
	for _, statement := range []string{
		"LOCK TABLE channels IN ACCESS EXCLUSIVE MODE", // the second read waits for this lock, for less than half a second
		"UPDATE report_logs SET outcome = NULL WHERE task_id = '" + ids[0] + "'",
		`INSERT INTO queue (task_id, pool_id, company_id, message_type, priority, segments, phone_number, recipient, content, rendering_id)
			SELECT task_id, pool_id, company_id, message_type, priority, segments, phone_number, recipient, content, rendering_id
			FROM messages WHERE task_id = '` + ids[0] + "'",
	} {
		if _, err := requeue.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	ended := make(chan error, 1)
	go func() {
		_, err := b.App.Feed.Sequence(t.Context())
		ended <- err
	}()
	b.AwaitLockWait()
	if err := requeue.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if got := finished(b, start); len(got) != 0 {
		t.Errorf("published while a task waits: %+v", got)
	}
	b.Exec("UPDATE queue SET due_at = now(), lane = 160, rank = 0")
	b.Report(b.ClaimIDs(1)[0], "app", 2, nil)
	if got := finished(b, start); len(got) != 1 || got[0].Counts.People != 3 || got[0].Counts.Success != 1 || got[0].Counts.Failed != 2 {
		t.Errorf("at the end: %+v", got)
	}
}

// B13: an old partition is being moved to another tablespace. The ends of notifications that can have tasks in it wait. Other events do not wait.
func TestOnlyTheEndOfANotificationWaitsForALockedPartition(t *testing.T) {
	b, _ := apptest.NewNotifying(t)
	start := pull(b, "", "").NextCursor
	notify(b, nil)
	b.Exec("UPDATE notifications SET created_at = now() - interval '5 days'")
	locked, unlock := b.LockDay(5)
	b.Exec("DELETE FROM feed_staged WHERE task_id = $1", locked)
	for _, id := range b.ClaimIDs(10) {
		b.Report(id, "app", 2, nil)
	}
	apptest.Promptly(t, "moving events", func() {
		if got := finished(b, start); len(got) != 0 {
			t.Errorf("got %+v", got)
		}
	})
	if n := b.Count("SELECT count(*) FROM feed"); n != 3 {
		t.Errorf("%d events of tasks were published, want 3", n)
	}
	unlock()
	if got := finished(b, start); len(got) != 1 || got[0].Counts.Success != 3 {
		t.Errorf("got %+v", got)
	}
}

// B13: an old partition is being moved to another tablespace. The events of its tasks wait and keep their order. The events of other tasks do not wait.
func TestOnlyEventsOfALockedPartitionWait(t *testing.T) {
	b := apptest.New(t)
	pull(b, "", "")
	locked, unlock := b.LockDay(5)
	b.Exec(`INSERT INTO feed_staged (company_id, type, task_id, log_id, at)
		SELECT company_id, 'message.delivered', task_id, log_id, at FROM feed_staged WHERE task_id = $1`, locked)
	id := send(b, 2, nil)
	// The events exceed one portion, so that each portion must skip the waiting events.
	b.Exec("INSERT INTO feed_staged (company_id, submitted_by, type, at, data) SELECT 1, '', 'batch.finished', now(), '{}' FROM generate_series(1, 1500)")
	apptest.Promptly(t, "moving events", func() { sequence(b) })
	if n := b.Count("SELECT count(*) FROM feed WHERE task_id = $1", id); n != 1 {
		t.Errorf("%d events of a task in another partition, want 1", n)
	}
	if n := b.Count("SELECT count(*) FROM feed"); n != 1501 {
		t.Errorf("%d events were moved, want 1501", n)
	}
	unlock()
	sequence(b)
	types := apptest.Scan[string](b, "SELECT string_agg(type, ', ' ORDER BY id) FROM feed WHERE task_id = $1", locked)
	if types != "message.sent, message.delivered" {
		t.Errorf("after the move: %s", types)
	}
}

// B13: the end of a cancelled notification is published immediately. No event is published for a deleted notification, or for a company without listeners.
func TestTheEndOfACancelledNotificationIsPublished(t *testing.T) {
	b, _ := apptest.NewNotifying(t)
	notify(b, nil)
	for _, id := range b.ClaimIDs(10) {
		b.Report(id, "app", 2, nil)
	}
	if n := b.Count("SELECT count(*) FROM feed_staged"); n != 0 {
		t.Errorf("%d events were staged without a listener", n)
	}
	start := pull(b, "", "").NextCursor
	id := notify(b, map[string]any{"biz_id": 8})
	b.Expect(200, "", "POST", "/api/v1/notifications/status", map[string]any{"biz_type": 0, "biz_ids": []int{8}, "status": 3})
	got := finished(b, start)
	if len(got) != 1 || got[0].NotificationID != id || got[0].Status != api.NotificationCancelled || got[0].Counts.People != 3 {
		t.Fatalf("got %+v", got)
	}
	notify(b, map[string]any{"biz_id": 9})
	b.Expect(200, "", "DELETE", "/api/v1/notifications?biz_type=0&biz_ids=9", nil)
	unreached := notify(b, map[string]any{"biz_id": 10, "user_ids": []string{"nobody"}})
	if got = finished(b, start); len(got) != 2 || got[1].NotificationID != unreached || got[1].Status != api.NotificationFailed || got[1].Counts.Failed != 1 {
		t.Errorf("got %+v", got)
	}
	unsaid := notify(b, map[string]any{"biz_type": 55, "biz_id": 11}) // this notification has no template
	if got = finished(b, start); len(got) != 3 || got[2].NotificationID != unsaid || got[2].Status != api.NotificationFailed || got[2].Counts.People != 0 {
		t.Errorf("got %+v", got)
	}
}

// B13: only users who can read all companies get the events of senders and alerts.
func TestCompaniesGetNoEventsOfSendersAndAlerts(t *testing.T) {
	w := apptest.NewTwoCompanies(t)
	b := w.Bundle
	start := pull(b, "", "").NextCursor
	rule := silenceSender(b)
	sequence(b)
	var types []string
	for _, e := range pull(b, start, "").Items {
		types = append(types, string(e.Type))
		checkEvent(b, e, rule)
	}
	want := []string{
		"sender.low_balance", "alert.firing", "sender.silent", "alert.resolved", "sender.recovered", "alert.firing", "sender.silent", "alert.resolved",
	}
	if !slices.Equal(types, want) {
		t.Errorf("got %v\nwant %v", types, want)
	}
	// The event alert.not_sent contains the subject and the receivers of the alert. The silence of the sender is not published a second time.
	b.Exec(`INSERT INTO events (event, subject, detail) SELECT 'alert.not_sent', a.subject, jsonb_build_object('alert_id', a.id, 'kind', a.kind,
		'receiver_no', 7, 'escalated_channels', ARRAY['email'], 'escalated_receivers', ARRAY[8]) FROM alerts a ORDER BY a.id LIMIT 1`)
	sequence(b)
	want = append(want, "alert.not_sent")
	checkNotSent(b, pull(b, start, "").Items, len(want), rule)
	expectForAllCompanies(w, start, len(want))
}

// silenceSender gives a sender a low balance, makes it silent, makes it poll, and makes it silent again. It returns the number of the alert rule.
func silenceSender(b *apptest.Bundle) int64 {
	b.T.Helper()
	b.AddSender(map[string]any{"sender_no": "paid", "balance": 10, "low_warning": 9})
	b.SubmitMany("short", 2, nil)
	b.Take("paid", 2)
	b.Exec("DELETE FROM alert_rules")
	rule := apptest.Decode[api.AlertRule](b.T, b.Expect(200, "", "POST", "/api/v1/admin/alert-rules",
		`{"kind":"sender_silent","level":"critical","sender_no":"paid","threshold":0,"for_seconds":0,"resolve_seconds":0}`)).RuleNo
	evaluate := func() {
		if _, err := b.App.Alerts.Evaluate(b.T.Context()); err != nil {
			b.T.Fatal(err)
		}
	}
	b.Exec("UPDATE sender_states SET seen_at = now() - interval '1 hour' WHERE sender_id = (SELECT id FROM senders WHERE sender_no = 'paid')")
	evaluate()
	b.Exec("UPDATE sender_states SET seen_at = now() + interval '1 minute' WHERE sender_id = (SELECT id FROM senders WHERE sender_no = 'paid')")
	evaluate()
	b.Exec("UPDATE sender_states SET seen_at = now() - interval '1 hour' WHERE sender_id = (SELECT id FROM senders WHERE sender_no = 'paid')")
	evaluate()
	b.Expect(200, "", "DELETE", fmt.Sprint("/api/v1/admin/alert-rules/", rule), nil) // deleting the rule ends the alert, but the sender is still silent
	return rule
}

// checkEvent fails the test unless the event of a sender or an alert contains the data of its type.
func checkEvent(b *apptest.Bundle, e api.EventOfFeed, rule int64) {
	b.T.Helper()
	switch e.Type {
	case api.EventSenderLowBalance, api.EventSenderSilent, api.EventSenderRecovered:
		var d api.SenderEventData
		if json.Unmarshal(e.Data, &d) != nil || d.SenderNo != "paid" || d.Channel != "sms" {
			b.T.Errorf("%s: %s", e.Type, e.Data)
		}
		if e.Type == api.EventSenderLowBalance {
			if d.Balance == nil || *d.Balance != 8 || d.Threshold == nil || *d.Threshold != 9 || d.Mark == nil || *d.Mark != api.MarkLowWarning {
				b.T.Errorf("%s: %s", e.Type, e.Data)
			}
		} else if d.AlertID == nil || d.SeenAt == nil {
			b.T.Errorf("%s: %s", e.Type, e.Data)
		}
	case api.EventAlertFiring, api.EventAlertResolved:
		var d api.AlertEventData
		if json.Unmarshal(e.Data, &d) != nil || d.RuleNo != rule || d.Kind != "sender_silent" || d.Level != "critical" || d.SenderNo == nil ||
			(d.ResolvedAt != nil) != (e.Type == api.EventAlertResolved) || (d.EndedBy != nil) != (d.ResolvedAt != nil) {
			b.T.Errorf("%s: %s", e.Type, e.Data)
		}
	default:
		b.T.Errorf("unexpected %s", e.Type)
	}
}

// checkNotSent fails the test unless all contains n events and the last event has the type alert.not_sent.
func checkNotSent(b *apptest.Bundle, all []api.EventOfFeed, n int, rule int64) {
	b.T.Helper()
	var d api.AlertEventData
	if last := all[len(all)-1]; len(all) != n || last.Type != api.EventAlertNotSent || json.Unmarshal(last.Data, &d) != nil || d.RuleNo != rule ||
		d.ReceiverNo == nil || *d.ReceiverNo != 7 || d.EscalatedChannels == nil || (*d.EscalatedChannels)[0] != "email" ||
		d.EscalatedReceivers == nil || (*d.EscalatedReceivers)[0] != 8 {
		b.T.Errorf("got %+v: %s", last, last.Data)
	}
}

// expectForAllCompanies fails the test unless readers of all companies get n events, and readers of one company get no event.
func expectForAllCompanies(w *apptest.TwoCompanies, start string, n int) {
	b := w.Bundle
	b.T.Helper()
	if got := pull(b, start, "", w.All...).Items; len(got) != n {
		b.T.Errorf("a reader of all companies got %d events", len(got))
	}
	b.Exec("UPDATE feed_listeners SET since_id = 0")
	b.Exec("INSERT INTO feed_listeners (company_id, since_id, is_pushed, listens_until) SELECT id, 0, true, now() FROM companies ON CONFLICT DO NOTHING")
	for name, headers := range map[string][]string{"the user of a company": w.Acme, "the reader of a company": w.Reader} {
		asked := b.Expect(422, "request.invalid", "GET", "/api/v1/events?type=message.sent&type=alert.firing", nil, headers...)
		if asked.Fields() != "type" {
			b.T.Errorf("%s asks for them: the wrong fields are %s", name, asked.Fields())
		}
		if got := pull(b, start, "", headers...).Items; len(got) != 0 {
			b.T.Errorf("%s got %+v", name, got)
		}
	}
	b.Expect(422, "request.invalid", "GET", "/api/v1/events?company_no=acme&type=sender.silent", nil)
	if got := pull(b, start, "&type=sender.silent").Items; len(got) != 2 {
		b.T.Errorf("an admin got %d events of silent senders, want 2", len(got))
	}
	if got := pull(b, start, "&company_no=acme").Items; len(got) != 0 {
		b.T.Errorf("an admin got as those of a company: %+v", got)
	}
}

// B13: only one transaction at a time assigns ids of the feed. Without FeedLock, a second transaction could commit larger ids while smaller ids are still
// invisible. A reader would then move its cursor past events that it has not read.
func TestOneTransactionAtATimeAssignsIDsOfTheFeed(t *testing.T) {
	b := apptest.New(t)
	start := pull(b, "", "").NextCursor
	stage := "INSERT INTO feed_staged (company_id, submitted_by, type, at, data) SELECT 1, '', 'batch.finished', now(), jsonb_build_object('task_id', 'x') FROM generate_series(1, %d)"
	early, err := b.App.DB.Pool().Begin(t.Context()) // stages a whole portion, and commits after the next transaction
	if err != nil {
		t.Fatal(err)
	}
	defer early.Rollback(t.Context())
	if _, err := early.Exec(t.Context(), fmt.Sprintf(stage, 1000)); err != nil {
		t.Fatal(err)
	}
	b.Exec(fmt.Sprintf(stage, 1))
	held, err := b.App.DB.Pool().Begin(t.Context()) // the first transaction that assigns ids waits for a lock of this transaction
	if err != nil {
		t.Fatal(err)
	}
	defer held.Rollback(t.Context())
	if _, err := held.Exec(t.Context(), "INSERT INTO feed (id, company_id, submitted_by, type, at, data) SELECT last_value + is_called::int, 1, '', 'batch.finished', now(), jsonb_build_object('task_id', 'x') FROM feed_ids"); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 2)
	run := func() {
		_, err := b.App.Feed.Sequence(t.Context())
		ended <- err
	}
	go run()
	b.AwaitLockWait()
	if err := early.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	go run()
	apptest.Eventually(t, "the second waits too, or is done", func() bool {
		return len(ended) > 0 || b.Count("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()") == 2
	})
	between := pull(b, start, "")
	if err := held.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if n := len(between.Items) + len(pull(b, between.NextCursor, "").Items) + len(pull(b, pull(b, between.NextCursor, "").NextCursor, "").Items); n != 1001 {
		t.Errorf("a reader got %d of 1001 events", n)
	}
}
