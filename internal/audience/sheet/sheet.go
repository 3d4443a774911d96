// Package sheet reads lists that people upload: CSV, XLSX, and JSON arrays of objects. It reads one row at a time, so that its memory use does not depend on
// the length of the list. The package never guesses silently: if a file is ambiguous or has lost data, the package returns an error, or marks the cell or row.
//
// The package reads XLSX itself instead of using excelize. That library returns every cell as text, either as stored or as displayed, without its type. A date
// would then look like a phone number, and a formula without a result like an empty cell. The package could therefore not mark lossy cells. The library also
// holds the compressed file in memory, and 40 bytes for each string.
package sheet

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/width"

	"lksms/internal/platform/fault"
)

// File is an uploaded list.
type File interface {
	io.ReaderAt
	Size() int64
	Name() string     // name that its owner gave the file; can be empty
	Encoding() string // encoding of a text file that its owner named, one of Encodings; empty: detect the encoding
}

// Bytes returns a File in memory.
func Bytes(name string, content []byte) File { return memory{bytes.NewReader(content), name} }

type memory struct {
	*bytes.Reader
	name string
}

func (m memory) Name() string   { return m.name }
func (memory) Encoding() string { return "" }

// Options limits a list. A zero value means the default in the comment of the field.
type Options struct {
	Sheet    string // sheet of a workbook; default: the first visible sheet
	Columns  int    // maximum number of columns; default: 200
	MaxCell  int    // maximum number of characters of a cell; default: 32,767, as in Excel
	Rows     int64  // maximum number of non-empty rows without the header; default: 1,048,576
	Unpacked int64  // maximum number of bytes of an uncompressed workbook; default: 1 GiB
}

func (o Options) withDefaults() Options {
	orDefault(&o.Columns, 200)
	orDefault(&o.MaxCell, 32_767)
	orDefault(&o.Rows, 1<<20)
	orDefault(&o.Unpacked, 1<<30)
	return o
}

func orDefault[N int | int64](n *N, otherwise N) {
	if *n == 0 {
		*n = otherwise
	}
}

// Row is a non-empty row.
type Row struct {
	// No is the row number in a spreadsheet program. The header has the number 1, unless empty rows precede it. In JSON, No is the position of the object,
	// starting at 1.
	No    int64
	Cells []Cell // one cell per column
	// Extra is the number of non-empty cells after the last column. Cells does not contain them. A row with extra cells is probably wrong: an unquoted comma in
	// a text moves all later cells to the next column.
	Extra int
}

// Cell is a value of a row.
type Cell struct {
	Text string // the value as a spreadsheet program displays it, but a number has all its digits
	// Lossy means that the file does not contain the original value: a number was shortened (1.38E+10), a formula failed (#N/A), or the result of a formula is
	// missing. Text must not be used as the value.
	Lossy bool
}

func (c Cell) isEmpty() bool { return !c.Lossy && trim(c.Text) == "" }

// Reader reads the rows of a list. A Reader must not be used by several goroutines at once.
type Reader struct {
	ctx     context.Context // context of Open, for later calls of Next
	options Options
	rows    rows
	columns []string
	places  []int // index of each named column among all columns of the file, with and without a name
	read    int64 // number of non-empty rows read
	failed  error
}

// rows reads the rows of a file of one kind, including empty rows.
type rows interface {
	// next returns the next row with up to `maxCells` cells. Row.Extra is the number of non-empty cells beyond these. After the last row, next returns io.EOF.
	next(maxCells int) (Row, error)
	close() error
}

// Open starts to read a list. Reading fails when ctx ends. The faults of Open and Next have the field "file", or "sheet" if Options.Sheet does not exist. Other
// errors are errors of the storage.
func Open(ctx context.Context, file File, options Options) (*Reader, error) {
	r := &Reader{ctx: ctx, options: options.withDefaults()}
	var err error
	if r.rows, err = rowsOf(ctx, file, r.options); err != nil {
		return nil, err
	}
	if err := r.readHeader(); err != nil {
		_ = r.Close() // the error of the header is more useful than the error of Close
		return nil, err
	}
	return r, nil
}

// readHeader reads the column names from the first non-empty row. In JSON, the member names are the column names.
func (r *Reader) readHeader() error {
	if objects, is := r.rows.(*jsonRows); is {
		r.columns = objects.columns
		for i := range r.columns {
			r.places = append(r.places, i)
		}
		return nil
	}
	row, err := r.nextRow(r.options.Columns)
	switch {
	case err == io.EOF: //nolint:errorlint // next returns io.EOF unwrapped
		return wrong(fault.NoHeader, nil)
	case err != nil:
		return err
	case row.Extra > 0:
		return wrong(fault.TooManyColumns, r.options.Columns)
	}
	known := map[string]bool{}
	for i, cell := range row.Cells {
		name := nameOf(cell.Text)
		switch {
		case known[name]:
			return wrong(fault.DuplicateColumn, name)
		case isLongName(name):
			return wrong(fault.CellTooLong, fault.Place{Row: row.No, Column: columnName(i), Most: maxName})
		}
		if name != "" {
			known[name] = true
			r.columns, r.places = append(r.columns, name), append(r.places, i)
		}
	}
	if len(r.columns) == 0 { // the header contains only formulas without a result
		return wrong(fault.NoHeader, nil)
	}
	return nil
}

// maxName is the maximum length of a column name in characters.
const maxName = 200

func isLongName(name string) bool {
	return len(name) > maxName && utf8.RuneCountInString(name) > maxName
}

// nameOf returns a column name in one line, without extra white space.
func nameOf(text string) string { return strings.Join(strings.FieldsFunc(text, isBlank), " ") }

// Columns returns the names of the columns. No name is empty, and no two names are equal. Empty columns without a name are skipped.
func (r *Reader) Columns() []string { return r.columns }

// Encoding returns the encoding of a text file: UTF-8, UTF-16, GB18030 or Windows-1252. For a workbook, the name is empty. isDoubtful means that the encoding
// is a guess, and that the text looks like text in a Latin encoding.
func (r *Reader) Encoding() (name string, isDoubtful bool) {
	switch rows := r.rows.(type) {
	case *csvRows:
		return rows.text.encoding, rows.text.doubtful
	case *jsonRows:
		return rows.text.encoding, rows.text.doubtful
	}
	return "", false
}

// CheckEncoding returns the fault request.invalid for a doubtful encoding. An import whose rows nobody checks before they are stored needs an encoding that its
// owner names.
func (r *Reader) CheckEncoding() error {
	if _, isDoubtful := r.Encoding(); isDoubtful {
		return fault.InvalidField("encoding", fault.NotCertain, nil)
	}
	return nil
}

// Column returns the index of the column with a name. If no column has exactly this name, Column ignores white space, case and the width of letters; exactly
// one column must then match.
func (r *Reader) Column(name string) (index int, is bool) {
	index = -1
	for i, column := range r.columns {
		if column == name {
			return i, true
		}
		if folded(column) != folded(name) {
			continue
		}
		if index >= 0 {
			return -1, false
		}
		index = i
	}
	return index, index >= 0
}

// Find returns the index of the column that has one of several names, or -1. A column with the first name takes precedence. Fault: request.invalid for field if
// no column has the first name, and several columns have other names: Find does not guess.
func (r *Reader) Find(field string, names []string) (index int, err error) {
	index = -1
	for i, name := range names {
		at, is := r.Column(name)
		switch {
		case !is || at == index:
		case i == 0:
			return at, nil
		case index >= 0:
			return -1, fault.InvalidField(field, fault.SeveralColumns, r.columns[index]+", "+r.columns[at])
		default:
			index = at
		}
	}
	return index, nil
}

func folded(name string) string {
	return strings.ToLower(strings.Join(strings.FieldsFunc(width.Fold.String(name), isBlank), ""))
}

// Next returns the next non-empty row. After the last row, it returns io.EOF.
func (r *Reader) Next() (Row, error) {
	if r.failed != nil {
		return Row{}, r.failed
	}
	row, err := r.nextRow(r.places[len(r.places)-1] + 1)
	if err == nil && r.read >= r.options.Rows {
		err = wrong(fault.TooManyRows, r.options.Rows)
	}
	if err == nil {
		err = r.arrange(&row)
	}
	if err != nil {
		r.failed = err
		return Row{}, err
	}
	r.read++
	return row, nil
}

// arrange changes a row so that it has exactly one cell for each named column. A non-empty cell in a column without a name is a fault.
func (r *Reader) arrange(row *Row) error {
	cells := make([]Cell, len(r.columns))
	column := 0
	for i, cell := range row.Cells {
		switch {
		case r.places[column] == i:
			cells[column] = cell
			column++
		case !cell.isEmpty():
			return wrong(fault.UnnamedColumn, fault.Place{Row: row.No, Column: columnName(i)})
		}
	}
	row.Cells = cells
	return nil
}

// nextRow returns the next non-empty row.
func (r *Reader) nextRow(maxCells int) (Row, error) {
	for {
		if err := r.ctx.Err(); err != nil {
			return Row{}, fmt.Errorf("read list: %w", err)
		}
		row, err := r.rows.next(maxCells)
		if err != nil {
			return Row{}, err
		}
		for _, cell := range row.Cells {
			if !cell.isEmpty() {
				return row, nil
			}
		}
		if row.Extra > 0 {
			return row, nil
		}
	}
}

// Close closes the Reader, but not the file.
func (r *Reader) Close() error { return r.rows.close() }

// wrong returns the fault of a file.
func wrong(rule fault.Rule, limit any) error { return fault.InvalidField("file", rule, limit) }

// wrongAt returns the fault of a row.
func wrongAt(rule fault.Rule, row int64) error { return wrong(rule, fault.Place{Row: row}) }

// columnName returns the name of a column in spreadsheet programs: A, B, ..., Z, AA.
func columnName(index int) string {
	name := ""
	for index++; index > 0; index = (index - 1) / 26 {
		name = string(rune('A'+(index-1)%26)) + name
	}
	return name
}
