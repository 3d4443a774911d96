// Package smsc simulates the message centre of a carrier that speaks SMPP.
package smsc

import (
	"cmp"
	"context"
	"time"

	"lksms/internal/platform/pdulink/simulated"
	"lksms/internal/platform/smpp"
)

// Server is a simulated message centre.
type Server = simulated.Server[*smpp.PDU]

// Listen starts a server on an address, for example 127.0.0.1:0. Options.Account is the system id; if it or Options.Secret is empty, any is accepted. The body of a
// message is a *smpp.Message.
func Listen(address string, o simulated.Options) (*Server, error) {
	return simulated.Listen[*smpp.PDU](address, protocol{o}, o)
}

type protocol struct{ options simulated.Options }

// style is the style of all texts.
var style = smpp.TextStyle{}

func (p protocol) Serve(c *simulated.Client[*smpp.PDU]) {
	window := cmp.Or(p.options.Window, 1000)
	session := smpp.Start(c.Conn, smpp.Config{
		Window: window, Incoming: window,
		Handler: func(ctx context.Context, session *smpp.Session, request *smpp.PDU) *smpp.PDU {
			return p.handle(ctx, c, session, request)
		},
	})
	<-session.Done()
}

func (p protocol) handle(ctx context.Context, c *simulated.Client[*smpp.PDU], session *smpp.Session, request *smpp.PDU) *smpp.PDU {
	switch body := request.Body.(type) {
	case *smpp.Bind:
		return p.bind(c, session, request, body)
	case *smpp.Message:
		if !c.Sends() {
			return request.Response(smpp.RInvBndSts, nil)
		}
		_, octets, _ := style.Part(body)
		answer, isSent := c.Submit(ctx, simulated.Message{
			From: body.Source.Number, To: body.Dest.Number, Text: style.Alphabet(body.DataCoding).Decode(octets), Body: body,
		})
		switch {
		case !isSent:
			return nil
		case answer.Status != 0:
			return request.Response(smpp.Status(answer.Status), nil)
		}
		return request.Response(smpp.OK, &smpp.MessageResp{MessageID: answer.ID})
	default:
		return request.Response(smpp.RInvCmdID, nil)
	}
}

func (p protocol) bind(c *simulated.Client[*smpp.PDU], session *smpp.Session, request *smpp.PDU, body *smpp.Bind) *smpp.PDU {
	if o := p.options; o.Account != "" && body.SystemID != o.Account {
		return request.Response(smpp.RInvSysID, nil)
	} else if o.Secret != "" && body.Password != o.Secret {
		return request.Response(smpp.RInvPaswd, nil)
	}
	c.Bind(session, body.SystemID, request.Command != smpp.BindReceiver, request.Command != smpp.BindTransmitter)
	return request.Response(smpp.OK, &smpp.BindResp{SystemID: "simulator"})
}

func (protocol) Receipt(m simulated.Message, r simulated.Receipt) *smpp.PDU {
	delivered := 0
	if r.Stat == simulated.Delivered {
		delivered = 1
	}
	state, _ := smpp.ParseState(r.Stat)
	report := smpp.Receipt{
		IDs: []string{r.ID}, State: state, HasState: true, Err: r.Err, Submitted: 1, Delivered: delivered, SubmitDate: time.Now(), DoneDate: time.Now(), Text: m.Text,
	}
	body := m.Body.(*smpp.Message) //nolint:forcetypeassert // of handle
	return &smpp.PDU{Command: smpp.DeliverSM, Body: report.Message(smpp.Message{Source: body.Dest, Dest: body.Source}, time.UTC)}
}

func (protocol) Parts(from, to, text string, reference uint16) ([]*smpp.PDU, error) {
	one := smpp.Message{Source: smpp.Address{TON: 1, NPI: 1, Number: from}, Dest: smpp.Address{Number: to}}
	messages, err := style.Messages(one, text, reference)
	requests := make([]*smpp.PDU, len(messages))
	for i, m := range messages {
		requests[i] = &smpp.PDU{Command: smpp.DeliverSM, Body: m}
	}
	return requests, err
}

func (protocol) IsAccepted(response *smpp.PDU) bool { return response.Status == smpp.OK }
