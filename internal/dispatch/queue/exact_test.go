package queue_test

import (
	"fmt"
	"testing"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
)

// The tests of this file compare dry runs and explanations with what the queue then does.

func TestADryRunOfARepeatWorksAfterTheRouteOfTheFirstIsDeleted(t *testing.T) {
	b := apptest.New(t)
	for _, no := range []string{"routed", "shared", "another"} {
		b.AddSender(map[string]any{"sender_no": no, "is_shared": no != "routed"})
		b.Claim(no, 1)
	}
	if _, err := b.App.Senders.SweepSeen(t.Context()); err != nil {
		t.Fatal(err)
	}
	route := b.AddRoute("default", "routed", 1)
	message := map[string]any{"phone_number": apptest.Phone, "content": "x", "use_template": false, "dedup_key": "k"}
	b.Expect(200, "", "POST", "/api/v1/sms/send", message)
	task := b.Claim("routed", 1)[0]
	b.Report(task.TaskID, "routed", 2, nil)
	b.Expect(200, "", "DELETE", "/api/v1/admin/routes/"+fmt.Sprint(route.RouteNo), nil)
	preview := apptest.Decode[api.Submitted](t, b.Expect(200, "", "POST", "/api/v1/sms/send?dry_run=true", message))
	if *preview.Verdict != api.WouldRepeat || len(*preview.Senders) != 2 {
		t.Errorf("%+v", preview)
	}
	b.Expect(200, "", "GET", "/api/v1/sms/task/"+task.TaskID+"/explain", nil)
}

func TestADryRunShowsTheCostForTheSender(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "app", "balance": 10, "segment_size": 5, "sign": "公司"})
	b.Claim("app", 1)
	if _, err := b.App.Senders.SweepSeen(t.Context()); err != nil {
		t.Fatal(err)
	}
	message := map[string]any{"phone_number": apptest.Phone, "content": "一二三四五六七八九", "use_template": false} // 13 characters with 【公司】
	preview := apptest.Decode[api.Submitted](t, b.Expect(200, "", "POST", "/api/v1/sms/send?dry_run=true", message))
	if *preview.Cost != 3 || *preview.Segments != 1 {
		t.Errorf("cost %d of %d segments", *preview.Cost, *preview.Segments)
	}
	b.Expect(200, "", "POST", "/api/v1/sms/send", message)
	b.Claim("app", 1)
	if got := *b.GetSender("app").Balance; got != 7 {
		t.Errorf("balance %d, want 7", got)
	}
	b.Expect(200, "", "POST", "/api/v1/admin/senders/app/balance", map[string]any{"change": -5})
	preview = apptest.Decode[api.Submitted](t, b.Expect(200, "", "POST", "/api/v1/sms/send?dry_run=true", message))
	if *preview.Verdict != api.WouldWait || *(*preview.Senders)[0].Why != api.WhyNoFunds {
		t.Errorf("%+v", preview)
	}
}

func TestAheadCountsCompaniesOfEqualRank(t *testing.T) {
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

func TestASilentSenderOfARouteCannotTake(t *testing.T) {
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

// The sweep, which runs every five seconds, stores a poll for all answers of all servers.
func TestASenderThatPolledAMomentAgoIsNotSilent(t *testing.T) {
	b := apptest.New(t)
	for _, no := range []string{"a", "b"} { // without a known poll of either, b is listed first
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
