package pgtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"lksms/internal/platform/pgserver"
)

// process is a program that a test has started.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{}
}

// start starts a program as the account of PostgreSQL, and redirects its output to the file log. The program is stopped when t ends.
func start(t testing.TB, log, program string, args ...string) *process {
	t.Helper()
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close() //nolint:errcheck // the child has a descriptor of its own
	cmd := exec.Command(program, args...)
	if _, err := pgserver.Prepare(cmd); err != nil {
		t.Fatal(err)
	}
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", out, out
	p := &process{cmd: cmd, exited: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the child gets a signal when this thread ends
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // the log shows why the program ended
			close(p.exited)
		}
	}()
	if err := <-started; err != nil {
		t.Fatalf("start %s: %v", program, err)
	}
	t.Cleanup(func() { p.end(syscall.SIGKILL) })
	return p
}

// end sends a signal, and waits until the process has ended.
func (p *process) end(signal syscall.Signal) {
	_ = p.cmd.Process.Signal(signal) // an error means that the process has already ended
	<-p.exited
}

// await waits until ready returns no error. If the process ends first, await fails t with the end of the log.
func (p *process) await(t testing.TB, log string, ready func() error) {
	t.Helper()
	for deadline := time.Now().Add(setupLimit); ; time.Sleep(20 * time.Millisecond) {
		err := ready()
		if err == nil {
			return
		}
		select {
		case <-p.exited:
			err = errors.New("it ended")
		default:
			if time.Now().Before(deadline) {
				continue
			}
		}
		content, _ := os.ReadFile(log) // an error is ignored, because err is more useful
		t.Fatalf("%s is not ready: %v; its log:\n%s", filepath.Base(p.cmd.Path), err, content[max(0, len(content)-2000):])
	}
}

// run runs a program as the account of PostgreSQL, and waits for its end.
func run(t testing.TB, program string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	if _, err := pgserver.Prepare(cmd); err != nil {
		t.Fatal(err)
	}
	cmd.Dir = "/"
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", filepath.Base(program), err, out)
	}
}

// ownedDir returns a folder that belongs to the account of PostgreSQL. The folder is removed when t ends.
func ownedDir(t testing.TB) string {
	t.Helper()
	dir := Dir(t)
	owner, err := pgserver.Prepare(exec.Command("true")) // this command never runs
	if err == nil && owner != nil {
		err = os.Chown(dir, int(owner.Uid), int(owner.Gid))
	}
	if err == nil {
		err = os.Chmod(dir, 0o700)
	}
	if err != nil {
		t.Fatal(fmt.Errorf("make folder: %w", err))
	}
	return dir
}
