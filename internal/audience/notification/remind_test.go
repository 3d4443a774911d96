package notification_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
)

// If a start has no time, the server uses the time at which it received the start. The end reported by the caller can have an earlier time.
func TestAnEndBeforeAnAssumedStartCancelsTheReminder(t *testing.T) {
	b, _ := apptest.NewNotifying(t)
	for _, end := range []string{"node_finished", "task_finished", "task_abnormal"} {
		started := postEvent(b, "node_started", map[string]any{"node_inst_id": 7, "max_duration": 60, "timeout_remind": 1}).Items[0]
		done := postEvent(b, end, map[string]any{"node_inst_id": 7, "finished_at": time.Now().Add(-time.Minute)})
		if n := b.Notification(started.NotificationID); done.Ended != 1 || n.Status == api.NotificationWaiting || n.NextRunTime != nil {
			t.Errorf("%s ended %d reminders: %+v", end, done.Ended, n)
		}
		b.Exec("DELETE FROM notifications")
		b.Exec("DELETE FROM business_ends")
	}
	// An end before the reported time of a start does not cancel the reminder of this start.
	started := postEvent(b, "node_started", map[string]any{"node_inst_id": 7, "max_duration": 60, "started_at": time.Now()}).Items[0]
	done := postEvent(b, "node_finished", map[string]any{"node_inst_id": 7, "finished_at": time.Now().Add(-time.Minute)})
	if n := b.Notification(started.NotificationID); done.Ended != 0 || n.Status != api.NotificationWaiting {
		t.Errorf("ended %d reminders, want 0: %+v", done.Ended, n)
	}
}

// putTemplate sets the template of business type 3 on a channel.
func putTemplate(b *apptest.Bundle, channel string, template map[string]any) {
	b.T.Helper()
	b.Expect(200, "", "PUT", "/api/v1/admin/notification-templates/3/"+channel, template)
}

func TestAnEmptyMessageIsRefused(t *testing.T) {
	const empty = "渲染后的消息为空"
	b, p := apptest.NewNotifying(t)
	putTemplate(b, "oa", map[string]any{"title": "t", "content": "${text}"})
	for _, text := range []string{"", " \n"} {
		a := b.Expect(422, "request.invalid", "POST", "/api/v1/notifications", map[string]any{
			"biz_type": 3, "biz_id": 1, "channels": []string{"oa", "dingtalk"}, "payload": map[string]any{"text": text, "taskName": "x"}, "user_ids": []string{"u1"},
		})
		if a.Fields() != "payload" {
			t.Errorf("wrong fields %s", a.Fields())
		}
	}
	if n := b.Count("SELECT count(*) FROM notifications"); n != 0 {
		t.Errorf("%d notifications, want none", n)
	}
	planned := createNotification(b, map[string]any{
		"channels": []string{"oa"}, "payload": map[string]any{"text": ""}, "next_run_time": time.Now().Add(time.Hour), "dedup_key": "k",
	}).NotificationID
	b.Exec("UPDATE notifications SET next_run_at = now()")
	runNotifications(b)
	if n := b.Notification(planned); n.Status != api.NotificationFailed || *n.Remark != empty {
		t.Errorf("%+v", n)
	}
	// The first request reached nobody. Therefore its repeat is processed again, and refused with the same fault.
	b.Expect(422, "request.invalid", "POST", "/api/v1/notifications", map[string]any{
		"biz_type": 3, "biz_id": 1, "channels": []string{"oa"}, "payload": map[string]any{"text": ""}, "user_ids": []string{"u1"}, "dedup_key": "k",
	})
	// An event is not refused if the message on one channel is empty: the other channels are still notified.
	made := postEvent(b, "task_finished", map[string]any{"channels": []string{"oa", "dingtalk"}, "payload": map[string]any{"text": "", "taskName": "x"}}).Items
	if n := b.Notification(made[0].NotificationID); n.Status != api.NotificationFailed || *n.Remark != empty {
		t.Errorf("%+v", n)
	}
	b.AwaitNotification(made[1].NotificationID, api.NotificationSuccess)
	// A message that uses a template of the provider needs no text.
	putTemplate(b, "dingtalk", map[string]any{"title": "t", "content": "${text}", "external_id": "SE1"})
	calls := len(p.Seen())
	id := createNotification(b, map[string]any{"payload": map[string]any{"text": ""}, "user_ids": []string{"u1"}, "sign": "S"}).NotificationID
	b.AwaitNotification(id, api.NotificationSuccess)
	if got := p.Seen()[calls]; !strings.Contains(got, `"templateId":"SE1"`) {
		t.Errorf("provider got %s", got)
	}
	putTemplate(b, "dingtalk", map[string]any{"title": "t", "content": "${text}"})
	b.Expect(422, "request.invalid", "POST", "/api/v1/notifications", map[string]any{
		"biz_type": 3, "biz_id": 1, "channels": []string{"dingtalk"}, "payload": map[string]any{"text": ""}, "user_ids": []string{"u1"},
	})
}

func TestAReminderContinuesAfterARoundThatCannotBeRendered(t *testing.T) {
	b, p := apptest.NewNotifying(t)
	template := map[string]any{"title": "t", "content": "${taskName}"}
	putTemplate(b, "dingtalk", template)
	id := createNotification(b, map[string]any{"repeat_minutes": 30, "user_ids": []string{"u1"}}).NotificationID
	apptest.Eventually(t, "u1 is notified", func() bool { return b.Notification(id).Succeeded == 1 })
	again := func() api.NotificationView {
		t.Helper()
		b.Exec("UPDATE tasks SET reported_at = reported_at - interval '30 minutes'")
		b.Exec("UPDATE notifications SET next_run_at = now()")
		runNotifications(b)
		return b.Notification(id)
	}
	isWaiting := func(n api.NotificationView, remark string) {
		t.Helper()
		if n.Status != api.NotificationWaiting || n.Succeeded != 1 || n.NextRunTime == nil || time.Until(*n.NextRunTime) < 29*time.Minute ||
			n.Remark == nil || !strings.Contains(*n.Remark, remark) {
			t.Errorf("%+v", n)
		}
	}
	b.Expect(200, "", "DELETE", "/api/v1/admin/notification-templates/3/dingtalk", nil)
	isWaiting(again(), "没有启用的模板")
	putTemplate(b, "dingtalk", map[string]any{"title": "t", "content": "${missing}"})
	isWaiting(again(), "missing")
	putTemplate(b, "dingtalk", template)
	b.Exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no'; END $$`)
	b.Exec("CREATE TRIGGER refuse BEFORE INSERT ON renderings FOR EACH ROW EXECUTE FUNCTION refuse()")
	isWaiting(again(), "内部错误")
	b.Exec("DROP TRIGGER refuse ON renderings")
	if regexp.MustCompile(`lksms_notifications_failed_total\{.*} [1-9]`).MatchString(b.Call("GET", "/metrics", nil).Raw) {
		t.Error("/metrics counts a round as a failed notification")
	}
	if n := again(); n.Remark != nil {
		t.Errorf("%+v", n)
	}
	apptest.Eventually(t, "u1 is notified again", func() bool { return len(p.Seen()) == 2 })
	// A reminder fails if its first round cannot be rendered.
	putTemplate(b, "dingtalk", map[string]any{"title": "t", "content": "${missing}"})
	if made := createNotification(b, map[string]any{"repeat_minutes": 30}); made.Status != api.NotificationFailed {
		t.Errorf("%+v", made)
	}
}

func TestNoReminderIsPlannedAfterTheExpiry(t *testing.T) {
	b, _ := apptest.NewNotifying(t)
	soon := time.Now().Add(time.Hour)
	once := createNotification(b, map[string]any{"biz_id": 1, "repeat_minutes": 90, "expires_at": soon, "user_ids": []string{"u1"}}).NotificationID
	if n := b.AwaitNotification(once, api.NotificationSuccess); n.NextRunTime != nil {
		t.Errorf("%+v", n)
	}
	twice := createNotification(b, map[string]any{"biz_id": 2, "repeat_minutes": 40, "expires_at": soon, "user_ids": []string{"u1"}}).NotificationID
	apptest.Eventually(t, "u1 is notified", func() bool { return b.Notification(twice).Succeeded == 1 })
	if n := b.Notification(twice); n.Status != api.NotificationWaiting || n.NextRunTime == nil {
		t.Errorf("%+v", n)
	}
	// If the last round before the expiry cannot be rendered, the notification keeps the outcome of the earlier round.
	b.Expect(200, "", "DELETE", "/api/v1/admin/notification-templates/3/dingtalk", nil)
	b.Exec("UPDATE tasks SET reported_at = reported_at - interval '40 minutes'")
	b.Exec("UPDATE notifications SET next_run_at = now(), expires_at = now() + interval '20 minutes' WHERE id = $1", twice)
	runNotifications(b)
	if n := b.Notification(twice); n.Status != api.NotificationSuccess || n.NextRunTime != nil || n.Remark == nil {
		t.Errorf("%+v", n)
	}
}

// The page about channels shows the answer to this request, in both languages.
func TestTheResponseToANotificationHasTheSpecifiedForm(t *testing.T) {
	b := apptest.NewWith(t, apptest.DefaultRules, apptest.WithSecrets)
	b.AddSender(map[string]any{"sender_no": "logs", "name": "Log", "channel": "oa", "kind": "log", "config": map[string]any{"showContent": true}})
	a := b.Expect(200, "", "POST", "/api/v1/notifications", map[string]any{
		"biz_type": 3, "biz_id": 1001, "channels": []string{"oa"}, "payload": map[string]any{"taskName": "应急成像"},
		"user_ids": []string{"zhang", "li"}, "dedup_key": "3_1001_0",
	})
	for _, document := range []string{"docs/channels.md", "docs/zh-CN/channels.md"} {
		text, err := os.ReadFile("../../../" + document)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), strings.TrimSpace(a.Raw)) {
			t.Errorf("%s lacks the answer %s", document, a.Raw)
		}
	}
}

// A message that a cap delays holds back the reminders of its person, and of nobody else.
func TestACappedPersonDelaysNoRemindersOfOtherPeople(t *testing.T) {
	const capped, other = "+8613712345601", "+8613712345602"
	b := apptest.New(t)
	b.PutContacts(map[string]any{"user_id": "u1", "phone": capped}, map[string]any{"user_id": "u2", "phone": other})
	putTemplate(b, "sms", map[string]any{"title": "t", "content": "${taskName}"})
	b.Expect(200, "", "PUT", "/api/v1/admin/settings", map[string]any{"recipient": map[string]any{"caps_notification_per_day": 2}})
	send := func() (numbers []string) {
		t.Helper()
		for _, task := range b.Claim("phone", 10) {
			numbers = append(numbers, task.PhoneNumber)
			b.Report(task.TaskID, "phone", 2, nil)
		}
		return numbers
	}
	for range 2 {
		b.SubmitBody(map[string]any{"phone_number": capped, "content": "x", "message_type": "notification"})
	}
	send()
	id := createNotification(b, map[string]any{"channels": []string{"sms"}, "repeat_minutes": 30}).NotificationID
	for round := range 2 {
		if got := send(); len(got) != 1 || got[0] != other {
			t.Errorf("round %d reached %v", round, got)
		}
		b.Exec("UPDATE tasks SET reported_at = reported_at - interval '30 minutes'")
		b.Exec("UPDATE notifications SET next_run_at = now()")
		runNotifications(b)
	}
	// Now the messages to both wait.
	b.Exec("UPDATE notifications SET next_run_at = now()")
	runNotifications(b)
	if got := send(); got != nil {
		t.Errorf("capped people got messages: %v", got)
	}
	if n := b.Count("SELECT count(*) FROM messages WHERE user_id = 'u1'"); n != 1 {
		t.Errorf("%d messages to the capped person", n)
	}
	if n := b.Count("SELECT count(*) FROM messages WHERE user_id = 'u2'"); n != 3 {
		t.Errorf("%d messages to the other person", n)
	}
	if n := b.Notification(id); n.Status != api.NotificationWaiting || n.NextRunTime == nil || time.Until(*n.NextRunTime) > time.Minute {
		t.Errorf("%+v", n)
	}
}
