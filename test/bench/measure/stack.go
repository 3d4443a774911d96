package measure

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"lksms/internal/platform/config"
	"lksms/internal/platform/migrate"
	"lksms/internal/platform/pgserver"
	"lksms/internal/platform/postgres"
)

const (
	Password   = "bench-bench-bench"
	secretsKey = "YmVuY2gtYmVuY2gtYmVuY2gtYmVuY2gtYmVuY2gtYmU=" // encrypts the secrets of webhooks
)

// Stack is a server process, its PostgreSQL and its files.
type Stack struct {
	dir      string
	private  *pgserver.Server
	database string // URL of the database
	binary   string // path of the server's executable
	address  string
	Server   *exec.Cmd
	DB       *postgres.DB
}

// Start builds the server and starts it on the database. With an empty databaseURL it starts a private PostgreSQL first.
func Start(ctx context.Context, databaseURL string) (*Stack, error) {
	s := &Stack{database: databaseURL}
	var err error
	if s.dir, err = os.MkdirTemp("/var/tmp", "lksms-bench-"); err != nil { // not in /tmp, which can be in memory: the folder must be on a disk
		return s, err
	}
	if err := os.Chmod(s.dir, 0o755); err != nil {
		return s, err
	}
	if s.database == "" {
		if s.private, err = pgserver.Start(ctx, pgserver.Options{
			Dir: s.dir, Log: slog.New(slog.DiscardHandler), BinDir: config.PostgresBin(), MoreBins: config.UnpackedPostgres(),
		}); err != nil {
			return s, err
		}
		s.database = s.private.URL()
	}
	if s.DB, err = postgres.Open(ctx, s.database); err != nil {
		return s, err
	}
	s.binary = filepath.Join(s.dir, "lksms")
	build := exec.CommandContext(ctx, "go", "build", "-ldflags=-s -w", "-o", s.binary, "./cmd/lksms")
	build.Dir, build.Env = "../..", append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return s, fmt.Errorf("build the server: run this from test/bench: %w\n%s", err, out)
	}
	return s, s.Serve(ctx)
}

// Serve starts the server on the database. It returns when the server is ready.
func (s *Stack) Serve(ctx context.Context) error {
	one, err := s.Launch(ctx, "server")
	s.Server, s.address = one.Cmd, one.Address
	return err
}

// Halt stops the server. Serve starts it again.
func (s *Stack) Halt() error {
	one := Server{s.address, s.Server}
	s.Server = nil
	return one.Stop()
}

// Server is a process of lksms serve.
type Server struct {
	Address string
	Cmd     *exec.Cmd
}

// Launch starts another server on the database. It returns when this server is ready. The name becomes the name of the log file.
func (s *Stack) Launch(ctx context.Context, name string, flags ...string) (one Server, err error) {
	if one.Address, err = FreeAddress(); err != nil {
		return one, err
	}
	_, port, err := net.SplitHostPort(one.Address)
	if err != nil {
		return one, err
	}
	log, err := os.Create(filepath.Join(s.dir, name+".log"))
	if err != nil {
		return one, err
	}
	defer log.Close()
	cmd := exec.Command(s.binary, append([]string{"serve"}, flags...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, log, log
	cmd.Env = append(os.Environ(), "DATABASE_URL="+s.database, "APP_HOST=127.0.0.1", "APP_PORT="+port,
		"BASIC_AUTH_USERNAME=admin", "BASIC_AUTH_PASSWORD="+Password, "LKSMS_DATA="+s.dir, "SECRETS_KEY="+secretsKey,
		"MAX_CONNECTIONS=20000", "OUTBOUND_ALLOW=127.0.0.1") // all clients and providers have this address
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return one, err
	}
	one.Cmd = cmd
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if res, err := http.Get("http://" + one.Address + "/ready"); err == nil {
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return one, nil
			}
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return one, errors.Join(errors.New("the server is not ready: see "+log.Name()), one.Stop())
		}
	}
}

// Stop stops a server that Launch started, and waits until the process has ended.
func (o Server) Stop() error {
	if o.Cmd == nil {
		return nil
	}
	_ = o.Cmd.Process.Signal(syscall.SIGTERM) // an error means that the process has already ended
	return o.Cmd.Wait()
}

// ClientAt returns a client of the server at an address. It calls as the user admin over at most the given number of connections.
func (s *Stack) ClientAt(address string, connections int) *Client {
	c := s.Client(connections)
	c.HTTP.Addr, c.Address = address, address
	return c
}

// Beside creates a second database on the same PostgreSQL, and a folder for its server inside the folder of s. It does not start the server.
func (s *Stack) Beside(ctx context.Context, database string) (*Stack, error) {
	second := &Stack{dir: filepath.Join(s.dir, database), binary: s.binary}
	if err := os.Mkdir(second.dir, 0o755); err != nil {
		return second, err
	}
	address, err := url.Parse(s.database)
	if err != nil {
		return second, err
	}
	owner := pgx.Identifier{s.DB.Pool().Config().ConnConfig.User}.Sanitize()
	name := pgx.Identifier{database}.Sanitize()
	if err := errors.Join(s.DropDatabase(ctx, database), s.AsAdmin(ctx, "CREATE DATABASE "+name+" OWNER "+owner)); err != nil {
		return second, err
	}
	address.Path = "/" + database
	second.database = address.String()
	if _, err := migrate.Up(ctx, second.database, nil); err != nil {
		return second, err
	}
	second.DB, err = postgres.Open(ctx, second.database)
	return second, err
}

// DropDatabase drops a database that Beside created, if the database exists.
func (s *Stack) DropDatabase(ctx context.Context, database string) error {
	return s.AsAdmin(ctx, "DROP DATABASE IF EXISTS "+pgx.Identifier{database}.Sanitize()+" WITH (FORCE)")
}

// AsAdmin runs a statement as the superuser of the private PostgreSQL. On another PostgreSQL it runs the statement as the role in the URL, which needs the
// right to do so.
func (s *Stack) AsAdmin(ctx context.Context, sql string) error {
	admin := s.database
	if s.private != nil {
		admin = s.private.AdminURL()
	}
	conn, err := pgx.Connect(ctx, admin)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, sql)
	return errors.Join(err, conn.Close(ctx))
}

// Stop stops the server and removes its folder.
func (s *Stack) Stop() error {
	var failed []error
	if s.Server != nil && s.Server.Process != nil {
		_ = s.Server.Process.Signal(syscall.SIGTERM) // an error means that the process has already ended
		_ = s.Server.Wait()
	}
	if s.DB != nil {
		s.DB.Close()
	}
	if s.private != nil {
		failed = append(failed, s.private.Stop())
	}
	return errors.Join(append(failed, os.RemoveAll(s.dir))...)
}

// Exec runs a statement on the database.
func (s *Stack) Exec(ctx context.Context, sql string, args ...any) error {
	_, err := s.DB.Exec(ctx, sql, args...)
	return err
}

// Empty deletes all tasks, with their submissions, logs, counts, facts and ranks. It also deletes all batches, received messages, verifications with their
// counts, and counts of messages for each phone number.
func (s *Stack) Empty(ctx context.Context) error {
	return s.Exec(ctx, `TRUNCATE messages, dedup_keys, queue, report_logs, fruitless_submissions, task_counts, facts, statistics_staged, statistics,
		fair_ranks, batches, batch_acts, batch_rows, batch_counts, block_requests, received_messages, conversations, reply_actions, capped_recipients, verifications,
		verification_hours, verification_hours_staged, verification_subjects`)
}

// Settings returns the version of PostgreSQL and its settings that influence speed.
func (s *Stack) Settings(ctx context.Context) (map[string]string, error) {
	rows, err := s.DB.Query(ctx, `SELECT name, current_setting(name) FROM pg_settings WHERE name IN ('server_version',
		'fsync', 'synchronous_commit', 'full_page_writes', 'shared_buffers', 'max_wal_size', 'autovacuum') ORDER BY name`)
	if err != nil {
		return nil, err
	}
	settings := map[string]string{}
	var name, value string
	_, err = pgx.ForEachRow(rows, []any{&name, &value}, func() error { settings[name] = value; return nil })
	return settings, err
}

// CPU returns the processor time of the server and of the private PostgreSQL, in seconds.
func (s *Stack) CPU() float64 { return ProcessorSeconds(s.Server.Process.Pid) + s.DatabaseCPU() }

// DatabaseCPU returns the processor time of the private PostgreSQL in seconds, including sessions that have ended. It returns 0 for another PostgreSQL.
func (s *Stack) DatabaseCPU() float64 {
	total := 0.0
	if s.private != nil {
		content, err := os.ReadFile(filepath.Join(s.dir, "postgres", "postmaster.pid"))
		if err != nil {
			return 0
		}
		first, _, _ := strings.Cut(string(content), "\n")
		postmaster, err := strconv.Atoi(first)
		if err != nil {
			return 0
		}
		total += ProcessorSeconds(postmaster)
		children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", postmaster, postmaster))
		for child := range strings.FieldsSeq(string(children)) {
			if pid, err := strconv.Atoi(child); err == nil {
				total += ProcessorSeconds(pid)
			}
		}
	}
	return total
}

// FreeAddress returns an address of this machine with a port that no process listens on.
func FreeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

// ProcessorSeconds returns the processor time that a process has used so far, in seconds. It returns 0 if the process has ended.
func ProcessorSeconds(pid int) float64 {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(content), ") ")
	fields := strings.Fields(after)
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseFloat(fields[11], 64)
	system, _ := strconv.ParseFloat(fields[12], 64)
	const ticksPerSecond = 100 // the kernel reports times to user space in this unit
	return (user + system) / ticksPerSecond
}

// Memory returns the memory of the server in MiB: the current value and the peak.
func (s *Stack) Memory() (now, maxWait float64) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.Server.Process.Pid))
	if err != nil {
		return 0, 0
	}
	read := func(name string) float64 {
		_, after, _ := strings.Cut(string(content), name+":")
		fields := strings.Fields(after)
		if len(fields) == 0 {
			return 0
		}
		kib, _ := strconv.ParseFloat(fields[0], 64)
		return kib / 1024
	}
	return read("VmRSS"), read("VmHWM")
}
