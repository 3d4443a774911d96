// Package admit decides whether a recipient may get a message now, and finds its pool. Whatever makes a task or requeues one asks it: a rule about
// recipients is here and nowhere else.
package admit

import (
	"context"
	"errors"
	"time"

	"lksms/internal/dispatch/directory"
	"lksms/internal/platform/fault"
)

// Message is what the decision depends on.
type Message struct {
	Channel     string
	CompanyID   int64
	MessageType int16
	Recipient   string // as its task has it: a phone number in E.164, on another channel the address; empty: the person has none
	IsSigned    bool
	SenderNo    string    // the only sender that may send it; empty: any
	AsOf        time.Time // when the message came in: an older view of the directory must not refuse it
	WasAccepted bool      // before: a country that is not served any more holds it, and does not refuse it
}

// Verdict is the decision about one message.
type Verdict struct {
	Pool directory.Pool // set also if the message is refused
	Err  error          // a fault refuses the message; another error leaves it undecided
}

// decided reports whether the message is admitted or refused.
func (v Verdict) decided() bool {
	var refused *fault.Error
	return v.Err == nil || errors.As(v.Err, &refused)
}

// Service decides about recipients.
type Service struct {
	directory *directory.Service
}

// New returns a Service.
func New(directory *directory.Service) *Service { return &Service{directory} }

// Admit decides about messages, in their order. The fault of one that is refused is request.invalid, which names the field: phone_number for a recipient
// who has no address or lives in a country to which the company cannot send, sign for a missing signature, sender_no for a sender that does not serve
// the company.
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
		if m.Recipient == "" && v.decided() {
			v.Err = fault.InvalidField("phone_number", fault.Blank, nil)
		}
	}
	return verdicts
}
