package setting_test

import (
	"testing"
	"time"

	"lksms/internal/app"
	"lksms/internal/platform/setting"
	"lksms/internal/testkit/apptest"

	api "lksms/gen/client"
)

// S0.11, S0.12: the environment sets the first values. A stored setting overrides the environment on every server, also after a restart.
func TestAStoredRetryRuleOverridesTheEnvironment(t *testing.T) {
	first := setting.Rules{MaxRetryCount: 2, RetryDelay: time.Minute, RetryMaxWait: time.Hour, ProcessingTimeout: 10 * time.Minute}
	b := apptest.NewWith(t, first, nil)
	queue := func(b *apptest.Bundle) map[string]any {
		return apptest.Decode[map[string]any](t, b.Expect(200, "", "GET", "/api/v1/admin/settings/queue", nil))
	}
	if got := queue(b); got["max_retry_count"] != 2.0 || got["retry_delay_seconds"] != 60.0 || got["retry_max_wait_seconds"] != 3600.0 || got["processing_timeout_seconds"] != 600.0 {
		t.Errorf("the first values are %v", got)
	}
	b.Expect(200, "", "PUT", "/api/v1/admin/settings", `{"queue":{"max_retry_count":0,"processing_timeout_seconds":90.5}}`)
	again := apptest.Open(t, setting.Rules{MaxRetryCount: 9, RetryDelay: time.Second, ProcessingTimeout: time.Second}, func(o *app.Options) { o.DatabaseURL = b.Options.DatabaseURL })
	if got := queue(again); got["max_retry_count"] != 0.0 || got["processing_timeout_seconds"] != 90.5 || got["retry_delay_seconds"] != 1.0 {
		t.Errorf("after a restart: %v", got)
	}
	// In the event of the first change, the old value is the value of the environment.
	if n := b.Count(`SELECT count(*) FROM events WHERE event = 'setting.changed' AND subject = 'queue.processing_timeout_seconds' AND detail->>'from' = '600'`); n != 1 {
		t.Errorf("%d events with the value of the environment", n)
	}
}

func TestRetryRulesChangeWithoutARestart(t *testing.T) {
	b := apptest.New(t)
	id := b.Submit("x")
	b.Expect(200, "", "PUT", "/api/v1/admin/settings", `{"queue":{"processing_timeout_seconds":77,"retry_delay_seconds":33,"max_retry_count":1}}`)
	seconds := func(column string) int {
		return b.Count("SELECT round(extract(epoch FROM "+column+" - now()))::int FROM queue WHERE task_id = $1", id)
	}
	report := func(leaseID int64) {
		b.Expect(200, "", "POST", "/api/v1/sms/report", map[string]any{"task_id": id, "lease_id": leaseID, "status": 3, "should_retry": true, "app_id": "app"})
	}
	claimed := b.Claim("app", 1)[0]
	if s := seconds("lease_until"); s < 70 || s > 77 {
		t.Errorf("the lease lasts %d s, want 77", s)
	}
	report(claimed.LeaseID)
	if s := seconds("due_at"); s < 26 || s > 33 {
		t.Errorf("the retry is due in %d s, want 33", s)
	}
	b.Exec("UPDATE queue SET due_at = now() - interval '1 s' WHERE task_id = $1", id)
	claimed = b.Claim("app", 1)[0]
	report(claimed.LeaseID)
	if task := b.Task(id); task.Status != api.TaskFailed {
		t.Errorf("after %d retries the task is %v", 1, task.Status)
	}
}
