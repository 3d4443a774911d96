package migrate_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"lksms/internal/platform/migrate"
	"lksms/internal/platform/postgres"
	"lksms/internal/testkit/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func open(t *testing.T, url string) *postgres.DB {
	t.Helper()
	db, err := postgres.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

func TestFourConcurrentMigrationsApplyEachFileOnce(t *testing.T) {
	t.Parallel()
	url := pgtest.NewEmpty(t)
	applied := make([]int, 4)
	var wg sync.WaitGroup
	for i := range applied {
		wg.Go(func() {
			n, err := migrate.Up(t.Context(), url, nil)
			if err != nil {
				t.Error(err)
			}
			applied[i] = n
		})
	}
	wg.Wait()
	list, err := migrate.List(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, n := range applied {
		total += n
	}
	if total != len(list) || total == 0 {
		t.Errorf("applied %v of %d files", applied, len(list))
	}
}

func TestIsDoneReportsMissingMigrations(t *testing.T) {
	t.Parallel()
	url := pgtest.NewEmpty(t)
	db, err := postgres.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	expect := func(want bool) {
		t.Helper()
		if got, err := migrate.IsDone(t.Context(), db); err != nil || got != want {
			t.Errorf("migrated is %v, %v; want %v", got, err, want)
		}
	}
	expect(false)
	if _, err := migrate.Up(t.Context(), url, nil); err != nil {
		t.Fatal(err)
	}
	expect(true)
	// A newer binary has migrated the database.
	if _, err := db.Pool().Exec(t.Context(), "INSERT INTO schema_migrations VALUES ('99991231000000')"); err != nil {
		t.Fatal(err)
	}
	expect(true)
	if _, err := db.Pool().Exec(t.Context(), "DELETE FROM schema_migrations WHERE version <> '99991231000000'"); err != nil {
		t.Fatal(err)
	}
	expect(false)
}

// logBuffer is a log that can be read while it is written.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// begin opens a transaction that holds a lock on a table until it is rolled back.
func begin(t *testing.T, db *postgres.DB, lock string) pgx.Tx {
	t.Helper()
	tx, err := db.Pool().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	if _, err := tx.Exec(t.Context(), lock); err != nil {
		t.Fatal(err)
	}
	return tx
}

// await returns when a query returns true.
func await(t *testing.T, db *postgres.DB, query string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for isSo := false; !isSo; {
		if err := db.Pool().QueryRow(ctx, query).Scan(&isSo); err != nil {
			t.Fatal(err)
		}
	}
}

// These are the migrations of a simulated later version.
const (
	addColumn = `-- migrate:up
ALTER TABLE queue ADD COLUMN later integer;

-- migrate:down
ALTER TABLE queue DROP COLUMN later;
`
	buildIndex = `-- migrate:up transaction:false
CREATE INDEX CONCURRENTLY IF NOT EXISTS feed_later_idx ON feed (at, id);

-- migrate:down transaction:false
DROP INDEX CONCURRENTLY IF EXISTS feed_later_idx;
`
)

// migratedDatabase returns a database with all migrations applied.
func migratedDatabase(t *testing.T) (url string, db *postgres.DB) {
	t.Helper()
	url = pgtest.New(t) + "&application_name=test"
	return url, open(t, url)
}

// A long transaction, for example of pg_dump, must not block the whole service. Statements that wait behind a waiting migration continue soon.
func TestAMigrationThatWaitsForALockDoesNotBlockStatements(t *testing.T) {
	t.Parallel()
	url, db := migratedDatabase(t)
	long := begin(t, db, "LOCK TABLE queue IN ACCESS SHARE MODE")
	log, migrated := migrating(t.Context(), url, addColumn)
	for range 2 {
		await(t, db, `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'relation' AND NOT granted AND relation = 'queue'::regclass
			AND mode = 'AccessExclusiveLock')`)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := db.Pool().Exec(ctx, "DELETE FROM queue WHERE false"); err != nil { // this statement takes the same lock as submissions, claims and reports
			t.Fatal(err)
		}
		select {
		case err := <-migrated:
			t.Fatalf("the migration did not wait: %v", err)
		default:
		}
	}
	if err := long.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-migrated; err != nil {
		t.Error(err)
	}
	await(t, db, "SELECT EXISTS (SELECT FROM pg_attribute WHERE attrelid = 'queue'::regclass AND attname = 'later')")
	if !strings.Contains(log.String(), "application_name test") {
		t.Errorf("the log does not contain the transaction that blocks the migration: %s", log)
	}
}

// A concurrent index build sets no lock timeout itself, but the role or the database can have a lock timeout.
func TestAConcurrentIndexBuildIgnoresTheLockTimeoutOfTheDatabase(t *testing.T) {
	t.Parallel()
	url, db := migratedDatabase(t)
	if _, err := db.Pool().Exec(t.Context(), "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET lock_timeout = ''100ms''', current_database()); END $$"); err != nil {
		t.Fatal(err)
	}
	long := begin(t, db, "LOCK TABLE feed IN ROW EXCLUSIVE MODE")
	log, migrated := migrating(t.Context(), url, buildIndex)
	const isInvalid = "SELECT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('feed_later_idx') AND NOT indisvalid)"
	await(t, db, isInvalid)
	for !strings.Contains(log.String(), "lock timeout") {
		select {
		case err := <-migrated:
			t.Fatalf("the migration did not wait: %v", err)
		default:
		}
	}
	if err := long.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-migrated; err != nil {
		t.Fatal(err)
	}
	await(t, db, "SELECT EXISTS (SELECT FROM pg_index WHERE indexrelid = 'feed_later_idx'::regclass AND indisvalid)")
}

// leaveUnfinished creates an invalid index, as an interrupted build does.
func leaveUnfinished(t *testing.T, db *postgres.DB, table, build string) {
	t.Helper()
	long := begin(t, db, "LOCK TABLE "+table+" IN ROW EXCLUSIVE MODE")
	conn, err := db.Pool().Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	var refused *pgconn.PgError
	for _, sql := range []string{"SET statement_timeout = '200ms'", build, "RESET statement_timeout"} {
		if _, err := conn.Exec(t.Context(), sql); err != nil && (!errors.As(err, &refused) || refused.Code != "57014") {
			t.Fatal(err)
		}
	}
	if err := long.Rollback(t.Context()); err != nil || refused == nil {
		t.Fatal("the build was not interrupted", err)
	}
}

// The index of an interrupted migration is built again, in any schema. Invalid indexes that no migration builds are kept. An invalid index of a partitioned
// table, which cannot be dropped concurrently, does not prevent a start.
func TestOnlyUnfinishedIndexesOfMigrationsAreDropped(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{"public", "own"} {
		t.Run(schema, func(t *testing.T) {
			t.Parallel()
			url := pgtest.NewEmpty(t) + "&application_name=test"
			db := open(t, url)
			exec := func(sql string) {
				t.Helper()
				if _, err := db.Pool().Exec(t.Context(), sql); err != nil {
					t.Fatal(err)
				}
			}
			exec("CREATE SCHEMA IF NOT EXISTS " + schema)
			exec("DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = " + schema + ", public', current_database()); END $$")
			db.Pool().Reset()
			if _, err := migrate.Up(t.Context(), url, nil); err != nil {
				t.Fatal(err)
			}
			exec("CREATE TABLE theirs (a int); CREATE TABLE parts (a int) PARTITION BY LIST (a); CREATE TABLE part PARTITION OF parts DEFAULT; CREATE INDEX parts_idx ON ONLY parts (a)")
			leaveUnfinished(t, db, "theirs", "CREATE INDEX CONCURRENTLY theirs_idx ON theirs (a)")
			leaveUnfinished(t, db, "feed", "CREATE INDEX CONCURRENTLY feed_later_idx ON feed (at, id)")
			const state = `SELECT string_agg(c.relname || ' ' || i.indisvalid, ', ' ORDER BY c.relname) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
				WHERE c.relname IN ('theirs_idx', 'parts_idx', 'feed_later_idx') AND c.relnamespace = to_regnamespace($1)`
			expect := func(want string) {
				t.Helper()
				var got string
				if err := db.Pool().QueryRow(t.Context(), state, schema).Scan(&got); err != nil || got != want {
					t.Errorf("the indexes are %s, %v; want %s", got, err, want)
				}
			}
			expect("feed_later_idx false, parts_idx false, theirs_idx false")
			if _, err := migrate.UpTo(t.Context(), url, buildIndex, nil); err != nil {
				t.Fatal(err)
			}
			expect("feed_later_idx true, parts_idx false, theirs_idx false")
		})
	}
}

// pendingBuilds must find every index that a migration builds concurrently, so that an interrupted build can be repeated.
func TestEveryConcurrentIndexBuildOfTheMigrationsIsFound(t *testing.T) {
	t.Parallel()
	builds, mentions, err := migrate.ConcurrentBuilds(buildIndex)
	if err != nil || builds != mentions || builds == 0 {
		t.Errorf("%d of %d CREATE INDEX CONCURRENTLY are known, %v", builds, mentions, err)
	}
}

// migrating starts to apply a migration of a later version. It returns the log, and a channel with the result.
func migrating(ctx context.Context, url, later string) (log *logBuffer, migrated chan error) {
	log, migrated = &logBuffer{}, make(chan error, 1)
	go func() {
		_, err := migrate.UpTo(ctx, url, later, slog.New(slog.NewTextHandler(log, nil)))
		migrated <- err
	}()
	return log, migrated
}

// startIndex starts a migration that builds feed_later_idx, and returns when the build waits for another transaction. The lock timeout of the migrator does not
// apply to this build.
func startIndex(ctx context.Context, t *testing.T) (db *postgres.DB, log *logBuffer, migrated chan error) {
	t.Helper()
	url, db := migratedDatabase(t)
	begin(t, db, "LOCK TABLE feed IN ROW EXCLUSIVE MODE")
	log, migrated = migrating(ctx, url, buildIndex)
	await(t, db, "SELECT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('feed_later_idx') AND NOT indisvalid)")
	return db, log, migrated
}

// nobodyBuilds returns true when no session builds an index.
const nobodyBuilds = `SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%CREATE INDEX CONCURRENTLY%'
	AND pid <> pg_backend_pid() AND state = 'active')`

func TestAWaitingIndexBuildIsLoggedAndCancelledWithItsProcess(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	db, log, migrated := startIndex(ctx, t)
	for !strings.Contains(log.String(), "application_name test") {
		select {
		case err := <-migrated:
			t.Fatalf("the migration did not wait: %v", err)
		default:
		}
	}
	cancel()
	if err := <-migrated; !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "has not ended") {
		t.Errorf("the migration ended with %v", err)
	}
	await(t, db, nobodyBuilds)
}

// In a database without an encoding, PostgreSQL does not check text, and would store text that no client can read.
func TestADatabaseWithoutUTF8IsRefused(t *testing.T) {
	t.Parallel()
	url := pgtest.NewEmpty(t)
	other := "latin_" + strings.ToLower(rand.Text()[:12])
	admin := open(t, pgtest.Admin(t, url))
	if _, err := admin.Exec(t.Context(), "CREATE DATABASE "+other+" ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = admin.Exec(context.WithoutCancel(t.Context()), "DROP DATABASE "+other+" WITH (FORCE)") })
	at := regexp.MustCompile(`/test_[a-z0-9]+`).ReplaceAllString(pgtest.Admin(t, url), "/"+other)
	if _, err := migrate.Up(t.Context(), at, nil); err == nil || !strings.Contains(err.Error(), "the encoding SQL_ASCII and not UTF8") {
		t.Errorf("%v", err)
	}
}

// The driver of dbmate refuses every other encoding.
func TestMigrationsIgnoreTheEncodingOfTheURL(t *testing.T) {
	t.Parallel()
	for _, parameter := range []string{"client_encoding=GBK", "options=-c%20client_encoding%3DGBK"} {
		url := pgtest.NewEmpty(t)
		if _, err := migrate.Up(t.Context(), url+"&"+parameter, nil); err != nil {
			t.Errorf("%s: %v", parameter, err)
		}
		var isWhole bool
		if err := open(t, url).QueryRow(t.Context(), "SELECT bool_and(sql_inbox_number(n) = '13712345678') FROM (VALUES ('137\u200b12345678')) AS v (n)").Scan(&isWhole); err != nil || !isWhole {
			t.Errorf("%s: functions contain other characters: %v", parameter, err)
		}
	}
}

// Without the migration lock, a migration would run concurrently with the migration of another server.
func TestAMigrationEndsWhenItsLockIsLost(t *testing.T) {
	t.Parallel()
	db, _, migrated := startIndex(t.Context(), t)
	await(t, db, `SELECT count(pg_terminate_backend(l.pid)) = 1 FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
		WHERE l.relation = 'schema_migrations'::regclass AND l.mode = 'ShareUpdateExclusiveLock' AND l.granted AND a.datname = current_database() AND a.application_name = 'lksms migrate'`)
	if err := <-migrated; !errors.Is(err, postgres.ErrLockLost) || strings.Contains(err.Error(), "has not ended") {
		t.Errorf("the migration ended with %v", err)
	}
	await(t, db, nobodyBuilds)
}
