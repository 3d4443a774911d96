package client

import (
	"context"
	"iter"
	"net/http"
	"time"

	api "lksms/gen/client"
)

// Claim leases tasks to a sender: up to Limit, 10 by default. If no task is available, the server waits up to Wait seconds for one. Report every task before
// its LeaseUntil. Compare LeaseUntil with [Client.Now].
//
// Claim is not repeated after a lost response. The tasks of that response stay leased until their leases end. A caller that claims in a loop can continue with
// the next claim.
func (c *Client) Claim(ctx context.Context, claim Claim) ([]ClaimedTask, error) {
	return call[[]ClaimedTask](ctx, c, once, waitOf(claim.Wait), func(ctx context.Context) (*http.Response, error) { return c.api.ClaimTasksNow(ctx, claim) })
}

// Start reports to the server that the sender begins to send up to 1000 tasks that it claimed with StartSeconds. The results have the order of the leases.
// The sender must send only the tasks whose Code is 200. A repeated start changes nothing.
func (c *Client) Start(ctx context.Context, appID string, leases []Lease) (*StartedBatch, error) {
	return call[*StartedBatch](ctx, c, repeatable, 0, func(ctx context.Context) (*http.Response, error) {
		return c.api.StartTasks(ctx, api.StartRequest{AppID: appID, Leases: leases})
	})
}

// Report reports the outcome of a task, and so ends its lease. A repeated report with LeaseID changes nothing. A report without LeaseID applies to the
// current lease of the sender, so a repeated report could end a later lease. Report therefore does not repeat such a report after a lost response.
func (c *Client) Report(ctx context.Context, report Report) error {
	_, err := call[nothing](ctx, c, safetyOf(report), 0, func(ctx context.Context) (*http.Response, error) { return c.api.ReportTask(ctx, report) })
	return err
}

// ReportBatch reports up to 1000 tasks. The results have the order of the reports. Single reports can be rejected: check Refused. After a lost response,
// ReportBatch is repeated only if each report has a LeaseID, see [Client.Report].
func (c *Client) ReportBatch(ctx context.Context, reports []Report) (*ReportedBatch, error) {
	return call[*ReportedBatch](ctx, c, safetyOf(reports...), 0, func(ctx context.Context) (*http.Response, error) {
		return c.api.ReportTasks(ctx, api.ReportBatchRequest{Reports: reports})
	})
}

// Exchange reports up to 1000 tasks and then claims tasks, in one request. Single reports can be rejected: check Reported.Refused. Exchange is not repeated after
// a lost response, see [Client.Claim]; a caller that gets an error can report the same tasks again.
func (c *Client) Exchange(ctx context.Context, exchange Exchange) (*Exchanged, error) {
	return call[*Exchanged](ctx, c, once, waitOf(exchange.Wait), func(ctx context.Context) (*http.Response, error) { return c.api.ExchangeTasks(ctx, exchange) })
}

// waitOf returns the time for which the server waits for a task.
func waitOf(seconds *api.Wait) (wait time.Duration) {
	if seconds != nil {
		wait = time.Duration(*seconds) * time.Second
	}
	return wait
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
