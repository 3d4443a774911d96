package batch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"lksms/gen/batchq"
	"lksms/internal/audience/batch/progress"
	"lksms/internal/audience/batch/source"
	"lksms/internal/audience/sheet"
	"lksms/internal/dispatch/address"
	"lksms/internal/dispatch/directory"
	"lksms/internal/dispatch/phone"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/dispatch/segment"
	"lksms/internal/dispatch/template"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/sweep"
)

const (
	checkedAtOnce = 3           // maximum number of batches that one run checks concurrently, so that a short list does not wait for a long list
	checkedMost   = 6           // maximum with the batches of companies that have no other check in progress
	checkedOfOne  = 2           // maximum number of batches of one company
	checkedRows   = 2000        // maximum number of rows that one transaction stores
	checkInterval = time.Second // maximum time after which a run finds a new batch
)

// Check reads the rows of batches and stores the checked rows, until no row is left. It returns the number of checked rows. Batches are checked concurrently, so
// that a check that hangs or fails does not delay the others. An interrupted check of a list continues after the last stored row. An interrupted check of a tag
// restarts at the first contact. If two servers check the same batch, one of them stops when it finds rows of the other server.
func (s *Service) Check(ctx context.Context) (checked int, failed error) {
	type result struct {
		id   int64
		rows int
		err  error
	}
	results := make(chan result)
	open, failures := map[int64]int64{}, map[int64]error{} // the companies of the open checks; the batches that only the next run checks again
	ended := func(r result) {
		delete(open, r.id)
		checked += r.rows
		if r.err != nil {
			failures[r.id] = r.err
		}
	}
	for {
		batches, err := s.q.BatchesChecking(ctx, int32(checkedMost+len(failures)))
		if err != nil {
			failed = fmt.Errorf("find batches to check: %w", err)
			break
		}
		for _, b := range batches {
			if _, isOpen := open[b.ID]; !isOpen && failures[b.ID] == nil && hasSlot(open, b.CompanyID) {
				open[b.ID] = b.CompanyID
				go func() {
					n, err := s.checkOne(ctx, b.ID)
					results <- result{b.ID, n, err}
				}()
			}
		}
		if len(open) == 0 {
			break
		}
		select {
		case r := <-results:
			ended(r)
		case <-time.After(checkInterval):
		}
	}
	for len(open) > 0 {
		ended(<-results)
	}
	for id, err := range failures {
		if !errors.Is(err, errElsewhere) {
			failed = errors.Join(failed, fmt.Errorf("check batch %d: %w", id, err))
		}
	}
	return checked, failed
}

// hasSlot reports whether a check of a company can begin. open contains the company of each check in progress. The long lists of a company therefore do not keep
// the list of another company waiting.
func hasSlot(open map[int64]int64, company int64) bool {
	own := 0
	for _, c := range open {
		if c == company {
			own++
		}
	}
	return own == 0 && len(open) < checkedMost || own < checkedOfOne && len(open) < checkedAtOnce
}

// checkOne checks the rows of a batch until no row is left, and returns the number of checked rows.
func (s *Service) checkOne(ctx context.Context, id int64) (checked int, err error) {
	defer sweep.Recovered(&err)
	c, err := s.beginCheck(ctx, id)
	if err != nil {
		return 0, err
	}
	defer c.close()
	for isDone := false; !isDone && err == nil; {
		var n int
		n, isDone, err = s.checkPortion(ctx, c)
		checked += n
	}
	return checked, err
}

var errElsewhere = errors.New("the check of this batch has ended, or another server continues it")

// check is a batch whose check is in progress.
type check struct {
	batch batchq.Batch
	text  message
	rows  source.Source
}

func (c *check) close() {
	if c.rows != nil {
		c.rows.Close()
	}
}

// isInCheck is is_in_check of the database.
func isInCheck(b batchq.Batch) bool {
	return b.Status == progress.Checking || b.Status == progress.Paused && b.CheckedAt == nil
}

// beginCheck starts the check of a batch, or continues after the stored rows.
func (s *Service) beginCheck(ctx context.Context, id int64) (*check, error) {
	var err error
	c := &check{}
	if c.batch, err = s.get(ctx, Viewer{}, id); err == nil {
		c.text, err = s.message(ctx, c.batch)
	}
	if err == nil && !isInCheck(c.batch) { // the check has ended since the search for batches
		err = errElsewhere
	}
	if err == nil && c.batch.Tag != nil && c.batch.LastRow > 0 {
		err = s.restart(ctx, c)
	}
	return c, err
}

// restart restarts the check of a tag at the first contact. Contacts have no row numbers: if a contact has joined or left the tag during the interruption, all
// later rows have different numbers.
func (s *Service) restart(ctx context.Context, c *check) error {
	isChecking := false
	err := s.lockInStatus(ctx, c.batch.ID, progress.Checking, func(ctx context.Context, _ batchq.BatchHoldRow) error {
		isChecking = true
		return s.q.BatchRowsDelete(ctx, c.batch.ID)
	})
	if err == nil && !isChecking { // the batch was cancelled meanwhile
		err = errElsewhere
	}
	c.batch.LastRow = 0
	return postgres.Wrap("begin check again", err, nil)
}

// checkPortion checks the next rows of a batch, and ends the check after the last row.
func (s *Service) checkPortion(ctx context.Context, c *check) (n int, isDone bool, err error) {
	rows, isLast, err := s.read(ctx, c)
	var unreadable *fault.Error
	if errors.As(err, &unreadable) && unreadable.Kind == fault.Invalid && len(unreadable.Fields) > 0 {
		return 0, true, s.refuse(ctx, c.batch, unreadable.Fields[0])
	}
	if err != nil {
		if b, again := s.get(ctx, Viewer{}, c.batch.ID); again == nil && !isInCheck(b) { // the batch was cancelled, and its list was deleted
			return 0, true, nil
		}
		return 0, false, err
	}
	p, sums := s.judge(ctx, c, rows)
	if sums.err != nil {
		return 0, false, sums.err
	}
	isDone = true // reset below if the check is still in progress
	err = s.lockInStatus(ctx, c.batch.ID, progress.Checking, func(ctx context.Context, held batchq.BatchHoldRow) error {
		isDone = isLast
		if held.Batch.LastRow != c.batch.LastRow {
			return errElsewhere
		}
		if len(rows) > 0 {
			if err := s.q.BatchRowsAdd(ctx, p); err != nil {
				return err
			}
			if err := s.q.BatchChecked(ctx, sums.BatchCheckedParams); err != nil {
				return err
			}
		}
		if isLast {
			return s.endCheck(ctx, held.Batch)
		}
		return nil
	})
	if err != nil {
		return 0, false, postgres.Wrap("store rows", err, nil)
	}
	c.batch.LastRow = sums.LastRow
	return len(rows), isDone, nil
}

// endCheck marks duplicates, and sets the next status of the batch. The caller has locked the batch, and b contains the counts of all rows.
func (s *Service) endCheck(ctx context.Context, b batchq.Batch) (err error) {
	var repeated batchq.BatchRowsDuplicateRow
	if b.Dedup != DedupNone {
		if repeated, err = s.markDuplicates(ctx, b); err != nil {
			return fmt.Errorf("find duplicates: %w", err)
		}
	}
	every, err := s.every(ctx)
	if err != nil {
		return err
	}
	if err := s.q.BatchSum(ctx, batchq.BatchSumParams{ID: b.ID, MaxSampled: progress.MaxSampled}); err != nil {
		return fmt.Errorf("sum rows by country: %w", err)
	}
	if _, err := s.q.BatchReady(ctx, batchq.BatchReadyParams{ID: b.ID, Every: every, Duplicate: repeated.Rows, Segments: repeated.Segments}); err != nil {
		return fmt.Errorf("end check: %w", err)
	}
	if b.UploadID != nil {
		return s.Uploads.Delete(ctx, *b.UploadID)
	}
	return nil
}

// markDuplicates marks rows that repeat an earlier row.
func (s *Service) markDuplicates(ctx context.Context, b batchq.Batch) (repeated batchq.BatchRowsDuplicateRow, err error) {
	if err = s.q.BatchNestedLoops(ctx, false); err != nil {
		return repeated, err
	}
	if repeated, err = s.q.BatchRowsDuplicate(ctx, batchq.BatchRowsDuplicateParams{
		BatchID: b.ID, Dedup: b.Dedup, FoldsCase: address.FoldsCase(b.Channel), Address: address.Field(b.Channel),
	}); err != nil {
		return repeated, err
	}
	return repeated, s.q.BatchNestedLoops(ctx, true)
}

// refuse ends a batch whose list cannot be read.
func (s *Service) refuse(ctx context.Context, b batchq.Batch, wrong fault.Field) error {
	why, err := fault.Encode(wrong)
	if err != nil {
		return err //nolint:wrapcheck // the error is already wrapped
	}
	return s.db.Tx(ctx, func(ctx context.Context) error {
		n, err := s.q.BatchUnreadable(ctx, batchq.BatchUnreadableParams{ID: b.ID, Fault: why})
		if err != nil || n == 0 || b.UploadID == nil {
			return postgres.Wrap("refuse list", err, nil)
		}
		return s.Uploads.Delete(ctx, *b.UploadID)
	})
}

// checkRow contains the parts of a row that are kept in memory until the portion is stored. A complete row can be much larger: a list can have columns that the
// text does not use, and cells that are longer than any message. A portion of complete rows could exceed the memory of the server.
type checkRow struct {
	no      int64
	address sheet.Cell // cut to maxShown characters
	sign    string     // signature of the row; empty: the signature of the batch applies
	text    string
	values  []byte       // values that fill the rendering; nil: no values
	wrong   *fault.Error // reason why the row has no text or no valid signature; nil: the row has both
}

// read reads the next rows that are not stored yet.
func (s *Service) read(ctx context.Context, c *check) (rows []checkRow, isLast bool, err error) {
	if c.rows == nil {
		if c.rows, err = source.Open(ctx, s.Uploads, s.Contacts, c.batch); err != nil {
			return nil, false, err
		}
	}
	for kept := 0; len(rows) < checkedRows && kept < maxKept; {
		row, err := c.rows.Next(ctx)
		if errors.Is(err, io.EOF) {
			return rows, true, nil
		}
		if err != nil {
			return nil, false, err
		}
		if row.No > c.batch.LastRow {
			rows = append(rows, c.keep(row))
			kept += len(rows[len(rows)-1].values)
		}
	}
	return rows, false, nil
}

// maxKept is the total size of the values in bytes at which a portion ends.
const maxKept = 8 << 20

// maxShown returns the maximum number of characters of an address that are kept: the maximum length of a valid address plus one. A longer address therefore
// stays invalid.
func maxShown(channel string) int {
	if channel == directory.SMS {
		return phone.Longest + 1
	}
	return address.Longest + 1
}

// keep returns copies of those parts of a row that are needed.
func (c *check) keep(row source.Row) checkRow {
	k := checkRow{no: row.No, address: addressCell(row, maxShown(c.batch.Channel))}
	k.text, k.values, k.wrong = c.text.renderRow(row)
	if k.wrong == nil {
		k.sign, k.wrong = signOf(row.Sign)
	}
	sign := cmp.Or(k.sign, optional.Value(c.batch.Sign))
	if bare := segment.Bare(sign, k.text); bare != segment.Unsigned(sign, k.text) { // SQL functions would not find the signature
		k.text = bare
	}
	return k
}

// maxSign is the maximum length of a signature in characters.
const maxSign = 20

// signOf returns the signature of a row without 【】. It returns a fault if the signature is invalid.
func signOf(cell sheet.Cell) (string, *fault.Error) {
	sign := segment.Sign(cell.Text)
	isBad := func(r rune) bool { return r < ' ' || r == '【' || r == '】' }
	switch {
	case cell.Lossy:
		return "", fault.InvalidField("sign", fault.Shortened, nil)
	case utf8.RuneCountInString(sign) > maxSign:
		return "", fault.InvalidField("sign", fault.TooLong, maxSign)
	case strings.ContainsFunc(sign, isBad) || !postgres.IsText(sign):
		return "", fault.InvalidField("sign", fault.BadCharacters, nil)
	}
	return strings.Clone(sign), nil
}

// sums contains the counts of one portion.
type sums struct {
	batchq.BatchCheckedParams

	err error // database error that ended the check of the portion
}

// judge checks rows. It returns the rows to store, and their counts.
func (s *Service) judge(ctx context.Context, c *check, rows []checkRow) (p batchq.BatchRowsAddParams, n sums) {
	p.BatchID, n.ID, n.LastRow, n.Rows = c.batch.ID, c.batch.ID, c.batch.LastRow, int64(len(rows))
	all, err := s.judgeRows(ctx, c, rows)
	if err != nil {
		n.err = err
		return p, n
	}
	for i, row := range rows {
		j := all[i]
		switch j.code {
		case 0:
			n.Valid++
			n.Segments += int64(j.segments)
		case IsBlocked:
			n.Blocked++
		default:
			n.Invalid++
		}
		n.LastRow = row.no
		p.RowNos, p.Recipients, p.Contents = append(p.RowNos, row.no), append(p.Recipients, j.recipient), append(p.Contents, j.content)
		p.Signs = append(p.Signs, row.sign)
		p.Segments, p.CountryNos = append(p.Segments, j.segments), append(p.CountryNos, j.country)
		p.Codes, p.Faults = append(p.Codes, j.code), append(p.Faults, j.fault)
		if c.batch.RenderingID != nil {
			p.ContactValues = append(p.ContactValues, row.values)
		}
	}
	return p, n
}

// judged is the result of the check of a row.
type judged struct {
	recipient, content, country string
	segments                    int16
	code                        int16 // 0: valid
	fault                       []byte
}

// judgeRows checks rows, and returns the results in their order.
func (s *Service) judgeRows(ctx context.Context, c *check, rows []checkRow) ([]judged, error) {
	all, asOf := make([]judged, len(rows)), time.Now()
	var recipients []string
	var indexes []int
	for i, row := range rows {
		var err error
		if all[i], err = s.judgeRow(ctx, asOf, c, row); err != nil {
			return nil, err
		}
		if all[i].code == 0 {
			recipients, indexes = append(recipients, all[i].recipient), append(indexes, i)
		}
	}
	blocked, err := s.Submissions.Blocked(ctx, c.batch.CompanyID, c.batch.MessageType, recipients)
	if err != nil {
		return nil, fmt.Errorf("check rows: %w", err)
	}
	why, err := fault.Encode(fault.Field{Name: address.Field(c.batch.Channel), Rule: fault.IsBlocked})
	if err != nil {
		return nil, fmt.Errorf("check rows: %w", err)
	}
	for n, i := range indexes {
		if blocked[n] {
			all[i].code, all[i].fault = IsBlocked, why
		}
	}
	return all, nil
}

func (s *Service) judgeRow(ctx context.Context, asOf time.Time, c *check, row checkRow) (judged, error) {
	j := judged{recipient: postgres.Text(row.address.Text), content: row.text}
	field := address.Field(c.batch.Channel)
	wrong := row.wrong
	switch {
	case row.address.Lossy:
		wrong = fault.InvalidField(field, fault.Shortened, nil)
	case row.address.Text == "":
		wrong = fault.InvalidField(field, fault.Required, nil)
	case wrong == nil:
		sub := submission(c.batch, batchq.BatchRowsNextRow{
			RowNo: row.no, Recipient: row.address.Text, Content: row.text, Sign: &row.sign, ContactValues: row.values,
		})
		if sub.ExpectSendTime = c.batch.ExpectSendTime; expiresUnsent(c.batch) {
			sub.ExpiresAt = nil // its rows are valid: an expired batch ends, and is not submitted
		}
		checked, err := s.Submissions.Check(ctx, asOf, sub, originOf(c.batch))
		var known *fault.Error
		if err != nil && (!errors.As(err, &known) || len(known.Fields) == 0) { // err is not a fault of the row
			return j, fmt.Errorf("check row %d: %w", row.no, err)
		}
		if checked.Recipient != "" {
			j.recipient = checked.Recipient
		}
		j.country, j.segments = checked.CountryNo, int16(min(checked.Segments, maxSegments))
		wrong = known
	}
	if wrong == nil {
		return j, nil
	}
	j.code = codeOf(wrong)
	var err error
	j.fault, err = fault.Encode(wrong.Fields[0])
	return j, err //nolint:wrapcheck // the error is already wrapped
}

// maxSegments is the maximum number of segments of a row. A row with more segments is invalid.
const maxSegments = 100

// codeOf returns the code of a row for its fault.
func codeOf(wrong *fault.Error) int16 {
	if len(wrong.Fields) == 0 {
		return IsRefused
	}
	switch field := wrong.Fields[0]; {
	case field.Rule == fault.CountryNotServed || field.Rule == fault.IsBlocked:
		return IsBlocked
	case slices.Contains([]fault.Rule{fault.StaysQuiet, fault.IsLimited, fault.BeforeSending, fault.InThePast}, field.Rule): // the row would expire before it can be sent
		return IsRefused
	case field.Rule == fault.TooManySegments:
		return WrongSegments
	case field.Name == address.Field(directory.SMS) || field.Name == address.Field(directory.Email):
		return WrongAddress
	case field.Name == "sign":
		return WrongSign
	default:
		return WrongContent
	}
}

// submission returns the message of a row. A row without a signature gets the signature of the batch.
func submission(b batchq.Batch, row batchq.BatchRowsNextRow) submit.Submission {
	var from *template.Source
	if b.TemplateNo != nil {
		from = &template.Source{ID: *b.TemplateID, TemplateNo: *b.TemplateNo, Version: *b.TemplateVersion, Language: optional.Value(b.TemplateLanguage)}
	}
	return submit.Submission{
		From: from, Channel: b.Channel, PhoneNumber: row.Recipient, Region: b.DefaultRegion, Content: row.Content, MessageType: b.MessageType,
		Priority: b.Priority, ExpiresAt: b.ExpiresAt, Sign: cmp.Or(optional.Value(row.Sign), optional.Value(b.Sign)), Test: b.IsTest, BatchID: b.ID,
		SenderNo: optional.Value(b.SenderNo), Raw: fmt.Appendf(nil, `{"batch_id":%d,"row":%d}`, b.ID, row.RowNo),
		RenderingID: optional.Value(b.RenderingID), Values: row.ContactValues,
	}
}

// originOf returns the origin of the tasks of a batch: the request that created the batch. The priority of its user was checked at the creation.
func originOf(b batchq.Batch) submit.Origin {
	return submit.Origin{User: b.SubmittedBy, CompanyID: b.CompanyID, RequestID: b.RequestID, SourceIP: b.SourceIp, UserAgent: b.UserAgent}
}
