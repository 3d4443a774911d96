// Package progress says how far batches are: their figures, for what they wait, and when they will end.
package progress

import (
	"context"
	"fmt"

	"lksms/gen/batchq"
	"lksms/internal/dispatch/directory"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/setting"
)

// The states of a batch.
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
	settings  *setting.Service
	q         *batchq.Queries
}

// New returns a Reader on db.
func New(db *postgres.DB, directory *directory.Service, settings *setting.Service) *Reader {
	return &Reader{directory: directory, settings: settings, q: batchq.New(db)}
}

// Progress is a batch and its figures.
type Progress struct {
	batchq.Batch

	Counts  Counts
	Wait    *Wait         // why it does not go on now; nil: nothing holds it up
	Senders []SenderCount // those that have or had tasks of it
}

// Counts has the numbers of rows of a batch. Rows is the sum of Valid, Invalid, Duplicate and Blocked; Valid that of Waiting, Processing, Success,
// Failed and Cancelled.
type Counts struct {
	Rows, Valid, Invalid, Duplicate, Blocked        int64
	Waiting, Processing, Success, Failed, Cancelled int64
	Delivered, Undelivered                          int64
}

// SenderCount says what a sender did for a batch.
type SenderCount struct {
	SenderNo                                            string
	Processing, Success, Failed, Delivered, Undelivered int64
	Segments                                            int64 // of the messages that it reported SUCCESS
}

// Of reads the figures of batches. The rows were read a moment before: a row that became a task meanwhile is not counted as waiting twice,
// because all but waiting is counted, and waiting is the rest.
func (r *Reader) Of(ctx context.Context, rows []batchq.Batch) ([]Progress, error) {
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
	case Finished, Cancelled: // what never became a task, and what was cancelled
		c.Waiting = min(left, queued)
		c.Cancelled = left - c.Waiting
	default:
		// A task that was cancelled alone is the only one that is neither counted nor will be: fed tasks that are nowhere else.
		c.Cancelled = max(0, b.Fed-queued-c.Processing-c.Success-c.Failed)
		c.Waiting = left - min(left, c.Cancelled)
	}
	return st
}
