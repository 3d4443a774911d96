package cmpp

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"time"

	"lksms/internal/platform/pdulink"
)

// A Session is a link between an SP and an ISMG after the CMPP_CONNECT. Both sides use the same type. Request sends a Submit, Query, Cancel or Deliver, and End
// sends a Terminate. The Session itself answers ActiveTest and Terminate.
type Session = pdulink.Link[PDU]

// Options are the limits and functions of a Session. A limit of zero means the value of the specification: a window of 16 (6.4), 60 s for a response, 180 s until
// the first ActiveTest, and 3 tests (6.1). MaxHandled is twice the window by default; a Submit or Deliver above it is answered with ResultThrottled.
//
// The PDUs for Handle are a Deliver at an SP, and a Submit, Query or Cancel at an ISMG.
type Options = pdulink.Options[PDU]

func withDefaults(o Options) Options {
	o.Window = cmp.Or(o.Window, 16)
	o.MaxHandled = cmp.Or(o.MaxHandled, 2*o.Window)
	o.Response = cmp.Or(o.Response, 60*time.Second)
	o.Write = cmp.Or(o.Write, o.Response)
	o.Idle = cmp.Or(o.Idle, 180*time.Second)
	o.Tests = cmp.Or(o.Tests, 3)
	o.MaxSequence = cmp.Or(o.MaxSequence, math.MaxUint32)
	return o
}

func start(conn net.Conn, version Version, options Options) *Session {
	s := pdulink.New(conn, pdulink.Protocol[PDU](protocol{version}), withDefaults(options))
	s.Start()
	return s
}

// ErrNotAuthentic is the error of a Login at an ISMG that does not know the secret.
var ErrNotAuthentic = errors.New("CMPP_CONNECT_RESP: AuthenticatorISMG is wrong: the gateway does not know the shared secret")

// ConnectError is the error of a Login that the ISMG rejected.
type ConnectError struct {
	Status  ConnectStatus
	Version Version // the highest version that the ISMG speaks
}

func (e *ConnectError) Error() string {
	return fmt.Sprintf("CMPP_CONNECT_RESP: status %s; the gateway speaks CMPP %s", e.Status, e.Version)
}

// VersionError is the error of a Login whose response has the fields of another version than the Connect.
type VersionError struct{ Asked Version }

func (e *VersionError) Error() string {
	return fmt.Sprintf("the gateway answered a CMPP_CONNECT of CMPP %s with the fields of another version: set the other version", e.Asked)
}

// Credentials are what an SP needs for a Login.
type Credentials struct {
	Source  string // the identifier of the SP, at most 6 octets
	Secret  string
	Version Version
	Time    time.Time // now, in the zone of the ISMG
	// AllowUnproven accepts an ISMG with a wrong AuthenticatorISMG. Some gateways send no valid one.
	AllowUnproven bool
}

// Login starts a Session of an SP over a new connection to an ISMG (6.1, 7.4.1). The context limits the time of the Login alone. If Login fails, it closes the
// connection.
func Login(ctx context.Context, conn net.Conn, credentials Credentials, options Options) (*Session, error) {
	release := limit(ctx, conn)
	err := login(conn, credentials, options.Observe)
	if late := release(); late != nil {
		err = late
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return start(conn, credentials.Version, options), nil
}

// limit ends the reads and writes of conn with the context. The returned function ends this, and returns the cause if the context ended before.
func limit(ctx context.Context, conn net.Conn) (release func() error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	return func() error {
		if !stop() {
			return context.Cause(ctx)
		}
		return nil
	}
}

// connectSequence is the sequence number of a Connect. Numbers need not differ between a Connect and the requests after it.
const connectSequence = 1

// login exchanges the CMPP_CONNECT. observe can be nil.
func login(conn net.Conn, credentials Credentials, observe func(pdulink.Event[PDU])) error {
	if observe == nil {
		observe = func(pdulink.Event[PDU]) {}
	}
	request := NewConnect(credentials.Source, credentials.Secret, credentials.Version, NewTimestamp(credentials.Time))
	octets, err := Append(nil, credentials.Version, Frame{Sequence: connectSequence, PDU: request})
	if err != nil {
		return err
	}
	observe(pdulink.Event[PDU]{Sent: true, Sequence: connectSequence, PDU: request})
	if _, err = conn.Write(octets); err != nil {
		return err
	}
	raw, err := readRaw(conn)
	if err != nil {
		return fmt.Errorf("CMPP_CONNECT_RESP: %w", err)
	}
	frame, err := decode(raw, credentials.Version)
	if err != nil {
		observe(pdulink.Event[PDU]{Err: malformed(err)})
		return err
	}
	observe(pdulink.Event[PDU]{Sequence: frame.Sequence, PDU: frame.PDU})
	response, isResponse := frame.PDU.(*ConnectResp)
	switch {
	case !isResponse || frame.Sequence != connectSequence:
		return fmt.Errorf("the gateway answered CMPP_CONNECT with %s %d", CommandOf(frame.PDU), frame.Sequence)
	case response.Status != ConnectOK:
		return &ConnectError{Status: response.Status, Version: response.Version}
	case credentials.Version.isV3() == (len(raw.body) == connectRespLength):
		return &VersionError{Asked: credentials.Version}
	case !credentials.AllowUnproven && !response.IsAuthentic(request, credentials.Secret):
		return ErrNotAuthentic
	}
	return nil
}

// Accept starts a Session of an ISMG over a new connection from an SP. secretOf returns the secret of a known SP. The context limits the time of the Accept alone.
// If Accept fails, it answers the SP and closes the connection.
func Accept(ctx context.Context, conn net.Conn, secretOf func(*Connect) (secret string, known bool), options Options) (*Session, *Connect, error) {
	release := limit(ctx, conn)
	request, err := accept(conn, secretOf)
	if late := release(); late != nil {
		err = late
	}
	if err != nil {
		_ = conn.Close()
		return nil, nil, err
	}
	return start(conn, request.Version, options), request, nil
}

func accept(conn net.Conn, secretOf func(*Connect) (string, bool)) (*Connect, error) {
	frame, err := Read(conn, V20) // the fields of a Connect are the same in all versions
	if err != nil {
		return nil, err
	}
	request, isConnect := frame.PDU.(*Connect)
	if !isConnect {
		return nil, fmt.Errorf("the first PDU is %s: it must be CMPP_CONNECT", CommandOf(frame.PDU))
	}
	secret, known := secretOf(request)
	status := ConnectOK
	switch {
	case !request.Version.IsKnown():
		status = ConnectBadVersion
	case !known:
		status = ConnectBadSource
	case !request.IsAuthentic(secret):
		status = ConnectBadSecret
	}
	response := NewConnectResp(request, status, secret, V30)
	octets, err := Append(nil, request.Version, Frame{Sequence: frame.Sequence, PDU: response})
	if err != nil {
		return nil, err
	}
	if _, err = conn.Write(octets); err != nil {
		return nil, err
	}
	if status != ConnectOK {
		return nil, &ConnectError{Status: status, Version: V30}
	}
	return request, nil
}

// A protocol is the pdulink.Protocol of a version.
type protocol struct{ version Version }

func (p protocol) Read(r *bufio.Reader) (uint32, PDU, error) {
	frame, err := Read(r, p.version)
	return frame.Sequence, frame.PDU, malformed(err)
}

// malformed returns a DecodeError as the error of a Link. It returns any other error unchanged.
func malformed(err error) error {
	var decode *DecodeError
	if !errors.As(err, &decode) {
		return err
	}
	answer := rejection(decode.Command)
	return &pdulink.Malformed[PDU]{
		Sequence: decode.Sequence, IsResponse: decode.Command.IsResponse(), Answer: answer, HasAnswer: answer != nil, Err: err,
	}
}

// rejection returns the response to a request that could not be decoded, or nil. The responses to other commands have no result.
func rejection(command Command) PDU {
	switch command {
	case CommandSubmit:
		return &SubmitResp{Result: ResultBadPDU}
	case CommandDeliver:
		return &DeliverResp{Result: ResultBadPDU}
	default:
		return nil
	}
}

func (p protocol) Append(dst []byte, sequence uint32, pdu PDU) ([]byte, error) {
	return Append(dst, p.version, Frame{Sequence: sequence, PDU: pdu})
}

func (protocol) IsResponse(pdu PDU) bool { return CommandOf(pdu).IsResponse() }

func (protocol) Answers(request, response PDU) bool {
	return CommandOf(request).Response() == CommandOf(response)
}

func (protocol) Test() PDU { return &ActiveTest{} }

func (protocol) End() PDU { return &Terminate{} }

func (protocol) Automatic(request PDU) (response PDU, ends, isAutomatic bool) {
	switch request.(type) {
	case *ActiveTest:
		return &ActiveTestResp{}, false, true
	case *Terminate:
		return &TerminateResp{}, true, true
	default:
		return nil, false, false
	}
}

func (protocol) Refuse(request PDU, reason pdulink.Refusal) (PDU, bool) {
	result := ResultThrottled
	if reason == pdulink.Unencoded {
		result = ResultOther
	}
	switch request := request.(type) {
	case *Submit:
		return &SubmitResp{Result: result}, true
	case *Deliver:
		return &DeliverResp{MessageID: request.MessageID, Result: result}, true
	default:
		return nil, false
	}
}
