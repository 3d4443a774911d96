package app_test

import (
	"strings"
	"testing"

	"lksms/gen/api"
	"lksms/internal/queue"
)

func (b *testBundle) explain(id string) api.Explanation {
	b.t.Helper()
	return decode[api.Explanation](b.t, b.expect(200, "", "GET", "/api/v1/sms/task/"+id+"/explain", nil))
}

func TestASenderMayFailWhatIsUnclear(t *testing.T) {
	b, p := pushing(t, map[string]any{"on_unclear": "fail", "balance": 5})
	p.says(200, "<html>")
	id := b.submit("x")
	b.becomes(id, queue.Failed)
	if got := b.task(id); got.Result == nil || !strings.HasPrefix(*got.Result, "结果不明") || got.RetryCount != 0 {
		t.Errorf("%+v", got)
	}
	if n := b.count("SELECT count(*) FROM deliveries WHERE task_id = $1 AND error <> ''", id); n != 1 {
		t.Errorf("%d rows say why", n)
	}
	if s := b.getSender("pushed"); s.OnUnclear != api.OnUnclearFail || *s.Consumed != 1 { // it may have gone out
		t.Errorf("sender %+v", s)
	}
	if e := b.explain(id); e.OnUnclear == nil || *e.OnUnclear != api.OnUnclearFail {
		t.Errorf("explained as %+v", e.OnUnclear)
	}
	if got := p.seen(); len(got) != 1 {
		t.Errorf("sent %d times", len(got))
	}
}

// Also of a lease that ran out nobody knows whether its message went out.
func TestALeaseThatRanOutMayBeTheLast(t *testing.T) {
	b := setup(t)
	b.sender(map[string]any{"sender_no": "once", "on_unclear": "fail"})
	b.sender(map[string]any{"sender_no": "again"})
	last, next := b.submit("1"), b.submit("2")
	if e := b.explain(last); e.OnUnclear != nil {
		t.Errorf("a task that nobody holds: %v", *e.OnUnclear)
	}
	b.take("once", 1)
	b.take("again", 1)
	if e := b.explain(next); e.OnUnclear == nil || *e.OnUnclear != api.OnUnclearRetry {
		t.Errorf("explained as %+v", e.OnUnclear)
	}
	b.expire()
	if n := b.recover(); n != 2 {
		t.Errorf("%d leases ran out", n)
	}
	b.expectEffects(last, "recovered unclear")
	b.expectEffects(next, "recovered retry")
	if got := b.task(last); got.Status != api.TaskFailed || !strings.Contains(*got.Result, "结果不明") {
		t.Errorf("%+v", got)
	}
	b.expect(422, "request.invalid", "PATCH", "/api/v1/admin/senders/once", map[string]any{"on_unclear": "perhaps"})
	b.expect(200, "", "PATCH", "/api/v1/admin/senders/once", map[string]any{"on_unclear": "retry"})
	if s := b.getSender("once"); s.OnUnclear != api.OnUnclearRetry {
		t.Errorf("changed to %v", s.OnUnclear)
	}
}

func TestS2_2_WhatIsUnclearIsNotSentAgainUnlessSomebodyAsks(t *testing.T) {
	b, p, says := weChatting(t)
	says("<html>")
	if first := b.once(nil); first.OnUnclear != api.OnUnclearFail {
		t.Errorf("%+v", first)
	}
	one := b.onceBecomes(api.SendStatusFailed)
	if one.ErrorMessage == nil || !strings.HasPrefix(*one.ErrorMessage, "结果不明") {
		t.Errorf("%+v", one)
	}
	if e := b.explain(one.TaskID); *e.OnUnclear != api.OnUnclearFail {
		t.Errorf("explained as %v", *e.OnUnclear)
	}
	says(`{"errcode":0,"msgid":7}`)
	b.once(nil)
	if n := sentToWeChat(p); n != 1 {
		t.Errorf("sent %d times", n)
	}
	b.once(map[string]any{"retry": true})
	b.onceBecomes(api.SendStatusSent)
	if n := sentToWeChat(p); n != 2 {
		t.Errorf("sent %d times", n)
	}
}

func TestAMessageThatIsSentOnceMaySayToTryAgain(t *testing.T) {
	b, p, says := weChatting(t)
	says("<html>")
	id := b.once(map[string]any{"on_unclear": "retry"}).TaskID
	eventually(t, "it is known to be unclear", func() bool {
		return b.count("SELECT count(*) FROM deliveries WHERE task_id = $1", id) == 1
	})
	says(`{"errcode":0,"msgid":7}`)
	if got := b.task(id); got.Status != api.TaskProcessing {
		t.Errorf("%+v", got)
	}
	b.exec("UPDATE tasks SET lease_until = now() WHERE task_id = $1", id)
	b.recover()
	b.exec("UPDATE channels SET retry_minutes = NULL")
	b.becomes(id, queue.Success)
	if n := sentToWeChat(p); n != 2 {
		t.Errorf("sent %d times", n)
	}
}
