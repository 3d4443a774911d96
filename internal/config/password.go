package config

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// PasswordFile is where the generated password is kept.
func (d *Database) PasswordFile() string { return filepath.Join(d.DataDir, "password") }

// ResolvePassword returns the configured password, or the generated one, and whether it was generated. With create, a
// missing one is generated and kept with mode 0600.
func ResolvePassword(account Account, database Database, create bool) (password Secret, generated bool, err error) {
	if account.Password != "" {
		return account.Password, false, nil
	}
	path := database.PasswordFile()
	if create {
		if err := keepNewPassword(path); err != nil {
			return "", false, fmt.Errorf("generate a password (or set BASIC_AUTH_PASSWORD): %w", err)
		}
	}
	content, err := os.ReadFile(path) //nolint:gosec // the operator says where it is
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, fmt.Errorf("no password: set BASIC_AUTH_PASSWORD, or start the server once, which keeps one in %s", path)
	}
	if err != nil {
		return "", false, fmt.Errorf("read password: %w", err)
	}
	return Secret(strings.TrimSpace(string(content))), true, nil
}

// keepNewPassword writes a random password unless there is one. Of two at once, one wins and both read the same.
func keepNewPassword(path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // PostgreSQL's user passes through it
		return err
	}
	fresh, err := os.CreateTemp(filepath.Dir(path), "password-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(fresh.Name()) //nolint:errcheck // a second name of the same file, or the loser's
	if _, err := fresh.WriteString(rand.Text() + "\n"); err != nil {
		return err
	}
	if err := fresh.Close(); err != nil {
		return err
	}
	if err := os.Link(fresh.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
