package carrier

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"

	"lksms/internal/dispatch/driver/provider"
	"lksms/internal/platform/smpp"
)

// smppProtocol is SMPP 3.4.
type smppProtocol struct {
	config   SMPPConfig
	settings settings
	style    smpp.TextStyle
	ids      smpp.IDForm
	tlvs     smpp.TLVs
	judged   map[smpp.Status]judgement
}

// NewSMPP returns a driver that sends through a carrier over SMPP. A fault names the error in the configuration.
func NewSMPP(config SMPPConfig, t provider.Tools) (*Driver[*smpp.PDU], error) {
	p, err := readSMPP(config)
	if err != nil {
		return nil, err
	}
	return newDriver[*smpp.PDU](p, p.settings, t), nil
}

func (p *smppProtocol) scheme() string {
	if p.config.TLS {
		return "smpps://"
	}
	return "smpp://"
}

func (p *smppProtocol) logins(isTest bool) []login[*smpp.PDU] {
	switch {
	case isTest:
		return []login[*smpp.PDU]{p.login(smpp.BindTransmitter)}
	case p.config.Bind == transmitterReceiver:
		return []login[*smpp.PDU]{p.login(smpp.BindTransmitter), p.login(smpp.BindReceiver)}
	default:
		return []login[*smpp.PDU]{p.login(smpp.BindTransceiver)}
	}
}

func (p *smppProtocol) login(kind smpp.CommandID) login[*smpp.PDU] {
	return func(ctx context.Context, conn net.Conn, w watcher[*smpp.PDU]) (*smpp.Session, error) {
		s := smpp.Start(conn, smpp.Config{
			Window: p.settings.window, Incoming: p.settings.window, Response: p.settings.response, Enquire: p.settings.test,
			Handler: func(ctx context.Context, _ *smpp.Session, request *smpp.PDU) *smpp.PDU { return w.take(ctx, request) },
			Observe: w.observe,
		})
		response, err := s.Request(ctx, &smpp.PDU{Command: kind, Body: &smpp.Bind{
			SystemID: p.config.SystemID, Password: p.config.Password, SystemType: p.config.SystemType, InterfaceVersion: smpp.Version34,
		}})
		switch {
		case err != nil:
			s.Close()
			return nil, fmt.Errorf("%s: %w", unanswered, err)
		case response.Status != smpp.OK:
			s.Close()
			return nil, fmt.Errorf("%s: %s", refused, response.Status)
		}
		return s, nil
	}
}

func (*smppProtocol) describe(part *smpp.PDU) (command, text string) {
	m := part.Body.(*smpp.Message) //nolint:forcetypeassert // parts returns only messages
	return "SUBMIT_SM", fmt.Sprintf("source_addr %s, destination_addr %s, data_coding %d, esm_class %#02x, validity_period %s, %d octets",
		m.Source.Number, m.Dest.Number, m.DataCoding, m.ESMClass, m.Validity, len(m.Content()))
}

func (p *smppProtocol) answer(response *smpp.PDU) answer {
	status := response.Status
	switch {
	case status == smpp.OK && response.Command == smpp.GenericNack:
		return answer{judgement: unclear, code: "generic_nack", text: "generic_nack without a status", raw: "generic_nack"}
	case status == smpp.OK:
		a := answer{isOK: true, raw: status.String()}
		if r, hasID := response.Body.(*smpp.MessageResp); hasID {
			a.number = smpp.IDKey(r.MessageID)
		}
		return a
	}
	return answer{judgement: p.judged[status], code: status.String(), text: status.String(), raw: fmt.Sprintf("%#08x %s", uint32(status), status)}
}

func (*smppProtocol) problem(err error) string {
	if e := new(smpp.Error); errors.As(err, &e) {
		return e.Field + " " + e.Problem
	}
	return ""
}

func (*smppProtocol) respond(request *smpp.PDU, r reaction) *smpp.PDU {
	switch r {
	case notTaken:
		return request.Response(smpp.RXTAppn, nil)
	case unknown:
		return request.Response(smpp.RInvCmdID, nil)
	default:
		return request.Response(smpp.OK, &smpp.MessageResp{})
	}
}

// judgements returns the judgements of the statuses without those of the configuration. A wrong source address is the fault of the message if its signature is the
// source address.
func (p *smppProtocol) judgements() map[smpp.Status]judgement {
	all := maps.Clone(smppJudgements)
	if p.config.SourceAddr == sign {
		all[smpp.RInvSrcAdr], all[smpp.RInvSrcAddrSub] = refuse, refuse
	}
	return all
}

// smppJudgements contains the judgements of the statuses that do not mean retryLater.
var smppJudgements = map[smpp.Status]judgement{
	smpp.RThrottled: slowDown, smpp.RMsgQFul: slowDown,

	smpp.RInvBndSts: trouble, smpp.RBindFail: trouble, smpp.RInvPaswd: trouble, smpp.RInvSysID: trouble, smpp.RInvSysTyp: trouble, smpp.RInvCmdID: trouble,
	smpp.RInvSrcAdr: trouble, smpp.RInvSrcTON: trouble, smpp.RInvSrcNPI: trouble, smpp.RInvSrcAddrSub: trouble, smpp.RInvSerTyp: trouble,
	smpp.RSerTypUnauth: trouble, smpp.RSerTypDenied: trouble, smpp.RInvRegDlvFlg: trouble, smpp.RInvDstTON: trouble, smpp.RInvDstNPI: trouble,
	smpp.ROptParNotAllwd: trouble, smpp.RInvParLen: trouble, smpp.RMissingOptParam: trouble, smpp.RInvOptParamVal: trouble,

	smpp.RInvMsgLen: refuse, smpp.RInvDstAdr: refuse, smpp.RInvDstAddrSub: refuse, smpp.RInvDCS: refuse, smpp.RInvExpiry: refuse, smpp.RXPAppn: refuse,
	smpp.RXRAppn: refuse, smpp.RProhibited: refuse, smpp.RInvEsmClass: refuse,
}
