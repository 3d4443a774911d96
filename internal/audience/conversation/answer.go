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
)

// answerWithin is the time in which an automatic answer must be sent. Later, it would puzzle the person.
const answerWithin = 24 * time.Hour

// Answer is an automatic answer to a received message. It has either a text or a template without placeholders.
type Answer struct {
	Content    string
	TemplateNo string
	DedupKey   string
	By         string // the submitter, if the message answers no task; otherwise the submitter of that task, who then sees what the person replies
}

// Answer submits an automatic answer, as Reply submits a reply: only the sender that received the message sends it. It waits if this sender cannot send now,
// because nobody could choose another one. Answer can be part of a larger transaction. Faults: those of submit.Service.Submit, conversation.sender_unavailable.
func (s *Service) Answer(ctx context.Context, m received.Row, a Answer) (submit.Submitted, error) {
	var sign *string
	if a.TemplateNo == "" { // a template has its own signature
		var err error
		if sign, err = s.signOf(ctx, m.TaskID); err != nil {
			return submit.Submitted{}, err
		}
	}
	made, err := s.submissions.Submit(ctx, submit.Submission{
		PhoneNumber: m.PhoneNumber, Content: a.Content, TemplateNo: a.TemplateNo, Sign: optional.Value(sign), DedupKey: &a.DedupKey, Raw: rawOf(m),
		MessageType: submit.Notification, IsReply: true, SenderNo: m.SenderNo, ExpiresAt: new(time.Now().Add(answerWithin)),
	}, originOf(m, a.By))
	return made, notServing(err, m.SenderNo)
}

// Forward submits a received message as a notification to other numbers, and returns the numbers that were refused. The text begins with the number of the person,
// and is cut to the maximum length. It has the signature of the task that the message answers. The dedup keys of the tasks begin with dedupKey. by is the submitter
// as in Answer.
func (s *Service) Forward(ctx context.Context, m received.Row, numbers []string, dedupKey, by string) (refused []string, err error) {
	limits, err := s.submissions.Limits(ctx, submit.Notification)
	if err != nil {
		return nil, fmt.Errorf("read limits: %w", err)
	}
	sign, err := s.signOf(ctx, m.TaskID)
	if err != nil {
		return nil, err
	}
	text := limits.Fit(optional.Value(sign), m.PhoneNumber+": "+m.Content)
	subs := make([]submit.Submission, len(numbers))
	for i, number := range numbers {
		subs[i] = submit.Submission{
			PhoneNumber: number, Content: text, Sign: optional.Value(sign), DedupKey: new(fmt.Sprint(dedupKey, ":", i)), Raw: rawOf(m), MessageType: submit.Notification,
			IsUncapped: true, // caps protect people who did not ask for messages
		}
	}
	outcomes, err := s.submissions.SubmitAll(ctx, subs, originOf(m, by))
	for i, o := range outcomes {
		if o.Err != nil {
			refused = append(refused, numbers[i])
		}
	}
	return refused, err //nolint:wrapcheck // already wrapped
}

// rawOf returns the request of an automatic message, for the log.
func rawOf(m received.Row) []byte {
	raw, err := json.Marshal(map[string]int64{"received_id": m.ID})
	if err != nil {
		panic(err) // numbers can always be written
	}
	return raw
}

func originOf(m received.Row, by string) submit.Origin {
	return submit.Origin{User: cmp.Or(m.SubmittedBy, by), CompanyID: m.CompanyID}
}
