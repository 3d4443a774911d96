// Package ismg simulates a gateway of a carrier that speaks CMPP 2.0 and 3.0.
package ismg

import (
	"cmp"
	"context"
	"errors"
	"time"

	"lksms/internal/platform/cmpp"
	"lksms/internal/platform/pdulink/simulated"
)

// Server is a simulated gateway.
type Server = simulated.Server[cmpp.PDU]

// DefaultSecret is the secret of clients if Options.Secret is empty: CMPP needs one.
const DefaultSecret = "secret"

// Listen starts a server on an address, for example 127.0.0.1:0. Options.Account is the identifier of the service provider; if it is empty, any is accepted. The
// body of a message is a *cmpp.Submit, and its id a decimal number.
func Listen(address string, o simulated.Options) (*Server, error) {
	return simulated.Listen[cmpp.PDU](address, protocol{o}, o)
}

type protocol struct{ options simulated.Options }

// connectLimit is the maximum time until CMPP_CONNECT.
const connectLimit = 10 * time.Second

func (p protocol) Serve(c *simulated.Client[cmpp.PDU]) {
	ctx, cancel := context.WithTimeout(context.Background(), connectLimit)
	defer cancel()
	window := cmp.Or(p.options.Window, 1000)
	secretOf := func(request *cmpp.Connect) (string, bool) {
		return cmp.Or(p.options.Secret, DefaultSecret), p.options.Account == "" || request.SourceAddr == p.options.Account
	}
	session, request, err := cmpp.Accept(ctx, c.Conn, secretOf, cmpp.Options{
		Window: window, MaxHandled: window,
		Handle: func(ctx context.Context, request cmpp.PDU) (cmpp.PDU, bool) { return p.handle(ctx, c, request) },
	})
	if err != nil {
		return
	}
	c.Bind(session, request.SourceAddr, true, true)
	<-session.Done()
}

func (protocol) handle(ctx context.Context, c *simulated.Client[cmpp.PDU], request cmpp.PDU) (cmpp.PDU, bool) {
	submit, isSubmit := request.(*cmpp.Submit)
	if !isSubmit {
		return nil, false
	}
	if len(submit.Destinations) != 1 {
		return &cmpp.SubmitResp{Result: cmpp.ResultBadDestination}, true
	}
	_, octets, _ := cmpp.SplitContent(submit.UDHI, submit.Content)
	text, _ := cmpp.DecodeText(submit.Format, octets)
	answer, isSent := c.Submit(ctx, simulated.Message{Account: submit.Source, From: submit.SourceNumber, To: submit.Destinations[0], Text: text, Body: submit})
	id, _ := cmpp.ParseMessageID(answer.ID)
	return &cmpp.SubmitResp{MessageID: id, Result: cmpp.Result(answer.Status)}, isSent
}

func (protocol) Receipt(m simulated.Message, r simulated.Receipt) cmpp.PDU {
	id, _ := cmpp.ParseMessageID(r.ID)
	now := time.Now().Format("0601021504")
	report := cmpp.Report{MessageID: id, Stat: r.Stat, SubmitTime: now, DoneTime: now, Destination: m.To}
	content, _ := report.Encode(cmpp.V20) // the simulated texts fit
	return &cmpp.Deliver{MessageID: id, Destination: m.From, Source: m.To, IsReport: 1, Content: content}
}

// errUnencoded is the error of a text that no format contains, or that needs too many parts.
var errUnencoded = errors.New("the text cannot be encoded")

func (protocol) Parts(from, to, text string, reference uint16) ([]cmpp.PDU, error) {
	parts, ok := cmpp.SplitText(text, []cmpp.Format{cmpp.FormatASCII, cmpp.FormatGBK, cmpp.FormatUCS2}, cmpp.Header8, reference)
	if !ok {
		return nil, errUnencoded
	}
	requests := make([]cmpp.PDU, len(parts))
	for i, part := range parts {
		id := cmpp.NewMessageID(time.Now(), 1, reference+uint16(i))
		requests[i] = &cmpp.Deliver{MessageID: id, Destination: to, Source: from, UDHI: part.UDHI, Format: part.Format, Content: part.Content}
	}
	return requests, nil
}

func (protocol) IsAccepted(response cmpp.PDU) bool {
	r, isResponse := response.(*cmpp.DeliverResp)
	return isResponse && r.Result == cmpp.ResultOK
}
