package cmpp

import "fmt"

// ConnectStatus is the result of a Connect (7.4.1.2). Values above these are other errors.
type ConnectStatus uint32

// These are the results of a Connect.
const (
	ConnectOK          ConnectStatus = 0
	ConnectBadPDU      ConnectStatus = 1
	ConnectBadSource   ConnectStatus = 2 // the SP is unknown, or its address is not allowed
	ConnectBadSecret   ConnectStatus = 3
	ConnectBadVersion  ConnectStatus = 4 // the ISMG speaks lower versions only
	ConnectOtherFailed ConnectStatus = 5
)

var connectTexts = map[ConnectStatus]string{
	ConnectOK: "accepted", ConnectBadPDU: "wrong structure of the message", ConnectBadSource: "illegal source address", ConnectBadSecret: "authentication failed",
	ConnectBadVersion: "version too high",
}

// String returns the number and the meaning of the status.
func (s ConnectStatus) String() string { return describe(uint32(s), connectTexts[s]) }

// Result is the result of a Submit or a Deliver (7.4.3.2, 7.4.5.2). Values above these are other errors, whose meaning depends on the ISMG.
type Result uint32

// These are the results of a Submit and a Deliver. The last four are the results of a Submit to most gateways, and other errors in the specification.
const (
	ResultOK             Result = 0
	ResultBadPDU         Result = 1
	ResultBadCommand     Result = 2
	ResultRepeated       Result = 3
	ResultBadLength      Result = 4
	ResultBadFee         Result = 5
	ResultTooLong        Result = 6
	ResultBadService     Result = 7
	ResultThrottled      Result = 8 // the other side asks for fewer messages: the message can be sent again later
	ResultOther          Result = 9 // in a response to a Submit: this ISMG does not serve the charged number
	ResultBadSourceID    Result = 10
	ResultBadSource      Result = 11
	ResultBadFeeNumber   Result = 12
	ResultBadDestination Result = 13
)

var resultTexts = map[Result]string{
	ResultOK: "accepted", ResultBadPDU: "wrong structure of the message", ResultBadCommand: "wrong command", ResultRepeated: "repeated sequence number",
	ResultBadLength: "wrong length of the message", ResultBadFee: "wrong fee code", ResultTooLong: "message too long", ResultBadService: "wrong service code",
	ResultThrottled: "flow control", ResultOther: "other error, or the charged number belongs to another gateway", ResultBadSourceID: "wrong Src_Id",
	ResultBadSource: "wrong Msg_src", ResultBadFeeNumber: "wrong Fee_terminal_Id", ResultBadDestination: "wrong Dest_terminal_Id",
}

// String returns the number and the meaning of the result.
func (r Result) String() string { return describe(uint32(r), resultTexts[r]) }

func describe(number uint32, text string) string {
	if text == "" {
		text = "other error"
	}
	return fmt.Sprintf("%d (%s)", number, text)
}
