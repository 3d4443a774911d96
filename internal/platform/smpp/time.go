package smpp

import (
	"errors"
	"fmt"
	"time"
)

// ErrTime is the error of a time that is in neither format of SMPP.
var ErrTime = errors.New("the time is neither YYMMDDhhmmsstnnp nor YYMMDDhhmmss000R")

// FormatTime returns t in the absolute format of SMPP in UTC, to a tenth of a second: YYMMDDhhmmsst00+ (section 7.1.1).
func FormatTime(t time.Time) string {
	t = t.UTC()
	return t.Format("060102150405") + fmt.Sprintf("%d00+", t.Nanosecond()/1e8)
}

// FormatPeriod returns a duration in the relative format of SMPP, rounded down to a second: YYMMDDhhmmss000R (section 7.1.1.2). It contains days, hours, minutes
// and seconds: months and years have no fixed length, so that it is at most 99 days.
func FormatPeriod(d time.Duration) string {
	s := int64(min(max(d, 0), 99*24*time.Hour) / time.Second)
	return fmt.Sprintf("0000%02d%02d%02d%02d000R", s/86400, s/3600%24, s/60%60, s%60)
}

// ParseTime parses schedule_delivery_time, validity_period or final_date. A relative time is added to now. The empty text is the zero time, which means at once
// for a schedule, and the default of the SMSC for a validity.
func ParseTime(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	var v [6]int // years, months, days, hours, minutes, seconds
	if len(text) != 16 {
		return time.Time{}, ErrTime
	}
	for i := range v {
		n, isNumber := twoDigits(text[2*i:])
		if !isNumber {
			return time.Time{}, ErrTime
		}
		v[i] = n
	}
	tenths := int(text[12] - '0')
	quarters, isNumber := twoDigits(text[13:])
	if tenths > 9 || !isNumber {
		return time.Time{}, ErrTime
	}
	switch text[15] {
	case 'R':
		clock := time.Duration(v[3])*time.Hour + time.Duration(v[4])*time.Minute + time.Duration(v[5])*time.Second
		return now.AddDate(v[0], v[1], v[2]).Add(clock), nil
	case '-':
		quarters = -quarters
	case '+':
	default:
		return time.Time{}, ErrTime
	}
	t := time.Date(2000+v[0], time.Month(v[1]), v[2], v[3], v[4], v[5], tenths*1e8, time.FixedZone("", quarters*15*60))
	if t.Month() != time.Month(v[1]) || t.Day() != v[2] || v[3] > 23 || v[4] > 59 || v[5] > 59 || quarters < -48 || quarters > 56 {
		return time.Time{}, ErrTime
	}
	return t.UTC(), nil
}

// twoDigits returns the number of the first two characters of text.
func twoDigits(text string) (int, bool) {
	tens, ones := text[0]-'0', text[1]-'0'
	return int(tens)*10 + int(ones), tens <= 9 && ones <= 9
}

// parseReceiptDate parses a date of a receipt: YYMMDDhhmm of the specification (appendix B), with seconds, or with a year of four digits. Twelve digits that
// begin with 20 and are a date with a year of four digits are such a date: otherwise they would be a date of the year 2020. It returns the zero time for other
// texts.
func parseReceiptDate(text string, zone *time.Location) time.Time {
	var layouts []string
	switch len(text) {
	case 10:
		layouts = []string{"0601021504"}
	case 12:
		layouts = []string{"060102150405"}
		if text[:2] == "20" {
			layouts = []string{"200601021504", "060102150405"}
		}
	case 14:
		layouts = []string{"20060102150405"}
	case 16:
		if t, err := ParseTime(text, time.Time{}); err == nil && text[15] != 'R' {
			return t
		}
	}
	for _, layout := range layouts {
		if t, err := time.ParseInLocation(layout, text, zone); err == nil {
			return t
		}
	}
	return time.Time{}
}
