// Package progress computes the progress of batches: their counts, the reasons why they wait, and their estimated ends.
package progress

import (
	"context"
	"fmt"

	"lksms/gen/batchq"
	"lksms/internal/dispatch/directory"
	"lksms/internal/dispatch/quiet"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/setting"
)

// These are the states of a batch.
const (
	Checking  = "checking"
	Ready     = "ready"
	Running   = "running"
	Paused    = "paused"
	Finished  = "finished"
	Cancelled = "cancelled"
)

// Reader reads the progress of batches.
type Reader struct {
	directory *directory.Service
	quiet     *quiet.Service
	settings  *setting.Service
	q         *batchq.Queries
}

// New returns a Reader on db.
func New(db *postgres.DB, directory *directory.Service, quietHours *quiet.Service, settings *setting.Service) *Reader {
	return &Reader{directory: directory, quiet: quietHours, settings: settings, q: batchq.New(db)}
}

// Progress is a batch with its counts.
type Progress struct {
	batchq.Batch

	Counts  Counts
	Wait    *Wait         // reason why the batch does not continue now; nil: the batch does not wait
	Senders []SenderCount // senders that have or had tasks of the batch
}

// Counts contains numbers of rows of a batch. Rows is the sum of Valid, Invalid, Duplicate and Blocked. Valid is the sum of Waiting, Processing, Success,
// Failed and Cancelled.
type Counts struct {
	Rows, Valid, Invalid, Duplicate, Blocked        int64
	Waiting, Processing, Success, Failed, Cancelled int64
	Delivered, Undelivered                          int64
}

// SenderCount contains the numbers of tasks and segments of one sender in a batch.
type SenderCount struct {
	SenderNo                                            string
	Processing, Success, Failed, Delivered, Undelivered int64
	Segments                                            int64 // segments of the tasks that the sender reported as SUCCESS
}

// ReadAll returns the progress of batches. The caller has already read rows. A row that has become a task since then is not counted twice, because Waiting is
// computed as the number of rows without any other state.
func (r *Reader) ReadAll(ctx context.Context, rows []batchq.Batch) ([]Progress, error) {
	ids := make([]int64, len(rows))
	for i, row := range rows {
		ids[i] = row.ID
	}
	totals, err := r.q.BatchTotals(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("read figures of batches: %w", err)
	}
	of := map[int64][]batchq.BatchTotal{}
	for _, t := range totals {
		of[t.BatchID] = append(of[t.BatchID], t)
	}
	all := make([]Progress, len(rows))
	for i, row := range rows {
		all[i] = progress(row, of[row.ID])
		if all[i].Wait, err = r.waitOf(ctx, all[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func progress(b batchq.Batch, totals []batchq.BatchTotal) Progress {
	st := Progress{Batch: b, Counts: Counts{
		Rows: b.Rows, Valid: b.Valid, Invalid: b.Invalid, Duplicate: b.Duplicate, Blocked: b.Blocked,
	}}
	c, queued := &st.Counts, int64(0)
	for _, t := range totals {
		queued += t.Waiting
		c.Processing += t.Processing
		c.Success += t.Success
		c.Failed += t.Failed
		c.Delivered += t.Delivered
		c.Undelivered += t.Undelivered
		if t.SenderNo != "" {
			st.Senders = append(st.Senders, SenderCount{
				SenderNo: t.SenderNo, Processing: t.Processing, Success: t.Success, Failed: t.Failed, Delivered: t.Delivered,
				Undelivered: t.Undelivered, Segments: t.Segments,
			})
		}
	}
	left := max(0, c.Valid-c.Processing-c.Success-c.Failed)
	switch b.Status {
	case Finished, Cancelled: // the remaining rows were never submitted, or their tasks were cancelled
		c.Waiting = min(left, queued)
		c.Cancelled = left - c.Waiting
	default:
		// The number of individually cancelled tasks is not stored. These tasks are the submitted tasks without any other state.
		c.Cancelled = max(0, b.Fed-queued-c.Processing-c.Success-c.Failed)
		c.Waiting = left - min(left, c.Cancelled)
	}
	return st
}
