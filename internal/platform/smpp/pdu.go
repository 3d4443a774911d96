package smpp

import "strings"

// A PDU is one protocol data unit: a request or a response. Body is nil for commands without fields, such as enquire_link, and for generic_nack. A response with
// an error may also be sent without Body.
type PDU struct {
	Command  CommandID
	Status   Status
	Sequence uint32
	Body     Body
}

// A Body contains the fields of a command: *Bind, *BindResp, *OutbindBody, *Message, *MessageResp, *Multi, *MultiResp, *Query, *QueryResp, *Cancel, *Replace
// or *Alert. Its octets are parts of the PDU from which it was decoded.
type Body interface {
	// code decodes or encodes the fields in the order of the specification.
	code(c *coder, command CommandID)
}

// newBody returns an empty body of a command, and nil for a command without fields.
func newBody(command CommandID) Body {
	switch command {
	case BindReceiver, BindTransmitter, BindTransceiver:
		return &Bind{}
	case BindReceiverResp, BindTransmitterResp, BindTransceiverResp:
		return &BindResp{}
	case Outbind:
		return &OutbindBody{}
	case SubmitSM, DeliverSM, DataSM:
		return &Message{}
	case SubmitSMResp, DeliverSMResp, DataSMResp:
		return &MessageResp{}
	case SubmitMulti:
		return &Multi{}
	case SubmitMultiResp:
		return &MultiResp{}
	case QuerySM:
		return &Query{}
	case QuerySMResp:
		return &QueryResp{}
	case CancelSM:
		return &Cancel{}
	case ReplaceSM:
		return &Replace{}
	case AlertNotification:
		return &Alert{}
	default:
		return nil
	}
}

// Response returns the response to the request p, with its sequence number. Body can be nil if status is an error.
func (p *PDU) Response(status Status, body Body) *PDU {
	return &PDU{Command: p.Command.Response(), Status: status, Sequence: p.Sequence, Body: body}
}

// An Address is the type of number, the numbering plan and the number of a mobile station or application (sections 5.2.5 to 5.2.9). A number has at most 20
// octets in most commands, and at most 64 in data_sm.
type Address struct {
	TON, NPI uint8
	Number   string
}

// These are types of numbers (section 5.2.5).
const (
	International = 1 // the number begins with the code of its country
	Name          = 5 // the number is a name
)

// Phone returns the number. A number of the type International begins with +, however the other side wrote it.
func (a Address) Phone() string {
	digits := strings.TrimPrefix(strings.TrimPrefix(a.Number, "+"), "00")
	if a.TON != International || digits == "" {
		return a.Number
	}
	return "+" + digits
}

func (a *Address) code(c *coder, field string, status Status) {
	c.octet(&a.TON)
	c.octet(&a.NPI)
	c.text(&a.Number, field, status)
}

// A Bind is the body of bind_transmitter, bind_receiver and bind_transceiver (section 4.1). SystemID has at most 15 octets, Password 8 and SystemType 12, but
// many carriers accept and require more. AddressRange is an expression for the numbers that the ESME serves.
type Bind struct {
	SystemID, Password, SystemType string
	InterfaceVersion               uint8
	AddressRange                   Address
}

// Version34 is the interface version of SMPP 3.4 (section 5.2.4).
const Version34 = 0x34

func (b *Bind) code(c *coder, _ CommandID) {
	c.text(&b.SystemID, "system_id", RInvSysID)
	c.text(&b.Password, "password", RInvPaswd)
	c.text(&b.SystemType, "system_type", RInvSysTyp)
	c.octet(&b.InterfaceVersion)
	b.AddressRange.code(c, "address_range", RBindFail)
}

// A BindResp is the body of the responses to binds (section 4.1.2).
type BindResp struct {
	SystemID string
	TLVs     TLVs
}

func (b *BindResp) code(c *coder, _ CommandID) { c.idAndTLVs(&b.SystemID, "system_id", &b.TLVs) }

// An OutbindBody is the body of outbind, by which an SMSC asks an ESME to bind (section 4.1.7).
type OutbindBody struct{ SystemID, Password string }

func (o *OutbindBody) code(c *coder, _ CommandID) {
	c.text(&o.SystemID, "system_id", RInvSysID)
	c.text(&o.Password, "password", RInvPaswd)
}

// A Message is the body of submit_sm, deliver_sm and data_sm (sections 4.4 to 4.7). Times have the format of ParseTime. Short has at most 255 octets (254 in SMPP
// 3.4); a longer text is in the parameter message_payload. data_sm has no Short, and does not contain the fields from ProtocolID to Validity, ReplaceIfPresent
// and DefaultMessage.
type Message struct {
	ServiceType        string
	Source, Dest       Address
	ESMClass           uint8
	ProtocolID         uint8
	Priority           uint8
	Schedule, Validity string
	RegisteredDelivery uint8
	ReplaceIfPresent   uint8
	DataCoding         uint8
	DefaultMessage     uint8
	Short              []byte
	TLVs               TLVs
}

func (m *Message) code(c *coder, command CommandID) {
	c.text(&m.ServiceType, "service_type", RInvSerTyp)
	m.Source.code(c, "source_addr", RInvSrcAdr)
	m.Dest.code(c, "destination_addr", RInvDstAdr)
	if command == DataSM {
		c.octet(&m.ESMClass)
		c.octet(&m.RegisteredDelivery)
		c.octet(&m.DataCoding)
	} else {
		m.codeContent(c)
	}
	c.tlvs(&m.TLVs)
}

// codeContent codes the fields that submit_sm, deliver_sm and submit_multi have after the addresses.
func (m *Message) codeContent(c *coder) {
	c.octet(&m.ESMClass)
	c.octet(&m.ProtocolID)
	c.octet(&m.Priority)
	c.text(&m.Schedule, "schedule_delivery_time", RInvSched)
	c.text(&m.Validity, "validity_period", RInvExpiry)
	c.octet(&m.RegisteredDelivery)
	c.octet(&m.ReplaceIfPresent)
	c.octet(&m.DataCoding)
	c.octet(&m.DefaultMessage)
	c.octets(&m.Short, "short_message", RInvMsgLen)
}

// Content returns the octets of the message: Short, or the parameter message_payload if Short is empty.
func (m *Message) Content() []byte {
	if payload, exists := m.TLVs.Get(TagMessagePayload); exists && len(m.Short) == 0 {
		return payload
	}
	return m.Short
}

// A MessageResp is the body of the responses to submit_sm, deliver_sm and data_sm. MessageID has at most 64 octets, and is empty in deliver_sm_resp.
type MessageResp struct {
	MessageID string
	TLVs      TLVs
}

func (m *MessageResp) code(c *coder, _ CommandID) { c.idAndTLVs(&m.MessageID, "message_id", &m.TLVs) }

// A Multi is the body of submit_multi (section 4.5): a message for at most 254 destinations. Message.Dest is not used.
type Multi struct {
	Message Message
	Dests   []Dest
}

// A Dest is a destination of submit_multi (section 4.5.1.1): an address, or the name of a distribution list if List is not empty.
type Dest struct {
	Address Address
	List    string
}

// These are the kinds of destinations (dest_flag).
const (
	destAddress uint8 = 1
	destList    uint8 = 2
)

func (m *Multi) code(c *coder, _ CommandID) {
	c.text(&m.Message.ServiceType, "service_type", RInvSerTyp)
	m.Message.Source.code(c, "source_addr", RInvSrcAdr)
	n := c.count(len(m.Dests), "number_of_dests", RInvNumDests)
	for i := 0; i < n && c.err == nil; i++ {
		if !c.writing {
			m.Dests = append(m.Dests, Dest{})
		}
		m.Dests[i].code(c)
	}
	m.Message.codeContent(c)
	c.tlvs(&m.Message.TLVs)
}

func (d *Dest) code(c *coder) {
	flag := destAddress
	if d.List != "" {
		flag = destList
	}
	c.octet(&flag)
	switch flag {
	case destAddress:
		d.Address.code(c, "destination_addr", RInvDstAdr)
	case destList:
		c.text(&d.List, "dl_name", RInvDLName)
		if d.List == "" {
			c.fail("dl_name", RInvDLName, "is empty")
		}
	default:
		c.fail("dest_flag", RInvDestFlag, "is neither 1 nor 2")
	}
}

// A MultiResp is the body of submit_multi_resp (section 4.5.2): the id of the message, and the destinations to which it was not submitted.
type MultiResp struct {
	MessageID    string
	Unsuccessful []Unsuccessful
	TLVs         TLVs
}

// An Unsuccessful is a destination that submit_multi did not accept, and the reason.
type Unsuccessful struct {
	Address Address
	Status  Status
}

func (m *MultiResp) code(c *coder, _ CommandID) {
	c.text(&m.MessageID, "message_id", RInvMsgID)
	if !c.writing && c.isAtEnd() {
		return
	}
	n := c.count(len(m.Unsuccessful), "no_unsuccess", RInvNumDests)
	for i := 0; i < n && c.err == nil; i++ {
		if !c.writing {
			m.Unsuccessful = append(m.Unsuccessful, Unsuccessful{})
		}
		u := &m.Unsuccessful[i]
		u.Address.code(c, "destination_addr", RInvDstAdr)
		c.uint32((*uint32)(&u.Status))
	}
	c.tlvs(&m.TLVs)
}

// A Query is the body of query_sm (section 4.8).
type Query struct {
	MessageID string
	Source    Address
}

func (q *Query) code(c *coder, _ CommandID) {
	c.text(&q.MessageID, "message_id", RInvMsgID)
	q.Source.code(c, "source_addr", RInvSrcAdr)
}

// A QueryResp is the body of query_sm_resp (section 4.8.2). FinalDate is empty if the message has no final state.
type QueryResp struct {
	MessageID, FinalDate string
	State                State
	ErrorCode            uint8
}

func (q *QueryResp) code(c *coder, _ CommandID) {
	c.text(&q.MessageID, "message_id", RInvMsgID)
	if !c.writing && c.isAtEnd() {
		return
	}
	c.text(&q.FinalDate, "final_date", RInvSched)
	c.octet((*uint8)(&q.State))
	c.octet(&q.ErrorCode)
}

// A Cancel is the body of cancel_sm (section 4.9). Without MessageID, it cancels all messages between the addresses with the service type.
type Cancel struct {
	ServiceType, MessageID string
	Source, Dest           Address
}

func (b *Cancel) code(c *coder, _ CommandID) {
	c.text(&b.ServiceType, "service_type", RInvSerTyp)
	c.text(&b.MessageID, "message_id", RInvMsgID)
	b.Source.code(c, "source_addr", RInvSrcAdr)
	b.Dest.code(c, "destination_addr", RInvDstAdr)
}

// A Replace is the body of replace_sm (section 4.10). Times have the format of ParseTime.
type Replace struct {
	MessageID          string
	Source             Address
	Schedule, Validity string
	RegisteredDelivery uint8
	DefaultMessage     uint8
	Short              []byte
}

func (r *Replace) code(c *coder, _ CommandID) {
	c.text(&r.MessageID, "message_id", RInvMsgID)
	r.Source.code(c, "source_addr", RInvSrcAdr)
	c.text(&r.Schedule, "schedule_delivery_time", RInvSched)
	c.text(&r.Validity, "validity_period", RInvExpiry)
	c.octet(&r.RegisteredDelivery)
	c.octet(&r.DefaultMessage)
	c.octets(&r.Short, "short_message", RInvMsgLen)
}

// An Alert is the body of alert_notification (section 4.12): the mobile station Source is available again for the ESME.
type Alert struct {
	Source, ESME Address
	TLVs         TLVs
}

func (a *Alert) code(c *coder, _ CommandID) {
	a.Source.code(c, "source_addr", RInvSrcAdr)
	a.ESME.code(c, "esme_addr", RInvDstAdr)
	c.tlvs(&a.TLVs)
}
