package apptest

import (
	"bytes"
	"io"
	"mime"
	"mime/multipart"
	"net"
	"net/mail"
	"strings"
	"sync"

	"github.com/emersion/go-smtp"
)

// Mailbox is a mail server that stores all mails.
type Mailbox struct {
	b     *Bundle
	mu    sync.Mutex
	mails map[string][]byte // by recipient
}

// AddMailbox starts a mail server, and adds a shared e-mail sender that uses it. The bundle needs WithSecrets.
func (b *Bundle) AddMailbox(senderNo string) *Mailbox {
	b.T.Helper()
	m := &Mailbox{b: b, mails: map[string][]byte{}}
	server := smtp.NewServer(m)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.T.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	b.T.Cleanup(func() { _ = server.Close() })
	b.AddSender(map[string]any{"sender_no": senderNo, "channel": "email", "kind": "email", "config": map[string]any{
		"host": "127.0.0.1", "port": listener.Addr().(*net.TCPAddr).Port, "tls": "none", "from": "noreply@example.com",
	}})
	return m
}

type mailSession struct {
	*Mailbox
	to string
}

// NewSession implements smtp.Backend.
func (m *Mailbox) NewSession(*smtp.Conn) (smtp.Session, error) { return &mailSession{Mailbox: m}, nil }

func (*mailSession) Reset()                               {}
func (*mailSession) Logout() error                        { return nil }
func (*mailSession) Mail(string, *smtp.MailOptions) error { return nil }

func (s *mailSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.to = to
	return nil
}

func (s *mailSession) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mails[s.to] = text
	return err //nolint:wrapcheck // only tests see this error
}

// Raw returns the unparsed last mail to an address, or "" if the address got no mail.
func (m *Mailbox) Raw(to string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return string(m.mails[to])
}

// Of returns the subject, the text and the HTML of the last mail to an address.
func (m *Mailbox) Of(to string) (got [3]string) {
	m.b.T.Helper()
	read, err := mail.ReadMessage(strings.NewReader(m.Raw(to)))
	if err != nil {
		m.b.T.Fatal(to, err)
	}
	if got[0], err = new(mime.WordDecoder).DecodeHeader(read.Header.Get("Subject")); err != nil {
		m.b.T.Fatal(err)
	}
	kind, params, err := mime.ParseMediaType(read.Header.Get("Content-Type"))
	if err != nil {
		m.b.T.Fatal(err)
	}
	if !strings.HasPrefix(kind, "multipart/") {
		got[1] = m.read(read.Body)
		return got
	}
	parts := multipart.NewReader(read.Body, params["boundary"])
	for i := 1; i < len(got); i++ {
		part, err := parts.NextPart()
		if err != nil {
			m.b.T.Fatal(err)
		}
		got[i] = m.read(part)
	}
	return got
}

func (m *Mailbox) read(r io.Reader) string {
	var text bytes.Buffer
	if _, err := text.ReadFrom(r); err != nil {
		m.b.T.Fatal(err)
	}
	return strings.ReplaceAll(text.String(), "\r\n", "\n")
}
