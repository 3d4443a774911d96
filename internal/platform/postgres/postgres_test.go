package postgres_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"os/exec"
	"strings"
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

// PostgreSQL would store the UTF-8 of the server as another text if it read this UTF-8 in the encoding of a role or URL.
func TestTextsAreSentAsUTF8WhateverEncodingARoleOrAURLRequests(t *testing.T) {
	t.Parallel()
	database := pgtest.NewEmpty(t)
	role := "gbk_" + strings.ToLower(rand.Text()[:12])
	admin, err := pgx.Connect(t.Context(), pgtest.Admin(t, database))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		_, _ = admin.Exec(ctx, "DROP ROLE "+role)
		admin.Close(ctx)
	})
	if _, err := admin.Exec(t.Context(), "CREATE ROLE "+role+" LOGIN PASSWORD 'gbk'; ALTER ROLE "+role+" SET client_encoding = 'GBK'"); err != nil {
		t.Fatal(err)
	}
	as := func(database string, parameters ...string) string {
		u, err := url.Parse(database)
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.UserPassword(role, "gbk")
		query := u.Query()
		for i := 0; i < len(parameters); i += 2 {
			query.Set(parameters[i], parameters[i+1])
		}
		u.RawQuery = query.Encode()
		return u.String()
	}
	urls := map[string]string{
		"role":      as(database),
		"options":   as(database, "options", "-cclient_encoding=GBK"),
		"parameter": as(database, "Client_Encoding", "GBK"),
	}
	if _, err := exec.LookPath("/usr/sbin/pgbouncer"); err == nil {
		urls["PgBouncer"] = as(pgtest.PgBouncer(t, as(database)))
	}
	const want, octets = "UTF8", 6 // two Chinese characters in UTF-8
	for name, to := range urls {
		check := func(door string, q func(sql string, to ...any) error) {
			var encoding string
			var n int
			if err := q("SELECT current_setting('client_encoding'), octet_length('短信')", &encoding, &n); err != nil || encoding != want || n != octets {
				t.Errorf("%s, %s: %s, %d bytes, %v", name, door, encoding, n, err)
			}
		}
		db, err := postgres.OpenWith(t.Context(), to, postgres.Replicas{URL: to})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		check("pool", func(sql string, to ...any) error { return db.QueryRow(t.Context(), sql).Scan(to...) })
		for _, connect := range []func(fn func(*pgx.Conn) error) error{
			func(fn func(*pgx.Conn) error) error { return postgres.WithConn(t.Context(), to, fn) },
			func(fn func(*pgx.Conn) error) error {
				conn, err := postgres.Connect(t.Context(), to, "test")
				if err != nil {
					return err
				}
				defer conn.Close(t.Context())
				return fn(conn)
			},
		} {
			check("connection", func(sql string, to ...any) error {
				return connect(func(conn *pgx.Conn) error { return conn.QueryRow(t.Context(), sql, pgx.QueryExecModeExec).Scan(to...) })
			})
		}
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
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
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
