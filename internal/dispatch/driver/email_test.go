package driver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"mime/multipart"
	"net"
	"net/mail"
	"slices"
	"strings"
	"testing"
	"time"

	"lksms/internal/dispatch/driver"
	"lksms/internal/dispatch/driver/provider"
	"lksms/internal/platform/outbound"
)

// parts returns the header of a mail, and its parts by media type.
func parts(t *testing.T, text string) (mail.Header, map[string]string) {
	t.Helper()
	m, err := mail.ReadMessage(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	kind, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/alternative" {
		t.Fatalf("the mail is %s, %v", kind, err)
	}
	found := map[string]string{}
	var order []string
	for r := multipart.NewReader(m.Body, params["boundary"]); ; {
		part, err := r.NextPart() // NextPart decodes quoted-printable
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(part)
		if err != nil {
			t.Fatal(err)
		}
		kind, _, _ := mime.ParseMediaType(part.Header.Get("Content-Type"))
		found[kind], order = string(body), append(order, kind)
	}
	if strings.Join(order, " ") != "text/plain text/html" { // a mail program shows the last part that it supports
		t.Errorf("the parts are %v", order)
	}
	return m.Header, found
}

// S4.8: a mail contains text and HTML, a stable Message-ID, and headers for bounces and unsubscribing.
func TestMailContainsHTMLAndHeadersForBouncesAndUnsubscribing(t *testing.T) {
	t.Parallel()
	s, config := newMailServer(t)
	config["bounceTo"] = "bounces@example.com"
	config["unsubscribeUrl"] = "https://example.com/u?t=${task_id}&u=${user_id}&e=${email}"
	d := makeDriver(t, "email", config)
	at := time.Unix(1_700_000_000, 0)
	m := provider.Message{
		TaskID: "task_1", EnteredAt: &at, Recipient: "a+b@example.com", UserID: "u>\r\nBcc: x@example.com", Title: "标题", Content: "文本 1 < 2", HTML: "<p>文本 1 &lt; 2</p>",
	}
	for _, o := range send(t.Context(), d, []provider.Message{m, m}) {
		if !o.OK {
			t.Fatalf("%+v", o)
		}
	}
	var ids []string
	for i, text := range s.mails {
		header, body := parts(t, text)
		if body["text/plain"] != m.Content || body["text/html"] != m.HTML {
			t.Errorf("%q", body)
		}
		if got := header.Get("List-Unsubscribe"); got != "<https://example.com/u?t=task_1&u=u%3E%0D%0ABcc%3A+x%40example.com&e=a%2Bb%40example.com>" {
			t.Errorf("List-Unsubscribe: %s", got)
		}
		if header.Get("List-Unsubscribe-Post") != "List-Unsubscribe=One-Click" || header.Get("Bcc") != "" {
			t.Errorf("%v", header)
		}
		if s.from[i] != "bounces@example.com" || !strings.Contains(header.Get("From"), "noreply@example.com") {
			t.Errorf("from %s, %s", s.from[i], header.Get("From"))
		}
		ids = append(ids, header.Get("Message-ID"))
	}
	if len(ids) != 2 || ids[0] == "" || ids[0] != ids[1] {
		t.Errorf("message ids %q", ids)
	}
}

// S4.8: without these options, a mail contains only plain text.
func TestMailWithoutHTMLIsPlainText(t *testing.T) {
	t.Parallel()
	s, config := newMailServer(t)
	send(t.Context(), makeDriver(t, "email", config), []provider.Message{{TaskID: "1", Recipient: "a@example.com", Content: "c"}})
	if len(s.mails) != 1 || strings.Contains(s.mails[0], "multipart") || strings.Contains(s.mails[0], "List-Unsubscribe") || s.from[0] != "noreply@example.com" {
		t.Errorf("%q from %q", s.mails, s.from)
	}
}

// S4.8: the driver rejects options that would break a header, and URLs that mail programs do not call.
func TestEmailRejectsInvalidOptions(t *testing.T) {
	t.Parallel()
	_, config := newMailServer(t)
	for _, c := range [][2]string{
		{"bounceTo", "nobody"}, {"bounceTo", "a@example.com\r\nRCPT TO:<b@example.com>"},
		{"unsubscribeUrl", "http://example.com"}, {"unsubscribeUrl", "https://example.com/>\r\nBcc: x"}, {"unsubscribeUrl", "mailto:x@example.com"},
		{"unsubscribeUrl", "https://example.com/${name}"}, {"unsubscribeUrl", "https:///${task_id}"},
	} {
		one := map[string]any{c[0]: c[1]}
		for k, v := range config {
			one[k] = v
		}
		if _, err := tryDriver("email", one, outbound.Policy{}); err == nil || !strings.Contains(err.Error(), "config."+c[0]) {
			t.Errorf("%v: %v", c, err)
		}
	}
}

// S4.8: a domain in any language is sent to the mail server in ASCII. SMTPUTF8 is requested only if an address needs it.
func TestMailDomainIsSentInASCII(t *testing.T) {
	t.Parallel()
	s, config := newMailServer(t)
	s.server.EnableSMTPUTF8 = true
	config["from"], config["helo"] = "快递 <noreply@例子.测试>", "mail.example.com"
	d := makeDriver(t, "email", config)
	out := send(t.Context(), d, []provider.Message{
		{TaskID: "task_1", Recipient: "jose@münchen.example", Content: "x"}, {TaskID: "task_2", Recipient: "张三@例子.测试", Content: "x"},
		{TaskID: "task_3", Recipient: "a@-.example", Content: "x"},
	})
	if !out[0].OK || !out[1].OK || out[2].Code != "bad_address" {
		t.Errorf("%+v", out)
	}
	if got := strings.Join(s.to, " "); got != "jose@xn--mnchen-3ya.example 张三@xn--fsqu00a.xn--0zwm56d" {
		t.Errorf("the recipients are %s", got)
	}
	if !slices.Equal(s.utf8, []bool{false, true}) || s.helo != "mail.example.com" || s.from[0] != "noreply@xn--fsqu00a.xn--0zwm56d" {
		t.Errorf("SMTPUTF8 %v, EHLO %s, from %s", s.utf8, s.helo, s.from[0])
	}

	old, config := newMailServer(t)
	d = makeDriver(t, "email", config)
	out = send(t.Context(), d, []provider.Message{{TaskID: "task_1", Recipient: "张三@例子.测试", Content: "x"}, {TaskID: "task_2", Recipient: "a@例子.测试", Content: "x"}})
	if !out[0].Permanent || out[0].Code != "smtputf8" || !out[1].OK || old.utf8[0] {
		t.Errorf("a server without SMTPUTF8: %+v, %v", out, old.utf8)
	}
}

// If the own address of a sender needs SMTPUTF8 and the mail server does not offer it, no message fails.
func TestAnAddressOfTheSenderThatNeedsSMTPUTF8IsTrouble(t *testing.T) {
	t.Parallel()
	for name, address := range map[string]string{"from": "通知@müller.example", "bounceTo": "退信@example.com"} {
		_, config := newMailServer(t)
		config[name] = address
		out := send(t.Context(), makeDriver(t, "email", config), []provider.Message{{TaskID: "task_1", Recipient: "a@example.com", Content: "x"}})
		if !out[0].Trouble || out[0].Permanent || out[0].Code != "smtputf8" || !strings.Contains(out[0].Error, "sender") {
			t.Errorf("%s: %+v", name, out[0])
		}
	}
}

// A held mail does not stop the other mails of the same Send.
func TestHeldMailDoesNotStopOtherMails(t *testing.T) {
	t.Parallel()
	s, config := newMailServer(t)
	encoded, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	d, err := driver.New("email", encoded, provider.Tools{
		Log:      slog.New(slog.DiscardHandler),
		MayBegin: func(_ context.Context, m provider.Message) bool { return m.TaskID != "held" },
	})
	if err != nil {
		t.Fatal(err)
	}
	out := send(t.Context(), d, []provider.Message{
		{TaskID: "held", Recipient: "a@example.com", Content: "x"}, {TaskID: "free", Recipient: "b@example.com", Content: "x"},
	})
	if out[0] != provider.Untried || !out[1].OK || !slices.Equal(s.to, []string{"b@example.com"}) {
		t.Errorf("%+v, sent to %v", out, s.to)
	}
}

// A mail server that answers something else than SMTP has not closed the connection. Its answer is kept.
func TestAnAnswerOfAMailServerThatIsNotUnderstoodIsKept(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		command, answer string
		isUnclear       bool // the message is possibly accepted
	}{
		{"", "HTTP/1.1 400 Bad", false}, {"", "hi", false}, {"EHLO", "nonsense", false}, {"MAIL", "nonsense", false}, {"RCPT", `what "is" this`, false},
		{"DATA", "250 what", false}, {"DATA", "nonsense", false}, {".", "nonsense", true}, {".", "999 x", true}, {".", "354 more", true},
	} {
		port := answeringMailServer(t, c.command, c.answer)
		d := makeDriver(t, "email", map[string]any{"host": "127.0.0.1", "port": port, "tls": "none", "from": "noreply@example.com", "timeoutSeconds": 5})
		var o provider.Outcome
		d.Send(t.Context(), []provider.Message{{TaskID: "task_1", Recipient: "a@example.com", Content: "x"}}, func(_ int, got provider.Outcome) { o = got })
		if o.Unknown != c.isUnclear || o.Trouble == c.isUnclear || o.Outage || o.Error != "answer not understood: "+c.answer || !o.IsQuoted || o.Answer != c.answer {
			t.Errorf("%s %s: %+v", c.command, c.answer, o)
		}
	}
}

// answeringMailServer starts a mail server that answers answer to a command. "" is the beginning of the connection, "." the end of a text.
func answeringMailServer(t *testing.T, command, answer string) (port int) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	answers := map[string]string{"": "220 hello", "EHLO": "250 hello", "HELO": "250 hello", "NOOP": "250 ok", "MAIL": "250 ok", "RCPT": "250 ok", "DATA": "354 go on", ".": "250 ok", "RSET": "250 ok", "QUIT": "221 bye"}
	answers[command] = answer
	if command == "EHLO" {
		answers["HELO"] = answer
	}
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = fmt.Fprintf(conn, "%s\r\n", answers[""])
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			first, _, _ := strings.Cut(lines.Text(), " ")
			if says, isCommand := answers[first]; isCommand && first != "" {
				_, _ = fmt.Fprintf(conn, "%s\r\n", says)
			}
		}
	}()
	return listener.Addr().(*net.TCPAddr).Port
}
