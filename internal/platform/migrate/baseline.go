package migrate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"lksms/internal/platform/postgres"
)

// Version 1.0 begins with files that make an empty database. A database that had all migrations of the time before has the same tables already, except
// for what no statement sees: names of indexes of default partitions, and the primary key of that of the ledger.
const (
	baselineFirst = "20261127000001"
	baselineLast  = "20261127000010"
	earlierLast   = "20261126220030" // the last migration of the time before
	earlierCount  = 246              // how many there were
	earlierCommit = "28b18f70"       // the commit that had them all
)

// errEarlier is the error for a database that lacks migrations of the time before version 1.0.
var errEarlier = fmt.Errorf("this database (of LKSMS_DATA or DATABASE_URL) is from before version 1.0 and lacks changes of that time: "+
	"run `lksms migrate up` of commit %s first, and then this version; or name an empty one", earlierCommit)

// errBaseline is the error for undoing the files that make an empty database.
var errBaseline = errors.New("there is no version before 1.0 to go back to: drop the database instead")

// isBaseline reports whether a version or file makes an empty database.
func isBaseline(version string) bool {
	version, _, _ = strings.Cut(version, "_")
	return version <= baselineLast
}

// adopt records the files that make an empty database as applied on a database that had all migrations of the time before. Their rows stay: servers of
// the version before count them to see whether the database is migrated, and find it as they left it if an upgrade is taken back.
func adopt(ctx context.Context, conn *pgx.Conn) error {
	var exists bool // a role that may not migrate could not make the table
	if err := conn.QueryRow(ctx, "SELECT to_regclass('schema_migrations') IS NOT NULL").Scan(&exists); err != nil || !exists {
		return postgres.Wrap("look for migrations", err, nil)
	}
	var earlier, adopted int
	var last string
	err := conn.QueryRow(ctx, `SELECT count(*) FILTER (WHERE version < $1), coalesce(max(version) FILTER (WHERE version < $1), ''), count(*) FILTER (WHERE version BETWEEN $1 AND $2)
		FROM schema_migrations`, baselineFirst, baselineLast).Scan(&earlier, &last, &adopted)
	switch {
	case err != nil:
		return fmt.Errorf("look for earlier migrations: %w", err)
	case earlier == 0 || adopted > 0:
		return nil
	case earlier != earlierCount || last != earlierLast:
		return errEarlier
	}
	versions, err := knownVersions()
	if err != nil {
		return err
	}
	versions = slices.DeleteFunc(versions, func(version string) bool { return !isBaseline(version) })
	if _, err := conn.Exec(ctx, "INSERT INTO schema_migrations SELECT unnest($1::text[])", versions); err != nil {
		return fmt.Errorf("record the first migrations: %w", err)
	}
	return nil
}
