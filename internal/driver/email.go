package driver

import (
	"context"
	"errors"
	"fmt"
	"net/textproto"
	"strings"

	"github.com/wneessen/go-mail"

	"lksms/internal/fault"
)

// email sends by SMTP; one connection serves the messages of a Send (S4.8).
type email struct {
	config struct {
		Host           string  `json:"host"`
		Port           int     `json:"port"` // that of the TLS mode if 0
		TLS            string  `json:"tls"`  // starttls (default), implicit or none
		Username       string  `json:"username"`
		Password       string  `json:"password"`
		From           string  `json:"from"`
		ReplyTo        string  `json:"replyTo"`
		TimeoutSeconds float64 `json:"timeoutSeconds"`
	}
	options []mail.Option
}

func newEmail(config []byte, t Tools) (Driver, error) {
	d := &email{}
	if err := read(config, &d.config); err != nil {
		return nil, err
	}
	c := &d.config
	if err := required(given{"host", c.Host}, given{"from", c.From}); err != nil {
		return nil, err
	}
	limit, err := timeout(c.TimeoutSeconds)
	if err != nil {
		return nil, err
	}
	if err := mail.NewMsg().From(c.From); err != nil {
		return nil, fault.InvalidField("config.from", fault.WrongFormat, nil)
	}
	if c.ReplyTo != "" && mail.NewMsg().ReplyTo(c.ReplyTo) != nil {
		return nil, fault.InvalidField("config.replyTo", fault.WrongFormat, nil)
	}
	if c.Port < 0 || c.Port > 65535 {
		return nil, fault.InvalidField("config.port", fault.TooBig, 65535)
	}
	d.options = []mail.Option{mail.WithTimeout(limit), mail.WithDialContextFunc(t.Outbound.Dial)}
	usual := mail.DefaultPortTLS
	switch c.TLS {
	case "", "starttls":
		d.options = append(d.options, mail.WithTLSPolicy(mail.TLSMandatory))
	case "implicit":
		usual = mail.DefaultPortSSL
		d.options = append(d.options, mail.WithSSL(), mail.WithDialContextFunc(t.Outbound.DialTLS(c.Host)))
	case "none":
		usual = mail.DefaultPort
		d.options = append(d.options, mail.WithTLSPolicy(mail.NoTLS))
	default:
		return nil, fault.InvalidField("config.tls", fault.NotAllowed, []string{"starttls", "implicit", "none"})
	}
	if c.Port == 0 {
		c.Port = usual
	}
	d.options = append(d.options, mail.WithPort(c.Port))
	if c.Username != "" {
		auth := mail.SMTPAuthAutoDiscover
		if c.TLS == "none" || c.TLS == "implicit" {
			auth = mail.SMTPAuthPlainNoEnc // asked for, or encrypted where the client does not know of it
		}
		d.options = append(d.options, mail.WithSMTPAuth(auth), mail.WithUsername(c.Username), mail.WithPassword(c.Password))
	}
	if _, err := mail.NewClient(c.Host, d.options...); err != nil {
		return nil, fault.InvalidField("config", fault.NothingElseIsKnown, nil)
	}
	return d, nil
}

func (d *email) Send(ctx context.Context, messages []Message) []Outcome {
	outcomes := make([]Outcome, len(messages))
	client, err := mail.NewClient(d.config.Host, d.options...)
	if err == nil {
		err = client.DialWithContext(ctx)
	}
	if err != nil {
		for i := range outcomes {
			outcomes[i] = mailOutcome(err)
		}
		return outcomes
	}
	defer client.Close() //nolint:errcheck // what was accepted is accepted
	for i, m := range messages {
		outcomes[i] = d.send(ctx, client, m)
	}
	return outcomes
}

func (d *email) send(ctx context.Context, client *mail.Client, m Message) Outcome {
	if err := ctx.Err(); err != nil {
		return failed(err)
	}
	msg := mail.NewMsg()
	if err := msg.To(m.Recipient); err != nil {
		return Outcome{Permanent: true, Code: "bad_address", Error: "the recipient is not an e-mail address"}
	}
	if err := msg.From(d.config.From); err != nil {
		return Outcome{Permanent: true, Code: "bad_address", Error: "the sender is not an e-mail address"}
	}
	if d.config.ReplyTo != "" {
		_ = msg.ReplyTo(d.config.ReplyTo) // checked when the driver was made
	}
	title := m.Title
	if title == "" {
		title, _, _ = strings.Cut(m.Content, "\n")
	}
	msg.Subject(title)
	// The same for each attempt, so that who receives can tell that it comes again.
	msg.SetMessageIDWithValue(fmt.Sprintf("%s@%s", m.TaskID, d.config.Host))
	msg.SetDate()
	msg.SetBodyString(mail.TypeTextPlain, m.Content)
	if err := client.Send(msg); err != nil {
		return mailOutcome(err)
	}
	return Outcome{OK: true, ProviderNo: m.TaskID + "@" + d.config.Host}
}

// mailOutcome tells by the server's code whether to try again: 5xx is for good, anything else for now. A connection that
// breaks after the text was given leaves it open.
func mailOutcome(err error) Outcome {
	var sent *mail.SendError
	if errors.As(err, &sent) {
		code := sent.ErrorCode()
		if code == 0 {
			return Outcome{
				Code: "smtp", Error: "the mail server broke off", Unknown: sent.Reason == mail.ErrSMTPDataClose || sent.Reason == mail.ErrWriteContent,
			}
		}
		return Outcome{Code: fmt.Sprint(code), Error: fmt.Sprintf("the mail server answered %d", code), Permanent: code >= 500}
	}
	// Before there was a message: a wrong login, or no server. That is mended at the sender, not in the message.
	var said *textproto.Error
	if errors.As(err, &said) {
		return Outcome{Code: fmt.Sprint(said.Code), Error: fmt.Sprintf("the mail server answered %d", said.Code)}
	}
	return failed(err)
}
