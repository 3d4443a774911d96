package caps

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"lksms/internal/platform/setting"
)

// isKept reports whether all caps are kept: no window contains more messages than its cap allows.
func isKept(windows []window, times []time.Time) bool {
	for _, w := range windows {
		for i := w.messages; i < len(times); i++ {
			if times[i].Sub(times[i-w.messages]) < w.length {
				return false
			}
		}
	}
	return true
}

func with(counted []entry, at time.Time) (times []time.Time) {
	for _, e := range counted {
		times = append(times, e.at)
	}
	times = append(times, at)
	slices.SortFunc(times, time.Time.Compare)
	return times
}

func TestTheNextDueTimeIsTheEarliestThatAllCapsAllow(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		windows := windowsOf(setting.Caps{PerMinute: random.Int64N(3), PerHour: random.Int64N(5), PerDay: random.Int64N(8)})
		var counted []entry
		for range 15 {
			at := start.Add(time.Duration(random.IntN(36*60)) * time.Minute / 2)
			found := next(windows, counted, at)
			if found.Before(at) || !isKept(windows, with(counted, found)) {
				t.Fatalf("seed %d: %v from %v on breaks a cap", seed, found, at)
			}
			earlier := []time.Time{at} // the earliest allowed time is always either `at` or the end of the window of a counted message
			for _, e := range counted {
				for _, w := range windows {
					earlier = append(earlier, e.at.Add(w.length))
				}
			}
			for _, one := range earlier {
				if !one.Before(at) && one.Before(found) && isKept(windows, with(counted, one)) {
					t.Fatalf("seed %d: %v from %v on, although %v keeps all caps", seed, found, at, one)
				}
			}
			index, _ := slices.BinarySearchFunc(counted, found, func(e entry, at time.Time) int { return e.at.Compare(at) })
			counted = slices.Insert(counted, index, entry{at: found})
		}
	}
}

func TestAMessageIsAllowedOneMinuteAfterTheEarlierMessage(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	windows := windowsOf(setting.Caps{PerMinute: 1})
	if got := next(windows, []entry{{"a", at}}, at.Add(59*time.Second)); !got.Equal(at.Add(time.Minute)) {
		t.Errorf("after 59 s: %v", got)
	}
	if got := next(windows, []entry{{"a", at}}, at.Add(time.Minute)); !got.Equal(at.Add(time.Minute)) {
		t.Errorf("after 60 s: %v", got)
	}
	if got := next(windows, []entry{{"a", at.Add(30 * time.Second)}}, at); !got.Equal(at.Add(90 * time.Second)) {
		t.Errorf("before a scheduled message: %v", got)
	}
}
