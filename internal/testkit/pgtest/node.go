package pgtest

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"lksms/internal/platform/config"
	"lksms/internal/platform/pgserver"
)

// Node is a PostgreSQL that a test stops, starts and promotes. It listens on a port of 127.0.0.1.
type Node struct {
	Port int

	t       testing.TB
	bin     string
	data    string
	log     string
	process *process
}

// nodeUser is the superuser of nodes, which need no password.
const nodeUser = "postgres"

// NewPrimary starts a PostgreSQL that standbys can follow.
func NewPrimary(t testing.TB) *Node {
	t.Helper()
	n := newNode(t)
	run(t, filepath.Join(n.bin, "initdb"), "--pgdata="+n.data, "--username="+nodeUser, "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions")
	n.Start()
	n.Exec("CREATE ROLE "+owner+" LOGIN; CREATE DATABASE lksms OWNER "+owner, "postgres")
	return n
}

// Standby starts a standby from a copy of n, and waits until the standby accepts connections.
func (n *Node) Standby() *Node {
	n.t.Helper()
	s := newNode(n.t)
	run(n.t, filepath.Join(n.bin, "pg_basebackup"), "--pgdata="+s.data, "--write-recovery-conf", "--checkpoint=fast", "--no-sync", "--wal-method=stream",
		fmt.Sprintf("--dbname=host=127.0.0.1 port=%d user=%s", n.Port, nodeUser))
	s.Start()
	return s
}

func newNode(t testing.TB) *Node {
	t.Helper()
	bin, err := pgserver.Binaries(config.PostgresBin(), config.UnpackedPostgres())
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // listening does not wait
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close() //nolint:errcheck // PostgreSQL will listen on the port
	dir := ownedDir(t)
	return &Node{t: t, bin: bin, data: filepath.Join(dir, "data"), log: filepath.Join(dir, "log"), Port: listener.Addr().(*net.TCPAddr).Port} //nolint:forcetypeassert // the listener uses TCP
}

// Start starts the PostgreSQL, and waits until it accepts connections.
func (n *Node) Start() {
	n.t.Helper()
	args := []string{"-D", n.data}
	for _, setting := range []string{
		"listen_addresses=127.0.0.1", fmt.Sprint("port=", n.Port), "unix_socket_directories=", "fsync=off", "max_connections=200",
		"hot_standby_feedback=on", "wal_receiver_status_interval=1s", "shared_buffers=32MB", "wal_keep_size=256MB",
	} {
		args = append(args, "-c", setting)
	}
	n.process = start(n.t, n.log, filepath.Join(n.bin, "postgres"), args...)
	n.process.await(n.t, n.log, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		return execute(ctx, n.url(nodeUser, "postgres"), func(*pgx.Conn) error { return nil })
	})
}

// Kill stops the PostgreSQL immediately, like a crash.
func (n *Node) Kill() { n.process.end(syscall.SIGQUIT) }

// Freeze suspends all processes of the PostgreSQL until the end of the test. The PostgreSQL then sends no response and closes no connection.
func (n *Node) Freeze() {
	n.t.Helper()
	children, err := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", n.process.cmd.Process.Pid))
	if err != nil {
		n.t.Skip("this system does not list the children of a process:", err)
	}
	_ = n.process.cmd.Process.Signal(syscall.SIGSTOP) // the parent is suspended first, so that it starts no more children
	for child := range strings.FieldsSeq(string(children)) {
		pid, err := strconv.Atoi(child)
		if err != nil {
			n.t.Fatal(err)
		}
		_ = syscall.Kill(pid, syscall.SIGSTOP)                         // the child can have ended
		n.t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) }) // a suspended child would not notice the end of its parent
	}
}

// Stop stops the PostgreSQL after all standbys have received its WAL.
func (n *Node) Stop() { n.process.end(syscall.SIGINT) }

// Promote makes a standby the primary.
func (n *Node) Promote() {
	n.t.Helper()
	n.Exec("SELECT pg_promote(true, 60)", "postgres")
}

// Demote restarts a stopped PostgreSQL as a standby of primary. Before, one of the two must have been a standby of the other.
func (n *Node) Demote(primary *Node) {
	n.t.Helper()
	conf := fmt.Sprintf("primary_conninfo = 'host=127.0.0.1 port=%d user=%s'\nrecovery_target_timeline = 'latest'\n", primary.Port, nodeUser)
	signal := filepath.Join(n.data, "standby.signal")
	err := os.WriteFile(filepath.Join(n.data, "postgresql.auto.conf"), []byte(conf), 0o600)
	if err == nil {
		err = os.WriteFile(signal, nil, 0o600)
	}
	own, ownErr := pgserver.Prepare(exec.Command("true")) // this command never runs
	if err == nil && ownErr == nil && own != nil {
		err = os.Chown(signal, int(own.Uid), int(own.Gid))
	}
	if err != nil || ownErr != nil {
		n.t.Fatal(err, ownErr)
	}
	n.Start()
}

// URL returns a URL that contains these nodes as the hosts of one database, in this order.
func URL(nodes ...*Node) string {
	var hosts []string
	for _, n := range nodes {
		hosts = append(hosts, fmt.Sprint("127.0.0.1:", n.Port))
	}
	return "postgres://" + owner + "@" + strings.Join(hosts, ",") + "/lksms?sslmode=disable"
}

func (n *Node) url(user, database string) string {
	u := url.URL{Scheme: "postgres", User: url.User(user), Host: fmt.Sprint("127.0.0.1:", n.Port), Path: "/" + database, RawQuery: "sslmode=disable"}
	return u.String()
}

// Exec executes statements as superuser in a database, each in a separate transaction.
func (n *Node) Exec(statements, database string) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), setupLimit)
	defer cancel()
	err := execute(ctx, n.url(nodeUser, database), func(conn *pgx.Conn) error {
		for _, sql := range strings.Split(statements, "; ") {
			if _, err := conn.Exec(ctx, sql); err != nil {
				return fmt.Errorf("%s: %w", sql, err)
			}
		}
		return nil
	})
	if err != nil {
		n.t.Fatal(err)
	}
}

// Sessions returns the number of sessions that run a statement which contains text.
func (n *Node) Sessions(text string) (count int) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), setupLimit)
	defer cancel()
	err := execute(ctx, n.url(nodeUser, "postgres"), func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND pid <> pg_backend_pid() AND position($1 IN query) > 0", text).Scan(&count)
	})
	if err != nil {
		n.t.Fatal(err)
	}
	return count
}
