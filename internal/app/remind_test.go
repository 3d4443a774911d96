package app_test

import (
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
