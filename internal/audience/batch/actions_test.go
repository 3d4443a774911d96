package batch_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/platform/optional"
	"lksms/internal/testkit/apptest"
)

// numbers returns a list of n different phone numbers.
func numbers(n int) string {
	var list strings.Builder
	list.WriteString("phone\n")
	for i := range n {
		fmt.Fprintf(&list, "138%08d\n", i)
	}
	return list.String()
}

func queueDue(b *apptest.Bundle) {
	b.T.Helper()
	if _, err := b.App.Queue.Queue(b.T.Context()); err != nil {
		b.T.Fatal(err)
	}
}

// A sender can return a task after the other tasks of its batch were held or cancelled. No claim returns the task, also before the sweep follows.
func TestAReturnedTaskOfAStoppedBatchIsNotClaimed(t *testing.T) {
	b := apptest.New(t)
	for _, act := range []string{"pause", "cancel"} {
		at := checked(b, numbers(3), "content", act, "auto_confirm", "true")
		feed(b)
		queueDue(b)
		started := apptest.Decode[[]api.ClaimedTask](t, b.Expect(200, "", "POST", "/api/v1/sms/tasks/claim", map[string]any{"app_id": "app", "limit": 1, "start_seconds": 10}))
		taken := b.Claim("app", 2)
		if len(started) != 1 || len(taken) != 2 {
			t.Fatalf("claimed %v and %v", started, taken)
		}
		get(b, at, act)
		b.Report(taken[0].TaskID, "app", 3, apptest.Report{"should_retry": true, "retry_after_seconds": 0})
		b.ExpireLeases()
		b.Recover()
		if got := b.Claim("other", 10); len(got) != 0 {
			t.Errorf("%s: claimed %v", act, got)
		}
		queueDue(b)
		if got := b.Claim("other", 10); len(got) != 0 {
			t.Errorf("%s: claimed %v after they were queued", act, got)
		}
		feed(b)
		if act == "cancel" {
			expect(b, get(b, at), "cancelled", "3 rows, 3 valid, 3 cancelled")
		} else {
			expect(b, get(b, at, "resume"), "running", "3 rows, 3 valid, 3 waiting")
			b.Exec("UPDATE queue SET due_at = now()")
			queueDue(b)
			if got := b.Claim("other", 10); len(got) != 3 {
				t.Errorf("claimed %v after the batch was resumed", got)
			}
			get(b, at, "cancel")
		}
	}
}

func TestAPausedBatchContinuesWhenResumed(t *testing.T) {
	b := apptest.New(t)
	at := checked(b, numbers(3), "content", "hello", "auto_confirm", "true")
	expect(b, get(b, at), "running", "3 rows, 3 valid, 3 waiting")
	feed(b)
	b.Claim("app", 1)
	expect(b, get(b, at, "pause"), "paused", "3 rows, 3 valid, 2 waiting, 1 processing")
	get(b, at, "pause")
	if got := b.Claim("app", 10); len(got) != 0 {
		t.Errorf("claimed %v of a paused batch", got)
	}
	b.ExpireLeases()
	if b.Recover() != 1 {
		t.Error("no lease expired")
	}
	feed(b) // holds the task that waited for its retry
	b.Exec("UPDATE queue SET due_at = now() WHERE due_at < '9999-01-01'")
	queueDue(b)
	if got := b.Claim("app", 10); len(got) != 0 {
		t.Errorf("claimed %v of a paused batch", got)
	}
	expect(b, get(b, at), "paused", "3 rows, 3 valid, 3 waiting")
	expect(b, get(b, at, "resume"), "running", "3 rows, 3 valid, 3 waiting")
	queueDue(b)
	if got := b.Claim("app", 10); len(got) != 3 {
		t.Errorf("claimed %d tasks after the batch was resumed", len(got))
	}
}

// A server dies after it paused, resumed or cancelled a batch. The tasks of the batch are unchanged until a sweep runs. A repeat of the request changes the
// tasks before it is answered.
func TestARepeatedRequestChangesTheTasksThatAKilledServerDidNotChange(t *testing.T) {
	b := apptest.New(t)
	at := checked(b, numbers(3), "content", "hello", "auto_confirm", "true")
	feed(b)
	b.Exec("UPDATE batches SET status = 'paused', is_held = true")
	expect(b, get(b, at, "pause"), "paused", "3 rows, 3 valid, 3 waiting")
	if got := b.Claim("app", 10); len(got) != 0 {
		t.Errorf("claimed %v of a paused batch", got)
	}
	b.Exec("UPDATE batches SET status = 'running'")
	expect(b, get(b, at, "resume"), "running", "3 rows, 3 valid, 3 waiting")
	if got := b.Claim("app", 1); len(got) != 1 {
		t.Errorf("claimed %d tasks of a resumed batch", len(got))
	}
	b.Exec("UPDATE batches SET status = 'cancelled', ended_at = now()")
	expect(b, get(b, at, "cancel"), "cancelled", "3 rows, 3 valid, 1 processing, 2 cancelled")
	if got := b.Claim("app", 10); len(got) != 0 {
		t.Errorf("claimed %v of a cancelled batch", got)
	}
}

// If a batch is cancelled, its held tasks stay held until they are cancelled. They are not released if a switch is turned on before this.
func TestASwitchReleasesNoTaskOfACancelledBatch(t *testing.T) {
	b := apptest.New(t)
	at := checked(b, numbers(3), "content", "hello", "auto_confirm", "true")
	feed(b)
	get(b, at, "pause")
	b.Exec("UPDATE batches SET status = 'cancelled', ended_at = now()") // a server has cancelled the batch, but not its tasks yet
	for _, status := range []string{"off", "on"} {
		b.Expect(200, "", "PATCH", "/api/v1/admin/companies/default", map[string]any{"status": status})
	}
	queueDue(b)
	if got := b.Claim("app", 10); len(got) != 0 {
		t.Errorf("claimed %v of a batch that is being cancelled", got)
	}
	feed(b)
	expect(b, get(b, at), "cancelled", "3 rows, 3 valid, 3 cancelled")
}

// If a paused batch expires, the batch and its tasks end.
func TestAPausedBatchExpires(t *testing.T) {
	b := apptest.New(t)
	at := checked(b, numbers(3), "content", "hello", "auto_confirm", "true", "expires_at", time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	feed(b)
	get(b, at, "pause")
	feed(b)
	expect(b, get(b, at), "paused", "3 rows, 3 valid, 3 waiting")
	for _, table := range []string{"batches", "queue", "messages"} {
		b.Exec("UPDATE " + table + " SET expires_at = now() - interval '1 second'")
	}
	if _, err := b.App.Queue.Expire(t.Context()); err != nil {
		t.Fatal(err)
	}
	feed(b)
	feed(b)
	expect(b, get(b, at), "finished", "3 rows, 3 valid, 3 failed")
}

// A confirmation is repeated because its answer was lost. The repeat succeeds in every later status of the batch except cancelled.
func TestARepeatedConfirmationSucceeds(t *testing.T) {
	b := apptest.New(t)
	at := checked(b, numbers(1), "content", "hello")
	get(b, at, "confirm")
	get(b, at, "pause")
	expect(b, get(b, at, "confirm"), "paused", "1 rows, 1 valid, 1 waiting")
	get(b, at, "cancel")
	b.Expect(409, "batch.wrong_status", "POST", at+"/confirm", nil)
}

func TestCancellingABatchCancelsItsUnleasedTasks(t *testing.T) {
	b := apptest.New(t)
	at := checked(b, numbers(3), "content", "hello", "auto_confirm", "true")
	feed(b)
	held := b.Claim("app", 2)
	get(b, at, "pause")
	expect(b, get(b, at, "cancel"), "cancelled", "3 rows, 3 valid, 2 processing, 1 cancelled")
	get(b, at, "cancel")
	b.Report(held[0].TaskID, "app", 2, nil)
	b.ExpireLeases()
	if b.Recover() != 1 {
		t.Error("no lease expired")
	}
	feed(b)
	expect(b, get(b, at), "cancelled", "3 rows, 3 valid, 1 success, 2 cancelled")
	if got := b.Claim("app", 10); len(got) != 0 {
		t.Errorf("claimed %v of a cancelled batch", got)
	}
	feed(b)
	if n := b.Count("SELECT count(*) FROM batches WHERE is_settled"); n != 1 {
		t.Error("the batch is not settled")
	}

	early := create(b, numbers(3), "content", "hello")
	expect(b, get(b, early, "cancel"), "cancelled", "")
	check(b)
	expect(b, get(b, early), "cancelled", "")
	ready := checked(b, numbers(3), "content", "hello")
	expect(b, get(b, ready, "cancel"), "cancelled", "3 rows, 3 valid, 3 cancelled")
	if n := b.Count("SELECT count(*) FROM uploads"); n != 0 {
		t.Errorf("%d files are kept", n)
	}
}

// While a sender still holds tasks of a cancelled batch, the sweep would cancel a requeued task again. After that, the task can be requeued.
func TestNoTaskIsRequeuedWhileItsBatchIsBeingCancelled(t *testing.T) {
	b := apptest.New(t)
	at := checked(b, numbers(2), "content", "hello", "auto_confirm", "true")
	feed(b)
	held := b.Claim("app", 2)
	get(b, at, "cancel")
	b.Report(held[0].TaskID, "app", 3, nil)
	path := apptest.RequeuePath(held[0].TaskID)
	b.Expect(409, "batch.wrong_status", "POST", path, nil)
	n, refused, err := b.App.Tasks.RequeueEach(t.Context(), []string{held[0].TaskID}, "admin", "")
	if n != 0 || err != nil || fmt.Sprint(refused) != "map[batch.wrong_status:1]" {
		t.Errorf("requeued %d, %v; refused %v", n, err, refused)
	}
	b.Report(held[1].TaskID, "app", 2, nil)
	feed(b)
	b.Expect(200, "", "POST", path, nil)
	feed(b)
	if got := b.Claim("app", 10); len(got) != 1 {
		t.Errorf("claimed %d", len(got))
	}
}

// A requeue fails if the batch is cancelled meanwhile. Otherwise, the requeued task would be cancelled at once.
func TestACancellationDuringARequeueRefusesTheRequeue(t *testing.T) {
	b := apptest.New(t)
	checked(b, numbers(2), "content", "hello", "auto_confirm", "true")
	feed(b)
	held := b.Claim("app", 2)
	b.Report(held[0].TaskID, "app", 3, nil)
	tx, err := b.DB.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := tx.Exec(t.Context(), "UPDATE batches SET status = 'cancelled', ended_at = now()"); err != nil {
		t.Fatal(err)
	}
	requeued := make(chan apptest.Answer, 1)
	go func() { requeued <- b.Call("POST", apptest.RequeuePath(held[0].TaskID), nil) }()
	b.AwaitLockWait()
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a := <-requeued; a.Status != 409 || a.Body.Error.Reason != "batch.wrong_status" {
		t.Errorf("requeue: %s", a.Raw)
	}
}

// A claim returns no task that expires within a second, so such a batch or task would expire unsent.
func TestBatchesAndTasksThatExpireWithinASecondAreRejected(t *testing.T) {
	b := apptest.New(t)
	in := func(d time.Duration) string { return time.Now().Add(d).Format(time.RFC3339) }
	at := checked(b, numbers(1), "content", "hello", "expires_at", in(time.Hour))
	b.Exec("UPDATE batches SET expires_at = now() + interval '0.9 s'")
	b.Expect(409, "batch.expired", "POST", at+"/confirm", nil)
	at = checked(b, numbers(1), "content", "hello", "auto_confirm", "true", "expires_at", in(time.Hour))
	feed(b)
	id := b.Claim("app", 1)[0].TaskID
	b.Report(id, "app", 3, nil)
	feed(b)
	b.Exec("UPDATE messages SET expires_at = now() + interval '0.9 s'")
	if n, err := b.App.Tasks.RequeueAll(t.Context(), []string{id}, "admin", ""); n != 0 || err != nil {
		t.Errorf("requeued %d, %v", n, err)
	}
	b.Exec("UPDATE messages SET expires_at = now() + interval '0.9 s'")
	b.Expect(409, "task.expired", "POST", apptest.RequeuePath(id), nil)
	b.Exec("UPDATE messages SET expires_at = now() + interval '0.9 s'")
	got := apptest.Decode[api.BatchRequeued](t, b.Expect(200, "", "POST", at+"/requeue", nil))
	if len(got.Skipped) != 1 || got.Skipped[0].Reason != "task.expired" || got.Count != 0 {
		t.Errorf("requeued %+v", got)
	}
}

func TestABatchIsSentOnlyBetweenItsStartAndItsExpiry(t *testing.T) {
	b := apptest.New(t)
	in := func(d time.Duration) string { return time.Now().Add(d).Format(time.RFC3339) }
	at := checked(b, numbers(2), "content", "hello", "auto_confirm", "true", "expect_send_time", in(time.Hour), "expires_at", in(2*time.Hour))
	feed(b)
	if n := b.Count("SELECT count(*) FROM messages"); n != 0 {
		t.Errorf("%d tasks before the time", n)
	}
	b.Exec("UPDATE batches SET expect_send_time = now()")
	feed(b)
	if got := b.Claim("app", 1); len(got) != 1 {
		t.Errorf("claimed %d", len(got))
	}
	b.Exec("UPDATE batches SET expires_at = now()")
	b.Exec("UPDATE queue SET expires_at = now()")
	if _, err := b.App.Queue.Expire(t.Context()); err != nil {
		t.Fatal(err)
	}
	feed(b)
	expect(b, get(b, at), "running", "2 rows, 2 valid, 1 processing, 1 failed")
	unsent := checked(b, numbers(2), "content", "hello", "auto_confirm", "true", "expect_send_time", in(time.Hour), "expires_at", in(2*time.Hour))
	b.Exec("UPDATE batches SET expect_send_time = now(), expires_at = now()")
	feed(b)
	expect(b, get(b, unsent), "finished", "2 rows, 2 valid, 2 cancelled")
	late := create(b, numbers(2), "content", "hello", "auto_confirm", "true", "expires_at", in(time.Hour))
	b.Exec("UPDATE batches SET expires_at = now() WHERE status = 'checking'")
	check(b)
	feed(b)
	expect(b, get(b, late), "finished", "2 rows, 2 valid, 2 cancelled")
	for field, value := range map[string]string{"expires_at": in(-time.Hour), "expect_send_time": in(500 * 24 * time.Hour)} {
		a := form(b, 422, apptest.Form("file", "", "phone\n1\n", "name", "n", "content", "x", field, value))
		if a.Fields() != field {
			t.Errorf("%s: wrong fields %s", field, a.Fields())
		}
	}
}

func TestABatchReadsTheContactsOfItsTagAtItsStart(t *testing.T) {
	b := apptest.New(t)
	b.Expect(200, "", "PUT", "/api/v1/tags/vip", nil)
	at := fmt.Sprintf("%s/%d", path, apptest.Decode[api.BatchCreated](t, form(b, 200, apptest.Form("", "", "", "name", "n", "content", "hello",
		"tag", "vip", "auto_confirm", "true", "expect_send_time", time.Now().Add(time.Hour).Format(time.RFC3339)))).BatchID)
	check(b)
	feed(b)
	expect(b, get(b, at), "running", "")
	b.PutContacts(map[string]any{"user_id": "a", "phone": "13800138000"})
	b.Expect(200, "", "POST", "/api/v1/tags/vip/contacts", map[string]any{"add": []string{"a"}})
	b.Exec("UPDATE batches SET expect_send_time = now()")
	feed(b)
	check(b)
	feed(b)
	expect(b, get(b, at), "running", "1 rows, 1 valid, 1 waiting")
}

func TestABatchIsPausedWhileItReadsItsTagAgain(t *testing.T) {
	b := apptest.New(t)
	b.Expect(200, "", "PUT", "/api/v1/tags/vip", nil)
	b.PutContacts(map[string]any{"user_id": "a", "phone": "13800138000"})
	b.Expect(200, "", "POST", "/api/v1/tags/vip/contacts", map[string]any{"add": []string{"a"}})
	at := fmt.Sprintf("%s/%d", path, apptest.Decode[api.BatchCreated](t, form(b, 200, apptest.Form("", "", "", "name", "n", "content", "hello", "tag", "vip"))).BatchID)
	b.Expect(409, "batch.wrong_status", "POST", at+"/pause", nil)
	check(b)
	get(b, at, "confirm")
	feed(b)
	expect(b, get(b, at), "checking", "")
	expect(b, get(b, at, "pause"), "paused", "")
	expect(b, get(b, at, "resume"), "checking", "")
	expect(b, get(b, at, "pause"), "paused", "")
	feed(b)
	check(b)
	feed(b)
	expect(b, get(b, at), "paused", "1 rows, 1 valid, 1 waiting")
	expect(b, get(b, at, "resume"), "running", "1 rows, 1 valid, 1 waiting")
	feed(b)
	expect(b, get(b, at), "running", "1 rows, 1 valid, 1 waiting")
}

// The rows of a batch that was confirmed do not disappear if it expires or is paused while it reads its tag again.
func TestABatchThatExpiresWhileItReadsItsTagAgainKeepsItsRows(t *testing.T) {
	b := apptest.New(t)
	b.Expect(200, "", "PUT", "/api/v1/tags/vip", nil)
	b.PutContacts(map[string]any{"user_id": "a", "phone": "13800138000"})
	b.Expect(200, "", "POST", "/api/v1/tags/vip/contacts", map[string]any{"add": []string{"a"}})
	at := fmt.Sprintf("%s/%d", path, apptest.Decode[api.BatchCreated](t, form(b, 200, apptest.Form("", "", "", "name", "n", "content", "hello", "tag", "vip",
		"expires_at", time.Now().Add(time.Hour).Format(time.RFC3339)))).BatchID)
	check(b)
	get(b, at, "confirm")
	feed(b)
	get(b, at, "pause")
	b.Exec("UPDATE batches SET expires_at = now()")
	feed(b)
	expect(b, get(b, at), "paused", "")
	check(b)
	feed(b)
	expect(b, get(b, at), "finished", "1 rows, 1 valid, 1 cancelled")
}

func TestFailedMessagesOfABatchAreSentAgain(t *testing.T) {
	b := apptest.New(t)
	at := checked(b, numbers(2), "content", "hello", "auto_confirm", "true")
	feed(b)
	for _, task := range b.Claim("app", 10) {
		b.Report(task.TaskID, "app", 3, nil)
	}
	feed(b)
	expect(b, get(b, at), "finished", "2 rows, 2 valid, 2 failed")
	// A company with many jobs still leaves slots for the jobs of other companies.
	b.Exec(`INSERT INTO task_jobs (action, filter, total, created_by)
		SELECT 'requeue', jsonb_build_object('batch_id', id, 'source', n::text), 1, 'x' FROM batches, generate_series(1, 10) n`)
	if a := b.Expect(409, "limit.reached", "POST", at+"/requeue", nil); a.Body.Error.Limit != 10 {
		t.Errorf("%s", a.Raw)
	}
	b.Exec("DELETE FROM task_jobs")
	again := apptest.Decode[api.BatchRequeued](t, b.Expect(200, "", "POST", at+"/requeue", nil))
	if again.Count != 2 || again.JobID == nil {
		t.Fatalf("%+v", again)
	}
	feed(b) // before the job has run
	expect(b, get(b, at), "running", "2 rows, 2 valid, 2 failed")
	if n, err := b.App.Jobs.Run(t.Context()); n != 2 || err != nil {
		t.Fatalf("requeued %d, %v", n, err)
	}
	feed(b)
	expect(b, get(b, at), "running", "2 rows, 2 valid, 2 waiting")
	for _, task := range b.Claim("app", 10) {
		b.Report(task.TaskID, "app", 2, nil)
	}
	feed(b)
	expect(b, get(b, at), "finished", "2 rows, 2 valid, 2 success")
	if again := apptest.Decode[api.BatchRequeued](t, b.Expect(200, "", "POST", at+"/requeue", nil)); again.Count != 0 || again.JobID != nil {
		t.Errorf("%+v", again)
	}
	expect(b, get(b, at), "finished", "2 rows, 2 valid, 2 success")
	b.Expect(409, "batch.wrong_status", "POST", create(b, numbers(1), "content", "x")+"/requeue", nil)
}

func TestARequeueOfAPausedBatchWaits(t *testing.T) {
	b := apptest.New(t)
	at := checked(b, numbers(2), "content", "hello", "auto_confirm", "true")
	feed(b)
	tasks := b.Claim("app", 10)
	b.Report(tasks[0].TaskID, "app", 3, nil)
	feed(b)
	get(b, at, "pause")
	b.Expect(200, "", "POST", at+"/requeue", nil)
	if n, err := b.App.Jobs.Run(t.Context()); n != 1 || err != nil {
		t.Fatalf("requeued %d, %v", n, err)
	}
	if got := b.Claim("app", 10); len(got) != 0 {
		t.Errorf("claimed %v of a paused batch", got)
	}
	get(b, at, "resume")
	queueDue(b)
	if got := b.Claim("app", 10); len(got) != 1 {
		t.Errorf("claimed %d tasks after the batch was resumed", len(got))
	}
}

// A batch does not end while a job is about to send its failed messages again.
func TestABatchDoesNotEndDuringARequeue(t *testing.T) {
	b := apptest.New(t)
	at := checked(b, numbers(2), "content", "hello", "auto_confirm", "true")
	feed(b)
	for _, task := range b.Claim("app", 10) {
		b.Report(task.TaskID, "app", 3, nil)
	}
	if _, err := b.App.History.Fold(t.Context()); err != nil {
		t.Fatal(err)
	}
	tx, err := b.DB.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := tx.Exec(t.Context(), "SELECT lock_table('lock_task_jobs')"); err != nil {
		t.Fatal(err)
	}
	requeued, fed := make(chan apptest.Answer, 1), make(chan error, 1)
	go func() { requeued <- b.Call("POST", at+"/requeue", nil) }()
	b.AwaitLockWait()
	go func() {
		_, err := b.App.Batches.Feed(t.Context())
		fed <- err
	}()
	apptest.Eventually(t, "the sweep ends, or waits", func() bool {
		return len(fed) > 0 || b.Count("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()") == 2
	})
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a := <-requeued; a.Status != 200 {
		t.Errorf("requeue: %s", a.Raw)
	}
	if err := <-fed; err != nil {
		t.Error(err)
	}
	expect(b, get(b, at), "running", "2 rows, 2 valid, 2 failed")
}

func TestDuplicatesAreFoundByTheRuleOfTheBatch(t *testing.T) {
	b := apptest.New(t)
	const list = "phone,n\n13800138000,a\n13800138000,a\n+8613800138000,b\n138,a\n138,a\n"
	for dedup, want := range map[string]string{
		"none": "5 rows, 3 valid, 2 invalid, 3 waiting", "phone": "5 rows, 1 valid, 2 invalid, 2 duplicate, 1 waiting",
		"row": "5 rows, 2 valid, 2 invalid, 1 duplicate, 2 waiting",
	} {
		expect(b, get(b, checked(b, list, "content", "{n}", "dedup", dedup)), "ready", want)
	}
}

func TestABatchNeedsExactlyOneSourceOfRows(t *testing.T) {
	b := apptest.New(t)
	workbook, err := os.ReadFile("../sheet/testdata/workbooks/openpyxl.xlsx")
	if err != nil {
		t.Fatal(err)
	}
	for name, list := range map[string]string{
		"list.xlsx": apptest.Form("file", "list.xlsx", string(workbook), "name", "n", "content", "{姓名}"),
		"rows":      apptest.Form("rows", "rows.json", `[{"手机号":"13800138000","姓名":"张三"},{"手机号":13900139000,"姓名":"李 & <四>"}]`, "name", "n", "content", "{姓名}"),
	} {
		at := fmt.Sprintf("%s/%d", path, apptest.Decode[api.BatchCreated](t, form(b, 200, list)).BatchID)
		check(b)
		got := rows(b, at, "")
		if !strings.Contains(got, `+8613800138000 "张三" waiting`) || !strings.Contains(got, `+8613900139000 "李 & <四>" waiting`) {
			t.Errorf("%s:\n%s", name, got)
		}
	}

	b.Expect(200, "", "PUT", "/api/v1/admin/contacts", map[string]any{"contacts": []any{
		map[string]any{"user_id": "a", "phone": "13800138000", "name": "张三", "attributes": map[string]any{"城市": "杭州"}},
		map[string]any{"user_id": "b", "phone": "13900139000", "name": "李四"}, map[string]any{"user_id": "c", "name": "王五"},
	}})
	b.Expect(200, "", "PUT", "/api/v1/tags/vip", nil)
	b.Expect(200, "", "POST", "/api/v1/tags/vip/contacts", map[string]any{"add": []string{"a", "b", "c"}})
	at := fmt.Sprintf("%s/%d", path, apptest.Decode[api.BatchCreated](t, form(b, 200,
		apptest.Form("", "", "", "name", "n", "content", "{name}在{城市}", "tag", "vip"))).BatchID)
	check(b)
	expect(b, get(b, at), "ready", "3 rows, 1 valid, 2 invalid, 1 waiting")
	if got := rows(b, at, "?status=waiting"); got != `1 +8613800138000 "张三在杭州" waiting` {
		t.Error(got)
	}
	get(b, at, "confirm")
	b.Expect(200, "", "PUT", "/api/v1/admin/contacts", map[string]any{"contacts": []any{ // before the batch starts
		map[string]any{"user_id": "b", "attributes": map[string]any{"城市": "上海"}},
	}})
	feed(b)
	check(b)
	feed(b)
	expect(b, get(b, at), "running", "3 rows, 2 valid, 1 invalid, 2 waiting")
	if got := b.Claim("app", 10); len(got) != 2 {
		t.Errorf("claimed %v", got)
	}
	for _, wrong := range []struct{ field, form string }{
		{"tag", apptest.Form("", "", "", "name", "n", "content", "x", "tag", "nobody")},
		{"phone_column", apptest.Form("", "", "", "name", "n", "content", "x", "tag", "vip", "phone_column", "x")},
		{"phone_column", apptest.Form("file", "", "a,b\n1,2\n", "name", "n", "content", "x")},
		{"phone_column", apptest.Form("file", "", "手机,电话\n13800138000,13800138001\n", "name", "n", "content", "x")}, // two columns can be meant
		{"phone_column", apptest.Form("file", "", "a,b\n1,2\n", "name", "n", "content", "x", "phone_column", "c")},
		{"content", apptest.Form("file", "", "phone\n1\n", "name", "n", "content", "{x}{y}")},
		{"content", apptest.Form("file", "", "phone\n1\n", "name", "n")},
		{"content", apptest.Form("file", "", "phone\n1\n", "name", "n", "content", "x", "template_no", "x")},
		{"template_no", apptest.Form("file", "", "phone\n1\n", "name", "n", "template_no", "x")},
		{"language", apptest.Form("file", "", "phone\n1\n", "name", "n", "content", "x", "language", "en")},
		{"sender_no", apptest.Form("file", "", "phone\n1\n", "name", "n", "content", "x", "sender_no", "nobody")},
		{"file", apptest.Form("", "", "", "name", "n", "content", "x")},
		{"file", apptest.Form("file", "", "phone\n1\n", "name", "n", "content", "x", "tag", "vip")},
		{"file", apptest.Form("file", "", "phone,phone\n1\n", "name", "n", "content", "x")},
		{"name", apptest.Form("file", "", "phone\n1\n", "content", "x")},
		{"dedup", apptest.Form("file", "", "phone\n1\n", "name", "n", "content", "x", "dedup", "x")},
	} {
		if a := form(b, 422, wrong.form); a.Fields() != wrong.field {
			t.Errorf("wrong fields %s, want %s: %s", a.Fields(), wrong.field, a.Raw)
		}
	}
	if n := b.Count("SELECT count(*) FROM uploads"); n != 0 {
		t.Errorf("%d files are kept", n)
	}
}

func TestATruncatedListCancelsItsBatch(t *testing.T) {
	b := apptest.New(t)
	at := checked(b, numbers(3000)+"\"13800138000", "content", "hello", "auto_confirm", "true")
	got := get(b, at)
	expect(b, got, "cancelled", "2000 rows, 2000 valid, 2000 cancelled")
	if got.Remark == nil || *got.Remark != "file ends in the middle of a value: row 3002" {
		t.Errorf("remark %v", got.Remark)
	}
	feed(b)
	if n := b.Count("SELECT (SELECT count(*) FROM uploads) + (SELECT count(*) FROM messages)"); n != 0 {
		t.Errorf("%d files and tasks", n)
	}
}

func TestABatchCanNameASenderOrATemplate(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "one", "balance": 1000})
	b.AddSender(map[string]any{"sender_no": "other"})
	b.AddCompany("acme", 1)
	b.AddRoute("acme", "other", 1)
	if a := form(b, 422, apptest.Form("file", "", "phone\n1\n", "name", "n", "content", "x", "sender_no", "other")); a.Fields() != "sender_no" {
		t.Errorf("wrong fields %s", a.Fields())
	}
	at := checked(b, numbers(2), "content", "hello", "auto_confirm", "true", "sender_no", "one")
	if e := get(b, at).Estimate; len(e.Costs) != 1 || e.Costs[0].SenderNo != "one" || e.Costs[0].Segments != 2 {
		t.Errorf("%+v", e)
	}
	feed(b)
	if got := len(b.Claim("app", 10)); got != 0 {
		t.Errorf("another sender claimed %d", got)
	}
	if got := len(b.Claim("one", 10)); got != 2 {
		t.Errorf("the sender of the batch claimed %d tasks", got)
	}
	b.Expect(200, "", "POST", "/api/v1/admin/template", map[string]any{
		"template_no": "T1", "template_name": "n", "template_content": "{name}，您好", "sign": "示例",
	})
	key := []string{apptest.KeyHeader, "k"}
	made := apptest.Form("file", "", "phone,name\n13800138000,张三\n", "name", "n", "template_no", "T1")
	first, second := form(b, 200, made, key...), form(b, 200, made, key...)
	if first.Raw != second.Raw {
		t.Errorf("%s, then %s", first.Raw, second.Raw)
	}
	check(b)
	at = fmt.Sprintf("%s/%d", path, apptest.Decode[api.BatchCreated](t, first).BatchID)
	p := apptest.Decode[api.BatchPreview](t, b.Expect(200, "", "GET", at+"/preview", nil))
	if *p.FinalContent != "【示例】张三，您好" {
		t.Errorf("%+v", p)
	}
}

// S3.10: a batch uses the language and the interval of its template. Its timeline contains the version of the template. The template must be active until the
// batch is confirmed. After the confirmation, the batch keeps its text.
func TestABatchUsesItsTemplateUntilItsConfirmation(t *testing.T) {
	b := apptest.New(t)
	const template = "/api/v1/admin/template"
	id := apptest.Decode[api.Template](t, b.Expect(200, "", "POST", template, map[string]any{
		"template_no": "T1", "template_name": "n", "template_content": "您好", "language": "zh", "translations": map[string]string{"en": "hello"}, "send_type": "scheduled",
	})).ID
	at := checked(b, numbers(1), "template_no", "T1", "language", "en-GB")
	b.Expect(200, "", "PATCH", fmt.Sprint(template, "/", id), `{"status":"disabled"}`)
	b.Expect(409, "template.not_active", "POST", at+"/confirm", nil)
	b.Expect(200, "", "PATCH", fmt.Sprint(template, "/", id), `{"status":"active","companies":["default"],"translations":{}}`)
	if at := get(b, at, "confirm").ExpectSendTime; at == nil || at.Unix()%300 != 0 || time.Until(*at) > 5*time.Minute {
		t.Fatalf("the batch is sent at %v, want the next full interval", at)
	}
	b.Expect(200, "", "PATCH", fmt.Sprint(template, "/", id), `{"status":"voided"}`)
	feed(b)
	if got := len(b.Claim("app", 10)); got != 0 {
		t.Error("the batch was sent before the next full interval")
	}
	b.Exec("UPDATE batches SET expect_send_time = now()")
	feed(b)
	if got := len(b.Claim("app", 10)); got != 1 {
		t.Errorf("%d tasks can be claimed when the interval begins", got)
	}
	task := apptest.Decode[api.TaskPage](t, b.Expect(200, "", "GET", "/api/v1/sms/tasks", nil)).Items[0]
	if task.Content != "hello" {
		t.Errorf("%+v", task)
	}
	if got := b.Expect(200, "", "GET", "/api/v1/sms/task/"+task.TaskID+"/timeline", nil).Raw; !strings.Contains(got, `"template":{"id":`+fmt.Sprint(id)+`,"language":"en","template_no":"T1","version":1}`) {
		t.Errorf("%s", got)
	}
}

// S3.10: a batch with its own send time is sent at this time, and not at the time of its template. A batch whose template was replaced cannot be confirmed.
func TestTheTimeOfABatchOverridesItsScheduledTemplate(t *testing.T) {
	b := apptest.New(t)
	scheduled := map[string]any{"template_no": "T1", "template_name": "n", "template_content": "您好", "send_type": "scheduled"}
	id := apptest.Decode[api.Template](t, b.Expect(200, "", "POST", "/api/v1/admin/template", scheduled)).ID
	replaced := checked(b, numbers(1), "template_no", "T1")
	soon := time.Now().Add(time.Hour).UTC().Truncate(time.Second).Format(time.RFC3339)
	at := checked(b, numbers(2), "template_no", "T1", "expect_send_time", soon)
	if got := get(b, at, "confirm").ExpectSendTime; got == nil || got.Format(time.RFC3339) != soon {
		t.Errorf("the batch is sent at %v, want %s", got, soon)
	}
	b.Exec("UPDATE batches SET expect_send_time = now()")
	feed(b)
	if got := len(b.Claim("app", 10)); got != 2 {
		t.Errorf("%d tasks can be claimed at its time", got)
	}
	if a := checked(b, numbers(1), "template_no", "T1", "auto_confirm", "true"); get(b, a).ExpectSendTime == nil {
		t.Error("a batch that is confirmed with its request has no time")
	}
	b.Expect(200, "", "DELETE", fmt.Sprint("/api/v1/admin/template/", id), nil)
	b.Expect(200, "", "POST", "/api/v1/admin/template", scheduled)
	b.Expect(409, "template.not_active", "POST", replaced+"/confirm", nil)
}

func TestTheUsersOfACompanySeeAndChangeItsBatches(t *testing.T) {
	b := apptest.New(t)
	acme, beta := b.AddCompany("acme", 1), b.AddCompany("beta", 1)
	reader := b.AddUser("reader", "read", map[string]any{"company_no": "acme"})
	colleague := b.AddUser("colleague", "submit", map[string]any{"company_no": "acme"})
	a := form(b, 200, apptest.Form("file", "", numbers(1), "name", "n", "content", "x"), acme...)
	at := fmt.Sprintf("%s/%d", path, apptest.Decode[api.BatchCreated](t, a).BatchID)
	check(b)
	for i, c := range []struct {
		headers []string
		sees    bool
		may     int // expected status of a request that changes the batch
	}{{acme, true, 200}, {reader, true, 403}, {colleague, true, 200}, {beta, false, 404}, {nil, true, 200}} {
		page := apptest.Decode[api.BatchPage](t, b.Expect(200, "", "GET", path, nil, c.headers...))
		if (len(page.Items) == 1) != c.sees {
			t.Errorf("caller %d sees %d batches", i, len(page.Items))
		}
		for _, part := range []string{"", "/rows", "/errors.csv", "/preview"} {
			if got := b.Call("GET", at+part, nil, c.headers...).Status; (got == 200) != c.sees || !c.sees && got != 404 {
				t.Errorf("caller %d reads %s: %d", i, part, got)
			}
		}
		if c.may != 200 {
			for _, action := range []string{"confirm", "pause", "resume", "cancel", "requeue"} {
				if got := b.Call("POST", at+"/"+action, nil, c.headers...).Status; got != c.may {
					t.Errorf("caller %d gets %d for %s, want %d", i, got, action, c.may)
				}
			}
		}
	}
	b.Expect(200, "", "POST", at+"/confirm", nil, acme...)
	feed(b)
	if n := b.Count("SELECT count(*) FROM messages m JOIN companies c ON c.id = m.company_id WHERE c.company_no = 'acme' AND m.submitted_by = 'user-of-acme'"); n != 1 {
		t.Errorf("%d tasks of the company", n)
	}
}

func TestAnExpiredBatchCannotBeConfirmed(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "app"})
	in := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(time.RFC3339) }
	at := checked(b, numbers(2), "content", "hello", "expires_at", in(time.Hour))
	b.Exec("UPDATE batches SET expires_at = now()")
	b.Expect(409, "batch.expired", "POST", at+"/confirm", nil)
	expired := get(b, at)
	if expect(b, expired, "ready", "2 rows, 2 valid, 2 waiting"); expired.WaitsFor == nil || expired.WaitsFor.Reason != api.WaitsInVain || expired.Estimate.EarliestEnd != nil {
		t.Errorf("waits for %+v, %+v", expired.WaitsFor, expired.Estimate)
	}
	b.Exec("UPDATE batches SET expires_at = now() + interval '1 hour', is_deferred = true, expect_send_time = now() + interval '2 hours'")
	b.Expect(409, "batch.expired", "POST", at+"/confirm", nil)
	if late := get(b, at); late.WaitsFor == nil || late.WaitsFor.Reason != api.WaitsInVain {
		t.Errorf("waits for %+v", late.WaitsFor)
	}
	preview := b.Expect(200, "", "GET", at+"/preview", nil)
	if !strings.Contains(preview.Raw, `"code":8`) || strings.Contains(preview.Raw, "would_be_scheduled") {
		t.Errorf("the preview of a row that would expire unsent: %s", preview.Raw)
	}
	cancelled := checked(b, numbers(1), "content", "hello", "expires_at", in(time.Hour))
	get(b, cancelled, "cancel")
	b.Exec("UPDATE batches SET expires_at = now() WHERE status = 'cancelled'")
	if preview := b.Expect(200, "", "GET", cancelled+"/preview", nil); strings.Contains(preview.Raw, `"code":8`) || !strings.Contains(preview.Raw, "hello") {
		t.Errorf("the preview of a row that was cancelled, and would have expired since: %s", preview.Raw)
	}
	b.Exec("UPDATE batches SET is_deferred = false, expect_send_time = NULL")
	expect(b, get(b, at, "confirm"), "running", "2 rows, 2 valid, 2 waiting")
	b.Exec("UPDATE batches SET expires_at = now()")
	feed(b)
	expect(b, get(b, at), "finished", "2 rows, 2 valid, 2 cancelled")
	rows := apptest.Decode[api.BatchRowPage](t, b.Expect(200, "", "GET", at+"/rows", nil))
	for _, row := range rows.Items {
		if row.Code == nil || *row.Code != 8 || row.Result == nil || *row.Result != "已过期" || *row.Status != "cancelled" {
			t.Errorf("a row that expired: %+v", row)
		}
	}
	if len(rows.Items) != 2 {
		t.Errorf("%d rows", len(rows.Items))
	}
	again := apptest.Decode[api.BatchRequeued](t, b.Expect(200, "", "POST", at+"/requeue", nil))
	if again.Count != 0 || len(again.Skipped) != 1 || again.Skipped[0].Reason != "task.expired" || again.Skipped[0].Count != 2 {
		t.Errorf("requeued %+v", again)
	}
	if a := b.Expect(200, "", "GET", checked(b, "phone\n138\n", "content", "hello")+"/errors.csv", nil); !strings.Contains(a.Raw, "2,138,hello,1,") {
		t.Errorf("a batch that has not ended: %s", a.Raw)
	}
}

// Each row with a code has a remark in the language of the request: in the list of rows, in the file of errors and in the preview. Two kinds of rows have no
// stored fault: expired rows, and rows that the database rejected.
func TestRemarksOfRowsHaveTheLanguageOfTheRequest(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "app"})
	b.Exec("CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused by the test'; END $$")
	b.Exec("CREATE TRIGGER refuse BEFORE INSERT ON messages FOR EACH ROW WHEN (NEW.recipient = '+8613800000001') EXECUTE FUNCTION refuse()")
	rejected := checked(b, numbers(2)+"138\n13800000000\n", "content", "hello", "auto_confirm", "true")
	feed(b)
	b.Exec("DROP TRIGGER refuse ON messages")
	expired := checked(b, numbers(1), "content", "hello", "expires_at", time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	b.Exec("UPDATE batches SET expires_at = now() WHERE status = 'ready'")
	expectRemark := func(at string, row int64, language, want string, isListed bool) {
		t.Helper()
		preview := apptest.Decode[api.BatchPreview](t, b.Expect(200, "", "GET", fmt.Sprintf("%s/preview?row=%d", at, row), nil, "Accept-Language", language))
		if got := optional.Value(preview.Remark); got != want {
			t.Errorf("preview of row %d in %s: %q, want %q", row, language, got, want)
		}
		if !isListed {
			return
		}
		for _, one := range apptest.Decode[api.BatchRowPage](t, b.Expect(200, "", "GET", at+"/rows", nil, "Accept-Language", language)).Items {
			if got := optional.Value(one.Remark); one.Row == row && got != want {
				t.Errorf("row %d in %s: %q, want %q", row, language, got, want)
			}
		}
		if a := b.Expect(200, "", "GET", at+"/errors.csv", nil, "Accept-Language", language); !strings.Contains(a.Raw, ","+want+"\r\n") {
			t.Errorf("errors.csv in %s lacks %q: %s", language, want, a.Raw)
		}
	}
	for language, remarks := range map[string][4]string{
		"en": {
			"the row could not be submitted because its recipient was erased or because of an internal error", "phone_number is not a phone number that can be dialled",
			"phone_number repeats row 2", "the batch expires before the row can be submitted",
		},
		"zh": {"该行未能提交：收件人已被清除，或发生内部错误", "phone_number 不是可以拨打的手机号码", "phone_number 与第 2 行重复", "批次在该行可以提交之前过期"},
	} {
		for i, want := range remarks[:3] {
			expectRemark(rejected, int64(i+3), language, want, true)
		}
		expectRemark(expired, 2, language, remarks[3], false)
	}
	b.Exec("UPDATE batches SET expires_at = NULL WHERE status = 'ready'")
	get(b, expired, "confirm")
	b.Exec("UPDATE batches SET expires_at = now() WHERE status = 'running'")
	feed(b)
	expectRemark(expired, 2, "en", "the batch expires before the row can be submitted", true)
	expectRemark(expired, 2, "zh", "批次在该行可以提交之前过期", true)
}

// PostgreSQL analysed the table before the list was uploaded. Its statistics lack the new batch, so the planner expects a single row.
func TestACheckIsFastIfPlannerStatisticsLackTheList(t *testing.T) {
	b := apptest.New(t)
	checked(b, numbers(10_000), "content", "x")
	b.Exec("ANALYZE batch_rows")
	at := create(b, numbers(10_001), "content", "x")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // a plan that reads the list once for each row takes minutes
	defer cancel()
	if _, err := b.App.Batches.Check(ctx); err != nil {
		t.Fatal(err)
	}
	expect(b, get(b, at), "ready", "10001 rows, 10001 valid, 10001 waiting")
}
