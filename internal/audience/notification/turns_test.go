package notification_test

import (
	"slices"
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

// A company with large notifications gets one of them in each turn, and each is a transaction of its own.
func TestLargeNotificationsOfACompanyAreNotOneTransaction(t *testing.T) {
	w := apptest.NewTwoCompanies(t)
	plan := func(biz int, users []string, headers ...string) int64 {
		return apptest.Decode[api.NotificationsMade](t, w.Expect(200, "", "POST", "/api/v1/notifications", map[string]any{
			"biz_type": 2, "biz_id": biz, "channels": []string{"dingtalk"}, "payload": map[string]any{"taskName": "x"}, "user_ids": users,
			"next_run_time": time.Now().Add(24 * time.Hour),
		}, headers...)).Items[0].NotificationID
	}
	var order []int64
	for i := range 3 {
		order = append(order, plan(100+i, longIDs(600), w.Acme...))
	}
	order = slices.Insert(order, 1, plan(7, []string{"of-beta"}, w.Beta...))
	w.Exec("UPDATE notifications SET next_run_at = CASE WHEN id = ANY ($1) THEN now() - interval '1 minute' + id * interval '1 second' END", order)
	ran := w.RecordUpdates("notifications", "next_run_at")
	runNotifications(w.Bundle)
	if got := ran(); !slices.Equal(got, order) {
		t.Errorf("notifications %v ran, want %v", got, order)
	}
	if n := w.Count("SELECT count(DISTINCT updated_at) FROM notifications WHERE id = ANY ($1)", order); n != len(order) { // the time of the transaction
		t.Errorf("%d transactions, want %d", n, len(order))
	}
}
