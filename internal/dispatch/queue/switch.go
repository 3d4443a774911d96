package queue

import (
	"context"
	"fmt"
	"slices"
	"time"

	"lksms/gen/dispatchq"
	"lksms/internal/dispatch/queue/claim"
	"lksms/internal/platform/postgres"
)

// minSwitched and maxSwitched are the sizes of the portions in which tasks are held and released. The first portion is small. After a portion with tasks to
// hold, all further portions are large.
const (
	minSwitched = 100
	maxSwitched = 5000
)

// FollowSwitches holds the waiting tasks that a switch stops, so that claims need not skip them. After a change of the directory, it releases the tasks that
// no switch stops any more. It returns the number of tasks that it held or released. A claim never returns a task that a switch stops, even if FollowSwitches
// has not run.
func (s *Service) FollowSwitches(ctx context.Context) (int, error) {
	version, err := s.directory.Version(ctx) // read before the tasks, so that the next run follows a later change
	if err != nil {
		return 0, fmt.Errorf("read version of directory: %w", err)
	}
	held, err := s.holdSwitched(ctx)
	if err != nil || s.followed.Load() == version {
		return held, err
	}
	released, err := s.releaseSwitched(ctx)
	if err == nil {
		s.followed.Store(version)
	}
	return held + released, err
}

// holdSwitched holds tasks that a switch stops, until no claim could find such a task.
func (s *Service) holdSwitched(ctx context.Context) (held int, err error) {
	for portion := int32(minSwitched); ; portion = maxSwitched {
		n := 0
		err := claim.Dispatch(ctx, s.db, func(q *dispatchq.Queries) error {
			mayHold, err := q.DirectoryHold(ctx)
			if postgres.IsNoRows(err) || err == nil && !mayHold { // no row exists if the directory was never changed
				return nil
			}
			if err != nil {
				return err
			}
			found, err := q.TaskHoldSwitched(ctx, portion)
			n = int(found)
			return err
		})
		if held += n; err != nil || n == 0 {
			return held, postgres.Wrap("hold tasks of switches", err, nil)
		}
	}
}

// releaseSwitched releases the held tasks that no switch stops any more.
func (s *Service) releaseSwitched(ctx context.Context) (released int, err error) {
	for {
		var row dispatchq.TaskReleaseSwitchedRow
		err := claim.Dispatch(ctx, s.db, func(q *dispatchq.Queries) (err error) {
			row, err = q.TaskReleaseSwitched(ctx, maxSwitched)
			return err
		})
		if err != nil || row.Released == 0 {
			return released, postgres.Wrap("release tasks of switches", err, nil)
		}
		released += int(row.Released)
		news := map[int64]int{}
		for _, pool := range row.PoolIds {
			news[pool]++
		}
		s.Wake(news)
	}
}

// Switched applies a change of a switch before the API answers the change. It waits for claims that began before the change, and then holds and
// releases tasks. It stops after moveLimit. The sweep follow-switches changes the remaining tasks and logs its errors.
func (s *Service) Switched() {
	ctx, cancel := context.WithTimeout(context.Background(), moveLimit)
	defer cancel()
	if err := s.awaitClaims(ctx); err != nil {
		return
	}
	_, _ = s.FollowSwitches(ctx)
}

// awaitClaims waits until all claims that are now in progress have ended. These claims possibly began before the change of the switch, and then do not see it.
func (s *Service) awaitClaims(ctx context.Context) error {
	err := AwaitEnd(ctx, func(ctx context.Context) (open []string, err error) {
		err = claim.Dispatch(ctx, s.db, func(q *dispatchq.Queries) error {
			open, err = q.ClaimsOpen(ctx)
			return err
		})
		return open, err
	})
	return postgres.Wrap("wait for claims", err, nil)
}

// AwaitEnd waits until all transactions that open returns at the first call have ended. open returns the transactions of one kind that are in progress.
func AwaitEnd(ctx context.Context, open func(ctx context.Context) ([]string, error)) error {
	before, err := open(ctx)
	for pause := minPause; err == nil && len(before) > 0; pause = min(2*pause, maxPause) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		var now []string
		now, err = open(ctx)
		before = slices.DeleteFunc(before, func(tx string) bool { return !slices.Contains(now, tx) })
	}
	return err
}

// minPause and maxPause limit the time between two checks of AwaitEnd. A claim or a submission takes some milliseconds; a large batch takes seconds.
const (
	minPause = 2 * time.Millisecond
	maxPause = 64 * time.Millisecond
)
