// Package postgres owns the access to PostgreSQL: connection pools, transactions and errors.
package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Runner runs statements. The generated packages of all rooms accept one.
type Runner interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// DB is the access to one database. Statements run in three ways:
//
//   - Statements of most rooms run on the DB itself: in the transaction that Tx put into ctx, or alone. Outside always runs them alone.
//   - Statements that read tasks by id run on InPartitions or in ByKey.
//   - Statements of package dispatchq run in Dispatch only: in a transaction of their own, with forced plans.
type DB struct {
	pool    *pgxpool.Pool
	outside *pgxpool.Pool
	locks   *pgxpool.Pool      // apart: holders of locks wait for connections of pool, and would else hold all of them
	inParts pgx.QueryExecMode  // of InPartitions
	isOpen  atomic.Bool        // all pools exist
	looking context.CancelFunc // ends look; nil: one host
	looks   sync.WaitGroup

	replicas *replicas // nil: none
}

// outsideConns is the number of connections for Outside.
const outsideConns = 2

// lockConns is the number of locks that a server can hold at a time. One more waits.
const lockConns = 16

// maxConns is the minimum size of the main pool, for a URL whose pool_max_conns is smaller or not set. A few
// statements at a time keep a small server busy; more would only queue inside it.
const maxConns = 16

// applicationName is the name of a server's connections in pg_stat_activity, unless its database URL gives one.
const applicationName = "lksms"

// Open returns a DB on url. It connects on first use, so that a server can start before its database.
func Open(ctx context.Context, url string) (*DB, error) { return OpenWith(ctx, url, Replicas{}) }

// OpenWith is Open with standbys for the reads that may be stale.
func OpenWith(ctx context.Context, url string, replicas Replicas) (*DB, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("read database URL: %w", redact(err))
	}
	usual(cfg)
	db := &DB{inParts: unnamed(cfg.ConnConfig)}
	cfg.ConnConfig.OnPgError = db.leaveReadOnly
	var several *follower // nil: one host
	if len(hostsOf(&cfg.ConnConfig.Config)) > 1 {
		several = newFollower()
		several.follow(cfg)
	}
	for _, p := range []struct {
		pool  **pgxpool.Pool
		conns int32
	}{{&db.pool, cfg.MaxConns}, {&db.outside, outsideConns}, {&db.locks, lockConns}} {
		own := cfg.Copy()
		if own.MaxConns = p.conns; p.pool != &db.pool {
			own.MinConns = 0
		}
		if *p.pool, err = pgxpool.NewWithConfig(ctx, own); err != nil {
			db.Close()
			return nil, fmt.Errorf("open pool: %w", redact(err))
		}
	}
	db.isOpen.Store(true)
	if several != nil {
		looking, end := context.WithCancel(context.WithoutCancel(ctx))
		db.looking = end
		db.looks.Go(func() { db.look(looking, several) })
	}
	if replicas.URL != "" {
		if err := db.openReplicas(ctx, replicas); err != nil {
			db.Close()
			return nil, err
		}
	}
	return db, nil
}

// usual sets what all pools have in common.
func usual(cfg *pgxpool.Config) {
	if cfg.MaxConns < maxConns {
		cfg.MaxConns = maxConns
	}
	settle(cfg.ConnConfig)
	cfg.MaxConnIdleTime = 5 * time.Minute
	if _, set := cfg.ConnConfig.RuntimeParams["application_name"]; !set {
		cfg.ConnConfig.RuntimeParams["application_name"] = applicationName
	}
	cfg.ConnConfig.RuntimeParams["datestyle"] = "ISO, MDY" // exports must not depend on how the database writes times; PgBouncer keeps this one too
	cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		registerTypes(conn.TypeMap())
		_, err := conn.Exec(ctx, noJIT, pgx.QueryExecModeExec, int32(conn.PgConn().PID()))
		return err
	}
}

// registerTypes makes times be read as UTC.
func registerTypes(types *pgtype.Map) {
	types.RegisterType(&pgtype.Type{
		Name: "timestamptz", OID: pgtype.TimestamptzOID, Codec: &pgtype.TimestamptzCodec{ScanLocation: time.UTC},
	})
}

// leaveReadOnly is called for each error of PostgreSQL, and reports whether its connection can go on. One whose server writes no more leads to a
// demoted primary, as the others do: all are dropped, so that the next request connects anew and finds the new primary.
func (db *DB) leaveReadOnly(_ *pgconn.PgConn, err *pgconn.PgError) bool {
	if err.Code != readOnly {
		return cmp.Or(err.SeverityUnlocalized, err.Severity) != "FATAL"
	}
	if db.isOpen.Load() {
		for _, pool := range db.pools() {
			pool.Reset()
		}
	}
	return false
}

func (db *DB) pools() []*pgxpool.Pool { return []*pgxpool.Pool{db.pool, db.outside, db.locks} }

// noJIT switches the JIT compiler off: a statement over many partitions looks expensive to the planner, and compiling it would take seconds. The
// setting belongs to a session, so that it is made only where the session is the connection's own: a pooler shows another process id than
// PostgreSQL does. Behind a pooler the role has the setting (docs/operations.md).
const noJIT = "SELECT set_config('jit', 'off', false) WHERE pg_backend_pid() = $1"

// Close waits until every connection is returned, and closes them.
func (db *DB) Close() {
	if db.looking != nil {
		db.looking()
		db.looks.Wait()
	}
	if db.replicas != nil {
		db.replicas.close()
	}
	for _, pool := range db.pools() {
		if pool != nil { // Open failed before it
			pool.Close()
		}
	}
}

// Outside returns connections for statements that must not run in the transaction of ctx. They are few, and
// apart from the others: requests that wait for a value which one of them reads (snapshot.Cache) may hold all others.
func (db *DB) Outside() Runner { return db.outside }

// Pool returns the connections of the DB, for tests and benches alone: a statement on them belongs to no transaction of Tx.
func (db *DB) Pool() *pgxpool.Pool { return db.pool }

// Tx runs fn in a transaction, which the ctx of fn carries: every query through db with that ctx is part of it. Tx
// commits if fn returns nil and rolls back otherwise. Inside a transaction, Tx is a savepoint, which can be rolled
// back alone.
func (db *DB) Tx(ctx context.Context, fn func(ctx context.Context) error) error {
	if outer := db.txOf(ctx); outer != nil {
		return pgx.BeginFunc(ctx, outer.tx, func(tx pgx.Tx) error { // a savepoint
			return fn(context.WithValue(ctx, txKey{db}, &transaction{tx: tx, root: outer.root}))
		})
	}
	return db.root(ctx, begin, fn)
}

// root runs fn in a transaction that beginQuery opens.
func (db *DB) root(ctx context.Context, beginQuery string, fn func(ctx context.Context) error) error {
	t := &transaction{}
	t.root = t
	err := pgx.BeginTxFunc(ctx, db.pool, pgx.TxOptions{BeginQuery: beginQuery}, func(tx pgx.Tx) error {
		if err := tellActor(ctx, tx); err != nil {
			return err
		}
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

// AfterCommit calls do after the commit of the transaction of ctx, or at once if ctx has none. A crash after the
// commit skips the call, so that do must only be a hint.
func (db *DB) AfterCommit(ctx context.Context, do func()) {
	if t := db.txOf(ctx); t != nil {
		t.root.after = append(t.root.after, do)
		return
	}
	do()
}

type txKey struct{ db *DB }

// transaction is the value in ctx. One goroutine uses it.
type transaction struct {
	tx    pgx.Tx
	root  *transaction // the outermost transaction, which commits
	after []func()
}

// txOf returns the transaction of ctx, or nil.
func (db *DB) txOf(ctx context.Context) *transaction {
	t, _ := ctx.Value(txKey{db}).(*transaction)
	return t
}

// InTx reports whether ctx carries a transaction.
func (db *DB) InTx(ctx context.Context) bool { return db.txOf(ctx) != nil }

// on returns the transaction of ctx, or the pool.
func (db *DB) on(ctx context.Context) Runner {
	if t := db.txOf(ctx); t != nil {
		return t.tx
	}
	return db.pool
}

var _ Runner = (*DB)(nil)

// Exec implements Runner.
func (db *DB) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if db.actsAlone(ctx) {
		return db.execAlone(ctx, sql, args)
	}
	return db.on(ctx).Exec(ctx, sql, args...)
}

// Query implements Runner. For a change that somebody makes (As), it must run in a transaction.
func (db *DB) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if s := db.standbyFor(ctx); s != nil {
		if rows, isDone, err := db.queryStale(ctx, s, sql, args); isDone {
			return rows, err
		}
	}
	return db.on(ctx).Query(ctx, sql, args...)
}

// QueryRow implements Runner.
func (db *DB) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if db.actsAlone(ctx) {
		return rowAlone{db, ctx, sql, args}
	}
	if db.mayBeStale(ctx) {
		return staleRow{db, ctx, sql, args}
	}
	return db.on(ctx).QueryRow(ctx, sql, args...)
}

// InPartitions returns db for statements that read messages or report_logs by task_id. On db itself, a statement that is often used gets a
// generic plan, which does not know its parameters: each run opens and locks all partitions, and so waits while any of them is moved to a
// tablespace. Through InPartitions each run is planned for its parameters, and locks only the partitions of these tasks.
//
// The parameters must bound task_id themselves, in each table of the statement: with constants, or with = ANY of an array. The planner knows no
// value of a sub-select or a join. If the ids come from another table, read them with a statement of its own.
func (db *DB) InPartitions() Runner { return inPartitions{db} }

type inPartitions struct{ db *DB }

// Exec implements Runner.
func (p inPartitions) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return p.db.on(ctx).Exec(ctx, sql, p.planned(args)...)
}

// Query implements Runner.
func (p inPartitions) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return p.db.Query(ctx, sql, p.planned(args)...)
}

// QueryRow implements Runner.
func (p inPartitions) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if p.db.mayBeStale(ctx) {
		return staleRow{p.db, ctx, sql, p.planned(args)}
	}
	return p.db.on(ctx).QueryRow(ctx, sql, p.planned(args)...)
}

func (p inPartitions) planned(args []any) []any { return append([]any{p.db.inParts}, args...) }

// unnamed returns the mode in which pgx sends a statement unnamed, so that PostgreSQL plans each run for its parameters. All modes but the usual
// one do. CacheDescribe costs one round trip, as the usual mode: each connection asks once for the types of a statement, and again after an error.
func unnamed(cfg *pgx.ConnConfig) pgx.QueryExecMode {
	switch {
	case cfg.DefaultQueryExecMode != pgx.QueryExecModeCacheStatement:
		return cfg.DefaultQueryExecMode
	case cfg.DescriptionCacheCapacity <= 0: // the URL switched the cache off
		return pgx.QueryExecModeDescribeExec
	default:
		return pgx.QueryExecModeCacheDescribe
	}
}

// Briefly is Tx for statements that other callers wait for, and that may need a partition which is locked for minutes: a statement that does
// not get a lock within half a second fails (IsLockTimeout).
func (db *DB) Briefly(ctx context.Context, fn func(ctx context.Context) error) error {
	const set = "SET LOCAL lock_timeout = '500ms'"
	if !db.InTx(ctx) {
		return db.root(ctx, begin+"; "+set, fn)
	}
	return db.Tx(ctx, func(ctx context.Context) error { // the end of a savepoint keeps a setting, its rollback does not
		if _, err := db.Exec(ctx, set); err != nil {
			return err
		}
		if err := fn(ctx); err != nil {
			return err
		}
		_, err := db.Exec(ctx, "SET LOCAL lock_timeout TO DEFAULT")
		return err
	})
}

// Vacuum removes the dead rows of a table, if the role of this pool is allowed to. Before PostgreSQL 17 with its
// privilege MAINTAIN only the owner of the table is allowed. Other roles would cause a logged warning each time;
// autovacuum clears the table for them within a minute.
func (db *DB) Vacuum(ctx context.Context, table string) error {
	const isAllowed = `SELECT CASE WHEN current_setting('server_version_num')::int >= 170000
		THEN has_table_privilege(oid, 'MAINTAIN') ELSE pg_has_role(relowner, 'USAGE') END FROM pg_class WHERE oid = $1::regclass`
	var allowed bool
	if err := db.pool.QueryRow(ctx, isAllowed, table).Scan(&allowed); err != nil || !allowed {
		return err
	}
	_, err := db.pool.Exec(ctx, "VACUUM (TRUNCATE false) "+table)
	return err
}

// begin opens a transaction. The timeout ends one that its caller did not end, because an open transaction holds back vacuum,
// and so the queue. The setting is local to the transaction, because a pooler in between may give the session to
// another client. So is that of the JIT compiler, see noJIT.
const begin = `BEGIN; SET LOCAL idle_in_transaction_session_timeout = '30s'; SET LOCAL jit = off`

// dispatchBegin opens a transaction in which the planner can only walk the indexes of the queue and look up rows by
// key. Its estimates are worst when the queue moves fastest (after a TRUNCATE, or when a million rows change state
// before the next ANALYZE), and a scan with a sort, or a join that reads a whole table, is then up to twenty times
// slower.
//
// A plan node that is switched off gets a huge cost, which would start the JIT compiler for a tenth of a second: JIT
// is off. The huge cost may also make a custom plan look cheaper than the generic one forever: the generic plan is
// forced, because both are the same and planning a claim takes as long as running it.
const dispatchBegin = begin + `; SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off;` +
	` SET LOCAL enable_sort = off; SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off;` +
	` SET LOCAL plan_cache_mode = force_generic_plan`

// errNested is the error of a program that is wrong.
var errNested = errors.New("a dispatch statement was run inside another transaction")

// byKeyBegin leaves the planner only nested loops, in the order of the text. For a look-up of some rows by key it could otherwise hash a whole
// partition, whose statistics are old; and comparing the orders of joins takes more time than the look-up, once for each partition. Each run is
// planned for its parameters: only then the planner leaves out the partitions that they exclude.
const byKeyBegin = begin + `; SET TRANSACTION READ ONLY; SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off;` +
	` SET LOCAL join_collapse_limit = 1; SET LOCAL plan_cache_mode = force_custom_plan`

// ByKey runs statements that only read, and that look rows up by key in many partitions, in a transaction of their own. In a transaction of Tx
// they run there, with the joins that the planner likes. fn may be called again.
func (db *DB) ByKey(ctx context.Context, fn func(tx Runner) error) error {
	if db.InTx(ctx) {
		return fn(db.InPartitions())
	}
	if s := db.standbyFor(ctx); s != nil {
		if isDone, err := db.byKeyStale(ctx, s, fn); isDone {
			return err
		}
	}
	return pgx.BeginTxFunc(ctx, db.pool, pgx.TxOptions{BeginQuery: byKeyBegin}, func(tx pgx.Tx) error { return fn(tx) })
}

// Dispatch runs the statements of db/queries/dispatch in a transaction of their own, with plans that do not depend on
// statistics.
//
// It fails in a transaction of Tx: its own could wait for what that holds, for ever, and would not be undone with it.
func (db *DB) Dispatch(ctx context.Context, fn func(tx Runner) error) error {
	if db.InTx(ctx) {
		return errNested
	}
	return pgx.BeginTxFunc(ctx, db.pool, pgx.TxOptions{BeginQuery: dispatchBegin}, func(tx pgx.Tx) error {
		return fn(tx)
	})
}

// WithConn runs fn with a connection of its own, which it closes.
func WithConn(ctx context.Context, url string, fn func(*pgx.Conn) error) error {
	connecting, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	cfg, err := parse(url)
	if err != nil {
		return err
	}
	conn, err := pgx.ConnectConfig(connecting, cfg)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // the connection is no longer needed
	return fn(conn)
}
