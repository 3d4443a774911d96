package quiet

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"lksms/internal/platform/setting"
)

func hours(t *testing.T, text string) setting.Hours {
	t.Helper()
	h, err := setting.ParseQuietHours("f", text)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// R5: 100,000 messages over the days on which the clocks change, both ways: none is due in quiet hours, and none waits longer than needed.
func TestNoMessageIsDueInQuietHoursWhenTheClocksChange(t *testing.T) {
	t.Parallel()
	s, random := New(nil, nil), rand.New(rand.NewPCG(1, 2))
	const company = "Asia/Shanghai"
	for i := range 100_000 {
		h := hours(t, []string{"21:00-09:00", "02:30-03:30", "01:15-02:15", "00:00-08:00", "18:00-02:45"}[i%5])
		number := []string{"+4915112345678", "+12125550123", "+61412345678", "+8613800138000"}[i/5%4]
		change := []time.Time{
			time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC), time.Date(2026, 10, 25, 1, 0, 0, 0, time.UTC), // Berlin
			time.Date(2026, 3, 8, 7, 0, 0, 0, time.UTC), time.Date(2026, 11, 1, 6, 0, 0, 0, time.UTC), // New York
			time.Date(2026, 4, 4, 16, 0, 0, 0, time.UTC), time.Date(2026, 10, 3, 16, 0, 0, 0, time.UTC), // Sydney
		}[i/20%6]
		at := change.Add(time.Duration(random.Int64N(int64(48*time.Hour))) - 24*time.Hour)
		z := s.zonesOf(number, company, at)
		p := s.calendar.at(h, z, at)
		if p.IsQuiet != z.areQuiet(h, at) || !p.Until.After(at) || z.areQuiet(h, p.Until) == p.IsQuiet || z.areQuiet(h, p.Until.Add(-time.Second)) != p.IsQuiet {
			t.Fatalf("%v of %s at %v: %+v", h, number, at, p)
		}
		if !p.IsQuiet {
			continue
		}
		due := p.after(number+at.String(), nil, s.calendar.at(h, z, p.Until))
		if due.Before(p.Until) || due.After(p.Until.Add(Spread)) || z.areQuiet(h, due) {
			t.Fatalf("%v of %s at %v: due at %v, quiet until %v", h, number, at, due, p.Until)
		}
	}
}

// R5: messages that waited for the end of quiet hours are sent at different times within half an hour.
func TestMessagesAreSpreadOverHalfAnHourAfterQuietHours(t *testing.T) {
	t.Parallel()
	until := time.Date(2026, 11, 28, 1, 0, 0, 0, time.UTC)
	p, minutes := Period{IsQuiet: true, Until: until}, map[int]int{}
	for i := range 3000 {
		minutes[int(p.after(strings.Repeat("x", i%50)+until.Add(time.Duration(i)).String(), nil, Period{}).Sub(until).Minutes())]++
	}
	for minute := range 30 {
		if n := minutes[minute]; n < 50 || n > 200 {
			t.Errorf("minute %d: %d of 3000 messages", minute, n)
		}
	}
	expires := until.Add(10 * time.Minute)
	for i := range 100 {
		if due := p.after(strings.Repeat("y", i), &expires, Period{}); due.After(until.Add(5 * time.Minute)) {
			t.Errorf("a message that expires at %v is due at %v", expires, due)
		}
	}
}

func TestTimeZonesOfANumberAreFound(t *testing.T) {
	t.Parallel()
	s, at := New(nil, nil), time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	for number, want := range map[string]string{
		"+12125550123":   "America/New_York",    // by area
		"+13105550123":   "America/Los_Angeles", // by area
		"+8613800138000": "Asia/Shanghai",
		"+447400123456":  "Europe/London",
		"+79161234567":   "Europe/Moscow",
		"+18005550123":   "Asia/Tokyo", // the zones of a toll-free number are too far apart
		"+999123456":     "Asia/Tokyo", // unknown
		"+61412345678":   "Australia/Sydney",
	} {
		z := s.zonesOf(number, "Asia/Tokyo", at)
		has := false
		for _, one := range z.all {
			has = has || one.String() == want
		}
		if !has || strings.HasPrefix(want, "A") && len(z.all) > 1 && want != "Australia/Sydney" {
			t.Errorf("%s: %v, want %s", number, z.all, want)
		}
	}
}
