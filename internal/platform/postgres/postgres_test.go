package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"lksms/gen/dispatchq"
	"lksms/internal/platform/config"
	"lksms/internal/platform/postgres"
	"lksms/internal/testkit/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestFourConcurrentMigrationsApplyEachFileOnce(t *testing.T) {
	t.Parallel()
	url := pgtest.NewEmpty(t)
	applied := make([]int, 4)
	var wg sync.WaitGroup
	for i := range applied {
		wg.Go(func() {
			n, err := postgres.MigrateUp(t.Context(), url, nil)
			if err != nil {
				t.Error(err)
			}
			applied[i] = n
		})
	}
	wg.Wait()
	list, err := postgres.Migrations(t.Context(), url)
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

func TestMigratedReportsMissingMigrations(t *testing.T) {
	t.Parallel()
	url := pgtest.NewEmpty(t)
	db, err := postgres.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	expect := func(want bool) {
		t.Helper()
		if got, err := db.Migrated(t.Context()); err != nil || got != want {
			t.Errorf("migrated is %v, %v; want %v", got, err, want)
		}
	}
	expect(false)
	if _, err := postgres.MigrateUp(t.Context(), url, nil); err != nil {
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

func start(t *testing.T, dir string) (*postgres.Server, error) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return postgres.StartServer(ctx, postgres.ServerOptions{
		Dir: dir, BinDir: config.PostgresBin(), MoreBins: config.UnpackedPostgres(), Ephemeral: true, Log: slog.New(slog.DiscardHandler),
	})
}

func TestConcurrentColdStartsShareOneServer(t *testing.T) {
	t.Parallel()
	dir := pgtest.Dir(t)
	servers := make([]*postgres.Server, 3)
	var wg sync.WaitGroup
	for i := range servers {
		wg.Go(func() {
			var err error
			if servers[i], err = start(t, dir); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	owners := 0
	for _, server := range servers {
		if server.Owned() {
			owners++
			defer server.Stop()
		}
		if server.URL() != servers[0].URL() {
			t.Error("the starts are on different servers")
		}
	}
	if owners != 1 {
		t.Errorf("%d starts own the server", owners)
	}
}

func TestAnUnfinishedClusterIsCreatedAgain(t *testing.T) {
	t.Parallel()
	dir := pgtest.Dir(t)
	if err := os.MkdirAll(filepath.Join(dir, "postgres.new", "base"), 0o700); err != nil {
		t.Fatal(err)
	}
	server, err := start(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Stop(); err != nil {
		t.Error(err)
	}
}

func TestAClusterOfAnotherVersionIsNotOpened(t *testing.T) {
	t.Parallel()
	dir := pgtest.Dir(t)
	if err := os.MkdirAll(filepath.Join(dir, "postgres"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "postgres", "PG_VERSION"), []byte("9\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := start(t, dir); err == nil || !strings.Contains(err.Error(), "PostgreSQL 9") {
		t.Errorf("got %v", err)
	}
}

// stoppedCluster returns a folder in which a server ran and was stopped.
func stoppedCluster(t *testing.T) string {
	t.Helper()
	dir := pgtest.Dir(t)
	server, err := start(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestAClusterWithoutItsPasswordIsNotTouched(t *testing.T) {
	t.Parallel()
	dir := stoppedCluster(t)
	if err := os.Remove(filepath.Join(dir, "postgres.password")); err != nil {
		t.Fatal(err)
	}
	if _, err := start(t, dir); err == nil || !strings.Contains(err.Error(), "postgres.password is missing") {
		t.Errorf("got %v", err)
	}
}

func TestAFolderThatPostgresMayNotEnterIsRefused(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root runs PostgreSQL as another account")
	}
	dir := pgtest.Dir(t)
	if err := os.Mkdir(filepath.Join(dir, "closed"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := start(t, filepath.Join(dir, "closed", "data"))
	if err == nil || !strings.Contains(err.Error(), "may not enter "+filepath.Join(dir, "closed")) {
		t.Errorf("got %v", err)
	}
}

func TestAServerThatCannotStartSaysWhy(t *testing.T) {
	t.Parallel()
	dir := stoppedCluster(t)
	conf := filepath.Join(dir, "postgres", "postgresql.conf")
	if err := os.WriteFile(conf, []byte("shared_buffers = nonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := start(t, dir); err == nil || !strings.Contains(err.Error(), "shared_buffers") {
		t.Errorf("got %v", err)
	}
}

func TestAServerThatRefusesUsSaysWhy(t *testing.T) {
	t.Parallel()
	dir := stoppedCluster(t)
	if err := os.WriteFile(filepath.Join(dir, "postgres.password"), []byte("of another cluster\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := start(t, dir)
	if err == nil || !strings.Contains(err.Error(), "postgres.password") || !strings.Contains(err.Error(), "FATAL:  password authentication failed") {
		t.Errorf("got %v", err)
	}
}

// The process of a killed server exists for a moment, and the lock file names it.
func TestAStartWaitsUntilTheFormerServerIsGone(t *testing.T) {
	t.Parallel()
	dir := stoppedCluster(t)
	owner, err := os.Stat(filepath.Join(dir, "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	before := exec.Command("sleep", "60")
	before.SysProcAttr = &syscall.SysProcAttr{}
	stat := owner.Sys().(*syscall.Stat_t)
	if os.Geteuid() == 0 {
		before.SysProcAttr.Credential = &syscall.Credential{Uid: stat.Uid, Gid: stat.Gid}
	}
	if err := before.Start(); err != nil {
		t.Fatal(err)
	}
	if err := before.Process.Kill(); err != nil { // the process exists until before.Wait
		t.Fatal(err)
	}
	lock := filepath.Join(dir, "postgres", "postmaster.pid")
	if err := errors.Join(os.WriteFile(lock, fmt.Appendln(nil, before.Process.Pid), 0o600), os.Chown(lock, int(stat.Uid), int(stat.Gid))); err != nil {
		t.Fatal(err)
	}
	go func() {
		for ; ; time.Sleep(time.Millisecond) {
			if log, _ := os.ReadFile(filepath.Join(dir, "postgres.log")); strings.Contains(string(log), "postmaster.pid") || t.Context().Err() != nil {
				_ = before.Wait() // it was killed
				return
			}
		}
	}()
	server, err := start(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Stop(); err != nil {
		t.Error(err)
	}
}

func TestAServerOfAnotherProcessThatDoesNotAnswerSaysWhy(t *testing.T) {
	t.Parallel()
	dir := stoppedCluster(t)
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "postgres.log"), []byte("FATAL:  it hurts\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err = postgres.StartServer(ctx, postgres.ServerOptions{Dir: dir, Log: slog.New(slog.DiscardHandler)})
	if err == nil || !strings.Contains(err.Error(), "connect") || !strings.Contains(err.Error(), "FATAL:  it hurts") {
		t.Errorf("got %v", err)
	}
}

// A session that PostgreSQL refuses may be accepted later, whatever the reason is.
func TestARefusedSessionCountsAsAnUnavailableDatabase(t *testing.T) {
	t.Parallel()
	db, err := postgres.Open(t.Context(), pgtest.NewEmpty(t))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	config := db.Pool().Config().ConnConfig.Copy()
	config.Database = "is_not_there" // 3D000, whose class does not mean unavailable
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
		return db.Dispatch(ctx, func(*dispatchq.Queries) error { return nil })
	}
	if err := db.Tx(t.Context(), run); err == nil {
		t.Error("the dispatch ran inside another transaction")
	}
	if err := run(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestJobsThatHoldLocksLeaveConnectionsForTheirStatements(t *testing.T) {
	t.Parallel()
	db, err := postgres.Open(t.Context(), pgtest.New(t))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	tables, err := db.Query(ctx, `SELECT replace(substr(relname, 6), '_', '-') FROM pg_class WHERE relname LIKE 'lock\_%' AND relkind = 'r'
		ORDER BY relname LIMIT 16`) // as many as the main pool has connections
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
