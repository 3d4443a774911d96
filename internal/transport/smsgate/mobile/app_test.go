package mobile_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/app"
	"lksms/internal/testkit/apptest"
)

func TestMain(m *testing.M) { apptest.Main(m) }

// server is a whole server that phones reach by TLS.
type server struct {
	*apptest.Bundle
	address string
	client  *http.Client
}

func newServer(t *testing.T) *server {
	t.Helper()
	certified := httptest.NewUnstartedServer(nil)
	certified.StartTLS()
	t.Cleanup(certified.Close)
	b := apptest.NewWith(t, apptest.DefaultRules, func(o *app.Options) {
		o.TLS = &tls.Config{Certificates: certified.TLS.Certificates}
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

// pair opens a code for a sender.
func (s *server) pair(senderNo string, body any) api.Pairing {
	s.T.Helper()
	return apptest.Decode[api.Pairing](s.T, s.Expect(200, "", "POST", "/api/v1/admin/senders/"+senderNo+"/pairing", body))
}

// newPhone adds a sender, and a phone that is registered for it.
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

// phone does what the app does, as its source says (GatewayApi, GatewayService, MessagesService and its workers), with a radio that the test plays.
// It keeps what it knows of messages for ever, by their ids.
type phone struct {
	t       testing.TB
	client  *http.Client
	address string // the setting cloud_url

	info  *registration // the setting REGISTRATION_INFO
	clock time.Duration // by which the phone's clock is ahead
	known map[string]*local
	order []string // of the ids in known

	channel, processing string // settings that the server changes
}

// registration is DeviceRegisterResponse.
type registration struct {
	ID, Token, Login string
	Password         *string
}

// local is a message in the database of the app. Each has one recipient here.
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

// moment is read as Gson with SimpleDateFormat of yyyy-MM-dd'T'HH:mm:ss.SSSXXX does.
type moment struct{ time.Time }

func (m *moment) UnmarshalJSON(text []byte) (err error) {
	m.Time, err = time.Parse(`"2006-01-02T15:04:05.000Z07:00"`, string(text))
	return err
}

func newPhone(t testing.TB, client *http.Client, address string) *phone {
	return &phone{t: t, client: client, address: address, known: map[string]*local{}, channel: "AUTO", processing: "LIFO"}
}

// call sends a request as the app's HTTP client does, and returns the status and the body of the answer.
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

// must fails unless a call has this status, and returns the body.
func (p *phone) must(want int, method, path, authorization string, body any) []byte {
	p.t.Helper()
	status, raw := p.call(method, path, authorization, body)
	if status != want {
		p.t.Fatalf("%s %s: got %d, want %d: %s", method, path, status, want, raw)
	}
	return raw
}

// sims are the SIM cards as the app sends them, with all but the last four characters redacted.
var sims = []map[string]any{{"slotIndex": 0, "simNumber": 1, "phoneNumber": "*******8000", "carrierName": "****", "iccid": "****************1234"}}

// tryCode is registerDevice with a code.
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

// signInByCode is tryCode that must succeed, and what the app does then.
func (p *phone) signInByCode(code string) {
	p.t.Helper()
	if status := p.tryCode(code); status/100 != 2 {
		p.t.Fatalf("registering answered %d", status)
	}
	p.start()
}

// start is GatewayService.start: the workers run, each for itself.
func (p *phone) start() {
	p.t.Helper()
	p.must(204, "PATCH", "/device", p.bearer(), map[string]any{"id": p.info.ID, "simCards": sims}) // Gson leaves out a pushToken that is null
	p.pull()
	p.updateWebhooks()
	p.updateSettings()
}

func (p *phone) updateWebhooks() {
	p.t.Helper()
	var hooks []struct{ ID, URL, Event string }
	p.read(p.must(200, "GET", "/webhooks", p.bearer(), nil), &hooks)
	if hooks == nil || len(hooks) > 0 {
		p.t.Errorf("the phone would post what it receives to %v", hooks)
	}
}

// updateSettings is SettingsService.update for the settings that this server knows.
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

// pull is getNewMessages: what the phone knows it reports again, and the rest it puts into its own queue. It returns the ids of the answer.
func (p *phone) pull() []string {
	p.t.Helper()
	return p.take(p.must(200, "GET", "/message?order="+strings.ToLower(p.processing), p.bearer(), nil))
}

// take is the rest of pull, after an answer that came.
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

// sendState is SendStateWorker: all that the phone knows of a message.
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

// becomes is updateState, without telling the server: the app keeps a Failed as it is.
func (p *phone) becomes(id, state, said string) {
	m := p.known[id]
	m.states[state] = time.Now()
	if m.state != "Failed" {
		m.state, m.said = state, said
	}
}

// tells is updateState, and the worker that it starts.
func (p *phone) tells(id, state, said string) {
	p.t.Helper()
	p.becomes(id, state, said)
	p.sendState(id)
}

// sendPending is sendPendingMessages with a radio that takes everything. It returns the messages that went out, as number and text.
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
			p.tells(id, "Failed", "TTL expired")
			continue
		}
		out = append(out, m.PhoneNumbers[0]+" "+m.TextMessage.Text)
		p.tells(id, "Processed", "")
		p.tells(id, "Sent", "")
	}
	return out
}

// listen is SSEManager: it opens the stream of events, and returns them by name. The stream ends with the test.
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
				events <- strings.TrimSpace(name)
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

// ids are the ids of messages in the phone.
func (p *phone) ids() []string { return slices.Sorted(maps.Keys(p.known)) }

func (p *phone) only() string {
	p.t.Helper()
	if len(p.order) != 1 {
		p.t.Fatalf("the phone knows %v", p.order)
	}
	return p.order[0]
}

func lineOf(raw []byte) string { return string(bytes.TrimSpace(raw)) }
