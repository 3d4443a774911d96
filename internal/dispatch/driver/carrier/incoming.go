package carrier

import (
	"context"
	"errors"
	"time"
)

// takeLimit is the maximum time to store what the carrier sent.
const takeLimit = 10 * time.Second

// reaction is what a driver does with a request of the carrier.
type reaction int

// These are the reactions.
const (
	taken    reaction = iota
	notTaken          // the carrier sends the request again later
	unknown           // the driver does not know such requests
)

// errUnknown is the error of protocol.incoming.
var errUnknown = errors.New("the request is neither a receipt nor a message")

// take stores what the carrier sent, and returns the response.
func (d *Driver[P]) take(ctx context.Context, request P) (response P, isTaken bool) {
	in, err := d.protocol.incoming(request)
	switch {
	case err != nil:
		return d.protocol.respond(request, unknown), false
	case d.isTest(): // the carrier sends it again to a link
		return d.protocol.respond(request, notTaken), false
	}
	ctx, cancel := context.WithTimeout(ctx, takeLimit)
	defer cancel()
	if err := d.tools.Take(ctx, in); err != nil {
		d.tools.Log.WarnContext(ctx, "a message of a carrier could not be stored", "error", err)
		return d.protocol.respond(request, notTaken), false
	}
	return d.protocol.respond(request, taken), true
}
