package load

import (
	"time"
)

// The end of a round has no fixed time limit. Much work can remain after a long outage, and a task that troubles of providers delayed waits for minutes, as
// intended. The round fails only if nothing progresses although progress is possible.
const (
	slowestJob = 10 * time.Second // interval of evaluate-alert-rules, the slowest periodic job that the end of a round needs
	StillLimit = 3 * slowestJob   // maximum time without progress while progress is possible
)

// Standstill measures how long no progress was made although progress was possible.
type Standstill struct {
	state   string
	since   time.Time
	Longest time.Duration
}

// See compares a state with the last state. It returns how long the state has been the same while couldGoOn was true.
func (s *Standstill) See(state string, couldGoOn bool) time.Duration {
	if state != s.state || !couldGoOn || s.since.IsZero() {
		s.state, s.since = state, time.Now()
	}
	still := time.Since(s.since)
	s.Longest = max(s.Longest, still)
	return still
}
