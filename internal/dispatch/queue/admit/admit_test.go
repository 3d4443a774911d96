package admit_test

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	api "lksms/gen/client"
	"lksms/internal/app"
	"lksms/internal/testkit/apptest"
	"lksms/internal/testkit/queries"
)

func TestMain(m *testing.M) { apptest.Main(m) }

const (
	abroad = "+4915112345678"
	send   = "/api/v1/sms/send"
)

// world is a server that forbids messages abroad.
type world struct {
	*apptest.Bundle
	failed, failedByJob string // ids of older tasks to numbers abroad
	status              int    // status and reason of the refusals
	reason              string
	outcome             string // outcome of a refused message in a request with several messages
}

// forbids contains the ways in which messages abroad are forbidden.
var forbids = map[string]func(w *world){
	"country": func(w *world) {
		w.Expect(200, "", "PATCH", "/api/v1/admin/companies/default", map[string]any{"countries": []string{"CN"}})
		w.status, w.reason, w.outcome = 422, "request.invalid", "422 phone_number"
	},
	"block": func(w *world) {
		w.Expect(200, "", "POST", "/api/v1/blocks", map[string]any{"phone_number": abroad, "scope": "all", "company_no": "default"})
		w.status, w.reason, w.outcome = 409, "recipient.blocked", "409 phone_number"
	},
}

func newWorld(t *testing.T, forbid func(w *world)) world {
	t.Helper()
	w := world{Bundle: apptest.NewWith(t, apptest.DefaultRules, func(o *app.Options) {
		o.Kannel = true
		apptest.WithSecrets(o)
	})}
	w.AddCountry("CN", "86", nil)
	w.AddCountry("DE", "49", nil)
	w.AddUser("program", "submit", nil)
	w.AddSender(map[string]any{"sender_no": "driven", "kind": "http-sms", "config": apptest.NewProvider(t).SenderConfig()})
	w.Expect(200, "", "PUT", "/api/v1/admin/notification-templates/3/sms", map[string]any{"title": "t", "content": "${taskName}"})
	w.PutContacts(map[string]any{"user_id": "u1", "phone": abroad})
	w.Expect(200, "", "POST", "/api/v1/admin/default-sms", map[string]any{"phone_number": abroad, "content": "x"})
	for _, id := range []*string{&w.failed, &w.failedByJob} {
		*id = w.SubmitBody(map[string]any{"phone_number": abroad, "content": "x"}).TaskID
		w.Claim("app", 1)
		w.Report(*id, "app", 3, nil)
	}
	forbid(&w)
	return w
}

// expectRefused fails the test unless a request is refused because of its phone number.
func (w world) expectRefused(path string, body any) {
	w.T.Helper()
	if a := w.Expect(w.status, w.reason, "POST", path, body); !strings.HasSuffix(a.Fields(), "phone_number") {
		w.T.Errorf("wrong fields %s", a.Fields())
	}
}

// foreign sends a request in the protocol of another SMS program.
func (w world) foreign(method, path, body string) string {
	w.T.Helper()
	req, err := http.NewRequestWithContext(w.T.Context(), method, w.URL+path, strings.NewReader(body))
	if err != nil {
		w.T.Fatal(err)
	}
	req.SetBasicAuth("program", apptest.UserPassword)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		w.T.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		w.T.Fatal(err)
	}
	return fmt.Sprint(res.StatusCode, " ", string(raw))
}

// ways contains all operations that create or requeue a task.
var ways = map[string]func(w world){
	"message":         func(w world) { w.expectRefused(send, map[string]any{"phone_number": abroad, "content": "x"}) },
	"default content": func(w world) { w.expectRefused(send, map[string]any{"phone_number": abroad}) },
	"dry run": func(w world) {
		w.expectRefused(send+"?dry_run=true", map[string]any{"phone_number": abroad, "content": "x"})
	},
	"messages of one request": func(w world) {
		made := apptest.Decode[api.SentBatch](w.T, w.Expect(200, "", "POST", "/api/v1/sms/send-batch", map[string]any{"messages": []any{
			map[string]any{"phone_number": abroad, "content": "x"}, map[string]any{"phone_number": abroad},
		}}))
		if got := apptest.Outcomes(made.Items); !slices.Equal(got, []string{w.outcome, w.outcome}) {
			w.T.Errorf("outcomes %v", got)
		}
	},
	"messages that are stored together": func(w world) {
		a := w.Expect(200, "", "POST", "/api/v1/sms/send-batch", map[string]any{"messages": []any{
			map[string]any{"phone_number": abroad, "content": "x"}, map[string]any{"phone_number": abroad},
		}}, "Idempotency-Key", "key")
		if got := apptest.Outcomes(apptest.Decode[api.SentBatch](w.T, a).Items); !slices.Equal(got, []string{w.outcome, w.outcome}) {
			w.T.Errorf("outcomes %v", got)
		}
	},
	"uploaded list": func(w world) {
		made := apptest.Decode[api.BatchCreated](w.T, w.Call("POST", "/api/v1/batches", apptest.Form("file", "list.csv", "phone\n"+abroad+"\n", "name", "n",
			"phone_column", "phone", "content", "x"), "Content-Type", apptest.FormType))
		if _, err := w.App.Batches.Check(w.T.Context()); err != nil {
			w.T.Fatal(err)
		}
		batch := apptest.Decode[api.Batch](w.T, w.Expect(200, "", "GET", fmt.Sprint("/api/v1/batches/", made.BatchID), nil))
		if batch.Counts.Blocked != 1 || batch.Counts.Valid != 0 {
			w.T.Errorf("counts %+v", batch.Counts)
		}
	},
	"notification": func(w world) {
		made := apptest.Decode[api.NotificationsMade](w.T, w.Expect(200, "", "POST", "/api/v1/notifications", map[string]any{
			"biz_type": 3, "biz_id": 1, "channels": []string{"sms"}, "payload": map[string]any{"taskName": "x"}, "user_ids": []string{"u1"},
		}))
		if n := w.Notification(made.Items[0].NotificationID); n.Status != api.NotificationFailed {
			w.T.Errorf("%+v", n)
		}
	},
	"SQL": func(w world) {
		w.Exec(`INSERT INTO sql_inbox (task_id, company_id, submitted_by, role_name, request_id, phone_number, content, message_type, is_test, tries)
			SELECT 'task_20261127_sql', id, 'program', 'role', 'r', $1, 'x', 1, false, 1 FROM companies WHERE company_no = 'default'`, abroad)
		if _, err := w.App.SQLInbox.Take(w.T.Context()); err != nil {
			w.T.Fatal(err)
		}
		if task := w.Task("task_20261127_sql"); task.Status != api.TaskFailed {
			w.T.Errorf("the task is %+v", task)
		}
	},
	"inbound": func(w world) {
		w.Expect(200, "", "POST", "/api/v1/admin/inbounds", map[string]any{"inbound_no": "novu", "preset": "novu"})
		w.expectRefused("/api/v1/inbound/novu", `{"to":"`+abroad+`","from":"shop","content":"x","id":"1"}`)
	},
	"Kannel": func(w world) {
		all := url.Values{"username": {"program"}, "password": {apptest.UserPassword}, "to": {abroad}, "text": {"x"}}
		if got := w.foreign("GET", "/cgi-bin/sendsms?"+all.Encode(), ""); strings.HasPrefix(got, "202") {
			w.T.Error(got)
		}
	},
	"SMSGate": func(w world) {
		if got := w.foreign("POST", "/smsgate/3rdparty/v1/messages", `{"textMessage":{"text":"x"},"phoneNumbers":["`+abroad+`"]}`); !strings.HasPrefix(got, "400") && !strings.HasPrefix(got, "409") {
			w.T.Error(got)
		}
	},
	"test of a sender": func(w world) {
		w.expectRefused("/api/v1/admin/senders/driven/test", map[string]any{"phone_number": abroad, "content": "x"})
	},
	"test of a template": func(w world) {
		made := apptest.Decode[api.Template](w.T, w.Expect(200, "", "POST", "/api/v1/admin/template",
			map[string]any{"template_no": "t", "template_name": "n", "template_content": "x"}))
		w.expectRefused(fmt.Sprintf("/api/v1/admin/template/%d/test", made.ID), map[string]any{"phone_number": abroad, "params": map[string]any{}})
	},
	"requeue": func(w world) {
		reason := "task.recipient_refused"
		if w.reason == "recipient.blocked" {
			reason = w.reason
		}
		w.Expect(409, reason, "POST", apptest.RequeuePath(w.failed), nil)
		if task := w.Task(w.failed); task.Status != api.TaskFailed {
			w.T.Errorf("the task is %+v", task)
		}
	},
	"requeue of all tasks of a filter": func(w world) {
		body := map[string]any{"action": "requeue", "filter": map[string]any{"phone_number": abroad, "status": 3}, "count": 2}
		job := *apptest.Decode[api.TaskJobPlan](w.T, w.Expect(200, "", "POST", "/api/v1/admin/task-jobs", body)).Job
		if _, err := w.App.Jobs.Run(w.T.Context()); err != nil {
			w.T.Fatal(err)
		}
		job = apptest.Decode[api.TaskJob](w.T, w.Expect(200, "", "GET", fmt.Sprint("/api/v1/admin/task-jobs/", job.JobID), nil))
		if job.Done != 0 || job.Skipped != 2 {
			w.T.Errorf("%+v", job)
		}
	},
}

// Each operation that creates a task must be listed in ways, and must call admit.Service.Admit.
func TestEveryOperationRejectsForbiddenRecipients(t *testing.T) {
	t.Parallel()
	for name, way := range ways {
		for why, forbid := range forbids {
			t.Run(name+" "+why, func(t *testing.T) {
				w := newWorld(t, forbid)
				way(w)
				if n := w.Count("SELECT count(*) FROM queue"); n != 0 {
					t.Errorf("%d tasks wait", n)
				}
			})
		}
	}
}

// Only three statements add tasks to the queue. TaskSubmit adds the tasks that putAll admits, TaskEnqueue the tasks that admitPeople admits, and TaskRequeue
// the tasks that readmit admits.
func TestOnlyAdmittedTasksAreAddedToTheQueue(t *testing.T) {
	t.Parallel()
	var adding []string
	inserts := regexp.MustCompile(`INSERT INTO queue\b`)
	for _, s := range queries.All(t) {
		if inserts.MatchString(s.SQL) {
			adding = append(adding, s.Name)
		}
	}
	if slices.Sort(adding); !slices.Equal(adding, []string{"TaskEnqueue", "TaskRequeue", "TaskSubmit"}) {
		t.Errorf("statements that add tasks to the queue: %v", adding)
	}
}
