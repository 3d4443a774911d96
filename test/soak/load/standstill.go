package load

import (
	"time"
)

// The end of a round waits as long as something is left that may wait, or something goes on. It does not wait for a number of minutes: after a long
// outage much is left, and a task that several troubles of providers held up waits for minutes by right.
const (
	slowestJob = 10 * time.Second // of the periodic jobs that the end of a round needs: evaluate-alert-rules
	StillLimit = 3 * slowestJob   // nothing may stand still longer while something could be done
)

// Standstill measures how long nothing has changed while something could be done.
type Standstill struct {
	state   string
	since   time.Time
	Longest time.Duration
}

// See compares a state with the last one, and returns how long it has been the same while something could be done.
func (s *Standstill) See(state string, couldGoOn bool) time.Duration {
	if state != s.state || !couldGoOn || s.since.IsZero() {
		s.state, s.since = state, time.Now()
	}
	still := time.Since(s.since)
	s.Longest = max(s.Longest, still)
	return still
}
