package submit_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
)

func TestSubmitBatchReturnsOneOutcomePerMessage(t *testing.T) {
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
	if got := apptest.Outcomes(data.Items); !slices.Equal(got, want) || data.Accepted != 6 || data.Refused != 7 {
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
	// Every message has a log row with its original body.
	if n := b.Count("SELECT count(*) FROM receive_logs WHERE status_code = 200 AND task_id IS NOT NULL"); n != 7 {
		t.Errorf("%d log rows of accepted messages, want 7", n)
	}
	if n := b.Count("SELECT count(*) FROM receive_logs WHERE status_code IN (409, 422) AND task_id IS NULL AND request_data ? 'content' OR request_data = '{\"phone_number\": \"13900139000\"}' AND status_code = 409"); n != 7 {
		t.Errorf("%d log rows of refused messages, want 7", n)
	}
}

// A caller that received no answer sends its batch again. One transaction stores the log rows of all repeats. A transaction for each repeat would be too
// slow.
func TestRepeatedBatchIsLoggedInOneTransaction(t *testing.T) {
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

// A NUL in JSON, and half of an emoji that a phone has cut, are errors of one message.
func TestATextThatCannotBeStoredRefusesOnlyItsMessage(t *testing.T) {
	b := apptest.New(t)
	data := apptest.Decode[api.SentBatch](t, b.Expect(200, "", "POST", apptest.BatchPath, `{"messages":[{"phone_number":"13800138000","content":"a"},
		{"phone_number":"13800138000","content":"a\u0000"}, {"phone_number":"13800138000","content":"\ud83d"},{"phone_number":"13800138000","content":"b","priority":5.0},
		{"phone_number":"13800138000","content":"c","colour\u0000":1},{"phone_number":"13800138000","content":"\ud83d\ude00"},{"phone_number":"13800138000","content":"d","priority":1e999}]}`))
	want := []string{"200", "422 content", "422 content", "200", "422 colour", "200", "422 priority"}
	if got := apptest.Outcomes(data.Items); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if n := b.Count("SELECT count(*) FROM fruitless_submissions WHERE status_code = 422 AND phone_number = '13800138000'"); n != 4 {
		t.Errorf("%d log rows of refused messages, want 4", n)
	}
	b.AddSender(map[string]any{"sender_no": "app"})
	id := b.Claim("app", 1)[0].TaskID
	reported := apptest.Decode[api.ReportedBatch](t, b.Expect(200, "", "POST", "/api/v1/sms/report-batch", fmt.Sprintf(
		`{"reports":[{"task_id":%[1]q,"app_id":"app","status":3,"error_message":"\u0000"},{"task_id":%[1]q,"app_id":"app","status":2}]}`, id)))
	if wrong := reported.Items[0]; wrong.Code != 422 || wrong.TaskID == nil || *wrong.TaskID != id || reported.Items[1].Code != 200 {
		t.Errorf("%+v", reported.Items)
	}
}

func TestAValueOfTheWrongTypeRefusesOnlyItsMessage(t *testing.T) {
	b := apptest.New(t)
	data := apptest.Decode[api.SentBatch](t, b.Expect(200, "", "POST", apptest.BatchPath,
		`{"messages":[{"phone_number":"13800138000","content":"一"},{"phone_number":13,"content":7},7,null,[]]}`))
	want := []string{"200", "422 content phone_number", "422 messages.2", "422 messages.3", "422 messages.4"}
	if got := apptest.Outcomes(data.Items); !slices.Equal(got, want) || data.Accepted != 1 || data.Refused != 4 {
		t.Errorf("got  %q\nwant %q\n%d accepted, %d refused", got, want, data.Accepted, data.Refused)
	}
}

func TestMalformedBatchIsRefusedAsAWhole(t *testing.T) {
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
		"colour ":              `{"colour":"\u0000","messages":[{"phone_number":"13800138000","content":"x\u0000"}]}`,
	} {
		a := b.Call("POST", apptest.BatchPath, body)
		if a.Status != 422 || a.Fields() != strings.TrimSpace(fields) {
			t.Errorf("%s: %d %q", fields, a.Status, a.Fields())
		}
	}
	if n := b.Count("SELECT count(*) FROM tasks"); n != 0 {
		t.Errorf("%d tasks were made", n)
	}
	if n := refused(422); n != 8 {
		t.Errorf("%d log rows of 7 refused batches", n)
	}
	big := `{"messages":[{"phone_number":"13800138000","content":"` + strings.Repeat("x", 8<<20) + `"}]}`
	b.Expect(413, "request.too_large", "POST", apptest.BatchPath, big)
	b.Expect(400, "request.malformed", "POST", apptest.BatchPath, `{"messages":`)
	b.Expect(422, "request.invalid", "POST", apptest.BatchPath, `{"messages":[]}`, apptest.KeyHeader, "key")
	b.Expect(401, "auth.required", "POST", apptest.BatchPath, `{"messages":[]}`, "Authorization", "")
	if n, m, o, all := refused(413), refused(400), refused(422), b.Count("SELECT count(*) FROM receive_logs"); n != 1 || m != 1 || o != 9 || all != 11 {
		t.Errorf("%d log rows with 413, %d with 400, %d with 422, %d in all", n, m, o, all)
	}
	b.Expect(200, "", "POST", apptest.BatchPath, `{"messages":[{"phone_number":"13800138000","content":"`+strings.Repeat("x", 2<<20)+`"}]}`)
}

func TestBatchWithAnIdempotencyKeyIsStoredOnce(t *testing.T) {
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
	// The tasks are claimed in the order of their submission.
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

// If the database rejects one row, only this row fails. The test covers a batch, a batch in one transaction, and concurrent single messages.
func TestRowRejectedByTheDatabaseFailsOnlyItsMessage(t *testing.T) {
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

// If two transactions deadlock, PostgreSQL cancels one of them. The server stores the messages of the canceled transaction again, because the messages are
// valid.
func TestMessagesAreStoredAfterADeadlock(t *testing.T) {
	b := apptest.New(t)
	tenant := b.AddCompany("tenant", 1)
	b.Exec("UPDATE users SET top_priority = 0")
	message := func(priority int) map[string]any {
		return map[string]any{"phone_number": apptest.Phone, "content": "x", "priority": priority}
	}
	both := map[string]any{"messages": []map[string]any{message(5), message(1)}}
	b.Expect(200, "", "POST", "/api/v1/sms/send-batch", both, tenant...) // now the ranks of both companies exist
	ranks := apptest.Scan[[]int16](b, "SELECT array_agg(priority ORDER BY priority) FROM fair_ranks")
	if len(ranks) != 2 {
		t.Fatalf("%d ranks", len(ranks))
	}
	rank := func(priority int16) string {
		return fmt.Sprint("UPDATE fair_ranks SET start = start WHERE priority = ", priority)
	}
	send := func() (wrong string) {
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
	}
	b.Deadlock(func() (string, string, func() string) { return rank(ranks[1]), rank(ranks[0]), send })
}
