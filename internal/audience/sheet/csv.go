package sheet

import (
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	"lksms/internal/platform/fault"
)

// csvRows reads CSV like spreadsheet programs: rows end with LF, CRLF or CR, and a quote is special only at the start of a cell. encoding/csv rejects more
// files, and skips empty rows without counting them. It also holds a whole row in memory: after a missing closing quote, the rest of the file is one row.
type csvRows struct {
	text    text
	comma   byte
	maxCell int
	row     int64
	cell    []byte
	isOver  bool
}

// newCSV starts to read CSV. A first line "sep=;" sets the separator. This line is an instruction for Excel and not a row. Without it, the separator is the
// comma, semicolon or tab that occurs most often outside of quotes in the first row.
func newCSV(t text, options Options) *csvRows {
	c := &csvRows{text: t, comma: ',', maxCell: options.MaxCell}
	if line := strings.ToLower(t.start); strings.HasPrefix(line, "sep=") && len(line) > 4 {
		if rest := line[5:]; rest == "" || rest[0] == '\n' || rest[0] == '\r' {
			c.comma = line[4]
			_, _ = t.Discard(5 + len(rest) - len(strings.TrimPrefix(strings.TrimPrefix(rest, "\r"), "\n"))) // the buffer contains the whole line
			return c
		}
	}
	counts, isQuoted := map[byte]int{}, false
	for i := range len(t.start) {
		switch b := t.start[i]; {
		case b == '"':
			isQuoted = !isQuoted
		case isQuoted:
		case (b == '\n' || b == '\r') && len(counts) > 0:
			return c.separated(counts)
		case b == ',' || b == ';' || b == '\t':
			counts[b]++
		case b > ' ':
			counts[0]++ // the row is not empty
		}
	}
	return c.separated(counts)
}

func (c *csvRows) separated(counts map[byte]int) *csvRows {
	for _, comma := range []byte{';', '\t'} {
		if counts[comma] > counts[c.comma] {
			c.comma = comma
		}
	}
	return c
}

func (c *csvRows) close() error { return nil }

// next implements rows.
func (c *csvRows) next(maxCells int) (Row, error) {
	if c.isOver {
		return Row{}, io.EOF
	}
	c.row++
	row := Row{No: c.row}
	for column := 0; ; column++ {
		end, err := c.readCell(column)
		if err != nil {
			return Row{}, err
		}
		if end == endOfFile && column == 0 && len(c.cell) == 0 {
			c.isOver = true
			return Row{}, io.EOF
		}
		switch {
		case !c.text.isGood(c.cell):
			return Row{}, wrongAt(fault.NotText, c.row)
		case len(c.cell) > c.maxCell && utf8.RuneCount(c.cell) > c.maxCell:
			return Row{}, c.tooLong(column)
		case column < maxCells:
			row.Cells = append(row.Cells, cellOf(string(c.cell)))
		case trim(string(c.cell)) != "":
			row.Extra++
		}
		switch end {
		case endOfFile:
			c.isOver = true
			return row, nil
		case endOfRow:
			return row, nil
		}
	}
}

func (c *csvRows) tooLong(column int) error {
	return wrong(fault.CellTooLong, fault.Place{Row: c.row, Column: columnName(column), Most: c.maxCell})
}

// These are the ways in which a cell can end.
const (
	endOfCell = iota
	endOfRow
	endOfFile
)

// readCell reads a cell into c.cell.
func (c *csvRows) readCell(column int) (end int, err error) {
	c.cell = c.cell[:0]
	isQuoted := false
	for isFirst := true; ; isFirst = false {
		b, err := c.text.ReadByte()
		switch {
		case errors.Is(err, io.EOF) && isQuoted:
			return 0, wrongAt(fault.CutShort, c.row)
		case errors.Is(err, io.EOF):
			return endOfFile, nil
		case err != nil:
			return 0, err //nolint:wrapcheck // the error names the file
		case b == '"' && isFirst:
			isQuoted = true
			continue
		case b == '"' && isQuoted:
			if next, _ := c.text.Peek(1); len(next) == 0 || next[0] != '"' {
				isQuoted = false
				continue
			}
			_, _ = c.text.ReadByte() // two quotes stand for one quote: skip the second quote
		case isQuoted:
		case b == c.comma:
			return endOfCell, nil
		case b == '\n':
			return endOfRow, nil
		case b == '\r':
			if next, _ := c.text.Peek(1); len(next) > 0 && next[0] == '\n' {
				_, _ = c.text.ReadByte()
			}
			return endOfRow, nil
		}
		if len(c.cell) >= utf8.UTFMax*c.maxCell {
			return 0, c.tooLong(column)
		}
		c.cell = append(c.cell, b)
	}
}
