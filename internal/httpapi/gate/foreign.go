package gate

import (
	"net/http"
	"time"
)

// Foreign is a route of another program's protocol, which the contract does not describe.
type Foreign struct {
	Pattern   string        // in a ServeMux
	Roles     []string      // that may call it; empty: everybody
	BodyBytes int64         // the largest body; 0: it takes none
	Time      time.Duration // for the work after the body has come
	Handle    func(w http.ResponseWriter, r *http.Request) error
}

// Foreign guards such a route as operations are guarded: who may call it, whether a connection is free, how large and how slow its body is, and
// how long it may take. Exchange.Body has the JSON of the body. An error of Handle is answered as that of an operation.
func (g *Gate) Foreign(route Foreign) http.Handler {
	return noStore(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := Of(r.Context())
		x.Operation = route.Pattern
		if err := g.handleForeign(w, r, x, route); err != nil {
			g.Fail(w, r, err)
		}
	}))
}

func (g *Gate) handleForeign(w http.ResponseWriter, r *http.Request, x *Exchange, route Foreign) error {
	if isBusy(r.Context()) {
		return ErrUnavailable
	}
	if len(route.Roles) > 0 {
		x.Caller.Authorise = func() error {
			x.Caller.isRepeated = true
			return g.authorise(r, route.Roles)
		}
		if err := g.authorise(r, route.Roles); err != nil {
			return err
		}
	}
	if route.BodyBytes == 0 || r.Body == nil || r.Body == http.NoBody {
		r.Body = http.NoBody
		x.within(route.Time)
		return route.Handle(w, r)
	}
	began := time.Now()
	done, err := g.receive(w, r, x, route.BodyBytes)
	if err != nil {
		return err
	}
	defer done()
	x.answering = done // a caller that reads slowly must not hold memory that others wait for
	if x.Caller.Authorise != nil && time.Since(began) > bodySoon {
		if err := x.Caller.Authorise(); err != nil { // the user may have been disabled while the body arrived
			return err
		}
	}
	if x.Body.Cut != nil {
		return x.Body.Cut
	}
	if err := g.parse(x); err != nil {
		return err
	}
	x.within(route.Time)
	return route.Handle(w, r)
}
