package setting

import (
	"regexp"
	"strconv"
	"time"

	"lksms/internal/platform/fault"
)

// Hours are hours of each day, as local times. The zero value has no hours.
type Hours struct {
	from, to int // minutes since midnight; if from is greater than to, the hours contain midnight
}

// hoursPattern matches hours such as 21:00-09:00.
var hoursPattern = regexp.MustCompile(`^([01][0-9]|2[0-3]):([0-5][0-9])-([01][0-9]|2[0-3]):([0-5][0-9])$`)

const (
	dayMinutes = 24 * 60
	maxMinutes = 16 * 60 // of quiet hours: some hours of each day must be left for messages, also to a number that can be in several time zones
)

// ParseQuietHours reads hours in which people get no messages, as ParseHours does, and also rejects hours that are too long.
func ParseQuietHours(field, text string) (Hours, error) {
	h, err := ParseHours(field, text)
	if err == nil && (h.to-h.from+dayMinutes)%dayMinutes > maxMinutes {
		return Hours{}, fault.InvalidField(field, fault.TooManyHours, maxMinutes/60)
	}
	return h, err
}

// ParseHours reads hours such as 21:00-09:00: the first minute, and the first minute after the end. An empty text means no hours. Fault: request.invalid for
// field.
func ParseHours(field, text string) (Hours, error) {
	if text == "" {
		return Hours{}, nil
	}
	match := hoursPattern.FindStringSubmatch(text)
	if match == nil {
		return Hours{}, fault.InvalidField(field, fault.NotHours, nil)
	}
	var n [4]int
	for i := range n {
		n[i], _ = strconv.Atoi(match[i+1]) // two digits
	}
	h := Hours{from: 60*n[0] + n[1], to: 60*n[2] + n[3]}
	if h.from == h.to {
		return Hours{}, fault.InvalidField(field, fault.NotHours, nil)
	}
	return h, nil
}

// Contain reports whether the hours contain a local time.
func (h Hours) Contain(local time.Time) bool {
	minute := 60*local.Hour() + local.Minute()
	if h.from < h.to {
		return minute >= h.from && minute < h.to
	}
	return h != Hours{} && (minute >= h.from || minute < h.to)
}
