package submit

import (
	"context"

	"lksms/internal/platform/fault"
	"lksms/internal/platform/setting"
)

// priority returns the priority that a submission requests, if its user is allowed to request it. Without a requested priority, it returns the priority of
// the message type, or the priority of replies.
func priority(values setting.SMS, sub Submission, origin Origin) (int16, error) {
	usual := values.PriorityOf(sub.MessageType)
	if sub.IsReply {
		usual = int16(values.PriorityConversation)
	}
	switch {
	case sub.Priority == nil:
		return usual, nil
	case *sub.Priority < min(usual, origin.TopPriority):
		return 0, fault.InvalidField("priority", fault.TooUrgent, min(usual, origin.TopPriority))
	default:
		return *sub.Priority, nil
	}
}

// leastUrgent is the least urgent priority.
const leastUrgent = 9

// PriorityOf converts an urgency of another program to a priority. Urgency 1 is the most urgent priority that the user is allowed to request, and -1 is the
// least urgent priority. For urgency 0, PriorityOf returns nil, which means the priority of the message type.
func (s *Service) PriorityOf(ctx context.Context, messageType int16, urgency float64, origin Origin) (*int16, error) {
	if urgency == 0 {
		return nil, nil
	}
	values, err := s.settings.Get(ctx)
	if err != nil {
		return nil, err
	}
	return new(scaled(values.SMS, messageType, urgency, origin.TopPriority)), nil
}

func scaled(values setting.SMS, messageType int16, urgency float64, top int16) int16 {
	usual := values.PriorityOf(messageType)
	to := int16(leastUrgent)
	if urgency > 0 {
		to = min(usual, top)
	}
	part := min(1, max(-1, urgency))
	if part < 0 {
		part = -part
	}
	return usual + int16(part*float64(to-usual)) // the conversion rounds towards the usual priority
}
