package config

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"unicode/utf8"

	"lksms/internal/platform/bom"
	"lksms/internal/platform/secret"
)

// MinPassword is the minimum length of a password in characters. The contract has the same minimum for users'
// passwords.
const MinPassword = 12

func isShort(password Secret) bool { return utf8.RuneCountInString(string(password)) < MinPassword }

// PasswordFile returns the path of the file with the generated password.
func (d *Database) PasswordFile() string { return filepath.Join(d.DataDir, "password") }

// ResolvePassword returns the configured password. If no password is configured, it returns the generated password in PasswordFile, and generated is true. If
// this file is missing and create is set, ResolvePassword generates a password and writes the file with mode 0600.
func ResolvePassword(account Account, database Database, create bool) (password Secret, generated bool, err error) {
	if account.Password != "" {
		return account.Password, false, nil
	}
	path := database.PasswordFile()
	if create {
		if err := writeOnce(path, rand.Text); err != nil {
			return "", false, fmt.Errorf("generate a password (or set BASIC_AUTH_PASSWORD): %w", err)
		}
	}
	content, err := os.ReadFile(path) //nolint:gosec // the path comes from the operator's configuration
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, fmt.Errorf("no password: set BASIC_AUTH_PASSWORD, or start the server once, which generates one in %s", path)
	}
	if err != nil {
		return "", false, fmt.Errorf("read password: %w", err)
	}
	password = Secret(bytes.TrimSpace(bom.Decode(content)))
	if isShort(password) { // generated passwords are longer: the file was edited
		return "", false, fmt.Errorf("the password in %s is too short: it needs at least %d characters; delete the file to have a password generated", path, MinPassword)
	}
	return password, true, nil
}

// SecretBox returns the box that encrypts secrets with SECRETS_KEY, or with the key in SECRETS_KEY_FILE. If that file is missing, SecretBox generates a key in it.
// With a private PostgreSQL the file defaults to secrets.key in the data folder. With another database the file has no default: a second server of that
// database would generate its own key, and could not decrypt the secrets that the first server encrypted.
func SecretBox(o Outbound, database Database) (*secret.Box, error) {
	key, path := string(o.SecretsKey), o.SecretsFile
	if path == "" && database.DatabaseURL == "" {
		path = filepath.Join(database.DataDir, "secrets.key")
	}
	if key == "" && path != "" {
		if err := writeOnce(path, secret.NewKey); err != nil {
			return nil, fmt.Errorf("generate a key for secrets (or set SECRETS_KEY or SECRETS_KEY_FILE): %w", err)
		}
		content, err := os.ReadFile(path) //nolint:gosec // the path comes from the operator's configuration
		if err != nil {
			return nil, fmt.Errorf("read the key for secrets (SECRETS_KEY_FILE): %w", err)
		}
		key = string(bytes.TrimSpace(bom.Decode(content)))
	}
	box, err := secret.NewBox(key, string(o.SecretsOld))
	if err != nil {
		return nil, fmt.Errorf("SECRETS_KEY, SECRETS_KEY_FILE, SECRETS_KEY_OLD: %w", err)
	}
	return box, nil
}

// writeOnce writes a generated text to path unless the file exists. The write is atomic: if two processes write at the same time, one file remains, and both
// processes read the same text.
func writeOnce(path string, generate func() string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // the account of PostgreSQL needs to pass through the folder
		return err
	}
	fresh, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(fresh.Name()) //nolint:errcheck // after Link, this is a second name of the file, or the copy of the process that did not create the file
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
