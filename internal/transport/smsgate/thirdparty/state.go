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

// State is the state of a message.
type State struct {
	ID         string
	DeviceID   string // the required sender, or otherwise the sender of the first recipient; empty: no sender yet
	State      string
	Recipients []Recipient
	States     map[string]time.Time // for each state, the latest time at which a recipient reached the state
	Text       string               // text with the signature; empty unless the caller requested the text

	taskIDs []string
}

// Recipient is the state of one recipient.
type Recipient struct {
	PhoneNumber string // number in E.164; empty: the number was erased
	State       string
	Error       string
}

// statesOf returns the states of messages in the same order. It skips messages whose tasks were dropped from the history. DeleteExpired deletes such
// messages later.
func (s *Service) statesOf(ctx context.Context, messages []thirdpartyq.SmsgateMessageGetRow, withText bool) ([]State, error) {
	ids, texts := []string{}, []string{}
	for _, m := range messages {
		ids = append(ids, m.TaskIds...)
		if withText {
			texts = append(texts, m.TaskIds[0]) // all tasks of a message have the same text
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
		if _, isKept := tasks[m.TaskIds[0]]; isKept { // the tasks of a message were created together and are dropped together
			all = append(all, stateOf(m, tasks))
		}
	}
	return all, nil
}

// stateOf returns the state of a message from its tasks.
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

// recipientState returns the state of one task, and the reason if it failed.
func recipientState(t thirdpartyq.SmsgateTasksRow) (state, failure string) {
	switch t.Status {
	case queue.Pending:
		return smsgate.Pending, ""
	case queue.Processing:
		return smsgate.Processed, ""
	case queue.Cancelled:
		return smsgate.Cancelled, ""
	case queue.Failed:
		if optional.Value(t.Delivery) == delivered { // the outcome was unclear until a late receipt reported the delivery
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

// delivered and undelivered are delivery states of a task.
const delivered, undelivered = 1, 2

// whole returns the state of a message with n recipients by the rules of SMSGate. If at least one recipient is Pending, Cancelled or Processed, whole returns the
// first of these three states that occurs. If all recipients are Failed, or all are Delivered, it returns this state. Otherwise it returns Sent.
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
