package sender

import (
	"cmp"
	"context"
	"fmt"
)

// Standing decides which of several senders that wait for the same has it first (S3.9, S4.3).
type Standing struct {
	Sort       float64 // where no route says another
	DayLimit   int64   // segments; 0: none
	DayUsed    int64   // segments of the day's limit
	Today      int64   // tasks that it was given today
	ResponseMS int64   // on average
}

// Compare is negative for one that should come before o, sorts apart: the least used of its day's limit, then the one that
// was given the fewest tasks today, then the quickest.
func (s Standing) Compare(o Standing) int {
	return cmp.Or(cmp.Compare(s.dayShare(), o.dayShare()), cmp.Compare(s.Today, o.Today), cmp.Compare(s.ResponseMS, o.ResponseMS))
}

func (s Standing) dayShare() float64 {
	if s.DayLimit == 0 {
		return 0
	}
	return float64(s.DayUsed) / float64(s.DayLimit)
}

// After is how a sender stands that was given so many more tasks, each of one segment for all that is known.
func (s Standing) After(tasks int64) Standing {
	s.DayUsed, s.Today = s.DayUsed+tasks, s.Today+tasks
	return s
}

// Standings tells how senders stand.
func (s *Service) Standings(ctx context.Context, appIDs []string) (map[string]Standing, error) {
	rows, err := s.q.SenderStandings(ctx, appIDs)
	if err != nil {
		return nil, fmt.Errorf("read how senders stand: %w", err)
	}
	standings := make(map[string]Standing, len(rows))
	for _, row := range rows {
		standings[row.SenderNo] = Standing{
			Sort: row.Sort, DayLimit: row.DayLimit, DayUsed: row.DayUsed, Today: row.Today, ResponseMS: row.ResponseMs,
		}
	}
	return standings, nil
}
