package postgres

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// account is whom PostgreSQL runs as when we are root, which it refuses to be. nil is everybody else: it runs as we do.
type account struct {
	name     string
	uid, gid uint32
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
		if uidErr == nil && gidErr == nil {
			return &account{name: name, uid: uint32(uid), gid: uint32(gid)}, nil
		}
	}
	return nil, errors.New("PostgreSQL refuses to run as root, and there is neither a user postgres nor nobody: run as an ordinary user, or set DATABASE_URL")
}

func (a *account) attributes() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{}
	if a != nil {
		attr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	}
	return attr
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
