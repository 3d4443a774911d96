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

// start starts a program as the account of PostgreSQL, whose output goes to a file. It ends with t at the latest.
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
		runtime.LockOSThread() // the child ends with this thread
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // its log says why it ended
			close(p.exited)
		}
	}()
	if err := <-started; err != nil {
		t.Fatalf("start %s: %v", program, err)
	}
	t.Cleanup(func() { p.end(syscall.SIGKILL) })
	return p
}

// end sends a signal, and waits for the end of the process.
func (p *process) end(signal syscall.Signal) {
	_ = p.cmd.Process.Signal(signal) // it may have ended already
	<-p.exited
}

// await waits until ready returns no error. It fails t with the end of the log if the process ends first.
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
		content, _ := os.ReadFile(log) // the first error is more useful
		t.Fatalf("%s is not ready: %v; its log:\n%s", filepath.Base(p.cmd.Path), err, content[max(0, len(content)-2000):])
	}
}

// run runs a program as the account of PostgreSQL.
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

// ownedDir returns a folder of the account of PostgreSQL, removed when t ends.
func ownedDir(t testing.TB) string {
	t.Helper()
	dir := Dir(t)
	owner, err := pgserver.Prepare(exec.Command("true")) // never run
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
