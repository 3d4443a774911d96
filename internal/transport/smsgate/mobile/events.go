package mobile

import (
	"context"
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
	// minEventInterval is the shortest time between two events. An event makes the app pull anew, and break off a pull that is underway.
	minEventInterval = 3 * time.Second
	// maxEventInterval is the longest time between two events while messages wait that the phone does not get, because its quota, its share or something
	// else keeps them from it.
	maxEventInterval = 2 * time.Minute
	// eventWait is how long one poll for messages waits. After that the phone must still be allowed to read.
	eventWait = 10 * time.Second
	// eventPoll is the time between polls.
	eventPoll = time.Second
	// maxStream is how long a stream lasts. The app opens another one and pulls. A phone that has gone without a word counts as present no longer.
	maxStream = 5 * time.Minute
)

// streams are the streams of phones, by device_no.
type streams struct {
	mu   sync.Mutex
	ends map[string]*context.CancelFunc
}

// begin ends the stream that a phone had before, and returns how the new one is ended.
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

// pacer decides when the next event may come.
type pacer struct {
	apart   time.Duration // since the last one
	last    time.Time     // when the last one came
	claimed time.Time     // when the phone had last got new messages then
}

// may reports whether an event may come now. claimed is when the phone last got new messages.
func (p *pacer) may(now, claimed time.Time) bool {
	if !claimed.Equal(p.claimed) {
		p.claimed, p.apart = claimed, minEventInterval
	}
	return now.Sub(p.last) >= p.apart
}

// came counts an event. The next one waits twice as long, unless the phone gets messages.
func (p *pacer) came(now time.Time) {
	if p.last = now; p.apart == 0 {
		p.apart = minEventInterval
		return
	}
	p.apart = min(2*p.apart, maxEventInterval)
}

// idle records that no message waits, so that the event of the next message comes soon.
func (p *pacer) idle() { p.apart = minEventInterval }

// errNothing says that there is no event.
var errNothing = errors.New("nothing waits for the phone")

// events sends a phone an event when messages wait for it, for as long as it listens. The app does not read the data of the event.
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
	pace := pacer{apart: minEventInterval, last: time.Now()} // the app pulls when the stream begins
	claimed, count := phone.ClaimedAt, 0
	source := stream.Source{
		Event: "MessageEnqueued", Every: eventPoll, Limit: &limit, IsPlain: true,
		Next: func(ctx context.Context) (data, what []byte, err error) {
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
				err = fault.New(fault.Forbidden, fault.AuthForbidden)
			}
			return err
		},
	}
	if err := s.options.Streams.Serve(ctx, w, source); err != nil {
		s.options.Log.Debug("stream ended", "request_id", x.Origin.RequestID, "error", err) // its reader has gone or is too slow
	}
	return nil
}
