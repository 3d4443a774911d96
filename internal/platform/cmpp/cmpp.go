// Package cmpp implements CMPP 2.0 and 3.0 (China Mobile Peer to Peer), the protocol between senders of short messages and the gateways of Chinese carriers.
//
// A service provider (SP) submits messages, and an Internet short message gateway (ISMG) of a carrier sends them and delivers reports and received messages. The
// package contains the PDUs, the texts in them, and sessions in both roles. It knows no queue. Comments cite sections of the specification of CMPP 2.0 (China
// Mobile, April 2002). CMPP 3.0 describes the same PDUs in its chapter 8.
package cmpp

import "fmt"

// Version is the version of the protocol, as CMPP_CONNECT announces it: four bits of the major version and four bits of the minor version (7.4.1.1).
type Version uint8

// These are the versions that the package speaks. A minor version changes no field: V21 has the fields of V20.
const (
	V20 Version = 0x20
	V21 Version = 0x21
	V30 Version = 0x30
)

// String returns the version as people write it, such as "2.0".
func (v Version) String() string { return fmt.Sprintf("%d.%d", v>>4, v&0xF) }

// IsKnown reports whether the package speaks the version.
func (v Version) IsKnown() bool { return v>>4 == 2 || v>>4 == 3 }

// isV3 reports whether PDUs have the fields of CMPP 3.0.
func (v Version) isV3() bool { return v >= V30 }

// Command identifies the kind of a PDU (7.3). The command of a response is the command of its request with the highest bit set.
type Command uint32

// These are the commands between an SP and an ISMG.
const (
	CommandConnect    Command = 1
	CommandTerminate  Command = 2
	CommandSubmit     Command = 4
	CommandDeliver    Command = 5
	CommandQuery      Command = 6
	CommandCancel     Command = 7
	CommandActiveTest Command = 8
)

// responseBit is set in the commands of responses.
const responseBit Command = 1 << 31

// IsResponse reports whether the command is the command of a response.
func (c Command) IsResponse() bool { return c&responseBit != 0 }

// Response returns the command of the response to a request.
func (c Command) Response() Command { return c | responseBit }

var commandNames = map[Command]string{
	CommandConnect: "CMPP_CONNECT", CommandTerminate: "CMPP_TERMINATE", CommandSubmit: "CMPP_SUBMIT", CommandDeliver: "CMPP_DELIVER",
	CommandQuery: "CMPP_QUERY", CommandCancel: "CMPP_CANCEL", CommandActiveTest: "CMPP_ACTIVE_TEST",
}

// String returns the name of the command in the specification, such as "CMPP_SUBMIT_RESP", or its number.
func (c Command) String() string {
	name, known := commandNames[c&^responseBit]
	switch {
	case !known:
		return fmt.Sprintf("command 0x%08X", uint32(c))
	case c.IsResponse():
		return name + "_RESP"
	default:
		return name
	}
}

// LengthError is the error of a PDU whose Total_Length is below the header or above MaxLength. The next PDU cannot be found, so the link must end.
type LengthError struct {
	Length uint32 // octets, with the header
}

func (e *LengthError) Error() string {
	return fmt.Sprintf("the PDU has a length of %d octets: allowed are %d to %d", e.Length, headerLength, MaxLength)
}

// DecodeError is the error of a PDU with a wrong content. The link can be used further, because the length of the PDU is known.
type DecodeError struct {
	Command  Command
	Sequence uint32
	Field    string // the name of the field in the specification; empty if the whole PDU is meant
	Reason   string
}

func (e *DecodeError) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("%s %d: %s", e.Command, e.Sequence, e.Reason)
	}
	return fmt.Sprintf("%s %d: %s: %s", e.Command, e.Sequence, e.Field, e.Reason)
}

// FieldError is the error of a value that does not fit into a field of a PDU. Nothing was encoded.
type FieldError struct {
	Field  string // the name of the field in the specification
	Reason string
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Reason }
