// Package secret seals what senders need to log in somewhere, so that who reads the database, or a copy of it, has nothing.
package secret

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// ErrNoKey says that something was to be sealed, and there is no key.
var ErrNoKey = errors.New("there is no key to seal secrets with: set SECRETS_KEY")

// Box seals with one key and opens with that one and older ones. The zero value has none.
type Box struct {
	keys []key // the first seals
}

type key struct {
	id   string
	aead cipher.AEAD
}

// KeySize is the length of a key in bytes.
const KeySize = 32

// NewBox takes keys in base64, the one to seal with first; empty ones are passed over.
func NewBox(keys ...string) (*Box, error) {
	b := &Box{}
	for _, text := range keys {
		if text == "" {
			continue
		}
		raw, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(raw) != KeySize {
			return nil, fmt.Errorf("a key for secrets is %d bytes in base64", KeySize)
		}
		block, err := aes.NewCipher(raw)
		if err != nil {
			return nil, fmt.Errorf("take key: %w", err)
		}
		aead, err := cipher.NewGCM(block)
		if err != nil {
			return nil, fmt.Errorf("take key: %w", err)
		}
		sum := sha256.Sum256(raw)
		b.keys = append(b.keys, key{hex.EncodeToString(sum[:4]), aead})
	}
	return b, nil
}

// NewKey makes a key.
func NewKey() string {
	raw := make([]byte, KeySize)
	_, _ = rand.Read(raw) // never fails
	return base64.StdEncoding.EncodeToString(raw)
}

const prefix = "sealed:"

// IsSealed tells whether text came from Seal.
func IsSealed(text string) bool { return strings.HasPrefix(text, prefix) }

// Seal encrypts text, which can be opened in the same place only: place is its owner and name. It names the key.
func (b *Box) Seal(text, place string) (string, error) {
	if len(b.keys) == 0 {
		return "", ErrNoKey
	}
	k := b.keys[0]
	nonce := make([]byte, k.aead.NonceSize())
	_, _ = rand.Read(nonce) // never fails
	return prefix + k.id + ":" + base64.StdEncoding.EncodeToString(k.aead.Seal(nonce, nonce, []byte(text), []byte(place))), nil
}

// Open decrypts what Seal made for place.
func (b *Box) Open(sealed, place string) (string, error) {
	id, text, ok := strings.Cut(strings.TrimPrefix(sealed, prefix), ":")
	raw, err := base64.StdEncoding.DecodeString(text)
	if !ok || err != nil || !IsSealed(sealed) {
		return "", errors.New("this was not sealed here")
	}
	for _, k := range b.keys {
		if k.id != id {
			continue
		}
		size := k.aead.NonceSize()
		if len(raw) < size {
			break
		}
		opened, err := k.aead.Open(nil, raw[:size], raw[size:], []byte(place))
		if err != nil {
			return "", errors.New("what was sealed has been changed, or moved")
		}
		return string(opened), nil
	}
	return "", fmt.Errorf("the key %s, with which it was sealed, is not here", id)
}

// IsCurrent tells whether sealed was sealed with the key that seals now.
func (b *Box) IsCurrent(sealed string) bool {
	return len(b.keys) > 0 && strings.HasPrefix(sealed, prefix+b.keys[0].id+":")
}
