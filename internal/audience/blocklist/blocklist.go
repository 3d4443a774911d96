// Package blocklist imports lists of phone numbers that must not receive messages.
package blocklist

import (
	"cmp"
	"context"
	"errors"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"lksms/internal/audience/contact"
	"lksms/internal/audience/sheet"
	"lksms/internal/audience/upload"
	"lksms/internal/dispatch/block"
	"lksms/internal/dispatch/directory"
	"lksms/internal/dispatch/phone"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/postgres"
)

const (
	maxRows   = 5000 // maximum number of rows of a list: the import ends within its request
	maxErrors = 1000 // maximum number of invalid rows that an import describes
	maxReason = 200  // maximum length of a reason in characters
)

// Service imports lists of blocks.
type Service struct {
	blocks    *block.Service
	uploads   *upload.Service
	directory *directory.Service
}

// New returns a Service.
func New(blocks *block.Service, uploads *upload.Service, directory *directory.Service) *Service {
	return &Service{blocks, uploads, directory}
}

// Request describes an import. Scope, Reason and ExpiresAt apply to rows without their own value.
type Request struct {
	CompanyID *int64 // nil: the blocks are for all companies
	Upload    upload.Upload
	Sheet     string // sheet of a workbook; empty: the first sheet
	Region    string // region of phone numbers without a country code; empty: the region of the company
	Scope     string // empty: each row needs a scope
	Reason    string // empty: no reason
	ExpiresAt *time.Time
	By        string // user name
}

// RowError is an invalid row and its fault.
type RowError struct {
	Row   int64 // row number in a spreadsheet program
	Fault *fault.Error
}

// Outcome describes what an import did. Rows is the sum of Added, Changed, Unchanged and Invalid.
type Outcome struct {
	Rows, Added, Changed, Unchanged, Invalid int
	Errors                                   []RowError // the first maxErrors invalid rows
	Cancelled                                int        // tasks that waited
	Held                                     int        // tasks that a sender already had
}

// Import reads a list and blocks its numbers. It stores all valid rows or none, and then takes back the tasks that wait. If taking back fails, the sweep
// enforce-blocks does it later. Faults: request.invalid for a list that is unreadable or has no column with phone numbers, and for an expiry in the past.
func (s *Service) Import(ctx context.Context, r Request) (Outcome, error) {
	l, err := s.open(ctx, r)
	if err != nil {
		return Outcome{}, err
	}
	entries, done, err := l.read()
	_ = l.rows.Close() // all rows are read, or the error of read is more useful
	if err != nil {
		return Outcome{}, err
	}
	if len(entries) == 0 {
		return done, nil
	}
	stored, err := s.blocks.Import(ctx, block.List{CompanyID: r.CompanyID, Entries: entries, FileName: r.Upload.Name, By: r.By})
	if err != nil {
		return Outcome{}, err
	}
	done.Added, done.Changed = stored.Added, stored.Changed
	done.Unchanged = done.Rows - done.Invalid - done.Added - done.Changed
	if len(stored.IDs) == 0 {
		return done, nil
	}
	taken, err := s.blocks.Enforce(ctx, stored.IDs)
	done.Cancelled, done.Held = taken.Cancelled, len(taken.Held)
	return done, err
}

// list is an open list of blocks. A column that the list does not have is -1.
type list struct {
	rows      *sheet.Reader
	request   Request
	companyNo string // company of the import; empty: all companies
	now       time.Time

	phone, scope, reason, expiry, asked, company int
}

// open opens the upload as a list of blocks.
func (s *Service) open(ctx context.Context, r Request) (*list, error) {
	l := &list{request: r, now: time.Now()}
	if r.ExpiresAt != nil && !r.ExpiresAt.After(l.now) {
		return nil, fault.InvalidField("expires_at", fault.InThePast, nil)
	}
	var err error
	if l.request.Region, err = s.directory.RegionOr(ctx, r.CompanyID, r.Region); err != nil {
		return nil, err //nolint:wrapcheck // the error is a fault, or already wrapped
	}
	if r.CompanyID != nil {
		if l.companyNo, err = s.directory.CompanyNo(ctx, *r.CompanyID); err != nil {
			return nil, err //nolint:wrapcheck // the error is already wrapped
		}
	}
	file, err := s.uploads.Open(ctx, r.Upload.ID)
	if err != nil {
		return nil, err //nolint:wrapcheck // the error is already wrapped
	}
	if l.rows, err = sheet.Open(ctx, file, sheet.Options{Sheet: r.Sheet, Rows: maxRows}); err != nil {
		return nil, err //nolint:wrapcheck // the error is a fault, or already wrapped
	}
	if err := l.readColumns(); err != nil {
		_ = l.rows.Close() // the error of readColumns is more useful than the error of Close
		return nil, err
	}
	return l, nil
}

// readColumns finds the columns. The name of the API takes precedence over the names that imports of contacts know.
func (l *list) readColumns() error {
	if err := l.rows.CheckEncoding(); err != nil {
		return err //nolint:wrapcheck // the error is a fault
	}
	for name, at := range map[string]*int{
		"scope": &l.scope, "reason": &l.reason, "expires_at": &l.expiry, "asked_at": &l.asked, "company_no": &l.company,
	} {
		found, is := l.rows.Column(name)
		if *at = found; !is {
			*at = -1
		}
	}
	at, err := l.rows.Find("file", contact.AddressColumns(directory.SMS))
	if err == nil && at < 0 {
		err = fault.InvalidField("file", fault.NoColumn, "phone_number")
	}
	l.phone = at
	return err //nolint:wrapcheck // the error is a fault
}

// read reads all rows. Of several rows with the same number, scope and origin, it returns the last one.
func (l *list) read() (entries []block.Entry, done Outcome, err error) {
	type key struct {
		recipient, scope string
		isAsked          bool
	}
	at := map[key]int{}
	for {
		row, err := l.rows.Next()
		if err == io.EOF { //nolint:errorlint // Next returns io.EOF unwrapped
			return entries, done, nil
		}
		if err != nil {
			return nil, done, err //nolint:wrapcheck // the error is a fault, or already wrapped
		}
		done.Rows++
		e, wrong := l.entry(row)
		if wrong != nil {
			var f *fault.Error
			if !errors.As(wrong, &f) {
				return nil, done, wrong
			}
			if done.Invalid++; done.Invalid <= maxErrors {
				done.Errors = append(done.Errors, RowError{row.No, f})
			}
			continue
		}
		k := key{e.Recipient, e.Scope, e.AskedAt != nil}
		if earlier, isKnown := at[k]; isKnown {
			entries[earlier] = e
			continue
		}
		at[k] = len(entries)
		entries = append(entries, e)
	}
}

// entry returns the block of a row. Fault: request.invalid.
func (l *list) entry(row sheet.Row) (block.Entry, error) {
	if row.Extra > 0 {
		return block.Entry{}, fault.InvalidField("row", fault.TooManyCells, nil)
	}
	for _, at := range []int{l.phone, l.scope, l.reason, l.expiry, l.asked, l.company} {
		if at >= 0 && row.Cells[at].Lossy {
			return block.Entry{}, fault.InvalidField(l.rows.Columns()[at], fault.Shortened, nil)
		}
	}
	text := func(at int) string {
		if at < 0 {
			return ""
		}
		return contact.WithoutApostrophe(strings.TrimSpace(postgres.Text(row.Cells[at].Text)))
	}
	e := block.Entry{Scope: cmp.Or(text(l.scope), l.request.Scope), Reason: cmp.Or(text(l.reason), l.request.Reason), ExpiresAt: l.request.ExpiresAt}
	number := text(l.phone)
	if number == "" {
		return e, fault.InvalidField("phone_number", fault.Required, nil)
	}
	var err error
	if e.Recipient, err = phone.Normalise("phone_number", number, l.request.Region); err != nil {
		return e, err //nolint:wrapcheck // the error is a fault
	}
	switch no := text(l.company); {
	case e.Scope == "":
		return e, fault.InvalidField("scope", fault.Required, nil)
	case e.Scope != block.Marketing && e.Scope != block.Notification && e.Scope != block.All:
		return e, fault.InvalidField("scope", fault.NotAllowed, []string{block.Marketing, block.Notification, block.All})
	case utf8.RuneCountInString(e.Reason) > maxReason:
		return e, fault.InvalidField("reason", fault.TooLong, maxReason)
	case no != "" && no != l.companyNo:
		return e, fault.InvalidField("company_no", fault.OfOther, nil)
	}
	if expiry := text(l.expiry); expiry != "" {
		at, err := time.Parse(time.RFC3339, expiry)
		switch {
		case err != nil:
			return e, fault.InvalidField("expires_at", fault.NotATime, nil)
		case !at.After(l.now):
			return e, fault.InvalidField("expires_at", fault.InThePast, nil)
		}
		e.ExpiresAt = &at
	}
	if asked := text(l.asked); asked != "" {
		at, err := time.Parse(time.RFC3339, asked)
		switch {
		case err != nil:
			return e, fault.InvalidField("asked_at", fault.NotATime, nil)
		case l.companyNo == "": // a person asks one company for a block, and can end only the block of this company
			return e, fault.InvalidField("company_no", fault.Required, nil)
		}
		e.AskedAt = &at
	}
	return e, nil
}
