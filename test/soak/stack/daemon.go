package stack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"lksms/internal/platform/pgserver"
)

// daemon is a program that is restarted each time it ends, except after Hold or stop, as under a service manager. The program runs as the account of
// PostgreSQL.
type daemon struct {
	dir, log string
	command  []string

	mu      sync.Mutex
	change  *sync.Cond // signals changes of the fields below
	process *os.Process
	isHeld  bool
	isOver  bool
	done    sync.WaitGroup
}

func newDaemon(dir, log string, command ...string) *daemon {
	d := &daemon{dir: dir, log: log, command: command}
	d.change = sync.NewCond(&d.mu)
	return d
}

func (d *daemon) start() {
	d.done.Go(func() {
		runtime.LockOSThread() // the child gets a signal when the thread that started it ends
		for d.run() {
			time.Sleep(50 * time.Millisecond) // a program that cannot start must not cause a busy loop
		}
	})
}

// run waits until the program is not held, starts it, and waits for its end. It reports whether to start the program again.
func (d *daemon) run() bool {
	d.mu.Lock()
	for d.isHeld && !d.isOver {
		d.change.Wait()
	}
	if d.isOver {
		d.mu.Unlock()
		return false
	}
	cmd, err := d.spawn()
	if err == nil {
		d.process = cmd.Process
	}
	d.mu.Unlock()
	if err != nil {
		return true
	}
	_ = cmd.Wait() // the log shows how the program ended
	d.mu.Lock()
	defer d.mu.Unlock()
	d.process = nil
	d.change.Broadcast()
	return !d.isOver
}

func (d *daemon) spawn() (*exec.Cmd, error) {
	log, err := os.OpenFile(d.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close() //nolint:errcheck // the process has a descriptor of its own
	cmd := exec.Command(d.command[0], d.command[1:]...)
	if _, err := pgserver.Prepare(cmd); err != nil {
		return nil, err
	}
	cmd.Dir, cmd.Stdout, cmd.Stderr = d.dir, log, log
	cmd.SysProcAttr.Setpgid = true // a Ctrl-C reaches only the drill
	if err := cmd.Start(); err != nil {
		_, _ = fmt.Fprintln(log, err)
		return nil, err
	}
	return cmd, nil
}

// Signal sends a signal, and does not wait for its effect.
func (d *daemon) Signal(sig syscall.Signal) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.process != nil {
		_ = d.process.Signal(sig) // the process can end meanwhile
	}
}

// Hold kills the program and prevents its restart until Release.
func (d *daemon) Hold() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.isHeld = true
	if d.process != nil {
		_ = d.process.Kill()
	}
	for d.process != nil {
		d.change.Wait()
	}
}

func (d *daemon) Release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.isHeld = false
	d.change.Broadcast()
}

// stop stops the program permanently.
func (d *daemon) stop() {
	d.mu.Lock()
	d.isOver = true
	if d.process != nil {
		_ = d.process.Kill()
	}
	d.change.Broadcast()
	d.mu.Unlock()
	d.done.Wait()
}

// relay forwards connections to an address. While it is cut, it forwards no bytes but refuses no connection, like a broken network.
type relay struct {
	listener net.Listener
	target   string

	mu     sync.Mutex
	links  map[net.Conn]struct{}
	severe chan struct{} // closed when the cut ends; nil: the relay is not cut
	done   sync.WaitGroup
}

func startRelay(target string) (*relay, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start relay: %w", err)
	}
	r := &relay{listener: listener, target: target, links: map[net.Conn]struct{}{}}
	r.done.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			r.done.Go(func() { r.serve(conn) })
		}
	})
	return r, nil
}

func (r *relay) address() string { return r.listener.Addr().String() }

func (r *relay) Cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.severe == nil {
		r.severe = make(chan struct{})
	}
}

// Heal ends a cut. It closes all connections that existed before, and discards the bytes that the relay held back.
func (r *relay) Heal() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for conn := range r.links {
		_ = conn.Close()
	}
	if r.severe != nil {
		close(r.severe)
		r.severe = nil
	}
}

func (r *relay) stop() {
	_ = r.listener.Close() // the close ends the accept loop
	r.Heal()
	r.done.Wait()
}

// pass waits while the relay is cut.
func (r *relay) pass() {
	r.mu.Lock()
	severe := r.severe
	r.mu.Unlock()
	if severe != nil {
		<-severe
	}
}

func (r *relay) add(conn net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.links[conn] = struct{}{}
}

func (r *relay) remove(conn net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.links, conn)
}

func (r *relay) serve(client net.Conn) {
	defer client.Close() //nolint:errcheck // nothing is buffered
	r.add(client)
	defer r.remove(client)
	r.pass()
	target, err := net.DialTimeout("tcp", r.target, time.Second)
	if err != nil {
		return
	}
	defer target.Close() //nolint:errcheck // nothing is buffered
	r.add(target)
	defer r.remove(target)
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{client, target}, {target, client}} {
		both.Go(func() {
			defer client.Close() //nolint:errcheck // the other side has ended
			defer target.Close() //nolint:errcheck // the other side has ended
			buffer := make([]byte, 32<<10)
			for {
				n, err := way[0].Read(buffer)
				if err != nil {
					return
				}
				r.pass()
				if _, err := way[1].Write(buffer[:n]); err != nil {
					return
				}
			}
		})
	}
	both.Wait()
}

// startGuard starts a process that removes dir when this process has ended. Deferred calls are not enough, because a panic or a kill skips them.
func startGuard(dir string) (release func() error, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	cmd := exec.Command(self, "--guard="+dir)
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C reaches only the drill
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start guard: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start guard: %w", err)
	}
	return func() error {
		_, _ = io.WriteString(in, guardReleased) // without this message the guard removes the folder
		_ = in.Close()
		return cmd.Wait()
	}, nil
}

const guardReleased = "released"

// Guard removes dir when in ends, unless the guard was released.
func Guard(dir string, in io.Reader) error {
	if said, _ := io.ReadAll(in); string(said) == guardReleased {
		return nil
	}
	return errors.Join(endProcesses(dir), removeTree(dir))
}

// endProcesses ends every process that runs in dir or below. PostgreSQL gets time to release its shared memory.
func endProcesses(dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for began := time.Now(); ; {
		pids := processesIn(dir)
		if len(pids) == 0 {
			return nil
		}
		for _, pid := range pids {
			exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
			if filepath.Base(exe) == "postgres" && time.Since(began) < 5*time.Second {
				_ = syscall.Kill(pid, syscall.SIGQUIT)
				_ = syscall.Kill(pid, syscall.SIGCONT)
				continue
			}
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if !Pause(ctx, 50*time.Millisecond) {
			return fmt.Errorf("processes in %s do not end: %v", dir, pids)
		}
	}
}

// programs contains the beginnings of the names of programs that a drill starts. Other programs in its folder belong to a developer.
var programs = []string{"postgres", "pg_", "initdb", "python3", "etcd", "haproxy", "pgbouncer", "lksms"}

// processesIn returns the processes of the drill whose working directory is dir or below.
func processesIn(dir string) (pids []int) {
	entries, _ := os.ReadDir("/proc") // if /proc is missing, the list is empty: only Linux has /proc, and Patroni runs only on Linux
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		at, err := os.Readlink(filepath.Join("/proc", entry.Name(), "cwd"))
		if err != nil || at != dir && !strings.HasPrefix(at, dir+"/") {
			continue
		}
		exe, _ := os.Readlink(filepath.Join("/proc", entry.Name(), "exe")) // the process can have ended
		if slices.ContainsFunc(programs, func(name string) bool { return strings.HasPrefix(filepath.Base(exe), name) }) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// removeTree removes dir, and unmounts the file systems in it.
func removeTree(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), NodePrefix) && entry.IsDir() {
			_ = exec.Command("umount", filepath.Join(dir, entry.Name())).Run() // the command fails for a folder that is not a mount
		}
	}
	return errors.Join(err, os.RemoveAll(dir))
}
