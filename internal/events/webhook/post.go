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

// postLimit is the timeout of one post.
const postLimit = 10 * time.Second

// maxResponse is the maximum number of bytes of an answer that are stored.
const maxResponse = 1024

// poster sends posts. Its outbound policy defines which addresses it can reach.
type poster struct{ http *http.Client }

// maxIdle is the maximum number of idle connections for each host, because the receivers of many webhooks can share one gateway.
const maxIdle = 64

// newPoster returns a poster whose connections obey policy.
func newPoster(policy outbound.Policy) *poster {
	client := policy.Client(postLimit)
	if transport, isHTTP := client.Transport.(*http.Transport); isHTTP {
		transport.MaxIdleConnsPerHost = maxIdle
	}
	return &poster{client}
}

// These are the reasons why a post was not accepted.
const (
	RefusedAddress = "refused_address" // the policy forbids the address
	NotConnected   = "not_connected"
	Timeout        = "timeout"
	BadStatus      = "status" // the status of the answer is not a success; redirects are not followed
	NoSecret       = "no_secret"
)

// Answer is the result of a post. It contains nothing about the network of the server, because users who are not administrators can read it.
type Answer struct {
	At         time.Time
	Duration   time.Duration
	Status     int           // status of the answer; 0: no answer
	Error      string        // empty: the post was accepted
	Response   string        // the beginning of the body of the answer
	RetryAfter time.Duration // pause that the receiver requested; 0: no pause; if IsPause, it applies to the whole webhook, otherwise only to this event
}

// IsGone reports whether the receiver does not want further posts (status 410).
func (a Answer) IsGone() bool { return a.Status == http.StatusGone }

// IsPause reports whether further posts to the receiver would fail now: it does not answer, or it requests a pause.
func (a Answer) IsPause() bool {
	return a.Status == 0 || a.Status == http.StatusTooManyRequests || a.Status == http.StatusServiceUnavailable
}

// posting is one post of an event.
type posting struct {
	URL     string
	ID      string // id of the event, which is the same in every attempt
	Body    []byte
	Secrets []string // secrets that sign the post; the current secret is the first
	Form    signing
}

// signing is the method by which posts are signed.
type signing int

// These are the signing methods.
const (
	standardSigning signing = iota // Standard Webhooks (https://www.standardwebhooks.com)
	smsgateSigning                 // method of the SMSGate app; only the current secret signs
)

// Do posts an event. Every success status means that the receiver accepted the post. The body of the answer has no meaning.
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
	defer res.Body.Close() //nolint:errcheck // the rest of the body is not needed
	text, _ := io.ReadAll(io.LimitReader(res.Body, maxResponse))
	a.Status, a.Response = res.StatusCode, postgres.Text(string(bom.Skip(text)))
	if a.Status < 200 || a.Status > 299 {
		a.Error, a.RetryAfter = BadStatus, retryAfter(res.Header.Get("Retry-After"), a.At)
	}
	return a
}

// sign sets the headers that authenticate a post. It reports whether the secrets are usable.
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

// errorOf returns the reason why no answer arrived, as one of the constants above.
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

// maxRetry is the maximum pause after a Retry-After.
const maxRetry = 24 * time.Hour

// retryAfter parses a Retry-After header: seconds, or a time.
func retryAfter(text string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseInt(text, 10, 64); err == nil || errors.Is(err, strconv.ErrRange) { // for a number out of range, ParseInt also returns the nearest valid number
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
	_, _ = rand.Read(raw) // rand.Read never fails
	return standardwebhooks.Prefix + base64.StdEncoding.EncodeToString(raw)
}
