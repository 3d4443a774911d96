// Package smsgate contains the common parts of the two protocols of SMSGate: the protocol of phones (package mobile) and the protocol of programs (package
// thirdparty).
package smsgate

// These are the states of a message, and of each recipient of a message.
const (
	Pending    = "Pending" // no phone or sender has tried to send the message
	Cancelling = "Cancelling"
	Cancelled  = "Cancelled"
	Processed  = "Processed" // a phone passed the message to its radio, or a sender has leased the task
	Sent       = "Sent"
	Delivered  = "Delivered"
	Failed     = "Failed"
)

// States contains all states.
var States = []string{Pending, Cancelling, Cancelled, Processed, Sent, Delivered, Failed}
