package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// bouncerPort is part of the name of the socket.
const bouncerPort = "6432"

// PgBouncer starts a PgBouncer in transaction mode in front of a database, and returns the URL of the database through PgBouncer. Consecutive transactions get
// different sessions, so a test notices code that depends on a session. settings are lines of the configuration. PgBouncer skips t if PgBouncer is not
// installed.
func PgBouncer(t testing.TB, database string, settings ...string) string {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if errors.Is(err, exec.ErrNotFound) {
		program, err = exec.LookPath("/usr/sbin/pgbouncer")
	}
	if err != nil {
		t.Skip("PgBouncer is not installed: apt-get install pgbouncer")
	}
	cfg, err := pgx.ParseConfig(database)
	if err != nil {
		t.Fatal(err)
	}
	dir := ownedDir(t)
	lines := append([]string{
		"[databases]",
		fmt.Sprintf("* = host=%s port=%d user=%s password=%s", cfg.Host, cfg.Port, cfg.User, cfg.Password),
		"[pgbouncer]", "pool_mode = transaction", "server_round_robin = 1", "auth_type = any", "unix_socket_dir = " + dir, "listen_port = " + bouncerPort,
		"max_client_conn = 400", "default_pool_size = 60",
	}, settings...)
	ini, log := filepath.Join(dir, "pgbouncer.ini"), filepath.Join(dir, "log")
	if err := os.WriteFile(ini, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil { //nolint:gosec // PgBouncer runs as another user
		t.Fatal(err)
	}
	through := url.URL{
		Scheme: "postgres", User: url.User(cfg.User), Path: "/" + cfg.Database,
		RawQuery: url.Values{"host": {dir}, "port": {bouncerPort}, "sslmode": {"disable"}}.Encode(),
	}
	p := start(t, log, program, ini)
	p.await(t, log, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), setupLimit)
		defer cancel()
		return execute(ctx, through.String(), func(*pgx.Conn) error { return nil })
	})
	return through.String()
}
