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

// The portions in which tasks are held and released. A run that found something to hold looks farther.
const (
	minSwitched = 100
	maxSwitched = 5000
)

// FollowSwitches holds the tasks that a switch holds, so that claims need not pass over them. After a change of the directory it releases those that
// none holds any more. It returns how many it changed. A claim gets no task that a switch holds, whether or not this has run.
func (s *Service) FollowSwitches(ctx context.Context) (int, error) {
	version, err := s.directory.Version(ctx) // before the tasks are read: a later change is followed by the next run
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

// holdSwitched holds tasks until it finds none that a switch holds and claims would meet.
func (s *Service) holdSwitched(ctx context.Context) (held int, err error) {
	for portion := int32(minSwitched); ; portion = maxSwitched {
		n := 0
		err := claim.Dispatch(ctx, s.db, func(q *dispatchq.Queries) error {
			mayHold, err := q.DirectoryHold(ctx)
			if postgres.IsNoRows(err) || err == nil && !mayHold { // no row: the directory was never changed
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

// releaseSwitched releases the tasks that no switch holds any more.
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

// Switched follows a change of a switch before the change is answered: it waits for the claims that began before, and holds and releases tasks as long
// as moveLimit allows. The sweep does the others and logs its errors.
func (s *Service) Switched() {
	ctx, cancel := context.WithTimeout(context.Background(), moveLimit)
	defer cancel()
	if err := s.awaitClaims(ctx); err != nil {
		return
	}
	_, _ = s.FollowSwitches(ctx)
}

// awaitClaims waits until the claims that are open now have ended: they began before a switch may have been off.
func (s *Service) awaitClaims(ctx context.Context) error {
	var before []string
	for isFirst := true; ; isFirst = false {
		var open []string
		err := claim.Dispatch(ctx, s.db, func(q *dispatchq.Queries) (err error) {
			open, err = q.ClaimsOpen(ctx)
			return err
		})
		if err != nil {
			return postgres.Wrap("wait for claims", err, nil)
		}
		if isFirst {
			before = open
		}
		before = slices.DeleteFunc(before, func(tx string) bool { return !slices.Contains(open, tx) })
		if len(before) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for claims: %w", ctx.Err())
		case <-time.After(claimsPause):
		}
	}
}

// claimsPause is how long awaitClaims waits before it looks again. A claim takes some milliseconds.
const claimsPause = 2 * time.Millisecond
