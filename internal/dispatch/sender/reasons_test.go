package sender_test

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/dispatch/driver"
	"lksms/internal/dispatch/driver/provider"
	"lksms/internal/platform/pdulink/simulated"
	"lksms/internal/testkit/apptest"
)

// The reasons that somebody must remove come before those that end by themselves. Explain and the overview name the same one.
func TestReasonsThatNeedAUserComeBeforeReasonsThatEndByThemselves(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "phone", "balance": 10, "limits": map[string]any{"per_day": 5}})
	id := b.Submit("x")
	state := func(set string) func() {
		return func() { b.Exec("UPDATE sender_states SET " + set) }
	}
	change := func(body map[string]any) func() {
		return func() { b.Expect(200, "", "PATCH", "/api/v1/admin/senders/phone", body) }
	}
	hour := time.Now().UTC().Add(2 * time.Hour)
	for _, c := range []struct {
		add  func() // adds a reason to the earlier reasons
		want string
	}{
		{state("seen_at = now()"), ""},
		{state("rest_until = now() + interval '1 hour', rest_reason = 'no service', next_available_at = now() + interval '1 hour'"), "paused"},
		{change(map[string]any{"time_zone": "UTC", "hours": fmt.Sprintf("%s-%s", hour.Format("15:00"), hour.Add(time.Hour).Format("15:00"))}), "outside_hours"},
		{state("day_used = 5, last_taken_at = now()"), "no_quota"},
		{state("seen_at = now() - interval '1 hour'"), "silent"},
		{state("balance = 0"), "no_funds"},
		{func() {
			b.Expect(200, "", "PUT", "/api/v1/admin/senders/phone/sims", map[string]any{"sims": []map[string]any{{"slot": 1, "is_on": false}, {"slot": 2, "is_on": false}}})
		}, "sims_off"},
	} {
		c.add()
		views := b.Explain(id).Senders
		if why := views[0].Why; len(views) != 1 || fmt.Sprint(views[0].CanTake) != fmt.Sprint(c.want == "") || why != nil && string(*why) != c.want {
			t.Errorf("explain: %+v, want %q", views, c.want)
		}
		r, err := b.App.Senders.Readiness(t.Context(), nil)
		if err != nil || len(r.NotReadyFirst) > 0 != (c.want != "") || c.want != "" && r.NotReadyFirst[0].Reason != c.want {
			t.Errorf("overview: %+v, want %q, %v", r, c.want, err)
		}
	}
	change(map[string]any{"status": "off"})()
	if why := b.Explain(id).Senders[0].Why; *why != "off" {
		t.Errorf("explain: %s", *why)
	}
}

// If only some SIMs are off, the limits of the others count.
func TestASenderIsNotOffWhileOneOfItsSimsIsOn(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "phone"})
	b.Expect(200, "", "PUT", "/api/v1/admin/senders/phone/sims", map[string]any{"sims": []map[string]any{{"slot": 1, "is_on": false}, {"slot": 2, "per_day": 0}}})
	b.Exec("UPDATE sender_states SET seen_at = now()")
	if why := b.Explain(b.Submit("x")).Senders[0].Why; *why != "no_quota" {
		t.Errorf("explain: %s", *why)
	}
}

// Without an open link, a sender of a carrier is not ready, and senders with a smaller sort take its tasks.
func TestASenderWithoutALinkToItsCarrierIsNotReady(t *testing.T) {
	b := apptest.NewWith(t, apptest.DefaultRules, apptest.WithSecrets) // nothing opens links: the pusher does not run
	c := apptest.NewCarrier(t, "smpp", simulated.Options{})
	b.AddSender(map[string]any{"sender_no": "carrier", "kind": "smpp", "sort": 10, "config": apptest.CarrierConfig("smpp", c, nil)})
	b.AddSender(map[string]any{"sender_no": "backup", "sort": 1})
	b.Exec("UPDATE sender_states SET seen_at = now()")
	links := func(columns string) {
		b.Exec("DELETE FROM sender_links")
		b.Exec("INSERT INTO sender_links (sender_id, nth, held_by, host, bound_at, held_until) SELECT id, 1, 'x', 'x', " + columns + " FROM senders WHERE sender_no = 'carrier'")
	}
	for columns, isReady := range map[string]bool{
		"now(), now() + interval '1 minute'": true,
		"NULL, now() + interval '1 minute'":  false, // the carrier refuses the link
		"now(), now() - interval '1 second'": false, // the server that had the link is gone
	} {
		links(columns)
		id := b.Submit("x")
		if s := b.GetSender("carrier"); s.IsReady != isReady {
			t.Errorf("%s: ready %t", columns, s.IsReady)
		}
		for _, view := range b.Explain(id).Senders {
			if view.SenderNo == "carrier" && (view.CanTake != isReady || !isReady && *view.Why != api.WhyNotBound) {
				t.Errorf("%s: explain: %+v", columns, view)
			}
		}
		r, err := b.App.Senders.Readiness(t.Context(), nil)
		if err != nil || len(r.NotReadyFirst) > 0 == isReady || !isReady && r.NotReadyFirst[0].Reason != "not_bound" {
			t.Errorf("%s: overview: %+v, %v", columns, r, err)
		}
		if got := b.Take("backup", 1); len(got) > 0 == isReady {
			t.Errorf("%s: the backup claimed %v", columns, got)
		}
		b.Exec("DELETE FROM queue")
	}
}

// One function of PostgreSQL names the kinds of senders with links.
func TestTheDatabaseKnowsTheKindsWithLinks(t *testing.T) {
	b := apptest.New(t)
	configs := map[string]string{
		"log": "{}", "dingtalk": `{"baseUrl":"https://a.example","agentId":"1","corpId":"1"}`, "oa": `{"url":"https://a.example","secret":"1"}`,
		"wechat": `{"appId":"1","appSecret":"1"}`, "email": `{"host":"a.example","from":"a@a.example"}`,
		"http-sms": `{"url":"https://a.example","body":{"to":"${recipient}"}}`, "aliyun-sms": `{"accessKeyId":"1","accessKeySecret":"1","templates":{"SMS_1":"${text}"}}`,
		"tencent-sms": `{"secretId":"1","secretKey":"1","sdkAppId":"1","templates":{"1":"{1}"}}`, "smpp": `{"host":"a.example","system_id":"x","password":"x"}`,
		"cmpp": `{"host":"a.example","source_addr":"900001","shared_secret":"x","src_id":"10690001"}`,
	}
	for _, kind := range driver.Kinds() {
		d, err := driver.New(kind, []byte(configs[kind]), provider.Tools{Log: slog.New(slog.DiscardHandler)})
		if _, isLinked := d.(driver.Linked); err != nil || isLinked == apptest.Scan[bool](b, "SELECT links_are_bound(0, $1)", kind) {
			t.Errorf("%s: the driver has links: %t, %v", kind, isLinked, err)
		}
	}
}
