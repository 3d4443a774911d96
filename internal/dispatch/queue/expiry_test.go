package queue_test

import (
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/dispatch/queue"
	"lksms/internal/platform/result"
	"lksms/internal/testkit/apptest"
)

// submitExpiring submits a message that expires after d.
func submitExpiring(b *apptest.Bundle, d time.Duration) string {
	b.T.Helper()
	return b.SubmitBody(map[string]any{"phone_number": apptest.Phone, "content": "code", "expires_at": time.Now().Add(d)}).TaskID
}

// pass moves all times of all queued tasks by d into the past.
func pass(b *apptest.Bundle, d time.Duration) {
	b.T.Helper()
	b.Exec(`UPDATE queue SET expires_at = expires_at - $1::interval, quiet_from = quiet_from - $1::interval, lease_until = lease_until - $1::interval,
		start_until = start_until - $1::interval, updated_at = updated_at - $1::interval`, d)
}

// expire runs the sweep that ends waiting tasks.
func expire(b *apptest.Bundle) {
	b.T.Helper()
	if _, err := b.App.Queue.Expire(b.T.Context()); err != nil {
		b.T.Fatal(err)
	}
}

func TestARetryComesBeforeItsTaskExpires(t *testing.T) {
	b := apptest.New(t)
	for _, c := range []struct {
		lasts      time.Duration
		afterwards any // seconds; nil: the setting, which is five minutes
		want       int // seconds
	}{
		{time.Hour, nil, 300}, {6 * time.Minute, nil, 300}, {4 * time.Minute, nil, 120}, {4 * time.Minute, 60, 60}, {4 * time.Minute, 3600, 120},
	} {
		id := submitExpiring(b, c.lasts)
		b.Take("app", 1)
		b.Report(id, "app", 3, apptest.Report{"should_retry": true, "retry_after_seconds": c.afterwards})
		waits := b.Count("SELECT round(extract(epoch FROM due_at - updated_at)) FROM queue WHERE task_id = $1", id)
		if waits < c.want-10 || waits > c.want { // the time until the expiry passes meanwhile
			t.Errorf("a task that lasts %s waits for %d s, want %d", c.lasts, waits, c.want)
		}
	}
}

func TestLeaseEndsWhenItsTaskExpires(t *testing.T) {
	b := apptest.New(t)
	always, soon := b.Submit("1"), submitExpiring(b, time.Minute)
	tasks := map[string]api.ClaimedTask{}
	for _, task := range b.Take("app", 10) {
		tasks[task.TaskID] = task
	}
	if task := tasks[soon]; task.ExpiresAt == nil || !task.LeaseUntil.Equal(*task.ExpiresAt) || !task.ExpiresAt.Equal(*b.Task(soon).ExpiresAt) {
		t.Errorf("the lease of a task that expires in a minute: %+v", task)
	}
	if task := tasks[always]; task.ExpiresAt != nil || lasts(b, always) != apptest.DefaultRules.ProcessingTimeout {
		t.Errorf("the lease of a task that never expires: %+v", task)
	}
	pass(b, time.Minute)
	if got := b.Take("other", 10); len(got) != 0 {
		t.Errorf("an expired task was handed out: %+v", got)
	}
}

// The sender can have sent the message just before the lease ended, and no other sender can receive the task. A report therefore counts for a limited time
// after the lease.
func TestReportCountsShortlyAfterItsTaskExpired(t *testing.T) {
	for name, c := range map[string]struct {
		report map[string]any
		status int16
		want   []string
	}{
		"sent":    {map[string]any{"status": 2}, queue.Success, []string{"reported success"}},
		"refused": {map[string]any{"status": 3}, queue.Failed, []string{"reported failed"}},
		"retry":   {map[string]any{"status": 3, "should_retry": true}, queue.Failed, []string{"reported retry", "expired expired"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := apptest.New(t)
			id := submitExpiring(b, time.Minute)
			b.Take("app", 1)
			pass(b, 90*time.Second)
			if n := b.Recover(); n != 0 {
				t.Errorf("recovered %d leases whose senders can still report", n)
			}
			body := map[string]any{"task_id": id, "app_id": "app"}
			for key, value := range c.report {
				body[key] = value
			}
			b.Expect(200, "", "POST", "/api/v1/sms/report", body)
			expire(b)
			b.ExpectEffects(id, c.want...)
			if got := b.Task(id); int16(got.Status) != c.status {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestRecoveryFailsTheExpiredTaskOfAnExpiredLease(t *testing.T) {
	for onUnclear, want := range map[string]struct{ effect, result string }{
		"retry": {"recovered expired", result.Expired}, "fail": {"recovered unclear", result.Unclear},
	} {
		t.Run(onUnclear, func(t *testing.T) {
			b := apptest.New(t)
			b.AddSender(map[string]any{"sender_no": "app", "on_unclear": onUnclear})
			id := submitExpiring(b, time.Minute)
			b.Take("app", 1)
			pass(b, time.Minute+apptest.DefaultRules.ProcessingTimeout)
			if n := b.Recover(); n != 1 {
				t.Errorf("recovered %d leases, want 1", n)
			}
			b.ExpectEffects(id, want.effect)
			if got := b.Task(id); got.Status != api.TaskFailed || *got.Result != want.result || got.RetryCount != 0 {
				t.Errorf("%+v", got)
			}
			b.Report(id, "app", 2, nil) // the report is too late: it is only logged
			if got := b.Task(id); got.Status != api.TaskFailed {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestUnstartedLeaseEndsWhenItsTaskExpires(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "a", "balance": 10})
	submitExpiring(b, time.Minute)
	submitExpiring(b, time.Minute)
	tasks := takeToStart(b, "a", 2, 30)
	begun, idle := tasks[0], tasks[1]
	if got := start(b, "a", begun); got.Started != 1 || !got.Items[0].LeaseUntil.Equal(*begun.ExpiresAt) {
		t.Errorf("started %+v of a task that expires at %s", got, begun.ExpiresAt)
	}
	pass(b, 31*time.Second)
	b.Recover()
	b.ExpectEffects(idle.TaskID, "recovered untried")
	idle = takeToStart(b, "a", 1, 600)[0]
	if !idle.LeaseUntil.Equal(*idle.ExpiresAt) {
		t.Errorf("%+v", idle)
	}
	b.Exec("UPDATE queue SET expires_at = now() WHERE task_id = $1", idle.TaskID) // as if the task was taken back
	if got := start(b, "a", idle); got.Refused != 1 {
		t.Errorf("an expired task was started: %+v", got)
	}
	pass(b, 30*time.Second)
	b.Recover()
	expire(b)
	b.ExpectEffects(idle.TaskID, "recovered untried", "recovered untried", "expired expired")
	if s := b.GetSender("a"); *s.Balance != 9 {
		t.Errorf("the sender was charged for messages that it did not start: %+v", s)
	}
}

func TestClaimSkipsTasksThatExpireWithinASecond(t *testing.T) {
	b := apptest.New(t)
	id := submitExpiring(b, time.Minute)
	b.Exec("UPDATE queue SET expires_at = now() + interval '500 milliseconds'")
	if got := b.Take("app", 1); len(got) != 0 {
		t.Errorf("claimed %+v", got)
	}
	b.Exec("UPDATE queue SET expires_at = now()")
	expire(b)
	b.ExpectEffects(id, "expired expired")
}

func TestClaimWithIntervalSkipsTasksThatExpireBeforeTheirTurn(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "slow", "interval_ms": 10_000})
	for range 5 {
		submitExpiring(b, 25*time.Second) // at 0, 10 and 20 seconds, a message can be sent
	}
	always := b.Submit("always")
	tasks := b.Take("slow", 10)
	if len(tasks) != 4 || tasks[3].TaskID != always {
		t.Errorf("claimed %+v", tasks)
	}
	if got := b.Take("fast", 10); len(got) != 2 {
		t.Errorf("%d are left for others, want 2", len(got))
	}
}

func TestLeaseOfAnExpiredTaskCanBeReleased(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "app", "balance": 5})
	id := submitExpiring(b, time.Minute)
	task := b.Take("app", 1)[0]
	pass(b, 61*time.Second)
	if n, err := b.App.Queue.Release(t.Context(), "app", []queue.Unused{{TaskID: id, LeaseID: task.LeaseID}}); n != 1 || err != nil {
		t.Fatalf("gave back %d, %v", n, err)
	}
	expire(b)
	b.ExpectEffects(id, "released untried", "expired expired")
	if s := b.GetSender("app"); *s.Balance != 5 {
		t.Errorf("the sender was charged for a message that it did not send: %+v", s)
	}
}

func TestExplanationShowsThatATaskExpiresBeforeItIsDue(t *testing.T) {
	b := apptest.New(t)
	id := b.SubmitBody(map[string]any{
		"phone_number": apptest.Phone, "content": "x", "expect_send_time": time.Now().Add(time.Hour), "expires_at": time.Now().Add(2 * time.Hour),
	}).TaskID
	if e := b.Explain(id); e.Reason != api.BecauseScheduled {
		t.Errorf("explained as %s", e.Reason)
	}
	b.Exec("UPDATE queue SET expires_at = now() + interval '10 minutes'")
	if e := b.Explain(id); e.Reason != api.BecauseExpiring || e.Summary == "" {
		t.Errorf("explained as %s", e.Reason)
	}
	retried := submitExpiring(b, time.Hour)
	b.Take("app", 1)
	b.Expect(200, "", "POST", "/api/v1/sms/report", map[string]any{"task_id": retried, "app_id": "app", "status": 3, "should_retry": true, "retry_after_seconds": 300})
	b.Exec("UPDATE queue SET expires_at = now() + interval '1 minute' WHERE task_id = $1", retried)
	if e := b.Explain(retried); e.Reason != api.BecauseExpiring {
		t.Errorf("a retry that is due after the expiry is explained as %s", e.Reason)
	}
}
