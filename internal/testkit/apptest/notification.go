package apptest

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	api "lksms/gen/client"
)

// NewNotifying starts a server with a DingTalk provider and the contacts of three people.
func NewNotifying(t *testing.T) (*Bundle, *Provider) {
	t.Helper()
	return NewNotifyingEvery(t, 0)
}

// NewNotifyingEvery works like NewNotifying. interval is the interval of the sender in milliseconds. retryMinutes, if any, are the retry minutes of the
// channel.
func NewNotifyingEvery(t *testing.T, interval int, retryMinutes ...int) (*Bundle, *Provider) {
	t.Helper()
	b := NewWith(t, DefaultRules, WithSecrets)
	p := NewProvider(t)
	p.Says(200, `{"errcode":0,"msgid":"m-1"}`)
	b.AddSender(map[string]any{
		"sender_no": "ding", "channel": "dingtalk", "kind": "dingtalk", "interval_ms": interval,
		"config": map[string]any{"baseUrl": p.URL, "agentId": "A", "corpId": "C"},
	})
	var contacts []any
	for _, id := range []string{"boss", "u1", "u2"} {
		contacts = append(contacts, map[string]any{
			"user_id": id, "dingtalk_name": "ding-" + id, "wechat_openid": "open-" + id, "email": id + "@example.com", "phone": Phone,
		})
	}
	b.Expect(200, "", "PUT", "/api/v1/admin/contacts", map[string]any{"contacts": contacts})
	if retryMinutes != nil {
		b.Expect(200, "", "PATCH", "/api/v1/admin/channels/dingtalk", map[string]any{"retry_minutes": retryMinutes})
	}
	b.App.Pusher.Start()
	return b, p
}

// Notification returns a notification.
func (b *Bundle) Notification(id int64) api.NotificationView {
	b.T.Helper()
	return Decode[api.NotificationView](b.T, b.Expect(200, "", "GET", fmt.Sprint("/api/v1/notifications/", id), nil))
}

// AwaitNotification waits until a notification has a status.
func (b *Bundle) AwaitNotification(id int64, status api.NotificationStatus) api.NotificationView {
	b.T.Helper()
	var n api.NotificationView
	Eventually(b.T, fmt.Sprintf("notification %d is %d", id, status), func() bool {
		n = b.Notification(id)
		return n.Status == status
	})
	return n
}

// SendOnceBody returns the body of a send-once message.
func SendOnceBody(more map[string]any) map[string]any {
	body := map[string]any{
		"business_type": "course_booking", "business_id": 123, "template_type": "BOOKING_CONFIRM", "receiver_user_id": "u1",
		"template_id": "tmpl", "data": map[string]any{"thing1": map[string]any{"value": "瑜伽课"}}, "page": "pages/booking",
	}
	for k, v := range more {
		body[k] = v
	}
	return body
}

// NewWeChat works like NewNotifying with a WeChat sender on the same provider. say sets the response of the provider to messages.
func NewWeChat(t *testing.T) (b *Bundle, p *Provider, say func(answer string)) {
	t.Helper()
	b, p = NewNotifying(t)
	var mu sync.Mutex
	answer := `{"errcode":0,"msgid":7}`
	p.Does(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.URL.Path == "/cgi-bin/stable_token" {
			_, _ = io.WriteString(w, `{"access_token":"token","expires_in":7200}`)
			return
		}
		_, _ = io.WriteString(w, answer)
	})
	b.AddSender(map[string]any{
		"sender_no": "mini", "channel": "wechat", "kind": "wechat", "config": map[string]any{"baseUrl": p.URL, "appId": "wx", "appSecret": "s"},
	})
	return b, p, func(said string) {
		mu.Lock()
		defer mu.Unlock()
		answer = said
	}
}

// SendOnce submits a send-once message, and expects 200.
func (b *Bundle) SendOnce(more map[string]any) api.Once {
	b.T.Helper()
	return Decode[api.Once](b.T, b.Expect(200, "", "POST", "/api/v1/subscribe-messages", SendOnceBody(more)))
}

// SentToWeChat returns the number of messages that p got, without the calls for tokens.
func SentToWeChat(p *Provider) int {
	n := 0
	for _, body := range p.Seen() {
		if strings.Contains(body, "touser") {
			n++
		}
	}
	return n
}
