package queue_test

import (
	"testing"
	"time"

	"lksms/gen/api"
	"lksms/internal/testkit/apptest"
)

// hours returns a range of hours of the day in UTC. from and to are relative to the present.
func hours(from, to time.Duration) string {
	now := time.Now().UTC()
	return now.Add(from).Format("15:04") + "-" + now.Add(to).Format("15:04")
}

func TestASenderGetsTasksOnlyInItsHours(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "day", "time_zone": "UTC", "hours": hours(2*time.Hour, 3*time.Hour)})
	b.Claim("day", 1)
	id := b.Submit("x")
	if got := b.Claim("day", 10); len(got) != 0 {
		t.Errorf("outside its hours: %v", got)
	}
	b.Exec("UPDATE sender_states SET seen_at = now()")
	e := apptest.Decode[api.Explanation](t, b.Expect(200, "", "GET", "/api/v1/sms/task/"+id+"/explain", nil))
	if e.Reason != api.BecauseNoSender || len(e.Senders) != 1 || e.Senders[0].Why == nil || *e.Senders[0].Why != api.WhyOutsideHours {
		t.Errorf("%+v", e)
	}
	o := apptest.Decode[api.Overview](t, b.Expect(200, "", "GET", "/api/v1/admin/overview", nil))
	if len(o.SendersNotReady) != 1 || o.SendersNotReady[0].Reason != api.NotReadyOutsideHours {
		t.Errorf("%+v", o.SendersNotReady)
	}
	s := apptest.Decode[api.Sender](t, b.Expect(200, "", "PATCH", "/api/v1/admin/senders/day", map[string]any{"hours": hours(-time.Hour, 2*time.Hour)}))
	if !s.IsReady {
		t.Errorf("in its hours: %+v", s)
	}
	if got := b.Claim("day", 10); len(got) != 1 || got[0].TaskID != id {
		t.Errorf("in its hours: %v", got)
	}
	s = apptest.Decode[api.Sender](t, b.Expect(200, "", "PATCH", "/api/v1/admin/senders/day", map[string]any{"hours": nil}))
	if s.Hours != nil {
		t.Errorf("%+v", s)
	}
}

// If a sender is outside its hours and also waits for its interval, the explanation names the hours, because the interval ends first.
func TestTheHoursOfASenderAreShownBeforeItsInterval(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "day", "time_zone": "UTC", "interval_ms": 600_000})
	b.Submit("first")
	b.Take("day", 1)
	id := b.Submit("second")
	b.Exec("UPDATE sender_states SET seen_at = now()")
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/day", map[string]any{"hours": hours(2*time.Hour, 3*time.Hour)})
	e := apptest.Decode[api.Explanation](t, b.Expect(200, "", "GET", "/api/v1/sms/task/"+id+"/explain", nil))
	if len(e.Senders) != 1 || e.Senders[0].Why == nil || *e.Senders[0].Why != api.WhyOutsideHours || e.Senders[0].Until != nil {
		t.Errorf("%+v", e)
	}
}

func TestOtherSendersTakeTheTasksOfASenderOutsideItsHours(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "day", "is_shared": false, "time_zone": "UTC", "hours": hours(2*time.Hour, 3*time.Hour)})
	b.AddSender(map[string]any{"sender_no": "night", "is_shared": false})
	b.AddRouteWith(map[string]any{"company_no": "default", "sender_no": "day", "sort": 1})
	b.AddRouteWith(map[string]any{"company_no": "default", "sender_no": "night"})
	for _, no := range []string{"day", "night"} {
		b.Claim(no, 1)
	}
	b.Exec("UPDATE sender_states SET seen_at = now()")
	b.Submit("x")
	if got := b.Claim("night", 10); len(got) != 1 {
		t.Errorf("a backup outside the hours of the primary: %v", got)
	}
}

func TestInvalidHoursOfASenderAreRejected(t *testing.T) {
	b := apptest.New(t)
	for _, text := range []string{"", "8-22", "08:00-24:00", "08:00-08:00", "08:00–22:00"} {
		a := b.Expect(422, "request.invalid", "POST", "/api/v1/admin/senders", map[string]any{"sender_no": "s", "name": "s", "hours": text})
		if len(a.Body.Error.Fields) != 1 || a.Body.Error.Fields[0].Field != "hours" {
			t.Errorf("%q: %s", text, a.Raw)
		}
	}
}

func TestHoursContainMidnightAndChangesOfTheClock(t *testing.T) {
	b := apptest.New(t)
	for _, c := range []struct {
		hours, zone, at string
		want            bool
	}{
		{"08:00-22:00", "UTC", "2026-11-29 07:59:59+00", false},
		{"08:00-22:00", "UTC", "2026-11-29 08:00:00+00", true},
		{"08:00-22:00", "UTC", "2026-11-29 21:59:59+00", true},
		{"08:00-22:00", "UTC", "2026-11-29 22:00:00+00", false},
		{"22:00-06:00", "UTC", "2026-11-29 23:00:00+00", true},
		{"22:00-06:00", "UTC", "2026-11-29 05:59:59+00", true},
		{"22:00-06:00", "UTC", "2026-11-29 06:00:00+00", false},
		{"08:00-22:00", "Europe/Berlin", "2026-03-28 07:30:00+00", true},  // 08:30 in winter
		{"08:00-22:00", "Europe/Berlin", "2026-03-28 06:30:00+00", false}, // 07:30
		{"08:00-22:00", "Europe/Berlin", "2026-03-29 06:30:00+00", true},  // 08:30 in summer
	} {
		if got := apptest.Scan[bool](b, "SELECT in_hours($1, $2, $3::text::timestamptz)", c.hours, c.zone, c.at); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
	}
}
