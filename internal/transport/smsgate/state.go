// Package smsgate has what the two protocols of SMSGate share: that of its phones (mobile), and that of programs (thirdparty).
package smsgate

// The states of a message, and of each of its recipients.
const (
	Pending    = "Pending" // no phone, or no sender, has tried to send it
	Cancelling = "Cancelling"
	Cancelled  = "Cancelled"
	Processed  = "Processed" // a phone handed it to its radio, or a sender has it
	Sent       = "Sent"
	Delivered  = "Delivered"
	Failed     = "Failed"
)

// States are all states.
var States = []string{Pending, Cancelling, Cancelled, Processed, Sent, Delivered, Failed}
