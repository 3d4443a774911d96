// Package pgtest gives each test a separate migrated PostgreSQL database on a real server. If LKSMS_TEST_SERVER names no server, it starts a server.
package pgtest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"lksms/db"
	"lksms/internal/platform/config"
	"lksms/internal/platform/migrate"
	"lksms/internal/platform/pgserver"
)

const (
	dirPrefix  = "lksms-test-"
	setupLimit = time.Minute
)

// init removes the variables of libpq that the developer has set. Tests, and the programs that tests start, must use the PostgreSQL that was started for them.
func init() { pgserver.UnsetLibpq() }

// Main is the TestMain of a package that uses New.
func Main(m *testing.M) { os.Exit(Run(m)) }

// Run runs the tests of a package. It then stops the PostgreSQL that they started, if any.
func Run(m *testing.M) int {
	code := m.Run()
	if shared.server != nil {
		shared.stop()
	}
	return code
}

// New returns the URL of a new migrated database. The database is dropped when t ends.
func New(t testing.TB) string {
	t.Helper()
	return fresh(t, Create)
}

// CreateMigrated works like Create, but without the trigger of tasks.sql: the database is the same as the database of a server, apart from settings.sql.
func CreateMigrated(ctx context.Context, admin string) (created string, drop func(), err error) {
	created, drop, err = createDatabase(ctx, admin, "template0")
	if err == nil {
		_, err = migrate.Up(ctx, created, nil)
	}
	if err == nil {
		err = execute(ctx, created, func(conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, settings)
			return err
		})
	}
	return created, drop, err
}

// NewEmpty works like New without the migrations.
func NewEmpty(t testing.TB) string {
	t.Helper()
	return fresh(t, func(ctx context.Context, admin string) (string, func(), error) {
		return createDatabase(ctx, admin, "template0")
	})
}

func fresh(t testing.TB, create func(ctx context.Context, admin string) (string, func(), error)) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), setupLimit)
	defer cancel()
	admin, err := serverURL(ctx)
	if err != nil {
		t.Fatalf("start PostgreSQL: %v", err)
	}
	created, drop, err := create(ctx, admin)
	if err != nil {
		t.Fatalf("create test database: %v", err)
	}
	t.Cleanup(drop)
	return created
}

// Admin returns the superuser's URL of a database that New created.
func Admin(t testing.TB, database string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), setupLimit)
	defer cancel()
	admin, err := serverURL(ctx)
	if err != nil {
		t.Fatalf("start PostgreSQL: %v", err)
	}
	to, err := url.Parse(admin)
	if err != nil {
		t.Fatalf("read URL: %v", err)
	}
	source, err := url.Parse(database)
	if err != nil {
		t.Fatalf("read URL: %v", err)
	}
	to.Path = source.Path
	return to.String()
}

// Dir returns a folder for a private server. The folder is removed when t ends. Unlike the path of t.TempDir, its path is short enough for a socket, and the
// account of PostgreSQL can enter it.
func Dir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "lksms-dir-")
	if err == nil {
		t.Cleanup(func() { _ = os.RemoveAll(dir) }) // an error is ignored
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatalf("make folder: %v", err)
	}
	return dir
}

// shared is the PostgreSQL that this test process started, if LKSMS_TEST_SERVER names no server.
var shared struct {
	sync.Mutex
	server *pgserver.Server
	stop   func()
}

func serverURL(ctx context.Context) (string, error) {
	if given := config.TestServer(); given != "" {
		return given, nil
	}
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil {
		server, stop, err := Start(ctx)
		if err != nil {
			return "", err
		}
		shared.server, shared.stop = server, stop
	}
	return shared.server.AdminURL(), nil
}

// Start starts a temporary PostgreSQL, with its data in memory if /dev/shm exists. stop stops this PostgreSQL and deletes its data. Start also deletes the data
// that killed runs left.
func Start(ctx context.Context) (server *pgserver.Server, stop func(), err error) {
	base := "/dev/shm"
	if info, err := os.Stat(base); err != nil || !info.IsDir() {
		base = "/tmp" // not in $TMPDIR: the path of a socket must be short
	}
	clearAbandoned(base)
	dir, err := os.MkdirTemp(base, dirPrefix)
	if err != nil {
		return nil, nil, fmt.Errorf("make test folder: %w", err)
	}
	if err := os.Chmod(dir, 0o755); err != nil { // under root, PostgreSQL runs as another account, which must traverse the folder
		return nil, nil, fmt.Errorf("open test folder: %w", err)
	}
	server, err = pgserver.Start(ctx, pgserver.Options{
		Dir: dir, Ephemeral: true, Log: slog.New(slog.DiscardHandler),
		BinDir: config.PostgresBin(), MoreBins: config.UnpackedPostgres(),
	})
	if err != nil {
		_ = os.RemoveAll(dir) // an error is ignored, because err is more useful
		return nil, nil, err
	}
	return server, func() {
		_ = server.Stop()     // an error is ignored, because the data is deleted
		_ = os.RemoveAll(dir) // an error is ignored, because the next run deletes the remaining files
	}, nil
}

// clearAbandoned deletes the folders of killed runs: nobody holds the lock of such a folder.
func clearAbandoned(base string) {
	dirs, err := filepath.Glob(filepath.Join(base, dirPrefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range dirs {
		lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR, 0)
		if err != nil {
			continue // the folder is being created, or belongs to another user
		}
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			_ = os.RemoveAll(dir) // an error is ignored
		}
		_ = lock.Close() // nothing was written
	}
}

// owner is the role that owns the databases of tests and connects to them. It is an ordinary role, like the role of the service.
const owner = "lksms_test"

// Create creates a migrated database on the server of admin, which is a superuser's URL.
func Create(ctx context.Context, admin string) (created string, drop func(), err error) {
	return usual.copy(ctx, admin)
}

func createDatabase(ctx context.Context, admin, template string) (created string, drop func(), err error) {
	name := "test_" + strings.ToLower(rand.Text())
	err = execute(ctx, admin, func(conn *pgx.Conn) error {
		// Copying files takes milliseconds, while the default strategy writes every page to the WAL. PostgreSQL 15 introduced the option STRATEGY.
		strategy := ""
		if conn.PgConn().ParameterStatus("server_version") >= "15" {
			strategy = " STRATEGY FILE_COPY"
		}
		if err := ensureOwner(ctx, conn); err != nil {
			return err
		}
		_, err := conn.Exec(ctx, "CREATE DATABASE "+name+" OWNER "+owner+" TEMPLATE "+template+strategy)
		return err
	})
	if err != nil {
		return "", nil, err
	}
	return ownersURL(admin, name), func() {
		ctx, cancel := context.WithTimeout(context.Background(), setupLimit)
		defer cancel()
		_ = execute(ctx, admin, func(conn *pgx.Conn) error { // an error is ignored, because the server is stopped anyway
			_, err := conn.Exec(ctx, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
			return err
		})
	}, nil
}

// writableTasks makes the view tasks writable, so that tests can insert tasks in any state.
//
//go:embed tasks.sql
var writableTasks string

// settings sets settings of tests.
//
//go:embed settings.sql
var settings string

// template is a migrated database that is copied for tests. It is created once a day for each state of the migrations.
type template struct {
	prefix        string // of its name
	searchPath    string // of its sessions and those of its copies; empty: that of the server
	before, after string // statements before and after the migrations
}

// usual is the template of most test databases. It has the partitions of yesterday, because tests insert tasks of the last hours.
var usual = template{prefix: "lksms_", after: writableTasks + settings + "; SELECT task_partitions_ahead('day', now() - interval '1 day', now())"}

// copy creates a copy of the template on the server of admin.
func (t template) copy(ctx context.Context, admin string) (created string, drop func(), err error) {
	name, err := t.make(ctx, admin)
	if err != nil {
		return "", nil, err
	}
	created, drop, err = createDatabase(ctx, admin, name)
	if err == nil {
		err = t.setPath(ctx, created)
	}
	return created, drop, err
}

// setPath sets the search path of a database. A copy of a database does not have its settings.
func (t template) setPath(ctx context.Context, database string) error {
	if t.searchPath == "" {
		return nil
	}
	return execute(ctx, database, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "ALTER DATABASE "+conn.Config().Database+" SET search_path = "+t.searchPath)
		return err
	})
}

// make creates the template unless it exists, and returns its name.
func (t template) make(ctx context.Context, admin string) (string, error) {
	sum := sha256.New()
	err := fs.WalkDir(db.Migrations, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := db.Migrations.ReadFile(path)
		sum.Write([]byte(path)) // never fails
		sum.Write(content)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("hash migrations: %w", err)
	}
	sum.Write([]byte(t.before + t.after))
	sum.Write([]byte(time.Now().UTC().Format(time.DateOnly))) // a template has the partitions of the day on which it was made; tests can run past midnight
	name := t.prefix + hex.EncodeToString(sum.Sum(nil))[:16]
	err = execute(ctx, admin, func(conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock(hashtext($1))", name); err != nil {
			return err
		}
		var exists bool
		err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", name).Scan(&exists)
		if err != nil || exists {
			return err
		}
		// The template is created under a temporary name and then renamed, so that a database with the final name is always complete.
		if err := ensureOwner(ctx, conn); err != nil {
			return err
		}
		if _, err := conn.Exec(ctx, "CREATE DATABASE "+name+"_new OWNER "+owner+" TEMPLATE template0"); err != nil {
			return err
		}
		if err := t.fill(ctx, ownersURL(admin, name+"_new")); err != nil {
			return err
		}
		_, err = conn.Exec(ctx, "ALTER DATABASE "+name+"_new RENAME TO "+name)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("make template database: %w", err)
	}
	return name, nil
}

// fill creates everything in a new template.
func (t template) fill(ctx context.Context, database string) error {
	run := func(sql string) error {
		return execute(ctx, database, func(conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, sql)
			return err
		})
	}
	if err := run(t.before); err != nil {
		return err
	}
	if err := t.setPath(ctx, database); err != nil {
		return err
	}
	if _, err := migrate.Up(ctx, database, nil); err != nil {
		return err
	}
	return run(t.after)
}

func execute(ctx context.Context, target string, fn func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, target)
	if err != nil {
		return err
	}
	defer conn.Close(ctx) //nolint:errcheck // closing releases the advisory lock
	return fn(conn)
}

// ensureOwner creates the owner unless the role exists. The password need not be secret, because only the user that runs the tests reaches the server.
func ensureOwner(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, `DO $$ BEGIN CREATE ROLE `+owner+` LOGIN PASSWORD '`+owner+`';
		EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$`)
	return err
}

// ownersURL returns the owner's URL of a database on the server of admin.
func ownersURL(admin, name string) string {
	u, err := url.Parse(admin)
	if err != nil {
		panic(err) // a connection to this URL has just succeeded
	}
	u.User, u.Path = url.UserPassword(owner, owner), "/"+name
	return u.String()
}
