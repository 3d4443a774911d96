package contact

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"lksms/gen/contactq"
	"lksms/internal/audience/sheet"
	"lksms/internal/audience/upload"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/sweep"
)

const (
	portionRows    = 5000      // maximum number of rows that one transaction stores
	maxImports     = 10        // maximum number of running imports of a company
	maxErrors      = 10_000    // maximum number of invalid rows that are stored for each import
	maxColumns     = 200       // maximum number of columns of a list; every column that is not a field of a contact is an attribute, and a row can have maxAttributes attributes
	maxImportRows  = 2_000_000 // maximum number of rows of a list, and of contacts of a company
	importsDeleted = 100       // maximum number of imports that one statement deletes
)

// ImportRequest describes the import of an uploaded list.
type ImportRequest struct {
	CompanyID int64
	Upload    upload.Upload
	Sheet     string  // sheet of a workbook; empty: the first sheet
	Region    string  // region of phone numbers without a country code; empty: the region of the company
	Tag       *string // tag to which the contacts are added; if it does not exist, it is created; nil: no tag
	By        string  // user name
}

// StartImport creates an import and keeps its upload. Import stores the rows later. Faults: request.invalid for a list that is unreadable or has no column with
// user ids; limit.reached.
func (s *Service) StartImport(ctx context.Context, r ImportRequest) (ImportRow, error) {
	list, err := s.openList(ctx, r.CompanyID, r.Upload.ID, r.Sheet, r.Region)
	if err != nil {
		return ImportRow{}, err
	}
	_ = list.rows.Close() // only the columns were needed
	if err := list.rows.CheckEncoding(); err != nil {
		return ImportRow{}, err //nolint:wrapcheck // the error is a fault
	}
	var id int64
	err = s.db.Tx(ctx, func(ctx context.Context) (err error) {
		if r.Tag != nil {
			if _, err := s.PutTag(ctx, r.CompanyID, *r.Tag); err != nil {
				return err
			}
		}
		id, err = s.q.ImportCreate(ctx, contactq.ImportCreateParams{
			CompanyID: r.CompanyID, FileName: r.Upload.Name, UploadID: r.Upload.ID, Sheet: r.Sheet, Tag: r.Tag, DefaultRegion: r.Region, CreatedBy: r.By, MaxRunning: maxImports,
		})
		if err != nil {
			return postgres.Wrap("create import", err, fault.AtLimit(maxImports))
		}
		return s.uploads.Use(ctx, r.Upload.ID, fmt.Sprint("contact import ", id))
	})
	if err != nil {
		return ImportRow{}, err
	}
	return s.GetImport(ctx, r.CompanyID, id)
}

// Imports returns up to limit imports of a company with smaller ids than `before`, newest first.
func (s *Service) Imports(ctx context.Context, companyID, before int64, limit int) ([]ImportRow, error) {
	rows, err := s.q.ImportList(ctx, contactq.ImportListParams{CompanyID: companyID, BeforeID: before, PageLimit: int32(limit)})
	return rows, postgres.Wrap("list imports", err, nil)
}

var errNoImport = fault.New(fault.NotFound, fault.ImportNotFound)

// GetImport returns an import. Fault: import.not_found.
func (s *Service) GetImport(ctx context.Context, companyID, id int64) (ImportRow, error) {
	rows, err := s.q.ImportList(ctx, contactq.ImportListParams{CompanyID: companyID, ID: &id, BeforeID: id + 1, PageLimit: 1})
	return postgres.One(rows, err, "get import", errNoImport)
}

// ImportError is an invalid row and its fault. The row was not stored.
type ImportError struct {
	Row   int64 // row number in a spreadsheet program
	Fault *fault.Error
}

// ImportErrors returns up to limit invalid rows with row numbers greater than `after`.
func (s *Service) ImportErrors(ctx context.Context, importID, after int64, limit int) ([]ImportError, error) {
	rows, err := s.q.ImportErrorList(ctx, contactq.ImportErrorListParams{ImportID: importID, AfterRow: after, PageLimit: int32(limit)})
	if err != nil {
		return nil, fmt.Errorf("list errors of import: %w", err)
	}
	all := make([]ImportError, len(rows))
	for i, row := range rows {
		all[i].Row = row.RowNo
		wrong, err := fault.Decode(row.Failure)
		if err != nil {
			return nil, err //nolint:wrapcheck // the error is already wrapped
		}
		all[i].Fault = fault.InvalidField(wrong.Name, wrong.Rule, wrong.Limit)
	}
	return all, nil
}

// encodeFailure returns the stored form of the first field of a fault.
func encodeFailure(f *fault.Error) []byte {
	text, err := fault.Encode(f.Fields[0])
	if err != nil {
		panic(err) // impossible: the limit contains only texts and numbers
	}
	return text
}

// list is an open list of contacts.
type list struct {
	region     string // region of phone numbers without a country code
	rows       *sheet.Reader
	userID     int
	fields     map[int]field
	attributes map[int]string
}

// openList opens an upload as a list of contacts. Fault: request.invalid.
func (s *Service) openList(ctx context.Context, companyID, uploadID int64, sheetName, region string) (list, error) {
	region, err := s.directory.RegionOr(ctx, &companyID, region)
	if err != nil {
		return list{}, err
	}
	file, err := s.uploads.Open(ctx, uploadID)
	if err != nil {
		return list{}, err
	}
	rows, err := sheet.Open(ctx, file, sheet.Options{Sheet: sheetName, Columns: maxColumns, Rows: maxImportRows})
	if err != nil {
		return list{}, err
	}
	l := list{rows: rows, region: region, fields: map[int]field{}, attributes: map[int]string{}}
	if err := l.readColumns(); err != nil {
		_ = rows.Close() // the error of readColumns is more useful than the error of Close
		return list{}, err
	}
	return l, nil
}

// readColumns finds out for each column which field or attribute it contains. Fault: request.invalid.
func (l *list) readColumns() (err error) {
	if l.userID, err = l.rows.Find("file", userIDColumns); err != nil {
		return err
	}
	if l.userID < 0 {
		return fault.InvalidField("file", fault.NoColumn, "user_id")
	}
	for _, f := range fields {
		at, err := l.rows.Find("file", f.columns)
		if err != nil {
			return err
		}
		if at >= 0 {
			l.fields[at] = f
		}
	}
	for at, name := range l.rows.Columns() {
		if _, isField := l.fields[at]; isField || at == l.userID {
			continue
		}
		if checkAttribute("file", name, "") != nil {
			return fault.InvalidField("file", fault.BadColumn, name)
		}
		l.attributes[at] = name
	}
	return nil
}

// portion contains rows of a list that one transaction stores.
type portion struct {
	contacts []dbContact // at most one contact per user
	byUser   map[string]int
	rows     int64
	lastRow  int64
	errors   []rowError
	isLast   bool
	wrong    *fault.Error // reason why the rest of the list cannot be read; nil: the rest can be read
}

// dbContact is a contact to store. A field with an empty text keeps its stored value.
type dbContact struct {
	userID     string
	texts      []string // texts in the order of fields
	attributes map[string]string
	row        int64 // number of the user's last row in the list
}

type rowError struct {
	row   int64
	fault *fault.Error
}

// next reads the next portion. A fault of the list is part of the portion. next returns an error only for a failure of the storage.
func (l *list) next() (portion, error) {
	p := portion{byUser: map[string]int{}}
	for p.rows < portionRows {
		row, err := l.rows.Next()
		var wrong *fault.Error
		switch {
		case err == io.EOF: //nolint:errorlint // Next returns io.EOF unwrapped
			p.isLast = true
			return p, nil
		case errors.As(err, &wrong):
			p.isLast, p.wrong = true, wrong
			return p, nil
		case err != nil:
			return p, err //nolint:wrapcheck // the error comes from package upload
		}
		p.rows, p.lastRow = p.rows+1, row.No
		p.add(l, row)
	}
	return p, nil
}

// add adds the contact of a row, or the error of an invalid row. A later row of the same user overrides an earlier row.
func (p *portion) add(l *list, row sheet.Row) {
	c, wrong := l.read(row)
	if wrong != nil {
		p.errors = append(p.errors, rowError{row.No, wrong})
		return
	}
	at, isKnown := p.byUser[c.userID]
	if !isKnown {
		p.byUser[c.userID] = len(p.contacts)
		p.contacts = append(p.contacts, c)
		return
	}
	earlier := &p.contacts[at]
	for i, text := range c.texts {
		if text != "" {
			earlier.texts[i] = text
		}
	}
	for name, value := range c.attributes {
		earlier.attributes[name] = value
	}
	earlier.row = row.No
}

// read returns the contact of a row, or the fault of an invalid row.
func (l *list) read(row sheet.Row) (dbContact, *fault.Error) {
	c := dbContact{texts: make([]string, len(fields)), attributes: map[string]string{}, row: row.No}
	if row.Extra > 0 {
		return c, fault.InvalidField("row", fault.TooManyCells, nil)
	}
	var known Contact
	for at, cell := range row.Cells {
		text := WithoutApostrophe(strings.TrimSpace(postgres.Text(cell.Text)))
		column := l.rows.Columns()[at]
		switch f, isField := l.fields[at]; {
		case cell.Lossy:
			return c, fault.InvalidField(column, fault.Shortened, nil)
		case at == l.userID:
			if text == "" {
				return c, fault.InvalidField("user_id", fault.Required, nil)
			}
			if !isUserID(text) {
				return c, fault.InvalidField("user_id", fault.BadCharacters, nil)
			}
			c.userID = text
		case text == "":
		case isField:
			if wrong := f.checkText(text); wrong != nil {
				return c, wrong
			}
			*f.of(&known) = &text
		default:
			if wrong := checkAttribute("", column, text); wrong != nil {
				wrong.Fields[0].Name = column
				return c, wrong
			}
			c.attributes[column] = text
		}
	}
	if err := known.normalise(l.region, func(field string) string { return field }); err != nil {
		var wrong *fault.Error
		errors.As(err, &wrong)
		return c, wrong
	}
	if len(c.attributes) > maxAttributes {
		return c, tooManyAttributes()
	}
	for i, f := range fields {
		c.texts[i] = optional.Value(*f.of(&known))
	}
	return c, nil
}

// WithoutApostrophe removes the apostrophe before a text. Export adds it, so that spreadsheet programs do not treat the text as a formula.
func WithoutApostrophe(text string) string {
	if len(text) > 1 && text[0] == '\'' && strings.IndexByte("=+-@\t", text[1]) >= 0 {
		return text[1:]
	}
	return text
}

func tooManyAttributes() *fault.Error {
	return fault.InvalidField("attributes", fault.TooManyItems, maxAttributes)
}

// errMoved means that another server has processed the import meanwhile, or that the import has ended.
var errMoved = errors.New("another server has continued the import, or the import has ended")

// Import stores the rows of running imports until no rows are left. It stores one portion of each company in turn, and the imports of a company also take turns.
// Import returns the number of processed rows. It continues an import after the last row that another server has stored.
func (s *Service) Import(ctx context.Context) (int, error) {
	open := map[int64]*running{}
	defer func() {
		for _, r := range open {
			r.close()
		}
	}()
	total := 0
	var failures []error
	isOver := map[int64]bool{} // the imports of which this run stores no further portion
	last := map[int64]int64{}  // the last import of each company that stored a portion
	for isIdle := false; !isIdle && ctx.Err() == nil; {
		imports, err := s.q.ImportIDsRunning(ctx) // queried in each round, so that a new import waits for one round at most
		if err != nil {
			return total, errors.Join(append(failures, fmt.Errorf("find imports: %w", err))...)
		}
		isIdle = true
		hadTurn := map[int64]bool{} // the companies of which this round stored a portion
		for _, i := range sweep.InTurn(imports, last, func(i contactq.ImportIDsRunningRow) (int64, int64) { return i.CompanyID, i.ID }) {
			if isOver[i.ID] || hadTurn[i.CompanyID] {
				continue
			}
			if open[i.ID] == nil {
				open[i.ID] = &running{id: i.ID}
			}
			n, isLast, err := s.importPortion(ctx, open[i.ID])
			total += n
			if err != nil && !errors.Is(err, errMoved) {
				failures = append(failures, fmt.Errorf("import %d: %w", i.ID, err))
			}
			if isOver[i.ID] = isLast; isLast {
				open[i.ID].close()
				delete(open, i.ID)
			}
			if n > 0 {
				last[i.CompanyID], hadTurn[i.CompanyID], isIdle = i.ID, true, false
			}
		}
	}
	return total, errors.Join(failures...)
}

// running is an import that this server processes.
type running struct {
	id   int64
	row  ImportRow // RowNo is the number of the last stored row
	list *list     // nil: not open yet
}

func (r *running) close() {
	if r.list != nil {
		_ = r.list.rows.Close() // all rows that were read are stored, so an error does not matter
	}
}

// importPortion stores the next portion of an import, and returns the number of its rows. After an error, another call of Import can repeat the portion.
func (s *Service) importPortion(ctx context.Context, r *running) (rows int, isOver bool, err error) {
	if r.list == nil {
		if err := s.resume(ctx, r); err != nil {
			return 0, true, err
		}
		if r.list == nil { // resume has ended the import
			return 0, true, nil
		}
	}
	p, err := r.list.next()
	if err != nil {
		return 0, true, err
	}
	err = s.storePortion(ctx, r, p)
	var known *fault.Error
	switch {
	case errors.As(err, &known): // the company has the maximum number of contacts, or the tag was deleted
		return 0, true, s.endImport(ctx, r, known)
	case err != nil && !errors.Is(err, errMoved) && ctx.Err() == nil && !postgres.IsUnavailable(err): // a repeat would fail again, so the import ends
		return 0, true, errors.Join(err, s.endImport(ctx, r, fault.InvalidField("file", fault.NothingElseIsKnown, nil)))
	case err != nil:
		return 0, true, err
	}
	r.row.RowNo = max(r.row.RowNo, p.lastRow)
	return int(p.rows), p.isLast, nil
}

// resume opens the list of an import and skips the stored rows. If no rows follow or the list is unreadable, resume ends the import, and r.list stays nil.
func (s *Service) resume(ctx context.Context, r *running) error {
	row, err := s.q.ImportGet(ctx, r.id)
	if err != nil {
		return postgres.Wrap("read import", err, nil)
	}
	r.row = row
	l, err := s.openList(ctx, row.CompanyID, *row.UploadID, row.Sheet, row.DefaultRegion)
	for err == nil && row.RowNo > 0 {
		var read sheet.Row
		if read, err = l.rows.Next(); err == nil && read.No >= row.RowNo {
			break
		}
	}
	var wrong *fault.Error
	switch {
	case errors.As(err, &wrong):
		return s.endImport(ctx, r, wrong)
	case err == io.EOF: //nolint:errorlint // Next returns io.EOF unwrapped
		return s.endImport(ctx, r, nil)
	case err != nil:
		return fmt.Errorf("open list: %w", err)
	}
	r.list = &l
	return nil
}

// endImport ends an import. wrong is the reason why the import failed; nil: the import succeeded.
func (s *Service) endImport(ctx context.Context, r *running, wrong *fault.Error) error {
	return s.db.Tx(ctx, func(ctx context.Context) error {
		if _, err := s.q.ImportHold(ctx, contactq.ImportHoldParams{ID: r.id, RowNo: r.row.RowNo}); err != nil {
			return heldOr(err)
		}
		return s.end(ctx, r, wrong)
	})
}

// end ends a locked import, and deletes its list.
func (s *Service) end(ctx context.Context, r *running, wrong *fault.Error) error {
	p := contactq.ImportEndParams{ID: r.id}
	if wrong != nil {
		if len(wrong.Fields) == 0 { // the fault limit.reached has no field
			wrong = fault.InvalidField("file", fault.BeyondLimit, wrong.Limit)
		}
		p.Failure = encodeFailure(wrong)
	}
	if err := s.q.ImportEnd(ctx, p); err != nil {
		return fmt.Errorf("end import: %w", err)
	}
	return s.uploads.Delete(ctx, *r.row.UploadID)
}

func heldOr(err error) error {
	if postgres.IsNoRows(err) {
		return errMoved
	}
	return fmt.Errorf("lock import: %w", err)
}

// storePortion stores and counts a portion in one transaction. After the last portion, this transaction also ends the import. Faults: limit.reached;
// request.invalid if the tag was deleted.
func (s *Service) storePortion(ctx context.Context, r *running, p portion) error {
	company := r.row.CompanyID
	return s.change(ctx, company, func(ctx context.Context) error {
		if _, err := s.q.ImportHold(ctx, contactq.ImportHoldParams{ID: r.id, RowNo: r.row.RowNo}); err != nil {
			return heldOr(err)
		}
		if err := s.refuseOverfull(ctx, company, r.list, &p); err != nil {
			return err
		}
		params, err := storeParams(company, p.contacts)
		if err != nil {
			return err
		}
		stored, err := s.q.ImportStore(ctx, params)
		if err != nil {
			return postgres.Wrap("store contacts", err, nil)
		}
		if r.row.Tag != nil {
			tag, err := s.GetTag(ctx, company, *r.row.Tag)
			if err != nil {
				return fault.OfField(err, ErrNoTag, "tag") //nolint:wrapcheck // the error is a fault
			}
			if _, err := s.q.TagAdd(ctx, contactq.TagAddParams{TagID: tag.ID, CompanyID: company, UserIds: params.UserIds}); err != nil {
				return fmt.Errorf("add contacts to tag: %w", err)
			}
		}
		counted := contactq.ImportAdvanceParams{
			ID: r.id, RowNo: max(r.row.RowNo, p.lastRow), Rows: p.rows, Added: stored.Added, Changed: stored.Changed, MaxErrors: maxErrors,
			ErrorRows: []int64{}, Failures: [][]byte{},
		}
		slices.SortFunc(p.errors, func(a, b rowError) int { return cmp.Compare(a.row, b.row) })
		for _, e := range p.errors {
			counted.ErrorRows, counted.Failures = append(counted.ErrorRows, e.row), append(counted.Failures, encodeFailure(e.fault))
		}
		if err := s.q.ImportAdvance(ctx, counted); err != nil {
			return fmt.Errorf("count rows of import: %w", err)
		}
		if p.isLast {
			return s.end(ctx, r, p.wrong)
		}
		return nil
	})
}

// refuseOverfull turns contacts into invalid rows if their new and existing attributes together exceed the limit.
func (s *Service) refuseOverfull(ctx context.Context, companyID int64, l *list, p *portion) error {
	if len(l.attributes) == 0 || len(p.contacts) == 0 {
		return nil
	}
	params, err := storeParams(companyID, p.contacts)
	if err != nil {
		return err
	}
	overfull, err := s.q.ImportOverfull(ctx, contactq.ImportOverfullParams{
		CompanyID: companyID, UserIds: params.UserIds, Attributes: params.Attributes, MaxAttributes: maxAttributes,
	})
	if err != nil {
		return fmt.Errorf("count attributes: %w", err)
	}
	for _, id := range overfull {
		p.errors = append(p.errors, rowError{p.contacts[p.byUser[id]].row, tooManyAttributes()})
	}
	p.contacts = slices.DeleteFunc(p.contacts, func(c dbContact) bool { return slices.Contains(overfull, c.userID) })
	return nil
}

func storeParams(companyID int64, contacts []dbContact) (contactq.ImportStoreParams, error) {
	p := contactq.ImportStoreParams{CompanyID: companyID}
	for _, c := range contacts {
		attributes, err := json.Marshal(c.attributes)
		if err != nil {
			return p, fmt.Errorf("write attributes: %w", err)
		}
		p.UserIds, p.Attributes = append(p.UserIds, c.userID), append(p.Attributes, attributes)
		for i, to := range []*[]string{&p.Names, &p.Phones, &p.DingtalkNames, &p.WechatOpenids, &p.Emails} { // in the order of fields
			*to = append(*to, c.texts[i])
		}
	}
	return p, nil
}

// DeleteExpiredImports deletes imports that ended before the time of the setting history.log_days. It returns the number of deleted imports.
func (s *Service) DeleteExpiredImports(ctx context.Context) (int, error) {
	return s.settings.DeleteExpiredLogs(ctx, importsDeleted, func(keep time.Duration) (int64, error) {
		n, err := s.q.ImportsDeleteExpired(ctx, contactq.ImportsDeleteExpiredParams{BatchSize: importsDeleted, Keep: keep})
		return n, postgres.Wrap("delete imports", err, nil)
	})
}
