package sheet_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/unicode"

	"lksms/internal/audience/sheet"
	"lksms/internal/platform/fault"
)

// read returns a list as text: the columns, and each row with its number and its cells. ~ marks a lossy cell, and +n means n extra cells.
func read(t *testing.T, file sheet.File, options sheet.Options) (text string, err error) {
	t.Helper()
	r, err := sheet.Open(t.Context(), file, options)
	if err != nil {
		return "", err
	}
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}()
	var s strings.Builder
	s.WriteString(strings.Join(r.Columns(), "|"))
	for {
		row, err := r.Next()
		if err != nil {
			if _, again := r.Next(); !errors.Is(again, err) {
				t.Errorf("%v is followed by %v", err, again)
			}
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return s.String(), err
		}
		if len(row.Cells) != len(r.Columns()) {
			t.Errorf("row %d has %d cells of %d columns", row.No, len(row.Cells), len(r.Columns()))
		}
		fmt.Fprintf(&s, "\n%d", row.No)
		for i, cell := range row.Cells {
			s.WriteString(map[bool]string{true: " ", false: "|"}[i == 0])
			if cell.Lossy {
				s.WriteString("~")
			}
			s.WriteString(cell.Text)
		}
		if row.Extra > 0 {
			fmt.Fprintf(&s, " +%d", row.Extra)
		}
	}
}

// fields returns the rules and limits of a fault.
func fields(err error) string {
	f := new(fault.Error)
	if !errors.As(err, &f) {
		return fmt.Sprint(err)
	}
	var s []string
	for _, field := range f.Fields {
		s = append(s, fmt.Sprint(field.Name, " ", field.Rule, " ", field.Limit))
	}
	return strings.Join(s, ", ")
}

func encoded(t *testing.T, e encoding.Encoding, text string) string {
	t.Helper()
	s, err := e.NewEncoder().String(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestEveryCSVDialectIsRead(t *testing.T) {
	t.Parallel()
	const list = "手机号,姓名\n13800138000,张三\n"
	const want = "手机号|姓名\n2 13800138000|张三"
	for name, c := range map[string]struct{ content, want string }{
		"UTF-8":                    {list, want},
		"UTF-8 with BOM":           {"\xEF\xBB\xBF" + list, want},
		"GB18030":                  {encoded(t, simplifiedchinese.GB18030, list), want},
		"GBK":                      {encoded(t, simplifiedchinese.GBK, list), want},
		"GB18030 after ASCII":      {"phone,name\n" + strings.Repeat("13800138000,Li\n", 50_000) + encoded(t, simplifiedchinese.GB18030, "13800138000,李四\n"), ""},
		"UTF-16, as Excel does":    {encoded(t, unicode.UTF16(unicode.LittleEndian, unicode.UseBOM), strings.ReplaceAll(list, ",", "\t")), want},
		"UTF-16, big endian":       {encoded(t, unicode.UTF16(unicode.BigEndian, unicode.UseBOM), list), want},
		"semicolons":               {strings.ReplaceAll(list, ",", ";"), want},
		"tabs":                     {strings.ReplaceAll(list, ",", "\t"), want},
		"sep":                      {"sep=;\r\n" + strings.ReplaceAll(list, ",", ";"), want},
		"sep with BOM":             {"\xEF\xBB\xBFSEP=\t\n" + strings.ReplaceAll(list, ",", "\t"), want},
		"CRLF":                     {strings.ReplaceAll(list, "\n", "\r\n"), want},
		"CR":                       {strings.ReplaceAll(list, "\n", "\r"), want},
		"no line break at the end": {strings.TrimSpace(list), want},
		"a quoted separator":       {"\"a,b;c\",d;d\n1,2", "a,b;c|d;d\n2 1|2"},
		"a quoted line break":      {"a,b\n\"1\n2\",\"3\r\n4\"\n5,6", "a|b\n2 1\n2|3\r\n4\n3 5|6"},
		"quotes":                   {"a,b\n\"say \"\"hi\"\"\",5\" tall\n\"\",\"x\" y", "a|b\n2 say \"hi\"|5\" tall\n3 |x y"},
		"empty rows":               {"\n\n a , b \n\n1,2\n,\n \t ,　\n3,4\n\n\n", "a|b\n5 1|2\n8 3|4"},
		"empty columns":            {"a,b,,,\n1,2,,,\n3,4,,5,\n6\n", "a|b\n2 1|2\n3 3|4 +1\n4 6|"},
		"unnamed columns":          {",a, ,b\n,1,,2\n,,,3", "a|b\n2 1|2\n3 |3"},
		"a comma too much":         {"phone,content\n1,hello, world\n", "phone|content\n2 1|hello +1"},
		"one column":               {"phone\n13800138000\n13900139000;x\n", "phone\n2 13800138000\n3 13900139000;x"},
		"blanks in the header":     {" \ufeffphone ,　ｎａｍｅ　,\"a \n b\"\n1,2,3", "phone|ｎａｍｅ|a b\n2 1|2|3"},
		"numbers": {
			"a\n1.38E+10\n\"1,38E+10\"\n'0138\n\"=\"\"0138\"\"\"\n\t138\t\n\u202d138\u202c\n+86 138\n007\n0.5\n-1.5E+20\n'1E+5",
			"a\n2 ~1.38E+10\n3 ~1,38E+10\n4 0138\n5 0138\n6 138\n7 138\n8 +86 138\n9 007\n10 0.5\n11 ~-1.5E+20\n12 ~'1E+5",
		},
		"texts":                   {"a\n'twas\n 1E5 \n1E+\n#\n#N/A\n########\nE+10\n=1+1", "a\n2 'twas\n3  1E5 \n4 1E+\n5 #\n6 ~#N/A\n7 ~########\n8 E+10\n9 =1+1"},
		"a bracket in the header": {"[phone],[name]\n1,2", "[phone]|[name]\n2 1|2"},
	} {
		got, err := read(t, sheet.Bytes("list.csv", []byte(c.content)), sheet.Options{})
		if err != nil || c.want != "" && got != c.want {
			t.Errorf("%s: %v\n%q, want\n%q", name, fields(err), got, c.want)
		}
		if c.want == "" && !strings.HasSuffix(got, "\n50002 13800138000|李四") {
			t.Errorf("%s: ends with %q", name, got[len(got)-50:])
		}
	}
}

func TestAnUnreadableFileIsRefusedWithAReason(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("长", 32_768)
	for name, c := range map[string]struct{ content, want string }{
		"nothing":                {"", "file empty <nil>"},
		"white space":            {" \r\n \n", "file no_header <nil>"},
		"a BOM":                  {"\xEF\xBB\xBF", "file no_header <nil>"},
		"a duplicate column":     {"phone,a, phone\n", "file duplicate_column phone"},
		"an unnamed column":      {",phone\n,0\n0,1\n", "file unnamed_column {3 A 0}"},
		"too many columns":       {strings.Repeat("a,", 200) + "a\n", "file too_many_columns 200"},
		"a long name":            {"a," + strings.Repeat("长", 201) + "\n", "file cell_too_long {1 B 200}"},
		"a long cell":            {"a,b\n1,2\n3," + long + "\n", "file cell_too_long {3 B 32767}"},
		"a huge cell":            {"a,b\n\"" + strings.Repeat("x", 100<<20), "file cell_too_long {2 A 32767}"},
		"an open quote":          {"a,b\n1,2\n3,\"4\n5,6\n", "file cut_short {3  0}"},
		"a NUL":                  {"a,b\n1,2\n3,4\x00\n", "file not_text {3  0}"},
		"broken UTF-8":           {"手机号,姓名\n1,张三\n2,李\xE5\x9B\n", "file not_text {3  0}"},
		"UTF-8 that is cut":      {"手机号,姓名\n1,张\xE4\xB8", "file not_text {2  0}"},
		"broken GB18030":         {encoded(t, simplifiedchinese.GB18030, "手机号,姓名\n1,张三\n2,李") + "\xFF\n", "file not_text {3  0}"},
		"broken UTF-16":          {encoded(t, unicode.UTF16(unicode.LittleEndian, unicode.UseBOM), "a\nb\n") + "\x00\xD8x\x00", "file not_text {3  0}"},
		"a workbook of the past": {"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1" + strings.Repeat("\x00", 1000), "file old_workbook <nil>"},
		"a workbook with a password": {
			"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1" + strings.Repeat("\x00", 256<<10-20) + "E\x00n\x00c\x00r\x00y\x00p\x00t\x00e\x00d\x00P\x00a\x00c\x00k\x00a\x00g\x00e\x00",
			"file encrypted <nil>",
		},
		"a web page": {"<html><table><tr><td>a", "file not_a_list <nil>"},
		"a picture":  {"\x89PNG\r\n\x1a\n\x00\x00", "file not_a_list <nil>"},
	} {
		got, err := read(t, sheet.Bytes("list.csv", []byte(c.content)), sheet.Options{})
		if fields(err) != c.want {
			t.Errorf("%s: %s, want %s; %.200q", name, fields(err), c.want, got)
		}
	}
}

func TestAListWithTooManyRowsIsRefused(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{"a\n1\n\n2\n\n": "<nil>", "a\n1\n2\n3\n": "file too_many_rows 2"} {
		if _, err := read(t, sheet.Bytes("", []byte(content)), sheet.Options{Rows: 2}); fields(err) != want {
			t.Errorf("%q: %s, want %s", content, fields(err), want)
		}
	}
}

func TestAColumnIsFoundByItsName(t *testing.T) {
	t.Parallel()
	r, err := sheet.Open(t.Context(), sheet.Bytes("", []byte("手机号（必填）,Phone,Ｎａｍｅ,a b,A B")), sheet.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{
		"手机号（必填）": 0, "手机号(必填)": 0, "phone": 1, " PHONE": 1, "name": 2, "a b": 3, "A B": 4, "ab": -1, "": -1, "x": -1,
	} {
		if got, is := r.Column(name); got != want || is != (want >= 0) {
			t.Errorf("%q: %d %t, want %d", name, got, is, want)
		}
	}
}
