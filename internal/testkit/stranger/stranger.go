// Package stranger runs programs that use other implementations of SMPP, for tests.
package stranger

import (
	"bufio"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"lksms/internal/platform/config"
)

//go:embed node.cjs net_smpp.pl
var scripts embed.FS

// Stranger is a program that uses another implementation of SMPP. As a client, it binds as the user stranger: with a wrong password, then with Password.
type Stranger struct {
	Name            string
	program, script string
	// check is a command that succeeds if the implementation is installed, and install says how.
	check   []string
	install string
}

// Password is the password with which a client binds, and which a server accepts.
const Password = "secret"

// All returns all strangers.
func All() []Stranger {
	return []Stranger{
		{"smpp of npm", "node", "node.cjs", []string{"-e", "require('smpp')"}, "make node-tools"},
		{"Net::SMPP of Debian", "perl", "net_smpp.pl", []string{"-MNet::SMPP", "-e", "1"}, "apt-get install libnet-smpp-perl"},
	}
}

// Missing skips a test whose program is not installed. It fails in CI, which installs all of them. message says how to install the program.
func Missing(t *testing.T, message string) {
	t.Helper()
	if config.IsCI() {
		t.Fatal(message)
	}
	t.Skip(message)
}

// command returns a command of the stranger. The test is skipped if the implementation is not installed, except in CI.
func (s Stranger) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	modules, err := filepath.Abs("../../../tools/node/node_modules") // from all packages with tests of strangers
	if err != nil {
		t.Fatal(err)
	}
	check := exec.CommandContext(t.Context(), s.program, s.check...) //nolint:gosec // node or perl
	check.Env = append(check.Environ(), "NODE_PATH="+modules)
	if out, err := check.CombinedOutput(); err != nil {
		Missing(t, fmt.Sprintf("%s is missing: %s (%v %s)", s.Name, s.install, err, out))
	}
	script, err := scripts.ReadFile(s.script)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), s.script)
	if err := os.WriteFile(file, script, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), s.program, append([]string{file}, args...)...) //nolint:gosec // node or perl
	cmd.Env, cmd.Stderr = check.Env, t.Output()
	return cmd
}

// Line is what a stranger prints.
type Line struct {
	Port, Bind  int
	Text        *string
	Receipt, ID string
	State       uint8
	Error       string
	Done        bool
}

// Client starts the stranger as a client of the server on a port. It submits each text in each of the four forms of long messages, and prints what it receives until
// the server unbinds. next returns the next line that the stranger prints.
func (s Stranger) Client(t *testing.T, texts []string, port string) (next func() Line) {
	t.Helper()
	return s.run(t, "client", texts, port)
}

// Server starts the stranger as a server, and returns its port. It delivers each text in each form to the client that binds.
func (s Stranger) Server(t *testing.T, texts []string) (next func() Line, port int) {
	t.Helper()
	next = s.run(t, "server", texts, "0")
	return next, next().Port
}

// run starts the stranger. It must end by itself.
func (s Stranger) run(t *testing.T, role string, texts []string, port string) (next func() Line) {
	t.Helper()
	encoded, err := json.Marshal(texts)
	if err != nil {
		t.Fatal(err)
	}
	corpus := filepath.Join(t.TempDir(), "corpus.json")
	if err := os.WriteFile(corpus, encoded, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := s.command(t, role, corpus, port)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		defer time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() }).Stop()
		if err := cmd.Wait(); err != nil && !t.Failed() {
			t.Errorf("%s: %v", s.Name, err)
		}
	})
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	return func() Line {
		t.Helper()
		var l Line
		if !lines.Scan() {
			t.Fatalf("%s prints no more lines: %v", s.Name, lines.Err())
		}
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil || l.Error != "" {
			t.Fatalf("%s: %v", lines.Bytes(), err)
		}
		return l
	}
}
