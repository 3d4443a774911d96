package queue_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/dispatch/queue"
	"lksms/internal/testkit/apptest"
)

// A number in a test name is the number of a requirement in docs/requirements.md. The tests use HTTP and a real PostgreSQL.

func TestS0_3_PendingReturnsTasksToClaim(t *testing.T) {
	b := apptest.New(t)
	for i := range 12 {
		b.Submit(fmt.Sprint(i))
	}
	a := b.Expect(200, "", "GET", "/api/v1/sms/tasks/pending?app_id=sms_app_001", nil)
	if got := apptest.Decode[[]api.ClaimedTask](t, a); len(got) != 10 {
		t.Errorf("%d tasks by default, want 10", len(got))
	} else if got[0].PhoneNumber != apptest.Phone || got[0].Content != "0" || got[0].Attempt != 1 || got[0].LeaseID == 0 ||
		got[0].LeaseUntil.Before(time.Now().Add(29*time.Minute)) {
		t.Errorf("first task %+v", got[0])
	}
	if a.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("Cache-Control %q", a.Header.Get("Cache-Control"))
	}
	if got := b.Claim("other", 100); len(got) != 2 {
		t.Errorf("then claimed %d, want the 2 that are left", len(got))
	}
	if a := b.Expect(200, "", "GET", "/api/v1/sms/tasks/pending?app_id=x&limit=1", nil); !strings.Contains(a.Raw, `"data":[]`) {
		t.Errorf("an empty queue answers %s", a.Raw)
	}
	for query, field := range map[string]string{
		"app_id=x&limit=0": "limit", "app_id=x&limit=101": "limit", "app_id=x&limit=ten": "limit", "limit=1": "app_id",
		"app_id=": "app_id", "app_id=" + strings.Repeat("a", 51): "app_id", "app_id=a%00b": "app_id",
	} {
		if a := b.Expect(422, "request.invalid", "GET", "/api/v1/sms/tasks/pending?"+query, nil); a.Fields() != field {
			t.Errorf("%s: fields %q, want %q", query, a.Fields(), field)
		}
	}
}

func TestConcurrentClaimsReturnEachTaskOnceWithinTheirLimits(t *testing.T) {
	b := apptest.New(t)
	const n, limit = 400, 7
	b.Exec(`INSERT INTO tasks (task_id, phone_number, recipient, content) SELECT 't' || i, $1, $1, 'x' FROM generate_series(1, $2::int) i`, apptest.Phone, n)
	var mu sync.Mutex
	seen := map[string]string{}
	apptest.Together(64, func(i int) {
		appID := fmt.Sprint("app", i)
		for {
			got := b.Claim(appID, limit)
			if len(got) > limit {
				t.Errorf("claimed %d, the limit is %d", len(got), limit)
			}
			mu.Lock()
			for _, claimed := range got {
				if other, twice := seen[claimed.TaskID]; twice {
					t.Errorf("%s was sent to %s and %s", claimed.TaskID, other, appID)
				}
				seen[claimed.TaskID] = appID
			}
			left := n - len(seen)
			mu.Unlock()
			if left == 0 {
				return
			}
		}
	})
	if got := b.Count("SELECT count(*) FROM send_logs"); got != n {
		t.Errorf("%d log rows for %d leases", got, n)
	}
}

func TestS0_4_ReportSettlesATask(t *testing.T) {
	b := apptest.New(t)
	id := b.Submit("x")
	b.Claim("sms_app_001", 1)
	a := b.Expect(200, "", "POST", "/api/v1/sms/report",
		`{"task_id":"`+id+`","app_id":"sms_app_001","status":2,"error_message":"","should_retry":false}`)
	if strings.TrimSpace(a.Raw) != `{"code":200,"message":"success"}` {
		t.Errorf("got %s", a.Raw)
	}
	if got := b.Task(id); got.Status != api.TaskSuccess || *got.Result != "发送成功" || *got.ProcessingAppID != "sms_app_001" {
		t.Errorf("got %+v", got)
	}
	failed := b.Submit("y")
	b.Claim("sms_app_001", 1)
	b.Report(failed, "sms_app_001", 3, apptest.Report{"error_message": "空号"})
	if got := b.Task(failed); got.Status != api.TaskFailed || *got.Result != "空号" || got.SentAt != nil || got.ReportedAt == nil {
		t.Errorf("got %+v", got)
	}
	for body, field := range map[string]string{
		`{"task_id":"t","app_id":"a","status":1}`:                      "status",
		`{"task_id":"t","app_id":"a","status":"2"}`:                    "status",
		`{"app_id":"a","status":2}`:                                    "task_id",
		`{"task_id":"t","status":2}`:                                   "app_id",
		`{"task_id":"t","app_id":"a","status":2,"lease_id":0}`:         "lease_id",
		`{"task_id":"t","app_id":"a","status":2,"lease_id":1e30}`:      "lease_id",
		`{"task_id":"t","app_id":"a","status":2,"should_retry":1}`:     "should_retry",
		`{"task_id":"t","app_id":"a","status":3,"error_message":[""]}`: "error_message",
	} {
		if a := b.Expect(422, "request.invalid", "POST", "/api/v1/sms/report", body); a.Fields() != field {
			t.Errorf("%s: fields %q, want %q", body, a.Fields(), field)
		}
	}
	b.Expect(404, "task.not_found", "POST", "/api/v1/sms/report", apptest.ReportBody("nothing", "a", 2, nil))
}

func TestS0_4_ReportCutsALongErrorMessage(t *testing.T) {
	b := apptest.New(t)
	id := b.Submit("x")
	b.Claim("app", 1)
	b.Report(id, "app", 3, apptest.Report{"error_message": strings.Repeat("错", 5000)})
	if got := b.Task(id); *got.Result != strings.Repeat("错", 500) {
		t.Errorf("kept %d characters", len([]rune(*got.Result)))
	}
}

func TestS0_10_ClaimReturnsNewTasksBeforeDueRetries(t *testing.T) {
	b := apptest.New(t)
	// The rows are in the order of their creation. r1 was attempted once, and r2 twice. late is not due yet.
	for i, row := range []struct {
		id    string
		retry int
		due   string
	}{
		{"r2-old", 2, "-1 hour"}, {"r1-old", 1, "-1 minute"}, {"late", 1, "1 minute"}, {"new-old", 0, "0"},
		{"r1-young", 1, "-2 hours"}, {"new-young", 0, "0"}, {"r2-young", 2, "-3 hours"},
	} {
		b.Exec(`INSERT INTO tasks (task_id, phone_number, recipient, content, retry_count, due_at, created_at)
			VALUES ($1, $2, $2, 'x', $3, now() + $4::interval, now() - interval '1 day' + make_interval(mins => $5))`,
			row.id, apptest.Phone, row.retry, row.due, i)
	}
	var got []string
	for _, limit := range []int{1, 3, 10} {
		got = append(got, b.ClaimIDs(limit)...)
	}
	want := []string{"new-old", "new-young", "r1-old", "r1-young", "r2-old", "r2-young"}
	if !slices.Equal(got, want) {
		t.Errorf("claimed %v\nwant    %v", got, want)
	}
	if status := b.Task("r1-old"); status.Status != api.TaskProcessing || *status.ProcessingAppID != "app" {
		t.Errorf("a claimed task: %+v", status)
	}
	b.Exec("UPDATE tasks SET due_at = now() WHERE task_id = 'late'")
	if got := b.ClaimIDs(10); !slices.Equal(got, []string{"late"}) {
		t.Errorf("once it is due: %v", got)
	}
}

func TestS0_11_FailedTaskIsRetriedOnlyOnRequestOfTheSender(t *testing.T) {
	b := apptest.New(t)
	id := b.Submit("x")
	for attempt := 1; ; attempt++ {
		claimed := b.Claim("app", 1)
		if len(claimed) != 1 || int(claimed[0].Attempt) != attempt {
			t.Fatalf("attempt %d: claimed %+v", attempt, claimed)
		}
		b.Report(id, "app", 3, apptest.Report{"should_retry": true, "error_message": "网络超时"})
		got := b.Task(id)
		if attempt == 4 { // the first attempt and MAX_RETRY_COUNT = 3 retries
			if got.Status != api.TaskFailed || *got.Result != "超过最大重试次数: 网络超时" || got.RetryCount != 3 ||
				got.ProcessingAppID != nil || got.ReportedAt == nil {
				t.Errorf("after the last: %+v", got)
			}
			break
		}
		if got.Status != api.TaskPending || int(got.RetryCount) != attempt || *got.Result != "网络超时" || got.ProcessingAppID != nil {
			t.Errorf("after attempt %d: %+v", attempt, got)
		}
		if wait := got.DueAt.Sub(got.UpdatedAt); wait != 5*time.Minute {
			t.Errorf("due after %s, want RETRY_DELAY_MINUTES", wait)
		}
		if early := b.ClaimIDs(1); len(early) != 0 {
			t.Errorf("claimed before it is due: %v", early)
		}
		b.Exec("UPDATE tasks SET due_at = now()")
	}
	if early := b.ClaimIDs(1); len(early) != 0 {
		t.Errorf("claimed after it failed: %v", early)
	}
}

func TestS0_11_ReportSetsTheWaitOfARetry(t *testing.T) {
	b := apptest.New(t)
	id := b.Submit("x")
	b.Claim("app", 1)
	b.Report(id, "app", 3, apptest.Report{"should_retry": true, "retry_after_seconds": 7})
	if got := b.Task(id); got.DueAt.Sub(got.UpdatedAt) != 7*time.Second {
		t.Errorf("due after %s", got.DueAt.Sub(got.UpdatedAt))
	}
}

func TestS0_12_SweepRecoversExpiredLeases(t *testing.T) {
	b := apptest.New(t)
	id := b.Submit("x")
	for attempt := 1; attempt <= 4; attempt++ {
		if got := b.ClaimIDs(1); len(got) != 1 {
			t.Fatalf("attempt %d: claimed %v", attempt, got)
		}
		if n := b.Recover(); n != 0 {
			t.Errorf("recovered %d leases that have not expired", n)
		}
		b.ExpireLeases()
		if n := b.Recover(); n != 1 {
			t.Errorf("recovered %d leases, want 1", n)
		}
		got := b.Task(id)
		if attempt < 4 && (got.Status != api.TaskPending || int(got.RetryCount) != attempt || *got.Result != "处理超时，自动重试") {
			t.Errorf("attempt %d: %+v", attempt, got)
		}
		if attempt == 4 && (got.Status != api.TaskFailed || *got.Result != "处理超时，超过最大重试次数" || got.ReportedAt == nil) {
			t.Errorf("after the last: %+v", got)
		}
		if got.ProcessingAppID != nil || got.LeaseUntil != nil {
			t.Errorf("still held: %+v", got)
		}
	}
	a := b.Expect(200, "", "POST", "/api/v1/admin/recover-zombie-tasks", nil, "Accept-Language", "zh-CN")
	if got := apptest.Decode[api.Recovered](t, a); got.RecoveredCount != 0 || got.Message != "成功恢复 0 个僵尸任务" {
		t.Errorf("got %+v", got)
	}
}

func TestS0_13_StatisticsCountTasksByState(t *testing.T) {
	b := apptest.New(t)
	b.Exec(`INSERT INTO tasks (task_id, phone_number, recipient, content, status, retry_count, processing_app_id, lease_id, lease_until)
		SELECT 't' || i, $1, $1, 'x', s.status, s.retry, CASE s.status WHEN 1 THEN 'a' END, CASE s.status WHEN 1 THEN i END, CASE s.status WHEN 1 THEN now() END
		FROM (VALUES (0, 0, 1, 5), (0, 2, 6, 9), (1, 0, 10, 12), (2, 0, 13, 14), (3, 3, 15, 15), (4, 0, 16, 20)) s (status, retry, lo, hi),
			LATERAL generate_series(s.lo, s.hi) i`, apptest.Phone)
	a := b.Expect(200, "", "GET", "/api/v1/admin/task-statistics", nil)
	want := api.Statistics{PendingNewTasks: 5, PendingRetryTasks: 4, ProcessingTasks: 3, SuccessTasks: 2, FailedTasks: 1}
	if got := apptest.Decode[api.Statistics](t, a); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	info := apptest.Decode[[]api.StatusInfo](t, b.Expect(200, "", "GET", "/api/v1/admin/task-status-info", nil, "Accept-Language", "zh"))
	wantInfo := []api.StatusInfo{
		{StatusCode: 0, StatusName: "PENDING", Description: "待处理"},
		{StatusCode: 1, StatusName: "PROCESSING", Description: "处理中"},
		{StatusCode: 2, StatusName: "SUCCESS", Description: "成功"},
		{StatusCode: 3, StatusName: "FAILED", Description: "失败"},
		{StatusCode: 4, StatusName: "CANCELLED", Description: "已取消"},
	}
	if !slices.Equal(info, wantInfo) {
		t.Errorf("got %+v", info)
	}
}

func TestS0_14_EachSubmissionLeaseAndReportHasALogRow(t *testing.T) {
	b := apptest.New(t)
	a := b.Expect(200, "", "POST", "/api/v1/sms/send", map[string]any{"phone_number": apptest.Phone, "content": "x", "source": "system_a"},
		"User-Agent", "system_a/1.0", "X-Request-Id", "req-1")
	id := apptest.Decode[api.Submitted](t, a).TaskID
	if n := b.Count(`SELECT count(*) FROM receive_logs WHERE request_id = 'req-1' AND task_id = $1 AND phone_number = $2 AND content = 'x'
		AND NOT use_template AND source_ip = '127.0.0.1' AND user_agent = 'system_a/1.0' AND request_data->>'source' = 'system_a'
		AND response_data->'data'->>'task_id' = $1 AND status_code = 200`, id, apptest.Phone); n != 1 {
		t.Errorf("%d log rows of the submission", n)
	}
	claimed := b.Claim("app", 5)[0]
	if n := b.Count(`SELECT count(*) FROM send_logs WHERE id = $1 AND task_id = $2 AND app_id = 'app' AND phone_number = $3 AND content = 'x'
		AND attempt = 1 AND (request_data->>'limit')::int = 5 AND (response_data->>'lease_id')::bigint = $1`, claimed.LeaseID, id, apptest.Phone); n != 1 {
		t.Errorf("%d log rows of the claim", n)
	}
	b.Report(id, "app", 3, apptest.Report{"error_message": "忙", "should_retry": true})
	if n := b.Count(`SELECT count(*) FROM report_logs WHERE task_id = $1 AND app_id = 'app' AND status = 3 AND error_message = '忙'
		AND (request_data->>'should_retry')::boolean AND event = 'reported' AND effect = 'retry'`, id); n != 1 {
		t.Errorf("%d log rows of the report", n)
	}
	// Every refused submission also has a log row.
	for status, body := range map[int]string{
		400: `{"phone_number":`,
		422: `{"phone_number":"12345678901","content":"` + `\u0000\ud800` + `","n":1e999}`,
		409: `{"phone_number":"13800138000","content":"a=1","use_template":true}`,
		413: `{"phone_number":"` + strings.Repeat("1", 1<<20) + `"}`,
	} {
		if a := b.Call("POST", "/api/v1/sms/send", body); a.Status != status {
			t.Errorf("%.60s: %d, want %d", body, a.Status, status)
		}
		if n := b.Count("SELECT count(*) FROM receive_logs WHERE status_code = $1 AND (response_data->>'code')::int = $1 AND request_data IS NOT NULL AND task_id IS NULL", status); n != 1 {
			t.Errorf("%d log rows of the submission with %d", n, status)
		}
	}
	b.Expect(401, "auth.required", "POST", "/api/v1/sms/send", `{}`, "Authorization", "")
	if n := b.Count("SELECT count(*) FROM receive_logs"); n != 5 {
		t.Errorf("%d log rows, want 5: a caller without credentials leaves none", n)
	}
}

func TestS0_15_TablesContainTheRequiredColumnsAndStates(t *testing.T) {
	b := apptest.New(t)
	for table, columns := range map[string]string{
		"templates":        "id template_name template_content is_active created_at updated_at",
		"default_contents": "id phone_number content use_template is_sent created_at updated_at",
		"tasks":            "task_id phone_number content status source retry_count processing_app_id result created_at updated_at sent_at reported_at",
		"receive_logs":     "id request_id phone_number content use_template source_ip user_agent request_data response_data status_code created_at",
		"send_logs":        "id task_id app_id phone_number content request_data response_data created_at",
		"report_logs":      "id task_id app_id status error_message request_data created_at",
	} {
		for _, column := range strings.Fields(columns) {
			if n := b.Count("SELECT count(*) FROM information_schema.columns WHERE table_name = $1 AND column_name = $2", table, column); n != 1 {
				t.Errorf("%s has no column %s", table, column)
			}
		}
	}
	if queue.Pending != 0 || queue.Processing != 1 || queue.Success != 2 || queue.Failed != 3 {
		t.Error("the codes are not the documented ones")
	}
}

func TestDatabaseUses64BitIDsAndTimesWithZone(t *testing.T) {
	b := apptest.New(t)
	if n := b.Count(`SELECT count(*) FROM information_schema.columns WHERE table_schema = 'public' AND table_name <> 'schema_migrations'
		AND (data_type = 'timestamp without time zone' OR data_type = 'integer' AND column_name = 'id')`); n != 0 {
		t.Errorf("%d columns have 32 bits or no time zone", n)
	}
	got := b.Task(b.Submit("x"))
	if _, offset := got.CreatedAt.Zone(); offset != 0 {
		t.Errorf("created_at %s is not in UTC", got.CreatedAt)
	}
}
