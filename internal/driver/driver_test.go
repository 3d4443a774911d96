package driver_test

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"lksms/internal/driver"
	"lksms/internal/fault"
	"lksms/internal/outbound"
)

// call is what a stub provider was sent.
type call struct {
	method, path string
	header       http.Header
	body         string
}

// provider is a server that listens, and answers as it is told.
type provider struct {
	*httptest.Server
	mu    sync.Mutex
	calls []call
}

func newProvider(t *testing.T, answer func(n int, c call, w http.ResponseWriter)) *provider {
	t.Helper()
	p := &provider{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		c := call{r.Method, r.URL.RequestURI(), r.Header.Clone(), string(body)}
		p.mu.Lock()
		p.calls = append(p.calls, c)
		n := len(p.calls)
		p.mu.Unlock()
		answer(n, c, w)
	}))
	t.Cleanup(p.Close)
	return p
}

// seen is what it was sent so far.
func (p *provider) seen() []call {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.calls)
}

// says answers every call with a status and a body.
func says(status int, body string) func(int, call, http.ResponseWriter) {
	return func(_ int, _ call, w http.ResponseWriter) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func makeDriver(t *testing.T, kind string, config map[string]any) driver.Driver {
	t.Helper()
	d, err := tryDriver(kind, config, outbound.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func tryDriver(kind string, config map[string]any, policy outbound.Policy) (driver.Driver, error) {
	text, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	var kept string
	return driver.New(kind, text, driver.Tools{
		Outbound: policy, Log: slog.New(slog.DiscardHandler),
		Token: func(ctx context.Context, stale string, fetch func(context.Context) (string, time.Duration, error)) (string, error) {
			mu.Lock()
			defer mu.Unlock()
			if kept != "" && kept != stale {
				return kept, nil
			}
			token, _, err := fetch(ctx)
			kept = token
			return token, err
		},
	})
}

func TestDingTalkMergesTheUsersOfAGroup(t *testing.T) {
	t.Parallel()
	p := newProvider(t, says(200, `{"errcode":0,"msgid":12345678901}`))
	d := makeDriver(t, "dingtalk", map[string]any{"baseUrl": p.URL + "/mc/send", "agentId": "A", "corpId": "C"})
	title := "【应急成像-京津冀-二〇二五年八月】已发起"
	one := driver.Message{TaskID: "1", Recipient: "zhang", Title: title, Content: "正文", TemplateID: "SE1001", Params: json.RawMessage(`{"taskId":1001}`), Group: 7}
	two, again, other := one, one, one
	two.Recipient, again.Recipient, other.Group = "li", "zhang", 8
	outcomes := d.Send(t.Context(), []driver.Message{one, two, other, again})
	for i, o := range outcomes {
		if !o.OK || o.ProviderNo != "12345678901" {
			t.Errorf("%d: %+v", i, o)
		}
	}
	if len(p.seen()) != 2 || p.seen()[0].path != "/mc/send" {
		t.Fatalf("calls: %v", p.seen())
	}
	var body map[string]any
	if err := json.Unmarshal([]byte(p.seen()[0].body), &body); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"agentId": "A", "corpId": "C", "userIds": []any{"zhang", "li"}, "templateId": "SE1001", "content": "正文",
		"title": string([]rune(title)[:20]), "template_params": map[string]any{"taskId": 1001.0},
	}
	if fmt.Sprint(body) != fmt.Sprint(want) {
		t.Errorf("sent %v\nwant %v", body, want)
	}
}

func TestOASignsAsStandardWebhooksHasIt(t *testing.T) {
	t.Parallel()
	// The example of the specification's own libraries.
	if got := driver.Sign(mustDecode(t, "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", []byte(`{"test": 2432232314}`)); got != "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" {
		t.Errorf("signature %s", got)
	}
	p := newProvider(t, says(204, ""))
	d := makeDriver(t, "oa", map[string]any{"url": p.URL, "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"})
	if o := d.Send(t.Context(), []driver.Message{{TaskID: "task_1", Recipient: "zhang", Title: "t", Content: "c"}}); !o[0].OK {
		t.Fatalf("%+v", o)
	}
	c := p.seen()[0]
	want := "v1," + driver.Sign(mustDecode(t, "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), "task_1", c.header.Get("Webhook-Timestamp"), []byte(c.body))
	if c.header.Get("Webhook-Id") != "task_1" || c.header.Get("Webhook-Signature") != want || !strings.Contains(c.body, `"to":"zhang"`) {
		t.Errorf("sent %v", c)
	}
}

func mustDecode(t *testing.T, text string) []byte {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestWeChatFetchesATokenOnceAndAgainWhenItIsStale(t *testing.T) {
	t.Parallel()
	tokens := 0
	p := newProvider(t, func(_ int, c call, w http.ResponseWriter) {
		if c.path == "/cgi-bin/stable_token" {
			tokens++
			says(200, fmt.Sprintf(`{"access_token":"token%d","expires_in":7200}`, tokens))(0, c, w)
			return
		}
		switch {
		case strings.Contains(c.path, "token1"):
			says(200, `{"errcode":42001,"errmsg":"access_token expired"}`)(0, c, w)
		case strings.Contains(c.body, "refuses"):
			says(200, `{"errcode":43101,"errmsg":"user refuse to accept the msg"}`)(0, c, w)
		case strings.Contains(c.body, "toomany"):
			says(200, `{"errcode":45009,"errmsg":"reach max api daily quota limit"}`)(0, c, w)
		default:
			says(200, `{"errcode":0,"errmsg":"ok","msgid":9}`)(0, c, w)
		}
	})
	d := makeDriver(t, "wechat", map[string]any{"baseUrl": p.URL, "appId": "wx", "appSecret": "s"})
	data := json.RawMessage(`{"thing1":{"value":"x"}}`)
	var messages []driver.Message
	for _, openid := range []string{"good", "refuses", "toomany"} {
		messages = append(messages, driver.Message{TaskID: openid, Recipient: openid, TemplateID: "T", Params: data, Page: "pages/index"})
	}
	o := d.Send(t.Context(), messages)
	if !o[0].OK || o[0].ProviderNo != "9" || !o[1].Permanent || o[1].Code != "43101" || o[2].Permanent || o[2].RetryAfter < time.Minute {
		t.Errorf("%+v", o)
	}
	if tokens != 2 {
		t.Errorf("%d tokens were fetched", tokens)
	}
	if !slices.ContainsFunc(p.seen(), func(c call) bool {
		return strings.Contains(c.path, "token2") && strings.Contains(c.body, `"data":{"thing1":{"value":"x"}}`) && strings.Contains(c.body, `"page":"pages/index"`)
	}) {
		t.Errorf("calls: %v", p.seen())
	}
}

func TestHTTPSMSSpeaksAsItIsConfigured(t *testing.T) {
	t.Parallel()
	message := driver.Message{TaskID: "task_1", Recipient: "+8613800138000", Content: `他说"你好"&a=1`}
	json1 := map[string]any{
		"body":    map[string]any{"account": "${values.account}", "password": "${secrets.password}", "to": []any{"${digits}"}, "msg": "${content}", "type": 3},
		"values":  map[string]any{"account": "acme"},
		"secrets": map[string]any{"password": "hunter2"},
		"answer": map[string]any{
			"success": "data.0.code", "equals": []any{"0"}, "number": "data.0.id", "code": "data.0.code", "error": "data.0.text", "permanent": []any{"15"},
		},
	}
	form := map[string]any{
		"format": "form", "headers": map[string]any{"X-Account": "${values.account}"}, "query": map[string]any{"v": "${task_id}"},
		"body": map[string]any{"mobile": "${recipient}", "text": "${content}"}, "values": map[string]any{"account": "acme"},
		"answer": map[string]any{"pattern": `^(?P<code>-?\d+),(?P<id>\d*)`, "success": "code", "equals": []any{"0"}, "number": "id", "code": "code", "permanent": []any{"-3"}},
	}
	for _, c := range []struct {
		name   string
		config map[string]any
		answer func(int, call, http.ResponseWriter)
		want   driver.Outcome
		sent   string
	}{
		{"json, taken", json1, says(200, `{"data":[{"code":0,"id":98765432109876543210}]}`), driver.Outcome{OK: true, ProviderNo: "98765432109876543210"},
			`{"account":"acme","msg":"他说\"你好\"\u0026a=1","password":"hunter2","to":["8613800138000"],"type":3}`},
		{"json, refused for good", json1, says(200, `{"data":[{"code":15,"text":"黑名单"}]}`), driver.Outcome{Permanent: true, Code: "15", Error: "黑名单"}, ""},
		{"json, refused for now", json1, says(200, `{"data":[{"code":22}]}`), driver.Outcome{Code: "22", Error: "the provider refused it"}, ""},
		{"form, taken", form, says(200, "0,20251121"), driver.Outcome{OK: true, ProviderNo: "20251121"},
			url.Values{"mobile": {"+8613800138000"}, "text": {message.Content}}.Encode()},
		{"form, refused for good", form, says(200, "-3,"), driver.Outcome{Permanent: true, Code: "-3", Error: "the provider refused it"}, ""},
		{"an answer that says nothing", form, says(200, "<html>"), driver.Outcome{Unknown: true, Code: "unreadable", Error: "the provider's answer could not be read"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newProvider(t, c.answer)
			config := map[string]any{"url": p.URL + "/send"}
			for name, value := range c.config {
				config[name] = value
			}
			if got := makeDriver(t, "http-sms", config).Send(t.Context(), []driver.Message{message})[0]; got != c.want {
				t.Errorf("got %+v\nwant %+v", got, c.want)
			}
			if c.sent != "" && p.seen()[0].body != c.sent {
				t.Errorf("sent %s\nwant %s", p.seen()[0].body, c.sent)
			}
			if c.config["query"] != nil && (p.seen()[0].path != "/send?v=task_1" || p.seen()[0].header.Get("X-Account") != "acme") {
				t.Errorf("sent %v", p.seen()[0])
			}
		})
	}
}

// A provider that misbehaves: what is not known to have failed is not said to have.
func TestWhatAProviderDoesWrong(t *testing.T) {
	t.Parallel()
	broken := func(write func(conn net.Conn)) func(int, call, http.ResponseWriter) {
		return func(_ int, _ call, w http.ResponseWriter) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				write(conn)
				_ = conn.Close()
			}
		}
	}
	for _, c := range []struct {
		name               string
		answer             func(int, call, http.ResponseWriter)
		unknown, permanent bool
	}{
		{"500", says(500, "oops"), false, false},
		{"503", says(503, ""), false, false},
		{"429", says(429, ""), false, false},
		{"400", says(400, ""), false, true},
		{"a gateway that waited in vain", says(504, ""), true, false},
		{"a redirect", func(_ int, _ call, w http.ResponseWriter) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(307)
		}, false, true},
		{"an answer that never comes", func(int, call, http.ResponseWriter) { time.Sleep(700 * time.Millisecond) }, true, false},
		{"half a body", broken(func(conn net.Conn) {
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"errcode\":")
		}), true, false},
		{"death in the middle", broken(func(net.Conn) {}), true, false},
		{"something else than JSON", says(200, "<html>"), true, false},
		{"far too much", func(_ int, _ call, w http.ResponseWriter) { _, _ = io.WriteString(w, strings.Repeat("x", 3<<20)) }, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newProvider(t, c.answer)
			d := makeDriver(t, "dingtalk", map[string]any{"baseUrl": p.URL, "agentId": "A", "corpId": "C", "timeoutSeconds": 0.5})
			o := d.Send(t.Context(), []driver.Message{{TaskID: "1", Recipient: "zhang"}})[0]
			if o.OK || o.Unknown != c.unknown || o.Permanent != c.permanent || o.Error == "" || strings.Contains(o.Error, p.URL) {
				t.Errorf("%+v", o)
			}
			if len(p.seen()) != 1 {
				t.Errorf("%d calls", len(p.seen()))
			}
		})
	}
}

func TestNobodyThereIsNoDoubt(t *testing.T) {
	t.Parallel()
	p := newProvider(t, says(200, ""))
	p.Close()
	o := makeDriver(t, "oa", map[string]any{"url": p.URL, "secret": "s"}).Send(t.Context(), []driver.Message{{TaskID: "1"}})[0]
	if o.OK || o.Unknown || o.Permanent {
		t.Errorf("%+v", o)
	}
}

func TestWhereDriversMayConnectTo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		address string
		policy  outbound.Policy
		allowed bool
	}{
		{"10.102.3.2", outbound.Policy{}, true},
		{"127.0.0.1", outbound.Policy{}, true},
		{"8.8.8.8", outbound.Policy{}, true},
		{"169.254.169.254", outbound.Policy{}, false},
		{"169.254.169.254", outbound.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}}, false},
		{"::ffff:169.254.169.254", outbound.Policy{}, false},
		{"64:ff9b::a9fe:a9fe", outbound.Policy{}, false},
		{"fe80::1%eth0", outbound.Policy{}, false},
		{"fd00:ec2::254", outbound.Policy{}, false},
		{"100.100.100.200", outbound.Policy{}, false},
		{"0.0.0.0", outbound.Policy{}, false},
		{"10.1.2.3", outbound.Policy{Deny: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}}, false},
		{"10.2.2.3", outbound.Policy{Deny: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}}, true},
		{"8.8.8.8", outbound.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}, false},
	} {
		if got := c.policy.Permits(netip.MustParseAddr(c.address)); got != c.allowed {
			t.Errorf("%s under %v: %t", c.address, c.policy, got)
		}
	}
	p := newProvider(t, says(200, ""))
	d, err := tryDriver("oa", map[string]any{"url": p.URL, "secret": "s"}, outbound.Policy{Deny: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	if err != nil {
		t.Fatal(err)
	}
	if o := d.Send(t.Context(), []driver.Message{{TaskID: "1"}})[0]; !o.Permanent || len(p.seen()) > 0 {
		t.Errorf("%+v after %d calls", o, len(p.seen()))
	}
}

func TestAWrongConfigurationIsNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind   string
		config map[string]any
		field  string
	}{
		{"pigeon", map[string]any{}, "kind"},
		{"dingtalk", map[string]any{"baseUrl": "http://x", "agentId": "A"}, "config.corpId"},
		{"dingtalk", map[string]any{"baseUrl": "ftp://x", "agentId": "A", "corpId": "C"}, "config.baseUrl"},
		{"dingtalk", map[string]any{"baseURI": "http://x"}, "config.baseURI"},
		{"dingtalk", map[string]any{"baseUrl": 7}, "config.baseUrl"},
		{"oa", map[string]any{"url": "http://x"}, "config.secret"},
		{"oa", map[string]any{"url": "http://x", "secret": "whsec_!"}, "config.secret"},
		{"wechat", map[string]any{"appId": "x"}, "config.appSecret"},
		{"email", map[string]any{"host": "h", "from": "nobody"}, "config.from"},
		{"email", map[string]any{"host": "h", "from": "a@b.c", "tls": "perhaps"}, "config.tls"},
		{"http-sms", map[string]any{"url": "http://x", "body": map[string]any{"a": "${secrets.pasword}"}}, "config.body"},
		{"http-sms", map[string]any{"url": "http://x", "format": "form", "body": "text"}, "config.body"},
		{"http-sms", map[string]any{"url": "http://x", "answer": map[string]any{"pattern": "("}}, "config.answer.pattern"},
		{"http-sms", map[string]any{"url": "http://x", "answer": map[string]any{"success": "code"}}, "config.answer.equals"},
		{"http-sms", map[string]any{"url": "http://x", "timeoutSeconds": 1000}, "config.timeoutSeconds"},
	} {
		_, err := tryDriver(c.kind, c.config, outbound.Policy{})
		var f *fault.Error
		if !errors.As(err, &f) || f.Fields[0].Name != c.field {
			t.Errorf("%s %v: %v", c.kind, c.config, err)
		}
	}
}

// mailServer is an SMTP server that listens.
type mailServer struct {
	mu          sync.Mutex
	connections int
	mails       []string
	refuse      map[string]*smtp.SMTPError // by recipient
	die         bool                       // after the text, before the answer
	server      *smtp.Server
}

type mailSession struct {
	*mailServer
	conn *smtp.Conn
	to   string
}

func (s *mailServer) NewSession(c *smtp.Conn) (smtp.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.connections++
	return &mailSession{mailServer: s, conn: c}, nil
}

func (s *mailSession) AuthMechanisms() []string { return []string{sasl.Plain} }

func (s *mailSession) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, username, password string) error {
		if username != "lksms" || password != "hunter2" {
			return &smtp.SMTPError{Code: 535, EnhancedCode: smtp.EnhancedCode{5, 7, 8}, Message: "wrong"}
		}
		return nil
	}), nil
}

func (s *mailSession) Mail(string, *smtp.MailOptions) error { return nil }
func (s *mailSession) Reset()                               {}
func (s *mailSession) Logout() error                        { return nil }

func (s *mailSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.to = to
	if refusal := s.refuse[to]; refusal != nil {
		return refusal
	}
	return nil
}

func (s *mailSession) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if s.die {
		return s.conn.Conn().Close()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mails = append(s.mails, string(text))
	return nil
}

func newMailServer(t *testing.T) (*mailServer, map[string]any) {
	t.Helper()
	return newMailServerWith(t, nil, false)
}

// newMailServerWith encrypts with secured: from the start, or when it is asked to; nil is not at all.
func newMailServerWith(t *testing.T, secured *tls.Config, fromTheStart bool) (*mailServer, map[string]any) {
	t.Helper()
	s := &mailServer{refuse: map[string]*smtp.SMTPError{}}
	s.server = smtp.NewServer(s)
	s.server.AllowInsecureAuth, s.server.TLSConfig = secured == nil, secured
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	if fromTheStart {
		listener = tls.NewListener(listener, secured)
	}
	go func() { _ = s.server.Serve(listener) }()
	t.Cleanup(func() { _ = s.server.Close() })
	return s, map[string]any{
		"host": "127.0.0.1", "port": port, "tls": "none", "username": "lksms", "password": "hunter2",
		"from": "平台 <noreply@example.com>", "timeoutSeconds": 2,
	}
}

func TestEmailsOfABatchShareAConnection(t *testing.T) {
	t.Parallel()
	s, config := newMailServer(t)
	s.refuse["gone@example.com"] = &smtp.SMTPError{Code: 550, Message: "no such user"}
	s.refuse["full@example.com"] = &smtp.SMTPError{Code: 452, Message: "mailbox full"}
	d := makeDriver(t, "email", config)
	var messages []driver.Message
	for i, to := range []string{"a@example.com", "gone@example.com", "full@example.com", "not an address", "b@example.com"} {
		messages = append(messages, driver.Message{TaskID: fmt.Sprint("task_", i), Recipient: to, Title: "【任务】已完成", Content: "第一行\n第二行"})
	}
	o := d.Send(t.Context(), messages)
	if !o[0].OK || !o[1].Permanent || o[1].Code != "550" || o[2].OK || o[2].Permanent || o[2].Code != "452" || !o[3].Permanent || !o[4].OK {
		t.Errorf("%+v", o)
	}
	if s.connections != 1 || len(s.mails) != 2 || !strings.Contains(s.mails[0], "Message-ID: <task_0@") || !strings.Contains(s.mails[0], "=?UTF-8?") {
		t.Errorf("%d connections, mails %q", s.connections, s.mails)
	}
}

func TestWhatAMailServerDoesWrong(t *testing.T) {
	t.Parallel()
	mail := []driver.Message{{TaskID: "1", Recipient: "a@example.com", Title: "t", Content: "c"}}
	s, config := newMailServer(t)
	s.die = true
	if o := makeDriver(t, "email", config).Send(t.Context(), mail)[0]; !o.Unknown {
		t.Errorf("it died after the text: %+v", o)
	}
	config["password"] = "wrong"
	if o := makeDriver(t, "email", config).Send(t.Context(), mail)[0]; o.OK || o.Permanent || o.Unknown {
		t.Errorf("a wrong login: %+v", o)
	}
	_ = s.server.Close()
	if o := makeDriver(t, "email", config).Send(t.Context(), mail)[0]; o.OK || o.Permanent || o.Unknown {
		t.Errorf("nobody there: %+v", o)
	}
}
