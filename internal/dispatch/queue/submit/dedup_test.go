package submit_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/dispatch/segment"
	"lksms/internal/testkit/apptest"
)

func TestSubmissionsWithOneDedupKeyCreateOneTask(t *testing.T) {
	b := apptest.New(t)
	body := map[string]any{"phone_number": apptest.Phone, "content": "x", "dedup_key": "order-1"}
	first := b.SubmitBody(body)
	b.Claim("app", 1)
	b.Report(first.TaskID, "app", 2, nil)
	again := b.SubmitBody(map[string]any{"phone_number": "13900139000", "content": "y", "dedup_key": "order-1"})
	if again.TaskID != first.TaskID || again.Status != api.TaskSuccess || again.FinalContent != "x" ||
		again.Deduplicated == nil || !*again.Deduplicated || first.Deduplicated != nil {
		t.Errorf("first %+v, again %+v", first, again)
	}
	if other := b.SubmitBody(map[string]any{"phone_number": apptest.Phone, "content": "x", "dedup_key": "order-2"}); other.TaskID == first.TaskID {
		t.Error("another dedup key gave the same task")
	}
	if n := b.Count("SELECT count(*) FROM receive_logs WHERE task_id = $1 AND status_code = 200", first.TaskID); n != 2 {
		t.Errorf("%d log rows of two submissions", n)
	}
	if got := b.Events(first.TaskID); got != "received claimed reported repeated" {
		t.Errorf("timeline: %s", got)
	}
}

// A user who guesses the dedup key of a colleague can neither read nor replace the message of the colleague.
func TestDedupKeyBelongsToItsSubmitter(t *testing.T) {
	b := apptest.New(t)
	one := b.AddCompany("acme", 1)
	two := b.AddUser("colleague", "submit", map[string]any{"company_no": "acme"})
	const theirs = "13900139000"
	send := func(path string, body any, headers []string, more ...string) api.Submitted {
		t.Helper()
		return apptest.Decode[api.Submitted](t, b.Expect(200, "", "POST", path, body, slices.Concat(headers, more)...))
	}
	secret := map[string]any{"phone_number": theirs, "content": "the code is 1234", "dedup_key": "order-1"}
	first := send("/api/v1/sms/send", secret, one)
	guess := map[string]any{"phone_number": apptest.Phone, "content": "mine", "dedup_key": "order-1"}
	dry := send("/api/v1/sms/send?dry_run=true", guess, two)
	if *dry.Verdict == api.WouldRepeat || dry.FinalContent != "mine" || *dry.Recipient != "+86"+apptest.Phone {
		t.Errorf("a colleague would get %+v", dry)
	}
	// A refused submission remains refused if another user has already used the same dedup key.
	b.Expect(422, "request.invalid", "POST", "/api/v1/sms/send", map[string]any{"phone_number": apptest.Phone, "dedup_key": "order-1"}, two...)
	items := apptest.Decode[api.SentBatch](t, b.Expect(200, "", "POST", "/api/v1/sms/send-batch", map[string]any{"messages": []any{
		map[string]any{"phone_number": apptest.Phone, "dedup_key": "order-1"}, guess, guess,
	}}, two...)).Items
	if items[0].Code != 422 || items[1].Deduplicated != nil || *items[1].FinalContent != "mine" || *items[1].TaskID == first.TaskID {
		t.Errorf("a colleague's batch: %+v", items)
	}
	if *items[2].TaskID != *items[1].TaskID || items[2].Deduplicated == nil {
		t.Errorf("a repeat within the batch: %+v", items[2])
	}
	for who, c := range map[string]struct {
		headers  []string
		body     map[string]any
		id, text string
	}{
		"its submitter": {one, secret, first.TaskID, "the code is 1234"},
		"the colleague": {two, guess, *items[1].TaskID, "mine"},
	} {
		for _, more := range [][]string{nil, {apptest.KeyHeader, "i"}} {
			if again := send("/api/v1/sms/send", c.body, c.headers, more...); again.TaskID != c.id || again.FinalContent != c.text || again.Deduplicated == nil {
				t.Errorf("%s again, %v: %+v", who, more, again)
			}
		}
		if dry := send("/api/v1/sms/send?dry_run=true", c.body, c.headers); *dry.Verdict != api.WouldRepeat || dry.FinalContent != c.text {
			t.Errorf("%s would get %+v", who, dry)
		}
	}
	if got := b.Events(first.TaskID); got != "received repeated repeated" {
		t.Errorf("the first one's timeline: %s", got)
	}
}

func TestConcurrentUsersWithOneDedupKeyCreateOneTaskEach(t *testing.T) {
	b := apptest.New(t)
	users := make([][]string, 4)
	for i := range users {
		users[i] = b.AddUser(fmt.Sprint("user", i), "submit", nil)
	}
	// The tasks are scheduled, so the submissions wait for each other only because of the dedup key.
	body := map[string]any{"phone_number": apptest.Phone, "content": "x", "dedup_key": "k", "expect_send_time": time.Now().Add(time.Hour)}
	ids := make([]string, 40)
	apptest.Together(len(ids), func(i int) {
		made := b.Call("POST", "/api/v1/sms/send", body, users[i%len(users)]...)
		if made.Status != 200 {
			t.Errorf("got %s", made.Raw)
			return
		}
		ids[i] = apptest.Decode[api.Submitted](t, made).TaskID
	})
	for i, id := range ids {
		if id != ids[i%len(users)] {
			t.Errorf("call %d of user %d got task %s, an earlier call %s", i, i%len(users), id, ids[i%len(users)])
		}
	}
	if n := b.Count("SELECT count(*) FROM tasks"); n != len(users) {
		t.Errorf("%d tasks for %d users", n, len(users))
	}
}

// The order is also correct for a batch in one transaction, whose log rows all have the same time.
func TestTimelineShowsTheFirstSubmissionBeforeItsRepeats(t *testing.T) {
	b := apptest.New(t)
	message := map[string]any{"phone_number": apptest.Phone, "content": "x", "dedup_key": "k"}
	for i, headers := range [][]string{{apptest.KeyHeader, "one"}, {apptest.KeyHeader, "two"}, nil} {
		batch := apptest.Decode[api.SentBatch](t, b.Expect(200, "", "POST", "/api/v1/sms/send-batch", map[string]any{"messages": []any{message, message}}, headers...))
		want := "received repeated" + strings.Repeat(" repeated repeated", i)
		if got := b.Events(*batch.Items[0].TaskID); got != want {
			t.Errorf("after %d batches: %s, want %s", i+1, got, want)
		}
	}
}

// The first message of a batch with a dedup key creates the task. The first message also creates the task if a later message is stored earlier, or if the
// batch is one transaction.
func TestFirstMessageWithADedupKeyInABatchCreatesTheTask(t *testing.T) {
	for name, headers := range map[string][]string{"apart": nil, "in one transaction": {apptest.KeyHeader, "one"}} {
		t.Run(name, func(t *testing.T) {
			b := apptest.New(t)
			for _, number := range []string{"13800138001", "13800138002", "13800138003"} {
				b.Expect(200, "", "POST", "/api/v1/admin/default-sms", map[string]any{"phone_number": number, "content": "默认" + number[10:]})
			}
			b.SubmitBody(map[string]any{"phone_number": apptest.Phone, "content": "before", "dedup_key": "before"})
			items := apptest.Decode[api.SentBatch](t, b.Expect(200, "", "POST", "/api/v1/sms/send-batch", map[string]any{"messages": []any{
				map[string]any{"phone_number": "13800138001", "content": "x", "dedup_key": "k"},
				map[string]any{"phone_number": "13800138001", "content": "a=1", "use_template": true, "dedup_key": "k"}, // no active template exists
				map[string]any{"phone_number": "13800138001", "dedup_key": "k"},
				map[string]any{"phone_number": "13800138001", "content": "a=1", "use_template": true, "dedup_key": "l"},
				map[string]any{"phone_number": "13800138001", "content": "y", "dedup_key": "l"},
				map[string]any{"phone_number": "13800138002"},
				map[string]any{"phone_number": "13800138002"}, // its default content was sent
				map[string]any{"phone_number": "13800138002", "dedup_key": "before"},
				map[string]any{"phone_number": "13800138003", "dedup_key": "m"},
				map[string]any{"phone_number": "13800138003", "content": "z", "dedup_key": "m"},
				map[string]any{"phone_number": "13800138004", "dedup_key": "n"},      // the phone number has no default content
				map[string]any{"phone_number": "10000000000", "dedup_key": "before"}, // the phone number is invalid
			}}, headers...)).Items
			for i, want := range []string{"x", "x", "x", "409", "y", "默认2", "409", "before", "默认3", "默认3", "422", "before"} {
				switch item := items[i]; {
				case item.Code != 200:
					if fmt.Sprint(item.Code) != want {
						t.Errorf("item %d: %d %s, want %s", i, item.Code, *item.Message, want)
					}
				case *item.FinalContent != want || (item.Deduplicated != nil) != slices.Contains([]int{1, 2, 7, 9, 11}, i):
					t.Errorf("item %d: %+v, want %s", i, item, want)
				}
			}
			if got := apptest.Scan[string](b, "SELECT string_agg(content, ' ' ORDER BY id) FROM default_contents WHERE is_sent"); got != "默认2 默认3" {
				t.Errorf("consumed: %s", got)
			}
			if n := b.Count("SELECT count(*) FROM tasks"); n != 5 {
				t.Errorf("%d tasks", n)
			}
		})
	}
}

// A blocked message of a batch does not have the dedup key, so a later message of the batch gets it. The blocked message is no repeat of that message.
func TestABlockedMessageOfABatchLeavesItsDedupKeyToALaterMessage(t *testing.T) {
	for name, headers := range map[string][]string{"apart": nil, "in one transaction": {apptest.KeyHeader, "one"}} {
		t.Run(name, func(t *testing.T) {
			b := apptest.New(t)
			b.Expect(200, "", "POST", "/api/v1/blocks", map[string]any{"phone_number": "13800138001", "scope": "all"})
			b.Expect(200, "", "POST", "/api/v1/admin/default-sms", map[string]any{"phone_number": "13800138003", "content": "默认"})
			items := apptest.Decode[api.SentBatch](t, b.Expect(200, "", "POST", "/api/v1/sms/send-batch", map[string]any{"messages": []any{
				map[string]any{"phone_number": "13800138001", "content": "a", "dedup_key": "k"},
				map[string]any{"phone_number": "13800138002", "content": "b", "dedup_key": "k"},
				map[string]any{"phone_number": "13800138001", "content": "c", "dedup_key": "k"},
				map[string]any{"phone_number": "13800138001", "content": "d", "dedup_key": "l"},
				map[string]any{"phone_number": "13800138003", "dedup_key": "l"},
			}}, headers...)).Items
			if got, want := apptest.Outcomes(items), []string{"409 phone_number", "200", "200", "409 phone_number", "200"}; !slices.Equal(got, want) {
				t.Fatalf("%q, want %q", got, want)
			}
			for i, isRepeat := range map[int]bool{1: false, 2: true, 4: false} {
				if (items[i].Deduplicated != nil) != isRepeat {
					t.Errorf("item %d: %+v", i, items[i])
				}
			}
		})
	}
}

// A batch in one transaction locks the ranks of its company last, because other submissions of the company wait for this lock until the transaction ends.
func TestBatchInOneTransactionLocksRanksLast(t *testing.T) {
	b := apptest.New(t)
	numbers := []string{"13800138001", "13800138002"}
	for _, number := range numbers {
		b.Expect(200, "", "POST", "/api/v1/admin/default-sms", map[string]any{"phone_number": number, "content": "x"})
	}
	b.SubmitBody(map[string]any{"phone_number": apptest.Phone, "content": "x"})
	other, err := b.DB.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Rollback(t.Context())
	if _, err := other.Exec(t.Context(), "SELECT FROM default_contents WHERE phone_number = $1 FOR UPDATE", numbers[1]); err != nil {
		t.Fatal(err)
	}
	done := make(chan apptest.Answer, 1)
	go func() {
		done <- b.Call("POST", "/api/v1/sms/send-batch", map[string]any{"messages": []any{
			map[string]any{"phone_number": numbers[0], "dedup_key": "k"},
			map[string]any{"phone_number": apptest.Phone, "content": "y"},
			map[string]any{"phone_number": numbers[1]},
		}}, apptest.KeyHeader, "one")
	}()
	apptest.Eventually(t, "the batch waits", func() bool { return b.Count("SELECT count(*) FROM pg_locks WHERE NOT granted") > 0 })
	if _, err := other.Exec(t.Context(), "SELECT FROM fair_ranks FOR UPDATE NOWAIT"); err != nil {
		t.Error(err)
	}
	if err := other.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if sent := apptest.Decode[api.SentBatch](t, <-done); sent.Accepted != 3 {
		t.Errorf("%+v", sent)
	}
}

// Two concurrent batches use the same dedup key. The second batch finds the key used when it stores its message, and restores the default content that it
// consumed.
func TestDefaultContentIsRestoredIfTheDedupKeyIsUsedMeanwhile(t *testing.T) {
	b := apptest.New(t)
	numbers := []string{"13800138001", "13800138002"}
	for _, number := range numbers {
		b.Expect(200, "", "POST", "/api/v1/admin/default-sms", map[string]any{"phone_number": number, "content": "x"})
	}
	other, err := b.DB.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Rollback(t.Context())
	if _, err := other.Exec(t.Context(), "SELECT FROM default_contents WHERE phone_number = $1 FOR UPDATE", numbers[1]); err != nil {
		t.Fatal(err)
	}
	done := make(chan apptest.Answer, 1)
	go func() {
		done <- b.Call("POST", "/api/v1/sms/send-batch", map[string]any{"messages": []any{
			map[string]any{"phone_number": numbers[0], "dedup_key": "k"},
			map[string]any{"phone_number": numbers[1]},
		}}, apptest.KeyHeader, "one")
	}()
	apptest.Eventually(t, "the batch waits", func() bool { return b.Count("SELECT count(*) FROM pg_locks WHERE NOT granted") > 0 })
	first := b.SubmitBody(map[string]any{"phone_number": apptest.Phone, "content": "first", "dedup_key": "k"})
	if err := other.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	sent := apptest.Decode[api.SentBatch](t, <-done)
	if item := sent.Items[0]; item.TaskID == nil || *item.TaskID != first.TaskID || item.Deduplicated == nil {
		t.Errorf("%+v", item)
	}
	if got := apptest.Scan[string](b, "SELECT string_agg(phone_number, ' ' ORDER BY id) FROM default_contents WHERE is_sent"); got != numbers[1] {
		t.Errorf("consumed: %s", got)
	}
}

// The directory changes after a message was prepared, and the message is refused when it is stored. Its default content is not consumed.
func TestDefaultContentIsRestoredIfItsMessageIsRefused(t *testing.T) {
	b := apptest.New(t)
	numbers := []string{"13800138001", "13800138002"}
	for _, number := range numbers {
		b.Expect(200, "", "POST", "/api/v1/admin/default-sms", map[string]any{"phone_number": number, "content": "x"})
	}
	other, err := b.DB.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Rollback(t.Context())
	if _, err := other.Exec(t.Context(), "SELECT FROM default_contents WHERE phone_number = $1 FOR UPDATE", numbers[1]); err != nil {
		t.Fatal(err)
	}
	done := make(chan apptest.Answer, 1)
	go func() {
		done <- b.Call("POST", "/api/v1/sms/send-batch", map[string]any{"messages": []any{
			map[string]any{"phone_number": numbers[0], "dedup_key": "k"},
			map[string]any{"phone_number": numbers[1]},
			map[string]any{"phone_number": apptest.Phone, "content": "y", "sign": "公司"},
		}}, apptest.KeyHeader, "one")
	}()
	apptest.Eventually(t, "the batch waits", func() bool { return b.Count("SELECT count(*) FROM pg_locks WHERE NOT granted") > 0 })
	b.Expect(200, "", "PATCH", "/api/v1/admin/channels/sms", map[string]any{"signature_required": true})
	if err := other.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	sent := apptest.Decode[api.SentBatch](t, <-done)
	if codes := [3]int{sent.Items[0].Code, sent.Items[1].Code, sent.Items[2].Code}; codes != [3]int{422, 422, 200} {
		t.Errorf("%v", codes)
	}
	if n := b.Count("SELECT count(*) FROM default_contents WHERE is_sent"); n != 0 {
		t.Errorf("%d default contents are consumed", n)
	}
}

// Every response and every log row contains the text that will be sent. Without a signature, this text is the content (S0.1).
func TestFinalContentContainsTheSignatureOfTheRequest(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "app", "sign": "平台"}) // a claim adds the sender's own signature if the task has no signature
	for want, sign := range map[string]any{"【公司】您好": "公司", "您好": nil} {
		body := map[string]any{"phone_number": apptest.Phone, "content": "您好", "sign": sign, "dedup_key": fmt.Sprint("key of ", want)}
		got := map[string]string{}
		got["dry run"] = apptest.Decode[api.Submitted](t, b.Expect(200, "", "POST", "/api/v1/sms/send?dry_run=true", body)).FinalContent
		first := b.SubmitBody(body)
		got["send"] = first.FinalContent
		got["repeated"] = b.SubmitBody(body).FinalContent
		got["repeated dry run"] = apptest.Decode[api.Submitted](t, b.Expect(200, "", "POST", "/api/v1/sms/send?dry_run=true", body)).FinalContent
		delete(body, "dedup_key")
		batch := map[string]any{"messages": []any{body}}
		got["batch"] = *apptest.Decode[api.SentBatch](t, b.Expect(200, "", "POST", "/api/v1/sms/send-batch", batch)).Items[0].FinalContent
		body["content"], body["use_template"] = "name=您好", true
		b.Exec("INSERT INTO templates (template_name, template_content) VALUES ('x', '{name}')")
		got["template"] = b.SubmitBody(body).FinalContent
		for protocol, text := range got {
			if text != want {
				t.Errorf("%s: %q, want %q", protocol, text, want)
			}
		}
		if n := b.Count("SELECT count(*) FROM receive_logs WHERE status_code = 200 AND response_data #>> '{data,final_content}' = $1", want); n != 4 {
			t.Errorf("%d log rows with %q, want 4", n, want)
		}
		if task := b.Task(first.TaskID); task.Content != "您好" {
			t.Errorf("the task's content is %q", task.Content)
		}
	}
	for _, claimed := range b.Claim("app", 100) {
		if task := b.Task(claimed.TaskID); claimed.Content != segment.Signed(cmp.Or(signOf(task), "平台"), "您好") {
			t.Errorf("claimed %q; sign of the task: %q", claimed.Content, signOf(task))
		}
	}
}

// A text that already begins with its signature is not signed again. The signature can belong to the message, to its template or to the sender.
func TestTextThatBeginsWithItsSignatureIsNotSignedTwice(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "app", "sign": "平台", "balance": 10})
	b.Expect(200, "", "POST", "/api/v1/admin/template", map[string]any{"template_no": "T", "template_name": "T", "template_content": "【公司】{x}", "sign": "公司"})
	for want, body := range map[string]map[string]any{
		"【公司】a":     {"content": "【公司】【公司】a", "sign": "公司"},
		"【公司】b":     {"template_no": "T", "params": map[string]any{"x": "b"}},
		"【平台】c":     {"content": "【平台】c"},
		"【平台】j":     {"content": "\ufeff\n【平台】j"},
		"【公司】【平台】d": {"content": "【平台】d", "sign": "公司"},
		"【公司】e":     {"content": " 【公司】e", "sign": "公司"},
		"【公司】g":     {"content": "g", "sign": " 公司 "},
		"【公司】h":     {"content": "【公司】h", "sign": "\u200b公司\ufeff"},
		"【公司】i":     {"template_no": "T", "params": map[string]any{"x": "i"}, "sign": " "},
		"【公司】f":     {"content": "\ufeff【公司】\n\u200b【公司】f", "sign": "公司"},
	} {
		body["phone_number"] = apptest.Phone
		dry := apptest.Decode[api.Submitted](t, b.Expect(200, "", "POST", "/api/v1/sms/send?dry_run=true", body)).FinalContent
		if got := b.SubmitBody(body).FinalContent; got != want || dry != want {
			t.Errorf("%q, and in a dry run %q, want %q", got, dry, want)
		}
		claimed := b.Claim("app", 1)
		if len(claimed) != 1 || claimed[0].Content != want {
			t.Errorf("claimed %v, want %q", claimed, want)
		}
		b.Report(claimed[0].TaskID, "app", 2, nil)
	}
	b.Expect(422, "request.invalid", "POST", "/api/v1/sms/send", map[string]any{"phone_number": apptest.Phone, "content": "【公司】 ", "sign": "公司"})
}

func TestConcurrentSubmissionsWithOneDedupKeyCreateOneTask(t *testing.T) {
	for name, body := range map[string]map[string]any{
		"plain":           {"phone_number": apptest.Phone, "content": "x", "dedup_key": "k"},
		"default content": {"phone_number": apptest.Phone, "dedup_key": "k"},
	} {
		t.Run(name, func(t *testing.T) {
			b := apptest.New(t)
			b.Expect(200, "", "POST", "/api/v1/admin/default-sms", map[string]any{"phone_number": apptest.Phone, "content": "x"})
			answers := make([]apptest.Answer, 50)
			apptest.Together(len(answers), func(i int) { answers[i] = b.Call("POST", "/api/v1/sms/send", body) })
			ids, fresh := map[string]bool{}, 0
			for _, a := range answers {
				if a.Status != 200 {
					t.Fatalf("got %s", a.Raw)
				}
				made := apptest.Decode[api.Submitted](t, a)
				ids[made.TaskID] = true
				if made.Deduplicated == nil {
					fresh++
				}
			}
			if n := b.Count("SELECT count(*) FROM tasks"); n != 1 || len(ids) != 1 || fresh != 1 {
				t.Errorf("%d tasks, %d ids, %d answers not marked as repeats", n, len(ids), fresh)
			}
		})
	}
}

func TestConcurrentBatchesWithOneDedupKeyConsumeOneDefaultContent(t *testing.T) {
	b := apptest.New(t)
	b.Expect(200, "", "POST", "/api/v1/admin/default-sms", map[string]any{"phone_number": apptest.Phone, "content": "x"})
	body := map[string]any{"messages": []any{map[string]any{"phone_number": apptest.Phone, "dedup_key": "k"}}}
	answers := make([]apptest.Answer, 20)
	apptest.Together(len(answers), func(i int) {
		answers[i] = b.Call("POST", "/api/v1/sms/send-batch", body, apptest.KeyHeader, fmt.Sprint("key-", i))
	})
	ids := map[string]bool{}
	for _, a := range answers {
		item := apptest.Decode[api.SentBatch](t, a).Items[0]
		if item.TaskID == nil {
			t.Fatalf("got %s", a.Raw)
		}
		ids[*item.TaskID] = true
	}
	if n := b.Count("SELECT count(*) FROM tasks"); n != 1 || len(ids) != 1 {
		t.Errorf("%d tasks, %d ids", n, len(ids))
	}
}

// A repeated submission consumes no default content. The same is true with an Idempotency-Key, which stores the answer in the same transaction.
func TestRepeatedSubmissionConsumesNoDefaultContent(t *testing.T) {
	b := apptest.New(t)
	b.SubmitBody(map[string]any{"phone_number": "13900139000", "content": "x", "dedup_key": "k"})
	b.Expect(200, "", "POST", "/api/v1/admin/default-sms", map[string]any{"phone_number": apptest.Phone, "content": "y"})
	for _, headers := range [][]string{nil, {apptest.KeyHeader, "i"}} {
		a := b.Expect(200, "", "POST", "/api/v1/sms/send", map[string]any{"phone_number": apptest.Phone, "dedup_key": "k"}, headers...)
		if made := apptest.Decode[api.Submitted](t, a); made.Deduplicated == nil || made.FinalContent != "x" {
			t.Errorf("got %+v", made)
		}
	}
	if n := b.Count("SELECT count(*) FROM default_contents WHERE is_sent"); n != 0 {
		t.Error("the default content was consumed")
	}
}

// A submission with a used dedup key returns the first task. Its template, default content and expiry are not checked.
func TestRepeatedSubmissionIsNotCheckedAgain(t *testing.T) {
	soon := func() string { return time.Now().Add(time.Hour).Format(time.RFC3339Nano) }
	for name, c := range map[string]struct {
		before func(b *apptest.Bundle)
		body   map[string]any
		after  func(b *apptest.Bundle)
	}{
		"the template is switched off": {
			func(b *apptest.Bundle) {
				b.Exec("INSERT INTO templates (template_name, template_content) VALUES ('x', '您好{name}')")
			}, map[string]any{"content": "name=张三", "use_template": true},
			func(b *apptest.Bundle) { b.Exec("UPDATE templates SET status = 'disabled'") },
		},
		"the template wants other parameters": {
			func(b *apptest.Bundle) {
				b.Exec("INSERT INTO templates (template_name, template_content) VALUES ('x', '您好{name}')")
			}, map[string]any{"content": "name=张三", "use_template": true},
			func(b *apptest.Bundle) { b.Exec("UPDATE templates SET template_content = '您好{other}'") },
		},
		"the default content is consumed": {
			func(b *apptest.Bundle) {
				b.Exec("INSERT INTO default_contents (phone_number, recipient, content) VALUES ($1, $1, '欢迎')", "+86"+apptest.Phone)
			},
			map[string]any{}, func(*apptest.Bundle) {},
		},
		"the default content is deleted": {
			func(b *apptest.Bundle) {
				b.Exec("INSERT INTO default_contents (phone_number, recipient, content) VALUES ($1, $1, '欢迎')", "+86"+apptest.Phone)
			},
			map[string]any{}, func(b *apptest.Bundle) { b.Exec("DELETE FROM default_contents") },
		},
		"the expiry has passed": {
			func(*apptest.Bundle) {}, map[string]any{"content": "x", "expires_at": soon()},
			func(*apptest.Bundle) {},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := apptest.New(t)
			c.before(b)
			body := map[string]any{"phone_number": apptest.Phone, "dedup_key": "key"}
			maps.Copy(body, c.body)
			first := b.SubmitBody(body)
			c.after(b)
			if _, expires := body["expires_at"]; expires {
				body["expires_at"] = time.Now().Add(-time.Hour).Format(time.RFC3339Nano)
			}
			for protocol, again := range map[string]api.Submitted{
				"send":            b.SubmitBody(body),
				"idempotency key": apptest.Decode[api.Submitted](t, b.Expect(200, "", "POST", "/api/v1/sms/send", body, apptest.KeyHeader, "k")),
			} {
				if again.TaskID != first.TaskID || again.FinalContent != first.FinalContent || again.Deduplicated == nil {
					t.Errorf("%s: %+v, first %+v", protocol, again, first)
				}
			}
			// The batch contains the repeated message twice, and a refused message.
			refused := map[string]any{"phone_number": "1"}
			for _, headers := range [][]string{nil, {apptest.KeyHeader, "l"}} {
				batch := map[string]any{"messages": []any{body, refused, body}}
				items := apptest.Decode[api.SentBatch](t, b.Expect(200, "", "POST", "/api/v1/sms/send-batch", batch, headers...)).Items
				for _, i := range []int{0, 2} {
					if item := items[i]; item.Code != 200 || *item.TaskID != first.TaskID || *item.FinalContent != first.FinalContent || item.Deduplicated == nil {
						t.Errorf("send-batch %v: %+v", headers, item)
					}
				}
			}
			dry := apptest.Decode[api.Submitted](t, b.Expect(200, "", "POST", "/api/v1/sms/send?dry_run=true", body))
			if *dry.Verdict != "would_repeat" || dry.FinalContent != first.FinalContent || *dry.Recipient != "+86"+apptest.Phone {
				t.Errorf("dry run: %+v", dry)
			}
		})
	}
}

func signOf(task api.Task) string {
	if task.Sign == nil {
		return ""
	}
	return *task.Sign
}
