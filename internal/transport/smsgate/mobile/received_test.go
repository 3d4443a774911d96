package mobile_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/app"
	"lksms/internal/platform/secret"
	"lksms/internal/testkit/apptest"
	"lksms/internal/transport/smsgate/mobile"
)

// received returns all received messages, newest first.
func (s *server) received() []api.Received {
	s.T.Helper()
	return apptest.Decode[api.ReceivedPage](s.T, s.Expect(200, "", "GET", "/api/v1/received", nil)).Items
}

func (s *server) texts() (all []string) {
	for _, m := range s.received() {
		all = append(all, m.Content)
	}
	return all
}

// R2: the app of SMSGate posts received messages to this server without any change in the app.
func TestReceivedMessagesOfAPhoneAreStoredOnce(t *testing.T) {
	s := newServer(t)
	p := s.newPhone("phone")
	id := s.Submit("are you coming?")
	p.pull()
	p.sendPending()
	in := incoming{
		MessageID: "1c0ffee", Sender: apptest.Phone, PhoneNumber: apptest.Phone, Recipient: "+8613900139000", SimNumber: 2, Message: "是的 <ok>\x00",
		ReceivedAt: time.Now().Format("2006-01-02T15:04:05.000-07:00"),
	}
	for range 2 { // the response of the first post was lost
		if got := p.emitReceived(in); !slices.Equal(got, []int{200}) {
			t.Fatalf("the statuses are %v", got)
		}
	}
	in.MessageID = "2c0ffee" // the app finds the message a second time, in the database of the phone
	p.emitReceived(in)
	all := s.received()
	if len(all) != 1 {
		t.Fatalf("stored are %+v", all)
	}
	m := apptest.Decode[api.Received](t, s.Expect(200, "", "GET", fmt.Sprint("/api/v1/received/", all[0].ReceivedID), nil))
	if m.PhoneNumber != "+86"+apptest.Phone || m.Content != "是的 <ok>" || *m.Sim != 2 || *m.OwnNumber != "+8613900139000" || m.SenderNo != "phone" ||
		*m.MessageNo != "1c0ffee" || *m.InReplyTo != id || time.Since(*m.ReceivedAt) > time.Minute || !strings.Contains(*m.Raw, `"webhookId":"lksms-text"`) {
		t.Errorf("stored is %+v", m)
	}
	again := in
	again.ReceivedAt = time.Now().Add(-time.Minute).Format("2006-01-02T15:04:05.000Z07:00")
	again.MessageID = "3c0ffee"
	p.emitReceived(again)
	if got := s.texts(); len(got) != 2 {
		t.Errorf("a true repeat is not stored: %q", got)
	}
}

func TestUnusualPostsOfAPhoneAreStoredOrIgnored(t *testing.T) {
	s := newServer(t)
	p := s.newPhone("phone")
	post := func(event string, payload any) int {
		t.Helper()
		body, err := json.Marshal(map[string]any{"deviceId": p.info.ID, "event": event, "payload": payload})
		if err != nil {
			t.Fatal(err)
		}
		return p.post(p.hooks[0].URL, p.signingKey, strconv.FormatInt(time.Now().Unix(), 10), string(body))
	}
	encoded := func(text string) incoming {
		return incoming{MessageID: "d", PhoneNumber: "10086", Data: base64.StdEncoding.EncodeToString([]byte(text)), ReceivedAt: "2026-11-28T10:00:00.000Z"}
	}
	for i, one := range []struct {
		event   string
		payload any
		stored  string
	}{
		{"sms:received", incoming{MessageID: "a", PhoneNumber: "MyBank", Message: "of an old app", ReceivedAt: "2026-11-28T10:00:00.000Z"}, "of an old app"},
		{"sms:received", map[string]any{"message": "without all other fields"}, "without all other fields"},
		{"sms:received", incoming{MessageID: strings.Repeat("n", 300), Sender: strings.Repeat("8", 80), Message: "too long", SimNumber: 90, ReceivedAt: "yesterday"}, "too long"},
		{"sms:received", incoming{MessageID: "e", Sender: "10086", Message: strings.Repeat("长", 41_000), ReceivedAt: "2026-11-28T10:00:00.000Z"}, strings.Repeat("长", 20_000)},
		{"sms:received", incoming{MessageID: "y", Sender: "10086", Message: "from another age", ReceivedAt: "9999-12-31T23:59:59-05:00"}, "from another age"},
		{"sms:received", map[string]any{"messageId": 17, "sender": 10086, "message": 4711, "simNumber": "2", "receivedAt": 1_700_000_000}, "4711"},
		{"sms:received", map[string]any{"sender": true, "recipient": nil, "message": "in odd fields", "simNumber": 70_000}, "in odd fields"},
		{"sms:data-received", encoded("a text\nin data"), "a text\nin data"},
		{"sms:data-received", encoded("\x01\x02\xff"), ""},
		{"sms:data-received", map[string]any{"data": "no base64"}, ""},
		{"mms:received", map[string]any{"messageId": "m", "size": 7}, ""},
		{"sms:sent", map[string]any{"messageId": "m"}, ""},
		{"system:ping", map[string]any{"health": map[string]any{}}, ""},
		{"sms:unheard-of", nil, ""},
	} {
		before := len(s.received())
		if status := post(one.event, one.payload); status != 200 {
			t.Fatalf("%d: status %d", i, status)
		}
		after := s.received()
		if one.stored == "" && len(after) != before || one.stored != "" && (len(after) != before+1 || after[0].Content != one.stored) {
			t.Errorf("%d: stored %d messages, want %.30q", i, len(after)-before, one.stored)
		}
	}
}

func TestPostsWithoutTheSignatureOfThePhoneAreRefused(t *testing.T) {
	s := newServer(t)
	first := s.newPhone("phone")
	other := s.newPhone("other")
	body := func(device string) string {
		return `{"deviceId":"` + device + `","event":"sms:received","payload":{"messageId":"1","sender":"10086","message":"forged","receivedAt":"2026-11-28T10:00:00Z"}}`
	}
	at := func(d time.Duration) string { return strconv.FormatInt(time.Now().Add(d).Unix(), 10) }
	url := first.hooks[0].URL
	for name, status := range map[string]int{
		"key of another phone": first.post(url, other.signingKey, at(0), body(first.info.ID)),
		"own key of the app":   first.post(url, "aB3_xY9-", at(0), body(first.info.ID)),
		"empty key":            first.post(url, "", at(0), body(first.info.ID)),
		"unknown phone":        first.post(url, first.signingKey, at(0), body("nobody")),
		"NUL in the phone":     first.post(url, first.signingKey, at(0), body(`x\u0000`)),
		"old":                  first.post(url, first.signingKey, at(-6*time.Minute), body(first.info.ID)),
		"of the future":        first.post(url, first.signingKey, at(6*time.Minute), body(first.info.ID)),
		"no time":              first.post(url, first.signingKey, "now", body(first.info.ID)),
	} {
		if status != 401 {
			t.Errorf("%s: status %d", name, status)
		}
	}
	for _, broken := range []string{"", "{", "[]", `"x"`, `{"payload":7}`} {
		if status := first.post(url, first.signingKey, at(0), broken); status != 400 && status != 401 {
			t.Errorf("%q: status %d", broken, status)
		}
	}
	if status := first.post(url, first.signingKey, at(4*time.Minute), body(first.info.ID)); status != 200 {
		t.Errorf("a clock that is a little fast: status %d", status)
	}
	s.Expect(200, "", "PATCH", "/api/v1/admin/users/"+other.info.Login, map[string]any{"is_disabled": true})
	if status := other.post(url, other.signingKey, at(0), body(other.info.ID)); status != 401 {
		t.Errorf("a disabled phone: status %d", status)
	}
	second := s.registered("phone")
	if status := first.post(url, first.signingKey, at(0), body(first.info.ID)); status != 401 || second.signingKey == first.signingKey {
		t.Errorf("the phone that was replaced: status %d", status)
	}
	if got := second.emitReceived(incoming{MessageID: "2", Sender: "10086", Message: "of the new phone", ReceivedAt: "2026-11-28T10:00:00Z"}); got[0] != 200 {
		t.Errorf("the new phone: status %v", got)
	}
	if got := s.texts(); !slices.Equal(got, []string{"of the new phone", "forged"}) {
		t.Errorf("stored are %q", got)
	}
}

// An app that registers with a code has read its webhooks and settings before, without a token.
func TestANewPhoneIsAskedToReadItsWebhooksAndSettings(t *testing.T) {
	s := newServer(t)
	s.AddSender(map[string]any{"sender_no": "phone"})
	p := newPhone(t, s.client, s.address)
	p.tryCode(s.pair("phone", map[string]any{}).Code)
	events := p.listen()
	for _, want := range []string{"WebhooksUpdated", "SettingsUpdated"} {
		if got := <-events; got != want {
			t.Fatalf("the event is %s, want %s", got, want)
		}
	}
	p.updateWebhooks()
	p.updateSettings()
	if got := p.emitReceived(incoming{MessageID: "1", Sender: "10086", Message: "hello", ReceivedAt: "2026-11-28T10:00:00Z"}); !slices.Equal(got, []int{200}) {
		t.Errorf("statuses %v", got)
	}
	again := p.listen()
	s.Submit("text")
	if got := <-again; got != "MessageEnqueued" {
		t.Errorf("the event is %s", got)
	}
}

func TestPhonesAreAskedToPostTheMessagesOfAPeriodAgain(t *testing.T) {
	s := newServer(t)
	p := s.newPhone("phone")
	shop := s.AddUser("shop", "submit", nil)
	const refresh = "/smsgate/3rdparty/v1/inbox/refresh"
	period := func(more ...any) map[string]any {
		all := map[string]any{"since": "2026-11-01T00:00:00Z", "until": "2026-11-02T00:00:00+08:00"}
		for i := 0; i < len(more); i += 2 {
			all[more[i].(string)] = more[i+1]
		}
		return all
	}
	events := p.listen()
	const want = `MessagesExportRequested {"since":"2026-11-01T00:00:00.000Z","until":"2026-11-01T16:00:00.000Z","messageTypes":"SMS","triggerWebhooks":true}`
	for _, body := range []map[string]any{period(), period("deviceId", "phone", "triggerWebhooks", false, "messageTypes", []string{"MMS", "SMS"})} {
		if status := s.Call("POST", refresh, body, shop...).Status; status != 202 {
			t.Fatalf("status %d", status)
		}
		if got := <-events; got != want {
			t.Errorf("the event is %s", got)
		}
		apptest.Eventually(t, "the request ends", func() bool { return s.Count("SELECT count(*) FROM phone_inboxes WHERE export_since IS NOT NULL") == 0 })
	}
	s.AddSender(map[string]any{"sender_no": "no-phone"})
	for status, body := range map[int]map[string]any{
		501: period("deviceId", "no-phone"), 404: period("deviceId", "nobody"), 400: {"since": "2026-11-02T00:00:00Z", "until": "2026-11-01T00:00:00Z"},
	} {
		if got := s.Call("POST", refresh, body, shop...).Status; got != status {
			t.Errorf("status %d, want %d", got, status)
		}
	}
	for _, body := range []map[string]any{{"since": "2026-11-02T00:00:00Z"}, {"until": "2026-11-02T00:00:00Z"}} {
		if got := s.Call("POST", refresh, body, shop...).Status; got != 400 {
			t.Errorf("status %d", got)
		}
	}
	if got := s.Call("POST", refresh, period("messageTypes", []string{"MMS"}), shop...).Status; got != 501 {
		t.Errorf("status %d", got)
	}
}

// Without a key that encrypts secrets, the server stores no signing keys.
func TestPhonesPostNothingToAServerWithoutSecretsKey(t *testing.T) {
	s := newServerWith(t, func(*app.Options) {})
	p := s.newPhone("phone")
	if len(p.hooks) > 0 || p.signingKey != "aB3_xY9-" {
		t.Errorf("the phone has the webhooks %v and the key %q", p.hooks, p.signingKey)
	}
	if status := p.post(p.address+"/received", "", "0", `{"deviceId":"`+p.info.ID+`"}`); status != 401 {
		t.Errorf("status %d", status)
	}
}

func TestKeysOfPhonesAreEncryptedAgain(t *testing.T) {
	const key = "a2V5IG9mIHRoZSBzZXJ2ZXIsIDMyIGJ5dGVzIGxvbmc="
	s := newServerWith(t, func(o *app.Options) { o.Secrets = apptest.Secrets(key) })
	p := s.newPhone("phone")
	encrypted := func() (key string) {
		if err := s.DB.QueryRow(t.Context(), "SELECT signing_key FROM phone_inboxes").Scan(&key); err != nil {
			t.Fatal(err)
		}
		return key
	}
	before := encrypted()
	if strings.Contains(before, p.signingKey) {
		t.Error("the key is not encrypted")
	}
	box := apptest.Secrets(secret.NewKey(), key)
	for _, want := range []int{1, 0} {
		if n, err := mobile.RotateSecrets(t.Context(), s.App.DB, box); err != nil || n != want {
			t.Errorf("%d keys encrypted again, want %d: %v", n, want, err)
		}
	}
	// The server of the test does not have the new key, as after the loss of its key. The phone gets another one.
	if encrypted() == before {
		t.Error("the key is not encrypted again")
	}
	lost := p.signingKey
	p.start()
	if p.signingKey == lost {
		t.Error("the phone keeps a key that the server cannot open")
	}
	if got := p.emitReceived(incoming{MessageID: "1", Sender: "10086", Message: "x", ReceivedAt: "2026-11-28T10:00:00Z"}); !slices.Equal(got, []int{200}) {
		t.Errorf("statuses %v", got)
	}
}
