package notification_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
)

// If a country is removed after a notification was planned, the notification is held. It continues when the country is added again.
func TestNotificationsToRemovedCountriesAreHeld(t *testing.T) {
	b, _ := apptest.NewNotifying(t)
	b.AddCountry("CN", "86", nil)
	b.AddCountry("SG", "65", nil)
	putTemplate(b, "sms", map[string]any{"title": "t", "content": "${taskName}"})
	b.PutContacts(map[string]any{"user_id": "u1", "phone": apptest.Phone})
	planned := announce(b, 1, map[string]any{"channels": []string{"sms"}, "next_run_time": time.Now().Add(time.Hour)})
	b.Expect(200, "", "PATCH", "/api/v1/admin/companies/default", map[string]any{"countries": []string{"SG"}})
	now := announce(b, 2, map[string]any{"channels": []string{"sms"}})
	if n := b.Notification(now); n.Status != api.NotificationFailed {
		t.Errorf("%+v", n)
	}
	b.Exec("UPDATE notifications SET next_run_at = now() WHERE id = $1", planned)
	run(b)
	if n := b.Notification(planned); n.Status != api.NotificationWaiting {
		t.Errorf("%+v", n)
	}
	if got := b.Claim("app", 10); len(got) != 0 {
		t.Errorf("claimed %v", got)
	}
	b.Expect(200, "", "PATCH", "/api/v1/admin/companies/default", map[string]any{"any_country": true})
	if got := b.Claim("app", 10); len(got) != 1 {
		t.Errorf("claimed %v", got)
	}
}

// A company that is off can still end its reminders, because they would otherwise continue.
func TestADisabledCompanyCanEndItsReminders(t *testing.T) {
	b, _ := apptest.NewNotifying(t)
	b.PutContacts(map[string]any{"user_id": "u1", "dingtalk_name": "u1"})
	at := time.Now().Add(-time.Hour)
	made := postEvent(b, "node_started", map[string]any{
		"node_inst_id": 7, "started_at": at, "payload": map[string]any{"maxDuration": 120, "timeoutRemind": 1},
	})
	b.Expect(200, "", "PATCH", "/api/v1/admin/companies/default", map[string]any{"status": "off"})
	body := map[string]any{"event": "node_started", "task_id": 1, "node_inst_id": 8, "channels": []string{"dingtalk"}, "user_ids": []string{"u1"}, "started_at": at,
		"payload": map[string]any{"maxDuration": 120, "timeoutRemind": 1}}
	b.Expect(409, "company.off", "POST", "/api/v1/notifications/events", body)
	postEvent(b, "node_finished", map[string]any{"node_inst_id": 7})
	if n := b.Notification(made.Items[0].NotificationID); n.Status != api.NotificationCancelled {
		t.Errorf("%+v", n)
	}
	postEvent(b, "task_finished", nil)
}

// A repeat sends nothing, so it returns the first notification or message even while the company is off.
func TestARepeatedRequestIsAcceptedWhileTheCompanyIsOff(t *testing.T) {
	b, _, _ := apptest.NewWeChat(t)
	event := map[string]any{
		"event": "node_done", "task_id": 1, "node_inst_id": 8, "channels": []string{"dingtalk"}, "user_ids": []string{"u1"},
		"payload": map[string]any{"taskName": "x", "nextNodeName": "y", "remainMin": 5},
	}
	requests := []struct {
		path string
		body map[string]any
		key  string // field that makes the body another notification
	}{
		{"/api/v1/notifications", map[string]any{
			"biz_type": 3, "biz_id": 1, "channels": []string{"dingtalk"}, "payload": map[string]any{"taskName": "x"}, "user_ids": []string{"u1"}, "dedup_key": "k",
		}, "dedup_key"},
		{"/api/v1/notifications/events", event, "node_inst_id"},
		{"/api/v1/subscribe-messages", apptest.SendOnceBody(nil), "business_id"},
	}
	for _, r := range requests {
		b.Expect(200, "", "POST", r.path, r.body)
	}
	b.Expect(200, "", "PATCH", "/api/v1/admin/companies/default", map[string]any{"status": "off"})
	for _, r := range requests {
		if a := b.Expect(200, "", "POST", r.path, r.body); !strings.Contains(a.Raw, `"deduplicated":true`) {
			t.Errorf("%s: %s", r.path, a.Raw)
		}
		r.body[r.key] = map[string]any{"dedup_key": "other", "node_inst_id": 9, "business_id": 9}[r.key]
		b.Expect(409, "company.off", "POST", r.path, r.body)
	}
}

// A repeat with a dedup key returns the first notification, even if the times of the request have passed.
func TestARepeatedNotificationIsAcceptedAfterItsExpiry(t *testing.T) {
	b, _ := apptest.NewNotifying(t)
	b.PutContacts(map[string]any{"user_id": "u1", "dingtalk_name": "u1"})
	expires := time.Now().Add(6 * time.Second)
	body := map[string]any{"dedup_key": "k", "expires_at": expires}
	first := announce(b, 1, body)
	apptest.Eventually(t, "the time has passed", func() bool { return time.Now().After(expires) })
	if again := announce(b, 1, body); again != first {
		t.Errorf("%d, then %d", first, again)
	}
	b.Expect(422, "request.invalid", "POST", "/api/v1/notifications", map[string]any{
		"biz_type": 3, "biz_id": 1, "channels": []string{"dingtalk"}, "payload": map[string]any{"taskName": "x"}, "user_ids": []string{"u1"}, "expires_at": expires,
	})
}

// A new plan of an orbit creates all of its reminders, even if the reminders of the previous plan were cancelled.
func TestANewPlanOfAnOrbitCreatesAllRemindersAfterACancellation(t *testing.T) {
	b, _ := apptest.NewNotifying(t)
	now := time.Now()
	plan := func(minutes time.Duration) api.NotificationsMade {
		return postEvent(b, "orbit_plan", map[string]any{"orbits": []any{map[string]any{"orbit_no": 9, "in_time": now.Add(minutes * time.Minute)}}})
	}
	first := plan(50)
	b.Expect(200, "", "POST", "/api/v1/notifications/status", map[string]any{"biz_type": 2, "biz_ids": []int64{b.Notification(first.Items[0].NotificationID).BizID}, "status": 3})
	var states []string
	for _, one := range plan(70).Items {
		states = append(states, fmt.Sprint(one.Deduplicated))
	}
	if fmt.Sprint(states) != "[false false false false false]" {
		t.Errorf("deduplicated: %v", states)
	}
}

// A held notification or message names the switches that hold it, until it continues.
func TestHeldNotificationsNameTheirSwitches(t *testing.T) {
	b, _ := apptest.NewNotifying(t)
	b.PutContacts(map[string]any{"user_id": "u1", "dingtalk_name": "u1", "wechat_openid": "o1"})
	id := announce(b, 1, map[string]any{"next_run_time": time.Now().Add(time.Hour)})
	b.SendOnce(nil)
	for _, c := range []struct{ path, off, on, want string }{
		{"companies/default", `{"status":"off"}`, `{"status":"on"}`, "[{default company}]"},
		{"channels/dingtalk", `{"status":"off"}`, `{"status":"on"}`, "[{dingtalk channel}]"},
	} {
		b.Expect(200, "", "PATCH", "/api/v1/admin/"+c.path, c.off)
		if got := fmt.Sprint(*b.Notification(id).HeldBy); got != c.want {
			t.Errorf("the notification is held by %s, want %s", got, c.want)
		}
		b.Expect(200, "", "PATCH", "/api/v1/admin/"+c.path, c.on)
		if got := *b.Notification(id).HeldBy; len(got) > 0 {
			t.Errorf("the notification is held by %v", got)
		}
	}
	once := func() string {
		page := apptest.Decode[api.OncePage](t, b.Expect(200, "", "GET", "/api/v1/subscribe-messages", nil))
		return fmt.Sprint(*page.Items[0].HeldBy)
	}
	b.Expect(200, "", "PATCH", "/api/v1/admin/channels/wechat", `{"status":"off"}`)
	if got := once(); got != "[{wechat channel}]" {
		t.Errorf("the subscribe message is held by %s", got)
	}
	b.Expect(200, "", "PATCH", "/api/v1/admin/channels/wechat", `{"status":"on"}`)
	if got := once(); got != "[]" {
		t.Errorf("the subscribe message is held by %s", got)
	}
}

// A notification by SMS whose messages all wait for the same country names this country.
func TestHeldNotificationNamesItsCountry(t *testing.T) {
	b, _ := apptest.NewNotifying(t)
	b.AddCountry("CN", "86", nil)
	putTemplate(b, "sms", map[string]any{"title": "t", "content": "${taskName}"})
	id := announce(b, 1, map[string]any{"channels": []string{"sms"}})
	b.Expect(200, "", "PATCH", "/api/v1/admin/countries/CN", `{"status":"off"}`)
	if got := fmt.Sprint(*b.Notification(id).HeldBy); got != "[{CN country}]" {
		t.Errorf("the notification is held by %s", got)
	}
	b.PutContacts(map[string]any{"user_id": "u2", "phone": "+16502530000"}) // its country is unknown, and holds nothing
	both := announce(b, 2, map[string]any{"channels": []string{"sms"}, "user_ids": []string{"u1", "u2"}})
	if got := *b.Notification(both).HeldBy; len(got) > 0 {
		t.Errorf("the notification to two countries is held by %v", got)
	}
	b.Expect(200, "", "PATCH", "/api/v1/admin/countries/CN", `{"status":"on"}`)
	if got := *b.Notification(id).HeldBy; len(got) > 0 {
		t.Errorf("the notification is held by %v", got)
	}
}
