package notification_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
)

// createNotification submits a notification of business type 3 to u1 and u2, and returns the notification as the answer contains it.
func createNotification(b *apptest.Bundle, more map[string]any) api.NotificationMade {
	b.T.Helper()
	body := map[string]any{"biz_type": 3, "biz_id": 1, "channels": []string{"dingtalk"}, "payload": map[string]any{"taskName": "x"}, "user_ids": []string{"u1", "u2"}}
	for k, v := range more {
		body[k] = v
	}
	return apptest.Decode[api.NotificationsMade](b.T, b.Expect(200, "", "POST", "/api/v1/notifications", body)).Items[0]
}

func setStatus(b *apptest.Bundle, status int, bizID int, expected ...int) int {
	b.T.Helper()
	body := map[string]any{"biz_type": 3, "biz_ids": []int{bizID}, "status": status}
	if expected != nil {
		body["expected_statuses"] = expected
	}
	return apptest.Decode[api.Changed](b.T, b.Expect(200, "", "POST", "/api/v1/notifications/status", body)).Changed
}

func TestTheAnswerListsUnreachableRecipientsWithReasons(t *testing.T) {
	b, _ := apptest.NewNotifying(t)
	made := createNotification(b, map[string]any{"user_ids": []string{"u1", "stranger"}})
	if len(made.Failed) != 1 || made.Failed[0].UserID != "stranger" || !strings.Contains(made.Failed[0].Reason, "没有地址") || made.Remark != nil {
		t.Errorf("%+v", made)
	}
	unrendered := createNotification(b, map[string]any{"payload": map[string]any{}})
	if unrendered.Status != api.NotificationFailed || unrendered.Remark == nil || !strings.Contains(*unrendered.Remark, "taskName") {
		t.Errorf("%+v", unrendered)
	}
	n := b.Notification(unrendered.NotificationID)
	if r := recipientOf(t, n, "u2"); r.Status != api.RecipientFailed || !strings.Contains(*r.LastError, "taskName") || r.TaskID != "" {
		t.Errorf("%+v", r)
	}
	planned := createNotification(b, map[string]any{"next_run_time": time.Now().Add(time.Hour)})
	if r := recipientOf(t, b.Notification(planned.NotificationID), "u1"); r.Status != api.RecipientWaiting || r.LastError != nil {
		t.Errorf("%+v", r)
	}
	metrics := b.Call("GET", "/metrics", nil).Raw
	for _, line := range []string{`lksms_notifications_failed_total{reason="parameters"} 1`, `lksms_notifications_failed_total{reason="template"} 0`, `lksms_notification_people_failed_total{reason="no_address"} 1`} {
		if !strings.Contains(metrics, line) {
			t.Errorf("/metrics has no %s", line)
		}
	}
}

// Recipients have the same status codes as notifications. The recipients that the provider refused are counted in /metrics.
func TestRecipientsUseTheStatusCodesOfNotifications(t *testing.T) {
	b, p := apptest.NewNotifying(t)
	p.Says(200, `{"errcode":33012,"errmsg":"no such user"}`)
	id := createNotification(b, map[string]any{"user_ids": []string{"u1"}}).NotificationID
	if r := recipientOf(t, b.AwaitNotification(id, api.NotificationFailed), "u1"); r.Status != api.RecipientFailed || !strings.Contains(*r.LastError, "no such user") {
		t.Errorf("%+v", r)
	}
	if !strings.Contains(b.Call("GET", "/metrics", nil).Raw, `lksms_notification_people_failed_total{reason="sending"} 1`) {
		t.Error("/metrics does not count the refused person")
	}
	p.Says(200, `{"errcode":0,"msgid":"m"}`)
	id = createNotification(b, map[string]any{"user_ids": []string{"u1"}}).NotificationID
	if r := recipientOf(t, b.AwaitNotification(id, api.NotificationSuccess), "u1"); r.Status != api.RecipientSuccess || r.LastError != nil {
		t.Errorf("%+v", r)
	}
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/ding", map[string]any{"status": "off"})
	for status, want := range map[int]api.RecipientStatus{3: api.RecipientCancelled, 4: api.RecipientEnded} {
		id = createNotification(b, map[string]any{"biz_id": 10 + status}).NotificationID
		setStatus(b, status, 10+status)
		if r := recipientOf(t, b.Notification(id), "u1"); r.Status != want {
			t.Errorf("%d: %+v", status, r)
		}
	}
}

func TestNotificationsAreListedByStatusAndPerson(t *testing.T) {
	b, _ := apptest.NewNotifying(t)
	var failed []int64
	for i := range 3 {
		createNotification(b, map[string]any{"biz_id": i, "next_run_time": time.Now().Add(time.Hour), "user_ids": []string{"u1"}})
		failed = append(failed, createNotification(b, map[string]any{"biz_id": i, "user_ids": []string{"stranger", "u2"}, "payload": map[string]any{}}).NotificationID)
	}
	list := func(query string) (ids []int64) {
		t.Helper()
		for cursor := ""; ; {
			page := apptest.Decode[api.NotificationPage](t, b.Expect(200, "", "GET", "/api/v1/notifications?limit=2&"+query+cursor, nil))
			for _, n := range page.Items {
				ids = append(ids, n.NotificationID)
			}
			if page.NextCursor == nil {
				return ids
			}
			cursor = "&cursor=" + *page.NextCursor
		}
	}
	slices.Reverse(failed)
	for _, query := range []string{"status=2", "user_id=stranger", "user_id=u2&status=2"} {
		if got := list(query); !slices.Equal(got, failed) {
			t.Errorf("%s: %v, want %v", query, got, failed)
		}
	}
	if got := list("status=1"); len(got) != 0 {
		t.Errorf("status=1: %v, want none", got)
	}
	// One page reads a bounded number of notifications. The next page continues where the previous page stopped.
	b.Exec(`INSERT INTO notifications (company_id, channel_id, biz_type, biz_id, announcement_id, ended_as, submitted_by)
		SELECT company_id, channel_id, 3, 99, announcement_id, 3, 'x' FROM notifications n, generate_series(1, 2500) WHERE n.id = $1`, failed[0])
	if got := list("status=2"); !slices.Equal(got, failed) {
		t.Errorf("after 2500 cancelled notifications: %v, want %v", got, failed)
	}
	b.Expect(422, "request.invalid", "GET", "/api/v1/notifications?status=9", nil)
}

func TestANotificationShowsWhenItsRetryIsDue(t *testing.T) {
	b, p := apptest.NewNotifyingEvery(t, 0, 30)
	p.Says(500, "")
	id := createNotification(b, nil).NotificationID
	apptest.Eventually(t, "the notification waits for its retry", func() bool { return b.Notification(id).RetryCount == 1 })
	if n := b.Notification(id); n.NextRunTime == nil || time.Until(*n.NextRunTime) < 20*time.Minute || n.Status != api.NotificationWaiting {
		t.Errorf("%+v", n)
	}
}

func TestAnEmptyDedupKeyCountsAsNoKey(t *testing.T) {
	b, _ := apptest.NewNotifying(t)
	first, second := createNotification(b, map[string]any{"dedup_key": ""}), createNotification(b, map[string]any{"dedup_key": ""})
	if second.Deduplicated || first.NotificationID == second.NotificationID || b.Notification(first.NotificationID).DedupKey != nil {
		t.Errorf("%+v, %+v", first, second)
	}
}

func TestATimeoutReminderCanBeCreatedWithoutAnEvent(t *testing.T) {
	b, p := apptest.NewNotifying(t)
	node := func(more map[string]any) map[string]any {
		body := map[string]any{
			"biz_type": 5, "biz_id": 8882, "user_ids": []string{"u1"}, "started_at": time.Now().Add(-90 * time.Minute),
			"payload": map[string]any{"taskName": "x", "nodeName": "y", "maxDuration": 60, "timeoutRemind": 30},
		}
		for k, v := range more {
			body[k] = v
		}
		return body
	}
	id := createNotification(b, node(nil)).NotificationID
	apptest.Eventually(t, "u1 is notified", func() bool { return b.Notification(id).Succeeded == 1 })
	if n := b.Notification(id); n.Status != api.NotificationWaiting || *n.RepeatMinutes != 30 {
		t.Errorf("%+v", n)
	}
	if _, _, params := dingTalkCall(t, p.Seen()[0]); params["overtime"] != 30.0 || params["maxDuration"] != 90.0 {
		t.Errorf("notified with %v", params)
	}
	later := b.Notification(createNotification(b, node(map[string]any{"biz_id": 1, "started_at": time.Now()})).NotificationID)
	if until := time.Until(*later.NextRunTime); until < 50*time.Minute || until > time.Hour {
		t.Errorf("notified in %v", until)
	}
	for _, wrong := range []any{"soon", -1, 1_000_000} {
		body := node(map[string]any{"channels": []string{"dingtalk"}, "payload": map[string]any{"timeoutRemind": wrong}})
		if a := b.Expect(422, "request.invalid", "POST", "/api/v1/notifications", body); a.Fields() != "payload.timeoutRemind" {
			t.Errorf("%v: wrong fields %s", wrong, a.Fields())
		}
	}
}

func TestS1_6_AnyStatusCanFollowAnyOtherStatus(t *testing.T) {
	b, p := apptest.NewNotifyingEvery(t, 0, 0)
	b.PutContacts(map[string]any{"user_id": "u2", "dingtalk_name": nil, "phone": nil, "email": nil})
	id := createNotification(b, nil).NotificationID
	b.AwaitNotification(id, api.NotificationSomeFailed)
	for _, step := range []struct {
		to       int
		expected []int
		changed  int
		status   api.NotificationStatus
	}{
		{3, nil, 0, api.NotificationSomeFailed}, {1, []int{0, 2}, 0, api.NotificationSomeFailed}, {1, []int{5}, 1, api.NotificationSuccess},
		{2, []int{1}, 1, api.NotificationFailed}, {4, []int{3, 2}, 1, api.NotificationEnded}, {3, []int{4}, 1, api.NotificationCancelled},
	} {
		if got := setStatus(b, step.to, 1, step.expected...); got != step.changed {
			t.Errorf("%+v: changed %d", step, got)
		}
		if n := b.Notification(id); n.Status != step.status {
			t.Errorf("%+v: %+v", step, n)
		}
	}
	// When the notification is set to waiting, it is sent again to the recipients that were not reached.
	b.PutContacts(map[string]any{"user_id": "u2", "dingtalk_name": "ding-u2"})
	if got := setStatus(b, 0, 1, 3); got != 1 || setStatus(b, 0, 1, 0) != 0 {
		t.Errorf("changed %d", got)
	}
	runNotifications(b)
	b.AwaitNotification(id, api.NotificationSuccess)
	calls := p.Seen()
	if users, _, _ := dingTalkCall(t, calls[len(calls)-1]); len(calls) != 2 || !slices.Equal(users, []string{"ding-u2"}) {
		t.Errorf("provider got %v", calls)
	}
}

func TestANotificationExpires(t *testing.T) {
	b, p := apptest.NewNotifying(t)
	soon := time.Now().Add(time.Hour)
	for name, body := range map[string]map[string]any{
		"in the past": {"expires_at": time.Now().Add(-time.Minute)}, "before next_run_time": {"expires_at": soon, "next_run_time": soon.Add(time.Minute)},
	} {
		body["biz_type"], body["biz_id"], body["channels"], body["payload"], body["user_ids"] = 3, 1, []string{"dingtalk"}, map[string]any{}, []string{"u1"}
		if a := b.Expect(422, "request.invalid", "POST", "/api/v1/notifications", body); a.Fields() != "expires_at" {
			t.Errorf("%s: wrong fields %s", name, a.Fields())
		}
	}
	planned := createNotification(b, map[string]any{"next_run_time": soon, "expires_at": soon.Add(time.Minute)}).NotificationID
	b.Exec("UPDATE notifications SET next_run_at = now() - interval '1 hour', expires_at = now() - interval '1 minute'")
	runNotifications(b)
	if n := b.Notification(planned); n.Status != api.NotificationFailed || *n.Remark != "已过期" || len(p.Seen()) != 0 {
		t.Errorf("%+v", n)
	}
	// A recipient that was not reached before the expiry counts as failed.
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/ding", map[string]any{"status": "off"})
	waits := createNotification(b, map[string]any{"expires_at": soon}).NotificationID
	b.Exec("UPDATE tasks SET expires_at = now()")
	if _, err := b.App.Queue.Expire(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := recipientOf(t, b.AwaitNotification(waits, api.NotificationFailed), "u1"); *r.LastError != "已过期" {
		t.Errorf("%+v", r)
	}
	// A reminder before an orbit expires when the next reminder is due.
	in := time.Now().Add(2 * time.Hour)
	for i, made := range postEvent(b, "orbit_plan", map[string]any{"orbits": []any{map[string]any{"orbit_no": 9, "in_time": in}}}).Items {
		n := b.Notification(made.NotificationID)
		if n.ExpiresAt == nil || !n.ExpiresAt.Equal(n.NextRunTime.Add(15*time.Minute)) {
			t.Errorf("slot %d: %+v", i, n)
		}
	}
	metrics := b.Call("GET", "/metrics", nil).Raw
	for _, line := range []string{`lksms_notifications_failed_total{reason="expired"} 1`, `lksms_notification_people_failed_total{reason="expired"} 2`} {
		if !strings.Contains(metrics, line) {
			t.Errorf("/metrics has no %s", line)
		}
	}
}

// R5: a person gets no message if the message expires before the quiet hours of the person end.
func TestAPersonWithQuietHoursUntilTheExpiryGetsNoMessage(t *testing.T) {
	b, _ := apptest.NewNotifying(t)
	b.PutSMSTemplate(nil)
	b.Expect(200, "", "PUT", "/api/v1/admin/contacts", map[string]any{"contacts": []any{map[string]any{"user_id": "abroad", "phone": "+12125550123"}}})
	b.SetQuiet("notification", -time.Hour, 5*time.Hour)
	made := createNotification(b, map[string]any{"channels": []string{"sms"}, "expires_at": time.Now().Add(30 * time.Minute), "user_ids": []string{"u1", "abroad"}})
	if len(made.Failed) != 1 || made.Failed[0].UserID != "u1" || made.Failed[0].Reason != "已过期" {
		t.Errorf("%+v", made)
	}
	if n := b.Count("SELECT count(*) FROM queue"); n != 1 {
		t.Errorf("%d messages wait", n)
	}
	later := createNotification(b, map[string]any{"channels": []string{"sms"}, "expires_at": time.Now().Add(6 * time.Hour), "user_ids": []string{"u1"}})
	if len(later.Failed) != 0 || later.Status != api.NotificationWaiting {
		t.Errorf("%+v", later)
	}
}

func TestS2_4_RatesAreRoundedAndFailuresAreListedLatestFirst(t *testing.T) {
	b, _, says := apptest.NewWeChat(t)
	b.SendOnce(map[string]any{"business_id": 1})
	b.SendOnce(map[string]any{"business_id": 2})
	onceBecomes(b, api.SendStatusSent)
	apptest.Eventually(t, "all are sent", func() bool { return b.Count("SELECT count(*) FROM tasks WHERE status = 2") == 3 })
	says(`{"errcode":43101,"errmsg":"refused"}`)
	for i := range 3 {
		b.SendOnce(map[string]any{"business_id": 10 + i, "receiver_user_id": "u2"})
	}
	apptest.Eventually(t, "three have failed", func() bool { return b.Count("SELECT count(*) FROM tasks WHERE status = 3") == 3 })
	b.Exec("DELETE FROM subscribe_messages WHERE business_id = 123")
	b.Exec("UPDATE tasks SET status = 2 WHERE task_id = (SELECT task_id FROM subscribe_messages WHERE business_id = 12)")
	b.Exec("DELETE FROM subscribe_messages WHERE business_id = 2")
	counts := apptest.Decode[api.OnceCounts](t, b.Expect(200, "", "GET", "/api/v1/subscribe-messages/statistics", nil))
	if got := counts.Items[0]; got.Total != 4 || got.SuccessRate != 50 {
		t.Errorf("%+v", got)
	}
	b.Exec("DELETE FROM subscribe_messages WHERE business_id = 11")
	counts = apptest.Decode[api.OnceCounts](t, b.Expect(200, "", "GET", "/api/v1/subscribe-messages/statistics", nil))
	if got := counts.Items[0]; got.Total != 3 || got.SuccessRate != 66.67 {
		t.Errorf("%+v", got)
	}
	for i := range 3 {
		b.SendOnce(map[string]any{"business_id": 20 + i, "receiver_user_id": "u2"})
	}
	apptest.Eventually(t, "five have failed", func() bool { return b.Count("SELECT count(*) FROM tasks WHERE status = 3") == 5 })
	b.Exec(`UPDATE tasks t SET reported_at = now() - make_interval(mins => (m.business_id % 3)::integer) FROM subscribe_messages m
		WHERE m.task_id = t.task_id AND t.status = 3`)
	var ids []int64
	for cursor := ""; ; {
		page := apptest.Decode[api.OncePage](t, b.Expect(200, "", "GET", "/api/v1/subscribe-messages?send_status=2&receiver_user_id=u2&limit=1"+cursor, nil))
		for _, m := range page.Items {
			ids = append(ids, m.BusinessID)
			if m.FailedAt == nil {
				t.Errorf("%+v", m)
			}
		}
		if page.NextCursor == nil {
			break
		}
		cursor = fmt.Sprint("&cursor=", *page.NextCursor)
	}
	if !slices.Equal(ids, []int64{21, 22, 10, 20}) {
		t.Errorf("failed in the order %v", ids)
	}
}

// A notification whose time limit has passed cannot be set to waiting: it could only expire again.
func TestExpiredNotificationIsNotSetToWaiting(t *testing.T) {
	b, _ := apptest.NewNotifying(t)
	made := createNotification(b, map[string]any{"next_run_time": time.Now().Add(time.Hour), "expires_at": time.Now().Add(2 * time.Hour)})
	setStatus(b, 3, 1)
	b.Exec("UPDATE notifications SET expires_at = now() - interval '1 second'")
	if n := setStatus(b, 0, 1); n != 0 {
		t.Errorf("%d notifications were set to waiting", n)
	}
	if got := b.Notification(made.NotificationID).Status; got != api.NotificationCancelled {
		t.Errorf("the notification has the status %d", got)
	}
}
