package quiet

import (
	"sync"
	"time"

	"lksms/internal/platform/setting"
)

// zones are the time zones in which a person possibly is.
type zones struct {
	name string // identifies the zones
	all  []*time.Location
}

// Period is a time range that is completely within quiet hours, or completely outside of them.
type Period struct {
	IsQuiet bool
	Until   time.Time // when the period ends; zero: never

	hasBegun bool // quiet hours have just ended by the clock of this server, and possibly have not ended by the clock of PostgreSQL
}

// Delays reports whether a task with a due time waits for the end of the period, which contains the time at which the task would be due without quiet hours. A
// task that is due later than Spread after the end does not wait for it.
func (p Period) Delays(due time.Time) bool { return p.IsQuiet && !due.After(p.Until.Add(Spread)) }

// From returns queue.quiet_from of a task that is due in the period: the beginning of the next quiet hours. nil: no quiet hours. If the period is quiet, or
// possibly quiet by the clock of PostgreSQL, it returns the epoch: the sweep of the queue then decides at once, by that clock.
func (p Period) From() *time.Time {
	switch {
	case p.IsQuiet || p.hasBegun:
		return new(time.Unix(0, 0))
	case p.Until.IsZero():
		return nil
	default:
		return &p.Until
	}
}

// calendar finds periods. For each pair of hours and zones, it remembers the last period within quiet hours and the last period outside of them, because most
// messages need one of these two.
type calendar struct {
	last sync.Map // remembered, by calendarKey
}

type calendarKey struct {
	hours   setting.Hours
	zones   string
	isQuiet bool
}

type remembered struct {
	from time.Time
	Period
}

// maxSearch is longer than any period: a day, and the longest change of the clocks.
const maxSearch = 50 * time.Hour

// at returns the period that contains a time. The search reads the local time of each minute, so that days on which the clocks change need no rule.
func (c *calendar) at(h setting.Hours, z zones, at time.Time) Period {
	if h == (setting.Hours{}) {
		return Period{}
	}
	p := Period{IsQuiet: z.areQuiet(h, at)}
	key := calendarKey{h, z.name, p.IsQuiet}
	if found, is := c.last.Load(key); is {
		if last, _ := found.(remembered); !at.Before(last.from) && at.Before(last.Until) {
			return last.Period
		}
	}
	for minute, end := at.Truncate(time.Minute), at.Add(maxSearch); minute.Before(end); {
		minute = minute.Add(time.Minute)
		if z.areQuiet(h, minute) != p.IsQuiet {
			p.Until = minute
			c.last.Store(key, remembered{from: at, Period: p})
			return p
		}
	}
	return Period{}
}

// areQuiet reports whether it is quiet in at least one of the zones.
func (z zones) areQuiet(h setting.Hours, at time.Time) bool {
	for _, zone := range z.all {
		if h.Contain(at.In(zone)) {
			return true
		}
	}
	return false
}
