package queue_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/app"
	"lksms/internal/dispatch/queue/claim"
	"lksms/internal/testkit/apptest"
)

// owners counts tasks by the first word of their contents.
func owners(tasks []api.ClaimedTask) map[string]int {
	n := map[string]int{}
	for _, t := range tasks {
		n[strings.Fields(t.Content)[0]]++
	}
	return n
}

func TestClaimReturnsTheSmallestPriorityFirst(t *testing.T) {
	b := apptest.New(t)
	b.SubmitMany("marketing", 3, map[string]any{"message_type": "marketing"})
	b.SubmitMany("notification", 3, nil)
	b.SubmitMany("code", 3, map[string]any{"message_type": "verification"})
	b.SubmitMany("first", 1, map[string]any{"priority": 0})
	b.SubmitMany("last", 1, map[string]any{"priority": 9})
	var order []string
	for _, task := range b.Take("app", 100) {
		order = append(order, task.Content)
	}
	want := "first 0,code 0,code 1,code 2,notification 0,notification 1,notification 2,marketing 0,marketing 1,marketing 2,last 0"
	if got := strings.Join(order, ","); got != want {
		t.Errorf("order: %s", got)
	}
}

// A task of low priority waits for tasks of higher priority at most for the configured time.
func TestAgedTasksOfLowPriorityAreSent(t *testing.T) {
	b := apptest.New(t)
	b.SubmitMany("low", 2, map[string]any{"priority": 9})
	b.SubmitMany("high", 10, map[string]any{"priority": 5})
	b.Exec("UPDATE tasks SET due_at = now() - interval '61 minutes' WHERE content = 'low 0'")
	if n, err := b.App.Queue.Age(t.Context()); n != 1 || err != nil {
		t.Fatalf("aged %d, %v", n, err)
	}
	if got := b.Take("app", 1)[0].Content; got != "low 0" {
		t.Errorf("claimed first: %s", got)
	}
	b.Expect(200, "", "PUT", "/api/v1/admin/settings/queue", map[string]any{"priority_max_wait_seconds": 0})
	b.Exec("UPDATE tasks SET due_at = now() - interval '7 days' WHERE content = 'low 1'")
	if n, err := b.App.Queue.Age(t.Context()); n != 0 || err != nil {
		t.Errorf("aged %d although aging is off, %v", n, err)
	}
}

// Real-time messages have priority 0, priority 1 or the priority of verification codes. A task that has waited too long is sent after real-time messages.
// This rule applies to tasks of the same company and of another company. The rule applies to a task that was queued when it became too old, and to a task
// that became due at that age.
func TestRealTimeMessagesAreSentBeforeAgedTasks(t *testing.T) {
	for _, verification := range []int{1, 4} {
		t.Run(fmt.Sprint("verifications have priority ", verification), func(t *testing.T) {
			b := apptest.New(t)
			b.Expect(200, "", "PUT", "/api/v1/admin/settings/sms", map[string]any{"priority_verification": verification})
			other := b.AddCompany("other", 1)
			b.Exec("UPDATE users SET top_priority = 0")
			b.SubmitMany("old", 30, map[string]any{"message_type": "marketing"})
			b.SubmitMany("late", 30, map[string]any{"message_type": "marketing", "expect_send_time": time.Now().Add(time.Hour)}, other...)
			b.Exec("UPDATE tasks SET due_at = now() - interval '61 minutes'")
			if n, err := b.App.Queue.Age(t.Context()); n != 30 || err != nil {
				t.Fatalf("aged %d, %v", n, err)
			}
			if n, err := b.App.Queue.Queue(t.Context()); err != nil {
				t.Fatalf("queued %d, %v", n, err)
			}
			if n := b.Count("SELECT count(*) FROM queue WHERE lane IS NULL"); n != 0 {
				t.Fatalf("%d tasks are not queued", n)
			}
			b.SubmitMany("code", 10, map[string]any{"message_type": "verification"})
			b.SubmitMany("code", 10, map[string]any{"message_type": "verification"}, other...)
			b.SubmitMany("urgent", 5, map[string]any{"message_type": "marketing", "priority": 1})
			b.SubmitMany("news", 10, map[string]any{"message_type": "notification"})
			for i, task := range b.Take("app", 85) {
				word, _, _ := strings.Cut(task.Content, " ")
				want := "code urgent"
				if i >= 25 {
					want = "old late"
				}
				if !strings.Contains(want, word) {
					t.Errorf("position %d: %s, want one of %s", i, task.Content, want)
				}
			}
			// Age does not change a task a second time.
			if n, err := b.App.Queue.Age(t.Context()); n != 0 || err != nil {
				t.Errorf("aged again: %d, %v", n, err)
			}
		})
	}
}

func TestBacklogOfOneCompanyDoesNotDelayAnotherCompany(t *testing.T) {
	b := apptest.New(t)
	big, small := b.AddCompany("big", 1), b.AddCompany("small", 1)
	b.SubmitMany("big", 3000, nil, big...)
	b.Take("app", 100)
	b.SubmitMany("small", 50, nil, small...)
	if got := owners(b.Take("app", 100)); got["small"] < 48 {
		t.Errorf("of the next 100: %v", got)
	}
	// A company earns no credit while it has no tasks. It also has no debt for tasks that were claimed while no other company had tasks.
	b.Take("app", 1000)
	b.SubmitMany("small", 500, nil, small...)
	if got := owners(b.Take("app", 200)); got["small"] < 98 || got["small"] > 102 {
		t.Errorf("of the next 200: %v", got)
	}
}

func TestCompaniesReceiveSharesByWeight(t *testing.T) {
	b := apptest.New(t)
	weights := map[string]float64{"a": 1, "b": 2, "c": 5}
	for no, weight := range weights {
		b.SubmitMany(no, 1000, nil, b.AddCompany(no, weight)...)
	}
	got := map[string]int{}
	for range 8 {
		for no, n := range owners(b.Take("app", 100)) {
			got[no] += n
		}
	}
	for no, weight := range weights {
		if share := float64(got[no]) / 800; math.Abs(share-weight/8) > 0.02 {
			t.Errorf("%s has %.3f, should have %.3f", no, share, weight/8)
		}
	}
}

// After the queue was empty, a company has no debt for tasks that were claimed while no other company had tasks.
func TestAnEmptyQueueResetsTheSharesOfCompanies(t *testing.T) {
	b := apptest.New(t)
	busy, other := b.AddCompany("busy", 1), b.AddCompany("other", 1)
	b.SubmitMany("busy", 2000, nil, busy...)
	b.Take("app", 1000)
	b.Take("app", 1000)
	b.SubmitMany("other", 100, nil, other...)
	b.SubmitMany("busy", 100, nil, busy...)
	if got := owners(b.Take("app", 100)); got["busy"] < 48 {
		t.Errorf("of the next 100: %v", got)
	}
}

func TestS4_2_IntervalLimitsClaims(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "slow", "interval_ms": 60_000, "lease_seconds": 600})
	b.SubmitMany("x", 100, nil)
	var taken atomic.Int64
	apptest.Together(64, func(int) { taken.Add(int64(len(b.Take("slow", 3)))) })
	if taken.Load() != 3 {
		t.Errorf("64 concurrent polls claimed %d tasks, want one claim of 3", taken.Load())
	}
	ahead := apptest.Scan[float64](b, "SELECT extract(epoch FROM st.next_available_at - max(l.created_at)) FROM sender_states st, send_logs l GROUP BY st.next_available_at")
	if ahead != 180 {
		t.Errorf("after a claim of 3 the sender is available %v s later, want 180", ahead)
	}
	if s := b.GetSender("slow"); s.IsReady || s.NextAvailableAt == nil {
		t.Errorf("the sender is ready: %+v", s)
	}
	// S4.4: the shorter interval is counted from the previous claim.
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/slow", map[string]any{"interval_ms": 20_000})
	ahead = apptest.Scan[float64](b, "SELECT extract(epoch FROM st.next_available_at - max(l.created_at)) FROM sender_states st, send_logs l GROUP BY st.next_available_at")
	if ahead != 60 {
		t.Errorf("with an interval of 20 s the sender is available %v s after its claim, want 60", ahead)
	}
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/slow", map[string]any{"interval_ms": 1000})
	b.Exec("UPDATE sender_states SET next_available_at = now()")
	if got := len(b.Take("slow", 1000)); got != 97 { // all remaining tasks: 600 tasks would fit into the lease time
		t.Errorf("claimed %d, want 97", got)
	}
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/slow", map[string]any{"interval_ms": 60_000})
	b.SubmitMany("x", 100, nil)
	b.Exec("UPDATE sender_states SET next_available_at = now()")
	if got := len(b.Take("slow", 1000)); got != 10 {
		t.Errorf("claimed %d, want 10: one a minute, in a lease of ten minutes", got)
	}
}

func TestWaitingSenderReceivesATaskAfterItsInterval(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "slow", "interval_ms": 700})
	b.SubmitMany("x", 2, nil)
	if got := len(b.Take("slow", 1)); got != 1 {
		t.Fatalf("took %d", got)
	}
	began := time.Now()
	got := apptest.Decode[[]api.ClaimedTask](t, b.Expect(200, "", "POST", "/api/v1/sms/tasks/claim", map[string]any{"app_id": "slow", "limit": 1, "wait": 20}))
	if len(got) != 1 || time.Since(began) > 10*time.Second {
		t.Errorf("after %s: %v", time.Since(began), got)
	}
}

func TestS3_8_BalanceIsNeverOverdrawn(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "paid", "balance": 100, "low_warning": 50, "low_switch": 20})
	b.SubmitMany("short", 40, nil)
	b.SubmitMany(strings.Repeat("长", 100), 100, nil) // two segments each
	var granted atomic.Int64
	apptest.Together(64, func(int) { granted.Add(int64(len(b.Take("paid", 9)))) })
	s := b.GetSender("paid")
	if s.Balance == nil || *s.Balance > 20 || *s.Balance < 0 {
		t.Errorf("balance %d, want 0 to 20", *s.Balance)
	}
	used := b.Count("SELECT coalesce(sum(t.segments), 0) FROM tasks t WHERE t.status = 1")
	if int64(used) != 100-*s.Balance || int(granted.Load()) != b.Count("SELECT count(*) FROM tasks WHERE status = 1") {
		t.Errorf("%d segments were granted, and %d are left of 100", used, *s.Balance)
	}
	if sum, last := b.Count("SELECT sum(change) FROM sender_ledger"), b.Count("SELECT balance FROM sender_ledger ORDER BY id DESC LIMIT 1"); int64(sum) != *s.Balance || last != sum {
		t.Errorf("the ledger sums to %d, its last entry says %d, the balance %d", sum, last, *s.Balance)
	}
	if n := b.Count("SELECT count(*) FROM sender_ledger l JOIN send_logs s ON s.id = l.lease_id"); n != int(granted.Load()) {
		t.Errorf("ledger entries of %d leases, want %d", n, granted.Load())
	}
	for _, event := range []string{"sender.low_warning", "sender.low_switch"} {
		events := apptest.Decode[api.EventPage](t, b.Expect(200, "", "GET", "/api/v1/admin/events?subject=paid&event="+event, nil))
		if len(events.Items) != 1 {
			t.Errorf("%s: %d events", event, len(events.Items))
		}
	}
	b.Expect(422, "request.invalid", "POST", "/api/v1/admin/senders/paid/balance", map[string]any{"change": -1000})
	entry := apptest.Decode[api.LedgerEntry](t, b.Expect(200, "", "POST", "/api/v1/admin/senders/paid/balance", map[string]any{"change": 30, "remark": "invoice"}))
	if entry.Balance != *s.Balance+30 || *entry.By != apptest.Username || *entry.Remark != "invoice" {
		t.Errorf("entry: %+v", entry)
	}
	if got := len(b.Take("paid", 5)); got != 5 {
		t.Errorf("after the top-up: claimed %d, want 5", got)
	}
	ledger := apptest.Decode[api.LedgerPage](t, b.Expect(200, "", "GET", "/api/v1/admin/senders/paid/ledger?limit=3", nil))
	if len(ledger.Items) != 3 || ledger.NextCursor == nil || ledger.Items[0].Change >= 0 || ledger.Items[0].LeaseID == nil {
		t.Errorf("ledger: %+v", ledger)
	}
	// The balance of a sender without a balance begins with the first change of the balance.
	b.Claim("free", 1)
	b.Expect(200, "", "POST", "/api/v1/admin/senders/free/balance", map[string]any{"change": 2})
	if got := len(b.Take("free", 10)); got != 1 { // each task has two segments
		t.Errorf("with a balance of 2: claimed %d, want 1", got)
	}
}

// drain polls as each sender in turn until the queue is empty. It returns the number of tasks of each sender.
func drain(b *apptest.Bundle, senders ...string) map[string]int {
	b.T.Helper()
	got := map[string]int{}
	for {
		none := true
		for _, no := range senders {
			n := len(b.Take(no, 100))
			got[no] += n
			none = none && n == 0
		}
		if none {
			return got
		}
	}
}

func TestS3_9_EachReadySenderReceivesItsShare(t *testing.T) {
	b := apptest.New(t)
	for no, weight := range map[string]int{"three": 3, "two": 2, "one": 1, "off": 4} {
		b.AddSender(map[string]any{"sender_no": no, "is_shared": false})
		b.AddRoute("default", no, weight)
	}
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/off", map[string]any{"status": "off"})
	b.SubmitMany("x", 10_000, nil)
	got := drain(b, "one", "off", "two", "three")
	for no, share := range map[string]float64{"three": 3.0 / 6, "two": 2.0 / 6, "one": 1.0 / 6, "off": 0} {
		if math.Abs(float64(got[no])/10_000-share) > 0.02 {
			t.Errorf("%s has %d of 10000, should have %.0f", no, got[no], share*10_000)
		}
	}
	// If a sender is silent, has no quota left or has no balance left, the other senders receive its share. No task waits for this sender.
	b.Exec("UPDATE sender_states st SET seen_at = now() - interval '2 minutes' FROM senders s WHERE s.id = st.sender_id AND s.sender_no = 'three'")
	b.SubmitMany("x", 1000, nil)
	if got := drain(b, "one", "two"); got["one"]+got["two"] != 1000 || got["two"] < 620 || got["two"] > 710 {
		t.Errorf("with a silent sender: %v", got)
	}
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/two", map[string]any{"limits": map[string]any{"per_day": 1}})
	b.SubmitMany("x", 1000, nil)
	if got := drain(b, "one", "two"); got["one"] < 999 {
		t.Errorf("with a sender without quota: %v", got)
	}
	b.Expect(200, "", "POST", "/api/v1/admin/senders/two/balance", map[string]any{"change": 5})
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/two", map[string]any{"limits": map[string]any{"per_day": nil}, "low_switch": 5})
	b.SubmitMany("x", 1000, nil)
	if got := drain(b, "one", "two"); got["one"] != 1000 {
		t.Errorf("with a sender without funds: %v", got)
	}
}

func TestRoutesSendOnlyTasksOfTheirCompany(t *testing.T) {
	b := apptest.New(t)
	acme := b.AddCompany("acme", 1)
	b.Expect(200, "", "POST", "/api/v1/admin/countries", map[string]any{"country_no": "CN", "name": "中国", "dial_prefix": "86"})
	b.AddSender(map[string]any{"sender_no": "theirs", "is_shared": false})
	b.AddSender(map[string]any{"sender_no": "abroad", "is_shared": false})
	everywhere := b.AddRoute("acme", "abroad", 1)
	b.Expect(200, "", "POST", "/api/v1/admin/routes", map[string]any{"company_no": "acme", "message_type": "notification", "country_no": "CN", "sender_no": "theirs"})
	b.SubmitMany("acme", 1, nil, acme...)
	b.SubmitMany("abroad", 1, map[string]any{"phone_number": "+14155552671"}, acme...)
	b.SubmitMany("code", 1, map[string]any{"message_type": "verification"}, acme...)
	b.SubmitMany("default", 1, nil)
	for no, want := range map[string]string{"theirs": "acme 0", "abroad": "abroad 0"} {
		if got := b.Take(no, 10); len(got) != 1 || got[0].Content != want {
			t.Errorf("%s got %v", no, got)
		}
	}
	if got := owners(b.Take("anybody", 10)); got["code"] != 1 || got["default"] != 1 || len(got) != 2 {
		t.Errorf("the shared senders got %v", got)
	}
	// When the last route of a pool is deleted, its waiting tasks go to the shared senders.
	b.SubmitMany("left", 1, map[string]any{"phone_number": "+14155552671"}, acme...)
	if got := b.Take("anybody", 10); len(got) != 0 {
		t.Errorf("a shared sender claimed a task that has a route: %v", got)
	}
	b.Expect(200, "", "DELETE", fmt.Sprint("/api/v1/admin/routes/", everywhere.RouteNo), nil)
	if got := b.Take("anybody", 10); len(got) != 1 {
		t.Errorf("after the route was deleted, the shared senders got: %v", got)
	}
}

func TestRetryPrefersAnotherSender(t *testing.T) {
	b := apptest.New(t)
	for _, no := range []string{"one", "two"} {
		b.AddSender(map[string]any{"sender_no": no, "is_shared": false})
		b.AddRoute("default", no, 1)
	}
	b.Take("two", 1) // after a poll, the sender two is not silent
	b.Submit("x")
	id := b.Take("one", 1)[0].TaskID
	b.Report(id, "one", 3, apptest.Report{"should_retry": true, "retry_after_seconds": 0})
	if got := b.Take("one", 1); len(got) != 0 {
		t.Errorf("the sender that failed got the retry: %v", got)
	}
	if got := b.Take("two", 1); len(got) != 1 {
		t.Errorf("the retry did not go to the other sender")
	}
	b.Report(id, "two", 3, apptest.Report{"should_retry": true, "retry_after_seconds": 0})
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/one", map[string]any{"status": "off"})
	if got := b.Take("two", 1); len(got) != 1 {
		t.Errorf("the retry waits for a sender that is off")
	}
}

// A sender that is far ahead of its rivals can claim the tasks that failed with the rivals.
func TestTaskThatFailedWithOneSenderGoesToAnotherSender(t *testing.T) {
	for name, leave := range map[string]func(b *apptest.Bundle){
		"its attempt failed": func(b *apptest.Bundle) {
			b.Submit("x")
			id := b.Take("behind", 1)[0].TaskID
			b.Submit("y")
			b.Take("ahead", 1)
			b.Report(id, "behind", 3, apptest.Report{"should_retry": true, "retry_after_seconds": 0})
			if n, err := b.App.Queue.Queue(b.T.Context()); n != 1 || err != nil {
				b.T.Fatalf("queued %d, %v", n, err)
			}
		},
		"its quota is too small": func(b *apptest.Bundle) {
			b.Expect(200, "", "PATCH", "/api/v1/admin/senders/behind", map[string]any{"limits": map[string]any{"per_month": 1}})
			b.Submit(strings.Repeat("字", 100))
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := apptest.New(t)
			for _, no := range []string{"ahead", "behind"} {
				b.AddSender(map[string]any{"sender_no": no, "is_shared": false})
				b.AddRoute("default", no, 1)
			}
			b.Take("behind", 1) // this poll makes the sender named behind available
			b.SubmitMany("x", 8, nil)
			if got := b.Take("ahead", 100); len(got) != 8 {
				t.Fatalf("ahead claimed %d, want 8", len(got))
			}
			leave(b)
			if got := b.Take("ahead", 100); len(got) != 0 {
				t.Fatalf("ahead can claim more tasks before behind has polled: %v", got)
			}
			if got := b.Take("behind", 100); len(got) != 0 {
				t.Fatalf("behind claimed %v", got)
			}
			if got := b.Take("ahead", 100); len(got) != 1 {
				t.Errorf("the task that behind did not claim waits")
			}
		})
	}
}

func TestS3_2_ScheduledTasksAreSentWhenTheyAreDue(t *testing.T) {
	b := apptest.New(t)
	at := time.Now().Add(time.Hour).Truncate(time.Second)
	id := b.SubmitBody(map[string]any{"phone_number": apptest.Phone, "content": "later", "expect_send_time": at}).TaskID
	past := b.SubmitBody(map[string]any{"phone_number": apptest.Phone, "content": "at once", "expect_send_time": time.Now().Add(-time.Hour)}).TaskID
	if got := b.ClaimIDs(10); len(got) != 1 || got[0] != past {
		t.Errorf("claimed %v", got)
	}
	if task := b.Task(id); !task.DueAt.Equal(at) || task.ExpectSendTime == nil {
		t.Errorf("due at %s, want %s", task.DueAt, at)
	}
	b.Exec("UPDATE tasks SET due_at = now() - interval '1 second' WHERE task_id = $1", id)
	if n, err := b.App.Queue.Queue(t.Context()); n != 1 || err != nil {
		t.Fatalf("queued %d, %v", n, err)
	}
	if got := b.ClaimIDs(10); len(got) != 1 || got[0] != id {
		t.Errorf("claimed %v", got)
	}
	b.Expect(422, "request.invalid", "POST", "/api/v1/sms/send", map[string]any{"phone_number": apptest.Phone, "content": "x", "expect_send_time": "2199-01-01T00:00:00Z"})
}

// A company schedules many tasks for the same time. When they become due, the company receives only its share.
func TestScheduledTasksReceiveOnlyTheShareOfTheirCompany(t *testing.T) {
	b := apptest.New(t)
	big, small := b.AddCompany("big", 1), b.AddCompany("small", 1)
	b.SubmitMany("big", 2000, map[string]any{"expect_send_time": time.Now().Add(time.Hour)}, big...)
	b.Exec("UPDATE tasks SET due_at = now()")
	if n, err := b.App.Queue.Queue(t.Context()); n != 2000 || err != nil {
		t.Fatalf("queued %d, %v", n, err)
	}
	b.SubmitMany("small", 100, nil, small...)
	if got := owners(b.Take("app", 100)); got["small"] < 48 {
		t.Errorf("of the first 100: %v", got)
	}
}

func TestExpiredTasksFail(t *testing.T) {
	b := apptest.New(t)
	id := b.SubmitBody(map[string]any{"phone_number": apptest.Phone, "content": "code", "expires_at": time.Now().Add(time.Minute)}).TaskID
	held := b.SubmitBody(map[string]any{"phone_number": apptest.Phone, "content": "held", "expires_at": time.Now().Add(time.Minute), "priority": 0}).TaskID
	b.Take("app", 1)
	b.Exec("UPDATE tasks SET expires_at = now() - interval '1 second'")
	if got := b.ClaimIDs(10); len(got) != 0 {
		t.Errorf("an expired task was claimed: %v", got)
	}
	if n, err := b.App.Queue.Expire(t.Context()); n != 1 || err != nil {
		t.Fatalf("expired %d, %v", n, err)
	}
	task := b.Task(id)
	if task.Status != 3 || task.Result == nil || *task.Result != "已过期" {
		t.Errorf("expired: %+v", task)
	}
	events := apptest.Decode[[]api.TimelineEvent](t, b.Expect(200, "", "GET", "/api/v1/sms/task/"+id+"/timeline", nil))
	if last := events[len(events)-1]; last.Event != "expired" || *last.Effect != "expired" {
		t.Errorf("last event: %+v", last)
	}
	b.Report(held, "app", 2, nil) // the lease began before the expiry, so the sender can have sent the message
	if got := b.Task(held).Status; got != 2 {
		t.Errorf("the held task has status %d", got)
	}
	for _, bad := range []map[string]any{
		{"expires_at": time.Now().Add(-time.Second)},
		{"expires_at": time.Now().Add(time.Minute), "expect_send_time": time.Now().Add(time.Hour)},
	} {
		bad["phone_number"], bad["content"] = apptest.Phone, "x"
		if a := b.Expect(422, "request.invalid", "POST", "/api/v1/sms/send", bad); a.Fields() != "expires_at" {
			t.Errorf("wrong fields %s", a.Fields())
		}
	}
}

func TestS3_5_SegmentsIncludeTheSignature(t *testing.T) {
	b := apptest.New(t)
	b.Expect(200, "", "POST", "/api/v1/admin/countries", map[string]any{"country_no": "CN", "name": "中国", "dial_prefix": "86", "signature_required": true})
	if a := b.Expect(422, "request.invalid", "POST", "/api/v1/sms/send", map[string]any{"phone_number": apptest.Phone, "content": "x"}); a.Fields() != "sign" {
		t.Errorf("wrong fields %s", a.Fields())
	}
	id := b.SubmitBody(map[string]any{"phone_number": apptest.Phone, "content": strings.Repeat("长", 66), "sign": "示例公司"}).TaskID
	if task := b.Task(id); task.Segments != 2 || *task.Sign != "示例公司" || *task.CountryNo != "CN" {
		t.Errorf("%+v", task)
	}
	if got := b.Take("app", 1)[0].Content; !strings.HasPrefix(got, "【示例公司】长") {
		t.Errorf("claimed: %s", got)
	}
	b.SubmitBody(map[string]any{"phone_number": "+14155552671", "content": "abroad"})
	b.AddSender(map[string]any{"sender_no": "signs", "sign": "默认", "balance": 10, "segment_size": 4})
	if got := b.Take("signs", 1); len(got) != 1 || got[0].Content != "【默认】abroad" {
		t.Errorf("claimed: %v", got)
	}
	if got := *b.GetSender("signs").Balance; got != 7 {
		t.Errorf("10 characters in segments of 4: balance %d, want 7", got)
	}
}

// raceFor makes senders wait in the given order, submits text, and returns the sender that received the task.
func raceFor(b *apptest.Bundle, text string, senders ...string) string {
	b.T.Helper()
	ctx, enough := context.WithCancel(b.T.Context())
	defer enough()
	won := make(chan string, len(senders))
	var all sync.WaitGroup
	defer all.Wait()
	defer enough()
	for i, appID := range senders {
		all.Go(func() {
			rows, err := b.App.Queue.ClaimOrWait(ctx, claim.Request{SenderNo: appID, Limit: 1}, 20*time.Second)
			if err == nil && len(rows) == 1 {
				won <- appID
			}
		})
		apptest.Eventually(b.T, appID+" waits", func() bool { return b.App.Queue.Waiting() == i+1 })
	}
	// A poll that began before all of them waited can still wake a sender for a former task. The second poll from now begins after it has ended.
	before := b.Polls()
	apptest.Eventually(b.T, "the senders wait after a poll that found no task", func() bool {
		return b.Polls() >= before+2 && b.App.Queue.Waiting() == len(senders)
	})
	b.Submit(text)
	select {
	case appID := <-won:
		return appID
	case <-time.After(time.Minute):
		b.T.Fatalf("no sender got the task %q", text)
		return ""
	}
}

func TestS4_3_LeastUsedWaitingSenderIsWokenFirst(t *testing.T) {
	b := apptest.New(t)
	other := apptest.Open(t, apptest.DefaultRules, func(o *app.Options) { o.DatabaseURL = b.App.DB.Pool().Config().ConnString() })
	limit := func(no string, perDay int) {
		b.AddSender(map[string]any{"sender_no": no, "limits": map[string]any{"per_day": perDay}})
	}
	limit("half", 10)
	limit("quarter", 20)
	b.SubmitMany("x", 23, nil)
	for no, n := range map[string]int{"half": 5, "quarter": 5, "often": 3, "seldom": 1, "preferred": 8} {
		if got := len(other.Take(no, n)); got != n {
			t.Fatalf("%s claimed %d of %d tasks", no, got, n)
		}
	}
	b.Take("often", 1)
	for _, c := range []struct {
		name, want string
		senders    []string
	}{
		{"by the used share of the daily limit", "quarter", []string{"half", "quarter"}},
		{"by the tasks claimed today", "seldom", []string{"often", "seldom"}},
		{"tasks count at once", "seldom", []string{"often", "seldom"}},
		{"a sender without a limit has used no share of it", "often", []string{"half", "often"}},
		{"sort goes first", "preferred", []string{"half", "seldom", "preferred"}},
	} {
		if c.want == "preferred" {
			b.Expect(200, "", "PATCH", "/api/v1/admin/senders/preferred", map[string]any{"sort": 2})
		}
		if got := raceFor(b, c.name, c.senders...); got != c.want {
			t.Errorf("%s: the task was claimed by %s", c.name, got)
		}
	}
	if _, err := b.App.History.Fold(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := raceFor(b, "folded", "preferred", "half", "often", "seldom"); got != "preferred" {
		t.Errorf("folded: the task was claimed by %s", got)
	}
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/preferred", map[string]any{"sort": 0})
	// The other server can still use usage data that is older than the change. It reads new data within seconds.
	apptest.Eventually(t, "on the other server, folded, the task goes to seldom", func() bool {
		return raceFor(other, "folded", "preferred", "often", "seldom") == "seldom"
	})
}

// A limit or a used-up share can prevent the first waiting sender from claiming a task. Then the next waiting sender receives the task.
func TestTaskForbiddenForTheFirstWaitingSenderGoesToTheNextSender(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "small", "sort": 9, "limits": map[string]any{"per_day": 1}})
	b.AddSender(map[string]any{"sender_no": "smaller", "sort": 8, "limits": map[string]any{"per_day": 1}})
	for range 3 {
		if got := raceFor(b, strings.Repeat("x", 200), "small", "smaller", "large"); got != "large" {
			t.Errorf("the task was claimed by %s", got)
		}
	}
}

func TestS4_3_AttemptsAndSentMessagesAreCounted(t *testing.T) {
	b := apptest.New(t)
	b.SubmitMany("x", 4, nil)
	for i, task := range b.Take("app", 4) {
		if i < 3 {
			b.Report(task.TaskID, "app", 2+i%2, nil)
		}
	}
	if _, err := b.App.History.Fold(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := b.GetSender("app"); s.Attempts != 4 || s.TotalSent != 2 || s.SentAt == nil {
		t.Errorf("%d attempts, %d sent at %v", s.Attempts, s.TotalSent, s.SentAt)
	}
	b.Submit("x")
	b.Take("tries", 1)
	if _, err := b.App.History.Fold(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := b.GetSender("tries"); s.Attempts != 1 || s.TotalSent != 0 || s.SentAt != nil {
		t.Errorf("%d attempts, %d sent at %v", s.Attempts, s.TotalSent, s.SentAt)
	}
	b.Expect(409, "in_use", "DELETE", "/api/v1/admin/senders/tries", nil)
}

// A sender that waits for many pools receives the tasks of every pool, including tasks that other servers stored.
func TestSenderReceivesTasksOfAllItsPools(t *testing.T) {
	b := apptest.New(t)
	b.Exec(`WITH made AS (INSERT INTO companies (company_no, name) SELECT 'c' || i, 'c' FROM generate_series(1, 700) i RETURNING id),
		pool AS (INSERT INTO pools (channel_id, company_id, message_type) SELECT 1, made.id, 1 FROM made RETURNING id),
		sender AS (INSERT INTO senders (sender_no, name, is_shared) VALUES ('wide', 'wide', false) RETURNING id),
		state AS (INSERT INTO sender_states (sender_id) SELECT sender.id FROM sender)
		INSERT INTO routes (pool_id, sender_id) SELECT pool.id, sender.id FROM pool, sender`)
	ctx, enough := context.WithCancel(t.Context())
	taken := make(chan int, 1000)
	var all sync.WaitGroup
	defer all.Wait()
	defer enough()
	all.Go(func() {
		for ctx.Err() == nil {
			rows, _ := b.App.Queue.ClaimOrWait(ctx, claim.Request{SenderNo: "wide", Limit: 3}, 20*time.Second)
			taken <- len(rows)
		}
	})
	apptest.Eventually(t, "the sender waits", func() bool { return b.App.Queue.Waiting() == 1 })
	// The statement stores tasks like another server: it wakes no sender here. Half of the tasks are queued, the other half are not. Their number exceeds the
	// limit of one walk.
	b.Exec(`INSERT INTO tasks (task_id, phone_number, recipient, content, company_id, pool_id, lane, rank, due_at)
		SELECT 'task_' || p.id, '13800138000', '+8613800138000', 'x', p.company_id, p.id, CASE WHEN p.id % 2 = 0 THEN 160 END, CASE WHEN p.id % 2 = 0 THEN 0 END, now()
		FROM pools p WHERE p.company_id IS NOT NULL`)
	for n := 0; n < 700; {
		select {
		case got := <-taken:
			n += got
		case <-time.After(time.Minute):
			t.Fatalf("%d of 700 tasks were found", n)
		}
	}
}

// A new task wakes a sender that is allowed to claim it, although other senders have waited longer.
func TestNewTaskWakesAnAllowedSender(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "routed", "is_shared": false})
	b.AddRoute("default", "routed", 1)
	const others = 40
	var all sync.WaitGroup
	for i := range others {
		all.Go(func() {
			b.Expect(200, "", "POST", "/api/v1/sms/tasks/claim", map[string]any{"app_id": fmt.Sprint("shared-", i), "wait": 3})
		})
	}
	waiting := func(n int) func() bool {
		return func() bool { return b.Count("SELECT count(*) FROM senders WHERE sender_no LIKE 'shared-%'") >= n }
	}
	apptest.Eventually(t, "the others wait", waiting(others))
	took := make(chan time.Time, 1)
	all.Go(func() {
		if got := apptest.Decode[[]api.ClaimedTask](t, b.Expect(200, "", "POST", "/api/v1/sms/tasks/claim", map[string]any{"app_id": "routed", "wait": 20})); len(got) == 1 {
			took <- time.Now()
		}
		close(took)
	})
	apptest.Eventually(t, "the routed sender has polled", func() bool {
		return b.Count("SELECT count(*) FROM sender_states st JOIN senders s ON s.id = st.sender_id WHERE s.sender_no = 'routed' AND st.seen_at IS NOT NULL") == 1
	})
	began := time.Now()
	b.Submit("x")
	if at, ok := <-took; !ok || at.Sub(began) > 2*time.Second {
		t.Errorf("the routed sender got the task after %s", at.Sub(began))
	}
	all.Wait()
}

// A row lock writes WAL, so its commit waits for the disk. A thousand senders poll repeatedly before they are ready, so an empty claim must lock nothing.
func TestEmptyClaimLocksNoRow(t *testing.T) {
	b := apptest.New(t)
	b.AddCompany("acme", 1)
	for no, change := range map[string]map[string]any{
		"paced": {"interval_ms": 60_000}, "used-up": {"limits": map[string]any{"per_hour": 1}}, "poor": {"balance": 1},
	} {
		change["sender_no"] = no
		b.AddSender(change)
		b.AddRoute("acme", no, 1)
		b.SubmitMany("x", 2, nil, b.AddUser("by-"+no, "submit", map[string]any{"company_no": "acme"})...)
		if got := len(b.Take(no, 1)); got != 1 {
			t.Fatalf("%s took %d", no, got)
		}
		if got := len(b.Take(no, 1)); got != 0 {
			t.Fatalf("%s claimed %d more tasks", no, got)
		}
	}
	// If the pools of a sender are empty, its claim also locks no row.
	b.AddSender(map[string]any{"sender_no": "idle"})
	b.AddCompany("quiet", 1)
	b.AddRoute("quiet", "idle", 1)
	b.Take("idle", 1)
	b.Take("idle", 1)
	// xmax of a row is the last transaction that locked the row. After a claim that leased a task, xmin is the same transaction, because the claim wrote the
	// row.
	locked := b.Count(`SELECT count(*) FROM (SELECT xmin, xmax FROM sender_states UNION ALL SELECT xmin, xmax FROM routes) x WHERE xmax NOT IN ('0', xmin)`)
	if locked > 0 {
		t.Errorf("%d rows were locked", locked)
	}
}

// Planning a claim takes as long as running the claim, so its plan is reused.
func TestClaimsReuseTheirQueryPlan(t *testing.T) {
	b := apptest.New(t)
	b.SubmitMany("x", 500, nil)
	for i := range 12 {
		b.Take("app", 1+i)
	}
	again := 0
	for _, conn := range b.DB.AcquireAllIdle(t.Context()) {
		var n int
		err := conn.QueryRow(t.Context(), "SELECT coalesce(sum(custom_plans), 0) FROM pg_prepared_statements WHERE statement LIKE '-- name: TaskOffer %'").Scan(&n)
		conn.Release()
		if err != nil {
			t.Fatal(err)
		}
		again += n
	}
	if again > 0 {
		t.Errorf("%d of 12 claims were planned anew", again)
	}
}
