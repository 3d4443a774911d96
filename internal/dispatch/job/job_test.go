package job_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
)

func TestMain(m *testing.M) { apptest.Main(m) }

const path = "/api/v1/admin/task-jobs"

type filter = map[string]any

// count returns the number of tasks that a filter selects.
func count(b *apptest.Bundle, action string, f filter) int64 {
	b.T.Helper()
	plan := apptest.Decode[api.TaskJobPlan](b.T, b.Expect(200, "", "POST", path, map[string]any{"action": action, "filter": f}))
	if plan.Job != nil || plan.Capped {
		b.T.Errorf("a count: %+v", plan)
	}
	return plan.Count
}

// start creates a job of all tasks of a filter.
func start(b *apptest.Bundle, action string, f filter) api.TaskJob {
	b.T.Helper()
	body := map[string]any{"action": action, "filter": f, "count": count(b, action, f), "remark": "by the job"}
	return *apptest.Decode[api.TaskJobPlan](b.T, b.Expect(200, "", "POST", path, body)).Job
}

func get(b *apptest.Bundle, id int64) api.TaskJob {
	b.T.Helper()
	return apptest.Decode[api.TaskJob](b.T, b.Expect(200, "", "GET", fmt.Sprint(path, "/", id), nil))
}

// run runs the jobs and checks the progress of one job.
func run(b *apptest.Bundle, id int64, want string) {
	b.T.Helper()
	if _, err := b.App.Jobs.Run(b.T.Context()); err != nil {
		b.T.Error(err)
	}
	if got := progress(get(b, id)); got != want {
		b.T.Errorf("the job is %s, want %s", got, want)
	}
}

func progress(j api.TaskJob) string {
	return fmt.Sprintf("%s, %d of %d done, %d skipped, %d failed", j.Status, j.Done, j.Total, j.Skipped, j.Failed)
}

// insert stores n tasks in a state, with ids that contain prefix.
func insert(b *apptest.Bundle, prefix string, n, status int) {
	b.T.Helper()
	b.Exec(`INSERT INTO tasks (task_id, phone_number, recipient, content, status, source)
		SELECT $1 || lpad(i::text, 7, '0'), '1', '1', 'x', $3::smallint, 'bulk' FROM generate_series(1, $2::integer) i`,
		"task_"+time.Now().UTC().Format("20060102")+"_"+prefix, n, status)
}

func TestAJobRequeuesAllFailedTasksOfAFilter(t *testing.T) {
	b := apptest.New(t)
	b.AddCompany("acme", 1)
	b.SubmitMany("x", 8, map[string]any{"source": "shop", "message_type": "marketing"})
	for i, task := range b.Take("app", 6) {
		b.Report(task.TaskID, "app", 3, apptest.Report{"error_message": fmt.Sprint("MK:000", i%2)})
	}
	// Two tasks were undelivered at first, and one of the two was delivered later. A third task has a receipt of an attempt before a requeue.
	b.Exec(`INSERT INTO report_logs (task_id, company_id, event, effect, created_at)
		SELECT t.task_id, 1, r.event, r.effect, now() FROM (SELECT task_id, row_number() OVER (ORDER BY task_id) AS n FROM tasks WHERE result LIKE 'MK:0000%') t
		JOIN (VALUES (1, 'receipt', 'undelivered'), (2, 'receipt', 'undelivered'), (2, 'receipt', 'delivered'), (3, 'past_receipt', 'undelivered')) r (n, event, effect) ON r.n = t.n`)
	for f, want := range map[string]int64{
		`{}`: 6, `{"status":3}`: 6, `{"status":4}`: 0, `{"result":"MK:0001"}`: 3, `{"source":"shop"}`: 6, `{"source":"other"}`: 0, `{"message_type":"marketing"}`: 6,
		`{"sender_no":"app"}`: 6, `{"sender_no":"other"}`: 0, `{"company_no":"default"}`: 6, `{"company_no":"acme"}`: 0, `{"delivery":"delivered"}`: 1, `{"delivery":"undelivered"}`: 1,
		`{"message_type":"notification"}`:  0,
		`{"phone_number":"138-0013-8000"}`: 6, `{"phone_number":"13900139000"}`: 0, `{"created_from":"2030-01-01T00:00:00Z"}`: 0, `{"created_to":"2001-01-01T00:00:00Z"}`: 0,
	} {
		a := b.Expect(200, "", "POST", path, fmt.Sprintf(`{"action":"requeue","filter":%s}`, f))
		if got := apptest.Decode[api.TaskJobPlan](t, a); got.Count != want || got.Job != nil {
			t.Errorf("%s: %s, want %d", f, a.Raw, want)
		}
	}
	a := b.Expect(409, "job.count_changed", "POST", path, `{"action":"requeue","filter":{"result":"MK:0001"},"count":4}`)
	if !strings.Contains(a.Raw, `"count":3`) || !strings.Contains(a.Body.Message, "3") {
		t.Errorf("%s", a.Raw)
	}
	if n := b.Count("SELECT count(*) FROM task_jobs"); n != 0 {
		t.Errorf("%d jobs", n)
	}
	job := start(b, "requeue", filter{"result": "MK:0001"})
	if progress(job) != "running, 0 of 3 done, 0 skipped, 0 failed" || *job.Filter.Result != "MK:0001" || job.CreatedBy != apptest.Username || job.FinishedAt != nil {
		t.Errorf("%+v", job)
	}
	run(b, job.JobID, "finished, 3 of 3 done, 0 skipped, 0 failed")
	if n := b.Count("SELECT count(*) FROM tasks WHERE status = 0"); n != 5 {
		t.Errorf("%d tasks wait, want 3 and the 2 that nobody claimed", n)
	}
	if n := b.Count(`SELECT count(*) FROM report_logs WHERE event = 'requeued' AND error_message = 'by the job' AND request_data ->> 'by' = 'admin'`); n != 3 {
		t.Errorf("%d requeues in the log", n)
	}
	if n, err := b.App.Jobs.Run(t.Context()); n != 0 || err != nil {
		t.Errorf("run again: %d, %v", n, err)
	}
	page := apptest.Decode[api.TaskJobPage](t, b.Expect(200, "", "GET", path, nil))
	if len(page.Items) != 1 || page.Items[0].JobID != job.JobID || page.Items[0].FinishedAt == nil {
		t.Errorf("%+v", page)
	}
	b.Expect(409, "job.not_running", "POST", fmt.Sprint(path, "/", job.JobID, "/stop"), nil)
	b.Expect(404, "job.not_found", "POST", path+"/99/stop", nil)
	b.Expect(404, "job.not_found", "GET", path+"/99", nil)
}

// Lists and jobs select the same tasks by country, template, submitter and provider number.
func TestTasksAreSelectedByCountryTemplateSubmitterAndProviderNo(t *testing.T) {
	b := apptest.New(t)
	b.AddCountry("GB", "44", nil)
	b.AddCountry("CN", "86", nil)
	b.Expect(200, "", "POST", "/api/v1/admin/template", map[string]any{"template_no": "code", "template_name": "n", "template_content": "{code}"})
	acme, jane := b.AddCompany("acme", 1), b.AddUser("jane", "submit", map[string]any{"company_no": "default"})
	send := func(auth []string, body map[string]any) {
		b.Expect(200, "", "POST", "/api/v1/sms/send", body, auth...)
	}
	send(nil, map[string]any{"phone_number": "13800138000", "content": "x"})
	send(acme, map[string]any{"phone_number": "+447400123456", "content": "x"})
	send(jane, map[string]any{"phone_number": "+447400123457", "content": "x"})
	send(jane, map[string]any{"phone_number": "13800138001", "template_no": "code", "params": map[string]any{"code": "1"}})
	b.Exec("INSERT INTO senders (sender_no, name) VALUES ('one', 'n'), ('two', 'n')")
	b.Exec(`INSERT INTO deliveries (task_id, lease_id, sender_no, recipient, provider_no)
		SELECT task_id, 1, CASE WHEN recipient LIKE '+86%' THEN 'one' ELSE 'two' END, recipient, 'same' FROM tasks`)
	b.Exec("UPDATE deliveries SET provider_no = 'own' WHERE recipient = '+447400123457'")
	for query, want := range map[string]int64{
		"country_no=GB": 2, "country_no=CN": 2, "country_no=FR": 0, "template_no=code": 1, "template_no=other": 0, "submitted_by=jane": 2, "submitted_by=admin": 1,
		"submitted_by=user-of-acme": 1, "submitted_by=nobody": 0, "submitted_by=jane&country_no=GB": 1, "submitted_by=jane&company_no=acme": 0,
		"submitted_by=user-of-acme&company_no=acme": 1, "provider_no=same": 3, "provider_no=own": 1, "provider_no=none": 0, "provider_no=same&country_no=GB": 1,
		"provider_no=same&template_no=code&submitted_by=jane": 1, "status=0&country_no=GB": 2, "phone_number=13800138001&template_no=code": 1,
	} {
		page := apptest.Decode[api.TaskPage](t, b.Expect(200, "", "GET", "/api/v1/sms/tasks?"+query, nil))
		if int64(len(page.Items)) != want {
			t.Errorf("the list of %s has %d tasks, want %d", query, len(page.Items), want)
		}
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		f := filter{}
		for name := range values {
			f[name] = values.Get(name)
		}
		if values.Has("status") {
			f["status"] = 0
		}
		if got := count(b, "cancel", f); got != want {
			t.Errorf("a job of %s has %d tasks, want %d", query, got, want)
		}
	}
	// A user cannot read the tasks of another user by filtering for the name of this user.
	for query, want := range map[string]int{"submitted_by=jane": 0, "submitted_by=user-of-acme": 1, "provider_no=same": 1, "provider_no=own": 0} {
		if page := apptest.Decode[api.TaskPage](t, b.Expect(200, "", "GET", "/api/v1/sms/tasks?"+query, nil, acme...)); len(page.Items) != want {
			t.Errorf("a user of acme sees %d tasks of %s, want %d", len(page.Items), query, want)
		}
	}
	for _, query := range []string{"provider_no=", "country_no=", "template_no=%00", "submitted_by="} {
		b.Expect(422, "request.invalid", "GET", "/api/v1/sms/tasks?"+query, nil)
	}
}

// A job changes the tasks that its filter selected at its creation. It does not change tasks that were submitted later, or tasks whose state has changed since.
func TestJobChangesOnlyTheTasksThatItCounted(t *testing.T) {
	b := apptest.New(t)
	b.SubmitMany("x", 5, nil)
	job := start(b, "cancel", filter{})
	if n := count(b, "cancel", filter{"message_type": "notification"}); n != 5 {
		t.Errorf("%d notifications wait, want 5", n)
	}
	if n := count(b, "cancel", filter{"message_type": "verification"}); n != 0 {
		t.Errorf("%d verifications wait, want none", n)
	}
	held := b.ClaimIDs(1)[0]
	later := b.Submit("later")
	run(b, job.JobID, "finished, 4 of 5 done, 1 skipped, 0 failed")
	if b.Task(held).Status != api.TaskProcessing || b.Task(later).Status != api.TaskPending {
		t.Error("a task was cancelled that the job may not change")
	}
	back := start(b, "requeue", filter{"status": 4})
	run(b, back.JobID, "finished, 4 of 4 done, 0 skipped, 0 failed")
}

// A job lists the reasons of skipped tasks, in the language of the reader. The texts equal those of the request for one task. The counts of all parts are
// added.
func TestAJobReportsTheReasonsOfSkippedTasks(t *testing.T) {
	b := apptest.New(t)
	expect := func(id int64, want ...string) {
		t.Helper()
		var got []string
		for _, one := range get(b, id).SkippedBy {
			got = append(got, fmt.Sprint(one.Count, " ", one.Reason, ": ", one.Message))
		}
		if !slices.Equal(got, want) {
			t.Errorf("job %d skipped %q, want %q", id, got, want)
		}
	}
	insert(b, "a", 3, 0)
	cancels := start(b, "cancel", filter{})
	expect(cancels.JobID)
	b.ClaimIDs(2)
	run(b, cancels.JobID, "finished, 1 of 3 done, 2 skipped, 0 failed")
	expect(cancels.JobID, "2 task.not_pending: The task is no longer PENDING, so it cannot be cancelled.")

	insert(b, "b", 600, 3)
	requeues := start(b, "requeue", filter{})
	b.Exec("UPDATE messages SET expires_at = now() WHERE task_id LIKE '%_b%' AND right(task_id, 3) NOT IN ('001', '002', '600')")
	id := "task_" + time.Now().UTC().Format("20060102") + "_b0000001"
	b.Expect(200, "", "POST", "/api/v1/sms/task/"+id+"/requeue", nil)
	run(b, requeues.JobID, "finished, 2 of 600 done, 598 skipped, 0 failed")
	expect(requeues.JobID, "597 task.expired: The task cannot be sent before its expires_at any more: submit the message again.",
		"1 task.not_ended: The task has not ended: it is still PENDING or PROCESSING.")
	page := apptest.Decode[api.TaskJobPage](t, b.Expect(200, "", "GET", path, nil, "Accept-Language", "zh-CN"))
	if by := page.Items[0].SkippedBy; len(by) != 2 || by[0].Message != "任务在 expires_at 之前已不能发送，请重新提交消息。" {
		t.Errorf("in Chinese: %+v", by)
	}
	// A server of an earlier version stores no reasons.
	b.Exec("UPDATE task_jobs SET skipped_by = DEFAULT")
	expect(requeues.JobID)
}

func TestAnInvalidFilterOfAJobIsRefused(t *testing.T) {
	b := apptest.New(t)
	for body, field := range map[string]string{
		`{"action":"cancel","filter":{"status":3}}`:                    "filter.status",
		`{"action":"requeue","filter":{"status":2}}`:                   "filter.status",
		`{"action":"requeue","filter":{"status":0}}`:                   "filter.status",
		`{"action":"requeue","filter":{"phone_number":"12345678901"}}`: "filter.phone_number",
		`{"action":"requeue","filter":{"company_no":"nobody"}}`:        "filter.company_no",
		`{"action":"requeue","filter":{"limit":1}}`:                    "filter.limit",
		`{"action":"requeue","filter":{"message_type":"spam"}}`:        "filter.message_type",
		`{"action":"delete","filter":{}}`:                              "action",
		`{"action":"cancel"}`:                                          "filter",
		`{"action":"cancel","filter":{},"count":0}`:                    "count",
		`{"action":"cancel","filter":{},"count":1048577}`:              "count",
		`{"action":"cancel","filter":{},"count":1,"remark":""}`:        "remark",
	} {
		if a := b.Expect(422, "request.invalid", "POST", path, body); a.Fields() != field {
			t.Errorf("%s: fields %q, want %q", body, a.Fields(), field)
		}
	}
	b.Exec(`INSERT INTO task_jobs (action, filter, total, created_by) SELECT 'cancel', '{"source":"y"}', 1, 'x' FROM generate_series(1, 100)`)
	b.Submit("x")
	if a := b.Expect(409, "limit.reached", "POST", path, `{"action":"cancel","filter":{},"count":1}`); a.Body.Error.Limit != 100 {
		t.Errorf("%s", a.Raw)
	}
}

// failure returns the error of a call.
func failure[T any](_ T, err error) error { return err }

// A stopped job changes no further tasks and returns its progress.
func TestAStoppedJobChangesNoFurtherTasks(t *testing.T) {
	b := apptest.New(t)
	insert(b, "a", 1100, 0)
	job := start(b, "cancel", filter{"source": "bulk"})
	// Another transaction locks a task of the second part and a task of the third part.
	tx, err := b.DB.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := tx.Exec(t.Context(), "SELECT FROM queue WHERE task_id LIKE '%a0000600' OR task_id LIKE '%a0001100' FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	ran := make(chan error, 1)
	go func() { ran <- failure(b.App.Jobs.Run(t.Context())) }()
	apptest.Eventually(t, "the first part is changed", func() bool { return get(b, job.JobID).Done == 500 })
	b.Expect(200, "", "POST", fmt.Sprint(path, "/", job.JobID, "/stop"), nil)
	if err := <-ran; err != nil {
		t.Error(err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	run(b, job.JobID, "stopped, 500 of 1100 done, 0 skipped, 0 failed")

	second := start(b, "cancel", filter{"source": "bulk"})
	stopped := apptest.Decode[api.TaskJob](t, b.Expect(200, "", "POST", fmt.Sprint(path, "/", second.JobID, "/stop"), nil))
	if progress(stopped) != "stopped, 0 of 600 done, 0 skipped, 0 failed" || *stopped.StoppedBy != apptest.Username || stopped.FinishedAt == nil {
		t.Errorf("%+v", stopped)
	}
	run(b, second.JobID, "stopped, 0 of 600 done, 0 skipped, 0 failed")
	if n := b.Count("SELECT count(*) FROM queue"); n != 600 {
		t.Errorf("%d tasks wait", n)
	}
	if n := b.Count("SELECT count(*) FROM task_job_parts"); n != 0 {
		t.Errorf("%d parts are left", n)
	}
}

// If several servers run the same jobs, and one of them dies during a run, each task is changed once and counted once.
func TestJobChangesEachTaskOnceEvenIfAServerDies(t *testing.T) {
	b := apptest.New(t)
	const tasks = 3000
	insert(b, "f", tasks, 3)
	insert(b, "p", tasks, 0)
	requeues, cancels := start(b, "requeue", filter{"source": "bulk"}), start(b, "cancel", filter{"source": "bulk"})
	// The sessions of the servers are terminated repeatedly.
	done := make(chan struct{})
	var killing sync.WaitGroup
	killing.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(20 * time.Millisecond):
				_, _ = b.DB.Exec(context.Background(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
					WHERE datname = current_database() AND pid <> pg_backend_pid() AND state = 'active' AND query NOT LIKE '%pg_stat_activity%' AND random() < 0.3`)
			}
		}
	})
	second := apptest.Another(b)
	apptest.Together(4, func(i int) {
		jobs := b.App.Jobs
		if i%2 == 1 {
			jobs = second.Jobs
		}
		for range 8 {
			_, _ = jobs.Run(t.Context())
		}
	})
	close(done)
	killing.Wait()
	apptest.Eventually(t, "the jobs are finished", func() bool {
		_, err := b.App.Jobs.Run(t.Context())
		return err == nil && b.Count("SELECT count(*) FROM task_jobs WHERE status = 'running'") == 0
	})
	for id, event := range map[int64]string{requeues.JobID: "requeued", cancels.JobID: "cancelled"} {
		if got, want := progress(get(b, id)), fmt.Sprintf("finished, %d of %d done, 0 skipped, 0 failed", tasks, tasks); got != want {
			t.Errorf("%s: %s, want %s", event, got, want)
		}
		n := b.Count("SELECT count(*) FROM report_logs WHERE event = $1", event)
		distinct := b.Count("SELECT count(DISTINCT task_id) FROM report_logs WHERE event = $1", event)
		if n != tasks || distinct != tasks {
			t.Errorf("%d rows %s of %d tasks", n, event, distinct)
		}
	}
	if n := b.Count("SELECT count(*) FROM task_job_parts"); n != 0 {
		t.Errorf("%d parts are left", n)
	}
}

// A part that needs a locked partition is left for a later run, and the other parts are changed.
func TestJobRetriesAPartLaterIfItsPartitionIsLocked(t *testing.T) {
	b := apptest.New(t)
	locked, unlock := b.LockDay(5)
	unlock()
	b.Exec("UPDATE report_logs SET outcome = 3 WHERE task_id = $1", locked)
	insert(b, "a", 700, 3)
	job := start(b, "requeue", filter{})
	tx, err := b.DB.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	suffix := locked[4:13]
	if _, err := tx.Exec(t.Context(), "LOCK TABLE messages"+suffix+", report_logs"+suffix+" IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	run(b, job.JobID, "running, 201 of 701 done, 0 skipped, 0 failed")
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	run(b, job.JobID, "finished, 701 of 701 done, 0 skipped, 0 failed")
}

// If the database refuses to change a task, only this task fails.
func TestJobFailsOnlyTheTaskThatTheDatabaseRejects(t *testing.T) {
	b := apptest.New(t)
	insert(b, "a", 20, 3)
	b.Exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN IF NEW.task_id LIKE '%a0000007' THEN RAISE EXCEPTION 'no'; END IF; RETURN NEW; END $$;
		CREATE TRIGGER refuse BEFORE INSERT ON queue FOR EACH ROW EXECUTE FUNCTION refuse()`)
	job := start(b, "requeue", filter{})
	run(b, job.JobID, "finished, 19 of 20 done, 0 skipped, 1 failed")
	if n := b.Count("SELECT count(*) FROM tasks WHERE status = 3"); n != 1 {
		t.Errorf("%d tasks are FAILED", n)
	}
	if !strings.Contains(b.Log.String(), "a0000007") {
		t.Error("the log does not name the task")
	}
}

// A part that always fails does not block other parts, and the next run tries it again.
func TestJobRetriesAFailedPartLater(t *testing.T) {
	b := apptest.New(t)
	insert(b, "a", 1100, 3)
	b.Exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN IF NEW.task_id LIKE '%a0000007' THEN RAISE EXCEPTION 'too slow' USING ERRCODE = 'query_canceled'; END IF; RETURN NEW; END $$;
		CREATE TRIGGER refuse BEFORE INSERT ON queue FOR EACH ROW EXECUTE FUNCTION refuse()`)
	job := start(b, "requeue", filter{})
	for range 2 {
		if n, err := b.App.Jobs.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "too slow") {
			t.Errorf("changed %d, %v", n, err)
		}
		if got := progress(get(b, job.JobID)); got != "running, 600 of 1100 done, 0 skipped, 0 failed" {
			t.Errorf("the job is %s", got)
		}
	}
	b.Exec("DROP TRIGGER refuse ON queue")
	run(b, job.JobID, "finished, 1100 of 1100 done, 0 skipped, 0 failed")
}

// A console can send a confirmed request twice. A second job would requeue tasks that fail again in the first job, so only one job is created.
func TestConcurrentEqualRequestsCreateOneJob(t *testing.T) {
	b := apptest.New(t)
	insert(b, "a", 900, 0)
	body := map[string]any{"action": "cancel", "filter": filter{"source": "bulk"}, "count": 900}
	var reasons [8]string
	apptest.Together(len(reasons), func(i int) { reasons[i] = b.Call("POST", path, body).Body.Error.Reason })
	slices.Sort(reasons[:])
	if b.Count("SELECT count(*) FROM task_jobs") != 1 || reasons[0] != "" || reasons[1] != "job.already_running" || reasons[1] != reasons[7] {
		t.Errorf("%d jobs, %q", b.Count("SELECT count(*) FROM task_jobs"), reasons)
	}
	insert(b, "b", 1, 0)
	job := *apptest.Decode[api.TaskJobPlan](t, b.Expect(200, "", "POST", path, map[string]any{"action": "cancel", "filter": filter{}, "count": 901})).Job
	run(b, job.JobID, "finished, 1 of 901 done, 900 skipped, 0 failed")
	insert(b, "c", 900, 0)
	b.Expect(200, "", "POST", path, body)
}

// A repeated request with the same Idempotency-Key creates only one job. A cancelled run of a job is continued by a later run.
func TestAJobIsCreatedOncePerKeyAndContinuesAfterACancelledRun(t *testing.T) {
	b := apptest.New(t)
	insert(b, "a", 900, 0)
	body := map[string]any{"action": "cancel", "filter": filter{}, "count": 900}
	first := b.Expect(200, "", "POST", path, body, apptest.KeyHeader, "k")
	second := b.Expect(200, "", "POST", path, body, apptest.KeyHeader, "k")
	if first.Raw != second.Raw || b.Count("SELECT count(*) FROM task_jobs") != 1 {
		t.Errorf("%s\n%s", first.Raw, second.Raw)
	}
	job := *apptest.Decode[api.TaskJobPlan](t, first).Job
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if n, err := b.App.Jobs.Run(ctx); n != 0 || err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %d, %v", n, err)
	}
	run(b, job.JobID, "finished, 900 of 900 done, 0 skipped, 0 failed")
	b.Exec("UPDATE task_jobs SET finished_at = now() - interval '400 days'")
	b.Expect(200, "", "PUT", "/api/v1/admin/settings", map[string]any{"history": map[string]any{"log_days": 30}})
	if n, err := b.App.Jobs.DeleteExpired(t.Context()); n != 1 || err != nil {
		t.Errorf("deleted %d, %v", n, err)
	}
}
