package sqlinbox_test

import (
	"context"
	"io"
	"net"
	"net/url"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"lksms/internal/testkit/apptest"
	"lksms/internal/testkit/pgtest"
	"lksms/internal/transport/sqlinbox"
)

// shop is a database with the tables of the examples in docs/integrations.md and docs/examples/sql. A commit fails if it adds a second order with the same
// number.
type shop struct {
	*apptest.Bundle
	t   *testing.T
	url string // connects as the role of the shop
	dir string
}

func newShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{Bundle: apptest.New(t), t: t, dir: pgtest.Dir(t)}
	s.AddCompany("acme", 1)
	role, to := newRole(s.Bundle)
	s.url = to
	if err := sqlinbox.NewRoles(s.App.DB).Grant(t.Context(), "user-of-acme", role); err != nil {
		t.Fatal(err)
	}
	s.Exec(`CREATE SCHEMA shop;
		CREATE TABLE shop.orders (no text PRIMARY KEY, phone text NOT NULL UNIQUE DEFERRABLE INITIALLY DEFERRED);
		CREATE TABLE shop.customers (phone text, name text);
		INSERT INTO shop.customers VALUES ('13800138000', 'Li'), ('13900139000', 'Wang');
		GRANT USAGE ON SCHEMA shop TO ` + role + `; GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA shop TO ` + role)
	return s
}

// write writes a file for an example.
func (s *shop) write(name, content string) string {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return path
}

// call runs a program, and returns its output and whether it succeeded.
func (s *shop) call(program string, args ...string) (out string, isDone bool) {
	s.t.Helper()
	cmd := osexec.CommandContext(s.t.Context(), program, args...)
	all, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(all)), err == nil
}

// submits runs an example program, which receives an order number, a phone number and a text, and prints the task_id. It is run once with a commit, once with
// a commit that fails, and once with an invalid phone number.
func (s *shop) submits(program string, args ...string) {
	s.t.Helper()
	order := func(no, number, text string) (string, bool) {
		return s.call(program, append(args[:len(args):len(args)], no, number, text)...)
	}
	orders := func(no string) int { return s.Count("SELECT count(*) FROM shop.orders WHERE no = $1", no) }

	id, isDone := order("1", apptest.Phone, "paid")
	if n := take(s.Bundle); !isDone || n != 1 || orders("1") != 1 {
		s.t.Fatalf("a commit: %d messages, %d orders: %s", n, orders("1"), id)
	}
	if got := s.Task(id); got.Content != "paid" || got.PhoneNumber != apptest.Phone || s.Count("SELECT count(*) FROM dedup_keys WHERE dedup_key = 'order-1'") != 1 {
		s.t.Errorf("the task of a commit: %+v", got)
	}
	said, isDone := order("2", apptest.Phone, "never sent")
	if n := take(s.Bundle); isDone || n != 0 || orders("2") != 0 || !strings.Contains(said, "orders_phone_key") || strings.Contains(said, "is wrong") {
		s.t.Errorf("a commit that fails: %d messages, %d orders: %s", n, orders("2"), said)
	}
	said, isDone = order("3", "12", "never sent")
	if n := take(s.Bundle); isDone || n != 0 || orders("3") != 0 || !strings.Contains(said, "phone_number is wrong: phone_number: ") {
		s.t.Errorf("a refused number: %d messages, %d orders: %s", n, orders("3"), said)
	}
}

// B12: the SQL statements in the documentation submit messages when psql runs them.
func TestSQLExamplesSubmit(t *testing.T) {
	psql := need(t, "psql", "postgresql-client")
	s := newShop(t)
	for name, want := range map[string]int{"transaction": 1, "set": 4} {
		said, isDone := s.call(psql, "-X", "-v", "ON_ERROR_STOP=1", "-d", s.url, "-f", s.write(name+".sql", block(t, name)))
		if n := take(s.Bundle); !isDone || n != want {
			t.Errorf("%s: converted %d messages: %s", name, n, said)
		}
	}
	// The documentation lists 42501 for a disabled user.
	s.Exec("UPDATE users SET is_disabled = true WHERE username = 'user-of-acme'")
	if said, isDone := s.call(psql, "-X", "-v", "ON_ERROR_STOP=1", "-v", "VERBOSITY=sqlstate", "-d", s.url, "-c", "SELECT lksms.enqueue('13800138000', 'x')"); isDone || !strings.Contains(said, "42501") {
		t.Errorf("a user who is disabled: %s", said)
	}
}

// B12: the Go program in the documentation submits messages.
func TestGoExampleSubmits(t *testing.T) {
	compiler := need(t, "go", "golang")
	s := newShop(t)
	_, source := example(t, "submit.go")
	program := filepath.Join(s.dir, "example")
	if said, isDone := s.call(compiler, "build", "-o", program, source); !isDone {
		t.Fatal(said)
	}
	s.submits(program, s.url)
}

// B12: the Python program in the documentation submits messages.
func TestPythonExampleSubmits(t *testing.T) {
	s, python := newShop(t), ""
	for _, candidate := range []string{"python3", "/usr/bin/python3"} { // python3 in PATH is possibly not the Python of the distribution, which has psycopg
		if _, isDone := s.call(candidate, "-c", "import psycopg"); isDone && python == "" {
			python = candidate
		}
	}
	if python == "" {
		t.Skip("psycopg 3 is not installed: apt-get install python3-psycopg")
	}
	_, program := example(t, "submit.py")
	s.submits(python, program, s.url)
}

// B12: the Java program in the documentation submits messages.
func TestJavaExampleSubmits(t *testing.T) {
	need(t, "javac", "default-jdk-headless") // the command java compiles a source file with javac
	java := need(t, "java", "default-jdk-headless")
	const driver = "/usr/share/java/postgresql.jar"
	if _, err := os.Stat(driver); err != nil {
		t.Skip("the driver is not installed: apt-get install libpostgresql-jdbc-java")
	}
	s := newShop(t)
	_, source := example(t, "Submit.java")
	as, err := pgx.ParseConfig(s.url)
	if err != nil {
		t.Fatal(err)
	}
	to := url.URL{Scheme: "jdbc:postgresql", Host: tcp(t, as), Path: "/" + as.Database, RawQuery: "sslmode=disable"}
	s.submits(java, "-cp", driver, source, to.String(), as.User, as.Password)
}

// tcp returns a TCP address of 127.0.0.1 that forwards to PostgreSQL, because the Java driver cannot use a Unix socket.
func tcp(t *testing.T, to *pgx.ConnConfig) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	ctx := context.WithoutCancel(t.Context())
	network, address := pgconn.NetworkAddress(to.Host, to.Port)
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := to.DialFunc(ctx, network, address)
			if err != nil {
				_ = client.Close() // the driver reports the error
				continue
			}
			go func() { _, _ = io.Copy(server, client); _ = server.Close() }()
			go func() { _, _ = io.Copy(client, server); _ = client.Close() }()
		}
	}()
	return listener.Addr().String()
}
