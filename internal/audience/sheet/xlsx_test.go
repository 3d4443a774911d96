package sheet_test

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"lksms/internal/audience/sheet"
)

// parts contains the parts of a workbook, by name.
type parts map[string]string

const head = `<?xml version="1.0" encoding="UTF-8" standalone="yes"?>` + "\n"

// book returns the parts of a workbook with one sheet. rows is the XML of its rows, and strings are its shared strings. others replaces parts with the same
// name.
func book(rows string, strings []string, others parts) parts {
	all := parts{
		"_rels/.rels": head + `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="rId1" ` +
			`Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" Target="xl/workbook.xml"/></Relationships>`,
		"xl/workbook.xml": head + `<workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" xmlns:r="http://schemas.openxmlformats.org/` +
			`officeDocument/2006/relationships"><sheets><sheet name="Sheet1" sheetId="1" r:id="rId1"/></sheets></workbook>`,
		"xl/_rels/workbook.xml.rels": head + `<Relationships><Relationship Id="rId1" Type="x/worksheet" Target="worksheets/sheet1.xml"/>` +
			`<Relationship Id="rId2" Type="x/styles" Target="/xl/styles.xml"/><Relationship Id="rId3" Type="x/sharedStrings" Target="sharedStrings.xml"/></Relationships>`,
		"xl/styles.xml":            head + `<styleSheet><numFmts><numFmt numFmtId="164" formatCode="yyyy&quot;年&quot;m&quot;月&quot;"/></numFmts><cellXfs><xf numFmtId="0"/><xf numFmtId="14"/><xf numFmtId="164"/><xf numFmtId="2"/></cellXfs></styleSheet>`,
		"xl/worksheets/sheet1.xml": head + `<worksheet><dimension ref="A1:Z9"/><sheetData>` + rows + `</sheetData></worksheet>`,
		"xl/sharedStrings.xml":     head + `<sst>` + join(strings) + `</sst>`,
	}
	maps.Copy(all, others)
	return all
}

func join(texts []string) string {
	var s strings.Builder
	for _, text := range texts {
		s.WriteString("<si><t>" + text + "</t></si>")
	}
	return s.String()
}

// packed returns a ZIP file with the parts of a workbook.
func packed(t testing.TB, all parts) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		w, err := z.Create(name)
		if err == nil {
			_, err = io.WriteString(w, all[name])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// inline returns the XML of a row of texts.
func inline(no int, texts ...string) string {
	s := fmt.Sprintf(`<row r="%d">`, no)
	for i, text := range texts {
		s += fmt.Sprintf(`<c r="%c%d" t="inlineStr"><is><t>%s</t></is></c>`, 'A'+i, no, text)
	}
	return s + `</row>`
}

func TestCellsOfAWorkbookAreReadAsDisplayed(t *testing.T) {
	t.Parallel()
	for cell, want := range map[string]string{
		`<c><v>13800138000</v></c>`:                      "13800138000",
		`<c s="0"><v>1.3800138E10</v></c>`:               "13800138000",
		`<c s="3"><v>12.5</v></c>`:                       "12.50",
		`<c s="1"><v>45000.5</v></c>`:                    "2023/3/15",
		`<c s="2"><v>45000</v></c>`:                      "2023年3月",
		`<c s="9"><v>45000</v></c>`:                      "45000",
		`<c><v>110101199003071234</v></c>`:               "~110101199003071230",
		`<c><v>6222020000000000</v></c>`:                 "~6222020000000000",
		`<c><v>6222020000000001</v></c>`:                 "6222020000000001",
		`<c><v>9007199254740993</v></c>`:                 "~9007199254740992",
		`<c><v>0.30000000000000004</v></c>`:              "0.3",
		`<c><v>-1.5</v></c>`:                             "-1.5",
		`<c><v>1E-10</v></c>`:                            "1e-10",
		`<c t="n"><v></v></c>`:                           "",
		`<c t="s"><v>1</v></c>`:                          "张三",
		`<c t="s"><v>2</v></c>`:                          "a\nb_x",
		`<c t="s"><v>3</v></c>`:                          "~1.38E+10",
		`<c t="s"><v>4</v></c>`:                          "0138",
		`<c t="s"><v>5</v></c>`:                          "漢字x",
		`<c t="inlineStr"><is><t> a&amp;b </t></is></c>`: " a&b ",
		`<c t="inlineStr"><is><r><rPr><b/></rPr><t>a</t></r><r><t>b</t></r></is></c>`: "ab",
		`<c t="b"><v>1</v></c>`:                                                   "TRUE",
		`<c t="b"><v>0</v></c>`:                                                   "FALSE",
		`<c t="d"><v>2024-01-02</v></c>`:                                          "2024-01-02",
		`<c t="e"><v>#N/A</v></c>`:                                                "~#N/A",
		`<c t="str"><f>A1&amp;""</f><v>x</v></c>`:                                 "x",
		`<c t="str"><f>""</f><v></v></c>`:                                         "",
		`<c><f>A1+1</f><v>7</v></c>`:                                              "7",
		`<c><f>A1+1</f></c>`:                                                      "~",
		`<c><f>A1+1</f><v></v></c>`:                                               "~",
		`<c><f t="shared" si="0"/></c>`:                                           "~",
		`<x:c t="inlineStr"><x:is><x:t>p</x:t></x:is></x:c>`:                      "p",
		`<c t="inlineStr"><is><t><![CDATA[<mergeCell ref="A1:B2"]]></t></is></c>`: `<mergeCell ref="A1:B2"`,
	} {
		if strings.Contains(cell, "CDATA") {
			continue // no program writes this format; see below
		}
		content := packed(t, book(inline(1, "a", "b")+`<row><c><v>1</v></c>`+cell+`</row>`, []string{
			"0", "张三", "a_x000A_b_x", "1.38E+10", "'0138", "", "",
		}, parts{"xl/sharedStrings.xml": `<sst><si><t>0</t></si><si><t>张三</t></si><si><t>a_x000A_b_x</t></si><si><t>1.38E+10</t></si><si><t>'0138</t></si>` +
			`<si><r><t>漢字</t></r><rPh sb="0" eb="2"><t>かんじ</t></rPh><phoneticPr/><r><t>x</t></r></si></sst>`}))
		got, err := read(t, sheet.Bytes("list.xlsx", content), sheet.Options{})
		if want := "a|b\n2 1|" + want; err != nil || got != want {
			t.Errorf("%s: %v %q, want %q", cell, fields(err), got, want)
		}
	}
}

func TestRowsOfAWorkbookKeepTheirNumbersAndColumns(t *testing.T) {
	t.Parallel()
	content := packed(t, book(
		`<row r="2"/>`+`<row r="3"><c r="A3"/><c r="B3" s="1"/></row>`+
			`<row r="4" ht="20"><c r="A4" t="inlineStr"><is><t> phone </t></is></c><c r="C4" t="inlineStr"><is><t>c</t></is></c><c r="B4" t="x"/></row>`,
		nil, nil))
	if _, err := read(t, sheet.Bytes("", content), sheet.Options{}); fields(err) != "file damaged_at {4  0}" {
		t.Errorf("cells that are not in order: %s", fields(err))
	}
	content = packed(t, book(
		`<row r="2"/><row r="3"><c r="A3"/><c r="B3" s="1"/></row>`+
			`<row r="4"><c r="A4" t="inlineStr"><is><t> phone </t></is></c><c t="inlineStr"><is><t>b</t></is></c><c r="C4" t="inlineStr"><is><t>c</t></is></c><c r="D4"/></row>`+
			`<row r="7"><c r="C7"><v>7</v></c><c r="E7" t="inlineStr"><is><t> </t></is></c></row><row/><row><c><v>9</v></c><c r="AA9"><v>1</v></c></row><row r="1048576"><c s="1"/></row>`,
		nil, nil))
	got, err := read(t, sheet.Bytes("", content), sheet.Options{})
	if want := "phone|b|c\n7 ||7\n9 9|| +1"; err != nil || got != want {
		t.Errorf("%v %q, want %q", fields(err), got, want)
	}
}

func TestTheFirstVisibleSheetIsReadByDefault(t *testing.T) {
	t.Parallel()
	sheetOf := func(text string) string {
		return `<worksheet><sheetData>` + inline(1, text) + `</sheetData></worksheet>`
	}
	content := packed(t, book("", nil, parts{
		"xl/workbook.xml": `<workbook><workbookPr date1904="1"/><sheets><sheet name="chart" r:id="c"/><sheet name="hidden" state="hidden" r:id="h"/>` +
			`<sheet name="secret" state="veryHidden" r:id="h"/><sheet name="名单" r:id="v"/><sheet name="other" r:id="o"/></sheets></workbook>`,
		"xl/_rels/workbook.xml.rels": `<Relationships><Relationship Id="c" Type="x/chartsheet" Target="c.xml"/><Relationship Id="h" Type="x/worksheet" Target="h.xml"/>` +
			`<Relationship Id="v" Type="x/worksheet" Target="../xl/v.xml"/><Relationship Id="o" Type="x/worksheet" Target="/xl/O.xml"/></Relationships>`,
		"xl/h.xml": sheetOf("h"), "xl/v.xml": sheetOf("v"), "xl/o.xml": sheetOf("o"),
	}))
	for name, want := range map[string]string{"": "v", "名单": "v", "other": "o", "hidden": "h"} {
		if got, err := read(t, sheet.Bytes("", content), sheet.Options{Sheet: name}); err != nil || got != want {
			t.Errorf("%q: %v %q, want %q", name, err, got, want)
		}
	}
	for _, name := range []string{"chart", "x"} {
		if _, err := read(t, sheet.Bytes("", content), sheet.Options{Sheet: name}); fields(err) != "sheet not_allowed [hidden secret 名单 other]" {
			t.Errorf("%q: %s", name, fields(err))
		}
	}
}

// openpyxl, XlsxWriter, SheetJS, ExcelJS and excelize wrote the files in testdata, all from the same list.
func TestWorkbooksOfOtherProgramsAreRead(t *testing.T) {
	t.Parallel()
	files, err := os.ReadDir("testdata/workbooks")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		content, err := os.ReadFile("testdata/workbooks/" + file.Name())
		if err != nil {
			t.Fatal(err)
		}
		got, err := read(t, sheet.Bytes(file.Name(), content), sheet.Options{})
		const want = "手机号|姓名|日期|金额|时间\n2 13800138000|张三|2024-01-31|1,280.50|2024/1/31 9:05\n3 +8613900139000|李 & <四>|2024-02-29|0.30|2024/2/29 23:59\n" +
			"5 013700137000|第一行\n第二行|2024-12-01|-5.00|2024/12/1 0:00"
		if got = strings.ReplaceAll(got, "\r\n", "\n"); err != nil || got != want {
			t.Errorf("%s: %v\n%q, want\n%q", file.Name(), fields(err), got, want)
		}
	}
	if len(files) < 5 {
		t.Errorf("only %d files", len(files))
	}
}

func TestAnUnreadableWorkbookIsRefusedWithAReason(t *testing.T) {
	t.Parallel()
	good := packed(t, book(inline(1, "a", "b")+inline(2, "1", "2"), nil, nil))
	header := inline(1, "a", "b")
	for name, c := range map[string]struct {
		content []byte
		want    string
	}{
		"cut off":        {good[:len(good)/2], "file damaged <nil>"},
		"cut at the end": {good[:len(good)-5], "file damaged <nil>"},
		"no workbook":    {packed(t, parts{"a.txt": "x"}), "file not_a_list <nil>"},
		"a text document": {
			packed(t, parts{"_rels/.rels": `<Relationships><Relationship Id="1" Type="x/officeDocument" Target="word/document.xml"/></Relationships>`,
				"word/document.xml": `<document/>`, "word/_rels/document.xml.rels": `<Relationships/>`}), "file not_a_list <nil>",
		},
		"a binary workbook": {
			packed(t, parts{"_rels/.rels": `<Relationships><Relationship Id="1" Type="x/officeDocument" Target="xl/workbook.bin"/></Relationships>`}), "file not_a_list <nil>",
		},
		"no sheet":             {packed(t, book("", nil, parts{"xl/workbook.xml": `<workbook><sheets/></workbook>`})), "file no_header <nil>"},
		"an empty sheet":       {packed(t, book("", nil, nil)), "file no_header <nil>"},
		"a missing sheet":      {packed(t, book("", nil, parts{"xl/_rels/workbook.xml.rels": `<Relationships><Relationship Id="rId1" Type="x/worksheet" Target="x.xml"/></Relationships>`})), "file damaged <nil>"},
		"a duplicate column":   {packed(t, book(inline(1, "a", "a "), nil, nil)), "file duplicate_column a"},
		"an unnamed column":    {packed(t, book(inline(3, "a", "", "c")+inline(5, "1", "2", "3"), nil, nil)), "file unnamed_column {5 B 0}"},
		"merged cells":         {packed(t, book("", nil, parts{"xl/worksheets/sheet1.xml": `<worksheet><sheetData>` + header + `</sheetData><mergeCells count="1"><mergeCell ref="A3:A5"/></mergeCells></worksheet>`})), "file merged_cells A3:A5"},
		"merged cells, far":    {packed(t, book("", nil, parts{"xl/worksheets/sheet1.xml": `<worksheet><sheetData>` + header + `</sheetData>` + strings.Repeat(" ", 128<<10-150) + `<mergeCells count="1"><x:mergeCell  ref='A3:A5'/></mergeCells>` + strings.Repeat(" ", 300_000) + `</worksheet>`})), "file merged_cells A3:A5"},
		"rows in disorder":     {packed(t, book(header+inline(3, "1")+inline(3, "2"), nil, nil)), "file damaged_at {4  0}"},
		"a string too far":     {packed(t, book(header+`<row><c t="s"><v>0</v></c></row>`, nil, nil)), "file damaged <nil>"},
		"no number":            {packed(t, book(header+`<row><c><v>x</v></c></row>`, nil, nil)), "file damaged_at {2  0}"},
		"bad XML":              {packed(t, book(header+`<row><c></v>&x;`, nil, nil)), "file damaged <nil>"},
		"rows without end":     {packed(t, book("", nil, parts{"xl/worksheets/sheet1.xml": `<worksheet><sheetData>` + header + `<row>`})), "file damaged <nil>"},
		"a long cell":          {packed(t, book(header+inline(2, "1", strings.Repeat("长", 32_768)), nil, nil)), "file cell_too_long {2 B 32767}"},
		"a huge cell":          {packed(t, book(header+inline(2, "1", strings.Repeat("x", 100<<20)), nil, nil)), "file cell_too_long {2 B 32767}"},
		"a huge shared string": {packed(t, book(header+`<row r="2"><c r="A2" t="s"><v>0</v></c></row>`, []string{strings.Repeat("x", 12<<20)}, nil)), "file cell_too_long {2 A 32767}"},
		"too many columns":     {packed(t, book(`<row r="1"><c r="A1"><v>1</v></c><c r="ALL1"><v>1</v></c></row>`, nil, nil)), "file too_many_columns 200"},
		"an impossible column": {packed(t, book(`<row r="1"><c r="XFE1"><v>1</v></c></row>`, nil, nil)), "file damaged_at {1  0}"},
		"deep XML":             {packed(t, book(header, nil, parts{"xl/styles.xml": strings.Repeat("<a>", 1_000_000)})), "file damaged <nil>"},
		"a huge attribute":     {packed(t, book(header, nil, parts{"xl/styles.xml": `<a b="` + strings.Repeat("x", 10<<20)})), "file damaged <nil>"},
		"a large sheet":        {packed(t, book(header+strings.Repeat(" ", 11<<20), nil, nil)), "file unpacked_too_big 10485760"},
		"many strings":         {packed(t, book(header+`<row><c t="s"><v>9999999</v></c></row>`, []string{strings.Repeat("</t></si><si><t>", 1<<20)}, nil)), "file unpacked_too_big 10485760"},
	} {
		got, err := read(t, sheet.Bytes("list.xlsx", c.content), sheet.Options{Unpacked: map[bool]int64{true: 1 << 30, false: 10 << 20}[strings.Contains(name, "huge ")]})
		if fields(err) != c.want {
			t.Errorf("%s: %s, want %s; %.200q", name, fields(err), c.want, got)
		}
	}
}
