package pgserver_test

import (
	"context"
	"errors"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"lksms/internal/platform/migrate"
	"lksms/internal/platform/pgserver"
	"lksms/internal/platform/postgres"
	"lksms/internal/testkit/pgtest"
)

// serverAccount returns the account that runs PostgreSQL if the tests run as root.
func serverAccount(t *testing.T) (uid, gid int) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root runs PostgreSQL as another account")
	}
	for _, name := range []string{"postgres", "nobody"} {
		if u, err := user.Lookup(name); err == nil {
			uid, uidErr := strconv.Atoi(u.Uid)
			gid, gidErr := strconv.Atoi(u.Gid)
			if err := errors.Join(uidErr, gidErr); err != nil {
				t.Fatal(err)
			}
			return uid, gid
		}
	}
	t.Skip("no account can run PostgreSQL")
	return 0, 0
}

// must fails the test if any error is not nil.
func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// run starts the server of dir, and stops it at the end of t.
func run(t *testing.T, dir string) *pgserver.Server {
	t.Helper()
	server, err := start(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if server.Owned() {
			_ = server.Stop() // the test has ended
		}
	})
	return server
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// In its folder, the account of PostgreSQL replaces the files that root uses with links to a file of root.
func TestRootFollowsNoLinksInAFolderOfTheAccount(t *testing.T) {
	t.Parallel()
	uid, gid := serverAccount(t)
	dir := pgtest.Dir(t)
	victim := filepath.Join(dir, "victim")
	const content = "of root\n"
	must(t, os.Mkdir(filepath.Join(dir, "data"), 0o755), os.WriteFile(victim, []byte(content), 0o600))
	socket := filepath.Join(dir, "data", "socket")
	must(t, os.Mkdir(socket, 0o700), os.Chown(socket, uid, gid), os.Symlink(victim, filepath.Join(socket, "password")))
	server := run(t, filepath.Join(dir, "data"))
	after, err := os.ReadFile(victim)
	must(t, err)
	info, err := os.Stat(victim)
	must(t, err)
	if owner := info.Sys().(*syscall.Stat_t); string(after) != content || owner.Uid != 0 || info.Mode().Perm() != 0o600 {
		t.Errorf("the file of root now contains %q, owner %d, mode %v", after, owner.Uid, info.Mode())
	}
	must(t, server.Stop())

	version := filepath.Join(dir, "data", "postgres", "PG_VERSION")
	must(t, os.Remove(version), os.Symlink(victim, version))
	if _, err := start(t, filepath.Join(dir, "data")); err == nil || strings.Contains(err.Error(), strings.TrimSpace(content)) {
		t.Errorf("the error repeats a file of root: %v", err)
	}
}

func TestADataFolderThatTheAccountCanChangeIsRefused(t *testing.T) {
	t.Parallel()
	uid, gid := serverAccount(t)
	for name, spoil := range map[string]func(above, data string) error{
		"the folder belongs to the account":           func(_, data string) error { return os.Chown(data, uid, -1) },
		"everybody may write to the folder":           func(_, data string) error { return os.Chmod(data, 0o777) },
		"everybody may add to the folder":             func(_, data string) error { return os.Chmod(data, 0o777|os.ModeSticky) },
		"the account's group may write to the folder": func(_, data string) error { return errors.Join(os.Chown(data, -1, gid), os.Chmod(data, 0o775)) },
		"the account may replace the folder":          func(above, _ string) error { return os.Chown(above, uid, -1) },
		"everybody may replace the folder":            func(above, _ string) error { return os.Chmod(above, 0o777) },
		"the folder is a link in a writable folder": func(above, data string) error {
			return errors.Join(os.Rename(data, above+"-data"), os.Mkdir(above+"-data/x", 0o755), os.Symlink(above+"-data/x", data), os.Chmod(above, 0o777))
		},
		"the folder is a link to a writable folder": func(above, data string) error {
			return errors.Join(os.Rename(data, above+"-data"), os.Symlink(above+"-data", data), os.Chmod(above+"-data", 0o777))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			above := filepath.Join(pgtest.Dir(t), "above")
			data := filepath.Join(above, "data")
			must(t, os.Mkdir(above, 0o755), os.Mkdir(data, 0o755), spoil(above, data))
			server, err := start(t, data)
			if err == nil {
				_ = server.Stop() // the server should not be running
				t.Fatal("the server started")
			}
			if !strings.Contains(err.Error(), "may write to "+above) || !strings.Contains(err.Error(), "LKSMS_DATA") {
				t.Errorf("the error does not contain the cause: %v", err)
			}
			if _, err := os.Stat(filepath.Join(data, "postgres")); err == nil {
				t.Error("the start made a cluster")
			}
		})
	}
}

func TestRootRunsNoProgramThatTheAccountCanChange(t *testing.T) {
	t.Parallel()
	uid, _ := serverAccount(t)
	bin := pgtest.Dir(t)
	must(t, os.Chmod(bin, 0o777)) // the script appends the id of the user that runs it to a file in this folder
	script := "#!/bin/sh\nid -u >> " + bin + "/who\necho 'postgres (PostgreSQL) 15.0'\n"
	for _, program := range []string{"postgres", "initdb", "pg_ctl"} {
		must(t, os.WriteFile(filepath.Join(bin, program), []byte(script), 0o755), os.Chmod(filepath.Join(bin, program), 0o755))
	}
	_, err := pgserver.Start(t.Context(), pgserver.Options{Dir: pgtest.Dir(t), BinDir: bin})
	if err == nil {
		t.Fatal("the server started a script")
	}
	who, readErr := os.ReadFile(filepath.Join(bin, "who"))
	must(t, readErr)
	for line := range strings.Lines(string(who)) {
		if line != strconv.Itoa(uid)+"\n" {
			t.Errorf("a program ran as %s", line)
		}
	}
}

// ordinary returns true if the current role has no special rights and is a member of no other role.
const ordinary = `SELECT NOT (r.rolsuper OR r.rolcreatedb OR r.rolcreaterole OR r.rolreplication OR r.rolbypassrls)
	AND NOT EXISTS (SELECT FROM pg_auth_members m WHERE m.member = r.oid) FROM pg_roles r WHERE r.rolname = current_user`

// ofOthers lists the objects in the database that belong neither to the current role nor to PostgreSQL itself.
const ofOthers = `
	SELECT format('schema %s', nspname) AS name FROM pg_namespace WHERE nspname IN ('public', 'lksms') AND pg_get_userbyid(nspowner) <> current_user
	UNION ALL SELECT format('relation %s', relname) FROM pg_class WHERE relnamespace::regnamespace::text IN ('public', 'lksms') AND pg_get_userbyid(relowner) <> current_user
	UNION ALL SELECT format('routine %s', proname) FROM pg_proc WHERE pronamespace::regnamespace::text IN ('public', 'lksms') AND pg_get_userbyid(proowner) <> current_user
	UNION ALL SELECT format('type %s', typname) FROM pg_type WHERE typnamespace::regnamespace::text IN ('public', 'lksms') AND pg_get_userbyid(typowner) <> current_user
	ORDER BY name`

// expectOwnDatabase checks that the service owns everything in the database, and has no other rights.
func expectOwnDatabase(t *testing.T, url string) {
	t.Helper()
	conn := connect(t, url)
	var isOrdinary bool
	must(t, conn.QueryRow(t.Context(), ordinary).Scan(&isOrdinary))
	if !isOrdinary {
		t.Error("the service is not an ordinary role")
	}
	rows, err := conn.Query(t.Context(), ofOthers)
	must(t, err)
	others, err := pgx.CollectRows(rows, pgx.RowTo[string])
	must(t, err)
	if len(others) > 0 {
		t.Errorf("objects of the superuser: %v", others)
	}
	for _, sql := range []string{
		"SELECT pg_read_file('/etc/passwd')", "COPY (SELECT 1) TO PROGRAM 'cat'", "CREATE ROLE another", "CREATE DATABASE another",
		"ALTER SYSTEM SET work_mem = '1GB'", "ALTER DATABASE lksms SET work_mem = '1GB'", "SELECT rolpassword FROM pg_authid", "SET ROLE lksms", "SELECT lo_import('/etc/passwd')",
	} {
		var refused *pgconn.PgError
		if _, err := conn.Exec(t.Context(), sql); !errors.As(err, &refused) || refused.Code != "42501" {
			t.Errorf("%s: %v", sql, err)
		}
	}
}

func TestTheServiceIsAnOrdinaryRoleThatOwnsItsDatabase(t *testing.T) {
	t.Parallel()
	server := run(t, pgtest.Dir(t))
	if _, err := migrate.Up(t.Context(), server.URL(), nil); err != nil {
		t.Fatal(err)
	}
	expectOwnDatabase(t, server.URL())
}

// B12: the role of the service creates the schema of the SQL inbox, and grants its use to a role of PostgreSQL.
func TestTheServiceCanGrantTheSQLInbox(t *testing.T) {
	t.Parallel()
	server := run(t, pgtest.Dir(t))
	if _, err := migrate.Up(t.Context(), server.URL(), nil); err != nil {
		t.Fatal(err)
	}
	admin, service := connect(t, server.AdminURL()), connect(t, server.URL())
	_, err := admin.Exec(t.Context(), "CREATE ROLE shop LOGIN PASSWORD 'shop'")
	must(t, err)
	_, err = service.Exec(t.Context(), `INSERT INTO users (username, role) VALUES ('jane', 'submit'); SELECT sql_role_grant('shop');
		INSERT INTO sql_roles (role_name, user_id) SELECT 'shop', id FROM users WHERE username = 'jane'`)
	must(t, err)
	to, err := url.Parse(server.URL())
	must(t, err)
	to.User = url.UserPassword("shop", "shop")
	shop := connect(t, to.String())
	_, err = shop.Exec(t.Context(), "SELECT lksms.enqueue('13800138000', 'x')")
	must(t, err)
	_, err = service.Exec(t.Context(), "DELETE FROM sql_roles; SELECT sql_role_revoke('shop')")
	must(t, err)
	_, err = admin.Exec(t.Context(), "DROP ROLE shop") // fails if an object or grant still depends on the role
	must(t, err)
}

// A role named lksms has the schema lksms first in its search path. Its tables and partitions must still be created in public.
func TestARoleNamedLKSMSCreatesItsTablesInPublic(t *testing.T) {
	t.Parallel()
	server := run(t, pgtest.Dir(t))
	database := server.AdminURL() // the superuser is named lksms
	if _, err := migrate.Up(t.Context(), database, nil); err != nil {
		t.Fatal(err)
	}
	if n, err := migrate.Up(t.Context(), database, nil); err != nil || n != 0 {
		t.Errorf("%d migrations were applied again: %v", n, err)
	}
	conn := connect(t, database)
	var first, elsewhere string
	must(t, conn.QueryRow(t.Context(), "SELECT current_schema()").Scan(&first))
	_, err := conn.Exec(t.Context(), "SELECT task_partitions_ahead('day', '2026-01-05', '2026-01-05')")
	must(t, err)
	must(t, conn.QueryRow(t.Context(), `SELECT coalesce(string_agg(c.oid::regclass::text, ' '), '') FROM pg_class c
		WHERE c.relnamespace::regnamespace::text NOT IN ('public', 'pg_catalog', 'information_schema', 'pg_toast') AND c.relname <> 'outgoing'`).Scan(&elsewhere))
	if first != "lksms" || elsewhere != "" {
		t.Errorf("the first schema is %s; outside public are %s", first, elsewhere)
	}
}

// ofAnEarlierVersion returns the folder of a stopped cluster as an earlier version left it: the service connected as the superuser. The cluster contains one
// row.
func ofAnEarlierVersion(t *testing.T) string {
	t.Helper()
	dir := pgtest.Dir(t)
	server := run(t, dir)
	admin, err := pgx.Connect(t.Context(), strings.Replace(server.AdminURL(), "/lksms?", "/postgres?", 1))
	must(t, err)
	for _, sql := range []string{"DROP DATABASE lksms", "DROP ROLE lksms_service", "CREATE DATABASE lksms"} {
		_, err := admin.Exec(t.Context(), sql)
		must(t, err)
	}
	must(t, admin.Close(t.Context()))
	if _, err := migrate.Up(t.Context(), server.AdminURL(), nil); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), server.AdminURL())
	must(t, err)
	// The earlier version had no schema lksms. The second and third statement restore the rights on the schema public of PostgreSQL before 15. The other
	// statements add objects of an operator.
	_, err = conn.Exec(t.Context(), `SET search_path = public; ALTER SCHEMA public OWNER TO lksms; GRANT CREATE ON SCHEMA public TO PUBLIC;
		INSERT INTO companies (company_no, name) VALUES ('acme', 'Acme');
		CREATE MATERIALIZED VIEW "Of ""Acme""" AS SELECT * FROM companies; CREATE SEQUENCE apart; CREATE TYPE pair AS (a int, b int);
		CREATE DOMAIN "Positive" AS int CHECK (VALUE > 0); CREATE TYPE colour AS ENUM ('red');
		CREATE FUNCTION "Of"(pair, VARIADIC int[]) RETURNS int LANGUAGE sql AS 'SELECT 1';
		CREATE AGGREGATE total (int) (SFUNC = int4pl, STYPE = int, INITCOND = '0')`)
	must(t, err, conn.Close(t.Context()), server.Stop(), os.Remove(filepath.Join(dir, "postgres.service.password")))
	return dir
}

func TestAnEarlierClusterIsHandedOverToTheOrdinaryRole(t *testing.T) {
	t.Parallel()
	dir := ofAnEarlierVersion(t)
	for range 2 { // the second start has nothing to change
		server := run(t, dir)
		expectOwnDatabase(t, server.URL())
		conn, err := pgx.Connect(t.Context(), server.URL())
		must(t, err)
		var name string
		must(t, conn.QueryRow(t.Context(), "SELECT name FROM companies WHERE company_no = 'acme'").Scan(&name), conn.Close(t.Context()))
		// Another process that finds the server running connects with the same role.
		if other := run(t, dir); other.Owned() || other.URL() != server.URL() {
			t.Error("another process has another role")
		}
		must(t, server.Stop())
	}
	server := run(t, dir)
	conn := connect(t, server.URL())
	_, err := conn.Exec(t.Context(), `DROP MATERIALIZED VIEW "Of ""Acme"""; DROP AGGREGATE total (int)`)
	must(t, err)
	if _, err := conn.Exec(t.Context(), "ALTER TABLE queue ADD COLUMN later integer"); err != nil {
		t.Errorf("the role may not migrate: %v", err)
	}
}

// A start can be interrupted between any two of its steps. An older version can run before the next start.
func TestAnInterruptedHandOverIsCompleted(t *testing.T) {
	t.Parallel()
	for name, left := range map[string]string{
		"after the role":                     "CREATE ROLE lksms_service NOLOGIN",
		"after the role, without a database": "DROP DATABASE lksms; CREATE ROLE lksms_service NOLOGIN",
		"before the objects":                 "CREATE ROLE lksms_service NOLOGIN; ALTER DATABASE lksms OWNER TO lksms_service",
		"after a role with more":             "CREATE ROLE lksms_service SUPERUSER CREATEDB CREATEROLE REPLICATION BYPASSRLS LOGIN PASSWORD 'another'",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := ofAnEarlierVersion(t)
			// Only the superuser of a running server can create this state of the cluster.
			server := run(t, dir)
			admin, err := pgx.Connect(t.Context(), strings.Replace(server.AdminURL(), "/lksms?", "/postgres?", 1))
			must(t, err)
			for _, sql := range append([]string{"ALTER ROLE lksms_service RENAME TO role_before"}, strings.Split(left, "; ")...) {
				_, err := admin.Exec(t.Context(), sql)
				must(t, err)
			}
			must(t, admin.Close(t.Context()), server.Stop(), os.Remove(filepath.Join(dir, "postgres.service.password")))
			server = run(t, dir)
			expectOwnDatabase(t, server.URL())
			if _, err := migrate.Up(t.Context(), server.URL(), nil); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestALostPasswordOfTheServiceIsReplaced(t *testing.T) {
	t.Parallel()
	dir := stoppedCluster(t)
	must(t, os.WriteFile(filepath.Join(dir, "postgres.service.password"), nil, 0o600)) // a crash of the machine can leave an empty file
	server := run(t, dir)
	expectOwnDatabase(t, server.URL())
	for _, name := range []string{"postgres.password", "postgres.service.password"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o600 || info.Sys().(*syscall.Stat_t).Uid != uint32(os.Geteuid()) {
			t.Errorf("%s: %v %v", name, info, err)
		}
	}
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	must(t, err)
	if slices.Contains(names, filepath.Join(dir, "initdb.password")) {
		t.Error("the password for initdb is left behind")
	}
}

func TestTheServiceCanVacuumItsTables(t *testing.T) {
	t.Parallel()
	db, err := postgres.Open(t.Context(), pgtest.New(t))
	must(t, err)
	t.Cleanup(db.Close)
	must(t, db.Vacuum(t.Context(), "facts"))
	for count := 0; count == 0; time.Sleep(10 * time.Millisecond) { // the statistics are updated with a delay
		must(t, db.Pool().QueryRow(t.Context(), "SELECT vacuum_count FROM pg_stat_user_tables WHERE relname = 'facts'").Scan(&count))
	}
}
