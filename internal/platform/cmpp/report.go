package cmpp

import (
	"strings"
	"time"
)

// A Report is the status report of a message to one recipient: the content of a Deliver whose IsReport is 1 (7.4.5.1).
type Report struct {
	MessageID    MessageID // of the SubmitResp
	Stat         string    // at most 7 characters: see Outcome
	SubmitTime   string    // YYMMDDHHMM, in the zone of the gateway
	DoneTime     string    // YYMMDDHHMM, in the zone of the gateway
	Destination  string
	SMSCSequence uint32
}

func (r *Report) fields(c *coder) {
	c.messageID(&r.MessageID)
	c.text("Stat", &r.Stat, 7)
	c.text("Submit_time", &r.SubmitTime, 10)
	c.text("Done_time", &r.DoneTime, 10)
	c.text("Dest_terminal_Id", &r.Destination, c.numberLength())
	c.uint32("SMSC_sequence", &r.SMSCSequence)
}

// reportV2Length is the length of a Report of CMPP 2.0 in octets.
const reportV2Length = 8 + 7 + 10 + 10 + 21 + 4

// Encode returns the content of a Deliver, or a *FieldError.
func (r *Report) Encode(version Version) ([]byte, error) {
	c := coder{version: version}
	r.fields(&c)
	if c.err != nil {
		return nil, c.err
	}
	return c.octets, nil
}

// DecodeReport decodes the content of a Deliver whose IsReport is 1. The length of the content decides between the versions, and not the version of the session:
// some gateways send the Report of CMPP 2.0 in sessions of CMPP 3.0. Octets after the last field are ignored. The error is a *FieldError.
func DecodeReport(content []byte) (*Report, error) {
	c := coder{version: V20, decoding: true, octets: content}
	if len(content) > reportV2Length {
		c.version = V30
	}
	r := &Report{}
	r.fields(&c)
	if c.err != nil {
		return nil, c.err
	}
	return r, nil
}

// DoneAt returns DoneTime in the zone of the gateway. It returns false if the gateway sent no valid time.
func (r *Report) DoneAt(zone *time.Location) (time.Time, bool) {
	t, err := time.ParseInLocation("0601021504", r.DoneTime, zone)
	return t, err == nil
}

// Outcome is the meaning of the Stat of a Report.
type Outcome int

// These are the outcomes.
const (
	OutcomeUnknown Outcome = iota // the gateway does not know whether the recipient received the message, and sends no further report
	OutcomePending                // a further report follows
	OutcomeDelivered
	OutcomeFailed
)

// stats contains the texts of the specification (7.4.5.1, table of Stat), and ENROUTE of SMPP, which some gateways forward.
//
// ACCEPTD is no delivery: gateways use it for messages that the short message centre accepted.
var stats = map[string]Outcome{
	"DELIVRD": OutcomeDelivered, "EXPIRED": OutcomeFailed, "DELETED": OutcomeFailed, "UNDELIV": OutcomeFailed, "REJECTD": OutcomeFailed,
	"ACCEPTD": OutcomePending, "ENROUTE": OutcomePending, "UNKNOWN": OutcomeUnknown,
}

// A statClass is the meaning of the two letters before the colon in a Stat such as "MA:0054".
type statClass struct {
	outcome Outcome
	text    string
}

// statClasses contains the classes of the errors of China Mobile. The first letter is the side that the ISMG called: C the charging system (SCP), D the
// management platform (DSMP), I the next ISMG, M the short message centre (SMSC). A: the call failed. B: the side rejected the message. C: the side did not
// answer, so nobody knows the outcome. MI to MN repeat a Stat of the SMSC with an error number.
var statClasses = map[string]statClass{
	"CA": {OutcomeFailed, "the gateway could not call the charging system"},
	"CB": {OutcomeFailed, "the charging system rejected the message"},
	"DA": {OutcomeFailed, "the gateway could not call the management platform"},
	"DB": {OutcomeFailed, "the management platform rejected the message"},
	"IA": {OutcomeFailed, "the gateway could not call the next gateway"},
	"IB": {OutcomeFailed, "the next gateway rejected the message"},
	"IC": {OutcomeUnknown, "the next gateway did not answer"},
	"MA": {OutcomeFailed, "the gateway could not call the short message centre"},
	"MB": {OutcomeFailed, "the short message centre rejected the message"},
	"MC": {OutcomeUnknown, "the short message centre did not answer"},
	"MI": {OutcomeFailed, "EXPIRED at the short message centre"},
	"MJ": {OutcomeFailed, "DELETED at the short message centre"},
	"MK": {OutcomeFailed, "UNDELIV at the short message centre"},
	"ML": {OutcomePending, "ACCEPTD at the short message centre"},
	"MM": {OutcomeUnknown, "UNKNOWN at the short message centre"},
	"MN": {OutcomeFailed, "REJECTD at the short message centre"},
}

// noAnswer is the error number of a call whose response did not arrive in time. The called side may have sent the message.
const noAnswer = "0054"

// Outcome returns the meaning of Stat, regardless of its case and of spaces around it. All texts that the specification does not define are failures: gateways
// have hundreds of their own, such as "MBBLACK", and use them for failures only.
func (r *Report) Outcome() Outcome {
	stat := r.stat()
	if outcome, known := stats[stat]; known {
		return outcome
	}
	class, number, _ := strings.Cut(stat, ":")
	c, known := statClasses[class]
	switch {
	case stat == "":
		return OutcomeUnknown
	case !known:
		return OutcomeFailed
	case class[1] == 'A' && number == noAnswer:
		return OutcomeUnknown
	default:
		return c.outcome
	}
}

// Explanation returns a sentence about the class of Stat, such as the meaning of "MA", or an empty text.
func (r *Report) Explanation() string {
	class, _, _ := strings.Cut(r.stat(), ":")
	return statClasses[class].text
}

func (r *Report) stat() string { return strings.ToUpper(strings.TrimSpace(r.Stat)) }
