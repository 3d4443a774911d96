package apptest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/app"
	"lksms/internal/platform/secret"
)

// Provider is a stub of a provider. It stores the bodies of all requests, and answers with Handler.
type Provider struct {
	*httptest.Server
	mu      sync.Mutex
	bodies  []string
	Handler atomic.Pointer[http.HandlerFunc]
}

// NewProvider starts a provider that accepts every message.
func NewProvider(t *testing.T) *Provider {
	t.Helper()
	p := &Provider{}
	p.Says(200, `{"code":"0","id":"p-1"}`)
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		p.mu.Lock()
		p.bodies = append(p.bodies, string(body))
		p.mu.Unlock()
		r.Body = io.NopCloser(bytes.NewReader(body)) // the handler can read the body again
		(*p.Handler.Load())(w, r)
	}))
	t.Cleanup(p.Close)
	return p
}

// Does sets the handler that answers all later requests.
func (p *Provider) Does(answer http.HandlerFunc) { p.Handler.Store(&answer) }

// Says sets the response to all later requests.
func (p *Provider) Says(status int, body string) {
	p.Does(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
}

// Seen returns the bodies of all requests so far.
func (p *Provider) Seen() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.bodies...)
}

// SenderConfig returns the configuration of a sender of kind http-sms that calls the provider.
func (p *Provider) SenderConfig() map[string]any {
	return map[string]any{
		"url": p.URL, "timeoutSeconds": 30, "secrets": map[string]any{"password": "hunter2"},
		"body": map[string]any{"to": "${recipient}", "text": "${content}", "password": "${secrets.password}"},
		"answer": map[string]any{
			"success": "code", "equals": []string{"0"}, "number": "id", "code": "code", "error": "text", "permanent": []string{"9"},
		},
	}
}

// WithSecrets sets a key with which the server encrypts secrets.
func WithSecrets(o *app.Options) { o.Secrets = Secrets(secret.NewKey()) }

// Secrets returns a box with keys.
func Secrets(keys ...string) *secret.Box {
	box, err := secret.NewBox(keys...)
	if err != nil {
		panic(err)
	}
	return box
}

// NewPushing starts a server with one driven sender for short messages.
func NewPushing(t *testing.T, more map[string]any) (*Bundle, *Provider) {
	t.Helper()
	rules := DefaultRules
	rules.RetryDelay, rules.MaxRetryCount = 10*time.Millisecond, 20
	b := NewWith(t, rules, WithSecrets)
	p := NewProvider(t)
	sender := map[string]any{"sender_no": "pushed", "kind": "http-sms", "config": p.SenderConfig()}
	for name, value := range more {
		sender[name] = value
	}
	b.AddSender(sender)
	b.App.Pusher.Start()
	return b, p
}

// NewReceiving starts a server with a driven sender that accepts callbacks. Its provider numbers the messages n-1, n-2 and so on.
func NewReceiving(t *testing.T, callback map[string]any) (*Bundle, *Provider) {
	t.Helper()
	b := NewWith(t, DefaultRules, WithSecrets)
	p := NewProvider(t)
	var sent atomic.Int64
	p.Does(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"code":"0","id":"n-%d"}`, sent.Add(1)) // atomic, so that concurrent calls get different numbers
	})
	b.AddSender(map[string]any{"sender_no": "pushed", "kind": "http-sms", "config": ReceiverConfig(p, callback)})
	b.App.Pusher.Start()
	return b, p
}

// ReceiverConfig returns the configuration of a sender that calls p and accepts callbacks.
func ReceiverConfig(p *Provider, callback map[string]any) map[string]any {
	config := p.SenderConfig()
	config["callback"], config["callbackSecret"] = map[string]any{
		"verify": "token", "number": "msgid", "recipient": "mobile", "state": "status", "delivered": []string{"DELIVRD"}, "pending": []string{"ENROUTE"},
		"code": "err", "answer": map[string]any{"body": `{"ok":1}`, "contentType": "application/json"},
	}, CallbackKey
	for name, value := range callback {
		config["callback"].(map[string]any)[name] = value
	}
	return config
}

// CallbackKey is the callbackSecret of all senders of ReceiverConfig.
const CallbackKey = "s3cret-of-16-bytes"

// AwaitOpenBreaker waits until the circuit breaker of a sender has opened, and returns its state. At that time, the circuit breaker can already be probing.
func (b *Bundle) AwaitOpenBreaker(no string) api.SenderPause {
	b.T.Helper()
	var pause api.SenderPause
	Eventually(b.T, "the breaker of "+no+" is open", func() bool {
		s := b.GetSender(no)
		if s.Pause != nil {
			pause = *s.Pause
		}
		return s.Pause != nil
	})
	return pause
}

// Recipients returns how many messages each recipient got through this provider of kind http-sms.
func (p *Provider) Recipients() map[string]int {
	counts := map[string]int{}
	for _, text := range p.Seen() {
		var body struct{ To string }
		_ = json.Unmarshal([]byte(text), &body)
		counts[body.To]++
	}
	return counts
}

// WantsKey makes the provider accept messages with this key, and return 401 for any other key.
func (p *Provider) WantsKey(key string) {
	p.Does(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Key") != key {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, `{"code":"0","id":"p"}`)
	})
}
