package idempotency_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
)

func TestMain(m *testing.M) { apptest.Main(m) }

func TestARepeatedKeyReturnsTheFirstAnswer(t *testing.T) {
	b := apptest.New(t)
	for path, bodies := range map[string][2]string{
		"/api/v1/sms/send":          {`{"phone_number":"13800138000","content":"x"}`, `{"phone_number":"13800138000","content":"y"}`},
		"/api/v1/admin/template":    {`{"template_name":"n","template_content":"x"}`, `{"template_name":"n","template_content":"y"}`},
		"/api/v1/admin/default-sms": {`{"phone_number":"13800138000","content":"x"}`, `{"phone_number":"13900139000","content":"x"}`},
	} {
		first := b.Expect(200, "", "POST", path, bodies[0], apptest.KeyHeader, "k-1")
		again := b.Expect(200, "", "POST", path, bodies[0], apptest.KeyHeader, "k-1")
		if again.Raw != first.Raw || again.Header.Get("Idempotency-Replayed") != "true" || first.Header.Get("Idempotency-Replayed") != "" {
			t.Errorf("%s: first %s again %s", path, first.Raw, again.Raw)
		}
		b.Expect(422, "idempotency.key_reused", "POST", path, bodies[1], apptest.KeyHeader, "k-1")
		b.Expect(422, "request.invalid", "POST", path, bodies[0], apptest.KeyHeader, strings.Repeat("k", 201))
		b.Expect(422, "request.invalid", "POST", path, bodies[0], apptest.KeyHeader, "a b")
	}
	// A request with another key, or of another user, is a different request.
	b.Expect(200, "", "POST", "/api/v1/sms/send", `{"phone_number":"13800138000","content":"x"}`, apptest.KeyHeader, "k-2")
	b.Expect(200, "", "POST", "/api/v1/sms/send", `{"phone_number":"13800138000","content":"x"}`, append(b.AddUser("system", "submit", nil), apptest.KeyHeader, "k-1")...)
	if n := b.Count("SELECT count(*) FROM tasks"); n != 3 {
		t.Errorf("%d tasks, want 3", n)
	}
	if n := b.Count("SELECT count(*) FROM receive_logs WHERE status_code = 422"); n != 3 {
		t.Errorf("%d refusals of /sms/send are logged, want 3", n)
	}
}

func TestAKeyCanBeUsedAgainAfterItsRequestFailed(t *testing.T) {
	b := apptest.New(t)
	body := map[string]any{"phone_number": apptest.Phone}
	b.Expect(422, "request.invalid", "POST", "/api/v1/sms/send", body, apptest.KeyHeader, "k") // the number has no default content
	if n := b.Count("SELECT count(*) FROM receive_logs WHERE status_code = 422"); n != 1 {
		t.Errorf("%d refusals are logged, want 1", n)
	}
	b.Expect(200, "", "POST", "/api/v1/admin/default-sms", map[string]any{"phone_number": apptest.Phone, "content": "x"})
	first := b.Expect(200, "", "POST", "/api/v1/sms/send", body, apptest.KeyHeader, "k")
	again := b.Expect(200, "", "POST", "/api/v1/sms/send", body, apptest.KeyHeader, "k")
	if first.Raw != again.Raw {
		t.Errorf("first %s again %s", first.Raw, again.Raw)
	}
	if n := b.Count("SELECT count(*) FROM tasks"); n != 1 {
		t.Errorf("%d tasks", n)
	}
}

func TestConcurrentRequestsWithOneKeyHaveOneEffect(t *testing.T) {
	b := apptest.New(t)
	answers := make([]apptest.Answer, 50)
	apptest.Together(len(answers), func(i int) {
		answers[i] = b.Call("POST", "/api/v1/sms/send", map[string]any{"phone_number": apptest.Phone, "content": "x"}, apptest.KeyHeader, "k")
	})
	ids := map[string]bool{}
	for _, a := range answers {
		switch {
		case a.Status == 200:
			ids[apptest.Decode[api.Submitted](t, a).TaskID] = true
		case a.Status != 409 || a.Body.Error.Reason != "idempotency.in_flight" || a.Header.Get("Retry-After") == "":
			t.Errorf("got %d %s", a.Status, a.Raw)
		}
	}
	if n := b.Count("SELECT count(*) FROM tasks"); n != 1 || len(ids) != 1 {
		t.Errorf("%d tasks, %d ids", n, len(ids))
	}
}

// Each refused request with a key holds a connection. Logging the refusal must not need a second connection.
func TestConcurrentRefusedRequestsWithKeysAreAllLogged(t *testing.T) {
	b := apptest.New(t)
	apptest.Together(100, func(i int) {
		b.Expect(422, "request.invalid", "POST", "/api/v1/sms/send", map[string]any{"phone_number": apptest.Phone}, apptest.KeyHeader, fmt.Sprint("k", i))
	})
	if n := b.Count("SELECT count(*) FROM receive_logs"); n != 100 {
		t.Errorf("%d refusals are logged, want 100", n)
	}
}

func TestStoredResponsesAreDeletedAfterADay(t *testing.T) {
	b := apptest.New(t)
	send := func() string {
		return b.Expect(200, "", "POST", "/api/v1/sms/send", map[string]any{"phone_number": apptest.Phone, "content": "x"}, apptest.KeyHeader, "k").Raw
	}
	first := send()
	b.Exec("UPDATE idempotency_keys SET created_at = now() - interval '23 hours'")
	if n, err := b.App.Answers.Sweep(t.Context()); err != nil || n != 0 {
		t.Errorf("deleted %d answers, %v", n, err)
	}
	if send() != first {
		t.Error("the answer was deleted within the day")
	}
	b.Exec("UPDATE idempotency_keys SET created_at = now() - interval '25 hours'")
	if n, err := b.App.Answers.Sweep(t.Context()); err != nil || n != 1 {
		t.Errorf("deleted %d answers, %v", n, err)
	}
	if send() == first {
		t.Error("the answer was still there after a day")
	}
}

// A key identifies a request to one URL.
func TestAKeyIsSeparateForEachURL(t *testing.T) {
	b := apptest.New(t)
	for _, no := range []string{"a", "b"} {
		b.AddSender(map[string]any{"sender_no": no, "balance": 10})
		b.Expect(200, "", "POST", "/api/v1/admin/senders/"+no+"/balance", map[string]any{"change": 5}, apptest.KeyHeader, "k")
	}
	b.Expect(200, "", "POST", "/api/v1/admin/senders/a/balance", map[string]any{"change": 5}, apptest.KeyHeader, "k") // repeats the first request
	for _, no := range []string{"a", "b"} {
		has := apptest.Decode[api.Sender](t, b.Expect(200, "", "GET", "/api/v1/admin/senders/"+no, nil)).Balance
		if has == nil || *has != 15 {
			t.Errorf("sender %s has a balance of %d, want 15", no, has)
		}
	}
}

// A dry run does not store an answer for the key of a later message, however the query spells dry_run.
func TestADryRunStoresNoAnswerForItsKey(t *testing.T) {
	b := apptest.New(t)
	body := map[string]any{"phone_number": apptest.Phone, "content": "x"}
	for _, yes := range []string{"true", "True", "TRUE", "t", "1"} {
		if a := b.Call("POST", "/api/v1/sms/send?dry_run="+yes, body, apptest.KeyHeader, "k"); a.Status != 200 && a.Status != 422 {
			t.Errorf("dry_run=%s: %s", yes, a.Raw)
		}
	}
	b.Expect(422, "request.invalid", "POST", "/api/v1/sms/send?dry_run=true;x=1", body, apptest.KeyHeader, "k")
	if n := b.Count("SELECT count(*) FROM tasks"); n != 0 {
		t.Errorf("dry runs stored %d tasks", n)
	}
	a := b.Expect(200, "", "POST", "/api/v1/sms/send", body, apptest.KeyHeader, "k")
	if apptest.Decode[struct {
		TaskID string `json:"task_id"`
	}](t, a).TaskID == "" || a.Header.Get("Idempotency-Replayed") != "" {
		t.Errorf("the message got %s", a.Raw)
	}
	b.Expect(422, "request.invalid", "POST", "/api/v1/sms/send?dry_run=1", map[string]any{"phone_number": "no"})
	if n := b.Count("SELECT count(*) FROM receive_logs WHERE status_code = 422"); n > 1 {
		t.Errorf("%d refusals of dry runs are logged", n)
	}
}

// A caller that disconnects before the end of its request does not use up the key, and causes no panic.
func TestARequestOfADisconnectedCallerStoresNoKey(t *testing.T) {
	b := apptest.New(t)
	gone, leave := context.WithCancel(t.Context())
	leave()
	body := `{"phone_number":"13800138000","content":"x"}`
	r := httptest.NewRequestWithContext(gone, "POST", "/api/v1/sms/send", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(apptest.KeyHeader, "k")
	r.SetBasicAuth(apptest.Username, apptest.Password)
	w := httptest.NewRecorder()
	b.App.Handler.ServeHTTP(w, r)
	if w.Code != 503 || strings.Contains(b.Log.String(), `"msg":"panic"`) {
		t.Errorf("%d, %s", w.Code, b.Log)
	}
	if a := b.Expect(200, "", "POST", "/api/v1/sms/send", body, apptest.KeyHeader, "k"); a.Header.Get("Idempotency-Replayed") != "" {
		t.Errorf("replayed: %s", a.Raw)
	}
}

// During an upgrade, a server of another version can execute the same request at the same time, without a lock that this version sees. Nothing is done twice.
func TestRequestThatAnotherVersionExecutesIsInFlight(t *testing.T) {
	b := apptest.New(t)
	const body = `{"template_name":"n","template_content":"x"}`
	b.Expect(200, "", "POST", "/api/v1/admin/template", body, apptest.KeyHeader, "first")
	tx, err := b.DB.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	const copied = "INSERT INTO idempotency_keys (username, operation, key, request_hash, response) SELECT username, operation, 'k', request_hash, response FROM idempotency_keys"
	if _, err := tx.Exec(t.Context(), copied); err != nil {
		t.Fatal(err)
	}
	answered := make(chan apptest.Answer)
	go func() { answered <- b.Call("POST", "/api/v1/admin/template", body, apptest.KeyHeader, "k") }()
	b.AwaitLockWait()
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a := <-answered; a.Status != 409 || a.Body.Error.Reason != "idempotency.in_flight" {
		t.Errorf("answered %s", a.Raw)
	}
	b.Expect(200, "", "POST", "/api/v1/admin/template", body, apptest.KeyHeader, "k")
	if n := b.Count("SELECT count(*) FROM templates"); n != 1 {
		t.Errorf("%d templates", n)
	}
}
