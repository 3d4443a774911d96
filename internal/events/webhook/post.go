package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"lksms/internal/platform/bom"
	"lksms/internal/platform/outbound"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/standardwebhooks"
)

// postLimit is how long a post takes at most.
const postLimit = 10 * time.Second

// maxResponse is how many bytes of an answer are kept.
const maxResponse = 1024

// poster posts under a policy.
type poster struct{ http *http.Client }

// maxIdle is how many connections to one host are kept for the next posts: the receivers of many webhooks may be behind one gateway.
const maxIdle = 64

// newPoster returns a poster that connects under a policy.
func newPoster(policy outbound.Policy) *poster {
	client := policy.Client(postLimit)
	if transport, isHTTP := client.Transport.(*http.Transport); isHTTP {
		transport.MaxIdleConnsPerHost = maxIdle
	}
	return &poster{client}
}

// Why a post was not taken.
const (
	RefusedAddress = "refused_address" // the policy forbids the address
	NotConnected   = "not_connected"
	Timeout        = "timeout"
	BadStatus      = "status" // the status of the answer is not one of success; a redirect is not followed
	NoSecret       = "no_secret"
)

// Answer is how a post went. It says nothing about the network of the server: users who are no administrators see it.
type Answer struct {
	At         time.Time
	Duration   time.Duration
	Status     int           // 0: no answer came
	Error      string        // empty: it was taken
	Response   string        // the beginning of the answer
	RetryAfter time.Duration // what the receiver asked for: for all posts if IsPause, otherwise for this event; 0: nothing
}

// IsGone reports whether the receiver wants no posts any more.
func (a Answer) IsGone() bool { return a.Status == http.StatusGone }

// IsPause reports whether further posts would fail now: the receiver does not answer, or takes nothing for a while.
func (a Answer) IsPause() bool {
	return a.Status == 0 || a.Status == http.StatusTooManyRequests || a.Status == http.StatusServiceUnavailable
}

// posting is one post of an event.
type posting struct {
	URL     string
	ID      string // the same at each attempt
	Body    []byte
	Secrets []string // each signs, the current one first
	Form    signing
}

// signing is how a post is signed.
type signing int

// The ways to sign.
const (
	standardSigning signing = iota // as Standard Webhooks says (https://www.standardwebhooks.com)
	smsgateSigning                 // as the app of SMSGate does, with the current secret alone
)

// Do posts an event. Every status of success counts as taken, whatever the body holds.
func (p *poster) Do(ctx context.Context, one posting) (a Answer) {
	a.At = time.Now()
	defer func() { a.Duration = time.Since(a.At) }()
	if len(one.Secrets) == 0 {
		a.Error = NoSecret
		return a
	}
	ctx, cancel := context.WithTimeout(ctx, postLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, one.URL, bytes.NewReader(one.Body))
	if err != nil {
		a.Error = NotConnected
		return a
	}
	stamp := strconv.FormatInt(a.At.Unix(), 10)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "lksms")
	if !one.sign(req.Header, stamp) {
		a.Error = NoSecret
		return a
	}
	res, err := p.http.Do(req)
	if err != nil {
		a.Error = errorOf(err)
		return a
	}
	defer res.Body.Close() //nolint:errcheck // the beginning was read, and the rest is not needed
	text, _ := io.ReadAll(io.LimitReader(res.Body, maxResponse))
	a.Status, a.Response = res.StatusCode, postgres.Text(string(bom.Skip(text)))
	if a.Status < 200 || a.Status > 299 {
		a.Error, a.RetryAfter = BadStatus, retryAfter(res.Header.Get("Retry-After"), a.At)
	}
	return a
}

// sign sets the headers that prove a post, and reports whether its secrets can sign.
func (p posting) sign(header http.Header, stamp string) bool {
	if p.Form == smsgateSigning {
		mac := hmac.New(sha256.New, []byte(p.Secrets[0]))
		mac.Write(p.Body)
		mac.Write([]byte(stamp))
		header.Set("X-Timestamp", stamp)
		header.Set("X-Signature", hex.EncodeToString(mac.Sum(nil)))
		return true
	}
	signatures := make([]string, len(p.Secrets))
	for i, secret := range p.Secrets {
		key, err := standardwebhooks.Key(secret)
		if err != nil {
			return false
		}
		signatures[i] = "v1," + standardwebhooks.Sign(key, p.ID, stamp, p.Body)
	}
	header.Set("webhook-id", p.ID)
	header.Set("webhook-timestamp", stamp)
	header.Set("webhook-signature", strings.Join(signatures, " "))
	return true
}

// errorOf returns why no answer came.
func errorOf(err error) string {
	var network net.Error
	switch {
	case errors.Is(err, outbound.ErrRefused):
		return RefusedAddress
	case errors.As(err, &network) && network.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return Timeout
	default:
		return NotConnected
	}
}

// maxRetry is the longest time that a receiver may ask for.
const maxRetry = 24 * time.Hour

// retryAfter reads a header Retry-After: seconds, or a time.
func retryAfter(text string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseInt(text, 10, 64); err == nil || errors.Is(err, strconv.ErrRange) { // out of range: the nearest number
		return time.Duration(min(max(0, seconds), int64(maxRetry/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(0, at.Sub(now)), maxRetry)
	}
	return 0
}

// newSecret returns a new secret.
func newSecret() string {
	raw := make([]byte, 32)
	_, _ = rand.Read(raw) // never fails
	return standardwebhooks.Prefix + base64.StdEncoding.EncodeToString(raw)
}
