package history

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lksms/gen/dbq"
	"lksms/internal/postgres"
)

// Keep applies the settings of history to the partitions whose tasks are all settled: it makes them history, moves them to their tablespace,
// exports and drops them. It returns how many partitions it changed. A partition that fails does not stop the others.
func (s *Service) Keep(ctx context.Context) (int, error) {
	values, err := s.settings.Get(ctx)
	if err != nil {
		return 0, err
	}
	rules := values.History
	parts, err := s.q.TaskPartitionsOver(ctx, dbq.TaskPartitionsOverParams{AfterDays: int32(rules.AfterDays), KeepDays: int32(rules.KeepDays)})
	if err != nil {
		return 0, fmt.Errorf("list partitions that are over: %w", err)
	}
	changed := 0
	var failures []error
	for _, p := range parts {
		var done bool
		var err error
		if p.IsToDrop {
			done, err = s.Drop(ctx, p.FirstDay, rules.Export)
		} else {
			done, err = s.settle(ctx, p, rules.Tablespace)
		}
		if err != nil {
			failures = append(failures, fmt.Errorf("partition of %s: %w", p.FirstDay.Format(time.DateOnly), err))
		}
		if done {
			changed++
		}
	}
	return changed, errors.Join(failures...)
}

// settle makes a partition history, in a tablespace if one is set. It reports whether it changed anything.
func (s *Service) settle(ctx context.Context, p dbq.TaskPartitionsOverRow, tablespace string) (changed bool, err error) {
	for moved := tablespace != ""; moved; {
		err := patiently(ctx, func() (err error) {
			moved, err = s.q.TaskPartitionMove(ctx, dbq.TaskPartitionMoveParams{FirstDay: p.FirstDay, Tablespace: tablespace})
			return err
		})
		if err != nil {
			return changed, fmt.Errorf("move to tablespace: %w", err)
		}
		changed = changed || moved
	}
	if p.BecomesHistory {
		changed, err = true, s.q.TaskPartitionKeep(ctx, p.FirstDay)
	}
	return changed, postgres.Wrap("make history", err, nil)
}

// errNoPartition is the answer to a day on which no partition begins.
var errNoPartition = errors.New("no partition begins on this day")

// Drop deletes the partition that begins on a day, with all that is known of its tasks but their counts and dedup keys, and reports whether it
// did. It does not while a task of it is not settled, or may still come: until a day after its last one. If onlyExported, the partition is exported
// first, unless an export has all its rows. Its notifications that have ended leave the lists.
func (s *Service) Drop(ctx context.Context, firstDay time.Time, onlyExported bool) (dropped bool, err error) {
	p, err := s.partition(ctx, firstDay)
	if err != nil {
		return false, err
	}
	if err := s.options.Forget(ctx, p.LastDay, p.BeforeID); err != nil {
		return false, err
	}
	for tries := 1; ; tries++ {
		err := patiently(ctx, func() (err error) {
			dropped, err = s.q.TaskPartitionDrop(ctx, dbq.TaskPartitionDropParams{FirstDay: p.FirstDay, OnlyExported: onlyExported})
			return err
		})
		if err != nil || dropped || !onlyExported || tries == dropMost {
			return dropped, postgres.Wrap("drop partition", err, nil)
		}
		// Rows that came during an export make another one necessary.
		if _, err := s.Export(ctx, p.FirstDay); err != nil {
			return false, err
		}
	}
}

// dropMost bounds how often a partition is tried to be dropped.
const dropMost = 3

// partition returns the partition that begins on a day.
func (s *Service) partition(ctx context.Context, firstDay time.Time) (dbq.TaskPartition, error) {
	p, err := s.q.TaskPartitionGet(ctx, firstDay)
	if postgres.IsNoRows(err) {
		return p, fmt.Errorf("%s: %w", firstDay.Format(time.DateOnly), errNoPartition)
	}
	return p, postgres.Wrap("read partition", err, nil)
}

// Partitions lists up to limit partitions that begin before a day, the newest first.
func (s *Service) Partitions(ctx context.Context, before time.Time, limit int) ([]dbq.TaskPartitionListRow, error) {
	rows, err := s.q.TaskPartitionList(ctx, dbq.TaskPartitionListParams{BeforeDay: before, PageLimit: int32(limit)})
	return rows, postgres.Wrap("list partitions", err, nil)
}

// The statements that change partitions give up after half a second without their locks, because everybody else waits behind them.
const (
	lockTries = 20
	lockPause = 2 * time.Second
)

// patiently repeats do while it does not get its locks.
func patiently(ctx context.Context, do func() error) error {
	for tries := 1; ; tries++ {
		err := do()
		if !postgres.IsLockTimeout(err) || tries == lockTries {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lockPause):
		}
	}
}
