package client

import (
	"context"
	"iter"
	"net/http"
	"time"

	api "lksms/gen/client"
)

// Claim leases tasks to a sender: up to Limit, 10 by default. With Wait, the server holds an empty answer back for up to so many seconds, until a
// task arrives. Every task must be reported before its LeaseUntil, which [Client.Now] is compared with.
//
// Claim is not repeated after a lost answer, whose tasks stay leased until their leases end. A caller that claims in a loop goes on with the
// next claim.
func (c *Client) Claim(ctx context.Context, claim Claim) ([]ClaimedTask, error) {
	var wait time.Duration
	if claim.Wait != nil {
		wait = time.Duration(*claim.Wait) * time.Second
	}
	return call[[]ClaimedTask](ctx, c, once, wait, func(ctx context.Context) (*http.Response, error) { return c.api.ClaimTasksNow(ctx, claim) })
}

// Start says that the sender starts to send up to 1000 tasks that it claimed with StartSeconds. Each lease has its own outcome, in their order: the
// sender must send none whose Code is not 200. A repeated start changes nothing.
func (c *Client) Start(ctx context.Context, appID string, leases []Lease) (*StartedBatch, error) {
	return call[*StartedBatch](ctx, c, repeatable, 0, func(ctx context.Context) (*http.Response, error) {
		return c.api.StartTasks(ctx, api.StartRequest{AppID: appID, Leases: leases})
	})
}

// Report ends the lease of a task with its outcome. With LeaseID, a report that is repeated changes nothing. Without it, the report is for
// whichever lease the sender has, and a repeated one could end a later lease: it is not repeated after a lost answer.
func (c *Client) Report(ctx context.Context, report Report) error {
	_, err := call[nothing](ctx, c, safetyOf(report), 0, func(ctx context.Context) (*http.Response, error) { return c.api.ReportTask(ctx, report) })
	return err
}

// ReportBatch reports up to 1000 tasks. Each report has its own outcome, in their order: look at Refused. It is repeated after a lost answer
// only if each report has a LeaseID, see [Client.Report].
func (c *Client) ReportBatch(ctx context.Context, reports []Report) (*ReportedBatch, error) {
	return call[*ReportedBatch](ctx, c, safetyOf(reports...), 0, func(ctx context.Context) (*http.Response, error) {
		return c.api.ReportTasks(ctx, api.ReportBatchRequest{Reports: reports})
	})
}

func safetyOf(reports ...Report) safety {
	for _, report := range reports {
		if report.LeaseID == nil {
			return once
		}
	}
	return repeatable
}

// Senders lists senders, newest first. An error ends the loop.
func (c *Client) Senders(ctx context.Context, filter SenderFilter) iter.Seq2[Sender, error] {
	return pages(func(cursor *string) ([]Sender, *string, error) {
		filter.Cursor = cursor
		page, err := call[api.SenderPage](ctx, c, repeatable, 0, func(ctx context.Context) (*http.Response, error) {
			return c.api.ListSenders(ctx, &filter)
		})
		return page.Items, page.NextCursor, err
	}, filter.Cursor)
}
