package history

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"lksms/gen/dbq"
	"lksms/internal/postgres"
)

// lockedMost is how many partitions in a row may fail for their locks before Keep leaves the rest to its next run.
const lockedMost = 3

// Keep applies the settings of history to the partitions whose tasks are all settled: it makes them history, moves them to their tablespace,
// exports and drops them. It returns how many partitions it changed. A partition that fails does not stop the others, unless locks are not to be
// had. The settings are read for each partition, because it may take long.
func (s *Service) Keep(ctx context.Context) (changed int, err error) {
	var failures []error
	var day time.Time
	for locked := 0; locked < lockedMost; {
		values, err := s.settings.Get(ctx)
		if err != nil {
			return changed, errors.Join(append(failures, err)...)
		}
		rules := values.History
		p, err := s.q.TaskPartitionNext(ctx, dbq.TaskPartitionNextParams{
			AfterDay: day, AfterDays: int32(rules.AfterDays), KeepDays: int32(rules.KeepDays),
		})
		if postgres.IsNoRows(err) {
			break
		}
		if err != nil {
			return changed, errors.Join(append(failures, fmt.Errorf("find partition that is over: %w", err))...)
		}
		day = p.FirstDay
		isChanged := p.IsToDrop
		if p.IsToDrop {
			err = s.Drop(ctx, day, rules.Export)
		} else {
			isChanged, err = s.settle(ctx, p, rules.Tablespace)
		}
		switch {
		case err == nil && isChanged:
			changed++
		case err != nil:
			failures = append(failures, err)
		}
		if locked++; !postgres.IsLockTimeout(err) {
			locked = 0
		}
	}
	return changed, errors.Join(failures...)
}

// settle makes a partition history, in a tablespace if one is set. It reports whether it changed anything.
func (s *Service) settle(ctx context.Context, p dbq.TaskPartitionNextRow, tablespace string) (changed bool, err error) {
	for moved := tablespace != ""; moved; {
		err := patiently(ctx, func() (err error) {
			moved, err = s.q.TaskPartitionMove(ctx, dbq.TaskPartitionMoveParams{FirstDay: p.FirstDay, Tablespace: tablespace})
			return err
		})
		if err != nil {
			return changed, ofDay(p.FirstDay, fmt.Errorf("move to tablespace: %w", err))
		}
		changed = changed || moved
	}
	if p.BecomesHistory {
		changed, err = true, s.q.TaskPartitionKeep(ctx, p.FirstDay)
	}
	if err != nil {
		return changed, ofDay(p.FirstDay, fmt.Errorf("make history: %w", err))
	}
	return changed, nil
}

// Reasons why a partition is not exported or dropped.
var (
	errNoPartition = errors.New("no partition begins on this day")
	errOpen        = errors.New("tasks of these days may still come: wait until a day after the last one")
	errUnsettled   = errors.New("a task of these days waits or is leased")
	errHeld        = errors.New("a notification with tasks of these days is still being sent")
	errChanging    = errors.New("rows were added during each export")
)

// refusals has the error of each outcome of task_partition_drop but dropped and unexported.
var refusals = map[string]error{"absent": errNoPartition, "open": errOpen, "unsettled": errUnsettled}

const (
	dropped    = "dropped"
	unexported = "unexported"
)

// Drop deletes the partition that begins on a day, with all that is known of its tasks but their counts and dedup keys. It fails, and changes
// nothing, while a task of it is not settled, or may still come: until a day after its last one. If onlyExported, the partition is exported first,
// unless the folder of its last export is there and has all its rows. Notifications that have ended leave the lists with their first task; one that
// is still being sent, and does not repeat, holds the partition.
func (s *Service) Drop(ctx context.Context, firstDay time.Time, onlyExported bool) error {
	p, err := s.over(ctx, firstDay)
	if err != nil {
		return err
	}
	if onlyExported && !s.isExported(p) {
		if _, err := s.Export(ctx, firstDay); err != nil {
			return err
		}
	}
	switch isHeld, err := s.options.Forget(ctx, p.LastDay, p.FirstID, p.BeforeID); {
	case err != nil:
		return err
	case isHeld:
		return ofDay(firstDay, errHeld)
	}
	for range dropMost {
		var outcome string
		err := patiently(ctx, func() (err error) {
			outcome, err = s.q.TaskPartitionDrop(ctx, dbq.TaskPartitionDropParams{FirstDay: p.FirstDay, OnlyExported: onlyExported})
			return err
		})
		switch {
		case err != nil:
			return ofDay(firstDay, fmt.Errorf("drop: %w", err))
		case outcome == dropped:
			return nil
		case outcome != unexported:
			return ofDay(firstDay, refusals[outcome])
		}
		// Rows that came since the export make another one necessary.
		if _, err := s.Export(ctx, p.FirstDay); err != nil {
			return err
		}
	}
	return ofDay(firstDay, errChanging)
}

// dropMost bounds how often a partition is tried to be dropped.
const dropMost = 3

// ofDay names the partition that err is about.
func ofDay(firstDay time.Time, err error) error {
	return fmt.Errorf("partition of %s: %w", firstDay.Format(time.DateOnly), err)
}

// over returns the partition that begins on a day, if all its tasks are settled and no more can come.
func (s *Service) over(ctx context.Context, firstDay time.Time) (dbq.TaskPartitionGetRow, error) {
	p, err := s.q.TaskPartitionGet(ctx, firstDay)
	switch {
	case postgres.IsNoRows(err):
		return p, ofDay(firstDay, errNoPartition)
	case err != nil:
		return p, fmt.Errorf("read partition: %w", err)
	case p.IsOpen:
		return p, ofDay(firstDay, errOpen)
	case !p.IsSettled:
		return p, ofDay(firstDay, errUnsettled)
	}
	return p, nil
}

// isExported reports whether the last export of a partition is in the folder of this server.
func (s *Service) isExported(p dbq.TaskPartitionGetRow) bool {
	if p.ExportedTo == nil || s.options.Dir == "" {
		return false
	}
	_, err := os.Stat(filepath.Join(s.options.Dir, *p.ExportedTo, manifestName))
	return err == nil
}

// Partitions lists up to limit partitions that begin before a day, the newest first.
func (s *Service) Partitions(ctx context.Context, before time.Time, limit int) ([]dbq.TaskPartitionListRow, error) {
	rows, err := s.q.TaskPartitionList(ctx, dbq.TaskPartitionListParams{BeforeDay: before, PageLimit: int32(limit)})
	return rows, postgres.Wrap("list partitions", err, nil)
}

// The statements that change partitions give up soon without their locks, because others wait behind them.
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
