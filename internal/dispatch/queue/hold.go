package queue

import (
	"context"

	"lksms/gen/dispatchq"
	"lksms/internal/dispatch/queue/claim"
	"lksms/internal/platform/postgres"
)

// HoldBatch lets the PENDING tasks of a paused batch wait until ReleaseBatch, in portions of their own transactions, and returns how many it held. It
// holds none of a batch that is not paused, or not any more. No sender gets a held task; it still expires, and can be cancelled. A task that a sender
// holds stays with it: if it is to be retried, it waits like any other until HoldBatch is called again.
func (s *Service) HoldBatch(ctx context.Context, batchID int64) (held int, err error) {
	err = s.inPortions(ctx, "hold tasks of batch", func(q *dispatchq.Queries, after string) (n int, last string, err error) {
		row, err := q.TaskHold(ctx, dispatchq.TaskHoldParams{BatchID: batchID, AfterID: after, Portion: sweepBatch})
		held += int(row.Held)
		return int(row.Held), row.LastID, err
	})
	return held, err
}

// ReleaseBatch lets the held tasks of a running batch go on, in portions of their own transactions, and returns how many. Each is due when it was
// before, or at once if that is over: a retry still waits.
func (s *Service) ReleaseBatch(ctx context.Context, batchID int64) (released int, err error) {
	news := map[int64]int{}
	err = s.inPortions(ctx, "release tasks of batch", func(q *dispatchq.Queries, after string) (n int, last string, err error) {
		row, err := q.TaskUnhold(ctx, dispatchq.TaskUnholdParams{BatchID: batchID, AfterID: after, Portion: sweepBatch})
		for _, pool := range row.PoolIds {
			news[pool]++
		}
		released += int(row.Released)
		return int(row.Released), row.LastID, err
	})
	s.Wake(news)
	return released, err
}

// ByBatches is the user who cancels tasks of a cancelled batch that come back from their senders.
const ByBatches = "system:batches"

// inPortions runs a statement on the tasks after the last one that it changed, until a portion is not full.
func (s *Service) inPortions(ctx context.Context, act string, run func(q *dispatchq.Queries, after string) (n int, last string, err error)) error {
	for after, n := "", sweepBatch; n == sweepBatch; {
		err := claim.Dispatch(ctx, s.db, func(q *dispatchq.Queries) (err error) {
			n, after, err = run(q, after)
			return err
		})
		if err != nil {
			return postgres.Wrap(act, err, nil)
		}
	}
	return nil
}

// RoomOfBatch returns how many tasks of a batch may be added until most are PENDING.
func (s *Service) RoomOfBatch(ctx context.Context, batchID int64, most int) (room int, err error) {
	err = claim.Dispatch(ctx, s.db, func(q *dispatchq.Queries) error {
		n, err := q.TasksWaiting(ctx, dispatchq.TasksWaitingParams{BatchID: batchID, Most: int32(most)})
		room = most - int(n)
		return err
	})
	return room, postgres.Wrap("count tasks of batch", err, nil)
}
