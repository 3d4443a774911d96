package mobile

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"lksms/internal/platform/fault"
	"lksms/internal/transport/httpapi/gate"
	"lksms/internal/transport/httpapi/stream"
)

const (
	// minEventInterval is the minimum time between two events. After each event the app pulls again, and aborts a pull in progress.
	minEventInterval = 3 * time.Second
	// maxEventInterval is the maximum time between two events while messages wait that the phone cannot claim, for example because of its quota or share.
	maxEventInterval = 2 * time.Minute
	// eventWait is the duration of one wait for messages. After each wait, the permission of the phone is checked again.
	eventWait = 10 * time.Second
	// eventPoll is the interval of checking for events.
	eventPoll = time.Second
	// maxStream is the duration of a stream. The app then opens a new stream and pulls. A phone that disappeared without closing its stream therefore soon
	// counts as absent.
	maxStream = 5 * time.Minute
)

// streams contains the open streams of phones, by device_no.
type streams struct {
	mu   sync.Mutex
	ends map[string]*context.CancelFunc
}

// begin ends the phone's previous stream. It returns a context for the new stream and a function that ends it.
func (s *streams) begin(ctx context.Context, deviceNo string) (context.Context, func()) {
	ctx, end := context.WithCancel(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if before := s.ends[deviceNo]; before != nil {
		(*before)()
	}
	s.ends[deviceNo] = &end
	return ctx, func() {
		end()
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.ends[deviceNo] == &end {
			delete(s.ends, deviceNo)
		}
	}
}

// pacer limits the rate of events.
type pacer struct {
	apart   time.Duration // minimum time after the last event
	last    time.Time     // time of the last event
	claimed time.Time     // last known claim of new messages by the phone
}

// may reports whether an event can be sent now. claimed is the time of the phone's last claim of new messages.
func (p *pacer) may(now, claimed time.Time) bool {
	if !claimed.Equal(p.claimed) {
		p.claimed, p.apart = claimed, minEventInterval
	}
	return now.Sub(p.last) >= p.apart
}

// came records an event and doubles the interval. A claim by the phone resets the interval.
func (p *pacer) came(now time.Time) {
	if p.last = now; p.apart == 0 {
		p.apart = minEventInterval
		return
	}
	p.apart = min(2*p.apart, maxEventInterval)
}

// idle resets the interval when no message waits, so that the event of the next message is sent soon.
func (p *pacer) idle() { p.apart = minEventInterval }

// errNothing means that no event is necessary.
var errNothing = errors.New("nothing waits for the phone")

// These are the events that the app understands.
const (
	messageEnqueued = "MessageEnqueued"
	webhooksUpdated = "WebhooksUpdated"
	settingsUpdated = "SettingsUpdated"
	exportRequested = "MessagesExportRequested"
)

// notices returns the events other than messageEnqueued.
type notices struct {
	isHookedAsked, isKeyAsked bool
	export                    *Export // the request of the last event
}

// next returns the next event for a phone, and its data. An app that registers with a code reads its webhooks and settings before it has a token, and reads
// them again only after a day. next returns an empty name if no event is necessary.
func (n *notices) next(p Phone) (name string, data any) {
	switch {
	case !p.IsHooked && !n.isHookedAsked:
		n.isHookedAsked = true
		return webhooksUpdated, struct{}{}
	case !p.IsHooked && !n.isKeyAsked:
		n.isKeyAsked = true
		return settingsUpdated, struct{}{}
	case p.Export != nil:
		n.export = p.Export
		return exportRequested, struct {
			Since           moment `json:"since"`
			Until           moment `json:"until"`
			MessageTypes    string `json:"messageTypes"`
			TriggerWebhooks bool   `json:"triggerWebhooks"`
		}{moment(p.Export.Since), moment(p.Export.Until), "SMS", true}
	}
	return "", nil
}

// events sends an event to a phone each time messages wait for the phone, until the phone disconnects. The app ignores the data of this event. events also asks
// the phone to read its webhooks and settings, and to post received messages again.
func (s *server) events(w http.ResponseWriter, r *http.Request, phone Phone) error {
	x := gate.Of(r.Context())
	leave, err := s.options.Streams.Open(x.Caller.User.Username, "phones")
	if err != nil {
		return err
	}
	defer leave()
	ctx, end := s.streams.begin(r.Context(), phone.DeviceNo)
	defer end()
	x.Stream()
	limit := maxStream
	pace := pacer{apart: minEventInterval, last: time.Now()} // the app also pulls when a stream begins
	claimed, count, name, asked := phone.ClaimedAt, 0, messageEnqueued, notices{}
	source := stream.Source{
		EventOf: func() string { return name }, Every: eventPoll, Limit: &limit, IsPlain: true,
		Next: func(ctx context.Context) (data, identity []byte, err error) {
			if done := asked.export; done != nil { // its event was written
				if err := s.phones.endExport(ctx, phone, *done); err != nil {
					return nil, nil, err
				}
				if asked.export = nil; phone.Export != nil && *phone.Export == *done {
					phone.Export = nil
				}
			}
			var notice any
			if name, notice = asked.next(phone); name != "" {
				count++
				data, err = json.Marshal(notice)
				return data, []byte(strconv.Itoa(count)), err
			}
			name = messageEnqueued
			if !pace.may(time.Now(), claimed) {
				return nil, nil, errNothing
			}
			should, err := s.phones.AwaitMessages(ctx, phone, eventWait)
			if err != nil {
				return nil, nil, err
			}
			if !should {
				pace.idle()
				return nil, nil, errNothing
			}
			count++
			pace.came(time.Now())
			return []byte("{}"), []byte(strconv.Itoa(count)), nil
		},
		MayRead: func() error {
			if err := x.Caller.Authorise(); err != nil {
				return err
			}
			now, err := s.phones.Get(ctx, x.Caller.User.Username)
			claimed = now.ClaimedAt
			if err == nil && now.DeviceNo != phone.DeviceNo {
				return fault.New(fault.Forbidden, fault.AuthForbidden)
			}
			if err == nil {
				phone = now
			}
			return err
		},
	}
	if err := s.options.Streams.Serve(ctx, w, source); err != nil {
		s.options.Log.Debug("stream ended", "request_id", x.Origin.RequestID, "error", err) // the reader disconnected or is too slow
	}
	return nil
}
