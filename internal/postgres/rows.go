package postgres

import (
	"fmt"

	"lksms/internal/fault"
)

var (
	errStale = fault.New(fault.Conflict, fault.VersionStale)
	errInUse = fault.New(fault.Conflict, fault.InUse)
)

// One returns the only row, or none.
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

// Updated returns the row that an update left which names a version and changed n rows. Without any, the row is missing, which get says,
// or has another version: version.stale.
func Updated[Row any](n int64, err error, act string, get func() (Row, error)) (Row, error) {
	var zero Row
	if err != nil {
		return zero, fmt.Errorf("%s: %w", act, err)
	}
	row, err := get()
	if err == nil && n == 0 {
		return zero, errStale
	}
	return row, err
}

// Deleted returns what a deletion that removed n rows means. Without any, the row is missing, which get says, or others refer to it:
// in_use.
func Deleted[Row any](n int64, err error, act string, get func() (Row, error)) error {
	switch {
	case IsReferred(err):
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
