package queue_test

import (
	"fmt"
	"strings"
	"testing"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
)

func TestExplain(t *testing.T) {
	b := apptest.New(t)
	explain := func(id string) api.Explanation {
		t.Helper()
		return apptest.Decode[api.Explanation](t, b.Expect(200, "", "GET", "/api/v1/sms/task/"+id+"/explain", nil))
	}
	b.SubmitMany("before", 3, map[string]any{"message_type": "marketing"})
	id := b.SubmitBody(map[string]any{"phone_number": apptest.Phone, "content": "x", "message_type": "marketing"}).TaskID
	if e := explain(id); e.Reason != "no_sender" || e.Ahead == nil || *e.Ahead != 3 || e.Summary != "It waits, and no sender can take it now; 3 go before it." {
		t.Errorf("without a sender: %+v", e)
	}
	for no, body := range map[string]map[string]any{
		"good": {}, "poor": {"balance": 5, "low_switch": 5}, "off": {"status": "off"}, "full": {"limits": map[string]any{"per_day": 0}},
		"tired": {}, "silent": {},
	} {
		body["sender_no"], body["is_shared"] = no, false
		b.AddSender(body)
		b.AddRoute("default", no, 2)
	}
	routed := b.Submit("y")
	b.Exec("UPDATE sender_states SET seen_at = now()")
	b.Exec("UPDATE sender_states st SET seen_at = NULL FROM senders s WHERE s.id = st.sender_id AND s.sender_no = 'silent'")
	b.Exec("UPDATE sender_states st SET next_available_at = now() + interval '1 hour' FROM senders s WHERE s.id = st.sender_id AND s.sender_no = 'tired'")
	e := explain(routed)
	why := map[string]string{}
	for _, s := range e.Senders {
		if s.Why != nil {
			why[s.SenderNo] = string(*s.Why)
		} else {
			why[s.SenderNo] = fmt.Sprint(s.CanTake)
		}
	}
	if got := fmt.Sprint(why); got != "map[full:no_quota good:true off:off poor:no_funds silent:silent tired:paused]" || e.Reason != "queued" || !e.Routed || e.Senders[0].SenderNo != "good" {
		t.Errorf("%s: %+v", got, e)
	}
	b.Take("good", 1)
	if e := explain(routed); e.Reason != "processing" {
		t.Errorf("held: %+v", e)
	}
	b.Report(routed, "good", 3, apptest.Report{"should_retry": true})
	if e := explain(routed); e.Reason != "retry_later" || e.IsDue {
		t.Errorf("failed: %+v", e)
	}
	b.Expect(404, "task.not_found", "GET", "/api/v1/sms/task/none/explain", nil)
	a := b.Call("GET", "/api/v1/sms/task/"+id+"/explain", nil, "Accept-Language", "zh")
	if !strings.Contains(a.Raw, "前面还有 3 条") {
		t.Errorf("in Chinese: %s", a.Raw)
	}
}

func TestDryRunCreatesNothing(t *testing.T) {
	b := apptest.New(t)
	b.Expect(200, "", "POST", "/api/v1/admin/default-sms", map[string]any{"phone_number": apptest.Phone, "content": "default"})
	rows := func() int {
		return b.Count("SELECT (SELECT count(*) FROM tasks) + (SELECT count(*) FROM receive_logs) + (SELECT count(*) FROM default_contents WHERE is_sent)")
	}
	dry := func(status int, body map[string]any) string {
		t.Helper()
		a := b.Call("POST", "/api/v1/sms/send?dry_run=true", body, "Idempotency-Key", "one")
		if a.Status != status {
			t.Errorf("%v: %s", body, a.Raw)
		}
		return a.Raw
	}
	if got := dry(200, map[string]any{"phone_number": "138-0013-8000", "content": strings.Repeat("长", 100), "sign": "签"}); !strings.Contains(got, `"segments":2`) ||
		!strings.Contains(got, `"recipient":"+8613800138000"`) || !strings.Contains(got, `"verdict":"would_wait"`) {
		t.Errorf("%s", got)
	}
	if got := dry(200, map[string]any{"phone_number": apptest.Phone}); !strings.Contains(got, `"final_content":"default"`) {
		t.Errorf("%s", got)
	}
	dry(422, map[string]any{"phone_number": "123", "content": "x"})
	if n := rows(); n != 0 {
		t.Errorf("%d rows were written", n)
	}
	b.Claim("app", 1)
	b.Exec("UPDATE sender_states SET seen_at = now()")
	if got := dry(200, map[string]any{"phone_number": apptest.Phone, "content": "x"}); !strings.Contains(got, `"verdict":"would_send"`) {
		t.Errorf("%s", got)
	}
	b.Expect(200, "", "POST", "/api/v1/sms/send", map[string]any{"phone_number": apptest.Phone, "content": "x", "dedup_key": "k"}, "Idempotency-Key", "one")
	if got := dry(200, map[string]any{"phone_number": apptest.Phone, "content": "x", "dedup_key": "k"}); !strings.Contains(got, `"verdict":"would_repeat"`) {
		t.Errorf("%s", got)
	}
}
