// Package client calls an LKSMS server: it submits messages and follows them, claims and reports tasks as a sender, uploads batches, and reads events.
//
// The package wraps the client that is generated from the contract (lksms/gen/client). A method returns the data of the response without its envelope, or an
// *[Error] with the reason and the fields. A method repeats a call if a repetition is safe. All attempts of a submission share one Idempotency-Key, so that
// only one message is created.
//
// Every attempt has a time limit, see [WithTimeout]. The context limits the total time of all attempts of a call.
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

// Client calls one server as one user. It is safe for concurrent use.
type Client struct {
	api     *api.Client
	timeout time.Duration
	retries int
	notice  func(error, time.Duration)
	answers func(json.RawMessage)
	offset  atomic.Int64 // time by which the server's clock is ahead of the local clock, in nanoseconds
	reached atomic.Bool  // true after a call has succeeded
}

// Credentials identify the caller. Printed credentials do not show their content.
type Credentials struct {
	username, password string
	key                string
}

// Basic returns the credentials of a username with its password. An API key can replace the password.
func Basic(username, password string) Credentials {
	return Credentials{username: username, password: password}
}

// Key returns the credentials of an API key.
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

// Option changes how a client calls the server.
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

// WithHTTPClient makes the client use a copy of hc, for example one that trusts a private certificate. The client never follows redirects: a redirected POST
// would lose its body, and the credentials belong to one server.
func WithHTTPClient(hc *http.Client) Option { return func(o *options) { o.http = *hc } }

// WithTimeout sets the time limit of one attempt, 30 seconds by default. The wait that a call requests and the time of an upload are added.
func WithTimeout(d time.Duration) Option { return func(o *options) { o.timeout = d } }

// WithRetries sets the maximum number of repetitions of a call, 4 by default. With 0 a call is never repeated.
func WithRetries(n int) Option { return func(o *options) { o.retries = n } }

// WithUserAgent sets the name of the calling program, which the server logs.
func WithUserAgent(name string) Option { return func(o *options) { o.userAgent = name } }

// WithLanguage sets the language of messages for people: "zh" or "en".
func WithLanguage(tag string) Option { return func(o *options) { o.language = tag } }

// WithRetryNotice makes the client call f before each wait for another attempt, with the error of the last attempt.
func WithRetryNotice(f func(err error, wait time.Duration)) Option {
	return func(o *options) { o.notice = f }
}

// WithAnswers makes the client call f with the data of each response exactly as the server sent it. A newer server can send fields that the types of this
// package lack.
func WithAnswers(f func(data json.RawMessage)) Option { return func(o *options) { o.answers = f } }

// New returns a client for the server at address, such as https://lksms.example.com. New does not call the server.
func New(address string, credentials Credentials, more ...Option) (*Client, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return nil, errors.New("the URL of the server cannot be read") // the text of the error can contain a password
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, errors.New("the URL of the server must begin with http:// or https:// and name a host")
	case u.User != nil:
		return nil, errors.New("the URL of the server must not contain credentials: pass them separately")
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

// API returns the generated client, for operations that have no method here. It uses the same credentials, and never repeats a call.
func (c *Client) API() *api.Client { return c.api }

// outlasts reports whether a method that waits or follows events continues after err. Before the first successful call of the client it does not continue:
// otherwise a wrong address would make it wait forever without notice.
func (c *Client) outlasts(ctx context.Context, err error) bool {
	return ctx.Err() == nil && c.reached.Load() && IsTemporary(err)
}

// Now returns the time by the clock of the server, computed from the Date header of the last response of LKSMS. It is wrong by at most one second plus the
// time that the response took to arrive. Leases end by the clock of the database, which should have the same time as the server.
func (c *Client) Now() time.Time { return time.Now().Add(time.Duration(c.offset.Load())) }

// Who returns the caller: the user with its role and its company.
func (c *Client) Who(ctx context.Context) (*Session, error) {
	return call[*Session](ctx, c, repeatable, 0, func(ctx context.Context) (*http.Response, error) { return c.api.GetSession(ctx) })
}

// CallOption changes one call that creates something.
type CallOption func(*callOptions)

type callOptions struct{ key string }

// WithIdempotencyKey sets the Idempotency-Key of a call. Within 24 hours, the server returns the first response to every call with the same key, even from
// another process. Without this option each call has a different random key, which is shared only by its retries.
func WithIdempotencyKey(key string) CallOption { return func(o *callOptions) { o.key = key } }
