package thirdparty_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// receive hands over a message from a number to the sender "app".
func (b bundle) receive(from, text string, more fields) {
	b.T.Helper()
	m := fields{"from": from, "content": text, "message_no": text}
	for k, v := range more {
		m[k] = v
	}
	b.Expect(200, "", "POST", "/api/v1/sms/received", fields{"app_id": "app", "messages": []any{m}})
}

// incoming is a message of the inbox as the clients of SMSGate read it.
type incoming struct {
	ID, Type, Sender, ContentPreview string
	Recipient                        *string
	SimNumber                        *int
	CreatedAt                        time.Time
}

func (b bundle) inbox(query string, headers ...string) (all []incoming, total string) {
	b.T.Helper()
	a := b.expect(200, "[", "GET", "/inbox"+query, nil, headers...)
	if err := json.Unmarshal([]byte(a.raw), &all); err != nil {
		b.T.Fatal(err)
	}
	return all, a.header.Get("X-Total-Count")
}

// R3: a program for SMSGate reads the answers to its messages, and no others.
func TestInboxContainsAnswersToOwnMessages(t *testing.T) {
	b := setup(t)
	acme := b.AddCompany("acme", 1)
	colleague := b.AddUser("colleague", "submit", map[string]any{"company_no": "acme"})
	b.expect(202, "", "POST", "/messages", to(nil, first), acme...)
	b.expect(202, "", "POST", "/messages", to(nil, second), colleague...)
	b.Claim("app", 10)
	sentAt := time.Now().UTC().Truncate(time.Second)
	b.receive(first, "one", fields{"sim": 2, "to": "10690", "received_at": sentAt.Format(time.RFC3339)})
	b.receive(second, "to the colleague", nil)
	b.receive("+8613700137000", "answers nothing", nil)
	b.receive(first, "two", nil)
	all, total := b.inbox("", acme...)
	if len(all) != 2 || total != "2" || all[0].ContentPreview != "two" {
		t.Fatalf("%s: %+v", total, all)
	}
	if m := all[1]; m.Type != "SMS" || m.Sender != first || *m.Recipient != "10690" || *m.SimNumber != 2 || !m.CreatedAt.Equal(sentAt) || m.ID == "" {
		t.Errorf("%+v", m)
	}
	for query, want := range map[string]string{
		"?limit=1": "two", "?limit=1&offset=1": "one", "?offset=5": "", "?type=SMS": "two,one", "?type=MMS": "", "?deviceId=app": "two,one", "?deviceId=other": "",
		"?from=2999-01-01T00:00:00Z": "", "?to=2020-01-01T00:00:00.000Z": "", "?from=2020-01-01T00:00:00%2B08:00&includeAttachments=true": "two,one",
	} {
		all, _ := b.inbox(query, acme...)
		var texts []string
		for _, m := range all {
			texts = append(texts, m.ContentPreview)
		}
		if got := strings.Join(texts, ","); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	if all, _ := b.inbox("", colleague...); len(all) != 1 || all[0].ContentPreview != "to the colleague" {
		t.Errorf("the colleague reads %+v", all)
	}
	for _, query := range []string{"limit=0", "limit=501", "limit=x", "offset=-1", "type=FAX", "from=yesterday", "deviceId=%00"} {
		b.expect(400, strings.Split(query, "=")[0], "GET", "/inbox?"+query, nil, acme...)
	}
}

// R3: a program for SMSGate gets the answers to its messages at once, by its webhooks.
func TestWebhookReportsReceivedMessagesInFormatOfSMSGate(t *testing.T) {
	b := setup(t)
	boss, key, take := b.webhooks()
	url, takeReceived := receiver(t)
	b.expect(201, `"event":"sms:received"`, "POST", "/webhooks", fields{"id": "in", "url": url, "event": "sms:received"}, boss...)
	b.expect(200, `"event":"sms:received"`, "GET", "/webhooks", nil, boss...)
	b.expect(202, "", "POST", "/messages", to(nil, first), boss...)
	b.Claim("app", 10)
	at := time.Now().Truncate(time.Second)
	b.receive(first, "yes", fields{"sim": 1, "to": "10690", "received_at": at.Format(time.RFC3339)})
	b.receive(first, "without a time", nil)
	b.receive(second, "answers nothing", nil)
	b.deliver()
	posts := takeReceived()
	if len(posts) != 2 || len(take()) != 0 {
		t.Fatalf("posts %+v", posts)
	}
	slices.SortFunc(posts, func(a, b post) int { // the posts run concurrently
		return strings.Compare(fmt.Sprint(a.body.Payload["messageId"]), fmt.Sprint(b.body.Payload["messageId"]))
	})
	p := posts[0]
	if !p.isSignedBy(key) || p.body.Event != "sms:received" || p.body.WebhookID != "in" || p.body.DeviceID != "app" {
		t.Errorf("post %s", p.raw)
	}
	inbox, _ := b.inbox("", boss...)
	received, err := time.Parse(time.RFC3339, fmt.Sprint(p.body.Payload["receivedAt"]))
	if err != nil || !received.Equal(at) {
		t.Errorf("receivedAt %v, %v", received, err)
	}
	delete(p.body.Payload, "receivedAt")
	want := map[string]any{
		"messageId": inbox[1].ID, "sender": first, "phoneNumber": first, "recipient": "10690", "simNumber": 1.0, "message": "yes",
	}
	if got := fmt.Sprint(p.body.Payload); got != fmt.Sprint(want) {
		t.Errorf("payload %s, want %v", got, want)
	}
	if when, err := time.Parse(time.RFC3339, fmt.Sprint(posts[1].body.Payload["receivedAt"])); err != nil || time.Since(when) > time.Minute {
		t.Errorf("a message without a time: %s", posts[1].raw)
	}
	// A message that was deleted before the post has only its id.
	b.receive(first, "deleted", nil)
	b.Exec("DELETE FROM received_messages WHERE content = 'deleted'")
	b.deliver()
	if posts := takeReceived(); len(posts) != 1 || strings.Contains(posts[0].raw, "deleted") || posts[0].body.Payload["messageId"] == "0" {
		t.Errorf("posts %+v", posts)
	}
}
