package task_test

import (
	"strconv"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/dispatch/queue"
	"lksms/internal/testkit/apptest"
)

// A task shows when it could first be claimed, and how long it waited for its first claim. It also shows how long it was processed, including retries,
// releases and a requeue.
func TestTaskShowsItsWaitAndItsDuration(t *testing.T) {
	b := apptest.New(t)
	get := func(id string) api.TaskDetail {
		t.Helper()
		return apptest.Decode[api.TaskDetail](t, b.Expect(200, "", "GET", "/api/v1/sms/task/"+id, nil))
	}
	around := func(what string, got *float64, want float64) {
		t.Helper()
		if got == nil || *got < want || *got > want+30 {
			t.Errorf("%s: %v s, want %v", what, optionalText(got), want)
		}
	}
	back := func(seconds int) { // moves all earlier events into the past
		t.Helper()
		b.Exec("UPDATE queue SET entered_at = entered_at - make_interval(secs => $1), due_at = due_at - make_interval(secs => $1), updated_at = updated_at - make_interval(secs => $1)", seconds)
		b.Exec("UPDATE report_logs SET entered_at = entered_at - make_interval(secs => $1), leased_at = leased_at - make_interval(secs => $1), created_at = created_at - make_interval(secs => $1)", seconds)
	}
	id := b.Submit("x")
	back(100)
	d := get(id)
	around("waiting", d.WaitSeconds, 100)
	if d.QueuedAt == nil || d.FirstClaimedAt != nil || d.TotalSeconds != nil {
		t.Errorf("waiting: %+v", d)
	}
	lease := b.Claim("a", 1)[0]
	around("leased", get(id).WaitSeconds, 100)
	if d = get(id); d.FirstClaimedAt == nil || d.TotalSeconds != nil {
		t.Errorf("leased: %+v", d)
	}
	if _, err := b.App.Queue.Release(t.Context(), "a", []queue.Unused{{TaskID: id, LeaseID: lease.LeaseID}}); err != nil {
		t.Fatal(err)
	}
	back(1000)
	b.Claim("a", 1)
	b.Report(id, "a", 3, apptest.Report{"should_retry": true})
	b.Exec("UPDATE queue SET due_at = now()")
	b.Claim("a", 1)
	around("leased again", get(id).WaitSeconds, 100)
	b.Report(id, "a", 3, apptest.Report{"should_retry": false})
	if d = get(id); d.Status != 3 || d.FirstClaimedAt == nil {
		t.Errorf("ended: %+v", d)
	}
	around("ended", d.WaitSeconds, 100)
	around("ended", d.TotalSeconds, 1100)

	b.Exec("UPDATE report_logs SET outcome = NULL")
	b.Exec(`INSERT INTO queue (task_id, pool_id, company_id, message_type, priority, segments, phone_number, recipient, content, was_claimed)
		SELECT task_id, pool_id, company_id, message_type, priority, segments, phone_number, recipient, content, true FROM messages`)
	if d = get(id); d.FirstClaimedAt != nil || d.TotalSeconds != nil {
		t.Errorf("requeued: %+v", d)
	}
	around("requeued", d.WaitSeconds, 0)

	later := b.SubmitBody(map[string]any{"phone_number": apptest.Phone, "content": "x", "expect_send_time": time.Now().Add(time.Hour)}).TaskID
	if d = get(later); d.QueuedAt != nil || d.WaitSeconds != nil {
		t.Errorf("not due: %+v", d)
	}
	b.Exec("UPDATE queue SET entered_at = now() - interval '50 seconds', due_at = now() WHERE task_id = $1", later)
	b.Expect(200, "", "POST", "/api/v1/sms/task/"+later+"/cancel", nil)
	d = get(later)
	around("never claimed", d.WaitSeconds, 50)
	around("never claimed", d.TotalSeconds, 50)

	b.Exec("UPDATE report_logs SET entered_at = NULL")
	if d = get(later); d.QueuedAt != nil || d.WaitSeconds != nil || d.TotalSeconds != nil {
		t.Errorf("of an older version: %+v", d)
	}
}

func optionalText(seconds *float64) string {
	if seconds == nil {
		return "no"
	}
	return strconv.FormatFloat(*seconds, 'f', 3, 64)
}
