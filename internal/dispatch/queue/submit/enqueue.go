package submit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"lksms/gen/queueq"
	"lksms/internal/dispatch/directory"
	"lksms/internal/dispatch/queue/admit"
	"lksms/internal/dispatch/queue/taskid"
	"lksms/internal/dispatch/segment"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/logtext"
	"lksms/internal/platform/result"
)

// Rendered is a rendering as its tasks need it: everything but the recipients.
type Rendered struct {
	Channel     string
	RenderingID int64
	Content     string
	Sign        string // goes before the content; may be empty
	MessageType int16
	ExpiresAt   *time.Time // not after; nil: never
	OnUnclear   string     // retry or fail; empty: as the sender has it
	IsUrgent    bool       // goes before everything else on its channel, codes included
	IsOlder     bool       // was accepted before its company or channel changed last: a country that is not served may have been then, and holds it
	Origin
}

// Person is a recipient. An empty Address means that the person has none on the channel.
type Person struct {
	UserID  string
	Address string

	Refused string            // why the person gets no message; empty: nothing
	Content string            // of the task, if it is the person's own
	Values  map[string]string // of the placeholders of the rendering that are the person's own; nil: the rendering is filled
}

// unreachable is why a person cannot be reached: the result of the task, and the label of the metric.
type unreachable struct{ result, label string }

var (
	reachable   = unreachable{}
	noAddress   = unreachable{result.NoAddress, "no_address"}
	faultReason = map[fault.Rule]unreachable{
		fault.Blank: noAddress, fault.CountryNotServed: {result.NotServed, "country"}, fault.Required: {result.NoSignature, "signature"},
	}
)

// admitPeople decides which people may get a message, and finds the pools of all.
func (s *Service) admitPeople(ctx context.Context, asOf time.Time, m Rendered, people []Person) []admit.Verdict {
	messages := make([]admit.Message, len(people))
	for i, person := range people {
		messages[i] = admit.Message{
			Channel: m.Channel, CompanyID: m.CompanyID, MessageType: m.MessageType, Recipient: person.Address, IsSigned: m.Sign != "",
			AsOf: asOf, WasAccepted: m.IsOlder,
		}
	}
	return s.admit.Admit(ctx, messages)
}

// reasonOf returns why a person is unreachable, if so. The error is not a fault.
func reasonOf(verdict admit.Verdict, person Person) (unreachable, error) {
	reason, refused := reachable, new(fault.Error)
	if errors.As(verdict.Err, &refused) && len(refused.Fields) == 1 {
		reason = faultReason[refused.Fields[0].Rule]
	} else if verdict.Err != nil {
		return reason, verdict.Err
	}
	if person.Refused != "" && reason != noAddress {
		reason = unreachable{person.Refused, "parameters"}
	}
	return reason, nil
}

// maxBeginning is how many characters of a rendering its tasks hold. A short message is not longer than the limits allow, and they hold it whole.
const maxBeginning = 200

// Beginning returns the beginning of a text that its tasks hold.
func Beginning(channel, text string) string {
	if runes := []rune(text); channel != directory.SMS && len(runes) > maxBeginning {
		return string(runes[:maxBeginning])
	}
	return text
}

// Enqueue stores a task for each person, due now, and returns their ids in the order of people. The task of an unreachable person has
// failed for good, with the reason: no address, a country to which the company may not send, a missing signature (S1.10), or what the
// caller says. Enqueue is
// part of the caller's transaction.
func (s *Service) Enqueue(ctx context.Context, m Rendered, people []Person) ([]string, error) {
	values, err := s.settings.Get(ctx)
	if err != nil {
		return nil, err
	}
	content := Beginning(m.Channel, m.Content)
	segments := 1 // of a message that is not a short message
	if m.Channel == directory.SMS {
		segments = segment.Count(segment.Signed(m.Sign, content))
	}
	priority := priorityOf(values.SMS, m.MessageType)
	if m.IsUrgent {
		priority = 0
	}
	p := queueq.TaskEnqueueParams{
		Content: content, SubmittedBy: m.User, CompanyID: m.CompanyID, MessageType: m.MessageType,
		Priority: priority, Segments: int16(segments), IsQueued: m.IsUrgent,
		Sign: m.Sign, ExpiresAt: m.ExpiresAt, OnUnclear: m.OnUnclear, RenderingID: m.RenderingID, RequestID: m.RequestID, SourceIp: m.SourceIP, UserAgent: logtext.Text(m.UserAgent),
		Traceparent: m.Traceparent,
	}
	asOf := time.Now()
	if err := s.directory.Renew(ctx); err != nil {
		return nil, err
	}
	news, unreached := map[int64]int{}, map[string]int{}
	verdicts := s.admitPeople(ctx, asOf, m, people)
	for i, person := range people {
		pool := verdicts[i].Pool
		reason, err := reasonOf(verdicts[i], person)
		if err != nil {
			return nil, err
		}
		p.TaskIds, p.UserIds = append(p.TaskIds, taskid.New()), append(p.UserIds, person.UserID)
		p.Recipients, p.PoolIds = append(p.Recipients, person.Address), append(p.PoolIds, pool.ID)
		values, err := json.Marshal(person.Values)
		if err != nil {
			return nil, fmt.Errorf("write values of contact: %w", err)
		}
		p.Contents, p.ContactValues = append(p.Contents, Beginning(m.Channel, person.Content)), append(p.ContactValues, values)
		p.CountryNos, p.Reasons = append(p.CountryNos, pool.CountryNo), append(p.Reasons, reason.result)
		if reason == reachable {
			news[pool.ID]++
		} else {
			unreached[reason.label]++
		}
	}
	if err := s.q.TaskEnqueue(ctx, p); err != nil {
		return nil, fmt.Errorf("enqueue tasks: %w", err)
	}
	s.db.AfterCommit(ctx, func() {
		for label, n := range unreached {
			s.queue.CountUnreached(label, n)
		}
		s.queue.Wake(news)
	})
	return p.TaskIds, nil
}
