package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/mail"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/emersion/go-smtp"
	"github.com/oapi-codegen/nullable"

	api "lksms/gen/client"
)

// notify sends a notification by DingTalk and e-mail, and a send-once message by WeChat. It starts stubs of the providers.
func (d *demo) notify(ctx context.Context) error {
	stub := &stubProviders{}
	address, mailPort, err := stub.start(ctx)
	if err != nil {
		return err
	}
	defer stub.stop()
	senders := []api.SenderRequest{
		demoSender("dingtalk", map[string]any{"baseUrl": address + "/dingtalk", "agentId": "demo", "corpId": "demo"}),
		demoSender("email", map[string]any{"host": "127.0.0.1", "port": mailPort, "tls": "none", "from": "LKSMS <noreply@example.com>"}),
		demoSender("wechat", map[string]any{"baseUrl": address, "appId": "demo", "appSecret": "demo"}),
	}
	withWeChat := true
	for _, s := range senders {
		err := d.openSender(ctx, s)
		if errors.Is(err, errNoSecrets) {
			fmt.Printf("\nWithout WeChat: the server has no SECRETS_KEY to encrypt its secret (create one with lksms secrets key)\n")
			withWeChat = false
			continue
		}
		if err != nil {
			return fmt.Errorf("create sender for %s: %w", *s.Channel, err)
		}
	}
	people := []api.ContactChange{demoContact("zhang"), demoContact("li")}
	if _, err := accepted(d.client.PutContactsWithResponse(ctx, api.ContactsRequest{Contacts: people})); err != nil {
		return fmt.Errorf("add contacts: %w", err)
	}
	defer func() { //nolint:contextcheck // runs also after the end of ctx
		for _, p := range people {
			_, _ = d.client.DeleteContactWithResponse(context.Background(), p.UserID, nil)
		}
	}()

	event := time.Now().UnixMilli()
	key, payload := fmt.Sprintf("demo_%d", event), api.Payload{"taskName": "应急成像", "creatorName": "张三", "createTime": time.Now().Format("2006-01-02 15:04")}
	request := api.NotificationRequest{
		BizType: 0, BizID: event, Channels: []string{"dingtalk", "email"}, Payload: payload, UserIds: &[]string{"demo-zhang", "demo-li"}, DedupKey: &key,
	}
	var created *api.CreateNotificationsResponse
	for range 2 { // the service recognizes the second request by its dedup key
		if created, err = accepted(d.client.CreateNotificationsWithResponse(ctx, nil, request)); err != nil {
			return fmt.Errorf("create notification: %w", err)
		}
	}
	once := api.OnceRequest{
		BusinessType: "demo", BusinessID: event, TemplateType: "BOOKING_CONFIRM", ReceiverUserID: "demo-zhang", TemplateID: "tmpl_demo",
		Data: map[string]any{"thing1": map[string]any{"value": "瑜伽课"}},
	}
	for i := 0; withWeChat && i < 2; i++ {
		if _, err := accepted(d.client.SendOnceWithResponse(ctx, nil, once)); err != nil {
			return fmt.Errorf("send once: %w", err)
		}
	}
	fmt.Printf("\nTwo people are notified, each request is sent twice\n")
	for _, m := range created.JSON200.Data.Items {
		if err := d.await(ctx, func() (bool, error) {
			n, err := accepted(d.client.GetNotificationWithResponse(ctx, m.NotificationID))
			return err == nil && n.JSON200.Data.Status != api.NotificationWaiting, err
		}); err != nil {
			return err
		}
		n, err := accepted(d.client.GetNotificationWithResponse(ctx, m.NotificationID))
		if err != nil {
			return fmt.Errorf("get notification: %w", err)
		}
		fmt.Printf("  %-9s notification %d: %d of %d people reached\n", m.Channel, m.NotificationID, n.JSON200.Data.Succeeded, n.JSON200.Data.People)
	}
	if withWeChat {
		if err := d.await(ctx, func() (bool, error) {
			o, err := accepted(d.client.SendOnceWithResponse(ctx, nil, once))
			return err == nil && o.JSON200.Data.SendStatus != api.SendStatusSending, err
		}); err != nil {
			return err
		}
		fmt.Printf("  %-9s sent once\n", "wechat")
	}
	fmt.Printf("\nMessages received by the providers\n%s", stub.log())
	return nil
}

// errNoSecrets means that the server accepts no sender with a secret.
var errNoSecrets = errors.New("the server has no key to encrypt secrets")

// await polls until isDone returns true.
func (d *demo) await(ctx context.Context, isDone func() (bool, error)) error {
	for {
		if done, err := isDone(); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func demoSender(channel string, config map[string]any) api.SenderRequest {
	no := demoName + "-" + channel
	return api.SenderRequest{SenderNo: no, Name: no, Channel: &channel, Kind: &channel, Status: new(api.SenderOn), Config: &config}
}

func demoContact(name string) api.ContactChange {
	return api.ContactChange{
		UserID: "demo-" + name, DingtalkName: nullable.NewNullableWithValue(name), WechatOpenid: nullable.NewNullableWithValue("openid-" + name),
		Email: nullable.NewNullableWithValue(name + "@example.com"),
	}
}

// stubProviders contains stubs of DingTalk, WeChat and a mail server. They implement only the parts that the demo needs.
type stubProviders struct {
	web   http.Server
	mails *smtp.Server
	mu    sync.Mutex
	lines strings.Builder
}

func (s *stubProviders) start(ctx context.Context) (address string, mailPort int, err error) {
	var listen net.ListenConfig
	web, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", 0, fmt.Errorf("listen: %w", err)
	}
	mails, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", 0, errors.Join(fmt.Errorf("listen: %w", err), web.Close())
	}
	_, port, err := net.SplitHostPort(mails.Addr().String())
	if err == nil {
		mailPort, err = strconv.Atoi(port)
	}
	if err != nil {
		return "", 0, errors.Join(err, web.Close(), mails.Close())
	}
	s.web.Handler, s.web.ReadHeaderTimeout = s, time.Second
	s.mails = smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return &stubMail{stub: s}, nil }))
	go func() { _ = s.web.Serve(web) }()     // the server runs until stop
	go func() { _ = s.mails.Serve(mails) }() // the server runs until stop
	return "http://" + web.Addr().String(), mailPort, nil
}

func (s *stubProviders) stop() {
	_ = s.web.Close()
	_ = s.mails.Close()
}

func (s *stubProviders) record(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(&s.lines, "  "+format+"\n", args...)
}

func (s *stubProviders) log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lines.String()
}

// ServeHTTP implements DingTalk and WeChat.
func (s *stubProviders) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body struct {
		UserIDs []string                     `json:"userIds"`
		Title   string                       `json:"title"`
		ToUser  string                       `json:"touser"`
		Data    map[string]map[string]string `json:"data"`
	}
	_ = json.NewDecoder(r.Body).Decode(&body) // missing fields stay empty
	switch r.URL.Path {
	case "/dingtalk":
		s.record("DingTalk  to %s: %s", strings.Join(body.UserIDs, " and "), body.Title)
		_, _ = io.WriteString(w, `{"errcode":0,"msgid":"demo"}`)
	case "/cgi-bin/stable_token":
		_, _ = io.WriteString(w, `{"access_token":"demo","expires_in":7200}`)
	default:
		s.record("WeChat    to %s: %s", body.ToUser, body.Data["thing1"]["value"])
		_, _ = io.WriteString(w, `{"errcode":0,"errmsg":"ok"}`)
	}
}

// stubMail is an SMTP session of the mail server.
type stubMail struct {
	stub *stubProviders
	to   string
}

func (m *stubMail) Reset()                                    {}
func (m *stubMail) Logout() error                             { return nil }
func (m *stubMail) Mail(string, *smtp.MailOptions) error      { return nil }
func (m *stubMail) Rcpt(to string, _ *smtp.RcptOptions) error { m.to = to; return nil }

func (m *stubMail) Data(r io.Reader) error {
	message, err := mail.ReadMessage(r)
	if err != nil {
		return err
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(message.Header.Get("Subject"))
	if err != nil {
		return err
	}
	m.stub.record("e-mail    to %s: %s", m.to, subject)
	_, err = io.Copy(io.Discard, message.Body)
	return err
}
