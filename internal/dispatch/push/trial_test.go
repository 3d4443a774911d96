package push_test

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	api "lksms/gen/client"
	"lksms/internal/dispatch/queue"
	"lksms/internal/testkit/apptest"
)

// test sends a test message through the sender "pushed".
func test(b *apptest.Bundle) api.SenderTested {
	b.T.Helper()
	return apptest.Decode[api.SenderTested](b.T, b.Expect(200, "", "POST", "/api/v1/admin/senders/pushed/test",
		map[string]any{"phone_number": "13800138000", "content": "a test"}))
}

// An operator tests a new provider account before the account receives messages. The sender is off, and no company uses the sender.
func TestSenderThatIsOffCanBeTested(t *testing.T) {
	b, p := apptest.NewPushing(t, map[string]any{"status": "off", "is_shared": false, "sign": "ACME", "balance": 10, "limits": map[string]any{"per_day": 1}})
	b.Expect(200, "", "PUT", "/api/v1/admin/settings/sms", map[string]any{"send_tests": false})
	waiting := b.Submit("waits")
	for name, c := range map[string]struct {
		status  int
		says    string
		outcome api.SenderOutcome
		task    int16
		error   string
	}{
		"accepted":        {200, `{"code":"0","id":"p-7","echo":"hunter2"}`, api.OutcomeSent, queue.Success, ""},
		"refused":         {200, `{"code":"9","text":"no"}`, api.OutcomeRefused, queue.Failed, "no"},
		"refused for now": {200, `{"code":"8","text":"later"}`, api.OutcomeRefused, queue.Failed, "later"},
		"not understood":  {200, `{"state":"ok"}`, api.OutcomeUnclear, queue.Failed, "answer not understood: no field `code`"},
		"a wrong key":     {401, `{"message":"hunter2"}`, api.OutcomeTrouble, queue.Failed, "the provider answered 401"},
	} {
		before := *b.GetSender("pushed").Balance
		p.Says(c.status, c.says)
		got := test(b)
		if got.Outcome != c.outcome || got.Answer == nil || !strings.Contains(*got.Answer, strings.ReplaceAll(c.says, "hunter2", "***")) {
			t.Errorf("%s: %+v", name, got)
		}
		if c.error != "" && (got.Error == nil || *got.Error != c.error) {
			t.Errorf("%s: error %v", name, got.Error)
		}
		if r := got.Request; r == nil || r.Method != "POST" || !strings.HasPrefix(r.URL, p.URL) || r.Body != `{"password":"***","text":"【ACME】a test","to":"+8613800138000"}` {
			t.Errorf("%s: request %+v", name, got.Request)
		}
		task := b.Task(got.TaskID)
		if int16(task.Status) != c.task || !task.Test {
			t.Errorf("%s: the task is %+v", name, task)
		}
		cost := int64(1)
		if c.outcome == api.OutcomeRefused || c.outcome == api.OutcomeTrouble {
			cost = 0
		}
		if after := *b.GetSender("pushed").Balance; before-after != cost {
			t.Errorf("%s charged %d to the balance", name, before-after)
		}
	}
	if s := b.GetSender("pushed"); s.Status != api.SenderOff || s.Pause != nil {
		t.Errorf("the sender is %s, pause %+v", s.Status, s.Pause)
	}
	if n := len(p.Seen()); n != 5 {
		t.Errorf("%d calls", n)
	}
	if got := b.Task(waiting); got.Status != api.TaskPending {
		t.Errorf("the waiting task is %v", got.Status)
	}
	b.Exec("UPDATE sender_states SET balance = 0")
	if a := b.Expect(422, "request.invalid", "POST", "/api/v1/admin/senders/pushed/test", `{"phone_number":"13800138000","content":"x"}`); a.Fields() != "balance" {
		t.Errorf("wrong fields %s", a.Fields())
	}
	if n := b.Count("SELECT count(*) FROM messages"); n != 1+5 {
		t.Errorf("%d messages are stored", n)
	}
}

func TestOnlyAdministratorsCanTestDrivenSenders(t *testing.T) {
	b, p := apptest.NewPushing(t, nil)
	b.AddSender(map[string]any{"sender_no": "phone"})
	body := `{"phone_number":"13800138000","content":"x"}`
	for _, role := range []string{"submit", "read", "send"} {
		b.Expect(403, "auth.forbidden", "POST", "/api/v1/admin/senders/pushed/test", body, b.AddUser("user-"+role, role, nil)...)
	}
	b.Expect(409, "sender.not_testable", "POST", "/api/v1/admin/senders/phone/test", body)
	b.Expect(404, "sender.not_found", "POST", "/api/v1/admin/senders/nobody/test", body)
	b.Expect(422, "request.invalid", "POST", "/api/v1/admin/senders/pushed/test", `{"phone_number":"12","content":"x"}`)
	b.Expect(422, "request.invalid", "POST", "/api/v1/admin/senders/pushed/test", `{"phone_number":"13800138000"}`)
	if n := len(p.Seen()); n > 0 {
		t.Errorf("%d calls", n)
	}
}

// A test fails if an operator has switched off sending to its target. The test names its sender, so a company without shared senders can use it.
func TestSenderTestRespectsSwitches(t *testing.T) {
	b, p := apptest.NewPushing(t, nil)
	b.AddCountry("CN", "86", nil)
	p.Says(200, `{"code":"0","id":"p-7"}`)
	for path, fields := range map[string][2]string{
		"channels/sms": {`{"status":"off"}`, `{"status":"on"}`}, "countries/CN": {`{"status":"off"}`, `{"status":"on"}`},
		"companies/default": {`{"countries_off":["CN"]}`, `{"countries_off":[]}`},
	} {
		b.Expect(200, "", "PATCH", "/api/v1/admin/"+path, fields[0])
		a := b.Expect(422, "request.invalid", "POST", "/api/v1/admin/senders/pushed/test", `{"phone_number":"13800138000","content":"x"}`)
		if a.Fields() != "phone_number" || !strings.Contains(a.Raw, "is not sent to now: ") {
			t.Errorf("%s: %s", path, a.Raw)
		}
		b.Expect(200, "", "PATCH", "/api/v1/admin/"+path, fields[1])
	}
	if n := len(p.Seen()); n > 0 {
		t.Errorf("%d calls", n)
	}
	if n := b.Count("SELECT count(*) FROM messages"); n > 0 {
		t.Errorf("%d messages are stored", n)
	}
	b.Expect(200, "", "PATCH", "/api/v1/admin/companies/default", `{"uses_shared_senders":false}`)
	if got := test(b); got.Outcome != api.OutcomeSent {
		t.Errorf("%+v", got)
	}
}

// Only the tested sender sends the message of a test: not another sender after the server of the test stopped, nor after a requeue.
func TestNoOtherSenderSendsTheMessageOfATest(t *testing.T) {
	b, p := apptest.NewPushing(t, nil)
	called, release := make(chan bool, 1), make(chan bool)
	p.Does(func(http.ResponseWriter, *http.Request) {
		called <- true
		<-release
	})
	var tests sync.WaitGroup
	tests.Go(func() {
		b.Call("POST", "/api/v1/admin/senders/pushed/test", map[string]any{"phone_number": "13800138000", "content": "a test"})
	})
	defer tests.Wait()
	defer close(release)
	<-called
	id := apptest.Scan[string](b, "SELECT task_id FROM queue")
	for _, ago := range []string{"1 second", "1 hour"} { // as if the server had stopped; the time for a late report ends in between
		b.Exec("UPDATE queue SET expires_at = expires_at - (lease_until - now()) - $1::interval, lease_until = now() - $1::interval WHERE lease_until IS NOT NULL", ago)
		b.Recover()
		b.Exec("UPDATE queue SET due_at = now() WHERE lease_until IS NULL")
		if got := b.Take("app", 10); len(got) > 0 {
			t.Errorf("another sender got %+v", got)
		}
	}
	if got := b.Task(id); got.Status != api.TaskFailed {
		t.Errorf("the task is %v", got.Status)
	}
	b.Expect(409, "task.expired", "POST", "/api/v1/sms/task/"+id+"/requeue", nil)
}

// Where a country requires signatures, a test needs one, too.
func TestASenderIsTestedWithASignature(t *testing.T) {
	b, p := apptest.NewPushing(t, nil)
	b.AddCountry("CN", "86", map[string]any{"signature_required": true})
	body := map[string]any{"phone_number": "13800138000", "content": "a test"}
	if a := b.Expect(422, "request.invalid", "POST", "/api/v1/admin/senders/pushed/test", body); a.Fields() != "sign" {
		t.Errorf("wrong fields %s", a.Fields())
	}
	body["sign"] = "ACME"
	b.Expect(200, "", "POST", "/api/v1/admin/senders/pushed/test", body)
	if seen := p.Seen(); len(seen) != 1 || !strings.Contains(seen[0], `"【ACME】a test"`) {
		t.Errorf("sent %v", seen)
	}
}

// Operators need the beginning of an incomplete answer to see which program answered.
func TestTheBeginningOfAnIncompleteAnswerIsKept(t *testing.T) {
	b, p := apptest.NewPushing(t, nil)
	for name, c := range map[string]struct {
		does        http.HandlerFunc
		says, error string
	}{
		"too large": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "<html>hunter2"+strings.Repeat("x", 2<<20))
		}, "200 <html>***xxx", "the provider's answer is too large"},
		"broken off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, `{"code":"0","echo":"hunter`)
		}, `200 {"code":"0","echo":"***`, "the provider's answer is incomplete"},
	} {
		p.Does(c.does)
		got := test(b)
		if got.Outcome != api.OutcomeUnclear || got.Error == nil || *got.Error != c.error {
			t.Errorf("%s: %+v", name, got)
		}
		if got.Answer == nil || !strings.HasPrefix(*got.Answer, c.says) || utf8.RuneCountInString(*got.Answer) > 2000 {
			t.Errorf("%s: the answer is %v", name, got.Answer)
		}
		stored := apptest.Scan[string](b, "SELECT answer FROM deliveries WHERE task_id = $1", got.TaskID)
		if !strings.HasPrefix(stored, c.says) {
			t.Errorf("%s: the stored answer is %q", name, stored)
		}
	}
}

// The request of a test has the same fields as that of any other message.
func TestRequestOfATestHasAllFields(t *testing.T) {
	b, p := apptest.NewPushing(t, map[string]any{"status": "off"})
	config := p.SenderConfig()
	config["body"] = map[string]any{"to": "${recipient}", "text": "${content}", "password": "${secrets.password}", "at": "${entered_unix_ms}"}
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/pushed", map[string]any{"config": config})
	p.Says(200, `{"code":"0"}`)
	if r := test(b).Request; r == nil || strings.Contains(r.Body, `"at":"0"`) {
		t.Errorf("request %+v", r)
	}
}
