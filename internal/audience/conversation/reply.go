package conversation

import (
	"context"
	"errors"
	"slices"
	"time"

	"lksms/internal/dispatch/queue/explain"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/dispatch/queue/task"
	"lksms/internal/dispatch/sender"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/postgres"
)

// maxPause is the maximum remaining pause of a sender that still counts as available. It is longer than usual intervals between two claims.
const maxPause = time.Minute

// Reply is a reply in a conversation.
type Reply struct {
	Content  string
	ByAny    bool    // any sender of the company sends the reply; otherwise only the sender that received the last message
	Sign     *string // nil: the signature of the task that the last message answers; empty: no signature
	DedupKey *string
	Raw      []byte // request as JSON, for the log
}

// Replied is the task of a reply. An empty SenderNo means that any sender can send it.
type Replied struct {
	submit.Submitted
	SenderNo string
}

// Reply submits a reply as a task. It refuses a reply that would wait because its sender cannot send now, or because a switch would hold it: nobody would
// notice the wait. Faults: those of submit.Service.Submit, request.invalid, conversation.not_found, conversation.sender_unavailable.
func (s *Service) Reply(ctx context.Context, viewer task.Viewer, key Key, r Reply, origin submit.Origin) (Replied, error) {
	head, err := s.head(ctx, viewer, key)
	if err != nil {
		return Replied{}, err
	}
	if r.Sign == nil {
		if r.Sign, err = s.signOf(ctx, head.answers); err != nil {
			return Replied{}, err
		}
	}
	sub := submit.Submission{
		PhoneNumber: key.Number, Content: r.Content, Sign: optional.Value(r.Sign), DedupKey: r.DedupKey, Raw: r.Raw, MessageType: submit.Notification, IsReply: true,
	}
	if !r.ByAny {
		sub.SenderNo = head.SenderNo
	}
	if err := s.checkNow(ctx, sub, origin); err != nil {
		return Replied{}, err
	}
	made, err := s.submissions.Submit(ctx, sub, origin)
	return Replied{made, sub.SenderNo}, notServing(err, sub.SenderNo)
}

// checkNow returns a fault if a reply would wait: request.invalid with the switches that would hold it, or conversation.sender_unavailable if the only sender of the
// reply cannot send it now.
func (s *Service) checkNow(ctx context.Context, sub submit.Submission, origin submit.Origin) error {
	would, err := s.submissions.Preview(ctx, sub, origin)
	if err != nil || would.Verdict == submit.WouldRepeat {
		return notServing(err, sub.SenderNo)
	}
	heldBy := slices.DeleteFunc(would.HeldBy, func(w explain.Switch) bool { return w.Kind == explain.NoSharedSenders && sub.SenderNo != "" }) // does not concern a chosen sender
	switch {
	case len(heldBy) > 0:
		return fault.InvalidField("phone_number", fault.SwitchedOff, heldBy)
	case sub.SenderNo == "":
		return nil
	}
	for _, c := range would.Senders {
		if c.SenderNo != sub.SenderNo {
			continue
		}
		if c.CanSend() || c.Why == sender.WhyPaused && c.Until != nil && time.Until(*c.Until) < maxPause {
			return nil
		}
		return unavailable(sub.SenderNo, c.Why)
	}
	return unavailable(sub.SenderNo, fault.WhyNotServing)
}

// notServing returns the fault conversation.sender_unavailable if err is the fault that the only sender does not serve the company. Otherwise it returns err.
func notServing(err error, senderNo string) error {
	var wrong *fault.Error
	if errors.As(err, &wrong) && len(wrong.Fields) == 1 && wrong.Fields[0].Rule == fault.NotServing {
		return unavailable(senderNo, fault.WhyNotServing)
	}
	return err
}

func unavailable(senderNo, why string) error {
	return &fault.Error{
		Kind: fault.Conflict, Reason: fault.ReplySenderNotReady,
		Fields: []fault.Field{{Name: "sender", Rule: fault.SenderNotReady, Limit: fault.NotReady{SenderNo: senderNo, Why: why}}},
	}
}

// signOf returns the signature of the task that a received message answers; nil: it answers no task.
func (s *Service) signOf(ctx context.Context, answered *string) (*string, error) {
	if answered == nil {
		return nil, nil
	}
	sign, err := s.inParts.ConversationSign(ctx, *answered)
	if postgres.IsNoRows(err) { // the task was dropped with its partition
		return nil, nil
	}
	return sign, postgres.Wrap("read signature of task", err, nil)
}
