package batch_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	api "lksms/gen/client"

	"lksms/internal/audience/batch/progress"
	"lksms/internal/dispatch/quiet"
	"lksms/internal/testkit/apptest"
)

// If the service has a temporary problem, no row is rejected.
func TestTemporaryProblemsRejectNoRow(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "one"})
	b.AddCompany("acme", 1)
	at := checked(b, numbers(150), "content", "hello", "auto_confirm", "true", "sender_no", "one")
	route := b.AddRoute("acme", "one", 1) // the sender now serves only acme, and not the company of the batch
	feed(b)
	if n := b.Count("SELECT count(*) FROM batch_rows WHERE task_id IS NULL AND code IS NULL"); n != 150 {
		t.Errorf("%d rows wait for the sender", n)
	}
	b.Expect(200, "", "DELETE", fmt.Sprintf("/api/v1/admin/routes/%v", route.RouteNo), nil)

	b.Exec("CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused by the test'; END $$")
	b.Exec("CREATE TRIGGER refuse BEFORE INSERT ON messages FOR EACH ROW EXECUTE FUNCTION refuse()")
	if _, err := b.App.Batches.Feed(t.Context()); err == nil {
		t.Error("Feed returned no error")
	}
	b.Exec("DROP TRIGGER refuse ON messages")
	expect(b, get(b, at), "running", "150 rows, 150 valid, 150 waiting")
	feed(b)
	expect(b, get(b, at), "running", "150 rows, 150 valid, 150 waiting")
	expectOnce(b, 150)
}

// R5: if all recipients of a batch have quiet hours now, the batch says so, before and after its rows are tasks, and its predicted end is after quiet hours. If
// it is day in the country of at least one row, the batch continues.
func TestABatchSaysThatItWaitsForTheEndOfQuietHours(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "one"})
	b.Exec("UPDATE sender_states SET seen_at = now()") // otherwise the batches wait for a sender
	b.SetQuiet("marketing", -time.Hour, 2*time.Hour)
	end := time.Now().Add(2 * time.Hour).Truncate(time.Minute)
	expectEnd := func(got api.Batch, latest time.Time) {
		t.Helper()
		if e := got.Estimate.EarliestEnd; e == nil || e.Before(end) || e.After(latest) {
			t.Errorf("the batch ends at %v, quiet hours at %v", e, end)
		}
	}
	moveQuiet := func() {
		t.Helper()
		b.Exec("UPDATE quiet_changes SET begins_at = now()")
		if _, err := b.App.Queue.MoveQuiet(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	marketing := []string{"content", "sale", "message_type", "marketing"}
	at := checked(b, numbers(30), marketing...)
	expectEnd(get(b, at), end)
	get(b, at, "confirm")
	abroad := checked(b, numbers(30)+"+12125550123\n", append(marketing, "auto_confirm", "true")...)
	for _, latest := range []time.Time{end, end.Add(quiet.Spread)} { // before the rows are tasks, and after
		got := get(b, at)
		if w := got.WaitsFor; w == nil || w.Reason != api.WaitsForQuiet || w.Until == nil || w.Until.Before(end) || w.Until.After(latest) {
			t.Errorf("the batch waits for %+v", w)
		}
		expectEnd(got, latest)
		if got = get(b, abroad); got.WaitsFor != nil {
			t.Errorf("the batch with a row abroad waits for %+v", got.WaitsFor)
		}
		expectEnd(got, latest)
		feed(b)
		moveQuiet()
	}
	b.SetHours("marketing", "")
	moveQuiet()
	if got := get(b, at); got.WaitsFor != nil || got.Estimate.EarliestEnd.After(end) {
		t.Errorf("without quiet hours, the batch waits for %+v and ends at %v", got.WaitsFor, got.Estimate.EarliestEnd)
	}
}

// R5: a batch that is scheduled for a time in quiet hours waits for their end from the beginning, before and after its rows are tasks that the sweep has moved.
func TestABatchThatIsScheduledIntoQuietHoursWaitsForTheirEnd(t *testing.T) {
	b := apptest.New(t)
	b.SetQuiet("marketing", time.Hour, 5*time.Hour)
	end := time.Now().Add(5 * time.Hour).Truncate(time.Minute)
	in := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(time.RFC3339) }
	create := func(d time.Duration) string {
		t.Helper()
		return checked(b, numbers(3), "content", "sale", "message_type", "marketing", "auto_confirm", "true", "expect_send_time", in(d))
	}
	within, before := create(2*time.Hour), create(30*time.Minute)
	for _, next := range []func(){func() { feed(b) }, func() {
		if _, err := b.App.Queue.MoveQuiet(t.Context()); err != nil {
			t.Fatal(err)
		}
	}, func() {}} {
		if w := get(b, within).WaitsFor; w == nil || w.Reason != api.WaitsForQuiet || w.Until == nil || w.Until.Before(end) || w.Until.After(end.Add(quiet.Spread)) {
			t.Errorf("the batch waits for %+v, quiet until %v", w, end)
		}
		if w := get(b, before).WaitsFor; w == nil || w.Reason != api.WaitsForTime {
			t.Errorf("the batch before the quiet hours waits for %+v", w)
		}
		next()
	}
}

// R5: a row that could only be sent in quiet hours is refused like a single message, by the check, the preview and the submission of the row. A row to a country
// in which it is day is sent.
func TestRowsThatExpireInQuietHoursAreRefused(t *testing.T) {
	b := apptest.New(t)
	const list = "phone\n13800138000\n+12125550123\n"
	in := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(time.RFC3339) }
	create := func(more ...string) string {
		t.Helper()
		return checked(b, list, append([]string{"content", "sale", "message_type", "marketing"}, more...)...)
	}
	before, unlimited := create("expires_at", in(2*time.Hour)), create()
	b.SetQuiet("marketing", -time.Hour, 3*time.Hour)
	expectRefused := func(at string, row int) {
		t.Helper()
		if p := preview(b, at, row); p.Code == nil || *p.Code != 7 || !strings.Contains(*p.Remark, "quiet hours") {
			t.Errorf("preview %+v", p)
		}
	}
	expectRefused(before, 2)
	get(b, before, "confirm")
	for _, at := range []string{create("expires_at", in(2*time.Hour)), create("expires_at", in(2*time.Hour), "expect_send_time", in(time.Hour))} {
		expect(b, get(b, at), "ready", "2 rows, 1 valid, 1 invalid, 1 waiting")
		expectRefused(at, 2)
	}
	feed(b)
	expect(b, get(b, before), "running", "2 rows, 1 valid, 1 invalid, 1 waiting")
	expectRefused(before, 2)
	if n := b.Count("SELECT count(*) FROM queue"); n != 1 {
		t.Errorf("%d tasks wait", n)
	}
	for _, at := range []string{unlimited, create("expires_at", in(5*time.Hour)), create("expires_at", in(20*time.Hour), "expect_send_time", in(4*time.Hour))} {
		expect(b, get(b, at), "ready", "2 rows, 2 valid, 2 waiting")
	}
	if p := preview(b, unlimited, 2); p.Code != nil || p.Reason == nil || *p.Reason != api.DelayQuietHours || p.DueAt.Before(time.Now().Add(2*time.Hour)) {
		t.Errorf("preview %+v", p)
	}
	if p := preview(b, unlimited, 3); p.Reason != nil || p.DueAt != nil {
		t.Errorf("preview of a row abroad %+v", p)
	}
}

// A number that was blocked after the check has the same code as a number that was blocked before the check.
func TestABlockAfterTheCheckAlsoBlocksRows(t *testing.T) {
	b := apptest.New(t)
	const list = "phone\n13800138000\n13800138001\n"
	block := func(number string) {
		t.Helper()
		b.Expect(200, "", "POST", "/api/v1/blocks", map[string]any{"phone_number": number, "scope": "all"})
	}
	block("13800138000")
	at := checked(b, list, "content", "x")
	block("13800138001")
	get(b, at, "confirm")
	feed(b)
	expect(b, get(b, at), "finished", "2 rows, 2 blocked")
	for _, row := range []int{2, 3} {
		if p := preview(b, at, row); p.Code == nil || *p.Code != 6 {
			t.Errorf("row %d: %+v", row, p)
		}
	}
	if got := rows(b, at, "?status=blocked"); strings.Count(got, " blocked 6: ") != 2 {
		t.Errorf("%s", got)
	}
}

// R6: the preview says that caps of the recipient delay a row, or that the row would expire before the caps allow it. A row that became a task is not counted
// again.
func TestThePreviewOfARowShowsCaps(t *testing.T) {
	b := apptest.New(t)
	b.Expect(200, "", "PUT", "/api/v1/admin/settings", map[string]any{"recipient": map[string]any{"caps_marketing_per_hour": 1}})
	create := func(more ...string) string {
		t.Helper()
		return checked(b, "phone\n13800138000\n", append([]string{"content", "sale", "message_type", "marketing"}, more...)...)
	}
	first, second, short := create(), create(), create("expires_at", time.Now().Add(30*time.Minute).UTC().Format(time.RFC3339))
	get(b, first, "confirm")
	feed(b)
	if p := preview(b, first, 2); p.Reason != nil || p.Code != nil {
		t.Errorf("preview of the counted row %+v", p)
	}
	if p := preview(b, second, 2); p.Code != nil || p.Reason == nil || *p.Reason != api.DelayRecipientLimited || time.Until(*p.DueAt) < 59*time.Minute {
		t.Errorf("preview of a row that waits %+v", p)
	}
	if p := preview(b, short, 2); p.Code == nil || *p.Code != 7 || !strings.Contains(*p.Remark, "maximum number of messages") {
		t.Errorf("preview of a row that would expire %+v", p)
	}
	get(b, short, "confirm")
	feed(b)
	expect(b, get(b, short), "finished", "1 rows, 1 invalid")
}

// R6: if all recipients of a batch have got the maximum number of messages, the batch says so, and its predicted end is after the time at which they can get
// the next message. A batch that also has another recipient, or a retry, continues.
func TestABatchSaysThatItWaitsForCaps(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "one"})
	b.Exec("UPDATE sender_states SET seen_at = now()") // otherwise the batches wait for a sender
	b.Expect(200, "", "PUT", "/api/v1/admin/settings", map[string]any{"recipient": map[string]any{"caps_notification_per_hour": 1}})
	confirmed := func(list string) string {
		t.Helper()
		at := checked(b, list, "content", "hello", "auto_confirm", "true")
		feed(b)
		return at
	}
	first := confirmed(numbers(3))
	if got := get(b, first); got.WaitsFor != nil {
		t.Errorf("the first batch waits for %+v", got.WaitsFor)
	}
	second, mixed := confirmed(numbers(3)), confirmed(numbers(2)+"13900139000\n")
	soon, late := time.Now().Add(59*time.Minute), time.Now().Add(61*time.Minute)
	got := get(b, second)
	if w := got.WaitsFor; w == nil || w.Reason != api.WaitsForLimit || w.Until == nil || w.Until.Before(soon) || w.Until.After(late) {
		t.Errorf("the batch waits for %+v", w)
	}
	if e := got.Estimate.EarliestEnd; e == nil || e.Before(soon) || e.After(late) {
		t.Errorf("the batch ends at %v", e)
	}
	if got := get(b, mixed); got.WaitsFor != nil {
		t.Errorf("the batch with another recipient waits for %+v", got.WaitsFor)
	}
	b.Exec("UPDATE queue SET retry_count = 1, due_at = now() + interval '5 minutes' WHERE batch_id = $1", got.BatchID)
	if got := get(b, second); got.WaitsFor != nil {
		t.Errorf("the batch with retries waits for %+v", got.WaitsFor)
	}
}

// R5: in quiet hours, a retry waits for their end. After quiet hours, a batch whose rows are only retries continues.
func TestARetryAfterQuietHoursIsNotDelayedByThem(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "one"})
	b.Exec("UPDATE sender_states SET seen_at = now()") // otherwise the batch waits for a sender
	moveQuiet := func() {
		t.Helper()
		if _, err := b.App.Queue.MoveQuiet(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	b.SetQuiet("marketing", -time.Hour, 2*time.Hour)
	at := checked(b, numbers(2), "content", "sale", "message_type", "marketing", "auto_confirm", "true")
	feed(b)
	moveQuiet()
	b.Exec("DELETE FROM quiet_changes")
	b.SetHours("marketing", "") // the night is over
	b.Exec("DELETE FROM quiet_changes")
	b.Exec("UPDATE queue SET retry_count = 1, due_at = now() + interval '5 minutes', quiet_from = now() + interval '12 hours'")
	if w := get(b, at).WaitsFor; w != nil {
		t.Errorf("the batch with retries waits for %+v", w)
	}
	b.SetQuiet("marketing", -time.Hour, 2*time.Hour)
	b.Exec("UPDATE quiet_changes SET begins_at = now()")
	moveQuiet()
	if w := get(b, at).WaitsFor; w == nil || w.Reason != api.WaitsForQuiet {
		t.Errorf("in the next night, the batch with retries waits for %+v", w)
	}
}

// addTasks adds waiting tasks to the only batch, as if rows of its list had become tasks. values contains due_at, due_when_resumed and quiet_from of the tasks.
func addTasks(b *apptest.Bundle, n int, values string) {
	b.T.Helper()
	b.Exec(`INSERT INTO queue (
			task_id, pool_id, company_id, message_type, priority, segments, phone_number, recipient, content, batch_id, due_at, due_when_resumed, quiet_from
		) SELECT 'task_' || g, p.id, t.company_id, 2, 9, 1, '', '+8613800138000', 'x', t.id, `+values+`
		FROM batches t, (SELECT min(id) AS id FROM pools) p, generate_series(1, $1) g`, n)
	b.Exec("UPDATE batches SET fed = fed + $1, valid = valid + $1, rows = rows + $1", n)
}

// Tasks that cannot be sent now do not use up the space in the queue for the rows behind them.
func TestDelayedTasksDoNotStopLaterRows(t *testing.T) {
	for name, values := range map[string]string{
		"quiet hours": "now() + interval '8 hours', now(), now() + interval '20 hours'", "caps": "now() + interval '1 hour', NULL, NULL",
		"held": "held_due_at(), now(), NULL", "due": "now(), NULL, NULL",
	} {
		t.Run(name, func(t *testing.T) {
			b := apptest.New(t)
			at := checked(b, numbers(150), "content", "sale", "message_type", "marketing", "auto_confirm", "true")
			addTasks(b, 10_000, values)
			feed(b)
			want := 150
			if name == "due" { // senders have enough to do
				want = 0
			}
			if n := b.Count("SELECT count(*) FROM batch_rows WHERE task_id IS NOT NULL"); n != want {
				t.Errorf("%d rows became tasks, want %d", n, want)
			}
			expect(b, get(b, at), "running", "10150 rows, 10150 valid, 10150 waiting")
		})
	}
}

// A batch has at most about 30,000 waiting tasks. If none of them can leave, the batch says why the rows behind them wait.
func TestABatchSaysThatItHasTooManyDelayedTasks(t *testing.T) {
	for name, c := range map[string]struct {
		values string
		reason api.BatchWaitReason
		hasEnd bool
	}{
		"quiet hours": {"now() + interval '8 hours', now(), now() + interval '20 hours'", api.WaitsForQuiet, true},
		"caps":        {"now() + interval '1 hour', NULL, NULL", api.WaitsForLimit, true},
		"held":        {"held_due_at(), now(), NULL", api.WaitsForAny, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := apptest.New(t)
			b.AddSender(map[string]any{"sender_no": "one"})
			b.Exec("UPDATE sender_states SET seen_at = now()") // otherwise the batch waits for a sender
			if c.reason == api.WaitsForQuiet {
				b.SetQuiet("marketing", -time.Hour, 8*time.Hour)
			}
			at := checked(b, numbers(150), "content", "sale", "message_type", "marketing", "auto_confirm", "true")
			addTasks(b, progress.MaxTasks, c.values)
			until := apptest.Scan[time.Time](b, "SELECT min(due_at) FROM queue")
			feed(b)
			if n := b.Count("SELECT count(*) FROM batch_rows WHERE task_id IS NOT NULL"); n != 0 {
				t.Errorf("%d rows became tasks", n)
			}
			w := get(b, at).WaitsFor
			if w == nil || w.Reason != c.reason || (w.Until != nil) != c.hasEnd || w.Until != nil && !w.Until.Equal(until) {
				t.Errorf("the batch waits for %+v", w)
			}
			b.Exec("UPDATE queue SET due_at = now() WHERE task_id = 'task_500'")
			if w := get(b, at).WaitsFor; w != nil {
				t.Errorf("with a task that is due, the batch waits for %+v", w)
			}
		})
	}
}
