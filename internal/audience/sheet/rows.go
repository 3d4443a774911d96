package sheet

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"lksms/internal/audience/sheet/numberformat"
	"lksms/internal/platform/fault"
)

// The maximum numbers of rows and columns in Excel.
const (
	lastRow    = 1 << 20
	lastColumn = 1 << 14
)

// sheetRows reads the rows of a sheet of a workbook.
type sheetRows struct {
	book    *workbook
	part    io.ReadCloser
	xml     *xmlReader
	strings *sharedStrings              // nil: the workbook has no shared strings
	formats map[int]numberformat.Format // format of each format id
	row     int64                       // number of the last row that was read
	isOver  bool
}

func (w *workbook) openRows() (rows, error) {
	part, err := w.archive.open(w.sheet, w.options.Unpacked)
	if err != nil {
		return nil, err
	}
	s := &sheetRows{book: w, part: part, xml: newXML(part), formats: map[int]numberformat.Format{}}
	if w.strings != "" {
		shared, err := w.archive.open(w.strings, w.options.Unpacked)
		if err != nil {
			return nil, errors.Join(err, part.Close())
		}
		s.strings = openStrings(shared, w.options.MaxCell)
	}
	if err := s.findRows(); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *sheetRows) close() error {
	err := s.part.Close()
	if s.strings != nil {
		err = errors.Join(err, s.strings.close())
	}
	return err
}

// findRows skips the elements before the rows.
func (s *sheetRows) findRows() error {
	for {
		token, err := s.token()
		if err != nil {
			return err
		}
		if start, is := token.(xml.StartElement); is && start.Name.Local == "sheetData" {
			return nil
		}
	}
}

// token returns the next token. If the XML part ends, token returns a fault, because the element of the rows must end first.
func (s *sheetRows) token() (xml.Token, error) {
	token, err := s.xml.next()
	if errors.Is(err, io.EOF) || errors.Is(err, errTokenTooLong) {
		return nil, wrong(fault.Damaged, nil)
	}
	return token, err
}

// next implements rows.
func (s *sheetRows) next(maxCells int) (Row, error) {
	for !s.isOver {
		token, err := s.token()
		if err != nil {
			return Row{}, err
		}
		switch token := token.(type) {
		case xml.StartElement:
			if token.Name.Local != "row" {
				continue
			}
			if s.row, err = s.position(attribute(token, "r"), s.row, lastRow); err != nil {
				return Row{}, err
			}
			return s.cells(maxCells)
		case xml.EndElement:
			s.isOver = token.Name.Local == "sheetData"
		}
	}
	return Row{}, io.EOF
}

// position returns the number of a row: `given` or, if `given` is empty, the number after `before`. A given number must be greater than `before` and at most
// `last`.
func (s *sheetRows) position(given string, before, last int64) (int64, error) {
	if given == "" {
		return before + 1, nil
	}
	no, err := strconv.ParseInt(given, 10, 64)
	if err != nil || no <= before || no > last {
		return 0, wrongAt(fault.DamagedAt, before+1)
	}
	return no, nil
}

// cells reads the cells of a row.
func (s *sheetRows) cells(maxCells int) (Row, error) {
	row := Row{No: s.row}
	column := -1
	for {
		token, err := s.token()
		if err != nil {
			return Row{}, err
		}
		switch token := token.(type) {
		case xml.StartElement:
			if token.Name.Local != "c" {
				continue
			}
			at, is := columnOf(attribute(token, "r"), column)
			if !is {
				return Row{}, wrongAt(fault.DamagedAt, s.row)
			}
			column = at
			cell, err := s.cell(token)
			if errors.Is(err, errTokenTooLong) {
				return Row{}, wrong(fault.CellTooLong, fault.Place{Row: s.row, Column: columnName(column), Most: s.book.options.MaxCell})
			}
			if err != nil {
				return Row{}, err
			}
			switch {
			case column < maxCells:
				for len(row.Cells) < column {
					row.Cells = append(row.Cells, Cell{})
				}
				row.Cells = append(row.Cells, cell)
			case !cell.isEmpty():
				row.Extra++
			}
		case xml.EndElement:
			if token.Name.Local == "row" {
				return row, nil
			}
		}
	}
}

// columnOf returns the column index of a cell reference such as AB12. If the reference is empty, the index is before+1. is reports whether the reference is
// valid and the index is greater than `before`.
func columnOf(reference string, before int) (index int, is bool) {
	if reference == "" {
		return before + 1, before+1 < lastColumn
	}
	for i := range len(reference) {
		c := reference[i] &^ 0x20
		if c < 'A' || c > 'Z' || index > lastColumn {
			break
		}
		index = index*26 + int(c-'A') + 1
	}
	index--
	return index, index > before && index < lastColumn
}

// cell reads a cell. It returns errTokenTooLong if the text of the cell is too long.
func (s *sheetRows) cell(start xml.StartElement) (Cell, error) {
	var kind, style, value string
	for _, a := range start.Attr {
		switch a.Name.Local {
		case "t":
			kind = a.Value
		case "s":
			style = a.Value
		}
	}
	hasFormula, hasValue := false, false
	for {
		token, err := s.xml.next()
		if errors.Is(err, io.EOF) {
			err = wrong(fault.Damaged, nil)
		}
		if err != nil {
			return Cell{}, err
		}
		switch token := token.(type) {
		case xml.StartElement:
			switch token.Name.Local {
			case "f":
				hasFormula = true
			case "v", "is":
				hasValue = true
				if value, err = readText(s.xml, token.Name.Local, utf8.UTFMax*s.book.options.MaxCell); err != nil {
					return Cell{}, err
				}
			}
		case xml.EndElement:
			if token.Name.Local != "c" {
				continue
			}
			if hasFormula && (!hasValue || value == "" && kind != "str") {
				return Cell{Lossy: true}, nil // the program that wrote the file stored no result of the formula
			}
			cell, err := s.valueOf(kind, style, value)
			if err == nil && len(cell.Text) > s.book.options.MaxCell && utf8.RuneCountInString(cell.Text) > s.book.options.MaxCell {
				err = errTokenTooLong
			}
			return cell, err
		}
	}
}

// valueOf returns the cell for a stored value of the given kind.
func (s *sheetRows) valueOf(kind, style, value string) (Cell, error) {
	switch kind {
	case "s":
		no, err := strconv.Atoi(value)
		if err != nil || s.strings == nil {
			return Cell{}, wrongAt(fault.DamagedAt, s.row)
		}
		text, err := s.strings.get(no)
		return cellOf(text), err
	case "str", "inlineStr", "d":
		return cellOf(value), nil
	case "b":
		return Cell{Text: map[bool]string{true: "TRUE", false: "FALSE"}[isTrue(value)]}, nil
	case "e":
		return Cell{Text: value, Lossy: true}, nil
	}
	if value == "" {
		return Cell{}, nil
	}
	n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	if err != nil || math.IsInf(n, 0) || math.IsNaN(n) {
		return Cell{}, wrongAt(fault.DamagedAt, s.row)
	}
	return Cell(s.formatOf(style).Show(n, s.book.is1904)), nil
}

// formatOf returns the number format of a style.
func (s *sheetRows) formatOf(style string) numberformat.Format {
	index, err := strconv.Atoi(style)
	if err != nil || index < 0 || index >= len(s.book.styles.formats) {
		return numberformat.Format{}
	}
	id := s.book.styles.formats[index]
	f, is := s.formats[id]
	if !is {
		code, is := s.book.styles.codes[id]
		if !is {
			code = numberformat.BuiltIn[id]
		}
		f = numberformat.Parse(code)
		s.formats[id] = f
	}
	return f
}

// readText returns the text of the current element: its own text, or the text of the elements t in it, without phonetic text. It returns errTokenTooLong if the
// text is longer than limit bytes.
func readText(x *xmlReader, element string, limit int) (string, error) {
	var text strings.Builder
	isShown := element == "v"
	for {
		token, err := x.next()
		if errors.Is(err, io.EOF) {
			err = wrong(fault.Damaged, nil)
		}
		if err != nil {
			return "", err
		}
		switch token := token.(type) {
		case xml.StartElement:
			switch token.Name.Local {
			case "t":
				isShown = true
			case "rPh":
				if err := skip(x, "rPh"); err != nil {
					return "", err
				}
			}
		case xml.CharData:
			if isShown {
				text.Write(token)
			}
			if text.Len() > limit {
				return "", errTokenTooLong
			}
		case xml.EndElement:
			switch token.Name.Local {
			case element:
				return unescaped(text.String()), nil
			case "t":
				isShown = false
			}
		}
	}
}

// skip skips the rest of the current element.
func skip(x *xmlReader, element string) error {
	for {
		token, err := x.next()
		if errors.Is(err, io.EOF) {
			err = wrong(fault.Damaged, nil)
		}
		if err != nil {
			return err
		}
		if end, is := token.(xml.EndElement); is && end.Name.Local == element {
			return nil
		}
	}
}

// unescaped replaces escapes such as _x000D_, which Excel writes for characters that XML cannot contain. A NUL stays escaped.
func unescaped(text string) string {
	if !strings.Contains(text, "_x") {
		return text
	}
	var plain strings.Builder
	for {
		at := strings.Index(text, "_x")
		if at < 0 || at+7 > len(text) {
			plain.WriteString(text)
			return plain.String()
		}
		code, err := strconv.ParseUint(text[at+2:at+6], 16, 16)
		if err != nil || text[at+6] != '_' || code == 0 || !utf8.ValidRune(rune(code)) {
			plain.WriteString(text[:at+2])
			text = text[at+2:]
			continue
		}
		plain.WriteString(text[:at])
		plain.WriteRune(rune(code))
		text = text[at+7:]
	}
}
