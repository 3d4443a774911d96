package verification_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
	"lksms/internal/testkit/pgtest"
)

const (
	verifications = 1000
	codeLength    = 10           // so long that no other number in a backup equals a code by chance
	byPhone       = 300          // codes that an app claims; driven senders send the others
	marker        = "4711081512" // content of a message that is not sensitive: each search must find it
)

// leaks is a server with verifications whose codes are searched in everything that the server stores and shows.
type leaks struct {
	*apptest.Bundle
	ids      []string          // verifications in the order of their persons
	codes    map[string]string // code by verification
	of       map[string]string // verification by code
	stranger []string          // headers of a user of another company

	mu    sync.Mutex
	shown strings.Builder // responses of the server, and the requests to its webhook
}

// TestNoneOfAThousandCodesIsStoredOrShown proves V2: a code is only in the message on its way.
func TestNoneOfAThousandCodesIsStoredOrShown(t *testing.T) {
	l := &leaks{Bundle: newServer(t), ids: make([]string, verifications), codes: map[string]string{}, of: map[string]string{}}
	l.setUp()
	l.each(verifications, l.start)
	l.Submit(marker)
	l.readCodes()
	l.sendByPhone(byPhone)
	l.search("while messages wait")
	l.sendByProviders(t)
	l.each(verifications, l.use)
	l.Exec("UPDATE verifications SET expires_at = now() WHERE verification_id = ANY ($1)", l.ofUse(expire))
	if _, err := l.App.Verifications.Expire(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.awaitMessages()
	l.search("at the end")
	if got := apptest.Scan[string](l.Bundle, `SELECT string_agg(status || ' ' || n, ', ' ORDER BY status)
		FROM (SELECT status, count(*) AS n FROM verifications GROUP BY status) x`); got != "approved 375, cancelled 125, exhausted 125, expired 125, pending 250" {
		t.Errorf("the verifications are %s", got)
	}
}

// uses are what the persons do with their codes, in turn.
const (
	approve = iota
	mistype
	guess
	cancel
	expire
	resend
	mistake
	ignore
	uses
)

// setUp adds a webhook, and the contacts and the template that verifications use.
func (l *leaks) setUp() {
	l.Expect(200, "", "PUT", "/api/v1/admin/settings", map[string]any{"verification": map[string]any{"per_minute": 0, "unproven_per_day": 0}})
	l.Expect(200, "", "GET", "/api/v1/events", nil) // the feed records events from now on
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		l.show(string(body))
	}))
	l.T.Cleanup(hook.Close)
	l.Expect(200, "", "POST", "/api/v1/webhooks", map[string]any{"url": hook.URL, "events": []string{"message.sent", "message.failed", "message.cancelled"}})
	l.Expect(200, "", "POST", "/api/v1/admin/template", map[string]any{
		"template_no": "login", "template_name": "login", "template_content": "{code} for {minutes} minutes", "sign": "ACME",
	})
	var all []map[string]any
	for i := range verifications {
		if i%5 == 4 {
			all = append(all, map[string]any{"user_id": user(i), "phone": number(i), "email": mailbox(i)})
		}
	}
	l.PutContacts(all...)
	l.stranger = l.AddCompany("acme", 1)
}

func user(i int) string    { return fmt.Sprint("u", i) }
func number(i int) string  { return fmt.Sprint(13900100000 + i) }
func mailbox(i int) string { return fmt.Sprintf("p%d@example.com", i) }

// person returns the fields that name a person, and the purpose of the code.
func person(i int) map[string]any {
	switch i % 5 {
	case 3:
		return map[string]any{"email": mailbox(i), "purpose": "login"}
	case 4:
		return map[string]any{"user_id": user(i), "channel": []string{"sms", "email"}[i/5%2], "purpose": "login"}
	default:
		return map[string]any{"phone_number": number(i), "purpose": "login"}
	}
}

// each calls do for 0 to n-1, eight at the same time.
func (*leaks) each(n int, do func(i int)) {
	const workers = 8
	apptest.Together(workers, func(w int) {
		for i := w; i < n; i += workers {
			do(i)
		}
	})
}

// call sends a request, and keeps the response for the search.
func (l *leaks) call(method, path string, body any, headers ...string) apptest.Answer {
	a := l.Call(method, path, body, headers...)
	l.show(a.Raw)
	return a
}

func (l *leaks) show(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shown.WriteString(text + "\n")
}

// start starts the verification of a person. Half of the requests have an idempotency key, and half of these are repeated.
func (l *leaks) start(i int) {
	body := person(i)
	body["length"], body["client_ip"], body["device"] = codeLength, fmt.Sprint("10.0.", i/250, ".", i%250), user(i)
	switch i % 5 {
	case 1:
		body["domain"], body["language"] = "example.com", "en"
	case 2:
		body["template_no"], body["sign"] = "login", "公司"
	}
	var key []string
	if i/5%2 == 0 {
		key = []string{apptest.KeyHeader, user(i)}
	}
	for range 1 + len(key)/2*(i/10%2) {
		a := l.call("POST", path, body, key...)
		if a.Status != 200 {
			l.T.Errorf("start: %s", a.Raw)
			return
		}
		l.ids[i] = apptest.Decode[api.VerificationStarted](l.T, a).VerificationID
	}
}

// readCodes decrypts the codes of all verifications.
func (l *leaks) readCodes() {
	rows, err := l.DB.Query(l.T.Context(), "SELECT verification_id, sealed FROM verifications")
	if err != nil {
		l.T.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id, sealed string
		if err := rows.Scan(&id, &sealed); err != nil {
			l.T.Fatal(err)
		}
		code, err := l.Options.Secrets.Decrypt(sealed, "verification "+id)
		if err != nil {
			l.T.Fatal(err)
		}
		l.codes[id], l.of[code] = code, id
	}
	if len(l.of) != verifications || rows.Err() != nil {
		l.T.Fatalf("%d codes, %v", len(l.of), rows.Err())
	}
}

// sendByPhone claims messages as an app. The app sends a third, rejects a third with the text in its report, and is still sending the rest.
func (l *leaks) sendByPhone(n int) {
	var texts strings.Builder
	claimed := l.Take("app", n)
	for i, task := range claimed {
		texts.WriteString(task.Content + "\n")
		switch i % 3 {
		case 0:
			l.call("POST", "/api/v1/sms/report", apptest.ReportBody(task.TaskID, "app", 2, nil))
		case 1:
			l.call("POST", "/api/v1/sms/report", apptest.ReportBody(task.TaskID, "app", 3, apptest.Report{"error_message": "rejected: " + task.Content}))
		}
	}
	if found := len(l.found(texts.String())); len(claimed) != n || found != n {
		l.T.Errorf("the app got %d messages with %d codes", len(claimed), found)
	}
}

// sendByProviders sends the other messages with two driven senders. The provider of short messages repeats the text or the code in its answers, and rejects some messages.
func (l *leaks) sendByProviders(t *testing.T) {
	t.Helper()
	p := apptest.NewProvider(t)
	var sent atomic.Int64
	p.Does(func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Text string }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		n := sent.Add(1)
		text := []string{body.Text, digits.FindString(body.Text), "rejected: " + body.Text, url.QueryEscape(body.Text), "code=" + digits.FindString(body.Text) + "&to=1"}[n%5]
		_ = json.NewEncoder(w).Encode(map[string]string{"code": []string{"0", "9", "0", "7"}[n%4], "id": fmt.Sprint("p-", n), "text": text})
	})
	l.AddSender(map[string]any{"sender_no": "pushed", "kind": "http-sms", "config": p.SenderConfig()})
	mail := l.AddMailbox("mail")
	l.App.Pusher.Start()
	l.awaitMessages()
	texts := strings.Join(p.Seen(), "\n")
	for i := range verifications {
		texts += mail.Raw(mailbox(i))
	}
	if found := len(l.found(texts)); found != verifications-byPhone {
		t.Errorf("the providers got %d codes", found)
	}
}

// awaitMessages waits until no message is due, and no driven sender has a message.
func (l *leaks) awaitMessages() {
	apptest.Eventually(l.T, "all messages were sent", func() bool {
		if _, err := l.App.Queue.Expire(l.T.Context()); err != nil { // ends messages whose verification ended while a sender had them
			l.T.Fatal(err)
		}
		return l.Count("SELECT count(*) FROM queue WHERE lease_until IS NULL AND due_at <= now() OR processing_app_id <> 'app'") == 0
	})
}

// use does with a code what its person does.
func (l *leaks) use(i int) {
	id := l.ids[i]
	code := l.codes[id]
	expect := func(want, ending string, body any, headers ...string) {
		if got := outcome(l.call("POST", path+ending, body, headers...)); got != want {
			l.T.Errorf("%s of person %d: %s, want %s", ending, i, got, want)
		}
	}
	given := func(code string) map[string]any { return map[string]any{"code": code} }
	switch i % uses {
	case approve:
		expect("approved 4", "/"+id+"/check", given(code))
	case mistype:
		expect("pending 4", "/"+id+"/check", given(wrong(code)))
		byPerson := person(i)
		byPerson["code"] = code
		expect("approved 3", "/check", byPerson)
	case guess:
		for left := 4; left > 0; left-- {
			expect(fmt.Sprint("pending ", left), "/"+id+"/check", given(wrong(code)))
		}
		expect("409 verification.exhausted", "/"+id+"/check", given(wrong(code)))
		expect("409 verification.exhausted", "/"+id+"/check", given(code))
	case cancel:
		if a := l.call("POST", path+"/"+id+"/cancel", nil); a.Status != 200 {
			l.T.Errorf("cancel: %s", a.Raw)
		}
		expect("409 verification.cancelled", "/"+id+"/check", given(code))
	case resend:
		expect("pending 0", "/"+id+"/resend", map[string]any{"device": user(i)}, apptest.KeyHeader, user(i))
		expect("approved 4", "/"+id+"/check", given(code))
	case mistake:
		expect("404 verification.not_found", "/vrf_other/check", given(code))
		expect("404 verification.not_found", "/"+id+"/check", given(code), l.stranger...)
		expect("422 request.invalid", "/"+id+"/check", given(code+" is what I got in my message"))
		expect("422 request.invalid", "/"+id+"/check", map[string]any{"number": code})
		expect("422 request.invalid", "/check", map[string]any{"phone_number": "1", "purpose": "login", "code": code})
		expect("409 verification.expired", "/check", map[string]any{"phone_number": number(i), "purpose": "pay", "code": code})
		expect("400 request.malformed", "/"+id+"/check", `{"code":"`+code)
	}
}

// ofUse returns the verifications whose persons do the same.
func (l *leaks) ofUse(use int) (ids []string) {
	for i := use; i < verifications; i += uses {
		ids = append(ids, l.ids[i])
	}
	return ids
}

// search fails the test if a code is in a backup, the log, an answer of the server, or a request to its webhook.
func (l *leaks) search(when string) {
	l.T.Helper()
	if _, err := l.App.Feed.Sequence(l.T.Context()); err != nil {
		l.T.Fatal(err)
	}
	if _, err := l.App.Webhooks.Deliver(l.T.Context()); err != nil {
		l.T.Fatal(err)
	}
	l.readAll()
	for name, text := range map[string]string{"the backup": pgtest.Dump(l.T, l.Options.DatabaseURL), "the log": l.Log.String(), "an answer or a post": l.shown.String()} {
		if found := l.found(text); len(found) > 0 {
			l.T.Errorf("%s, %s contains %d codes: %s", when, name, len(found), found[:min(len(found), 3)])
		}
		if name != "the log" && !strings.Contains(text, marker) {
			l.T.Errorf("%s, %s does not contain the text that is not sensitive", when, name)
		}
	}
}

// readAll calls all operations of the contract that read: exports, statistics, events and lists. It also reads some verifications with their tasks.
func (l *leaks) readAll() {
	for _, o := range apptest.Operations {
		if o.Method == "GET" && o.Roles != "send" { // a sender gets codes
			l.call(o.Method, o.Path, nil)
		}
	}
	l.call("GET", "/metrics", nil)
	for _, list := range []string{"/api/v1/events?after=&limit=1000", "/api/v1/sms/tasks?limit=500", "/api/v1/admin/audit?limit=500", "/api/v1/admin/senders/pushed/answers"} {
		l.call("GET", list, nil)
	}
	for i := 0; i < verifications; i += 11 {
		a := l.call("GET", path+"/"+l.ids[i], nil)
		for _, task := range apptest.Decode[api.VerificationView](l.T, a).TaskIds {
			for _, ending := range []string{"", "/timeline", "/explain"} {
				l.call("GET", "/api/v1/sms/task/"+task+ending, nil)
			}
		}
	}
}

// found returns the places of a text that contain a code, as digits or as the hexadecimal form of bytes. It returns one place for each code.
func (l *leaks) found(text string) (places []string) {
	seen := map[string]bool{}
	add := func(code string, at, length int) {
		if id := l.of[code]; id != "" && !seen[code] {
			seen[code] = true
			places = append(places, fmt.Sprintf("%s in %q", id, text[max(0, at-60):min(len(text), at+length+60)]))
		}
	}
	digits := 0 // before and at i
	for i := range len(text) {
		if digits++; text[i] < '0' || text[i] > '9' {
			digits = 0
		}
		if digits >= codeLength {
			add(text[i+1-codeLength:i+1], i+1-codeLength, codeLength)
		}
		if digits >= 2*codeLength {
			code, _ := hex.DecodeString(text[i+1-2*codeLength : i+1])
			add(string(code), i+1-2*codeLength, 2*codeLength)
		}
	}
	return places
}
