// Package numberformat formats numbers with the number formats of workbooks.
package numberformat

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"
)

// BuiltIn contains the codes of the number formats that a workbook refers to only by id. Excel displays some of these formats differently in each country. Here
// they have the Chinese form, in which the order of year, month and day is unambiguous.
var BuiltIn = map[int]string{
	1: "0", 2: "0.00", 3: "#,##0", 4: "#,##0.00", 9: "0%", 10: "0.00%",
	14: "yyyy/m/d", 15: "d-mmm-yy", 16: "d-mmm", 17: "mmm-yy", 18: "h:mm AM/PM", 19: "h:mm:ss AM/PM", 20: "h:mm", 21: "h:mm:ss", 22: "yyyy/m/d h:mm",
	27: `yyyy"年"m"月"`, 28: `m"月"d"日"`, 29: `m"月"d"日"`, 30: "m/d/yy", 31: `yyyy"年"m"月"d"日"`, 32: `h"时"mm"分"`, 33: `h"时"mm"分"ss"秒"`,
	34: `上午/下午h"时"mm"分"`, 35: `上午/下午h"时"mm"分"ss"秒"`, 36: `yyyy"年"m"月"`,
	37: "#,##0;-#,##0", 38: "#,##0;-#,##0", 39: "#,##0.00;-#,##0.00", 40: "#,##0.00;-#,##0.00",
	41: "#,##0", 42: "#,##0", 43: "#,##0.00", 44: "#,##0.00", 45: "mm:ss", 46: "[h]:mm:ss", 47: "mm:ss.0",
	50: `yyyy"年"m"月"`, 51: `m"月"d"日"`, 52: `yyyy"年"m"月"`, 53: `m"月"d"日"`, 54: `m"月"d"日"`, 55: `上午/下午h"时"mm"分"`,
	56: `上午/下午h"时"mm"分"ss"秒"`, 57: `yyyy"年"m"月"`, 58: `m"月"d"日"`,
}

// Format is a number format. The zero value formats a number with all its digits. So does a section that this package does not support.
type Format struct {
	sections []section // sections for positive numbers, negative numbers, and zero; the first section also replaces missing sections
}

// section is the part of a format for numbers of one sign.
type section struct {
	isDate   bool
	isNumber bool
	parts    []part // for a date: all parts; for a number: the texts before and after the digits

	whole, decimals, optional int // minimum number of digits before the point; number of digits after the point; how many of these are omitted if they are zero
	hasThousands              bool
	percents                  int
	isChinese                 bool // names of days and months are Chinese
}

// Shown is a formatted number.
type Shown struct {
	Text  string
	Lossy bool // as in sheet.Cell: the file possibly lacks digits of the number, or the date is invalid
}

// part is a literal text, a field of a date such as "yyyy", or the digits of a number ("0").
type part struct {
	field string
	text  string
}

// Parse parses the code of a number format.
func Parse(code string) Format {
	switch lower := strings.ToLower(code); { // the date format of the user's country
	case strings.Contains(lower, "[$-f800]"), strings.Contains(lower, "[$-x-sysdate]"):
		code = BuiltIn[31]
	case strings.Contains(lower, "[$-f400]"), strings.Contains(lower, "[$-x-systime]"):
		code = BuiltIn[21]
	}
	var f Format
	for code != "" && len(f.sections) < 3 {
		var s section
		s, code = parseSection(code)
		f.sections = append(f.sections, s)
	}
	return f
}

// dateFields contains the fields of a date by their first letter and their length minus one. Letters of years are missing, because setDate handles them
// separately.
var dateFields = map[byte][]string{
	'e': {"yyyy", "yyyy"}, 'm': {"m", "mm", "mmm", "mmmm", "mmmmm"}, 'd': {"d", "dd", "ddd", "dddd"}, 'h': {"h", "hh"}, 's': {"s", "ss"},
}

// parseSection parses a section up to its semicolon, and returns the rest of the code.
func parseSection(code string) (s section, rest string) {
	isKnown := true
	literal := func(text string) {
		s.parts = append(s.parts, part{text: text})
	}
	for code != "" {
		lower := strings.ToLower(code[:min(len(code), 30)])
		if n := s.setDate(lower); n > 0 {
			code = code[n:]
			continue
		}
		switch c := lower[0]; {
		case c == ';':
			return s.finish(isKnown), code[1:]
		case c == '"':
			text, after, _ := strings.Cut(code[1:], `"`)
			literal(text)
			code = after
			continue
		case c == '\\' || c == '_' || c == '*':
			text := firstRune(code[1:])
			if c == '\\' {
				literal(text)
			}
			code = code[1+len(text):]
			continue
		case c == '[':
			inner, after, _ := strings.Cut(code[1:], "]")
			isKnown = s.setBrackets(inner) && isKnown
			code = after
			continue
		case strings.HasPrefix(lower, "general"), strings.HasPrefix(lower, "g/通用格式"):
			isKnown = false
		case strings.HasPrefix(lower, "e+"), strings.HasPrefix(lower, "e-"): // an exponent
			isKnown = false
		case strings.IndexByte("0#?", c) >= 0:
			n := strings.IndexFunc(code, func(c rune) bool { return !strings.ContainsRune("0#?,.", c) })
			if n < 0 {
				n = len(code)
			}
			isKnown = s.setDigits(code[:n]) && isKnown
			code = code[n:]
			continue
		case c == '%':
			s.percents++
			literal("%")
		case c == '/' && !s.isDate, c == '@': // a fraction, or a text
			isKnown = false
		default:
			text := firstRune(code)
			literal(text)
			code = code[len(text):]
			continue
		}
		code = code[1:]
	}
	return s.finish(isKnown), ""
}

// setDate adds the date field at the beginning of a code in lower case, and returns the length of the field. It returns 0 if the code does not start with a
// date field.
func (s *section) setDate(lower string) (n int) {
	field := func(name string) {
		s.isDate = true
		s.parts = append(s.parts, part{field: name})
	}
	c := lower[0]
	switch {
	case halfOfDay(lower) != "":
		field(halfOfDay(lower))
		return len(halfOfDay(lower))
	case strings.HasPrefix(lower, "aaa"):
		n = run(lower)
		field(map[bool]string{true: "aaaa", false: "aaa"}[n > 3])
		return n
	case strings.HasPrefix(lower, "e+"), strings.HasPrefix(lower, "e-"): // an exponent
		return 0
	case c == 'y':
		n = run(lower)
		field(map[bool]string{true: "yyyy", false: "yy"}[n > 2])
		return n
	case dateFields[c] != nil:
		n = run(lower)
		names := dateFields[c]
		field(names[min(n, len(names))-1])
		return n
	case s.isDate && c == '.' && len(lower) > 1 && lower[1] == '0':
		n = run(lower[1:])
		field("." + strconv.Itoa(min(n, 3)))
		return 1 + n
	default:
		return 0
	}
}

// halfOfDay returns the AM/PM field at the beginning of a code in lower case. It returns an empty string if the code does not start with such a field.
func halfOfDay(lower string) string {
	for _, name := range []string{"am/pm", "a/p", "上午/下午"} {
		if strings.HasPrefix(lower, name) {
			return name
		}
	}
	return ""
}

// setBrackets adds the content of brackets: a currency with a locale, a duration, or a color. It ignores a color. It returns false for a condition such as
// [>100], which this package does not support.
func (s *section) setBrackets(inner string) (isKnown bool) {
	switch lower := strings.ToLower(inner); {
	case strings.HasPrefix(inner, "$"):
		symbol, locale, _ := strings.Cut(inner[1:], "-")
		s.parts = append(s.parts, part{text: symbol})
		locale = strings.ToLower(locale)
		s.isChinese = s.isChinese || strings.HasSuffix(locale, "804") || strings.HasSuffix(locale, "404") || strings.HasPrefix(locale, "zh")
	case lower != "" && (strings.Trim(lower, "h") == "" || strings.Trim(lower, "m") == "" || strings.Trim(lower, "s") == ""):
		s.isDate = true
		s.parts = append(s.parts, part{field: "[" + lower[:1] + strconv.Itoa(len(lower)) + "]"})
	case strings.ContainsAny(inner, "<>="):
		return false
	}
	return true
}

func firstRune(text string) string {
	for i := range text {
		if i > 0 {
			return text[:i]
		}
	}
	return text
}

// run returns how often the first letter is repeated at the beginning of text.
func run(text string) int {
	n := 1
	for n < len(text) && text[n] == text[0] {
		n++
	}
	return n
}

// setDigits parses the digit positions, and reports whether their form is supported.
func (s *section) setDigits(places string) bool {
	if s.isNumber { // a text stands between the digits
		return false
	}
	s.isNumber = true
	whole, fraction, _ := strings.Cut(places, ".")
	if strings.HasSuffix(places, ",") || strings.ContainsAny(fraction, ".,") { // a number in thousands
		return false
	}
	s.hasThousands = strings.Contains(whole, ",")
	s.whole, s.decimals = strings.Count(whole, "0"), len(fraction)
	s.optional = s.decimals - len(strings.TrimRight(fraction, "#?"))
	s.parts = append(s.parts, part{field: "0"})
	return s.decimals <= 30 && s.whole <= 30
}

// finish decides which fields m of a date are minutes: an m after hours or before seconds. The other fields m are months.
func (s section) finish(isKnown bool) section {
	if s.isDate {
		s.isNumber = false
		last := ""
		for i, p := range s.parts {
			if p.field == "0" { // digits in a date format: no program writes this combination
				s.parts[i] = part{}
				continue
			}
			if p.field == "m" || p.field == "mm" {
				next := ""
				for _, later := range s.parts[i+1:] {
					if next = later.field; next != "" {
						break
					}
				}
				if strings.Contains(last, "h") || strings.HasPrefix(next, "s") || strings.HasPrefix(next, "[s") {
					s.parts[i].field = map[bool]string{true: "MM", false: "M"}[p.field == "mm"]
				}
			}
			if p.field != "" {
				last = p.field
			}
		}
	}
	if !isKnown {
		s.isDate, s.isNumber = false, false
	}
	return s
}

// exact is 2^53. A float64 cannot represent every whole number above exact.
const exact = 1 << 53

// Show formats a number.
func (f Format) Show(n float64, is1904 bool) Shown {
	if len(f.sections) == 0 {
		return plain(n)
	}
	s, sign := f.sections[0], ""
	switch {
	case n < 0 && len(f.sections) > 1:
		s = f.sections[1]
	case n == 0 && len(f.sections) > 2:
		s = f.sections[2]
	case n < 0:
		sign = "-"
	}
	switch {
	case s.isDate:
		return s.date(n, is1904)
	case !s.isNumber:
		return plain(n)
	}
	return s.number(n, sign)
}

// plain formats a number with all its digits, as many as Excel stores.
func plain(n float64) Shown {
	if n == math.Trunc(n) && math.Abs(n) < 1e21 {
		return Shown{Text: strconv.FormatFloat(n, 'f', -1, 64), Lossy: isRounded(n)}
	}
	text := strconv.FormatFloat(n, 'g', 15, 64)
	if short, err := strconv.ParseFloat(text, 64); err == nil && math.Abs(short) >= 1e-9 && math.Abs(short) < 1e21 {
		text = strconv.FormatFloat(short, 'f', -1, 64)
	}
	return Shown{Text: text, Lossy: isRounded(n)}
}

// isRounded reports whether a number possibly had more digits when a user typed it. Excel replaces all digits after the fifteenth with zeros.
func isRounded(n float64) bool {
	abs := math.Abs(n)
	return abs >= exact || abs >= 1e15 && math.Mod(abs, 10) == 0
}

// number formats a number. A whole number gets no thousands separators, because it can be a phone number.
func (s section) number(n float64, sign string) Shown {
	if isRounded(n) {
		return plain(n)
	}
	exactly, is := new(big.Rat).SetString(strconv.FormatFloat(math.Abs(n), 'g', 15, 64))
	if !is {
		return plain(n)
	}
	if s.percents > 0 {
		exactly.Mul(exactly, new(big.Rat).SetInt64(int64(math.Pow10(2*min(s.percents, 3)))))
	}
	whole, fraction, _ := strings.Cut(exactly.FloatString(s.decimals), ".")
	for optional := s.optional; optional > 0 && strings.HasSuffix(fraction, "0"); optional-- {
		fraction = fraction[:len(fraction)-1]
	}
	if missing := s.whole - len(whole); missing > 0 {
		whole = strings.Repeat("0", missing) + whole
	}
	if s.hasThousands && s.decimals > 0 {
		for i := len(whole) - 3; i > 0; i -= 3 {
			whole = whole[:i] + "," + whole[i:]
		}
	}
	if fraction != "" {
		whole += "." + fraction
	}
	if strings.Trim(whole, "0.,") == "" {
		sign = ""
	}
	var text strings.Builder
	text.WriteString(sign)
	for _, p := range s.parts {
		if p.field == "0" {
			text.WriteString(whole)
		}
		text.WriteString(p.text)
	}
	return Shown{Text: strings.TrimSpace(text.String())}
}

// lastDay is 9999-12-31 as a number of days.
const lastDay = 2958465

// date formats a number of days as a date. Excel displays no negative times, and no dates after the year 9999.
func (s section) date(n float64, is1904 bool) Shown {
	days := n
	if is1904 {
		days += 1462
	}
	if days < 0 || days >= lastDay+1 {
		return Shown{Text: plain(n).Text, Lossy: true}
	}
	millis := int64(math.Round(days * 24 * 60 * 60 * 1000))
	hasSeconds := slices.ContainsFunc(s.parts, func(p part) bool { return p.field == "s" || p.field == "ss" || strings.HasPrefix(p.field, "[s") })
	hasFraction := slices.ContainsFunc(s.parts, func(p part) bool { return strings.HasPrefix(p.field, ".") })
	if hasSeconds && !hasFraction {
		millis = (millis + 500) / 1000 * 1000
	}
	hours12 := slices.ContainsFunc(s.parts, func(p part) bool { return p.field == "am/pm" || p.field == "a/p" || p.field == "上午/下午" })
	at := clock(millis)
	elapsed := millis
	if is1904 {
		elapsed -= 1462 * 24 * 60 * 60 * 1000
	}
	var text strings.Builder
	for _, p := range s.parts {
		if p.field == "" {
			text.WriteString(p.text)
			continue
		}
		text.WriteString(s.field(p.field, at, elapsed, hours12))
	}
	return Shown{Text: strings.TrimSpace(text.String())}
}

// clock returns the time of a number of milliseconds. Excel counts days from 1899-12-31, and treats 1900 as a leap year.
func clock(millis int64) time.Time {
	begin := time.Date(1899, 12, 31, 0, 0, 0, 0, time.UTC)
	const day = 24 * 60 * 60 * 1000
	if millis >= 60*day {
		millis -= day
	}
	return begin.AddDate(0, 0, int(millis/day)).Add(time.Duration(millis%day) * time.Millisecond)
}

const chineseDigits = "日一二三四五六七八九十"

// field formats one field of a date. M and MM are minutes.
func (s section) field(name string, at time.Time, elapsed int64, hours12 bool) string {
	hour := at.Hour()
	if hours12 {
		hour = (hour+11)%12 + 1
	}
	digits := func(n int) string { return fmt.Sprintf("%0*d", len(name), n) }
	switch name {
	case "yyyy":
		return digits(at.Year())
	case "yy":
		return digits(at.Year() % 100)
	case "m", "mm":
		return digits(int(at.Month()))
	case "mmm", "mmmm":
		if s.isChinese {
			return chineseMonth(at.Month()) + "月"
		}
		return at.Format(map[string]string{"mmm": "Jan", "mmmm": "January"}[name])
	case "mmmmm":
		return at.Format("Jan")[:1]
	case "d", "dd":
		return digits(at.Day())
	case "ddd", "dddd":
		if s.isChinese {
			return map[string]string{"ddd": "周", "dddd": "星期"}[name] + chineseDay(at)
		}
		return at.Format(map[string]string{"ddd": "Mon", "dddd": "Monday"}[name])
	case "aaa", "aaaa":
		return map[string]string{"aaaa": "星期"}[name] + chineseDay(at)
	case "h", "hh":
		return digits(hour)
	case "M", "MM":
		return digits(at.Minute())
	case "s", "ss":
		return digits(at.Second())
	case ".1", ".2", ".3":
		return fmt.Sprintf(".%03d", at.Nanosecond()/1e6)[:1+int(name[1]-'0')]
	case "am/pm":
		return at.Format("PM")
	case "a/p":
		return at.Format("PM")[:1]
	case "上午/下午":
		return map[bool]string{true: "上午", false: "下午"}[at.Hour() < 12]
	}
	unit := map[byte]int64{'h': 60 * 60 * 1000, 'm': 60 * 1000, 's': 1000}[name[1]] // the field [h2] stands for [hh]
	width, _ := strconv.Atoi(strings.Trim(name[2:], "]"))
	return fmt.Sprintf("%0*d", width, elapsed/unit)
}

func chineseDay(at time.Time) string { return string([]rune(chineseDigits)[at.Weekday()]) }

func chineseMonth(m time.Month) string {
	if m > 10 {
		return "十" + string([]rune(chineseDigits)[m-10])
	}
	return string([]rune(chineseDigits)[m])
}
