package sender_test

import (
	"fmt"
	"testing"
	"time"

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
