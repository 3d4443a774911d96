package receipt_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	api "lksms/gen/client"
	"lksms/internal/dispatch/queue"
	"lksms/internal/testkit/apptest"
)

const token = "?token=" + apptest.CallbackKey

// replies describes the messages of a provider with which a server of these tests reads callbacks.
var replies = map[string]any{"received": map[string]any{
	"from": "mobile", "to": "dest", "content": "text", "time": "at", "offset": "+08:00", "messageNo": "seq",
	"answer": map[string]any{"body": `{"result":0}`, "contentType": "application/json"},
}}

// inbox returns the received messages, newest first.
func inbox(b *apptest.Bundle) []api.Received {
	b.T.Helper()
	return apptest.Decode[api.ReceivedPage](b.T, b.Expect(200, "", "GET", "/api/v1/received", nil)).Items
}

func texts(b *apptest.Bundle) (all []string) {
	for _, m := range inbox(b) {
		all = append(all, m.Content)
	}
	slices.Sort(all)
	return all
}

// R4: a provider posts receipts and messages to one address.
func TestMessagesInCallbacksAreStoredOnce(t *testing.T) {
	b, _ := apptest.NewReceiving(t, replies)
	id := b.Submit("are you coming?")
	b.AwaitStatus(id, queue.Success)
	body := fmt.Sprintf(`[{"mobile":%q,"dest":"1069","text":"退订\u0000 %s","at":"2999-01-01 00:00:00","seq":17},{"msgid":"n-1","status":"DELIVRD"}]`,
		strings.TrimPrefix(apptest.Phone, "+86"), apptest.CallbackKey)
	for range 2 { // the response of the first call was lost
		if got := callBack(b, 200, token, "application/json", body); got != `{"ok":1}` {
			t.Errorf("answered %s", got)
		}
	}
	all := inbox(b)
	if len(all) != 1 || deliveryOf(b, id) != "delivered" {
		t.Fatalf("stored are %+v", all)
	}
	m := apptest.Decode[api.Received](t, b.Expect(200, "", "GET", fmt.Sprint("/api/v1/received/", all[0].ReceivedID), nil))
	if m.SenderNo != "pushed" || m.PhoneNumber != "+86"+strings.TrimPrefix(apptest.Phone, "+86") || *m.OwnNumber != "1069" || *m.MessageNo != "17" ||
		*m.InReplyTo != id || m.ReceivedAt.UTC().Format("2006-01-02 15:04") != "2998-12-31 16:00" {
		t.Errorf("stored is %+v", m)
	}
	if strings.Contains(*m.Raw, apptest.CallbackKey) || strings.Contains(*m.Raw, "msgid") || !strings.Contains(*m.Raw, `"dest":"1069"`) {
		t.Errorf("raw is %s", *m.Raw)
	}
	// The provider repeats the message in another body. A message at another time is another message.
	if got := callBack(b, 200, token, "application/json", `{"mobile":"13800138000","text":"x","at":1788228184,"seq":"a"}`); got != `{"result":0}` {
		t.Errorf("answered %s", got)
	}
	callBack(b, 200, token, "application/json", `[{"mobile":"+8613800138000","text":"x","at":"2026-09-01T10:03:04+08:00"},{"mobile":"13800138000","text":"x","at":1788228185}]`)
	if got := texts(b); !slices.Equal(got[:2], []string{"x", "x"}) || len(got) != 3 {
		t.Errorf("stored are %q", got)
	}
	detail := apptest.Decode[api.CallbackDetail](t, b.Expect(200, "", "GET", fmt.Sprint("/api/v1/admin/callbacks/", b.Count("SELECT min(id) FROM callbacks")), nil))
	if len(detail.Messages) != 1 || len(detail.Receipts) != 1 || *detail.Messages[0].MessageNo != "17" || detail.LeftOut != 0 {
		t.Errorf("%+v", detail)
	}
}

// R4: a message without an id and a time is stored once too, although a repeat cannot be told from it by its fields.
func TestMessagesOfCallbacksAreStoredLaterOnce(t *testing.T) {
	b, _ := apptest.NewReceiving(t, replies)
	_, unlock := b.LockDay(2)
	body := `[{"mobile":"13800138000","text":"one"},{"mobile":"13800138000","text":"two"},{"msgid":"n-7"}]`
	for range 2 {
		callBack(b, 200, token, "application/json", body)
	}
	if got := texts(b); len(got) != 0 {
		t.Errorf("stored are %q while the inbox is locked", got)
	}
	if n := b.Count("SELECT count(*) FROM callbacks WHERE take_at > now() + interval '1 second'"); n != 1 {
		t.Errorf("%d callbacks wait", n)
	}
	unlock()
	b.Exec("UPDATE callbacks SET take_at = now()")
	apptest.Together(3, func(int) {
		if _, err := b.App.Receipts.TakeReceived(t.Context()); err != nil {
			t.Error(err)
		}
	})
	callBack(b, 200, token, "application/json", body)
	if n, err := b.App.Receipts.TakeReceived(t.Context()); n != 0 || err != nil {
		t.Errorf("%d callbacks taken again: %v", n, err)
	}
	if got := texts(b); !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("stored are %q", got)
	}
}

// A callback that the configuration no longer reads waits until the configuration reads it again. It does not stop other callbacks.
func TestMessagesOfACallbackWaitForAReadableConfiguration(t *testing.T) {
	b, p := apptest.NewReceiving(t, replies)
	_, unlock := b.LockDay(2)
	callBack(b, 200, token, "application/json", `{"mobile":"13800138000","text":"first"}`)
	unlock()
	change := func(callback map[string]any) {
		t.Helper()
		sender := b.GetSender("pushed")
		b.Expect(200, "", "PATCH", "/api/v1/admin/senders/pushed", map[string]any{"version": sender.Version, "config": apptest.ReceiverConfig(p, callback)})
		b.Exec("UPDATE callbacks SET take_at = now() WHERE take_at IS NOT NULL")
	}
	change(map[string]any{"received": map[string]any{"from": "mobile", "content": "words"}})
	callBack(b, 200, token, "application/json", `{"mobile":"13800138000","words":"second"}`)
	if got := texts(b); !slices.Equal(got, []string{"second"}) {
		t.Errorf("stored are %q", got)
	}
	change(replies)
	if n, err := b.App.Receipts.TakeReceived(t.Context()); n != 1 || err != nil {
		t.Errorf("%d callbacks, %v", n, err)
	}
	if got := texts(b); !slices.Equal(got, []string{"first", "second"}) {
		t.Errorf("stored are %q", got)
	}
}

func TestAProviderCanPostOnlyMessages(t *testing.T) {
	b := apptest.Open(t, apptest.DefaultRules, apptest.WithSecrets)
	p := apptest.NewProvider(t)
	sender := func(received map[string]any) map[string]any {
		config := p.SenderConfig()
		config["callback"], config["callbackSecret"] = map[string]any{"verify": "token", "format": "form", "received": received}, apptest.CallbackKey
		return map[string]any{"sender_no": "pushed", "name": "n", "kind": "http-sms", "config": config}
	}
	for field, received := range map[string]map[string]any{
		"config.callback.received.from":    {"content": "c"},
		"config.callback.received.content": {"from": "f"},
		"config.callback.received.types":   {"from": "f", "content": "c", "type": "t"},
		"config.callback.received.type":    {"from": "f", "content": "c", "types": []string{"t"}},
		"config.callback.received.offset":  {"from": "f", "content": "c", "offset": "Asia/Shanghai"},
		"config.callback.form":             {"from": "f", "content": "c", "form": "f"},
	} {
		if a := b.Expect(422, "request.invalid", "POST", "/api/v1/admin/senders", sender(received)); a.Fields() != field {
			t.Errorf("%v: wrong fields %s", received, a.Fields())
		}
	}
	b.AddSender(sender(map[string]any{"from": "f", "content": "c", "type": "kind", "types": []string{"mo"}}))
	callBack(b, 200, token, "application/x-www-form-urlencoded", "kind=mo&f=10086&c=%E9%80%80%E8%AE%A2")
	callBack(b, 422, token, "application/x-www-form-urlencoded", "kind=dlr&f=10086&c=x")
	callBack(b, 422, token, "application/x-www-form-urlencoded", "kind=mo&f=&c=x")
	if got := texts(b); !slices.Equal(got, []string{"退订"}) {
		t.Errorf("stored are %q", got)
	}
}

func TestACallbackCanContainManyMessages(t *testing.T) {
	b, _ := apptest.NewReceiving(t, replies)
	items := make([]string, 250)
	for i := range items {
		items[i] = fmt.Sprintf(`{"mobile":"13800138000","text":"%d","seq":%d}`, i, i)
	}
	callBack(b, 200, token, "application/json", "["+strings.Join(items, ",")+"]")
	if n := b.Count("SELECT count(*) FROM received_messages"); n != len(items) {
		t.Errorf("%d messages are stored", n)
	}
}

// S4.10: what a person wrote is in the bodies of callbacks too, also in those that repeat a message.
func TestAnErasureMasksCallbacksWithMessages(t *testing.T) {
	b, _ := apptest.NewReceiving(t, replies)
	for _, body := range []string{
		`[{"mobile":"13800138000","text":"my secret","seq":1},{"msgid":"n-9","status":"DELIVRD"}]`, `{"mobile":"13800138000","text":"my secret","seq":1}`,
		`{"mobile":"13900139000","text":"of another","seq":2}`,
	} {
		callBack(b, 200, token, "application/json", body)
	}
	b.Expect(200, "", "POST", "/api/v1/contacts/erasures", map[string]any{"phone": "13800138000"})
	for range 2 {
		b.Exec("UPDATE erasures SET next_at = now()")
		if _, err := b.App.Erasures.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := b.Count("SELECT count(*) FROM callbacks WHERE body LIKE '%my secret%' OR body LIKE '%13800138000%'"); n != 0 {
		t.Errorf("%d callbacks contain the person", n)
	}
	if got := texts(b); !slices.Equal(got, []string{"of another"}) || b.Count("SELECT count(*) FROM callbacks WHERE body LIKE '%of another%'") != 1 {
		t.Errorf("left are %q", got)
	}
	e := apptest.Decode[api.ErasurePage](t, b.Expect(200, "", "GET", "/api/v1/contacts/erasures", nil)).Items[0]
	if e.Counts.Received != 1 || e.Counts.Callbacks != 2 {
		t.Errorf("counts %+v", e.Counts)
	}
}
