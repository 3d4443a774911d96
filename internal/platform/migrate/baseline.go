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

// Version 1.0 starts with baseline migrations, which create the tables in an empty database. A database with all migrations that are older than version 1.0
// already has these tables. Only some names differ, which no statement uses: the indexes of default partitions, and the primary key of the default partition of
// the ledger.
const (
	baselineFirst = "20261127000001"
	baselineLast  = "20261127000010"
	earlierLast   = "20261126220030" // last migration that is older than version 1.0
	earlierCount  = 246              // number of migrations that are older than version 1.0
	earlierCommit = "28b18f70"       // commit that contained all migrations that are older than version 1.0
)

// errEarlier is the error for a database that lacks migrations that are older than version 1.0.
var errEarlier = fmt.Errorf("this database (of LKSMS_DATA or DATABASE_URL) is from before version 1.0 and lacks changes of that time: "+
	"run `lksms migrate up` of commit %s first, and then this version; or name an empty one", earlierCommit)

// errBaseline is the error for reverting a baseline migration.
var errBaseline = errors.New("there is no version before 1.0 to go back to: drop the database instead")

// isBaseline reports whether a version or file name belongs to a baseline migration.
func isBaseline(version string) bool {
	version, _, _ = strings.Cut(version, "_")
	return version <= baselineLast
}

// adopt records the baseline migrations as applied in a database with all migrations that are older than version 1.0. adopt keeps the rows of the earlier
// migrations: servers of the previous version count these rows to check whether the database is migrated, also after an upgrade is reverted.
func adopt(ctx context.Context, conn *pgx.Conn) error {
	var exists bool // checked before the table is created, because a role without the right to migrate cannot create it
	if err := conn.QueryRow(ctx, "SELECT to_regclass('schema_migrations') IS NOT NULL").Scan(&exists); err != nil || !exists {
		return postgres.Wrap("search migrations", err, nil)
	}
	var earlier, adopted int
	var last string
	err := conn.QueryRow(ctx, `SELECT count(*) FILTER (WHERE version < $1), coalesce(max(version) FILTER (WHERE version < $1), ''), count(*) FILTER (WHERE version BETWEEN $1 AND $2)
		FROM schema_migrations`, baselineFirst, baselineLast).Scan(&earlier, &last, &adopted)
	switch {
	case err != nil:
		return fmt.Errorf("search earlier migrations: %w", err)
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
