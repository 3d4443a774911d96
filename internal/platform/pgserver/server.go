// Package pgserver starts and stops the private PostgreSQL of a server, in a separate folder and with a separate account.
package pgserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"lksms/internal/platform/postgres"
)

// Options configures a private PostgreSQL.
type Options struct {
	Dir       string   // folder of the cluster, the socket, the passwords and the log; created if missing
	BinDir    string   // folder of initdb and postgres; empty: the usual folders are searched
	MoreBins  []string // globs of additional folders to search
	Ephemeral bool     // for tests: nothing is synced to disk, and a crash can lose all data
	Log       *slog.Logger
}

// Server is a private PostgreSQL on a Unix socket. The server is a child of this process, or another process owns it and shares it with this process.
type Server struct {
	options  Options
	password string   // password of serviceRole
	admin    string   // password of adminRole; empty if another process owns the server
	account  *account // operating system account of PostgreSQL; nil: the user of this process
	lock     *os.File // held while this process owns the server; nil otherwise
	cmd      *exec.Cmd
	exited   chan struct{}
	exitErr  error // exit status of the process; can be read after exited is closed
}

const (
	serverPort = "5432" // part of the name of the socket
	// maxSocketPath is the maximum length of a path in sockaddr_un on common Unix systems.
	maxSocketPath = 103
	// stopGrace is the time for the shutdown checkpoint, which takes some seconds for a new cluster on a busy disk.
	stopGrace = 8 * time.Second
)

// Start starts the PostgreSQL in options.Dir, and creates its cluster if no cluster exists. If another process already runs this PostgreSQL, Start waits until
// this PostgreSQL is ready and uses it; see Owned. A lock on the folder serialises concurrent starts. The server ends with Stop and, on Linux, also when this
// process ends in any other way.
//
// Start removes the variables of libpq from the environment of this process: see UnsetLibpq.
func Start(ctx context.Context, options Options) (*Server, error) {
	UnsetLibpq()
	dir, err := filepath.Abs(options.Dir)
	if err != nil {
		return nil, fmt.Errorf("find data folder: %w", err)
	}
	options.Dir = dir
	s := &Server{options: options}
	if socket := filepath.Join(s.socketDir(), ".s.PGSQL."+serverPort); len(socket) > maxSocketPath {
		return nil, fmt.Errorf("the data folder %s is too deep for a Unix socket (%d characters, at most %d): set LKSMS_DATA to a shorter path",
			dir, len(socket), maxSocketPath)
	}
	if s.account, err = unprivileged(); err != nil {
		return nil, err
	}
	if err := s.makeDirs(); err != nil {
		return nil, err
	}
	// The process with the lock owns the server. If another process has the lock, its server is possibly still starting.
	var refused error
	for {
		held, err := s.tryLock()
		if err != nil {
			return nil, err
		}
		if held {
			if err := s.start(ctx); err != nil {
				s.unlock()
				return nil, err
			}
			return s, nil
		}
		if err := s.adopt(ctx); err == nil {
			return s, nil
		} else if refused == nil || ctx.Err() == nil { // an error after the end of ctx would hide the cause
			refused = err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("another process holds %s and its PostgreSQL does not answer: %w; end of its log:\n%s",
				s.path("lock"), refused, s.logEnd())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// URL returns the URL of the database lksms on this server, for the ordinary role that owns its schemas.
func (s *Server) URL() string { return s.url(serviceRole, s.password, serverDatabase) }

// AdminURL returns the URL for the superuser, if this process owns the server. Tests and benchmarks use it to create databases and change settings.
func (s *Server) AdminURL() string { return s.url(adminRole, s.admin, serverDatabase) }

// Owned reports whether this process started the server. If not, the server stops together with its owner.
func (s *Server) Owned() bool { return s.lock != nil }

// Exited returns a channel that is closed when an owned server has ended, for any reason.
func (s *Server) Exited() <-chan struct{} { return s.exited }

// Stop shuts an owned server down and waits for its end. The shutdown ends connections and writes all data to disk. After stopGrace, Stop ends the server and
// returns an error. The next start then recovers.
func (s *Server) Stop() error {
	if !s.Owned() {
		return nil
	}
	defer s.unlock()
	_ = s.cmd.Process.Signal(syscall.SIGINT) // fast shutdown; the process possibly has ended already
	select {
	case <-s.exited:
		return nil
	case <-time.After(stopGrace):
		_ = s.cmd.Process.Signal(syscall.SIGQUIT) // immediate shutdown: the next start recovers
		<-s.exited
		return fmt.Errorf("stop PostgreSQL: not stopped after %s: an immediate shutdown followed", stopGrace)
	}
}

func (s *Server) path(name string) string { return filepath.Join(s.options.Dir, name) }
func (s *Server) dataDir() string         { return s.path("postgres") }
func (s *Server) socketDir() string       { return s.path("socket") }

func (s *Server) url(role, password, database string) string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(role, password), Path: "/" + database,
		RawQuery: url.Values{"host": {s.socketDir()}, "port": {serverPort}, "sslmode": {"disable"}}.Encode(),
	}
	return u.String()
}

// makeDirs creates the folders that must exist before the lock. Only the folders of the cluster and of the socket belong to the account. Root writes no files
// and changes no owners inside these two folders, because the account could create links there.
func (s *Server) makeDirs() error {
	mode := fs.FileMode(0o700)
	if s.account != nil {
		mode = 0o755 // the account needs to traverse the folder
	}
	if err := s.account.checkRootOnly(nearestExisting(s.options.Dir)); err != nil {
		return err
	}
	if err := os.MkdirAll(s.options.Dir, mode); err != nil {
		return fmt.Errorf("make data folder: %w", err)
	}
	if err := s.account.checkEntry(s.options.Dir, "set LKSMS_DATA to a folder that this user can enter, such as /var/lib/lksms"); err != nil {
		return err
	}
	if err := s.account.checkRootOnly(s.options.Dir); err != nil {
		return err
	}
	return s.makeOwned(s.socketDir())
}

// nearestExisting returns dir, or its nearest parent that exists.
func nearestExisting(dir string) string {
	for {
		if _, err := os.Lstat(dir); err == nil || filepath.Dir(dir) == dir {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

// makeOwned creates a folder that belongs to the account.
func (s *Server) makeOwned(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	if s.account != nil {
		if err := os.Chown(dir, int(s.account.uid), int(s.account.gid)); err != nil {
			return fmt.Errorf("change owner of folder to %s: %w", s.account.name, err)
		}
	}
	return nil
}

func (s *Server) tryLock() (bool, error) {
	f, err := os.OpenFile(s.path("lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return false, fmt.Errorf("open lock: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err != nil {
		_ = f.Close() // no data was written
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return false, nil
		}
		return false, fmt.Errorf("lock data folder: %w", err)
	}
	s.lock = f
	return true, nil
}

func (s *Server) unlock() {
	_ = s.lock.Close() // closing releases the lock
	s.lock = nil
}

// adopt connects to the server that another process runs.
func (s *Server) adopt(ctx context.Context) error {
	password, err := readPassword(s.servicePassword())
	if err != nil {
		return fmt.Errorf("read password (it is missing if an older lksms started the server: restart that one): %w", err)
	}
	s.password = password
	return s.ping(ctx)
}

func (s *Server) start(ctx context.Context) error {
	major, err := clusterMajor(s.dataDir())
	if err != nil {
		return err
	}
	bin, err := findBinaries(s.account, s.options.BinDir, s.options.MoreBins, major)
	if err != nil {
		return err
	}
	if err := s.loadPasswords(major != ""); err != nil {
		return err
	}
	if major == "" {
		if err := s.initCluster(ctx, bin); err != nil {
			return err
		}
	} else if err := s.stopOrphan(ctx, bin); err != nil {
		return err
	}
	// The log of the last run is kept, because it shows why that run ended.
	if err := os.Rename(s.path("postgres.log"), s.path("postgres.log.1")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("keep PostgreSQL's last log: %w", err)
	}
	for began := time.Now(); ; {
		if err := s.spawn(bin); err != nil {
			return err
		}
		err := s.awaitReady(ctx)
		if err == nil {
			err = s.prepare(ctx)
		}
		if err == nil {
			return nil
		}
		_ = s.cmd.Process.Signal(syscall.SIGQUIT) // an error is ignored, because err already contains the end of the log
		<-s.exited
		if !s.isBlockedByEnding() || ctx.Err() != nil || time.Since(began) > maxEnding {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// maxEnding is how long a start waits for the processes of the previous server to end.
const maxEnding = 10 * time.Second

// isBlockedByEnding reports whether PostgreSQL did not start because processes of the previous server have not ended yet, for example after a kill of the
// server and its owner. The previous server itself is not running, because stopOrphan ran before.
func (s *Server) isBlockedByEnding() bool {
	end := s.logEnd()
	return strings.Contains(end, `lock file "postmaster.pid" already exists`) || strings.Contains(end, "pre-existing shared memory block")
}

func (s *Server) adminPassword() string   { return s.path("postgres.password") }
func (s *Server) servicePassword() string { return s.path("postgres.service.password") }

// loadPasswords reads the passwords of both roles, or generates them. The superuser keeps the password with which the cluster was created. prepare sets the
// password of serviceRole to the content of its file.
func (s *Server) loadPasswords(clusterExists bool) (err error) {
	s.admin, err = readPassword(s.adminPassword())
	if errors.Is(err, fs.ErrNotExist) {
		if clusterExists {
			return fmt.Errorf("%s is missing: without it the database in %s cannot be opened", s.adminPassword(), s.dataDir())
		}
		s.admin, err = makePassword(s.adminPassword())
	}
	if err != nil {
		return err
	}
	s.password, err = readPassword(s.servicePassword())
	if errors.Is(err, fs.ErrNotExist) || err == nil && s.password == "" {
		s.password, err = makePassword(s.servicePassword())
	}
	return err
}

func readPassword(path string) (string, error) {
	password, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read password: %w", err)
	}
	return strings.TrimSpace(string(password)), nil
}

func makePassword(path string) (string, error) {
	password := rand.Text()
	if err := os.WriteFile(path, []byte(password+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("write password: %w", err)
	}
	return password, nil
}

// initCluster creates the cluster under a temporary name, and renames it when it is complete.
func (s *Server) initCluster(ctx context.Context, bin string) error {
	fresh := s.dataDir() + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return fmt.Errorf("clear unfinished cluster: %w", err)
	}
	if err := s.makeOwned(fresh); err != nil {
		return err
	}
	secret, err := s.lendPassword()
	if err != nil {
		return fmt.Errorf("pass password to initdb: %w", err)
	}
	defer os.Remove(secret) //nolint:errcheck // the next start deletes it
	args := []string{
		"--pgdata=" + fresh, "--username=" + adminRole, "--pwfile=" + secret, "--auth=scram-sha-256",
		"--encoding=UTF8", "--locale=C", "--no-instructions",
	}
	if s.options.Ephemeral {
		args = append(args, "--no-sync")
	}
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), args...)
	cmd.Dir = s.options.Dir
	s.account.apply(cmd)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, lastLines(string(out)))
	}
	if err := os.Rename(fresh, s.dataDir()); err != nil {
		return fmt.Errorf("rename cluster: %w", err)
	}
	return nil
}

// lendPassword writes the password of the superuser to a file that the account can read, because initdb needs it. The file is in a folder of root. lendPassword
// changes the owner of the file through the open file, so that the account cannot make root change the owner of another file.
func (s *Server) lendPassword() (path string, err error) {
	path = s.path("initdb.password")
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(s.admin)
	if err == nil && s.account != nil {
		err = f.Chown(int(s.account.uid), int(s.account.gid))
	}
	return path, errors.Join(err, f.Close())
}

// stopOrphan stops a server that outlived its owner (not on Linux), or waits for a server that is shutting down. No other process owns this server, because
// this process holds the lock.
func (s *Server) stopOrphan(ctx context.Context, bin string) error {
	pid, alive := orphan(s.dataDir())
	if !alive {
		return nil
	}
	s.options.Log.Warn("stopping a PostgreSQL that survived its owner", "pid", pid)
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "pg_ctl"), "stop", "-D", s.dataDir(), "-m", "fast", "-w", "-t", "30")
	cmd.Dir = s.options.Dir
	s.account.apply(cmd)
	out, err := cmd.CombinedOutput()
	if _, alive := orphan(s.dataDir()); alive {
		return fmt.Errorf("stop PostgreSQL %d, which survived its owner: %w\n%s", pid, err, lastLines(string(out)))
	}
	return nil
}

// orphan returns the process id in postmaster.pid, if this process is alive and is the server of this folder. After a crash of the machine, this id can belong
// to any process.
func orphan(dataDir string) (int, bool) {
	content, err := readOwned(filepath.Join(dataDir, "postmaster.pid"))
	if err != nil {
		return 0, false
	}
	first, _, _ := strings.Cut(string(content), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil || pid <= 1 {
		return 0, false
	}
	command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		command, err = exec.Command("ps", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
	}
	return pid, err == nil && strings.Contains(string(command), dataDir)
}

func (s *Server) spawn(bin string) error {
	log, err := os.OpenFile(s.path("postgres.log"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("open PostgreSQL's log: %w", err)
	}
	defer log.Close() //nolint:errcheck // the child has a descriptor of its own
	settings := []string{
		"listen_addresses=", "port=" + serverPort, "unix_socket_directories=" + s.socketDir(), "unix_socket_permissions=0700",
		"cluster_name=lksms", "log_min_messages=warning", "max_connections=200",
		"autovacuum_naptime=10s", // dead rows accumulate faster in a queue table than in other tables
	}
	if s.options.Ephemeral {
		// Many tests run concurrently, each with a separate server.
		settings = append(settings, "fsync=off", "synchronous_commit=off", "full_page_writes=off", "max_connections=400")
	}
	args := []string{"-D", s.dataDir()}
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}
	s.cmd = exec.Command(filepath.Join(bin, "postgres"), args...)
	s.cmd.Dir = s.options.Dir
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.account.apply(s.cmd)
	s.cmd.SysProcAttr.Setpgid = true // Ctrl-C signals only this process, which stops PostgreSQL after the last request
	dieWithParent(s.cmd.SysProcAttr)

	exited, started := make(chan struct{}), make(chan error, 1)
	s.exited = exited
	go func() {
		// Pdeathsig fires when the parent thread ends: the thread must live as long as the child.
		runtime.LockOSThread()
		err := s.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		s.exitErr = s.cmd.Wait()
		close(exited)
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start PostgreSQL: %w", err)
	}
	return nil
}

// isRefused reports whether the server refused the password or the role.
func isRefused(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && (refused.Code == "28P01" || refused.Code == "28000")
}

// awaitReady returns when the server accepts connections. The wait has no other limit than the end of the server or of ctx, because recovery from a crash can
// take any time.
func (s *Server) awaitReady(ctx context.Context) error {
	var refused error
	for {
		err := postgres.WithConn(ctx, s.url(adminRole, s.admin, "postgres"), func(*pgx.Conn) error { return nil })
		switch {
		case err == nil:
			return nil
		case isRefused(err): // the password belongs to another cluster, or pg_hba.conf was edited: waiting does not help
			return fmt.Errorf("PostgreSQL rejects the password in %s: %w; end of its log:\n%s", s.adminPassword(), err, s.logEnd())
		case refused == nil || ctx.Err() == nil: // an error after the end of ctx would hide the cause
			refused = err
		}
		select {
		case <-s.exited:
			return fmt.Errorf("PostgreSQL ended while starting (%w); end of its log:\n%s", s.exitErr, s.logEnd())
		case <-ctx.Done():
			return fmt.Errorf("PostgreSQL does not answer: %w; end of its log:\n%s", refused, s.logEnd())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// logEnd returns the last lines of PostgreSQL's log.
func (s *Server) logEnd() string {
	content, err := os.ReadFile(s.path("postgres.log"))
	switch {
	case err != nil:
		return err.Error()
	case len(content) == 0:
		return "(none)"
	}
	return lastLines(string(content))
}

func lastLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-8):], "\n")
}
