package conversation

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/dispatch/received"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/postgres"
)

// answerWithin is the time in which an automatic answer must be sent. Later, it would puzzle the person.
const answerWithin = 24 * time.Hour

// Answer is an automatic answer to a received message. It has either a text or a template without placeholders.
type Answer struct {
	Content    string
	TemplateNo string
	Sign       *string // nil: the template's signature; without a template: the signature of the answered task
	DedupKey   string
	By         string // user who submits the answer if the message answers no task, or a task of a disabled user; otherwise the submitter of the answered task does, and so sees further replies
}

// Answer submits an automatic answer, as Reply submits a reply: only the sender that received the message sends it. It waits if this sender cannot send now,
// because nobody could choose another one. Answer can be part of a larger transaction. Faults: those of submit.Service.Submit, conversation.sender_unavailable.
func (s *Service) Answer(ctx context.Context, m received.Row, a Answer) (submit.Submitted, error) {
	if a.Sign == nil && a.TemplateNo == "" {
		var err error
		if a.Sign, err = s.signOf(ctx, m.TaskID); err != nil {
			return submit.Submitted{}, err
		}
	}
	origin, err := s.originOf(ctx, m, a.By)
	if err != nil {
		return submit.Submitted{}, err
	}
	made, err := s.submissions.Submit(ctx, submit.Submission{
		PhoneNumber: m.PhoneNumber, Content: a.Content, TemplateNo: a.TemplateNo, Sign: optional.Value(a.Sign), DedupKey: &a.DedupKey, Raw: rawOf(m),
		MessageType: submit.Notification, IsReply: true, SenderNo: m.SenderNo, ExpiresAt: new(time.Now().Add(answerWithin)),
	}, origin)
	return made, notServing(err, m.SenderNo)
}

// Forward describes to whom a received message is forwarded.
type Forward struct {
	Numbers  []string
	Sign     *string // nil: the signature of the task that the message answers
	DedupKey string  // prefix of the dedup keys of the tasks
	By       string  // submitter, as in Answer
}

// Forward submits a received message as a notification to other numbers, and returns the numbers that were refused. The text begins with the number of the person,
// and is cut to the maximum length.
func (s *Service) Forward(ctx context.Context, m received.Row, f Forward) (refused []string, err error) {
	limits, err := s.submissions.Limits(ctx, submit.Notification)
	if err != nil {
		return nil, fmt.Errorf("read limits: %w", err)
	}
	if f.Sign == nil {
		if f.Sign, err = s.signOf(ctx, m.TaskID); err != nil {
			return nil, err
		}
	}
	sign := optional.Value(f.Sign)
	text := limits.Fit(sign, m.PhoneNumber+": "+m.Content)
	subs := make([]submit.Submission, len(f.Numbers))
	for i, number := range f.Numbers {
		subs[i] = submit.Submission{
			PhoneNumber: number, Content: text, Sign: sign, DedupKey: new(fmt.Sprint(f.DedupKey, ":", i)), Raw: rawOf(m), MessageType: submit.Notification,
			IsUncapped: true, // caps protect people who did not ask for messages
		}
	}
	origin, err := s.originOf(ctx, m, f.By)
	if err != nil {
		return nil, err
	}
	outcomes, err := s.submissions.SubmitAll(ctx, subs, origin)
	for i, o := range outcomes {
		if o.Err != nil {
			refused = append(refused, f.Numbers[i])
		}
	}
	return refused, err //nolint:wrapcheck // the error is already wrapped
}

// rawOf returns the request of an automatic message, for the log.
func rawOf(m received.Row) []byte {
	raw, err := json.Marshal(map[string]int64{"received_id": m.ID})
	if err != nil {
		panic(err) // numbers can always be written
	}
	return raw
}

// originOf returns the submitter of an automatic message. The tasks of a disabled user are held, so that such a user submits none.
func (s *Service) originOf(ctx context.Context, m received.Row, by string) (submit.Origin, error) {
	origin := submit.Origin{User: cmp.Or(m.SubmittedBy, by), CompanyID: m.CompanyID}
	isDisabled, err := s.q.ConversationUserIsDisabled(ctx, origin.User)
	if isDisabled {
		origin.User = by
	}
	return origin, postgres.Wrap("read submitter of an automatic message", err, nil)
}
