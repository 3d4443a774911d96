package task_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/dispatch/queue"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/setting"
	"lksms/internal/testkit/apptest"
)

// A task must not be reported as refused if the directory cannot be read.
func TestAnErrorOfTheDirectoryIsNotReportedAsARefusedRecipient(t *testing.T) {
	b := apptest.New(t)
	b.AddCountry("CN", "86", nil)
	b.AddCountry("DE", "49", nil)
	id := b.SubmitBody(map[string]any{"phone_number": "+4915112345678", "content": "x"}).TaskID
	b.Claim("app", 1)
	b.Report(id, "app", 3, nil)
	b.Expect(200, "", "PATCH", "/api/v1/admin/companies/default", map[string]any{"countries": []string{"CN"}})
	if refused, err := b.App.Tasks.RefusedRecipients(t.Context(), []string{id}); err != nil || !maps.Equal(refused, map[string]fault.Reason{id: fault.TaskRecipientRefused}) {
		t.Errorf("refused %v, %v", refused, err)
	}
	b.Exec("ALTER TABLE directory_version RENAME TO unreadable")
	if refused, err := b.App.Tasks.RefusedRecipients(t.Context(), []string{id}); err == nil {
		t.Errorf("refused %v without an error", refused)
	}
}

func TestRequeueResetsTheAttemptsOfATask(t *testing.T) {
	b := apptest.New(t)
	operator := b.AddUser("operator", "admin", nil)
	id := b.SubmitBody(map[string]any{"phone_number": apptest.Phone, "content": "x", "sign": "公司", "priority": 2}).TaskID
	zero := 0
	for attempt := 1; attempt <= 4; attempt++ {
		got := b.Claim("app", 1)
		if len(got) != 1 || int(got[0].Attempt) != attempt {
			t.Fatalf("attempt %d: %+v", attempt, got)
		}
		b.Report(id, "app", 3, apptest.Report{"should_retry": true, "retry_after_seconds": zero, "lease_id": got[0].LeaseID})
	}
	b.ExpectCounts("0 new, 0 retries, 0 held, 0 sent, 1 failed")
	ended := b.Task(id)
	a := b.Expect(200, "", "POST", apptest.RequeuePath(id), map[string]any{"remark": "the provider was down"}, operator...)
	again := apptest.Decode[api.Task](t, a)
	if again.Status != api.TaskPending || again.RetryCount != 0 || again.Result != nil || again.ReportedAt != nil || again.ProcessingAppID != nil ||
		again.Content != "x" || *again.Sign != "公司" || again.Priority != 2 || !again.DueAt.After(ended.UpdatedAt) || !again.CreatedAt.Equal(ended.CreatedAt) {
		t.Errorf("requeued: %s", a.Raw)
	}
	b.ExpectCounts("1 new, 0 retries, 0 held, 0 sent, 0 failed")
	if _, err := b.App.Senders.SweepSeen(t.Context()); err != nil { // stores the poll
		t.Fatal(err)
	}
	e := b.Explain(id)
	if e.Reason != api.BecauseQueued || e.RequeuedBy == nil || *e.RequeuedBy != "operator" || !e.RequeuedAt.Equal(again.UpdatedAt) {
		t.Errorf("explanation %+v", e)
	}
	got := b.Claim("app", 1)
	if len(got) != 1 || got[0].TaskID != id || got[0].Attempt != 1 || got[0].Content != "【公司】x" {
		t.Fatalf("claimed %+v", got)
	}
	b.Report(id, "app", 2, nil)
	b.ExpectCounts("0 new, 0 retries, 0 held, 1 sent, 0 failed")
	if n, err := b.App.History.Fold(t.Context()); n == 0 || err != nil {
		t.Errorf("folded %d, %v", n, err)
	}
	b.ExpectCounts("0 new, 0 retries, 0 held, 1 sent, 0 failed")

	var events []string
	for _, e := range b.Timeline(id) {
		one := string(e.Event)
		if e.Effect != nil {
			one += " " + string(*e.Effect)
		}
		if e.Attempt != nil {
			one += fmt.Sprint(" ", *e.Attempt)
		}
		if e.By != nil {
			one += fmt.Sprintf(" by %s: %s", *e.By, *e.Message)
		}
		events = append(events, one)
	}
	want := "received, claimed 1, reported retry, claimed 2, reported retry, claimed 3, reported retry, claimed 4, reported exhausted, " +
		"requeued requeued by operator: the provider was down, claimed 1, reported success"
	if got := strings.Join(events, ", "); got != want {
		t.Errorf("timeline %s\nwant     %s", got, want)
	}
	if got := apptest.Scan[string](b, "SELECT string_agg(attempt::text, ' ' ORDER BY id) FROM send_logs WHERE task_id = $1", id); got != "1 2 3 4 1" {
		t.Errorf("attempts in send_logs: %s", got)
	}
	if n := b.Count("SELECT count(*) FROM report_logs WHERE task_id = $1 AND outcome IS NOT NULL", id); n != 1 {
		t.Errorf("%d outcomes", n)
	}
	b.Expect(409, "task.succeeded", "POST", apptest.RequeuePath(id), nil)
}

func TestRequeueRequiresAnEndedTask(t *testing.T) {
	b := apptest.New(t)
	acme, beta := b.AddCompany("acme", 1), b.AddCompany("beta", 1)
	b.Expect(404, "task.not_found", "POST", apptest.RequeuePath("task_20231201_001"), nil)
	id := b.Submit("x")
	b.Expect(409, "task.not_ended", "POST", apptest.RequeuePath(id), nil)
	b.Claim("app", 1)
	b.Expect(409, "task.not_ended", "POST", apptest.RequeuePath(id), nil)
	b.Report(id, "app", 2, nil)
	b.Expect(409, "task.succeeded", "POST", apptest.RequeuePath(id), nil)

	// A user can requeue only its own tasks. For this user, the tasks of other users do not exist.
	own := apptest.Decode[api.Submitted](t, b.Expect(200, "", "POST", "/api/v1/sms/send", map[string]any{"phone_number": apptest.Phone, "content": "y"}, acme...)).TaskID
	b.Expect(200, "", "POST", "/api/v1/sms/task/"+own+"/cancel", nil, acme...)
	b.Expect(404, "task.not_found", "POST", apptest.RequeuePath(own), nil, beta...)
	a := b.Expect(200, "", "POST", apptest.RequeuePath(own), map[string]any{"remark": "误操作"}, acme...)
	if got := apptest.Decode[api.Task](t, a); got.Status != api.TaskPending {
		t.Errorf("a cancelled task: %s", a.Raw)
	}
	b.ExpectEffects(own, "cancelled cancelled", "requeued requeued")
	b.Expect(422, "request.invalid", "POST", apptest.RequeuePath(own), map[string]any{"remark": ""})
	b.Expect(422, "request.invalid", "POST", apptest.RequeuePath(own), map[string]any{"remark": strings.Repeat("x", 201)})
	b.Expect(422, "request.invalid", "POST", apptest.RequeuePath(own), map[string]any{"why": "x"})
	b.Expect(400, "request.malformed", "POST", apptest.RequeuePath(own), "{")

	// An expired message is never sent again.
	late := b.SubmitBody(map[string]any{"phone_number": apptest.Phone, "content": "z", "expires_at": time.Now().Add(time.Hour)}).TaskID
	b.Expect(200, "", "POST", "/api/v1/sms/task/"+late+"/cancel", nil)
	b.Exec("UPDATE messages SET expires_at = now() - interval '1 second' WHERE task_id = $1", late)
	b.Expect(409, "task.expired", "POST", apptest.RequeuePath(late), nil)

	// A requeued message is not sent before its scheduled time.
	soon := time.Now().Add(time.Hour).Truncate(time.Second)
	scheduled := b.SubmitBody(map[string]any{"phone_number": apptest.Phone, "content": "s", "expect_send_time": soon}).TaskID
	b.Expect(200, "", "POST", "/api/v1/sms/task/"+scheduled+"/cancel", nil)
	if got := b.Requeue(scheduled); !got.DueAt.Equal(soon) {
		t.Errorf("due at %s, want %s", got.DueAt, soon)
	}
}

// A report on a lease that is older than the requeue changes nothing. This is also true for SUCCESS, and whether or not the task has a new lease.
func TestReportFromBeforeARequeueChangesNothing(t *testing.T) {
	b := apptest.NewWith(t, setting.Rules{MaxRetryCount: 0, ProcessingTimeout: 30 * time.Minute}, nil)
	id := b.Submit("x")
	old := b.Claim("app", 1)[0].LeaseID
	b.ExpireLeases()
	b.Recover()
	if got := b.Task(id); got.Status != api.TaskFailed {
		t.Fatalf("%+v", got)
	}
	b.Requeue(id)
	for _, status := range []int{2, 3} {
		b.Report(id, "app", status, apptest.Report{"lease_id": old})
		b.Report(id, "app", status, nil)
	}
	if got := b.Task(id); got.Status != api.TaskPending {
		t.Errorf("after late reports: %+v", got)
	}
	lease := b.Claim("other", 1)[0].LeaseID
	b.Report(id, "app", 2, apptest.Report{"lease_id": old})
	b.Report(id, "app", 2, nil)
	b.Expect(409, "task.not_held", "POST", "/api/v1/sms/report", apptest.ReportBody(id, "other", 2, apptest.Report{"lease_id": old}))
	if got := b.Task(id); got.Status != api.TaskProcessing {
		t.Errorf("after late reports of a lease: %+v", got)
	}
	b.Report(id, "other", 3, apptest.Report{"lease_id": lease})
	b.ExpectEffects(id, "recovered exhausted", "requeued requeued", "reported ignored", "reported ignored", "reported ignored", "reported ignored",
		"reported ignored", "reported ignored", "reported refused", "reported failed")
	b.ExpectCounts("0 new, 0 retries, 0 held, 0 sent, 1 failed")
}

// If several requeues run concurrently, exactly one of them requeues the task. A concurrent cancellation can end the task. In all cases, no event is lost or
// counted twice.
func TestConcurrentRequeuesAndCancellationsRequeueATaskOnce(t *testing.T) {
	b := apptest.New(t)
	id := b.Fail("x")
	const each = 8
	for round := range 10 {
		statuses := make([]int, 2*each)
		apptest.Together(2*each, func(i int) {
			act := "requeue"
			if i >= each {
				act = "cancel"
			}
			statuses[i] = b.Call("POST", "/api/v1/sms/task/"+id+"/"+act, nil).Status
		})
		sort := func(part []int) (n int) {
			for _, s := range part {
				if s == 200 {
					n++
				} else if s != 409 && s != 503 { // 503: the request waited half a second for a lock, and changed nothing
					t.Errorf("status %d", s)
				}
			}
			return n
		}
		requeued, cancelled := sort(statuses[:each]), sort(statuses[each:])
		if requeued-cancelled != 0 && requeued-cancelled != 1 || requeued == 0 {
			t.Fatalf("round %d: %d requeues, %d cancellations", round, requeued, cancelled)
		}
		if status := b.Task(id).Status; requeued == cancelled && status != api.TaskCancelled || requeued > cancelled && status != api.TaskPending {
			t.Fatalf("round %d: %d requeues, %d cancellations, status %d", round, requeued, cancelled, status)
		}
		if requeued > cancelled {
			b.Expect(200, "", "POST", "/api/v1/sms/task/"+id+"/cancel", nil)
		}
	}
	b.ExpectCounts("0 new, 0 retries, 0 held, 0 sent, 0 failed")
	if n := b.Count("SELECT count(*) FROM report_logs WHERE task_id = $1 AND outcome IS NOT NULL", id); n != 1 {
		t.Errorf("%d outcomes", n)
	}
}

// A requeue waits for another requeue. After the other requeue commits, the task is no longer FAILED, so the first requeue changes nothing.
func TestRequeueAfterAConcurrentRequeueIsRefused(t *testing.T) {
	b := apptest.New(t)
	id := b.Fail("x")
	tx, err := b.DB.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := tx.Exec(t.Context(), "SELECT FROM report_logs WHERE task_id = $1 AND outcome = 3 FOR UPDATE", id); err != nil {
		t.Fatal(err)
	}
	answered := make(chan apptest.Answer, 1)
	go func() { answered <- b.Call("POST", apptest.RequeuePath(id), nil) }()
	b.AwaitLockWait()
	if _, err := tx.Exec(t.Context(), `WITH q AS (
			INSERT INTO queue (task_id, pool_id, company_id, message_type, priority, segments, phone_number, recipient, content)
			SELECT task_id, pool_id, company_id, message_type, priority, segments, phone_number, recipient, content FROM messages WHERE task_id = $1
		) UPDATE report_logs SET outcome = NULL WHERE task_id = $1`, id); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a := <-answered; a.Status != 409 || a.Body.Error.Reason != "task.not_ended" {
		t.Errorf("%d %s", a.Status, a.Raw)
	}
	if n := b.Count("SELECT count(*) FROM queue"); n != 1 {
		t.Errorf("%d rows of queue", n)
	}
}

// A requeued task waits in the pool of the current routes, not in the pool of its submission.
func TestRequeuedTaskFollowsTheCurrentRoutes(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "first", "is_shared": false})
	b.AddSender(map[string]any{"sender_no": "second", "is_shared": false})
	route := b.AddRoute("default", "first", 1)
	id := b.Submit("x")
	if got := b.Claim("first", 1); len(got) != 1 {
		t.Fatalf("claimed %v", got)
	}
	b.Report(id, "first", 3, nil)
	b.Expect(200, "", "DELETE", fmt.Sprint("/api/v1/admin/routes/", route.RouteNo), nil)
	b.Exec("UPDATE pools SET retired_at = now() - interval '31 days' WHERE retired_at IS NOT NULL")
	if n, err := b.App.Directory.DeleteRetiredPools(t.Context()); n != 1 || err != nil {
		t.Fatalf("deleted %d pools, %v", n, err)
	}
	b.AddRoute("default", "second", 1)
	b.Requeue(id)
	if got := b.Claim("first", 1); len(got) != 0 {
		t.Errorf("the sender of the old route got %v", got)
	}
	if got := b.Claim("second", 1); len(got) != 1 || got[0].TaskID != id {
		t.Errorf("the sender of the new route got %v", got)
	}
}

// A waiting sender receives a requeued task at once.
func TestRequeueWakesAWaitingSender(t *testing.T) {
	b := apptest.New(t)
	id := b.Fail("x")
	claimed := make(chan apptest.Answer, 1)
	go func() {
		claimed <- b.Call("POST", "/api/v1/sms/tasks/claim", map[string]any{"app_id": "app", "limit": 1, "wait": 20})
	}()
	apptest.Eventually(t, "the sender waits", func() bool { return b.App.Queue.Waiting() == 1 })
	start := time.Now()
	b.Requeue(id)
	if got := apptest.Decode[[]api.ClaimedTask](t, <-claimed); len(got) != 1 || got[0].TaskID != id {
		t.Errorf("claimed %v", got)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("after %s", took)
	}
}

// settleReceipt stores the receipt of one lease.
func settleReceipt(b *apptest.Bundle, id string, state int16, code string, lease int64) {
	b.T.Helper()
	b.SettleReceipts([]queue.Final{{TaskID: id, SenderNo: "app", Code: code, State: state, LeaseID: &lease}}, false)
}

// Receipts of an attempt that is older than the requeue do not count for the requeued task, unless they say that the message was delivered.
func TestReceiptFromBeforeARequeueCountsOnlyIfDelivered(t *testing.T) {
	b := apptest.New(t)
	id := b.Submit("x")
	before := b.Claim("app", 1)[0].LeaseID
	b.Report(id, "app", 3, nil)
	settleReceipt(b, id, 2, "EARLY", before)
	if got := b.Task(id); *got.Delivery != api.TaskUndelivered {
		t.Fatalf("%+v", got)
	}
	b.Requeue(id)
	b.ExpectCounts("1 new, 0 retries, 0 held, 0 sent, 0 failed")
	if got := b.Task(id); got.Delivery != nil || got.DeliveryCode != nil {
		t.Errorf("the requeued task has the receipt of the earlier attempt: %+v", got)
	}
	settleReceipt(b, id, 2, "LATE", before)
	settleReceipt(b, id, 2, "LATE", before) // again
	now := b.Claim("app", 1)[0].LeaseID
	b.Report(id, "app", 2, nil)
	if got := b.Task(id); got.Delivery != nil {
		t.Errorf("after a late receipt: %+v", got)
	}
	settleReceipt(b, id, 2, "NOW", now)
	if got := b.Task(id); *got.Delivery != api.TaskUndelivered || *got.DeliveryCode != "NOW" {
		t.Errorf("%+v", got)
	}
	settleReceipt(b, id, 1, "DELIVRD", before)
	if got := b.Task(id); *got.Delivery != api.TaskDelivered || *got.DeliveryCode != "DELIVRD" {
		t.Errorf("delivered wins: %+v", got)
	}
	b.ExpectEffects(id, "reported failed", "past_receipt undelivered", "requeued requeued", "past_receipt undelivered", "reported success",
		"receipt undelivered", "receipt delivered")
	var receipts []string
	for _, e := range b.Timeline(id) {
		if e.Event == api.EventReceipt {
			receipts = append(receipts, fmt.Sprint(*e.Effect, " ", optional.Value(e.Message)))
		}
	}
	if want := []string{"undelivered EARLY", "undelivered LATE", "undelivered NOW", "delivered "}; !slices.Equal(receipts, want) {
		t.Errorf("receipts in the timeline: %q", receipts)
	}
	if undelivered, delivered := b.Count("SELECT sum(undelivered) FROM recent_statistics"), b.Count("SELECT sum(delivered) FROM recent_statistics"); undelivered != 3 || delivered != 1 {
		t.Errorf("statistics count %d undelivered and %d delivered", undelivered, delivered)
	}
}

// A receipt and a requeue run concurrently. In either order of their commits, the requeued task has no delivery state from the receipt.
func TestRequeuedTaskHasNoDeliveryFromAConcurrentReceipt(t *testing.T) {
	b := apptest.New(t)
	requeued := func(ctx context.Context, id string) error {
		_, err := b.App.Tasks.RequeueAll(ctx, []string{id}, "jane", "")
		return err
	}
	receipt := func(lease int64) func(context.Context, string) error {
		return func(ctx context.Context, id string) error {
			_, err := b.App.Queue.SettleReceipts(ctx, []queue.Final{{TaskID: id, SenderNo: "app", Code: "LATE", State: 2, LeaseID: &lease}})
			return err
		}
	}
	for name, isReceiptFirst := range map[string]bool{"the requeue comes first": false, "the receipt comes first": true} {
		id := b.Submit("x")
		lease := b.Claim("app", 1)[0].LeaseID
		b.Report(id, "app", 3, nil)
		first, second := requeued, receipt(lease)
		if isReceiptFirst {
			first, second = second, first
		}
		done := make(chan error, 1)
		err := b.App.DB.Tx(t.Context(), func(ctx context.Context) error {
			if err := first(ctx, id); err != nil {
				return err
			}
			go func() {
				done <- b.App.DB.Tx(t.Context(), func(ctx context.Context) error { return second(ctx, id) })
			}()
			apptest.Eventually(t, "the other one waits or is done", func() bool {
				return len(done) > 0 || b.Count("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") > 0
			})
			return nil
		})
		if second := <-done; err != nil || second != nil {
			t.Fatalf("%s: %v, %v", name, err, second)
		}
		if got := b.Task(id); got.Delivery != nil || got.Status != api.TaskPending {
			t.Errorf("%s: the new life %v has the receipt %v", name, got.Status, optional.Value(got.Delivery))
		}
		b.ExpectEffects(id, map[bool][]string{
			true: {"reported failed", "past_receipt undelivered", "requeued requeued"}, false: {"reported failed", "requeued requeued", "past_receipt undelivered"},
		}[isReceiptFirst]...)
		b.Expect(200, "", "POST", "/api/v1/sms/task/"+id+"/cancel", nil)
	}
}

// A message that was delivered according to the provider is not sent again.
func TestDeliveredMessageIsNotRequeued(t *testing.T) {
	b := apptest.New(t)
	id := b.Submit("x")
	lease := b.Claim("app", 1)[0].LeaseID
	b.Report(id, "app", 3, nil) // the report of the sender was wrong
	settleReceipt(b, id, 1, "", lease)
	b.Expect(409, "task.delivered", "POST", apptest.RequeuePath(id), nil)
	b.ExpectEffects(id, "reported failed", "receipt delivered")
}

// RequeueAll requeues only the tasks that are allowed to wait again.
func TestRequeueAllRequeuesOnlyAllowedTasks(t *testing.T) {
	b := apptest.New(t)
	pending := b.SubmitBody(map[string]any{"phone_number": apptest.Phone, "content": "x", "priority": 9}).TaskID
	fit, sent := b.Fail("fit"), b.Submit("sent")
	b.ClaimIDs(1)
	b.Report(sent, "app", 2, nil)
	delivered, expired := b.Fail("delivered"), b.Fail("expired")
	b.SettleReceipts([]queue.Final{{TaskID: delivered, State: 1}}, false)
	b.Exec("UPDATE messages SET expires_at = now() WHERE task_id = $1", expired)
	unreachable, gone := b.Fail("unreachable"), b.Fail("gone")
	b.Exec("UPDATE report_logs SET event = 'unreachable' WHERE task_id = $1", unreachable)
	b.Exec("UPDATE messages SET company_id = 99 WHERE task_id = $1", gone)
	b.Expect(409, "task.withdrawn", "POST", apptest.RequeuePath(gone), nil)
	b.Expect(409, "task.refused", "POST", apptest.RequeuePath(unreachable), nil)
	ids := []string{unreachable, sent, "task_20200101_none", gone, fit, pending, expired, delivered, fit}
	n, err := b.App.Tasks.RequeueAll(t.Context(), ids, "admin", "")
	if n != 1 || err != nil {
		t.Errorf("requeued %d, %v", n, err)
	}
	if n := b.Count("SELECT count(*) FROM queue"); n != 2 || b.Task(fit).Status != api.TaskPending {
		t.Errorf("%d tasks wait", n)
	}
	n, refused, err := b.App.Tasks.RequeueEach(t.Context(), ids[:8], "admin", "")
	want := "map[task.delivered:1 task.dropped:1 task.expired:1 task.not_ended:2 task.refused:1 task.succeeded:1 task.withdrawn:1]"
	if n != 0 || err != nil || fmt.Sprint(refused) != want {
		t.Errorf("requeued %d, %v; refused %v, want %s", n, err, refused, want)
	}
	if n := b.Count("SELECT count(*) FROM report_logs WHERE event = 'requeued'"); n != 1 {
		t.Errorf("%d requeues in the log", n)
	}
}

// A requeue that fails in its last step changes neither the outcome nor the counts.
func TestFailedRequeueChangesNothing(t *testing.T) {
	b := apptest.New(t)
	id := b.Fail("x")
	before := b.Counts()
	b.Exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'the disk is full' USING ERRCODE = '53100'; END $$;
		CREATE TRIGGER refuse BEFORE INSERT ON queue FOR EACH ROW EXECUTE FUNCTION refuse()`)
	b.Expect(503, "unavailable", "POST", apptest.RequeuePath(id), nil)
	b.Exec("DROP TRIGGER refuse ON queue")
	if got := b.Task(id); got.Status != api.TaskFailed || *got.Result != "no credit" {
		t.Errorf("%+v", got)
	}
	b.ExpectCounts(before)
	b.ExpectEffects(id, "reported failed")
	b.Requeue(id)
}
