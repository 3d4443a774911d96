package notification_test

import (
	"context"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
)

// announce creates a notification to u1 and returns its id. `more` contains further fields.
func announce(b *apptest.Bundle, bizID int, more map[string]any) int64 {
	b.T.Helper()
	body := map[string]any{
		"biz_type": 3, "biz_id": bizID, "channels": []string{"dingtalk"}, "payload": map[string]any{"taskName": "x"}, "user_ids": []string{"u1"},
	}
	for k, v := range more {
		body[k] = v
	}
	return apptest.Decode[api.NotificationsMade](b.T, b.Expect(200, "", "POST", "/api/v1/notifications", body)).Items[0].NotificationID
}

// While the partition of a day is being moved, notifications that have not run yet and send-once messages do not wait.
func TestALockedPartitionDoesNotDelayUnsentMessages(t *testing.T) {
	b, _, _ := apptest.NewWeChat(t)
	b.SendOnce(nil)
	var planned []int64
	for i := range apptest.Often {
		planned = append(planned, announce(b, 300+i, map[string]any{"next_run_time": time.Now().Add(time.Hour)}))
	}
	b.LockDay(5)
	for i := range apptest.Often {
		apptest.Promptly(t, "sending once", func() { b.SendOnce(map[string]any{"business_id": 200 + i}) })
		apptest.Promptly(t, "sending once again", func() { b.SendOnce(nil) })
		apptest.Promptly(t, "the sweep", func() {
			b.Exec("UPDATE notifications SET next_run_at = now() WHERE id = $1", planned[i])
			run(b)
		})
	}
}

// run runs the due notifications.
func run(b *apptest.Bundle) {
	b.T.Helper()
	ctx, cancel := context.WithTimeout(b.T.Context(), time.Minute)
	defer cancel()
	if _, err := b.App.Notifications.Run(ctx); err != nil {
		b.T.Error(err)
	}
}

// While a partition is locked, a reminder with tasks in this partition is tried again after a minute. No other notification waits.
func TestOnlyTheReminderOfALockedPartitionWaits(t *testing.T) {
	b, _ := apptest.NewNotifying(t)
	old := announce(b, 1, map[string]any{"repeat_minutes": 1})
	planned := announce(b, 2, map[string]any{"next_run_time": time.Now().Add(time.Hour)})
	apptest.Eventually(t, "the first message is sent", func() bool { return b.Count("SELECT count(*) FROM tasks WHERE status = 2") == 1 })
	_, unlock := b.LockDay(5)
	b.Exec("UPDATE notifications SET next_run_at = now() WHERE id = ANY ($1)", []int64{old, planned})
	apptest.Promptly(t, "the sweep", func() { run(b) })
	if n := b.Count("SELECT count(*) FROM renderings WHERE notification_id = $1", planned); n != 1 {
		t.Errorf("the other notification ran %d times", n)
	}
	const seconds = "SELECT extract(epoch FROM next_run_at - now())::float8 FROM notifications WHERE id = $1"
	if wait := apptest.Scan[float64](b, seconds, old); wait < 50 || wait > 60 {
		t.Errorf("the reminder is tried again after %v seconds", wait)
	}
	unlock()
	b.Exec("UPDATE report_logs SET created_at = now() - interval '2 minutes'")
	b.Exec("UPDATE notifications SET next_run_at = now() WHERE id = $1", old)
	run(b)
	if n := b.Count("SELECT count(*) FROM renderings WHERE notification_id = $1", old); n != 2 {
		t.Errorf("the reminder ran %d times", n)
	}
}
