package app_test

import (
	"fmt"
	"strings"
	"testing"

	"lksms/gen/api"
	"lksms/internal/app"
)

// Where the contract says one thing, that is what happens.

func TestARepeatIsPreviewedAlsoWhenTheRouteOfTheFirstIsGone(t *testing.T) {
	b := setup(t)
	for _, no := range []string{"routed", "shared", "another"} {
		b.sender(map[string]any{"sender_no": no, "is_shared": no != "routed"})
		b.claim(no, 1)
	}
	if _, err := b.app.Senders.SweepSeen(t.Context()); err != nil {
		t.Fatal(err)
	}
	route := b.route("default", "routed", 1)
	message := map[string]any{"phone_number": phone, "content": "x", "use_template": false, "dedup_key": "k"}
	b.expect(200, "", "POST", "/api/v1/sms/send", message)
	task := b.claim("routed", 1)[0]
	b.report(task.TaskID, "routed", 2, nil)
	b.expect(200, "", "DELETE", "/api/v1/admin/routes/"+fmt.Sprint(route.RouteNo), nil)
	preview := decode[api.Submitted](t, b.expect(200, "", "POST", "/api/v1/sms/send?dry_run=true", message))
	if *preview.Verdict != api.WouldRepeat || len(*preview.Senders) != 2 {
		t.Errorf("%+v", preview)
	}
	b.expect(200, "", "GET", "/api/v1/sms/task/"+task.TaskID+"/explain", nil)
}

func TestADryRunSaysWhatTheSenderIsCharged(t *testing.T) {
	b := setup(t)
	b.sender(map[string]any{"sender_no": "app", "balance": 10, "segment_size": 5, "sign": "公司"})
	b.claim("app", 1)
	if _, err := b.app.Senders.SweepSeen(t.Context()); err != nil {
		t.Fatal(err)
	}
	message := map[string]any{"phone_number": phone, "content": "一二三四五六七八九", "use_template": false} // and 【公司】: 13 characters
	preview := decode[api.Submitted](t, b.expect(200, "", "POST", "/api/v1/sms/send?dry_run=true", message))
	if *preview.Cost != 3 || *preview.Segments != 1 {
		t.Errorf("cost %d of %d segments", *preview.Cost, *preview.Segments)
	}
	b.expect(200, "", "POST", "/api/v1/sms/send", message)
	b.claim("app", 1)
	if got := *b.getSender("app").Balance; got != 7 {
		t.Errorf("%d are left of 10", got)
	}
	b.expect(200, "", "POST", "/api/v1/admin/senders/app/balance", map[string]any{"change": -5})
	preview = decode[api.Submitted](t, b.expect(200, "", "POST", "/api/v1/sms/send?dry_run=true", message))
	if *preview.Verdict != api.WouldWait || *(*preview.Senders)[0].Why != api.WhyNoFunds {
		t.Errorf("%+v", preview)
	}
}

func TestAnEventNeedsNoPayload(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{"without a platform": "", "with one": "https://platform.example"} {
		t.Run(name, func(t *testing.T) {
			b := setupWith(t, defaultRules, func(o *app.Options) { o.PlatformURL = url })
			b.expect(200, "", "PUT", "/api/v1/admin/notification-templates/3/dingtalk", map[string]any{"title": "t", "content": "to ${platformUrl}"})
			made := decode[api.NotificationsMade](t, b.expect(200, "", "POST", "/api/v1/notifications/events",
				map[string]any{"event": "task_finished", "task_id": 1, "channels": []string{"dingtalk"}, "user_ids": []string{"u"}}))
			n := b.notification(made.Items[0].NotificationID)
			if n.Payload == nil || url != "" && n.People != 1 {
				t.Errorf("%+v", n)
			}
		})
	}
}

// Numbers and texts of a payload reach people and providers as they came.
func TestAPayloadPassesThroughAsItCame(t *testing.T) {
	const number = "1859234567890123457"
	b, p := notifying(t)
	b.expect(200, "", "PUT", "/api/v1/admin/notification-templates/3/dingtalk", map[string]any{"title": "t", "content": "${taskId} ${list} ${text} ${rate}"})
	body := `{"event":"task_finished","task_id":1,"channels":["dingtalk"],"user_ids":["u1"],
		"payload":{"taskId":` + number + `,"list":["<a> & b",` + number + `],"text":"<b>","rate":1.50}}`
	made := decode[api.NotificationsMade](t, b.expect(200, "", "POST", "/api/v1/notifications/events", body))
	b.notificationBecomes(made.Items[0].NotificationID, api.NotificationSuccess)
	sent := p.seen()[0]
	for _, part := range []string{number + ` [`, `<a> & b`, `<b> 1.50`, `"taskId":` + number} {
		if text := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&", `\"`, `"`).Replace(sent); !strings.Contains(text, part) {
			t.Errorf("%s is not in %s", part, text)
		}
	}
	content := scan[string](b, "SELECT content FROM renderings")
	if want := number + ` ["<a> & b",` + number + `] <b> 1.50`; strings.ReplaceAll(content, ", ", ",") != want {
		t.Errorf("people read %s, want %s", content, want)
	}
	if shown := b.call("GET", fmt.Sprint("/api/v1/notifications/", made.Items[0].NotificationID), nil).raw; !strings.Contains(shown, number) {
		t.Errorf("it is shown as %s", shown)
	}
	b.expect(200, "", "POST", "/api/v1/subscribe-messages", `{"business_type":"b","business_id":1,"template_type":"t","receiver_user_id":"u1","template_id":"x",
		"data":{"number1":{"value":`+number+`}}}`)
	if data := scan[string](b, "SELECT string_agg(params::text, ' ') FROM renderings WHERE notification_id IS NULL"); !strings.Contains(data, number) {
		t.Errorf("data %s", data)
	}
	b.expect(200, "", "POST", "/api/v1/admin/senders", `{"sender_no":"big","name":"big","channel":"dingtalk","kind":"dingtalk","status":"off",
		"config":{"baseUrl":"`+p.URL+`","agentId":"`+number+`","corpId":"C"}}`)

	for _, number := range []string{"1e308", "1E-100", "0." + strings.Repeat("1", 17_000), strings.Repeat("1", 140_000)} {
		a := b.expect(422, "request.invalid", "POST", "/api/v1/notifications/events",
			`{"event":"task_finished","task_id":1,"channels":["dingtalk"],"user_ids":["u1"],"payload":{"a":[`+number+`]}}`)
		if a.fields() != "payload.a.0" {
			t.Errorf("fields %q", a.fields())
		}
	}
	b.expect(422, "request.invalid", "POST", "/api/v1/sms/send", `{"phone_number":"13800138000","content":"x","priority":1.`+strings.Repeat("0", 17_000)+`}`)
}

func TestAheadCountsCompaniesOfEqualRank(t *testing.T) {
	b := setup(t)
	var ids []string
	for i := range 3 {
		no := fmt.Sprint("c", i)
		b.expect(200, "", "POST", "/api/v1/admin/companies", map[string]any{"company_no": no, "name": no})
		user := b.user(no, "submit", map[string]any{"company_no": no})
		ids = append(ids, decode[api.Submitted](t, b.expect(200, "", "POST", "/api/v1/sms/send",
			map[string]any{"phone_number": phone, "content": "x", "use_template": false}, user...)).TaskID)
	}
	for i, id := range ids {
		e := decode[api.Explanation](t, b.expect(200, "", "GET", "/api/v1/sms/task/"+id+"/explain", nil))
		if int(*e.Ahead) != i {
			t.Errorf("%d are ahead of the task %d", *e.Ahead, i)
		}
	}
}

func TestASilentSenderOfARouteCannotTake(t *testing.T) {
	b := setup(t)
	b.sender(map[string]any{"sender_no": "app", "is_shared": false})
	b.route("default", "app", 1)
	b.claim("app", 1)
	id := b.submit("x")
	if _, err := b.app.Senders.SweepSeen(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.exec("UPDATE sender_states SET seen_at = now() - interval '90 s'") // it is 60 s
	e := decode[api.Explanation](t, b.expect(200, "", "GET", "/api/v1/sms/task/"+id+"/explain", nil))
	if len(e.Senders) != 1 || e.Senders[0].CanTake || *e.Senders[0].Why != api.WhySilent {
		t.Errorf("%+v", e.Senders)
	}
}

func TestASenderThatPolledAMomentAgoIsNotSilent(t *testing.T) {
	b := setup(t)
	for _, no := range []string{"a", "b"} { // b is said first if neither is known to poll
		b.claim(no, 1)
	}
	b.exec("UPDATE sender_states st SET seen_at = now() FROM senders s WHERE s.id = st.sender_id AND s.sender_no = 'b'")
	preview := decode[api.Submitted](t, b.expect(200, "", "POST", "/api/v1/sms/send?dry_run=true", map[string]any{"phone_number": phone, "content": "x", "use_template": false}))
	if *preview.Verdict != api.WouldSend || len(*preview.Senders) != 2 || !(*preview.Senders)[0].CanTake || !(*preview.Senders)[1].CanTake {
		t.Errorf("%+v", *preview.Senders)
	}
}
