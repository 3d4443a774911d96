// Package migrate applies and reverts the migrations of the database.
package migrate

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/amacneil/dbmate/v2/pkg/dbmate"
	_ "github.com/amacneil/dbmate/v2/pkg/driver/postgres" // the dbmate driver for postgres:// URLs
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"lksms/db"
	"lksms/internal/platform/postgres"
)

// migrationsTable is the table in which dbmate records the applied migrations. Migrations run under a lock on this table, because dbmate takes no lock: two
// servers that start at the same time would both apply the same file. Only roles that can write the table can take the lock.
const migrationsTable = "schema_migrations"

// migrateLockEvery is the interval at which a waiting server tries to take the lock.
const migrateLockEvery = 100 * time.Millisecond

// A migration that waits for a table lock blocks all later statements on the table. A migration therefore waits only for lockWait. It then pauses for
// lockPause, so that other statements can run, and tries again.
const (
	// lockWait is shorter than the lock timeout of statements of servers (postgres.DB.Briefly).
	lockWait  = 300 * time.Millisecond
	lockPause = time.Second
	// lockPatience is the wait of every lockTries-th try. It is longer than deadlock_timeout (1s), after which PostgreSQL cancels an autovacuum that blocks the
	// migration.
	lockPatience = 1500 * time.Millisecond
	lockTries    = 10
)

// migratorName is the prefix of the application_name of sessions that migrate. It replaces the name in the database URL, so that refuseBesideServers does not
// count these sessions.
const migratorName = "lksms migrate"

// cancelLimit is the longest time for which cancel waits for a migration to end. A migration on a vanished host never ends.
const cancelLimit = 10 * time.Second

// watchLimit is the time limit of the query that finds the transaction which blocks a migration.
const watchLimit = 5 * time.Second

// logWaitInterval is the interval at which a waiting migration without a lock timeout is logged.
var logWaitInterval = 30 * time.Second

// migrator applies migrations while it holds the lock of migrations.
type migrator struct {
	*dbmate.DB
	beside *pgx.ConnConfig // configuration for a second session of this migrator
	name   string          // application_name of the sessions of dbmate: migratorName and a suffix that is unique to this migrator
}

// Migration is a migration file and its state.
type Migration struct {
	File    string
	Applied bool
}

// firstPartitions creates the partitions of the next days, unless a partition for today exists. The server creates the later partitions. A migration cannot
// create partitions, because db/schema.sql would then depend on the current day.
const firstPartitions = `SELECT task_partitions_ahead('day', now(), now() + interval '7 days')
	WHERE NOT EXISTS (SELECT FROM task_partitions WHERE first_day <= (now() AT TIME ZONE 'UTC')::date AND last_day > (now() AT TIME ZONE 'UTC')::date)`

// Up applies the missing migrations and returns their number. Concurrent callers wait for each other. Each file is one transaction, unless the file switches
// this off. A migration that does not get its locks soon is rolled back and repeated until it gets its locks. Meanwhile log shows which transaction blocks the
// migration. log can be nil.
func Up(ctx context.Context, databaseURL string, log *slog.Logger) (int, error) {
	return up(ctx, databaseURL, log, db.Migrations)
}

func up(ctx context.Context, databaseURL string, log *slog.Logger, files fs.FS) (int, error) {
	applied := 0
	err := withMigrator(ctx, databaseURL, files, func(ctx context.Context, m *migrator) (err error) {
		if applied, err = m.missing(); err != nil || applied == 0 {
			return err
		}
		if err := postgres.WithConn(ctx, databaseURL, func(conn *pgx.Conn) error { return adopt(ctx, conn) }); err != nil {
			return err
		}
		if applied, err = m.missing(); err != nil || applied == 0 {
			return err
		}
		err = m.repeatUntilFree(ctx, log, func() error {
			err := postgres.WithConn(ctx, databaseURL, func(conn *pgx.Conn) error {
				// Search again in each try: earlier tries can have applied migrations, or left an unfinished index.
				missing, err := m.FindMigrations()
				if err != nil {
					return err
				}
				builds, err := pendingBuilds(missing)
				if err != nil {
					return err
				}
				return dropUnfinished(ctx, conn, builds)
			})
			if err != nil {
				return err
			}
			return m.Migrate()
		})
		if err != nil {
			return err
		}
		return postgres.WithConn(ctx, databaseURL, func(conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, firstPartitions)
			return err
		})
	})
	if applied > 0 && stateOf(err) == "42501" {
		return 0, fmt.Errorf("%d migrations are missing, and this role has no permission to apply them: run `lksms migrate up` as the role that owns the database: %w", applied, err)
	}
	if err != nil {
		return 0, fmt.Errorf("migrate up: %w", err)
	}
	return applied, nil
}

// missing counts the migrations that are not applied.
func (m *migrator) missing() (n int, err error) {
	all, err := m.FindMigrations()
	for _, migration := range all {
		if !migration.Applied {
			n++
		}
	}
	return n, err
}

// Down reverts the newest migration. It waits for locks in the same way as Up.
func Down(ctx context.Context, databaseURL string, log *slog.Logger) error {
	return down(ctx, databaseURL, log, db.Migrations)
}

func down(ctx context.Context, databaseURL string, log *slog.Logger, files fs.FS) error {
	err := withMigrator(ctx, databaseURL, files, func(ctx context.Context, m *migrator) error {
		all, err := m.FindMigrations()
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(all, func(one dbmate.Migration) bool { return one.Applied && !isBaseline(one.Version) }) {
			return errBaseline
		}
		return m.repeatUntilFree(ctx, log, m.Rollback)
	})
	if err != nil {
		return fmt.Errorf("migrate down: %w", err)
	}
	return nil
}

// List lists the migrations of this binary, oldest first.
func List(ctx context.Context, databaseURL string) ([]Migration, error) {
	var list []Migration
	err := withMigrator(ctx, databaseURL, db.Migrations, func(_ context.Context, m *migrator) error {
		found, err := m.FindMigrations()
		for _, migration := range found {
			list = append(list, Migration{File: migration.FileName, Applied: migration.Applied})
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	return list, nil
}

// IsDone reports whether all migrations of this binary have been applied. A database with newer migrations also counts as migrated, because an old server can
// meet such a database during a rolling upgrade.
func IsDone(ctx context.Context, on *postgres.DB) (bool, error) {
	versions, err := knownVersions()
	if err != nil {
		return false, err
	}
	var present, applied int
	const tableExists = `SELECT count(*) FROM pg_catalog.pg_class WHERE oid = to_regclass('schema_migrations')`
	if err := on.QueryRow(ctx, tableExists).Scan(&present); err != nil || present == 0 {
		return false, postgres.Wrap("search migrations", err, nil)
	}
	const countApplied = `SELECT count(*) FROM schema_migrations WHERE version = ANY ($1::text[])`
	if err := on.QueryRow(ctx, countApplied, versions).Scan(&applied); err != nil {
		return false, fmt.Errorf("count migrations: %w", err)
	}
	return applied == len(versions), nil
}

func knownVersions() ([]string, error) {
	files, err := db.Migrations.ReadDir("migrations")
	if err != nil {
		return nil, fmt.Errorf("read embedded migrations: %w", err)
	}
	versions := make([]string, len(files))
	for i, file := range files {
		versions[i], _, _ = strings.Cut(path.Base(file.Name()), "_")
	}
	slices.Sort(versions)
	return versions, nil
}

// withMigrator runs fn under the migration lock. The context of fn ends when the lock is lost. For a role without the right to take the lock, fn runs without
// the lock, because such a role cannot migrate.
func withMigrator(ctx context.Context, databaseURL string, files fs.FS, fn func(context.Context, *migrator) error) error {
	if !strings.HasPrefix(databaseURL, "postgres://") && !strings.HasPrefix(databaseURL, "postgresql://") {
		return errors.New("DATABASE_URL must have the form postgresql://user:password@host:port/name")
	}
	conn, err := postgres.Connect(ctx, databaseURL, migratorName)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // closing releases the lock
	if encoding := conn.PgConn().ParameterStatus("server_encoding"); encoding != "UTF8" && encoding != "" {
		return fmt.Errorf("the database has the encoding %s and not UTF8, so that it cannot store every text: create another one with "+
			"CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0", encoding)
	}
	path, err := searchPath(ctx, conn) // before the lock: in the transaction of the lock, this query would hold a snapshot, and CREATE INDEX CONCURRENTLY would wait for it
	if err != nil {
		return fmt.Errorf("find schemas: %w", err)
	}
	name := migratorName + " " + rand.Text()[:8]
	target, err := migratorURL(databaseURL, conn, name)
	if err != nil {
		return err
	}
	m := dbmate.New(target)
	m.MigrationsTableName = migrationsTable
	if path != "" {
		first, _, _ := strings.Cut(path, ",")
		m.MigrationsTableName = first + "." + m.MigrationsTableName
	}
	while, unlock, err := lockMigrations(ctx, conn, m.MigrationsTableName)
	if err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	m.FS = &bounded{FS: files, path: path, wait: lockWait, stopped: func() error { return context.Cause(while) }}
	m.MigrationsDir = []string{"migrations"}
	m.AutoDumpSchema = false
	var output bytes.Buffer
	m.Log = &output
	err = fn(while, &migrator{DB: m, beside: conn.Config(), name: name})
	return errors.Join(err, unlock()) // an error of unlock shows that the lock was lost: another server possibly migrated at the same time
}

// searchPath returns the search path for migrations: the schemas of the session without the schema lksms. It returns an empty string if the session does not
// have the schema lksms in its search path. A role named lksms has this schema first in its search path. Migrations would then create their tables in this
// schema, in which callers of the SQL functions have rights.
func searchPath(ctx context.Context, conn *pgx.Conn) (path string, err error) {
	err = conn.QueryRow(ctx, `SELECT coalesce(string_agg(quote_ident(s.name), ',' ORDER BY s.place), '')
		FROM unnest(current_schemas(false)) WITH ORDINALITY AS s (name, place)
		WHERE s.name <> 'lksms' AND (current_user = 'lksms' OR 'lksms' = ANY (current_schemas(false)))`).Scan(&path)
	return path, err
}

// stateOf returns the SQLSTATE of an error of PostgreSQL, from pgx or from the driver of dbmate. It returns an empty string if the error has no SQLSTATE.
func stateOf(err error) string {
	var failed *dbmate.QueryError // this type does not implement Unwrap
	if errors.As(err, &failed) {
		err = failed.Err
	}
	var refused interface{ SQLState() string }
	if !errors.As(err, &refused) {
		return ""
	}
	return refused.SQLState()
}

// repeatUntilFree runs migrations, and repeats this while a migration does not get a lock in time or fails because of a deadlock. Such a migration was rolled
// back, and earlier migrations stay applied. ctx must end when the migration lock is lost, so that no other server migrates meanwhile.
func (m *migrator) repeatUntilFree(ctx context.Context, log *slog.Logger, migrate func() error) error {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	for turn := 1; ; turn++ {
		if files, ok := m.FS.(*bounded); ok {
			files.wait = lockWait
			if turn%lockTries == 0 {
				files.wait = lockPatience
			}
		}
		err := m.watched(ctx, log, migrate)
		if ctx.Err() != nil {
			return errors.Join(context.Cause(ctx), err)
		}
		if state := stateOf(err); state != "55P03" && state != "40P01" { // lock_not_available, deadlock_detected
			return err
		}
		_, oldest := m.waits(ctx)
		log.Warn(waitsForOthers, "error", err, "oldest_transaction", oldest)
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(lockPause):
		}
	}
}

const waitsForOthers = "a migration waits until others release a table: end their long transactions"

// watched runs migrations, and logs a waiting migration that has no lock timeout. When ctx ends, watched cancels the running statement, because dbmate does not
// support contexts. Otherwise PostgreSQL would continue to build an index, or to wait for hours, after the end of this process.
func (m *migrator) watched(ctx context.Context, log *slog.Logger, migrate func() error) error {
	done := make(chan error, 1)
	go func() { done <- migrate() }()
	every := time.NewTicker(logWaitInterval)
	defer every.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-every.C:
			if isWaiting, oldest := m.waits(ctx); isWaiting {
				log.Warn(waitsForOthers, "oldest_transaction", oldest)
			}
		case <-ctx.Done():
			return m.cancel(context.WithoutCancel(ctx), done)
		}
	}
}

// cancel cancels the statement of a migration repeatedly, until the migration has ended, because a cancellation has no effect on a statement that has not
// started. It returns the error of the migration.
func (m *migrator) cancel(ctx context.Context, done <-chan error) error {
	ctx, cancel := context.WithTimeout(ctx, cancelLimit)
	defer cancel()
	again := time.NewTicker(lockWait)
	defer again.Stop()
	var failed error
	for {
		failed = m.withSession(ctx, func(conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, `SELECT pg_cancel_backend(pid) FROM pg_stat_activity
				WHERE datname = current_database() AND application_name = $1 AND state <> 'idle' AND pid <> pg_backend_pid()`, m.name)
			return err
		})
		select {
		case err := <-done:
			return err
		case <-ctx.Done():
			return errors.Join(errors.New("the migration was cancelled and has not ended"), failed)
		case <-again.C:
		}
	}
}

// withSession runs fn with a second session of the migrator, on the host of the migration.
func (m *migrator) withSession(ctx context.Context, fn func(*pgx.Conn) error) error {
	conn, err := pgx.ConnectConfig(ctx, m.beside.Copy())
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // the connection is no longer needed
	return fn(conn)
}

// waits reports whether a statement of the migrator waits for a lock. oldest describes the oldest open transaction of other sessions in the database, which
// possibly holds this lock. oldest is empty if the role cannot see such a transaction.
func (m *migrator) waits(ctx context.Context) (isWaiting bool, oldest string) {
	ctx, cancel := context.WithTimeout(ctx, watchLimit)
	defer cancel()
	_ = m.withSession(ctx, func(conn *pgx.Conn) error { // an error is ignored, because the log then only contains less detail
		return conn.QueryRow(ctx, `SELECT EXISTS (
				SELECT FROM pg_stat_activity a
				WHERE a.datname = current_database() AND a.application_name = $2 AND a.state = 'active' AND a.wait_event_type = 'Lock'
			), coalesce((
				SELECT format('pid %s of %s, application_name %s, for %s', a.pid, a.usename, a.application_name, date_trunc('second', now() - a.xact_start))
				FROM pg_stat_activity a
				WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND NOT starts_with(a.application_name, $1) AND a.xact_start IS NOT NULL
				ORDER BY a.xact_start
				LIMIT 1
			), '')`, migratorName, m.name).Scan(&isWaiting, &oldest)
	})
	return isWaiting, oldest
}

// bounded wraps migration files. It adds a lock timeout to the start of each file, and the search path unless path is empty. Parameters of the connection would
// have the same effect, but poolers refuse them. A migration without a transaction is a single statement and gets no such settings. This is safe: an index is
// created in the schema of its table, and while the statement waits for locks, it blocks only other schema changes of the table.
type bounded struct {
	fs.FS
	path    string
	wait    time.Duration
	stopped func() error // returns the reason why no further migration can start; nil: the next migration can start
}

// ReadFile implements fs.ReadFileFS.
func (b *bounded) ReadFile(name string) ([]byte, error) {
	if err := b.stopped(); err != nil {
		return nil, err
	}
	content, err := fs.ReadFile(b.FS, name)
	content = bytes.ReplaceAll(content, []byte("\nSET LOCAL lock_timeout = '5s';\n"), []byte("\n"))
	settings := fmt.Sprintf("SET LOCAL lock_timeout = '%dms';\n", b.wait.Milliseconds())
	if b.path != "" {
		settings += "SET LOCAL search_path = " + b.path + ";\n"
	}
	for _, mark := range []string{"-- migrate:up\n", "-- migrate:down\n"} {
		content = bytes.Replace(content, []byte(mark), []byte(mark+settings), 1)
	}
	return content, err
}

// build is an index that a migration builds concurrently. Such a migration runs without a transaction, so that an interruption leaves an invalid index.
type build struct{ index, table string }

// buildStatement matches the statement of a migration that builds an index concurrently. The statement names no schema.
var buildStatement = regexp.MustCompile(`(?m)^CREATE (?:UNIQUE )?INDEX CONCURRENTLY IF NOT EXISTS ([a-z0-9_]+) ON ([a-z0-9_]+) `)

// pendingBuilds returns the indexes that the missing migrations build concurrently.
func pendingBuilds(migrations []dbmate.Migration) ([]build, error) {
	var builds []build
	for _, migration := range migrations {
		if migration.Applied {
			continue
		}
		sections, err := migration.Parse()
		if err != nil {
			return nil, err
		}
		for _, section := range sections {
			if section.UpOptions.Transaction() {
				continue
			}
			for _, found := range buildStatement.FindAllStringSubmatch(section.Up, -1) {
				builds = append(builds, build{index: found[1], table: found[2]})
			}
		}
	}
	return builds, nil
}

// dropUnfinished drops the invalid indexes of interrupted concurrent builds, so that the migrations can build them again. The migration lock ensures that no
// other migration is building them. dropUnfinished keeps all other invalid indexes, even on our tables.
func dropUnfinished(ctx context.Context, conn *pgx.Conn, builds []build) error {
	for _, b := range builds {
		// The schema of an index is the schema of its table. relkind 'i' excludes indexes of partitioned tables.
		var name string
		err := conn.QueryRow(ctx, `SELECT format('%I.%I', n.nspname, c.relname)
			FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace
			WHERE i.indrelid = to_regclass($1) AND c.relname = $2 AND c.relkind = 'i' AND NOT i.indisvalid`, b.table, b.index).Scan(&name)
		if postgres.IsNoRows(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("search the unfinished index %s: %w", b.index, err)
		}
		if _, err := conn.Exec(ctx, "DROP INDEX CONCURRENTLY IF EXISTS "+name); err != nil {
			return fmt.Errorf("drop the unfinished index %s: %w", name, err)
		}
	}
	return nil
}

// lockMigrations repeatedly tries to take the lock, and never waits for it. A statement that waits for a lock holds a snapshot. CREATE INDEX CONCURRENTLY in
// the session with the lock would wait for the end of this snapshot: a deadlock. The transaction that holds the lock has no snapshot.
func lockMigrations(ctx context.Context, conn *pgx.Conn, table string) (while context.Context, unlock func() error, err error) {
	retry := time.NewTicker(migrateLockEvery)
	defer retry.Stop()
	for {
		lock, err := tryLockMigrations(ctx, conn, table)
		switch {
		case stateOf(err) == "42501": // the role has no right to take the lock
			return ctx, func() error { return nil }, nil
		case err != nil:
			return nil, nil, err
		case lock != nil:
			while, end := lock.While(ctx)
			return while, func() error { end(); return lock.Unlock(ctx) }, nil
		}
		select {
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-retry.C:
		}
	}
}

// tryLockMigrations creates the migrations table, as dbmate does, and tries to lock it. It first checks whether another session holds the lock, because a
// failed attempt is an error in the log of PostgreSQL.
func tryLockMigrations(ctx context.Context, conn *pgx.Conn, table string) (*postgres.Lock, error) {
	var exists, isHeld bool
	err := conn.QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL, EXISTS (SELECT FROM pg_locks l WHERE l.relation = to_regclass($1)
		AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND l.mode = 'ShareUpdateExclusiveLock' AND l.granted)`,
		table).Scan(&exists, &isHeld)
	if err != nil || isHeld {
		return nil, err
	}
	if !exists {
		_, err := conn.Exec(ctx, "CREATE TABLE IF NOT EXISTS "+table+" (version varchar PRIMARY KEY)")
		if err != nil && !slices.Contains([]string{"23505", "42710", "42P07"}, stateOf(err)) { // another session is creating the table
			return nil, err
		}
	}
	lock, err := postgres.TryLockOn(ctx, conn, "migrations", "LOCK TABLE "+table+" IN SHARE UPDATE EXCLUSIVE MODE NOWAIT; SELECT true")
	if stateOf(err) == "55P03" { // another session took the lock first
		return nil, nil
	}
	return lock, err
}

// migratorURL adapts a URL to the driver of dbmate, which assumes TLS and does not support sslmode prefer and allow. It sets the host that pgx connected to,
// whether this host uses TLS, and the application_name. It removes the settings of pgx and of its pool. It makes the driver send a statement and its parameters
// in one message, because a pooler can assign each message to another session.
func migratorURL(databaseURL string, conn *pgx.Conn, name string) (*url.URL, error) {
	_, text, _ := strings.Cut(databaseURL, "?")
	query, err := url.ParseQuery(text)
	if err != nil {
		return nil, errors.New("DATABASE_URL has parameters that cannot be read")
	}
	for setting := range query {
		if strings.HasPrefix(setting, "pool_") || strings.EqualFold(setting, "client_encoding") || slices.Contains(ownSettings, setting) {
			query.Del(setting)
		}
	}
	switch query.Get("sslmode") {
	case "", "prefer", "allow":
		query.Set("sslmode", "disable")
		if _, isEncrypted := conn.PgConn().Conn().(*tls.Conn); isEncrypted {
			query.Set("sslmode", "require")
		}
	}
	query.Set("application_name", name)
	query.Set("binary_parameters", "yes")
	query.Set("client_encoding", "UTF8")
	cfg := conn.Config()
	out := &url.URL{Scheme: "postgres", User: url.User(cfg.User), Path: "/" + cfg.Database}
	if cfg.Password != "" {
		out.User = url.UserPassword(cfg.User, cfg.Password)
	}
	if network, _ := pgconn.NetworkAddress(cfg.Host, cfg.Port); network == "unix" {
		query.Set("host", cfg.Host)
		query.Set("port", strconv.Itoa(int(cfg.Port)))
	} else {
		out.Host = net.JoinHostPort(cfg.Host, strconv.Itoa(int(cfg.Port)))
	}
	out.RawQuery = query.Encode()
	return out, nil
}

// ownSettings are the settings of a URL that only pgx supports, and the settings that migratorURL sets itself.
var ownSettings = []string{
	"default_query_exec_mode", "statement_cache_capacity", "description_cache_capacity", "target_session_attrs",
	"host", "port", "user", "password", "dbname", "database",
}
