package postgres

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
)

// ServerOptions says where a private PostgreSQL lives.
type ServerOptions struct {
	Dir       string   // holds the cluster, the socket, the passwords and the log; made if it is missing
	BinDir    string   // where initdb and postgres are; empty: looked for
	MoreBins  []string // more folders to look in, as globs
	Ephemeral bool     // for tests: nothing is synced to disk, and a crash may lose everything
	Log       *slog.Logger
}

// Server is a private PostgreSQL: a child of this process on a Unix socket, or one that another process owns and that is
// used beside it.
type Server struct {
	options  ServerOptions
	password string   // of serviceRole
	admin    string   // the password of adminRole; empty for a server that is somebody else's
	account  *account // whom PostgreSQL runs as; nil: as we do
	lock     *os.File // held while we own the server; nil when it is somebody else's
	cmd      *exec.Cmd
	exited   chan struct{}
	exitErr  error // of the process; read after exited is closed
}

const (
	serverPort = "5432" // part of the socket's name
	// maxSocketPath is what fits in sockaddr_un on every Unix that we know.
	maxSocketPath = 103
	stopGrace     = 3 * time.Second
)

// StartServer starts the PostgreSQL of options.Dir, making its cluster first if there is none. If another process already
// runs it, StartServer waits until it is ready and uses it; see Owned. Starts at once are serialised by a lock on the
// folder. The server stops with Stop, and, on Linux, with this process however that ends.
//
// From here on this process and its children have no variables of libpq: see ForgetLibpq.
func StartServer(ctx context.Context, options ServerOptions) (*Server, error) {
	ForgetLibpq()
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
	// The lock tells a start that waits for another's first one apart from a server that nobody owns any more.
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
		} else if refused == nil || ctx.Err() == nil { // the end of ctx does not say why
			refused = err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("another process holds %s and its PostgreSQL does not answer: %w; its last words:\n%s",
				s.path("lock"), refused, s.lastWords())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// URL is the connection string of the database lksms on this server, as the ordinary role that owns it.
func (s *Server) URL() string { return s.url(serviceRole, s.password, serverDatabase) }

// AdminURL is URL for the superuser of a server that we own: tests and measurements create databases and change settings.
func (s *Server) AdminURL() string { return s.url(adminRole, s.admin, serverDatabase) }

// Owned reports whether this process started the server. One that is not owned stops with its owner.
func (s *Server) Owned() bool { return s.lock != nil }

// Exited is closed when a server that we own is gone, wanted or not.
func (s *Server) Exited() <-chan struct{} { return s.exited }

// Stop shuts the server down if we own it and waits for it: connections are ended, and everything is written out.
func (s *Server) Stop() error {
	if !s.Owned() {
		return nil
	}
	defer s.unlock()
	_ = s.cmd.Process.Signal(syscall.SIGINT) // fast shutdown; the process may be gone already
	select {
	case <-s.exited:
		return nil
	case <-time.After(stopGrace):
		_ = s.cmd.Process.Signal(syscall.SIGQUIT) // immediate shutdown: recovered at the next start
		<-s.exited
		return fmt.Errorf("stop PostgreSQL: not done in %s, stopped at once instead", stopGrace)
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

// makeDirs makes what must exist before the lock. Only the cluster and the socket belong to the account. Root writes nothing and
// changes no owner inside of these: there the account could make a link of any name.
func (s *Server) makeDirs() error {
	mode := fs.FileMode(0o700)
	if s.account != nil {
		mode = 0o755 // the account has to pass through
	}
	if err := s.account.mayNotWrite(nearest(s.options.Dir)); err != nil {
		return err
	}
	if err := os.MkdirAll(s.options.Dir, mode); err != nil {
		return fmt.Errorf("make data folder: %w", err)
	}
	if err := s.account.mayEnter(s.options.Dir, "set LKSMS_DATA to a folder that it may enter, such as /var/lib/lksms"); err != nil {
		return err
	}
	if err := s.account.mayNotWrite(s.options.Dir); err != nil {
		return err
	}
	return s.makeOwned(s.socketDir())
}

// nearest is the folder on the way to dir that exists.
func nearest(dir string) string {
	for {
		if _, err := os.Lstat(dir); err == nil || filepath.Dir(dir) == dir {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

func (s *Server) makeOwned(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	if s.account != nil {
		if err := os.Chown(dir, int(s.account.uid), int(s.account.gid)); err != nil {
			return fmt.Errorf("hand folder to %s: %w", s.account.name, err)
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
		_ = f.Close() // nothing was written
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return false, nil
		}
		return false, fmt.Errorf("lock data folder: %w", err)
	}
	s.lock = f
	return true, nil
}

func (s *Server) unlock() {
	_ = s.lock.Close() // closing gives the lock back
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
	// The log of the last run is what tells why that ended.
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
		_ = s.cmd.Process.Signal(syscall.SIGQUIT) // it failed to start; its own words are in err
		<-s.exited
		if !s.isWaitingForDead() || ctx.Err() != nil || time.Since(began) > dyingMost {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// dyingMost is how long processes of the server before may take to end.
const dyingMost = 10 * time.Second

// isWaitingForDead tells whether PostgreSQL did not start because processes of the one before have not ended yet, as when both it and
// its owner were killed a moment ago. No process of that name is alive: stopOrphan would have ended it.
func (s *Server) isWaitingForDead() bool {
	words := s.lastWords()
	return strings.Contains(words, `lock file "postmaster.pid" already exists`) || strings.Contains(words, "pre-existing shared memory block")
}

func (s *Server) adminPassword() string   { return s.path("postgres.password") }
func (s *Server) servicePassword() string { return s.path("postgres.service.password") }

// loadPasswords reads the passwords of both roles, or makes them. That of the superuser must be the one that the cluster was
// made with; prepare gives the other role the password in its file.
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
		return "", fmt.Errorf("keep password: %w", err)
	}
	return password, nil
}

// initCluster makes the cluster beside its place and moves it there when it is whole.
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
	defer os.Remove(secret) //nolint:errcheck // the next start clears it
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
		return fmt.Errorf("put cluster in its place: %w", err)
	}
	return nil
}

// lendPassword writes the password of the superuser to a file that the account may read, as initdb wants it. The file is in our
// folder, and its owner is changed through the open file: the account cannot make root hand over another one.
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

// stopOrphan ends a server whose owner died without it, which Linux prevents and other systems do not, or waits for one
// that is on its way down. We hold the lock, so nobody owns it.
func (s *Server) stopOrphan(ctx context.Context, bin string) error {
	pid, alive := orphan(s.dataDir())
	if !alive {
		return nil
	}
	s.options.Log.Warn("stopping a PostgreSQL that outlived its owner", "pid", pid)
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "pg_ctl"), "stop", "-D", s.dataDir(), "-m", "fast", "-w", "-t", "30")
	cmd.Dir = s.options.Dir
	s.account.apply(cmd)
	out, err := cmd.CombinedOutput()
	if _, alive := orphan(s.dataDir()); alive {
		return fmt.Errorf("stop PostgreSQL %d, which outlived its owner: %w\n%s", pid, err, lastLines(string(out)))
	}
	return nil
}

// orphan returns the process that postmaster.pid names, if it is alive and really the server of this folder: after a
// crash of the machine the number may belong to anybody.
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
	defer log.Close() //nolint:errcheck // the child has its own
	settings := []string{
		"listen_addresses=", "port=" + serverPort, "unix_socket_directories=" + s.socketDir(), "unix_socket_permissions=0700",
		"cluster_name=lksms", "log_min_messages=warning", "max_connections=200",
		"autovacuum_naptime=10s", // a queue makes dead rows faster than other tables
	}
	if s.options.Ephemeral {
		settings = append(settings, "fsync=off", "synchronous_commit=off", "full_page_writes=off")
	}
	args := []string{"-D", s.dataDir()}
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}
	s.cmd = exec.Command(filepath.Join(bin, "postgres"), args...)
	s.cmd.Dir = s.options.Dir
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.account.apply(s.cmd)
	s.cmd.SysProcAttr.Setpgid = true // a Ctrl-C is for us, who stop it when the last request is done
	dieWithParent(s.cmd.SysProcAttr)

	exited, started := make(chan struct{}), make(chan error, 1)
	s.exited = exited
	go func() {
		// The kernel counts the thread as the parent: it has to live as long as the child.
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

// awaitReady returns when the server takes connections. One that recovers from a crash may take its time; only its end or
// ctx's ends the waiting.
func (s *Server) awaitReady(ctx context.Context) error {
	var refused error
	for {
		err := withConn(ctx, s.url(adminRole, s.admin, "postgres"), func(*pgx.Conn) error { return nil })
		switch {
		case err == nil:
			return nil
		case isCode(err, "28P01") || isCode(err, "28000"): // another cluster's password, or an edited pg_hba.conf: waiting helps nothing
			return fmt.Errorf("PostgreSQL refuses the password in %s: %w; its last words:\n%s", s.adminPassword(), err, s.lastWords())
		case refused == nil || ctx.Err() == nil: // the end of ctx does not say why
			refused = err
		}
		select {
		case <-s.exited:
			return fmt.Errorf("PostgreSQL ended while starting (%w); its last words:\n%s", s.exitErr, s.lastWords())
		case <-ctx.Done():
			return fmt.Errorf("PostgreSQL does not answer: %w; its last words:\n%s", refused, s.lastWords())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (s *Server) lastWords() string {
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
