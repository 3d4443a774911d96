package postgres

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

// account is whom PostgreSQL runs as when we are root, which it refuses to be. nil is everybody else: it runs as we do.
type account struct {
	name, home string
	uid, gid   uint32
}

// unprivileged picks an account for a root process: postgres where there is one, else nobody.
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
	return nil, errors.New("PostgreSQL refuses to run as root, and there is neither a user postgres nor nobody: run as an ordinary user, or set DATABASE_URL")
}

// apply has a command run as the account, with its environment.
func (a *account) apply(cmd *exec.Cmd) {
	cmd.Env = a.environment()
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if a != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	}
}

// mayEnter says in plain words which folder on the way to dir keeps the account out, and what to do about it.
func (a *account) mayEnter(dir, advice string) error {
	if a == nil {
		return nil
	}
	at := "/"
	for _, part := range append([]string{""}, strings.Split(strings.Trim(dir, "/"), "/")...) {
		at = filepath.Join(at, part)
		info, err := os.Stat(at)
		if err != nil {
			return fmt.Errorf("look at %s: %w", at, err)
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return nil // no owners here; PostgreSQL will say what is wrong
		}
		enter := info.Mode().Perm() & 0o001
		switch {
		case stat.Uid == a.uid:
			enter = info.Mode().Perm() & 0o100
		case stat.Gid == a.gid:
			enter = info.Mode().Perm() & 0o010
		}
		if enter == 0 {
			return fmt.Errorf("PostgreSQL refuses to run as root and runs as %s instead, who may not enter %s (%s): %s",
				a.name, at, info.Mode(), advice)
		}
	}
	return nil
}

// mayNotWrite refuses a data folder in which anybody but root could put a link where root expects a file of its own: root would then
// write to what the link names, or hand it over. The folders above count too, because they decide which folder dir is.
func (a *account) mayNotWrite(dir string) error {
	if a == nil {
		return nil
	}
	target, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return fmt.Errorf("look at %s: %w", dir, err)
	}
	for _, path := range []string{dir, target} {
		for at, below := path, ""; at != below; at, below = filepath.Dir(at), at {
			for _, look := range []func(string) (fs.FileInfo, error){os.Lstat, os.Stat} { // a link and the folder it names
				info, err := look(at)
				if err != nil {
					return fmt.Errorf("look at %s: %w", at, err)
				}
				if othersMayChange(info, at != path) {
					return fmt.Errorf("others than root may write to %s (%s) and so mislead root there: "+
						"run chown root and chmod go-w on it, or set LKSMS_DATA to a folder of root below folders of root", at, info.Mode())
				}
			}
		}
	}
	return nil
}

// othersMayChange reports whether others than root may change what a folder holds. In a sticky folder they may not replace what belongs to
// root, which is enough for a folder above the data folder.
func othersMayChange(info fs.FileInfo, above bool) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return false // no owners here
	case stat.Uid != 0:
		return true
	case info.Mode()&fs.ModeSymlink != 0 || above && info.Mode()&fs.ModeSticky != 0:
		return false // the mode of a link means nothing
	}
	return info.Mode().Perm()&0o022 != 0
}

// readOwned reads a small file in a folder of the account. A link or a pipe in its place is refused: the account would choose what
// root reads, or let root wait forever.
func readOwned(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("%s is not a regular file", path), err)
	}
	const small = 4096
	return io.ReadAll(io.LimitReader(f, small))
}
