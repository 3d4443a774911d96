package thirdparty

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"time"

	"lksms/internal/dispatch/phone"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/logtext"
	"lksms/internal/platform/postgres"
	"lksms/internal/transport/httpapi/gate"
)

// message is a posted message in the format of SMSGate.
type message struct {
	ID          string    `json:"id"`
	DeviceID    string    `json:"deviceId"`
	Message     string    `json:"message"` // older name of TextMessage
	TextMessage *content  `json:"textMessage"`
	DataMessage *struct{} `json:"dataMessage"`

	PhoneNumbers []string `json:"phoneNumbers"`
	IsEncrypted  bool     `json:"isEncrypted"`
	SimNumber    *int     `json:"simNumber"`
	Priority     int      `json:"priority"`
	TTL          *int64   `json:"ttl"`
	ValidUntil   *instant `json:"validUntil"`
	ScheduleAt   *instant `json:"scheduleAt"`

	// WithDeliveryReport is ignored: states always include the provider's receipts.
	WithDeliveryReport *bool `json:"withDeliveryReport"`
}

type content struct {
	Text string `json:"text"`
}

// instant is a time with a time zone. Its decoding error names the field.
type instant time.Time

// UnmarshalJSON implements json.Unmarshaler for a time in RFC 3339.
func (i *instant) UnmarshalJSON(text []byte) error {
	if (*time.Time)(i).UnmarshalJSON(text) != nil {
		return &json.UnmarshalTypeError{Value: "string", Type: reflect.TypeFor[time.Time]()}
	}
	return nil
}

// maxSIM is the maximum SIM number in SMSGate.
const maxSIM = 3

// check rejects a message with features that this server does not support.
func (m message) check() error {
	switch {
	case m.IsEncrypted:
		return refuse("isEncrypted: encrypted texts are not supported: send the plain text")
	case m.DataMessage != nil:
		return refuse("dataMessage: data messages are not supported: send a textMessage")
	case m.Message != "" && m.TextMessage != nil:
		return refuse("must specify exactly one of: textMessage or message")
	case m.SimNumber != nil && (*m.SimNumber < 1 || *m.SimNumber > maxSIM):
		return refuse("simNumber: must be between 1 and 3")
	case m.SimNumber != nil && *m.SimNumber > 1:
		return refuse("simNumber: a device has one SIM here: choose another deviceId, or leave simNumber out")
	}
	return nil
}

func (m message) asked() Message {
	text := m.Message
	if m.TextMessage != nil {
		text = m.TextMessage.Text
	}
	return Message{
		ID: m.ID, PhoneNumbers: m.PhoneNumbers, Text: text, DeviceID: m.DeviceID, Priority: m.Priority, TTL: m.TTL, ValidUntil: (*time.Time)(m.ValidUntil),
		ScheduleAt: (*time.Time)(m.ScheduleAt),
	}
}

// isToMany reports whether a body contains more than one recipient or is unreadable.
func isToMany(_ *http.Request, body []byte) bool {
	var m struct {
		PhoneNumbers []json.RawMessage `json:"phoneNumbers"`
	}
	return json.Unmarshal(body, &m) != nil || len(m.PhoneNumbers) > 1
}

// send submits a message.
func (s *server) send(w http.ResponseWriter, r *http.Request) error {
	x := gate.Of(r.Context())
	var m message
	if err := read(r, &m); err != nil {
		return err
	}
	x.AddToLog("recipients", len(m.PhoneNumbers))
	if hours := r.URL.Query().Get("deviceActiveWithin"); hours != "" && hours != "0" {
		return refuse("deviceActiveWithin: not supported: a message waits for a sender")
	}
	state, err := State{}, m.check()
	if err == nil {
		state, err = s.Messages.Send(r.Context(), m.asked(), x.Origin)
	}
	if err != nil {
		s.storeRefusal(r, m.asked(), err)
		return err
	}
	if len(m.PhoneNumbers) == 1 { // logged only after Send has checked that the text is a phone number
		x.AddToLog("phone", phone.Mask(m.PhoneNumbers[0]))
	}
	w.Header().Set("Location", Prefix+"/messages/"+url.PathEscape(state.ID))
	write(w, http.StatusAccepted, messageOf(state, false))
	return nil
}

// storeRefusal stores a rejected message, in the same way as other interfaces. It stores one row for each recipient, so that an erasure finds the row by its
// phone number.
func (s *server) storeRefusal(r *http.Request, m Message, err error) {
	var status int
	var answer errorAnswer
	var own *refusal
	var f *fault.Error
	switch {
	case errors.As(err, &own):
		status, answer = own.status, errorAnswer{Message: own.text}
	case errors.As(err, &f) && gate.IsRefusal(f):
		status, answer = faultAnswer(r, gate.StatusOf(f.Kind), f)
	default:
		return
	}
	m.PhoneNumbers = m.PhoneNumbers[:min(len(m.PhoneNumbers), MaxRecipients)]
	m.ID, m.Text = logtext.Text(m.ID), logtext.Text(m.Text) // each row contains the id and the text
	raws, err := m.Raws()
	if err != nil {
		return
	}
	body, err := json.Marshal(answer)
	if err != nil {
		return
	}
	refused := make([]submit.Refused, len(raws))
	for i, raw := range raws {
		refused[i] = submit.Refused{Raw: raw, Status: status, Answer: body}
	}
	if len(refused) > 0 {
		s.gate.StoreRefusals(r.Context(), refused...)
	}
}

// get returns the state of a message.
func (s *server) get(w http.ResponseWriter, r *http.Request) error {
	state, err := s.Messages.Get(r.Context(), gate.Of(r.Context()).Origin, r.PathValue("id"))
	if err != nil {
		return err
	}
	write(w, http.StatusOK, messageOf(state, true))
	return nil
}

// cancel cancels a message that no device has claimed.
func (s *server) cancel(w http.ResponseWriter, r *http.Request) error {
	state, err := s.Messages.Cancel(r.Context(), gate.Of(r.Context()).Origin, r.PathValue("id"))
	if err != nil {
		return err
	}
	write(w, http.StatusOK, messageOf(state, false))
	return nil
}

// pageSize is the default number of messages in a list.
const pageSize = 50

// list returns the states of messages.
func (s *server) list(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	page, err := pageOf(query, pageSize)
	if err != nil {
		return err
	}
	f := Filter{Limit: page.limit, Offset: page.offset, From: page.from, To: page.to, DeviceID: page.deviceID}
	if query.Get("state") != "" {
		return refuse("state: lists cannot be narrowed by state: register a webhook, or read the state of each message")
	}
	switch query.Get("sort") {
	case "", "-created_at":
	case "created_at":
		f.Ascending = true
	default:
		return fault.InvalidField("sort", fault.NotAllowed, []string{"created_at", "-created_at"})
	}
	withContent, err := strconv.ParseBool(query.Get("includeContent"))
	if err != nil && query.Get("includeContent") != "" {
		return fault.InvalidField("includeContent", fault.WrongFormat, nil)
	}
	f.WithText = withContent
	states, total, err := s.Messages.List(r.Context(), gate.Of(r.Context()).Origin, f)
	if err != nil {
		return err
	}
	answer := make([]messageState, len(states))
	for i, state := range states {
		answer[i] = messageOf(state, withContent)
	}
	w.Header().Set("X-Total-Count", strconv.FormatInt(total, 10))
	write(w, http.StatusOK, answer)
	return nil
}

// page contains the parameters that all lists have.
type page struct {
	limit, offset int
	from, to      *time.Time
	deviceID      *string
}

// pageOf reads the parameters that all lists have. Fault: request.invalid.
func pageOf(query url.Values, limit int) (p page, err error) {
	p.limit = limit
	for name, to := range map[string]*int{"limit": &p.limit, "offset": &p.offset} {
		if text := query.Get(name); text != "" {
			n, err := strconv.ParseInt(text, 10, 32)
			if err != nil {
				return p, fault.InvalidField(name, fault.WrongFormat, nil)
			}
			*to = int(n)
		}
	}
	for name, to := range map[string]**time.Time{"from": &p.from, "to": &p.to} {
		if text := query.Get(name); text != "" {
			at, err := time.Parse(time.RFC3339, text)
			if err != nil || at.UTC().Year() < 1 || at.UTC().Year() > 9999 {
				return p, fault.InvalidField(name, fault.NotATime, nil)
			}
			*to = &at
		}
	}
	if device := query.Get("deviceId"); device != "" {
		if !postgres.IsText(device) {
			return p, fault.InvalidField("deviceId", fault.BadCharacters, nil)
		}
		p.deviceID = &device
	}
	return p, nil
}

// messageState is the state of a message in the format of SMSGate.
type messageState struct {
	ID          string               `json:"id"`
	DeviceID    string               `json:"deviceId"`
	State       string               `json:"state"`
	IsHashed    bool                 `json:"isHashed"`
	IsEncrypted bool                 `json:"isEncrypted"`
	Recipients  []recipientAnswer    `json:"recipients"`
	States      map[string]time.Time `json:"states"`
	TextMessage *content             `json:"textMessage,omitempty"`
}

type recipientAnswer struct {
	PhoneNumber string  `json:"phoneNumber"`
	State       string  `json:"state"`
	Error       *string `json:"error,omitempty"`
}

func messageOf(s State, withContent bool) messageState {
	m := messageState{ID: s.ID, DeviceID: s.DeviceID, State: s.State, Recipients: make([]recipientAnswer, len(s.Recipients)), States: s.States}
	for i, one := range s.Recipients {
		m.Recipients[i] = recipientAnswer{PhoneNumber: one.PhoneNumber, State: one.State}
		if one.Error != "" {
			m.Recipients[i].Error = &one.Error
		}
	}
	if withContent && s.Text != "" {
		m.TextMessage = &content{s.Text}
	}
	return m
}
