package queue_test

import (
	"testing"

	api "lksms/gen/client"
	"lksms/internal/dispatch/queue"
	"lksms/internal/testkit/apptest"
)

// ledger returns the ledger of a sender, newest entry first. It fails the test unless the entries sum to the balance.
func ledger(b *apptest.Bundle, no string) []api.LedgerEntry {
	b.T.Helper()
	rows := apptest.Decode[api.LedgerPage](b.T, b.Expect(200, "", "GET", "/api/v1/admin/senders/"+no+"/ledger?limit=100", nil)).Items
	var sum int64
	for _, row := range rows {
		sum += row.Change
	}
	if s := b.GetSender(no); s.Balance == nil || *s.Balance != sum || rows[0].Balance != sum {
		b.T.Errorf("the ledger sums to %d, its last balance is %d, the sender's balance %v", sum, rows[0].Balance, s.Balance)
	}
	return rows
}

func TestReleasedLeaseIsRefunded(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "paid", "balance": 10, "limits": map[string]any{"per_day": 8, "per_month": 100}})
	b.SubmitMany("x", 3, nil)
	leases := b.Take("paid", 3)
	if s := b.GetSender("paid"); *s.Balance != 7 || *s.Consumed != 3 || s.Used.Day != 3 {
		t.Fatalf("after the claim: %+v", s)
	}
	var unused []queue.Unused
	for _, l := range leases[:2] {
		unused = append(unused, queue.Unused{TaskID: l.TaskID, LeaseID: l.LeaseID})
	}
	for range 2 {
		if _, err := b.App.Queue.Release(t.Context(), "paid", unused); err != nil {
			t.Fatal(err)
		}
	}
	if s := b.GetSender("paid"); *s.Balance != 9 || *s.Consumed != 1 || s.Used.Day != 1 || s.Used.Month != 1 {
		t.Errorf("after the release: %+v", s)
	}
	refunds := map[int64]int64{}
	for _, row := range ledger(b, "paid") {
		if row.Change > 0 && row.LeaseID != nil {
			refunds[*row.LeaseID] += row.Change
		}
	}
	if len(refunds) != 2 || refunds[leases[0].LeaseID] != 1 || refunds[leases[1].LeaseID] != 1 {
		t.Errorf("refunds %v", refunds)
	}
	if _, err := b.DB.Exec(t.Context(), "INSERT INTO sender_ledger (sender_id, change, balance, lease_id) SELECT sender_id, change, 0, lease_id FROM sender_ledger WHERE change > 0 AND lease_id IS NOT NULL"); err == nil {
		t.Error("a lease can be refunded twice")
	}
	b.Report(leases[2].TaskID, "paid", 3, nil) // not refunded, because an app can have sent the message
	if s := b.GetSender("paid"); *s.Balance != 9 || *s.Consumed != 1 {
		t.Errorf("after the failure: %+v", s)
	}
}

// Segments that were used in the previous window are not refunded to the current window.
func TestReleaseDoesNotChangeTheUsageOfTheNextWindow(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "limited", "limits": map[string]any{"per_hour": 5, "per_month": 100}})
	b.SubmitMany("x", 4, nil)
	old := b.Take("limited", 2)
	b.Exec("UPDATE queue SET updated_at = updated_at - interval '1 hour'")
	b.Take("limited", 2)
	var unused []queue.Unused
	for _, l := range old {
		unused = append(unused, queue.Unused{TaskID: l.TaskID, LeaseID: l.LeaseID})
	}
	if _, err := b.App.Queue.Release(t.Context(), "limited", unused); err != nil {
		t.Fatal(err)
	}
	if s := b.GetSender("limited"); s.Used.Hour != 4 {
		t.Errorf("used %+v", s.Used)
	}
}

func TestPermanentlyRefusedMessageIsRefunded(t *testing.T) {
	b, p := apptest.NewPushing(t, map[string]any{"balance": 10})
	p.Says(200, `{"code":"9","text":"no such number"}`)
	b.AwaitStatus(b.Submit("x"), queue.Failed)
	if s := b.GetSender("pushed"); *s.Balance != 10 || *s.Consumed != 0 {
		t.Errorf("refused for good: %+v", s)
	}
	p.Says(500, "")
	id := b.Submit("x")
	apptest.Eventually(t, "the message has failed once", func() bool { return b.Task(id).RetryCount >= 1 })
	p.Says(200, `{"code":"0"}`)
	b.AwaitStatus(id, queue.Success)
	if s, got := b.GetSender("pushed"), b.Task(id); *s.Consumed != int64(got.RetryCount)+1 {
		t.Errorf("consumed %d with %d retries", *s.Consumed, got.RetryCount)
	}
	ledger(b, "pushed")
}

func TestLeasesOfASenderInTroubleAreRefunded(t *testing.T) {
	b, p := apptest.NewPushing(t, map[string]any{"balance": 10, "status": "off"})
	p.Says(401, "")
	b.SubmitMany("x", 20, nil)
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/pushed", map[string]any{"status": "on"})
	apptest.Eventually(t, "the breaker opened again, and all leases are released", func() bool {
		return b.AwaitOpenBreaker("pushed").Openings >= 2 && b.Count("SELECT count(*) FROM tasks WHERE status = 1") == 0
	})
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/pushed", map[string]any{"name": "still off"})
	if s := b.GetSender("pushed"); *s.Balance != 10 || *s.Consumed != 0 {
		t.Errorf("the sender was charged: %+v", s)
	}
	ledger(b, "pushed")
}

func TestLedgerContainsChangesOfThresholds(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "paid", "balance": 10, "low_warning": 3})
	path := "/api/v1/admin/senders/paid"
	b.Expect(200, "", "PATCH", path, map[string]any{"name": "same", "low_warning": 3})
	b.Expect(200, "", "PATCH", path, map[string]any{"low_warning": 5, "low_switch": 1})
	b.Expect(200, "", "PATCH", path, map[string]any{"low_warning": nil})
	rows := ledger(b, "paid")
	if len(rows) != 3 {
		t.Fatalf("%+v", rows)
	}
	if r := rows[0]; r.Change != 0 || r.Balance != 10 || r.LowWarning != nil || *r.LowSwitch != 1 || *r.By != apptest.Username {
		t.Errorf("%+v", r)
	}
	if r := rows[1]; r.Change != 0 || *r.LowWarning != 5 || *r.LowSwitch != 1 {
		t.Errorf("%+v", r)
	}
	// A sender can be deleted if its ledger contains only changes of thresholds.
	b.AddSender(map[string]any{"sender_no": "gone"})
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/gone", map[string]any{"low_warning": 5})
	b.Expect(200, "", "DELETE", "/api/v1/admin/senders/gone", nil)
	if n := b.Count("SELECT count(*) FROM sender_ledger l WHERE NOT EXISTS (SELECT FROM senders s WHERE s.id = l.sender_id)"); n != 0 {
		t.Errorf("%d ledger entries of the deleted sender are left", n)
	}
}
