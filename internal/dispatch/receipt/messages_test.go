package receipt_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
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

// A provider posts receipts and messages to one address.
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

// A message without an id and a time is also stored once, although its fields do not show whether it is a repeat.
func TestMessagesThatWaitInCallbacksAreStoredOnce(t *testing.T) {
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

// A callback that cannot be read with a changed configuration waits until the configuration can read it. It does not delay other callbacks.
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
	change(map[string]any{"received": map[string]any{"from": "mobile", "content": "words", "messageNo": "seq"}})
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
		"config.callback.received.time":    {"from": "f", "content": "c"}, // time or messageNo is required: otherwise a second STOP would count as a repeat of the first
		"config.callback.received.types":   {"from": "f", "content": "c", "time": "t", "type": "t"},
		"config.callback.received.type":    {"from": "f", "content": "c", "time": "t", "types": []string{"t"}},
		"config.callback.received.offset":  {"from": "f", "content": "c", "time": "t", "offset": "Asia/Shanghai"},
		"config.callback.received.form":    {"from": "f", "content": "c", "time": "t", "form": "f"},
	} {
		if a := b.Expect(422, "request.invalid", "POST", "/api/v1/admin/senders", sender(received)); a.Fields() != field {
			t.Errorf("%v: wrong fields %s", received, a.Fields())
		}
	}
	b.AddSender(sender(map[string]any{"from": "f", "content": "c", "time": "t", "type": "kind", "types": []string{"mo"}}))
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
	e := erasePerson(b)
	if e.Status != api.ErasureFinished || e.Counts.Received != 1 || e.Counts.Callbacks != 2 {
		t.Errorf("%+v", e)
	}
	expectErased(b, "of another")
	if b.Count("SELECT count(*) FROM callbacks WHERE body LIKE '%of another%'") != 1 {
		t.Error("the callback of another person is masked")
	}
}

// S4.10: providers write a number as text or as a number, with or without the code of its country.
func TestAnErasureFindsAPersonInCallbacksInEveryNotation(t *testing.T) {
	b, _ := apptest.NewReceiving(t, replies)
	for i, number := range notations {
		callBack(b, 200, token, "application/json", fmt.Sprintf(`{"mobile":%s,"text":"my secret","seq":%d}`, number, i))
	}
	if e := erasePerson(b); e.Counts.Received != int64(len(notations)) || e.Counts.Callbacks != int64(len(notations)) {
		t.Errorf("%+v", e.Counts)
	}
	expectErased(b)

	callBack(b, 200, token, "application/json", `{"mobile":"8123 4567","text":"my secret","seq":1}`) // a number abroad, which is stored unchanged
	b.Expect(200, "", "POST", "/api/v1/contacts/erasures", map[string]any{"phone": "+6581234567"})
	runErasures(b)
	expectErased(b)
}

// notations contains one number as it is written in the JSON of providers.
var notations = []string{
	`"13800138000"`, `13800138000`, `"+8613800138000"`, `"8613800138000"`, `"008613800138000"`, `"138-0013-8000"`, `"+86 138 0013 8000"`, `"１３８００１３８０００"`,
	`"\u0031380013800\u0030"`,
}

func TestACallbackThatIsPostedAgainDoesNotBringBackAnErasedPerson(t *testing.T) {
	b, _ := apptest.NewReceiving(t, replies)
	const first = `{"mobile":"13800138000","text":"my secret"}`
	const second = `{"mobile":"13800138000","text":"my secret","seq":1}`
	for _, body := range []string{first, second} {
		callBack(b, 200, token, "application/json", body)
	}
	if e := erasePerson(b); e.Counts.Received != 2 || e.Counts.Callbacks != 2 {
		t.Errorf("%+v", e.Counts)
	}
	for _, body := range []string{first, second, `[{"mobile":"+8613800138000","text":"my secret","seq":1},{"mobile":"13900139000","text":"of another","seq":2}]`} {
		callBack(b, 200, token, "application/json", body)
	}
	expectErased(b, "of another")
	if n := b.Count("SELECT count(*) FROM callbacks WHERE take_at IS NOT NULL"); n != 0 {
		t.Errorf("%d callbacks are due", n)
	}
}

// The erasure empties a message while a callback repeats this message.
func TestACallbackDuringAnErasureDoesNotBringBackThePerson(t *testing.T) {
	b, _ := apptest.NewReceiving(t, replies)
	callBack(b, 200, token, "application/json", `{"mobile":"13800138000","text":"my secret","seq":1}`)
	tx, err := b.DB.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	for _, sql := range []string{"UPDATE received_messages SET phone_number = '', content = '', message_no = NULL, raw = NULL", "UPDATE callbacks SET body = '********'"} {
		if _, err := tx.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	var done sync.WaitGroup
	done.Go(func() {
		callBack(b, 200, token, "application/json", `[{"mobile":"13800138000","text":"my secret","seq":1}]`)
	})
	apptest.Eventually(t, "the repeat waits", func() bool { return waiting(b) > 0 })
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	done.Wait()
	expectErased(b)
}

// The erasure begins after a callback has found the message that it repeats, and before the callback is stored.
func TestAnErasureDuringACallbackMasksItsBody(t *testing.T) {
	b, _ := apptest.NewReceiving(t, replies)
	callBack(b, 200, token, "application/json", `{"mobile":"13800138000","text":"my secret","seq":1}`)
	b.Exec(`CREATE FUNCTION pause() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NEW; END $$`)
	b.Exec("CREATE TRIGGER pause BEFORE UPDATE OF take_at ON callbacks FOR EACH ROW EXECUTE FUNCTION pause()")
	tx, err := b.DB.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), "SELECT pg_advisory_xact_lock(1)"); err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	done.Go(func() {
		callBack(b, 200, token, "application/json", `[{"mobile":"13800138000","text":"my secret","seq":1}]`)
	})
	apptest.Eventually(t, "the callback waits", func() bool { return waiting(b) == 1 })
	b.Expect(200, "", "POST", "/api/v1/contacts/erasures", map[string]any{"phone": "13800138000"})
	b.Exec("UPDATE erasures SET created_at = now() - interval '1 minute'") // so that the erasure does not wait for the callback
	hasEnded := make(chan struct{})
	done.Go(func() {
		defer close(hasEnded)
		if _, err := b.App.Erasures.Run(t.Context()); err != nil {
			t.Error(err)
		}
	})
	apptest.Eventually(t, "the erasure waits for the callback", func() bool {
		select {
		case <-hasEnded: // expectErased then reports the error
			return true
		default:
			return waiting(b) == 2
		}
	})
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	done.Wait()
	expectErased(b)
}

// waiting returns how many transactions wait for a lock.
func waiting(b *apptest.Bundle) int {
	b.T.Helper()
	return b.Count("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")
}

// S4.10: the server has stopped, or the configuration of the sender is wrong. An erasure that ended now would miss the messages that are stored later.
func TestAnErasureWaitsForCallbacksThatAreDue(t *testing.T) {
	for _, number := range notations {
		t.Run(number, func(t *testing.T) {
			b, _ := apptest.NewReceiving(t, replies)
			b.Exec("INSERT INTO callbacks (sender_no, source_ip, body, take_at) VALUES ('pushed', '1.1.1.1', $1, now())",
				`[{"mobile":`+number+`,"text":"my secret"},{"mobile":"13900139000","text":"of another"}]`)
			b.Exec("INSERT INTO callbacks (sender_no, source_ip, body, take_at) VALUES ('gone', '1.1.1.1', 'mobile=13900139000&text=x', now())")
			if e := erasePerson(b); e.Status != api.ErasureRunning {
				t.Errorf("%+v", e)
			}
			if _, err := b.App.Receipts.TakeReceived(t.Context()); err == nil {
				t.Error("the callback of a missing sender is stored")
			}
			if e := runErasures(b); e.Status != api.ErasureFinished || e.Counts.Received != 1 || e.Counts.Callbacks != 1 {
				t.Errorf("%+v", e)
			}
			expectErased(b, "of another")
		})
	}
}

// The erasure masks the receipts of the person in callbacks. The messages of other people are read from the unchanged body first.
func TestAnErasureKeepsMessagesOfOtherPeopleInCallbacksThatAreDue(t *testing.T) {
	b, _ := apptest.NewReceiving(t, replies)
	b.AwaitStatus(b.Submit("x"), queue.Success)
	callBack(b, 200, token, "application/json", `[{"msgid":"n-1","mobile":13800138000,"status":"DELIVRD"},{"mobile":"13900139000","text":"of another"}]`)
	b.Exec("DELETE FROM received_messages")
	b.Exec("UPDATE callbacks SET take_at = now(), received_ids = NULL")
	if e := erasePerson(b); e.Status != api.ErasureRunning || e.Counts.Receipts != 1 || e.Counts.Callbacks != 1 {
		t.Errorf("%+v", e)
	}
	if _, err := b.App.Receipts.TakeReceived(t.Context()); err != nil {
		t.Error(err)
	}
	if e := runErasures(b); e.Status != api.ErasureFinished || e.Counts.Callbacks != 1 {
		t.Errorf("%+v", e)
	}
	expectErased(b, "of another")
}

// An erasure masks the body of a callback that could not be read. If the provider posts the callback again, the new body replaces the masked body.
func TestACallbackWithAMaskedBodyIsStoredWhenItIsPostedAgain(t *testing.T) {
	b, p := apptest.NewReceiving(t, nil)
	b.AwaitStatus(b.Submit("x"), queue.Success)
	const body = `[{"msgid":"n-1","mobile":13800138000,"status":"DELIVRD"},{"mobile":"13900139000","text":"of another"}]`
	callBack(b, 200, token, "application/json", body)
	erasePerson(b)
	expectErased(b)
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/pushed", map[string]any{
		"version": b.GetSender("pushed").Version, "config": apptest.ReceiverConfig(p, replies),
	})
	callBack(b, 200, token, "application/json", body)
	if got := texts(b); !slices.Equal(got, []string{"of another"}) {
		t.Errorf("stored are %q", got)
	}
}

// After the messages of a body were deleted, an erasure cannot find the body. So the deletion masks the body.
func TestTheDeletionOfMessagesMasksTheirCallbacks(t *testing.T) {
	b, _ := apptest.NewReceiving(t, replies)
	callBack(b, 200, token, "application/json", `{"mobile":"13800138000","text":"my secret","seq":1}`)
	b.Exec("UPDATE received_messages SET created_at = now() - interval '181 days'")
	callBack(b, 200, token, "application/json", `{"mobile":"13900139000","text":"of another","seq":2}`)
	if n, err := b.App.Received.DeleteExpired(t.Context()); n != 1 || err != nil {
		t.Errorf("%d messages, %v", n, err)
	}
	expectErased(b, "of another")
}

// erasePerson asks for the erasure of 13800138000, runs it, and returns it.
func erasePerson(b *apptest.Bundle) api.Erasure {
	b.T.Helper()
	b.Expect(200, "", "POST", "/api/v1/contacts/erasures", map[string]any{"phone": "13800138000"})
	return runErasures(b)
}

// runErasures runs the erasures three times, and returns the last one.
func runErasures(b *apptest.Bundle) api.Erasure {
	b.T.Helper()
	b.RunErasures()
	return apptest.Decode[api.ErasurePage](b.T, b.Expect(200, "", "GET", "/api/v1/contacts/erasures", nil)).Items[0]
}

// expectErased checks that no callback and no message contains the erased person, and that the given texts of other people are stored.
func expectErased(b *apptest.Bundle, others ...string) {
	b.T.Helper()
	for _, table := range []string{"callbacks", "received_messages"} {
		for _, trace := range []string{"my secret", "13800138000", "138-0013", "8123 4567", "81234567"} {
			if n := b.Count("SELECT count(*) FROM "+table+" r WHERE strpos(r::text, $1) > 0", trace); n != 0 {
				b.T.Errorf("%d rows of %s contain %s", n, table, trace)
			}
		}
	}
	if got := texts(b); !slices.Equal(got, others) {
		b.T.Errorf("stored are %q, want %q", got, others)
	}
}

// A person answers STOP through the callback that the page of Tencent Cloud describes. The block is enforced before the answer.
func TestAStopMessageInACallbackBlocksThePerson(t *testing.T) {
	b := apptest.NewWith(t, apptest.DefaultRules, apptest.WithSecrets)
	text, err := os.ReadFile("../../../docs/providers/tencent-sms.json")
	if err != nil {
		t.Fatal(err)
	}
	var sender map[string]any
	if err := json.Unmarshal(text, &sender); err != nil {
		t.Fatal(err)
	}
	sender["config"].(map[string]any)["callbackSecret"] = apptest.CallbackKey
	b.Expect(200, "", "POST", "/api/v1/admin/senders", sender)
	waiting := b.SubmitBody(map[string]any{"phone_number": "13800138000", "content": "sale", "message_type": "marketing"}).TaskID
	const body = `{"extend":"1","mobile":"13800138000","nationcode":"86","sign":"示例公司","text":"STOP","time":1788228184}`
	for range 2 {
		if got := callBackTo(b, "tencent_1", 200, token, "application/json", body); got != `{"result":0,"errmsg":"OK"}` {
			t.Errorf("answered %s", got)
		}
		if task := b.Task(waiting); task.Status != api.TaskCancelled {
			t.Errorf("%+v", task)
		}
	}
	all := inbox(b)
	if len(all) != 1 || all[0].Kind != api.ReceivedOptOut {
		t.Fatalf("%+v", all)
	}
	blocks := apptest.Decode[api.BlockPage](t, b.Expect(200, "", "GET", "/api/v1/blocks?company_no=default", nil)).Items
	if len(blocks) != 1 || *blocks[0].ReceivedID != all[0].ReceivedID || blocks[0].CreatedBy != "system:opt_out" {
		t.Errorf("%+v", blocks)
	}
	b.Expect(409, "recipient.blocked", "POST", "/api/v1/sms/send?dry_run=true", map[string]any{"phone_number": "13800138000", "content": "sale", "message_type": "marketing"})
}

// The provider repeats a callback to another server while the first server stores it. It also repeats a message in another callback.
func TestTwoServersStoreAMessageOnce(t *testing.T) {
	b, _ := apptest.NewReceiving(t, replies)
	other := httptest.NewServer(apptest.Another(b).Handler)
	defer other.Close()
	second := *b
	second.URL = other.URL
	servers := []*apptest.Bundle{b, &second}
	bodies := []string{
		`[{"mobile":"13800138000","text":"without id"},{"mobile":"13800138000","text":"with id","seq":7}]`, `{"mobile":"13800138000","text":"with id","seq":7}`,
	}
	apptest.Together(12, func(i int) { callBack(servers[i%2], 200, token, "application/json", bodies[i/2%2]) })
	b.Exec("UPDATE callbacks SET take_at = now() WHERE take_at IS NOT NULL") // a server can have postponed one
	if _, err := b.App.Receipts.TakeReceived(t.Context()); err != nil {
		t.Error(err)
	}
	if got := texts(b); !slices.Equal(got, []string{"with id", "without id"}) {
		t.Errorf("stored are %q", got)
	}
}

// The messages are read from the stored body.
func TestMessagesOfCallbacksInOtherEncodingsKeepTheirTexts(t *testing.T) {
	b, _ := apptest.NewReceiving(t, replies)
	callBack(b, 200, token, "application/json", "{\"mobile\":\"13800138000\",\"text\":\"\xb3\xc9\xb9\xa6\",\"seq\":1}") // GBK
	if got := texts(b); !slices.Equal(got, []string{"成功"}) {
		t.Errorf("stored are %q", got)
	}
}

// R3: providers post the code of the country beside the number, and some of them also in the number.
func TestAStopMessageWithACountryCodeBlocksThePerson(t *testing.T) {
	b, _ := apptest.NewReceiving(t, map[string]any{"received": map[string]any{"from": "mobile", "country": "nation", "content": "text", "messageNo": "seq"}})
	for i, m := range []struct{ nation, mobile, want string }{
		{"49", "4915112345678", "+4915112345678"},
		{"49", "491711234567", "+491711234567"},
		{"49", "15212345678", "+4915212345678"},
		{"+86", "8613800138000", "+8613800138000"},
		{"0065", "6581234567", "+6581234567"},
		{"881", "651234567", "+881651234567"}, // a satellite network without a region
		{"870", "870773110000", "+870773110000"},
	} {
		callBack(b, 200, token, "application/json", fmt.Sprintf(`{"nation":%q,"mobile":%q,"text":"STOP","seq":%d}`, m.nation, m.mobile, i))
		if got := apptest.Scan[string](b, "SELECT recipient FROM blocks ORDER BY id DESC LIMIT 1"); got != m.want {
			t.Errorf("%+v blocked %s", m, got)
		}
	}
	b.Expect(200, "", "PATCH", "/api/v1/admin/companies/default", map[string]any{"default_region": "DE"})
	callBack(b, 200, token, "application/json", `{"nation":"86","mobile":"10690","text":"STOP","seq":"short"}`)
	callBack(b, 200, token, "application/json", `{"nation":"999","mobile":"15112345678","text":"STOP","seq":"unknown country"}`)
	if n := b.Count("SELECT count(*) FROM blocks"); n != 7 {
		t.Errorf("%d blocks", n)
	}
}
