package sheet_test

import (
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/unicode"

	"lksms/internal/audience/sheet"
	"lksms/internal/platform/fault"
)

// expectList reads content as a list. It fails the test unless the list ends normally, or with a fault of the field file.
func expectList(t *testing.T, name string, content []byte) {
	options := sheet.Options{Columns: 20, MaxCell: 100, Rows: 1000, Unpacked: 1 << 20}
	isExplained := func(err error) bool {
		f := new(fault.Error)
		return errors.As(err, &f) && len(f.Fields) == 1 && (f.Fields[0].Name == "file")
	}
	r, err := sheet.Open(t.Context(), sheet.Bytes(name, content), options)
	if err != nil {
		if !isExplained(err) {
			t.Errorf("open: %v", err)
		}
		return
	}
	defer r.Close()
	isGood := func(text string, most int) bool {
		return utf8.ValidString(text) && !strings.Contains(text, "\x00") && utf8.RuneCountInString(text) <= most
	}
	known := map[string]bool{}
	for _, column := range r.Columns() {
		if strings.TrimSpace(column) == "" || known[column] || !isGood(column, 200) {
			t.Errorf("columns %q", r.Columns())
		}
		known[column] = true
	}
	if n := len(known); n == 0 || n > options.Columns {
		t.Errorf("%d columns", n)
	}
	for last := int64(0); ; {
		row, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			if !isExplained(err) {
				t.Errorf("next: %v", err)
			}
			return
		}
		if row.No <= last || len(row.Cells) != len(r.Columns()) || row.Extra < 0 {
			t.Errorf("row %d after %d with %d cells and %d more", row.No, last, len(row.Cells), row.Extra)
		}
		last = row.No
		isEmpty := row.Extra == 0
		for _, cell := range row.Cells {
			isEmpty = isEmpty && cell.Text == "" && !cell.Lossy
			if !isGood(cell.Text, 400) { // a number of 100 characters can be displayed with more characters
				t.Errorf("cell %q", cell.Text)
			}
		}
		if isEmpty {
			t.Errorf("row %d is empty", row.No)
		}
	}
}

func FuzzCSV(f *testing.F) {
	for _, seed := range []string{
		"a,b\n1,2\n", "\xEF\xBB\xBFa;b\r\n\"1;\"\"\";2\r\n\r\n", "sep=\t\na\tb\n'1\t1.38E+10", "\xFF\xFEa\x00,\x00b\x00\n\x00", "\xFE\xFF\x00a\x00\n\xD8\x00",
		"\xCA\xD6\xBB\xFA,a\n1,\"\n", "手机\r1\r\xE4\xB8", "a,,b\n1,2,3,4\n", "=\"007\"\n=\"1\"\n#N/A",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) { expectList(t, "list.csv", content) })
}

// FuzzCSVOfStandardLibrary compares the list that Open reads with the list that the standard library wrote.
func FuzzCSVOfStandardLibrary(f *testing.F) {
	f.Add("1,\"2", "a\nb", "", " 手机", byte(0))
	f.Add("\r\n", "\"\"", ";\t", "😀", byte(255))
	f.Fuzz(func(t *testing.T, a, b, c, d string, form byte) {
		cells := []string{"x" + a, "x" + b, "x" + c, "x" + d, "汉字"}
		for _, cell := range cells {
			isPrivate := func(c rune) bool { return c >= 0xE000 && c <= 0xF8FF } // GB18030 has two encodings for some of these characters
			if !utf8.ValidString(cell) || strings.ContainsAny(cell, "\x00\uFFFD") || strings.ContainsFunc(cell, isPrivate) {
				return
			}
		}
		var text bytes.Buffer
		w := csv.NewWriter(&text)
		w.Comma = rune(",;\t"[form%3])
		err := w.WriteAll([][]string{{"a", "b"}, cells[:2], cells[2:4], {cells[4], ""}})
		if err != nil {
			t.Fatal(err)
		}
		content := text.String()
		switch form / 3 % 4 {
		case 1:
			content = "\xEF\xBB\xBF" + content
		case 2:
			content, err = unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewEncoder().String(content)
		case 3:
			if content, err = simplifiedchinese.GB18030.NewEncoder().String(content); utf8.ValidString(content) {
				return
			}
		}
		if err != nil {
			return // GB18030 lacks a character
		}
		r, err := sheet.Open(t.Context(), sheet.Bytes("", []byte(content)), sheet.Options{})
		if err != nil {
			t.Fatalf("%q: %v", content, err)
		}
		for _, want := range [][]string{cells[:2], cells[2:4], {cells[4], ""}} {
			row, err := r.Next()
			if err != nil {
				t.Fatalf("%q: %v", content, err)
			}
			if row.Cells[0].Text != want[0] || row.Cells[1].Text != want[1] || row.Extra > 0 {
				t.Errorf("%q is read as %+v, want %q", content, row, want)
			}
		}
	})
}

func FuzzJSON(f *testing.F) {
	for _, seed := range []string{`[{"a":1,"b":null},{"a":1.5e2,"c":"x"}]`, `[]`, `[{"a":[]}]`, `[{"a":"\ud83d\u0000"}] `, "\xFF\xFE[\x00", `[{"":true,"":false}]x`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) { expectList(t, "list.json", content) })
}

// FuzzWorkbook reads ZIP files.
func FuzzWorkbook(f *testing.F) {
	files, err := os.ReadDir("testdata/workbooks")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		content, err := os.ReadFile("testdata/workbooks/" + file.Name())
		if err != nil {
			f.Fatal(err)
		}
		f.Add(content)
	}
	f.Add(packed(f, book(inline(1, "a"), nil, nil)))
	f.Fuzz(func(t *testing.T, content []byte) { expectList(t, "list.xlsx", content) })
}

// FuzzSheet reads the parts of a workbook.
func FuzzSheet(f *testing.F) {
	good := book(inline(1, "a", "b")+`<row r="3"><c r="A3" s="1"><v>45000</v></c><c t="s"><f>x</f><v>0</v></c></row>`, []string{"_x000A_a"}, nil)
	f.Add(good["xl/worksheets/sheet1.xml"], good["xl/sharedStrings.xml"], good["xl/styles.xml"], good["xl/workbook.xml"])
	f.Add(`<worksheet><sheetData><row><c t="inlineStr"><is><r><t>a</t></r><rPh><t>b</t></rPh></is></c><c t="e"/></row></sheetData><mergeCells><mergeCell ref="A1:B1"/>`,
		`<sst><si/></sst>`, `<x><numFmts><numFmt numFmtId="9" formatCode="[h]"/></numFmts><cellXfs><xf numFmtId="9"/></cellXfs></x>`, `<workbook><workbookPr date1904="1"/>`)
	f.Fuzz(func(t *testing.T, rows, strings, styles, workbook string) {
		expectList(t, "list.xlsx", packed(t, book("", nil, parts{
			"xl/worksheets/sheet1.xml": rows, "xl/sharedStrings.xml": strings, "xl/styles.xml": styles, "xl/workbook.xml": workbook,
		})))
	})
}
