package thirdparty_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lksms/internal/dispatch/queue"
	"lksms/internal/testkit/apptest"
)

func TestMain(m *testing.M) { apptest.Main(m) }

type bundle struct{ *apptest.Bundle }

func setup(t *testing.T) bundle {
	t.Helper()
	return bundle{apptest.NewWith(t, apptest.DefaultRules, apptest.WithSecrets)}
}

// answer is a response of the API.
type answer struct {
	status int
	header http.Header
	raw    string
	body   struct {
		ID          string
		DeviceID    string
		State       string
		Recipients  []struct{ PhoneNumber, State, Error string }
		States      map[string]time.Time
		TextMessage struct{ Text string }
		Message     string
		Data        struct{ Reason string }
		SigningKey  string
		Event, URL  string
	}
}

// call sends a request as a user and returns the response.
func (b bundle) call(method, path string, body any, headers ...string) (a answer) {
	b.T.Helper()
	var reader io.Reader
	if text, isText := body.(string); isText {
		reader = strings.NewReader(text)
	} else if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			b.T.Fatal(err)
		}
		reader = bytes.NewReader(encoded)
	}
	req, err := http.NewRequestWithContext(b.T.Context(), method, b.URL+"/smsgate/3rdparty/v1"+path, reader)
	if err != nil {
		b.T.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		b.T.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		b.T.Fatal(err)
	}
	a.status, a.header, a.raw = res.StatusCode, res.Header, string(raw)
	_ = json.Unmarshal(raw, &a.body) // the body of a list is not an object
	return a
}

// expect sends a request, and fails the test unless the response has this status and contains this text.
func (b bundle) expect(status int, text, method, path string, body any, headers ...string) answer {
	b.T.Helper()
	a := b.call(method, path, body, headers...)
	if a.status != status || !strings.Contains(a.raw, text) {
		b.T.Fatalf("%s %s: %d %s, want %d with %q", method, path, a.status, a.raw, status, text)
	}
	return a
}

type fields = map[string]any

// to returns a message to these numbers with additional fields.
func to(more fields, numbers ...string) fields {
	m := fields{"phoneNumbers": numbers, "textMessage": fields{"text": "您好 hello"}}
	for k, v := range more {
		m[k] = v
	}
	return m
}

const (
	first  = "+8613800138000"
	second = "+8613900139000"
)

// A message to two recipients is two tasks. Its state follows their states and receipts.
func TestStateOfMessageFollowsItsTasks(t *testing.T) {
	b := setup(t)
	acme := b.AddCompany("acme", 1)
	sent := b.expect(202, `"state":"Pending"`, "POST", "/message", to(fields{"id": "m 1", "ttl": 3600, "withDeliveryReport": true, "simNumber": 1}, first, "13900139000"), acme...)
	if got := sent.header.Get("Location"); got != "/smsgate/3rdparty/v1/messages/m%201" {
		t.Errorf("Location %q", got)
	}
	if r := sent.body.Recipients; len(r) != 2 || r[0].PhoneNumber != first || r[1].PhoneNumber != second {
		t.Fatalf("recipients %+v", r)
	}
	get := func() answer { t.Helper(); return b.expect(200, "", "GET", "/messages/m%201", nil, acme...) }
	states := func(whole string, each ...string) answer {
		t.Helper()
		a := get()
		var got []string
		for _, r := range a.body.Recipients {
			got = append(got, r.State)
		}
		if a.body.State != whole || !slices.Equal(got, each) {
			t.Errorf("state %s of %v, want %s of %v", a.body.State, got, whole, each)
		}
		return a
	}
	if a := states("Pending", "Pending", "Pending"); a.body.TextMessage.Text != "您好 hello" || a.body.States["Pending"].IsZero() {
		t.Errorf("message %s", a.raw)
	}
	one := b.Claim("app", 1)[0]
	if a := states("Pending", "Processed", "Pending"); a.body.DeviceID != "app" {
		t.Errorf("device %s", a.body.DeviceID)
	}
	b.Report(one.TaskID, "app", 2, nil)
	two := b.Claim("app", 1)[0]
	states("Processed", "Sent", "Processed")
	b.Report(two.TaskID, "app", 3, apptest.Report{"error_message": "no signal"})
	if a := states("Sent", "Sent", "Failed"); a.body.States["Sent"].IsZero() || a.body.States["Failed"].IsZero() || a.body.Recipients[1].Error == "" {
		t.Errorf("message %s", a.raw)
	}
	b.receipt(one.TaskID, 1)
	states("Sent", "Delivered", "Failed")
	b.receipt(two.TaskID, 1) // a receipt of a message that failed, for example because its lease expired as unclear
	if a := states("Delivered", "Delivered", "Delivered"); a.body.Recipients[1].Error != "" {
		t.Errorf("message %s", a.raw)
	}

	b.expect(202, "", "POST", "/messages", to(fields{"id": "m2"}, first), acme...)
	task := b.Claim("app", 1)[0]
	b.Report(task.TaskID, "app", 2, nil)
	b.receipt(task.TaskID, 2)
	b.expect(200, `"state":"Failed"`, "GET", "/message/m2", nil, acme...)
	b.receipt(task.TaskID, 1)
	b.expect(200, `"state":"Delivered"`, "GET", "/message/m2", nil, acme...)
	// A message that was submitted in another way has its task_id as id.
	plain := b.Call("POST", "/api/v1/sms/send", fields{"phone_number": first, "content": "x"}, acme...)
	var made struct {
		TaskID string `json:"task_id"`
	}
	_ = json.Unmarshal(plain.Body.Data, &made)
	b.expect(200, `"state":"Pending"`, "GET", "/messages/"+made.TaskID, nil, acme...)
}

func (b bundle) receipt(task string, state int16) {
	b.T.Helper()
	err := b.App.DB.Tx(b.T.Context(), func(ctx context.Context) error {
		_, err := b.App.Queue.SettleReceipts(ctx, []queue.Final{{TaskID: task, State: state, SenderNo: "app"}})
		return err
	})
	if err != nil {
		b.T.Fatal(err)
	}
}

// Priority, ttl, schedule and device of a message are applied to its tasks.
func TestFieldsOfAMessageApplyToItsTasks(t *testing.T) {
	b := setup(t)
	acme := b.AddCompany("acme", 1)
	b.AddSender(fields{"sender_no": "phone-1"})
	at := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	b.expect(202, `"deviceId":"phone-1"`, "POST", "/messages", to(fields{
		"id": "m", "deviceId": "phone-1", "priority": 100, "scheduleAt": at, "validUntil": at.Add(time.Hour),
	}, first), acme...)
	if n := b.Count(`SELECT count(*) FROM messages WHERE sender_no = 'phone-1' AND priority = 0 AND expect_send_time = $1 AND expires_at = $2
		AND source = 'smsgate' AND message_type = 1 AND submitted_by = 'user-of-acme'`, at, at.Add(time.Hour)); n != 1 {
		t.Error("the task differs from the request")
	}
	for priority, want := range map[int]int{0: 5, -128: 9, 127: 0, -1: 5, 50: 3} {
		b.expect(202, "", "POST", "/messages", to(fields{"id": fmt.Sprint("p", priority), "priority": priority, "message": "x", "textMessage": nil}, second), acme...)
		if n := b.Count(`SELECT count(*) FROM messages WHERE request_data ->> 'smsgate_id' = $1 AND priority = $2`, fmt.Sprint("p", priority), want); n != 1 {
			t.Errorf("priority %d is not %d", priority, want)
		}
	}
	// If a user is not allowed to use a higher priority, the highest allowed priority is used.
	slow := b.AddUser("slow", "submit", fields{"company_no": "acme"})
	b.expect(202, "", "POST", "/messages", to(fields{"id": "slow", "priority": 127}, second), slow...)
	ttl := b.expect(202, "", "POST", "/messages", to(fields{"ttl": 5}, second), acme...)
	if left := apptest.Scan[float64](b.Bundle, "SELECT extract(epoch FROM expires_at - created_at)::float8 FROM messages WHERE request_data ->> 'smsgate_id' = $1", ttl.body.ID); left < 3 || left > 6 {
		t.Errorf("the message expires after %g s", left)
	}
}

// Invalid requests are rejected in the format of SMSGate, and the error names the field. If one recipient is rejected, nothing of the message is stored.
func TestRejectionsUseFormatOfSMSGate(t *testing.T) {
	b := setup(t)
	acme := b.AddCompany("acme", 1)
	many := make([]string, 101)
	for i := range many {
		many[i] = fmt.Sprintf("+861380013%04d", i)
	}
	tomorrow, yesterday := time.Now().Add(24*time.Hour), time.Now().Add(-24*time.Hour)
	for name, c := range map[string]struct {
		body any
		says string
	}{
		"101 recipients":        {to(nil, many...), "phoneNumbers"},
		"no recipient":          {to(nil), "phoneNumbers"},
		"a wrong number":        {to(nil, first, "12"), "phoneNumbers[1]"},
		"a number twice":        {to(nil, first, "13800138000"), "phoneNumbers[1]"},
		"no text":               {fields{"phoneNumbers": []string{first}}, "textMessage.text"},
		"a text too long":       {to(fields{"textMessage": fields{"text": strings.Repeat("长", 2000)}}, first), "textMessage.text"},
		"two texts":             {to(fields{"message": "x"}, first), "exactly one of"},
		"an encrypted text":     {to(fields{"isEncrypted": true}, first), "isEncrypted"},
		"data":                  {fields{"phoneNumbers": []string{first}, "dataMessage": fields{"data": "AAAA", "port": 1}}, "dataMessage"},
		"an unknown device":     {to(fields{"deviceId": "nobody"}, first), "deviceId"},
		"the second SIM":        {to(fields{"simNumber": 2}, first), "simNumber"},
		"ttl and validUntil":    {to(fields{"ttl": 60, "validUntil": tomorrow}, first), "ttl"},
		"a short ttl":           {to(fields{"ttl": 4}, first), "ttl"},
		"a ttl of ages":         {to(fields{"ttl": int64(1) << 62}, first), "ttl"},
		"a time without zone":   {to(fields{"scheduleAt": "2030-01-01T10:00:00"}, first), "scheduleAt"},
		"a time that is a word": {to(fields{"validUntil": "tomorrow"}, first), "validUntil"},
		"valid until the past":  {to(fields{"validUntil": yesterday}, first), "validUntil"},
		"scheduled in the past": {to(fields{"scheduleAt": yesterday}, first), "scheduleAt"},
		"scheduled too late":    {to(fields{"scheduleAt": tomorrow, "ttl": 60}, first), "ttl"},
		"a priority too large":  {to(fields{"priority": 128}, first), "priority"},
		"a long id":             {to(fields{"id": strings.Repeat("i", 37)}, first), "id"},
		"an id with a slash":    {to(fields{"id": "a/b"}, first), "id"},
		"another type":          {to(fields{"ttl": "soon"}, first), "ttl"},
		"no JSON":               {"{", "JSON"},
		"a list":                {"[]", "JSON"},
		"a name twice":          {`{"message":"a","message":"b","phoneNumbers":["` + first + `"]}`, "message"},
		"nothing":               {"", "JSON"},
		"NUL":                   {`{"message":"a\u0000","phoneNumbers":["` + first + `"]}`, "message"},
	} {
		a := b.call("POST", "/messages", c.body, acme...)
		if a.status != 400 || !strings.Contains(a.body.Message, c.says) {
			t.Errorf("%s: %d %s, want 400 with %q", name, a.status, a.raw, c.says)
		}
	}
	if n := b.Count("SELECT (SELECT count(*) FROM messages) + (SELECT count(*) FROM smsgate_messages)"); n != 0 {
		t.Errorf("%d rows of refused messages", n)
	}
	// Each rejection is stored in the log of submissions, once for each recipient.
	if n := b.Count("SELECT count(*) FROM fruitless_submissions WHERE phone_number = '12' AND status_code = 400"); n != 1 {
		t.Errorf("%d rows for the wrong number", n)
	}
	b.expect(413, "message", "POST", "/messages", `{"message":"`+strings.Repeat("x", 65<<10)+`"}`, acme...)
	b.expect(400, "state", "GET", "/messages?state=Failed", nil, acme...)
	b.expect(400, "limit", "GET", "/messages?limit=101", nil, acme...)
	b.expect(400, "deviceId", "GET", "/messages?deviceId=%00", nil, acme...)
	b.expect(400, "deviceId", "GET", "/messages?deviceId=%ff", nil, acme...)
	b.expect(404, "", "GET", "/messages/%00", nil, acme...)
	b.expect(400, "from", "GET", "/messages?from=yesterday", nil, acme...)
	b.expect(404, `"message":"There is no such message."`, "GET", "/messages/nothing", nil, acme...)
	b.expect(404, "", "DELETE", "/messages/nothing", nil, acme...)
	b.expect(404, "route.not_found", "GET", "/nothing", nil, acme...)
	b.expect(501, "message", "GET", "/logs", nil, acme...)
	b.expect(501, "message", "POST", "/auth/token", fields{"scopes": []string{"all:any"}}, acme...)
	b.expect(501, "message", "DELETE", "/auth/token/x", nil, acme...)
	period := fields{"since": "2026-11-01T00:00:00Z", "until": "2026-11-02T00:00:00Z"}
	b.expect(501, "message", "POST", "/inbox/export", period, acme...)
	b.expect(501, "message", "POST", "/messages/inbox/export", period, acme...)
	for _, path := range []string{"/inbox/refresh", "/inbox/export", "/messages/inbox/export"} {
		b.expect(400, "since", "POST", path, fields{"since": "2026-11-01T00:00:00", "until": "2026-11-02T00:00:00Z"}, acme...)
		b.expect(400, "until", "POST", path, fields{"since": "2026-11-01T00:00:00Z", "until": "2026-11-02 00:00:00"}, acme...)
	}
	b.expect(501, "message", "GET", "/inbox/1/attachments/1", nil, acme...)
}

// Programs take 409 as the answer to a message that is already stored.
func TestAMessageToABlockedRecipientIsRejected(t *testing.T) {
	b := setup(t)
	acme := b.AddCompany("acme", 1)
	b.Expect(200, "", "POST", "/api/v1/blocks", map[string]any{"phone_number": first, "scope": "all"})
	b.expect(400, "recipient.blocked", "POST", "/messages", to(fields{"id": "one"}, first), acme...)
	if n := b.Count("SELECT count(*) FROM fruitless_submissions WHERE status_code = 400"); n != 1 {
		t.Errorf("%d rows for the blocked number", n)
	}
}

// Callers are checked in the same way as elsewhere: by password or key and by role, with delays after wrong passwords. Sessions are not accepted.
func TestCallersAreAuthenticatedAndAuthorised(t *testing.T) {
	b := setup(t)
	acme := b.AddCompany("acme", 1)
	b.expect(401, `{"message":`, "GET", "/messages", nil)
	b.expect(401, `{"message":`, "GET", "/messages", nil, apptest.Basic("user-of-acme", "wrong password")...)
	b.expect(401, "", "GET", "/nothing", nil)
	for _, role := range []string{"read", "send"} {
		b.expect(403, "auth.forbidden", "POST", "/messages", to(nil, first), b.AddUser("of-role-"+role, role, nil)...)
	}
	var key struct {
		Data struct{ Key string }
	}
	raw := b.Expect(200, "", "POST", "/api/v1/admin/users/user-of-acme/keys", fields{"name": "k"}).Raw
	if err := json.Unmarshal([]byte(raw), &key); err != nil || key.Data.Key == "" {
		t.Fatalf("key %s", raw)
	}
	b.expect(200, "[]", "GET", "/messages", nil, "Authorization", "Bearer "+key.Data.Key)
	b.expect(200, `"status":"pass"`, "GET", "/health", nil)
	b.expect(405, "", "HEAD", "/messages", nil, acme...)
	page := []string{"Origin", b.URL, "Sec-Fetch-Site", "same-origin"}
	session := b.Expect(200, "", "POST", "/api/v1/session", fields{"username": "user-of-acme", "password": apptest.UserPassword}, append([]string{"Authorization", ""}, page...)...)
	cookie, _, _ := strings.Cut(session.Header.Get("Set-Cookie"), ";")
	b.Expect(200, "", "GET", "/api/v1/session", nil, append([]string{"Authorization", "", "Cookie", cookie}, page...)...)
	b.expect(401, "", "GET", "/messages", nil, append([]string{"Cookie", cookie}, page...)...)
	// A deleted user is rejected, and its messages remain in its company.
	b.expect(202, "", "POST", "/messages", to(fields{"id": "mine"}, first), acme...)
	b.Exec("DELETE FROM users WHERE username = 'user-of-acme'")
	apptest.Eventually(t, "the user is refused", func() bool { return b.call("GET", "/messages", nil, acme...).status == 401 })
	b.expect(401, "", "GET", "/messages/mine", nil, acme...)
	if n := b.Count("SELECT count(*) FROM queue"); n != 1 {
		t.Errorf("%d tasks wait", n)
	}
	// A user with the same name in another company cannot read the message.
	b.Expect(200, "", "POST", "/api/v1/admin/companies", fields{"company_no": "beta", "name": "beta"})
	again := b.AddUser("user-of-acme", "submit", fields{"company_no": "beta"})
	b.expect(404, "", "GET", "/messages/mine", nil, again...)
	b.expect(202, "", "POST", "/messages", to(fields{"id": "mine"}, first), again...)
	var last answer
	for i := 0; i < 50 && last.status != 429; i++ {
		last = b.call("GET", "/messages", nil, apptest.Basic("nobody-at-all", fmt.Sprint("guess ", i))...)
	}
	if last.status != 429 || last.header.Get("Retry-After") == "" || last.body.Data.Reason != "auth.too_many_failures" {
		t.Errorf("after guesses: %d %s", last.status, last.raw)
	}
}

// Users can read only their own messages and devices, even within one company.
func TestUsersSeeOnlyTheirOwnMessages(t *testing.T) {
	b := setup(t)
	acme, beta := b.AddCompany("acme", 1), b.AddCompany("beta", 1)
	colleague := b.AddUser("colleague", "submit", fields{"company_no": "acme"})
	for i := range 3 {
		b.expect(202, "", "POST", "/messages", to(fields{"id": fmt.Sprint("m", i)}, first), acme...)
	}
	b.expect(202, "", "POST", "/messages", to(fields{"id": "m0"}, second), beta...)
	for _, other := range [][]string{beta, colleague} {
		b.expect(404, "", "GET", "/messages/m1", nil, other...)
		b.expect(404, "", "DELETE", "/messages/m1", nil, other...)
	}
	if a := b.expect(200, second, "GET", "/messages", nil, beta...); strings.Contains(a.raw, first) || a.header.Get("X-Total-Count") != "1" {
		t.Errorf("beta lists %s", a.raw)
	}
	ids := func(query string) string {
		t.Helper()
		var all []struct{ ID string }
		a := b.expect(200, "", "GET", "/messages"+query, nil, acme...)
		if err := json.Unmarshal([]byte(a.raw), &all); err != nil {
			t.Fatal(err)
		}
		text := a.header.Get("X-Total-Count") + ":"
		for _, one := range all {
			text += " " + one.ID
		}
		return text
	}
	for query, want := range map[string]string{
		"": "3: m2 m1 m0", "?limit=1&offset=1": "3: m1", "?sort=created_at&limit=2": "3: m0 m1", "?deviceId=x": "0:", "?offset=9": "3:",
		"?from=2001-01-01T00:00:00Z&to=2002-01-01T00:00:00Z": "0:",
	} {
		if got := ids(query); got != want {
			t.Errorf("%s lists %q, want %q", query, got, want)
		}
	}
	if a := b.expect(200, "textMessage", "GET", "/messages?includeContent=true", nil, acme...); !strings.Contains(a.raw, "hello") {
		t.Errorf("list %s", a.raw)
	}
	if a := b.expect(200, "m1", "GET", "/messages", nil, acme...); strings.Contains(a.raw, "hello") {
		t.Errorf("a list without content is %s", a.raw)
	}
	b.AddSender(fields{"sender_no": "of-acme"})
	b.AddRoute("acme", "of-acme", 1)
	b.expect(200, `"id":"of-acme"`, "GET", "/devices", nil, acme...)
	if a := b.expect(200, "", "GET", "/devices", nil, beta...); strings.Contains(a.raw, "of-acme") {
		t.Errorf("beta sees %s", a.raw)
	}
	b.expect(400, "deviceId", "POST", "/messages", to(fields{"deviceId": "of-acme"}, first), beta...)
	b.expect(501, "administrator", "DELETE", "/devices/of-acme", nil, acme...)
	b.expect(404, "", "DELETE", "/devices/of-acme", nil, beta...)
}

// An id is accepted once, even in concurrent requests. All other requests are conflicts and store nothing.
func TestMessageIDIsAcceptedOnce(t *testing.T) {
	b := setup(t)
	acme := b.AddCompany("acme", 1)
	statuses := make([]int, 8)
	apptest.Together(len(statuses), func(i int) {
		// The requests have different recipients, so that only the id causes conflicts.
		statuses[i] = b.call("POST", "/messages", to(fields{"id": "once"}, fmt.Sprintf("+861380013800%d", i), second), acme...).status
	})
	slices.Sort(statuses)
	if want := []int{202, 409, 409, 409, 409, 409, 409, 409}; !slices.Equal(statuses, want) {
		t.Errorf("statuses %v", statuses)
	}
	b.expect(409, "exists", "POST", "/messages", to(fields{"id": "once"}, first), acme...)
	passed := fields{"id": "once", "scheduleAt": time.Now().Add(-time.Minute), "validUntil": time.Now()} // the times of a late repeat have passed
	b.expect(409, "exists", "POST", "/messages", to(passed, first), acme...)
	if n := b.Count("SELECT count(*) FROM queue"); n != 2 {
		t.Errorf("%d tasks wait, want 2", n)
	}
}

// Either all tasks of a message are cancelled, or no task.
func TestMessageIsCancelledCompletelyOrNotAtAll(t *testing.T) {
	b := setup(t)
	acme := b.AddCompany("acme", 1)
	b.expect(202, "", "POST", "/messages", to(fields{"id": "one"}, first, second), acme...)
	b.Claim("app", 1)
	b.expect(409, "task.not_pending", "DELETE", "/messages/one", nil, acme...)
	if n := b.Count("SELECT count(*) FROM queue"); n != 2 {
		t.Errorf("%d tasks are left, want 2", n)
	}
	b.expect(202, "", "POST", "/messages", to(fields{"id": "two"}, first, second), acme...)
	b.expect(200, `"state":"Cancelled"`, "DELETE", "/messages/two", nil, acme...)
	b.expect(409, "", "DELETE", "/messages/two", nil, acme...)
}

// The rows of messages are deleted together with the days of their tasks.
func TestMessagesAreDeletedWithTheirTasks(t *testing.T) {
	b := setup(t)
	acme := b.AddCompany("acme", 1)
	b.expect(202, "", "POST", "/messages", to(fields{"id": "new"}, first), acme...)
	b.expect(202, "", "POST", "/messages", to(fields{"id": "old"}, first), acme...)
	b.Exec("UPDATE smsgate_messages SET created_at = now() - interval '400 days', task_ids = '{task_20200101_x}' WHERE message_id = 'old'")
	b.expect(404, "", "GET", "/messages/old", nil, acme...)
	if a := b.expect(200, "", "GET", "/messages", nil, acme...); strings.Contains(a.raw, `"old"`) {
		t.Errorf("list %s", a.raw)
	}
	if n, err := b.App.ThirdParty.DeleteExpired(t.Context()); err != nil || n != 1 {
		t.Errorf("deleted %d: %v", n, err)
	}
	b.expect(200, "", "GET", "/messages/new", nil, acme...)
}

// post is a request that a receiver received.
type post struct {
	header http.Header
	raw    string
	body   struct {
		ID, WebhookID, Event, DeviceID string
		Payload                        map[string]any
	}
}

// receiver starts a server that records posts. take returns the posts since its previous call.
func receiver(t testing.TB) (url string, take func() []post) {
	var mu sync.Mutex
	var got []post
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		p := post{header: r.Header, raw: string(raw)}
		_ = json.Unmarshal(raw, &p.body)
		mu.Lock()
		defer mu.Unlock()
		got = append(got, p)
	}))
	t.Cleanup(server.Close)
	return server.URL, func() []post {
		mu.Lock()
		defer mu.Unlock()
		all := got
		got = nil
		return all
	}
}

// isSignedBy reports whether a post has a valid SMSGate signature with a key.
func (p post) isSignedBy(key string) bool {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(p.raw + p.header.Get("X-Timestamp")))
	return p.header.Get("X-Signature") == hex.EncodeToString(mac.Sum(nil))
}

func (b bundle) deliver() {
	b.T.Helper()
	if _, err := b.App.Feed.Sequence(b.T.Context()); err != nil {
		b.T.Fatal(err)
	}
	if _, err := b.App.Webhooks.Deliver(b.T.Context()); err != nil {
		b.T.Fatal(err)
	}
}

// webhooks registers a webhook for each event of messages. It returns the credentials of their user, their signing key, and a function that returns the
// received posts.
func (b bundle) webhooks() (boss []string, key string, take func() []post) {
	b.T.Helper()
	b.AddCompany("acme", 1)
	boss = b.AddUser("boss", "admin", nil) // webhooks of an admin are allowed to use loopback addresses
	url, take := receiver(b.T)
	made := b.expect(201, `"deviceId":null`, "POST", "/webhooks", fields{"id": "on-sent", "url": url, "event": "sms:sent"}, boss...)
	if made.body.SigningKey == "" {
		b.T.Fatalf("no key in %s", made.raw)
	}
	for _, event := range []string{"sms:failed", "sms:delivered", "sms:cancelled"} {
		if a := b.expect(201, event, "POST", "/webhooks", fields{"url": url, "event": event}, boss...); a.body.ID == "" || a.body.SigningKey != "" {
			b.T.Errorf("webhook %s", a.raw)
		}
	}
	return boss, made.body.SigningKey, take
}

// expectEvent checks the payload of an event and returns the id of its message, or "task" for the id of a task.
func (p post) expectEvent(t *testing.T) (id string) {
	t.Helper()
	id = fmt.Sprint(p.body.Payload["messageId"])
	if strings.HasPrefix(id, "task_") {
		id = "task"
	}
	at := map[string]string{"sms:sent": "sentAt", "sms:failed": "failedAt", "sms:delivered": "deliveredAt", "sms:cancelled": "cancelledAt"}[p.body.Event]
	if when, err := time.Parse(time.RFC3339, fmt.Sprint(p.body.Payload[at])); err != nil || time.Since(when) > time.Minute {
		t.Errorf("%s of %s: %v", at, p.raw, err)
	}
	if p.body.Event == "sms:sent" && (p.body.WebhookID != "on-sent" || p.body.DeviceID != "app" || p.body.Payload["partsCount"] != 1.0 || p.body.Payload["phoneNumber"] != p.body.Payload["recipient"]) {
		t.Errorf("post %s", p.raw)
	}
	if p.body.Event == "sms:failed" && (p.body.Payload["reason"] != "no signal" || p.body.Payload["recipient"] != second) {
		t.Errorf("post %s", p.raw)
	}
	return id
}

// Webhooks receive the events of all messages of their user, in the format and with the signature of SMSGate.
func TestWebhooksReceiveEventsInFormatOfSMSGate(t *testing.T) {
	b := setup(t)
	boss, key, take := b.webhooks()
	other := b.AddUser("other", "submit", nil)
	b.expect(202, "", "POST", "/messages", to(fields{"id": "m"}, first, second), boss...)
	b.expect(202, "", "POST", "/messages", to(fields{"id": "of-other"}, first), other...)
	for _, one := range b.Claim("app", 10) {
		if one.PhoneNumber == second {
			b.Report(one.TaskID, "app", 3, apptest.Report{"error_message": "no signal"})
			continue
		}
		b.Report(one.TaskID, "app", 2, nil)
		b.receipt(one.TaskID, 1)
	}
	b.expect(202, "", "POST", "/messages", to(fields{"id": "gone"}, first), boss...)
	b.expect(200, "", "DELETE", "/messages/gone", nil, boss...)
	b.Submit("of the configured admin")
	b.Call("POST", "/api/v1/sms/send", fields{"phone_number": first, "content": "x"}, boss...)
	for _, one := range b.Claim("app", 10) {
		b.Report(one.TaskID, "app", 2, nil)
	}
	b.deliver()
	var got []string
	for _, p := range take() {
		if !p.isSignedBy(key) || p.header.Get("webhook-signature") != "" || !strings.HasPrefix(p.body.ID, "evt_") {
			t.Errorf("post %s with %v", p.raw, p.header)
		}
		got = append(got, p.body.Event+" "+p.expectEvent(t))
	}
	slices.Sort(got)
	if want := []string{"sms:cancelled gone", "sms:delivered m", "sms:failed m", "sms:sent m", "sms:sent task"}; !slices.Equal(got, want) {
		t.Errorf("posts %v, want %v", got, want)
	}
}

// The API lists the deliveries of a webhook. Testing a webhook posts a ping.
func TestDeliveriesOfWebhookAreListed(t *testing.T) {
	b := setup(t)
	boss, key, take := b.webhooks()
	b.expect(202, "", "POST", "/messages", to(nil, first), boss...)
	b.Report(b.Claim("app", 1)[0].TaskID, "app", 2, nil)
	b.deliver()
	take()
	list := b.Call("GET", "/api/v1/webhooks", nil, boss...)
	var page struct {
		Items []struct {
			WebhookID int64  `json:"webhook_id"`
			Form      string `json:"form"`
		}
	}
	_ = json.Unmarshal(list.Body.Data, &page)
	if len(page.Items) != 4 || page.Items[0].Form != "smsgate" {
		t.Fatalf("webhooks %s", list.Raw)
	}
	path := fmt.Sprint("/api/v1/webhooks/", page.Items[len(page.Items)-1].WebhookID)
	b.Expect(200, "", "POST", path+"/test", nil, boss...)
	if p := take(); len(p) != 1 || p[0].body.Event != "system:ping" || p[0].body.WebhookID != "on-sent" || !p[0].isSignedBy(key) {
		t.Errorf("test %+v", p)
	}
	if raw := b.Call("GET", path+"/deliveries", nil, boss...).Raw; !strings.Contains(raw, `"event":"sms:sent"`) || !strings.Contains(raw, "system:ping") {
		t.Errorf("deliveries %s", raw)
	}
	b.Expect(422, "request.invalid", "PATCH", path, fields{"events": []string{"batch.finished"}}, boss...)
}

// A key that the program sets applies to all its webhooks.
func TestProgramSetsSigningKeyOfItsWebhooks(t *testing.T) {
	b := setup(t)
	boss, _, take := b.webhooks()
	b.expect(200, "", "PATCH", "/settings", fields{"webhooks": fields{"signing_key": "a key of the program"}}, boss...)
	b.expect(202, "", "POST", "/messages", to(nil, first), boss...)
	b.Report(b.Claim("app", 1)[0].TaskID, "app", 2, nil)
	b.deliver()
	if p := take(); len(p) != 1 || !p[0].isSignedBy("a key of the program") {
		t.Errorf("posts %+v", p)
	}
	if a := b.Call("GET", "/api/v1/admin/audit?limit=100", nil); strings.Contains(a.Raw, "a key of the program") || !strings.Contains(a.Raw, "webhook") {
		t.Errorf("audit %s", a.Raw)
	}
}

// A new webhook replaces the webhook of the same user with the same id, and keeps the key. Other users cannot read it.
func TestWebhookReplacesWebhookWithSameID(t *testing.T) {
	b := setup(t)
	acme, beta := b.AddCompany("acme", 1), b.AddCompany("beta", 1)
	hook := fields{"id": "w", "url": "https://a.example", "event": "sms:sent"}
	b.expect(201, "signingKey", "POST", "/webhooks", hook, acme...)
	b.expect(201, "signingKey", "POST", "/webhooks", hook, beta...)
	// If the same webhook is registered again, or the same key is set again, nothing changes.
	b.Exec("UPDATE webhooks SET failing_since = now(), failed_runs = 3")
	b.expect(201, "https://a.example", "POST", "/webhooks", hook, acme...)
	if n := b.Count("SELECT count(*) FROM webhooks WHERE version = 1 AND failed_runs = 3"); n != 2 {
		t.Error("a repeat changed the webhook")
	}
	for range 2 {
		b.expect(200, "{}", "PATCH", "/settings", fields{"webhooks": fields{"signing_key": "a key of its own"}}, acme...)
	}
	if n := b.Count("SELECT max(version) FROM webhooks"); n != 2 {
		t.Errorf("version %d after a key was set twice, want 2", n)
	}
	hook["url"] = "https://b.example"
	b.expect(201, "https://b.example", "POST", "/webhooks", hook, acme...)
	hook["event"] = "sms:failed"
	if a := b.expect(201, "sms:failed", "POST", "/webhooks", hook, acme...); a.body.SigningKey != "" {
		t.Errorf("another key: %s", a.raw)
	}
	apptest.Together(4, func(int) {
		b.call("POST", "/webhooks", fields{"id": "at-once", "url": "https://a.example", "event": "sms:sent"}, acme...)
	})
	if a := b.expect(200, "https://b.example", "GET", "/webhooks", nil, acme...); strings.Count(a.raw, `"id"`) != 2 {
		t.Errorf("list %s", a.raw)
	}
	if a := b.expect(200, "sms:sent", "GET", "/webhooks", nil, beta...); strings.Contains(a.raw, "b.example") {
		t.Errorf("beta lists %s", a.raw)
	}
	b.expect(204, "", "DELETE", "/webhooks/at-once", nil, beta...) // the same answer as for an unknown webhook
	b.expect(204, "", "DELETE", "/webhooks/w", nil, acme...)
	b.expect(204, "", "DELETE", "/webhooks/w", nil, acme...)
	if a := b.expect(200, "at-once", "GET", "/webhooks", nil, acme...); strings.Contains(a.raw, `"w"`) {
		t.Errorf("list %s", a.raw)
	}
	b.expect(200, `"w"`, "GET", "/webhooks", nil, beta...)
	for name, c := range map[string]struct {
		body fields
		says string
	}{
		"MMS":      {fields{"url": "https://a.example", "event": "mms:received"}, "event"},
		"ping":     {fields{"url": "https://a.example", "event": "system:ping"}, "event"},
		"no event": {fields{"url": "https://a.example"}, "event"},
		"no URL":   {fields{"event": "sms:sent"}, "url"},
		"ftp":      {fields{"url": "ftp://a.example", "event": "sms:sent"}, "url"},
		"long":     {fields{"url": "https://a.example/" + strings.Repeat("x", 2000), "event": "sms:sent"}, "url"},
		"device":   {fields{"url": "https://a.example", "event": "sms:sent", "deviceId": "phone-1"}, "deviceId"},
		"long id":  {fields{"url": "https://a.example", "event": "sms:sent", "id": strings.Repeat("x", 37)}, "id"},
	} {
		if a := b.call("POST", "/webhooks", c.body, acme...); a.status != 400 || !strings.Contains(a.body.Message, c.says) {
			t.Errorf("%s: %d %s", name, a.status, a.raw)
		}
	}
	b.expect(403, "role submit", "POST", "/webhooks", hook, apptest.Basic(apptest.Username, apptest.Password)...)
	for range 18 {
		b.expect(201, "", "POST", "/webhooks", fields{"url": "https://a.example", "event": "sms:sent"}, beta...)
	}
	b.expect(201, "", "POST", "/webhooks", fields{"url": "https://a.example", "event": "sms:sent"}, beta...)
	b.expect(409, "limit.reached", "POST", "/webhooks", fields{"url": "https://a.example", "event": "sms:sent"}, beta...)
	b.expect(200, "{}", "GET", "/settings", nil, acme...)
	b.expect(501, "settings", "PUT", "/settings", fields{"messages": fields{"limit_value": 1}}, acme...)
	b.expect(200, "{}", "PUT", "/settings", fields{"messages": nil, "webhooks": fields{"signingKey": "12345678"}}, acme...)
	b.expect(400, "signing_key", "PATCH", "/settings", fields{"webhooks": fields{"signing_key": "short"}}, acme...)
	b.expect(204, "", "DELETE", "/webhooks/at-once", nil, acme...)
	b.expect(409, "register", "PATCH", "/settings", fields{"webhooks": fields{"signing_key": "12345678"}}, acme...)
	b.Exec("DELETE FROM users WHERE username = 'user-of-beta'")
	if n := b.Count("SELECT count(*) FROM webhooks"); n != 0 {
		t.Errorf("%d webhooks are left", n)
	}
}

// A webhook of a user who is not an admin cannot reach internal networks.
func TestWebhookOfUserCannotReachLoopback(t *testing.T) {
	b := setup(t)
	acme := b.AddCompany("acme", 1)
	url, take := receiver(t)
	b.expect(400, "public Internet", "POST", "/webhooks", fields{"id": "w", "url": url, "event": "sms:sent"}, acme...)
	if n := b.Count("SELECT count(*) FROM webhooks"); n != 0 {
		t.Errorf("%d webhooks", n)
	}
	url = strings.Replace(url, "127.0.0.1", "localhost", 1) // a name is resolved only when the webhook is called
	b.expect(201, "", "POST", "/webhooks", fields{"id": "w", "url": url, "event": "sms:sent"}, acme...)
	b.expect(400, "public Internet", "POST", "/webhooks", fields{"id": "w", "url": "https://10.0.0.1/", "event": "sms:sent"}, acme...)
	b.expect(400, "public Internet", "POST", "/webhooks", fields{"id": "w", "url": "https://10.0.0.1/", "event": "sms:failed"}, acme...)
	b.expect(202, "", "POST", "/messages", to(nil, first), acme...)
	b.Report(b.Claim("app", 1)[0].TaskID, "app", 2, nil)
	b.deliver()
	if p := take(); len(p) > 0 {
		t.Errorf("posts %+v", p)
	}
	if n := b.Count("SELECT count(*) FROM webhook_deliveries WHERE error = 'refused_address'"); n != 1 {
		t.Errorf("%d refused posts", n)
	}
}

// A client can send any text as a number or an id. The log contains no number and no id before they have been validated.
func TestLogContainsNoNumbersAndIDs(t *testing.T) {
	b := setup(t)
	acme := b.AddCompany("acme", 1)
	b.expect(400, "phoneNumbers", "POST", "/messages", to(fields{"id": "of-13700137000"}, "13700137000, 13700137001, 13700137002"), acme...)
	b.expect(202, "", "POST", "/messages", to(fields{"id": "code-13600136000"}, first), acme...)
	apptest.Eventually(t, "the request is logged", func() bool { return strings.Contains(b.Log.String(), "138****8000") })
	for _, secret := range []string{"1370013", "13600136000"} {
		if strings.Contains(b.Log.String(), secret) {
			t.Errorf("the log has %s", secret)
		}
	}
}

// An error after the commit would make the program send the message again.
func TestResponseToAcceptedMessageNeedsNoQuery(t *testing.T) {
	b := setup(t)
	acme := b.AddCompany("acme", 1)
	b.Exec("ALTER VIEW tasks RENAME TO tasks_away")
	a := b.expect(202, `"state":"Pending"`, "POST", "/messages", to(fields{"deviceId": ""}, first, "13900139000"), acme...)
	if r := a.body.Recipients; len(r) != 2 || r[1].PhoneNumber != second || r[1].State != "Pending" || a.body.States["Pending"].IsZero() {
		t.Errorf("answer %s", a.raw)
	}
}

// A text that is too long is rejected before it is copied for each recipient. The log contains only its beginning.
func TestTooLongTextIsNotCopiedForEachRecipient(t *testing.T) {
	b := setup(t)
	acme := b.AddCompany("acme", 1)
	many := make([]string, 100)
	for i := range many {
		many[i] = fmt.Sprintf("+861380013%04d", i)
	}
	b.expect(400, "textMessage.text", "POST", "/messages", to(fields{"message": strings.Repeat("x", 12_000), "textMessage": nil}, many...), acme...)
	b.expect(400, "id", "POST", "/messages", to(fields{"id": strings.Repeat("i", 12_000)}, many...), acme...)
	if n := b.Count("SELECT count(*) FROM fruitless_submissions WHERE length(request_data::text) < 1000"); n != 200 {
		t.Errorf("%d rows are short, want 200", n)
	}
}

// The time at which a shared sender was last seen would reveal messages of other companies.
func TestLastSeenOfSharedDeviceIsHidden(t *testing.T) {
	b := setup(t)
	acme := b.AddCompany("acme", 1)
	b.AddSender(fields{"sender_no": "own"})
	b.AddSender(fields{"sender_no": "shared"})
	b.AddRoute("acme", "own", 1)
	b.Exec("UPDATE senders SET is_shared = sender_no = 'shared', created_at = '2020-01-01'")
	b.Exec(`INSERT INTO sender_states (sender_id, seen_at, sent_at) SELECT s.id, '2020-02-02', '2020-03-03' FROM senders s
		ON CONFLICT (sender_id) DO UPDATE SET seen_at = excluded.seen_at, sent_at = excluded.sent_at`)
	var all []struct {
		ID       string
		LastSeen time.Time
	}
	raw := b.expect(200, "", "GET", "/devices", nil, acme...).raw
	if err := json.Unmarshal([]byte(raw), &all); err != nil {
		t.Fatal(err)
	}
	seen := map[string]time.Month{}
	for _, one := range all {
		seen[one.ID] = one.LastSeen.Month()
	}
	if seen["shared"] != time.January || seen["own"] != time.February {
		t.Errorf("devices %s", raw)
	}
}

// Messages of a dropped day are deleted, although an older day is kept.
func TestMessagesOfADroppedDayAreDeletedWhileAnOlderDayRemains(t *testing.T) {
	b := setup(t)
	acme := b.AddCompany("acme", 1)
	for _, id := range []string{"kept", "dropped", "beside"} {
		b.expect(202, "", "POST", "/messages", to(fields{"id": id}, first), acme...)
	}
	b.Exec(`INSERT INTO task_partitions (first_day, last_day, dropped_at)
		VALUES ('2020-01-01', '2020-01-10', NULL), ('2020-01-11', '2020-01-20', now())`)
	b.Exec("UPDATE smsgate_messages SET created_at = '2020-01-05 12:00Z' WHERE message_id = 'kept'")
	b.Exec("UPDATE smsgate_messages SET created_at = '2020-01-15 12:00Z' WHERE message_id = 'dropped'")
	b.Exec("UPDATE smsgate_messages SET created_at = '2020-01-11 01:00Z' WHERE message_id = 'beside'")
	if n, err := b.App.ThirdParty.DeleteExpired(t.Context()); err != nil || n != 1 {
		t.Errorf("deleted %d: %v", n, err)
	}
	if n := b.Count("SELECT count(*) FROM smsgate_messages WHERE message_id <> 'dropped'"); n != 2 {
		t.Errorf("%d messages are left", n)
	}
}
