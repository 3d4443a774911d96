package notification_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/audience/notification"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/testkit/apptest"
)

func TestMain(m *testing.M) { apptest.Main(m) }

// The first tests of this file cover business notifications, the others send-once messages.

// postEvent reports a business event of task 1001, and returns the notifications that the event created.
func postEvent(b *apptest.Bundle, name string, more map[string]any) api.NotificationsMade {
	b.T.Helper()
	body := map[string]any{
		"event": name, "task_id": 1001, "channels": []string{"dingtalk"}, "user_ids": []string{"boss", "u1", "u2"},
		"payload": map[string]any{
			"taskName": "应急成像", "creatorName": "张三", "createTime": "2025-08-01 10:20", "nextNodeName": "资源确认", "remainMin": 45,
			"nodeName": "资源确认",
		},
	}
	for k, v := range more {
		body[k] = v
	}
	return apptest.Decode[api.NotificationsMade](b.T, b.Expect(200, "", "POST", "/api/v1/notifications/events", body))
}

// runNotifications runs the due notifications.
func runNotifications(b *apptest.Bundle) {
	b.T.Helper()
	if _, err := b.App.Notifications.Run(b.T.Context()); err != nil {
		b.T.Fatal(err)
	}
}

// dingTalkCall parses a call to DingTalk: the recipients, the title and the parameters.
func dingTalkCall(t *testing.T, body string) (users []string, title string, params map[string]any) {
	t.Helper()
	var call struct {
		UserIDs []string       `json:"userIds"`
		Title   string         `json:"title"`
		Params  map[string]any `json:"template_params"`
	}
	if err := json.Unmarshal([]byte(body), &call); err != nil {
		t.Fatal(err)
	}
	slices.Sort(call.UserIDs)
	return call.UserIDs, call.Title, call.Params
}

// A task that the provider accepted is not delivered yet: only a receipt proves the delivery.
func TestTheRecipientsOfANotificationShowTheirReceipts(t *testing.T) {
	b, _ := apptest.NewNotifying(t)
	id := postEvent(b, "task_created", map[string]any{"initiator": "boss"}).Items[0].NotificationID
	people := *b.AwaitNotification(id, api.NotificationSuccess).Recipients
	if people[0].Delivery != nil || people[1].Delivery != nil {
		t.Errorf("%+v", people)
	}
	totals := func(want string) {
		t.Helper()
		one := apptest.Decode[struct{ Delivered, Undelivered *int64 }](t, b.Expect(200, "", "GET", fmt.Sprint("/api/v1/notifications/", id), nil))
		if one.Delivered == nil || one.Undelivered == nil || fmt.Sprint(*one.Delivered, *one.Undelivered) != want {
			t.Errorf("%+v, want %s", one, want)
		}
	}
	totals("0 0")
	b.Exec(`INSERT INTO report_logs (task_id, company_id, event, effect, result, created_at)
		SELECT task_id, company_id, 'receipt', 'undelivered', 'MK:0001', now() FROM messages WHERE task_id = $1`, people[0].TaskID)
	people = *b.Notification(id).Recipients
	if people[0].Delivery == nil || *people[0].Delivery != api.TaskUndelivered || *people[0].DeliveryCode != "MK:0001" || people[1].Delivery != nil {
		t.Errorf("%+v", people)
	}
	totals("0 1")
	b.Exec(`INSERT INTO report_logs (task_id, company_id, event, effect, created_at)
		SELECT task_id, company_id, 'receipt', 'delivered', now() FROM messages WHERE task_id = $1`, people[1].TaskID)
	totals("1 1")
}

func TestACreatedTaskNotifiesAllButTheInitiator(t *testing.T) {
	b, p := apptest.NewNotifying(t)
	made := postEvent(b, "task_created", map[string]any{"initiator": "boss"})
	n := b.AwaitNotification(made.Items[0].NotificationID, api.NotificationSuccess)
	if *n.DedupKey != "0_1001_1" || n.BizID != 1001 || n.BizType != 0 || len(*n.Recipients) != 2 || *(*n.Recipients)[0].ExternalMsgid != "m-1" {
		t.Errorf("%+v", n)
	}
	if users, title, params := dingTalkCall(t, p.Seen()[0]); !slices.Equal(users, []string{"ding-u1", "ding-u2"}) || title != "【应急成像】已发起" || params["creatorName"] != "张三" {
		t.Errorf("notified %v %s %v", users, title, params)
	}
}

func TestADoneNodeNotifiesEachPersonOnce(t *testing.T) {
	b, p := apptest.NewNotifying(t)
	made := postEvent(b, "node_done", map[string]any{"node_inst_id": 8882, "user_ids": []string{"u1", "u2", "u1"}})
	n := b.AwaitNotification(made.Items[0].NotificationID, api.NotificationSuccess)
	if *n.DedupKey != "1_1001_8882_1" || n.BizID != 8882 || n.People != 2 {
		t.Errorf("%+v", n)
	}
	if users, _, _ := dingTalkCall(t, p.Seen()[0]); len(users) != 2 {
		t.Errorf("notified %v", users)
	}
	b.Expect(422, "request.invalid", "POST", "/api/v1/notifications/events", map[string]any{
		"event": "node_done", "task_id": 1, "channels": []string{"dingtalk"}, "user_ids": []string{"u1"},
	})
}

func TestAnOrbitPlanCreatesOnlyFutureReminders(t *testing.T) {
	b, p := apptest.NewNotifying(t)
	orbits := []any{
		map[string]any{"orbit_no": 9, "in_time": time.Now().Add(2 * time.Hour)},
		map[string]any{"orbit_no": 10, "in_time": time.Now().Add(20 * time.Minute)}, // three of the five reminders of this orbit are in the past
	}
	made := postEvent(b, "orbit_plan", map[string]any{"orbits": orbits})
	if len(made.Items) != 7 {
		t.Fatalf("%d notifications, want 7", len(made.Items))
	}
	for _, again := range postEvent(b, "orbit_plan", map[string]any{"orbits": orbits}).Items {
		if !again.Deduplicated {
			t.Errorf("%+v", again)
		}
	}
	runNotifications(b)
	if got := p.Seen(); len(got) != 0 {
		t.Fatalf("notified too early: %v", got)
	}
	first := made.Items[0].NotificationID
	b.Exec("UPDATE notifications SET next_run_at = now() WHERE id = $1", first)
	runNotifications(b)
	n := b.AwaitNotification(first, api.NotificationSuccess)
	if *n.DedupKey != "2_1001_9_60_1" {
		t.Errorf("%+v", n)
	}
	if users, _, params := dingTalkCall(t, p.Seen()[0]); len(users) != 3 || params["remainMin"] != 60.0 || params["orbitNo"] != 9.0 {
		t.Errorf("notified %v with %v", users, params)
	}
	// The end of the task cancels its reminders, and notifies all recipients of the end.
	if done := postEvent(b, "task_finished", nil); done.Ended != 6 {
		t.Errorf("ended %d reminders, want 6", done.Ended)
	}
	if n := b.Notification(made.Items[6].NotificationID); n.Status != api.NotificationCancelled || n.NextRunTime != nil {
		t.Errorf("%+v", n)
	}
}

func TestTheEndOfATaskNotifiesOnce(t *testing.T) {
	b, p := apptest.NewNotifying(t)
	for i, event := range []string{"task_finished", "task_abnormal"} {
		first := postEvent(b, event, nil).Items[0]
		again := postEvent(b, event, nil).Items[0]
		if again.NotificationID != first.NotificationID || !again.Deduplicated {
			t.Errorf("%s again: %+v", event, again)
		}
		if n := b.AwaitNotification(first.NotificationID, api.NotificationSuccess); n.People != 3 {
			t.Errorf("%+v", n)
		}
		if got := p.Seen(); len(got) != i+1 {
			t.Errorf("%d calls, want %d", len(got), i+1)
		}
	}
}

func TestAnOverdueNodeHasRepeatedReminders(t *testing.T) {
	b, p := apptest.NewNotifying(t)
	more := map[string]any{
		"node_inst_id": 8882, "user_ids": []string{"u1"}, "max_duration": 60, "timeout_remind": 30,
		"started_at": time.Now().Add(-59 * time.Minute),
	}
	id := postEvent(b, "node_started", more).Items[0].NotificationID
	runNotifications(b)
	if got := p.Seen(); len(got) != 0 {
		t.Fatalf("notified too early: %v", got)
	}
	later := func() {
		b.Exec("UPDATE notifications SET next_run_at = now(), started_at = started_at - interval '16 minutes' WHERE id = $1", id)
		runNotifications(b)
	}
	later()
	apptest.Eventually(t, "u1 is notified", func() bool { return b.Notification(id).Succeeded == 1 })
	if _, _, params := dingTalkCall(t, p.Seen()[0]); params["overtime"] != 15.0 || params["maxDuration"] != 75.0 {
		t.Errorf("notified with %v", params)
	}
	// The next round starts half an hour after all recipients were reached.
	later()
	if n := b.Notification(id); n.Status != api.NotificationWaiting || time.Until(*n.NextRunTime) < 29*time.Minute || b.Count("SELECT count(*) FROM tasks") != 1 {
		t.Errorf("%d calls, the next round is at %v", len(p.Seen()), n.NextRunTime)
	}
	b.Exec("UPDATE tasks SET reported_at = reported_at - interval '30 minutes'")
	later()
	apptest.Eventually(t, "u1 is notified again", func() bool {
		return (*b.Notification(id).Recipients)[0].Times == 2 && b.Notification(id).Succeeded == 1
	})
	if n := b.Count("SELECT count(*) FROM tasks WHERE status = 2"); n != 2 {
		t.Errorf("%d messages were sent, want 2", n)
	}
	if done := postEvent(b, "node_finished", more); done.Ended != 1 || b.Notification(id).Status != api.NotificationCancelled {
		t.Errorf("ended %d reminders, want 1", done.Ended)
	}
	// If the end of a node was reported before its start, the start creates no reminder.
	postEvent(b, "node_finished", map[string]any{"node_inst_id": 9})
	if late := postEvent(b, "node_started", map[string]any{"node_inst_id": 9, "max_duration": 0}); !late.Items[0].Deduplicated {
		t.Errorf("%+v", late)
	}
}

func TestAFailedCallIsRetriedSeparatelyForEachRecipient(t *testing.T) {
	b, p := apptest.NewNotifyingEvery(t, 1, 0, 5) // the sender makes one call per interval, and one call contains both recipients
	refused := map[string]bool{"ding-u2": true}
	var mu sync.Mutex
	p.Does(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		bodies := p.Seen()
		users, _, _ := dingTalkCall(t, bodies[len(bodies)-1])
		if slices.ContainsFunc(users, func(u string) bool { return refused[u] }) {
			w.WriteHeader(500)
			return
		}
		_, _ = io.WriteString(w, `{"errcode":0,"msgid":"m-2"}`)
	})
	id := postEvent(b, "task_created", map[string]any{"user_ids": []string{"u1", "u2"}}).Items[0].NotificationID
	apptest.Eventually(t, "the second attempt has failed too", func() bool {
		return b.Count("SELECT count(*) FROM tasks WHERE retry_count = 2") == 2
	})
	n := b.Notification(id)
	i := slices.IndexFunc(*n.Recipients, func(r api.NotificationRecipient) bool { return r.UserID == "u2" })
	if r := (*n.Recipients)[i]; n.Status != api.NotificationWaiting || time.Until(r.DueAt) < 4*time.Minute || *r.LastError == "" {
		t.Errorf("%+v", n)
	}
	b.Exec("UPDATE tasks SET due_at = now() WHERE user_id = 'u1'")
	apptest.Eventually(t, "u1 is reached alone", func() bool { return b.Notification(id).Succeeded == 1 })
	b.Exec("UPDATE tasks SET due_at = now() WHERE user_id = 'u2'")
	n = b.AwaitNotification(id, api.NotificationSomeFailed)
	if n.Succeeded != 1 {
		t.Errorf("%+v", n)
	}
	reached := 0
	for _, body := range p.Seen() {
		if users, title, _ := dingTalkCall(t, body); strings.Contains(title, "已发起") && slices.Contains(users, "ding-u1") && len(users) == 1 {
			reached++
		}
	}
	if reached != 1 {
		t.Errorf("u1 was notified %d times, want once", reached)
	}
}

func TestConcurrentRequestsWithOneDedupKeyMakeOneNotification(t *testing.T) {
	b, p := apptest.NewNotifying(t)
	const callers = 100
	ids := make(chan int64, callers)
	for range callers {
		go func() {
			made := apptest.Decode[api.NotificationsMade](t, b.Call("POST", "/api/v1/notifications", map[string]any{
				"biz_type": 3, "biz_id": 1, "channels": []string{"dingtalk"}, "payload": map[string]any{"taskName": "x"},
				"user_ids": []string{"u1", "u2", "u1"}, "dedup_key": "3_1_1",
			}))
			ids <- made.Items[0].NotificationID
		}()
	}
	first := <-ids
	for range callers - 1 {
		if id := <-ids; id != first {
			t.Errorf("got notifications %d and %d, want one", id, first)
		}
	}
	b.AwaitNotification(first, api.NotificationSuccess)
	if n := b.Count("SELECT count(*) FROM tasks"); n != 2 || len(p.Seen()) != 1 {
		t.Errorf("%d tasks, %d calls, want 2 tasks and one call", n, len(p.Seen()))
	}
	// After a deletion, the same event creates a new notification.
	for range 2 {
		if got := apptest.Decode[api.Changed](t, b.Expect(200, "", "DELETE", "/api/v1/notifications?biz_type=3&biz_ids=1,2", nil)); got.Changed != 1 {
			t.Errorf("deleted %d, want 1", got.Changed)
		}
		again := postEvent(b, "task_finished", map[string]any{"task_id": 1}).Items[0]
		if again.Deduplicated {
			t.Errorf("%+v", again)
		}
	}
}

func TestTheReasonOfARenderingFailureIsStored(t *testing.T) {
	b, p := apptest.NewNotifying(t)
	made := postEvent(b, "task_created", map[string]any{"payload": map[string]any{"taskName": "x", "creatorName": nil}})
	if n := b.Notification(made.Items[0].NotificationID); n.Status != api.NotificationFailed || !strings.Contains(*n.Remark, "createTime") ||
		!strings.Contains(*n.Remark, "creatorName") || n.People != 0 {
		t.Errorf("%+v", n)
	}
	b.Expect(200, "", "DELETE", "/api/v1/admin/notification-templates/3/dingtalk", nil)
	if n := b.Notification(postEvent(b, "task_finished", nil).Items[0].NotificationID); n.Status != api.NotificationFailed {
		t.Errorf("%+v", n)
	}
	b.Expect(200, "", "PUT", "/api/v1/admin/notification-templates/3/dingtalk", map[string]any{"title": "${taskName}", "content": "到 ${platformUrl} 看 ${taskName}"})
	id := postEvent(b, "task_finished", map[string]any{"task_id": 2, "payload": map[string]any{"taskName": "${platformUrl}", "platformUrl": "https://p"}}).Items[0].NotificationID
	b.AwaitNotification(id, api.NotificationSuccess)
	if !strings.Contains(p.Seen()[0], "到 https://p 看 ${platformUrl}") {
		t.Errorf("provider got %v", p.Seen())
	}
}

func TestARecipientWithoutAnAddressDoesNotAffectOtherRecipients(t *testing.T) {
	b, _ := apptest.NewNotifying(t)
	id := postEvent(b, "task_finished", map[string]any{"user_ids": []string{"u1", "stranger"}}).Items[0].NotificationID
	n := b.AwaitNotification(id, api.NotificationSomeFailed)
	for _, r := range *n.Recipients {
		if want := r.UserID == "u1"; (r.Status == api.RecipientSuccess) != want {
			t.Errorf("%+v", r)
		}
	}
	if n := b.Count("SELECT count(*) FROM receive_logs"); n != 2 {
		t.Errorf("%d log rows", n)
	}
}

func TestAnEndedNotificationIsNotRetried(t *testing.T) {
	b, p := apptest.NewNotifyingEvery(t, 0, 0, 0, 0)
	release := make(chan struct{})
	p.Does(func(w http.ResponseWriter, _ *http.Request) {
		<-release
		w.WriteHeader(500)
	})
	id := postEvent(b, "task_finished", map[string]any{"user_ids": []string{"u1"}}).Items[0].NotificationID
	apptest.Eventually(t, "the provider has the call", func() bool { return len(p.Seen()) == 1 })
	if got := apptest.Decode[api.Changed](t, b.Expect(200, "", "POST", "/api/v1/notifications/status", map[string]any{
		"biz_type": 3, "biz_ids": []int{1001}, "status": 4,
	})); got.Changed != 1 {
		t.Errorf("changed %d, want 1", got.Changed)
	}
	close(release)
	apptest.Eventually(t, "the task is cancelled", func() bool {
		if _, err := b.App.Queue.Expire(t.Context()); err != nil {
			t.Fatal(err)
		}
		return b.Count("SELECT count(*) FROM tasks WHERE status = 4") == 1
	})
	if got := b.Notification(id); got.Status != api.NotificationEnded || len(p.Seen()) != 1 {
		t.Errorf("%d calls, want 1: %+v", len(p.Seen()), got)
	}
}

func onceBecomes(b *apptest.Bundle, status api.SendStatus) api.Once {
	b.T.Helper()
	var one api.Once
	apptest.Eventually(b.T, fmt.Sprint("the message has status ", status), func() bool {
		one = b.SendOnce(nil)
		return one.SendStatus == status
	})
	return one
}

func TestASendOnceMessageReachesWeChat(t *testing.T) {
	b, p, _ := apptest.NewWeChat(t)
	if first := b.SendOnce(nil); *first.Deduplicated || first.SendStatus != api.SendStatusSending {
		t.Errorf("%+v", first)
	}
	onceBecomes(b, api.SendStatusSent)
	if got := p.Seen(); !slices.ContainsFunc(got, func(body string) bool {
		return strings.Contains(body, `"touser":"open-u1"`) && strings.Contains(body, `"瑜伽课"`)
	}) {
		t.Errorf("sent %v", got)
	}
	page := apptest.Decode[api.OncePage](t, b.Expect(200, "", "GET", "/api/v1/subscribe-messages?business_type=course_booking&business_id=123", nil))
	if len(page.Items) != 1 || page.Items[0].SentAt == nil {
		t.Errorf("%+v", page)
	}
	if n := b.Count("SELECT count(*) FROM sender_tokens WHERE token LIKE 'sealed:%'"); n != 1 {
		t.Error("the token is not sealed")
	}
}

func TestS2_1_ConcurrentDuplicatesSendOnce(t *testing.T) {
	b, p, _ := apptest.NewWeChat(t)
	first := make(chan bool, 50)
	for range 50 {
		go func() {
			one := apptest.Decode[api.Once](t, b.Call("POST", "/api/v1/subscribe-messages", apptest.SendOnceBody(nil)))
			first <- !*one.Deduplicated
		}()
	}
	firsts := 0
	for range 50 {
		if <-first {
			firsts++
		}
	}
	onceBecomes(b, api.SendStatusSent)
	if again := b.SendOnce(map[string]any{"retry": true}); !*again.Deduplicated || firsts != 1 || apptest.SentToWeChat(p) != 1 {
		t.Errorf("%d answers are no repeats, sent %d times, again: %+v", firsts, apptest.SentToWeChat(p), again)
	}
}

func TestS2_2_AFailedMessageCanBeSentAgain(t *testing.T) {
	b, p, says := apptest.NewWeChat(t)
	says(`{"errcode":43101,"errmsg":"user refuse to accept the msg"}`)
	b.SendOnce(nil)
	failed := onceBecomes(b, api.SendStatusFailed)
	if *failed.ErrorCode != "43101" || !strings.Contains(*failed.ErrorMessage, "refuse") || !*failed.Deduplicated {
		t.Errorf("%+v", failed)
	}
	failures := apptest.Decode[api.OncePage](t, b.Expect(200, "", "GET", "/api/v1/subscribe-messages?send_status=2", nil))
	if len(failures.Items) != 1 {
		t.Errorf("%+v", failures)
	}
	says(`{"errcode":0,"msgid":8}`)
	if again := b.SendOnce(map[string]any{"retry": true}); *again.Deduplicated || again.Sends != 2 {
		t.Errorf("%+v", again)
	}
	onceBecomes(b, api.SendStatusSent)
	if n := apptest.SentToWeChat(p); n != 2 {
		t.Errorf("sent %d times", n)
	}
	counts := apptest.Decode[api.OnceCounts](t, b.Expect(200, "", "GET", "/api/v1/subscribe-messages/statistics", nil))
	if len(counts.Items) != 1 || counts.Items[0].SuccessRate != 100 {
		t.Errorf("%+v", counts)
	}
}

// A company does not see the notifications of another company.
func TestACompanySeesOnlyItsOwnNotifications(t *testing.T) {
	b, _ := apptest.NewNotifying(t)
	acme := b.AddCompany("acme", 1)
	id := postEvent(b, "task_finished", nil).Items[0].NotificationID
	b.Expect(404, "notification.not_found", "GET", fmt.Sprint("/api/v1/notifications/", id), nil, acme...)
	if got := apptest.Decode[api.NotificationPage](t, b.Expect(200, "", "GET", "/api/v1/notifications", nil, acme...)); len(got.Items) != 0 {
		t.Errorf("%+v", got)
	}
	if got := apptest.Decode[api.Changed](t, b.Expect(200, "", "DELETE", "/api/v1/notifications?biz_type=3&biz_ids=1001", nil, acme...)); got.Changed != 0 {
		t.Errorf("deleted %d", got.Changed)
	}
	made := apptest.Decode[api.NotificationsMade](t, b.Expect(200, "", "POST", "/api/v1/notifications/events", map[string]any{
		"event": "task_finished", "task_id": 1001, "channels": []string{"dingtalk"}, "user_ids": []string{"u1"}, "payload": map[string]any{"taskName": "x"},
	}, acme...))
	if made.Items[0].Deduplicated {
		t.Error("two companies share a dedup key")
	}
}

func TestANotificationThatCannotBeStoredDoesNotBlockOtherNotifications(t *testing.T) {
	b, _ := apptest.NewNotifying(t)
	later := time.Now().Add(time.Hour)
	var ids []int64
	for i, name := range []string{"x", "y", "z"} {
		made := apptest.Decode[api.NotificationsMade](t, b.Expect(200, "", "POST", "/api/v1/notifications", map[string]any{
			"biz_type": 3, "biz_id": i, "channels": []string{"dingtalk"}, "payload": map[string]any{"taskName": name}, "user_ids": []string{"u1"}, "next_run_time": later,
		}))
		ids = append(ids, made.Items[0].NotificationID)
	}
	b.Exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF new.title LIKE '%y%' THEN RAISE 'no'; END IF; RETURN new; END $$`)
	b.Exec("CREATE TRIGGER refuse BEFORE INSERT ON renderings FOR EACH ROW EXECUTE FUNCTION refuse()")
	b.Exec("UPDATE notifications SET next_run_at = now()")
	runNotifications(b)
	for i, want := range []api.NotificationStatus{api.NotificationSuccess, api.NotificationFailed, api.NotificationSuccess} {
		b.AwaitNotification(ids[i], want)
	}
}

// The submitter of a notification sees its tasks, including tasks that are created later.
func TestTheSubmitterOfANotificationSeesItsTasks(t *testing.T) {
	b, _ := apptest.NewNotifying(t)
	mine, other := b.AddUser("mine", "submit", nil), b.AddUser("other", "submit", nil)
	made := apptest.Decode[api.NotificationsMade](t, b.Expect(200, "", "POST", "/api/v1/notifications", map[string]any{
		"biz_type": 3, "biz_id": 1, "channels": []string{"dingtalk"}, "payload": map[string]any{"taskName": "x"}, "user_ids": []string{"u1"},
		"next_run_time": time.Now().Add(time.Hour),
	}, mine...))
	b.Exec("UPDATE notifications SET next_run_at = now()")
	runNotifications(b)
	n := b.AwaitNotification(made.Items[0].NotificationID, api.NotificationSuccess)
	path := "/api/v1/sms/task/" + (*n.Recipients)[0].TaskID
	b.Expect(200, "", "GET", path, nil, mine...)
	b.Expect(404, "task.not_found", "GET", path, nil, other...)
}

// The start and the end of a node arrive at the same time. The second request waits for the first, and no reminder remains.
func TestAConcurrentStartAndEndCreateNoReminder(t *testing.T) {
	for _, end := range []string{"node_finished", "task_finished", "task_abnormal"} {
		t.Run(end, func(t *testing.T) {
			b, _ := apptest.NewNotifying(t)
			users := []string{"u1"}
			node := int64(8882)
			event := func(name string, channels ...string) notification.Event {
				e := notification.Event{
					Name: name, TaskID: 1001, NodeID: &node, Channels: channels, UserIDs: users,
					Payload: map[string]any{"taskName": "x", "nodeName": "y"},
				}
				if name == "node_started" {
					e.MaxMins, e.Repeat = new(int64(0)), new(int64(1))
				}
				return e
			}
			origin := submit.Origin{User: "lksms", CompanyID: 1}
			take := func(e notification.Event) (o notification.Outcome) {
				t.Helper()
				o, err := b.App.Notifications.ProcessEvent(t.Context(), e, origin)
				if err != nil {
					t.Error(err)
				}
				return o
			}
			// race processes first in a transaction that commits only after second waits for it. It returns the outcome of second.
			race := func(first, second notification.Event) (ofSecond notification.Outcome) {
				t.Helper()
				held, release, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
				commit := sync.OnceFunc(func() { close(release) })
				defer commit()
				go func() {
					done <- b.App.DB.Tx(t.Context(), func(ctx context.Context) error {
						_, err := b.App.Notifications.ProcessEvent(ctx, first, origin)
						close(held)
						<-release
						return err
					})
				}()
				<-held
				var waiting sync.WaitGroup
				waiting.Go(func() { ofSecond = take(second) })
				b.AwaitLockWait()
				commit()
				if err := <-done; err != nil {
					t.Fatal(err)
				}
				waiting.Wait()
				return ofSecond
			}
			left := func(when string) {
				t.Helper()
				if n := b.Count("SELECT count(*) FROM notifications WHERE biz_type = 5 AND next_run_at IS NOT NULL"); n != 0 {
					t.Errorf("%s: %d reminders are left", when, n)
				}
			}
			// The end has a different channel than the start.
			if o := race(event("node_started", "dingtalk"), event(end, "oa")); o.Ended != 1 {
				t.Errorf("ended %d reminders, want 1", o.Ended)
			}
			left("the start first")
			node++
			race(event(end, "oa"), event("node_started", "dingtalk"))
			left("the end first")
		})
	}
}

func TestARestartedNodeHasNewReminders(t *testing.T) {
	b, p := apptest.NewNotifying(t)
	begun := time.Now().Add(-3 * time.Hour)
	started := func(more map[string]any) api.NotificationMade {
		t.Helper()
		body := map[string]any{"node_inst_id": 7, "user_ids": []string{"u1"}, "max_duration": 0, "timeout_remind": 60}
		for k, v := range more {
			body[k] = v
		}
		return postEvent(b, "node_started", body).Items[0]
	}
	finished := func(more map[string]any) int {
		t.Helper()
		body := map[string]any{"node_inst_id": 7}
		for k, v := range more {
			body[k] = v
		}
		return postEvent(b, "node_finished", body).Ended
	}
	isWaiting := func(made api.NotificationMade, want bool) {
		t.Helper()
		if n := b.Notification(made.NotificationID); (n.Status == api.NotificationWaiting) != want {
			t.Errorf("%+v", n)
		}
	}
	first := started(map[string]any{"started_at": begun})
	apptest.Eventually(t, "u1 is notified", func() bool { return len(p.Seen()) == 1 })
	if again := started(map[string]any{"started_at": begun}); !again.Deduplicated || again.NotificationID != first.NotificationID {
		t.Errorf("%+v", again)
	}
	if n := finished(map[string]any{"finished_at": begun.Add(time.Hour)}); n != 1 {
		t.Errorf("ended %d reminders, want 1", n)
	}
	isWaiting(started(map[string]any{"started_at": begun}), false) // this start is reported late, or a second time
	second := started(map[string]any{"started_at": begun.Add(2 * time.Hour)})
	if second.Deduplicated || second.NotificationID == first.NotificationID {
		t.Errorf("%+v", second)
	}
	apptest.Eventually(t, "u1 is notified again", func() bool { return len(p.Seen()) == 2 })
	isWaiting(second, true)
	if n := finished(map[string]any{"finished_at": begun.Add(time.Hour)}); n != 0 { // this event repeats the earlier end
		t.Errorf("ended %d reminders, want 0", n)
	}
	isWaiting(second, true)
	// Without times, a start after an end is a new start, and a second start is a repeat.
	finished(nil)
	finished(nil)
	third := started(nil)
	isWaiting(third, true)
	if again := started(nil); !again.Deduplicated || again.NotificationID != third.NotificationID {
		t.Errorf("%+v", again)
	}
	// The end of the task cancels the reminders of all its nodes. A later start of a node creates reminders again.
	postEvent(b, "task_finished", nil)
	isWaiting(third, false)
	isWaiting(started(nil), false)
	if made := postEvent(b, "orbit_plan", map[string]any{"orbits": []any{map[string]any{"orbit_no": 9, "in_time": time.Now().Add(2 * time.Hour)}}}); len(made.Items) != 0 {
		t.Errorf("%+v", made)
	}
	isWaiting(started(map[string]any{"started_at": time.Now().Add(time.Minute)}), true)
	isWaiting(started(map[string]any{"node_inst_id": 8}), true)
	if n := b.Notification(first.NotificationID); *n.DedupKey != "5_7_1" || n.Status != api.NotificationCancelled {
		t.Errorf("%+v", n)
	}
}

func TestAnEndThatArrivesBeforeItsStartCancelsOnlyThatStart(t *testing.T) {
	b, _ := apptest.NewNotifying(t)
	node := func(event, channel string) api.NotificationsMade {
		return postEvent(b, event, map[string]any{"node_inst_id": 9, "max_duration": 60, "channels": []string{channel}})
	}
	node("node_finished", "dingtalk")
	node("node_finished", "dingtalk")
	late := node("node_started", "oa").Items[0] // a channel that the end does not contain
	if n := b.Notification(late.NotificationID); n.Status != api.NotificationCancelled {
		t.Errorf("%+v", n)
	}
	again := node("node_started", "oa").Items[0]
	if n := b.Notification(again.NotificationID); n.Status != api.NotificationWaiting {
		t.Errorf("%+v", n)
	}
}

// Tasks that a request creates immediately belong to the trace of the request. Reminders do not, because the server creates them later.
func TestTheTasksOfANotificationBelongToTheTraceOfItsRequest(t *testing.T) {
	const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	b, _ := apptest.NewNotifying(t)
	for _, headers := range [][]string{{"Traceparent", traceparent}, nil} {
		b.Expect(200, "", "POST", "/api/v1/notifications", map[string]any{
			"biz_type": 0, "biz_id": 1, "channels": []string{"dingtalk"}, "user_ids": []string{"boss", "u1"},
			"payload": map[string]any{"taskName": "应急成像", "creatorName": "张三", "createTime": "2025-08-01 10:20"},
		}, headers...)
	}
	if n := b.Count("SELECT count(*) FROM messages WHERE traceparent = $1", traceparent); n != 2 {
		t.Errorf("%d tasks belong to the trace", n)
	}
	if n := b.Count("SELECT count(*) FROM messages WHERE traceparent IS NULL"); n != 2 {
		t.Errorf("%d tasks belong to no trace", n)
	}
}

func TestASendOnceMessageExpires(t *testing.T) {
	b, p, say := apptest.NewWeChat(t)
	if a := b.Expect(422, "request.invalid", "POST", "/api/v1/subscribe-messages", apptest.SendOnceBody(map[string]any{"expires_at": time.Now().Add(-time.Second)})); a.Fields() != "expires_at" {
		t.Errorf("wrong fields %s", a.Fields())
	}
	say(`{"errcode":45009,"errmsg":"reach max api daily quota limit"}`)
	expires := time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)
	first := b.SendOnce(map[string]any{"expires_at": expires})
	if first.ExpiresAt == nil || !first.ExpiresAt.Equal(expires) || first.WaitsBecause != nil {
		t.Errorf("%+v", first)
	}
	var one api.Once
	apptest.Eventually(t, "it says why it waits", func() bool {
		one = b.SendOnce(map[string]any{"expires_at": time.Now().Add(-time.Hour)}) // a repeat: its times are not checked
		return one.WaitsBecause != nil
	})
	zone, err := time.LoadLocation("Asia/Shanghai")
	if err != nil {
		t.Fatal(err)
	}
	if at := one.WaitsUntil.In(zone); !strings.Contains(*one.WaitsBecause, "daily quota") || at.Hour() != 0 || at.Minute() != 0 || one.SendStatus != api.SendStatusSending {
		t.Errorf("waits until %s, because %s: %+v", at, *one.WaitsBecause, one)
	}
	b.Exec("UPDATE queue SET expires_at = now()")
	if n, err := b.App.Queue.Expire(t.Context()); n != 1 || err != nil {
		t.Fatalf("expired %d, %v", n, err)
	}
	if one = b.SendOnce(nil); one.SendStatus != api.SendStatusFailed || one.ErrorMessage == nil || *one.ErrorMessage != "已过期" || one.WaitsBecause != nil {
		t.Errorf("%+v", one)
	}
	if n := apptest.SentToWeChat(p); n > 1 {
		t.Errorf("sent %d times", n)
	}
}
