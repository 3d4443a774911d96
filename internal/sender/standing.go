package sender

import (
	"cmp"
	"context"
	"fmt"
)

// Standing decides which of several senders that wait for the same pool gets a task first (S3.9, S4.3).
type Standing struct {
	Sort       float64 // sort of the sender, unless a route sets one
	DayLimit   int64   // daily limit in segments; 0: no limit
	DayUsed    int64   // segments used of the daily limit
	Today      int64   // tasks claimed today
	ResponseMS int64   // average response time in milliseconds
}

// Compare is negative if s comes before o, without regard to Sort: the smaller used share of the daily limit comes
// first, then the fewer tasks today, then the shorter response time.
func (s Standing) Compare(o Standing) int {
	return cmp.Or(cmp.Compare(s.dayShare(), o.dayShare()), cmp.Compare(s.Today, o.Today), cmp.Compare(s.ResponseMS, o.ResponseMS))
}

func (s Standing) dayShare() float64 {
	if s.DayLimit == 0 {
		return 0
	}
	return float64(s.DayUsed) / float64(s.DayLimit)
}

// After returns the standing after that many more tasks, assuming one segment for each.
func (s Standing) After(tasks int64) Standing {
	s.DayUsed, s.Today = s.DayUsed+tasks, s.Today+tasks
	return s
}

// Standings returns the standings of senders, by number. Unknown senders are missing.
func (s *Service) Standings(ctx context.Context, appIDs []string) (map[string]Standing, error) {
	rows, err := s.q.SenderStandings(ctx, appIDs)
	if err != nil {
		return nil, fmt.Errorf("read standings of senders: %w", err)
	}
	standings := make(map[string]Standing, len(rows))
	for _, row := range rows {
		standings[row.SenderNo] = Standing{
			Sort: row.Sort, DayLimit: row.DayLimit, DayUsed: row.DayUsed, Today: row.Today, ResponseMS: row.ResponseMs,
		}
	}
	return standings, nil
}
