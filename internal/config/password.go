package config

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"lksms/internal/secret"
)

// MinPassword is how many characters a password has at least; the contract asks the same of those of users.
const MinPassword = 12

func isShort(password Secret) bool { return utf8.RuneCountInString(string(password)) < MinPassword }

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
		if err := keep(path, rand.Text); err != nil {
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
	password = Secret(strings.TrimSpace(string(content)))
	if isShort(password) { // it was generated longer
		return "", false, fmt.Errorf("the password in %s is too short: it needs at least %d characters; without the file, a password is generated", path, MinPassword)
	}
	return password, true, nil
}

// SecretBox seals with SECRETS_KEY, or with the key in SECRETS_KEY_FILE, which is generated if there is none. With a private
// PostgreSQL that file is beside it. Otherwise there is no file unless it is named: a second server of the same database,
// with a key of its own, could not open what the first one sealed.
func SecretBox(o Outbound, database Database) (*secret.Box, error) {
	key, path := string(o.SecretsKey), o.SecretsFile
	if path == "" && database.DatabaseURL == "" {
		path = filepath.Join(database.DataDir, "secrets.key")
	}
	if key == "" && path != "" {
		if err := keep(path, secret.NewKey); err != nil {
			return nil, fmt.Errorf("generate a key for secrets (or set SECRETS_KEY, SECRETS_KEY_FILE): %w", err)
		}
		content, err := os.ReadFile(path) //nolint:gosec // the operator says where it is
		if err != nil {
			return nil, fmt.Errorf("read the key for secrets (SECRETS_KEY_FILE): %w", err)
		}
		key = strings.TrimSpace(string(content))
	}
	box, err := secret.NewBox(key, string(o.SecretsOld))
	if err != nil {
		return nil, fmt.Errorf("SECRETS_KEY, SECRETS_KEY_FILE, SECRETS_KEY_OLD: %w", err)
	}
	return box, nil
}

// keep writes what is generated unless there is something. Of two at once, one wins and both read the same.
func keep(path string, generate func() string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // PostgreSQL's user passes through it
		return err
	}
	fresh, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(fresh.Name()) //nolint:errcheck // a second name of the same file, or the loser's
	if _, err := fresh.WriteString(generate() + "\n"); err != nil {
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
