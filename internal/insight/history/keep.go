package history

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"lksms/gen/historyq"
	"lksms/internal/platform/postgres"
)

// maxLateTasks is the maximum number of tasks that a drop keeps. A drop with more such tasks would block other transactions for too long.
const maxLateTasks = 10_000

// maxLocked is the number of consecutive lock timeouts after which Keep stops until its next run.
const maxLocked = 3

// Keep applies the settings of history to the partitions that are old enough: it makes them history, moves them to their tablespace, exports and drops them. It
// returns the number of changed partitions. If a partition fails, Keep stores the reason in task_partitions.held_by and continues with the next partition. Keep
// stops after maxLocked lock timeouts in a row. It reads the settings again for each partition, because one partition can take a long time.
func (s *Service) Keep(ctx context.Context) (changed int, err error) {
	var failures []error
	var day time.Time
	for locked := 0; locked < maxLocked; {
		values, err := s.settings.Get(ctx)
		if err != nil {
			return changed, errors.Join(append(failures, err)...)
		}
		rules := values.History
		p, err := s.q.TaskPartitionNext(ctx, historyq.TaskPartitionNextParams{
			AfterDay: day, AfterDays: int32(rules.AfterDays), KeepDays: int32(rules.KeepDays),
		})
		if postgres.IsNoRows(err) {
			break
		}
		if err != nil {
			return changed, errors.Join(append(failures, fmt.Errorf("find overdue partition: %w", err))...)
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
		if ctx.Err() == nil {
			if failure := s.q.TaskPartitionHeld(ctx, historyq.TaskPartitionHeldParams{FirstDay: day, HeldBy: holderOf(err)}); failure != nil {
				failures = append(failures, ofDay(day, fmt.Errorf("record what holds it: %w", failure)))
			}
		}
		if locked++; !postgres.IsLockTimeout(err) {
			locked = 0
		}
	}
	return changed, errors.Join(failures...)
}

// settle makes a partition history. If tablespace is not empty, settle first moves the partition to this tablespace. It reports whether it changed anything.
func (s *Service) settle(ctx context.Context, p historyq.TaskPartitionNextRow, tablespace string) (changed bool, err error) {
	for moved := tablespace != ""; moved; {
		moved, err = postgres.Patiently(ctx, func() (bool, error) {
			return s.q.TaskPartitionMove(ctx, historyq.TaskPartitionMoveParams{FirstDay: p.FirstDay, Tablespace: tablespace})
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

// These errors are the reasons why a partition is not exported or dropped.
var (
	errNoPartition = errors.New("no partition begins on this day")
	errOpen        = errors.New("new tasks of these days can still arrive: wait until a day after the last day")
	errTooManyLate = fmt.Errorf("more than %d tasks of these days wait, are leased, or belong to notifications that are being sent", maxLateTasks)
	errChanging    = errors.New("rows were added during each export")
)

// holderOf returns the reason of a failure as task_partitions.held_by stores it, or an empty text if err is nil.
func holderOf(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, errNoFolder):
		return "no_folder"
	case errors.Is(err, errTooManyLate):
		return "too_many_late"
	case postgres.IsLockTimeout(err):
		return "locked"
	default:
		return "failed"
	}
}

// refusals contains the error for each result of task_partition_drop that a retry cannot change.
var refusals = map[string]error{"absent": errNoPartition, "open": errOpen}

const (
	dropped    = "dropped"
	unexported = "unexported"
)

// Drop deletes the partition that begins on firstDay, and all data about its tasks except their counts and dedup keys. It fails and changes nothing while new
// tasks can be added to the partition, which is possible until a day after its last day. Drop keeps late tasks, see lateTasks.
//
// If onlyExported is true, Drop exports the partition first, without the late tasks. It skips the export if the folder of the last export exists and contains
// all rows of the partition except those of late tasks. An ended notification disappears from lists when its first task is dropped.
func (s *Service) Drop(ctx context.Context, firstDay time.Time, onlyExported bool) error {
	mustExport := false
	for range maxDrops {
		p, err := s.over(ctx, firstDay)
		if err != nil {
			return err
		}
		late, err := s.lateTasks(ctx, p)
		if err != nil {
			return err
		}
		if onlyExported && (mustExport || !s.isExported(p) || !slices.Equal(p.ExportedLate, late)) {
			if _, err := s.export(ctx, p, late); err != nil {
				return err
			}
		}
		if err := s.options.BeforeDrop(ctx, p.LastDay, p.FirstID, p.BeforeID); err != nil {
			return err
		}
		// Late tasks are read again after BeforeDrop: BeforeDrop keeps a notification that has started to wait again meanwhile. After BeforeDrop, no other
		// notification of these tasks can start to wait.
		now, err := s.lateTasks(ctx, p)
		if err != nil {
			return err
		}
		if !slices.Equal(now, late) {
			continue
		}
		outcome, err := postgres.Patiently(ctx, func() (string, error) {
			return s.q.TaskPartitionDrop(ctx, historyq.TaskPartitionDropParams{FirstDay: p.FirstDay, OnlyExported: onlyExported, Late: late})
		})
		switch {
		case err != nil:
			return ofDay(firstDay, fmt.Errorf("drop: %w", err))
		case outcome == dropped:
			return nil
		case refusals[outcome] != nil:
			return ofDay(firstDay, refusals[outcome])
		}
		mustExport = outcome == unexported // if rows were added after the last export, the partition must be exported again
	}
	return ofDay(firstDay, errChanging)
}

// maxDrops is the maximum number of attempts to drop a partition.
const maxDrops = 4

// lateTasks returns the tasks of a partition that a drop keeps, sorted by id: tasks that wait or are leased, and tasks of one-time notifications that are still
// being sent. The latter record which people the notification has reached.
func (s *Service) lateTasks(ctx context.Context, p historyq.TaskPartitionGetRow) ([]string, error) {
	waiting, err := s.q.TaskPartitionLate(ctx, historyq.TaskPartitionLateParams{FirstID: p.FirstID, BeforeID: p.BeforeID, MaxTasks: maxLateTasks + 1})
	if err != nil {
		return nil, fmt.Errorf("find tasks that wait: %w", err)
	}
	held, err := s.options.Held(ctx, p.FirstID, p.BeforeID, maxLateTasks+1)
	if err != nil {
		return nil, err
	}
	late := append(append([]string{}, waiting...), held...)
	slices.Sort(late)
	late = slices.Compact(late)
	if len(late) > maxLateTasks {
		return nil, ofDay(p.FirstDay, errTooManyLate)
	}
	return late, nil
}

// ofDay adds the day of the partition to err.
func ofDay(firstDay time.Time, err error) error {
	return fmt.Errorf("partition of %s: %w", firstDay.Format(time.DateOnly), err)
}

// over returns the partition that begins on a day. It fails while new tasks can be added to the partition.
func (s *Service) over(ctx context.Context, firstDay time.Time) (historyq.TaskPartitionGetRow, error) {
	p, err := s.q.TaskPartitionGet(ctx, firstDay)
	switch {
	case postgres.IsNoRows(err):
		return p, ofDay(firstDay, errNoPartition)
	case err != nil:
		return p, fmt.Errorf("read partition: %w", err)
	case p.IsOpen:
		return p, ofDay(firstDay, errOpen)
	}
	return p, nil
}

// isExported reports whether the export folder of this server contains the last export of a partition.
func (s *Service) isExported(p historyq.TaskPartitionGetRow) bool {
	if p.ExportedTo == nil || s.options.Dir == "" {
		return false
	}
	_, err := os.Stat(filepath.Join(s.options.Dir, *p.ExportedTo, manifestName))
	return err == nil
}

// Partitions lists up to limit partitions that begin before a day, newest first.
func (s *Service) Partitions(ctx context.Context, before time.Time, limit int) ([]PartitionRow, error) {
	rows, err := s.q.TaskPartitionList(ctx, historyq.TaskPartitionListParams{BeforeDay: before, PageLimit: int32(limit)})
	return rows, postgres.Wrap("list partitions", err, nil)
}
