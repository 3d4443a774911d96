package notification_test

import (
	"context"
	"fmt"
	"testing"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
)

const refusal = `{"errcode":33012,"errmsg":"no such user"}`

func requeuePath(id string) string { return "/api/v1/sms/task/" + id + "/requeue" }

// refused creates a notification to u1, which the provider refuses. It returns the id of the notification and its task.
func refused(b *apptest.Bundle, p *apptest.Provider, more map[string]any) (id int64, task string) {
	b.T.Helper()
	p.Says(200, refusal)
	body := map[string]any{"user_ids": []string{"u1"}}
	for k, v := range more {
		body[k] = v
	}
	id = createNotification(b, body).NotificationID
	task = recipientOf(b.T.(*testing.T), b.AwaitNotification(id, api.NotificationFailed), "u1").TaskID
	p.Says(200, `{"errcode":0,"msgid":"m"}`)
	return id, task
}

// A requeued task of a notification is sent with the text of the notification, and determines the outcome of the notification.
func TestANotificationFollowsItsRequeuedTask(t *testing.T) {
	b, p := apptest.NewNotifying(t)
	id, task := refused(b, p, nil)
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/ding", map[string]any{"status": "off"})
	b.Expect(200, "", "POST", requeuePath(task), map[string]any{"remark": "joined since"})
	if n := b.Notification(id); n.Status != api.NotificationWaiting || recipientOf(t, n, "u1").Status != api.RecipientWaiting {
		t.Errorf("requeued: %+v", n)
	}
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/ding", map[string]any{"status": "on"})
	n := b.AwaitNotification(id, api.NotificationSuccess)
	if r := recipientOf(t, n, "u1"); r.Status != api.RecipientSuccess || r.TaskID != task {
		t.Errorf("%+v", r)
	}
	seen := p.Seen()
	first, _, _ := dingTalkCall(t, seen[0])
	last, _, _ := dingTalkCall(t, seen[len(seen)-1])
	if len(seen) != 2 || fmt.Sprint(first) != fmt.Sprint(last) {
		t.Errorf("%d calls, to %v and %v", len(seen), first, last)
	}
	b.Expect(409, "task.succeeded", "POST", requeuePath(task), nil)
}

// A requeued task is not sent if its notification was ended, deleted or repeated meanwhile.
func TestATaskOfAnEndedNotificationIsNotRequeued(t *testing.T) {
	b, p := apptest.NewNotifying(t)
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/ding", map[string]any{"status": "off"})
	cancelled := createNotification(b, map[string]any{"biz_id": 2, "user_ids": []string{"u1"}}).NotificationID
	task := recipientOf(t, b.Notification(cancelled), "u1").TaskID
	setStatus(b, 3, 2)
	b.Expect(409, "task.withdrawn", "POST", requeuePath(task), nil)

	deleted := createNotification(b, map[string]any{"biz_id": 3, "user_ids": []string{"u1"}}).NotificationID
	task = recipientOf(t, b.Notification(deleted), "u1").TaskID
	b.Expect(200, "", "DELETE", "/api/v1/notifications?biz_type=3&biz_ids=3", nil)
	b.Expect(409, "task.withdrawn", "POST", requeuePath(task), nil)
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/ding", map[string]any{"status": "on"})

	stranger := createNotification(b, map[string]any{"biz_id": 4, "user_ids": []string{"stranger"}}).NotificationID
	task = recipientOf(t, b.Notification(stranger), "stranger").TaskID
	b.Expect(409, "task.unreachable", "POST", requeuePath(task), nil)

	// If the notification is set to waiting, a new task is sent to the same recipient. The old task must not be sent as well.
	id, old := refused(b, p, map[string]any{"biz_id": 5})
	if n := setStatus(b, 0, 5, 2); n != 1 {
		t.Fatalf("%d notifications were set to waiting", n)
	}
	runNotifications(b)
	b.AwaitNotification(id, api.NotificationSuccess)
	b.Expect(409, "task.withdrawn", "POST", requeuePath(old), nil)
	// The server that created the new task can have a slow clock.
	again := recipientOf(t, b.Notification(id), "u1").TaskID
	day := len("task_20060102_")
	b.Exec("UPDATE messages SET task_id = $2 WHERE task_id = $1", again, again[:day]+"00"+again[day+2:])
	b.Expect(409, "task.withdrawn", "POST", requeuePath(old), nil)

	// If only the task was cancelled, the notification has not ended, and its task can be requeued.
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/ding", map[string]any{"status": "off"})
	alone := createNotification(b, map[string]any{"biz_id": 6, "user_ids": []string{"u1"}}).NotificationID
	task = recipientOf(t, b.Notification(alone), "u1").TaskID
	b.Expect(200, "", "POST", "/api/v1/sms/task/"+task+"/cancel", nil)
	b.Expect(200, "", "POST", requeuePath(task), nil)
	if n := b.Notification(alone); n.Status != api.NotificationWaiting {
		t.Errorf("%+v", n)
	}
}

// A withdrawal and a requeue run at the same time. Either the withdrawal cancels the requeued task, or the requeue finds that the notification has ended.
func TestAConcurrentWithdrawalEndsARequeuedTask(t *testing.T) {
	b, p := apptest.NewNotifying(t)
	id, task := refused(b, p, nil)
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/ding", map[string]any{"status": "off"})
	ended := make(chan int, 1)
	err := b.App.DB.Tx(t.Context(), func(ctx context.Context) error {
		if n, err := b.App.Tasks.RequeueAll(ctx, []string{task}, "admin", ""); n != 1 || err != nil {
			t.Errorf("requeued %d, %v", n, err)
		}
		go func() { ended <- setStatus(b, 3, 1, 0, 1, 2, 5) }()
		b.AwaitLockWait()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := <-ended; n != 1 {
		t.Errorf("%d notifications ended", n)
	}
	if n, status := b.Notification(id), b.Task(task).Status; n.Status != api.NotificationCancelled || status != api.TaskCancelled {
		t.Errorf("the notification is %d, its task %d", n.Status, status)
	}
	b.Expect(409, "task.withdrawn", "POST", requeuePath(task), nil)
}

// If a sender returns a withdrawn message, the message is cancelled like a withdrawn message that waits.
func TestAReturnedTaskOfADeletedNotificationIsCancelled(t *testing.T) {
	b := apptest.New(t)
	b.PutContacts(map[string]any{"user_id": "u1", "phone": apptest.Phone})
	putTemplate(b, "sms", map[string]any{"title": "t", "content": "${taskName}"})
	createNotification(b, map[string]any{"biz_id": 3, "channels": []string{"sms"}, "user_ids": []string{"u1"}})
	task := b.Claim("phone", 1)[0].TaskID
	b.Expect(200, "", "DELETE", "/api/v1/notifications?biz_type=3&biz_ids=3", nil)
	b.Report(task, "phone", 3, apptest.Report{"should_retry": true})
	if n, err := b.App.Queue.Expire(t.Context()); n != 1 || err != nil {
		t.Error(n, err)
	}
	b.ExpectEffects(task, "reported retry", "cancelled cancelled")
	if got := b.Task(task); got.Status != api.TaskCancelled {
		t.Errorf("%+v", got)
	}
}

// A failed send-once message is sent again after a requeue or after a new request of its submitter, but not after both.
func TestASendOnceMessageIsRequeuedOrSentAgain(t *testing.T) {
	b, _, say := apptest.NewWeChat(t)
	say(`{"errcode":43101,"errmsg":"refused"}`)
	old := b.SendOnce(nil).TaskID
	onceBecomes(b, api.SendStatusFailed)
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/mini", map[string]any{"status": "off"})
	say(`{"errcode":0,"msgid":7}`)
	b.Expect(200, "", "POST", requeuePath(old), nil)
	if once := b.SendOnce(map[string]any{"retry": true}); !*once.Deduplicated || once.TaskID != old {
		t.Errorf("while the requeued task waits: %+v", once)
	}
	b.Expect(200, "", "POST", "/api/v1/sms/task/"+old+"/cancel", nil)
	again := b.SendOnce(map[string]any{"retry": true})
	if *again.Deduplicated || again.TaskID == old {
		t.Fatalf("%+v", again)
	}
	b.Expect(409, "task.withdrawn", "POST", requeuePath(old), nil)
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/mini", map[string]any{"status": "on"})
	if once := onceBecomes(b, api.SendStatusSent); once.TaskID != again.TaskID {
		t.Errorf("%+v", once)
	}
}
