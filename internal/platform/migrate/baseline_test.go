package migrate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"lksms/internal/platform/migrate"
	"lksms/internal/platform/postgres"
	"lksms/internal/testkit/pgtest"
)

// undoLater reverts the migrations after the baseline. It returns the number of reverted migrations, and the error for the first migration that cannot be
// reverted.
func undoLater(t *testing.T, url string) (n int, err error) {
	t.Helper()
	for ; err == nil; n++ {
		err = migrate.Down(t.Context(), url, nil)
	}
	return n - 1, err
}

// ofBefore returns a database with only the tables of the baseline. The database records the first count migrations that are older than version 1.0 as applied.
// later is the number of migrations after the baseline.
func ofBefore(t *testing.T, count int) (url string, db *postgres.DB, later int) {
	t.Helper()
	url = pgtest.New(t)
	db = open(t, url)
	later, _ = undoLater(t, url)
	versions := []string{migrate.EarlierLast}
	for i := range migrate.EarlierCount - 1 {
		versions = append(versions, fmt.Sprint(20261121000001+i))
	}
	slices.Sort(versions)
	if _, err := db.Pool().Exec(t.Context(), "WITH gone AS (DELETE FROM schema_migrations) INSERT INTO schema_migrations SELECT unnest($1::text[])", versions[:count]); err != nil {
		t.Fatal(err)
	}
	return url, db, later
}

// A database of the last version before 1.0 contains all tables of the baseline. Servers of that version continue to run, because they check only their own migrations.
func TestADatabaseOfThePreviousVersionIsAdopted(t *testing.T) {
	t.Parallel()
	url, db, later := ofBefore(t, migrate.EarlierCount)
	if isMigrated, err := migrate.IsDone(t.Context(), db); err != nil || isMigrated {
		t.Errorf("before: migrated is %v, %v", isMigrated, err)
	}
	for _, want := range []int{later, 0} {
		if n, err := migrate.Up(t.Context(), url, nil); err != nil || n != want {
			t.Fatalf("%d were applied, want %d; %v", n, want, err)
		}
	}
	if isMigrated, err := migrate.IsDone(t.Context(), db); err != nil || !isMigrated {
		t.Errorf("migrated is %v, %v", isMigrated, err)
	}
	var earlier int
	if err := db.Pool().QueryRow(t.Context(), "SELECT count(*) FROM schema_migrations WHERE version <= $1", migrate.EarlierLast).Scan(&earlier); err != nil || earlier != migrate.EarlierCount {
		t.Errorf("%d migrations of before are left, %v", earlier, err)
	}
	if n, err := migrate.UpTo(t.Context(), url, addColumn, nil); err != nil || n != 1 {
		t.Errorf("%d migrations of a later version were applied, %v", n, err)
	}
}

func TestTheErrorForAnEarlierDatabaseNamesTheVersionToInstallFirst(t *testing.T) {
	t.Parallel()
	for _, count := range []int{1, migrate.EarlierCount - 1} {
		url, db, _ := ofBefore(t, count)
		_, err := migrate.Up(t.Context(), url, nil)
		for _, want := range []string{"LKSMS_DATA or DATABASE_URL", "from before version 1.0", "lksms migrate up", "an empty one"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("with %d migrations: the error %v does not contain %q", count, err, want)
			}
		}
		if isMigrated, err := migrate.IsDone(t.Context(), db); err != nil || isMigrated {
			t.Errorf("with %d migrations, migrated is %v, %v", count, isMigrated, err)
		}
	}
}

func TestBaselineMigrationsCannotBeReverted(t *testing.T) {
	t.Parallel()
	url, db := migratedDatabase(t)
	if _, err := migrate.UpTo(t.Context(), url, addColumn, nil); err != nil {
		t.Fatal(err)
	}
	if err := migrate.DownFrom(t.Context(), url, addColumn); err != nil {
		t.Errorf("a migration of a later version: %v", err)
	}
	if _, err := undoLater(t, url); !strings.Contains(err.Error(), "drop the database") {
		t.Errorf("the first ones: %v", err)
	}
	if _, err := migrate.Up(t.Context(), url, nil); err != nil {
		t.Fatal(err)
	}
	if isMigrated, err := migrate.IsDone(t.Context(), db); err != nil || !isMigrated {
		t.Errorf("migrated is %v, %v", isMigrated, err)
	}
}

// A migration after the baseline can be reverted and applied again. Reverting removes everything that the migration created.
func TestEveryLaterMigrationCanBeRevertedAndAppliedAgain(t *testing.T) {
	t.Parallel()
	url, db := migratedDatabase(t)
	objects := func() (n int) {
		t.Helper()
		if err := db.Pool().QueryRow(t.Context(), "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := objects()
	all, err := migrate.List(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	steps := 0
	for _, migration := range all {
		if !migrate.IsBaseline(migration.File) {
			steps++
		}
	}
	for range steps {
		if err := migrate.Down(t.Context(), url, nil); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := migrate.Up(t.Context(), url, nil); err != nil || n != steps {
		t.Errorf("up again applied %d, want %d: %v", n, steps, err)
	}
	if after := objects(); after != before {
		t.Errorf("%d tables and indexes, want %d", after, before)
	}
}
