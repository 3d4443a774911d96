package notification_test

import (
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
)

// The due notifications of a company do not delay the notifications of other companies: each portion of a run contains notifications of each company.
func TestCompaniesTakeTurnsWithDueNotifications(t *testing.T) {
	w := apptest.NewTwoCompanies(t)
	made := map[string]int64{}
	for no, headers := range map[string][]string{"acme": w.Acme, "beta": w.Beta} {
		made[no] = apptest.Decode[api.NotificationsMade](t, w.Expect(200, "", "POST", "/api/v1/notifications", map[string]any{
			"biz_type": 2, "biz_id": 7, "channels": []string{"dingtalk"}, "payload": map[string]any{"taskName": "x"}, "user_ids": []string{"of-" + no},
			"next_run_time": time.Now().Add(24 * time.Hour),
		}, headers...)).Items[0].NotificationID
	}
	w.Exec("UPDATE notifications SET next_run_at = NULL, deleted_at = now() WHERE id <> ALL ($1)", []int64{made["acme"], made["beta"]}) // the others of both companies
	w.Exec(`INSERT INTO notifications (company_id, channel_id, biz_type, biz_id, next_run_at, submitted_by, announcement_id)
		SELECT n.company_id, n.channel_id, n.biz_type, n.biz_id, now() - interval '1 hour', n.submitted_by, n.announcement_id
		FROM notifications n, generate_series(1, 60) WHERE n.id = $1`, made["acme"])
	w.Exec("UPDATE notifications SET next_run_at = now() WHERE id = $1", made["beta"])
	runNotifications(w.Bundle)
	const before = "SELECT count(*) FROM notifications n WHERE n.next_run_at IS NULL AND n.deleted_at IS NULL AND n.updated_at < (SELECT b.updated_at FROM notifications b WHERE b.id = $1)"
	if n := w.Count("SELECT count(*) FROM notifications WHERE next_run_at IS NULL AND deleted_at IS NULL"); n != 61 {
		t.Fatalf("%d notifications ran", n)
	}
	if n := w.Count(before, made["beta"]); n != 0 {
		t.Errorf("%d notifications of the other company ran in earlier portions", n)
	}
}
