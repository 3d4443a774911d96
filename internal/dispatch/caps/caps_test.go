package caps_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/app"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/platform/access"
	"lksms/internal/platform/fault"
	"lksms/internal/testkit/apptest"
)

func TestMain(m *testing.M) { apptest.Main(m) }

// capped is a server with helpers for caps.
type capped struct{ *apptest.Bundle }

// set sets caps of the platform, for example notification_per_hour.
func (b capped) set(values map[string]any) {
	b.T.Helper()
	changes := map[string]any{}
	for name, value := range values {
		changes["caps_"+name] = value
	}
	b.Expect(200, "", "PUT", "/api/v1/admin/settings", map[string]any{"recipient": changes})
}

func body(more map[string]any) map[string]any {
	m := map[string]any{"phone_number": apptest.Phone, "content": "x", "message_type": "notification"}
	for k, v := range more {
		m[k] = v
	}
	return m
}

func (b capped) accept(more map[string]any, headers ...string) api.Submitted {
	b.T.Helper()
	return apptest.Decode[api.Submitted](b.T, b.Expect(200, "", "POST", "/api/v1/sms/send", body(more), headers...))
}

// refuse expects that a cap refuses a message, and returns the seconds until it is allowed.
func (b capped) refuse(more map[string]any, headers ...string) int {
	b.T.Helper()
	a := b.Expect(429, "recipient.limited", "POST", "/api/v1/sms/send", body(more), headers...)
	if a.Fields() != "phone_number" {
		b.T.Errorf("fields %s", a.Fields())
	}
	seconds, err := strconv.Atoi(a.Header.Get("Retry-After"))
	if err != nil {
		b.T.Errorf("Retry-After: %v", err)
	}
	return seconds
}

// pass lets time pass for the messages that are counted.
func (b capped) pass(time string) {
	b.T.Helper()
	b.Exec("UPDATE capped_recipients SET times = ARRAY(SELECT t - $1::interval FROM unnest(times) t ORDER BY t)", time)
}

// deleteExpired runs the sweep that deletes counts, and returns the number of deleted rows.
func (b capped) deleteExpired() (deleted int) {
	b.T.Helper()
	for _, job := range b.App.Sweeps() {
		if job.Name == "delete-expired-caps" {
			var err error
			if deleted, err = job.Run(b.T.Context()); err != nil {
				b.T.Fatal(err)
			}
		}
	}
	return deleted
}

// run runs sweeps.
func (b capped) run(sweeps ...func(context.Context) (int, error)) {
	b.T.Helper()
	for _, sweep := range sweeps {
		if _, err := sweep(b.T.Context()); err != nil {
			b.T.Fatal(err)
		}
	}
}

func TestACapRefusesMessagesUntilTheFirstMessageIsOldEnough(t *testing.T) {
	b := capped{apptest.New(t)}
	b.set(map[string]any{"notification_per_minute": 1, "notification_per_hour": 2})
	b.accept(nil)
	if s := b.refuse(nil); s < 50 || s > 60 {
		t.Errorf("Retry-After %d, want a minute", s)
	}
	item := apptest.Decode[api.SentBatch](t, b.Expect(200, "", "POST", "/api/v1/sms/send-batch", map[string]any{"messages": []any{body(nil)}})).Items[0]
	if item.Code != 429 || item.Error == nil || item.Error.RetryAfterSeconds == nil || *item.Error.RetryAfterSeconds < 50 || *item.Error.RetryAfterSeconds > 60 {
		t.Errorf("item of a batch: %+v", item)
	}
	b.Expect(429, "recipient.limited", "POST", "/api/v1/sms/send?dry_run=true", body(nil))
	b.accept(map[string]any{"phone_number": "13800138001"})
	b.accept(map[string]any{"message_type": "verification"})
	b.pass("61 seconds")
	b.Expect(200, "", "POST", "/api/v1/sms/send?dry_run=true", body(nil))
	b.accept(nil)
	b.pass("61 seconds")
	if s := b.refuse(nil); s < 3400 || s > 3540 {
		t.Errorf("Retry-After %d, want almost an hour", s)
	}
	b.pass("58 minutes")
	b.accept(nil)
	if n := b.Count("SELECT count(*) FROM fruitless_submissions WHERE status_code = 429"); n != 3 {
		t.Errorf("%d refused submissions are logged, want 3", n)
	}
}

// The statement that locks a row also counts the message. If a cap then refuses or delays the message, the row says so.
func TestCountsContainAcceptedMessagesAtTheirTimes(t *testing.T) {
	b := capped{apptest.New(t)}
	b.set(map[string]any{"notification_per_hour": 2})
	const counted = `SELECT string_agg(concat_ws(' ', m.content, CASE WHEN o.at > now() THEN 'later' ELSE 'now' END), '|' ORDER BY o.nth)
		FROM capped_recipients c CROSS JOIN LATERAL unnest(c.task_ids, c.times) WITH ORDINALITY AS o (task_id, at, nth) JOIN messages m ON m.task_id = o.task_id`
	expect := func(want string) {
		t.Helper()
		if got := apptest.Scan[string](b.Bundle, counted); got != want {
			t.Errorf("counted %s, want %s", got, want)
		}
	}
	b.accept(map[string]any{"content": "planned", "expect_send_time": time.Now().Add(50 * time.Minute)})
	expect("planned later")
	b.accept(map[string]any{"content": "first"})
	expect("first now|planned later")
	b.refuse(map[string]any{"content": "second"})
	expect("first now|planned later")
	b.pass("25 hours")
	b.accept(map[string]any{"content": "third"})
	expect("third now")
	if n := b.Count("SELECT count(*) FROM capped_recipients WHERE last_on = (now() AT TIME ZONE 'UTC')::date"); n != 1 {
		t.Errorf("%d rows of today", n)
	}
}

func TestACompanyHasCapsOfItsOwnBesideTheTotalOfAllCompanies(t *testing.T) {
	w := apptest.NewTwoCompanies(t)
	b := capped{w.Bundle}
	b.set(map[string]any{"notification_per_day": 1, "total_per_day": 4})
	b.Expect(200, "", "PATCH", "/api/v1/admin/companies/acme", map[string]any{
		"recipient": map[string]any{"caps": map[string]any{"notification": map[string]any{"per_day": 2}, "verification": map[string]any{"per_hour": 1}}},
	})
	got := apptest.Decode[api.Company](t, b.Expect(200, "", "GET", "/api/v1/admin/companies/acme", nil)).Recipient.Caps
	if *got.Notification.PerDay != 2 || *got.Verification.PerHour != 1 || got.Marketing.PerDay != nil {
		t.Errorf("%+v", got)
	}
	number := map[string]any{"phone_number": "13700000001"}
	b.accept(number, w.Acme...)
	b.accept(number, w.Acme...)
	b.refuse(number, w.Acme...)
	b.accept(number, w.Beta...)
	b.refuse(number, w.Beta...)
	code := map[string]any{"phone_number": "13700000001", "message_type": "verification"}
	b.accept(code, w.Acme...)
	b.refuse(map[string]any{"phone_number": "13700000001", "message_type": "marketing"}, w.Beta...) // the total
	b.Expect(200, "", "PATCH", "/api/v1/admin/companies/acme", map[string]any{
		"recipient": map[string]any{"caps": map[string]any{"notification": map[string]any{"per_day": nil}}},
	})
	number["phone_number"] = "13700000002"
	b.accept(number, w.Acme...)
	b.refuse(number, w.Acme...)
}

func TestARepeatedRequestSucceedsAfterACapIsReached(t *testing.T) {
	b := capped{apptest.New(t)}
	b.set(map[string]any{"notification_per_day": 1})
	first := b.accept(map[string]any{"dedup_key": "k"})
	for range 2 {
		if again := b.accept(map[string]any{"dedup_key": "k"}); again.TaskID != first.TaskID {
			t.Errorf("%s, want %s", again.TaskID, first.TaskID)
		}
	}
	b.refuse(map[string]any{"dedup_key": "other"})
	b.pass("25 hours")
	b.accept(map[string]any{"dedup_key": "other"}) // the refused message did not use its key
}

func TestItemsOfARequestAreCountedInTheirOrder(t *testing.T) {
	b := capped{apptest.New(t)}
	b.set(map[string]any{"notification_per_day": 2})
	b.accept(map[string]any{"dedup_key": "k", "phone_number": "13800138001"})
	items := func(messages ...any) (got []string) {
		a := b.Expect(200, "", "POST", "/api/v1/sms/send-batch", map[string]any{"messages": messages})
		for _, item := range apptest.Decode[api.SentBatch](t, a).Items {
			got = append(got, fmt.Sprint(item.Code))
		}
		return got
	}
	// The first item repeats an earlier task, and does not count when the caps of the other items are checked.
	got := items(body(map[string]any{"dedup_key": "k"}), body(nil), body(nil), body(nil), body(map[string]any{"phone_number": "13800138002"}))
	if s := strings.Join(got, " "); s != "200 200 200 429 200" {
		t.Errorf("%s", s)
	}
}

func TestACancelledMessageIsNotCounted(t *testing.T) {
	b := capped{apptest.New(t)}
	b.set(map[string]any{"notification_per_day": 1})
	id := b.accept(nil).TaskID
	b.refuse(nil)
	b.Expect(200, "", "POST", "/api/v1/sms/task/"+id+"/cancel", nil)
	sent := b.accept(nil).TaskID
	b.Claim("app", 1)
	b.Report(sent, "app", 2, nil)
	b.refuse(nil)
}

// R4, R6: a caller must not send a blocked message again when the cap allows it, so the block is the reason.
func TestABlockedMessageBeyondACapIsBlocked(t *testing.T) {
	b := capped{apptest.New(t)}
	b.set(map[string]any{"notification_per_day": 1})
	b.accept(nil)
	b.Claim("app", 1) // a block does not cancel a message that a sender has, so the message still counts
	b.refuse(nil)
	b.Expect(200, "", "POST", "/api/v1/blocks", map[string]any{"phone_number": apptest.Phone, "scope": "notification"})
	for _, query := range []string{"", "?dry_run=true"} {
		b.Expect(409, "recipient.blocked", "POST", "/api/v1/sms/send"+query, body(nil))
	}
}

func TestRepliesAndSimulatedMessagesAreNotCounted(t *testing.T) {
	b := capped{apptest.New(t)}
	b.set(map[string]any{"notification_per_day": 1})
	b.Expect(200, "", "PUT", "/api/v1/admin/settings", map[string]any{"sms": map[string]any{"send_tests": false}})
	for range 2 {
		b.accept(map[string]any{"test": true})
	}
	b.accept(nil)
	b.Expect(200, "", "POST", "/api/v1/sms/received", map[string]any{"app_id": "app", "messages": []any{map[string]any{"from": apptest.Phone, "content": "hello"}}})
	b.Expect(200, "", "POST", "/api/v1/conversations/"+apptest.Phone+"/reply", map[string]any{"content": "hello", "sender": "any"})
}

func TestMessagesOfABatchWaitUntilCapsAllowThem(t *testing.T) {
	b := capped{apptest.New(t)}
	b.set(map[string]any{"marketing_per_hour": 1})
	number := map[string]any{"message_type": "marketing"}
	b.accept(number)
	form := apptest.Form("file", "list.csv", "phone\n"+apptest.Phone+"\n13800138001\n"+apptest.Phone+"\n", "name", "n", "content", "sale", "message_type", "marketing",
		"auto_confirm", "true", "dedup", "none")
	b.Expect(200, "", "POST", "/api/v1/batches", form, "Content-Type", apptest.FormType)
	for _, run := range []func() (int, error){
		func() (int, error) { return b.App.Batches.Check(t.Context()) }, func() (int, error) { return b.App.Batches.Feed(t.Context()) },
	} {
		if _, err := run(); err != nil {
			t.Fatal(err)
		}
	}
	if ids := b.ClaimIDs(10); len(ids) != 2 {
		t.Fatalf("claimed %v, want the first message and that to the other number", ids)
	}
	rows, err := b.DB.Query(t.Context(), "SELECT task_id, due_at FROM queue WHERE lease_until IS NULL ORDER BY due_at")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var due []time.Duration
	for rows.Next() {
		var id string
		var at time.Time
		if err := rows.Scan(&id, &at); err != nil {
			t.Fatal(err)
		}
		due = append(due, time.Until(at).Round(time.Hour))
		if e := b.Explain(id); e.Reason != api.BecauseLimited {
			t.Errorf("the explanation is %s: %s", e.Reason, e.Summary)
		}
	}
	if len(due) != 2 || due[0] != time.Hour || due[1] != 2*time.Hour {
		t.Errorf("due in %v, want one and two hours", due)
	}
	b.refuse(map[string]any{"message_type": "marketing"})
}

func TestPersonsOfANotificationWaitUntilCapsAllowThem(t *testing.T) {
	b := capped{apptest.New(t)}
	b.set(map[string]any{"notification_per_hour": 1})
	b.PutContacts(map[string]any{"user_id": "u1", "phone": apptest.Phone})
	b.accept(nil)
	b.Expect(200, "", "PUT", "/api/v1/admin/notification-templates/1/sms", map[string]any{"title": "t", "content": "hello"})
	b.Expect(200, "", "POST", "/api/v1/notifications", map[string]any{
		"biz_type": 1, "biz_id": 1, "channels": []string{"sms"}, "payload": map[string]any{}, "user_ids": []string{"u1"},
	})
	if _, err := b.App.Notifications.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	id := apptest.Scan[string](b.Bundle, "SELECT task_id FROM queue WHERE due_at > now() + interval '50 minutes'")
	if e := b.Explain(id); e.Reason != api.BecauseLimited {
		t.Errorf("the explanation is %s: %s", e.Reason, e.Summary)
	}
	if ids := b.ClaimIDs(10); len(ids) != 1 {
		t.Errorf("claimed %v", ids)
	}
}

// R6: caps are exact even if several servers accept messages, and each server merges these with messages to other numbers.
func TestTwoServersTogetherAcceptNoMessageBeyondACap(t *testing.T) {
	b := capped{apptest.New(t)}
	b.set(map[string]any{"notification_per_minute": 3, "total_per_day": 5})
	second, err := app.New(t.Context(), b.Options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(second.Close)
	const numbers = 8
	var accepted [numbers]atomic.Int64
	var work sync.WaitGroup
	for _, server := range []*app.App{b.App, second} {
		for n := range numbers {
			for range 8 {
				work.Go(func() {
					_, err := server.Submissions.Submit(t.Context(), submit.Submission{
						PhoneNumber: fmt.Sprintf("1380013800%d", n), Content: "x", MessageType: submit.Notification,
					}, submit.Origin{User: "admin", CompanyID: 1, RequestID: "r"})
					var refused *fault.Error
					switch {
					case err == nil:
						accepted[n].Add(1)
					case !errors.As(err, &refused) || refused.Reason != fault.RecipientLimited:
						t.Error(err)
					}
				})
			}
		}
	}
	work.Wait()
	for n := range numbers {
		if got := accepted[n].Load(); got != 3 {
			t.Errorf("%d messages to number %d were accepted, want 3", got, n)
		}
	}
	b.pass("61 seconds")
	for range 2 {
		b.accept(nil)
	}
	b.refuse(nil) // five messages in 24 hours
}

func TestARefusedMessageKeepsItsDefaultContent(t *testing.T) {
	b := capped{apptest.New(t)}
	b.set(map[string]any{"verification_per_day": 1})
	b.Expect(200, "", "POST", "/api/v1/admin/default-sms", map[string]any{"phone_number": apptest.Phone, "content": "code 1"})
	b.accept(map[string]any{"message_type": "verification"})
	b.Expect(429, "recipient.limited", "POST", "/api/v1/sms/send", map[string]any{"phone_number": apptest.Phone, "message_type": "verification"})
	b.pass("25 hours")
	b.Expect(200, "", "POST", "/api/v1/sms/send", map[string]any{"phone_number": apptest.Phone, "message_type": "verification"})
}

func TestExpiredCountsAreDeleted(t *testing.T) {
	b := capped{apptest.New(t)}
	b.set(map[string]any{"notification_per_day": 5})
	b.accept(nil)
	b.Exec("UPDATE capped_recipients SET last_on = last_on - 3")
	b.accept(map[string]any{"phone_number": "13800138001"})
	if n := b.deleteExpired(); n != 1 {
		t.Errorf("deleted %d", n)
	}
	if n := b.Count("SELECT count(*) FROM capped_recipients"); n != 1 {
		t.Errorf("%d rows are left", n)
	}
}

// A cancelled message no longer counts, so the cap allows another message. After another message was accepted, the cap refuses a requeue of the cancelled
// message. A message that was sent still counts.
func TestCapsCountARequeuedMessageAgainAfterItsCancellation(t *testing.T) {
	b := capped{apptest.New(t)}
	b.set(map[string]any{"notification_per_day": 1})
	first := b.accept(nil)
	b.Expect(200, "", "POST", "/api/v1/sms/task/"+first.TaskID+"/cancel", nil)
	second := b.accept(nil)
	a := b.Expect(429, "recipient.limited", "POST", apptest.RequeuePath(first.TaskID), nil)
	if after := a.Header.Get("Retry-After"); after == "" || a.Fields() != "phone_number" || !strings.Contains(a.Raw, `"retry_after_seconds":`+after) {
		t.Errorf("the requeue answers %s with Retry-After %q", a.Raw, after)
	}
	b.Expect(200, "", "POST", "/api/v1/sms/task/"+second.TaskID+"/cancel", nil)
	b.Expect(200, "", "POST", "/api/v1/sms/task/"+first.TaskID+"/requeue", map[string]any{})
	b.refuse(nil)
	b.Expect(429, "recipient.limited", "POST", apptest.RequeuePath(second.TaskID), nil)

	got := b.Claim("app", 10)
	if len(got) != 1 || got[0].TaskID != first.TaskID {
		t.Fatalf("claimed %v", got)
	}
	b.Report(got[0].TaskID, "app", 3, nil)
	b.Expect(200, "", "POST", "/api/v1/sms/task/"+first.TaskID+"/requeue", map[string]any{}) // it failed, and is still counted
	b.refuse(nil)
	if n := b.Count("SELECT cardinality(task_ids) FROM capped_recipients"); n != 1 {
		t.Errorf("%d messages are counted", n)
	}
}

// R5, R6: when quiet hours are removed or shortened, messages to one number are sent earlier, but no more than a cap allows. Each message counts for the time
// at which it is sent.
func TestMessagesStayWithinCapsWhenQuietHoursAreShortened(t *testing.T) {
	for name, c := range map[string]struct {
		shorten func(capped)
		first   time.Duration
	}{
		"removed":   {func(b capped) { b.SetHours("marketing", "") }, 0},
		"shortened": {func(b capped) { b.SetQuiet("marketing", -time.Hour, 2*time.Hour) }, 2 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			b := capped{apptest.New(t)}
			b.set(map[string]any{"marketing_per_hour": 1})
			b.SetQuiet("marketing", -time.Hour, 5*time.Hour)
			form := apptest.Form("file", "list.csv", "phone\n"+strings.Repeat(apptest.Phone+"\n", 3), "name", "n", "content", "sale", "message_type", "marketing",
				"auto_confirm", "true", "dedup", "none")
			b.Expect(200, "", "POST", "/api/v1/batches", form, "Content-Type", apptest.FormType)
			move := func(context.Context) (int, error) {
				b.Exec("UPDATE quiet_changes SET begins_at = now()")
				return b.App.Queue.MoveQuiet(t.Context())
			}
			run := func(jobs ...func(context.Context) (int, error)) {
				t.Helper()
				for _, job := range jobs {
					if _, err := job(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
			}
			run(b.App.Batches.Check, b.App.Batches.Feed, move)
			c.shorten(b)
			run(move)
			var last time.Time
			for i, due := range apptest.Scan[[]time.Time](b.Bundle, "SELECT array_agg(due_at ORDER BY due_at) FROM queue") {
				if i == 0 && time.Until(due) > c.first+30*time.Minute || i > 0 && due.Sub(last).Round(time.Second) != time.Hour {
					t.Errorf("message %d is due at %v, the one before at %v", i, due, last)
				}
				last = due
			}
			if n := b.Count("SELECT count(*) FROM queue q, capped_recipients c WHERE abs(extract(epoch FROM c.times[array_position(c.task_ids, q.task_id)] - q.due_at)) < 1"); n != 3 {
				t.Errorf("%d of 3 messages count for the time at which they leave", n)
			}
			b.refuse(map[string]any{"message_type": "marketing"})
		})
	}
}

// R6: a change of quiet hours is applied twice, because other servers can add tasks meanwhile. The second time changes nothing if they added none, however many
// tasks wait.
func TestAChangeOfQuietHoursKeepsTheOrderOfCappedMessages(t *testing.T) {
	b := capped{apptest.New(t)}
	b.set(map[string]any{"marketing_per_hour": 1})
	b.SetQuiet("marketing", -time.Hour, 5*time.Hour)
	list := "phone\n"
	for i := range 140 { // two messages to each of 70 people
		list += fmt.Sprintf("139%08d\n", i%70)
	}
	form := apptest.Form("file", "list.csv", list, "name", "n", "content", "sale", "message_type", "marketing", "auto_confirm", "true", "dedup", "none")
	b.Expect(200, "", "POST", "/api/v1/batches", form, "Content-Type", apptest.FormType)
	run := func(job func(context.Context) (int, error)) {
		t.Helper()
		if _, err := job(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	run(b.App.Batches.Check)
	run(b.App.Batches.Feed)
	run(b.App.Queue.MoveQuiet)
	b.SetHours("marketing", "")
	for pass := range 2 {
		b.Exec("UPDATE quiet_changes SET begins_at = now() WHERE id = (SELECT min(id) FROM quiet_changes)")
		run(b.App.Queue.MoveQuiet)
		if n := b.Count(`SELECT count(*) FROM queue f JOIN queue s USING (recipient)
			WHERE f.task_id < s.task_id AND f.due_at <= now() AND abs(extract(epoch FROM s.due_at - f.due_at) - 3600) < 1`); n != 70 {
			t.Errorf("after pass %d, %d of 70 people get one message now and one in an hour", pass+1, n)
		}
	}
}

// R6: messages that were held by a switch or a pause stay within caps after their release. Each message counts for its new due time.
func TestReleasedMessagesStayWithinCaps(t *testing.T) {
	patch := func(path, field string, off, on any) map[string]func(b capped, batch string) {
		set := func(value any) func(b capped, batch string) {
			return func(b capped, _ string) {
				b.Expect(200, "", "PATCH", path, map[string]any{field: value})
				b.run(b.App.Queue.FollowSwitches)
			}
		}
		return map[string]func(b capped, batch string){"hold": set(off), "release": set(on)}
	}
	act := func(action string) func(b capped, batch string) {
		return func(b capped, batch string) { b.Expect(200, "", "POST", batch+"/"+action, nil) }
	}
	for name, acts := range map[string]map[string]func(b capped, batch string){
		"company": patch("/api/v1/admin/companies/default", "status", "off", "on"),
		"channel": patch("/api/v1/admin/channels/sms", "status", "off", "on"),
		"batch":   {"hold": act("pause"), "release": act("resume")},
	} {
		for _, held := range []string{"5 seconds", "80 seconds", "132 seconds", "50 hours"} { // after a day, no cap counts the former due times
			t.Run(name+" "+held, func(t *testing.T) {
				b := capped{apptest.New(t)}
				b.set(map[string]any{"notification_per_minute": 1})
				form := apptest.Form("file", "list.csv", "phone\n"+strings.Repeat(apptest.Phone+"\n", 3), "name", "n", "content", "x", "message_type", "notification",
					"auto_confirm", "true", "dedup", "none")
				batch := b.Expect(200, "", "POST", "/api/v1/batches", form, "Content-Type", apptest.FormType)
				b.run(b.App.Batches.Check, b.App.Batches.Feed)
				at := fmt.Sprintf("/api/v1/batches/%d", apptest.Decode[api.Batch](t, batch).BatchID)
				acts["hold"](b, at)
				b.run(b.App.Batches.Feed)
				b.pass(held)
				b.Exec("UPDATE queue SET due_when_resumed = due_when_resumed - $1::interval", held)
				b.Exec("UPDATE capped_recipients SET last_on = (SELECT max(t) FROM unnest(times) t)::date")
				b.deleteExpired()
				released := time.Now()
				acts["release"](b, at)
				b.run(b.App.Batches.Feed)
				if got := b.ClaimIDs(10); len(got) > 1 {
					t.Errorf("claimed %v", got)
				}
				b.run(b.App.Queue.MoveQuiet)
				dues := apptest.Scan[[]time.Time](b.Bundle, "SELECT array_agg(due_at ORDER BY task_id) FROM queue")
				for i, due := range dues {
					if late := due.Sub(released) - time.Duration(i)*time.Minute; late < -time.Second || late > 10*time.Second {
						t.Errorf("message %d is due %v after the release", i, due.Sub(released))
					}
				}
				if n := b.Count("SELECT count(*) FROM queue q, capped_recipients c WHERE abs(extract(epoch FROM c.times[array_position(c.task_ids, q.task_id)] - q.due_at)) < 10"); n != 3 {
					t.Errorf("%d of 3 messages count for the time at which they leave: %v", n, dues)
				}
				if got := b.ClaimIDs(10); len(got) != 1 {
					t.Errorf("claimed %v", got)
				}
				b.refuse(nil)
			})
		}
	}
}

// R6: if several held messages to one person are released, a cap delays marketing messages, and not codes.
func TestOfReleasedMessagesThoseOfHighPriorityAreSentFirst(t *testing.T) {
	b := capped{apptest.New(t)}
	status := func(value string) {
		b.Expect(200, "", "PATCH", "/api/v1/admin/companies/default", map[string]any{"status": value})
		b.run(b.App.Queue.FollowSwitches)
	}
	sale := b.accept(map[string]any{"message_type": "marketing"}).TaskID
	code := b.accept(map[string]any{"message_type": "verification"}).TaskID
	status("off")
	b.set(map[string]any{"total_per_day": 1})
	status("on")
	b.run(b.App.Queue.MoveQuiet)
	if got := b.ClaimIDs(10); len(got) != 1 || got[0] != code {
		t.Errorf("claimed %v, want the code %s", got, code)
	}
	if due := b.Task(sale).DueAt; due == nil || time.Until(*due) < 23*time.Hour {
		t.Errorf("the marketing message is due at %v, want a day later", due)
	}
}

// R5, R6: a message that waits for the end of quiet hours counts at its due time. It takes no place of messages that are sent more than the length of the cap
// earlier. Within a day before, the total of 24 hours counts it.
func TestAMessageInQuietHoursIsCountedAtTheirEnd(t *testing.T) {
	b := capped{apptest.New(t)}
	b.SetQuiet("marketing", -time.Hour, 5*time.Hour)
	b.set(map[string]any{"marketing_per_hour": 1, "total_per_day": 2})
	sale := b.accept(map[string]any{"message_type": "marketing"}).TaskID
	b.accept(map[string]any{"message_type": "marketing", "priority": 0}) // has no quiet hours: sent five hours before the sale
	b.refuse(map[string]any{"message_type": "verification"})
	b.Expect(200, "", "POST", "/api/v1/sms/task/"+sale+"/cancel", map[string]any{})
	b.accept(map[string]any{"message_type": "verification"})
}

// R6: the release of messages without caps leaves no work to the sweep that moves tasks.
func TestReleasedMessagesWithoutCapsAreDueAtOnce(t *testing.T) {
	for name, set := range map[string]func(b capped){
		"no caps":         func(capped) {},
		"of another type": func(b capped) { b.set(map[string]any{"marketing_per_minute": 1, "verification_per_day": 1}) },
		"of another company": func(b capped) {
			b.set(map[string]any{"notification_per_minute": 1})
			b.Expect(200, "", "PATCH", "/api/v1/admin/companies/default", map[string]any{
				"recipient": map[string]any{"caps": map[string]any{"notification": map[string]any{"per_minute": 0}}},
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := capped{apptest.New(t)}
			set(b)
			ids := []string{b.accept(nil).TaskID, b.accept(nil).TaskID}
			for _, status := range []string{"off", "on"} {
				b.Expect(200, "", "PATCH", "/api/v1/admin/channels/sms", map[string]any{"status": status})
				b.run(b.App.Queue.FollowSwitches)
			}
			if got := b.ClaimIDs(10); len(got) != len(ids) {
				t.Errorf("claimed %v of %v", got, ids)
			}
		})
	}
}

// R6: a task that cannot be requeued is not counted, so that a cap allows the task behind it.
func TestATaskThatCannotBeRequeuedIsNotCounted(t *testing.T) {
	for name, prevent := range map[string]string{
		"expired": "UPDATE messages SET expires_at = now() WHERE task_id = $1",
		"refused": "UPDATE messages SET sender_no = 'gone' WHERE task_id = $1",
	} {
		t.Run(name, func(t *testing.T) {
			b := capped{apptest.New(t)}
			b.set(map[string]any{"notification_per_day": 1})
			var ids []string
			for range 3 {
				id := b.accept(nil).TaskID
				b.Expect(200, "", "POST", "/api/v1/sms/task/"+id+"/cancel", nil)
				ids = append(ids, id)
			}
			b.Exec(prevent, ids[0])
			requeued, refused, err := b.App.Tasks.RequeueEach(t.Context(), ids, "admin", "")
			if err != nil || requeued != 1 || refused[fault.TaskNotEnded] != 0 || refused[fault.RecipientLimited] != 1 {
				t.Errorf("requeued %d, refused %v, %v", requeued, refused, err)
			}
			if got := b.ClaimIDs(10); len(got) != 1 || got[0] != ids[1] {
				t.Errorf("claimed %v of %v", got, ids)
			}
			if n := b.Count("SELECT cardinality(task_ids) FROM capped_recipients"); n != 1 {
				t.Errorf("%d messages are counted", n)
			}
		})
	}
}

// R6: a message without caps has none when it is requeued: a reply, a forwarded message, and an alert.
func TestARequeueOfAnExemptMessageIsNotCounted(t *testing.T) {
	b := capped{apptest.New(t)}
	b.set(map[string]any{"notification_per_day": 1})
	b.accept(nil)
	origin := submit.Origin{User: "admin", CompanyID: access.DefaultCompany}
	var ids []string
	for _, sub := range []submit.Submission{{IsReply: true}, {IsUncapped: true}} {
		sub.PhoneNumber, sub.Content, sub.MessageType = apptest.Phone, "x", submit.Notification
		made, err := b.App.Submissions.Submit(t.Context(), sub, origin)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, made.TaskID)
	}
	rendering := apptest.Scan[int64](b.Bundle, "INSERT INTO renderings (title, content, channel_id) SELECT 't', 'x', id FROM channels WHERE channel = 'sms' RETURNING id")
	err := b.App.DB.Tx(t.Context(), func(ctx context.Context) error {
		made, err := b.App.Submissions.Enqueue(ctx, submit.Rendered{
			Channel: "sms", RenderingID: rendering, Content: "x", MessageType: submit.Notification, IsUrgent: true, Origin: origin,
		}, []submit.Person{{Address: apptest.Phone}})
		ids = append(ids, made...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		b.Expect(200, "", "POST", "/api/v1/sms/task/"+id+"/cancel", nil)
		b.Expect(200, "", "POST", "/api/v1/sms/task/"+id+"/requeue", nil)
	}
	if n := b.Count("SELECT cardinality(task_ids) FROM capped_recipients"); n != 1 {
		t.Errorf("%d messages are counted", n)
	}
}

// R5, R6: a cap that delays nothing changes nothing about quiet hours: the message is sent when quiet hours are switched off, and explain names them.
func TestACapThatIsNotReachedDoesNotChangeQuietHours(t *testing.T) {
	b := capped{apptest.New(t)}
	b.set(map[string]any{"marketing_per_day": 10})
	b.SetQuiet("marketing", -time.Hour, 5*time.Hour)
	move := func() {
		t.Helper()
		b.Exec("UPDATE quiet_changes SET begins_at = now()")
		if _, err := b.App.Queue.MoveQuiet(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	id := b.accept(map[string]any{"message_type": "marketing"}).TaskID
	move()
	if e := b.Explain(id); e.Reason != api.BecauseQuiet || !e.DueAt.After(time.Now().Add(4*time.Hour)) {
		t.Errorf("%+v", e)
	}
	b.SetHours("marketing", "")
	move()
	if e := b.Explain(id); !e.IsDue {
		t.Errorf("without quiet hours: %+v", e)
	}
}
