package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"lksms/gen/dispatchq"
	"lksms/internal/config"
	"lksms/internal/pgtest"
	"lksms/internal/postgres"
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

func TestEveryMigrationGoesDownAndUpAgain(t *testing.T) {
	t.Parallel()
	url := pgtest.NewEmpty(t)
	up := func() int {
		n, err := postgres.MigrateUp(t.Context(), url, nil)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	steps := up()
	for range steps {
		if err := postgres.MigrateDown(t.Context(), url, nil); err != nil {
			t.Fatal(err)
		}
	}
	db, err := postgres.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var left int
	const tables = `SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relname !~ '^schema_migrations'`
	if err := db.Pool().QueryRow(t.Context(), tables).Scan(&left); err != nil || left != 0 {
		t.Errorf("%d tables and indexes are left, %v", left, err)
	}
	if again := up(); again != steps {
		t.Errorf("up again applied %d, want %d", again, steps)
	}
}

// migratedBefore returns a database as it was before the migration of a version, to which a test can add rows of that time.
func migratedBefore(t *testing.T, version string) (url string, db *postgres.DB) {
	t.Helper()
	url = pgtest.NewEmpty(t)
	if err := postgres.MigrateUpBefore(t.Context(), url, version); err != nil {
		t.Fatal(err)
	}
	db, err := postgres.Open(t.Context(), url+"&application_name=test") // no server: an upgrade refuses to run beside one
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return url, db
}

// migrateBefore undoes the migration of a version and all after it.
func migrateBefore(t *testing.T, url, version string) {
	t.Helper()
	if err := postgres.MigrateDownBefore(t.Context(), url, version); err != nil {
		t.Fatal(err)
	}
}

func TestTheMigrationOfPoolsRetiresPoolsWithoutRoutes(t *testing.T) {
	t.Parallel()
	url, db := migratedBefore(t, "20261122000001")
	if _, err := db.Pool().Exec(t.Context(), `INSERT INTO companies (company_no, name) VALUES ('acme', 'acme');
		INSERT INTO senders (sender_no, name) VALUES ('s', 's');
		INSERT INTO pools (channel_id, company_id, message_type) SELECT 1, c.id, t FROM companies c, generate_series(0, 2) t WHERE c.company_no = 'acme';
		INSERT INTO routes (pool_id, sender_id) SELECT max(p.id), (SELECT id FROM senders) FROM pools p;
		INSERT INTO tasks (task_id, phone_number, recipient, content, pool_id, company_id, lane, rank)
			SELECT 't' || p.id, '', '', 'x', p.id, c.id, 160, 0 FROM pools p, companies c WHERE p.company_id = c.id`); err != nil {
		t.Fatal(err)
	}
	if _, err := postgres.MigrateUp(t.Context(), url, nil); err != nil {
		t.Fatal(err)
	}
	var retired, unsettled, tasks int
	if err := db.Pool().QueryRow(t.Context(), `SELECT count(*) FILTER (WHERE retired_at IS NOT NULL), count(*) FILTER (WHERE unsettled_since IS NOT NULL),
		(SELECT count(*) FROM tasks) FROM pools`).Scan(&retired, &unsettled, &tasks); err != nil || retired != 2 || unsettled != 1 || tasks != 3 {
		t.Errorf("%d pools are retired and %d unsettled, %d tasks are left, %v", retired, unsettled, tasks, err)
	}
}

// Templates keep their state when they get five of them, and when that is taken back. No administrator changed them.
func TestTheMigrationsOfTemplatesKeepTheirStates(t *testing.T) {
	t.Parallel()
	const version = "20261124100301"
	url, db := migratedBefore(t, version)
	if _, err := db.Pool().Exec(t.Context(), `INSERT INTO templates (template_name, template_content, is_active) VALUES ('on', 'x', true), ('off', '{y}', false);
		DELETE FROM audit`); err != nil {
		t.Fatal(err)
	}
	expect := func(want, query string) {
		t.Helper()
		var got string
		if err := db.Pool().QueryRow(t.Context(), query).Scan(&got); err != nil || got != want {
			t.Errorf("got %s %v, want %s", got, err, want)
		}
	}
	if _, err := postgres.MigrateUp(t.Context(), url, nil); err != nil {
		t.Fatal(err)
	}
	expect("template-1 on active t 1; template-2 off disabled f 1",
		"SELECT string_agg(concat_ws(' ', template_no, template_name, status, is_active, version), '; ' ORDER BY id) FROM templates")
	expect("1 1 x {}; 2 1 {y} {}", "SELECT string_agg(concat_ws(' ', template_id, version, template_content, created_by, translations), '; ' ORDER BY template_id) FROM template_versions")
	expect("0", "SELECT count(*)::text FROM audit")
	if _, err := db.Pool().Exec(t.Context(), "UPDATE templates SET template_content = repeat('x', 1024), status = 'in_review' WHERE id = 1"); err != nil {
		t.Fatal(err)
	}
	migrateBefore(t, url, version)
	expect("on f 200; off f 3", "SELECT string_agg(concat_ws(' ', template_name, is_active, length(template_content)), '; ' ORDER BY id) FROM templates")
}

// A node with a running reminder is not over, even if its other reminders have ended.
func TestTheMigrationOfEndsFindsTheNodesThatAreOver(t *testing.T) {
	t.Parallel()
	url, db := migratedBefore(t, "20261122000305")
	const reminders = `INSERT INTO notifications (company_id, channel_id, biz_type, biz_id, payload, user_ids, submitted_by, ended_as)
		SELECT o.id, c.id, 5, r.node_id, '{}', '{u1}', 'x', r.ended_as
		FROM (VALUES (1, NULL), (2, 3), (2, NULL), (3, 3), (3, 4), (4, 2)) AS r (node_id, ended_as),
			(SELECT min(id) AS id FROM companies) o, (SELECT min(id) AS id FROM channels) c`
	if _, err := db.Pool().Exec(t.Context(), reminders); err != nil {
		t.Fatal(err)
	}
	if _, err := postgres.MigrateUp(t.Context(), url, nil); err != nil {
		t.Fatal(err)
	}
	var over []int64
	if err := db.Pool().QueryRow(t.Context(), "SELECT array_agg(subject_id ORDER BY subject_id) FROM business_ends").Scan(&over); err != nil || !slices.Equal(over, []int64{3}) {
		t.Errorf("the nodes %v are over, %v", over, err)
	}
}

// Notifications keep their payload and recipients when announcements are introduced, and when this migration is taken back.
func TestTheMigrationOfAnnouncementsKeepsPayloadsAndRecipients(t *testing.T) {
	t.Parallel()
	const version = "20261122001201"
	url, db := migratedBefore(t, version)
	if _, err := db.Pool().Exec(t.Context(), `INSERT INTO notifications (company_id, channel_id, biz_type, biz_id, payload, user_ids, submitted_by)
		SELECT o.id, c.id, 3, n, CASE WHEN n = 2 THEN 'null' ELSE jsonb_build_object('n', n) END, ARRAY['u' || n, 'v'], 'x'
		FROM generate_series(1, 3) n, (SELECT min(id) AS id FROM companies) o, (SELECT min(id) AS id FROM channels) c;
		DELETE FROM notifications WHERE biz_id = 1`); err != nil {
		t.Fatal(err)
	}
	contents := func(of string) (all string) {
		t.Helper()
		if err := db.Pool().QueryRow(t.Context(), "SELECT string_agg(concat_ws(' ', n.biz_id, payload, user_ids), '; ' ORDER BY n.id) FROM notifications n "+of).Scan(&all); err != nil {
			t.Fatal(err)
		}
		return all
	}
	const want = `2 {} {u2,v}; 3 {"n": 3} {u3,v}`
	if _, err := postgres.MigrateUp(t.Context(), url, nil); err != nil {
		t.Fatal(err)
	}
	const join = "JOIN announcements a ON a.id = n.announcement_id"
	if got := contents(join); got != want {
		t.Errorf("after the migration: %s", got)
	}
	// The sequence continues after the migrated announcements.
	if _, err := db.Pool().Exec(t.Context(), "INSERT INTO announcements (payload, user_ids) VALUES ('{}', '{}')"); err != nil {
		t.Error(err)
	}
	migrateBefore(t, url, version)
	if got := contents(""); got != want {
		t.Errorf("after the migration was taken back: %s", got)
	}
}

func TestTheMigrationOfOrphanRanksKeepsTheRanksOfPools(t *testing.T) {
	t.Parallel()
	url, db := migratedBefore(t, "20261123000002")
	if _, err := db.Pool().Exec(t.Context(), `INSERT INTO fair_ranks (pool_id, priority, company_id, start, finish)
		SELECT p.id, 5, c.id, 0, 1 FROM companies c, (SELECT id FROM pools UNION ALL SELECT 77) p (id)`); err != nil {
		t.Fatal(err)
	}
	if _, err := postgres.MigrateUp(t.Context(), url, nil); err != nil {
		t.Fatal(err)
	}
	var orphans, others int
	if err := db.Pool().QueryRow(t.Context(), `SELECT count(*) FILTER (WHERE p.id IS NULL), count(*) FILTER (WHERE p.id IS NOT NULL)
		FROM fair_ranks f LEFT JOIN pools p ON p.id = f.pool_id`).Scan(&orphans, &others); err != nil || orphans != 0 || others == 0 {
		t.Errorf("%d orphan ranks and %d others are left, %v", orphans, others, err)
	}
}

func start(t *testing.T, dir string) (*postgres.Server, error) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return postgres.StartServer(ctx, postgres.ServerOptions{
		Dir: dir, BinDir: config.PostgresBin(), MoreBins: config.UnpackedPostgres(), Ephemeral: true, Log: slog.New(slog.DiscardHandler),
	})
}

func TestTheMigrationOfCompaniesKeepsCompaniesWithAnEffect(t *testing.T) {
	t.Parallel()
	url, db := migratedBefore(t, "20261122001001")
	if _, err := db.Pool().Exec(t.Context(), `
		INSERT INTO companies (id, company_no, name) VALUES (7, 'acme', 'ACME');
		INSERT INTO users (username, role, company_id, has_company) VALUES
			('submit', 'submit', 7, true), ('read', 'read', 7, true), ('send', 'send', 7, true), ('admin', 'admin', 7, true),
			('phone', 'send', 1, true), ('boss', 'admin', 1, true), ('reader', 'read', 1, false)`); err != nil {
		t.Fatal(err)
	}
	if _, err := postgres.MigrateUp(t.Context(), url, nil); err != nil {
		t.Fatal(err)
	}
	var got string
	if err := db.Pool().QueryRow(t.Context(), `
		SELECT string_agg(username || ' ' || company_id || CASE WHEN has_company THEN ' bound' ELSE '' END, ', ' ORDER BY username) FROM users
	`).Scan(&got); err != nil {
		t.Fatal(err)
	}
	// An admin submits for its company, which does not bind it. A send user never did anything for a company.
	if want := "admin 7, boss 1, phone 1, read 7 bound, reader 1, send 1, submit 7 bound"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
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

// The migration of dedup keys keeps each key for its submitter. When it is taken back, a key of several submitters stays with the first.
func TestTheMigrationOfDedupKeysKeepsThem(t *testing.T) {
	t.Parallel()
	url, db := migratedBefore(t, "20261122000901")
	exec := func(sql string) error {
		_, err := db.Pool().Exec(t.Context(), sql)
		return err
	}
	const (
		task   = `INSERT INTO tasks (task_id, phone_number, recipient, content, dedup_key, submitted_by) VALUES ('%[1]s', '', '', 'x', 'k', '%[2]s')`
		key    = `INSERT INTO dedup_keys (task_id, company_id, submitted_by, dedup_key) VALUES ('%[1]s', 1, '%[2]s', 'k')`
		notice = `INSERT INTO notifications (company_id, channel_id, biz_type, biz_id, biz_task_id, payload, user_ids, dedup_key, submitted_by) VALUES (1, 1, 3, 1, %s, '{}', '{u}', '%s', '%s')`
		later  = `WITH a AS (INSERT INTO announcements (payload, user_ids) VALUES ('{}', '{u}') RETURNING id)
			INSERT INTO notifications (company_id, channel_id, biz_type, biz_id, biz_task_id, announcement_id, dedup_key, submitted_by)
			SELECT 1, 1, 3, 1, %s, a.id, '%s', '%s' FROM a`
		once = `INSERT INTO subscribe_messages (company_id, business_type, business_id, template_type, receiver_user_id, template_id, task_id%s) VALUES (1, 'b', 1, 't', 'u', 'x', 't1'%s)`
	)
	for _, sql := range []string{
		fmt.Sprintf(task, "t1", "one"), fmt.Sprintf(notice, "NULL", "k", "one"), fmt.Sprintf(notice, "7", "event", "one"), fmt.Sprintf(once, "", ""),
	} {
		if err := exec(sql); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := postgres.MigrateUp(t.Context(), url, nil); err != nil {
		t.Fatal(err)
	}
	for sql, isTaken := range map[string]bool{
		fmt.Sprintf(key, "t2", "one"):                  true,
		fmt.Sprintf(later, "NULL", "k", "one"):         true,
		fmt.Sprintf(later, "NULL", "k", "two"):         false,
		fmt.Sprintf(later, "7", "event", "two"):        true,
		fmt.Sprintf(later, "NULL", "event", "two"):     false,
		fmt.Sprintf(once, ", submitted_by", ", 'one'"): true,
		fmt.Sprintf(once, ", submitted_by", ", 'two'"): false,
	} {
		err := exec(sql)
		if isRefused := err != nil && strings.Contains(err.Error(), "SQLSTATE 23505"); isRefused != isTaken || err != nil && !isTaken {
			t.Errorf("%s: %v", sql, err)
		}
	}
	migrateBefore(t, url, "20261122000901")
	var tasks, named, notifications, messages int
	if err := db.Pool().QueryRow(t.Context(), `SELECT (SELECT count(*) FROM tasks), (SELECT count(*) FROM tasks WHERE dedup_key IS NOT NULL),
		(SELECT count(*) FROM notifications WHERE dedup_key IS NOT NULL), (SELECT count(*) FROM subscribe_messages)`,
	).Scan(&tasks, &named, &notifications, &messages); err != nil || tasks != 1 || named != 1 || notifications != 2 || messages != 1 {
		t.Errorf("%d tasks, %d of them with a key, %d notifications with a key and %d messages are left, %v", tasks, named, notifications, messages, err)
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
