package cmpp

// A PDU is the content of a message of the protocol, without its header.
type PDU interface {
	command() Command
	// fields passes all fields to the coder, in their order.
	fields(c *coder)
}

// MessageID identifies a message at the ISMG that assigned it: see MessageIDParts.
type MessageID uint64

// Connect asks an ISMG for a session (7.4.1.1).
type Connect struct {
	SourceAddr    string // the identifier of the SP, at most 6 octets
	Authenticator [16]byte
	Version       Version
	Timestamp     Timestamp
}

// ConnectResp answers a Connect (7.4.1.2).
type ConnectResp struct {
	Status        ConnectStatus
	Authenticator [16]byte
	Version       Version // the highest version that the ISMG speaks
}

// Terminate ends a session. Either side can send it (7.4.2.1).
type Terminate struct{}

// TerminateResp answers a Terminate (7.4.2.2).
type TerminateResp struct{}

// Submit asks an ISMG to send a message to up to 99 recipients (7.4.3.1).
type Submit struct {
	MessageID          MessageID // zero: the ISMG assigns it
	Total              uint8     // the number of parts of a long message, from 1
	Number             uint8     // the number of this part, from 1
	RegisteredDelivery uint8     // 1: the SP expects a Report for each recipient
	Level              uint8     // the priority, from 0
	ServiceID          string
	FeeUserType        uint8 // who is charged: 0 the recipient, 1 the sender, 2 the SP, 3 the number in FeeTerminalID
	FeeTerminalID      string
	FeeTerminalType    uint8 // 0: a number, 1: a pseudonym. CMPP 3.0 only
	PID                uint8 // TP_pId (3GPP TS 23.040, section 9.2.3.9)
	UDHI               uint8 // 1: Content starts with a user data header (3GPP TS 23.040, section 9.2.3.23)
	Format             Format
	Source             string // the identifier of the SP, at most 6 octets
	FeeType            string // two digits, such as "01": free of charge
	FeeCode            string // in fen, six digits
	ValidTime          string // the end of the validity in the format of SMPP 3.3; empty: the default of the ISMG
	AtTime             string // the time of the delivery in the format of SMPP 3.3; empty: now
	SourceNumber       string // Src_Id: the number that the recipient sees, the number of the SP with an optional extension
	Destinations       []string
	DestinationType    uint8 // 0: numbers, 1: pseudonyms. CMPP 3.0 only
	Content            []byte
	LinkID             string // of the request that this message answers. CMPP 3.0 only
}

// SubmitResp answers a Submit (7.4.3.2).
type SubmitResp struct {
	MessageID MessageID
	Result    Result
}

// Query asks for the counts of a day (7.4.4.1).
type Query struct {
	Date string // YYYYMMDD
	Type uint8  // 0: all messages, 1: the messages of the service in Code
	Code string
}

// QueryResp answers a Query (7.4.4.2).
type QueryResp struct {
	Query Query
	// Messages and Users were received from the SP. Sent, Waiting and Failed are numbers of messages to users.
	Messages, Users, Sent, Waiting, Failed uint32
	// These are the numbers of messages from users to the SP.
	Delivered, DeliverWaiting, DeliverFailed uint32
}

// Deliver brings an SP a received message, or a Report in Content (7.4.5.1).
type Deliver struct {
	MessageID   MessageID
	Destination string // Dest_Id: the number of the SP with the extension to which the user sent the message
	ServiceID   string
	PID         uint8
	UDHI        uint8
	Format      Format
	Source      string // Src_terminal_Id: the number of the user; of a Report: the recipient
	SourceType  uint8  // 0: a number, 1: a pseudonym. CMPP 3.0 only
	IsReport    uint8  // Registered_Delivery, 1: Content is a Report
	Content     []byte
	LinkID      string // CMPP 3.0 only
}

// DeliverResp answers a Deliver (7.4.5.2).
type DeliverResp struct {
	MessageID MessageID
	Result    Result
}

// Cancel asks an ISMG not to send a message (7.4.6.1).
type Cancel struct {
	MessageID MessageID
}

// CancelResp answers a Cancel (7.4.6.2).
type CancelResp struct {
	Status uint32 // 0: the message will not be sent, 1: failed
}

// ActiveTest asks whether the link is alive. Either side can send it (7.4.7.1).
type ActiveTest struct{}

// ActiveTestResp answers an ActiveTest (7.4.7.2).
type ActiveTestResp struct{}

// CommandOf returns the command of a PDU.
func CommandOf(p PDU) Command { return p.command() }

func (*Connect) command() Command        { return CommandConnect }
func (*ConnectResp) command() Command    { return CommandConnect.Response() }
func (*Terminate) command() Command      { return CommandTerminate }
func (*TerminateResp) command() Command  { return CommandTerminate.Response() }
func (*Submit) command() Command         { return CommandSubmit }
func (*SubmitResp) command() Command     { return CommandSubmit.Response() }
func (*Deliver) command() Command        { return CommandDeliver }
func (*DeliverResp) command() Command    { return CommandDeliver.Response() }
func (*Query) command() Command          { return CommandQuery }
func (*QueryResp) command() Command      { return CommandQuery.Response() }
func (*Cancel) command() Command         { return CommandCancel }
func (*CancelResp) command() Command     { return CommandCancel.Response() }
func (*ActiveTest) command() Command     { return CommandActiveTest }
func (*ActiveTestResp) command() Command { return CommandActiveTest.Response() }

// newPDU contains a function for each command that returns an empty PDU.
var newPDU = map[Command]func() PDU{
	CommandConnect:               func() PDU { return &Connect{} },
	CommandConnect.Response():    func() PDU { return &ConnectResp{} },
	CommandTerminate:             func() PDU { return &Terminate{} },
	CommandTerminate.Response():  func() PDU { return &TerminateResp{} },
	CommandSubmit:                func() PDU { return &Submit{} },
	CommandSubmit.Response():     func() PDU { return &SubmitResp{} },
	CommandDeliver:               func() PDU { return &Deliver{} },
	CommandDeliver.Response():    func() PDU { return &DeliverResp{} },
	CommandQuery:                 func() PDU { return &Query{} },
	CommandQuery.Response():      func() PDU { return &QueryResp{} },
	CommandCancel:                func() PDU { return &Cancel{} },
	CommandCancel.Response():     func() PDU { return &CancelResp{} },
	CommandActiveTest:            func() PDU { return &ActiveTest{} },
	CommandActiveTest.Response(): func() PDU { return &ActiveTestResp{} },
}

func (p *Connect) fields(c *coder) {
	c.text("Source_Addr", &p.SourceAddr, 6)
	c.fixed("AuthenticatorSource", p.Authenticator[:])
	c.uint8("Version", (*uint8)(&p.Version))
	c.uint32("Timestamp", (*uint32)(&p.Timestamp))
}

// connectRespLength is the length of a ConnectResp of CMPP 2.0 without its header. The length decides in which version the ISMG answered: an ISMG that rejects
// the version of the Connect answers in its own.
const connectRespLength = 1 + 16 + 1

func (p *ConnectResp) fields(c *coder) {
	if c.decoding {
		c.version = V30
		if len(c.octets) == connectRespLength {
			c.version = V20
		}
	}
	c.status("Status", (*uint32)(&p.Status))
	c.fixed("AuthenticatorISMG", p.Authenticator[:])
	c.uint8("Version", (*uint8)(&p.Version))
}

func (*Terminate) fields(*coder)     {}
func (*TerminateResp) fields(*coder) {}

func (p *Submit) fields(c *coder) {
	c.messageID(&p.MessageID)
	c.uint8("Pk_total", &p.Total)
	c.uint8("Pk_number", &p.Number)
	c.uint8("Registered_Delivery", &p.RegisteredDelivery)
	c.uint8("Msg_level", &p.Level)
	c.text("Service_Id", &p.ServiceID, 10)
	c.uint8("Fee_UserType", &p.FeeUserType)
	c.text("Fee_terminal_Id", &p.FeeTerminalID, c.numberLength())
	if c.version.isV3() {
		c.uint8("Fee_terminal_type", &p.FeeTerminalType)
	}
	c.uint8("TP_pId", &p.PID)
	c.uint8("TP_udhi", &p.UDHI)
	c.uint8("Msg_Fmt", (*uint8)(&p.Format))
	c.text("Msg_src", &p.Source, 6)
	c.text("FeeType", &p.FeeType, 2)
	c.text("FeeCode", &p.FeeCode, 6)
	c.text("ValId_Time", &p.ValidTime, 17)
	c.text("At_Time", &p.AtTime, 17)
	c.text("Src_Id", &p.SourceNumber, 21)
	c.texts("DestUsr_tl", "Dest_terminal_Id", &p.Destinations, c.numberLength())
	if c.version.isV3() {
		c.uint8("Dest_terminal_type", &p.DestinationType)
	}
	c.content("Msg_Content", &p.Content)
	c.linkID(&p.LinkID)
}

// linkID is the last field of a message: LinkID in CMPP 3.0, and a reserved field in CMPP 2.0.
func (c *coder) linkID(value *string) {
	if c.version.isV3() {
		c.text("LinkID", value, 20)
	} else {
		c.reserved(8)
	}
}

func (p *SubmitResp) fields(c *coder) {
	c.messageID(&p.MessageID)
	c.status("Result", (*uint32)(&p.Result))
}

func (p *Query) fields(c *coder) {
	p.keys(c)
	c.reserved(8)
}

func (p *Query) keys(c *coder) {
	c.text("Time", &p.Date, 8)
	c.uint8("Query_Type", &p.Type)
	c.text("Query_Code", &p.Code, 10)
}

func (p *QueryResp) fields(c *coder) {
	p.Query.keys(c)
	c.uint32("MT_TLMsg", &p.Messages)
	c.uint32("MT_Tlusr", &p.Users)
	c.uint32("MT_Scs", &p.Sent)
	c.uint32("MT_WT", &p.Waiting)
	c.uint32("MT_FL", &p.Failed)
	c.uint32("MO_Scs", &p.Delivered)
	c.uint32("MO_WT", &p.DeliverWaiting)
	c.uint32("MO_FL", &p.DeliverFailed)
}

func (p *Deliver) fields(c *coder) {
	c.messageID(&p.MessageID)
	c.text("Dest_Id", &p.Destination, 21)
	c.text("Service_Id", &p.ServiceID, 10)
	c.uint8("TP_pid", &p.PID)
	c.uint8("TP_udhi", &p.UDHI)
	c.uint8("Msg_Fmt", (*uint8)(&p.Format))
	c.text("Src_terminal_Id", &p.Source, c.numberLength())
	if c.version.isV3() {
		c.uint8("Src_terminal_type", &p.SourceType)
	}
	c.uint8("Registered_Delivery", &p.IsReport)
	c.content("Msg_Content", &p.Content)
	c.linkID(&p.LinkID)
}

func (p *DeliverResp) fields(c *coder) {
	c.messageID(&p.MessageID)
	c.status("Result", (*uint32)(&p.Result))
}

func (p *Cancel) fields(c *coder) { c.messageID(&p.MessageID) }

func (p *CancelResp) fields(c *coder) { c.status("Success_Id", &p.Status) }

func (*ActiveTest) fields(*coder) {}

func (*ActiveTestResp) fields(c *coder) { c.reserved(1) }
