package provider

import (
	"cmp"
	"time"
)

// PDU is a unit of the protocol of a link, as people read it: without texts, passwords and whole numbers of people.
type PDU struct {
	At       time.Time `json:"at"`
	IsSent   bool      `json:"is_sent"` // false: the provider sent it
	Command  string    `json:"command"`
	Sequence uint32    `json:"sequence"`
	Status   string    `json:"status,omitempty"` // of a response
	Text     string    `json:"text,omitempty"`   // the fields, or why it could not be read
}

// NotBound is the code of trouble without an open link.
const NotBound = "not_bound"

// Unbound returns the trouble of a sender without an open link. failure is the last failure of its links; empty: none is known.
func Unbound(failure string) Outcome {
	return Outcome{Trouble: true, Code: NotBound, Error: "no link to the carrier is open: " + cmp.Or(failure, "the carrier did not answer in time")}
}

// TraceLength is the number of PDUs that the trace of a link, or of a sender, contains at most.
const TraceLength = 100

// LinkState is the state of a link: a permanent connection to a provider.
type LinkState struct {
	BoundAt        time.Time // since when the provider accepts messages; zero: the link is not open
	InFlight       int       // messages without an answer of the provider
	Sent, Received int64     // answers and messages of the provider, since the link was started
	Error          string    // the last failure; empty: none
	FailedAt       time.Time
}

// These are the states of a message in a Receipt.
const (
	OnItsWay int16 = iota
	Delivered
	Undelivered
)

// Incoming is what a provider sends through a link: either a receipt, or a message or a part of one.
type Incoming struct {
	Receipt  *Receipt
	Others   []string // numbers that Receipt.Number can also mean, if no message has it
	Received *Received
	Raw      string // the whole as text, for people; without the text of a sent message
}

// Receipt is the state of one message at the provider.
type Receipt struct {
	Number, Recipient, Code string
	State                   int16
}

// Received is a message from a person, or a part of one.
type Received struct {
	From, To, Content string
	MessageNo         string // the provider's id; can be empty
	Part              *Part  // nil: Content is the whole message
}

// Part is a part of a long message. The parts of a message have the same addresses, reference and total.
type Part struct {
	Reference  int
	Nth, Total int    // Nth is at least 1
	Alphabet   string // the encoding of Octets: ascii, gbk, gsm7, latin1 or ucs2
	Octets     []byte // without the header of the part
}
