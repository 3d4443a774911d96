package smsgatephone

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"lksms/internal/fault"
	"lksms/internal/httpapi/gate"
	"lksms/internal/httpapi/stream"
	"lksms/internal/smsgate"
)

const (
	// eventApart is the shortest time between two events. An event makes the app pull anew, and break off a pull that is underway.
	eventApart = 3 * time.Second
	// eventWait is how long one look for messages waits. After that the phone must still be allowed to read.
	eventWait = 10 * time.Second
	// eventLook is the time between looks.
	eventLook = time.Second
)

// errNothing says that there is no event.
var errNothing = errors.New("nothing waits for the phone")

// events tells a phone that messages wait for it, for as long as it listens. The data is not read by the app.
func (s *server) events(w http.ResponseWriter, r *http.Request, phone smsgate.Phone) error {
	x := gate.Of(r.Context())
	leave, err := s.options.Streams.Open(x.Caller.User.Username, "phones")
	if err != nil {
		return err
	}
	defer leave()
	x.Stream()
	var last time.Time
	count := 0
	source := stream.Source{
		Event: "MessageEnqueued", Every: eventLook, IsPlain: true,
		Next: func(ctx context.Context) (data, what []byte, err error) {
			if time.Since(last) < eventApart {
				return nil, nil, errNothing
			}
			should, err := s.phones.AwaitMessages(ctx, phone, eventWait)
			if err != nil || !should {
				return nil, nil, errors.Join(err, errNothing)
			}
			count++
			last = time.Now()
			return []byte("{}"), []byte(strconv.Itoa(count)), nil
		},
		MayRead: func() error {
			if err := x.Caller.Authorise(); err != nil {
				return err
			}
			now, err := s.phones.Get(r.Context(), x.Caller.User.Username)
			if err == nil && now.DeviceNo != phone.DeviceNo {
				err = fault.New(fault.Forbidden, fault.AuthForbidden)
			}
			return err
		},
	}
	if err := s.options.Streams.Serve(r.Context(), w, source); err != nil {
		s.options.Log.Debug("stream ended", "request_id", x.Origin.RequestID, "error", err) // its reader has gone or is too slow
	}
	return nil
}
