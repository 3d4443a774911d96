package postgres

import (
	"context"
	"fmt"
	"time"

	"lksms/internal/platform/fault"
)

var (
	errStale = fault.New(fault.Conflict, fault.VersionStale)
	errInUse = fault.New(fault.Conflict, fault.InUse)
)

// One returns the first row. If rows is empty, it returns the error in the argument none.
func One[Row any](rows []Row, err error, act string, none error) (Row, error) {
	var zero Row
	if err != nil {
		return zero, fmt.Errorf("%s: %w", act, err)
	}
	if len(rows) == 0 {
		return zero, none
	}
	return rows[0], nil
}

// patchTries is the number of attempts of Patch without a version, if other callers change the row meanwhile.
const patchTries = 10

// Patch changes a row: it reads the row, and writes it if its version is unchanged. If version is not nil and the row has another version, Patch returns the
// fault version.stale. If version is nil, Patch reads the row again after a concurrent change.
func Patch[Row any](version *int64, read func() (Row, error), versionOf func(Row) int64, write func(Row) (int64, error)) (Row, error) {
	var zero Row
	for tries := 1; ; tries++ {
		row, err := read()
		if err != nil {
			return zero, err
		}
		if version != nil && *version != versionOf(row) {
			return zero, errStale
		}
		switch n, err := write(row); {
		case err != nil:
			return zero, err
		case n > 0:
			return read()
		case version != nil || tries == patchTries:
			return zero, errStale
		}
	}
}

// DeletedOne returns the result of a deletion that removed n rows. If n is 0, it returns the error in the argument none.
func DeletedOne(n int64, err error, act string, none *fault.Error) error {
	if err == nil && n == 0 {
		return none
	}
	return Wrap(act, err, nil)
}

// Deleted returns the result of a deletion that removed n rows. If n is 0, Deleted returns the error of get, because the row is missing. If other rows
// reference the row, Deleted returns the fault in_use.
func Deleted[Row any](n int64, err error, act string, get func() (Row, error)) error {
	switch {
	case isReferred(err):
		return errInUse
	case err != nil:
		return fmt.Errorf("%s: %w", act, err)
	case n > 0:
		return nil
	}
	if _, err := get(); err != nil {
		return err
	}
	return errInUse
}

// InBatches repeats change, which changes up to batch rows, until change changes fewer rows. It returns the total.
func InBatches(batch int64, change func() (int64, error)) (int, error) {
	for total := int64(0); ; {
		n, err := change()
		if total += n; err != nil || n < batch {
			return int(total), err
		}
	}
}

// Again calls run up to maxTries times, while run fails because a partition was being created or because of a deadlock. In a transaction of the caller, Again
// calls run only once, because the transaction has failed: the whole request can succeed later.
func Again[Out any](ctx context.Context, db *DB, run func() (Out, error)) (Out, error) {
	for tries := 1; ; tries++ {
		out, err := run()
		if tries == maxTries || db.InTx(ctx) || !isPartitionBeingCreated(err) && !IsDeadlock(err) {
			return out, err
		}
	}
}

// maxTries is the maximum number of calls by Again. The second call can also end with a deadlock, if the other transaction has not continued yet.
const maxTries = 3

// Statements that change partitions have a short lock timeout, because other statements wait behind them.
const (
	lockTries = 20
	lockPause = 2 * time.Second
)

// Patiently repeats do while do fails because of a lock timeout.
func Patiently[Out any](ctx context.Context, do func() (Out, error)) (Out, error) {
	for tries := 1; ; tries++ {
		out, err := do()
		if !IsLockTimeout(err) || tries == lockTries {
			return out, err
		}
		select {
		case <-ctx.Done():
			return out, ctx.Err()
		case <-time.After(lockPause):
		}
	}
}
