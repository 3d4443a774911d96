package notification_test

import (
	"strings"
	"testing"

	api "lksms/gen/client"
	"lksms/internal/dispatch/queue"
	"lksms/internal/testkit/apptest"
)

func TestS2_2_AnUnclearMessageIsSentAgainOnlyOnRequest(t *testing.T) {
	b, p, says := apptest.NewWeChat(t)
	says("<html>")
	if first := b.SendOnce(nil); first.OnUnclear != api.OnUnclearFail {
		t.Errorf("%+v", first)
	}
	one := onceBecomes(b, api.SendStatusFailed)
	if one.ErrorMessage == nil || !strings.HasPrefix(*one.ErrorMessage, "结果不明") {
		t.Errorf("%+v", one)
	}
	if e := b.Explain(one.TaskID); *e.OnUnclear != api.OnUnclearFail {
		t.Errorf("explained as %v", *e.OnUnclear)
	}
	says(`{"errcode":0,"msgid":7}`)
	b.SendOnce(nil)
	if n := apptest.SentToWeChat(p); n != 1 {
		t.Errorf("sent %d times", n)
	}
	b.SendOnce(map[string]any{"retry": true})
	onceBecomes(b, api.SendStatusSent)
	if n := apptest.SentToWeChat(p); n != 2 {
		t.Errorf("sent %d times", n)
	}
}

func TestAnUnclearMessageIsSentAgainIfOnUnclearIsRetry(t *testing.T) {
	b, p, says := apptest.NewWeChat(t)
	says("<html>")
	id := b.SendOnce(map[string]any{"on_unclear": "retry"}).TaskID
	apptest.Eventually(t, "the attempt is stored as unclear", func() bool {
		return b.Count("SELECT count(*) FROM deliveries WHERE task_id = $1", id) == 1
	})
	says(`{"errcode":0,"msgid":7}`)
	if got := b.Task(id); got.Status != api.TaskProcessing {
		t.Errorf("%+v", got)
	}
	b.Exec("UPDATE tasks SET lease_until = now() WHERE task_id = $1", id)
	b.Recover()
	b.Exec("UPDATE channels SET retry_minutes = NULL")
	b.AwaitStatus(id, queue.Success)
	if n := apptest.SentToWeChat(p); n != 2 {
		t.Errorf("sent %d times", n)
	}
}
