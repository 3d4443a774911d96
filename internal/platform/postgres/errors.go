package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"lksms/internal/platform/fault"
)

// IsNoRows reports whether a :one query found nothing.
func IsNoRows(err error) bool { return errors.Is(err, pgx.ErrNoRows) }

// Violates reports whether err is a violation of the named constraint.
func Violates(err error, constraint string) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.ConstraintName == constraint
}

// isCode reports whether err is an error of PostgreSQL with this SQLSTATE.
func isCode(err error, code string) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == code
}

// readOnly is the SQLSTATE with which a standby, or a read-only primary, refuses a write.
const readOnly = "25006"

// isReferred reports whether err is the failed deletion of a row that other rows reference.
func isReferred(err error) bool { return isCode(err, "23503") }

// IsText reports whether PostgreSQL can store s as text: valid UTF-8 without NUL.
func IsText(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }

// Text returns s without NUL, and with invalid UTF-8 replaced, so that PostgreSQL can store it.
func Text(s string) string { return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "\uFFFD") }

// Wrap adds the name of the failed action to err. It returns nil if err is nil, the argument none if the query found no row and none is not nil, and the fault
// limit.reached if the trigger rows_bound rejected the row.
func Wrap(act string, err error, none *fault.Error) error {
	switch {
	case err == nil:
		return nil
	case none != nil && IsNoRows(err):
		return none
	}
	if limit, isReached := rowsBound(err); isReached {
		return fault.AtLimit(limit)
	}
	return fmt.Errorf("%s: %w", act, err)
}

// rowsBound reports whether the trigger rows_bound rejected rows because a table would contain too many rows, and returns the maximum.
func rowsBound(err error) (limit int64, isReached bool) {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.ConstraintName != "rows_bound" {
		return 0, false
	}
	limit, parsed := strconv.ParseInt(pg.Detail, 10, 64)
	return limit, parsed == nil
}

// IsUnavailable reports whether err means that the database could not be reached or did not answer in time. The same request can succeed later.
func IsUnavailable(err error) bool {
	var connect *pgconn.ConnectError
	if errors.As(err, &connect) { // a connection error can have any SQLSTATE: a full disk causes XX000
		return true
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		// Classes: connection, resources, operator intervention, system. Codes: a deadlock that ended this
		// transaction, a lock that was not free in time, and a read-only standby.
		return isPartitionBeingCreated(err) || slices.ContainsFunc([]string{"08", "53", "57", "58", "40P01", "55P03", readOnly}, func(class string) bool {
			return strings.HasPrefix(pg.Code, class)
		})
	}
	var network net.Error
	return errors.As(err, &network) || pgconn.Timeout(err) ||
		errors.Is(err, context.DeadlineExceeded) || isClosed(err)
}

// isPartitionBeingCreated reports whether a row was rejected because its partition was being created. The same statement succeeds when it is repeated.
func isPartitionBeingCreated(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "23514" && pg.ConstraintName == "" && strings.HasSuffix(pg.TableName, "_default")
}

// IsLockTimeout reports whether a statement failed because it did not get a lock in time.
func IsLockTimeout(err error) bool { return isCode(err, "55P03") }

// IsDeadlock reports whether PostgreSQL ended the transaction because of a deadlock.
func IsDeadlock(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "40P01"
}

// isClosed reports whether err means that the connection was lost during a query. pgconn has no error type for this case.
func isClosed(err error) bool {
	text := err.Error()
	return strings.Contains(text, "conn closed") || strings.Contains(text, "unexpected EOF") ||
		strings.Contains(text, "closed pool")
}

// redact replaces errors of URL parsing, which can contain the password.
func redact(err error) error { return redactAs("DATABASE_URL", err) }

// redactAs works like redact for the URL in the named variable.
func redactAs(variable string, err error) error {
	var parse *pgconn.ParseConfigError
	if errors.As(err, &parse) {
		return errors.New(variable + " is not a PostgreSQL connection string")
	}
	return err
}
