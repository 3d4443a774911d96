package driver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/textproto"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wneessen/go-mail"
	"github.com/wneessen/go-mail/smtp"

	addresses "lksms/internal/dispatch/address"
	"lksms/internal/dispatch/driver/provider"
	"lksms/internal/dispatch/placeholder"
	"lksms/internal/platform/characters"
	"lksms/internal/platform/fault"
)

// email sends messages by SMTP. One connection sends all messages of a Send (S4.8).
type email struct {
	config struct {
		Host           string  `json:"host"`
		Port           int     `json:"port"` // 0: the default port of the TLS mode
		TLS            string  `json:"tls"`  // starttls (default), implicit or none
		Username       string  `json:"username"`
		Password       string  `json:"password"`
		From           string  `json:"from"`
		ReplyTo        string  `json:"replyTo"`
		BounceTo       string  `json:"bounceTo"`       // envelope sender; empty: from
		UnsubscribeURL string  `json:"unsubscribeUrl"` // URL with the placeholders of unsubscribeKeys
		Helo           string  `json:"helo"`           // name of this server in EHLO; empty: the host name
		TimeoutSeconds float64 `json:"timeoutSeconds"`
	}
	options []mail.Option
	tools   provider.Tools
	limit   time.Duration
}

func newEmail(config []byte, t provider.Tools) (Driver, error) {
	d := &email{tools: t}
	if err := read(config, &d.config); err != nil {
		return nil, err
	}
	c := &d.config
	if err := required(field{"host", c.Host}, field{"from", c.From}); err != nil {
		return nil, err
	}
	limit, err := timeout(c.TimeoutSeconds)
	if err != nil {
		return nil, err
	}
	for _, one := range []struct {
		name string
		text *string
	}{{"config.from", &c.From}, {"config.replyTo", &c.ReplyTo}, {"config.bounceTo", &c.BounceTo}} {
		if *one.text == "" {
			continue
		}
		if *one.text, err = addresses.WithASCIIDomain(*one.text); err != nil {
			return nil, fault.InvalidField(one.name, fault.WrongFormat, nil)
		}
	}
	if c.Helo != "" && !heloForm.MatchString(c.Helo) {
		return nil, fault.InvalidField("config.helo", fault.WrongFormat, nil)
	}
	if c.UnsubscribeURL != "" {
		if err := checkUnsubscribe(c.UnsubscribeURL); err != nil {
			return nil, err
		}
	}
	if c.Port < 0 || c.Port > 65535 {
		return nil, fault.InvalidField("config.port", fault.TooBig, 65535)
	}
	d.limit = limit
	d.options = []mail.Option{mail.WithTimeout(limit), mail.WithDialContextFunc(t.Outbound.Dial)}
	if c.Helo != "" {
		d.options = append(d.options, mail.WithHELO(c.Helo))
	}
	port := mail.DefaultPortTLS
	switch c.TLS {
	case "", "starttls":
		d.options = append(d.options, mail.WithTLSPolicy(mail.TLSMandatory))
	case "implicit":
		port = mail.DefaultPortSSL
		d.options = append(d.options, mail.WithSSL(), mail.WithDialContextFunc(t.Outbound.DialTLS(c.Host, nil)))
	case "none":
		port = mail.DefaultPort
		d.options = append(d.options, mail.WithTLSPolicy(mail.NoTLS))
	default:
		return nil, fault.InvalidField("config.tls", fault.NotAllowed, []string{"starttls", "implicit", "none"})
	}
	if c.Port == 0 {
		c.Port = port
	}
	d.options = append(d.options, mail.WithPort(c.Port))
	if c.Username != "" {
		auth := mail.SMTPAuthAutoDiscover
		if c.TLS == "none" || c.TLS == "implicit" {
			auth = mail.SMTPAuthPlainNoEnc // "none" is configured, or the client cannot detect that the connection is encrypted
		}
		d.options = append(d.options, mail.WithSMTPAuth(auth), mail.WithUsername(c.Username), mail.WithPassword(c.Password))
	}
	if _, err := mail.NewClient(c.Host, d.options...); err != nil {
		return nil, fault.InvalidField("config", fault.NothingElseIsKnown, nil)
	}
	return d, nil
}

// review rejects a password that is never used.
func (d *email) review(bool) error {
	if d.config.Password != "" {
		return required(field{"username", d.config.Username})
	}
	return nil
}

// unsubscribeKeys are the placeholders of an unsubscribe URL.
var unsubscribeKeys = []string{"task_id", "user_id", "email"}

// unsubscribe returns the unsubscribe URL for the recipient of a message.
func unsubscribe(address string, m provider.Message) string {
	filled, _ := placeholder.Fill(address, map[string]any{"task_id": m.TaskID, "user_id": m.UserID, "email": m.Recipient}, maxUnsubscribe, url.QueryEscape)
	return filled
}

const maxUnsubscribe = 2000 // characters

// checkUnsubscribe returns a fault for an invalid unsubscribe URL. Mail programs call only HTTPS URLs.
func checkUnsubscribe(text string) error {
	const field = "config.unsubscribeUrl"
	for _, key := range placeholder.Keys(text) {
		if !slices.Contains(unsubscribeKeys, key) {
			return fault.InvalidField(field, fault.UnknownPlaceholder, placeholder.Placeholder(key))
		}
	}
	filled := unsubscribe(text, provider.Message{TaskID: "t", UserID: "u", Recipient: "e"})
	to, err := url.Parse(filled)
	isForbidden := func(r rune) bool { return r <= ' ' || r == '<' || r == '>' || r > '~' }
	if err != nil || to.Scheme != "https" || to.Host == "" || len(text) > maxUnsubscribe || strings.ContainsFunc(filled, isForbidden) {
		return fault.InvalidField(field, fault.WrongFormat, nil)
	}
	return nil
}

func (d *email) Target() string {
	mode := d.config.TLS
	if mode == "" {
		mode = "starttls"
	}
	return mode + "://" + net.JoinHostPort(strings.ToLower(d.config.Host), strconv.Itoa(d.config.Port))
}

func (d *email) Send(ctx context.Context, messages []provider.Message, report func(int, provider.Outcome)) {
	attempts := provider.NewAttempts(ctx, d.limit, d.tools)
	var open *session
	defer func() {
		if open != nil {
			_ = open.client.CloseWithSMTPClient(open.smtp) // an error is harmless: the server keeps accepted messages
		}
	}()
	for i, m := range messages {
		if !attempts.CanStart() {
			return
		}
		if !attempts.MayBegin(m) { // skips only this message
			continue
		}
		isOpen := false
		o := attempts.Begin(m, func(ctx context.Context) (o provider.Outcome) {
			if open == nil {
				var err error
				if open, err = d.login(ctx); err != nil {
					return loginOutcome(ctx, err)
				}
				if !attempts.MayBegin(m) { // the login possibly took a long time
					isOpen = true
					return provider.Untried
				}
			}
			o, isOpen = d.send(open, m)
			return o
		})
		if attempts.Record(o) {
			report(i, o)
		}
		if !isOpen { // the next Send opens a new connection for the remaining messages
			return
		}
	}
}

// session is an open connection to the mail server.
type session struct {
	client *mail.Client
	smtp   *smtp.Client
}

// login opens a connection to the mail server.
func (d *email) login(ctx context.Context) (*session, error) {
	client, err := mail.NewClient(d.config.Host, d.options...)
	if err != nil {
		return nil, err
	}
	opened, err := client.DialToSMTPClientWithContext(ctx)
	if err != nil {
		return nil, err
	}
	return &session{client: client, smtp: opened}, nil
}

// heloForm matches a valid name in EHLO.
var heloForm = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]{0,252}[A-Za-z0-9])?$`)

// send sends a message. isOpen reports whether the connection can send another message.
func (d *email) send(open *session, m provider.Message) (o provider.Outcome, isOpen bool) {
	msg := mail.NewMsg()
	to, err := addresses.WithASCIIDomain(m.Recipient)
	if err == nil {
		err = msg.To(to)
	}
	if err != nil {
		return provider.Outcome{Permanent: true, Unasked: true, Code: "bad_address", Error: "the recipient is not an e-mail address"}, true
	}
	if err := msg.From(d.config.From); err != nil {
		return provider.Outcome{Trouble: true, Code: "bad_address", Error: "the sender is not an e-mail address"}, true
	}
	if d.config.ReplyTo != "" {
		_ = msg.ReplyTo(d.config.ReplyTo) // checked by newEmail
	}
	if d.config.BounceTo != "" {
		_ = msg.EnvelopeFrom(d.config.BounceTo) // checked by newEmail
	}
	if d.config.UnsubscribeURL != "" { // RFC 8058: the mail program of the recipient unsubscribes with one click
		msg.SetGenHeader(mail.HeaderListUnsubscribe, "<"+unsubscribe(d.config.UnsubscribeURL, m)+">")
		msg.SetGenHeader(mail.HeaderListUnsubscribePost, "List-Unsubscribe=One-Click")
	}
	title := m.Title
	if title == "" {
		title, _, _ = strings.Cut(m.Content, "\n")
	}
	msg.Subject(strings.Join(strings.Fields(title), " ")) // a subject must be one line
	// All attempts of a task have the same Message-ID until a requeue, so that the mail server can recognise a repeated message.
	id := fmt.Sprintf("%s.%d@%s", m.TaskID, m.EnteredUnixMs(), d.config.Host)
	msg.SetMessageIDWithValue(id)
	msg.SetDate()
	msg.SetBodyString(mail.TypeTextPlain, m.Content)
	if m.HTML != "" {
		msg.AddAlternativeString(mail.TypeTextHTML, m.HTML)
	}
	// Request SMTPUTF8 only if an address needs it: otherwise the server could refuse to forward the message to a server without SMTPUTF8.
	// All are results of addresses.WithASCIIDomain, which also encodes the display name: only a local part can be beyond ASCII.
	ownNeedsUTF8 := !characters.IsASCII(d.config.From) || !characters.IsASCII(d.config.BounceTo)
	needsUTF8 := ownNeedsUTF8 || !characters.IsASCII(to)
	switch has, _ := open.smtp.Extension("SMTPUTF8"); {
	case ownNeedsUTF8 && !has: // no message can be sent
		return provider.Outcome{Trouble: true, Code: "smtputf8", Error: "the mail server takes no address beyond ASCII (SMTPUTF8), such as the one of the sender"}, true
	case needsUTF8 && !has:
		return provider.Outcome{Permanent: true, Unasked: true, Code: "smtputf8", Error: "the mail server takes no addresses beyond ASCII (SMTPUTF8)"}, true
	}
	open.smtp.SkipSMTPUTF8(!needsUTF8)
	d.tools.AskedBy(d.Target(), msg)
	err = open.client.SendWithSMTPClient(open.smtp, msg)
	sent := provider.Outcome{OK: true, ProviderNo: id, Answer: msg.ServerResponse()}
	var failure *mail.SendError
	switch {
	case err == nil:
		return sent, true
	case !errors.As(err, &failure):
		return provider.Unread("unreadable", "the mail program failed"), false
	case failure.Reason == mail.ErrSMTPReset: // the server had accepted the message
		return sent, false
	default:
		return mailOutcome(failure), failure.ErrorCode() != 0 && failure.Reason != mail.ErrSMTPData
	}
}

const (
	mailClosing  = 421 // the service closes the connection
	mailTooLarge = 552 // the message is too large
)

// mailLogin contains the codes after which a new login is required. A mail server can send them in any step.
var mailLogin = []int{454, 530, 534, 535, 538}

// mailOutcome converts a failed step, with the code of the server, to an outcome. A 5xx code is permanent, and other codes are temporary. If the sender lacks
// the permission to send, the outcome is Trouble. If the connection breaks after the text was sent, the outcome is unknown.
func mailOutcome(failure *mail.SendError) provider.Outcome {
	code := failure.ErrorCode()
	isAfterText := failure.Reason == mail.ErrSMTPDataClose || failure.Reason == mail.ErrWriteContent
	answer, isAnswer := unexpectedMailAnswer(strings.TrimPrefix(failure.Error(), failure.Reason.String()+": "))
	switch {
	case failure.Reason == mail.ErrNoUnencoded, failure.Reason == mail.ErrGetRcpts:
		return provider.Unwritable
	case code == 0 && isAnswer:
		return unreadMailAnswer(answer, isAfterText)
	case code == 0 && isAfterText:
		return provider.Outcome{Unknown: true, Outage: true, Code: "smtp", Error: "the mail server closed the connection"}
	case code == 0:
		return provider.Outcome{Trouble: true, Code: "smtp", Error: "the mail server closed the connection"}
	}
	o := provider.Outcome{Code: fmt.Sprint(code), Error: fmt.Sprintf("the mail server answered %d", code), Answer: failure.Error()}
	o.Trouble = code == mailClosing || slices.Contains(mailLogin, code) || failure.Reason == mail.ErrSMTPMailFrom && code != mailTooLarge
	o.Permanent = !o.Trouble && code >= 500
	return o
}

// mailAnswer matches the error of an answer with an unexpected code, or without a code. Package textproto quotes the answer.
var mailAnswer = regexp.MustCompile(`^(?:short response: |invalid response code: |([1-9][0-9]{2} ))("(?:[^"\\]|\\.)*")`)

// unexpectedMailAnswer returns the answer that an error describes, because package mail returns the error only as text. isAnswer is false if the connection failed.
func unexpectedMailAnswer(text string) (answer string, isAnswer bool) {
	found := mailAnswer.FindStringSubmatch(text)
	if found == nil {
		return "", false
	}
	line, err := strconv.Unquote(found[2])
	return found[1] + line, err == nil
}

// unreadMailAnswer returns the outcome of an answer that was not understood. Before the text was sent, the message was certainly not accepted.
func unreadMailAnswer(answer string, isAfterText bool) provider.Outcome {
	o := provider.Unread("unreadable", cmp.Or(answer, "it is empty"))
	o.Unknown, o.Trouble, o.IsQuoted, o.Answer = isAfterText, !isAfterText, answer != "", answer
	return o
}

// loginOutcome returns the outcome of a failed connection or login. No message was sent.
func loginOutcome(ctx context.Context, err error) provider.Outcome {
	var answer *textproto.Error
	if errors.As(err, &answer) {
		return provider.Outcome{Trouble: true, Code: fmt.Sprint(answer.Code), Error: fmt.Sprintf("the mail server answered %d", answer.Code), Answer: answer.Error()}
	}
	var unread textproto.ProtocolError
	if errors.As(err, &unread) {
		if answer, isAnswer := unexpectedMailAnswer(string(unread)); isAnswer {
			return unreadMailAnswer(answer, false)
		}
	}
	return provider.Failed(ctx, err)
}
