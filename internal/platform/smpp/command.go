// Package smpp implements the protocol SMPP 3.4 (issue 1.2), tolerant of SMPP 5.0: its PDUs, texts, long messages, receipts, and sessions of both sides. It
// knows no queue and no messages of LKSMS. Numbers of sections in comments are those of the specification of SMPP 3.4.
package smpp

import "fmt"

// A CommandID is the kind of a PDU (section 5.1.2.1).
type CommandID uint32

// These are the commands of SMPP 3.4.
const (
	GenericNack       CommandID = 0x80000000
	BindReceiver      CommandID = 0x00000001
	BindTransmitter   CommandID = 0x00000002
	QuerySM           CommandID = 0x00000003
	SubmitSM          CommandID = 0x00000004
	DeliverSM         CommandID = 0x00000005
	Unbind            CommandID = 0x00000006
	ReplaceSM         CommandID = 0x00000007
	CancelSM          CommandID = 0x00000008
	BindTransceiver   CommandID = 0x00000009
	Outbind           CommandID = 0x0000000B
	EnquireLink       CommandID = 0x00000015
	SubmitMulti       CommandID = 0x00000021
	AlertNotification CommandID = 0x00000102
	DataSM            CommandID = 0x00000103

	BindReceiverResp    = BindReceiver | response
	BindTransmitterResp = BindTransmitter | response
	QuerySMResp         = QuerySM | response
	SubmitSMResp        = SubmitSM | response
	DeliverSMResp       = DeliverSM | response
	UnbindResp          = Unbind | response
	ReplaceSMResp       = ReplaceSM | response
	CancelSMResp        = CancelSM | response
	BindTransceiverResp = BindTransceiver | response
	EnquireLinkResp     = EnquireLink | response
	SubmitMultiResp     = SubmitMulti | response
	DataSMResp          = DataSM | response
)

// response is the bit that distinguishes a response from its request.
const response CommandID = 0x80000000

var commandNames = map[CommandID]string{
	BindReceiver: "bind_receiver", BindTransmitter: "bind_transmitter", QuerySM: "query_sm", SubmitSM: "submit_sm", DeliverSM: "deliver_sm", Unbind: "unbind",
	ReplaceSM: "replace_sm", CancelSM: "cancel_sm", BindTransceiver: "bind_transceiver", Outbind: "outbind", EnquireLink: "enquire_link",
	SubmitMulti: "submit_multi", AlertNotification: "alert_notification", DataSM: "data_sm",
}

// String returns the name of the specification, such as submit_sm_resp.
func (c CommandID) String() string {
	if c == GenericNack {
		return "generic_nack"
	}
	name, known := commandNames[c&^response]
	switch {
	case !known:
		return fmt.Sprintf("0x%08x", uint32(c))
	case c.IsResponse():
		return name + "_resp"
	default:
		return name
	}
}

// IsResponse reports whether c is a response or generic_nack.
func (c CommandID) IsResponse() bool { return c&response != 0 }

// IsKnown reports whether SMPP 3.4 defines c.
func (c CommandID) IsKnown() bool {
	_, known := commandNames[c&^response]
	return c == GenericNack || known && (!c.IsResponse() || (c&^response).hasResponse())
}

// hasResponse reports whether the specification defines a response to the request c.
func (c CommandID) hasResponse() bool { return c != Outbind && c != AlertNotification }

// Response returns the command of the response to a request. It is generic_nack for an unknown request.
func (c CommandID) Response() CommandID {
	if !c.IsKnown() || c.IsResponse() || !c.hasResponse() {
		return GenericNack
	}
	return c | response
}
