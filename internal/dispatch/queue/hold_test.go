package queue_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/dispatch/queue"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/platform/access"
	"lksms/internal/testkit/apptest"
)

// submitBatch submits n messages of a batch and returns the ids of the tasks. more changes each submission; nil changes nothing.
func submitBatch(b *apptest.Bundle, batch int64, n int, more func(*submit.Submission)) []string {
	b.T.Helper()
	subs := make([]submit.Submission, n)
	for i := range subs {
		subs[i] = submit.Submission{PhoneNumber: apptest.Phone, Content: fmt.Sprint("row ", i), Raw: []byte("{}"), MessageType: submit.Marketing, BatchID: batch}
		if more != nil {
			more(&subs[i])
		}
	}
	outcomes, err := b.App.Submissions.SubmitAll(b.T.Context(), subs, submit.Origin{User: "admin", CompanyID: access.DefaultCompany})
	if err != nil {
		b.T.Fatal(err)
	}
	ids := make([]string, n)
	for i, o := range outcomes {
		if o.Err != nil {
			b.T.Fatal(o.Err)
		}
		ids[i] = o.TaskID
	}
	return ids
}

// setBatch sets the status of batch 7.
func setBatch(b *apptest.Bundle, status string) {
	b.T.Helper()
	b.Exec(`INSERT INTO batches (id, company_id, submitted_by, name, message_type, phone_column, content, dedup, request_id, source_ip, user_agent, status)
		OVERRIDING SYSTEM VALUE VALUES (7, 1, 'admin', 'n', 2, '', 'x', 'none', '', '', '', $1)
		ON CONFLICT (id) DO UPDATE SET status = excluded.status`, status)
}

// hold pauses batch 7 and holds its tasks. It fails the test unless want tasks were held.
func hold(b *apptest.Bundle, want int) {
	b.T.Helper()
	setBatch(b, "paused")
	if n, err := b.App.Queue.HoldBatch(b.T.Context(), 7); err != nil || n != want {
		b.T.Errorf("held %d, want %d, %v", n, want, err)
	}
}

// release resumes batch 7 and releases its tasks. It fails the test unless want tasks were released.
func release(b *apptest.Bundle, want int) {
	b.T.Helper()
	setBatch(b, "running")
	if n, err := b.App.Queue.ReleaseBatch(b.T.Context(), 7); err != nil || n != want {
		b.T.Errorf("released %d, want %d, %v", n, want, err)
	}
}

// cancelBatch cancels batch 7. It fails the test unless want tasks were cancelled.
func cancelBatch(b *apptest.Bundle, want int) {
	b.T.Helper()
	if n, err := b.App.Tasks.CancelBatch(b.T.Context(), 7, "operator"); err != nil || n != want {
		b.T.Errorf("cancelled %d, want %d, %v", n, want, err)
	}
}

func TestClaimSkipsTasksOfAHeldBatch(t *testing.T) {
	b := apptest.New(t)
	ids := submitBatch(b, 7, 5, nil)
	others := submitBatch(b, 8, 2, nil)
	single := b.Submit("single")
	counted := b.Counts()
	hold(b, 5)
	hold(b, 0)
	if got := b.Counts(); got != counted {
		t.Errorf("counts: %s, before %s", got, counted)
	}
	for _, sweep := range []func() (int, error){
		func() (int, error) { return b.App.Queue.Queue(t.Context()) }, func() (int, error) { return b.App.Queue.Age(t.Context()) },
		func() (int, error) { return b.App.Queue.Move(t.Context()) },
	} {
		if n, err := sweep(); n != 0 || err != nil {
			t.Errorf("a sweep changed %d tasks, %v", n, err)
		}
	}
	if got := b.ClaimIDs(100); len(got) != 3 || !slices.Contains(got, single) || !slices.Contains(got, others[0]) || !slices.Contains(got, others[1]) {
		t.Errorf("claimed %v", got)
	}
	if task := b.Task(ids[0]); task.DueAt != nil || task.Status != 0 || task.BatchID == nil || *task.BatchID != 7 {
		t.Errorf("%+v", task)
	}
	if e := b.Explain(ids[0]); e.Reason != api.BecauseHeld || e.IsDue || e.DueAt != nil || e.Summary == "" || e.Ahead != nil {
		t.Errorf("%+v", e)
	}
	release(b, 5)
	release(b, 0)
	if task := b.Task(ids[0]); task.DueAt == nil || time.Since(*task.DueAt) > time.Minute {
		t.Errorf("due at %v", task.DueAt)
	}
	if got := b.ClaimIDs(100); len(got) != 5 {
		t.Errorf("claimed %v", got)
	}
}

// A released batch is not preferred to other companies, because its tasks receive new ranks when they are queued again.
func TestReleasedBatchTakesTurnsWithOtherCompanies(t *testing.T) {
	b := apptest.New(t)
	other := b.AddCompany("other", 1)
	submitBatch(b, 7, 50, nil)
	hold(b, 50)
	b.SubmitMany("other", 50, map[string]any{"message_type": "marketing"}, other...)
	release(b, 50)
	if n, err := b.App.Queue.Queue(t.Context()); n != 50 || err != nil {
		t.Fatalf("queued %d, %v", n, err)
	}
	if got := owners(b.Claim("app", 20)); got["row"] < 9 || got["other"] < 9 {
		t.Errorf("claimed %v", got)
	}
}

// The wait of a task does not include the time for which its batch was held.
func TestWaitOfAHeldTaskBeginsAtItsRelease(t *testing.T) {
	b := apptest.New(t)
	id := submitBatch(b, 7, 1, nil)[0]
	hold(b, 1)
	b.Exec("UPDATE queue SET entered_at = now() - interval '1 hour'")
	release(b, 1)
	b.ClaimIDs(1)
	b.Report(id, "app", 2, nil)
	detail := apptest.Decode[api.TaskDetail](t, b.Expect(200, "", "GET", "/api/v1/sms/task/"+id, nil))
	if detail.WaitSeconds == nil || *detail.WaitSeconds > 60 || *detail.TotalSeconds > 60 {
		t.Errorf("waited %v of %v", detail.WaitSeconds, detail.TotalSeconds)
	}
	if n := b.Count("SELECT count(*) FROM facts WHERE get_byte(waits, 0) > get_byte(wait_bucket('1 minute'), 0)"); n != 0 {
		t.Errorf("%d waits of an hour", n)
	}
}

// If a sender has a lease of a task when the batch is held, the sender can still report the outcome. A retry is held by the next call of HoldBatch.
func TestLeasedTaskOfAHeldBatchIsHeldWhenItReturns(t *testing.T) {
	b := apptest.New(t)
	ids := submitBatch(b, 7, 4, nil)
	b.ClaimIDs(4)
	hold(b, 0)
	b.Report(ids[0], "app", 2, nil)
	b.Report(ids[1], "app", 3, apptest.Report{"should_retry": true, "retry_after_seconds": 0})
	b.Report(ids[2], "app", 3, apptest.Report{"should_retry": true, "retry_after_seconds": 3600})
	b.ExpireLeases()
	if n := b.Recover(); n != 1 {
		t.Fatalf("recovered %d", n)
	}
	hold(b, 3)
	if got := b.ClaimIDs(10); len(got) != 0 {
		t.Errorf("claimed %v", got)
	}
	b.Report(ids[3], "app", 2, nil) // the sender of the expired lease sent the message
	b.ExpectCounts("0 new, 2 retries, 0 held, 2 sent, 0 failed")
	again := submitBatch(b, 7, 1, nil)
	release(b, 2)
	if got := b.ClaimIDs(10); len(got) != 2 || !slices.Contains(got, ids[1]) || !slices.Contains(got, again[0]) {
		t.Errorf("claimed %v, want the retry that is due and the new task", got)
	}
}

// A pause does not shorten a wait. A scheduled task is not sent before its time, and a retry is not claimed before its due time.
func TestPauseDoesNotShortenTheWaitOfATask(t *testing.T) {
	b := apptest.New(t)
	later := time.Now().Add(2 * time.Hour).Truncate(time.Microsecond)
	ids := submitBatch(b, 7, 3, func(s *submit.Submission) { s.ExpectSendTime = &later })
	now := submitBatch(b, 7, 2, nil)
	b.ClaimIDs(2)
	b.Report(now[0], "app", 3, apptest.Report{"should_retry": true, "retry_after_seconds": 3600})
	b.Report(now[1], "app", 3, apptest.Report{"should_retry": true, "retry_after_seconds": 1})
	retry := *b.Task(now[0]).DueAt
	entered := apptest.Scan[time.Time](b, "SELECT entered_at FROM queue WHERE task_id = $1", now[0])
	hold(b, 5)
	b.Exec("UPDATE queue SET due_when_resumed = NULL WHERE task_id = $1", ids[1]) // held by a server that does not use the column
	b.Expect(200, "", "POST", "/api/v1/sms/task/"+ids[2]+"/cancel", nil)
	b.Requeue(ids[2])
	if due := b.Task(ids[2]).DueAt; due != nil {
		t.Errorf("due at %v", due)
	}
	b.Exec("UPDATE queue SET due_when_resumed = now() - interval '1 minute' WHERE task_id = $1", now[1]) // the wait of the task ended during the pause
	release(b, 5)
	for id, want := range map[string]time.Time{ids[0]: later, ids[2]: later, now[0]: retry} {
		if due := b.Task(id).DueAt; due == nil || !due.Equal(want) {
			t.Errorf("due at %v, want %v", due, want)
		}
	}
	// Providers use entered_at to recognize a repeated message.
	if again := apptest.Scan[time.Time](b, "SELECT entered_at FROM queue WHERE task_id = $1", now[0]); !again.Equal(entered) {
		t.Errorf("the retry entered at %v, before %v", again, entered)
	}
	if got := b.ClaimIDs(10); len(got) != 2 || !slices.Contains(got, ids[1]) || !slices.Contains(got, now[1]) {
		t.Errorf("claimed %v", got)
	}
	if n := b.Count("SELECT count(*) FROM queue WHERE due_when_resumed IS NOT NULL"); n != 0 {
		t.Errorf("%d tasks are not held and remember it", n)
	}
}

func TestHeldTaskExpires(t *testing.T) {
	b := apptest.New(t)
	soon := time.Now().Add(time.Hour)
	ids := submitBatch(b, 7, 2, func(s *submit.Submission) { s.ExpiresAt = &soon })
	hold(b, 2)
	b.Exec("UPDATE queue SET expires_at = now() - interval '1 second' WHERE task_id = $1", ids[0])
	if n, err := b.App.Queue.Expire(t.Context()); n != 1 || err != nil {
		t.Fatalf("expired %d, %v", n, err)
	}
	if task := b.Task(ids[0]); task.Status != 3 || task.DueAt != nil || *task.BatchID != 7 {
		t.Errorf("%+v", task)
	}
	release(b, 1)
}

func TestCancelBatchEndsOnlyWaitingTasks(t *testing.T) {
	b := apptest.New(t)
	ids := submitBatch(b, 7, 3, nil)
	b.ClaimIDs(1)
	held := apptest.Scan[string](b, "SELECT task_id FROM queue WHERE lease_until IS NOT NULL")
	submitBatch(b, 8, 1, nil)
	hold(b, 2)
	cancelBatch(b, 2)
	cancelBatch(b, 0)
	release(b, 0)
	for _, id := range ids {
		if task := b.Task(id); id == held && task.Status != 1 || id != held && (task.Status != 4 || task.DueAt != nil) {
			t.Errorf("%+v", task)
		}
		if id != held {
			b.ExpectEffects(id, "cancelled cancelled")
			if by := apptest.Scan[string](b, "SELECT request_data ->> 'by' FROM report_logs WHERE task_id = $1", id); by != "operator" {
				t.Errorf("cancelled by %s", by)
			}
		}
	}
	b.ExpectCounts("1 new, 0 retries, 1 held, 0 sent, 0 failed")
}

// A requeued task still belongs to its batch. If the batch is paused, the task is held at once.
func TestRequeuedTaskKeepsItsBatch(t *testing.T) {
	b := apptest.New(t)
	ids := submitBatch(b, 7, 2, func(s *submit.Submission) { s.Test = true })
	hold(b, 2)
	cancelBatch(b, 2)
	b.Requeue(ids[0])
	if n, err := b.App.Tasks.RequeueAll(t.Context(), ids, "operator", ""); n != 1 || err != nil {
		t.Fatalf("requeued %d, %v", n, err)
	}
	if task := b.Task(ids[0]); task.DueAt != nil || task.BatchID == nil || *task.BatchID != 7 || !task.Test {
		t.Errorf("%+v", task)
	}
	hold(b, 0)
}

// If the number of tasks exceeds one portion, each task is held, released and cancelled exactly once.
func TestLargeBatchesAreHeldInPortions(t *testing.T) {
	b := apptest.New(t)
	submitBatch(b, 7, 2500, nil)
	hold(b, 2500)
	release(b, 2500)
	hold(b, 2500)
	cancelBatch(b, 2500)
	b.ExpectCounts("0 new, 0 retries, 0 held, 0 sent, 0 failed")
}

// Claims, holds and releases of a batch run concurrently. No task is leased twice or lost, and no task is leased after the last hold.
func TestHoldAndConcurrentClaimsLeaseNoTaskTwice(t *testing.T) {
	b := apptest.New(t)
	ids := submitBatch(b, 7, 400, nil)
	seen, mu := map[string]int{}, sync.Mutex{}
	take := func(limit int) {
		for _, task := range b.Claim("app", limit) {
			mu.Lock()
			seen[task.TaskID]++
			mu.Unlock()
		}
	}
	apptest.Together(6, func(i int) {
		for range 10 {
			switch i {
			case 0, 1, 2:
				take(10)
			case 3, 4:
				setBatch(b, "paused")
				if _, err := b.App.Queue.HoldBatch(t.Context(), 7); err != nil {
					t.Error(err)
				}
			default:
				setBatch(b, "running")
				if _, err := b.App.Queue.ReleaseBatch(t.Context(), 7); err != nil {
					t.Error(err)
				}
			}
		}
	})
	setBatch(b, "paused")
	if _, err := b.App.Queue.HoldBatch(t.Context(), 7); err != nil {
		t.Fatal(err)
	}
	if got := b.ClaimIDs(100); len(got) != 0 {
		t.Errorf("claimed %d tasks that are held", len(got))
	}
	setBatch(b, "running")
	if _, err := b.App.Queue.ReleaseBatch(t.Context(), 7); err != nil {
		t.Fatal(err)
	}
	for left := true; left; {
		before := len(seen)
		take(100)
		left = len(seen) > before
	}
	for _, id := range ids {
		if seen[id] != 1 {
			t.Errorf("%s was claimed %d times", id, seen[id])
		}
	}
}

// A release and a cancellation run concurrently. Each task is either released or cancelled.
func TestConcurrentReleaseAndCancellationHandleEachTaskOnce(t *testing.T) {
	b := apptest.New(t)
	submitBatch(b, 7, 1200, nil)
	hold(b, 1200)
	setBatch(b, "running")
	cancelled := make([]int, 3)
	apptest.Together(3, func(i int) {
		var err error
		if i == 0 {
			_, err = b.App.Queue.ReleaseBatch(t.Context(), 7)
		} else {
			cancelled[i], err = b.App.Tasks.CancelBatch(t.Context(), 7, "operator")
		}
		if err != nil {
			t.Error(err)
		}
	})
	if cancelled[1]+cancelled[2] != 1200 || b.Count("SELECT count(*) FROM queue") != 0 {
		t.Errorf("cancelled %v, %d left", cancelled, b.Count("SELECT count(*) FROM queue"))
	}
}

// A hold waits for a claim in progress, and then holds the tasks that were not claimed.
func TestHoldWaitsForAClaimInProgress(t *testing.T) {
	b := apptest.New(t)
	ids := submitBatch(b, 7, 2, nil)
	setBatch(b, "paused")
	tx, err := b.DB.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT FROM queue FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `UPDATE queue SET processing_app_id = 'app', lease_id = 1, lease_until = now() + interval '1 minute', updated_at = now()
		WHERE task_id = $1`, ids[0]); err != nil {
		t.Fatal(err)
	}
	held := make(chan int)
	go func() {
		n, err := b.App.Queue.HoldBatch(t.Context(), 7)
		if err != nil {
			t.Error(err)
		}
		held <- n
	}()
	b.AwaitLockWait()
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := <-held; n != 1 {
		t.Errorf("held %d", n)
	}
	if first, second := b.Task(ids[0]), b.Task(ids[1]); first.Status != 1 || second.DueAt != nil {
		t.Errorf("%+v, %+v", first, second)
	}
}

// A late hold does not hold the tasks of a batch that was resumed meanwhile. A late release does not release the tasks of a batch that was paused again.
func TestHoldAndReleaseFollowTheStatusOfTheBatch(t *testing.T) {
	b := apptest.New(t)
	submitBatch(b, 7, 2, nil)
	setBatch(b, "running")
	if n, err := b.App.Queue.HoldBatch(t.Context(), 7); n != 0 || err != nil {
		t.Errorf("held %d of a running batch, %v", n, err)
	}
	hold(b, 2)
	if n, err := b.App.Queue.ReleaseBatch(t.Context(), 7); n != 0 || err != nil {
		t.Errorf("released %d of a paused batch, %v", n, err)
	}
	// A hold that waits for a change of the batch status uses the new status.
	release(b, 2)
	setBatch(b, "paused")
	tx, err := b.DB.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "UPDATE batches SET status = 'running' WHERE id = 7"); err != nil {
		t.Fatal(err)
	}
	held := make(chan int)
	go func() {
		n, err := b.App.Queue.HoldBatch(t.Context(), 7)
		if err != nil {
			t.Error(err)
		}
		held <- n
	}()
	b.AwaitLockWait()
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := <-held; n != 0 {
		t.Errorf("held %d of a batch that was resumed", n)
	}
}

func TestListFiltersTasksByBatch(t *testing.T) {
	w := apptest.NewTwoCompanies(t)
	b := w.Bundle
	of7 := submitBatch(b, 7, 3, nil)
	tests := submitBatch(b, 8, 2, func(s *submit.Submission) { s.Test = true })
	b.SubmitMany("single", 2, nil)
	if got := b.ListIDs("batch_id=7"); !slices.Equal(got, of7) {
		t.Errorf("batch 7: %v", got)
	}
	if got := b.ListIDs("batch_id=8&test=true&status=0"); !slices.Equal(got, tests) {
		t.Errorf("tests of batch 8: %v", got)
	}
	if got := b.ListIDs("test=true"); !slices.Equal(got, tests) {
		t.Errorf("tests: %v", got)
	}
	if got := b.ListIDs("batch_id=8&test=false"); len(got) != 0 {
		t.Errorf("no tests: %v", got)
	}
	if got := b.ListIDs("test=false"); len(got) < 5 || slices.Contains(got, tests[0]) {
		t.Errorf("no tests: %v", got)
	}
	if page := apptest.Decode[api.TaskPage](t, b.Expect(200, "", "GET", "/api/v1/sms/tasks?batch_id=7", nil, w.Acme...)); len(page.Items) != 0 {
		t.Errorf("another company sees %v", page.Items)
	}
	b.Expect(422, "request.invalid", "GET", "/api/v1/sms/tasks?batch_id=0", nil)
	b.Expect(422, "request.invalid", "GET", "/api/v1/sms/tasks?test=maybe", nil)
}

// Each log row and each fact contains the batch and the country of the task, and whether the task is a test message.
func TestLogRowsAndFactsContainTheFieldsBatchAndCountryAndIsTest(t *testing.T) {
	b := apptest.New(t)
	b.AddCountry("CN", "86", nil)
	soon := time.Now().Add(time.Hour)
	ids := submitBatch(b, 7, 8, func(s *submit.Submission) { s.Test, s.ExpiresAt = true, &soon })
	claimed := b.Claim("app", 7)
	b.Report(claimed[0].TaskID, "app", 2, nil)
	b.Report(claimed[0].TaskID, "app", 2, nil) // this report is too late
	b.Report(claimed[1].TaskID, "app", 3, nil)
	b.Report(claimed[2].TaskID, "app", 3, apptest.Report{"should_retry": true, "retry_after_seconds": 0})
	if n, err := b.App.Queue.Release(t.Context(), "app", []queue.Unused{{TaskID: claimed[3].TaskID, LeaseID: claimed[3].LeaseID, Tried: true}}); n != 1 || err != nil {
		t.Fatalf("released %d, %v", n, err)
	}
	b.Exec("UPDATE queue SET lease_until = now() - interval '1 second' WHERE task_id = $1", claimed[4].TaskID)
	b.Recover()
	b.Exec("UPDATE queue SET expires_at = now() - interval '1 second' WHERE task_id = $1", claimed[4].TaskID)
	if _, err := b.App.Queue.Expire(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := b.App.Tasks.CancelAll(t.Context(), ids, "operator"); err != nil {
		t.Fatal(err)
	}
	b.Requeue(claimed[1].TaskID)
	if left, err := b.App.Queue.SettleReceipts(t.Context(), []queue.Final{
		{TaskID: claimed[0].TaskID, SenderNo: "app", State: 1}, {TaskID: claimed[1].TaskID, SenderNo: "app", State: 2, LeaseID: &claimed[1].LeaseID},
	}); err != nil || slices.Contains(left, true) {
		t.Fatal(left, err)
	}
	for _, event := range []string{"reported", "recovered", "released", "cancelled", "expired", "receipt", "past_receipt", "requeued"} {
		if b.Count("SELECT count(*) FROM report_logs WHERE event = $1", event) == 0 {
			t.Errorf("no row %s", event)
		}
	}
	for _, table := range []string{"report_logs", "facts"} {
		if n := b.Count("SELECT count(*) FROM " + table + " WHERE (batch_id, country_no, is_test) IS DISTINCT FROM (7, 'CN', true)"); n != 0 {
			t.Errorf("%d rows of %s say something else", n, table)
		}
	}
	got := apptest.Scan[string](b, `SELECT concat_ws(' ', sum(submitted), sum(leases), sum(success), sum(failed), sum(pending_new), sum(pending_retry),
		sum(processing), sum(delivered), sum(requeued)) FROM facts WHERE batch_id = 7`)
	// Two tasks are PROCESSING. The requeued task no longer counts as FAILED.
	if want := "8 7 1 1 1 0 2 1 1"; got != want {
		t.Errorf("facts %s, want %s", got, want)
	}
	taken := apptest.Scan[int](b, "SELECT count(*) FROM facts")
	if n, err := b.App.History.Fold(t.Context()); err != nil || n != taken {
		t.Errorf("folded %d of %d, %v", n, taken, err)
	}
}

// A sweep holds the tasks of paused batches every second. It does not write to tasks that are already held.
func TestHoldingAHeldTaskAgainWritesNothing(t *testing.T) {
	b := apptest.New(t)
	submitBatch(b, 7, 3, nil)
	hold(b, 3)
	const headers = "SELECT string_agg(ctid::text || xmin || '-' || xmax, ' ' ORDER BY task_id) FROM queue"
	before := apptest.Scan[string](b, headers)
	hold(b, 0)
	if after := apptest.Scan[string](b, headers); after != before {
		t.Errorf("the rows are %s, were %s", after, before)
	}
}
