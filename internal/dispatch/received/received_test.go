package received_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/dispatch/received"
	"lksms/internal/testkit/apptest"
)

func TestMain(m *testing.M) { apptest.Main(m) }

const (
	path   = "/api/v1/received"
	person = "+8613712345678"
)

// message returns a message of a person, for a request of a sender app.
func message(content string, more map[string]any) map[string]any {
	m := map[string]any{"from": person, "content": content}
	for k, v := range more {
		m[k] = v
	}
	return m
}

// post hands over messages as a sender app, and returns their outcomes.
func post(b *apptest.Bundle, app string, messages ...map[string]any) []api.ReceivedOutcome {
	b.T.Helper()
	answer := b.Expect(200, "", "POST", "/api/v1/sms/received", map[string]any{"app_id": app, "messages": messages})
	return apptest.Decode[api.ReceivedBatch](b.T, answer).Items
}

// one hands over one message, and returns it as it is stored.
func one(b *apptest.Bundle, app string, m map[string]any) api.Received {
	b.T.Helper()
	return get(b, *post(b, app, m)[0].ReceivedID)
}

func get(b *apptest.Bundle, id int64, headers ...string) api.Received {
	b.T.Helper()
	return apptest.Decode[api.Received](b.T, b.Expect(200, "", "GET", fmt.Sprint(path, "/", id), nil, headers...))
}

// list returns the contents on all pages of a list.
func list(b *apptest.Bundle, query string, headers ...string) string {
	b.T.Helper()
	var contents []string
	for cursor := ""; ; {
		page := apptest.Decode[api.ReceivedPage](b.T, b.Expect(200, "", "GET", path+"?limit=2&"+query+cursor, nil, headers...))
		for _, m := range page.Items {
			contents = append(contents, m.Content)
		}
		if page.NextCursor == nil {
			return strings.Join(contents, ",")
		}
		cursor = "&cursor=" + *page.NextCursor
	}
}

// R1: a message that is posted several times is stored once, even if the posts have different ids, go to different servers, or happen at the same time. A text
// that a person repeats later is stored again.
func TestAMessageIsStoredOnce(t *testing.T) {
	b := apptest.New(t)
	at := map[string]any{"received_at": "2026-12-01T10:00:00.9+08:00", "message_no": "1", "sim": 1}
	first := post(b, "phone", message("yes", at))[0]
	if *first.Deduplicated {
		t.Error("the first message is a repeat")
	}
	for name, more := range map[string]map[string]any{
		"the same message":                    at,
		"another id":                          {"received_at": "2026-12-01T02:00:00Z", "message_no": "2", "sim": 1},
		"no id":                               {"received_at": "2026-12-01T02:00:00Z", "sim": 1},
		"the same id without time and SIM":    {"message_no": "1"},
		"the same id with another time":       {"received_at": "2026-12-01T02:00:07Z", "message_no": "1"},
		"the number in another notation":      {"from": "137-1234-5678", "message_no": "1"},
		"the same second in another notation": {"received_at": "2026-11-30T18:00:00.5-08:00", "sim": 1},
	} {
		if got := post(b, "phone", message("yes", more))[0]; !*got.Deduplicated || *got.ReceivedID != *first.ReceivedID {
			t.Errorf("%s: received_id %d (deduplicated %v), want %d", name, *got.ReceivedID, *got.Deduplicated, *first.ReceivedID)
		}
	}
	for name, more := range map[string]map[string]any{
		"a later second":      {"received_at": "2026-12-01T02:00:01Z", "sim": 1},
		"another SIM":         {"received_at": "2026-12-01T02:00:00Z", "sim": 2},
		"another person":      {"from": "13712345679", "received_at": "2026-12-01T02:00:00Z", "message_no": "1", "sim": 1},
		"another text":        {"content": "no", "received_at": "2026-12-01T02:00:00Z", "message_no": "1", "sim": 1},
		"neither time nor id": {},
	} {
		if got := post(b, "phone", message("yes", more))[0]; *got.Deduplicated {
			t.Errorf("%s counts as a repeat", name)
		}
	}
	if got := post(b, "another phone", message("yes", at))[0]; *got.Deduplicated {
		t.Error("a message to another sender counts as a repeat")
	}
	twice := post(b, "phone", message("again", at), message("again", at))
	if *twice[0].Deduplicated || !*twice[1].Deduplicated || *twice[0].ReceivedID != *twice[1].ReceivedID {
		t.Errorf("the same message twice in one request: %+v", twice)
	}
}

// R1: two servers get the same messages at the same time, in opposite orders.
func TestConcurrentPostsOfTheSameMessagesStoreEachOnce(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "phone"})
	var all []received.Message
	for i := range 100 {
		m := received.Message{From: person, Content: fmt.Sprint("message ", i), MessageNo: fmt.Sprint(i * 7919 % 100)}
		if i%2 == 1 {
			m.ReceivedAt = new(time.Unix(1_764_550_000, 0))
		}
		all = append(all, m)
	}
	var calls sync.WaitGroup
	for i := range 8 {
		mine := slices.Clone(all)
		if i%2 == 1 {
			slices.Reverse(mine)
		}
		calls.Go(func() {
			if stored, err := b.App.Received.Take(context.Background(), "phone", mine); err != nil || len(stored) != len(mine) {
				t.Errorf("%d stored: %v", len(stored), err)
			}
		})
	}
	calls.Wait()
	if n := b.Count("SELECT count(*) FROM received_messages"); n != len(all) {
		t.Errorf("%d rows, want %d", n, len(all))
	}
}

// R1: a message answers the last task to its number that the same sender had a lease for, and belongs to the company of this task.
func TestAMessageBelongsToTheCompanyOfTheTaskThatItAnswers(t *testing.T) {
	b := apptest.New(t)
	acme, beta := b.AddCompany("acme", 1), b.AddCompany("beta", 1)
	b.AddSender(map[string]any{"sender_no": "phone"})
	b.AddSender(map[string]any{"sender_no": "other"})
	for _, no := range []string{"acme", "beta"} {
		b.AddRoute(no, "phone", 1)
	}
	send := func(headers []string) string {
		t.Helper()
		return apptest.Decode[api.Submitted](t, b.Expect(200, "", "POST", "/api/v1/sms/send", map[string]any{"phone_number": person, "content": "hello"}, headers...)).TaskID
	}
	ofAcme := send(acme)
	if m := one(b, "phone", message("too early", nil)); m.InReplyTo != nil || m.CompanyNo != "default" {
		t.Errorf("a message before the task was sent answers %v", m)
	}
	b.Claim("phone", 10)
	if m := one(b, "phone", message("before the report", nil)); m.InReplyTo == nil || *m.InReplyTo != ofAcme || m.CompanyNo != "acme" {
		t.Errorf("a message during the lease: %+v", m)
	}
	b.Report(ofAcme, "phone", 2, apptest.Report{})
	ofBeta := send(beta)
	b.Claim("phone", 10)
	b.Report(ofBeta, "phone", 2, apptest.Report{})
	m := one(b, "phone", message("after the report", nil))
	if m.InReplyTo == nil || *m.InReplyTo != ofBeta || m.CompanyNo != "beta" {
		t.Errorf("a message after both reports: %+v", m)
	}
	if m := one(b, "other", message("to another sender", nil)); m.InReplyTo != nil {
		t.Errorf("a message to another sender answers %s", *m.InReplyTo)
	}
	if got := list(b, "", beta...); got != "after the report" {
		t.Errorf("beta reads %q", got)
	}
	if got := list(b, "", acme...); got != "before the report" {
		t.Errorf("acme reads %q", got)
	}
	b.Expect(404, "received.not_found", "GET", fmt.Sprint(path, "/", m.ReceivedID), nil, acme...)
	b.Expect(404, "received.not_found", "POST", fmt.Sprint(path, "/", m.ReceivedID, "/read"), nil, acme...)
	b.Expect(403, "auth.other_company", "GET", path+"?company_no=beta", nil, acme...)
	colleague := b.AddUser("colleague", "submit", map[string]any{"company_no": "beta"})
	if got := list(b, "", colleague...); got != "" {
		t.Errorf("a user with the role submit reads an answer to a task of a colleague: %q", got)
	}
	reader := b.AddUser("reader", "read", map[string]any{"company_no": "beta"})
	if got := list(b, "", reader...); got != "after the report" {
		t.Errorf("a reader of beta reads %q", got)
	}

	b.Expect(200, "", "PUT", "/api/v1/admin/settings", map[string]any{"recipient": map[string]any{"reply_days": 0}})
	if m := one(b, "phone", message("answers nothing", nil)); m.InReplyTo != nil {
		t.Errorf("a message answers %s although reply_days is 0", *m.InReplyTo)
	}
}

// R1: a message that answers no task belongs to the inbox company of its sender.
func TestAMessageWithoutATaskBelongsToTheInboxCompany(t *testing.T) {
	b := apptest.New(t)
	b.AddCompany("acme", 1)
	b.Expect(200, "", "PATCH", "/api/v1/admin/companies/acme", map[string]any{"default_region": "ID"})
	b.AddSender(map[string]any{"sender_no": "phone", "inbox_company_no": "acme"})
	m := one(b, "phone", map[string]any{"from": "0812-3456-7890", "content": "halo", "to": "10086"})
	if m.CompanyNo != "acme" || m.PhoneNumber != "+6281234567890" || *m.OwnNumber != "10086" {
		t.Errorf("got %+v", m)
	}
	if m := one(b, "phone", map[string]any{"from": "MyBank", "content": ""}); m.PhoneNumber != "MyBank" || m.Content != "" {
		t.Errorf("a message of a name: %+v", m)
	}
	if got := b.Expect(422, "request.invalid", "PATCH", "/api/v1/admin/senders/phone", map[string]any{"inbox_company_no": "nobody"}).Fields(); got != "inbox_company_no" {
		t.Errorf("the error names %s", got)
	}
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/phone", map[string]any{"inbox_company_no": nil})
	if m := one(b, "phone", message("x", nil)); m.CompanyNo != "default" || b.GetSender("phone").InboxCompanyNo != nil {
		t.Errorf("without inbox company: %+v", m)
	}
}

func TestReceivedMessagesAreListedByEachFilter(t *testing.T) {
	b := apptest.New(t)
	acme := b.AddCompany("acme", 1)
	b.AddSender(map[string]any{"sender_no": "of-acme", "inbox_company_no": "acme"})
	var ids []int64
	for i, m := range []struct{ app, from, content string }{
		{"phone", "13712345678", "a"}, {"of-acme", "13712345678", "b"}, {"phone", "13712345679", "c"}, {"of-acme", "10690", "d"}, {"phone", "13712345678", "e"},
	} {
		ids = append(ids, *post(b, m.app, map[string]any{"from": m.from, "content": m.content, "message_no": fmt.Sprint(i)})[0].ReceivedID)
	}
	first := b.Expect(200, "", "POST", fmt.Sprint(path, "/", ids[0], "/read"), nil)
	if m := apptest.Decode[api.Received](t, first); m.ReadAt == nil || *m.ReadBy != apptest.Username {
		t.Errorf("after the read: %+v", m)
	}
	admin := b.AddUser("second", "admin", nil)
	again := apptest.Decode[api.Received](t, b.Expect(200, "", "POST", fmt.Sprint(path, "/", ids[0], "/read"), nil, admin...))
	if *again.ReadBy != apptest.Username {
		t.Errorf("the second reader replaced the first: %+v", again)
	}
	for query, want := range map[string]string{
		"": "e,d,c,b,a", "phone_number=137%201234%205678": "e,b,a", "phone_number=10690": "d", "sender_no=of-acme": "d,b",
		"unread=true": "e,d,c,b", "unread=false": "a", "kind=text": "e,d,c,b,a", "kind=opt_out": "", "company_no=acme": "d,b",
		"company_no=acme&unread=true&phone_number=13712345678": "b", "from=2020-01-01T00:00:00Z": "e,d,c,b,a", "to=2020-01-01T00:00:00Z": "",
		"from=2999-01-01T00:00:00Z": "",
	} {
		if got := list(b, query); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	reader := b.AddUser("reader", "read", map[string]any{"company_no": "acme"})
	if got := list(b, "", reader...); got != "d,b" {
		t.Errorf("a reader of acme reads %q", got)
	}
	if got := list(b, "", acme...); got != "" {
		t.Errorf("a submitter reads messages that answer no task of its own: %q", got)
	}
	b.Expect(404, "received.not_found", "GET", path+"/999999", nil)
}

func TestInvalidMessagesAreRefusedOneByOne(t *testing.T) {
	b := apptest.NewWith(t, apptest.DefaultRules, apptest.WithSecrets)
	items := post(b, "phone", message("good", nil), map[string]any{"content": "nobody"}, message("x", map[string]any{"sim": 11}), message("also good", nil), message("\x00", nil))
	if items[0].Code != 200 || items[3].Code != 200 || items[1].Code != 422 || items[2].Code != 422 || items[4].Code != 422 {
		t.Fatalf("got %+v", items)
	}
	if got := (*items[1].Error.Fields)[0].Field; got != "from" {
		t.Errorf("the error names %s", got)
	}
	if got := list(b, ""); got != "also good,good" {
		t.Errorf("stored are %q", got)
	}
	if items := post(b, "stranger", message("x", map[string]any{"sim": 11})); items[0].Code != 422 {
		t.Errorf("got %+v", items)
	}
	b.Expect(404, "sender.not_found", "GET", "/api/v1/admin/senders/stranger", nil)
	b.AddSender(map[string]any{"sender_no": "driven", "kind": "http-sms", "status": "off", "config": map[string]any{
		"url": "https://sms.example.com/send?to=${recipient}&text=${content}", "answer": map[string]any{"success": "status"},
	}})
	b.Expect(409, "sender.is_driven", "POST", "/api/v1/sms/received", map[string]any{"app_id": "driven", "messages": []any{message("x", nil)}})
	bound := b.AddUser("app", "send", map[string]any{"app_id": "phone"})
	b.Expect(403, "auth.other_app", "POST", "/api/v1/sms/received", map[string]any{"app_id": "another", "messages": []any{message("x", nil)}}, bound...)
	b.Expect(403, "auth.forbidden", "GET", path, nil, bound...)
}

func TestARequestCanContainOnlyTheLongestMessages(t *testing.T) {
	b := apptest.New(t)
	const letter, longest, many = "\U00020BB7", 20_000, 100 // a letter of four bytes
	all := make([]map[string]any, many)
	for i := range all {
		all[i] = map[string]any{
			"from": fmt.Sprintf("%s%02d", strings.Repeat(letter, 48), i), "to": strings.Repeat(letter, 50), "message_no": strings.Repeat(letter, 200),
			"content": strings.Repeat(letter, longest), "sim": 10, "received_at": "2026-12-01T10:00:00.123456789+08:00",
		}
	}
	all[many-1]["content"] = strings.Repeat(letter, longest+1)
	for i, item := range post(b, "phone", all...) {
		if isRefused := i == many-1; (item.Code == 422) != isRefused || !isRefused && item.Code != 200 {
			t.Fatalf("message %d: %+v", i, item)
		}
	}
}

// R1: the event is in the feed of the company, and contains nothing of a deleted message.
func TestAReceivedMessageIsAnEventOfItsCompany(t *testing.T) {
	b := apptest.New(t)
	b.AddCompany("acme", 1)
	b.AddSender(map[string]any{"sender_no": "of-acme", "inbox_company_no": "acme"})
	reader := b.AddUser("reader", "read", map[string]any{"company_no": "acme"})
	pull := func(after string, headers ...string) api.EventFeed {
		t.Helper()
		if _, err := b.App.Feed.Sequence(t.Context()); err != nil {
			t.Fatal(err)
		}
		return apptest.Decode[api.EventFeed](t, b.Expect(200, "", "GET", "/api/v1/events?type=message.received"+after, nil, headers...))
	}
	start := pull("", reader...)
	id := *post(b, "of-acme", message("hello", nil))[0].ReceivedID
	post(b, "of-default", message("of another company", nil))
	after := "&after=" + start.NextCursor
	events := pull(after, reader...).Items
	if len(events) != 1 || !strings.Contains(string(events[0].Data), `"content":"hello"`) || !strings.Contains(string(events[0].Data), `"company_no":"acme"`) {
		t.Fatalf("got %+v", events)
	}
	b.Exec("UPDATE received_messages SET phone_number = '', content = ''") // as an erasure does
	if got := string(pull(after, reader...).Items[0].Data); got != fmt.Sprintf(`{"received_id":%d}`, id) {
		t.Errorf("after the deletion the event contains %s", got)
	}
}

// R1: a phone hands over its messages again, for example after it was reset. This must not bring back an erased person.
func TestAnErasedMessageIsNotStoredAgain(t *testing.T) {
	b := apptest.New(t)
	b.AddCompany("acme", 1)
	b.AddSender(map[string]any{"sender_no": "phone", "inbox_company_no": "acme"})
	reader := b.AddUser("reader", "read", map[string]any{"company_no": "acme"})
	var messages []map[string]any
	for i, from := range []string{"+14155550123", "4155550123", "(415)\u00a0555\u20110123", "312345", "+376 312 345", "14155550124", "312346"} { // without region, national numbers stay as they are
		messages = append(messages, map[string]any{"from": from, "content": fmt.Sprint("text ", i), "message_no": fmt.Sprint(i)})
	}
	first := post(b, "phone", messages...)
	for _, number := range []string{"+1 415 555 0123", "+376312345"} {
		b.Expect(200, "", "POST", "/api/v1/contacts/erasures", map[string]any{"phone": number, "company_no": "acme"})
	}
	b.RunErasures()
	if got := apptest.Scan[string](b, "SELECT string_agg(counts ->> 'received', ',' ORDER BY id) FROM erasures WHERE status = 'finished'"); got != "3,2" {
		t.Errorf("erased %s, want 3,2", got)
	}
	for i, again := range post(b, "phone", messages...) {
		if !*again.Deduplicated || *again.ReceivedID != *first[i].ReceivedID {
			t.Errorf("message %d is stored again: %+v", i, again)
		}
	}
	for _, query := range []string{"", "unread=true"} {
		if got := list(b, query, reader...); got != "text 6,text 5" {
			t.Errorf("%s: left are %q", query, got)
		}
	}
	erased := fmt.Sprint(path, "/", *first[0].ReceivedID)
	b.Expect(404, "received.not_found", "GET", erased, nil)
	b.Expect(404, "received.not_found", "POST", erased+"/read", nil)
	if n := b.Count("SELECT count(*) FROM received_messages WHERE strpos(received_messages::text, '0123') + strpos(received_messages::text, 'text 1') > 0"); n != 0 {
		t.Errorf("%d rows contain the person", n)
	}
}

func TestOldReceivedMessagesAreDeleted(t *testing.T) {
	b := apptest.New(t)
	post(b, "phone", message("old", nil))
	b.Exec("UPDATE received_messages SET created_at = now() - interval '181 days'")
	post(b, "phone", message("new", nil))
	b.Expect(200, "", "PUT", "/api/v1/admin/settings", map[string]any{"history": map[string]any{"received_days": 0}})
	for want, days := range map[int]int{0: 0, 1: 180} {
		b.Expect(200, "", "PUT", "/api/v1/admin/settings", map[string]any{"history": map[string]any{"received_days": days}})
		if n, err := b.App.Received.DeleteExpired(t.Context()); err != nil || n != want {
			t.Errorf("%d days: %d deleted (%v), want %d", days, n, err, want)
		}
	}
	if got := list(b, ""); got != "new" {
		t.Errorf("left are %q", got)
	}
}

// R1: while an old partition is moved, a message is neither lost nor given to the wrong company: the app gets 503 and hands it over again.
func TestAMessageWaitsForALockedPartition(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "phone"})
	_, unlock := b.LockDay(2)
	b.Expect(503, "unavailable", "POST", "/api/v1/sms/received", map[string]any{"app_id": "phone", "messages": []any{message("x", nil)}})
	unlock()
	one(b, "phone", message("x", nil))
}

// R1: a phone can hand over a reply long after it arrived. The reply answers no task that was leased after the reply arrived, and no task that the sender never
// had.
func TestALateMessageAnswersTheTaskOfItsTime(t *testing.T) {
	b := apptest.New(t)
	acme, beta := b.AddCompany("acme", 1), b.AddCompany("beta", 1)
	b.AddSender(map[string]any{"sender_no": "phone"})
	b.AddSender(map[string]any{"sender_no": "other", "is_shared": false})
	b.AddRoute("acme", "phone", 1)
	b.AddRoute("beta", "phone", 1)
	body := map[string]any{"phone_number": person, "content": "hello"}
	ofAcme := apptest.Decode[api.Submitted](t, b.Expect(200, "", "POST", "/api/v1/sms/send", body, acme...)).TaskID
	b.Claim("phone", 1)
	b.Report(ofAcme, "phone", 2, apptest.Report{})
	b.Exec("UPDATE report_logs SET leased_at = now() - interval '1 hour'")
	for range 30 {
		b.Expect(200, "", "POST", "/api/v1/sms/send", body, beta...)
	}
	if m := one(b, "phone", message("before beta's tasks were sent", nil)); m.CompanyNo != "acme" {
		t.Errorf("a message after 30 tasks that nobody claimed belongs to %s", m.CompanyNo)
	}
	b.Claim("phone", 30)
	late := map[string]any{"received_at": time.Now().Add(-30 * time.Minute).Format(time.RFC3339)}
	if m := one(b, "phone", message("late", late)); m.CompanyNo != "acme" || *m.InReplyTo != ofAcme {
		t.Errorf("a late message belongs to %s", m.CompanyNo)
	}
	if m := one(b, "phone", message("now", nil)); m.CompanyNo != "beta" {
		t.Errorf("a message after beta's tasks belongs to %s", m.CompanyNo)
	}
}

func TestAReaderSeesNoInboxOfAnotherCompany(t *testing.T) {
	b := apptest.New(t)
	b.AddCompany("acme", 1)
	b.AddCompany("beta", 1)
	b.AddSender(map[string]any{"sender_no": "phone", "inbox_company_no": "beta"})
	for no, want := range map[string]string{"acme": "null", "beta": `"beta"`} {
		b.AddRoute(no, "phone", 1)
		reader := b.AddUser("reader-of-"+no, "read", map[string]any{"company_no": no})
		if raw := b.Expect(200, "", "GET", "/api/v1/admin/senders/phone", nil, reader...).Raw; !strings.Contains(raw, `"inbox_company_no":`+want) {
			t.Errorf("%s reads %s", no, raw)
		}
	}
}

func TestALockOfAnotherRoleDelaysNoReceivedMessage(t *testing.T) {
	b := apptest.New(t)
	post(b, "app", message("first", nil))
	conn, err := b.DB.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	// Any role can take advisory locks. This lock conflicts with every advisory lock of LKSMS whose key contains only the sender.
	if _, err := conn.Exec(t.Context(), "SELECT pg_advisory_lock(hashtextextended('received' || E'\n' || 'app', 0))"); err != nil {
		t.Fatal(err)
	}
	post(b, "app", message("second", nil))
}

// Messages without a time of the network keep the order in which the sender got them: by their numbers, or as the sender posts them.
func TestMessagesWithoutATimeKeepTheirOrder(t *testing.T) {
	b := apptest.New(t)
	for want, numbers := range map[string][]string{"first second third": {"b7", "a9", "10"}, "third second first": {"11", "10", "9"}} {
		var messages []map[string]any
		for i, content := range []string{"first", "second", "third"} {
			messages = append(messages, map[string]any{"from": "13712345678", "content": content, "message_no": numbers[i]})
		}
		post(b, numbers[0], messages...)
		got := apptest.Scan[string](b, "SELECT string_agg(content, ' ' ORDER BY id) FROM received_messages WHERE sender_no = $1", numbers[0])
		if got != want {
			t.Errorf("%v are stored as %s", numbers, got)
		}
	}
}
