package pgserver_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"lksms/internal/platform/config"
	"lksms/internal/platform/pgserver"
	"lksms/internal/testkit/pgtest"
)

func start(t *testing.T, dir string) (*pgserver.Server, error) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return pgserver.Start(ctx, pgserver.Options{
		Dir: dir, BinDir: config.PostgresBin(), MoreBins: config.UnpackedPostgres(), Ephemeral: true, Log: slog.New(slog.DiscardHandler),
	})
}

func TestConcurrentColdStartsShareOneServer(t *testing.T) {
	t.Parallel()
	dir := pgtest.Dir(t)
	servers := make([]*pgserver.Server, 3)
	var wg sync.WaitGroup
	for i := range servers {
		wg.Go(func() {
			var err error
			if servers[i], err = start(t, dir); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	owners := 0
	for _, server := range servers {
		if server.Owned() {
			owners++
			defer server.Stop()
		}
		if server.URL() != servers[0].URL() {
			t.Error("the starts are on different servers")
		}
	}
	if owners != 1 {
		t.Errorf("%d starts own the server", owners)
	}
}

func TestAnUnfinishedClusterIsCreatedAgain(t *testing.T) {
	t.Parallel()
	dir := pgtest.Dir(t)
	if err := os.MkdirAll(filepath.Join(dir, "postgres.new", "base"), 0o700); err != nil {
		t.Fatal(err)
	}
	server, err := start(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Stop(); err != nil {
		t.Error(err)
	}
}

func TestAClusterOfAnotherVersionIsNotOpened(t *testing.T) {
	t.Parallel()
	dir := pgtest.Dir(t)
	if err := os.MkdirAll(filepath.Join(dir, "postgres"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "postgres", "PG_VERSION"), []byte("9\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := start(t, dir); err == nil || !strings.Contains(err.Error(), "PostgreSQL 9") {
		t.Errorf("got %v", err)
	}
}

// stoppedCluster returns a folder in which a server ran and was stopped.
func stoppedCluster(t *testing.T) string {
	t.Helper()
	dir := pgtest.Dir(t)
	server, err := start(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestAClusterWithoutItsPasswordIsNotChanged(t *testing.T) {
	t.Parallel()
	dir := stoppedCluster(t)
	if err := os.Remove(filepath.Join(dir, "postgres.password")); err != nil {
		t.Fatal(err)
	}
	if _, err := start(t, dir); err == nil || !strings.Contains(err.Error(), "postgres.password is missing") {
		t.Errorf("got %v", err)
	}
}

func TestAFolderThatPostgresCannotEnterIsRefused(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root runs PostgreSQL as another account")
	}
	dir := pgtest.Dir(t)
	if err := os.Mkdir(filepath.Join(dir, "closed"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := start(t, filepath.Join(dir, "closed", "data"))
	if err == nil || !strings.Contains(err.Error(), "may not enter "+filepath.Join(dir, "closed")) {
		t.Errorf("got %v", err)
	}
}

func TestTheErrorOfAFailedStartContainsTheLog(t *testing.T) {
	t.Parallel()
	dir := stoppedCluster(t)
	conf := filepath.Join(dir, "postgres", "postgresql.conf")
	if err := os.WriteFile(conf, []byte("shared_buffers = nonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := start(t, dir); err == nil || !strings.Contains(err.Error(), "shared_buffers") {
		t.Errorf("got %v", err)
	}
}

func TestTheErrorOfARefusedPasswordContainsTheLog(t *testing.T) {
	t.Parallel()
	dir := stoppedCluster(t)
	if err := os.WriteFile(filepath.Join(dir, "postgres.password"), []byte("of another cluster\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := start(t, dir)
	if err == nil || !strings.Contains(err.Error(), "postgres.password") || !strings.Contains(err.Error(), "FATAL:  password authentication failed") {
		t.Errorf("got %v", err)
	}
}

// After a kill, the process of a server still exists for a moment, and the lock file contains its id.
func TestAStartWaitsUntilTheFormerServerIsGone(t *testing.T) {
	t.Parallel()
	dir := stoppedCluster(t)
	owner, err := os.Stat(filepath.Join(dir, "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	before := exec.Command("sleep", "60")
	before.SysProcAttr = &syscall.SysProcAttr{}
	stat := owner.Sys().(*syscall.Stat_t)
	if os.Geteuid() == 0 {
		before.SysProcAttr.Credential = &syscall.Credential{Uid: stat.Uid, Gid: stat.Gid}
	}
	if err := before.Start(); err != nil {
		t.Fatal(err)
	}
	if err := before.Process.Kill(); err != nil { // the process exists until before.Wait returns
		t.Fatal(err)
	}
	lock := filepath.Join(dir, "postgres", "postmaster.pid")
	if err := errors.Join(os.WriteFile(lock, fmt.Appendln(nil, before.Process.Pid), 0o600), os.Chown(lock, int(stat.Uid), int(stat.Gid))); err != nil {
		t.Fatal(err)
	}
	go func() {
		for ; ; time.Sleep(time.Millisecond) {
			if log, _ := os.ReadFile(filepath.Join(dir, "postgres.log")); strings.Contains(string(log), "postmaster.pid") || t.Context().Err() != nil {
				_ = before.Wait() // returns an error, because the process was killed
				return
			}
		}
	}()
	server, err := start(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Stop(); err != nil {
		t.Error(err)
	}
}

func TestTheErrorOfASharedServerContainsItsCause(t *testing.T) {
	t.Parallel()
	dir := stoppedCluster(t)
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "postgres.log"), []byte("FATAL:  it hurts\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err = pgserver.Start(ctx, pgserver.Options{Dir: dir, Log: slog.New(slog.DiscardHandler)})
	if err == nil || !strings.Contains(err.Error(), "connect") || !strings.Contains(err.Error(), "FATAL:  it hurts") {
		t.Errorf("got %v", err)
	}
}
