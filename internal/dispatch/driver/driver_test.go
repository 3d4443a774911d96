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
	"maps"
	"mime"
	"net"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"lksms/internal/dispatch/driver"
	"lksms/internal/dispatch/driver/provider"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/outbound"
	"lksms/internal/platform/standardwebhooks"
)

// call is a request that a fake provider received.
type call struct {
	method, path string
	header       http.Header
	body         string
}

// fakeProvider is an HTTP server in place of a provider.
type fakeProvider struct {
	*httptest.Server
	mu    sync.Mutex
	calls []call
}

func newProvider(t *testing.T, answer func(n int, c call, w http.ResponseWriter)) *fakeProvider {
	t.Helper()
	p := &fakeProvider{}
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

// seen returns the requests that the provider received so far.
func (p *fakeProvider) seen() []call {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.calls)
}

// says answers every request with a status and a body.
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
	return driver.New(kind, text, provider.Tools{
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

// send sends messages and returns their outcomes in the order of the messages. An untried message has the zero outcome.
func send(ctx context.Context, d driver.Driver, messages []provider.Message) []provider.Outcome {
	outcomes := make([]provider.Outcome, len(messages))
	var mu sync.Mutex
	d.Send(ctx, messages, func(i int, o provider.Outcome) {
		mu.Lock()
		defer mu.Unlock()
		o.Answer = "" // most tests do not compare the answer text
		if outcomes[i] != (provider.Outcome{}) {
			o = provider.Outcome{Error: "a second outcome for one message"}
		}
		outcomes[i] = o
	})
	return outcomes
}

func TestDingTalkSendsAGroupInOneCall(t *testing.T) {
	t.Parallel()
	p := newProvider(t, says(200, `{"errcode":0,"msgid":12345678901}`))
	d := makeDriver(t, "dingtalk", map[string]any{"baseUrl": p.URL + "/mc/send", "agentId": "A", "corpId": "C"})
	title := "【应急成像-京津冀-二〇二五年八月】已发起"
	one := provider.Message{TaskID: "1", Recipient: "zhang", Title: title, Content: "正文", TemplateID: "SE1001", Params: json.RawMessage(`{"taskId":1001}`), Group: 7}
	two, again, other := one, one, one
	two.Recipient, again.Recipient, other.Group = "li", "zhang", 8
	outcomes := send(t.Context(), d, []provider.Message{one, two, other, again})
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

func TestDingTalkTitleSplitsNoGrapheme(t *testing.T) {
	t.Parallel()
	p := newProvider(t, says(200, `{"errcode":0,"msgid":1}`))
	d := makeDriver(t, "dingtalk", map[string]any{"baseUrl": p.URL, "agentId": "A", "corpId": "C"})
	start := strings.Repeat("长", 18)
	send(t.Context(), d, []provider.Message{{TaskID: "1", Recipient: "zhang", Title: start + "👨‍👩‍👧", Content: "正文"}})
	var body struct{ Title string }
	if err := json.Unmarshal([]byte(p.seen()[0].body), &body); err != nil || body.Title != start {
		t.Errorf("title %q, %v", body.Title, err)
	}
}

// dingTalkWithout is a provider that does not know some users. It refuses a call that contains such a user. The returned function counts the messages that each
// known user got.
func dingTalkWithout(t *testing.T, refusal string, unknown ...string) (*fakeProvider, func() map[string]int) {
	t.Helper()
	var mu sync.Mutex
	sent := map[string]int{}
	p := newProvider(t, func(_ int, c call, w http.ResponseWriter) {
		var body struct{ UserIDs []string }
		if err := json.Unmarshal([]byte(c.body), &body); err != nil {
			t.Error(err)
		}
		if slices.ContainsFunc(body.UserIDs, func(user string) bool { return slices.Contains(unknown, user) }) {
			_, _ = io.WriteString(w, refusal)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		for _, user := range body.UserIDs {
			sent[user]++
		}
		_, _ = io.WriteString(w, `{"errcode":0,"msgid":7}`)
	})
	return p, func() map[string]int {
		mu.Lock()
		defer mu.Unlock()
		return maps.Clone(sent)
	}
}

func TestDingTalkIsolatesUnknownUsersAndSendsToOthersOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, refusal string
		unknown       []string
		permanent     bool
	}{
		{"one", `{"errcode":60121,"errmsg":"no such user"}`, []string{"u3"}, true},
		{"two apart", `{"errcode":33012,"errmsg":"no such user"}`, []string{"u0", "u8"}, true},
		{"with an unknown code", `{"errcode":99999,"errmsg":"?"}`, []string{"u5"}, false},
		{"all but one", `{"errcode":60121}`, []string{"u0", "u1", "u2", "u3", "u5", "u6", "u7", "u8"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, sent := dingTalkWithout(t, c.refusal, c.unknown...)
			var messages []provider.Message
			for i := range 10 {
				messages = append(messages, provider.Message{TaskID: fmt.Sprint(i), Recipient: fmt.Sprint("u", i%9), Group: 1})
			}
			outcomes := send(t.Context(), makeDriver(t, "dingtalk", map[string]any{"baseUrl": p.URL, "agentId": "A", "corpId": "C"}), messages)
			for i, o := range outcomes {
				user := messages[i].Recipient
				if bad := slices.Contains(c.unknown, user); o.OK == bad || bad && o.Permanent != c.permanent {
					t.Errorf("%s: %+v", user, o)
				} else if n := sent()[user]; !bad && n != 1 {
					t.Errorf("%s got %d messages", user, n)
				}
			}
		})
	}
}

// A call that was refused for a reason other than a user name is not repeated for each user.
func TestDingTalkRepeatsACallOnlyAfterARefusedUserName(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{`{"errcode":-1,"errmsg":"busy"}`, `{"errcode":40014,"errmsg":"token"}`, `{"code":500}`, `x`} {
		p := newProvider(t, says(200, answer))
		d := makeDriver(t, "dingtalk", map[string]any{"baseUrl": p.URL, "agentId": "A", "corpId": "C"})
		send(t.Context(), d, []provider.Message{{TaskID: "1", Recipient: "a", Group: 1}, {TaskID: "2", Recipient: "b", Group: 1}})
		if n := len(p.seen()); n != 1 {
			t.Errorf("%s: %d calls", answer, n)
		}
	}
}

func TestConfiguredFieldDefinesSuccess(t *testing.T) {
	t.Parallel()
	named := map[string]any{"success": "success", "equals": []string{"true"}, "number": "id", "code": "code", "permanent": []string{"9"}, "trouble": []string{"8"}}
	byNumber := map[string]any{"number": "id"}
	for _, c := range []struct {
		answer map[string]any
		says   string
		want   provider.Outcome // without Error
	}{
		{named, `{"success":true,"id":"x"}`, provider.Outcome{OK: true, ProviderNo: "x"}},
		{named, `{"success":false,"code":9}`, provider.Outcome{Permanent: true, Code: "9"}},
		{named, `{"success":false,"code":8}`, provider.Outcome{Trouble: true, Code: "8"}},
		{named, `{"success":false,"code":7}`, provider.Outcome{Code: "7"}},
		{named, `{"id":"x"}`, provider.Outcome{Unknown: true, Code: "unsaid"}},
		{named, `<html>`, provider.Outcome{Unknown: true, Code: "unreadable"}},
		{byNumber, `{"id":5}`, provider.Outcome{OK: true, ProviderNo: "5"}},
		{byNumber, `{"success":false}`, provider.Outcome{Unknown: true, Code: "unsaid"}},
	} {
		p := newProvider(t, says(200, c.says))
		for kind, config := range map[string]map[string]any{
			"dingtalk": {"baseUrl": p.URL, "agentId": "A", "corpId": "C", "answer": c.answer},
			"oa":       {"url": p.URL, "secret": "s", "answer": c.answer},
			"http-sms": {"url": p.URL, "answer": c.answer},
		} {
			got := send(t.Context(), makeDriver(t, kind, config), []provider.Message{{TaskID: "1", Recipient: "a"}})[0]
			if got.Error = ""; got != c.want {
				t.Errorf("%s, %v says %s: %+v, want %+v", kind, c.answer, c.says, got, c.want)
			}
		}
	}
}

// After an answer that means trouble of the sender, the driver tries no other message.
func TestDriverTriesNoOtherMessageAfterTrouble(t *testing.T) {
	t.Parallel()
	p := newProvider(t, says(401, ""))
	messages := make([]provider.Message, 100)
	for kind, config := range map[string]map[string]any{
		"http-sms": {"url": p.URL, "atOnce": 2}, "oa": {"url": p.URL, "secret": "s"},
		"dingtalk": {"baseUrl": p.URL, "agentId": "A", "corpId": "C"}, "wechat": {"baseUrl": p.URL, "appId": "a", "appSecret": "s"},
	} {
		before := len(p.seen())
		tried := 0
		for _, o := range send(t.Context(), makeDriver(t, kind, config), messages) {
			if o != (provider.Outcome{}) {
				tried++
				if !o.Trouble {
					t.Errorf("%s: %+v", kind, o)
				}
			}
		}
		if calls := len(p.seen()) - before; calls > 10 || tried == 0 || tried > 10 {
			t.Errorf("%s: %d calls, %d tried", kind, calls, tried)
		}
	}
}

// The driver does not try messages for which the time is too short. It reports each outcome as soon as the outcome is known.
func TestABatchOutOfTimeSkipsTheRemainingMessages(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	p := newProvider(t, func(n int, _ call, w http.ResponseWriter) {
		if n == 2 {
			<-release
		}
		_, _ = io.WriteString(w, `{"errcode":0}`)
	})
	d := makeDriver(t, "dingtalk", map[string]any{"baseUrl": p.URL, "agentId": "A", "corpId": "C", "timeoutSeconds": 60})
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	messages := []provider.Message{{TaskID: "1", Recipient: "a"}, {TaskID: "2", Recipient: "b"}, {TaskID: "3", Recipient: "c"}, {TaskID: "4", Recipient: "d"}}
	outcomes := map[int]provider.Outcome{}
	d.Send(ctx, messages, func(i int, o provider.Outcome) {
		outcomes[i] = o
		if i == 0 && len(p.seen()) > 1 {
			t.Error("the first outcome came after the second call began")
		}
	})
	close(release)
	if len(outcomes) != 2 || !outcomes[0].OK || !outcomes[1].Unknown {
		t.Errorf("outcomes %+v", outcomes)
	}
	if n := len(p.seen()); n != 2 {
		t.Errorf("%d calls", n)
	}
}

// A provider that adds or forbids the signature receives the text without the signature.
func TestSignatureAndTextHaveSeparatePlaceholders(t *testing.T) {
	t.Parallel()
	p := newProvider(t, says(200, ""))
	d := makeDriver(t, "http-sms", map[string]any{"url": p.URL, "body": map[string]any{"all": "${content}", "text": "${text}", "sign": "${sign}"}})
	send(t.Context(), d, []provider.Message{{TaskID: "1", Content: "【甲】【乙】a", Sign: "甲"}})
	send(t.Context(), d, []provider.Message{{TaskID: "2", Content: "【乙】a"}})
	want := []string{`{"all":"【甲】【乙】a","sign":"甲","text":"【乙】a"}`, `{"all":"【乙】a","sign":"","text":"【乙】a"}`}
	for i, call := range p.seen() {
		if call.body != want[i] {
			t.Errorf("%s, want %s", call.body, want[i])
		}
	}
}

func TestTextThatIsInvalidInAHeaderFailsOnlyItsMessage(t *testing.T) {
	t.Parallel()
	p := newProvider(t, says(200, ""))
	d := makeDriver(t, "http-sms", map[string]any{"url": p.URL, "headers": map[string]string{"X-Text": "${content}"}})
	o := send(t.Context(), d, []provider.Message{{TaskID: "1", Content: "a\nb"}, {TaskID: "2", Content: "a"}})
	if !o[0].Permanent || o[0].Trouble || !o[1].OK {
		t.Errorf("%+v", o)
	}
}

// A sender of templates does not send a message without a template: the recipient would get an empty text, or nothing.
func TestMessageWithoutTheConfiguredContentIsUnwritable(t *testing.T) {
	t.Parallel()
	plain, templated := provider.Message{TaskID: "1", Content: "hello"}, provider.Message{TaskID: "2", Content: "hello", TemplateID: "T"}
	for _, c := range []struct {
		name   string
		config map[string]any
		sent   string // outcomes of a message without a template, of one with a template, and of one with a template in a batch
	}{
		{"a template", map[string]any{"body": map[string]any{"tpl": "${template_id}", "t": "${title}"}}, "unwritable sent sent"},
		{"a template or a text", map[string]any{"body": map[string]any{"tpl": "${template_id}"}, "query": map[string]any{"t": "${text}"}}, "sent sent sent"},
		{"a text in a body that is not sent", map[string]any{"body": map[string]any{"t": "${text}"}, "query": map[string]any{"tpl": "${template_id}"}, "format": "none"}, "unwritable sent sent"},
		{"no content, from an earlier version", map[string]any{"body": map[string]any{"t": "${title}"}}, "sent sent sent"},
	} {
		p := newProvider(t, says(200, ""))
		c.config["url"] = p.URL
		d := makeDriver(t, "http-sms", c.config)
		ofBatch := templated
		ofBatch.IsOfBatch = true
		var got []string
		for _, o := range send(t.Context(), d, []provider.Message{plain, templated, ofBatch}) {
			switch {
			case o.OK:
				got = append(got, "sent")
			case o == provider.Unwritable:
				got = append(got, "unwritable")
			default:
				t.Errorf("%s: %+v", c.name, o)
			}
		}
		if strings.Join(got, " ") != c.sent || len(p.seen()) != strings.Count(c.sent, "sent") {
			t.Errorf("%s: %v, want %s", c.name, got, c.sent)
		}
	}
}

// The content of a message stays in its part of the URL and reaches the provider unchanged. Content that would change the path is not sent.
func TestMessageCannotChangeOtherPartsOfTheURL(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		content string
		isSent  bool
	}{
		{"plain", true}, {"a b+c&d=e", true}, {"a/b?x=1#f", true}, {"a%2Fb", true}, {"x\r\nHost: evil.example", true}, {"你好;a,b@c:d", true}, {"...", true},
		{"..", false}, {".", false}, {"../admin", false}, {"x/../../admin", false}, {"x/./y", false}, {"%2e%2e", false}, {"..%2fadmin", false},
		{"..\\admin", false}, {"..;a=b/admin", false},
	} {
		p := newProvider(t, says(200, ""))
		d := makeDriver(t, "http-sms", map[string]any{
			"url": p.URL + "/v1/${content}/send?text=${content}&key=${secrets.key}", "query": map[string]string{"again": "${content}"},
			"secrets": map[string]string{"key": "k&text=mine"},
		})
		o := send(t.Context(), d, []provider.Message{{TaskID: "1", Content: c.content}})[0]
		if !c.isSent {
			if !o.Permanent || !o.Unasked || o.Trouble || len(p.seen()) != 0 {
				t.Errorf("%q: %+v, %v", c.content, o, p.seen())
			}
			continue
		}
		if !o.OK || len(p.seen()) != 1 {
			t.Errorf("%q: %+v, %v", c.content, o, p.seen())
			continue
		}
		got, err := url.Parse(p.seen()[0].path)
		if err != nil {
			t.Fatal(err)
		}
		query := got.Query()
		if got.Path != "/v1/"+c.content+"/send" || len(query) != 3 || len(query["text"]) != 1 || query.Get("text") != c.content ||
			query.Get("again") != c.content || query.Get("key") != "k&text=mine" {
			t.Errorf("%q was sent as %s", c.content, p.seen()[0].path)
		}
		if escaped := strings.Split(got.EscapedPath(), "/"); len(escaped) != 4 || strings.Contains(got.EscapedPath(), "+") {
			t.Errorf("%q was sent as %s", c.content, p.seen()[0].path)
		}
	}
}

func TestMailTextCannotAddHeadersOrRecipients(t *testing.T) {
	t.Parallel()
	s, config := newMailServer(t)
	d := makeDriver(t, "email", config)
	o := send(t.Context(), d, []provider.Message{
		{TaskID: "1", Recipient: "a@example.com", Title: "一\r\nBcc: b@example.com\r\n\r\n二", Content: "c\r\n.\r\nMAIL FROM:<x@example.com>"},
		{TaskID: "2", Recipient: "a@example.com\r\nRCPT TO:<b@example.com>", Content: "c"},
		{TaskID: "3", Recipient: "a@example.com, b@example.com", Content: "c"},
		{TaskID: "4", Recipient: "=?utf-8?q?x=0d=0aBcc:_b@example.com?= <a@example.com>", Content: "c"},
	})
	for i, want := range []bool{true, false, false, false} {
		if o[i].OK != want || !want && (!o[i].Permanent || !o[i].Unasked || o[i].Trouble) {
			t.Errorf("%d: %+v", i, o[i])
		}
	}
	for _, text := range s.mails {
		head, _, _ := strings.Cut(text, "\r\n\r\n")
		for line := range strings.SplitSeq(head, "\r\n") {
			if strings.HasPrefix(strings.ToLower(line), "bcc") {
				t.Errorf("sent %q", text)
			}
		}
		if mail, err := mail.ReadMessage(strings.NewReader(text)); err != nil {
			t.Error(err)
		} else if subject, err := new(mime.WordDecoder).DecodeHeader(mail.Header.Get("Subject")); err != nil || strings.ContainsAny(subject, "\r\n") {
			t.Errorf("subject %q, %v", subject, err)
		}
	}
	if len(s.mails) != 1 {
		t.Errorf("%d mails", len(s.mails))
	}
}

// A refusal of a message proves nothing about the sender. A missing answer, 5xx or "too many requests" proves nothing about the message.
func TestRefusalsCountAgainstMessagesAndOutagesAgainstSenders(t *testing.T) {
	t.Parallel()
	answer := map[string]any{"success": "ok", "equals": []string{"1"}, "code": "code", "permanent": []string{"9"}}
	for _, c := range []struct {
		status   int
		says     string
		isOutage bool
	}{
		{200, `{"ok":0,"code":22}`, false}, {400, "", false}, {413, "", false}, {422, `{"code":22}`, false}, {429, `{"code":22}`, false},
		{500, `{"code":9}`, false}, {200, "<html>", false}, {200, `{"code":22}`, false},
		{500, "", true}, {500, `{"code":22}`, true}, {503, "", true}, {502, "", true}, {504, "", true}, {429, "", true}, {408, "", true},
	} {
		p := newProvider(t, says(c.status, c.says))
		o := send(t.Context(), makeDriver(t, "http-sms", map[string]any{"url": p.URL, "answer": answer}), []provider.Message{{TaskID: "1"}})[0]
		if o.Outage != c.isOutage || o.Trouble || o.OK || o.Unasked {
			t.Errorf("%d %s: %+v", c.status, c.says, o)
		}
	}
}

func TestWeChatWithoutATokenReportsTrouble(t *testing.T) {
	t.Parallel()
	for answer, day := range map[string]string{
		`{"errcode":40125,"errmsg":"invalid appsecret"}`: "", `{"errcode":40164}`: "", `{}`: "", `x`: "", `{"errcode":45009}`: "Asia/Shanghai",
	} {
		p := newProvider(t, says(200, answer))
		o := send(t.Context(), makeDriver(t, "wechat", map[string]any{"baseUrl": p.URL, "appId": "a", "appSecret": "s"}), []provider.Message{{TaskID: "1"}})[0]
		if !o.Trouble || o.Unknown || o.Permanent || o.Pause.DayOf != day {
			t.Errorf("%s: %+v", answer, o)
		}
	}
}

func TestOASignsRequestsLikeStandardWebhooks(t *testing.T) {
	t.Parallel()
	// This example is from the libraries of Standard Webhooks.
	if got := standardwebhooks.Sign(mustDecode(t, "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", []byte(`{"test": 2432232314}`)); got != "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" {
		t.Errorf("signature %s", got)
	}
	p := newProvider(t, says(204, ""))
	d := makeDriver(t, "oa", map[string]any{"url": p.URL, "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"})
	message := provider.Message{TaskID: "task_1", LeaseID: 42, EnteredAt: new(time.Unix(0, 0).UTC()), Recipient: "zhang", Title: "t", Content: "c"}
	if o := send(t.Context(), d, []provider.Message{message}); !o[0].OK {
		t.Fatalf("%+v", o)
	}
	c := p.seen()[0]
	want := "v1," + standardwebhooks.Sign(mustDecode(t, "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), "task_1", c.header.Get("Webhook-Timestamp"), []byte(c.body))
	if c.header.Get("Webhook-Id") != "task_1" || c.header.Get("Webhook-Signature") != want || !strings.Contains(c.body, `"to":"zhang"`) ||
		!strings.Contains(c.body, `"lease_id":42`) || !strings.Contains(c.body, `"entered_at":"1970-01-01T00:00:00Z"`) {
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

func TestWeChatRefetchesOnlyAStaleToken(t *testing.T) {
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
	var messages []provider.Message
	for _, openid := range []string{"good", "refuses", "toomany"} {
		messages = append(messages, provider.Message{TaskID: openid, Recipient: openid, TemplateID: "T", Params: data, Page: "pages/index"})
	}
	o := send(t.Context(), d, messages)
	if !o[0].OK || o[0].ProviderNo != "9" || !o[1].Permanent || o[1].Code != "43101" || !o[2].Trouble || o[2].Pause.DayOf != "Asia/Shanghai" {
		t.Errorf("%+v", o)
	}
	if tokens != 2 {
		t.Errorf("%d tokens were fetched, want 2", tokens)
	}
	if !slices.ContainsFunc(p.seen(), func(c call) bool {
		return strings.Contains(c.path, "token2") && strings.Contains(c.body, `"data":{"thing1":{"value":"x"}}`) && strings.Contains(c.body, `"page":"pages/index"`)
	}) {
		t.Errorf("calls: %v", p.seen())
	}
}

func TestHTTPSMSBuildsTheConfiguredRequest(t *testing.T) {
	t.Parallel()
	message := provider.Message{TaskID: "task_1", Recipient: "+8613800138000", Content: `他说"你好"&a=1`}
	json1 := map[string]any{
		"body":    map[string]any{"account": "${values.account}", "password": "${secrets.password}", "to": []any{"${digits}"}, "msg": "${content}", "type": 3, "app": json.Number("12345678901234567"), "rate": 1.5},
		"values":  map[string]any{"account": "acme"},
		"secrets": map[string]any{"password": "hunter2"},
		"answer": map[string]any{
			"success": "data.0.code", "equals": []any{"0"}, "number": "data.0.id", "code": "data.0.code", "error": "data.0.text", "permanent": []any{"15"},
		},
	}
	form := map[string]any{
		"format": "form", "headers": map[string]any{"X-Account": "${values.account}"}, "query": map[string]any{"v": "${task_id}"},
		"body": map[string]any{"mobile": "${recipient}", "text": "${content}", "rate": 1.5}, "values": map[string]any{"account": "acme"},
		"answer": map[string]any{"pattern": `^(?P<code>-?\d+),(?P<id>\d*)`, "success": "code", "equals": []any{"0"}, "number": "id", "code": "code", "permanent": []any{"-3"}},
	}
	for _, c := range []struct {
		name   string
		config map[string]any
		answer func(int, call, http.ResponseWriter)
		want   provider.Outcome
		sent   string
	}{
		{"json, accepted", json1, says(200, `{"data":[{"code":0,"id":98765432109876543210}]}`), provider.Outcome{OK: true, ProviderNo: "98765432109876543210"},
			`{"account":"acme","app":12345678901234567,"msg":"他说\"你好\"\u0026a=1","password":"hunter2","rate":1.5,"to":["8613800138000"],"type":3}`},
		{"json, refused for good", json1, says(200, `{"data":[{"code":15,"text":"黑名单"}]}`), provider.Outcome{Permanent: true, Code: "15", Error: "黑名单", IsQuoted: true}, ""},
		{"json, refused for now", json1, says(200, `{"data":[{"code":22}]}`), provider.Outcome{Code: "22", Error: "the provider refused it"}, ""},
		{"form, accepted", form, says(200, "0,20251121"), provider.Outcome{OK: true, ProviderNo: "20251121"},
			url.Values{"mobile": {"+8613800138000"}, "rate": {"1.5"}, "text": {message.Content}}.Encode()},
		{"form, refused for good", form, says(200, "-3,"), provider.Outcome{Permanent: true, Code: "-3", Error: "the provider refused it"}, ""},
		{"an unreadable answer", form, says(200, "<html>"), provider.Outcome{Unknown: true, Code: "unreadable", Error: "answer not understood: it does not match `pattern`"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newProvider(t, c.answer)
			config := map[string]any{"url": p.URL + "/send"}
			for name, value := range c.config {
				config[name] = value
			}
			if got := send(t.Context(), makeDriver(t, "http-sms", config), []provider.Message{message})[0]; got != c.want {
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

// Providers answer in unexpected ways. An outcome is a failure of the message only if the message certainly failed.
func TestUnexpectedProviderAnswersAreUnclearOrOutages(t *testing.T) {
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
		name   string
		answer func(int, call, http.ResponseWriter)
		want   provider.Outcome // without its texts
	}{
		{"500", says(500, "oops"), provider.Outcome{Outage: true}},
		{"503", says(503, ""), provider.Outcome{Outage: true}},
		{"429", says(429, ""), provider.Outcome{Outage: true}},
		{"400", says(400, ""), provider.Outcome{Permanent: true}},
		{"401", says(401, ""), provider.Outcome{Trouble: true}},
		{"403", says(403, `{"error":"forbidden"}`), provider.Outcome{Trouble: true}},
		{"404", says(404, "<html>"), provider.Outcome{Trouble: true}},
		{"407", says(407, ""), provider.Outcome{Trouble: true}},
		{"403 with a code about the message", says(403, `{"errcode":60121,"errmsg":"no such user"}`), provider.Outcome{Permanent: true}},
		{"a code about the agent", says(200, `{"errcode":40056,"errmsg":"invalid agent"}`), provider.Outcome{Trouble: true}},
		{"a gateway that waited in vain", says(504, ""), provider.Outcome{Unknown: true, Outage: true}},
		{"JSON without a sign of success", says(200, `{"code":500,"success":false}`), provider.Outcome{Unknown: true}},
		{"an empty object", says(200, `{}`), provider.Outcome{Unknown: true}},
		{"no message number", says(200, `{"msgid":null}`), provider.Outcome{Unknown: true}},
		{"an empty answer", says(200, ""), provider.Outcome{Unknown: true}},
		{"a redirect", func(_ int, _ call, w http.ResponseWriter) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(307)
		}, provider.Outcome{Trouble: true}},
		{"an answer that never comes", func(int, call, http.ResponseWriter) { time.Sleep(700 * time.Millisecond) }, provider.Outcome{Unknown: true, Outage: true}},
		{"half a body", broken(func(conn net.Conn) {
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"errcode\":")
		}), provider.Outcome{Unknown: true, Outage: true}},
		{"death in the middle", broken(func(net.Conn) {}), provider.Outcome{Unknown: true, Outage: true}},
		{"something else than JSON", says(200, "<html>"), provider.Outcome{Unknown: true}},
		{"an answer that is far too long", func(_ int, _ call, w http.ResponseWriter) { _, _ = io.WriteString(w, strings.Repeat("x", 3<<20)) }, provider.Outcome{Unknown: true, Outage: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newProvider(t, c.answer)
			d := makeDriver(t, "dingtalk", map[string]any{"baseUrl": p.URL, "agentId": "A", "corpId": "C", "timeoutSeconds": 0.5})
			o := send(t.Context(), d, []provider.Message{{TaskID: "1", Recipient: "zhang"}})[0]
			if o.Error == "" || o.Code == "" || strings.Contains(o.Error, p.URL) {
				t.Errorf("%+v", o)
			}
			if o.Error, o.Code, o.IsQuoted = "", "", false; o != c.want {
				t.Errorf("got %+v, want %+v", o, c.want)
			}
			if len(p.seen()) != 1 {
				t.Errorf("%d calls", len(p.seen()))
			}
		})
	}
}

func TestUnreachableProviderMeansTrouble(t *testing.T) {
	t.Parallel()
	p := newProvider(t, says(200, ""))
	p.Close()
	for _, url := range []string{p.URL, "http://no-such-host.invalid", "https://" + newProvider(t, says(200, "")).Listener.Addr().String()} {
		o := send(t.Context(), makeDriver(t, "oa", map[string]any{"url": url, "secret": "s"}), []provider.Message{{TaskID: "1"}})[0]
		if o.OK || o.Unknown || o.Permanent || !o.Trouble {
			t.Errorf("%s: %+v", url, o)
		}
	}
}

func TestDriversConnectOnlyToPermittedAddresses(t *testing.T) {
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
	if o := send(t.Context(), d, []provider.Message{{TaskID: "1"}})[0]; !o.Trouble || o.Permanent || len(p.seen()) > 0 {
		t.Errorf("%+v after %d calls", o, len(p.seen()))
	}
}

func TestTheFaultNamesTheWrongConfigurationField(t *testing.T) {
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
		{"http-sms", map[string]any{"url": "http://${recipient}/send"}, "config.url"},
		{"http-sms", map[string]any{"url": "http://x.${template_id}/send"}, "config.url"},
		{"http-sms", map[string]any{"url": "http://x${content}"}, "config.url"},
		{"http-sms", map[string]any{"url": "http://${digits}@x/send"}, "config.url"},
		{"http-sms", map[string]any{"url": "http://x:${attempt}/send"}, "config.url"},
		{"http-sms", map[string]any{"url": "http://x:1${unix}/send"}, "config.url"},
		{"http-sms", map[string]any{"url": "${content}://x/send"}, "config.url"},
		{"http-sms", map[string]any{"url": "${content}"}, "config.url"},
		{"http-sms", map[string]any{"url": "http://${values.h}/send", "values": map[string]string{"h": "x/y"}}, "config.url"},
		{"http-sms", map[string]any{"url": "http://x", "headers": map[string]string{"X Text": "a"}}, "config.headers"},
		{"http-sms", map[string]any{"url": "http://x", "headers": map[string]string{"X-Key": "${secrets.k}"}, "secrets": map[string]string{"k": "k\n"}}, "config.headers"},
		{"oa", map[string]any{"url": "http://x", "secret": "whsec_"}, "config.secret"},
		{"http-sms", map[string]any{"url": "http://x", "answer": map[string]any{"pattern": "("}}, "config.answer.pattern"},
		{"http-sms", map[string]any{"url": "http://x", "answer": map[string]any{"success": "code"}}, "config.answer.equals"},
		{"http-sms", map[string]any{"url": "http://x", "timeoutSeconds": 1000}, "config.timeoutSeconds"},
		{"oa", map[string]any{"url": "http://x", "secret": "s", "answer": map[string]any{"success": "code"}}, "config.answer.equals"},
		{"dingtalk", map[string]any{"baseUrl": "http://x", "agentId": "A", "corpId": "C", "answer": map[string]any{"code": "c"}}, "config.answer.success"},
	} {
		_, err := tryDriver(c.kind, c.config, outbound.Policy{})
		var f *fault.Error
		if !errors.As(err, &f) || f.Fields[0].Name != c.field {
			t.Errorf("%s %v: %v", c.kind, c.config, err)
		}
	}
}

// The named groups of the pattern are the only fields of an answer. Without a group, the field never has a value, so a message would never count as sent.
func TestReviewNamesAFieldWithoutAGroupInThePattern(t *testing.T) {
	t.Parallel()
	sms := map[string]any{"url": "http://x", "body": map[string]any{"to": "${recipient}", "text": "${content}"}}
	for _, c := range []struct {
		kind   string
		config map[string]any
		answer map[string]any
		field  string
	}{
		{"http-sms", sms, map[string]any{"pattern": "^OK", "number": "id"}, "config.answer.number"},
		{"http-sms", sms, map[string]any{"pattern": "^(?P<a>OK)", "success": "b", "equals": []string{"OK"}}, "config.answer.success"},
		{"http-sms", sms, map[string]any{"pattern": "^(?P<a>OK)", "number": "a", "code": "b"}, "config.answer.code"},
		{"http-sms", sms, map[string]any{"pattern": "^(?P<a>OK)", "number": "a", "error": "b"}, "config.answer.error"},
		{"http-sms", sms, map[string]any{"pattern": "^(?P<a>OK)", "number": "a"}, ""},
		{"http-sms", sms, map[string]any{"pattern": "^OK", "success": "status"}, "config.answer.pattern"},
		{"oa", map[string]any{"url": "http://x", "secret": "s"}, map[string]any{"pattern": "^OK", "number": "id"}, "config.answer.number"},
		{"dingtalk", map[string]any{"baseUrl": "http://x", "agentId": "A", "corpId": "C"}, map[string]any{"pattern": "^OK", "number": "id"}, "config.answer.number"},
	} {
		config := maps.Clone(c.config)
		config["answer"] = c.answer
		d, err := tryDriver(c.kind, config, outbound.Policy{})
		if err != nil {
			t.Errorf("%s %v: a stored sender does not work: %v", c.kind, c.answer, err)
			continue
		}
		err = driver.Review(d, false)
		var f *fault.Error
		if errors.As(err, &f) {
			if f.Fields[0].Name != c.field {
				t.Errorf("%s %v: %v", c.kind, c.answer, err)
			}
		} else if c.field != "" {
			t.Errorf("%s %v: accepted", c.kind, c.answer)
		}
	}
}

// The review rejects an option that has no effect together with the other options. A stored sender with such an option still sends.
func TestReviewNamesAnOptionWithoutEffect(t *testing.T) {
	t.Parallel()
	sms := func(answer map[string]any, more ...any) map[string]any {
		config := map[string]any{"url": "http://x?key=1", "body": map[string]any{"to": "${recipient}", "text": "${content}"}, "answer": answer}
		for i := 0; i < len(more); i += 2 {
			config[more[i].(string)] = more[i+1]
		}
		return config
	}
	list, number := func(codes ...string) []string { return codes }, map[string]any{"number": "id"}
	inURL := sms(number, "url", "http://x/${recipient}/${content}", "format", "none")
	cloud := map[string]any{"accessKeyId": "a", "accessKeySecret": "s", "templates": map[string]any{"A": "code ${a}", "B": "code ${b}"}}
	for _, c := range []struct {
		kind        string
		config      map[string]any
		hasReceipts bool
		field       string
	}{
		{"http-sms", sms(number), true, ""},
		{"http-sms", sms(map[string]any{"number": "id", "code": "c", "permanent": list("1"), "trouble": list("2")}), true, ""},
		{"http-sms", sms(map[string]any{"success": "status", "equals": list("ok"), "code": "status", "trouble": list("broke")}), false, ""},
		{"http-sms", sms(map[string]any{"number": "id", "equals": list("0")}), false, "config.answer.success"},
		{"http-sms", sms(map[string]any{"number": "id", "permanent": list("1")}), false, "config.answer.code"},
		{"http-sms", sms(map[string]any{"number": "id", "trouble": list("1")}), false, "config.answer.code"},
		{"http-sms", sms(map[string]any{"number": "id", "code": "c", "permanent": list("1"), "trouble": list("2", "1")}), false, "config.answer.trouble"},
		{"http-sms", sms(map[string]any{"success": "c", "equals": list("0"), "code": "c", "trouble": list("0")}), false, "config.answer.equals"},
		{"http-sms", sms(map[string]any{"success": "status"}), true, "config.answer.number"},
		{"http-sms", sms(number, "format", "none"), false, "config.body"},
		{"http-sms", inURL, false, "config.body"},
		{"http-sms", sms(number, "headers", map[string]any{"host": "y"}), false, "config.headers.host"},
		{"http-sms", sms(number, "headers", map[string]any{"X-A": "1", "x-a": "2"}), false, "config.headers.x-a"},
		{"http-sms", sms(number, "query", map[string]any{"key": "2"}), false, "config.query.key"},
		{"oa", map[string]any{"url": "http://x", "secret": "s"}, false, ""},
		{"oa", map[string]any{"url": "http://x", "secret": "s"}, true, "config.answer.number"},
		{"dingtalk", map[string]any{"baseUrl": "http://x", "agentId": "A", "corpId": "C"}, true, ""},
		{"log", map[string]any{}, true, "config.callback.number"},
		{"email", map[string]any{"host": "x", "from": "a@x.example", "password": "p"}, false, "config.username"},
		{"aliyun-sms", cloud, true, "config.templates.B"},
	} {
		d, err := tryDriver(c.kind, c.config, outbound.Policy{})
		if err != nil {
			t.Errorf("%s %v: a stored sender does not work: %v", c.kind, c.config, err)
			continue
		}
		got := ""
		var f *fault.Error
		if errors.As(driver.Review(d, c.hasReceipts), &f) {
			got = f.Fields[0].Name
		}
		if got != c.field {
			t.Errorf("%s %v: %q, want %q", c.kind, c.config, got, c.field)
		}
	}
}

func TestTheFaultNamesAnUnknownPlaceholder(t *testing.T) {
	t.Parallel()
	for field, parts := range map[string]map[string]any{
		"config.url":      {"url": "http://x/${phone}"},
		"config.batchUrl": {"batchUrl": "http://x/${phone}"},
		"config.headers":  {"headers": map[string]string{"X-To": "${recipient} ${phone}"}},
		"config.query":    {"query": map[string]string{"to": "${phone}"}},
		"config.body":     {"body": map[string]any{"list": []any{map[string]any{"to": "${phone}"}}}},
	} {
		config := map[string]any{"url": "http://x"}
		maps.Copy(config, parts)
		_, err := tryDriver("http-sms", config, outbound.Policy{})
		var f *fault.Error
		if want := (fault.Field{Name: field, Rule: fault.UnknownPlaceholder, Limit: "${phone}"}); !errors.As(err, &f) || f.Fields[0] != want {
			t.Errorf("%s: %v", field, err)
		}
	}
	_, config := newMailServer(t)
	config["unsubscribeUrl"] = "https://example.com/${phone}"
	_, err := tryDriver("email", config, outbound.Policy{})
	var f *fault.Error
	if want := (fault.Field{Name: "config.unsubscribeUrl", Rule: fault.UnknownPlaceholder, Limit: "${phone}"}); !errors.As(err, &f) || f.Fields[0] != want {
		t.Error(err)
	}
}

// mailServer is an SMTP server in place of a real mail server.
type mailServer struct {
	mu          sync.Mutex
	connections int
	mails       []string
	from        []string                   // envelope sender of each transaction
	to          []string                   // recipient of each transaction
	utf8        []bool                     // by transaction: SMTPUTF8 was requested
	helo        string                     // name in the last EHLO
	refuse      map[string]*smtp.SMTPError // error by recipient
	die         bool                       // closes the connection after the text, before the answer
	dieReset    bool                       // closes the connection after the answer to a text
	refuseFrom  *smtp.SMTPError            // error for every sender
	server      *smtp.Server
}

type mailSession struct {
	*mailServer
	conn *smtp.Conn
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

func (s *mailSession) Logout() error { return nil }

func (s *mailSession) Mail(from string, o *smtp.MailOptions) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.from, s.utf8, s.helo = append(s.from, from), append(s.utf8, o.UTF8), s.conn.Hostname()
	if s.refuseFrom != nil {
		return s.refuseFrom
	}
	return nil
}

func (s *mailSession) Reset() {
	if s.dieReset {
		_ = s.conn.Conn().Close()
	}
}

func (s *mailSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.to = append(s.to, to)
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

// newMailServerWith starts a server with encryption, from the start or after STARTTLS. If secured is nil, the server has no encryption.
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

func TestMailsOfABatchShareAConnection(t *testing.T) {
	t.Parallel()
	s, config := newMailServer(t)
	s.refuse["gone@example.com"] = &smtp.SMTPError{Code: 550, Message: "no such user"}
	s.refuse["full@example.com"] = &smtp.SMTPError{Code: 452, Message: "mailbox full"}
	d := makeDriver(t, "email", config)
	var messages []provider.Message
	for i, to := range []string{"a@example.com", "gone@example.com", "full@example.com", "not an address", "b@example.com"} {
		messages = append(messages, provider.Message{TaskID: fmt.Sprint("task_", i), Recipient: to, EnteredAt: new(time.UnixMilli(1700000000000)), Title: "【任务】已完成", Content: "第一行\n第二行"})
	}
	o := send(t.Context(), d, messages)
	if !o[0].OK || !o[1].Permanent || o[1].Code != "550" || o[2].OK || o[2].Permanent || o[2].Code != "452" || !o[3].Permanent || !o[4].OK || o[4].ProviderNo != "task_4.1700000000000@127.0.0.1" {
		t.Errorf("%+v", o)
	}
	if s.connections != 1 || len(s.mails) != 2 || !strings.Contains(s.mails[0], "Message-ID: <task_0.1700000000000@") || !strings.Contains(s.mails[0], "=?UTF-8?") {
		t.Errorf("%d connections, mails %q", s.connections, s.mails)
	}
}

func TestUnexpectedMailServerAnswersHaveSafeOutcomes(t *testing.T) {
	t.Parallel()
	mail := []provider.Message{{TaskID: "1", Recipient: "a@example.com", Title: "t", Content: "c"}}
	s, config := newMailServer(t)
	s.die = true
	if o := send(t.Context(), makeDriver(t, "email", config), mail)[0]; !o.Unknown {
		t.Errorf("the server closed after the text: %+v", o)
	}
	config["password"] = "wrong"
	if o := send(t.Context(), makeDriver(t, "email", config), mail)[0]; !o.Trouble || o.Permanent || o.Unknown {
		t.Errorf("a wrong password: %+v", o)
	}
	_ = s.server.Close()
	if o := send(t.Context(), makeDriver(t, "email", config), mail)[0]; !o.Trouble || o.Permanent || o.Unknown {
		t.Errorf("no server: %+v", o)
	}
}

func TestNoMessageFailsIfAMailServerRefusesTheSender(t *testing.T) {
	t.Parallel()
	s, config := newMailServer(t)
	s.refuseFrom = &smtp.SMTPError{Code: 553, Message: "not yours"}
	mails := []provider.Message{{TaskID: "1", Recipient: "a@example.com", Content: "c"}, {TaskID: "2", Recipient: "b@example.com", Content: "c"}}
	if o := send(t.Context(), makeDriver(t, "email", config), mails); !o[0].Trouble || o[1] != (provider.Outcome{}) {
		t.Errorf("%+v", o)
	}
}

// If the connection breaks after the server accepted a text, this mail counts as sent. The other mails wait for the next connection.
func TestAcceptedMailCountsAsSentIfTheConnectionBreaks(t *testing.T) {
	t.Parallel()
	s, config := newMailServer(t)
	s.dieReset = true
	mails := []provider.Message{{TaskID: "1", Recipient: "a@example.com", Content: "c"}, {TaskID: "2", Recipient: "b@example.com", Content: "c"}}
	if o := send(t.Context(), makeDriver(t, "email", config), mails); !o[0].OK || o[1].OK || o[1].Permanent {
		t.Errorf("%+v", o)
	}
	if len(s.mails) != 1 {
		t.Errorf("%d mails, want 1", len(s.mails))
	}
}

func TestHTTPSMSSendsBatchMessagesToTheBatchURL(t *testing.T) {
	t.Parallel()
	ok := func(_ int, _ call, w http.ResponseWriter) { _, _ = io.WriteString(w, `{"code":"0"}`) }
	usual, batches := newProvider(t, ok), newProvider(t, ok)
	config := func(batchURL string) map[string]any {
		return map[string]any{"url": usual.URL + "/one", "batchUrl": batchURL, "body": map[string]any{"to": "${recipient}"}}
	}
	messages := []provider.Message{{TaskID: "a", Recipient: "+1"}, {TaskID: "b", Recipient: "+2", IsOfBatch: true}}
	for _, c := range []struct{ batchURL, usual, batches string }{
		{batches.URL + "/many/${task_id}", "/one", "/many/b"},
		{"", "/one,/one,/one", "/many/b"},
	} {
		for i, got := range send(t.Context(), makeDriver(t, "http-sms", config(c.batchURL)), messages) {
			if !got.OK {
				t.Errorf("message %d: %+v", i, got)
			}
		}
		if got := paths(usual); got != c.usual {
			t.Errorf("the usual URL got %s, want %s", got, c.usual)
		}
		if got := paths(batches); got != c.batches {
			t.Errorf("the URL for batches got %s, want %s", got, c.batches)
		}
	}
	for name, batchURL := range map[string]string{
		"no URL": "x", "another scheme": "ftp://host/", "a host of the message": "http://${content}/", "a host of a part of the message": "http://${task_id}.example.com",
		"an unknown value": "http://host/${nothing}", "a folder above": "http://host/a/../b",
	} {
		_, err := tryDriver("http-sms", config(batchURL), outbound.Policy{})
		var refused *fault.Error
		if !errors.As(err, &refused) || refused.Fields[0].Name != "config.batchUrl" {
			t.Errorf("%s: %v", name, err)
		}
	}
	one, other := makeDriver(t, "http-sms", config("")), makeDriver(t, "http-sms", config(usual.URL+"/many"))
	if one.Target() != other.Target() {
		t.Errorf("another path at the same provider is another target: %s, %s", one.Target(), other.Target())
	}
	if both := makeDriver(t, "http-sms", config(batches.URL)); both.Target() == one.Target() {
		t.Errorf("a second provider is no other target: %s", both.Target())
	}
}

// paths returns the paths of all requests so far.
func paths(p *fakeProvider) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []string
	for _, c := range p.calls {
		all = append(all, c.path)
	}
	return strings.Join(all, ",")
}

// A batch can take a long time, so the driver checks the expiry of each message again before its call.
func TestMessageThatExpiresBeforeItsCallIsNotSent(t *testing.T) {
	t.Parallel()
	for kind, c := range map[string]struct {
		config map[string]any
		answer string
	}{
		"http-sms": {map[string]any{"url": "", "atOnce": 1}, ""},
		"dingtalk": {map[string]any{"baseUrl": "", "agentId": "A", "corpId": "C"}, `{"errcode":0}`},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			messages := []provider.Message{{TaskID: "1", Recipient: "a"}, {TaskID: "2", Recipient: "b"}, {TaskID: "3", Recipient: "c"}}
			messages[1].ValidUntil, messages[2].ValidUntil = time.Now().Add(50*time.Millisecond), time.Now().Add(time.Hour)
			p := newProvider(t, func(n int, _ call, w http.ResponseWriter) {
				for n == 1 && time.Now().Before(messages[1].ValidUntil) {
					time.Sleep(time.Millisecond)
				}
				_, _ = io.WriteString(w, c.answer)
			})
			for _, field := range []string{"url", "baseUrl"} {
				if _, is := c.config[field]; is {
					c.config[field] = p.URL
				}
			}
			o := send(t.Context(), makeDriver(t, kind, c.config), messages)
			if !o[0].OK || o[1] != (provider.Outcome{}) || !o[2].OK {
				t.Errorf("outcomes %+v", o)
			}
			if n := len(p.seen()); n != 2 {
				t.Errorf("%d calls", n)
			}
		})
	}
}

// Answers of older providers are understood: whole numbers with a fraction, and texts in GBK.
func TestAnswersOfOlderProvidersAreUnderstood(t *testing.T) {
	t.Parallel()
	answers := []string{`{"code":0.0,"id":7.0}`, "{\"code\":9,\"text\":\"\xd3\xe0\xb6\xee\xb2\xbb\xd7\xe3\"}"} // 余额不足
	p := newProvider(t, func(n int, _ call, w http.ResponseWriter) { _, _ = io.WriteString(w, answers[n-1]) })
	d := makeDriver(t, "http-sms", map[string]any{"url": p.URL, "answer": map[string]any{
		"success": "code", "equals": []string{"0"}, "number": "id", "code": "code", "error": "text",
	}})
	o := send(t.Context(), d, []provider.Message{{TaskID: "1", Recipient: "+8613800138000", Content: "x"}})
	o = append(o, send(t.Context(), d, []provider.Message{{TaskID: "2", Recipient: "+8613800138000", Content: "x"}})...)
	if !o[0].OK || o[0].ProviderNo != "7.0" || o[1].OK || o[1].Error != "余额不足" {
		t.Errorf("%+v", o)
	}
	d = makeDriver(t, "http-sms", map[string]any{"url": p.URL, "answer": map[string]any{"success": "code", "equals": []string{"0.0"}}})
	answers = append(answers, answers[0])
	if o := send(t.Context(), d, []provider.Message{{TaskID: "3", Recipient: "+8613800138000", Content: "x"}}); !o[0].OK {
		t.Errorf("a configuration that names the form of its provider: %+v", o)
	}
}

// A byte order mark at the start of an answer is ignored. Otherwise an accepted message would be sent again.
func TestByteOrderMarkBeforeAnAnswerIsIgnored(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"http-sms", "dingtalk", "wechat", "aliyun-sms", "tencent-sms"} {
		p := newProvider(t, func(_ int, c call, w http.ResponseWriter) {
			body := `{"errcode":0,"msgid":7,"code":"0","Code":"OK","BizId":"7","Response":{"SendStatusSet":[{"Code":"Ok","SerialNo":"7"}]}}`
			if strings.Contains(c.path, "stable_token") {
				body = `{"access_token":"t","expires_in":7200}`
			}
			_, _ = io.WriteString(w, "\uFEFF"+body)
		})
		d := makeDriver(t, kind, map[string]map[string]any{
			"http-sms":    {"url": p.URL, "answer": map[string]any{"pattern": `^\{"errcode":(?P<code>\d)`, "success": "code", "equals": []string{"0"}}},
			"dingtalk":    {"baseUrl": p.URL, "agentId": "a", "corpId": "c"},
			"wechat":      {"baseUrl": p.URL, "appId": "a", "appSecret": "s"},
			"aliyun-sms":  {"baseUrl": p.URL, "accessKeyId": "a", "accessKeySecret": "s", "templates": map[string]string{"T": "x"}},
			"tencent-sms": {"baseUrl": p.URL, "secretId": "a", "secretKey": "s", "sdkAppId": "1", "templates": map[string]string{"1": "x"}},
		}[kind])
		if o := send(t.Context(), d, []provider.Message{{TaskID: "t", Recipient: "+8613800138000", Content: "x", Sign: "s"}})[0]; !o.OK {
			t.Errorf("%s: %+v", kind, o)
		}
	}
}
