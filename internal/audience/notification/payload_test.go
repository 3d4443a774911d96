package notification_test

import (
	"fmt"
	"strings"
	"testing"

	api "lksms/gen/client"
	"lksms/internal/app"
	"lksms/internal/testkit/apptest"
)

func TestAnEventNeedsNoPayload(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{"without a platform URL": "", "with a platform URL": "https://platform.example"} {
		t.Run(name, func(t *testing.T) {
			b := apptest.NewWith(t, apptest.DefaultRules, func(o *app.Options) { o.PlatformURL = url })
			b.Expect(200, "", "PUT", "/api/v1/admin/notification-templates/3/dingtalk", map[string]any{"title": "t", "content": "to ${platformUrl}"})
			made := apptest.Decode[api.NotificationsMade](t, b.Expect(200, "", "POST", "/api/v1/notifications/events",
				map[string]any{"event": "task_finished", "task_id": 1, "channels": []string{"dingtalk"}, "user_ids": []string{"u"}}))
			n := b.Notification(made.Items[0].NotificationID)
			if n.Payload == nil || url != "" && n.People != 1 {
				t.Errorf("%+v", n)
			}
		})
	}
}

// Numbers and texts in a payload reach recipients and providers unchanged.
func TestAPayloadIsPassedOnUnchanged(t *testing.T) {
	const number = "1859234567890123457"
	b, p := apptest.NewNotifying(t)
	b.Expect(200, "", "PUT", "/api/v1/admin/notification-templates/3/dingtalk", map[string]any{"title": "t", "content": "${taskId} ${list} ${text} ${rate}"})
	body := `{"event":"task_finished","task_id":1,"channels":["dingtalk"],"user_ids":["u1"],
		"payload":{"taskId":` + number + `,"list":["<a> & b",` + number + `],"text":"<b>","rate":1.50}}`
	made := apptest.Decode[api.NotificationsMade](t, b.Expect(200, "", "POST", "/api/v1/notifications/events", body))
	b.AwaitNotification(made.Items[0].NotificationID, api.NotificationSuccess)
	sent := p.Seen()[0]
	for _, part := range []string{number + ` [`, `<a> & b`, `<b> 1.50`, `"taskId":` + number} {
		if text := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&", `\"`, `"`).Replace(sent); !strings.Contains(text, part) {
			t.Errorf("%s is not in %s", part, text)
		}
	}
	content := apptest.Scan[string](b, "SELECT content FROM renderings")
	if want := number + ` ["<a> & b",` + number + `] <b> 1.50`; strings.ReplaceAll(content, ", ", ",") != want {
		t.Errorf("the rendered content is %s, want %s", content, want)
	}
	if shown := b.Call("GET", fmt.Sprint("/api/v1/notifications/", made.Items[0].NotificationID), nil).Raw; !strings.Contains(shown, number) {
		t.Errorf("the notification is shown as %s", shown)
	}
	b.Expect(200, "", "POST", "/api/v1/subscribe-messages", `{"business_type":"b","business_id":1,"template_type":"t","receiver_user_id":"u1","template_id":"x",
		"data":{"number1":{"value":`+number+`}}}`)
	if data := apptest.Scan[string](b, "SELECT string_agg(params::text, ' ') FROM renderings WHERE notification_id IS NULL"); !strings.Contains(data, number) {
		t.Errorf("data %s", data)
	}
	b.Expect(200, "", "POST", "/api/v1/admin/senders", `{"sender_no":"big","name":"big","channel":"dingtalk","kind":"dingtalk","status":"off",
		"config":{"baseUrl":"`+p.URL+`","agentId":"`+number+`","corpId":"C"}}`)

	for _, number := range []string{"1e308", "1E-100", "0." + strings.Repeat("1", 17_000), strings.Repeat("1", 140_000)} {
		a := b.Expect(422, "request.invalid", "POST", "/api/v1/notifications/events",
			`{"event":"task_finished","task_id":1,"channels":["dingtalk"],"user_ids":["u1"],"payload":{"a":[`+number+`]}}`)
		if a.Fields() != "payload.a.0" {
			t.Errorf("fields %q", a.Fields())
		}
	}
	b.Expect(422, "request.invalid", "POST", "/api/v1/sms/send", `{"phone_number":"13800138000","content":"x","priority":1.`+strings.Repeat("0", 17_000)+`}`)
}
