package callback

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"math"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"lksms/internal/platform/outbound"
	"lksms/internal/platform/standardwebhooks"
)

// skew is the maximum difference between the time of a signature and the time of this server.
const skew = 5 * time.Minute

// Call is a callback of a provider.
type Call struct {
	SenderNo, SourceIP string
	Query              url.Values
	Header             http.Header
	Body               []byte // the part of the body that was read
	Cut                error  // reason why the rest of the body was not read; nil: the body is complete
}

// Verifier verifies and parses the callbacks for a sender.
type Verifier struct {
	Config   Config
	key      []byte // empty: no callback can prove its origin
	networks []netip.Prefix
}

// NewVerifier returns the Verifier of a configuration, or an error if the configuration is unusable. Some configurations were stored before their addresses
// were checked. If the addresses are invalid, NewVerifier returns a Verifier that rejects every callback.
func NewVerifier(c Config, secret string) (*Verifier, error) {
	networks, err := outbound.Networks(c.Addresses)
	if err != nil {
		return &Verifier{Config: c}, nil //nolint:nilerr // see above
	}
	key, err := key(c.Verify, secret)
	return &Verifier{Config: c, key: key, networks: networks}, err
}

// IsGuessable reports whether the secret is short enough to be guessed. Such a secret was stored before secrets had a minimum length.
func (v *Verifier) IsGuessable() bool { return len(v.key) < minSecret }

// IsKnownBeforeBody reports whether MayBeProven is sufficient: the token or the source address proves the origin, so the body is not needed.
func (v *Verifier) IsKnownBeforeBody() bool { return v.Config.Verify == Token || len(v.networks) > 0 }

// MayBeProven checks the parts of a call that are available before its body: the source address, the token, and the presence of a signature.
func (v *Verifier) MayBeProven(call Call) bool {
	if len(v.key) == 0 {
		return false
	}
	address, err := netip.ParseAddr(call.SourceIP)
	if len(v.networks) > 0 && (err != nil || !slices.ContainsFunc(v.networks, func(n netip.Prefix) bool { return n.Contains(address.Unmap()) })) {
		return false
	}
	switch v.Config.Verify {
	case Token:
		return subtle.ConstantTimeCompare([]byte(call.Query.Get("token")), v.key) == 1
	case HMAC:
		return call.Header.Get(v.Config.Header) != ""
	case StandardWebhooks:
		return isTimely(call.Header) && call.Header.Get("Webhook-Signature") != ""
	default:
		return false
	}
}

// IsProven reports whether a call with its body proves its origin. The signature of an incomplete body cannot be checked. A call with an incomplete body is
// accepted only if the configuration lists addresses, because MayBeProven has checked the address.
func (v *Verifier) IsProven(call Call) bool {
	switch {
	case !v.MayBeProven(call):
		return false
	case v.Config.Verify == Token:
		return true
	case call.Cut != nil:
		return len(v.networks) > 0
	case v.Config.Verify == HMAC:
		mac := hmac.New(sha256.New, v.key)
		mac.Write(call.Body)
		sum, given := mac.Sum(nil), strings.TrimPrefix(call.Header.Get(v.Config.Header), "sha256=")
		return hmac.Equal([]byte(hex.EncodeToString(sum)), []byte(strings.ToLower(given))) ||
			hmac.Equal([]byte(base64.StdEncoding.EncodeToString(sum)), []byte(given))
	default:
		return isSigned(v.key, call.Header, call.Body)
	}
}

// isTimely reports whether the timestamp of Standard Webhooks differs from the time of this server by at most skew.
func isTimely(header http.Header) bool {
	seconds, err := strconv.ParseInt(header.Get("Webhook-Timestamp"), 10, 64)
	return err == nil && math.Abs(time.Since(time.Unix(seconds, 0)).Seconds()) <= skew.Seconds()
}

// isSigned reports whether a header of Standard Webhooks contains the correct signature of body.
func isSigned(key []byte, header http.Header, body []byte) bool {
	want := "v1," + standardwebhooks.Sign(key, header.Get("Webhook-Id"), header.Get("Webhook-Timestamp"), body)
	for given := range strings.FieldsSeq(header.Get("Webhook-Signature")) {
		if hmac.Equal([]byte(given), []byte(want)) {
			return true
		}
	}
	return false
}
