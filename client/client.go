// Package client calls an LKSMS server: it submits messages and follows them, claims and reports tasks as a sender, uploads batches, and
// reads events.
//
// It wraps the client that is generated from the contract (lksms/gen/client). A method returns the data of the answer without its envelope, or an
// *[Error] that names the reason and the fields. It repeats what is safe to repeat: a submission is repeated with one Idempotency-Key, so that
// it makes one message.
//
// Every attempt has a deadline, see [WithTimeout]. The context bounds all attempts of a call together.
package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	api "lksms/gen/client"
)

// Client calls one server as one user. Its methods may be called at the same time.
type Client struct {
	api     *api.Client
	timeout time.Duration
	retries int
	notice  func(error, time.Duration)
	answers func(json.RawMessage)
	offset  atomic.Int64 // how far the server's clock is ahead of ours, in nanoseconds
	reached atomic.Bool  // a call has succeeded
}

// Credentials say who calls. They print as a word that shows nothing of them.
type Credentials struct {
	username, password string
	key                string
}

// Basic are a username with its password, or with an API key in place of the password.
func Basic(username, password string) Credentials {
	return Credentials{username: username, password: password}
}

// Key is an API key alone.
func Key(key string) Credentials { return Credentials{key: key} }

// String hides the credentials.
func (Credentials) String() string { return "(credentials)" }

// GoString hides the credentials.
func (Credentials) GoString() string { return "client.Credentials{}" }

func (c Credentials) apply(r *http.Request) {
	switch {
	case c.key != "":
		r.Header.Set("Authorization", "Bearer "+c.key)
	case c.username != "":
		r.SetBasicAuth(c.username, c.password)
	}
}

// Option changes how a client calls.
type Option func(*options)

type options struct {
	http      http.Client
	timeout   time.Duration
	retries   int
	userAgent string
	language  string
	notice    func(error, time.Duration)
	answers   func(json.RawMessage)
}

// WithHTTPClient calls with a copy of hc, for example one that trusts a private certificate. Redirects are not followed in any case: a
// redirected POST would lose its body, and the credentials belong to one server.
func WithHTTPClient(hc *http.Client) Option { return func(o *options) { o.http = *hc } }

// WithTimeout bounds one attempt, 30 seconds by default. What the server is asked to wait, and the time of an upload, come on top.
func WithTimeout(d time.Duration) Option { return func(o *options) { o.timeout = d } }

// WithRetries sets how often a call is repeated, 4 times by default. 0 repeats nothing.
func WithRetries(n int) Option { return func(o *options) { o.retries = n } }

// WithUserAgent names the calling program, which the server logs.
func WithUserAgent(name string) Option { return func(o *options) { o.userAgent = name } }

// WithLanguage chooses the language of messages for people: "zh" or "en".
func WithLanguage(tag string) Option { return func(o *options) { o.language = tag } }

// WithRetryNotice calls f before each wait for another attempt, with the error of the last one.
func WithRetryNotice(f func(err error, wait time.Duration)) Option {
	return func(o *options) { o.notice = f }
}

// WithAnswers calls f with the data of each answer as the server wrote it. It has the fields of a newer server too, which the types of this
// package do not have.
func WithAnswers(f func(data json.RawMessage)) Option { return func(o *options) { o.answers = f } }

// New returns a client for the server at address, such as https://lksms.example.com. It calls nothing yet.
func New(address string, credentials Credentials, more ...Option) (*Client, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return nil, errors.New("the URL of the server cannot be read") // the text of the error may show a password
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, errors.New("the URL of the server must begin with http:// or https:// and name a host")
	case u.User != nil:
		return nil, errors.New("the URL of the server must not hold credentials: give them apart")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("the URL of the server must not have a query or a fragment")
	}
	o := options{timeout: 30 * time.Second, retries: 4, userAgent: "lksms-go"}
	for _, change := range more {
		change(&o)
	}
	o.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	generated, err := api.NewClient(u.String(), api.WithHTTPClient(&o.http),
		api.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
			credentials.apply(r)
			r.Header.Set("User-Agent", o.userAgent)
			if o.language != "" {
				r.Header.Set("Accept-Language", o.language)
			}
			return nil
		}))
	if err != nil {
		return nil, fmt.Errorf("read the URL of the server: %w", err)
	}
	return &Client{api: generated, timeout: o.timeout, retries: o.retries, notice: o.notice, answers: o.answers}, nil
}

// API returns the generated client, for operations that have no method here. It has the same credentials, and repeats nothing.
func (c *Client) API() *api.Client { return c.api }

// outlasts reports whether a follower goes on after err. Before the first call of the client has succeeded, the address may be wrong: nobody
// would see that a follower waits for nothing.
func (c *Client) outlasts(ctx context.Context, err error) bool {
	return ctx.Err() == nil && c.reached.Load() && IsTemporary(err)
}

// Now is the time by the clock of the machine that answers, from the Date header of the last answer of LKSMS: within a second, and the time that
// the answer took to arrive. Leases end by the clock of the database, which should not differ from it.
func (c *Client) Now() time.Time { return time.Now().Add(time.Duration(c.offset.Load())) }

// Who returns the caller: the user, its role and its company.
func (c *Client) Who(ctx context.Context) (*Session, error) {
	return call[*Session](ctx, c, repeatable, 0, func(ctx context.Context) (*http.Response, error) { return c.api.GetSession(ctx) })
}

// CallOption changes one call that creates something.
type CallOption func(*callOptions)

type callOptions struct{ key string }

// WithIdempotencyKey names the call. The server answers a repeated one, within 24 hours and also of another process, like the first one.
// Without it, each call has a random name, which only its own retries share.
func WithIdempotencyKey(key string) CallOption { return func(o *callOptions) { o.key = key } }
