package postgres_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"lksms/internal/postgres"
)

// logBuffer is a log that is read while it is written.
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

// await returns once a query is true.
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

// A long transaction, as that of pg_dump, must not stop a whole service: whatever comes behind a migration that waits for it goes on soon.
func TestAMigrationThatWaitsForALockLetsOthersGoOn(t *testing.T) {
	t.Parallel()
	url, db := migratedBefore(t, "20261124133000") // adds a column to queue
	long := begin(t, db, "LOCK TABLE queue IN ACCESS SHARE MODE")
	log := &logBuffer{}
	migrated := make(chan error, 1)
	go func() {
		_, err := postgres.MigrateUpWith(t.Context(), url, slog.New(slog.NewTextHandler(log, nil)))
		migrated <- err
	}()
	for range 2 {
		await(t, db, `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'relation' AND NOT granted AND relation = 'queue'::regclass
			AND mode = 'AccessExclusiveLock')`)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := db.Pool().Exec(ctx, "DELETE FROM queue WHERE false"); err != nil { // takes the lock of submissions, claims and reports
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
	await(t, db, "SELECT EXISTS (SELECT FROM pg_attribute WHERE attrelid = 'queue'::regclass AND attname = 'start_until')")
	if !strings.Contains(log.String(), "application_name test") {
		t.Errorf("the log does not say for whom the migration waits: %s", log)
	}
}

// CREATE INDEX CONCURRENTLY sets no limit itself, but a role or a database may have one.
func TestAnIndexThatIsBuiltConcurrentlyOutlastsALimitOfTheDatabase(t *testing.T) {
	t.Parallel()
	url, db := migratedBefore(t, "20261124125000") // builds feed_at_idx
	if _, err := db.Pool().Exec(t.Context(), "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET lock_timeout = ''100ms''', current_database()); END $$"); err != nil {
		t.Fatal(err)
	}
	long := begin(t, db, "LOCK TABLE feed IN ROW EXCLUSIVE MODE")
	log := &logBuffer{}
	migrated := make(chan error, 1)
	go func() {
		_, err := postgres.MigrateUpWith(t.Context(), url, slog.New(slog.NewTextHandler(log, nil)))
		migrated <- err
	}()
	const isInvalid = "SELECT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('feed_at_idx') AND NOT indisvalid)"
	await(t, db, isInvalid)
	for !strings.Contains(log.String(), "a migration waits") {
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
	await(t, db, "SELECT EXISTS (SELECT FROM pg_index WHERE indexrelid = 'feed_at_idx'::regclass AND indisvalid)")
}
