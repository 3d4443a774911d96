package queue

import (
	"context"

	"lksms/gen/dispatchq"
	"lksms/internal/dispatch/queue/claim"
	"lksms/internal/platform/postgres"
)

// gapTasks is the number of tasks that CloseGaps reads per lane, to find the companies that are served next.
const gapTasks = 5000

// CloseGaps repairs the ranks of companies whose waiting tasks left the queue unsent, for example after a cancellation. For each such company, it moves one
// portion of the remaining tasks to the front of their lane. It returns the number of moved tasks. After this portion has been claimed, a later call moves
// the next portion.
func (s *Service) CloseGaps(ctx context.Context) (moved int, err error) {
	var gaps []dispatchq.RankGapsRow
	err = claim.Dispatch(ctx, s.db, func(q *dispatchq.Queries) (err error) {
		gaps, err = q.RankGaps(ctx, gapTasks)
		return err
	})
	if err != nil {
		return 0, postgres.Wrap("find gaps in ranks", err, nil)
	}
	for _, gap := range gaps {
		err := claim.Dispatch(ctx, s.db, func(q *dispatchq.Queries) error {
			locked, err := q.RankGapLock(ctx, dispatchq.RankGapLockParams(gap))
			if err != nil || len(locked) == 0 {
				return err
			}
			n, err := q.RankGapClose(ctx, dispatchq.RankGapCloseParams{
				PoolID: gap.PoolID, Priority: gap.Priority, CompanyID: gap.CompanyID, Portion: sweepBatch,
			})
			moved += int(n)
			return err
		})
		if err != nil {
			return moved, postgres.Wrap("close a gap in ranks", err, nil)
		}
	}
	return moved, nil
}
