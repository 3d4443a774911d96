package queue_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
)

func TestRepeatedReportChangesNothing(t *testing.T) {
	b := apptest.New(t)
	id := b.Submit("x")
	b.Claim("app", 1)
	for range 3 {
		b.Report(id, "app", 2, nil)
	}
	b.Report(id, "app", 3, apptest.Report{"should_retry": true})
	if got := b.Task(id); got.Status != api.TaskSuccess {
		t.Errorf("left SUCCESS: %+v", got)
	}
	b.ExpectEffects(id, "reported success", "reported ignored", "reported ignored", "reported ignored")
}

func TestConcurrentReportsOfOneRetryCountOneAttempt(t *testing.T) {
	b := apptest.New(t)
	id := b.Submit("x")
	b.Claim("app", 1)
	apptest.Together(10, func(int) { b.Report(id, "app", 3, apptest.Report{"should_retry": true}) })
	if got := b.Task(id); got.RetryCount != 1 || got.Status != api.TaskPending {
		t.Errorf("got %+v", got)
	}
	effects := b.Effects(id)
	slices.Sort(effects)
	if len(effects) != 10 || effects[8] != "reported ignored" || effects[9] != "reported retry" {
		t.Errorf("log %v", effects)
	}
}

func TestReportByAnAppWithoutALeaseIsRefused(t *testing.T) {
	b := apptest.New(t)
	id := b.Submit("x")
	b.Expect(409, "task.not_held", "POST", "/api/v1/sms/report", apptest.ReportBody(id, "app", 2, nil)) // PENDING
	lease := b.Claim("app", 1)[0].LeaseID
	b.Expect(409, "task.not_held", "POST", "/api/v1/sms/report", apptest.ReportBody(id, "other", 2, nil))
	b.Expect(409, "task.not_held", "POST", "/api/v1/sms/report", apptest.ReportBody(id, "other", 2, apptest.Report{"lease_id": lease}))
	b.Expect(409, "task.not_held", "POST", "/api/v1/sms/report", apptest.ReportBody(id, "app", 2, apptest.Report{"lease_id": lease + 1}))
	if got := b.Task(id); got.Status != api.TaskProcessing || *got.ProcessingAppID != "app" {
		t.Errorf("changed: %+v", got)
	}
	b.ExpectEffects(id, "reported refused", "reported refused", "reported refused", "reported refused")
}

func TestLateSuccessSettlesATaskWithoutALease(t *testing.T) {
	for _, withLease := range []bool{false, true} {
		t.Run(fmt.Sprint("lease ", withLease), func(t *testing.T) {
			b := apptest.New(t)
			id := b.Submit("x")
			lease := b.Claim("slow", 1)[0].LeaseID
			b.ExpireLeases()
			b.Recover()
			more := apptest.Report{}
			if withLease {
				more["lease_id"] = lease
			}
			b.Expect(409, "task.not_held", "POST", "/api/v1/sms/report", apptest.ReportBody(id, "other", 2, more))
			b.Report(id, "slow", 3, more) // a late FAILED changes nothing
			b.Report(id, "slow", 2, more)
			if got := b.Task(id); got.Status != api.TaskSuccess || got.RetryCount != 1 || *got.ProcessingAppID != "slow" {
				t.Errorf("got %+v", got)
			}
			b.ExpectEffects(id, "recovered retry", "reported refused", "reported ignored", "reported success")
		})
	}
}

// A FAILED report counts only before the end of the lease. The time of the sweep does not matter.
func TestFailureReportedAfterTheLeaseChangesNothing(t *testing.T) {
	for _, more := range []apptest.Report{{}, {"should_retry": true, "retry_after_seconds": 0}} {
		for _, withLease := range []bool{false, true} {
			t.Run(fmt.Sprint(more, " lease ", withLease), func(t *testing.T) {
				b := apptest.New(t)
				id := b.Submit("x")
				said := maps.Clone(more)
				if lease := b.Claim("slow", 1)[0].LeaseID; withLease {
					said["lease_id"] = lease
				}
				b.ExpireLeases()
				b.Report(id, "slow", 3, said)
				if got := b.Task(id); got.Status != api.TaskProcessing || got.RetryCount != 0 {
					t.Errorf("the late report counted: %+v", got)
				}
				b.Recover()
				if got := b.Task(id); got.Status != api.TaskPending || got.RetryCount != 1 {
					t.Errorf("after the sweep: %+v", got)
				}
				b.ExpectEffects(id, "reported ignored", "recovered retry")
			})
		}
	}
	b := apptest.New(t)
	id := b.Submit("x")
	b.Claim("slow", 1)
	b.ExpireLeases()
	b.Report(id, "slow", 2, nil) // no other sender has a lease of the task
	b.ExpectEffects(id, "reported success")
}

func TestLateReportDoesNotChangeTheNextLease(t *testing.T) {
	b := apptest.New(t)
	id := b.Submit("x")
	stale := b.Claim("slow", 1)[0].LeaseID
	b.ExpireLeases()
	b.Recover()
	fresh := b.Claim("quick", 1)[0]
	if fresh.TaskID != id || fresh.Attempt != 2 || fresh.LeaseID <= stale {
		t.Fatalf("claimed %+v", fresh)
	}
	b.Report(id, "slow", 2, nil)
	b.Report(id, "slow", 2, apptest.Report{"lease_id": stale})
	if got := b.Task(id); got.Status != api.TaskProcessing || *got.ProcessingAppID != "quick" {
		t.Errorf("got %+v", got)
	}
	b.Report(id, "quick", 2, apptest.Report{"lease_id": fresh.LeaseID})
	b.ExpectEffects(id, "recovered retry", "reported ignored", "reported ignored", "reported success")
}

func TestReportOnAnOlderLeaseOfTheSameAppChangesNothing(t *testing.T) {
	b := apptest.New(t)
	id := b.Submit("x")
	stale := b.Claim("app", 1)[0].LeaseID
	b.ExpireLeases()
	b.Recover()
	fresh := b.Claim("app", 1)[0].LeaseID
	b.Report(id, "app", 3, apptest.Report{"lease_id": stale})
	if got := b.Task(id); got.Status != api.TaskProcessing {
		t.Errorf("the old lease ended the new one: %+v", got)
	}
	b.Report(id, "app", 2, apptest.Report{"lease_id": fresh})
	if got := b.Task(id); got.Status != api.TaskSuccess {
		t.Errorf("got %+v", got)
	}
}

// A sender that requested a retry has reported that it did not send the message. A later SUCCESS of this sender does not settle the task.
func TestSuccessAfterARequestedRetryChangesNothing(t *testing.T) {
	b := apptest.New(t)
	id := b.Submit("x")
	b.Claim("app", 1)
	b.Report(id, "app", 3, apptest.Report{"should_retry": true})
	b.Report(id, "app", 2, nil)
	if got := b.Task(id); got.Status != api.TaskPending {
		t.Errorf("got %+v", got)
	}
	b.ExpectEffects(id, "reported retry", "reported ignored")
}

func TestTaskThatFailedByTimeoutStaysFailed(t *testing.T) {
	rules := apptest.DefaultRules
	rules.MaxRetryCount = 0
	b := apptest.NewWith(t, rules, nil)
	id := b.Submit("x")
	b.Claim("slow", 1)
	b.ExpireLeases()
	b.Recover()
	b.Report(id, "slow", 2, nil)
	if got := b.Task(id); got.Status != api.TaskFailed {
		t.Errorf("left FAILED: %+v", got)
	}
	b.ExpectEffects(id, "recovered exhausted", "reported ignored")
}

// If a report in progress has locked the row, a sweep neither waits for the report nor undoes the report.
func TestSweepSkipsAReportInProgress(t *testing.T) {
	b := apptest.New(t)
	id := b.Submit("x")
	b.Claim("app", 1)
	other := b.Submit("y")
	b.Claim("app", 1)
	b.ExpireLeases()
	tx, err := b.DB.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "UPDATE tasks SET status = 2, lease_until = NULL WHERE task_id = $1", id); err != nil {
		t.Fatal(err)
	}
	if n := b.Recover(); n != 1 {
		t.Errorf("recovered %d leases, want only the lease of the other task", n)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := b.Recover(); n != 0 {
		t.Errorf("recovered %d leases after the report", n)
	}
	if got := b.Task(id); got.Status != api.TaskSuccess {
		t.Errorf("the SUCCESS was undone: %+v", got)
	}
	if got := b.Task(other); got.Status != api.TaskPending {
		t.Errorf("the other task: %+v", got)
	}
}

func TestConcurrentSweepsCountEachExpiredLeaseOnce(t *testing.T) {
	b := apptest.New(t)
	b.Exec(`INSERT INTO tasks (task_id, phone_number, recipient, content, status, processing_app_id, lease_id, lease_until)
		SELECT 't' || i, $1, $1, 'x', 1, 'gone', i, now() - interval '1 hour' FROM generate_series(1, 3000) i`, apptest.Phone)
	counts := make([]int, 5)
	apptest.Together(len(counts), func(i int) { counts[i] = b.Recover() })
	total := 0
	for _, n := range counts {
		total += n
	}
	if rest := b.Recover(); total+rest != 3000 {
		t.Errorf("five sweeps recovered %v and %d more leases, want 3000 in total", counts, rest)
	}
	if n := b.Count("SELECT count(*) FROM tasks WHERE retry_count = 1"); n != 3000 {
		t.Errorf("%d tasks have one retry", n)
	}
}

// If a cancellation and a claim run concurrently, the first of the two succeeds and the other fails. No task is both cancelled and sent.
func TestConcurrentCancellationAndClaimHaveOneWinner(t *testing.T) {
	b := apptest.New(t)
	for range 30 {
		id := b.Submit("x")
		var cancelled int
		var claimed []string
		apptest.Together(2, func(i int) {
			if i == 0 {
				cancelled = b.Call("POST", "/api/v1/sms/task/"+id+"/cancel", nil).Status
			} else {
				claimed = b.ClaimIDs(10)
			}
		})
		if (cancelled == 200) == (len(claimed) == 1) {
			t.Errorf("cancel answered %d and the claim gave %v", cancelled, claimed)
		}
	}
}

// A retry is sent although new tasks arrive continuously. Until the retry has waited for RetryMaxWait, new tasks are sent first (S0.10).
func TestRetryThatHasWaitedLongIsSentLikeANewTask(t *testing.T) {
	rules := apptest.DefaultRules
	rules.RetryMaxWait = 10 * time.Minute
	b := apptest.NewWith(t, rules, nil)
	for i, row := range []struct {
		id    string
		retry int
		due   string
	}{
		{"aged-2", 2, "-11 minutes"}, {"new-1", 0, "0"}, {"waiting-1", 1, "-9 minutes"}, {"aged-1", 1, "-1 hour"}, {"new-2", 0, "0"},
		{"waiting-2", 2, "-1 minute"}, {"not-due", 1, "1 minute"},
	} {
		b.Exec(`INSERT INTO tasks (task_id, phone_number, recipient, content, retry_count, due_at, created_at)
			VALUES ($1, $2, $2, 'x', $3, now() + $4::interval, now() - interval '1 day' + make_interval(mins => $5))`,
			row.id, apptest.Phone, row.retry, row.due, i)
	}
	var got []string
	for _, limit := range []int{2, 3, 10} {
		got = append(got, b.ClaimIDs(limit)...)
	}
	if want := []string{"aged-2", "new-1", "aged-1", "new-2", "waiting-1", "waiting-2"}; !slices.Equal(got, want) {
		t.Errorf("claimed %v\nwant    %v", got, want)
	}
}

// The number of new tasks and of retries exceeds one claim. No task is claimed twice, every task is claimed, and no claim exceeds its limit.
func TestEachOfManyNewTasksAndRetriesIsClaimedOnce(t *testing.T) {
	rules := apptest.DefaultRules
	rules.RetryMaxWait = 10 * time.Minute
	b := apptest.NewWith(t, rules, nil)
	b.Exec(`INSERT INTO tasks (task_id, phone_number, recipient, content, retry_count, due_at)
		SELECT 't' || i, $1, $1, 'x', i % 4, now() - make_interval(mins => i % 20) FROM generate_series(1, 600) i`, apptest.Phone)
	seen := map[string]bool{}
	for {
		ids := b.ClaimIDs(70)
		if len(ids) == 0 {
			break
		}
		if len(ids) > 70 || len(ids) < 70 && len(seen)+len(ids) < 600 {
			t.Fatalf("claimed %d of 70 with %d waiting", len(ids), 600-len(seen))
		}
		for _, id := range ids {
			if seen[id] {
				t.Fatalf("%s was claimed twice", id)
			}
			seen[id] = true
		}
	}
	if len(seen) != 600 {
		t.Errorf("claimed %d of 600", len(seen))
	}
}

func TestRepeatedRetryReportsCountAsOneAttempt(t *testing.T) {
	b := apptest.New(t)
	id := b.Submit("x")
	b.Claim("app", 1)
	for range 10 {
		b.Report(id, "app", 3, apptest.Report{"should_retry": true})
	}
	if got := b.Task(id); got.RetryCount != 1 || got.Status != api.TaskPending {
		t.Errorf("got %+v", got)
	}
}

func TestReportThatExhaustsTheRetriesIsLogged(t *testing.T) {
	rules := apptest.DefaultRules
	rules.MaxRetryCount = 0
	b := apptest.NewWith(t, rules, nil)
	id := b.Submit("x")
	b.Claim("app", 1)
	for range 2 { // the report and its repeat
		b.Report(id, "app", 3, apptest.Report{"should_retry": true, "error_message": "忙"})
	}
	if got := b.Task(id); got.Status != api.TaskFailed || *got.Result != "超过最大重试次数: 忙" || got.RetryCount != 0 {
		t.Errorf("got %+v", got)
	}
	b.ExpectEffects(id, "reported exhausted", "reported ignored")
}

// A sweep does not recover a lease that began after the sweep read the expired leases.
func TestSweepDoesNotRecoverALeaseThatBeganMeanwhile(t *testing.T) {
	b := apptest.New(t)
	id := b.Submit("x")
	b.Claim("slow", 1)
	b.ExpireLeases()
	var swept int
	var fresh []string
	apptest.Together(2, func(i int) {
		if i == 0 {
			swept = b.Recover()
		} else {
			fresh = b.ClaimIDs(1)
		}
	})
	if swept != 1 {
		t.Fatalf("recovered %d leases", swept)
	}
	if len(fresh) == 0 {
		fresh = b.ClaimIDs(1)
	}
	if n := b.Recover(); n != 0 || len(fresh) != 1 {
		t.Errorf("claimed %v and then recovered %d leases", fresh, n)
	}
	if got := b.Task(id); got.Status != api.TaskProcessing || *got.ProcessingAppID != "app" {
		t.Errorf("got %+v", got)
	}
}

func TestRequestWithATooLongAppIDChangesNothing(t *testing.T) {
	b := apptest.New(t)
	id := b.Submit("x")
	long := strings.Repeat("a", 51)
	b.Expect(422, "request.invalid", "GET", "/api/v1/sms/tasks/pending?app_id="+long, nil)
	b.Expect(422, "request.invalid", "POST", "/api/v1/sms/report", apptest.ReportBody(id, long, 2, nil))
	if got := b.Task(id); got.Status != api.TaskPending || got.ProcessingAppID != nil {
		t.Errorf("got %+v", got)
	}
	if n := b.Count("SELECT (SELECT count(*) FROM send_logs) + (SELECT count(*) FROM report_logs)"); n != 0 {
		t.Errorf("%d log rows", n)
	}
	if got := b.Claim(long[:50], 1); len(got) != 1 {
		t.Error("an app_id of 50 characters is refused")
	}
}
