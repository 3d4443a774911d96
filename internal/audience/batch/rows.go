package batch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"lksms/gen/batchq"
	"lksms/internal/audience/batch/progress"
	"lksms/internal/dispatch/callback"
	"lksms/internal/dispatch/queue"
	"lksms/internal/dispatch/queue/explain"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/dispatch/segment"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/result"
)

// A filter can use these states of rows, and also the states of tasks.
const (
	RowInvalid    = "invalid" // includes rows that were rejected when they were submitted
	RowDuplicate  = "duplicate"
	RowBlocked    = "blocked"
	RowWaiting    = "waiting" // the row has no task yet, or its task is PENDING
	RowProcessing = "processing"
	RowSuccess    = "success"
	RowFailed     = "failed"
	RowCancelled  = "cancelled" // the task was cancelled, or the row will never get a task
	RowDelivered  = "delivered" // SUCCESS with a receipt that reports the delivery
)

// Row is a row of a batch and the state of its task.
type Row struct {
	batchq.BatchRow

	Status   string
	Delivery int16   // 1: delivered; 2: undelivered; 0: no receipt
	Result   *string // result of the task
}

// DuplicateOf returns the number of the earlier row that a duplicate repeats. It returns nil if the row is no duplicate, or if an earlier version did not store
// this number.
func (r Row) DuplicateOf() (*int64, error) {
	if optional.Value(r.Code) != IsDuplicate || r.Fault == nil {
		return nil, nil //nolint:nilnil // the row is no duplicate, or the number is not stored
	}
	why, err := fault.Decode(r.Fault)
	if err != nil {
		return nil, fmt.Errorf("read first row: %w", err)
	}
	first, is := why.Limit.(int64)
	if !is {
		return nil, nil //nolint:nilnil // the number is not stored
	}
	return &first, nil
}

// rowsScanned is the maximum number of rows that one page reads.
const rowsScanned = 2000

// Rows returns up to limit rows that follow the row with the number after, in the order of their numbers. An empty status matches all rows. Rows reads at most
// rowsScanned rows. If the page is not full then, the next page continues after row end. Otherwise end is 0. Fault: batch.not_found.
func (s *Service) Rows(ctx context.Context, viewer Viewer, id int64, status string, after int64, limit int) (page []Row, end int64, err error) {
	b, err := s.get(ctx, viewer, id)
	if err != nil {
		return nil, 0, err
	}
	rows, err := s.rowsOf(ctx, id, status, after)
	if err != nil {
		return nil, 0, fmt.Errorf("list rows: %w", err)
	}
	all, err := s.withTasks(ctx, b, rows)
	if err != nil {
		return nil, 0, err
	}
	for i, row := range all {
		if status != "" && row.Status != status && (status != RowDelivered || row.Delivery != callback.Delivered) {
			continue
		}
		if page = append(page, row); len(page) == limit {
			if i+1 < len(all) || len(rows) == rowsScanned {
				end = row.RowNo
			}
			return page, end, nil
		}
	}
	if len(rows) == rowsScanned {
		end = rows[len(rows)-1].RowNo
	}
	return page, end, nil
}

// codesOf contains, for each state of unsent rows, the codes of these rows.
var codesOf = map[string][]int16{
	RowInvalid: {WrongAddress, WrongContent, WrongSegments, WrongSign, IsRefused}, RowDuplicate: {IsDuplicate}, RowBlocked: {IsBlocked},
}

// rowsOf reads rows that can have the given status.
func (s *Service) rowsOf(ctx context.Context, id int64, status string, after int64) ([]batchq.BatchRow, error) {
	if codes, isWrong := codesOf[status]; isWrong {
		return s.q.BatchRowsWrong(ctx, batchq.BatchRowsWrongParams{BatchID: id, AfterRow: after, Codes: codes, PageLimit: rowsScanned})
	}
	return s.q.BatchRowList(ctx, batchq.BatchRowListParams{BatchID: id, AfterRow: after, OnlyValid: status != "", PageLimit: rowsScanned})
}

// withTasks combines rows with the states of their tasks.
func (s *Service) withTasks(ctx context.Context, b batchq.Batch, rows []batchq.BatchRow) ([]Row, error) {
	var ids []string
	for _, row := range rows {
		if row.TaskID != nil {
			ids = append(ids, *row.TaskID)
		}
	}
	states := map[string]batchq.TaskStatesRow{}
	if len(ids) > 0 {
		found, err := s.inParts.TaskStates(ctx, ids)
		if err != nil {
			return nil, fmt.Errorf("read tasks of rows: %w", err)
		}
		for _, t := range found {
			states[t.TaskID] = t
		}
	}
	all := make([]Row, len(rows))
	for i, row := range rows {
		all[i] = Row{BatchRow: row}
		switch optional.Value(row.Code) {
		case 0:
			all[i].Status = RowWaiting
			if b.Status == progress.Cancelled || b.Status == progress.Finished {
				all[i].Status = RowCancelled
			}
			if b.Status == progress.Finished && row.TaskID == nil { // the batch ended before this row was submitted
				all[i].Code, all[i].Result = new(IsExpired), new(result.Expired)
			}
		case IsDuplicate:
			all[i].Status = RowDuplicate
		case IsBlocked:
			all[i].Status = RowBlocked
		default:
			all[i].Status = RowInvalid
		}
		if row.TaskID == nil {
			continue
		}
		t, isKept := states[*row.TaskID]
		if !isKept { // the partition of the task was dropped
			all[i].Status = ""
			continue
		}
		all[i].Delivery, all[i].Result = t.Delivery, t.Result
		all[i].Status = map[int16]string{
			queue.Pending: RowWaiting, queue.Processing: RowProcessing, queue.Success: RowSuccess, queue.Failed: RowFailed, queue.Cancelled: RowCancelled,
		}[t.Status]
	}
	return all, nil
}

// EachWrong calls do with portions of the rows that are not sent, in the order of their numbers. No transaction is open while do runs. Fault: batch.not_found.
func (s *Service) EachWrong(ctx context.Context, viewer Viewer, id int64, do func([]Row) error) error {
	b, err := s.get(ctx, viewer, id)
	if err != nil {
		return err
	}
	p := batchq.BatchRowsWrongParams{BatchID: id, Codes: slices.Concat(codesOf[RowInvalid], codesOf[RowDuplicate], codesOf[RowBlocked]), PageLimit: rowsScanned}
	for {
		var rows []batchq.BatchRow
		if b.Status == progress.Finished {
			rows, err = s.q.BatchRowsUnsent(ctx, batchq.BatchRowsUnsentParams{BatchID: id, AfterRow: p.AfterRow, PageLimit: p.PageLimit})
		} else {
			rows, err = s.q.BatchRowsWrong(ctx, p)
		}
		if err != nil {
			return fmt.Errorf("read rows: %w", err)
		}
		all, err := s.withTasks(ctx, b, rows)
		if err != nil {
			return err
		}
		if err := do(all); err != nil {
			return err
		}
		if len(rows) < rowsScanned {
			return nil
		}
		p.AfterRow = rows[len(rows)-1].RowNo
	}
}

// expiresUnsent reports whether every unsent message of a batch would expire before it can be sent.
func expiresUnsent(b batchq.Batch) bool {
	return submit.CheckExpiry(b.ExpiresAt, optional.Or(b.ExpectSendTime, time.Now())) != nil
}

// Preview describes the message that a row would become.
type Preview struct {
	RowNo     int64
	Recipient string
	Code      int16
	Fault     []byte
	Message   *submit.Preview // nil: the row is invalid
	Subject   string          // subject on a channel other than sms; empty: no subject
	HTML      string          // HTML of an e-mail; empty: no HTML
}

var errNoRow = fault.New(fault.NotFound, fault.BatchRowNotFound)

// Preview returns the message that a row would become: its text, its segments, and its possible senders. Row 0 means the first valid row. While the list is
// being checked, only rows that are already checked have a preview. Faults: batch.not_found, batch.row_not_found.
func (s *Service) Preview(ctx context.Context, viewer Viewer, id int64, rowNo int64) (Preview, error) {
	b, err := s.get(ctx, viewer, id)
	if err != nil {
		return Preview{}, err
	}
	rows, err := s.q.BatchRowList(ctx, batchq.BatchRowListParams{
		BatchID: id, AfterRow: max(0, rowNo-1), OnlyValid: rowNo == 0, PageLimit: 1,
	})
	if err == nil && (len(rows) == 0 || rowNo != 0 && rows[0].RowNo != rowNo) {
		return Preview{}, errNoRow
	}
	if err != nil {
		return Preview{}, fmt.Errorf("read row: %w", err)
	}
	row := rows[0]
	p := Preview{RowNo: row.RowNo, Recipient: row.Recipient, Code: optional.Value(row.Code), Fault: row.Fault}
	if p.Code == 0 && row.TaskID == nil && b.Status != progress.Cancelled && expiresUnsent(b) {
		p.Code = IsExpired
		return p, nil
	}
	if row.Code != nil && *row.Code != IsDuplicate || row.Content == "" {
		return p, nil
	}
	sub := submission(b, batchq.BatchRowsNextRow{
		RowNo: row.RowNo, Recipient: row.Recipient, Content: row.Content, Sign: row.Sign, ContactValues: row.ContactValues,
	})
	if sub.ExpectSendTime = b.ExpectSendTime; row.TaskID != nil || b.Status == progress.Cancelled {
		sub.ExpiresAt = nil // the message can have expired already
	}
	sub.IsUncapped = row.TaskID != nil // the message of the row is counted already
	sub.WasChecked = true              // as when the row is submitted: a change of the countries holds the row and does not reject it
	isServed, err := s.progress.HasServingSender(ctx, b)
	if err != nil {
		return p, err
	}
	if !isServed { // the row waits until its only sender serves the company
		sub.SenderNo = ""
	}
	message, err := s.Submissions.Preview(ctx, sub, originOf(b))
	var wrong *fault.Error
	if errors.As(err, &wrong) && len(wrong.Fields) > 0 { // the row is not valid any more, for example because its country now requires a signature
		p.Code = codeOf(wrong)
		p.Fault, err = fault.Encode(wrong.Fields[0])
		return p, err //nolint:wrapcheck // the error is already wrapped
	}
	if err != nil {
		return p, fmt.Errorf("preview row: %w", err)
	}
	if !isServed {
		message.Senders, message.Cost = nil, message.Segments
		message.HeldBy = slices.DeleteFunc(message.HeldBy, func(w explain.Switch) bool { return w.Kind == explain.NoSharedSenders }) // this switch does not concern the only sender
	}
	p.Message = &message
	if b.RenderingID == nil {
		return p, nil
	}
	text, err := s.filledText(ctx, b, row.ContactValues)
	message.Final = segment.Signed(sub.Sign, segment.Bare(sub.Sign, text.Content))
	p.Subject, p.HTML = text.Title, text.HTML
	return p, err
}
