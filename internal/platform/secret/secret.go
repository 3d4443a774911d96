// Package secret encrypts the credentials of senders, so that a copy of the database does not reveal them.
package secret

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// ErrNoKey is the error of encrypting without a key.
var ErrNoKey = errors.New("no key to encrypt secrets: set SECRETS_KEY")

// Box encrypts with its first key (Encrypt), and decrypts with any of its keys (Decrypt). The zero value has no key.
type Box struct {
	keys []key // Encrypt uses the first key
}

type key struct {
	id   string
	aead cipher.AEAD
	hash []byte // key of Digests
}

// keySize is the length of a key in bytes.
const keySize = 32

// NewBox returns a box with keys in base64. Encrypt uses the first key. Empty keys are skipped.
func NewBox(keys ...string) (*Box, error) {
	b := &Box{}
	for _, text := range keys {
		if text == "" {
			continue
		}
		raw, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(raw) != keySize {
			return nil, fmt.Errorf("a key for secrets must be %d bytes in base64", keySize)
		}
		block, err := aes.NewCipher(raw)
		if err != nil {
			return nil, fmt.Errorf("use key: %w", err)
		}
		aead, err := cipher.NewGCM(block)
		if err != nil {
			return nil, fmt.Errorf("use key: %w", err)
		}
		hash, err := hkdf.Key(sha256.New, raw, nil, "digests", sha256.Size)
		if err != nil {
			return nil, fmt.Errorf("use key: %w", err)
		}
		sum := sha256.Sum256(raw)
		b.keys = append(b.keys, key{hex.EncodeToString(sum[:4]), aead, hash})
	}
	return b, nil
}

// NewKey returns a new random key in base64.
func NewKey() string {
	raw := make([]byte, keySize)
	_, _ = rand.Read(raw) // never fails
	return base64.StdEncoding.EncodeToString(raw)
}

const prefix = "sealed:"

// IsEncrypted reports whether text is a result of Encrypt.
func IsEncrypted(text string) bool { return strings.HasPrefix(text, prefix) }

// Encrypt encrypts text for owner: the name of a sender and of a field. Decrypt needs the same owner, so that nobody can move an encrypted value to another
// field. The result contains the id of the key.
func (b *Box) Encrypt(text, owner string) (string, error) {
	if len(b.keys) == 0 {
		return "", ErrNoKey
	}
	k := b.keys[0]
	nonce := make([]byte, k.aead.NonceSize())
	_, _ = rand.Read(nonce) // never fails
	return prefix + k.id + ":" + base64.StdEncoding.EncodeToString(k.aead.Seal(nonce, nonce, []byte(text), []byte(owner))), nil
}

// Decrypt decrypts a result of Encrypt for the same owner.
func (b *Box) Decrypt(encrypted, owner string) (string, error) {
	id, text, ok := strings.Cut(strings.TrimPrefix(encrypted, prefix), ":")
	raw, err := base64.StdEncoding.DecodeString(text)
	if !ok || err != nil || !IsEncrypted(encrypted) {
		return "", errors.New("not an encrypted value")
	}
	for _, k := range b.keys {
		if k.id != id {
			continue
		}
		size := k.aead.NonceSize()
		if len(raw) < size {
			break
		}
		opened, err := k.aead.Open(nil, raw[:size], raw[size:], []byte(owner))
		if err != nil {
			return "", errors.New("the encrypted value was changed, or moved from another field")
		}
		return string(opened), nil
	}
	return "", fmt.Errorf("key %s of the encrypted value is missing: set it as SECRETS_KEY or SECRETS_KEY_OLD", id)
}

// RenewAll encrypts stored values again with the first key, and returns the number of changed rows. value returns the encrypted value of a row and its owner. An
// empty value, and a value of the first key, is skipped. store replaces the value of a row unless it was changed meanwhile, and returns the number of changed rows.
func RenewAll[Row any](b *Box, rows []Row, value func(Row) (encrypted, owner string), store func(row Row, renewed string) (int64, error)) (changed int, err error) {
	for _, row := range rows {
		encrypted, owner := value(row)
		if encrypted == "" || b.IsCurrent(encrypted) {
			continue
		}
		text, err := b.Decrypt(encrypted, owner)
		if err == nil {
			encrypted, err = b.Encrypt(text, owner)
		}
		if err != nil {
			return changed, fmt.Errorf("%s: %w", owner, err)
		}
		n, err := store(row, encrypted)
		if err != nil {
			return changed, fmt.Errorf("store encrypted value of %s: %w", owner, err)
		}
		changed += int(n)
	}
	return changed, nil
}

// Hidden replaces a secret where it is not shown.
const Hidden = "***"

// Digests returns a text of owner as a keyed hash, with each key of the box. The database alone does not reveal the text, even if it is short. Encrypt
// uses the key of the first digest. Error: ErrNoKey.
func (b *Box) Digests(text, owner string) ([]string, error) {
	if len(b.keys) == 0 {
		return nil, ErrNoKey
	}
	digests := make([]string, len(b.keys))
	for i, k := range b.keys {
		h := hmac.New(sha256.New, k.hash)
		_, _ = fmt.Fprintf(h, "%d:%s%s", len(owner), owner, text) // never fails
		digests[i] = k.id + ":" + base64.StdEncoding.EncodeToString(h.Sum(nil))
	}
	return digests, nil
}

// IsCurrent reports whether a value was encrypted with the key that Encrypt uses.
func (b *Box) IsCurrent(encrypted string) bool {
	return len(b.keys) > 0 && strings.HasPrefix(encrypted, prefix+b.keys[0].id+":")
}
