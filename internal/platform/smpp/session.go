package smpp

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"net"
	"time"

	"lksms/internal/platform/pdulink"
)

// A Session is one connection of SMPP in either role. It answers enquire_link and unbind. It knows no states of a bind: the handler of a server checks them. Request
// returns the answer whatever its status; it can be generic_nack. End sends unbind.
type Session = pdulink.Link[*PDU]

// A Config contains the settings of a session. A zero number means the default.
type Config struct {
	// Window is the maximum number of requests of this side without an answer; the default is 10. enquire_link and unbind do not count.
	Window int
	// Incoming is the maximum number of requests of the other side that are handled at the same time; the default is 1, which keeps their order.
	Incoming int
	// Overload is the status with which more requests are answered. Without it, no PDU is read until a handler ends, also no answer: then, handlers must not wait
	// for requests of the same session.
	Overload Status
	// Response is the time in which the other side must answer; the default is 30 s.
	Response time.Duration
	// Enquire is the time without a PDU of the other side after which enquire_link is sent. Without it, none is sent.
	Enquire time.Duration
	// Enquiries is the number of enquire_link after which the link is dead if nothing arrives; the default is 1.
	Enquiries int
	// Write is the time in which the other side must accept octets; the default is 30 s.
	Write time.Duration
	// MaxPDU is the greatest length of a PDU of the other side in octets; the default is the constant MaxPDU.
	MaxPDU int
	// Handler handles a request of the other side, except for enquire_link and unbind, and returns its answer. It returns nil to answer later with Session.Send, or
	// never. The context ends with the session. Without a handler, requests are answered with ESME_RINVBNDSTS.
	Handler func(ctx context.Context, s *Session, request *PDU) *PDU
	// Observe receives each PDU that is received or queued, also answers that arrive too late. It must not block, must not call the Session, and must not change
	// the PDU.
	Observe func(pdulink.Event[*PDU])
}

// maxSequence is the greatest sequence number of a request (section 5.1.4).
const maxSequence = 0x7FFFFFFF

// Start starts a session on a connection. The caller must call Close or End.
func Start(conn net.Conn, c Config) *Session {
	var s *Session
	options := pdulink.Options[*PDU]{
		Window:      cmp.Or(c.Window, 10),
		MaxHandled:  cmp.Or(c.Incoming, 1),
		Response:    cmp.Or(c.Response, 30*time.Second),
		Write:       cmp.Or(c.Write, 30*time.Second),
		Idle:        c.Enquire,
		Tests:       cmp.Or(c.Enquiries, 1),
		MaxSequence: maxSequence,
		Observe:     c.Observe,
		Handle: func(ctx context.Context, request *PDU) (*PDU, bool) {
			if c.Handler == nil {
				return request.Response(RInvBndSts, nil), request.Command.hasResponse()
			}
			answer := c.Handler(ctx, s, request)
			return answer, answer != nil
		},
	}
	s = pdulink.New(conn, pdulink.Protocol[*PDU](protocol{cmp.Or(c.MaxPDU, MaxPDU), c.Overload}), options)
	s.Start()
	return s
}

// A protocol tells a Session what it needs to know about PDUs.
type protocol struct {
	maxPDU   int
	overload Status
}

func (p protocol) Read(r *bufio.Reader) (uint32, *PDU, error) {
	pdu, err := Read(r, p.maxPDU)
	if e := (*Error)(nil); errors.As(err, &e) {
		answer := e.Response()
		return 0, nil, &pdulink.Malformed[*PDU]{
			Sequence: e.Sequence, IsResponse: e.Command.IsResponse(), Answer: answer, HasAnswer: answer != nil, IsFatal: e.IsFatal, Err: err,
		}
	}
	if err != nil {
		return 0, nil, err
	}
	return pdu.Sequence, pdu, nil
}

func (protocol) Append(dst []byte, sequence uint32, pdu *PDU) ([]byte, error) {
	numbered := *pdu
	numbered.Sequence = sequence
	return Append(dst, &numbered)
}

func (protocol) IsResponse(pdu *PDU) bool { return pdu.Command.IsResponse() }

func (protocol) Answers(request, response *PDU) bool {
	return response.Command == GenericNack || response.Command == request.Command.Response()
}

func (protocol) Test() *PDU { return &PDU{Command: EnquireLink} }

func (protocol) End() *PDU { return &PDU{Command: Unbind} }

func (protocol) Automatic(request *PDU) (response *PDU, ends, isAutomatic bool) {
	isAutomatic = request.Command == EnquireLink || request.Command == Unbind
	return request.Response(OK, nil), request.Command == Unbind, isAutomatic
}

func (p protocol) Refuse(request *PDU, reason pdulink.Refusal) (*PDU, bool) {
	status := p.overload
	switch {
	case reason == pdulink.Unencoded:
		status = RSysErr
	case reason == pdulink.Ending && status == OK:
		status = RThrottled
	}
	return request.Response(status, nil), status != OK && request.Command.hasResponse()
}
