package sheet

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"lksms/internal/platform/fault"
)

// workbook is an XLSX file: a ZIP file of XML parts.
type workbook struct {
	archive *archive
	options Options
	sheet   string // name of the part with the sheet
	strings string // name of the part with the strings; empty: the workbook has no such part
	styles  styles
	is1904  bool // days are counted from 1904, as in workbooks of old Macs
}

// openWorkbook reads the structure of a workbook, and starts to read the rows of one sheet.
func openWorkbook(ctx context.Context, file File, options Options) (rows, error) {
	a, err := openArchive(ctx, file)
	if err != nil {
		return nil, err
	}
	w := &workbook{archive: a, options: options}
	if err := w.readParts(); err != nil {
		return nil, err
	}
	if err := w.checkSheet(); err != nil {
		return nil, err
	}
	return w.openRows()
}

// relationship is a reference from one part to another.
type relationship struct{ kind, target string }

// relationships returns the references of a part by id. The kind of a reference is the last word of its type URL, because the rest of the URL differs between
// the variants of the format.
func (w *workbook) relationships(of string) (map[string]relationship, error) {
	folder, name := "", of
	if i := strings.LastIndexByte(of, '/'); i >= 0 {
		folder, name = of[:i+1], of[i+1:]
	}
	all := map[string]relationship{}
	err := w.each(folder+"_rels/"+name+".rels", func(_ []string, e xml.StartElement) {
		kind := attribute(e, "Type")
		if e.Name.Local == "Relationship" && attribute(e, "TargetMode") != "External" {
			all[attribute(e, "Id")] = relationship{kind[strings.LastIndexByte(kind, '/')+1:], targetOf(of, attribute(e, "Target"))}
		}
	})
	return all, err
}

// each calls do for every element of a small part.
func (w *workbook) each(name string, do func(path []string, element xml.StartElement)) error {
	part, err := w.archive.open(name, maxSmallPart)
	if err != nil {
		return err
	}
	return errors.Join(newXML(part).each(do), part.Close())
}

// readParts finds the parts of the workbook that contain the sheet, its strings and its styles.
func (w *workbook) readParts() error {
	if !w.archive.has("_rels/.rels") { // a ZIP file, but no Office document
		return wrong(fault.NotAList, nil)
	}
	roots, err := w.relationships("")
	if err != nil {
		return err
	}
	book := ""
	for _, r := range roots {
		if r.kind == "officeDocument" {
			book = r.target
		}
	}
	if strings.HasSuffix(book, ".bin") { // a binary workbook (.xlsb)
		return wrong(fault.NotAList, nil)
	}
	parts, err := w.relationships(book)
	if err != nil {
		return err
	}
	var names []string // names of all sheets
	isBook, isFound := false, false
	err = w.each(book, func(path []string, e xml.StartElement) {
		isBook = isBook || len(path) == 0 && e.Name.Local == "workbook"
		switch e.Name.Local {
		case "workbookPr":
			w.is1904 = isTrue(attribute(e, "date1904"))
		case "sheet":
			part, name, state := parts[attribute(e, "id")], attribute(e, "name"), attribute(e, "state")
			if part.kind != "worksheet" { // a chart
				return
			}
			names = append(names, name)
			isWanted := w.options.Sheet == name || w.options.Sheet == "" && state != "hidden" && state != "veryHidden"
			if isWanted && !isFound {
				w.sheet, isFound = part.target, true
			}
		}
	})
	switch {
	case err != nil:
		return err
	case !isBook: // a text document or a presentation
		return wrong(fault.NotAList, nil)
	case !isFound && w.options.Sheet != "":
		return fault.InvalidField("sheet", fault.NotAllowed, names)
	case !isFound:
		return wrong(fault.NoHeader, nil)
	}
	for _, part := range parts {
		switch part.kind {
		case "sharedStrings":
			w.strings = part.target
		case "styles":
			if w.styles, err = w.readStyles(part.target); err != nil {
				return err
			}
		}
	}
	return nil
}

func isTrue(value string) bool { return value == "1" || strings.EqualFold(value, "true") }

// styles are the number formats of cells.
type styles struct {
	formats []int          // format id of each style
	codes   map[int]string // codes of the formats that the workbook defines, by format id
}

func (w *workbook) readStyles(name string) (styles, error) {
	s := styles{codes: map[int]string{}}
	err := w.each(name, func(path []string, e xml.StartElement) {
		switch {
		case e.Name.Local == "numFmt" && slices.Contains(path, "numFmts"):
			if id, err := strconv.Atoi(attribute(e, "numFmtId")); err == nil {
				s.codes[id] = attribute(e, "formatCode")
			}
		case e.Name.Local == "xf" && slices.Contains(path, "cellXfs"):
			id, _ := strconv.Atoi(attribute(e, "numFmtId")) // 0 is the format General
			s.formats = append(s.formats, id)
		}
	})
	return s, err
}

// checkSheet decompresses the whole sheet once. An incomplete sheet or a merged cell is therefore reported before the caller uses any row. The elements
// mergeCell come after the rows.
func (w *workbook) checkSheet() error {
	part, err := w.archive.open(w.sheet, w.options.Unpacked)
	if err != nil {
		return err
	}
	return errors.Join(checkRows(part), part.Close())
}

func checkRows(part io.Reader) error {
	const maxTail = 200 // maximum number of bytes of an element with its attributes
	buffer, kept := make([]byte, 128<<10), 0
	for {
		n, err := part.Read(buffer[kept:])
		window := buffer[:kept+n]
		isLast := errors.Is(err, io.EOF)
		if err != nil && !isLast {
			return err //nolint:wrapcheck // the error is a fault already, or an error of the storage
		}
		if cells := mergedIn(window, isLast, maxTail); cells != "" {
			return wrong(fault.MergedCells, cells)
		}
		if isLast {
			return nil
		}
		kept = copy(buffer, window[max(0, len(window)-maxTail):])
	}
}

// mergedIn searches window for merged cells: an element mergeCell that covers more than one cell. It returns the cells of the first such element. An element
// that starts in the last tail bytes can be cut off, and the next window contains it completely, so mergedIn skips it. In the last window, it skips nothing.
func mergedIn(window []byte, isLast bool, tail int) string {
	name := []byte("mergeCell ")
	for rest := window; ; {
		at := bytes.Index(rest, name)
		if at < 0 || !isLast && len(rest)-at < tail {
			return ""
		}
		before := rest[:at]
		rest = rest[at+len(name):]
		if i := bytes.LastIndexByte(before, '<'); i < 0 || bytes.ContainsAny(before[i:], " >") { // text, not an element
			continue
		}
		element, _, _ := bytes.Cut(rest, []byte(">"))
		if _, ref, is := bytes.Cut(element, []byte("ref=")); is && len(ref) > 1 {
			cells, _, _ := bytes.Cut(ref[1:], ref[:1])
			if from, to, is := strings.Cut(string(cells), ":"); is && from != to {
				return string(cells[:min(len(cells), 50)])
			}
		}
	}
}
