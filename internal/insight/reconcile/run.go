package reconcile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"lksms/gen/reconcileq"
	"lksms/internal/audience/sheet"
	"lksms/internal/platform/characters"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/postgres"
)

// These are the phases of a running reconciliation, in their order.
const (
	reading   = "read"   // store the rows of the file
	matching  = "match"  // compare each row with the attempts that have its provider number
	searching = "search" // find attempts of the day that have no row
	clearing  = "clear"  // delete the rows
)

const (
	readPortion  = 5000   // maximum number of rows that one transaction reads from the file
	matchPortion = 2000   // maximum number of provider numbers that one transaction compares
	maxAttempts  = 10_000 // maximum number of attempts that one transaction compares with provider numbers
	slicePortion = 5000   // maximum number of attempts without a row that one transaction reads
	clearPortion = 20_000

	slice = 15 * time.Minute // length of the part of the day that one transaction searches
)

// errMoved means that another server has advanced the reconciliation, or that the reconciliation has ended.
var errMoved = errors.New("another server has advanced the reconciliation, or it has ended")

// Run processes all running reconciliations until they have ended: one portion of each reconciliation in turn. It returns the number of processed portions. A
// reconciliation continues where another server stopped.
func (s *Service) Run(ctx context.Context) (int, error) {
	open := map[int64]*list{}
	defer func() {
		for _, l := range open {
			_ = l.rows.Close() // closing only frees memory
		}
	}()
	total := 0
	var failures []error
	isOver := map[int64]bool{} // the reconciliations of which this run processes no further portion
	for isIdle := false; !isIdle && ctx.Err() == nil; {
		ids, err := s.q.ReconciliationIDsRunning(ctx) // queried in each round, so that a new reconciliation waits for one round at most
		if err != nil {
			return total, errors.Join(append(failures, fmt.Errorf("find reconciliations: %w", err))...)
		}
		isIdle = true
		for _, id := range ids {
			if isOver[id] {
				continue
			}
			isLast, err := s.portion(ctx, id, open)
			isOver[id] = isLast || err != nil
			switch {
			case errors.Is(err, errMoved):
			case err != nil:
				failures = append(failures, fmt.Errorf("reconciliation %d: %w", id, err))
			default:
				total++
				isIdle = false
			}
		}
	}
	return total, errors.Join(failures...)
}

// portion processes the next portion of a reconciliation. After an error, another call of Run can repeat the portion.
func (s *Service) portion(ctx context.Context, id int64, open map[int64]*list) (isOver bool, err error) {
	r, err := s.q.ReconciliationGet(ctx, id)
	if postgres.IsNoRows(err) {
		return true, errMoved
	}
	if err != nil {
		return true, fmt.Errorf("read reconciliation: %w", err)
	}
	switch *r.Phase {
	case reading:
		return false, s.read(ctx, r, open)
	case matching:
		return false, s.match(ctx, r)
	case searching:
		return false, s.search(ctx, r)
	default:
		return s.clear(ctx, r)
	}
}

// step is the result of a portion: the differences, and the position at which the reconciliation continues.
type step struct {
	move        reconcileq.ReconciliationMoveParams
	differences map[string]*reconcileq.DifferencesAddParams // by kind
}

// stepOf returns an empty step at the current position of a reconciliation.
func stepOf(r Row) *step {
	return &step{
		move:        reconcileq.ReconciliationMoveParams{ID: r.ID, Phase: *r.Phase, RowNo: r.RowNo, AfterNo: r.AfterNo, AfterAt: r.AfterAt, AfterID: r.AfterID},
		differences: map[string]*reconcileq.DifferencesAddParams{},
	}
}

// difference is one difference between LKSMS and the file. A field with the zero value is unknown.
type difference struct {
	number       string
	row          int64
	taskID       string
	acceptedAt   *time.Time
	ours, theirs string
}

// These are the kinds of differences.
const (
	missingHere    = "missing_here"
	missingThere   = "missing_there"
	statusDiffers  = "status_differs"
	segmentsDiffer = "segments_differ"
	repeated       = "repeated"
	unreadable     = "unreadable"
	nearMidnight   = "near_midnight"
)

// counter returns the counter of a kind in this portion, and the number of differences before this portion.
func counter(kind string, m *reconcileq.ReconciliationMoveParams, r Row) (*int64, int64) {
	switch kind {
	case missingHere:
		return &m.MissingHere, r.MissingHere
	case missingThere:
		return &m.MissingThere, r.MissingThere
	case statusDiffers:
		return &m.StatusDiffers, r.StatusDiffers
	case segmentsDiffer:
		return &m.SegmentsDiffer, r.SegmentsDiffer
	case repeated:
		return &m.Repeated, r.Repeated
	case unreadable:
		return &m.Unreadable, r.Unreadable
	default:
		return &m.NearMidnight, r.NearMidnight
	}
}

// add counts a difference. It also stores the difference if fewer than maxKept differences of this kind are stored.
func (st *step) add(r Row, kind string, d difference) {
	n, before := counter(kind, &st.move, r)
	*n++
	p := st.differences[kind]
	if p == nil {
		p = &reconcileq.DifferencesAddParams{ReconciliationID: r.ID, Kind: kind, MaxDifferences: maxKept, Counted: before}
		st.differences[kind] = p
	}
	p.ProviderNos, p.RowNos, p.TaskIds = append(p.ProviderNos, d.number), append(p.RowNos, d.row), append(p.TaskIds, d.taskID)
	p.AcceptedAts, p.Ours, p.Theirs = append(p.AcceptedAts, d.acceptedAt), append(p.Ours, d.ours), append(p.Theirs, d.theirs)
}

// store stores a portion and calls change, in one transaction. It returns errMoved if another server has advanced the reconciliation.
func (s *Service) store(ctx context.Context, r Row, st *step, change func(context.Context) error) error {
	return s.db.Tx(ctx, func(ctx context.Context) error {
		if err := s.hold(ctx, r); err != nil {
			return err
		}
		if change != nil {
			if err := change(ctx); err != nil {
				return err
			}
		}
		for _, kind := range []string{missingHere, missingThere, statusDiffers, segmentsDiffer, repeated, unreadable, nearMidnight} {
			if p := st.differences[kind]; p != nil {
				if err := s.q.DifferencesAdd(ctx, *p); err != nil {
					return fmt.Errorf("store differences: %w", err)
				}
			}
		}
		return postgres.Wrap("count portion", s.q.ReconciliationMove(ctx, st.move), nil)
	})
}

// hold locks a reconciliation. It returns errMoved if the position has changed since r was read.
func (s *Service) hold(ctx context.Context, r Row) error {
	_, err := s.q.ReconciliationHold(ctx, reconcileq.ReconciliationHoldParams{
		ID: r.ID, Phase: *r.Phase, RowNo: r.RowNo, AfterNo: r.AfterNo, AfterID: r.AfterID, AfterAt: r.AfterAt,
	})
	if postgres.IsNoRows(err) {
		return errMoved
	}
	return postgres.Wrap("lock reconciliation", err, nil)
}

// read stores the next rows of the file. After the last row it deletes the upload.
func (s *Service) read(ctx context.Context, r Row, open map[int64]*list) error {
	l := open[r.ID]
	if l == nil {
		opened, err := s.reopen(ctx, r)
		var wrong *fault.Error
		if errors.As(err, &wrong) {
			return s.fail(ctx, r, wrong)
		}
		if err != nil {
			return err
		}
		l = &opened
		open[r.ID] = l
	}
	st := stepOf(r)
	rows, isLast, wrong, err := l.next(r, st)
	if err != nil {
		return err
	}
	if wrong != nil {
		return s.fail(ctx, r, wrong)
	}
	if isLast {
		st.move.Phase = matching
	}
	return s.store(ctx, r, st, func(ctx context.Context) error {
		if len(rows.ProviderNos) > 0 {
			added, err := s.q.StatementRowsStore(ctx, rows)
			if err != nil {
				return fmt.Errorf("store rows: %w", err)
			}
			st.move.Theirs = added
		}
		if isLast {
			return s.Uploads.Delete(ctx, *r.UploadID)
		}
		return nil
	})
}

// reopen opens the file of a reconciliation and skips the rows that are stored already.
func (s *Service) reopen(ctx context.Context, r Row) (list, error) {
	l, err := s.open(ctx, *r.UploadID, FileOptions{
		Sheet: r.Sheet, NumberColumn: r.NumberColumn, StatusColumn: r.StatusColumn, SegmentsColumn: r.SegmentsColumn,
	})
	for err == nil && r.RowNo > 0 {
		var row sheet.Row
		if row, err = l.rows.Next(); err == nil && row.No >= r.RowNo {
			break
		}
	}
	return l, err
}

// fail ends the reading of an unreadable file, and deletes the upload. The rows that were already read are deleted without a comparison.
func (s *Service) fail(ctx context.Context, r Row, wrong *fault.Error) error {
	return s.db.Tx(ctx, func(ctx context.Context) error {
		if err := s.hold(ctx, r); err != nil {
			return err
		}
		if err := s.record(ctx, r, wrong); err != nil {
			return err
		}
		return s.Uploads.Delete(ctx, *r.UploadID)
	})
}

// record stores the reason why a locked reconciliation failed.
func (s *Service) record(ctx context.Context, r Row, wrong *fault.Error) error {
	failure, err := fault.Encode(wrong.Fields[0])
	if err != nil {
		return err //nolint:wrapcheck // the error names its cause
	}
	return postgres.Wrap("fail reconciliation", s.q.ReconciliationFail(ctx, reconcileq.ReconciliationFailParams{ID: r.ID, Failure: failure}), nil)
}

// maxNumber is the maximum length of a provider's number, as in the table deliveries.
const maxNumber = 200

// next reads the next rows, and merges rows with the same number. If wrong is not nil, the rest of the file cannot be read.
func (l *list) next(r Row, st *step) (p reconcileq.StatementRowsStoreParams, isLast bool, wrong *fault.Error, err error) {
	p.ID = r.ID
	indexes := map[string]int{}
	for st.move.Rows < readPortion {
		row, err := l.rows.Next()
		switch {
		case err == io.EOF: //nolint:errorlint // Next returns io.EOF unwrapped
			return p, true, nil, nil
		case errors.As(err, &wrong):
			return p, false, wrong, nil
		case err != nil:
			return p, false, nil, err //nolint:wrapcheck // the error comes from package upload
		}
		st.move.Rows++
		st.move.RowNo = row.No
		number, status, segments, rule := l.rowOf(row)
		if rule != "" {
			st.add(r, unreadable, difference{row: row.No, number: number, theirs: string(rule)})
			if number == "" {
				continue
			}
			segments = nil // the message is still compared, but without its number of segments
		}
		at, isKnown := indexes[number]
		if !isKnown {
			indexes[number] = len(p.ProviderNos)
			p.ProviderNos, p.RowNos, p.Copies = append(p.ProviderNos, number), append(p.RowNos, row.No), append(p.Copies, 1)
			p.Statuses, p.Segments = append(p.Statuses, status), append(p.Segments, segments)
			continue
		}
		p.Copies[at]++
		if p.Statuses[at] != status {
			p.Statuses[at] = "" // it is unknown which of the messages has which state
		}
		if p.Segments[at] != nil && segments != nil {
			segments = new(*p.Segments[at] + *segments)
		} else {
			segments = nil
		}
		p.Segments[at] = segments
	}
	return p, false, nil, nil
}

// rowOf returns the fields of a row. If rule is not empty, it is the reason why the row cannot be compared completely. If number is empty, the row cannot be
// compared at all.
func (l *list) rowOf(row sheet.Row) (number, status string, segments *int64, rule fault.Rule) {
	cell := row.Cells[l.number]
	number = withoutApostrophe(trimmed(cell.Text))
	switch {
	case row.Extra > 0:
		return "", "", nil, fault.TooManyCells
	case cell.Lossy:
		return "", "", nil, fault.Shortened
	case number == "":
		return "", "", nil, fault.Required
	case len([]rune(number)) > maxNumber:
		return "", "", nil, fault.WrongFormat
	}
	if l.status >= 0 {
		status = characters.First(trimmed(row.Cells[l.status].Text), 100)
	}
	if l.segments < 0 {
		return number, status, nil, ""
	}
	n, err := strconv.ParseInt(trimmed(row.Cells[l.segments].Text), 10, 64)
	if err != nil || n < 0 || n > 1000 || row.Cells[l.segments].Lossy {
		return number, status, nil, fault.WrongFormat
	}
	return number, status, &n, ""
}

// trimmed returns a text without characters that PostgreSQL cannot store, and without surrounding white space and invisible characters.
func trimmed(text string) string {
	return strings.Trim(postgres.Text(text), "\u0020\t\r\n\v\f\u00A0\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200A\u200B\u200C\u200D\u200E\u200F\u202F\u2060\u3000\uFEFF")
}

// withoutApostrophe removes the leading apostrophe, with which spreadsheet programs mark a number as text.
func withoutApostrophe(text string) string { return strings.TrimPrefix(text, "'") }

// clear deletes rows of a compared file. After the last row, it ends the reconciliation.
func (s *Service) clear(ctx context.Context, r Row) (isOver bool, err error) {
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		if err := s.hold(ctx, r); err != nil {
			return err
		}
		n, err := s.q.StatementRowsDelete(ctx, reconcileq.StatementRowsDeleteParams{ID: r.ID, BatchSize: clearPortion})
		if isOver = n < clearPortion; err != nil || !isOver {
			return postgres.Wrap("delete rows", err, nil)
		}
		if r.Failure == nil { // if attempts were dropped during the comparison, the reconciliation fails: their messages would wrongly be reported as missing_here
			var wrong *fault.Error
			err := s.checkHistory(ctx, r.FromAt, r.ToAt)
			if errors.As(err, &wrong) {
				err = s.record(ctx, r, wrong)
			}
			if err != nil {
				return err
			}
		}
		return postgres.Wrap("end reconciliation", s.q.ReconciliationEnd(ctx, r.ID), nil)
	})
	return isOver, err
}
