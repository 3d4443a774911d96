package caps

import (
	"slices"
	"time"

	"lksms/internal/platform/setting"
)

// entry is a message that is counted.
type entry struct {
	taskID string
	at     time.Time // when the message is due
}

// window is the rule that at most `messages` messages are due within any period that is shorter than length.
type window struct {
	length   time.Duration
	messages int
}

// windowsOf returns the rules of caps.
func windowsOf(caps setting.Caps) (all []window) {
	for _, w := range []window{{time.Minute, int(caps.PerMinute)}, {time.Hour, int(caps.PerHour)}, {day, int(caps.PerDay)}} {
		if w.messages > 0 {
			all = append(all, w)
		}
	}
	return all
}

const day = 24 * time.Hour

// next returns the first time, not before `at`, at which one more message can be due. counted is sorted by time.
func next(windows []window, counted []entry, at time.Time) time.Time {
	for {
		later := at
		for _, w := range windows {
			later = w.next(counted, later)
		}
		if later.Equal(at) {
			return at
		}
		at = later
	}
}

// next works like the function next, for one window. After a time that the window forbids, the next allowed time is the time of a counted message plus the
// length of the window.
func (w window) next(counted []entry, at time.Time) time.Time {
	for {
		index, _ := slices.BinarySearchFunc(counted, at, func(e entry, at time.Time) int { return e.at.Compare(at) })
		blocker := -1
		// The window forbids the new message if it lies within one period together with w.messages consecutive counted messages. `first` is the index of the
		// earliest of them.
		for first := max(0, index-w.messages); first <= index && first+w.messages <= len(counted); first++ {
			from, to := counted[first].at, counted[first+w.messages-1].at
			if at.Before(from) {
				from = at
			}
			if at.After(to) {
				to = at
			}
			if to.Sub(from) < w.length {
				blocker = first
			}
		}
		if blocker < 0 {
			return at
		}
		at = counted[blocker].at.Add(w.length)
	}
}
