package notification_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/platform/optional"
	"lksms/internal/testkit/apptest"
)

// namers are two users of a company and an admin. All three create the same notification or message.
type namers struct {
	*apptest.Bundle

	acme, colleague []string
}

func newNamers(t *testing.T, b *apptest.Bundle) namers {
	t.Helper()
	n := namers{Bundle: b, acme: b.AddCompany("acme", 1)}
	n.colleague = b.AddUser("colleague", "submit", map[string]any{"company_no": "acme"})
	b.Expect(200, "", "PUT", "/api/v1/admin/contacts", map[string]any{"company_no": "acme", "contacts": []any{
		map[string]any{"user_id": "u1", "dingtalk_name": "ding-u1", "wechat_openid": "open-u1"},
	}})
	return n
}

// each sends a request three times: as a user of the company, as another user of the company, and as an admin for the company.
func (n namers) each(path string, body map[string]any) (all []apptest.Answer) {
	n.T.Helper()
	for _, headers := range [][]string{n.acme, n.colleague} {
		all = append(all, n.Expect(200, "", "POST", path, body, headers...))
	}
	body["company_no"] = "acme"
	return append(all, n.Expect(200, "", "POST", path, body))
}

func TestTwoUsersAndAnAdminNotifyAPersonOnce(t *testing.T) {
	b, p := apptest.NewNotifying(t)
	n := newNamers(t, b)
	body := map[string]any{
		"biz_type": 3, "biz_id": 1, "channels": []string{"dingtalk"}, "payload": map[string]any{"taskName": "x"}, "user_ids": []string{"u1"}, "dedup_key": "k",
	}
	var first int64
	for i, a := range n.each("/api/v1/notifications", body) {
		made := apptest.Decode[api.NotificationsMade](t, a).Items[0]
		if i == 0 {
			first = made.NotificationID
			b.AwaitNotification(first, api.NotificationSuccess)
		} else if !made.Deduplicated || made.NotificationID != first {
			t.Errorf("%d: %+v", i, made)
		}
	}
	if len(p.Seen()) != 1 {
		t.Errorf("%d messages were sent", len(p.Seen()))
	}
	b.Expect(403, "auth.other_company", "POST", "/api/v1/notifications", map[string]any{
		"biz_type": 3, "biz_id": 1, "channels": []string{"dingtalk"}, "payload": map[string]any{"taskName": "x"}, "user_ids": []string{"u1"}, "company_no": "default",
	}, n.acme...)
	body["company_no"] = "nobody"
	if a := b.Expect(422, "request.invalid", "POST", "/api/v1/notifications", body); a.Fields() != "company_no" {
		t.Errorf("wrong fields %s", a.Fields())
	}
}

func TestTwoUsersAndAnAdminSendAPersonOneSubscribeMessage(t *testing.T) {
	b, p, _ := apptest.NewWeChat(t)
	n := newNamers(t, b)
	body := apptest.SendOnceBody(map[string]any{"receiver_user_id": "u1", "retry": true})
	var first int64
	for i, a := range n.each("/api/v1/subscribe-messages", body) {
		one := apptest.Decode[api.Once](t, a)
		if i == 0 {
			first = one.MessageID
			apptest.Eventually(t, "the message is sent", func() bool { return apptest.SentToWeChat(p) == 1 })
		} else if !*one.Deduplicated || one.MessageID != first || one.SubmittedBy != "user-of-acme" {
			t.Errorf("%d: %+v", i, one)
		}
	}
	if n := apptest.SentToWeChat(p); n != 1 {
		t.Errorf("sent %d times", n)
	}
	// The previous version stored one message for each submitter. A sent message counts for every user of the company.
	b.Exec("INSERT INTO subscribe_messages (company_id, submitted_by, business_type, business_id, template_type, receiver_user_id, template_id, task_id) SELECT company_id, 'before', business_type, business_id, template_type, receiver_user_id, template_id, task_id FROM subscribe_messages")
	b.Exec("UPDATE subscribe_messages SET is_companys = false")
	if one := apptest.Decode[api.Once](t, b.Expect(200, "", "POST", "/api/v1/subscribe-messages", body)); !*one.Deduplicated || one.MessageID != first {
		t.Errorf("%+v", one)
	}
}

// If rows of the previous version share a key, each row keeps the key. The next request with this key gets the oldest row.
func TestTheOldestNotificationCountsForASharedKey(t *testing.T) {
	b, p := apptest.NewNotifying(t)
	made := createNotification(b, map[string]any{"dedup_key": "k", "user_ids": []string{"u1"}})
	b.AwaitNotification(made.NotificationID, api.NotificationSuccess)
	b.Exec("UPDATE notifications SET is_companys = false, submitted_by = 'one'")
	b.Exec("INSERT INTO notifications (company_id, channel_id, biz_type, biz_id, dedup_key, submitted_by, announcement_id) SELECT company_id, channel_id, biz_type, biz_id, dedup_key, 'two', announcement_id FROM notifications")
	for _, headers := range [][]string{b.AddUser("two", "submit", nil), nil} {
		again := apptest.Decode[api.NotificationsMade](t, b.Expect(200, "", "POST", "/api/v1/notifications", map[string]any{
			"biz_type": 3, "biz_id": 1, "channels": []string{"dingtalk"}, "payload": map[string]any{"taskName": "x"}, "user_ids": []string{"u1"}, "dedup_key": "k",
		}, headers...)).Items[0]
		if !again.Deduplicated || again.NotificationID != made.NotificationID {
			t.Errorf("%+v", again)
		}
	}
	if len(p.Seen()) != 1 {
		t.Errorf("sent %v", p.Seen())
	}
}

func TestAnUnsendableNotificationReleasesItsKey(t *testing.T) {
	for name, c := range map[string]struct {
		wrong, right map[string]any
		mend         func(b *apptest.Bundle)
		remark       string
	}{
		"parameter": {wrong: map[string]any{"payload": map[string]any{"other": "x"}}, remark: "taskName"},
		"template": {mend: func(b *apptest.Bundle) {
			putTemplate(b, "dingtalk", map[string]any{"title": "t", "content": "${taskName}"})
		}, remark: "模板"},
		"address": {wrong: map[string]any{"user_ids": []string{"nobody"}}, remark: "地址"},
	} {
		t.Run(name, func(t *testing.T) {
			b, p := apptest.NewNotifying(t)
			if c.mend != nil {
				b.Expect(200, "", "DELETE", "/api/v1/admin/notification-templates/3/dingtalk", nil)
			}
			event := func(more map[string]any) api.NotificationMade {
				t.Helper()
				return postEvent(b, "task_finished", more).Items[0]
			}
			named := func(more map[string]any) api.NotificationMade {
				t.Helper()
				all := map[string]any{"dedup_key": "k", "user_ids": []string{"u1"}}
				for k, v := range more {
					all[k] = v
				}
				return createNotification(b, all)
			}
			for i, post := range []func(map[string]any) api.NotificationMade{event, named} {
				failed := post(c.wrong)
				if failed.Status != api.NotificationFailed || failed.Replaces != nil {
					t.Fatalf("%+v", failed)
				}
				if c.mend != nil && i == 0 {
					c.mend(b)
				} else if c.mend != nil {
					continue // the template exists now
				}
				made := post(c.right)
				if made.Deduplicated || made.Replaces == nil || made.Replaces.NotificationID != failed.NotificationID || !strings.Contains(made.Replaces.Remark, c.remark) {
					t.Fatalf("%+v %+v", made, made.Replaces)
				}
				b.AwaitNotification(made.NotificationID, api.NotificationSuccess)
				if again := post(c.right); !again.Deduplicated || again.NotificationID != made.NotificationID || again.Replaces != nil {
					t.Errorf("%+v", again)
				}
				if n := b.Notification(failed.NotificationID); n.Status != api.NotificationFailed {
					t.Errorf("%+v", n)
				}
				if c.mend != nil {
					break
				}
			}
			if len(p.Seen()) == 0 {
				t.Error("nobody was notified")
			}
		})
	}
}

// A block cancels the message of the only person, so nobody was notified. A user who cancels the message does not want a repeat.
func TestABlockedNotificationReleasesItsKey(t *testing.T) {
	b, _ := apptest.NewNotifying(t)
	b.PutSMSTemplate(nil)
	post := func(key string) api.NotificationMade {
		t.Helper()
		return createNotification(b, map[string]any{"channels": []string{"sms"}, "dedup_key": key, "user_ids": []string{"u1"}})
	}
	blocked := post("blocked")
	b.Expect(200, "", "POST", "/api/v1/blocks", map[string]any{"phone_number": apptest.Phone, "scope": "all", "company_no": "default"})
	if s := b.Notification(blocked.NotificationID).Status; s != api.NotificationCancelled {
		t.Fatalf("the status is %d", s)
	}
	b.Expect(200, "", "DELETE", "/api/v1/blocks/"+url.PathEscape(apptest.Phone)+"?company_no=default", nil)
	again := post("blocked")
	if again.Deduplicated || again.Replaces == nil || again.Replaces.NotificationID != blocked.NotificationID || again.Replaces.Remark != "收件人已退订或被屏蔽" {
		t.Errorf("%+v %+v", again, again.Replaces)
	}
	cancelled := post("cancelled")
	b.Expect(200, "", "POST", "/api/v1/sms/task/"+apptest.Scan[string](b, "SELECT max(task_id) FROM queue")+"/cancel", nil)
	if again := post("cancelled"); !again.Deduplicated || again.NotificationID != cancelled.NotificationID {
		t.Errorf("%+v", again)
	}
}

func TestConcurrentAttemptsAfterAFailureNotifyOnce(t *testing.T) {
	b, p := apptest.NewNotifying(t)
	postEvent(b, "task_finished", map[string]any{"payload": map[string]any{"other": "x"}, "user_ids": []string{"u1"}})
	made := make([]api.NotificationMade, 8) // on a slow machine, more would wait too long for each other
	apptest.Together(len(made), func(i int) {
		made[i] = postEvent(b, "task_finished", map[string]any{"user_ids": []string{"u1"}}).Items[0]
	})
	firsts := 0
	for _, m := range made {
		if !m.Deduplicated {
			firsts++
		}
		if m.NotificationID != made[0].NotificationID {
			t.Errorf("%d and %d", m.NotificationID, made[0].NotificationID)
		}
	}
	b.AwaitNotification(made[0].NotificationID, api.NotificationSuccess)
	if firsts != 1 || len(p.Seen()) != 1 {
		t.Errorf("%d answers are no repeats, sent %v", firsts, p.Seen())
	}
}

// The message of an expired lease was possibly sent, so the notification keeps its key.
func TestANotificationThatMayHaveBeenSentKeepsItsKey(t *testing.T) {
	b, _ := apptest.NewNotifying(t)
	b.AddSender(map[string]any{"sender_no": "mail", "channel": "email"})
	putTemplate(b, "email", map[string]any{"title": "t", "content": "${taskName}"})
	b.Expect(200, "", "PATCH", "/api/v1/admin/channels/email", map[string]any{"retry_minutes": []int{}})
	post := func() api.NotificationMade {
		t.Helper()
		return createNotification(b, map[string]any{"channels": []string{"email"}, "dedup_key": "k", "user_ids": []string{"u1"}})
	}
	made := post()
	for range 10 {
		if len(b.Take("mail", 1)) == 0 {
			break
		}
		b.ExpireLeases()
		b.Recover()
		b.Exec("UPDATE queue SET due_at = now()")
	}
	b.AwaitNotification(made.NotificationID, api.NotificationFailed)
	if again := post(); !again.Deduplicated || again.NotificationID != made.NotificationID {
		t.Errorf("%+v", again)
	}
}

func TestAChangedOrbitTimeMovesItsReminders(t *testing.T) {
	b, p := apptest.NewNotifying(t)
	now := time.Now().Truncate(time.Second)
	plan := func(no int, at time.Time) api.NotificationsMade {
		t.Helper()
		return postEvent(b, "orbit_plan", map[string]any{"orbits": []any{map[string]any{"orbit_no": no, "in_time": at}}})
	}
	waiting := func() (all []string) {
		t.Helper()
		for _, n := range apptest.Decode[api.NotificationPage](t, b.Expect(200, "", "GET", "/api/v1/notifications?status=0&limit=100", nil)).Items {
			all = append(all, fmt.Sprint(*n.DedupKey, " ", int(n.NextRunTime.Sub(now).Minutes())))
		}
		slices.Sort(all)
		return all
	}
	plan(8, now.Add(2*time.Hour)) // later plans do not move this orbit
	stays := waiting()
	first := plan(9, now.Add(2*time.Hour))
	b.Exec("UPDATE notifications SET next_run_at = now() WHERE id = $1", first.Items[0].NotificationID)
	runNotifications(b)
	b.AwaitNotification(first.Items[0].NotificationID, api.NotificationSuccess)
	moved := plan(9, now.Add(125*time.Minute)) // moved by less than reminderLife: a sent reminder is not sent again
	if moved.Ended != 4 || !moved.Items[0].Deduplicated || moved.Items[1].Deduplicated {
		t.Errorf("%+v", moved)
	}
	want := func(more ...string) {
		t.Helper()
		all := append(slices.Clone(stays), more...)
		if slices.Sort(all); !slices.Equal(waiting(), all) {
			t.Errorf("%v wait, want %v", waiting(), all)
		}
	}
	want("2_1001_9_0_1 125", "2_1001_9_15_1 110", "2_1001_9_30_1 95", "2_1001_9_45_1 80")
	if again := plan(9, now.Add(125*time.Minute)); again.Ended != 0 || !again.Items[4].Deduplicated {
		t.Errorf("%+v", again)
	}
	moved = plan(9, now.Add(4*time.Hour)) // moved by more: a sent reminder is not useful any more
	if moved.Ended != 4 || moved.Items[0].Deduplicated || b.Notification(first.Items[0].NotificationID).Status != api.NotificationSuccess {
		t.Errorf("%+v", moved)
	}
	want("2_1001_9_0_1 240", "2_1001_9_15_1 225", "2_1001_9_30_1 210", "2_1001_9_45_1 195", "2_1001_9_60_1 180")
	if moved = plan(9, now.Add(20*time.Minute)); moved.Ended != 5 || len(moved.Items) != 2 { // reminders in the past are withdrawn as well
		t.Errorf("%+v", moved)
	}
	want("2_1001_9_0_1 20", "2_1001_9_15_1 5")
	if len(p.Seen()) == 0 {
		t.Error("nobody was reminded")
	}
	b.Expect(422, "request.invalid", "POST", "/api/v1/notifications/events", map[string]any{
		"event": "orbit_plan", "task_id": 1, "channels": []string{"dingtalk"}, "user_ids": []string{"u1"},
		"orbits": []any{map[string]any{"orbit_no": 1, "in_time": now.Add(time.Hour)}, map[string]any{"orbit_no": 1, "in_time": now.Add(2 * time.Hour)}},
	})
}

// waitingKeys returns the dedup keys of waiting reminders, with the minutes from now until they are due, rounded down to a multiple of step.
func waitingKeys(b *apptest.Bundle, now time.Time, step int) string {
	b.T.Helper()
	all := []string{}
	for _, n := range apptest.Decode[api.NotificationPage](b.T, b.Expect(200, "", "GET", "/api/v1/notifications?status=0&limit=100", nil)).Items {
		if key := *n.DedupKey; strings.HasPrefix(key, "2_") || strings.HasPrefix(key, "5_") {
			all = append(all, fmt.Sprint(key, " ", int(n.NextRunTime.Sub(now).Minutes())/step*step))
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// An orbit has one time. A plan on some channels moves its reminders on all channels, so that nobody loses a reminder or gets one at the former time.
func TestAPlanOnFewerChannelsMovesTheRemindersOfAllChannels(t *testing.T) {
	b, _ := apptest.NewNotifying(t)
	now := time.Now().Truncate(time.Second)
	plan := func(minutes time.Duration, channels ...string) api.NotificationsMade {
		t.Helper()
		return postEvent(b, "orbit_plan", map[string]any{"channels": channels, "orbits": []any{map[string]any{"orbit_no": 9, "in_time": now.Add(minutes * time.Minute)}}})
	}
	plan(20, "oa", "dingtalk")
	moved := plan(25, "oa")
	if moved.Ended != 4 || len(moved.Items) != 4 {
		t.Errorf("%+v", moved)
	}
	if got := waitingKeys(b, now, 1); got != "2_1001_9_0_0 25, 2_1001_9_0_1 25, 2_1001_9_15_0 10, 2_1001_9_15_1 10" {
		t.Errorf("%s wait", got)
	}
	if again := plan(25, "dingtalk"); again.Ended != 0 || !again.Items[0].Deduplicated || !again.Items[1].Deduplicated {
		t.Errorf("%+v", again)
	}
	// Somebody cancels the reminders on one channel. A plan on another channel does not bring them back.
	b.Exec("UPDATE notifications SET ended_as = 3, next_run_at = NULL WHERE replaced_at IS NULL AND channel_id = (SELECT id FROM channels WHERE channel = 'dingtalk')")
	plan(22, "oa")
	if got := waitingKeys(b, now, 1); got != "2_1001_9_0_0 22, 2_1001_9_15_0 7" {
		t.Errorf("%s wait", got)
	}
}

// A start of a running node with another deadline moves its reminders on all channels. The same start again, or an earlier start, changes nothing.
func TestANewDeadlineOfARunningNodeMovesItsReminders(t *testing.T) {
	b, p := apptest.NewNotifying(t)
	now := time.Now().Truncate(time.Second)
	start := func(minutes int, more map[string]any) api.NotificationsMade {
		t.Helper()
		body := map[string]any{"node_inst_id": 7, "user_ids": []string{"u1"}, "max_duration": minutes, "started_at": now, "channels": []string{"dingtalk"}}
		for k, v := range more {
			if body[k] = v; v == nil {
				delete(body, k)
			}
		}
		return postEvent(b, "node_started", body)
	}
	want := func(ended int, made api.NotificationsMade, want string) {
		t.Helper()
		if got := waitingKeys(b, now, 5); got != want || made.Ended != ended {
			t.Errorf("ended %d, want %d; %s wait, want %s", made.Ended, ended, got, want)
		}
	}
	want(0, start(60, map[string]any{"channels": []string{"oa", "dingtalk"}}), "5_7_0 60, 5_7_1 60")
	want(0, start(60, nil), "5_7_0 60, 5_7_1 60")
	want(2, start(90, nil), "5_7_0 90, 5_7_1 90")
	want(0, start(90, nil), "5_7_0 90, 5_7_1 90")
	want(2, start(90, map[string]any{"started_at": now.Add(5 * time.Minute)}), "5_7_0 95, 5_7_1 95")
	want(0, start(30, nil), "5_7_0 95, 5_7_1 95") // an earlier start
	want(2, start(90, map[string]any{"started_at": now.Add(5 * time.Minute), "timeout_remind": 10}), "5_7_0 95, 5_7_1 95")
	want(0, start(90, map[string]any{"started_at": now.Add(5 * time.Minute), "payload": map[string]any{"taskName": "x", "nodeName": "y", "timeoutRemind": 10}}), "5_7_0 95, 5_7_1 95")
	want(2, start(45, map[string]any{"started_at": nil, "timeout_remind": 10}), "5_7_0 50, 5_7_1 50") // without a time, the start of the node stays
	want(0, start(45, map[string]any{"started_at": nil, "timeout_remind": 10}), "5_7_0 50, 5_7_1 50")
	want(2, postEvent(b, "node_finished", map[string]any{"node_inst_id": 7}), "")
	// A person who was reminded of the former deadline is reminded of the new deadline.
	node := map[string]any{"node_inst_id": 8, "started_at": now.Add(-time.Hour)}
	start(0, node)
	apptest.Eventually(t, "u1 is reminded", func() bool { return len(p.Seen()) == 1 })
	start(30, node)
	apptest.Eventually(t, "u1 is reminded again", func() bool { return len(p.Seen()) == 2 })
}

// A task that begins again notifies people again: of done nodes, orbits and its end. A repeated report of its former end changes nothing.
func TestATaskThatBeginsAgainNotifiesAgain(t *testing.T) {
	b, _ := apptest.NewNotifying(t)
	now := time.Now().Truncate(time.Second)
	orbits := map[string]any{"orbits": []any{map[string]any{"orbit_no": 9, "in_time": now.Add(20 * time.Minute)}}}
	node := map[string]any{"node_inst_id": 7}
	isNew := func(name string, more map[string]any, want bool) api.NotificationsMade {
		t.Helper()
		made := postEvent(b, name, more)
		if len(made.Items) == 0 || made.Items[0].Deduplicated == want {
			t.Errorf("%s: %+v", name, made)
		}
		return made
	}
	run := func(began time.Time) {
		t.Helper()
		end := map[string]any{"finished_at": began.Add(time.Minute)}
		isNew("node_started", map[string]any{"node_inst_id": 7, "max_duration": 600, "started_at": began}, true)
		isNew("orbit_plan", orbits, true)
		isNew("node_done", node, true)
		isNew("node_done", node, false)
		if ended := isNew("task_finished", end, true).Ended; ended != 3 {
			t.Errorf("%d reminders were ended", ended)
		}
		isNew("task_finished", end, false)
		isNew("task_abnormal", end, true)
	}
	isNew("task_created", nil, true)
	run(now.Add(-2 * time.Hour))
	isNew("node_done", node, false)
	run(now.Add(-time.Hour))
	isNew("task_created", nil, false)
	isNew("node_started", map[string]any{"node_inst_id": 7, "max_duration": 600, "started_at": now}, true)
	late := postEvent(b, "task_finished", map[string]any{"finished_at": now.Add(-59 * time.Minute)})
	if len(late.Items) != 0 || late.Ended != 0 || waitingKeys(b, now, 1) != "5_7_1 600" {
		t.Errorf("%+v, %s wait", late, waitingKeys(b, now, 1))
	}
	// A node that begins again, without its task, notifies people again when it is done.
	isNew("node_done", node, true)
	postEvent(b, "node_finished", node)
	isNew("node_started", map[string]any{"node_inst_id": 7, "max_duration": 600}, true)
	isNew("node_done", node, true)
}

func TestTheMaximumDurationOfANodeIsReadFromThePayload(t *testing.T) {
	b, _ := apptest.NewNotifying(t)
	begun := time.Now().Truncate(time.Second)
	body := func(limit any) map[string]any {
		return map[string]any{
			"event": "node_started", "task_id": 1, "node_inst_id": 7, "channels": []string{"dingtalk"}, "user_ids": []string{"u1"}, "started_at": begun,
			"payload": map[string]any{"taskName": "x", "nodeName": "y", "maxDuration": limit, "timeoutRemind": 30},
		}
	}
	made := apptest.Decode[api.NotificationsMade](t, b.Expect(200, "", "POST", "/api/v1/notifications/events", body(45))).Items[0]
	n := b.Notification(made.NotificationID)
	if n.NextRunTime == nil || !n.NextRunTime.Equal(begun.Add(45*time.Minute)) || optional.Value(n.RepeatMinutes) != 30 {
		t.Errorf("%+v", n)
	}
	for field, limit := range map[string]any{"max_duration": nil, "payload.maxDuration": "soon"} {
		if a := b.Expect(422, "request.invalid", "POST", "/api/v1/notifications/events", body(limit)); a.Fields() != field {
			t.Errorf("%v: wrong fields %s", limit, a.Fields())
		}
	}
	if a := b.Expect(422, "request.invalid", "POST", "/api/v1/notifications/events", body(-1)); a.Fields() != "payload.maxDuration" {
		t.Errorf("wrong fields %s", a.Fields())
	}
	if a := b.Expect(422, "request.invalid", "POST", "/api/v1/notifications", map[string]any{
		"biz_type": 5, "biz_id": 1, "channels": []string{"dingtalk"}, "user_ids": []string{"u1"}, "started_at": begun, "payload": map[string]any{"maxDuration": "soon"},
	}); a.Fields() != "payload.maxDuration" {
		t.Errorf("wrong fields %s", a.Fields())
	}
}

func TestNotificationsAndMessagesNameTheirSubmitters(t *testing.T) {
	w := apptest.NewTwoCompanies(t)
	n := w.Notification(1)
	if n.SubmittedBy == "" || n.ChangedBy != nil {
		t.Errorf("%+v", n)
	}
	for _, path := range []string{"/api/v1/notifications", "/api/v1/subscribe-messages"} {
		count := func(user string) int {
			t.Helper()
			page := apptest.Decode[struct {
				Items []struct {
					By string `json:"submitted_by"`
				}
			}](t, w.Expect(200, "", "GET", path+"?submitted_by="+user, nil))
			for _, one := range page.Items {
				if one.By != user {
					t.Errorf("%s shows one of %s", path, one.By)
				}
			}
			return len(page.Items)
		}
		if count(n.SubmittedBy) == 0 || count("stranger") != 0 {
			t.Errorf("%s: %d of %s, %d of a stranger", path, count(n.SubmittedBy), n.SubmittedBy, count("stranger"))
		}
	}
	task := apptest.Decode[api.Task](t, w.Expect(200, "", "GET", "/api/v1/sms/task/"+w.IDs["task"], nil))
	if task.SubmittedBy != n.SubmittedBy {
		t.Errorf("%+v", task)
	}
	w.Expect(200, "", "POST", "/api/v1/notifications/status", map[string]any{
		"biz_type": n.BizType, "biz_ids": []int64{n.BizID}, "status": 3, "expected_statuses": []int{0, 1, 2, 5}, "company_no": n.CompanyNo,
	})
	if changed := w.Notification(1); optional.Value(changed.ChangedBy) != apptest.Username || changed.SubmittedBy != n.SubmittedBy {
		t.Errorf("%+v", changed)
	}
}
