package queue_test

import (
	"strings"
	"testing"

	api "lksms/gen/client"
	"lksms/internal/dispatch/queue"
	"lksms/internal/testkit/apptest"
)

func TestUnclearAttemptFailsTheTaskOfASenderWithOnUnclearFail(t *testing.T) {
	b, p := apptest.NewPushing(t, map[string]any{"on_unclear": "fail", "balance": 5})
	p.Says(200, "<html>")
	id := b.Submit("x")
	b.AwaitStatus(id, queue.Failed)
	if got := b.Task(id); got.Result == nil || !strings.HasPrefix(*got.Result, "结果不明") || got.RetryCount != 0 {
		t.Errorf("%+v", got)
	}
	if n := b.Count("SELECT count(*) FROM deliveries WHERE task_id = $1 AND error <> ''", id); n != 1 {
		t.Errorf("%d deliveries have a reason, want 1", n)
	}
	if s := b.GetSender("pushed"); s.OnUnclear != api.OnUnclearFail || *s.Consumed != 1 { // charged, because the message was possibly sent
		t.Errorf("sender %+v", s)
	}
	if e := b.Explain(id); e.OnUnclear == nil || *e.OnUnclear != api.OnUnclearFail {
		t.Errorf("explained as %+v", e.OnUnclear)
	}
	if got := p.Seen(); len(got) != 1 {
		t.Errorf("sent %d times", len(got))
	}
}

// When a lease expires, it is also unknown whether the message was sent.
func TestExpiredLeaseFailsTheTaskIfOnUnclearIsFail(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "once", "on_unclear": "fail"})
	b.AddSender(map[string]any{"sender_no": "again"})
	last, next := b.Submit("1"), b.Submit("2")
	if e := b.Explain(last); e.OnUnclear != nil {
		t.Errorf("a task without a lease: %v", *e.OnUnclear)
	}
	b.Take("once", 1)
	b.Take("again", 1)
	if e := b.Explain(next); e.OnUnclear == nil || *e.OnUnclear != api.OnUnclearRetry {
		t.Errorf("explained as %+v", e.OnUnclear)
	}
	b.ExpireLeases()
	if n := b.Recover(); n != 2 {
		t.Errorf("recovered %d leases, want 2", n)
	}
	b.ExpectEffects(last, "recovered unclear")
	b.ExpectEffects(next, "recovered retry")
	if got := b.Task(last); got.Status != api.TaskFailed || !strings.Contains(*got.Result, "结果不明") {
		t.Errorf("%+v", got)
	}
	b.Expect(422, "request.invalid", "PATCH", "/api/v1/admin/senders/once", map[string]any{"on_unclear": "perhaps"})
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/once", map[string]any{"on_unclear": "retry"})
	if s := b.GetSender("once"); s.OnUnclear != api.OnUnclearRetry {
		t.Errorf("changed to %v", s.OnUnclear)
	}
}
