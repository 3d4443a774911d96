package mobile

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"lksms/internal/dispatch/phone"
	"lksms/internal/dispatch/sender"
	"lksms/internal/platform/access"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/servers"
	"lksms/internal/transport/httpapi/gate"
	"lksms/internal/transport/httpapi/stream"
	"lksms/internal/transport/smsgate"
)

// Prefix is the path prefix of the routes for phones.
const Prefix = "/smsgate/mobile/v1"

const (
	maxBody     = 64 << 10
	maxReceived = 256 << 10 // a text of 255 parts in JSON
	maxWork     = 15 * time.Second
	maxStates   = 100 // maximum number of states in one request; the app sends one state
)

// Options configures Mount.
type Options struct {
	Streams *stream.Streams
	Log     *slog.Logger
}

type server struct {
	phones  *Service
	options Options
	streams streams
}

// Mount registers the routes for phones with a ServeMux.
func Mount(mux *http.ServeMux, guard *gate.Gate, phones *Service, options Options) {
	s := &server{phones: phones, options: options, streams: streams{ends: map[string]*context.CancelFunc{}}}
	mount := func(route string, body int64, roles []string, handle func(http.ResponseWriter, *http.Request) error) {
		method, path, _ := strings.Cut(route, " ")
		pattern := method + " " + Prefix + path
		isRead := body > 0 && path != "/user/password" && path != receivedPath
		guard.MountForeign(mux, gate.ForeignOperation{Pattern: pattern, Roles: roles, ServedBy: servers.Claim, BodyBytes: body, IsJSON: isRead, Limit: maxWork, Handle: handle})
	}
	phone := []string{access.RoleSend}
	mount("POST /device", maxBody, nil, s.register)
	mount("GET /device", 0, nil, s.address)
	mount("PATCH /device", maxBody, phone, s.as(s.update))
	for _, path := range []string{"/message", "/messages"} {
		mount("GET "+path, 0, phone, s.as(s.pull))
		mount("PATCH "+path, maxBody, phone, s.as(s.report))
	}
	mount("GET /settings", 0, phone, s.as(s.settings))
	mount("GET /webhooks", 0, phone, s.as(s.webhooks))
	mount("POST "+receivedPath, maxReceived, nil, s.received)
	mount("GET /events", 0, phone, s.as(s.events))
	mount("GET /user/code", 0, nil, s.refuse)
	mount("PATCH /user/password", maxBody, phone, s.as(func(w http.ResponseWriter, r *http.Request, _ Phone) error { return s.refuse(w, r) }))
}

// as calls a handler with the phone of the caller. It accepts only bearer tokens, because a browser can add a password or cookie to a request of another
// site.
func (s *server) as(handle func(http.ResponseWriter, *http.Request, Phone) error) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		if scheme, _, _ := strings.Cut(r.Header.Get("Authorization"), " "); !strings.EqualFold(scheme, "Bearer") {
			return access.ErrRequired
		}
		x := gate.Of(r.Context())
		phone, err := s.phones.Get(r.Context(), x.Caller.User.Username)
		if err != nil {
			return err
		}
		x.AddToLog("sender_no", phone.SenderNo)
		return handle(w, r, phone)
	}
}

// refuse rejects features of the app that phones of this server do not have: codes of users, and passwords.
func (s *server) refuse(http.ResponseWriter, *http.Request) error {
	return fault.New(fault.Forbidden, fault.AuthForbidden)
}

// write writes a JSON response.
func write(w http.ResponseWriter, status int, answer any) error {
	body, err := json.Marshal(answer)
	if err != nil {
		return fmt.Errorf("write answer: %w", err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // an error means that the client disconnected
	return nil
}

// read decodes the body of a request into into. Fault: request.malformed.
func read(r *http.Request, into any) error {
	b := gate.Of(r.Context()).Body
	if b.Broken != nil || len(b.Plain) == 0 {
		return fault.New(fault.Malformed, fault.RequestMalformed)
	}
	if err := json.Unmarshal(b.Plain, into); err != nil {
		return fault.New(fault.Malformed, fault.RequestMalformed)
	}
	return nil
}

// moment is a time in the format that the app parses. It has exactly three digits after the point, because the app interprets all these digits as
// milliseconds.
type moment time.Time

// MarshalJSON implements json.Marshaler.
func (m moment) MarshalJSON() ([]byte, error) {
	return []byte(time.Time(m).UTC().Format(`"2006-01-02T15:04:05.000Z07:00"`)), nil
}

// address returns the IP address of the caller, which the app displays. This route needs no authentication: the app sends its token if it has a token, but
// the token can be outdated.
func (s *server) address(w http.ResponseWriter, r *http.Request) error {
	return write(w, http.StatusOK, map[string]string{"externalIp": gate.Of(r.Context()).Origin.SourceIP})
}

// register registers a phone with a pairing code as a sender.
func (s *server) register(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Name *string `json:"name"`
	}
	if err := read(r, &body); err != nil {
		return err
	}
	scheme, code, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Code") { // after its token was rejected, the app registers without a code
		return access.ErrRequired
	}
	x := gate.Of(r.Context())
	applicant := Applicant{Code: strings.TrimSpace(code), SourceIP: x.Origin.SourceIP, RequestID: x.Origin.RequestID}
	if body.Name != nil {
		applicant.Model = *body.Name
	}
	made, err := s.phones.Register(r.Context(), applicant)
	if err != nil {
		return err
	}
	x.AddToLog("sender_no", made.SenderNo, "device_no", made.DeviceNo)
	return write(w, http.StatusCreated, struct {
		ID    string `json:"id"`
		Token string `json:"token"`
		Login string `json:"login"` // the app shows no login without a password
	}{made.DeviceNo, made.Token, made.Username})
}

// update accepts the report of the app at each start: its SIMs, and a token for Google push messages, which this server does not use.
func (s *server) update(w http.ResponseWriter, r *http.Request, phone Phone) error {
	var body struct {
		ID       string `json:"id"`
		SimCards []card `json:"simCards"`
	}
	if err := read(r, &body); err != nil {
		return err
	}
	if body.ID != phone.DeviceNo {
		return fault.New(fault.Forbidden, fault.AuthForbidden)
	}
	if err := s.phones.Senders.AddSims(r.Context(), phone.SenderNo, simsOf(phone, body.SimCards)); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// card is a SIM card in the report of the app.
type card struct {
	SimNumber   int16  `json:"simNumber"` // from 1
	PhoneNumber string `json:"phoneNumber"`
}

// maxSims is the maximum number of SIMs of a phone.
const maxSims = 10

// simsOf returns the SIMs of a phone; only one, if the phone was paired for one SIM. The app masks most numbers; a masked number is unknown.
func simsOf(p Phone, cards []card) (sims []sender.Sim) {
	isKnown := map[int16]bool{}
	for _, c := range cards {
		if c.SimNumber < 1 || c.SimNumber > maxSims || isKnown[c.SimNumber] || p.SimNumber != nil && *p.SimNumber != c.SimNumber {
			continue
		}
		isKnown[c.SimNumber] = true
		sim := sender.Sim{Slot: c.SimNumber}
		if number, err := phone.Normalise("phoneNumber", c.PhoneNumber, ""); err == nil && !strings.Contains(c.PhoneNumber, "*") {
			sim.PhoneNumber = &number
		}
		sims = append(sims, sim)
	}
	return sims
}

// message is a message in the format of the app.
type message struct {
	ID                 string      `json:"id"`
	Message            string      `json:"message"` // read by old versions of the app instead of textMessage
	TextMessage        textMessage `json:"textMessage"`
	PhoneNumbers       []string    `json:"phoneNumbers"`
	SimNumber          *int16      `json:"simNumber,omitempty"`
	WithDeliveryReport bool        `json:"withDeliveryReport"`
	ValidUntil         moment      `json:"validUntil"`
	State              string      `json:"state"`
	CreatedAt          moment      `json:"createdAt"`
}

type textMessage struct {
	Text string `json:"text"`
}

// pull returns the messages that a phone must send. pull ignores the parameter for the order, because a setting of the app determines the order, see
// settings.
func (s *server) pull(w http.ResponseWriter, r *http.Request, phone Phone) error {
	held, err := s.phones.Pull(r.Context(), phone)
	if err != nil {
		return err
	}
	gate.Of(r.Context()).AddToLog("held", len(held))
	messages := make([]message, len(held))
	for i, m := range held {
		messages[i] = message{
			ID: m.ID, Message: m.Text, TextMessage: textMessage{m.Text}, PhoneNumbers: []string{m.PhoneNumber}, SimNumber: m.Sim,
			WithDeliveryReport: true, ValidUntil: moment(m.ValidUntil), State: smsgate.Pending, CreatedAt: moment(m.CreatedAt),
		}
	}
	return write(w, http.StatusOK, messages)
}

// report accepts states of messages.
func (s *server) report(w http.ResponseWriter, r *http.Request, phone Phone) error {
	var items []json.RawMessage
	if err := read(r, &items); err != nil {
		return err
	}
	if len(items) > maxStates {
		return fault.New(fault.TooLarge, fault.RequestTooLarge)
	}
	states := make([]State, len(items))
	for i, item := range items {
		state, err := stateOf(item)
		if err != nil {
			return err
		}
		states[i] = state
	}
	if err := s.phones.Report(r.Context(), phone, states); err != nil {
		return err
	}
	gate.Of(r.Context()).AddToLog("states", len(states))
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// stateOf parses the state of one message. Each message has one recipient, and the state of the recipient is more exact than the state of the message.
func stateOf(raw json.RawMessage) (State, error) {
	var item struct {
		ID         string `json:"id"`
		State      string `json:"state"`
		Recipients []struct {
			State string  `json:"state"`
			Error *string `json:"error"`
		} `json:"recipients"`
	}
	if err := json.Unmarshal(raw, &item); err != nil {
		return State{}, fault.New(fault.Malformed, fault.RequestMalformed)
	}
	state := State{ID: item.ID, State: item.State, Raw: raw}
	if len(item.Recipients) == 1 {
		state.State = item.Recipients[0].State
		if said := item.Recipients[0].Error; said != nil {
			state.Error = *said
		}
	}
	if item.ID == "" || !slices.Contains(smsgate.States, state.State) {
		return State{}, fault.New(fault.Malformed, fault.RequestMalformed)
	}
	return state, nil
}

// settings returns the settings that the app needs as a sender of this server. The app keeps its other settings. Without notification_channel, a phone with
// Google services would wait for Google push messages, which this server does not send. Without processing_order, the phone would send its newest message
// first, and the leases of older messages would expire. Without signing_key, the app would sign received messages with a key of its own.
func (s *server) settings(w http.ResponseWriter, r *http.Request, phone Phone) error {
	settings := map[string]map[string]string{
		"gateway":  {"notification_channel": "SSE_ONLY"},
		"messages": {"processing_order": "FIFO"},
	}
	key, err := s.phones.SigningKey(r.Context(), phone)
	if err != nil {
		return err
	}
	if key != "" {
		settings["webhooks"] = map[string]string{"signing_key": key}
	}
	return write(w, http.StatusOK, settings)
}
