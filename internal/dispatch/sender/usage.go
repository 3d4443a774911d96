package sender

import (
	"cmp"
	"context"
	"fmt"
)

// Usage decides which of several senders that wait for the same pool is woken first (S3.9, S4.3).
type Usage struct {
	Sort       float64 // sort of the sender, unless a route sets another sort
	DayLimit   int64   // daily limit in segments; 0: no limit
	DayUsed    int64   // segments used of the daily limit
	Today      int64   // tasks claimed today
	ResponseMS int64   // average response time in milliseconds
}

// Compare returns a negative number if u comes before o, ignoring Sort. The smaller used share of the daily limit comes first, then fewer tasks today, then the
// shorter response time.
func (u Usage) Compare(o Usage) int {
	return cmp.Or(cmp.Compare(u.dayShare(), o.dayShare()), cmp.Compare(u.Today, o.Today), cmp.Compare(u.ResponseMS, o.ResponseMS))
}

func (u Usage) dayShare() float64 {
	if u.DayLimit == 0 {
		return 0
	}
	return float64(u.DayUsed) / float64(u.DayLimit)
}

// After returns the usage after the given number of further tasks, assuming one segment per task.
func (u Usage) After(tasks int64) Usage {
	u.DayUsed, u.Today = u.DayUsed+tasks, u.Today+tasks
	return u
}

// Usages returns the usage of senders, by number. Unknown senders are missing.
func (s *Service) Usages(ctx context.Context, senderNos []string) (map[string]Usage, error) {
	rows, err := s.q.SenderUsages(ctx, senderNos)
	if err != nil {
		return nil, fmt.Errorf("read usage of senders: %w", err)
	}
	usages := make(map[string]Usage, len(rows))
	for _, row := range rows {
		usages[row.SenderNo] = Usage{
			Sort: row.Sort, DayLimit: row.DayLimit, DayUsed: row.DayUsed, Today: row.Today, ResponseMS: row.ResponseMs,
		}
	}
	return usages, nil
}
