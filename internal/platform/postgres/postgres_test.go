package postgres_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"lksms/internal/platform/postgres"
	"lksms/internal/testkit/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// A refused session counts as unavailable whatever the reason, because PostgreSQL can accept the session later.
func TestARefusedSessionCountsAsAnUnavailableDatabase(t *testing.T) {
	t.Parallel()
	db, err := postgres.Open(t.Context(), pgtest.NewEmpty(t))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	config := db.Pool().Config().ConnConfig.Copy()
	config.Database = "is_not_there" // gives the SQLSTATE 3D000, whose class does not mean unavailable
	_, err = pgx.ConnectConfig(t.Context(), config)
	if err == nil || !postgres.IsUnavailable(fmt.Errorf("read settings: %w", err)) {
		t.Errorf("%v", err)
	}
}

func TestADispatchStatementIsRefusedInsideAnotherTransaction(t *testing.T) {
	t.Parallel()
	db, err := postgres.Open(t.Context(), pgtest.New(t))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	run := func(ctx context.Context) error {
		return db.Dispatch(ctx, func(postgres.Runner) error { return nil })
	}
	if err := db.Tx(t.Context(), run); err == nil {
		t.Error("the dispatch ran inside another transaction")
	}
	if err := run(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestLocksUseNoConnectionsOfTheMainPool(t *testing.T) {
	t.Parallel()
	db, err := postgres.Open(t.Context(), pgtest.New(t))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	tables, err := db.Query(ctx, `SELECT replace(substr(relname, 6), '_', '-') FROM pg_class WHERE relname LIKE 'lock\_%' AND relkind = 'r'
		ORDER BY relname LIMIT 16`) // 16 tables, because the main pool has 16 connections
	if err != nil {
		t.Fatal(err)
	}
	names, err := pgx.CollectRows(tables, pgx.RowTo[string])
	if err != nil || len(names) != 16 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		lock, err := db.TryLock(ctx, name)
		if err != nil || lock == nil {
			t.Fatalf("lock %s: %v, %v", name, lock, err)
		}
		defer func() { _ = lock.Unlock(ctx) }()
	}
	if _, err := db.Exec(ctx, "SELECT 1"); err != nil {
		t.Errorf("a statement of a job: %v", err)
	}
}
