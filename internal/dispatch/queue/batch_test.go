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

// itemOutcomes returns the outcome of each item: its code, and its wrong fields or its reason.
func itemOutcomes(items []api.SentItem) (all []string) {
	for _, item := range items {
		all = append(all, outcome(item.Code, item.Error))
	}
	return all
}

func outcome(code int, detail *api.ErrorDetail) string {
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

func TestABatchHasAnOutcomeForEachMessage(t *testing.T) {
	b := apptest.New(t)
	b.Expect(200, "", "POST", "/api/v1/admin/template", `{"template_name":"n","template_content":"您的验证码是{code}"}`)
	b.Expect(200, "", "POST", "/api/v1/admin/default-sms", map[string]any{"phone_number": "13900139000", "content": "欢迎"})
	b.SubmitBody(map[string]any{"phone_number": apptest.Phone, "content": "first", "dedup_key": "k"})
	data := apptest.Decode[api.SentBatch](t, b.Expect(200, "", "POST", apptest.BatchPath, map[string]any{"messages": []any{
		map[string]any{"phone_number": apptest.Phone, "content": "一"},
		map[string]any{"phone_number": "12345678901", "content": "x"},
		map[string]any{"content": "x"},
		map[string]any{"phone_number": apptest.Phone, "content": strings.Repeat("x", 201)},
		map[string]any{"phone_number": apptest.Phone, "content": "x", "colour": "red"},
		map[string]any{"phone_number": apptest.Phone, "content": "code=42", "use_template": true},
		map[string]any{"phone_number": apptest.Phone, "content": "name=42", "use_template": true},
		map[string]any{"phone_number": "13900139000"},
		map[string]any{"phone_number": "13900139000"},
		map[string]any{"phone_number": apptest.Phone, "content": "again", "dedup_key": "k"},
		map[string]any{"phone_number": apptest.Phone, "content": "new", "dedup_key": "k2"},
		map[string]any{"phone_number": apptest.Phone, "content": "new again", "dedup_key": "k2"},
		map[string]any{"phone_number": apptest.Phone, "content": " "},
	}}))
	want := []string{
		"200", "422 phone_number", "422 phone_number", "422 content", "422 colour", "200", "422 content", "200",
		"409 default_content.already_sent", "200", "200", "200", "422 content",
	}
	if got := itemOutcomes(data.Items); !slices.Equal(got, want) || data.Accepted != 6 || data.Refused != 7 {
		t.Fatalf("got  %q\nwant %q\n%d accepted, %d refused", got, want, data.Accepted, data.Refused)
	}
	for i, text := range map[int]string{0: "一", 5: "您的验证码是42", 7: "欢迎", 9: "first", 10: "new", 11: "new"} {
		item := data.Items[i]
		if *item.FinalContent != text || (item.Deduplicated != nil) != (i == 9 || i == 11) {
			t.Errorf("item %d: %q, deduplicated %v", i, *item.FinalContent, item.Deduplicated)
		}
		if got := b.Task(*item.TaskID); got.Content != text {
			t.Errorf("task of item %d: %+v", i, got)
		}
	}
	if *data.Items[10].TaskID != *data.Items[11].TaskID {
		t.Error("one dedup key in a batch made two tasks")
	}
	if n := b.Count("SELECT count(*) FROM tasks"); n != 5 {
		t.Errorf("%d tasks, want 5", n)
	}
	// Every message has a log row with its body as it was sent.
	if n := b.Count("SELECT count(*) FROM receive_logs WHERE status_code = 200 AND task_id IS NOT NULL"); n != 7 {
		t.Errorf("%d log rows of accepted messages, want 7", n)
	}
	if n := b.Count("SELECT count(*) FROM receive_logs WHERE status_code IN (409, 422) AND task_id IS NULL AND request_data ? 'content' OR request_data = '{\"phone_number\": \"13900139000\"}' AND status_code = 409"); n != 7 {
		t.Errorf("%d log rows of refused messages, want 7", n)
	}
}

// A caller that got no answer sends its batch again. One transaction stores the log rows of all repeats, not one transaction each.
func TestARepeatedBatchIsLoggedInOneTransaction(t *testing.T) {
	b := apptest.New(t)
	messages := make([]any, 100)
	for i := range messages {
		messages[i] = map[string]any{"phone_number": apptest.Phone, "content": "x", "dedup_key": fmt.Sprint("k", i)}
	}
	first := apptest.Decode[api.SentBatch](t, b.Expect(200, "", "POST", apptest.BatchPath, map[string]any{"messages": messages}))
	again := apptest.Decode[api.SentBatch](t, b.Expect(200, "", "POST", apptest.BatchPath, map[string]any{"messages": messages}))
	for i := range messages {
		if item := again.Items[i]; *item.TaskID != *first.Items[i].TaskID || item.Deduplicated == nil {
			t.Fatalf("item %d is %+v", i, item)
		}
	}
	const repeats = "FROM fruitless_submissions WHERE response_data #> '{data,deduplicated}' = 'true'"
	if rows, transactions := b.Count("SELECT count(*) "+repeats), b.Count("SELECT count(DISTINCT xmin::text) "+repeats); rows != 100 || transactions != 1 {
		t.Errorf("%d log rows in %d transactions", rows, transactions)
	}
}

func TestABatchOfTheWrongShapeIsRefusedAsAWhole(t *testing.T) {
	b := apptest.New(t)
	refused := func(status int) int {
		return b.Count("SELECT count(*) FROM receive_logs WHERE task_id IS NULL AND status_code = $1 AND (response_data->>'code')::int = $1", status)
	}
	many := make([]any, 1001)
	for i := range many {
		many[i] = map[string]any{"phone_number": apptest.Phone, "content": "x"}
	}
	for fields, body := range map[string]any{
		"messages":             map[string]any{"messages": []any{}},
		"messages ":            map[string]any{},
		"messages  ":           map[string]any{"messages": many},
		"messages   ":          `{"messages":{"0":{"phone_number":"13800138000","content":"x"}}}`,
		"messages.0.content ":  "{\"messages\":[{\"phone_number\":\"13800138000\",\"content\":\"\xff\"}]}",
		"messages.0.content  ": `{"messages":[{"phone_number":"13800138000","content":"x","content":"y"}]}`,
		"colour":               map[string]any{"messages": many[:1], "colour": 1},
	} {
		a := b.Call("POST", apptest.BatchPath, body)
		if a.Status != 422 || a.Fields() != strings.TrimSpace(fields) {
			t.Errorf("%s: %d %q", fields, a.Status, a.Fields())
		}
	}
	if n := b.Count("SELECT count(*) FROM tasks"); n != 0 {
		t.Errorf("%d tasks were made", n)
	}
	if n := refused(422); n != 7 {
		t.Errorf("%d log rows of 7 refused batches", n)
	}
	big := `{"messages":[{"phone_number":"13800138000","content":"` + strings.Repeat("x", 8<<20) + `"}]}`
	b.Expect(413, "request.too_large", "POST", apptest.BatchPath, big)
	b.Expect(400, "request.malformed", "POST", apptest.BatchPath, `{"messages":`)
	b.Expect(422, "request.invalid", "POST", apptest.BatchPath, `{"messages":[]}`, apptest.KeyHeader, "key")
	b.Expect(401, "auth.required", "POST", apptest.BatchPath, `{"messages":[]}`, "Authorization", "")
	if n, m, o, all := refused(413), refused(400), refused(422), b.Count("SELECT count(*) FROM receive_logs"); n != 1 || m != 1 || o != 8 || all != 10 {
		t.Errorf("%d log rows with 413, %d with 400, %d with 422, %d in all", n, m, o, all)
	}
	b.Expect(200, "", "POST", apptest.BatchPath, `{"messages":[{"phone_number":"13800138000","content":"`+strings.Repeat("x", 2<<20)+`"}]}`)
}

func TestAThousandMessagesUnderOneKeyAreStoredOnce(t *testing.T) {
	b := apptest.New(t)
	messages := make([]any, 1000)
	for i := range messages {
		messages[i] = map[string]any{"phone_number": apptest.Phone, "content": fmt.Sprint("message ", i)}
	}
	messages[7] = map[string]any{"phone_number": "12345678901", "content": "x"}
	body := map[string]any{"messages": messages}
	answers := make([]apptest.Answer, 3)
	apptest.Together(len(answers), func(i int) { answers[i] = b.Call("POST", apptest.BatchPath, body, "Idempotency-Key", "batch-1") })
	again := b.Expect(200, "", "POST", apptest.BatchPath, body, "Idempotency-Key", "batch-1")
	for _, a := range answers {
		if a.Status != 409 && a.Raw != again.Raw {
			t.Errorf("%d: %.200s", a.Status, a.Raw)
		}
	}
	if data := apptest.Decode[api.SentBatch](t, again); data.Accepted != 999 || data.Refused != 1 || data.Items[7].Code != 422 {
		t.Errorf("%d accepted, %d refused", data.Accepted, data.Refused)
	}
	if n := b.Count("SELECT count(*) FROM tasks"); n != 999 {
		t.Errorf("%d tasks", n)
	}
	// The tasks are claimed in the order in which they were sent.
	ids := []string{}
	for _, item := range apptest.Decode[api.SentBatch](t, again).Items {
		if item.TaskID != nil {
			ids = append(ids, *item.TaskID)
		}
	}
	got := apptest.Decode[[]api.ClaimedTask](t, b.Expect(200, "", "POST", "/api/v1/sms/tasks/claim", `{"app_id":"app","limit":1000}`))
	claimed := []string{}
	for _, c := range got {
		claimed = append(claimed, c.TaskID)
	}
	if !slices.Equal(claimed, ids) {
		t.Errorf("%d claimed, in another order than sent", len(claimed))
	}
	b.Expect(422, "request.invalid", "POST", "/api/v1/sms/tasks/claim", `{"app_id":"app","limit":1001}`)
}

// A row that the database refuses fails alone: in a batch, in a batch of one transaction, and among concurrent single messages.
func TestARowThatTheDatabaseRefusesFailsAlone(t *testing.T) {
	b := apptest.New(t)
	b.Exec("ALTER TABLE messages ADD CONSTRAINT cursed CHECK (content NOT LIKE 'cursed%')")
	messages := make([]any, 100)
	for i := range messages {
		text := "good"
		if i%10 == 3 {
			text = "cursed"
		}
		messages[i] = map[string]any{"phone_number": apptest.Phone, "content": text}
	}
	for _, headers := range [][]string{nil, {"Idempotency-Key", "k"}} {
		data := apptest.Decode[api.SentBatch](t, b.Expect(200, "", "POST", apptest.BatchPath, map[string]any{"messages": messages}, headers...))
		for i, item := range data.Items {
			want := 200
			if i%10 == 3 {
				want = 500
			}
			if item.Code != want {
				t.Errorf("item %d: %d", i, item.Code)
			}
		}
	}
	statuses := make([]int, 60)
	apptest.Together(len(statuses), func(i int) {
		text := "good"
		if i%10 == 3 {
			text = "cursed"
		}
		statuses[i] = b.Call("POST", "/api/v1/sms/send", map[string]any{"phone_number": apptest.Phone, "content": text}).Status
	})
	for i, status := range statuses {
		if (status == 200) != (i%10 != 3) {
			t.Errorf("concurrent message %d: status %d", i, status)
		}
	}
	if n := b.Count("SELECT count(*) FROM tasks"); n != 90+90+54 {
		t.Errorf("%d tasks", n)
	}
}

func TestABatchOfReportsHasAnOutcomeForEach(t *testing.T) {
	b := apptest.New(t)
	var ids []string
	for range 6 {
		ids = append(ids, b.Submit("x"))
	}
	leases := b.Claim("app", 5)
	data := apptest.Decode[api.ReportedBatch](t, b.Expect(200, "", "POST", "/api/v1/sms/report-batch", map[string]any{"reports": []any{
		apptest.ReportBody(ids[0], "app", 2, apptest.Report{"lease_id": leases[0].LeaseID}),
		apptest.ReportBody(ids[1], "app", 3, apptest.Report{"should_retry": true}),
		apptest.ReportBody(ids[1], "app", 3, apptest.Report{"should_retry": true}), // a repeat
		apptest.ReportBody(ids[2], "app", 3, nil),
		apptest.ReportBody(ids[2], "app", 2, nil),
		apptest.ReportBody(ids[3], "other", 2, nil),
		apptest.ReportBody("nothing", "app", 2, nil),
		apptest.ReportBody(ids[4], "app", 7, nil),
		apptest.Report{"app_id": "app", "status": 2},
		apptest.ReportBody(ids[5], "app", 2, nil), // PENDING
	}}))
	var got []string
	for _, item := range data.Items {
		line := outcome(item.Code, item.Error)
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

// claimWaiting claims one task as app and waits for it up to ten seconds. It returns the ids of the claimed tasks and the time taken.
func claimWaiting(b *apptest.Bundle, app string) (ids []string, took time.Duration) {
	b.T.Helper()
	began := time.Now()
	a := b.Expect(200, "", "POST", "/api/v1/sms/tasks/claim", map[string]any{"app_id": app, "limit": 1, "wait": 10})
	for _, c := range apptest.Decode[[]api.ClaimedTask](b.T, a) {
		ids = append(ids, c.TaskID)
	}
	return ids, time.Since(began)
}

func TestAClaimWaitsForWork(t *testing.T) {
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

// Of many waiting senders, each new task wakes one at once, whichever way it was submitted.
func TestNoWakeUpIsLost(t *testing.T) {
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

// A retry that comes due and a task stored by another server reach a waiting sender, although nothing on this server announces them.
func TestAWaitingSenderFindsRetriesAndTasksOfOtherServers(t *testing.T) {
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

func TestASenderThatDisconnectsClaimsNothing(t *testing.T) {
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

func TestAServerThatStopsAnswersWaitingClaims(t *testing.T) {
	b := apptest.New(t)
	answered := make(chan apptest.Answer)
	go func() { answered <- b.Call("GET", "/api/v1/sms/tasks/pending?app_id=a&wait=30", nil) }()
	apptest.Eventually(t, "the claim waits", func() bool { return b.App.Queue.Waiting() > 0 })
	b.App.Queue.StopWaiting()
	if a := <-answered; a.Status != http.StatusOK || !strings.Contains(a.Raw, `"data":[]`) {
		t.Errorf("got %s", a.Raw)
	}
}

// PostgreSQL ends one of two transactions that deadlock. The server tries its messages again, because nothing is wrong with them.
func TestADeadlockFailsNoMessage(t *testing.T) {
	b := apptest.New(t)
	tenant := b.AddCompany("tenant", 1)
	b.Exec("UPDATE users SET top_priority = 0")
	message := func(priority int) map[string]any {
		return map[string]any{"phone_number": apptest.Phone, "content": "x", "priority": priority}
	}
	both := map[string]any{"messages": []map[string]any{message(5), message(1)}}
	b.Expect(200, "", "POST", "/api/v1/sms/send-batch", both, tenant...) // now both ranks exist
	ranks := apptest.Scan[[]int16](b, "SELECT array_agg(priority ORDER BY priority) FROM fair_ranks")
	if len(ranks) != 2 {
		t.Fatalf("%d ranks", len(ranks))
	}
	rank := func(priority int16) string {
		return fmt.Sprint("UPDATE fair_ranks SET start = start WHERE priority = ", priority)
	}
	b.Deadlock(rank(ranks[1]), rank(ranks[0]), func() (wrong string) {
		a := b.Call("POST", "/api/v1/sms/send-batch", both, tenant...)
		if a.Status != 200 {
			return a.Raw
		}
		for _, item := range apptest.Decode[api.SentBatch](t, a).Items {
			if item.TaskID == nil {
				wrong += fmt.Sprintln(item.Code, *item.Message)
			}
		}
		return wrong
	})
}

func TestADeadlockFailsNoReport(t *testing.T) {
	b := apptest.New(t)
	b.Submit("x")
	b.Submit("x")
	tasks := b.Claim("app", 2)
	slices.SortFunc(tasks, func(a, b api.ClaimedTask) int { return strings.Compare(a.TaskID, b.TaskID) })
	var reports []map[string]any
	for _, task := range tasks {
		reports = append(reports, map[string]any{"task_id": task.TaskID, "app_id": "app", "lease_id": task.LeaseID, "status": 2})
	}
	touch := func(task api.ClaimedTask) string {
		return fmt.Sprintf("UPDATE queue SET troubles = troubles WHERE task_id = '%s'", task.TaskID)
	}
	b.Deadlock(touch(tasks[1]), touch(tasks[0]), func() (wrong string) {
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
	})
}
