package task_test

import (
	"fmt"
	"strings"
	"testing"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
)

func TestExplanationContainsTheReasonOfEachState(t *testing.T) {
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

func TestTasksAheadIncludeCompaniesOfEqualRank(t *testing.T) {
	b := apptest.New(t)
	var ids []string
	for i := range 3 {
		no := fmt.Sprint("c", i)
		b.Expect(200, "", "POST", "/api/v1/admin/companies", map[string]any{"company_no": no, "name": no})
		user := b.AddUser(no, "submit", map[string]any{"company_no": no})
		ids = append(ids, apptest.Decode[api.Submitted](t, b.Expect(200, "", "POST", "/api/v1/sms/send",
			map[string]any{"phone_number": apptest.Phone, "content": "x", "use_template": false}, user...)).TaskID)
	}
	for i, id := range ids {
		e := apptest.Decode[api.Explanation](t, b.Expect(200, "", "GET", "/api/v1/sms/task/"+id+"/explain", nil))
		if int(*e.Ahead) != i {
			t.Errorf("%d tasks are ahead of task %d", *e.Ahead, i)
		}
	}
}

func TestExplanationShowsThatASilentSenderCannotClaim(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "app", "is_shared": false})
	b.AddRoute("default", "app", 1)
	b.Claim("app", 1)
	id := b.Submit("x")
	if _, err := b.App.Senders.SweepSeen(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.Exec("UPDATE sender_states SET seen_at = now() - interval '90 s'") // a sender is silent after 60 s
	e := apptest.Decode[api.Explanation](t, b.Expect(200, "", "GET", "/api/v1/sms/task/"+id+"/explain", nil))
	if len(e.Senders) != 1 || e.Senders[0].CanTake || *e.Senders[0].Why != api.WhySilent {
		t.Errorf("%+v", e.Senders)
	}
}

// The sweep runs every five seconds and stores one poll for all polls of a sender on all servers.
func TestSenderThatPolledJustNowIsNotSilent(t *testing.T) {
	b := apptest.New(t)
	for _, no := range []string{"a", "b"} { // while no poll of a or b is stored, b is listed first
		b.Claim(no, 1)
	}
	if _, err := b.App.Senders.SweepSeen(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.Exec("UPDATE sender_states st SET seen_at = now() FROM senders s WHERE s.id = st.sender_id AND s.sender_no = 'b'")
	preview := apptest.Decode[api.Submitted](t, b.Expect(200, "", "POST", "/api/v1/sms/send?dry_run=true", map[string]any{"phone_number": apptest.Phone, "content": "x", "use_template": false}))
	if *preview.Verdict != api.WouldSend || len(*preview.Senders) != 2 || !(*preview.Senders)[0].CanTake || !(*preview.Senders)[1].CanTake {
		t.Errorf("%+v", *preview.Senders)
	}
}

// For each sender, the explanation of a task must agree with the result of a claim by this sender.
func TestExplanationAgreesWithClaims(t *testing.T) {
	b := apptest.New(t)
	why := func(id string) map[string]string {
		t.Helper()
		said := map[string]string{}
		for _, s := range apptest.Decode[api.Explanation](t, b.Expect(200, "", "GET", "/api/v1/sms/task/"+id+"/explain", nil)).Senders {
			if said[s.SenderNo] = "can"; s.Why != nil {
				said[s.SenderNo] = string(*s.Why)
			}
		}
		return said
	}
	for no, body := range map[string]map[string]any{
		"first": {}, "rival": {}, "few": {"limits": map[string]any{"per_month": 1}}, "poor": {"balance": 1}, "small": {"segment_size": 10, "limits": map[string]any{"per_day": 9}},
	} {
		body["sender_no"], body["is_shared"] = no, false
		b.AddSender(body)
		b.AddRoute("default", no, 1)
		b.Take(no, 1)
	}
	b.AddSender(map[string]any{"sender_no": "backup", "is_shared": false})
	b.AddRouteWith(map[string]any{"company_no": "default", "sender_no": "backup", "sort": -1})
	b.Take("backup", 1)
	id := b.Submit(strings.Repeat("长", 100)) // two segments for other senders, ten segments for the sender small
	if got := fmt.Sprint(why(id)); got != "map[backup:outranked few:no_quota first:can poor:no_funds rival:can small:no_quota]" {
		t.Error(got)
	}
	dry := apptest.Decode[struct {
		Senders []struct {
			CanTake bool `json:"can_take"`
		}
	}](t, b.Expect(200, "", "POST", "/api/v1/sms/send?dry_run=true", map[string]any{"phone_number": apptest.Phone, "content": "x"}))
	able := 0
	for _, s := range dry.Senders {
		if s.CanTake {
			able++
		}
	}
	if able != 5 {
		t.Errorf("%d senders can take a short message: %+v", able, dry.Senders)
	}
	for _, no := range []string{"few", "poor", "small", "backup"} {
		if got := b.Take(no, 10); len(got) != 0 {
			t.Errorf("%s claimed %v", no, got)
		}
	}
	b.SubmitMany("x", 100, nil)
	if n := len(b.Take("first", 100)); n == 0 || n > 20 {
		t.Fatalf("took %d", n)
	}
	next := apptest.Scan[string](b, "SELECT task_id FROM tasks WHERE status = 0 ORDER BY rank LIMIT 1")
	if got := why(next); got["first"] != "ahead" || got["rival"] != "can" {
		t.Errorf("after first claimed its share: %v", got)
	}
	if got := b.Take("first", 100); len(got) != 0 {
		t.Errorf("first claimed %d more tasks", len(got))
	}
	if got := b.Take("rival", 1); len(got) != 1 || got[0].TaskID != next {
		t.Errorf("rival got %v", got)
	}
}
