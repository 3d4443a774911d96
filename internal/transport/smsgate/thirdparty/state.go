package thirdparty

import (
	"context"
	"time"

	"lksms/gen/thirdpartyq"
	"lksms/internal/dispatch/queue"
	"lksms/internal/dispatch/segment"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/postgres"
	"lksms/internal/transport/smsgate"
)

// State is the state of a message, as answers have it.
type State struct {
	ID         string
	DeviceID   string // the only sender that may send it, else the one that has the first recipient; empty: none yet
	State      string
	Recipients []Recipient
	States     map[string]time.Time // when it came to each state that it has reached: the last of the recipients
	Text       string               // with the signature; empty unless it was asked for

	taskIDs []string
}

// Recipient is the state of one recipient.
type Recipient struct {
	PhoneNumber string // in E.164; empty: an erasure took it
	State       string
	Error       string
}

// statesOf returns the states of messages, in their order, without those whose tasks the history has dropped: DeleteExpired deletes them.
func (s *Service) statesOf(ctx context.Context, messages []thirdpartyq.SmsgateMessageGetRow, withText bool) ([]State, error) {
	ids, texts := []string{}, []string{}
	for _, m := range messages {
		ids = append(ids, m.TaskIds...)
		if withText {
			texts = append(texts, m.TaskIds[0]) // all have the same
		}
	}
	tasks := map[string]thirdpartyq.SmsgateTasksRow{}
	if len(ids) > 0 {
		rows, err := s.inParts.SmsgateTasks(ctx, thirdpartyq.SmsgateTasksParams{TaskIds: ids, TextsOf: texts})
		if err != nil {
			return nil, postgres.Wrap("read tasks of messages", err, nil)
		}
		for _, t := range rows {
			tasks[t.TaskID] = t
		}
	}
	all := make([]State, 0, len(messages))
	for _, m := range messages {
		if _, isKept := tasks[m.TaskIds[0]]; isKept { // they were made in one moment, and are dropped together
			all = append(all, stateOf(m, tasks))
		}
	}
	return all, nil
}

// stateOf returns the state of a message.
func stateOf(m thirdpartyq.SmsgateMessageGetRow, tasks map[string]thirdpartyq.SmsgateTasksRow) State {
	state := State{
		ID: m.MessageID, DeviceID: optional.Value(m.SenderNo), taskIDs: m.TaskIds, States: map[string]time.Time{smsgate.Pending: m.CreatedAt},
	}
	reach := func(name string, at *time.Time) {
		if at != nil && at.After(state.States[name]) {
			state.States[name] = *at
		}
	}
	states := map[string]int{}
	first := tasks[m.TaskIds[0]]
	state.Text = segment.Signed(first.Sign, first.Content)
	for _, id := range m.TaskIds {
		t := tasks[id]
		one := Recipient{PhoneNumber: t.Recipient}
		one.State, one.Error = recipientState(t)
		if state.DeviceID == "" {
			state.DeviceID = optional.Value(t.ProcessingAppID)
		}
		reach(smsgate.Sent, t.SentAt)
		reach(smsgate.Delivered, t.DeliveredAt)
		if one.State == smsgate.Failed || one.State == smsgate.Processed || one.State == smsgate.Cancelled {
			reach(one.State, &t.UpdatedAt)
		}
		states[one.State]++
		state.Recipients = append(state.Recipients, one)
	}
	state.State = whole(states, len(m.TaskIds))
	return state
}

// recipientState returns the state of one task, and why it failed.
func recipientState(t thirdpartyq.SmsgateTasksRow) (state, failure string) {
	switch t.Status {
	case queue.Pending:
		return smsgate.Pending, ""
	case queue.Processing:
		return smsgate.Processed, ""
	case queue.Cancelled:
		return smsgate.Cancelled, ""
	case queue.Failed:
		if optional.Value(t.Delivery) == delivered { // its outcome was unclear, and a late receipt says that it arrived
			return smsgate.Delivered, ""
		}
		return smsgate.Failed, optional.Value(t.Result)
	}
	switch optional.Value(t.Delivery) {
	case delivered:
		return smsgate.Delivered, ""
	case undelivered:
		return smsgate.Failed, optional.Or(t.DeliveryCode, "undelivered")
	}
	return smsgate.Sent, ""
}

// What a receipt says of a task.
const delivered, undelivered = 1, 2

// whole returns the state of a message of n recipients, as SMSGate concludes it: the first that some are in of Pending, Cancelled and Processed,
// else the one that all are in, else Sent.
func whole(states map[string]int, n int) string {
	for _, some := range []string{smsgate.Pending, smsgate.Cancelled, smsgate.Processed} {
		if states[some] > 0 {
			return some
		}
	}
	for _, all := range []string{smsgate.Failed, smsgate.Delivered} {
		if states[all] == n {
			return all
		}
	}
	return smsgate.Sent
}
