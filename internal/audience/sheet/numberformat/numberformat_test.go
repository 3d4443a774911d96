package numberformat

import (
	"math"
	"testing"
	"unicode/utf8"
)

// shownCase is a format, a number and the expected text. A ~ marks a lossy result.
type shownCase struct {
	code string
	n    float64
	want string
}

func expectShown(t *testing.T, cases []shownCase) {
	t.Helper()
	for _, c := range cases {
		cell := Parse(c.code).Show(c.n, false)
		got := cell.Text
		if cell.Lossy {
			got = "~" + got
		}
		if got != c.want {
			t.Errorf("%s of %v: %q, want %q", c.code, c.n, got, c.want)
		}
	}
}

func TestNumbersAreFormattedLikeInExcel(t *testing.T) {
	t.Parallel()
	expectShown(t, []shownCase{
		{"", 13800138000, "13800138000"},
		{"General", 0.1 + 0.2, "0.3"},
		{"G/通用格式", 1e15 + 1, "1000000000000001"},
		{"0", 13800138000, "13800138000"},
		{"#,##0", 13800138000, "13800138000"},
		{"0.00E+00", 13800138000, "13800138000"},
		{"@", 123, "123"},
		{"00000", 123, "00123"},
		{"0", 3.7, "4"},
		{"0.00", 2.675, "2.68"},
		{"0.00", -0.001, "0.00"},
		{"0.00", 128, "128.00"},
		{"0.0#", 1.5, "1.5"},
		{"0.0#", 1.567, "1.57"},
		{"#,##0.00", 1234567.891, "1,234,567.89"},
		{"#,##0.00", -1280.5, "-1,280.50"},
		{`"¥"#,##0.00`, 5, "¥5.00"},
		{"[$¥-804]#,##0.00;[Red]-[$¥-804]#,##0.00", -1280.5, "-¥1,280.50"},
		{`_(* #,##0.00_);_(* (#,##0.00);_(* "-"??_);_(@_)`, 3.5, "3.50"},
		{`_(* #,##0.00_);_(* (#,##0.00);_(* "-"??_);_(@_)`, -3.5, "(3.50)"},
		{"0%", 0.256, "26%"},
		{"0.0%", -0.256, "-25.6%"},
		{"0.00,", 128, "128"},
		{"# ?/?", 0.5, "0.5"},
		{"[>100]0.0;0", 5.25, "5.25"},
		{"000-0000-0000", 13800138000, "13800138000"},
		{`0"元"`, 5, "5元"},
		{`0\个`, 5, "5个"},
		{";;;", 5, "5"},
		{"0.00", 6222020000000000, "~6222020000000000"},
		{"0.00", 1e300, "~1e+300"},
	})
}

func TestDatesAreFormattedLikeInExcel(t *testing.T) {
	t.Parallel()
	expectShown(t, []shownCase{
		{"yyyy-mm-dd", 45322, "2024-01-31"},
		{"yyyy-mm-dd;@", 45322, "2024-01-31"},
		{"YYYY/M/D", 45322, "2024/1/31"},
		{`[$-804]yyyy"年"m"月"d"日"`, 45322, "2024年1月31日"},
		{`yyyy\-mm\-dd\ hh:mm:ss`, 45322.999994, "2024-01-31 23:59:59"},
		{`yyyy\-mm\-dd\ hh:mm:ss`, 45322.999999, "2024-02-01 00:00:00"},
		{"hh:mm", 45322.5, "12:00"},
		{"h:mm AM/PM", 45322.75, "6:00 PM"},
		{"h:mm AM/PM", 45322.01, "12:14 AM"},
		{`上午/下午h"时"mm"分"`, 0.75, "下午6时00分"},
		{"mm:ss.00", 0.0000173611, "00:01.50"},
		{"[h]:mm:ss", 1.5, "36:00:00"},
		{"[mm]:ss", 0.5, "720:00"},
		{"d-mmm-yy", 45322, "31-Jan-24"},
		{"dddd, mmmm d", 45322, "Wednesday, January 31"},
		{"[$-804]aaaa", 45322, "星期三"},
		{"[$-804]mmmm", 45657, "十二月"},
		{"[$-F800]dddd\\,\\ mmmm\\ dd\\,\\ yyyy", 45322, "2024年1月31日"},
		{"[$-F400]h:mm:ss AM/PM", 0.5, "12:00:00"},
		{"yyyy-mm-dd", 1, "1900-01-01"},
		{"yyyy-mm-dd", 59, "1900-02-28"},
		{"yyyy-mm-dd", 61, "1900-03-01"},
		{"yyyy-mm-dd", 2958465, "9999-12-31"},
		{"yyyy-mm-dd", 2958466, "~2958466"},
		{"yyyy-mm-dd", -1, "~-1"},
		{"m/d/yy h:mm", 45322.25, "1/31/24 6:00"},
		{"e/m/d", 45322, "2024/1/31"},
	})
	if got := Parse("yyyy-mm-dd").Show(0, true).Text; got != "1904-01-01" {
		t.Errorf("the first day of 1904: %s", got)
	}
	for id, code := range BuiltIn {
		if len(Parse(code).sections) == 0 || Parse(code).Show(45322.5, false).Text == "45322.5" {
			t.Errorf("format %d: %s is not known", id, code)
		}
	}
}

// FuzzFormat checks that each format can format each number, and that the length of the text is bounded.
func FuzzFormat(f *testing.F) {
	for _, code := range BuiltIn {
		f.Add(code, 45322.123)
	}
	f.Add(`[$¥-804]#,##0.00;[Red]-0_);"x"\ *-@`, -1e15)
	f.Add("[hhhhh]上午/下午s.000am/pmaaaa", 1e18)
	f.Fuzz(func(t *testing.T, code string, n float64) {
		if !utf8.ValidString(code) || math.IsNaN(n) || math.IsInf(n, 0) {
			return
		}
		for _, is1904 := range []bool{false, true} {
			text := Parse(code).Show(n, is1904).Text
			if !utf8.ValidString(text) || len(text) > 400+30*len(code) {
				t.Errorf("%q of %v: %d bytes %.200q", code, n, len(text), text)
			}
		}
	})
}
