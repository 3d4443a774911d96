package notification_test

import (
	"strings"
	"testing"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
)

// S4.8: subject, text and HTML of an e-mail are rendered for each contact. Values from the payload or the contact are plain text: their placeholders are not
// filled, and they are escaped in HTML.
func TestAnEmailIsRenderedForEachContact(t *testing.T) {
	b := apptest.NewWith(t, apptest.DefaultRules, apptest.WithSecrets)
	box := b.AddMailbox("mail")
	b.Expect(200, "", "PUT", "/api/v1/admin/notification-templates/77/email", map[string]any{
		"title": "${contact.name}: ${what}", "content": "您好 ${contact.name}，等级 ${contact.等级}。${what}", "html": "<p>${contact.name} <b>${contact.等级}</b> ${what}</p>",
	})
	b.PutContacts(
		map[string]any{"user_id": "a", "name": "张<三>", "email": "a@example.com", "attributes": map[string]any{"等级": "VIP & more"}},
		map[string]any{"user_id": "b", "name": "b", "email": "b@example.com", "attributes": map[string]any{"等级": "1"}},
		map[string]any{"user_id": "c", "name": "李四", "email": "c@example.com"},
	)
	b.Exec("UPDATE contacts SET name = $1 WHERE user_id = 'b'", "${what}\nBcc: x@example.com") // no request can store this name
	made := apptest.Decode[api.NotificationsMade](t, b.Expect(200, "", "POST", "/api/v1/notifications", map[string]any{
		"biz_type": 77, "biz_id": 1, "channels": []string{"email"}, "payload": map[string]any{"what": "<${contact.name}>"}, "user_ids": []string{"a", "b", "c"},
	})).Items[0]
	if len(made.Failed) != 1 || made.Failed[0].UserID != "c" || !strings.Contains(made.Failed[0].Reason, "contact.等级") {
		t.Errorf("%+v", made.Failed)
	}
	b.App.Pusher.Start()
	b.AwaitNotification(made.NotificationID, 5) // some recipients failed
	for to, want := range map[string][3]string{
		"a@example.com": {"张<三>: <${contact.name}>", "您好 张<三>，等级 VIP & more。<${contact.name}>", "<p>张&lt;三&gt; <b>VIP &amp; more</b> &lt;${contact.name}&gt;</p>"},
		"b@example.com": {"${what} Bcc: x@example.com: <${contact.name}>", "您好 ${what}\nBcc: x@example.com，等级 1。<${contact.name}>", "<p>${what}\nBcc: x@example.com <b>1</b> &lt;${contact.name}&gt;</p>"},
	} {
		got := box.Of(to)
		for i := range got {
			if strings.ReplaceAll(got[i], "\r\n", "\n") != want[i] {
				t.Errorf("%s: %q, want %q", to, got[i], want[i])
			}
		}
	}
	if got := apptest.Scan[string](b, "SELECT string_agg(left(content, 6), ' ' ORDER BY user_id) FROM messages WHERE user_id = 'a'"); got != "您好 张<三" {
		t.Errorf("the task has %q", got)
	}
	// Other channels, and e-mails without placeholders for contacts, are rendered as before.
	b.Expect(200, "", "PUT", "/api/v1/admin/notification-templates/77/oa", map[string]any{"title": "t", "content": "${contact.name}"})
	other := apptest.Decode[api.NotificationsMade](t, b.Expect(200, "", "POST", "/api/v1/notifications", map[string]any{
		"biz_type": 77, "biz_id": 2, "channels": []string{"oa"}, "payload": map[string]any{"what": "x"}, "user_ids": []string{"a"},
	})).Items[0]
	if other.Status != 2 || other.Remark == nil || !strings.Contains(*other.Remark, "contact.name") {
		t.Errorf("%+v", other)
	}
	if a := b.Expect(422, "request.invalid", "PUT", "/api/v1/admin/notification-templates/77/oa", map[string]any{"title": "t", "content": "c", "html": "<p>"}); a.Fields() != "html" {
		t.Errorf("%s", a.Raw)
	}
}

// The signature of an e-mail is added at the beginning of its text part only. Providers add no signature.
func TestASenderSignsTheTextOfAnEmail(t *testing.T) {
	b := apptest.NewWith(t, apptest.DefaultRules, apptest.WithSecrets)
	box := b.AddMailbox("mail")
	b.Expect(200, "", "PUT", "/api/v1/admin/notification-templates/77/email", map[string]any{"title": "t", "content": "${what}", "html": "<p>${what}</p>"})
	b.PutContacts(map[string]any{"user_id": "a", "name": "a", "email": "a@example.com"})
	b.App.Pusher.Start()
	for i, c := range []struct{ mode, sign, payload, text, html string }{
		{"in_text", "平台", "x", "【平台】x", "<p>x</p>"},
		{"in_text", "平台", "【平台】x", "【平台】x", "<p>【平台】x</p>"},
		{"by_provider", "平台", "x", "x", "<p>x</p>"},
		{"none", "", "x", "x", "<p>x</p>"},
	} {
		change := map[string]any{"sign_mode": c.mode, "sign": nil}
		if c.sign != "" {
			change["sign"] = c.sign
		}
		b.Expect(200, "", "PATCH", "/api/v1/admin/senders/mail", change)
		made := apptest.Decode[api.NotificationsMade](t, b.Expect(200, "", "POST", "/api/v1/notifications", map[string]any{
			"biz_type": 77, "biz_id": i + 1, "channels": []string{"email"}, "payload": map[string]any{"what": c.payload}, "user_ids": []string{"a"},
		})).Items[0]
		b.AwaitNotification(made.NotificationID, api.NotificationSuccess)
		if got := box.Of("a@example.com"); got != [3]string{"t", c.text, c.html} {
			t.Errorf("%s: %q", c.mode, got)
		}
	}
}
