package client

import (
	"context"
	"iter"
	"net/http"
	"time"

	api "lksms/gen/client"
)

// Send submits a message. If Send returns no error, the server has stored the message durably. If the error contains an [UnknownError], the server has
// possibly stored the message.
func (c *Client) Send(ctx context.Context, m Message, more ...CallOption) (*Submitted, error) {
	key := idempotencyKey(more)
	params := &api.SendSmsParams{IdempotencyKey: &key}
	return create[*Submitted](ctx, c, key, 0, func(ctx context.Context) (*http.Response, error) { return c.api.SendSms(ctx, params, m) })
}

// Preview returns how a message would be sent, and creates nothing.
func (c *Client) Preview(ctx context.Context, m Message) (*Submitted, error) {
	params := &api.SendSmsParams{DryRun: new(true)}
	return call[*Submitted](ctx, c, repeatable, 0, func(ctx context.Context) (*http.Response, error) { return c.api.SendSms(ctx, params, m) })
}

// SendBatch submits up to 1000 messages in one transaction. The results have the order of the messages. Single messages can be rejected: check Refused.
func (c *Client) SendBatch(ctx context.Context, messages []Message, more ...CallOption) (*SentBatch, error) {
	key := idempotencyKey(more)
	params := &api.SendSmsBatchParams{IdempotencyKey: &key}
	return create[*SentBatch](ctx, c, key, 0, func(ctx context.Context) (*http.Response, error) {
		return c.api.SendSmsBatch(ctx, params, api.SendBatchRequest{Messages: messages})
	})
}

// Task returns a task.
func (c *Client) Task(ctx context.Context, taskID string) (*TaskDetail, error) {
	return call[*TaskDetail](ctx, c, repeatable, 0, func(ctx context.Context) (*http.Response, error) { return c.api.GetTask(ctx, taskID) })
}

// Timeline returns the events of a task, oldest first.
func (c *Client) Timeline(ctx context.Context, taskID string) ([]TimelineEvent, error) {
	return call[[]TimelineEvent](ctx, c, repeatable, 0, func(ctx context.Context) (*http.Response, error) {
		return c.api.GetTaskTimeline(ctx, taskID)
	})
}

// Explain returns the reason why a task is in its state, and the senders that could claim it.
func (c *Client) Explain(ctx context.Context, taskID string) (*Explanation, error) {
	return call[*Explanation](ctx, c, repeatable, 0, func(ctx context.Context) (*http.Response, error) { return c.api.ExplainTask(ctx, taskID) })
}

// Tasks lists tasks, newest first. It requests the next page when the loop needs it. An error ends the loop.
func (c *Client) Tasks(ctx context.Context, filter TaskFilter) iter.Seq2[Task, error] {
	return pages(func(cursor *string) ([]Task, *string, error) {
		filter.Cursor = cursor
		page, err := call[api.TaskPage](ctx, c, repeatable, 0, func(ctx context.Context) (*http.Response, error) {
			return c.api.ListTasks(ctx, &filter)
		})
		return page.Items, page.NextCursor, err
	}, filter.Cursor)
}

// pages iterates over the items of all pages of a list, starting with the page at cursor.
func pages[T any](read func(cursor *string) ([]T, *string, error), cursor *string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for next := cursor; ; {
			items, following, err := read(next)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			if following == nil {
				return
			}
			next = following
		}
	}
}

// WaitForTask waits until a task has ended, and returns the task. It calls seen for each state before. Once a call of the client has succeeded, it continues
// after restarts of the server, until ctx ends.
func (c *Client) WaitForTask(ctx context.Context, taskID string, seen func(*TaskDetail)) (*TaskDetail, error) {
	return follow(ctx, c, func() (*TaskDetail, error) { return c.Task(ctx, taskID) }, func(t *TaskDetail) bool {
		if Ended(t.Status) {
			return true
		}
		if seen != nil {
			seen(t)
		}
		return false
	})
}

// follow reads until isEnd returns true. The pauses grow from a quarter of a second to three seconds. A temporary error does not end follow, unless no call
// of the client has succeeded yet.
func follow[T any](ctx context.Context, c *Client, read func() (T, error), isEnd func(T) bool) (T, error) {
	const longest = 3 * time.Second
	pause, failures := 250*time.Millisecond, 0
	for {
		value, err := read()
		switch {
		case err == nil && isEnd(value):
			return value, nil
		case err == nil:
			failures = 0
			if !sleep(ctx, pause) {
				return value, context.Cause(ctx)
			}
			pause = min(pause*5/4, longest)
		case !c.outlasts(ctx, err) || !c.pause(ctx, err, failures):
			return value, err
		default:
			failures++
		}
	}
}

// Cancel cancels a task that no sender holds. If a repeated attempt finds the task CANCELLED, Cancel has succeeded.
func (c *Client) Cancel(ctx context.Context, taskID string) (*Task, error) {
	attempts := 0
	task, err := call[*Task](ctx, c, repeatable, 0, func(ctx context.Context) (*http.Response, error) {
		attempts++
		return c.api.CancelTask(ctx, taskID)
	})
	if attempts > 1 && Reason(err) == "task.not_pending" {
		// An earlier attempt possibly cancelled the task, and only its response was lost.
		if now, failed := call[*Task](ctx, c, repeatable, 0, func(ctx context.Context) (*http.Response, error) {
			return c.api.GetTask(ctx, taskID)
		}); failed == nil && now.Status == Cancelled {
			return now, nil
		}
	}
	return task, err
}

// Requeue sends a FAILED or CANCELLED task again. remark is a reason for the timeline, and can be empty. Requeue is not repeated after a lost response,
// because the task could have been sent and failed again in the meantime.
func (c *Client) Requeue(ctx context.Context, taskID, remark string) (*Task, error) {
	var body api.RequeueRequest
	if remark != "" {
		body.Remark = &remark
	}
	return call[*Task](ctx, c, once, 0, func(ctx context.Context) (*http.Response, error) { return c.api.RequeueTask(ctx, taskID, body) })
}
