package mobile_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/app"
	"lksms/internal/testkit/apptest"
)

func TestMain(m *testing.M) { apptest.Main(m) }

// server is a whole server that phones reach over TLS.
type server struct {
	*apptest.Bundle
	address string
	client  *http.Client
}

func newServer(t *testing.T) *server {
	t.Helper()
	return newServerWith(t, apptest.WithSecrets)
}

// newServerWith starts a server with an additional option.
func newServerWith(t *testing.T, option func(*app.Options)) *server {
	t.Helper()
	certified := httptest.NewUnstartedServer(nil)
	certified.StartTLS()
	t.Cleanup(certified.Close)
	b := apptest.NewWith(t, apptest.DefaultRules, func(o *app.Options) {
		o.TLS = &tls.Config{Certificates: certified.TLS.Certificates}
		option(o)
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stop, served := apptest.ServeUntil(t, b.App, listener)
	client := certified.Client()
	t.Cleanup(func() {
		client.CloseIdleConnections()
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return &server{b, "https://" + listener.Addr().String() + "/smsgate/mobile/v1", client}
}

// pair creates a pairing code for a sender.
func (s *server) pair(senderNo string, body any) api.Pairing {
	s.T.Helper()
	return apptest.Decode[api.Pairing](s.T, s.Expect(200, "", "POST", "/api/v1/admin/senders/"+senderNo+"/pairing", body))
}

// newPhone adds a sender and registers a phone for it.
func (s *server) newPhone(senderNo string) *phone {
	s.T.Helper()
	s.AddSender(map[string]any{"sender_no": senderNo})
	return s.registered(senderNo)
}

// registered registers a phone for a sender.
func (s *server) registered(senderNo string) *phone {
	s.T.Helper()
	p := newPhone(s.T, s.client, s.address)
	p.signInByCode(s.pair(senderNo, map[string]any{}).Code)
	return p
}

// phone simulates the app according to its source code (GatewayApi, GatewayService, MessagesService and its workers). The test simulates the radio. The phone
// stores all messages forever, by id.
type phone struct {
	t       testing.TB
	client  *http.Client
	address string // setting cloud_url

	info  *registration // nil until the phone is registered
	clock time.Duration // how far the clock of the phone is ahead
	known map[string]*local
	order []string // keys of known in the order of arrival

	channel, processing string // settings that the server can change
	signingKey          string // key of the app, which the server replaces
	hooks               []hook
}

// hook is a webhook in the database of the app.
type hook struct{ ID, URL, Event string }

// registration corresponds to DeviceRegisterResponse of the app.
type registration struct {
	ID, Token, Login string
	Password         *string
}

// local is a message in the database of the app. Here, each message has one recipient.
type local struct {
	ID           string
	TextMessage  *struct{ Text string }
	PhoneNumbers []string
	SimNumber    *int
	WithReport   *bool `json:"withDeliveryReport"`
	ValidUntil   *moment
	CreatedAt    *moment
	State        *string

	state, said string
	states      map[string]time.Time
}

// moment is a time that is parsed like Gson does with SimpleDateFormat and yyyy-MM-dd'T'HH:mm:ss.SSSXXX.
type moment struct{ time.Time }

func (m *moment) UnmarshalJSON(text []byte) (err error) {
	m.Time, err = time.Parse(`"2006-01-02T15:04:05.000Z07:00"`, string(text))
	return err
}

func newPhone(t testing.TB, client *http.Client, address string) *phone {
	return &phone{t: t, client: client, address: address, known: map[string]*local{}, channel: "AUTO", processing: "LIFO", signingKey: "aB3_xY9-"}
}

// call sends a request like the HTTP client of the app, and returns the status and body of the response.
func (p *phone) call(method, path, authorization string, body any) (int, []byte) {
	p.t.Helper()
	var reader io.Reader
	if body != nil {
		text, is := body.(string)
		if !is {
			encoded, err := json.Marshal(body)
			if err != nil {
				p.t.Fatal(err)
			}
			text = string(encoded)
		}
		reader = strings.NewReader(text)
	}
	r, err := http.NewRequestWithContext(p.t.Context(), method, p.address+path, reader)
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header.Set("User-Agent", "me.capcom.smsgateway/1.68.0")
	r.Header.Set("Accept", "application/json")
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	res, err := p.client.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return res.StatusCode, raw
}

func (p *phone) bearer() string { return "Bearer " + p.info.Token }

// must sends a request, fails the test unless the response has the status want, and returns its body.
func (p *phone) must(want int, method, path, authorization string, body any) []byte {
	p.t.Helper()
	status, raw := p.call(method, path, authorization, body)
	if status != want {
		p.t.Fatalf("%s %s: got %d, want %d: %s", method, path, status, want, raw)
	}
	return raw
}

// sims contains the SIM cards as the app sends them: all but the last four characters are masked.
var sims = []map[string]any{{"slotIndex": 0, "simNumber": 1, "phoneNumber": "*******8000", "carrierName": "****", "iccid": "****************1234"}}

// tryCode corresponds to registerDevice with a code, and returns the status.
func (p *phone) tryCode(code string) int {
	p.t.Helper()
	status, raw := p.call("POST", "/device", "Code "+code, map[string]any{"name": "samsung/a52q", "pushToken": "a-token-of-google", "simCards": sims})
	if status/100 == 2 {
		info := &registration{}
		if err := json.Unmarshal(raw, info); err != nil || info.ID == "" || info.Token == "" || info.Login == "" {
			p.t.Fatalf("the app cannot read this registration: %s %v", raw, err)
		}
		p.info = info
	}
	return status
}

// signInByCode registers the phone with a code, and then starts the workers like the app.
func (p *phone) signInByCode(code string) {
	p.t.Helper()
	if status := p.tryCode(code); status/100 != 2 {
		p.t.Fatalf("registering answered %d", status)
	}
	p.start()
}

// start corresponds to GatewayService.start: each worker runs once.
func (p *phone) start() {
	p.t.Helper()
	p.must(204, "PATCH", "/device", p.bearer(), map[string]any{"id": p.info.ID, "simCards": sims}) // Gson omits a pushToken that is null
	p.pull()
	p.updateWebhooks()
	p.updateSettings()
}

// updateWebhooks corresponds to WebHooksService.sync. The app stores webhooks by id, and requires an id and a known event.
func (p *phone) updateWebhooks() {
	p.t.Helper()
	p.hooks = nil
	p.read(p.must(200, "GET", "/webhooks", p.bearer(), nil), &p.hooks)
	ids := map[string]bool{}
	for _, h := range p.hooks {
		if h.ID == "" || ids[h.ID] || !slices.Contains([]string{"sms:received", "sms:data-received"}, h.Event) || !strings.HasPrefix(h.URL, "https://") {
			p.t.Errorf("the app cannot use the webhooks %v", p.hooks)
		}
		ids[h.ID] = true
	}
	if p.hooks == nil {
		p.t.Error("the app expects a list of webhooks")
	}
}

// incoming corresponds to SmsEventPayload. Gson omits fields that are null.
type incoming struct {
	MessageID   string `json:"messageId"`
	Sender      string `json:"sender,omitempty"`
	PhoneNumber string `json:"phoneNumber,omitempty"`
	Recipient   string `json:"recipient,omitempty"`
	SimNumber   int    `json:"simNumber,omitempty"`
	Message     string `json:"message,omitempty"`
	Data        string `json:"data,omitempty"`
	ReceivedAt  string `json:"receivedAt"`
}

// emitReceived corresponds to WebHooksService.emit and WebhookQueueProcessorWorker: it posts the event sms:received to each of its webhooks, and returns the
// statuses.
func (p *phone) emitReceived(payload any) (statuses []int) {
	p.t.Helper()
	const event = "sms:received"
	for _, h := range p.hooks {
		if h.Event != event {
			continue
		}
		body, err := json.Marshal(map[string]any{"deviceId": p.info.ID, "event": event, "id": "V1StGXR8_Z5jdHi6B-myT", "payload": payload, "webhookId": h.ID})
		if err != nil {
			p.t.Fatal(err)
		}
		statuses = append(statuses, p.post(h.URL, p.signingKey, strconv.FormatInt(time.Now().Add(p.clock).Unix(), 10), string(body)))
	}
	return statuses
}

// post corresponds to PayloadSingingPlugin.
func (p *phone) post(url, key, timestamp, body string) int {
	p.t.Helper()
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(body + timestamp))
	r, err := http.NewRequestWithContext(p.t.Context(), "POST", url, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Timestamp", timestamp)
	r.Header.Set("X-Signature", hex.EncodeToString(mac.Sum(nil)))
	res, err := p.client.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	res.Body.Close()
	return res.StatusCode
}

// updateSettings corresponds to SettingsService.update for the settings that this server returns.
func (p *phone) updateSettings() {
	p.t.Helper()
	settings := map[string]map[string]any{}
	p.read(p.must(200, "GET", "/settings", p.bearer(), nil), &settings)
	for name, group := range settings {
		for key, value := range group {
			switch name + "." + key {
			case "gateway.notification_channel":
				p.channel = fmt.Sprint(value)
			case "messages.processing_order":
				p.processing = fmt.Sprint(value)
			case "webhooks.signing_key":
				p.signingKey = fmt.Sprint(value)
			default:
				p.t.Errorf("the phone would change its setting %s.%s", name, key)
			}
		}
	}
	if !slices.Contains([]string{"AUTO", "SSE_ONLY"}, p.channel) || !slices.Contains([]string{"LIFO", "FIFO"}, p.processing) {
		p.t.Errorf("the app knows no %s or %s", p.channel, p.processing)
	}
}

func (p *phone) read(raw []byte, into any) {
	p.t.Helper()
	if err := json.Unmarshal(raw, into); err != nil {
		p.t.Fatalf("the app cannot read %s: %v", raw, err)
	}
}

// pull corresponds to getNewMessages. The phone reports known messages again and queues new messages. pull returns the ids in the response.
func (p *phone) pull() []string {
	p.t.Helper()
	return p.take(p.must(200, "GET", "/message?order="+strings.ToLower(p.processing), p.bearer(), nil))
}

// take processes the response of a pull.
func (p *phone) take(raw []byte) []string {
	p.t.Helper()
	var messages []*local
	p.read(raw, &messages)
	if messages == nil {
		p.t.Fatalf("the app expects a list: %s", raw)
	}
	ids := []string{}
	for _, m := range messages {
		ids = append(ids, m.ID)
		if m.State != nil && *m.State != "Pending" {
			continue
		}
		if p.known[m.ID] != nil {
			p.sendState(m.ID)
			continue
		}
		if m.ID == "" || strings.Contains(m.ID, "|") || m.TextMessage == nil || len(m.PhoneNumbers) != 1 || m.ValidUntil == nil || m.CreatedAt == nil {
			p.t.Fatalf("the app cannot send this message: %s", raw)
		}
		m.state, m.states = "Pending", map[string]time.Time{"Pending": time.Now()}
		p.known[m.ID] = m
		p.order = append(p.order, m.ID)
	}
	return ids
}

// sendState corresponds to SendStateWorker: it reports all known states of a message.
func (p *phone) sendState(id string) {
	p.t.Helper()
	p.must(204, "PATCH", "/message", p.bearer(), []any{p.stateOf(id)})
}

func (p *phone) stateOf(id string) map[string]any {
	m := p.known[id]
	states := map[string]string{}
	for name, at := range m.states {
		states[name] = at.Format("2006-01-02T15:04:05.000-07:00")
	}
	recipient := map[string]any{"phoneNumber": m.PhoneNumbers[0], "state": m.state}
	if m.said != "" {
		recipient["error"] = m.said
	}
	return map[string]any{"id": id, "state": m.state, "recipients": []any{recipient}, "states": states}
}

// becomes sets the state of a message, like updateState of the app, but reports nothing to the server. A message that is Failed stays Failed.
func (p *phone) becomes(id, state, said string) {
	m := p.known[id]
	m.states[state] = time.Now()
	if m.state != "Failed" {
		m.state, m.said = state, said
	}
}

// reports corresponds to updateState and the worker that it starts.
func (p *phone) reports(id, state, said string) {
	p.t.Helper()
	p.becomes(id, state, said)
	p.sendState(id)
}

// sendPending corresponds to sendPendingMessages with a radio that accepts every message. It returns the number and text of each sent message.
func (p *phone) sendPending() (out []string) {
	p.t.Helper()
	order := slices.Clone(p.order)
	if p.processing == "LIFO" {
		slices.Reverse(order)
	}
	for _, id := range order {
		m := p.known[id]
		if m.state != "Pending" {
			continue
		}
		if m.ValidUntil.Before(time.Now().Add(p.clock)) {
			p.reports(id, "Failed", "TTL expired")
			continue
		}
		out = append(out, m.PhoneNumbers[0]+" "+m.TextMessage.Text)
		p.reports(id, "Processed", "")
		p.reports(id, "Sent", "")
	}
	return out
}

// listen corresponds to SSEManager: it opens the event stream and returns the names of events, with the data of a MessagesExportRequested. The stream ends with
// the test.
func (p *phone) listen() <-chan string {
	p.t.Helper()
	ctx, cancel := context.WithCancel(p.t.Context())
	r, err := http.NewRequestWithContext(ctx, "GET", p.address+"/events", nil)
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header.Set("Authorization", p.bearer())
	r.Header.Set("Accept", "text/event-stream")
	res, err := p.client.Do(r) //nolint:bodyclose // the goroutine below closes it
	if err != nil {
		p.t.Fatal(err)
	}
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/event-stream" {
		p.t.Fatalf("the stream of events answers %d %v", res.StatusCode, res.Header)
	}
	events := make(chan string, 100)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(events)
		defer res.Body.Close()
		lines := bufio.NewScanner(res.Body)
		for lines.Scan() {
			if name, is := strings.CutPrefix(lines.Text(), "event:"); is {
				name = strings.TrimSpace(name)
				if name == "MessagesExportRequested" && lines.Scan() {
					name += strings.TrimPrefix(lines.Text(), "data:")
				}
				events <- name
			}
		}
	}()
	p.t.Cleanup(func() {
		cancel()
		<-done
	})
	return events
}

func basic(name, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(name+":"+password))
}

// ids returns the ids of all messages on the phone.
func (p *phone) ids() []string { return slices.Sorted(maps.Keys(p.known)) }

func (p *phone) only() string {
	p.t.Helper()
	if len(p.order) != 1 {
		p.t.Fatalf("the phone knows %v", p.order)
	}
	return p.order[0]
}

func lineOf(raw []byte) string { return string(bytes.TrimSpace(raw)) }
