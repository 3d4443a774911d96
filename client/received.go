package client

import (
	"context"
	"iter"
	"net/http"

	api "lksms/gen/client"
)

// Receive hands over up to 100 messages that people sent to a sender. The results have the order of the messages. Single messages can be rejected: check
// Refused. The server stores a repeated message once if it has ReceivedAt or MessageNo. After a lost response, Receive is repeated only if each message has one
// of them.
func (c *Client) Receive(ctx context.Context, appID string, messages []ReceivedInput) (*ReceivedBatch, error) {
	s := repeatable
	for _, m := range messages {
		if m.ReceivedAt == nil && m.MessageNo == nil {
			s = once
		}
	}
	return call[*ReceivedBatch](ctx, c, s, 0, func(ctx context.Context) (*http.Response, error) {
		return c.api.ReceiveMessages(ctx, api.ReceivedRequest{AppID: appID, Messages: messages})
	})
}

// ReceivedMessages lists received messages, newest first. An error ends the loop.
func (c *Client) ReceivedMessages(ctx context.Context, filter ReceivedFilter) iter.Seq2[Received, error] {
	return pages(func(cursor *string) ([]Received, *string, error) {
		filter.Cursor = cursor
		page, err := call[api.ReceivedPage](ctx, c, repeatable, 0, func(ctx context.Context) (*http.Response, error) {
			return c.api.ListReceived(ctx, &filter)
		})
		return page.Items, page.NextCursor, err
	}, filter.Cursor)
}

// ReceivedMessage returns a received message.
func (c *Client) ReceivedMessage(ctx context.Context, id int64) (*Received, error) {
	return call[*Received](ctx, c, repeatable, 0, func(ctx context.Context) (*http.Response, error) { return c.api.GetReceived(ctx, id) })
}

// ReadReceived marks a received message as read. If the message is already read, nothing changes.
func (c *Client) ReadReceived(ctx context.Context, id int64) (*Received, error) {
	return call[*Received](ctx, c, repeatable, 0, func(ctx context.Context) (*http.Response, error) { return c.api.ReadReceived(ctx, id) })
}
