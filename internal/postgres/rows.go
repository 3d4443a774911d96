package postgres

import (
	"fmt"

	"lksms/internal/fault"
)

var (
	errStale = fault.New(fault.Conflict, fault.VersionStale)
	errInUse = fault.New(fault.Conflict, fault.InUse)
)

// One returns the first row, or the error none if rows is empty.
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

// Updated returns the row after an update with a version condition that changed n rows. If n is 0, the row is
// missing, and the error of get is returned, or it has another version, and the fault is version.stale.
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

// Deleted returns the result of a deletion that removed n rows. If n is 0, the row is missing, and the error of get
// is returned, or other rows reference it, and the fault is in_use.
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
