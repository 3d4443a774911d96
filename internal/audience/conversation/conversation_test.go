package conversation_test

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/dispatch/received"
	"lksms/internal/platform/erase"
	"lksms/internal/testkit/apptest"
)

func TestMain(m *testing.M) { apptest.Main(m) }

const (
	path   = "/api/v1/conversations"
	person = "+8613712345678"
)

// receive hands over messages of a person as a sender app, and returns the id of the last one.
func receive(b *apptest.Bundle, app, from string, contents ...string) int64 {
	b.T.Helper()
	var messages []map[string]any
	for _, content := range contents {
		messages = append(messages, map[string]any{"from": from, "content": content, "sim": 1})
	}
	items := apptest.Decode[api.ReceivedBatch](b.T, b.Expect(200, "", "POST", "/api/v1/sms/received", map[string]any{"app_id": app, "messages": messages})).Items
	return *items[len(items)-1].ReceivedID
}

// list returns the conversations on all pages of a list, as "number content unread".
func list(b *apptest.Bundle, query string, headers ...string) string {
	b.T.Helper()
	var all []string
	for cursor := ""; ; {
		page := apptest.Decode[api.ConversationPage](b.T, b.Expect(200, "", "GET", path+"?limit=2&"+query+cursor, nil, headers...))
		for _, c := range page.Items {
			all = append(all, fmt.Sprint(c.PhoneNumber, " ", c.LastMessage.Direction, " ", c.LastMessage.Content, " ", c.Unread))
		}
		if page.NextCursor == nil {
			return strings.Join(all, ", ")
		}
		cursor = "&cursor=" + *page.NextCursor
	}
}

// thread returns the items on all pages of a conversation, with limit items on each page.
func thread(b *apptest.Bundle, number string, limit int, query string, headers ...string) (items []api.ConversationItem) {
	b.T.Helper()
	for cursor := ""; ; {
		page := apptest.Decode[api.ConversationThread](b.T, b.Expect(200, "", "GET", fmt.Sprintf("%s/%s?limit=%d&%s%s", path, url.PathEscape(number), limit, query, cursor), nil, headers...))
		items = append(items, page.Items...)
		if page.NextCursor == nil {
			return items
		}
		cursor = "&cursor=" + *page.NextCursor
	}
}

// texts returns the directions and texts of items.
func texts(items []api.ConversationItem) string {
	var all []string
	for _, i := range items {
		all = append(all, fmt.Sprint(i.Direction, " ", i.Content))
	}
	return strings.Join(all, ", ")
}

func reply(b *apptest.Bundle, body map[string]any, headers ...string) api.Reply {
	b.T.Helper()
	return apptest.Decode[api.Reply](b.T, b.Expect(200, "", "POST", path+"/"+person+"/reply", body, headers...))
}

// poll polls as sender apps, and stores the polls as the sweep does. A sender that never polled is silent.
func poll(b *apptest.Bundle, apps ...string) {
	b.T.Helper()
	for _, app := range apps {
		b.Take(app, 1)
	}
	if _, err := b.App.Senders.SweepSeen(b.T.Context()); err != nil {
		b.T.Fatal(err)
	}
}

// sent submits a message to the person, and lets the sender "phone" send it.
func sent(b *apptest.Bundle, content string, headers ...string) string {
	b.T.Helper()
	id := apptest.Decode[api.Submitted](b.T, b.Expect(200, "", "POST", "/api/v1/sms/send", map[string]any{"phone_number": person, "content": content}, headers...)).TaskID
	poll(b, "phone")
	b.Report(id, "phone", 2, nil)
	return id
}

// expectExact fails the test unless the table conversations describes the received messages.
func expectExact(b *apptest.Bundle) {
	b.T.Helper()
	if n := b.Count(`WITH exact AS (
			SELECT company_id, phone_number, v.submitted_by, max(id) AS last_id, count(*) FILTER (WHERE read_at IS NULL) AS unread
			FROM received_messages r CROSS JOIN LATERAL (SELECT '' UNION SELECT r.submitted_by) v (submitted_by) WHERE phone_number <> '' GROUP BY 1, 2, 3
		), wrong AS ((TABLE exact EXCEPT TABLE conversations) UNION ALL (TABLE conversations EXCEPT TABLE exact)) SELECT count(*) FROM wrong`); n != 0 {
		b.T.Errorf("%d rows of conversations are wrong", n)
	}
}

// R2: a conversation contains what was sent and what was answered, in the order of time.
func TestAConversationHasBothDirections(t *testing.T) {
	b := apptest.New(t)
	first := sent(b, "Your parcel is here")
	receive(b, "phone", person, "Where?")
	b.PutContacts(map[string]any{"user_id": "zhang", "name": "Zhang", "phone": person}, map[string]any{"user_id": "zhou", "phone": person})
	b.Expect(200, "", "PUT", "/api/v1/tags/vip", nil)
	b.Expect(200, "", "POST", "/api/v1/tags/vip/contacts", map[string]any{"add": []string{"zhang"}})

	page := apptest.Decode[api.ConversationPage](t, b.Expect(200, "", "GET", path, nil))
	c := page.Items[0]
	if len(page.Items) != 1 || c.CompanyNo != "default" || c.PhoneNumber != person || c.SenderNo != "phone" || c.Unread != 1 || c.LastMessage.Direction != "in" || c.LastMessage.Content != "Where?" {
		t.Errorf("%+v", page.Items)
	}
	if c.Contact == nil || c.Contact.UserID != "zhang" || *c.Contact.Name != "Zhang" || !slices.Equal(c.Contact.Tags, []string{"vip"}) {
		t.Errorf("contact %+v", c.Contact)
	}
	made := reply(b, map[string]any{"content": "At the gate"})
	if made.FinalContent != "At the gate" || *made.SenderNo != "phone" || made.Deduplicated != nil {
		t.Errorf("%+v", made)
	}
	if got := list(b, ""); got != person+" out At the gate 1" {
		t.Errorf("after the reply: %s", got)
	}
	items := thread(b, "137 1234 5678", 20, "")
	if got := texts(items); got != "out At the gate, in Where?, out Your parcel is here" {
		t.Fatalf("thread: %s", got)
	}
	if o := items[0]; *o.TaskID != made.TaskID || *o.Status != 0 || o.ReceivedID != nil || o.SenderNo != nil || o.ReadAt != nil {
		t.Errorf("waiting reply: %+v", o)
	}
	if i := items[1]; i.TaskID != nil || i.Status != nil || *i.Sim != 1 || *i.SenderNo != "phone" || i.ReadAt != nil {
		t.Errorf("received message: %+v", i)
	}
	if o := items[2]; *o.TaskID != first || *o.Status != 2 || *o.SenderNo != "phone" || o.Delivery != nil {
		t.Errorf("sent message: %+v", o)
	}
	b.Exec("INSERT INTO report_logs (task_id, company_id, event, effect) SELECT $1, 1, 'receipt', e FROM unnest(ARRAY['undelivered', 'delivered']) e", first)
	if o := thread(b, person, 20, "")[2]; *o.Delivery != "delivered" {
		t.Errorf("after two receipts: %+v", o)
	}
}

// R2: the list contains each number once, sorted by its newest received message, for every filter.
func TestConversationsAreListedByEachFilter(t *testing.T) {
	b := apptest.New(t)
	b.AddCompany("acme", 1)
	b.AddSender(map[string]any{"sender_no": "of-acme", "inbox_company_no": "acme"})
	receive(b, "phone", "10690", "a")
	receive(b, "of-acme", person, "b")
	receive(b, "phone", person, "c", "d")
	read := receive(b, "other", "Bank/1", "e")
	receive(b, "phone", "10690", "f")
	b.Expect(200, "", "POST", path+"/Bank%2F1/read", map[string]any{"up_to": read})
	for query, want := range map[string]string{
		"": "10690 in f 2, Bank/1 in e 0, +8613712345678 in d 2, +8613712345678 in b 1", "unread=true": "10690 in f 2, +8613712345678 in d 2, +8613712345678 in b 1",
		"unread=false": "Bank/1 in e 0", "sender_no=phone": "10690 in f 2, +8613712345678 in d 2", "sender_no=other": "Bank/1 in e 0",
		"company_no=acme": "+8613712345678 in b 1", "company_no=acme&unread=true": "+8613712345678 in b 1", "sender_no=phone&unread=true": "10690 in f 2, +8613712345678 in d 2",
		"company_no=acme&sender_no=phone": "", "company_no=default&sender_no=phone": "10690 in f 2, +8613712345678 in d 2",
	} {
		if got := list(b, query); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	reader := b.AddUser("reader", "read", map[string]any{"company_no": "acme"})
	if got := list(b, "", reader...); got != "+8613712345678 in b 1" {
		t.Errorf("a reader of acme sees %s", got)
	}
	if got := texts(thread(b, "Bank/1", 20, "")); got != "in e" {
		t.Errorf("the conversation with a name: %s", got)
	}
	b.Expect(422, "request.invalid", "POST", path+"/10690/reply", map[string]any{"content": "x", "sender": "any"})
	expectExact(b)
}

// R2: a name can begin with +, but nobody can send a message to it.
func TestConversationsWithNamesAreNotDialable(t *testing.T) {
	b := apptest.New(t)
	for number, isDialable := range map[string]bool{person: true, "+1234": false, "10690": false, "Bank": false} {
		receive(b, "phone", number, "x")
		thread := apptest.Decode[api.ConversationThread](t, b.Expect(200, "", "GET", path+"/"+url.PathEscape(number), nil))
		listed := apptest.Decode[api.ConversationPage](t, b.Expect(200, "", "GET", path+"?limit=1", nil)).Items[0]
		if thread.IsDialable != isDialable || listed.IsDialable != isDialable || listed.PhoneNumber != number {
			t.Errorf("%s: the conversation is dialable: %t, in the list %t", number, thread.IsDialable, listed.IsDialable)
		}
	}
}

// R2: a user with the role submit sees the conversations about its own tasks, and of these only its own part.
func TestASubmitterSeesOnlyItsOwnPartOfAConversation(t *testing.T) {
	b := apptest.New(t)
	acme := b.AddCompany("acme", 1)
	second := b.AddUser("second", "submit", map[string]any{"company_no": "acme"})
	sent(b, "from acme", acme...)
	receive(b, "phone", person, "to acme")
	sent(b, "from the second", second...)
	receive(b, "phone", person, "to the second", "again")
	receive(b, "phone", "10690", "no answer")
	if got := list(b, "", acme...); got != person+" in to acme 1" {
		t.Errorf("the first submitter sees %s", got)
	}
	if got := texts(thread(b, person, 20, "", second...)); got != "in again, in to the second, out from the second" {
		t.Errorf("the second submitter sees %s", got)
	}
	if got := texts(thread(b, person, 2, "company_no=acme")); got != "in again, in to the second, out from the second, in to acme, out from acme" {
		t.Errorf("the admin sees %s", got)
	}
	b.Claim("phone", 1)
	if r := reply(b, map[string]any{"content": "own"}, acme...); *r.SenderNo != "phone" {
		t.Errorf("%+v", r)
	}
	if got := list(b, "", acme...); got != person+" out own 1" {
		t.Errorf("after its reply, the first submitter sees %s", got)
	}
	last := receive(b, "phone", person, "last")
	if got := apptest.Decode[map[string]int](t, b.Expect(200, "", "POST", path+"/"+person+"/read", map[string]any{"up_to": last}, acme...))["read"]; got != 1 {
		t.Errorf("the first submitter marked %d messages as read", got)
	}
	if got := list(b, "company_no=acme"); got != person+" in last 3" {
		t.Errorf("the admin sees %s", got)
	}
	expectExact(b)
	stranger := b.AddUser("stranger", "submit", map[string]any{"company_no": "acme"})
	for method, request := range map[string]string{"GET": "", "POST": "/read"} {
		var body any
		if method == "POST" {
			body = map[string]any{"up_to": 1}
		}
		b.Expect(404, "conversation.not_found", method, path+"/"+person+request, body, stranger...)
	}
	b.Expect(404, "conversation.not_found", "POST", path+"/"+person+"/reply", map[string]any{"content": "x"}, stranger...)
	b.Expect(403, "auth.forbidden", "POST", path+"/"+person+"/reply", map[string]any{"content": "x"}, b.AddUser("reads", "read", nil)...)
}

// R2: the reply goes through the sender that received the last message. If this sender cannot send, the caller decides.
func TestAReplyGoesThroughTheSenderOfTheLastMessage(t *testing.T) {
	b := apptest.New(t)
	poll(b, "other", "phone")
	receive(b, "other", person, "first")
	receive(b, "phone", person, "last")
	made := reply(b, map[string]any{"content": "answer"})
	if got := b.Claim("other", 10); len(got) != 0 {
		t.Errorf("another sender claimed %v", got)
	}
	if got := b.Claim("phone", 10); len(got) != 1 || got[0].TaskID != made.TaskID {
		t.Errorf("the sender claimed %v", got)
	}
	refused := func(why string) {
		t.Helper()
		a := b.Expect(409, "conversation.sender_unavailable", "POST", path+"/"+person+"/reply", map[string]any{"content": "answer"})
		if got := a.Body.Error.Fields[0].Message; a.Fields() != "sender" || !strings.Contains(got, why) || !strings.Contains(a.Body.Message, "sender any") {
			t.Errorf("%s, want %s", a.Raw, why)
		}
		if a := b.Call("POST", path+"/"+person+"/reply", map[string]any{"content": "answer"}, "Accept-Language", "zh"); !strings.Contains(a.Raw, "发送方 phone") {
			t.Errorf("in Chinese: %s", a.Raw)
		}
	}
	patch := func(body string) { b.Expect(200, "", "PATCH", "/api/v1/admin/senders/phone", body) }
	before := b.Count("SELECT count(*) FROM messages")
	patch(`{"status":"off"}`)
	refused("phone is off")
	patch(`{"status":"on","limits":{"per_day":0}}`)
	refused("the limits of sender phone are used up")
	patch(`{"limits":{"per_day":null}}`)
	b.Exec("UPDATE sender_states SET next_available_at = now() + interval '1 hour' WHERE sender_id = (SELECT id FROM senders WHERE sender_no = 'phone')")
	refused("phone is paused")
	b.Exec("UPDATE sender_states SET next_available_at = now() + interval '5 seconds' WHERE sender_id = (SELECT id FROM senders WHERE sender_no = 'phone')")
	reply(b, map[string]any{"content": "the interval between two claims does not matter"})
	b.Exec("UPDATE sender_states SET next_available_at = '-infinity'")
	b.AddRoute("default", "other", 1)
	patch(`{"is_shared":false}`)
	refused("does not serve the company")
	any := reply(b, map[string]any{"content": "through any", "sender": "any"})
	if got := b.Claim("other", 10); any.SenderNo != nil || len(got) != 1 || got[0].TaskID != any.TaskID {
		t.Errorf("the other sender claimed %v", got)
	}
	if n := b.Count("SELECT count(*) FROM messages"); n != before+2 {
		t.Errorf("%d messages were stored, want 2", n-before)
	}
}

// R2: a sender that does not poll any more would keep the reply forever.
func TestAReplyDoesNotWaitForASilentSender(t *testing.T) {
	b := apptest.New(t)
	poll(b, "phone")
	receive(b, "phone", person, "hello")
	b.Exec("UPDATE sender_states SET seen_at = now() - interval '90 s'") // a sender is silent after 60 s
	a := b.Expect(409, "conversation.sender_unavailable", "POST", path+"/"+person+"/reply", map[string]any{"content": "answer"})
	if !strings.Contains(a.Raw, "has not polled lately") {
		t.Error(a.Raw)
	}
}

func TestConversationsOfADeletedCompanyAreNotCounted(t *testing.T) {
	b := apptest.New(t)
	b.AddCompany("gone", 1)
	b.AddSender(map[string]any{"sender_no": "other", "inbox_company_no": "gone"})
	receive(b, "phone", person, "hello")
	receive(b, "other", person, "hello")
	unread := func() int64 {
		t.Helper()
		u, err := b.App.Conversations.Unread(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return u.Conversations
	}
	if n := unread(); n != 2 {
		t.Errorf("%d conversations", n)
	}
	b.Exec("UPDATE senders SET inbox_company_id = 1")
	b.Exec("DELETE FROM users WHERE company_id = (SELECT id FROM companies WHERE company_no = 'gone')")
	b.Exec("DELETE FROM companies WHERE company_no = 'gone'")
	if n := unread(); n != 1 {
		t.Errorf("%d conversations after the company was deleted", n)
	}
}

// R2: a person who wrote now is awake, so a reply does not wait for the end of quiet hours.
func TestAReplyDoesNotWaitForTheEndOfQuietHours(t *testing.T) {
	b := apptest.New(t)
	b.SetQuiet("notification", -time.Hour, 5*time.Hour)
	poll(b, "phone")
	receive(b, "phone", person, "hello")
	made := reply(b, map[string]any{"content": "answer"})
	if _, err := b.App.Queue.MoveQuiet(t.Context()); err != nil {
		t.Fatal(err)
	}
	if e := b.Explain(made.TaskID); e.Reason != api.BecauseQueued {
		t.Errorf("the explanation is %s: %s", e.Reason, e.Summary)
	}
	if got := b.Claim("phone", 10); len(got) != 1 || got[0].TaskID != made.TaskID {
		t.Errorf("the sender claimed %v", got)
	}
}

// R2: a change of quiet hours, or a requeue in quiet hours, does not delay a reply.
func TestAReplyNeverGetsQuietHours(t *testing.T) {
	b := apptest.New(t)
	poll(b, "phone")
	receive(b, "phone", person, "hello")
	id := reply(b, map[string]any{"content": "answer"}).TaskID
	expectQueued := func(when string) {
		t.Helper()
		if _, err := b.App.Queue.MoveQuiet(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := b.App.Queue.Queue(t.Context()); err != nil {
			t.Fatal(err)
		}
		if e := b.Explain(id); e.Reason != api.BecauseQueued {
			t.Errorf("after %s, the explanation is %s: %s", when, e.Reason, e.Summary)
		}
	}
	b.SetQuiet("notification", -time.Hour, 5*time.Hour)
	b.Exec("UPDATE quiet_changes SET begins_at = now()")
	expectQueued("the change of the quiet hours")
	b.Expect(200, "", "POST", "/api/v1/sms/task/"+id+"/cancel", nil)
	b.Expect(200, "", "POST", "/api/v1/sms/task/"+id+"/requeue", nil)
	expectQueued("the requeue")
	b.SetQuiet("notification", -2*time.Hour, 5*time.Hour)
	b.Exec("UPDATE quiet_changes SET begins_at = now()")
	expectQueued("the next change")
	if got := b.Claim("phone", 10); len(got) != 1 || got[0].TaskID != id {
		t.Errorf("the sender claimed %v", got)
	}
}

// R2: a switch would hold the reply, and nobody would notice.
func TestAReplyThatASwitchWouldHoldIsRefused(t *testing.T) {
	b := apptest.New(t)
	b.AddCountry("CN", "86", nil)
	poll(b, "phone")
	receive(b, "phone", person, "hello")
	b.Expect(200, "", "PATCH", "/api/v1/admin/countries/CN", map[string]any{"status": "off"})
	for _, body := range []map[string]any{{"content": "answer"}, {"content": "answer", "sender": "any"}} {
		a := b.Expect(422, "request.invalid", "POST", path+"/"+person+"/reply", body)
		if a.Fields() != "phone_number" || !strings.Contains(a.Raw, "country CN is off") {
			t.Error(a.Raw)
		}
	}
	if n := b.Count("SELECT count(*) FROM messages"); n != 0 {
		t.Errorf("%d messages were stored", n)
	}
}

// R2: replies come before other notifications, and pass the same rules.
func TestAReplyIsSubmittedLikeAnyMessage(t *testing.T) {
	b := apptest.New(t)
	acme := b.AddUser("own-priority", "submit", map[string]any{"top_priority": 9})
	id := apptest.Decode[api.Submitted](t, b.Expect(200, "", "POST", "/api/v1/sms/send", map[string]any{"phone_number": person, "content": "hello", "sign": "Shop"}, acme...)).TaskID
	poll(b, "phone")
	receive(b, "phone", person, "hi")
	made := reply(b, map[string]any{"content": "answer", "dedup_key": "one"}, acme...)
	if made.FinalContent != "【Shop】answer" {
		t.Errorf("the reply is %q, want the signature of %s", made.FinalContent, id)
	}
	if task := b.Task(made.TaskID); task.Priority != 3 || task.MessageType != "notification" || *task.Sign != "Shop" || task.SubmittedBy != "own-priority" {
		t.Errorf("%+v", task)
	}
	if again := reply(b, map[string]any{"content": "another", "dedup_key": "one"}, acme...); again.TaskID != made.TaskID || !*again.Deduplicated {
		t.Errorf("a repeat is %+v", again)
	}
	b.Expect(200, "", "PUT", "/api/v1/admin/settings/sms", `{"priority_conversation":7,"max_content_notification":20}`)
	unsigned := reply(b, map[string]any{"content": "unsigned", "sign": ""})
	if task := b.Task(unsigned.TaskID); task.Priority != 7 || task.Sign != nil {
		t.Errorf("%+v", task)
	}
	a := b.Expect(422, "request.invalid", "POST", path+"/"+person+"/reply", map[string]any{"content": strings.Repeat("x", 21)})
	if a.Fields() != "content" {
		t.Error(a.Raw)
	}
	b.Expect(200, "", "PATCH", "/api/v1/admin/companies/default", `{"status":"off"}`)
	b.Expect(409, "company.off", "POST", path+"/"+person+"/reply", map[string]any{"content": "x"})
	key := []string{apptest.KeyHeader, "k"}
	b.Expect(200, "", "PATCH", "/api/v1/admin/companies/default", `{"status":"on"}`)
	first, second := reply(b, map[string]any{"content": "twice"}, key...), reply(b, map[string]any{"content": "twice"}, key...)
	if first.TaskID != second.TaskID {
		t.Error("the same Idempotency-Key made two tasks")
	}
}

// R2: messages that arrive while the user reads stay unread.
func TestMessagesThatArriveWhileTheUserReadsStayUnread(t *testing.T) {
	b := apptest.New(t)
	upTo := receive(b, "phone", person, "a", "b")
	receive(b, "phone", person, "c")
	other := receive(b, "phone", "10690", "of another number")
	read := func(upTo int64, headers ...string) int {
		t.Helper()
		return apptest.Decode[map[string]int](t, b.Expect(200, "", "POST", path+"/"+person+"/read", map[string]any{"up_to": upTo}, headers...))["read"]
	}
	if got := read(upTo); got != 2 {
		t.Errorf("%d messages were marked", got)
	}
	if got := list(b, ""); got != "10690 in of another number 1, "+person+" in c 1" {
		t.Errorf("the list is %s", got)
	}
	if got := read(other, b.AddUser("second", "admin", nil)...); got != 1 {
		t.Errorf("later, %d messages were marked", got)
	}
	if n := b.Count("SELECT count(*) FROM received_messages WHERE read_by = 'admin'"); n != 2 {
		t.Errorf("the first reader remains at %d messages", n)
	}
	b.Expect(200, "", "POST", fmt.Sprint("/api/v1/received/", other, "/read"), nil) // a single message counts too
	expectExact(b)
	o := apptest.Decode[api.Overview](t, b.Expect(200, "", "GET", "/api/v1/admin/overview", nil))
	if o.Conversations.LastReceivedID != other || o.Conversations.Unread != 0 {
		t.Errorf("overview %+v", o.Conversations)
	}
	b.Expect(404, "conversation.not_found", "POST", path+"/10691/read", map[string]any{"up_to": 1})
}

// R2: the pages of a conversation contain each message once, newest first, over many partitions.
func TestThePagesOfAConversationContainEachMessageOnce(t *testing.T) {
	b := apptest.New(t)
	b.Exec("SELECT task_partitions_ahead('day', now() - interval '70 days', now())")
	b.Exec(`INSERT INTO messages (task_id, phone_number, recipient, content, submitted_by, company_id, pool_id, message_type, priority, segments, created_at)
		SELECT 'task_' || to_char(at AT TIME ZONE 'UTC', 'YYYYMMDD') || '_' || lpad(i::text, 26, '0'), $1, $1, 'out ' || i, 'admin', 1 + i % 3 / 2, 1, 1, 5, 1, at
		FROM (SELECT i, now() - interval '1 day' * (70 - i / 3) - interval '1 minute' * (60 - i % 3) AS at FROM generate_series(1, 100) i WHERE i < 30 OR i > 90) x;`, person)
	b.Exec(`INSERT INTO received_messages (company_id, sender_no, phone_number, content, identity, created_at)
		SELECT 1, 'phone', $1, 'in ' || i, i::text::bytea, now() - interval '1 day' * (70 - i) - interval '50 minutes' FROM generate_series(1, 69) i WHERE i < 9 OR i > 60`, person)
	b.Exec("INSERT INTO received_messages (company_id, sender_no, phone_number, content) VALUES (2, 'phone', $1, 'of another company')", person)
	want := apptest.Scan[string](b, `SELECT string_agg(content, ', ' ORDER BY at DESC) FROM (
		SELECT 'out ' || content AS content, created_at AS at FROM messages WHERE company_id = 1 AND recipient = $1
		UNION ALL SELECT 'in ' || content, created_at FROM received_messages WHERE company_id = 1) x`, person)
	for _, limit := range []int{1, 2, 3, 7, 20, 100} {
		if got := texts(thread(b, person, limit, "")); got != want {
			t.Errorf("limit %d:\n%s\nwant\n%s", limit, got, want)
		}
	}
	expectExact(b)
}

// The triggers count each message once, in any order of concurrent transactions. Statements of different transactions do not deadlock.
func TestConcurrentChangesKeepConversationsExact(t *testing.T) {
	b := apptest.New(t)
	acme := b.AddCompany("acme", 1)
	sent(b, "hello", acme...)
	numbers := []string{person, "10690", "+8613712345679", "Bank"}
	apptest.Together(8, func(i int) {
		for n := range 20 {
			switch {
			case i < 4:
				var messages []received.Message
				for k := range 8 {
					messages = append(messages, received.Message{From: numbers[(i+k)%4], Content: "x", MessageNo: fmt.Sprint(i, ".", n, ".", k)})
				}
				if _, err := b.App.Received.Take(context.Background(), "phone", messages); err != nil {
					t.Error(err)
				}
			case i < 7:
				b.Expect(200, "", "GET", path, nil)
				b.Call("POST", path+"/"+url.PathEscape(numbers[(i+n)%4])+"/read", map[string]any{"up_to": 1 << 40, "company_no": []string{"acme", "default"}[i%2]})
			default:
				if _, err := b.DB.Exec(context.Background(), `DELETE FROM received_messages WHERE id IN (
					SELECT id FROM received_messages ORDER BY id OFFSET $1 LIMIT 20 FOR UPDATE)`, 10*(n%3)); err != nil {
					t.Error(err)
				}
			}
		}
	})
	expectExact(b)
	b.Exec("DELETE FROM received_messages WHERE id % 2 = 0")
	expectExact(b)
	b.Exec("UPDATE received_messages SET read_at = NULL WHERE id % 3 = 0")
	expectExact(b)
	b.Exec("DELETE FROM received_messages")
	if n := b.Count("SELECT count(*) FROM conversations"); n != 0 {
		t.Errorf("%d conversations have no messages", n)
	}
}

// S4.10: the erasure of a person and the retention of messages end the conversation.
func TestAConversationEndsWithItsLastMessage(t *testing.T) {
	b := apptest.New(t)
	receive(b, "phone", person, "a", "b")
	receive(b, "phone", "10690", "c")
	b.Exec("UPDATE received_messages SET created_at = now() - interval '200 days' WHERE content = 'a'")
	if n, err := b.App.Received.DeleteExpired(t.Context()); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	expectExact(b)
	if got := list(b, ""); got != "10690 in c 1, "+person+" in b 1" {
		t.Errorf("after the retention: %s", got)
	}
	run := func(ctx context.Context, do func(ctx context.Context) (erase.Counts, error)) error {
		_, err := do(ctx)
		return err
	}
	if err := b.App.Received.Erase(t.Context(), &erase.Person{
		CompanyID: 1, Recipients: []string{person}, Digits: []string{person[len(person)-8:]}, Since: time.Now(), Has: func(address string) bool { return address == person },
	}, run); err != nil {
		t.Fatal(err)
	}
	if got := list(b, ""); got != "10690 in c 1" {
		t.Errorf("after the erasure: %s", got)
	}
	b.Expect(404, "conversation.not_found", "GET", path+"/"+person, nil)
	expectExact(b)
}

// R2: a number without + can be a national or an international number. The conversation is found by either.
func TestAConversationIsFoundByEachReadingOfItsNumber(t *testing.T) {
	b := apptest.New(t)
	acme := b.AddCompany("acme", 1)
	b.Expect(200, "", "PATCH", "/api/v1/admin/companies/acme", map[string]any{"default_region": "DE"})
	b.AddSender(map[string]any{"sender_no": "phone", "inbox_company_no": "acme"})
	b.AddRoute("acme", "phone", 1)
	const number, inChina = "8613800138000", "+8613800138000"
	b.Expect(200, "", "POST", "/api/v1/sms/send", map[string]any{"phone_number": inChina, "content": "hello"}, acme...)
	poll(b, "phone")
	id := receive(b, "phone", number, "from China")
	if got := texts(thread(b, number, 10, "", acme...)); !strings.Contains(got, "in from China") {
		t.Errorf("the conversation has %s", got)
	}
	b.Expect(200, "", "POST", path+"/"+number+"/read", map[string]any{"up_to": id}, acme...)
	answer := apptest.Decode[api.Reply](t, b.Expect(200, "", "POST", path+"/"+number+"/reply", map[string]any{"content": "ok"}, acme...))
	if got := b.Task(answer.TaskID).PhoneNumber; got != inChina {
		t.Errorf("the reply goes to %s", got)
	}
	b.Expect(404, "conversation.not_found", "GET", path+"/+498613800138000", nil, acme...)
	receive(b, "phone", "8613900139000", "from a stranger")
	if got := texts(thread(b, "8613900139000", 10, "company_no=acme")); got != "in from a stranger" {
		t.Errorf("the conversation in Germany has %s", got)
	}
}
