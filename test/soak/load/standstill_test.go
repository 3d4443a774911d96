package load

import (
	"testing"
	"time"
)

func TestStandstillIsCountedOnlyWhileProgressIsPossible(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		state   string
		could   bool
		isStill bool
	}{
		"same state, progress is possible": {"1", true, true},
		"another state":                    {"2", true, false},
		"same state, legitimate wait":      {"1", false, false},
	} {
		var s Standstill
		s.See("1", true)
		s.since = s.since.Add(-time.Hour)
		if still := s.See(c.state, c.could) > time.Minute; still != c.isStill {
			t.Errorf("%s: still %t", what, still)
		}
	}
}
