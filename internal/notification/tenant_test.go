package notification_test

import (
	"strings"
	"testing"
	"time"

	"lksms/gen/api"
	"lksms/internal/apptest"
)

// Only the submitter sees the recipients and texts of a notification.
func TestASubmitUserSeesOnlyItsOwnNotifications(t *testing.T) {
	w := apptest.NewTwoCompanies(t)
	colleague := w.AddUser("colleague", "submit", map[string]any{"company_no": "acme"})
	id := "/api/v1/notifications/" + w.IDs["notification"]
	later := map[string]any{
		"biz_type": 2, "biz_id": 7, "channels": []string{"dingtalk"}, "payload": map[string]any{"taskName": "x"}, "user_ids": []string{"of-acme"},
		"next_run_time": time.Now().Add(24 * time.Hour),
	}
	w.Expect(200, "", "POST", "/api/v1/notifications", later, w.Acme...)
	w.Expect(200, "", "GET", id, nil, w.Acme...)
	w.Expect(404, "notification.not_found", "GET", id, nil, colleague...)
	none := func(path string) {
		t.Helper()
		var page struct{ Items []any }
		if page = apptest.Decode[struct{ Items []any }](t, w.Expect(200, "", "GET", path, nil, colleague...)); len(page.Items) != 0 {
			t.Errorf("%s shows %v", path, page.Items)
		}
	}
	for _, path := range []string{"/api/v1/notifications", "/api/v1/notifications?biz_id=1001", "/api/v1/subscribe-messages", "/api/v1/subscribe-messages?business_id=1", "/api/v1/subscribe-messages/statistics"} {
		none(path)
		if a := w.Expect(200, "", "GET", path, nil, w.Acme...); !strings.Contains(a.Raw, "acme") && !strings.Contains(a.Raw, `"notification_id":`+w.IDs["notification"]+",") {
			t.Errorf("%s shows the submitter %s", path, a.Raw)
		}
	}
	end := func(headers []string) int {
		return apptest.Decode[api.Changed](t, w.Expect(200, "", "POST", "/api/v1/notifications/status", `{"biz_type":2,"biz_ids":[7],"status":3}`, headers...)).Changed
	}
	remove := func(headers []string) int {
		return apptest.Decode[api.Changed](t, w.Expect(200, "", "DELETE", "/api/v1/notifications?biz_type=2&biz_ids=7", nil, headers...)).Changed
	}
	if n := end(colleague) + remove(colleague); n != 0 {
		t.Errorf("a colleague ended or deleted %d notifications", n)
	}
	if end(w.Acme) != 1 || remove(w.Acme) != 1 {
		t.Error("the submitter could not end or delete the notification")
	}
	// A business event belongs to the company: the end of a node ends the reminder, whichever user reported the start.
	event := func(name string, headers []string) api.NotificationsMade {
		return apptest.Decode[api.NotificationsMade](t, w.Expect(200, "", "POST", "/api/v1/notifications/events", map[string]any{
			"event": name, "task_id": 5, "node_inst_id": 50, "channels": []string{"dingtalk"}, "user_ids": []string{"of-acme"}, "max_duration": 60,
			"payload": map[string]any{"taskName": "x", "nodeName": "y"},
		}, headers...))
	}
	event("node_started", w.Acme)
	if n := event("node_finished", colleague).Ended; n != 1 {
		t.Errorf("the end of the node ended %d reminders", n)
	}
}
