// Package stack starts the system under test: servers, and one PostgreSQL or a cluster under Patroni.
package stack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"lksms/internal/platform/config"
	"lksms/internal/platform/pgserver"
	"lksms/test/soak/proxy"
)

// These constants are settings of the servers.
const (
	Password   = "soak-soak-soak"
	secretsKey = "c29hay1zb2FrLXNvYWstc29hay1zb2FrLXNvYWstc28=" // encrypts the secrets of webhooks
	MaxRetries = 3
	RetryDelay = 600 * time.Millisecond
	Lease      = 3 * time.Second
	PoolSize   = 16 + 2 + 16 // maximum number of connections of one server: its main pool, the small pool, and the pool for locks
)

// diskSize is the size of the file system for the database in bytes. Only root can mount it.
const diskSize = 1536 << 20

// Stack is the system under test: two servers on one PostgreSQL, each behind a proxy, or the cluster of a drill.
type Stack struct {
	Dir         string
	Mounted     bool // the folder of the database is a small file system
	Servers     []*Server
	Endpoints   []*Server    // the addresses that clients call: the servers, or HAProxy in front of the servers
	Cluster     *Cluster     // nil: one PostgreSQL
	ClientProxy *proxy.Proxy // between clients and PostgreSQL; nil: no such proxy

	mu       sync.Mutex
	Postgres *pgserver.Server
}

// Start starts PostgreSQL and two servers on it, each behind a proxy.
func Start(ctx context.Context, dir, binary string) (*Stack, error) {
	s := &Stack{Dir: dir}
	if err := os.Mkdir(s.DataDir(), 0o755); err != nil {
		return s, fmt.Errorf("create folder: %w", err)
	}
	s.Mounted = os.Geteuid() == 0 && exec.CommandContext(ctx, "mount", "-t", "tmpfs",
		"-o", "size="+strconv.Itoa(diskSize)+",mode=0755", "tmpfs", s.DataDir()).Run() == nil
	if err := s.startPostgres(ctx); err != nil {
		return s, err
	}
	err := s.Query(ctx, func(conn *pgx.Conn) error {
		for setting, value := range map[string]string{
			"max_wal_size": "256MB", "checkpoint_timeout": "30s", "autovacuum_naptime": "5s",
		} {
			if _, err := conn.Exec(ctx, "ALTER SYSTEM SET "+setting+" = '"+value+"'"); err != nil {
				return err
			}
		}
		_, err := conn.Exec(ctx, "SELECT pg_reload_conf()")
		return err
	})
	if err != nil {
		return s, fmt.Errorf("set up PostgreSQL: %w", err)
	}
	for i := range 2 {
		srv, err := newServer(fmt.Sprintf("server-%d", i+1), dir, binary, s.Postgres.URL())
		if err != nil {
			return s, err
		}
		s.Servers = append(s.Servers, srv)
	}
	s.Endpoints = s.Servers
	return s, s.serve(ctx)
}

// serve starts the servers and waits until they are ready. Marketing messages then have no quiet hours: otherwise they would wait if the soak runs at night.
func (s *Stack) serve(ctx context.Context) error {
	for _, srv := range s.Servers {
		srv.supervise(ctx)
	}
	if err := s.AwaitServing(ctx, time.Minute); err != nil {
		return err
	}
	return s.Query(ctx, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `INSERT INTO settings (category, name, value, updated_by) VALUES ('recipient', 'quiet_hours_marketing', '""', 'soak')`)
		return err
	})
}

// DataDir returns the folder of PostgreSQL.
func (s *Stack) DataDir() string { return filepath.Join(s.Dir, "db") }

// Stop stops all processes. It unmounts and removes the folder unless keep is set.
func (s *Stack) Stop(keep bool) error {
	for _, srv := range s.Servers {
		srv.stop()
	}
	var failed []error
	if s.ClientProxy != nil {
		s.ClientProxy.Stop()
	}
	if s.Cluster != nil {
		return s.Cluster.stop(keep)
	}
	if s.Postgres != nil {
		failed = append(failed, s.Postgres.Stop())
	}
	if s.Mounted && !keep {
		if err := exec.Command("umount", s.DataDir()).Run(); err != nil {
			failed = append(failed, fmt.Errorf("unmount %s: %w", s.DataDir(), err))
		}
	}
	if !keep {
		failed = append(failed, os.RemoveAll(s.Dir))
	}
	return errors.Join(failed...)
}

func (s *Stack) startPostgres(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	started, err := pgserver.Start(ctx, pgserver.Options{
		Dir: s.DataDir(), Log: slog.New(slog.DiscardHandler),
		BinDir: config.PostgresBin(), MoreBins: config.UnpackedPostgres(),
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Postgres = started
	return nil
}

// RevivePostgres starts PostgreSQL again if it has ended.
func (s *Stack) RevivePostgres(ctx context.Context) error {
	select {
	case <-s.Postgres.Exited():
	default:
		return nil
	}
	if err := s.Postgres.Stop(); err != nil { // the stop releases the lock on the folder
		return err
	}
	return s.startPostgres(ctx)
}

// Query runs fn on a new connection as a superuser, because the soak changes settings and ends sessions. The connection does not use a proxy. Query has a
// time limit of one minute.
func (s *Stack) Query(ctx context.Context, fn func(*pgx.Conn) error) error {
	return s.QueryWithin(ctx, time.Minute, fn)
}

// AdminURL returns the URL of the database for a superuser.
func (s *Stack) AdminURL() string {
	if s.Cluster != nil {
		return s.Cluster.adminURL()
	}
	return s.Postgres.AdminURL()
}

// QueryWithin works like Query with another time limit.
func (s *Stack) QueryWithin(ctx context.Context, limit time.Duration, fn func(*pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cfg, err := pgx.ParseConfig(s.AdminURL())
	if err != nil {
		return err
	}
	cfg.RuntimeParams["application_name"] = "soak"
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer conn.Close(ctx) //nolint:errcheck // the connection is no longer needed
	return fn(conn)
}

// PostgresProcesses returns the process ids of the postmaster and its children. Stopping only the postmaster would not stop the sessions.
func (s *Stack) PostgresProcesses() ([]int, error) {
	return postgresProcesses(filepath.Join(s.DataDir(), "postgres"))
}

func postgresProcesses(data string) ([]int, error) {
	content, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return nil, fmt.Errorf("find PostgreSQL: %w", err)
	}
	first, _, _ := strings.Cut(string(content), "\n")
	pid, err := strconv.Atoi(first)
	if err != nil {
		return nil, fmt.Errorf("find PostgreSQL: %w", err)
	}
	pids := []int{pid}
	// Only Linux has this file. On other systems only the postmaster is stopped.
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for child := range strings.FieldsSeq(string(children)) {
		if n, err := strconv.Atoi(child); err == nil {
			pids = append(pids, n)
		}
	}
	return pids, nil
}

// AwaitServing waits until all servers are ready.
func (s *Stack) AwaitServing(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for _, srv := range s.Servers {
		for !srv.Ready(ctx) {
			select {
			case <-ctx.Done():
				return fmt.Errorf("%s is not ready within %s: see %s", srv.Name, limit, srv.LogPath)
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	return nil
}

// Server is one lksms process. Each time the process ends, it is restarted, as under a service manager.
type Server struct {
	Name    string
	URL     string
	LogPath string
	Proxy   *proxy.Proxy // proxy to the database of the server; nil: the server has no proxy
	Binary  string
	args    []string
	Env     []string

	mu      sync.Mutex
	process *os.Process
	gone    chan struct{} // closed when process has ended
	ended   bool          // true if the process must not be restarted
	drains  []Window      // periods of its shutdowns
	done    sync.WaitGroup
}

// Window is a time span. A zero To means that it has not ended.
type Window struct{ From, To time.Time }

// Holds reports whether t is in the window.
func (w Window) Holds(t time.Time) bool { return t.After(w.From) && (w.To.IsZero() || t.Before(w.To)) }

func newServer(name, dir, binary, databaseURL string) (*Server, error) {
	u, err := url.Parse(databaseURL)
	if err != nil {
		return nil, fmt.Errorf("read database URL: %w", err)
	}
	through, err := proxy.Start(filepath.Join(u.Query().Get("host"), ".s.PGSQL.5432"))
	if err != nil {
		return nil, err
	}
	u.Host = through.Address()
	u.RawQuery = url.Values{"sslmode": {"disable"}, "application_name": {name}}.Encode()
	s, err := newServerOn(u.String(), name, dir, binary)
	if err != nil {
		through.Stop()
		return nil, err
	}
	s.Proxy = through
	return s, nil
}

// newServerOn works like newServer without a proxy.
func newServerOn(databaseURL, name, dir, binary string, args ...string) (*Server, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	return &Server{
		Name: name, URL: "http://127.0.0.1:" + port, LogPath: filepath.Join(dir, name+".log"), Binary: binary, args: append([]string{"serve"}, args...),
		Env: append(os.Environ(),
			"DATABASE_URL="+databaseURL, "APP_HOST=127.0.0.1", "APP_PORT="+port, "LKSMS_DATA="+dir,
			"BASIC_AUTH_USERNAME=admin", "BASIC_AUTH_PASSWORD="+Password, "SECRETS_KEY="+secretsKey, "LOG_LEVEL=info", "LOG_FORMAT=json", "DEBUG=false",
			"MAX_RETRY_COUNT="+strconv.Itoa(MaxRetries), "RETRY_DELAY_MINUTES="+inMinutes(RetryDelay),
			"PROCESSING_TIMEOUT_MINUTES="+inMinutes(Lease), "RETRY_MAX_WAIT=10m",
		),
	}, nil
}

func inMinutes(d time.Duration) string { return strconv.FormatFloat(d.Minutes(), 'f', -1, 64) }

// firstPort is the first port for servers. Linux uses the ports from firstOutgoing on for outgoing connections. Such a connection could occupy a port while the
// server of this port is down.
const firstPort, firstOutgoing = 10000, 32768

// freePort returns a port that a server can use again after each restart.
func freePort() (string, error) {
	var all error
	for range 100 {
		port := strconv.Itoa(firstPort + rand.IntN(firstOutgoing-firstPort))
		listener, err := net.Listen("tcp", "127.0.0.1:"+port)
		if err == nil {
			return port, listener.Close()
		}
		all = err
	}
	return "", fmt.Errorf("find port: %w", all)
}

func (s *Server) supervise(ctx context.Context) {
	s.done.Go(func() {
		for ctx.Err() == nil && s.run() {
			time.Sleep(50 * time.Millisecond) // a server that cannot start must not cause a busy loop
		}
	})
}

// run starts the process and waits for its end. It reports whether to start another process.
func (s *Server) run() bool {
	log, err := os.OpenFile(s.LogPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return false
	}
	defer log.Close() //nolint:errcheck // the process has a descriptor of its own
	cmd := exec.Command(s.Binary, s.args...)
	cmd.Dir = filepath.Dir(s.LogPath)
	cmd.Env = s.Env
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C reaches only the soak
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return false
	}
	err = cmd.Start()
	if err == nil {
		s.process, s.gone = cmd.Process, make(chan struct{})
	}
	s.mu.Unlock()
	if err != nil {
		return false
	}
	_ = cmd.Wait() // the log shows how the process ended
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process = nil
	close(s.gone)
	return !s.ended
}

// Signal sends sig, which must end the process, and waits for its end. If no process runs, Signal does nothing.
func (s *Server) Signal(sig syscall.Signal) {
	s.mu.Lock()
	process, gone := s.process, s.gone
	s.mu.Unlock()
	if process == nil {
		return
	}
	_ = process.Signal(sig) // the process can end meanwhile
	<-gone
}

// Drain stops the process with SIGTERM like a service manager, and records the period.
func (s *Server) Drain() {
	s.mu.Lock()
	s.drains = append(s.drains, Window{From: time.Now()})
	s.mu.Unlock()
	s.Signal(syscall.SIGTERM)
	s.mu.Lock()
	s.drains[len(s.drains)-1].To = time.Now()
	s.mu.Unlock()
}

// Draining reports whether the server was shutting down at t.
func (s *Server) Draining(t time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.drains {
		if w.Holds(t) {
			return true
		}
	}
	return false
}

func (s *Server) stop() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	if s.Proxy != nil {
		s.Proxy.Resume()
	}
	s.Signal(syscall.SIGTERM)
	s.done.Wait()
	if s.Proxy != nil {
		s.Proxy.Stop()
	}
}

// probe calls servers without keep-alive, because a kill of the server would break open connections.
var probe = &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

func (s *Server) get(ctx context.Context, path string) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+path, nil)
	if err != nil {
		return 0, nil, err
	}
	req.SetBasicAuth("admin", Password)
	res, err := probe.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close() //nolint:errcheck // the response was read to its end
	body, err := io.ReadAll(res.Body)
	return res.StatusCode, body, err
}

// Ready reports whether the server answers /ready with 200.
func (s *Server) Ready(ctx context.Context) bool {
	status, _, err := s.get(ctx, "/ready")
	return err == nil && status == http.StatusOK
}

// Statistics returns the task counts of the server, by their names in the API.
func (s *Server) Statistics(ctx context.Context) (map[string]int, error) {
	_, body, err := s.get(ctx, "/api/v1/admin/task-statistics")
	if err != nil {
		return nil, err
	}
	var answer struct{ Data map[string]int }
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("read statistics: %w", err)
	}
	return answer.Data, nil
}

// Gauge returns the value of one metric of the server.
func (s *Server) Gauge(ctx context.Context, name string) (float64, error) {
	_, body, err := s.get(ctx, "/metrics")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(body)) {
		if value, found := strings.CutPrefix(line, name+" "); found {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, fmt.Errorf("%s has no metric %s", s.Name, name)
}

// QueryAsClient works like Query through ClientProxy, so that kills can hit the connection.
func (s *Stack) QueryAsClient(ctx context.Context, fn func(*pgx.Conn) error) error {
	u, err := url.Parse(s.AdminURL())
	if err != nil {
		return err
	}
	u.Host, u.RawQuery = s.ClientProxy.Address(), url.Values{"sslmode": {"disable"}, "application_name": {"soak"}}.Encode()
	conn, err := pgx.Connect(ctx, u.String())
	if err != nil {
		return err
	}
	defer conn.Close(ctx) //nolint:errcheck // the connection is no longer needed
	return fn(conn)
}

// Post sends a request as a user, and returns an error unless the status is 200.
func (s *Server) Post(ctx context.Context, username, path, body string) error {
	status, err := Ask(ctx, probe, http.MethodPost, s.URL+path, username, Password, strings.NewReader(body))
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("the server returns %d", status)
	}
	if err != nil {
		return fmt.Errorf("POST %s: %w", path, err)
	}
	return nil
}

// PeakMemory returns the peak resident memory of the process in bytes.
func (s *Server) PeakMemory() (int64, error) {
	s.mu.Lock()
	process := s.process
	s.mu.Unlock()
	if process == nil {
		return 0, errors.New("the server is not running")
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", process.Pid))
	if err != nil {
		return 0, fmt.Errorf("read memory of the server: %w", err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, found := strings.CutPrefix(line, "VmHWM:"); found {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return kib << 10, err
		}
	}
	return 0, errors.New("the system does not report the memory of the server")
}

// Ask sends a request of a user, and returns the status of the response.
func Ask(ctx context.Context, client *http.Client, method, url, username, password string, body io.Reader) (int, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return 0, err
	}
	if username != "" {
		req.SetBasicAuth(username, password)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close() //nolint:errcheck // the response was read to its end
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, err
}
