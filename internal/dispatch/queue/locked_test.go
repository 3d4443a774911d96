package queue_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/dispatch/queue"
	"lksms/internal/platform/postgres"
	"lksms/internal/testkit/apptest"
)

// While the partition of one day is moved, dropped or imported, requests for other days do not wait.
func TestLockedPartitionDelaysOnlyTasksOfItsDay(t *testing.T) {
	waiting := func(b *apptest.Bundle) string { return b.Submit("x") }
	settled := func(b *apptest.Bundle) string {
		b.Submit("x")
		id := b.ClaimIDs(1)[0]
		b.Report(id, "app", 2, nil)
		return id
	}
	named := func(b *apptest.Bundle) string {
		return b.SubmitBody(map[string]any{"phone_number": apptest.Phone, "content": "x", "dedup_key": "k"}).TaskID
	}
	repeat := map[string]any{"phone_number": apptest.Phone, "content": "x", "dedup_key": "k"}
	today := "/api/v1/sms/tasks?created_from=" + url.QueryEscape(time.Now().Add(-time.Minute).Format(time.RFC3339))
	for name, c := range map[string]struct {
		make func(b *apptest.Bundle) string // creates the task before the partition is locked
		do   func(b *apptest.Bundle, id string)
	}{
		"look-up":            {settled, func(b *apptest.Bundle, id string) { b.Task(id) }},
		"timeline":           {settled, func(b *apptest.Bundle, id string) { b.Events(id) }},
		"explanation":        {waiting, func(b *apptest.Bundle, id string) { b.Explain(id) }},
		"submission":         {waiting, func(b *apptest.Bundle, _ string) { b.Submit("y") }},
		"repeated dedup_key": {named, func(b *apptest.Bundle, _ string) { b.SubmitBody(repeat) }},
		"dry run of a repeated dedup_key": {named, func(b *apptest.Bundle, _ string) {
			b.Expect(200, "", "POST", "/api/v1/sms/send?dry_run=true", repeat)
		}},
		"repeated dedup_key in a batch": {named, func(b *apptest.Bundle, _ string) {
			b.Expect(200, "", "POST", apptest.BatchPath, map[string]any{"messages": []any{repeat, repeat}})
		}},
		"claim and report": {waiting, func(b *apptest.Bundle, _ string) {
			b.Submit("y")
			b.Report(b.ClaimIDs(1)[0], "app", 2, nil)
		}},
		"late report": {settled, func(b *apptest.Bundle, id string) { b.Report(id, "app", 2, nil) }},
		"cancellation": {waiting, func(b *apptest.Bundle, _ string) {
			b.Expect(200, "", "POST", "/api/v1/sms/task/"+b.Submit("y")+"/cancel", nil)
		}},
		"requeue": {waiting, func(b *apptest.Bundle, _ string) { b.Requeue(b.Fail("y")) }},
		"list":    {waiting, func(b *apptest.Bundle, _ string) { b.Expect(200, "", "GET", today, nil) }},
		"receipt": {settled, func(b *apptest.Bundle, id string) {
			b.SettleReceipts([]queue.Final{{TaskID: id, State: 1}}, false)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := apptest.New(t)
			id := c.make(b)
			b.LockDay(5)
			for range apptest.Often {
				apptest.Promptly(t, name, func() { c.do(b, id) })
			}
		})
	}
}

// When several late reports are merged, only the reports of the locked partition fail. Their senders must repeat them.
func TestOnlyTheLateReportFailsIfItsPartitionIsLocked(t *testing.T) {
	b := apptest.New(t)
	for range 10 {
		b.Submit("x")
	}
	ids := b.ClaimIDs(10)
	for _, id := range ids {
		b.Report(id, "app", 2, nil)
	}
	locked, unlock := b.LockDay(5)
	all := append(slices.Clone(ids), locked)
	statuses := make([]int, len(all))
	apptest.Promptly(t, "reports that come together", func() {
		apptest.Together(len(all), func(i int) {
			statuses[i] = b.Call("POST", "/api/v1/sms/report", apptest.ReportBody(all[i], "app", 2, nil)).Status
		})
	})
	want := append(slices.Repeat([]int{http.StatusOK}, len(ids)), http.StatusServiceUnavailable)
	if !slices.Equal(statuses, want) {
		t.Errorf("statuses %v, want %v", statuses, want)
	}
	var reports []any
	for _, id := range all {
		reports = append(reports, apptest.ReportBody(id, "app", 2, nil))
	}
	apptest.Promptly(t, "a batch of reports", func() {
		items := apptest.Decode[api.ReportedBatch](t, b.Expect(200, "", "POST", "/api/v1/sms/report-batch", map[string]any{"reports": reports})).Items
		for i, item := range items {
			if item.Code != want[i] {
				t.Errorf("report %d of a batch: %d", i, item.Code)
			}
		}
	})
	unlock()
	b.Expect(409, "task.not_held", "POST", "/api/v1/sms/report", apptest.ReportBody(locked, "app", 2, nil)) // the sender repeats the report
	for _, id := range ids {
		b.ExpectEffects(id, "reported success", "reported ignored", "reported ignored")
	}
}

// Some messages of a batch repeat earlier messages. If an earlier message is in a locked partition, only its repeat fails.
func TestOnlyTheRepeatedMessageFailsIfItsPartitionIsLocked(t *testing.T) {
	b := apptest.New(t)
	id := b.SubmitBody(map[string]any{"phone_number": apptest.Phone, "content": "x", "dedup_key": "k"}).TaskID
	_, unlock := b.LockDay(5)
	message := func(key string) any {
		return map[string]any{"phone_number": apptest.Phone, "content": "x", "dedup_key": key}
	}
	batch := map[string]any{"messages": []any{message("locked"), message("k"), message("new")}}
	apptest.Promptly(t, "a batch", func() {
		items := apptest.Decode[api.SentBatch](t, b.Expect(200, "", "POST", apptest.BatchPath, batch)).Items
		if got := fmt.Sprint(apptest.Outcomes(items)); items[0].Code != 503 || items[1].Code != 200 || *items[1].TaskID != id || items[2].Code != 200 {
			t.Errorf("outcomes %s", got)
		}
	})
	// With an Idempotency-Key, the whole batch is one transaction. The caller repeats the batch.
	apptest.Promptly(t, "a batch in one transaction", func() { b.Expect(503, "unavailable", "POST", apptest.BatchPath, batch, apptest.KeyHeader, "i") })
	unlock()
	items := apptest.Decode[api.SentBatch](t, b.Expect(200, "", "POST", apptest.BatchPath, batch, apptest.KeyHeader, "i")).Items
	for i, item := range items {
		if item.Code != 200 || item.Deduplicated == nil {
			t.Errorf("message %d, repeated: %d", i, item.Code)
		}
	}
}

// A repeat of a message in a locked partition is not refused permanently, although it cannot be stored as a new message.
func TestRepeatedMessageCanBeRetriedIfItsPartitionIsLocked(t *testing.T) {
	b := apptest.New(t)
	_, unlock := b.LockDay(5)
	// The repeat has no content, and no template is active. Without an earlier message with its dedup key, such a submission is refused.
	repeat := map[string]any{"phone_number": apptest.Phone, "use_template": true, "dedup_key": "locked"}
	first := map[string]any{"phone_number": apptest.Phone, "use_template": true, "dedup_key": "other"}
	refused := b.Call("POST", "/api/v1/sms/send", first)
	if refused.Status < 400 || refused.Status >= 500 {
		t.Fatalf("the first submission: %d", refused.Status)
	}
	b.Expect(503, "unavailable", "POST", "/api/v1/sms/send", repeat)
	items := apptest.Decode[api.SentBatch](t, b.Expect(200, "", "POST", apptest.BatchPath, map[string]any{
		"messages": []any{repeat, first, map[string]any{"phone_number": apptest.Phone, "content": "x"}},
	})).Items
	if items[0].Code != 503 || items[1].Code != refused.Status || items[2].Code != 200 {
		t.Errorf("outcomes %v", apptest.Outcomes(items))
	}
	unlock()
	b.Expect(200, "", "POST", "/api/v1/sms/send", repeat)
}

// A task in a locked partition is requeued by a later request.
func TestRequeueFailsWhileThePartitionIsLocked(t *testing.T) {
	b := apptest.New(t)
	locked, unlock := b.LockDay(5)
	apptest.Promptly(t, "a requeue", func() {
		if n, err := b.App.Tasks.RequeueAll(t.Context(), []string{locked}, "admin", ""); n != 0 || !postgres.IsLockTimeout(err) {
			t.Errorf("requeued %d, %v", n, err)
		}
	})
	unlock()
	b.Exec("UPDATE report_logs SET outcome = 4 WHERE task_id = $1", locked)
	b.Requeue(locked)
}

// A requeue of one task waits for another request that holds the task for longer than the lock timeout.
func TestRequeueWaitsForARequestThatHoldsTheTask(t *testing.T) {
	b := apptest.New(t)
	id := b.Submit("x")
	b.Expect(200, "", "POST", "/api/v1/sms/task/"+id+"/cancel", nil)
	tx, err := b.DB.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT FROM report_logs WHERE task_id = $1 FOR UPDATE", id); err != nil {
		t.Fatal(err)
	}
	release := func() { _ = tx.Rollback(context.Background()) } // a second call has no effect
	defer release()
	requeued := make(chan apptest.Answer, 1)
	go func() { requeued <- b.Call("POST", "/api/v1/sms/task/"+id+"/requeue", nil) }()
	starts := map[string]bool{} // of transactions that wait
	apptest.Eventually(t, "a second attempt waits", func() bool {
		const waiting = "SELECT coalesce(max(xact_start)::text, '') FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
		if start := apptest.Scan[string](b, waiting); start != "" {
			starts[start] = true
		}
		return len(starts) == 2 || len(requeued) == 1
	})
	release()
	if a := <-requeued; a.Status != 200 {
		t.Errorf("requeue: %d %s", a.Status, a.Raw)
	}
}

// A receipt for a task in a locked partition is stored later.
func TestReceiptStaysPendingIfItsPartitionIsLocked(t *testing.T) {
	b := apptest.New(t)
	b.Submit("x")
	id := b.ClaimIDs(1)[0]
	b.Report(id, "app", 2, nil)
	locked, unlock := b.LockDay(5)
	finals := []queue.Final{{TaskID: locked, State: 1}, {TaskID: id, State: 1}}
	b.SettleReceipts(finals, true, false)
	if task := b.Task(id); task.Delivery == nil {
		t.Error("the other receipt was not stored")
	}
	unlock()
	b.SettleReceipts(finals, false, false)
	b.ExpectEffects(locked, "reported success", "receipt delivered")
}
