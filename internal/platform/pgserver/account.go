package pgserver

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// account is the operating system account as which PostgreSQL runs if this process is root, because PostgreSQL refuses to run as root. nil means that
// PostgreSQL runs as the user of this process.
type account struct {
	name, home string
	uid, gid   uint32
}

// unprivileged returns the account for a root process: postgres if it exists, else nobody. For any other process it returns nil.
func unprivileged() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
		if uidErr != nil || gidErr != nil {
			continue
		}
		a := &account{name: name, home: u.HomeDir, uid: uint32(uid), gid: uint32(gid)}
		return a, nil
	}
	return nil, errors.New("PostgreSQL refuses to run as root, and no user postgres or nobody exists: run as an ordinary user, or set DATABASE_URL")
}

// apply makes a command run as the account, with the environment for the account.
func (a *account) apply(cmd *exec.Cmd) {
	cmd.Env = a.environment()
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if a != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	}
}

// Prepare makes a command in tests run like PostgreSQL: as the account of PostgreSQL, and at most as long as this process. owner is this account, or nil for
// the user of this process.
func Prepare(cmd *exec.Cmd) (owner *syscall.Credential, err error) {
	a, err := unprivileged()
	if err != nil {
		return nil, err
	}
	a.apply(cmd)
	dieWithParent(cmd.SysProcAttr)
	return cmd.SysProcAttr.Credential, nil
}

// checkEntry returns an error if the account cannot enter a folder on the way to dir. The error names the folder and
// ends with advice.
func (a *account) checkEntry(dir, advice string) error {
	if a == nil {
		return nil
	}
	at := "/"
	for _, part := range append([]string{""}, strings.Split(strings.Trim(dir, "/"), "/")...) {
		at = filepath.Join(at, part)
		info, err := os.Stat(at)
		if err != nil {
			return fmt.Errorf("stat %s: %w", at, err)
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return nil // this system has no file owners; PostgreSQL itself reports an error
		}
		enter := info.Mode().Perm() & 0o001
		switch {
		case stat.Uid == a.uid:
			enter = info.Mode().Perm() & 0o100
		case stat.Gid == a.gid:
			enter = info.Mode().Perm() & 0o010
		}
		if enter == 0 {
			return fmt.Errorf("PostgreSQL cannot run as root and runs as %s, which may not enter %s (%s): %s",
				a.name, at, info.Mode(), advice)
		}
	}
	return nil
}

// checkRootOnly returns an error if other users than root can create links in the data folder. Through such a link, root would write to the target of the link,
// or change the owner of the target. The parent folders are checked, too, because they decide which folder dir is.
func (a *account) checkRootOnly(dir string) error {
	if a == nil {
		return nil
	}
	target, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return fmt.Errorf("stat %s: %w", dir, err)
	}
	for _, path := range []string{dir, target} {
		for at, below := path, ""; at != below; at, below = filepath.Dir(at), at {
			for _, stat := range []func(string) (fs.FileInfo, error){os.Lstat, os.Stat} { // checks a link, and the folder that the link points to
				info, err := stat(at)
				if err != nil {
					return fmt.Errorf("stat %s: %w", at, err)
				}
				if othersMayChange(info, at != path) {
					return fmt.Errorf("other users than root may write to %s (%s) and could redirect what root writes there: "+
						"run chown root and chmod go-w on it, or set LKSMS_DATA to a folder of root below folders of root", at, info.Mode())
				}
			}
		}
	}
	return nil
}

// othersMayChange reports whether users other than root can change the entries of a folder. A parent of the data folder (above) can also be sticky, because
// other users cannot replace entries of root in a sticky folder.
func othersMayChange(info fs.FileInfo, above bool) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return false // this system has no file owners
	case stat.Uid != 0:
		return true
	case info.Mode()&fs.ModeSymlink != 0 || above && info.Mode()&fs.ModeSticky != 0:
		return false // the mode of a link has no effect
	}
	return info.Mode().Perm()&0o022 != 0
}

// readOwned reads a small file in a folder of the account. It rejects links and pipes: otherwise the account could choose which file root reads, or block root
// forever.
func readOwned(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // opened for reading only
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("%s is not a regular file", path), err)
	}
	const small = 4096
	return io.ReadAll(io.LimitReader(f, small))
}
