package carrier

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"lksms/internal/dispatch/driver/provider"
	"lksms/internal/platform/cmpp"
)

// cmppProtocol is CMPP 2.0 or 3.0.
type cmppProtocol struct {
	config   CMPPConfig
	settings settings
	submit   cmpp.Submit // with the fields that all messages have in common
	judged   map[cmpp.Result]judgement
}

// NewCMPP returns a driver that sends through a carrier over CMPP. A fault names the error in the configuration.
func NewCMPP(config CMPPConfig, t provider.Tools) (*Driver[cmpp.PDU], error) {
	p, err := readCMPP(config)
	if err != nil {
		return nil, err
	}
	return newDriver[cmpp.PDU](p, p.settings, t), nil
}

func (*cmppProtocol) scheme() string { return "cmpp://" }

// logins returns one login: CMPP has no sessions that only send.
func (p *cmppProtocol) logins(bool) []login[cmpp.PDU] { return []login[cmpp.PDU]{p.login} }

// maxIncoming is the maximum number of receipts and messages that are being stored. More of them are refused, and some gateways do not repeat them.
const maxIncoming = 100

func (p *cmppProtocol) login(ctx context.Context, conn net.Conn, w watcher[cmpp.PDU]) (*cmpp.Session, error) {
	s, err := cmpp.Login(ctx, conn, cmpp.Credentials{
		Source: p.config.SourceAddr, Secret: p.config.SharedSecret, Version: versions[p.config.Version], Time: time.Now().In(cmpp.Zone),
		AllowUnproven: p.config.AllowUnproven,
	}, cmpp.Options{
		Window: p.settings.window, MaxHandled: maxIncoming, Response: p.settings.response, Idle: p.settings.test,
		Handle: func(ctx context.Context, request cmpp.PDU) (cmpp.PDU, bool) {
			response := w.take(ctx, request)
			return response, response != nil
		},
		Observe: w.observe,
	})
	refusal, version := new(cmpp.ConnectError), new(cmpp.VersionError)
	switch {
	case errors.As(err, &refusal), errors.As(err, &version), errors.Is(err, cmpp.ErrNotAuthentic):
		return nil, fmt.Errorf("%s: %w", refused, err)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", unanswered, err)
	}
	return s, nil
}

func (p *cmppProtocol) parts(m provider.Message, reference uint16) ([]cmpp.PDU, *provider.Outcome) {
	if refused := provider.ReadAsChinese(m.Recipient); refused != nil {
		return nil, refused
	}
	one := p.submit
	one.SourceNumber, one.Destinations = p.config.SrcID+p.config.Extensions[m.CompanyNo], []string{p.destination(m.Recipient)}
	if !m.ValidUntil.IsZero() {
		one.ValidTime = cmpp.ValidTime(m.ValidUntil)
	}
	parts, ok := cmpp.SplitText(m.Content, formats[p.config.MsgFmt], headers[p.config.LongMessages], reference)
	if !ok {
		return nil, &tooLong
	}
	all := make([]cmpp.PDU, len(parts))
	for i, part := range parts {
		submit := one
		part.Apply(&submit)
		all[i] = &submit
	}
	return all, nil
}

func (*cmppProtocol) describe(part cmpp.PDU) (command, text string) {
	s := part.(*cmpp.Submit) //nolint:forcetypeassert // parts returns only these
	return "CMPP_SUBMIT", fmt.Sprintf("Src_Id %s, Dest_terminal_Id %s, Msg_Fmt %d, TP_udhi %d, ValId_Time %s, %d octets",
		s.SourceNumber, s.Destinations[0], s.Format, s.UDHI, s.ValidTime, len(s.Content))
}

func (p *cmppProtocol) answer(response cmpp.PDU) answer {
	r := response.(*cmpp.SubmitResp) //nolint:forcetypeassert // no other PDU answers a Submit
	if r.Result == cmpp.ResultOK {
		a := answer{isOK: true, raw: r.Result.String()}
		if r.MessageID != 0 {
			a.number = r.MessageID.String()
		}
		return a
	}
	return answer{judgement: p.judged[r.Result], code: fmt.Sprint(uint32(r.Result)), text: r.Result.String(), raw: r.Result.String()}
}

func (*cmppProtocol) problem(err error) string {
	if e := new(cmpp.FieldError); errors.As(err, &e) {
		return e.Error()
	}
	return ""
}

// cmppJudgements contains the judgements of the results that do not mean retryLater.
var cmppJudgements = map[cmpp.Result]judgement{
	cmpp.ResultThrottled: slowDown,

	cmpp.ResultBadPDU: trouble, cmpp.ResultBadCommand: trouble, cmpp.ResultBadFee: trouble, cmpp.ResultBadService: trouble, cmpp.ResultBadSourceID: trouble,
	cmpp.ResultBadSource: trouble, cmpp.ResultBadFeeNumber: trouble,

	cmpp.ResultBadLength: refuse, cmpp.ResultTooLong: refuse, cmpp.ResultBadDestination: refuse,
}
