package crowds

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestReaderCheckFindsStaleAndFailedReads(t *testing.T) {
	t.Parallel()
	now := time.Now()
	ago := func(seconds float64) time.Time { return now.Add(-time.Duration(seconds * float64(time.Second))) }
	// Messages a, b and c were accepted 20, 8 and 2 s ago. A response must contain a and b.
	for what, c := range map[string]struct {
		see  func(s *staleness)
		find string // empty: no violation
	}{
		"a list with all due messages":          {func(s *staleness) { s.listed(now, map[string]bool{"a": true, "b": true}) }, ""},
		"a list without a due message":          {func(s *staleness) { s.listed(now, map[string]bool{"a": true}) }, "a list lacks b, accepted 8.0 s before"},
		"an empty list":                         {func(s *staleness) { s.listed(now, nil) }, "lacks a"},
		"an empty list before messages are due": {func(s *staleness) { s.listed(ago(15), nil) }, ""},
		"statistics with all due messages":      {func(s *staleness) { s.counted(now, 2) }, ""},
		"statistics that lack a due message":    {func(s *staleness) { s.counted(now, 1) }, "statistics count 1 messages, and 2 were accepted"},
		"a failure while the primary answers":   {func(s *staleness) { s.probed(ago(1), ago(1), true); s.unanswered("list", ago(3), ago(2), "503") }, "list not answered in 1.0 s"},
		"a failure while the primary fails too": {func(s *staleness) {
			s.probed(ago(3), ago(2.5), false)
			s.probed(ago(1), ago(1), true)
			s.unanswered("list", ago(3), ago(2), "503")
		}, ""},
		"a failure before the primary fails": {func(s *staleness) { s.probed(ago(1), ago(0.5), false); s.unanswered("list", ago(3), ago(2), "503") }, ""},
	} {
		s := &staleness{accepted: []acceptance{{"a", ago(20)}, {"b", ago(8)}, {"c", ago(2)}}}
		c.see(s)
		if got := strings.Join(s.found.Samples, "; "); !strings.Contains(got, c.find) || (c.find == "") != (got == "") {
			t.Errorf("%s: found %q, want %q", what, got, c.find)
		}
	}
}

// A run in which the primary answered every read proves nothing about replicas.
func TestReaderCheckRequiresReadsFromReplicas(t *testing.T) {
	t.Parallel()
	for served, want := range map[float64]int{0: 1, 1: 0} {
		r := &readers{byServer: map[string]float64{"primary": 100, "127.0.0.1:1": served}}
		verdicts, err := r.Verdicts(t.Context(), nil)
		if err != nil || verdicts[0].Broken != want {
			t.Error(fmt.Sprint(served), verdicts, err)
		}
	}
}
