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

// Runner runs statements. The generated packages of all rooms accept a Runner.
type Runner interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// DB gives access to one database. It runs statements in three ways:
//
//   - Most statements run on the DB itself: in the transaction of ctx (see Tx) if ctx has one. Statements of Outside never run in the transaction of ctx.
//   - Statements that read tasks by id run on InPartitions or in ByKey.
//   - Statements of package dispatchq run only in Dispatch: in a separate transaction, with forced plans.
type DB struct {
	pool    *pgxpool.Pool
	outside *pgxpool.Pool
	locks   *pgxpool.Pool      // separate from pool, because the holder of a lock waits for connections of pool
	inParts pgx.QueryExecMode  // mode of statements of InPartitions
	isOpen  atomic.Bool        // true when all pools exist
	looking context.CancelFunc // ends probe; nil: the URL has one host
	looks   sync.WaitGroup

	replicas *replicas // nil: no replicas are configured
}

// outsideConns is the number of connections for Outside.
const outsideConns = 2

// lockConns is the maximum number of locks that a server holds at the same time. Further callers wait.
const lockConns = 16

// maxConns is the size of the main pool, unless pool_max_conns in the URL is larger. A few concurrent statements keep a small server busy. Further statements
// would only queue inside PostgreSQL.
const maxConns = 16

// applicationName is the name of a server's connections in pg_stat_activity, unless its database URL sets one.
const applicationName = "lksms"

// Open returns a DB on url. It connects on first use, so that a server can start before its database.
func Open(ctx context.Context, url string) (*DB, error) { return OpenWith(ctx, url, Replicas{}) }

// OpenWith works like Open, and reads that can be stale (MayBeStale) run on the standbys in replicas.
func OpenWith(ctx context.Context, url string, replicas Replicas) (*DB, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("read database URL: %w", redact(err))
	}
	setCommonSettings(cfg)
	db := &DB{inParts: unnamed(cfg.ConnConfig)}
	cfg.ConnConfig.OnPgError = db.leaveReadOnly
	var several *follower // nil: the URL has one host
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
		db.looks.Go(func() { db.probe(looking, several) })
	}
	if replicas.URL != "" {
		if err := db.openReplicas(ctx, replicas); err != nil {
			db.Close()
			return nil, err
		}
	}
	return db, nil
}

// setCommonSettings sets the common settings of all pools.
func setCommonSettings(cfg *pgxpool.Config) {
	if cfg.MaxConns < maxConns {
		cfg.MaxConns = maxConns
	}
	settle(cfg.ConnConfig)
	cfg.MaxConnIdleTime = 5 * time.Minute
	if _, set := cfg.ConnConfig.RuntimeParams["application_name"]; !set {
		cfg.ConnConfig.RuntimeParams["application_name"] = applicationName
	}
	pin(cfg.ConnConfig.RuntimeParams, "datestyle", "ISO, MDY") // exports must not depend on the date format of the database; PgBouncer supports this parameter
	cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		registerTypes(conn.TypeMap())
		_, err := conn.Exec(ctx, noJIT, pgx.QueryExecModeExec, int32(conn.PgConn().PID()))
		return err
	}
}

// registerTypes makes pgx read times as UTC.
func registerTypes(types *pgtype.Map) {
	types.RegisterType(&pgtype.Type{
		Name: "timestamptz", OID: pgtype.TimestamptzOID, Codec: &pgtype.TimestamptzCodec{ScanLocation: time.UTC},
	})
}

// leaveReadOnly is called for each error of PostgreSQL, and reports whether the connection remains usable. The error readOnly shows that the server is a
// demoted primary. leaveReadOnly then resets all pools, because all their connections lead to this server. The next request opens a new connection, to the new
// primary.
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

// noJIT switches the JIT compiler off: a statement over many partitions looks expensive to the planner, and its compilation would take seconds. noJIT has no
// effect behind a pooler, because the parameter would change the session of other clients: the process id that a pooler reports differs from the process id in
// PostgreSQL. Behind a pooler, the role must have this setting (docs/operations.md).
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
		if pool != nil { // Open failed before it created this pool
			pool.Close()
		}
	}
}

// Outside runs statements outside the transaction of ctx, on a small separate pool. Requests that wait for the result of such a statement (snapshot.Cache) can
// occupy all connections of the main pool.
func (db *DB) Outside() Runner { return db.outside }

// Pool returns the main pool, for tests and benchmarks only: statements on it do not belong to a transaction of Tx.
func (db *DB) Pool() *pgxpool.Pool { return db.pool }

// Tx runs fn in a transaction. The ctx that fn gets carries the transaction: every query of db with this ctx is part of it. Tx commits if fn returns nil, and
// rolls back otherwise. Inside a transaction, Tx opens a savepoint, which can be rolled back separately.
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
		if err := setActor(ctx, tx); err != nil {
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

// AfterCommit calls do after the commit of the transaction of ctx, or at once if ctx has no transaction. A crash after the commit skips the call, so
// correctness must not depend on do.
func (db *DB) AfterCommit(ctx context.Context, do func()) {
	if t := db.txOf(ctx); t != nil {
		t.root.after = append(t.root.after, do)
		return
	}
	do()
}

type txKey struct{ db *DB }

// transaction is the transaction that a ctx carries. Several goroutines must not use it at the same time.
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

// runner returns the transaction of ctx, or the main pool.
func (db *DB) runner(ctx context.Context) Runner {
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
	return db.runner(ctx).Exec(ctx, sql, args...)
}

// Query implements Runner. If ctx has an actor (As), a statement that changes rows must run in a transaction.
func (db *DB) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if s := db.standbyFor(ctx); s != nil {
		if rows, isDone, err := db.queryStale(ctx, s, sql, args); isDone {
			return rows, err
		}
	}
	return db.runner(ctx).Query(ctx, sql, args...)
}

// QueryRow implements Runner.
func (db *DB) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if db.actsAlone(ctx) {
		return rowAlone{db, ctx, sql, args}
	}
	if db.mayBeStale(ctx) {
		return staleRow{db, ctx, sql, args}
	}
	return db.runner(ctx).QueryRow(ctx, sql, args...)
}

// InPartitions returns db for statements that read messages or report_logs by task_id. On db itself, a frequent statement gets a generic plan, which does not
// know the parameters. Each run would then open and lock all partitions, and would wait while any partition is moved to another tablespace. With InPartitions,
// PostgreSQL plans each run for its parameters, and locks only the partitions of these tasks.
//
// The parameters must limit task_id directly in each table of the statement: with = and a parameter, or with = ANY and an array. The planner does not know the
// values of a sub-select or a join. If the ids come from another table, read them with a separate statement.
func (db *DB) InPartitions() Runner { return inPartitions{db} }

type inPartitions struct{ db *DB }

// Exec implements Runner.
func (p inPartitions) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return p.db.runner(ctx).Exec(ctx, sql, p.planned(args)...)
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
	return p.db.runner(ctx).QueryRow(ctx, sql, p.planned(args)...)
}

func (p inPartitions) planned(args []any) []any { return append([]any{p.db.inParts}, args...) }

// unnamed returns a mode in which pgx sends statements without a name, so that PostgreSQL plans each run for its parameters. All modes except the default mode
// do this. CacheDescribe costs one round trip, like the default mode: each connection requests the types of a statement only once, and again after an error.
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

// Briefly works like Tx with a lock timeout of half a second, after which a statement fails (IsLockTimeout). Use Briefly for transactions that other callers
// wait for, and that can need a partition which is locked for minutes.
func (db *DB) Briefly(ctx context.Context, fn func(ctx context.Context) error) error {
	const set = "SET LOCAL lock_timeout = '500ms'"
	if !db.InTx(ctx) {
		return db.root(ctx, begin+"; "+set, fn)
	}
	return db.Tx(ctx, func(ctx context.Context) error { // a setting in a savepoint remains after the release of the savepoint, but not after a rollback
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

// Vacuum removes the dead rows of a table, if the role of this pool has the right: the owner of the table, and since PostgreSQL 17 a role with the privilege
// MAINTAIN. For other roles Vacuum does nothing, because each attempt would log a warning. Autovacuum then clears the table within a minute.
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

// begin opens a transaction. The timeout ends an abandoned transaction: an open transaction holds back vacuum, and dead rows slow down the queue. Both settings
// are local to the transaction, because a pooler can assign the session to another client. For jit, see noJIT.
const begin = `BEGIN; SET LOCAL idle_in_transaction_session_timeout = '30s'; SET LOCAL jit = off`

// dispatchBegin opens a transaction in which the planner can only scan the indexes of the queue in order, and look up rows by key. The estimates of the planner
// are worst when the queue changes fastest: after a TRUNCATE, or when a million rows change state before the next ANALYZE. A scan with a sort, or a join that
// reads a whole table, is then up to twenty times slower.
//
// JIT is off (begin), because a disabled plan node has a huge cost, and so JIT would compile for a tenth of a second. The generic plan is forced: because of
// the huge cost, a custom plan could look cheaper forever, although both plans are the same and planning a claim takes as long as running it.
const dispatchBegin = begin + `; SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off;` +
	` SET LOCAL enable_sort = off; SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off;` +
	` SET LOCAL plan_cache_mode = force_generic_plan`

// errNested is the error of a call of Dispatch in a transaction, which is a programming error.
var errNested = errors.New("a dispatch statement was run inside another transaction")

// byKeyBegin allows only nested loops, in the join order of the text. Otherwise the planner could hash a whole partition with old statistics to look up a few
// rows. Also, comparing join orders takes more time than the lookup. A custom plan is forced, so that the planner skips the partitions that the parameters
// exclude.
const byKeyBegin = begin + `; SET TRANSACTION READ ONLY; SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off;` +
	` SET LOCAL join_collapse_limit = 1; SET LOCAL plan_cache_mode = force_custom_plan`

// ByKey runs read-only statements that look up rows by key in many partitions, in a separate transaction. If ctx has a transaction, they run in that
// transaction, with any plan. ByKey can call fn twice.
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

// Dispatch runs the statements of db/queries/dispatch in a separate transaction, with plans that do not depend on statistics.
//
// Dispatch fails inside a transaction of Tx. The transaction of Dispatch could wait forever for locks of the outer transaction, and a rollback of the outer
// transaction would not undo it.
func (db *DB) Dispatch(ctx context.Context, fn func(tx Runner) error) error {
	if db.InTx(ctx) {
		return errNested
	}
	return pgx.BeginTxFunc(ctx, db.pool, pgx.TxOptions{BeginQuery: dispatchBegin}, func(tx pgx.Tx) error {
		return fn(tx)
	})
}

// WithConn runs fn with a new connection, which it closes.
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
