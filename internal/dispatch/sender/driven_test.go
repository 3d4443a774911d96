package sender_test

import (
	"slices"
	"testing"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
)

// A new driven sender is off until an admin enables it, and serves only its routes. Otherwise a sender with an incomplete configuration would claim the waiting
// tasks of all companies.
func TestADrivenSenderStartsDisabledAndServesOnlyItsRoutes(t *testing.T) {
	b := apptest.NewWith(t, apptest.DefaultRules, apptest.WithSecrets)
	p := apptest.NewProvider(t)
	create := func(body map[string]any) api.Sender {
		body["name"] = body["sender_no"]
		return apptest.Decode[api.Sender](t, b.Expect(200, "", "POST", "/api/v1/admin/senders", body))
	}
	for _, body := range []map[string]any{
		{"sender_no": "provider", "kind": "http-sms", "config": p.SenderConfig()}, {"sender_no": "logs", "kind": "log"},
		{"sender_no": "ding", "kind": "dingtalk", "channel": "dingtalk", "config": map[string]any{"baseUrl": p.URL, "agentId": "a", "corpId": "c"}},
	} {
		if got := create(body); got.Status != api.SenderOff || got.IsShared {
			t.Errorf("%s is %s, shared: %v", got.SenderNo, got.Status, got.IsShared)
		}
	}
	if got := create(map[string]any{"sender_no": "phone"}); got.Status != api.SenderOn || !got.IsShared {
		t.Errorf("the phone is %s, shared: %v", got.Status, got.IsShared)
	}
	if got := create(map[string]any{"sender_no": "said", "kind": "log", "status": "on", "is_shared": true}); got.Status != api.SenderOn || !got.IsShared {
		t.Errorf("the created sender is %s, shared: %v", got.Status, got.IsShared)
	}
	become := func(no string, body map[string]any) api.Sender {
		return apptest.Decode[api.Sender](t, b.Expect(200, "", "PATCH", "/api/v1/admin/senders/"+no, body))
	}
	if got := become("phone", map[string]any{"kind": "http-sms", "config": p.SenderConfig()}); got.Status != api.SenderOff || got.IsShared {
		t.Errorf("the phone that became a provider is %s, shared: %v", got.Status, got.IsShared)
	}
	if got := become("phone", map[string]any{"status": "on", "is_shared": true, "config": p.SenderConfig()}); got.Status != api.SenderOn || !got.IsShared {
		t.Errorf("after it was switched on, the sender is %s, shared: %v", got.Status, got.IsShared)
	}
}

// If the request is the same for every message, no message reaches its recipient. If the answer is not checked, every message counts as sent. Such
// configurations are refused.
func TestAConfigurationThatCannotSendMessagesIsRefused(t *testing.T) {
	b := apptest.NewWith(t, apptest.DefaultRules, apptest.WithSecrets)
	p := apptest.NewProvider(t)
	b.AddSender(map[string]any{"sender_no": "old", "kind": "http-sms", "config": p.SenderConfig()})
	both := map[string]any{"to": "${recipient}", "text": "${content}"}
	signed := map[string]any{"verify": "hmac", "header": "bad header", "number": "id", "state": "state", "delivered": []string{"1"}}
	byStatus := map[string]any{"success": "status"}
	for name, c := range map[string]struct {
		config map[string]any
		field  string // empty: the configuration is accepted
	}{
		"an address alone":        {map[string]any{}, "config.body"},
		"no recipient":            {map[string]any{"body": map[string]any{"text": "${content}"}, "answer": byStatus}, "config.body"},
		"no text":                 {map[string]any{"body": map[string]any{"to": "${digits}"}, "answer": byStatus}, "config.body"},
		"a body that is not sent": {map[string]any{"format": "none", "body": both, "answer": byStatus}, "config.body"},
		"no sign of success":      {map[string]any{"body": both}, "config.answer.success"},
		"a field without values":  {map[string]any{"body": both, "answer": map[string]any{"success": "code"}}, "config.answer.equals"},
		"a batch without both": {map[string]any{
			"url": p.URL + "/${digits}/${content}", "batchUrl": p.URL + "/many", "format": "none", "answer": byStatus,
		}, "config.batchUrl"},
		"receipts without a number": {map[string]any{
			"body": both, "answer": byStatus, "callback": map[string]any{"verify": "token", "number": "id", "state": "state", "delivered": []string{"1"}}, "callbackSecret": apptest.CallbackKey,
		}, "config.answer.number"},
		"callbacks that are never proven": {map[string]any{"body": both, "answer": map[string]any{"number": "id"}, "callback": signed, "callbackSecret": apptest.CallbackKey}, "config.callback.header"},
		"codes of no field":               {map[string]any{"body": both, "answer": map[string]any{"number": "id", "trouble": []string{"nofunds"}}}, "config.answer.code"},

		"the status":           {map[string]any{"body": both, "answer": byStatus}, ""},
		"a field named status": {map[string]any{"body": both, "answer": map[string]any{"success": "status", "equals": []string{"ok"}}}, ""},
		"a number":             {map[string]any{"body": both, "answer": map[string]any{"number": "id"}}, ""},
		"a separate signature": {map[string]any{"body": map[string]any{"to": "${digits}", "t": "${text}", "s": "${sign}"}, "answer": byStatus}, ""},
		"a signature alone":    {map[string]any{"body": map[string]any{"to": "${digits}", "s": "${sign}"}, "answer": byStatus}, "config.body"},
		"a template":           {map[string]any{"query": map[string]any{"to": "${digits}", "template": "${template_id}"}, "answer": byStatus}, ""},
	} {
		config := map[string]any{"url": p.URL}
		for field, value := range c.config {
			config[field] = value
		}
		status, reason := 200, ""
		if c.field != "" {
			status, reason = 422, "request.invalid"
		}
		no := "x" + string(rune('a'+len(name)))
		created := b.Expect(status, reason, "POST", "/api/v1/admin/senders", map[string]any{"sender_no": no + "-" + name[:3], "name": name, "kind": "http-sms", "config": config})
		changed := b.Expect(status, reason, "PATCH", "/api/v1/admin/senders/old", map[string]any{"config": config})
		if c.field != "" && (created.Fields() != c.field || changed.Fields() != c.field) {
			t.Errorf("%s: wrong fields %s, %s", name, created.Fields(), changed.Fields())
		}
	}
}

// A sender that was saved before the success field was required still works, and lists the missing field as a gap. The next change of its configuration must
// set the field.
func TestASenderOfAnEarlierVersionStillWorks(t *testing.T) {
	b := apptest.NewWith(t, apptest.DefaultRules, apptest.WithSecrets)
	p := apptest.NewProvider(t)
	b.AddSender(map[string]any{"sender_no": "old", "kind": "http-sms", "config": p.SenderConfig()})
	if got := b.GetSender("old"); len(got.ConfigGaps) > 0 {
		t.Errorf("gaps %v", got.ConfigGaps)
	}
	b.Exec("UPDATE senders SET config = config - 'answer' WHERE sender_no = 'old'")
	b.App.Pusher.Start()
	b.AwaitStatus(b.Submit("x"), 2)
	got := apptest.Decode[api.Sender](t, b.Expect(200, "", "PATCH", "/api/v1/admin/senders/old", map[string]any{"name": "still here"}))
	if !slices.Equal(got.ConfigGaps, []string{"config.answer.success"}) {
		t.Errorf("gaps %v", got.ConfigGaps)
	}
	b.Expect(422, "request.invalid", "PATCH", "/api/v1/admin/senders/old", map[string]any{"config": got.Config})
}

// A sender that was saved with an option without effect still accepts callbacks, and lists the option as a gap.
func TestASenderWithAnOptionWithoutEffectStillWorks(t *testing.T) {
	b := apptest.NewWith(t, apptest.DefaultRules, apptest.WithSecrets)
	b.AddSender(map[string]any{"sender_no": "old", "kind": "http-sms", "config": apptest.ReceiverConfig(apptest.NewProvider(t), nil)})
	b.Exec(`UPDATE senders SET config = jsonb_set(config, '{callback,header}', '"X-Unused"') WHERE sender_no = 'old'`)
	got := apptest.Decode[api.Sender](t, b.Expect(200, "", "PATCH", "/api/v1/admin/senders/old", map[string]any{"name": "still here"}))
	if !slices.Equal(got.ConfigGaps, []string{"config.callback.header"}) {
		t.Errorf("gaps %v", got.ConfigGaps)
	}
	if a := b.Call("POST", "/api/v1/callbacks/old?token="+apptest.CallbackKey, map[string]any{"msgid": "1", "status": "DELIVRD"}); a.Status != 200 {
		t.Errorf("a callback got %d: %s", a.Status, a.Raw)
	}
	if a := b.Expect(422, "request.invalid", "PATCH", "/api/v1/admin/senders/old", map[string]any{"config": got.Config}); a.Fields() != "config.callback.header" {
		t.Errorf("wrong fields %s", a.Fields())
	}
}
