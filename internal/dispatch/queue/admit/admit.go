// Package admit decides whether a recipient is allowed to receive a message now, and finds the pool of the message. All code that creates or requeues
// a task calls this package, so that each rule about recipients exists only once.
package admit

import (
	"context"
	"errors"
	"time"

	"lksms/gen/admitq"
	"lksms/internal/dispatch/caps"
	"lksms/internal/dispatch/directory"
	"lksms/internal/dispatch/queue/claim"
	"lksms/internal/dispatch/quiet"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/postgres"
)

// Message contains the data that the decision needs.
type Message struct {
	Channel     string
	CompanyID   int64
	MessageType int16
	Priority    int16
	Recipient   string // recipient of the task: a phone number in E.164, or the address on another channel; empty: the person has no address
	IsSigned    bool
	SenderNo    string    // the only sender that is allowed to send the message; empty: any sender
	AsOf        time.Time // when the message was submitted; the decision uses the directory as of this time or later
	WasAccepted bool      // the message was accepted earlier: if its country is no longer served, the message is held and not refused
	DueAt       time.Time // when the message is to be sent; zero: now
	Exemption   Exemption

	// Only the caps need these.
	TaskID    string
	ExpiresAt *time.Time // the message must not be sent after this time; nil: no limit
	Waits     bool       // if a cap is reached, the message waits; otherwise it is refused
	Again     bool       // the message was stored before, and is sent again
	DueBefore time.Time  // the due time of a message that waits, and gets a new due time
	Subjects  []caps.Subject
}

// Exemption names the rules about recipients that are not applied to a message. It is stored in messages.exemption; empty: all rules are applied.
type Exemption string

// These are the exemptions.
const (
	FromCaps         Exemption = "caps"           // caps neither refuse nor count the message
	FromCapsAndQuiet Exemption = "caps_and_quiet" // like FromCaps, and the message also has no quiet hours
)

func (m Message) quiet() quiet.Message {
	return quiet.Message{
		Channel: m.Channel, CompanyID: m.CompanyID, MessageType: m.MessageType, Priority: m.Priority, Recipient: m.Recipient,
		IsExempt: m.Exemption == FromCapsAndQuiet,
	}
}

// Verdict is the decision about one message.
type Verdict struct {
	Pool directory.Pool // also set if the message is refused
	Err  error          // a fault refuses the message; after another error, the decision is unknown

	Quiet quiet.Period // contains the time at which the message is to be sent
}

// CanOnlyExpire reports whether a message would wait for the end of quiet hours until it expires. A nil expiresAt means no limit.
func (v Verdict) CanOnlyExpire(expiresAt *time.Time) bool {
	return v.Quiet.IsQuiet && claim.CanOnlyExpire(expiresAt, v.Quiet.Until)
}

// IsDecided reports whether the message was admitted or refused. Otherwise Err says why the decision is unknown.
func (v Verdict) IsDecided() bool {
	var refused *fault.Error
	return v.Err == nil || errors.As(v.Err, &refused)
}

// Service decides about recipients.
type Service struct {
	q         *admitq.Queries
	directory *directory.Service
	quiet     *quiet.Service
	caps      *caps.Service
}

// New returns a Service.
func New(db *postgres.DB, directory *directory.Service, quietHours *quiet.Service, counts *caps.Service) *Service {
	return &Service{q: admitq.New(db), directory: directory, quiet: quietHours, caps: counts}
}

// ErrBlocked returns the fault of a message that a block forbids.
func ErrBlocked() error {
	return &fault.Error{Kind: fault.Conflict, Reason: fault.RecipientBlocked, Fields: []fault.Field{{Name: "phone_number", Rule: fault.IsBlocked}}}
}

// Admit decides about messages and returns the verdicts in their order. A message that a block forbids has the fault recipient.blocked. Another refused message
// has the fault request.invalid with the wrong field. The field is phone_number if the recipient has no address, or if the company cannot send to the
// recipient's country. The field is sign if the signature is missing, and sender_no if that sender does not serve the company.
//
// A caller that adds tasks in the transaction of ctx first locks the queue (QueueEnter). Otherwise the tasks could wait although a block is added meanwhile.
func (s *Service) Admit(ctx context.Context, messages []Message) []Verdict {
	verdicts := s.AdmitUnlessBlocked(ctx, messages)
	var p admitq.RecipientsBlockedParams
	var indexes []int
	for i, m := range messages {
		if verdicts[i].Err == nil {
			indexes = append(indexes, i)
			p.Recipients, p.CompanyIds, p.MessageTypes = append(p.Recipients, m.Recipient), append(p.CompanyIds, m.CompanyID), append(p.MessageTypes, m.MessageType)
		}
	}
	blocked, err := s.blocked(ctx, p)
	for n, i := range indexes {
		switch {
		case err != nil:
			verdicts[i].Err = err
		case blocked[n]:
			verdicts[i].Err = ErrBlocked()
		}
	}
	return verdicts
}

// Blocked reports for each recipient whether a block forbids messages of a company and type.
func (s *Service) Blocked(ctx context.Context, companyID int64, messageType int16, recipients []string) ([]bool, error) {
	p := admitq.RecipientsBlockedParams{Recipients: recipients, CompanyIds: make([]int64, len(recipients)), MessageTypes: make([]int16, len(recipients))}
	for i := range recipients {
		p.CompanyIds[i], p.MessageTypes[i] = companyID, messageType
	}
	return s.blocked(ctx, p)
}

func (s *Service) blocked(ctx context.Context, p admitq.RecipientsBlockedParams) ([]bool, error) {
	all := make([]bool, len(p.Recipients))
	if len(all) == 0 {
		return nil, nil
	}
	places, err := s.q.RecipientsBlocked(ctx, p)
	for _, place := range places {
		all[place] = true
	}
	return all, postgres.Wrap("find blocks of recipients", err, nil)
}

// AdmitUnlessBlocked decides like Admit, but not about blocks. Only submissions use it: the statement that stores their tasks (TaskSubmit) finds the blocks, so
// that a submission needs no other statement.
func (s *Service) AdmitUnlessBlocked(ctx context.Context, messages []Message) []Verdict {
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
		if v.Err == nil {
			if m.DueAt.After(time.Now()) {
				v.Quiet, v.Err = s.quiet.At(ctx, m.quiet(), m.DueAt)
			} else {
				v.Quiet, v.Err = s.quiet.Now(ctx, m.quiet())
			}
		}
	}
	return verdicts
}
