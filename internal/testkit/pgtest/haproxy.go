package pgtest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// HAProxy is a running HAProxy.
type HAProxy struct {
	t       testing.TB
	Address string // host and port
	Dir     string // folder of its configuration

	program string
	process *process
}

// NewHAProxy starts a HAProxy with a configuration and with other files in the same folder. In the configuration, ${ADDRESS} is the address at which HAProxy
// listens, and ${SOCKET} is the path of its stats socket. NewHAProxy skips t if HAProxy is not installed.
func NewHAProxy(t testing.TB, config string, files map[string]string) *HAProxy {
	t.Helper()
	program, err := exec.LookPath("haproxy")
	if errors.Is(err, exec.ErrNotFound) {
		program, err = exec.LookPath("/usr/sbin/haproxy")
	}
	if err != nil {
		t.Skip("HAProxy is not installed: apt-get install haproxy")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // listening does not wait
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close() //nolint:errcheck // HAProxy will listen on the port
	h := &HAProxy{t: t, Address: listener.Addr().String(), Dir: ownedDir(t), program: program}
	h.Write("haproxy.cfg", strings.NewReplacer("${ADDRESS}", h.Address, "${SOCKET}", h.socket()).Replace(config))
	for name, content := range files {
		h.Write(name, content)
	}
	_ = listener.Close()
	h.Start()
	return h
}

// Write writes a file to the folder of the configuration.
func (h *HAProxy) Write(name, content string) {
	h.t.Helper()
	if err := os.WriteFile(filepath.Join(h.Dir, name), []byte(content), 0o644); err != nil { //nolint:gosec // HAProxy runs as another user
		h.t.Fatal(err)
	}
}

// Start starts a stopped HAProxy with the current files.
func (h *HAProxy) Start() {
	h.t.Helper()
	_ = os.Remove(h.socket()) // the socket of the previous process
	log := filepath.Join(h.Dir, "log")
	h.process = start(h.t, log, h.program, "-db", "-f", filepath.Join(h.Dir, "haproxy.cfg"))
	h.process.await(h.t, log, func() error {
		for network, address := range map[string]string{"tcp": h.Address, "unix": h.socket()} { // HAProxy starts to listen on these two addresses at different times
			conn, err := net.DialTimeout(network, address, time.Second) //nolint:noctx // the call has a time limit
			if err != nil {
				return err
			}
			_ = conn.Close()
		}
		return nil
	})
}

// Stop stops the HAProxy immediately.
func (h *HAProxy) Stop() { h.process.end(syscall.SIGTERM) }

func (h *HAProxy) socket() string { return filepath.Join(h.Dir, "admin.sock") }

// Command sends a command to the stats socket, and returns the response.
func (h *HAProxy) Command(text string) string {
	h.t.Helper()
	conn, err := net.DialTimeout("unix", h.socket(), setupLimit) //nolint:noctx // the call has a time limit
	if err != nil {
		h.t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // the response was read to its end
	_ = conn.SetDeadline(time.Now().Add(setupLimit))
	if _, err := fmt.Fprintln(conn, text); err != nil {
		h.t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		h.t.Fatal(err)
	}
	return strings.TrimSpace(string(answer))
}
