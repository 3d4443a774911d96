package queue_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/dispatch/queue"
	"lksms/internal/dispatch/quiet"
	"lksms/internal/platform/fault"
	"lksms/internal/testkit/apptest"
)

// quietBundle is a server whose sweeps of quiet hours a test runs.
type quietBundle struct{ *apptest.Bundle }

func (b quietBundle) move() {
	b.T.Helper()
	if _, err := b.App.Queue.MoveQuiet(b.T.Context()); err != nil {
		b.T.Fatal(err)
	}
}

// follow runs the sweep that holds and releases the tasks of switches.
func (b quietBundle) follow() {
	b.T.Helper()
	if _, err := b.App.Queue.FollowSwitches(b.T.Context()); err != nil {
		b.T.Fatal(err)
	}
}

func (b quietBundle) marketing(content string, more map[string]any) api.Submitted {
	b.T.Helper()
	body := map[string]any{"phone_number": apptest.Phone, "content": content, "message_type": "marketing"}
	for k, v := range more {
		body[k] = v
	}
	return b.SubmitBody(body)
}

// apply makes the sweep apply a change of quiet hours to all waiting tasks, including the tasks that other servers added meanwhile.
func (b quietBundle) apply() {
	b.T.Helper()
	b.Exec("UPDATE quiet_changes SET begins_at = now()")
	b.move()
	if n := b.Count("SELECT count(*) FROM quiet_changes"); n != 0 {
		b.T.Errorf("%d changes are left", n)
	}
}

// R5: the clock of PostgreSQL decides when quiet hours end, although the clock of the server can be ahead. Explain uses the same clock.
func TestAServerWhoseClockIsAheadSendsNothingInQuietHours(t *testing.T) {
	b := quietBundle{apptest.NewWithClock(t)}
	b.SetQuiet("marketing", -3*time.Hour, -2*time.Minute)
	b.Exec("UPDATE clock.hand SET ahead = '-5 minutes'")
	failed := b.marketing("failed", map[string]any{"priority": 0}).TaskID // passes quiet hours
	b.Claim("app", 1)
	b.Report(failed, "app", 3, nil)
	id := b.marketing("sale", nil).TaskID
	b.Expect(200, "", "POST", "/api/v1/sms/task/"+failed+"/requeue", map[string]any{})
	if got := b.ClaimIDs(10); !slices.Equal(got, []string{failed}) {
		t.Errorf("claimed %v", got)
	}
	if e := b.Explain(id); e.Reason != api.BecauseQuiet {
		t.Errorf("the explanation is %s: %s", e.Reason, e.Summary)
	}
	b.Exec("UPDATE clock.hand SET ahead = '-1 minute'")
	b.move()
	if got := b.ClaimIDs(10); !slices.Equal(got, []string{id}) {
		t.Errorf("after the quiet hours, claimed %v", got)
	}
}

// R5: no claim returns a marketing message in quiet hours. The message is due within half an hour after their end. Other messages do not wait.
func TestMessagesWaitForTheEndOfQuietHours(t *testing.T) {
	b := quietBundle{apptest.New(t)}
	b.SetQuiet("marketing", -2*time.Hour, 3*time.Hour)
	id := b.marketing("sale", nil).TaskID
	urgent := b.marketing("recall", map[string]any{"priority": 0}).TaskID
	code := b.SubmitBody(map[string]any{"phone_number": apptest.Phone, "content": "code", "message_type": "verification"}).TaskID
	notice := b.SubmitBody(map[string]any{"phone_number": apptest.Phone, "content": "notice", "message_type": "notification"}).TaskID
	abroad := b.marketing("sale in New York", map[string]any{"phone_number": "+12125550123"}).TaskID
	for range 2 { // before and after the sweep
		if e := b.Explain(id); e.Reason != api.BecauseQuiet || e.IsDue || e.DueAt == nil || e.DueAt.Before(time.Now().Add(2*time.Hour)) {
			t.Errorf("the explanation is %s: %s, due at %v, is_due %t", e.Reason, e.Summary, e.DueAt, e.IsDue)
		}
		got := b.ClaimIDs(10)
		if slices.Contains(got, id) || len(got) == 0 && b.Task(urgent).Status == 0 {
			t.Fatalf("claimed %v", got)
		}
		b.move()
	}
	for _, other := range []string{urgent, code, notice, abroad} {
		if s := b.Task(other).Status; s != api.TaskProcessing {
			t.Errorf("another message has the status %d", s)
		}
	}
	due := apptest.Scan[time.Time](b.Bundle, "SELECT due_at FROM queue WHERE task_id = $1", id)
	end := time.Now().Add(3 * time.Hour).Truncate(time.Minute)
	if due.Before(end.Add(-time.Minute)) || due.After(end.Add(quiet.Spread+time.Minute)) {
		t.Errorf("due at %v, quiet until %v", due, end)
	}
	if n := b.Count("SELECT count(*) FROM queue WHERE task_id = $1 AND lane IS NULL AND quiet_from > due_at", id); n != 1 {
		t.Error("the task is still queued, or its next quiet hours are unknown")
	}
}

// R5: a lease ends when quiet hours begin, and the sender learns until when it can send.
func TestLeasesEndWhenQuietHoursBegin(t *testing.T) {
	b := quietBundle{apptest.New(t)}
	b.SetQuiet("marketing", 10*time.Minute, 5*time.Hour)
	b.marketing("sale", nil)
	begins := time.Now().Add(10 * time.Minute)
	tasks := b.Claim("app", 1)
	if len(tasks) != 1 || tasks[0].ExpiresAt == nil || tasks[0].ExpiresAt.After(begins) || tasks[0].LeaseUntil.After(begins) || tasks[0].ExpiresAt.Before(begins.Add(-time.Minute)) {
		t.Errorf("claimed %+v, quiet from %v", tasks, begins)
	}
}

// claimUntilQuiet submits a message, claims it with a lease that ends when quiet hours begin, and moves the time to after this end.
func (b quietBundle) claimUntilQuiet(onUnclear string, after time.Duration) api.ClaimedTask {
	b.T.Helper()
	b.AddSender(map[string]any{"sender_no": "app", "on_unclear": onUnclear, "balance": 5})
	b.SetQuiet("marketing", 2*time.Minute, 5*time.Hour)
	b.marketing("sale", nil)
	task := b.Claim("app", 1)[0]
	if task.ExpiresAt == nil || !task.LeaseUntil.Equal(*task.ExpiresAt) {
		b.T.Fatalf("claimed %+v", task)
	}
	pass(b.Bundle, time.Until(task.LeaseUntil)+after)
	b.SetQuiet("marketing", -time.Minute, 5*time.Hour)
	return task
}

// expectQuiet checks that a task waits for the end of the quiet hours, and how many attempts it had.
func (b quietBundle) expectQuiet(id string, retries int16) {
	b.T.Helper()
	b.move()
	if got := b.Task(id); got.Status != api.TaskPending || got.RetryCount != retries || time.Until(*got.DueAt) < 5*time.Hour-2*time.Minute {
		b.T.Errorf("the task is %+v", got)
	}
}

// R5: the sender can have sent the message just before quiet hours began, and no other sender can receive the task in quiet hours. A report therefore counts for a
// limited time after the lease, as after the expiry of a task.
func TestReportCountsShortlyAfterQuietHoursBegin(t *testing.T) {
	for name, c := range map[string]struct {
		report apptest.Report
		status api.TaskStatus
		want   string
	}{
		"sent":    {apptest.Report{"status": 2}, api.TaskSuccess, "reported success"},
		"refused": {apptest.Report{"status": 3, "should_retry": false}, api.TaskFailed, "reported failed"},
		"retry":   {apptest.Report{"status": 3, "should_retry": true}, api.TaskPending, "reported retry"},
	} {
		t.Run(name, func(t *testing.T) {
			b := quietBundle{apptest.New(t)}
			id := b.claimUntilQuiet("fail", 4*time.Second).TaskID
			if n := b.Recover(); n != 0 {
				t.Errorf("recovered %d leases whose senders can still report", n)
			}
			b.Report(id, "app", 3, c.report)
			b.ExpectEffects(id, c.want)
			if got := b.Task(id); got.Status != c.status {
				t.Errorf("%+v", got)
			}
			if c.status == api.TaskPending {
				b.expectQuiet(id, 1)
			}
		})
	}
}

// R5: a sender can return a task shortly after quiet hours began. The task then waits for their end as before, and the attempt does not count.
func TestLeaseCanBeReleasedShortlyAfterQuietHoursBegin(t *testing.T) {
	b := quietBundle{apptest.New(t)}
	task := b.claimUntilQuiet("fail", 4*time.Second)
	b.Recover()
	if n, err := b.App.Queue.Release(t.Context(), "app", []queue.Unused{{TaskID: task.TaskID, LeaseID: task.LeaseID}}); n != 1 || err != nil {
		t.Fatalf("gave back %d, %v", n, err)
	}
	b.ExpectEffects(task.TaskID, "released untried")
	b.expectQuiet(task.TaskID, 0)
	if s := b.GetSender("app"); *s.Balance != 5 {
		t.Errorf("the sender was charged for a message that it did not send: %+v", s)
	}
}

// R5: without a report, on_unclear decides what follows from a lease that ended when quiet hours began.
func TestRecoveryTakesBackALeaseThatEndedInQuietHours(t *testing.T) {
	for onUnclear, want := range map[string]string{"retry": "recovered retry", "fail": "recovered unclear"} {
		t.Run(onUnclear, func(t *testing.T) {
			b := quietBundle{apptest.New(t)}
			id := b.claimUntilQuiet(onUnclear, time.Minute+time.Second).TaskID
			if n := b.Recover(); n != 1 {
				t.Errorf("recovered %d leases, want 1", n)
			}
			b.ExpectEffects(id, want)
			if onUnclear == "retry" {
				b.expectQuiet(id, 1)
			}
		})
	}
}

// R5: no claim returns a message in the last 30 seconds before quiet hours, because its lease would end at once. Explain says that the message waits for their end.
func TestExplanationShortlyBeforeQuietHours(t *testing.T) {
	b := quietBundle{apptest.NewWithClock(t)}
	b.AddSender(map[string]any{"sender_no": "app"})
	b.SetQuiet("marketing", 2*time.Minute, 5*time.Hour)
	id := b.marketing("sale", nil).TaskID
	setLeft := func(left time.Duration) {
		b.Exec("UPDATE clock.hand SET ahead = ahead + ((SELECT quiet_from FROM queue) - now() - $1::interval)", left)
		b.Exec("UPDATE sender_states SET seen_at = now()")
	}
	setLeft(40 * time.Second)
	if e := b.Explain(id); e.Reason != api.BecauseQueued || !e.IsDue {
		t.Errorf("the explanation is %s: %s", e.Reason, e.Summary)
	}
	setLeft(20 * time.Second)
	if e := b.Explain(id); e.Reason != api.BecauseQuiet || e.IsDue || time.Until(*e.DueAt) < 5*time.Hour-2*time.Minute {
		t.Errorf("20 seconds before the quiet hours, the explanation is %s: %s, due at %v", e.Reason, e.Summary, e.DueAt)
	}
	if got := b.ClaimIDs(1); len(got) > 0 {
		t.Errorf("claimed %v", got)
	}
}

// R5: a message that is due in the last 30 seconds before quiet hours waits for their end. Claims, dry runs and the check of expires_at use the same 30 seconds.
func TestMessagesDueShortlyBeforeQuietHoursWaitForTheirEnd(t *testing.T) {
	b := quietBundle{apptest.New(t)}
	b.SetQuiet("marketing", time.Hour, 5*time.Hour)
	begins := time.Now().Add(time.Hour).Truncate(time.Minute)
	for left, isQuiet := range map[time.Duration]bool{29 * time.Second: true, 31 * time.Second: false} {
		body := map[string]any{"phone_number": apptest.Phone, "content": "sale", "message_type": "marketing", "expect_send_time": begins.Add(-left)}
		dry := apptest.Decode[api.Submitted](t, b.Expect(200, "", "POST", "/api/v1/sms/send?dry_run=true", body))
		if *dry.Verdict != api.WouldBeScheduled || (dry.Reason != nil) != isQuiet {
			t.Errorf("%v before quiet hours: %s, %v until %v", left, *dry.Verdict, dry.Reason, dry.DueAt)
		}
		isSkipped := apptest.Scan[bool](b.Bundle, `SELECT quiet_begins(jsonb_populate_record(NULL::queue, jsonb_build_object('quiet_from', now() + $1::interval)))`, left)
		if isSkipped != isQuiet {
			t.Errorf("%v before quiet hours: claims skip the task: %t", left, isSkipped)
		}
		body["expires_at"] = begins.Add(time.Hour)
		status := 200
		if isQuiet {
			status = 422
		}
		if a := b.Call("POST", "/api/v1/sms/send", body); a.Status != status {
			t.Errorf("%v before quiet hours: a message that expires in them gets %d %s", left, a.Status, a.Raw)
		}
	}
}

// R5: retries, requeued messages and messages that become due in quiet hours also wait for the end of quiet hours.
func TestRetriesAndScheduledMessagesWaitForTheEndOfQuietHours(t *testing.T) {
	b := quietBundle{apptest.New(t)}
	retried, ended := b.marketing("to retry", nil).TaskID, b.marketing("to requeue", nil).TaskID
	b.Claim("app", 2)
	b.Report(retried, "app", 3, apptest.Report{"should_retry": true})
	b.Report(ended, "app", 3, apptest.Report{"should_retry": false})
	soon := b.marketing("scheduled", map[string]any{"expect_send_time": time.Now().Add(time.Hour)}).TaskID
	later := b.marketing("scheduled for later", map[string]any{"expect_send_time": time.Now().Add(7 * time.Hour)}).TaskID
	b.SetQuiet("marketing", -time.Hour, 5*time.Hour)
	b.apply()
	b.Expect(200, "", "POST", "/api/v1/sms/task/"+ended+"/requeue", nil)
	b.move()
	for name, id := range map[string]string{"retry": retried, "requeued": ended, "scheduled": soon} {
		if due := apptest.Scan[time.Time](b.Bundle, "SELECT due_at FROM queue WHERE task_id = $1", id); time.Until(due) < 5*time.Hour-2*time.Minute {
			t.Errorf("%s: due at %v", name, due)
		}
	}
	if due := apptest.Scan[time.Time](b.Bundle, "SELECT due_at FROM queue WHERE task_id = $1", later); time.Until(due) < 6*time.Hour || time.Until(due) > 7*time.Hour {
		t.Errorf("a message that is scheduled after the quiet hours is due at %v", due)
	}
	if e := b.Explain(later); e.Reason != api.BecauseScheduled {
		t.Errorf("its explanation is %s", e.Reason)
	}
}

// R5: a message that is scheduled for a time in quiet hours waits for their end from the beginning, before and after the sweep, although it is not quiet yet.
func TestExplanationOfAMessageScheduledIntoQuietHours(t *testing.T) {
	b := quietBundle{apptest.New(t)}
	b.SetQuiet("marketing", time.Hour, 5*time.Hour)
	end := time.Now().Add(5 * time.Hour).Truncate(time.Minute)
	within := b.marketing("sale", map[string]any{"expect_send_time": time.Now().Add(2 * time.Hour)}).TaskID
	after := b.marketing("sale of tomorrow", map[string]any{"expect_send_time": end.Add(5 * time.Minute)}).TaskID
	for range 2 { // before and after the sweep
		e := b.Explain(within)
		if e.Reason != api.BecauseQuiet || e.IsDue || e.DueAt == nil || e.DueAt.Before(end) || e.DueAt.After(end.Add(quiet.Spread)) {
			t.Errorf("the explanation is %s: %s, due at %v, quiet until %v", e.Reason, e.Summary, e.DueAt, end)
		}
		if e := b.Explain(after); e.Reason != api.BecauseScheduled {
			t.Errorf("shortly after the quiet hours, the explanation is %s", e.Reason)
		}
		b.move()
	}
	b.SetQuiet("marketing", -time.Hour, 5*time.Hour)
	b.apply()
	if e := b.Explain(after); e.Reason != api.BecauseScheduled {
		t.Errorf("in the quiet hours, the explanation of a message that is scheduled after them is %s", e.Reason)
	}
}

// R5: a message that expires before the end of quiet hours is refused. A dry run says when the message would be sent.
func TestMessagesThatExpireBeforeQuietHoursEndAreRefused(t *testing.T) {
	b := quietBundle{apptest.New(t)}
	b.SetQuiet("marketing", -time.Hour, 5*time.Hour)
	body := map[string]any{"phone_number": apptest.Phone, "content": "sale", "message_type": "marketing", "expires_at": time.Now().Add(4 * time.Hour)}
	for _, query := range []string{"", "?dry_run=true"} {
		if a := b.Expect(422, "request.invalid", "POST", "/api/v1/sms/send"+query, body); a.Fields() != "expires_at" {
			t.Errorf("%s", a.Raw)
		}
	}
	body["expires_at"] = time.Now().Add(6 * time.Hour)
	dry := apptest.Decode[api.Submitted](t, b.Expect(200, "", "POST", "/api/v1/sms/send?dry_run=true", body))
	if *dry.Verdict != api.WouldBeScheduled || *dry.Reason != api.DelayQuietHours || time.Until(*dry.DueAt) < 5*time.Hour-2*time.Minute {
		t.Errorf("%+v", dry)
	}
	body["test"] = true
	b.Expect(200, "", "POST", "/api/v1/sms/send", body)
	if n := b.Count("SELECT count(*) FROM messages"); n != 1 {
		t.Errorf("%d messages", n)
	}
}

// R5: a task that expires before the end of quiet hours is not requeued.
func TestTasksThatExpireBeforeQuietHoursEndAreNotRequeued(t *testing.T) {
	b := quietBundle{apptest.New(t)}
	var ids []string
	now := time.Now()
	for _, more := range []map[string]any{
		{"expires_at": now.Add(time.Hour)}, {"expires_at": now.Add(26 * time.Hour), "expect_send_time": now.Add(24 * time.Hour)}, {"expires_at": now.Add(6 * time.Hour)},
	} {
		id := b.marketing("sale", more).TaskID
		b.Expect(200, "", "POST", "/api/v1/sms/task/"+id+"/cancel", nil)
		ids = append(ids, id)
	}
	b.SetQuiet("marketing", -time.Hour, 5*time.Hour)
	for _, id := range ids[:2] {
		b.Expect(409, "task.expired", "POST", "/api/v1/sms/task/"+id+"/requeue", nil)
	}
	requeued, refused, err := b.App.Tasks.RequeueEach(t.Context(), ids, "admin", "")
	if err != nil || requeued != 1 || refused[fault.TaskExpired] != 2 {
		t.Errorf("requeued %d, refused %v, %v", requeued, refused, err)
	}
	if s := b.Task(ids[0]).Status; s != api.TaskCancelled {
		t.Errorf("the task has the status %d", s)
	}
}

// R5: if quiet hours become longer or shorter, this applies to waiting messages, even to a message that another server added with the former hours.
func TestChangesOfQuietHoursApplyToWaitingMessages(t *testing.T) {
	b := quietBundle{apptest.New(t)}
	id := b.marketing("sale", nil).TaskID
	b.SetQuiet("marketing", -time.Hour, 5*time.Hour)
	b.apply()
	if got := b.ClaimIDs(1); len(got) > 0 {
		t.Errorf("claimed %v", got)
	}
	b.SetHours("marketing", "")
	b.apply()
	if due := apptest.Scan[time.Time](b.Bundle, "SELECT due_at FROM queue WHERE task_id = $1", id); time.Until(due) > 0 {
		t.Errorf("without quiet hours, the message is due at %v", due)
	}
	if got := fmt.Sprint(b.ClaimIDs(1)); got != fmt.Sprint([]string{id}) {
		t.Errorf("claimed %v", got)
	}
}

// R5: without quiet hours, a retry waits only for its own delay, even if its message waited for the end of quiet hours before the first attempt.
func TestChangesOfQuietHoursApplyToRetries(t *testing.T) {
	b := quietBundle{apptest.New(t)}
	setQuiet := func(hours time.Duration) {
		b.SetQuiet("marketing", -time.Hour, hours)
		b.apply()
	}
	id := b.marketing("sale", nil).TaskID
	setQuiet(5 * time.Hour)
	b.SetHours("marketing", "")
	b.apply()
	b.Claim("app", 1)
	b.Report(id, "app", 3, apptest.Report{"should_retry": true, "retry_after_seconds": 1200})
	due := b.Task(id).DueAt
	b.Exec("UPDATE queue SET quiet_from = now() + interval '8 hours'") // the next quiet hours, although their change is not yet stored
	for _, status := range []string{"off", "on"} {
		b.Expect(200, "", "PATCH", "/api/v1/admin/channels/sms", map[string]any{"status": status})
		b.follow()
	}
	if got := b.Task(id).DueAt; !got.Equal(*due) {
		t.Errorf("after a switch, the retry is due at %v, want %v", got, due)
	}
	setQuiet(5 * time.Hour)
	if got := b.Task(id).DueAt; time.Until(*got) < 5*time.Hour-2*time.Minute {
		t.Errorf("in quiet hours, the retry is due at %v", got)
	}
	setQuiet(2 * time.Hour)
	if got := b.Task(id).DueAt; time.Until(*got) < 2*time.Hour-2*time.Minute || time.Until(*got) > 3*time.Hour {
		t.Errorf("in shorter quiet hours, the retry is due at %v", got)
	}
	b.SetHours("marketing", "")
	b.apply()
	if got := b.Task(id).DueAt; !got.Equal(*due) || b.Explain(id).Reason != api.BecauseRetryLater {
		t.Errorf("without quiet hours, the retry is due at %v, want %v", got, due)
	}
}

// R5: a message that waits for the end of quiet hours, and is held meanwhile, is sent after its release as if it had not been held.
func TestChangesOfQuietHoursApplyToHeldMessages(t *testing.T) {
	holds := map[string]func(b quietBundle) (resume func()){
		"a country": func(b quietBundle) func() {
			b.Expect(200, "", "PATCH", "/api/v1/admin/countries/CN", map[string]any{"status": "off"})
			b.follow()
			return func() {
				b.Expect(200, "", "PATCH", "/api/v1/admin/countries/CN", map[string]any{"status": "on"})
				b.follow()
			}
		},
		"a batch": func(b quietBundle) func() {
			hold(b.Bundle, 1)
			return func() { release(b.Bundle, 1) }
		},
	}
	for name, holdTask := range holds {
		t.Run(name, func(t *testing.T) {
			b := quietBundle{apptest.New(t)}
			b.AddCountry("CN", "86", nil)
			b.SetQuiet("marketing", -time.Hour, 5*time.Hour)
			id := submitBatch(b.Bundle, 7, 1, nil)[0]
			b.move()
			resume := holdTask(b)
			if due := b.Task(id).DueAt; due != nil {
				t.Fatalf("the task is due at %v", due)
			}
			resume() // the quiet hours are still the same
			b.move()
			if due := b.Task(id).DueAt; due == nil || time.Until(*due) < 5*time.Hour-2*time.Minute || b.Explain(id).Reason != api.BecauseQuiet {
				t.Errorf("released in quiet hours, the task is due at %v", due)
			}
			resume = holdTask(b)
			b.SetHours("marketing", "")
			b.apply()
			resume()
			b.move()
			if got := b.ClaimIDs(1); !slices.Equal(got, []string{id}) {
				t.Errorf("without quiet hours, claimed %v, due at %v", got, b.Task(id).DueAt)
			}
		})
	}
}

func TestQuietHoursOfACompanyAreValidated(t *testing.T) {
	b := quietBundle{apptest.New(t)}
	for _, bad := range []string{"21:00", "21:00-24:00", "9:00-10:00", "21:00 09:00", "09:00-09:00", "08:00-06:00"} {
		body := map[string]any{"recipient": map[string]any{"quiet_hours": map[string]any{"marketing": bad}}}
		if a := b.Expect(422, "request.invalid", "PATCH", "/api/v1/admin/companies/default", body); a.Fields() != "recipient.quiet_hours.marketing" {
			t.Errorf("%s: %s", bad, a.Raw)
		}
		b.Expect(422, "request.invalid", "PUT", "/api/v1/admin/settings", map[string]any{"recipient": map[string]any{"quiet_hours_marketing": bad}})
	}
	for _, bad := range []string{"Mars/Base", "Local", "localtime", "posixrules", "../etc/passwd"} {
		if a := b.Expect(422, "request.invalid", "PATCH", "/api/v1/admin/companies/default", map[string]any{"recipient": map[string]any{"time_zone": bad}}); a.Fields() != "recipient.time_zone" {
			t.Errorf("%s: %s", bad, a.Raw)
		}
	}
	b.Expect(200, "", "PATCH", "/api/v1/admin/companies/default", map[string]any{"recipient": map[string]any{"time_zone": "Europe/Berlin"}})
	b.SetHours("marketing", "20:00-10:00")
	c := apptest.Decode[api.Company](t, b.Expect(200, "", "GET", "/api/v1/admin/companies/default", nil)).Recipient
	if *c.QuietHours.Marketing != "20:00-10:00" || c.QuietHours.Notification != nil || *c.TimeZone != "Europe/Berlin" {
		t.Errorf("%+v", c)
	}
	b.SetHours("marketing", nil)
	if c := apptest.Decode[api.Company](t, b.Expect(200, "", "GET", "/api/v1/admin/companies/default", nil)).Recipient; c.QuietHours.Marketing != nil || c.TimeZone == nil {
		t.Errorf("%+v", c)
	}
	made := apptest.Decode[api.Company](t, b.Expect(200, "", "POST", "/api/v1/admin/companies", map[string]any{
		"company_no": "acme", "name": "acme", "recipient": map[string]any{"quiet_hours": map[string]any{"notification": "22:00-07:00"}},
	}))
	if *made.Recipient.QuietHours.Notification != "22:00-07:00" {
		t.Errorf("%+v", made.Recipient)
	}
}
