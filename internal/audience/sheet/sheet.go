// Package sheet reads lists that people upload: CSV, XLSX, and JSON arrays of objects. It reads a row at a time, so that a list of any length
// needs the same memory. Nothing is guessed in silence: a file that could be read in two ways, or that has lost something on its way, is an
// error or a mark on a cell or a row.
//
// The package reads XLSX itself instead of using excelize. That library gives every cell as text, either as it is stored or as it is shown, and not its
// type: a date would look like a phone number, and a formula without a result like an empty cell, so that lossy cells could not be marked. It
// also holds the packed file in memory, and 40 bytes for each string.
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

// File is a list as it was uploaded.
type File interface {
	io.ReaderAt
	Size() int64
	Name() string     // as its owner named it; may be empty
	Encoding() string // of a text, as its owner says: one of Encodings; empty: it is found
}

// Bytes returns a File that is in memory.
func Bytes(name string, content []byte) File { return memory{bytes.NewReader(content), name} }

type memory struct {
	*bytes.Reader
	name string
}

func (m memory) Name() string   { return m.name }
func (memory) Encoding() string { return "" }

// Options bound a list. A zero value stands for the number in the comment.
type Options struct {
	Sheet    string // the sheet of a workbook; empty: the first that is not hidden
	Columns  int    // 200
	MaxCell  int    // characters of a cell: 32,767, as in Excel
	Rows     int64  // rows that are not empty, without the header: 1,048,576
	Unpacked int64  // bytes of a workbook when it is unpacked: 1 GiB
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

// Row is a row that is not empty.
type Row struct {
	// No is the number that a spreadsheet program shows beside the row: the header has 1, unless empty rows precede it. In JSON it is the
	// position of the object, from 1.
	No    int64
	Cells []Cell // one for each column
	// Extra is the number of cells that are not empty and belong to no column. Cells does not have them. The row is probably not what it
	// seems: a comma in a text without quotes moves all that follows to the next column.
	Extra int
}

// Cell is a value.
type Cell struct {
	Text string // as a spreadsheet program shows it, but a number has all its digits
	// Lossy says that the file does not have the value as it was typed or computed: a number was shortened (1.38E+10), a formula failed (#N/A),
	// or its result is not in the file. Text must not be used as if it were the value.
	Lossy bool
}

func (c Cell) isEmpty() bool { return !c.Lossy && trim(c.Text) == "" }

// Reader reads the rows of a list. One goroutine uses it.
type Reader struct {
	ctx     context.Context // of Open: the opener of a list reads it
	options Options
	rows    rows
	columns []string
	places  []int // of the columns among all, of which some may have no name
	read    int64 // rows that are not empty
	failed  error
}

// rows are the rows of a file of one kind, empty ones included.
type rows interface {
	// next returns a row with at most most cells. Later cells that are not empty are counted in Extra. io.EOF: no row is left.
	next(most int) (Row, error)
	close() error
}

// Open begins to read a list, until ctx ends. The faults, here and of Next, have the field "file", or "sheet" if Options.Sheet does not exist.
// Other errors are those of the file's storage.
func Open(ctx context.Context, file File, options Options) (*Reader, error) {
	r := &Reader{ctx: ctx, options: options.withDefaults()}
	var err error
	if r.rows, err = rowsOf(ctx, file, r.options); err != nil {
		return nil, err
	}
	if err := r.readHeader(); err != nil {
		_ = r.Close() // the error of the header says more
		return nil, err
	}
	return r, nil
}

// readHeader takes the columns from the first row that is not empty, or from what names them in its place.
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
	case err == io.EOF: //nolint:errorlint // next returns it bare
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
	if len(r.columns) == 0 { // formulas without a result
		return wrong(fault.NoHeader, nil)
	}
	return nil
}

// maxName is the maximum length of the name of a column in characters.
const maxName = 200

func isLongName(name string) bool {
	return len(name) > maxName && utf8.RuneCountInString(name) > maxName
}

// nameOf returns the name of a column as a header shows it, in one line.
func nameOf(text string) string { return strings.Join(strings.FieldsFunc(text, isBlank), " ") }

// Columns returns the names of the columns: not empty, without white space around them, and different from each other. Empty columns without a name
// are left out.
func (r *Reader) Columns() []string { return r.columns }

// Encoding returns the name of the encoding as which a text is read: UTF-8, UTF-16, GB18030 or Windows-1252. A workbook has none. It is doubtful if it
// is a guess, and the text looks like one of Latin letters in another encoding.
func (r *Reader) Encoding() (name string, isDoubtful bool) {
	switch rows := r.rows.(type) {
	case *csvRows:
		return rows.text.encoding, rows.text.doubtful
	case *jsonRows:
		return rows.text.encoding, rows.text.doubtful
	}
	return "", false
}

// Column returns the index of the column with a name. If no column has exactly this name, letters of another case or width and white space
// make no difference, provided that only one column is meant.
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

func folded(name string) string {
	return strings.ToLower(strings.Join(strings.FieldsFunc(width.Fold.String(name), isBlank), ""))
}

// Next returns the next row that is not empty; io.EOF: none is left.
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

// arrange gives a row one cell for each column. A column without a name has no cells, and may only be empty.
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

// nextRow returns the next row that is not empty.
func (r *Reader) nextRow(most int) (Row, error) {
	for {
		if err := r.ctx.Err(); err != nil {
			return Row{}, fmt.Errorf("read list: %w", err)
		}
		row, err := r.rows.next(most)
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

// Close ends the reading. It does not close the file.
func (r *Reader) Close() error { return r.rows.close() }

// wrong returns the fault of a file.
func wrong(rule fault.Rule, limit any) error { return fault.InvalidField("file", rule, limit) }

// wrongAt returns the fault of a row.
func wrongAt(rule fault.Rule, row int64) error { return wrong(rule, fault.Place{Row: row}) }

// columnName returns the name that spreadsheet programs give a column: A, B, ..., Z, AA.
func columnName(index int) string {
	name := ""
	for index++; index > 0; index = (index - 1) / 26 {
		name = string(rune('A'+(index-1)%26)) + name
	}
	return name
}
