package sheet

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"lksms/internal/platform/fault"
)

// columnsFrom is the number of first objects of a JSON array that determine its columns.
const columnsFrom = 1000

// jsonRows reads a JSON array of objects. Its columns are the member names of the first columnsFrom objects, in the order of their first occurrence.
type jsonRows struct {
	text    text
	tokens  *jsontext.Decoder
	source  *budgetReader
	options Options
	row     int64
	isOver  bool
	columns []string
	index   map[string]int // index of each column
}

func openJSON(ctx context.Context, file File, head []byte, options Options) (rows, error) {
	first, err := newJSON(ctx, file, head, options)
	if err != nil {
		return nil, err
	}
	var invalid fault.Fields // cells and items of the first objects that are no values
	for range columnsFrom {
		err := first.object(func(name string, _ Cell) error { return first.addColumn(name) })
		if err == io.EOF || invalid.IsFull() { //nolint:errorlint // object returns io.EOF unwrapped
			break
		}
		if isNoValue(err) {
			err = invalid.Add(err)
		}
		if err != nil {
			return nil, cmp.Or(invalid.Err(), err)
		}
	}
	if err := invalid.Err(); err != nil {
		return nil, err //nolint:wrapcheck // the error is a fault
	}
	if len(first.columns) == 0 {
		return nil, wrong(fault.NoHeader, nil)
	}
	all, err := newJSON(ctx, file, head, options)
	if err != nil {
		return nil, err
	}
	all.columns, all.index = first.columns, first.index
	return all, nil
}

// newJSON starts to read an array.
func newJSON(ctx context.Context, file File, head []byte, options Options) (*jsonRows, error) {
	t, err := textOf(ctx, file, head)
	if err != nil {
		return nil, err
	}
	source := &budgetReader{Reader: t}
	j := &jsonRows{text: t, tokens: jsontext.NewDecoder(source), source: source, options: options, index: map[string]int{}}
	if _, err := j.token(); err != nil { // the opening bracket
		return nil, err
	}
	return j, nil
}

func (j *jsonRows) close() error { return nil }

// addColumn adds a column with this name, unless it exists.
func (j *jsonRows) addColumn(name string) error {
	if _, is := j.index[name]; is {
		return nil
	}
	if len(j.columns) == j.options.Columns {
		return wrong(fault.TooManyColumns, j.options.Columns)
	}
	j.index[name] = len(j.columns)
	j.columns = append(j.columns, name)
	return nil
}

// next implements rows.
func (j *jsonRows) next(int) (Row, error) {
	row := Row{Cells: make([]Cell, len(j.columns))}
	err := j.object(func(name string, cell Cell) error {
		if column, is := j.index[name]; is {
			row.Cells[column] = cell
		} else if !cell.isEmpty() {
			row.Extra++
		}
		return nil
	})
	row.No = j.row
	return row, err
}

// isNoValue reports whether err is the fault of cells or of an item that are no values. The rest of the array can still be read.
func isNoValue(err error) bool {
	var wrong *fault.Error
	return errors.As(err, &wrong) && len(wrong.Fields) > 0 && wrong.Fields[0].Rule == fault.NotAValue
}

// object reads the next object, and calls do for each of its members. It returns io.EOF after the last object. If some members are no values, it returns their
// faults after it has read the object.
func (j *jsonRows) object(do func(name string, cell Cell) error) error {
	if j.isOver {
		return io.EOF
	}
	j.row++
	begin, err := j.token()
	switch {
	case err != nil:
		return err
	case begin.Kind() == ']':
		j.isOver = true
		j.source.allow(maxToken)
		if _, err := j.tokens.ReadToken(); !errors.Is(err, io.EOF) {
			return j.explain(err)
		}
		return io.EOF
	case begin.Kind() != '{':
		j.skip(begin)
		return wrongAt(fault.NotAValue, j.row)
	}
	var invalid fault.Fields
	names := map[string]bool{}
	for {
		token, err := j.token()
		if err != nil {
			return cmp.Or(invalid.Err(), err)
		}
		if token.Kind() == '}' {
			return invalid.Err() //nolint:wrapcheck // the error is a fault
		}
		name := nameOf(token.String())
		switch {
		case !j.text.isGood([]byte(name)):
			return wrongAt(fault.NotText, j.row)
		case name == "":
			return wrongAt(fault.UnnamedColumn, j.row)
		case names[name]:
			return wrong(fault.DuplicateColumn, name)
		case len(names) == j.options.Columns:
			return wrong(fault.TooManyColumns, j.options.Columns)
		case isLongName(name):
			return wrong(fault.CellTooLong, fault.Place{Row: j.row, Column: columnName(len(names)), Most: maxName})
		}
		names[name] = true
		cell, err := j.value(name)
		if isNoValue(err) {
			err = invalid.Add(err) // the cell is empty, and its column exists
		}
		if err == nil {
			err = do(name, cell)
		}
		if err != nil {
			return err
		}
	}
}

// value reads a value.
func (j *jsonRows) value(name string) (Cell, error) {
	token, err := j.token()
	if err != nil {
		return Cell{}, err
	}
	switch token.Kind() {
	case '"':
		text := token.String()
		switch {
		case !j.text.isGood([]byte(text)):
			return Cell{}, wrongAt(fault.NotText, j.row)
		case len(text) > j.options.MaxCell && utf8.RuneCountInString(text) > j.options.MaxCell:
			return Cell{}, wrong(fault.CellTooLong, fault.Place{Row: j.row, Column: name, Most: j.options.MaxCell})
		}
		return cellOf(text), nil
	case '0':
		return Cell{Text: wholeNumber(token.String())}, nil
	case 't', 'f':
		return Cell{Text: token.String()}, nil
	case 'n':
		return Cell{}, nil
	default:
		j.skip(token)
		return Cell{}, wrong(fault.NotAValue, fault.Place{Row: j.row, Column: name})
	}
}

// skip reads the rest of a list or an object, of which token is the beginning. Any other token has no rest. The next read returns the error of a damaged rest.
func (j *jsonRows) skip(token jsontext.Token) {
	for depth := 0; ; {
		switch token.Kind() {
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		default: // a name or a value
		}
		if depth == 0 {
			return
		}
		var err error
		if token, err = j.token(); err != nil {
			return
		}
	}
}

// token reads a token.
func (j *jsonRows) token() (jsontext.Token, error) {
	j.source.allow(maxToken)
	token, err := j.tokens.ReadToken()
	if err != nil {
		return jsontext.Token{}, j.explain(err)
	}
	return token, nil
}

// explain returns the fault of an array that cannot be read, or the error of the storage. If err is nil, the array is followed by other text.
func (j *jsonRows) explain(err error) error {
	var syntax *jsontext.SyntacticError
	switch {
	case j.source.failed != nil:
		return j.source.failed
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return wrongAt(fault.CutShort, j.row)
	case errors.Is(err, errTokenTooLong):
		return wrong(fault.CellTooLong, fault.Place{Row: j.row, Most: j.options.MaxCell})
	case errors.As(err, &syntax) && strings.Contains(syntax.Err.Error(), "UTF-8"):
		return wrongAt(fault.NotText, j.row)
	default:
		return wrongAt(fault.DamagedAt, j.row)
	}
}

// wholeNumber returns a whole number without its exponent. An exponent in JSON loses no digits, unlike an exponent that a spreadsheet program displays.
func wholeNumber(text string) string {
	_, exponent, is := strings.Cut(strings.ToLower(text), "e")
	if power, err := strconv.Atoi(exponent); !is || err != nil || power < -100 || power > 100 || len(text) > 100 {
		return text
	}
	if n, is := new(big.Rat).SetString(text); is && n.IsInt() {
		return n.Num().String()
	}
	return text
}
