package app_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"lksms/gen/api"
)

const keyHeader = "Idempotency-Key"

func TestARepeatUnderAKeyGetsTheFirstAnswer(t *testing.T) {
	b := setup(t)
	for path, bodies := range map[string][2]string{
		"/api/v1/sms/send":          {`{"phone_number":"13800138000","content":"x"}`, `{"phone_number":"13800138000","content":"y"}`},
		"/api/v1/admin/template":    {`{"template_name":"n","template_content":"x"}`, `{"template_name":"n","template_content":"y"}`},
		"/api/v1/admin/default-sms": {`{"phone_number":"13800138000","content":"x"}`, `{"phone_number":"13900139000","content":"x"}`},
	} {
		first := b.expect(200, "", "POST", path, bodies[0], keyHeader, "k-1")
		again := b.expect(200, "", "POST", path, bodies[0], keyHeader, "k-1")
		if again.raw != first.raw || again.header.Get("Idempotency-Replayed") != "true" || first.header.Get("Idempotency-Replayed") != "" {
			t.Errorf("%s: first %s again %s", path, first.raw, again.raw)
		}
		b.expect(422, "idempotency.key_reused", "POST", path, bodies[1], keyHeader, "k-1")
		b.expect(422, "request.invalid", "POST", path, bodies[0], keyHeader, strings.Repeat("k", 201))
		b.expect(422, "request.invalid", "POST", path, bodies[0], keyHeader, "a b")
	}
	// Another key, another user: another request.
	b.expect(200, "", "POST", "/api/v1/sms/send", `{"phone_number":"13800138000","content":"x"}`, keyHeader, "k-2")
	b.expect(200, "", "POST", "/api/v1/sms/send", `{"phone_number":"13800138000","content":"x"}`, append(b.user("system", "submit", nil), keyHeader, "k-1")...)
	if n := b.count("SELECT count(*) FROM tasks"); n != 3 {
		t.Errorf("%d tasks, want 3", n)
	}
	if n := b.count("SELECT count(*) FROM receive_logs WHERE status_code = 422"); n != 3 {
		t.Errorf("%d refusals of /sms/send are kept, want 3", n)
	}
}

func TestAKeyWhoseRequestFailedCanBeUsedAgain(t *testing.T) {
	b := setup(t)
	body := map[string]any{"phone_number": phone}
	b.expect(422, "request.invalid", "POST", "/api/v1/sms/send", body, keyHeader, "k") // it has no default content
	if n := b.count("SELECT count(*) FROM receive_logs WHERE status_code = 422"); n != 1 {
		t.Errorf("%d refusals are kept", n)
	}
	b.expect(200, "", "POST", "/api/v1/admin/default-sms", map[string]any{"phone_number": phone, "content": "x"})
	first := b.expect(200, "", "POST", "/api/v1/sms/send", body, keyHeader, "k")
	again := b.expect(200, "", "POST", "/api/v1/sms/send", body, keyHeader, "k")
	if first.raw != again.raw {
		t.Errorf("first %s again %s", first.raw, again.raw)
	}
	if n := b.count("SELECT count(*) FROM tasks"); n != 1 {
		t.Errorf("%d tasks", n)
	}
}

func TestFiftyAtOnceUnderOneKeyDoTheWorkOnce(t *testing.T) {
	b := setup(t)
	answers := make([]answer, 50)
	together(len(answers), func(i int) {
		answers[i] = b.call("POST", "/api/v1/sms/send", map[string]any{"phone_number": phone, "content": "x"}, keyHeader, "k")
	})
	ids := map[string]bool{}
	for _, a := range answers {
		switch {
		case a.status == 200:
			ids[decode[api.Submitted](t, a).TaskID] = true
		case a.status != 409 || a.body.Error.Reason != "idempotency.in_flight" || a.header.Get("Retry-After") == "":
			t.Errorf("got %d %s", a.status, a.raw)
		}
	}
	if n := b.count("SELECT count(*) FROM tasks"); n != 1 || len(ids) != 1 {
		t.Errorf("%d tasks, %d ids", n, len(ids))
	}
}

// Refused requests under keys hold a connection each; keeping the refusals must not need another one meanwhile.
func TestManyRefusedRequestsUnderKeysAtOnce(t *testing.T) {
	b := setup(t)
	together(100, func(i int) {
		b.expect(422, "request.invalid", "POST", "/api/v1/sms/send", map[string]any{"phone_number": phone}, keyHeader, fmt.Sprint("k", i))
	})
	if n := b.count("SELECT count(*) FROM receive_logs"); n != 100 {
		t.Errorf("%d refusals are kept", n)
	}
}

func TestKeysAreForgottenAfterADay(t *testing.T) {
	b := setup(t)
	send := func() string {
		return b.expect(200, "", "POST", "/api/v1/sms/send", map[string]any{"phone_number": phone, "content": "x"}, keyHeader, "k").raw
	}
	first := send()
	b.exec("UPDATE idempotency_keys SET created_at = now() - interval '23 hours'")
	if n, err := b.app.Answers.Sweep(t.Context()); err != nil || n != 0 {
		t.Errorf("forgot %d, %v", n, err)
	}
	if send() != first {
		t.Error("forgotten within the day")
	}
	b.exec("UPDATE idempotency_keys SET created_at = now() - interval '25 hours'")
	if n, err := b.app.Answers.Sweep(t.Context()); err != nil || n != 1 {
		t.Errorf("forgot %d, %v", n, err)
	}
	if send() == first {
		t.Error("remembered after a day")
	}
}

// The address belongs to the request that a key stands for.
func TestAKeyForAnotherAddressIsAnotherKey(t *testing.T) {
	b := setup(t)
	for _, no := range []string{"a", "b"} {
		b.sender(map[string]any{"sender_no": no, "balance": 10})
		b.expect(200, "", "POST", "/api/v1/admin/senders/"+no+"/balance", map[string]any{"change": 5}, keyHeader, "k")
	}
	b.expect(200, "", "POST", "/api/v1/admin/senders/a/balance", map[string]any{"change": 5}, keyHeader, "k") // a repeat
	for _, no := range []string{"a", "b"} {
		has := decode[api.Sender](t, b.expect(200, "", "GET", "/api/v1/admin/senders/"+no, nil)).Balance
		if has == nil || *has != 15 {
			t.Errorf("sender %s has %d", no, has)
		}
	}
}

// However the query says that a request only asks: its answer is no message's.
func TestAPreviewIsNotTheAnswerOfAKey(t *testing.T) {
	b := setup(t)
	body := map[string]any{"phone_number": phone, "content": "x"}
	for _, yes := range []string{"true", "True", "TRUE", "t", "1"} {
		if a := b.call("POST", "/api/v1/sms/send?dry_run="+yes, body, keyHeader, "k"); a.status != 200 && a.status != 422 {
			t.Errorf("dry_run=%s: %s", yes, a.raw)
		}
	}
	b.expect(422, "request.invalid", "POST", "/api/v1/sms/send?dry_run=true;x=1", body, keyHeader, "k")
	if n := b.count("SELECT count(*) FROM tasks"); n != 0 {
		t.Errorf("previews made %d tasks", n)
	}
	a := b.expect(200, "", "POST", "/api/v1/sms/send", body, keyHeader, "k")
	if decode[struct {
		TaskID string `json:"task_id"`
	}](t, a).TaskID == "" || a.header.Get("Idempotency-Replayed") != "" {
		t.Errorf("the message got %s", a.raw)
	}
	b.expect(422, "request.invalid", "POST", "/api/v1/sms/send?dry_run=1", map[string]any{"phone_number": "no"})
	if n := b.count("SELECT count(*) FROM receive_logs WHERE status_code = 422"); n > 1 {
		t.Errorf("%d refusals of previews are kept", n)
	}
}

// A caller that goes before its request is done finds the key free, and leaves no panic behind.
func TestACallerThatGoesUnderAKeyLeavesItFree(t *testing.T) {
	b := setup(t)
	gone, leave := context.WithCancel(t.Context())
	leave()
	body := `{"phone_number":"13800138000","content":"x"}`
	r := httptest.NewRequestWithContext(gone, "POST", "/api/v1/sms/send", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(keyHeader, "k")
	r.SetBasicAuth(username, password)
	w := httptest.NewRecorder()
	b.app.Handler.ServeHTTP(w, r)
	if w.Code != 503 || strings.Contains(b.log.String(), `"msg":"panic"`) {
		t.Errorf("%d, %s", w.Code, b.log)
	}
	if a := b.expect(200, "", "POST", "/api/v1/sms/send", body, keyHeader, "k"); a.header.Get("Idempotency-Replayed") != "" {
		t.Errorf("replayed: %s", a.raw)
	}
}
