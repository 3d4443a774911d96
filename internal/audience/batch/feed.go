package batch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"lksms/gen/batchq"
	"lksms/internal/audience/batch/progress"
	"lksms/internal/dispatch/queue"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/sweep"
)

const (
	// fedRows is the maximum number of rows that one transaction submits. This transaction locks the ranks of the company, so other submissions of the company
	// wait. A large transaction would also load PostgreSQL for a long time, and delay all callers.
	fedRows = 100

	// maxDue is the maximum number of due tasks of a batch. If senders claim all of them within a second, the queue is empty until the next run. Tasks that are
	// held, or due later, do not count, because the rows behind them can possibly be sent now: progress.MaxTasks limits these tasks.
	maxDue = 10_000

	// sliceRows is the number of rows of a company that are submitted before rows of the next company are submitted.
	sliceRows = 10 * fedRows
)

// Feed submits the rows of running batches, applies the status of batches to their tasks, and ends completed batches. The companies take turns, and so do the
// batches of each company. Feed returns the number of submitted rows. Several servers can call Feed concurrently.
func (s *Service) Feed(ctx context.Context) (int, error) {
	fed, failures := 0, map[int64]error{} // first failure of each batch; the next run submits the rows of such a batch again
	last := map[int64]int64{}             // the last batch of each company that submitted rows
	for isIdle := false; !isIdle && ctx.Err() == nil; {
		batches, err := s.q.BatchesUnsettled(ctx) // this query is repeated after each round, so that a long batch does not delay changes of other batches
		if err != nil {
			return fed, fmt.Errorf("find batches: %w", err)
		}
		isIdle = true
		rows := map[int64]int{} // rows of each company in this round
		for _, b := range sweep.InTurn(batches, last, func(b batchq.BatchesUnsettledRow) (int64, int64) { return b.CompanyID, b.ID }) {
			hasFailed, hasTurn := failures[b.ID] != nil, rows[b.CompanyID] < sliceRows
			n, err := s.process(ctx, b, b.HasMore && !hasFailed && hasTurn)
			if fed += n; err != nil && !hasFailed {
				failures[b.ID] = fmt.Errorf("batch %d: %w", b.ID, err)
			}
			if rows[b.CompanyID] += n; n > 0 {
				last[b.CompanyID] = b.ID
			}
			isIdle = isIdle && rows[b.CompanyID] < sliceRows
		}
	}
	return fed, errors.Join(slices.Collect(maps.Values(failures))...)
}

// process applies the status of a batch to its tasks, submits rows of the batch, and returns the number of submitted rows. It submits rows only if feeds is true.
func (s *Service) process(ctx context.Context, b batchq.BatchesUnsettledRow, feeds bool) (fed int, err error) {
	defer sweep.Recovered(&err)
	if err := s.follow(ctx, b); err != nil || b.Status != progress.Running || !feeds {
		return 0, err
	}
	return s.feedSlice(ctx, b.ID)
}

// follow applies the status of a batch to its tasks, and ends a completed batch.
func (s *Service) follow(ctx context.Context, b batchq.BatchesUnsettledRow) error {
	switch {
	case b.Status == progress.Paused: // hold tasks again: a leased task can have been queued for a retry meanwhile
		if _, err := s.Queue.HoldBatch(ctx, b.ID); err != nil {
			return fmt.Errorf("hold tasks: %w", err)
		}
	case b.Status == progress.Cancelled:
		if _, err := s.Tasks.CancelBatch(ctx, b.ID, queue.ByBatches); err != nil {
			return fmt.Errorf("cancel tasks: %w", err)
		}
	case b.IsHeld:
		if err := s.release(ctx, b.ID); err != nil {
			return err
		}
	}
	err := s.lockInStatus(ctx, b.ID, b.Status, func(ctx context.Context, _ batchq.BatchHoldRow) error {
		_, err := s.q.BatchFinish(ctx, b.ID)
		return err
	})
	return postgres.Wrap("finish batch", err, nil)
}

// release releases the held tasks of a batch, unless the batch is no longer running.
func (s *Service) release(ctx context.Context, id int64) error {
	if _, err := s.Queue.ReleaseBatch(ctx, id); err != nil {
		return fmt.Errorf("release tasks: %w", err)
	}
	err := s.lockInStatus(ctx, id, progress.Running, func(ctx context.Context, _ batchq.BatchHoldRow) error { return s.q.BatchReleased(ctx, id) })
	return postgres.Wrap("record release", err, nil)
}

// lockInStatus locks a batch and calls do in the same transaction. If the batch does not have the given status any more, lockInStatus does nothing.
func (s *Service) lockInStatus(ctx context.Context, id int64, status string, do func(context.Context, batchq.BatchHoldRow) error) error {
	return s.db.Tx(ctx, func(ctx context.Context) error {
		held, err := s.q.BatchHold(ctx, batchq.BatchHoldParams{ID: id, Status: status})
		if postgres.IsNoRows(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("lock batch: %w", err)
		}
		return do(ctx, held)
	})
}

// feedSlice submits up to sliceRows of the next rows of a batch, and returns the number of submitted rows.
func (s *Service) feedSlice(ctx context.Context, id int64) (fed int, err error) {
	tasks, due, err := s.Queue.WaitingOfBatch(ctx, id, progress.MaxTasks)
	if err != nil {
		return 0, fmt.Errorf("count waiting tasks: %w", err)
	}
	for fed < sliceRows && due+fed+fedRows <= maxDue && tasks+fed < progress.MaxTasks {
		n, err := s.feedPortion(ctx, id)
		fed += n
		if err != nil || n < fedRows {
			return fed, err
		}
	}
	return fed, nil
}

// feedPortion submits the next rows of a batch, and records this in the same transaction. Each row therefore becomes at most one task, even after a crash.
func (s *Service) feedPortion(ctx context.Context, id int64) (n int, err error) {
	err = s.lockInStatus(ctx, id, progress.Running, func(ctx context.Context, held batchq.BatchHoldRow) error {
		b := held.Batch
		switch {
		case !held.IsDue:
			return nil
		case !b.IsRead:
			if err := s.q.BatchReread(ctx, id); err != nil {
				return fmt.Errorf("read contacts again: %w", err)
			}
			return postgres.Wrap("delete rows", s.q.BatchRowsDelete(ctx, id), nil)
		}
		if isServed, err := s.isServed(ctx, b); err != nil || !isServed {
			return err
		}
		rows, err := s.q.BatchRowsNext(ctx, batchq.BatchRowsNextParams{BatchID: id, AfterRow: b.FedRow, Portion: fedRows})
		if err != nil || len(rows) == 0 {
			return err
		}
		n = len(rows)
		return s.submit(ctx, b, rows)
	})
	if errors.Is(err, errMustWait) {
		return 0, nil
	}
	if err != nil {
		return 0, postgres.Wrap("feed rows", err, nil)
	}
	return n, nil
}

// errMustWait means that a batch cannot be submitted now. The reason does not depend on its rows.
var errMustWait = errors.New("the batch must wait")

// isServed reports whether the only sender of a batch serves the company. It returns true for a batch that names no sender. While routes are being replaced, it
// can return false for a moment.
func (s *Service) isServed(ctx context.Context, b batchq.Batch) (bool, error) {
	if b.SenderNo == nil {
		return true, nil
	}
	_, err := s.Directory.SenderPool(ctx, b.Channel, b.CompanyID, b.MessageType, *b.SenderNo)
	var refused *fault.Error
	if errors.As(err, &refused) {
		return false, nil
	}
	return err == nil, postgres.Wrap("find pool of sender", err, nil)
}

// submit creates the tasks of rows in the transaction of ctx. If a failure does not depend on the rows, submit returns an error: nothing is stored then, and
// the same rows are tried again later.
func (s *Service) submit(ctx context.Context, b batchq.Batch, rows []batchq.BatchRowsNextRow) error {
	subs := make([]submit.Submission, len(rows))
	for i, row := range rows {
		subs[i] = submission(b, row)
		subs[i].WasChecked = true
	}
	outcomes, err := s.Submissions.SubmitAll(ctx, subs, originOf(b))
	if err != nil {
		return fmt.Errorf("submit rows: %w", err)
	}
	if err := sharedFailure(outcomes); err != nil {
		return err
	}
	n := batchq.BatchFedParams{ID: b.ID, FedRow: rows[len(rows)-1].RowNo}
	p := batchq.BatchRowsFedParams{BatchID: b.ID}
	for i, o := range outcomes {
		code, why := int16(0), []byte(nil)
		if o.Err != nil {
			if code, why, err = s.reasonOf(ctx, b, rows[i], o.Err); err != nil {
				return err
			}
			if code == IsBlocked {
				n.Blocked++
			} else {
				n.Invalid++
			}
			n.RefusedSegments += int64(rows[i].Segments)
		} else {
			n.Fed++
		}
		p.RowNos, p.TaskIds, p.Codes, p.Faults = append(p.RowNos, rows[i].RowNo), append(p.TaskIds, o.TaskID), append(p.Codes, code), append(p.Faults, why)
	}
	if err := s.q.BatchRowsFed(ctx, p); err != nil {
		return fmt.Errorf("store tasks of rows: %w", err)
	}
	return postgres.Wrap("count fed rows", s.q.BatchFed(ctx, n), nil)
}

// sharedFailure returns an error if the failure of a portion does not depend on its rows. This is the case if the database rejected all rows, for example
// during a change of its schema, or if a fault concerns a field that all rows share.
func sharedFailure(outcomes []submit.Outcome) error {
	isRefused := true // the database rejected all rows
	for _, o := range outcomes {
		var wrong *fault.Error
		if isFault := errors.As(o.Err, &wrong); o.Err == nil || isFault {
			isRefused = false
		}
		if wrong == nil || len(wrong.Fields) == 0 || wrong.Fields[0].Rule == fault.StaysQuiet {
			continue
		}
		if field := wrong.Fields[0].Name; field == "sender_no" || field == "expires_at" {
			return errMustWait
		}
	}
	if isRefused {
		return fmt.Errorf("submit rows: %w", outcomes[0].Err)
	}
	return nil
}

// reasonOf returns the code and the stored form of the reason why a row was rejected. If the database rejected the row, the reason is nil, and reasonOf logs the
// error: the row must not block later rows.
func (s *Service) reasonOf(ctx context.Context, b batchq.Batch, row batchq.BatchRowsNextRow, err error) (code int16, why []byte, _ error) {
	var wrong *fault.Error
	if errors.As(err, &wrong) && len(wrong.Fields) > 0 {
		if code = codeOf(wrong); code != IsBlocked {
			code = IsRefused // the check accepted the row
		}
		why, err = fault.Encode(wrong.Fields[0])
		return code, why, err //nolint:wrapcheck // the error is already wrapped
	}
	s.log.ErrorContext(ctx, "a row of a batch could not become a task", "batch_id", b.ID, "row", row.RowNo, "error", err)
	return IsRefused, nil, nil
}
