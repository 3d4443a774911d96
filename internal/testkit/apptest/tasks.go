package apptest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	api "lksms/gen/client"
	"lksms/internal/dispatch/queue"
)

// Submit submits text for Phone, and returns the id of the task.
func (b *Bundle) Submit(text string) string {
	b.T.Helper()
	return b.SubmitBody(map[string]any{"phone_number": Phone, "content": text}).TaskID
}

// SubmitBody submits a message and expects 200.
func (b *Bundle) SubmitBody(body any) api.Submitted {
	b.T.Helper()
	return Decode[api.Submitted](b.T, b.Expect(200, "", "POST", "/api/v1/sms/send", body))
}

// Claim claims tasks as appID, by GET.
func (b *Bundle) Claim(appID string, limit int) []api.ClaimedTask {
	b.T.Helper()
	res, err := b.Client.ClaimTasksWithResponse(b.T.Context(), &api.ClaimTasksParams{AppID: appID, Limit: &limit})
	if err != nil || res.JSON200 == nil {
		b.T.Fatalf("claim: %v %s", err, res.Body)
	}
	return res.JSON200.Data
}

// ClaimIDs claims tasks as the sender app, and returns their ids.
func (b *Bundle) ClaimIDs(limit int) []string {
	b.T.Helper()
	ids := []string{}
	for _, t := range b.Claim("app", limit) {
		ids = append(ids, t.TaskID)
	}
	return ids
}

// Report contains the fields of a report.
type Report = map[string]any

// Report reports on a task and expects 200. The report contains a lease id only if extra contains one.
func (b *Bundle) Report(id, appID string, status int, extra Report) {
	b.T.Helper()
	b.Expect(200, "", "POST", "/api/v1/sms/report", ReportBody(id, appID, status, extra))
}

// ReportBody returns the body of a report. It contains a lease id only if extra contains one.
func ReportBody(id, appID string, status int, extra Report) Report {
	body := Report{"task_id": id, "app_id": appID, "status": status}
	for k, v := range extra {
		body[k] = v
	}
	return body
}

// Task returns a task.
func (b *Bundle) Task(id string) api.Task {
	b.T.Helper()
	return Decode[api.Task](b.T, b.Expect(200, "", "GET", "/api/v1/sms/task/"+id, nil))
}

// ExpireLeases makes the leases of all tasks expire.
func (b *Bundle) ExpireLeases() {
	b.T.Helper()
	b.Exec(`UPDATE queue SET lease_until = now() - interval '1 second', start_until = CASE WHEN start_until = lease_until THEN now() - interval '1 second' END
		WHERE lease_until IS NOT NULL`)
}

// Recover runs the sweep of leases, and returns the number of recovered leases.
func (b *Bundle) Recover() int {
	b.T.Helper()
	return Decode[api.Recovered](b.T, b.Expect(200, "", "POST", "/api/v1/admin/recover-zombie-tasks", nil)).RecoveredCount
}

// BatchPath is the path for batches of messages.
const BatchPath = "/api/v1/sms/send-batch"

// SubmitMany submits n messages in batches. The content of each message is the text and its number.
func (b *Bundle) SubmitMany(text string, n int, more map[string]any, headers ...string) {
	b.T.Helper()
	for from := 0; from < n; from += 1000 {
		messages := make([]map[string]any, 0, 1000)
		for i := from; i < min(n, from+1000); i++ {
			m := map[string]any{"phone_number": Phone, "content": fmt.Sprint(text, " ", i)}
			for k, v := range more {
				m[k] = v
			}
			messages = append(messages, m)
		}
		for _, item := range Decode[api.SentBatch](b.T, b.Expect(200, "", "POST", "/api/v1/sms/send-batch", map[string]any{"messages": messages}, headers...)).Items {
			if item.TaskID == nil {
				b.T.Fatalf("the server refused a message: %s %v", *item.Message, item.Error.Fields)
			}
		}
	}
}

// Take claims tasks as appID, by POST, without waiting.
func (b *Bundle) Take(appID string, limit int) []api.ClaimedTask {
	b.T.Helper()
	return Decode[[]api.ClaimedTask](b.T, b.Expect(200, "", "POST", "/api/v1/sms/tasks/claim", map[string]any{"app_id": appID, "limit": limit}))
}

// KeyHeader is the header for an idempotency key.
const KeyHeader = "Idempotency-Key"

// Effects returns the events and effects in the report log of a task, oldest first.
func (b *Bundle) Effects(id string) []string {
	b.T.Helper()
	rows, err := b.DB.Query(b.T.Context(), "SELECT event || ' ' || effect FROM report_logs WHERE task_id = $1 ORDER BY id", id)
	if err != nil {
		b.T.Fatal(err)
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var one string
		if err := rows.Scan(&one); err != nil {
			b.T.Fatal(err)
		}
		all = append(all, one)
	}
	return all
}

// ExpectEffects fails the test unless Effects returns want.
func (b *Bundle) ExpectEffects(id string, want ...string) {
	b.T.Helper()
	if got := b.Effects(id); !slices.Equal(got, want) {
		b.T.Errorf("log %v, want %v", got, want)
	}
}

// AwaitStatus waits until a task has a status.
func (b *Bundle) AwaitStatus(id string, status int16) {
	b.T.Helper()
	Eventually(b.T, fmt.Sprintf("%s is %d", id, status), func() bool { return int16(b.Task(id).Status) == status })
}

// Explain returns the explanation of a task.
func (b *Bundle) Explain(id string) api.Explanation {
	b.T.Helper()
	return Decode[api.Explanation](b.T, b.Expect(200, "", "GET", "/api/v1/sms/task/"+id+"/explain", nil))
}

// RequeuePath returns the path at which a task is requeued.
func RequeuePath(id string) string { return "/api/v1/sms/task/" + id + "/requeue" }

// Requeue requeues a task as the admin.
func (b *Bundle) Requeue(id string) api.Task {
	b.T.Helper()
	return Decode[api.Task](b.T, b.Expect(200, "", "POST", RequeuePath(id), nil))
}

// Fail submits a message and claims the next task. It reports the task as FAILED without a retry, and returns the id of the task.
func (b *Bundle) Fail(text string) string {
	b.T.Helper()
	b.Submit(text)
	id := b.ClaimIDs(1)[0]
	b.Report(id, "app", 3, Report{"error_message": "no credit"})
	return id
}

// Timeline returns the timeline of a task.
func (b *Bundle) Timeline(id string) []api.TimelineEvent {
	b.T.Helper()
	return Decode[[]api.TimelineEvent](b.T, b.Expect(200, "", "GET", "/api/v1/sms/task/"+id+"/timeline", nil))
}

// Events lists the kinds of the events in the timeline of a task.
func (b *Bundle) Events(id string) string {
	b.T.Helper()
	var names []string
	for _, e := range b.Timeline(id) {
		names = append(names, string(e.Event))
	}
	return strings.Join(names, " ")
}

// Counts returns the number of tasks in each state as text.
func (b *Bundle) Counts() string {
	b.T.Helper()
	s := Decode[api.Statistics](b.T, b.Expect(200, "", "GET", "/api/v1/admin/task-statistics", nil))
	return fmt.Sprintf("%d new, %d retries, %d held, %d sent, %d failed", s.PendingNewTasks, s.PendingRetryTasks, s.ProcessingTasks, s.SuccessTasks, s.FailedTasks)
}

// ExpectCounts fails the test unless Counts returns want.
func (b *Bundle) ExpectCounts(want string) {
	b.T.Helper()
	if got := b.Counts(); got != want {
		b.T.Errorf("counts: %s, want %s", got, want)
	}
}

// SettleReceipts stores receipts in one transaction. It fails the test unless want contains, for each receipt, whether the receipt was left unstored.
func (b *Bundle) SettleReceipts(finals []queue.Final, want ...bool) {
	b.T.Helper()
	ctx, cancel := context.WithTimeout(b.T.Context(), 5*time.Second)
	defer cancel()
	err := b.App.DB.Tx(ctx, func(ctx context.Context) error {
		left, err := b.App.Queue.SettleReceipts(ctx, finals)
		if err == nil && !slices.Equal(left, want) {
			b.T.Errorf("left %v, want %v", left, want)
		}
		return err
	})
	if err != nil {
		b.T.Error(err)
	}
}

// Outcome returns the code of an item of a response, with the invalid fields or the reason.
func Outcome(code int, detail *api.ErrorDetail) string {
	text := fmt.Sprint(code)
	if detail != nil && detail.Fields != nil {
		for _, f := range *detail.Fields {
			text += " " + f.Field
		}
	} else if detail != nil {
		text += " " + detail.Reason
	}
	return text
}

// Outcomes returns the Outcome of each item.
func Outcomes(items []api.SentItem) (all []string) {
	for _, item := range items {
		all = append(all, Outcome(item.Code, item.Error))
	}
	return all
}

// ListIDs returns the ids of up to a hundred tasks that match a filter, oldest first.
func (b *Bundle) ListIDs(filter string) (ids []string) {
	b.T.Helper()
	page := Decode[api.TaskPage](b.T, b.Expect(200, "", "GET", "/api/v1/sms/tasks?limit=100&"+filter, nil))
	for _, task := range page.Items {
		ids = append(ids, task.TaskID)
	}
	slices.Reverse(ids)
	return ids
}

// Polls returns the number of polls for the senders that wait at this server. A poll counts when it has read the database.
func (b *Bundle) Polls() int {
	b.T.Helper()
	_, after, _ := strings.Cut(b.Expect(200, "", "GET", "/metrics", nil).Raw, "\nlksms_waiting_query_seconds_count ")
	number, _, _ := strings.Cut(after, "\n")
	polls, err := strconv.Atoi(number)
	if err != nil {
		b.T.Fatal(err)
	}
	return polls
}
