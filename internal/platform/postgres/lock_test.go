package postgres_test

import (
	"context"
	"testing"
	"time"

	"lksms/internal/platform/postgres"
	"lksms/internal/testkit/pgtest"
)

func open(t *testing.T, url string) *postgres.DB {
	t.Helper()
	db, err := postgres.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

func tryLock(t *testing.T, db *postgres.DB, name string) *postgres.Lock {
	t.Helper()
	lock, err := db.TryLock(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return lock
}

func TestOnlyOneServerAtATimeOwnsALock(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	first, second := open(t, url), open(t, url)
	held := tryLock(t, first, "age-tasks")
	if tryLock(t, second, "age-tasks") != nil {
		t.Error("both servers hold the lock")
	}
	other := tryLock(t, second, "feed")
	if other == nil {
		t.Fatal("the lock of feed is not free")
	}
	for _, lock := range []*postgres.Lock{other, held} {
		if err := lock.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	again := tryLock(t, second, "age-tasks")
	if again == nil {
		t.Fatal("the lock is not free after its unlock")
	}
	if err := again.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestALockDoesNotDelayVacuum(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	db := open(t, url)
	// With these defaults of the role, transactions are serializable and end when idle.
	if _, err := db.Exec(t.Context(), `DO $$ BEGIN EXECUTE format('ALTER ROLE %I IN DATABASE %I SET default_transaction_isolation = ''serializable''',
		current_user, current_database()); EXECUTE format('ALTER ROLE %I IN DATABASE %I SET idle_in_transaction_session_timeout = ''1s''',
		current_user, current_database()); END $$`); err != nil {
		t.Fatal(err)
	}
	lock := tryLock(t, open(t, url), "age-tasks")
	const query = `SELECT count(*), count(*) FILTER (WHERE a.state = 'idle in transaction' AND a.backend_xmin IS NULL AND a.backend_xid IS NULL)
		FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE l.relation = 'lock_age_tasks'::regclass AND a.datname = current_database()`
	for range 30 { // 30 repetitions last longer than the timeout of the role, and than the time until the first check of the connection
		var held, free int
		if err := db.QueryRow(t.Context(), query).Scan(&held, &free); err != nil {
			t.Fatal(err)
		}
		if held != 1 || free != 1 {
			t.Fatalf("%d transactions hold the lock, %d of them without a snapshot and an id", held, free)
		}
		time.Sleep(100 * time.Millisecond)
	}
	if err := lock.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestALostLockCancelsTheContextOfItsOwner(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	db := open(t, url)
	lock := tryLock(t, db, "age-tasks")
	while, cancel := lock.While(t.Context())
	defer cancel()
	const kill = `SELECT pg_terminate_backend(l.pid) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
		WHERE l.relation = 'lock_age_tasks'::regclass AND d.datname = current_database()`
	if _, err := db.Exec(t.Context(), kill); err != nil {
		t.Fatal(err)
	}
	select {
	case <-while.Done():
		if cause := context.Cause(while); cause != postgres.ErrLockLost { //nolint:errorlint // the cause is not wrapped
			t.Errorf("the cause is %v", cause)
		}
	case <-time.After(time.Minute):
		t.Error("the context of the owner did not end")
	}
	if lock.Unlock(t.Context()) == nil {
		t.Error("the unlock of a lost lock succeeds")
	}
	again := tryLock(t, db, "age-tasks")
	if again == nil {
		t.Fatal("the lock is not free")
	}
	if err := again.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
}
