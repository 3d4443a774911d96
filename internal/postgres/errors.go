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

	"lksms/internal/fault"
)

// IsNoRows reports whether a :one query found nothing.
func IsNoRows(err error) bool { return errors.Is(err, pgx.ErrNoRows) }

// Violates reports whether err is the violation of the named constraint.
func Violates(err error, constraint string) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.ConstraintName == constraint
}

// isCode reports whether err is PostgreSQL's error with this SQLSTATE.
func isCode(err error, code string) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == code
}

// IsReferred reports whether err is a deletion of what others refer to.
func IsReferred(err error) bool { return isCode(err, "23503") }

// IsBadParameter reports whether a function was given a value that it does not know.
func IsBadParameter(err error) bool { return isCode(err, "22023") }

// IsText reports whether s is text that PostgreSQL keeps.
func IsText(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }

// Text is s without what PostgreSQL would not keep.
func Text(s string) string { return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "\uFFFD") }

// Wrap names the act that failed. Where a query found nothing, it returns none instead, unless that is nil, and where a table
// would hold more rows than it may, the fault limit.reached. A nil err gives nil.
func Wrap(act string, err error, none *fault.Error) error {
	switch {
	case err == nil:
		return nil
	case none != nil && IsNoRows(err):
		return none
	}
	if most, isPassed := rowsBound(err); isPassed {
		return fault.AtLimit(most)
	}
	return fmt.Errorf("%s: %w", act, err)
}

// rowsBound tells whether a trigger refused rows because a table would hold too many, and how many it may hold. The triggers of the
// function rows_bound have the numbers.
func rowsBound(err error) (most int64, isPassed bool) {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.ConstraintName != "rows_bound" {
		return 0, false
	}
	most, parsed := strconv.ParseInt(pg.Detail, 10, 64)
	return most, parsed == nil
}

// IsUnavailable reports whether err means that the database could not be asked, or did not answer in time: the same
// request may work later.
func IsUnavailable(err error) bool {
	var connect *pgconn.ConnectError
	if errors.As(err, &connect) { // whatever PostgreSQL says then, XX000 for one when it cannot write a file
		return true
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		// Connection, resources, operator intervention, system; a deadlock that this one was taken out of; and a read-only standby.
		return slices.ContainsFunc([]string{"08", "53", "57", "58", "40P01", "25006"}, func(class string) bool {
			return strings.HasPrefix(pg.Code, class)
		})
	}
	var network net.Error
	return errors.As(err, &network) || pgconn.Timeout(err) ||
		errors.Is(err, context.DeadlineExceeded) || isClosed(err)
}

// IsDeadlock reports whether PostgreSQL ended the transaction because it and another one waited for each other.
func IsDeadlock(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "40P01"
}

// isClosed knows a connection that was lost under a query; pgconn gives it no type of its own.
func isClosed(err error) bool {
	text := err.Error()
	return strings.Contains(text, "conn closed") || strings.Contains(text, "unexpected EOF") ||
		strings.Contains(text, "closed pool")
}

// redact keeps the password out of the errors of URL parsing.
func redact(err error) error {
	var parse *pgconn.ParseConfigError
	if errors.As(err, &parse) {
		return errors.New("DATABASE_URL is not a PostgreSQL connection string")
	}
	return err
}
