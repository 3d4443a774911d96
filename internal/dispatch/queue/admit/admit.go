// Package admit decides whether a recipient is allowed to receive a message now, and finds the pool of the message. All code that creates or requeues
// a task calls this package, so that each rule about recipients exists only once.
package admit

import (
	"context"
	"errors"
	"time"

	"lksms/internal/dispatch/directory"
	"lksms/internal/platform/fault"
)

// Message contains the data that the decision needs.
type Message struct {
	Channel     string
	CompanyID   int64
	MessageType int16
	Recipient   string // recipient of the task: a phone number in E.164, or the address on another channel; empty: the person has no address
	IsSigned    bool
	SenderNo    string    // the only sender that is allowed to send the message; empty: any sender
	AsOf        time.Time // when the message was submitted; the decision uses the directory as of this time or later
	WasAccepted bool      // the message was accepted earlier: if its country is no longer served, the message is held and not refused
}

// Verdict is the decision about one message.
type Verdict struct {
	Pool directory.Pool // also set if the message is refused
	Err  error          // a fault refuses the message; after another error, the decision is unknown
}

// IsDecided reports whether the message was admitted or refused. Otherwise Err says why the decision is unknown.
func (v Verdict) IsDecided() bool {
	var refused *fault.Error
	return v.Err == nil || errors.As(v.Err, &refused)
}

// Service decides about recipients.
type Service struct {
	directory *directory.Service
}

// New returns a Service.
func New(directory *directory.Service) *Service { return &Service{directory} }

// Admit decides about messages and returns the verdicts in their order. A refused message has the fault request.invalid with the wrong field. The field is
// phone_number if the recipient has no address, or if the company cannot send to the recipient's country. The field is sign if the signature is missing, and
// sender_no if that sender does not serve the company.
func (s *Service) Admit(ctx context.Context, messages []Message) []Verdict {
	verdicts := make([]Verdict, len(messages))
	for i, m := range messages {
		v := &verdicts[i]
		if m.SenderNo == "" {
			v.Pool, v.Err = s.directory.FindPool(ctx, m.AsOf, m.Channel, m.CompanyID, m.MessageType, m.Recipient, m.IsSigned)
		} else {
			v.Pool, v.Err = s.directory.FindPoolOfSender(ctx, m.AsOf, m.Channel, m.CompanyID, m.MessageType, m.Recipient, m.IsSigned, m.SenderNo)
		}
		if m.WasAccepted {
			v.Err = directory.Held(v.Err)
		}
		if m.Recipient == "" && v.IsDecided() {
			v.Err = fault.InvalidField("phone_number", fault.Blank, nil)
		}
	}
	return verdicts
}
