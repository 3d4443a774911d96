package smppserver

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"lksms/internal/dispatch/queue"
	"lksms/internal/dispatch/queue/task"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/result"
	"lksms/internal/platform/smpp"
)

// query answers query_sm: the state of a message.
func (c *call) query(ctx context.Context, q *smpp.Query) *smpp.PDU {
	row, err := c.find(ctx, q.MessageID)
	if err != nil {
		return c.refuse(ctx, err)
	}
	answer := &smpp.QueryResp{MessageID: q.MessageID, State: stateOf(row)}
	if answer.State.IsFinal() {
		answer.FinalDate = smpp.FormatTime(row.UpdatedAt)
	}
	return c.request.Response(smpp.OK, answer)
}

// find returns the task of a message id.
func (c *call) find(ctx context.Context, messageID string) (task.Row, error) {
	taskID := messageID
	if n, err := strconv.ParseInt(messageID, 10, 64); err == nil {
		if taskID, err = c.s.q.SmppNumberGet(ctx, n); err != nil && !postgres.IsNoRows(err) {
			return task.Row{}, fmt.Errorf("find short message id: %w", err)
		}
	}
	if !postgres.IsText(taskID) {
		return task.Row{}, errNoMessage
	}
	row, err := c.s.services.Tasks.Get(ctx, c.viewer(), taskID)
	var f *fault.Error
	if errors.As(err, &f) && f.Kind == fault.NotFound {
		err = errNoMessage
	}
	return row, err
}

var errNoMessage = &refusal{smpp.RInvMsgID, "message_id: no such message of this user"}

// stateOf returns the state of a task. A message that was sent is on the way until its receipt.
func stateOf(row task.Row) smpp.State {
	switch {
	case row.Status == queue.Cancelled:
		return smpp.Deleted
	case row.Status == queue.Failed && row.Result != nil && *row.Result == result.Expired:
		return smpp.Expired
	case row.Status == queue.Failed, row.Delivery != nil && *row.Delivery == undelivered:
		return smpp.Undeliverable
	case row.Delivery != nil && *row.Delivery == delivered:
		return smpp.Delivered
	default:
		return smpp.Enroute
	}
}

// These are the values of tasks.delivery.
const (
	delivered   = 1
	undelivered = 2
)

// cancel answers cancel_sm. Only one message can be cancelled at a time.
func (c *call) cancel(ctx context.Context, m *smpp.Cancel) *smpp.PDU {
	if m.MessageID == "" {
		return c.refuse(ctx, &refusal{smpp.RCancelFail, "cancel_sm needs a message_id"})
	}
	row, err := c.find(ctx, m.MessageID)
	if err == nil {
		_, err = c.s.services.Tasks.Cancel(ctx, c.viewer(), row.TaskID, c.origin.User)
	}
	if f := (*fault.Error)(nil); errors.As(err, &f) && f.Kind == fault.Conflict {
		err = &refusal{smpp.RCancelFail, "the message does not wait any more"}
	}
	if err != nil {
		return c.refuse(ctx, err)
	}
	return c.request.Response(smpp.OK, nil)
}
