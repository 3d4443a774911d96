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
	"lksms/internal/platform/characters"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/logtext"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/result"
)

// Rendered contains the data of a rendering that its tasks need, except the recipients.
type Rendered struct {
	Channel     string
	RenderingID int64
	Content     string
	Sign        string // signature in front of the content; can be empty
	MessageType int16
	ExpiresAt   *time.Time // the message must not be sent after this time; nil: no limit
	OnUnclear   string     // retry or fail; empty: the setting of the sender
	IsUrgent    bool       // the message is sent before all other messages of its channel, including verification codes
	IsOlder     bool       // the message was accepted before the last change of its company or channel: if its country is not served, the message is held and not refused
	Origin
}

func (m Rendered) exemption() admit.Exemption {
	if m.IsUrgent {
		return admit.FromCapsAndQuiet
	}
	return ""
}

// Person is a recipient. An empty Address means that the person has no address on the channel.
type Person struct {
	UserID  string
	Address string

	Refused string            // reason why the person receives no message; empty: no reason
	Content string            // text of the task for this person; empty: the text of the rendering
	Values  map[string]string // values of the person's placeholders in the rendering; nil: the rendering has no placeholders to fill
}

// unreachable is the reason why a person cannot be reached: the result of the task, and the label of the metric.
type unreachable struct{ result, label string }

var (
	reachable   = unreachable{}
	noAddress   = unreachable{result.NoAddress, "no_address"}
	faultReason = map[fault.Rule]unreachable{
		fault.Blank: noAddress, fault.CountryNotServed: {result.NotServed, "country"}, fault.IsBlocked: {result.Blocked, "blocked"},
		fault.Required: {result.NoSignature, "signature"}, fault.BeforeSending: {result.Expired, "expired"},
	}
)

// admitPeople decides which people are allowed to receive a message, and finds the pools of all people. messages contains what caps need.
func (s *Service) admitPeople(ctx context.Context, asOf time.Time, m Rendered, priority int16, people []Person) (verdicts []admit.Verdict, all []admit.Message) {
	messages := make([]admit.Message, len(people))
	for i, person := range people {
		messages[i] = admit.Message{
			Channel: m.Channel, CompanyID: m.CompanyID, MessageType: m.MessageType, Priority: priority, Recipient: person.Address, IsSigned: m.Sign != "",
			AsOf: asOf, WasAccepted: m.IsOlder, TaskID: taskid.New(), ExpiresAt: m.ExpiresAt, Waits: true, Exemption: m.exemption(),
		}
	}
	verdicts = s.admit.Admit(ctx, messages)
	for i := range verdicts {
		if v := &verdicts[i]; v.Err == nil && v.CanOnlyExpire(m.ExpiresAt) {
			v.Err = fault.InvalidField("expires_at", fault.BeforeSending, nil)
		}
	}
	return verdicts, messages
}

// reserve plans the messages of reachable people, so that caps allow them: planned contains when each is due; a zero time means now. It changes the verdicts and the
// reasons of the people. keep stores what was counted. It is called after the tasks are stored.
func (s *Service) reserve(
	ctx context.Context, messages []admit.Message, verdicts []admit.Verdict, reasons []unreachable,
) (planned []time.Time, keep func(context.Context) error, err error) {
	var reached []admit.Message
	var indexes []int
	for i, m := range messages {
		if reasons[i] == reachable {
			reached, indexes = append(reached, m), append(indexes, i)
		}
	}
	planned = make([]time.Time, len(messages))
	reservation, err := s.admit.Reserve(ctx, reached)
	if err != nil {
		return nil, nil, err //nolint:wrapcheck // the error is already wrapped
	}
	for n, slot := range reservation.Slots {
		i := indexes[n]
		switch {
		case slot.Err != nil:
			reasons[i] = unreachable{result.Limited, "limited"}
		case !slot.DueAt.IsZero():
			planned[i], verdicts[i].Quiet = slot.DueAt, slot.Quiet
		}
	}
	return planned, func(ctx context.Context) error {
		_, err := reservation.Commit(ctx, func(int) bool { return true })
		return err //nolint:wrapcheck // the error is already wrapped
	}, nil
}

// reasonsOf returns the reasons why people are unreachable, in their order.
func reasonsOf(verdicts []admit.Verdict, people []Person) ([]unreachable, error) {
	all := make([]unreachable, len(people))
	for i, person := range people {
		var err error
		if all[i], err = reasonOf(verdicts[i], person); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// reasonOf returns the reason why a person is unreachable. The reason is empty if the person is reachable. An error means that the decision is unknown.
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

// maxBeginning is the maximum number of characters of a rendering that each task stores. For SMS, each task stores the whole text.
const maxBeginning = 200

// StoredBeginning returns the part of a text that each task stores: for SMS the whole text, otherwise its first maxBeginning characters.
func StoredBeginning(channel, text string) string {
	if channel == directory.SMS {
		return text
	}
	return characters.First(text, maxBeginning)
}

// Enqueue stores a task for each person, due now, and returns the task ids in the order of people. The task of an unreachable person is FAILED with the
// reason: no address, a country to which the company is not allowed to send, a missing signature (S1.10), quiet hours until the message
// expires, or Person.Refused. Enqueue runs in the transaction of the caller.
func (s *Service) Enqueue(ctx context.Context, m Rendered, people []Person) ([]string, error) {
	values, err := s.settings.Get(ctx)
	if err != nil {
		return nil, err
	}
	content := StoredBeginning(m.Channel, m.Content)
	segments := 1 // for channels other than SMS
	if m.Channel == directory.SMS {
		segments = segment.Count(segment.Signed(m.Sign, content))
	}
	priority := values.SMS.PriorityOf(m.MessageType)
	if m.IsUrgent {
		priority = 0
	}
	p := queueq.TaskEnqueueParams{
		Content: content, SubmittedBy: m.User, CompanyID: m.CompanyID, MessageType: m.MessageType,
		Priority: priority, Segments: int16(segments), IsQueued: m.IsUrgent,
		Sign: m.Sign, ExpiresAt: m.ExpiresAt, OnUnclear: m.OnUnclear, RenderingID: m.RenderingID, RequestID: m.RequestID, SourceIp: m.SourceIP, UserAgent: logtext.Text(m.UserAgent),
		Traceparent: m.Traceparent, Exemption: string(m.exemption()),
	}
	asOf := time.Now()
	if err := s.directory.Renew(ctx); err != nil {
		return nil, err
	}
	if err := s.q.QueueEnter(ctx); err != nil {
		return nil, fmt.Errorf("enqueue tasks: %w", err)
	}
	news, unreached := map[int64]int{}, map[string]int{}
	verdicts, messages := s.admitPeople(ctx, asOf, m, priority, people)
	reasons, err := reasonsOf(verdicts, people)
	if err != nil {
		return nil, err
	}
	planned, keep, err := s.reserve(ctx, messages, verdicts, reasons)
	if err != nil {
		return nil, err
	}
	for i, person := range people {
		pool, reason := verdicts[i].Pool, reasons[i]
		p.TaskIds, p.UserIds = append(p.TaskIds, messages[i].TaskID), append(p.UserIds, person.UserID)
		p.Recipients, p.PoolIds = append(p.Recipients, person.Address), append(p.PoolIds, pool.ID)
		values, err := json.Marshal(person.Values)
		if err != nil {
			return nil, fmt.Errorf("write values of contact: %w", err)
		}
		p.Contents, p.ContactValues = append(p.Contents, StoredBeginning(m.Channel, person.Content)), append(p.ContactValues, values)
		p.CountryNos, p.Reasons = append(p.CountryNos, pool.CountryNo), append(p.Reasons, reason.result)
		p.QuietFroms, p.PlannedTimes = append(p.QuietFroms, verdicts[i].Quiet.From()), append(p.PlannedTimes, optional.NonZero(planned[i]))
		if reason == reachable {
			news[pool.ID]++
		} else {
			unreached[reason.label]++
		}
	}
	if err := s.q.TaskEnqueue(ctx, p); err != nil {
		return nil, fmt.Errorf("enqueue tasks: %w", err)
	}
	if err := keep(ctx); err != nil {
		return nil, err
	}
	s.db.AfterCommit(ctx, func() {
		for label, n := range unreached {
			s.queue.CountUnreached(label, n)
		}
		s.queue.Wake(news)
	})
	return p.TaskIds, nil
}
