package postgres_test

import (
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"lksms/internal/pgtest"
	"lksms/internal/postgres"
)

// serverAccount is whom PostgreSQL runs as when root tests.
func serverAccount(t *testing.T) (uid, gid int) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root has another account run PostgreSQL")
	}
	for _, name := range []string{"postgres", "nobody"} {
		if u, err := user.Lookup(name); err == nil {
			uid, uidErr := strconv.Atoi(u.Uid)
			gid, gidErr := strconv.Atoi(u.Gid)
			if err := errors.Join(uidErr, gidErr); err != nil {
				t.Fatal(err)
			}
			return uid, gid
		}
	}
	t.Skip("there is no account to run PostgreSQL")
	return 0, 0
}

// must fails the test for any of the errors.
func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// run starts the server of dir and stops it when t ends.
func run(t *testing.T, dir string) *postgres.Server {
	t.Helper()
	server, err := start(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if server.Owned() {
			_ = server.Stop() // the test is over
		}
	})
	return server
}

// Of every name that root uses in a folder of the account, the account has made a link to a file of root.
func TestRootFollowsNoLinkInAFolderOfTheAccount(t *testing.T) {
	t.Parallel()
	uid, gid := serverAccount(t)
	dir := pgtest.Dir(t)
	victim := filepath.Join(dir, "victim")
	const content = "of root\n"
	must(t, os.Mkdir(filepath.Join(dir, "data"), 0o755), os.WriteFile(victim, []byte(content), 0o600))
	socket := filepath.Join(dir, "data", "socket")
	must(t, os.Mkdir(socket, 0o700), os.Chown(socket, uid, gid), os.Symlink(victim, filepath.Join(socket, "password")))
	server := run(t, filepath.Join(dir, "data"))
	after, err := os.ReadFile(victim)
	must(t, err)
	info, err := os.Stat(victim)
	must(t, err)
	if owner := info.Sys().(*syscall.Stat_t); string(after) != content || owner.Uid != 0 || info.Mode().Perm() != 0o600 {
		t.Errorf("the file of root holds %q now, belongs to %d and has %v", after, owner.Uid, info.Mode())
	}
	must(t, server.Stop())

	version := filepath.Join(dir, "data", "postgres", "PG_VERSION")
	must(t, os.Remove(version), os.Symlink(victim, version))
	if _, err := start(t, filepath.Join(dir, "data")); err == nil || strings.Contains(err.Error(), strings.TrimSpace(content)) {
		t.Errorf("it repeats a file of root: %v", err)
	}
}

func TestADataFolderThatTheAccountMayChangeIsRefused(t *testing.T) {
	t.Parallel()
	uid, gid := serverAccount(t)
	for name, spoil := range map[string]func(above, data string) error{
		"it belongs to the account":  func(_, data string) error { return os.Chown(data, uid, -1) },
		"everybody may write to it":  func(_, data string) error { return os.Chmod(data, 0o777) },
		"everybody may add to it":    func(_, data string) error { return os.Chmod(data, 0o777|os.ModeSticky) },
		"the account's group may":    func(_, data string) error { return errors.Join(os.Chown(data, -1, gid), os.Chmod(data, 0o775)) },
		"the account may replace it": func(above, _ string) error { return os.Chown(above, uid, -1) },
		"everybody may replace it":   func(above, _ string) error { return os.Chmod(above, 0o777) },
		"it is a link in a writable folder": func(above, data string) error {
			return errors.Join(os.Rename(data, above+"-data"), os.Mkdir(above+"-data/x", 0o755), os.Symlink(above+"-data/x", data), os.Chmod(above, 0o777))
		},
		"it is a link to a writable folder": func(above, data string) error {
			return errors.Join(os.Rename(data, above+"-data"), os.Symlink(above+"-data", data), os.Chmod(above+"-data", 0o777))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			above := filepath.Join(pgtest.Dir(t), "above")
			data := filepath.Join(above, "data")
			must(t, os.Mkdir(above, 0o755), os.Mkdir(data, 0o755), spoil(above, data))
			server, err := start(t, data)
			if err == nil {
				_ = server.Stop() // it should not run
				t.Fatal("it started")
			}
			if !strings.Contains(err.Error(), "may write to "+above) || !strings.Contains(err.Error(), "LKSMS_DATA") {
				t.Errorf("it does not say why: %v", err)
			}
			if _, err := os.Stat(filepath.Join(data, "postgres")); err == nil {
				t.Error("it made a cluster")
			}
		})
	}
}

func TestRootRunsNoProgramThatMayBeTheAccounts(t *testing.T) {
	t.Parallel()
	uid, _ := serverAccount(t)
	bin := pgtest.Dir(t)
	must(t, os.Chmod(bin, 0o777)) // the script says there who ran it
	script := "#!/bin/sh\nid -u >> " + bin + "/who\necho 'postgres (PostgreSQL) 15.0'\n"
	for _, program := range []string{"postgres", "initdb", "pg_ctl"} {
		must(t, os.WriteFile(filepath.Join(bin, program), []byte(script), 0o755), os.Chmod(filepath.Join(bin, program), 0o755))
	}
	_, err := postgres.StartServer(t.Context(), postgres.ServerOptions{Dir: pgtest.Dir(t), BinDir: bin})
	if err == nil {
		t.Fatal("it started a script")
	}
	who, readErr := os.ReadFile(filepath.Join(bin, "who"))
	must(t, readErr)
	for line := range strings.Lines(string(who)) {
		if line != strconv.Itoa(uid)+"\n" {
			t.Errorf("a program ran as %s", line)
		}
	}
}
