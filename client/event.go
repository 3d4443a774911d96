package client

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"time"

	api "lksms/gen/client"
)

// EventFilter selects events. The zero value selects all events of the caller.
type EventFilter struct {
	Types     []EventType
	CompanyNo string // number of a company; only for callers who can read all companies
	Limit     int    // maximum number of events of one page, 100 by default
}

// PullEvents returns the events after the cursor. If no event exists, the server waits for an event, at most for the duration wait and at most 30 seconds.
// With an empty cursor, PullEvents returns the current cursor, and the server records events from this moment. Store NextCursor after you have processed
// the events.
func (c *Client) PullEvents(ctx context.Context, after string, wait time.Duration, filter EventFilter) (*EventPage, error) {
	params := api.PullEventsParams{Wait: new(int(wait / time.Second))}
	if after != "" {
		params.After = &after
	}
	if len(filter.Types) > 0 {
		params.Type = &filter.Types
	}
	if filter.CompanyNo != "" {
		params.CompanyNo = &filter.CompanyNo
	}
	if filter.Limit > 0 {
		params.Limit = &filter.Limit
	}
	return call[*EventPage](ctx, c, repeatable, wait, func(ctx context.Context) (*http.Response, error) { return c.api.PullEvents(ctx, &params) })
}

// FollowEvents pulls events until ctx ends. Once a call of the client has succeeded, the loop continues after restarts of the server. First it yields the
// page of the first response, which can contain only a cursor. Then it yields each page with events. An error ends the loop.
func (c *Client) FollowEvents(ctx context.Context, after string, filter EventFilter) iter.Seq2[*EventPage, error] {
	return func(yield func(*EventPage, error) bool) {
		cursor, isFirst, failures := after, true, 0
		for {
			asked := time.Now()
			page, err := c.PullEvents(ctx, cursor, 30*time.Second, filter)
			if err == nil && page.NextCursor == "" {
				err = errors.New("the response is not from LKSMS: it has no cursor")
			}
			if err != nil {
				if c.outlasts(ctx, err) && c.pause(ctx, err, failures) {
					failures++
					continue
				}
				yield(nil, err)
				return
			}
			failures = 0
			if (isFirst || len(page.Items) > 0) && !yield(page, nil) {
				return
			}
			// During a shutdown, the server responds before the requested wait has ended. Wait a second, so that the loop does not call the server without
			// a pause.
			if !isFirst && len(page.Items) == 0 && time.Since(asked) < time.Second && !sleep(ctx, time.Second) {
				yield(nil, ctx.Err())
				return
			}
			cursor, isFirst = page.NextCursor, false
		}
	}
}
