package submit_test

import (
	"fmt"
	"strings"
	"testing"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
)

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

func TestDryRunOfARepeatedMessageSucceedsAfterItsRouteWasDeleted(t *testing.T) {
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

func TestDryRunShowsTheCostForTheSender(t *testing.T) {
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

// A dry run and an explanation count the segments that each sender would send.
func TestDryRunCountsTheSegmentsThatTheSenderSends(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "bare", "sign_mode": "none", "balance": 1, "sort": 1})
	b.AddSender(map[string]any{"sender_no": "adds", "sign_mode": "by_provider", "balance": 1})
	body := map[string]any{"phone_number": apptest.Phone, "content": strings.Repeat("长", 68), "sign": "公司"}
	dry := apptest.Decode[api.Submitted](t, b.Expect(200, "", "POST", "/api/v1/sms/send?dry_run=true", body))
	if dry.Segments == nil || *dry.Segments != 2 || dry.Cost == nil || *dry.Cost != 1 {
		t.Errorf("the dry run says %d segments, cost %v", *dry.Segments, *dry.Cost)
	}
	whys := map[string]string{}
	for _, one := range b.Explain(b.SubmitBody(body).TaskID).Senders {
		whys[one.SenderNo] = "able"
		if one.Why != nil {
			whys[one.SenderNo] = string(*one.Why)
		}
	}
	if whys["adds"] != "no_funds" || whys["bare"] == "no_funds" || len(whys) != 2 {
		t.Errorf("the explanation says %v", whys)
	}
}
