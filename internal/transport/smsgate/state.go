// Package smsgate contains what the two protocols of SMSGate share: the protocol of phones (package mobile) and that of programs (package thirdparty).
package smsgate

// These are the states of a message, and of each recipient of a message.
const (
	Pending    = "Pending" // no phone or sender has tried to send it
	Cancelling = "Cancelling"
	Cancelled  = "Cancelled"
	Processed  = "Processed" // a phone passed it to its radio, or a sender has leased it
	Sent       = "Sent"
	Delivered  = "Delivered"
	Failed     = "Failed"
)

// States contains all states.
var States = []string{Pending, Cancelling, Cancelled, Processed, Sent, Delivered, Failed}
