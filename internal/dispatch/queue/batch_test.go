package queue_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
)

func TestReportBatchReturnsOneOutcomePerReport(t *testing.T) {
	b := apptest.New(t)
	var ids []string
	for range 6 {
		ids = append(ids, b.Submit("x"))
	}
	leases := b.Claim("app", 5)
	data := apptest.Decode[api.ReportedBatch](t, b.Expect(200, "", "POST", "/api/v1/sms/report-batch", map[string]any{"reports": []any{
		apptest.ReportBody(ids[0], "app", 2, apptest.Report{"lease_id": leases[0].LeaseID}),
		apptest.ReportBody(ids[1], "app", 3, apptest.Report{"should_retry": true}),
		apptest.ReportBody(ids[1], "app", 3, apptest.Report{"should_retry": true}), // repeats the previous report
		apptest.ReportBody(ids[2], "app", 3, nil),
		apptest.ReportBody(ids[2], "app", 2, nil),
		apptest.ReportBody(ids[3], "other", 2, nil),
		apptest.ReportBody("nothing", "app", 2, nil),
		apptest.ReportBody(ids[4], "app", 7, nil),
		apptest.Report{"app_id": "app", "status": 2},
		apptest.ReportBody(ids[5], "app", 2, nil), // 2 is SUCCESS; the task is PENDING
	}}))
	var got []string
	for _, item := range data.Items {
		line := apptest.Outcome(item.Code, item.Error)
		if item.Effect != nil {
			line += " " + string(*item.Effect)
		}
		got = append(got, line)
	}
	want := []string{
		"200 success", "200 retry", "200 ignored", "200 failed", "200 ignored", "409 task.not_held refused", "404 task.not_found",
		"422 status", "422 task_id", "409 task.not_held refused",
	}
	if !slices.Equal(got, want) || data.Accepted != 5 || data.Refused != 5 {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if got := statistics(b); got != (api.Statistics{PendingNewTasks: 1, PendingRetryTasks: 1, ProcessingTasks: 2, SuccessTasks: 1, FailedTasks: 1}) {
		t.Errorf("statistics %+v", got)
	}
	bound := b.AddUser("phone-1", "send", map[string]any{"app_id": "app"})
	data = apptest.Decode[api.ReportedBatch](t, b.Expect(200, "", "POST", "/api/v1/sms/report-batch", map[string]any{"reports": []any{
		apptest.ReportBody(ids[3], "app", 2, nil), apptest.ReportBody(ids[4], "other", 2, nil),
	}}, bound...))
	if data.Items[0].Code != 200 || data.Items[1].Code != 403 {
		t.Errorf("as a user bound to one app: %+v", data.Items)
	}
}

// An exchange stores its reports and then claims tasks. A wrong report affects neither the other reports nor the claim.
func TestExchangeReportsTasksAndThenClaims(t *testing.T) {
	b := apptest.New(t)
	exchange := func(body map[string]any) api.Exchanged {
		t.Helper()
		return apptest.Decode[api.Exchanged](t, b.Expect(200, "", "POST", "/api/v1/sms/exchange", body))
	}
	b.Submit("1")
	b.Submit("2")
	first := exchange(map[string]any{"app_id": "app"}) // without reports, an exchange is a claim
	if len(first.Tasks) != 2 || len(first.Reported.Items) != 0 {
		t.Fatalf("the first exchange: %+v", first)
	}
	done, retry := first.Tasks[0], first.Tasks[1]
	third := b.Submit("3")
	next := exchange(map[string]any{"app_id": "app", "limit": 1, "start_seconds": 60, "reports": []any{
		apptest.ReportBody(done.TaskID, "app", 2, apptest.Report{"lease_id": done.LeaseID}),
		apptest.ReportBody(retry.TaskID, "app", 3, apptest.Report{"lease_id": retry.LeaseID, "should_retry": true, "retry_after_seconds": 0}),
		apptest.ReportBody("nothing", "app", 2, nil), apptest.Report{"app_id": "app"},
	}})
	if r := next.Reported; r.Accepted != 2 || r.Refused != 2 || r.Items[2].Code != 404 || r.Items[3].Code != 422 {
		t.Errorf("reported %+v", r)
	}
	if len(next.Tasks) != 1 || next.Tasks[0].TaskID != third {
		t.Errorf("claimed %+v, want the new task before the retry", next.Tasks)
	}
	if last := exchange(map[string]any{"app_id": "app", "wait": 10}); len(last.Tasks) != 1 || last.Tasks[0].TaskID != retry.TaskID {
		t.Errorf("claimed %+v, want the retry", last.Tasks)
	}
	if got := statistics(b); got.SuccessTasks != 1 || got.ProcessingTasks != 2 {
		t.Errorf("statistics %+v", got)
	}
}

// The reports of an exchange are stored before its claim waits, and stay stored if the client leaves.
func TestReportsOfAWaitingExchangeAreStoredAtOnce(t *testing.T) {
	b := apptest.New(t)
	b.Submit("x")
	held := b.Claim("app", 1)[0]
	ctx, leave := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = b.Client.ExchangeTasksWithResponse(ctx, api.ExchangeRequest{
			AppID: "app", Wait: new(30), Reports: &[]api.ReportRequest{{TaskID: held.TaskID, AppID: "app", LeaseID: &held.LeaseID, Status: 2}},
		})
	}()
	b.AwaitStatus(held.TaskID, 2)
	leave()
	<-gone
}

// A user who is bound to another sender, and an invalid body, are rejected before the reports are stored.
func TestExchangeChecksItsSenderFirst(t *testing.T) {
	b := apptest.New(t)
	b.Submit("x")
	held := b.Claim("app", 1)[0]
	reports := []any{apptest.ReportBody(held.TaskID, "app", 2, nil)}
	other := b.AddUser("phone-2", "send", map[string]any{"app_id": "other"})
	b.Expect(403, "auth.other_app", "POST", "/api/v1/sms/exchange", map[string]any{"app_id": "app", "reports": reports}, other...)
	if a := b.Expect(422, "request.invalid", "POST", "/api/v1/sms/exchange", map[string]any{"app_id": "app", "reports": reports, "wait": 31}); a.Fields() != "wait" {
		t.Errorf("fields %q", a.Fields())
	}
	if got := statistics(b); got.ProcessingTasks != 1 {
		t.Errorf("statistics %+v", got)
	}
}

// claimWaiting claims one task as app and waits for the task up to ten seconds. It returns the ids of the claimed tasks and the duration of the claim.
func claimWaiting(b *apptest.Bundle, app string) (ids []string, took time.Duration) {
	b.T.Helper()
	began := time.Now()
	a := b.Expect(200, "", "POST", "/api/v1/sms/tasks/claim", map[string]any{"app_id": app, "limit": 1, "wait": 10})
	for _, c := range apptest.Decode[[]api.ClaimedTask](b.T, a) {
		ids = append(ids, c.TaskID)
	}
	return ids, time.Since(began)
}

func TestClaimWaitsForTasks(t *testing.T) {
	b := apptest.New(t)
	if got := apptest.Decode[[]api.ClaimedTask](t, b.Expect(200, "", "GET", "/api/v1/sms/tasks/pending?app_id=a&wait=1", nil)); len(got) != 0 {
		t.Errorf("got %v", got)
	}
	first := b.Submit("x")
	if got, took := claimWaiting(b, "a"); len(got) != 1 || got[0] != first || took > 5*time.Second {
		t.Errorf("with a task in the queue: claimed %v after %s", got, took)
	}
	for _, query := range []string{"wait=31", "wait=-1", "wait=x"} {
		if a := b.Expect(422, "request.invalid", "GET", "/api/v1/sms/tasks/pending?app_id=a&"+query, nil); a.Fields() != "wait" {
			t.Errorf("%s: fields %q", query, a.Fields())
		}
	}
}

// Many senders wait. Each new task wakes one of these senders at once. The kind of the submission does not matter.
func TestEachNewTaskWakesAWaitingSender(t *testing.T) {
	b := apptest.New(t)
	const waiting = 30
	got := make(chan string, waiting)
	for i := range waiting {
		go func() {
			ids, took := claimWaiting(b, fmt.Sprint("app-", i))
			if len(ids) != 1 || took > 9*time.Second {
				got <- fmt.Sprintf("%v after %s", ids, took)
				return
			}
			got <- ids[0]
		}()
	}
	b.Expect(200, "", "POST", "/api/v1/admin/default-sms", map[string]any{"phone_number": apptest.Phone, "content": "欢迎"})
	var ids []string
	for len(ids) < waiting {
		switch len(ids) % 3 {
		case 0:
			ids = append(ids, b.Submit("x"))
		case 1: // with an Idempotency-Key, in one transaction
			ids = append(ids, apptest.Decode[api.Submitted](t, b.Expect(200, "", "POST", "/api/v1/sms/send",
				map[string]any{"phone_number": apptest.Phone, "content": "x"}, "Idempotency-Key", fmt.Sprint(len(ids)))).TaskID)
		case 2:
			data := apptest.Decode[api.SentBatch](t, b.Expect(200, "", "POST", apptest.BatchPath, map[string]any{"messages": []any{
				map[string]any{"phone_number": apptest.Phone, "content": "x"},
			}}))
			ids = append(ids, *data.Items[0].TaskID)
		}
	}
	var taken []string
	for range waiting {
		taken = append(taken, <-got)
	}
	slices.Sort(taken)
	slices.Sort(ids)
	if !slices.Equal(taken, ids) {
		t.Errorf("taken %v\nsent  %v", taken, ids)
	}
}

// A waiting sender receives a retry when it is due, and a task that another server stored. Only a poll of the database finds these tasks.
func TestWaitingSenderReceivesRetriesAndTasksOfOtherServers(t *testing.T) {
	b := apptest.New(t)
	id := b.Submit("x")
	b.Claim("a", 1)
	b.Report(id, "a", 3, apptest.Report{"should_retry": true, "retry_after_seconds": 1})
	if got, took := claimWaiting(b, "b"); len(got) != 1 || got[0] != id || took > 5*time.Second {
		t.Errorf("the retry: %v after %s", got, took)
	}
	result := make(chan []string)
	go func() {
		ids, _ := claimWaiting(b, "c")
		result <- ids
	}()
	b.Exec("INSERT INTO tasks (task_id, phone_number, recipient, content) VALUES ('elsewhere', '', '', 'x')")
	if got := <-result; !slices.Equal(got, []string{"elsewhere"}) {
		t.Errorf("a task stored by another server: %v", got)
	}
}

func TestDisconnectedSenderClaimsNoTask(t *testing.T) {
	b := apptest.New(t)
	ctx, leave := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		limit, wait := 10, 30
		_, _ = b.Client.ClaimTasksNowWithResponse(ctx, api.ClaimRequest{AppID: "gone", Limit: &limit, Wait: &wait})
	}()
	apptest.Eventually(t, "the sender waits", func() bool { return b.App.Queue.Waiting() > 0 })
	leave()
	<-gone
	apptest.Eventually(t, "the server notices", func() bool { return strings.Contains(b.Log.String(), `"app_id":"gone"`) })
	id := b.Submit("x")
	if got, took := claimWaiting(b, "here"); len(got) != 1 || got[0] != id || took > 5*time.Second {
		t.Errorf("got %v after %s", got, took)
	}
	if n := b.Count("SELECT count(*) FROM send_logs WHERE app_id = 'gone'"); n != 0 {
		t.Errorf("%d leases of a disconnected sender", n)
	}
}

func TestStoppingServerAnswersWaitingClaims(t *testing.T) {
	b := apptest.New(t)
	answered := make(chan apptest.Answer)
	go func() { answered <- b.Call("GET", "/api/v1/sms/tasks/pending?app_id=a&wait=30", nil) }()
	apptest.Eventually(t, "the claim waits", func() bool { return b.App.Queue.Waiting() > 0 })
	b.App.Queue.StopWaiting()
	if a := <-answered; a.Status != http.StatusOK || !strings.Contains(a.Raw, `"data":[]`) {
		t.Errorf("got %s", a.Raw)
	}
}

func TestReportsSucceedAfterADeadlock(t *testing.T) {
	b := apptest.New(t)
	touch := func(task api.ClaimedTask) string {
		return fmt.Sprintf("UPDATE queue SET troubles = troubles WHERE task_id = '%s'", task.TaskID)
	}
	b.Deadlock(func() (string, string, func() string) {
		b.Submit("x")
		b.Submit("x")
		tasks := b.Claim("app", 2)
		slices.SortFunc(tasks, func(a, b api.ClaimedTask) int { return strings.Compare(a.TaskID, b.TaskID) })
		var reports []map[string]any
		for _, task := range tasks {
			reports = append(reports, map[string]any{"task_id": task.TaskID, "app_id": "app", "lease_id": task.LeaseID, "status": 2})
		}
		return touch(tasks[1]), touch(tasks[0]), func() (wrong string) {
			a := b.Call("POST", "/api/v1/sms/report-batch", map[string]any{"reports": reports})
			if a.Status != 200 {
				return a.Raw
			}
			for _, item := range apptest.Decode[api.ReportedBatch](t, a).Items {
				if item.Effect == nil {
					wrong += fmt.Sprintln(item.Code, *item.Message)
				}
			}
			return wrong
		}
	})
}
