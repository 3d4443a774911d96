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

// recipientOf returns the outcome of one recipient of a notification.
func recipientOf(t *testing.T, n api.NotificationView, user string) api.NotificationRecipient {
	t.Helper()
	i := slices.IndexFunc(*n.Recipients, func(r api.NotificationRecipient) bool { return r.UserID == user })
	if i < 0 {
		t.Fatalf("%s is not a recipient of %+v", user, n)
	}
	return (*n.Recipients)[i]
}

func TestCountriesAreCheckedForPhoneNumbersOnly(t *testing.T) {
	b, p := apptest.NewNotifying(t)
	b.AddCountry("CN", "86", nil)
	b.Expect(200, "", "PATCH", "/api/v1/admin/companies/default", map[string]any{"countries": []string{"CN"}})
	b.Expect(200, "", "PATCH", "/api/v1/admin/channels/dingtalk", map[string]any{"countries": []string{"CN"}})
	b.PutContacts(map[string]any{"user_id": "u2", "dingtalk_name": "+14155552671", "phone": "+14155552671"}, map[string]any{"user_id": "u3"})
	b.PutSMSTemplate(nil)
	now := postEvent(b, "task_finished", map[string]any{"channels": []string{"dingtalk", "sms"}, "user_ids": []string{"u1", "u2", "u3"}})
	planned := apptest.Decode[api.NotificationsMade](t, b.Expect(200, "", "POST", "/api/v1/notifications", map[string]any{
		"biz_type": 3, "biz_id": 7, "channels": []string{"sms"}, "payload": map[string]any{"taskName": "x"}, "user_ids": []string{"u1", "u2", "u3"},
		"next_run_time": time.Now().Add(time.Hour),
	}))
	b.Exec("UPDATE notifications SET next_run_at = now() WHERE id = $1", planned.Items[0].NotificationID)
	runNotifications(b)
	ding := b.AwaitNotification(now.Items[0].NotificationID, api.NotificationSomeFailed)
	if users, _, _ := dingTalkCall(t, p.Seen()[0]); !slices.Equal(users, []string{"+14155552671", "ding-u1"}) {
		t.Errorf("notified %v", users)
	}
	if got := recipientOf(t, ding, "u3"); *got.LastError != "收件人在该通道没有地址" {
		t.Errorf("%+v", got)
	}
	for _, id := range []int64{now.Items[1].NotificationID, planned.Items[0].NotificationID} {
		n := b.Notification(id)
		abroad, nowhere, home := recipientOf(t, n, "u2"), recipientOf(t, n, "u3"), recipientOf(t, n, "u1")
		if abroad.LastError == nil || !strings.Contains(*abroad.LastError, "国家") || abroad.Address != "+14155552671" {
			t.Errorf("%+v", abroad)
		}
		if nowhere.LastError == nil || !strings.Contains(*nowhere.LastError, "没有地址") || home.LastError != nil || n.Status != api.NotificationWaiting {
			t.Errorf("%+v, %+v: %+v", nowhere, home, n)
		}
	}
	if n := b.Count("SELECT count(*) FROM tasks WHERE status = 0 AND recipient = '+8613800138000'"); n != 2 {
		t.Errorf("%d messages wait, want 2", n)
	}
	b.SendOnce(map[string]any{"receiver_openid": "open"})
	if !strings.Contains(b.Call("GET", "/metrics", nil).Raw, `lksms_notification_people_failed_total{reason="country"} 2`) {
		t.Error("/metrics does not count the people abroad")
	}
}

func TestANotificationIsSentWithItsSignature(t *testing.T) {
	b, _ := apptest.NewNotifying(t)
	sms := apptest.NewProvider(t)
	sms.Says(200, `{"code":"0","id":"n"}`)
	b.AddSender(map[string]any{"sender_no": "texts", "kind": "http-sms", "sign": "平台", "config": sms.SenderConfig()})
	finished := func(task int, more map[string]any) api.NotificationView {
		more["task_id"], more["channels"], more["user_ids"] = task, []string{"sms"}, []string{"u1"}
		return b.AwaitNotification(postEvent(b, "task_finished", more).Items[0].NotificationID, api.NotificationSuccess)
	}
	b.PutSMSTemplate(nil)
	finished(1, map[string]any{})
	b.PutSMSTemplate(map[string]any{"sign": "模板"})
	finished(2, map[string]any{})
	n := finished(3, map[string]any{"sign": "请求"})
	if *n.Sign != "请求" {
		t.Errorf("%+v", n)
	}
	for i, want := range []string{"【平台】任务应急成像执行完成", "【模板】任务应急成像执行完成", "【请求】任务应急成像执行完成"} {
		if got := sms.Seen()[i]; !strings.Contains(got, `"`+want+`"`) {
			t.Errorf("sent %s, want %s", got, want)
		}
	}
	// The signature counts: without it, the 70 characters would fit into one segment.
	b.PutSMSTemplate(map[string]any{"content": strings.Repeat("长", 70), "sign": "模板"})
	id := recipientOf(t, finished(4, map[string]any{}), "u1").TaskID
	if got := b.Task(id); got.Segments != 2 || *got.Sign != "模板" {
		t.Errorf("%+v", got)
	}
}

// If a country requires a signature, only recipients in this country fail. If the channel requires a signature, all recipients fail. A signature of the sender
// does not satisfy the requirement.
func TestANotificationWithoutARequiredSignatureFails(t *testing.T) {
	b, _ := apptest.NewNotifying(t)
	sms := apptest.NewProvider(t)
	sms.Says(200, `{"code":"0","id":"n"}`)
	b.AddSender(map[string]any{"sender_no": "texts", "kind": "http-sms", "sign": "平台", "config": sms.SenderConfig()})
	b.PutSMSTemplate(nil)
	b.AddCountry("CN", "86", map[string]any{"signature_required": true})
	b.PutContacts(map[string]any{"user_id": "u2", "phone": "+14155552671"})
	finished := func(task int, more map[string]any) api.NotificationView {
		more["task_id"], more["channels"], more["user_ids"] = task, []string{"sms"}, []string{"u1", "u2"}
		id := postEvent(b, "task_finished", more).Items[0].NotificationID
		apptest.Eventually(t, "the notification is over", func() bool { return b.Notification(id).Status != api.NotificationWaiting })
		return b.Notification(id)
	}
	if n := finished(1, map[string]any{}); n.Status != api.NotificationSomeFailed || !strings.Contains(fmt.Sprint(*recipientOf(t, n, "u1").LastError), "签名") {
		t.Errorf("%+v", n)
	}
	if n := finished(2, map[string]any{"sign": "请求"}); n.Status != api.NotificationSuccess {
		t.Errorf("%+v", n)
	}
	b.Expect(200, "", "PATCH", "/api/v1/admin/channels/sms", map[string]any{"signature_required": true})
	if n := finished(3, map[string]any{}); n.Status != api.NotificationFailed || !strings.Contains(*recipientOf(t, n, "u2").LastError, "签名") {
		t.Errorf("%+v", n)
	}
	if n := len(sms.Seen()); n != 3 {
		t.Errorf("sent %d messages, want 3", n)
	}
}

// A caller cannot use the dedup key of a business event, and a business event cannot use the dedup key of a caller.
func TestDedupKeysOfEventsAndOfCallersAreSeparate(t *testing.T) {
	b, p := apptest.NewNotifying(t)
	one, two := b.AddUser("one", "submit", nil), b.AddUser("two", "submit", nil)
	notify := func(text string, headers []string) api.NotificationMade {
		t.Helper()
		return apptest.Decode[api.NotificationsMade](t, b.Expect(200, "", "POST", "/api/v1/notifications", map[string]any{
			"biz_type": 3, "biz_id": 1, "channels": []string{"dingtalk"}, "payload": map[string]any{"taskName": text}, "user_ids": []string{"u1"},
			"dedup_key": "3_1001_1", // equal to the key of the event below
		}, headers...)).Items[0]
	}
	first := notify("of-one", one)
	for name, headers := range map[string][]string{"one": one, "two": two} {
		if again := notify("again", headers); !again.Deduplicated || again.NotificationID != first.NotificationID {
			t.Errorf("%s again: %+v", name, again)
		}
	}
	finished := func(headers []string) api.NotificationMade {
		t.Helper()
		return apptest.Decode[api.NotificationsMade](t, b.Expect(200, "", "POST", "/api/v1/notifications/events", map[string]any{
			"event": "task_finished", "task_id": 1001, "channels": []string{"dingtalk"}, "user_ids": []string{"u1"}, "payload": map[string]any{"taskName": "event"},
		}, headers...)).Items[0]
	}
	event := finished(two)
	if event.Deduplicated || b.Notification(event.NotificationID).BizID != 1001 {
		t.Errorf("the event is %+v", event)
	}
	for _, headers := range [][]string{two, one} {
		if again := finished(headers); !again.Deduplicated || again.NotificationID != event.NotificationID {
			t.Errorf("the event, repeated: %+v", again)
		}
	}
	for _, id := range []int64{first.NotificationID, event.NotificationID} {
		b.AwaitNotification(id, api.NotificationSuccess)
	}
	var names []string
	for _, body := range p.Seen() {
		_, _, params := dingTalkCall(t, body)
		names = append(names, fmt.Sprint(params["taskName"]))
	}
	if slices.Sort(names); !slices.Equal(names, []string{"event", "of-one"}) {
		t.Errorf("people were notified of %v", names)
	}
}

// A user can retry the failed message of another user of the company. No new message is created, and both users see the message.
func TestASendOnceMessageBelongsToItsCompany(t *testing.T) {
	b, p, says := apptest.NewWeChat(t)
	one, two := b.AddUser("one", "submit", nil), b.AddUser("two", "submit", nil)
	once := func(headers []string, more map[string]any) api.Once {
		t.Helper()
		return apptest.Decode[api.Once](t, b.Expect(200, "", "POST", "/api/v1/subscribe-messages", apptest.SendOnceBody(more), headers...))
	}
	listed := func(headers []string) (ids []int64) {
		t.Helper()
		for _, m := range apptest.Decode[api.OncePage](t, b.Expect(200, "", "GET", "/api/v1/subscribe-messages", nil, headers...)).Items {
			ids = append(ids, m.MessageID)
		}
		return ids
	}
	says(`{"errcode":43101,"errmsg":"user refuse to accept the msg"}`)
	first := once(one, nil)
	apptest.Eventually(t, "the first message has failed", func() bool { return once(two, nil).SendStatus == api.SendStatusFailed })
	if len(listed(two)) != 0 {
		t.Error("a user sees the message of a colleague that it did not send")
	}
	says(`{"errcode":0,"msgid":8}`)
	second := once(two, map[string]any{"retry": true})
	if *second.Deduplicated || second.MessageID != first.MessageID || second.Sends != 2 || second.SubmittedBy != "one" {
		t.Errorf("the colleague's retry is %+v, the first %+v", second, first)
	}
	apptest.Eventually(t, "the message is sent", func() bool { return once(two, nil).SendStatus == api.SendStatusSent })
	for _, headers := range [][]string{one, two} {
		if again := once(headers, map[string]any{"retry": true}); !*again.Deduplicated || again.MessageID != first.MessageID {
			t.Errorf("repeated: %+v", again)
		}
		if ids := listed(headers); !slices.Equal(ids, []int64{first.MessageID}) {
			t.Errorf("%v are listed, want %d", ids, first.MessageID)
		}
	}
	if n := apptest.SentToWeChat(p); n != 2 {
		t.Errorf("%d messages were sent, want 2", n)
	}
}
