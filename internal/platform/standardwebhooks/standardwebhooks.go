// Package standardwebhooks computes the signatures of Standard Webhooks (https://www.standardwebhooks.com).
package standardwebhooks

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
)

// Prefix is the prefix of a key that is written in base64.
const Prefix = "whsec_"

// Key decodes the text of a key: base64 if the text begins with Prefix, otherwise the bytes of the text.
func Key(text string) ([]byte, error) {
	encoded, isEncoded := strings.CutPrefix(text, Prefix)
	if !isEncoded {
		return []byte(text), nil
	}
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, fmt.Errorf("read key: %w", err)
	}
	return key, nil
}

// Sign returns the signature without its version prefix: the HMAC-SHA256 of id, timestamp and body, joined with periods, in base64.
func Sign(key []byte, id, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + timestamp + "."))
	mac.Write(body)
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
