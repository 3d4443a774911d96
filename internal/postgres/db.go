// Package postgres is how the rest of the service meets PostgreSQL: the pool, transactions, errors, migrations, and a
// private server where none is given.
package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"lksms/gen/dbq"
)

// DB is a pool of connections to one database, and a small one beside it: what everybody waits for must not stand in line
// behind everybody, nor wait for a connection inside somebody's transaction.
type DB struct {
	Pool   *pgxpool.Pool
	Beside *pgxpool.Pool
}

// besideConns is the size of the pool beside.
const besideConns = 2

// maxConns is the size of the pool when the URL does not set pool_max_conns. A few statements at once keep a small
// server busy; more only queue inside it.
const maxConns = 16

// Open returns a DB on url. It connects when it is first used, so that a server may start before its database.
func Open(ctx context.Context, url string) (*DB, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("read database URL: %w", redact(err))
	}
	if cfg.MaxConns < maxConns {
		cfg.MaxConns = maxConns
	}
	cfg.MaxConnIdleTime = 5 * time.Minute
	cfg.ConnConfig.ConnectTimeout = 5 * time.Second
	if _, set := cfg.ConnConfig.RuntimeParams["application_name"]; !set {
		cfg.ConnConfig.RuntimeParams["application_name"] = "lksms"
	}
	cfg.AfterConnect = func(_ context.Context, conn *pgx.Conn) error {
		conn.TypeMap().RegisterType(&pgtype.Type{
			Name: "timestamptz", OID: pgtype.TimestamptzOID, Codec: &pgtype.TimestamptzCodec{ScanLocation: time.UTC},
		})
		return nil
	}
	small := cfg.Copy()
	small.MaxConns, small.MinConns = besideConns, 0
	db := &DB{}
	if db.Pool, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return nil, fmt.Errorf("open pool: %w", redact(err))
	}
	if db.Beside, err = pgxpool.NewWithConfig(ctx, small); err != nil {
		db.Pool.Close()
		return nil, fmt.Errorf("open pool: %w", redact(err))
	}
	return db, nil
}

// Close waits for every connection to come back and closes them.
func (db *DB) Close() {
	db.Pool.Close()
	db.Beside.Close()
}

// Tx runs fn in a transaction, which the ctx of fn carries: every query through db with that ctx is part of it. It is
// committed when fn returns nil and rolled back otherwise. Inside a transaction Tx is a part of it, which can be rolled
// back alone.
func (db *DB) Tx(ctx context.Context, fn func(ctx context.Context) error) error {
	if outer := db.txOf(ctx); outer != nil {
		return pgx.BeginFunc(ctx, outer.tx, func(tx pgx.Tx) error { // a savepoint
			return fn(context.WithValue(ctx, txKey{db}, &transaction{tx: tx, root: outer.root}))
		})
	}
	t := &transaction{}
	t.root = t
	err := pgx.BeginTxFunc(ctx, db.Pool, pgx.TxOptions{BeginQuery: begin}, func(tx pgx.Tx) error {
		t.tx = tx
		return fn(context.WithValue(ctx, txKey{db}, t))
	})
	if err == nil {
		for _, do := range t.after {
			do()
		}
	}
	return err
}

// AfterCommit does something when the transaction of ctx has been committed: now, if there is none. It is for hints; after
// a crash they are not given.
func (db *DB) AfterCommit(ctx context.Context, do func()) {
	if t := db.txOf(ctx); t != nil {
		t.root.after = append(t.root.after, do)
		return
	}
	do()
}

type txKey struct{ db *DB }

// transaction is what a ctx carries. One goroutine uses it.
type transaction struct {
	tx    pgx.Tx
	root  *transaction // the outermost, which is what commits
	after []func()
}

// txOf is the transaction of ctx, or nil.
func (db *DB) txOf(ctx context.Context) *transaction {
	t, _ := ctx.Value(txKey{db}).(*transaction)
	return t
}

// InTx reports whether ctx carries a transaction: what is done with it is part of that.
func (db *DB) InTx(ctx context.Context) bool { return db.txOf(ctx) != nil }

// on is the transaction of ctx, or the pool.
func (db *DB) on(ctx context.Context) dbq.DBTX {
	if t := db.txOf(ctx); t != nil {
		return t.tx
	}
	return db.Pool
}

var _ dbq.DBTX = (*DB)(nil)

// Exec implements dbq.DBTX.
func (db *DB) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return db.on(ctx).Exec(ctx, sql, args...)
}

// Query implements dbq.DBTX.
func (db *DB) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return db.on(ctx).Query(ctx, sql, args...)
}

// QueryRow implements dbq.DBTX.
func (db *DB) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return db.on(ctx).QueryRow(ctx, sql, args...)
}

// Vacuum clears what was deleted from a table, if our role may. It may not where another role owns the schema, before PostgreSQL 17,
// which knows MAINTAIN; PostgreSQL would log a warning each time, and clears the table by itself in a minute.
func (db *DB) Vacuum(ctx context.Context, table string) error {
	const isAllowed = `SELECT CASE WHEN current_setting('server_version_num')::int >= 170000
		THEN has_table_privilege(oid, 'MAINTAIN') ELSE pg_has_role(relowner, 'USAGE') END FROM pg_class WHERE oid = $1::regclass`
	var allowed bool
	if err := db.Pool.QueryRow(ctx, isAllowed, table).Scan(&allowed); err != nil || !allowed {
		return err
	}
	_, err := db.Pool.Exec(ctx, "VACUUM (TRUNCATE false) "+table)
	return err
}

// begin opens a transaction. One that its owner forgot would hold back vacuum, and the queue with it. Settings are made
// for the transaction, not for the session, which a pooler in between may hand to somebody else.
const begin = `BEGIN; SET LOCAL idle_in_transaction_session_timeout = '30s'`

// dispatchBegin opens a transaction in which the planner can only walk the queue's indexes and look rows up by key. Its
// estimates are worst when the queue moves fastest (after a TRUNCATE, or when a million rows change state before the next
// ANALYZE), and a scan with a sort, or a join that reads a whole table, is then up to twenty times slower. What is switched
// off counts as immensely dear, which would wake the JIT compiler for a tenth of a second, so that is off too; and it may make
// a plan for the parameters at hand look cheaper for ever than the one that fits all, which is the same one: planning a claim
// takes as long as carrying it out.
const dispatchBegin = begin + `; SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off;` +
	` SET LOCAL enable_sort = off; SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off; SET LOCAL jit = off;` +
	` SET LOCAL plan_cache_mode = force_generic_plan`

// Dispatch runs the statements of queue_claim.sql, queue_settle.sql and queue_order.sql in a transaction of their own, with plans that do not depend on statistics.
func (db *DB) Dispatch(ctx context.Context, fn func(q *dbq.Queries) error) error {
	return pgx.BeginTxFunc(ctx, db.Pool, pgx.TxOptions{BeginQuery: dispatchBegin}, func(tx pgx.Tx) error {
		return fn(dbq.New(tx))
	})
}
