package sender_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
)

// An app cannot claim or settle the tasks of a driven sender.
func TestAnAppCannotActAsADrivenSender(t *testing.T) {
	b := apptest.New(t)
	b.Expect(200, "", "POST", "/api/v1/admin/senders", `{"sender_no":"driven","name":"Driven","kind":"log","status":"on","is_shared":true}`)
	bound := b.AddUser("bound", "send", map[string]any{"app_id": "driven"})
	id := b.Submit("x")
	for _, headers := range [][]string{nil, bound} {
		b.Expect(409, "sender.is_driven", "GET", "/api/v1/sms/tasks/pending?app_id=driven", nil, headers...)
		b.Expect(409, "sender.is_driven", "GET", "/api/v1/sms/tasks/pending?app_id=driven&wait=30", nil, headers...)
		b.Expect(409, "sender.is_driven", "POST", "/api/v1/sms/tasks/claim", `{"app_id":"driven","limit":10}`, headers...)
		b.Expect(409, "sender.is_driven", "POST", "/api/v1/sms/exchange", map[string]any{"app_id": "driven", "reports": []any{apptest.ReportBody(id, "app", 2, nil)}}, headers...)
		b.Expect(409, "sender.is_driven", "POST", "/api/v1/sms/start", `{"app_id":"driven","leases":[{"task_id":"t","lease_id":1}]}`, headers...)
		b.Expect(409, "sender.is_driven", "GET", "/app/api/v1/sms/tasks/pending?app_id=driven", nil, headers...)
		for _, prefix := range []string{"", "/app"} {
			b.Expect(409, "sender.is_driven", "POST", prefix+"/api/v1/sms/report", apptest.ReportBody(id, "driven", 2, nil), headers...)
		}
		batch := apptest.Decode[api.ReportedBatch](t, b.Expect(200, "", "POST", "/api/v1/sms/report-batch",
			map[string]any{"reports": []any{apptest.ReportBody(id, "driven", 2, nil)}}, headers...))
		if batch.Accepted != 0 || batch.Items[0].Code != 409 || batch.Items[0].Error.Reason != "sender.is_driven" {
			t.Errorf("%+v", batch)
		}
	}
	if n := b.Count("SELECT count(*) FROM send_logs") + b.Count("SELECT count(*) FROM report_logs"); n != 0 {
		t.Errorf("the app left %d log rows", n)
	}
	// If the sender becomes an app again, it can claim at once. If it becomes a driven sender again, its reports are refused.
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/driven", `{"kind":"app"}`)
	if got := b.Claim("driven", 1); len(got) != 1 {
		t.Errorf("claimed %v", got)
	}
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/driven", `{"kind":"log","config":{}}`)
	b.Expect(409, "sender.is_driven", "POST", "/api/v1/sms/report", apptest.ReportBody(id, "driven", 2, nil))
}

func TestAnUnknownAppIsRegisteredAtItsFirstPoll(t *testing.T) {
	b := apptest.New(t)
	b.SubmitMany("x", 3, nil)
	if got := len(b.Take("new", 1)); got != 1 {
		t.Fatalf("took %d", got)
	}
	if s := b.GetSender("new"); !s.IsShared || s.IntervalMs != 0 || s.Kind != "app" || s.Status != "on" {
		t.Errorf("%+v", s)
	}
	b.Expect(200, "", "PUT", "/api/v1/admin/settings", map[string]any{"queue": map[string]any{"register_unknown_senders": false}})
	b.Expect(404, "sender.not_found", "GET", "/api/v1/sms/tasks/pending?app_id=stranger", nil)
	if got := len(b.Take("new", 1)); got != 1 {
		t.Errorf("a known app claimed %d tasks", got)
	}
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/new", map[string]any{"status": "retired"})
	if got := len(b.Take("new", 1)); got != 0 {
		t.Errorf("a retired app claimed %d tasks", got)
	}
}

func TestS4_3_ReportsAreCountedForTheirSender(t *testing.T) {
	b := apptest.New(t)
	b.SubmitMany("x", 40, nil)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for _, task := range b.Take("app", 10) {
				status := 2
				if strings.HasSuffix(task.Content, "0") {
					status = 3
				}
				b.Report(task.TaskID, "app", status, nil)
				b.Report(task.TaskID, "app", status, nil) // a repeated report counts once
			}
		})
		all.Go(func() {
			if _, err := b.App.History.Fold(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if _, err := b.App.History.Fold(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := b.GetSender("app")
	if s.Attempts != 40 || s.TotalSent != 36 || s.SuccessRate == nil || *s.SuccessRate != 0.9 || s.SentAt == nil || s.SeenAt == nil || s.AverageResponseMs == nil {
		text, _ := json.Marshal(s)
		t.Errorf("%s", text)
	}
}

// A retried attempt lowers the success rate of the sender's attempts, but not the success rate of the sender's tasks.
func TestAttemptsAndTasksOfASenderHaveSeparateSuccessRates(t *testing.T) {
	b := apptest.New(t)
	for _, no := range []string{"one", "two"} {
		user := b.AddCompany("of-"+no, 1)
		b.AddSender(map[string]any{"sender_no": no, "is_shared": false})
		b.AddRoute("of-"+no, no, 1)
		b.SubmitMany("x", 2, nil, user...)
	}
	tasks := b.Take("one", 2)
	b.Report(tasks[0].TaskID, "one", 3, apptest.Report{"should_retry": true, "retry_after_seconds": 0})
	b.Report(tasks[1].TaskID, "one", 3, nil)
	for _, task := range b.Take("two", 2) {
		b.Report(task.TaskID, "two", 2, nil)
	}
	b.Exec("UPDATE queue SET due_at = now()")
	b.Report(b.Take("one", 1)[0].TaskID, "one", 2, nil)
	for range 2 { // before and after the facts are counted
		for no, want := range map[string]string{"one": "0.33 0.33 0.50", "two": "1.00 1.00 1.00"} {
			s := b.GetSender(no)
			if got := fmt.Sprintf("%.2f %.2f %.2f", *s.SuccessRate, *s.AttemptSuccessRate, *s.TaskSuccessRate); got != want {
				t.Errorf("%s: %s, want %s", no, got, want)
			}
		}
		if _, err := b.App.History.Fold(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// An attempt whose lease ran out lowers the success rate of the sender, even if its SUCCESS arrives later. A lease that was never started is no attempt.
func TestAttemptsWithoutReportLowerTheSuccessRate(t *testing.T) {
	b := apptest.New(t)
	for _, no := range []string{"one", "mute", "idle"} {
		user := b.AddCompany("of-"+no, 1)
		b.AddSender(map[string]any{"sender_no": no, "is_shared": false})
		b.AddRoute("of-"+no, no, 1)
		b.SubmitMany("x", 4, nil, user...)
	}
	tasks := b.Take("one", 4)
	for _, task := range tasks[:2] {
		b.Report(task.TaskID, "one", 2, nil)
	}
	b.Take("mute", 4)
	b.Expect(200, "", "POST", "/api/v1/sms/tasks/claim", map[string]any{"app_id": "idle", "limit": 4, "start_seconds": 60})
	b.ExpireLeases()
	b.Recover()
	b.Report(tasks[2].TaskID, "one", 2, nil)
	for range 2 { // before and after the facts are counted
		for no, want := range map[string]string{"one": "2 0.60", "mute": "4 0.00", "idle": "0 -"} {
			s := b.GetSender(no)
			rate := "-"
			if s.AttemptSuccessRate != nil {
				rate = fmt.Sprintf("%.2f", *s.AttemptSuccessRate)
			}
			if got := fmt.Sprint(*s.Unreported, " ", rate); got != want {
				t.Errorf("%s: %s, want %s", no, got, want)
			}
			if (s.AverageResponseMs != nil) != (no == "one") {
				t.Errorf("%s: the average response time is %v", no, s.AverageResponseMs)
			}
		}
		if _, err := b.App.History.Fold(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
