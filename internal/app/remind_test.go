package app_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"lksms/gen/api"
)

// A start without a time has the time at which the server received it, which the caller's end may precede.
func TestAnEndThatPrecedesAnAssumedStartEndsTheReminder(t *testing.T) {
	b, _ := notifying(t)
	for _, end := range []string{"node_finished", "task_finished", "task_abnormal"} {
		started := b.event("node_started", map[string]any{"node_inst_id": 7, "max_duration": 60, "timeout_remind": 1}).Items[0]
		done := b.event(end, map[string]any{"node_inst_id": 7, "finished_at": time.Now().Add(-time.Minute)})
		if n := b.notification(started.NotificationID); done.Ended != 1 || n.Status == api.NotificationWaiting || n.NextRunTime != nil {
			t.Errorf("%s ended %d: %+v", end, done.Ended, n)
		}
		b.exec("DELETE FROM notifications")
		b.exec("DELETE FROM business_ends")
	}
	// A start that was told with its time outlives an end before it.
	started := b.event("node_started", map[string]any{"node_inst_id": 7, "max_duration": 60, "started_at": time.Now()}).Items[0]
	done := b.event("node_finished", map[string]any{"node_inst_id": 7, "finished_at": time.Now().Add(-time.Minute)})
	if n := b.notification(started.NotificationID); done.Ended != 0 || n.Status != api.NotificationWaiting {
		t.Errorf("ended %d: %+v", done.Ended, n)
	}
}

// putTemplate sets the template of business type 3 on a channel.
func (b *testBundle) putTemplate(channel string, template map[string]any) {
	b.t.Helper()
	b.expect(200, "", "PUT", "/api/v1/admin/notification-templates/3/"+channel, template)
}

func TestAnEmptyMessageIsAClearError(t *testing.T) {
	const empty = "渲染后的消息为空"
	b, p := notifying(t)
	b.putTemplate("oa", map[string]any{"title": "t", "content": "${text}"})
	for _, text := range []string{"", " \n"} {
		a := b.expect(422, "request.invalid", "POST", "/api/v1/notifications", map[string]any{
			"biz_type": 3, "biz_id": 1, "channels": []string{"oa", "dingtalk"}, "payload": map[string]any{"text": text, "taskName": "x"}, "user_ids": []string{"u1"},
		})
		if a.fields() != "payload" {
			t.Errorf("names %s", a.fields())
		}
	}
	if n := b.count("SELECT count(*) FROM notifications"); n != 0 {
		t.Errorf("%d notifications", n)
	}
	planned := b.notify(map[string]any{
		"channels": []string{"oa"}, "payload": map[string]any{"text": ""}, "next_run_time": time.Now().Add(time.Hour), "dedup_key": "k",
	}).NotificationID
	b.exec("UPDATE notifications SET next_run_at = now()")
	b.tell()
	if n := b.notification(planned); n.Status != api.NotificationFailed || *n.Remark != empty {
		t.Errorf("%+v", n)
	}
	// Asked for once more, it is the one that is there.
	if again := b.notify(map[string]any{"channels": []string{"oa"}, "payload": map[string]any{"text": ""}, "dedup_key": "k"}); !again.Deduplicated || *again.Remark != empty {
		t.Errorf("%+v", again)
	}
	// An event cannot be refused: the other channels are still told.
	made := b.event("task_finished", map[string]any{"channels": []string{"oa", "dingtalk"}, "payload": map[string]any{"text": "", "taskName": "x"}}).Items
	if n := b.notification(made[0].NotificationID); n.Status != api.NotificationFailed || *n.Remark != empty {
		t.Errorf("%+v", n)
	}
	b.notificationBecomes(made[1].NotificationID, api.NotificationSuccess)
	// A template of the provider's own needs no text.
	b.putTemplate("dingtalk", map[string]any{"title": "t", "content": "${text}", "external_id": "SE1"})
	calls := len(p.seen())
	id := b.notify(map[string]any{"payload": map[string]any{"text": ""}, "user_ids": []string{"u1"}, "sign": "S"}).NotificationID
	b.notificationBecomes(id, api.NotificationSuccess)
	if got := p.seen()[calls]; !strings.Contains(got, `"templateId":"SE1"`) {
		t.Errorf("told %s", got)
	}
	b.putTemplate("dingtalk", map[string]any{"title": "t", "content": "${text}"})
	b.expect(422, "request.invalid", "POST", "/api/v1/notifications", map[string]any{
		"biz_type": 3, "biz_id": 1, "channels": []string{"dingtalk"}, "payload": map[string]any{"text": ""}, "user_ids": []string{"u1"},
	})
}

func TestAReminderSurvivesARoundThatCannotBeRendered(t *testing.T) {
	b, p := notifying(t)
	template := map[string]any{"title": "t", "content": "${taskName}"}
	b.putTemplate("dingtalk", template)
	id := b.notify(map[string]any{"repeat_minutes": 30, "user_ids": []string{"u1"}}).NotificationID
	eventually(t, "it is told", func() bool { return b.notification(id).Succeeded == 1 })
	again := func() api.NotificationView {
		t.Helper()
		b.exec("UPDATE tasks SET reported_at = reported_at - interval '30 minutes'")
		b.exec("UPDATE notifications SET next_run_at = now()")
		b.tell()
		return b.notification(id)
	}
	goesOn := func(n api.NotificationView, remark string) {
		t.Helper()
		if n.Status != api.NotificationWaiting || n.Succeeded != 1 || n.NextRunTime == nil || time.Until(*n.NextRunTime) < 29*time.Minute ||
			n.Remark == nil || !strings.Contains(*n.Remark, remark) {
			t.Errorf("%+v", n)
		}
	}
	b.expect(200, "", "DELETE", "/api/v1/admin/notification-templates/3/dingtalk", nil)
	goesOn(again(), "没有启用的模板")
	b.putTemplate("dingtalk", map[string]any{"title": "t", "content": "${missing}"})
	goesOn(again(), "missing")
	b.putTemplate("dingtalk", template)
	b.exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no'; END $$`)
	b.exec("CREATE TRIGGER refuse BEFORE INSERT ON renderings FOR EACH ROW EXECUTE FUNCTION refuse()")
	goesOn(again(), "内部错误")
	b.exec("DROP TRIGGER refuse ON renderings")
	if strings.Contains(b.call("GET", "/metrics", nil).raw, "lksms_notifications_failed_total{") {
		t.Error("a round was counted as a notification that nobody was told of")
	}
	if n := again(); n.Remark != nil {
		t.Errorf("%+v", n)
	}
	eventually(t, "it is told again", func() bool { return len(p.seen()) == 2 })
	// One that nobody was told of yet has failed.
	b.putTemplate("dingtalk", map[string]any{"title": "t", "content": "${missing}"})
	if made := b.notify(map[string]any{"repeat_minutes": 30}); made.Status != api.NotificationFailed {
		t.Errorf("%+v", made)
	}
}

func TestNobodyIsToBeToldAfterTheExpiry(t *testing.T) {
	b, _ := notifying(t)
	soon := time.Now().Add(time.Hour)
	once := b.notify(map[string]any{"biz_id": 1, "repeat_minutes": 90, "expires_at": soon, "user_ids": []string{"u1"}}).NotificationID
	if n := b.notificationBecomes(once, api.NotificationSuccess); n.NextRunTime != nil {
		t.Errorf("%+v", n)
	}
	twice := b.notify(map[string]any{"biz_id": 2, "repeat_minutes": 40, "expires_at": soon, "user_ids": []string{"u1"}}).NotificationID
	eventually(t, "it is told", func() bool { return b.notification(twice).Succeeded == 1 })
	if n := b.notification(twice); n.Status != api.NotificationWaiting || n.NextRunTime == nil {
		t.Errorf("%+v", n)
	}
	// The round before the expiry cannot be rendered: what was told before is its outcome.
	b.expect(200, "", "DELETE", "/api/v1/admin/notification-templates/3/dingtalk", nil)
	b.exec("UPDATE tasks SET reported_at = reported_at - interval '40 minutes'")
	b.exec("UPDATE notifications SET next_run_at = now(), expires_at = now() + interval '20 minutes' WHERE id = $1", twice)
	b.tell()
	if n := b.notification(twice); n.Status != api.NotificationSuccess || n.NextRunTime != nil || n.Remark == nil {
		t.Errorf("%+v", n)
	}
}

// The answer that the READMEs show.
func TestTheAnswerToANotificationIsAsDocumented(t *testing.T) {
	b := setupWith(t, defaultRules, withSecrets)
	b.sender(map[string]any{"sender_no": "logs", "name": "Log", "channel": "oa", "kind": "log", "config": map[string]any{"showContent": true}})
	a := b.expect(200, "", "POST", "/api/v1/notifications", map[string]any{
		"biz_type": 3, "biz_id": 1001, "channels": []string{"oa"}, "payload": map[string]any{"taskName": "应急成像"},
		"user_ids": []string{"zhang", "li"}, "dedup_key": "3_1001_0",
	})
	for _, document := range []string{"README.md", "README.zh-CN.md"} {
		text, err := os.ReadFile("../../" + document)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), strings.TrimSpace(a.raw)) {
			t.Errorf("%s does not show %s", document, a.raw)
		}
	}
}
