package notification_test

import (
	"bytes"
	"io"
	"mime"
	"mime/multipart"
	"net"
	"net/mail"
	"strings"
	"sync"
	"testing"

	"github.com/emersion/go-smtp"

	api "lksms/gen/client"
	"lksms/internal/apptest"
)

// mailbox is a mail server that keeps what it gets.
type mailbox struct {
	mu    sync.Mutex
	mails map[string][]byte // by recipient
}

type mailSession struct {
	*mailbox
	to string
}

func (m *mailbox) NewSession(*smtp.Conn) (smtp.Session, error) { return &mailSession{mailbox: m}, nil }
func (*mailSession) Reset()                                    {}
func (*mailSession) Logout() error                             { return nil }
func (*mailSession) Mail(string, *smtp.MailOptions) error      { return nil }

func (s *mailSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.to = to
	return nil
}

func (s *mailSession) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mails[s.to] = text
	return err
}

// of returns the subject, the text and the HTML of the mail to an address.
func (m *mailbox) of(t *testing.T, to string) [3]string {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	read, err := mail.ReadMessage(bytes.NewReader(m.mails[to]))
	if err != nil {
		t.Fatal(err)
	}
	var got [3]string
	if got[0], err = new(mime.WordDecoder).DecodeHeader(read.Header.Get("Subject")); err != nil {
		t.Fatal(err)
	}
	_, params, err := mime.ParseMediaType(read.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	r := multipart.NewReader(read.Body, params["boundary"])
	for i := 1; i < 3; i++ {
		part, err := r.NextPart()
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(part)
		if err != nil {
			t.Fatal(err)
		}
		got[i] = string(body)
	}
	return got
}

// S4.8: subject, text and HTML of an e-mail are rendered for each contact. What comes from a payload or a contact is text, in which nothing is
// filled in, and which is escaped in HTML.
func TestAnEmailIsRenderedForEachContact(t *testing.T) {
	b := apptest.NewWith(t, apptest.DefaultRules, apptest.WithSecrets)
	box := &mailbox{mails: map[string][]byte{}}
	server := smtp.NewServer(box)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	b.AddSender(map[string]any{"sender_no": "mail", "channel": "email", "kind": "email", "config": map[string]any{
		"host": "127.0.0.1", "port": listener.Addr().(*net.TCPAddr).Port, "tls": "none", "from": "noreply@example.com",
	}})
	b.Expect(200, "", "PUT", "/api/v1/admin/notification-templates/77/email", map[string]any{
		"title": "${contact.name}: ${what}", "content": "您好 ${contact.name}，等级 ${contact.等级}。${what}", "html": "<p>${contact.name} <b>${contact.等级}</b> ${what}</p>",
	})
	b.PutContacts(
		map[string]any{"user_id": "a", "name": "张<三>", "email": "a@example.com", "attributes": map[string]any{"等级": "VIP & more"}},
		map[string]any{"user_id": "b", "name": "b", "email": "b@example.com", "attributes": map[string]any{"等级": "1"}},
		map[string]any{"user_id": "c", "name": "李四", "email": "c@example.com"},
	)
	b.Exec("UPDATE contacts SET name = $1 WHERE user_id = 'b'", "${what}\nBcc: x@example.com") // no request can
	made := apptest.Decode[api.NotificationsMade](t, b.Expect(200, "", "POST", "/api/v1/notifications", map[string]any{
		"biz_type": 77, "biz_id": 1, "channels": []string{"email"}, "payload": map[string]any{"what": "<${contact.name}>"}, "user_ids": []string{"a", "b", "c"},
	})).Items[0]
	if len(made.Failed) != 1 || made.Failed[0].UserID != "c" || !strings.Contains(made.Failed[0].Reason, "contact.等级") {
		t.Errorf("%+v", made.Failed)
	}
	b.App.Pusher.Start()
	b.AwaitNotification(made.NotificationID, 5) // some failed
	for to, want := range map[string][3]string{
		"a@example.com": {"张<三>: <${contact.name}>", "您好 张<三>，等级 VIP & more。<${contact.name}>", "<p>张&lt;三&gt; <b>VIP &amp; more</b> &lt;${contact.name}&gt;</p>"},
		"b@example.com": {"${what} Bcc: x@example.com: <${contact.name}>", "您好 ${what}\nBcc: x@example.com，等级 1。<${contact.name}>", "<p>${what}\nBcc: x@example.com <b>1</b> &lt;${contact.name}&gt;</p>"},
	} {
		got := box.of(t, to)
		for i := range got {
			if strings.ReplaceAll(got[i], "\r\n", "\n") != want[i] {
				t.Errorf("%s: %q, want %q", to, got[i], want[i])
			}
		}
	}
	if got := apptest.Scan[string](b, "SELECT string_agg(left(content, 6), ' ' ORDER BY user_id) FROM messages WHERE user_id = 'a'"); got != "您好 张<三" {
		t.Errorf("the task has %q", got)
	}
	// On other channels, and without a contact's placeholders, nothing changes.
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
