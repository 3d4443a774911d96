package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	dice "math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	api "lksms/gen/client"
)

// safety decides when a call is repeated.
type safety int

const (
	// once is for calls that are repeated only if the server cannot have executed them: no connection, or 429.
	once safety = iota
	// repeatable is for calls that can be executed several times with the same effect. They are also repeated after a lost response, and after 502, 503 and
	// 504.
	repeatable
)

const (
	// answerLimit is the maximum size of a response in bytes. The largest responses are pages of 1000 tasks, with less than 10 KiB each.
	answerLimit = 32 << 20
	// longestWait is the maximum wait before another attempt. A call that would have to wait longer fails.
	longestWait = time.Minute
)

// idempotencyKey returns the key that all attempts of one call share.
func idempotencyKey(more []CallOption) api.IdempotencyKey {
	o := callOptions{key: rand.Text()}
	for _, change := range more {
		change(&o)
	}
	return o.key
}

// create works like call for operations that create something. All attempts share the key. If the outcome is unknown, create returns an [UnknownError].
func create[T any](ctx context.Context, c *Client, key string, extra time.Duration, send func(context.Context) (*http.Response, error)) (T, error) {
	data, isUnknown, err := attempts[T](ctx, c, repeatable, extra, func(ctx context.Context) (*http.Response, error) {
		var isSent atomic.Bool
		trace := &httptrace.ClientTrace{WroteHeaders: func() { isSent.Store(true) }}
		answer, err := send(httptrace.WithClientTrace(ctx, trace))
		if err != nil && isSent.Load() {
			return nil, &sentError{err}
		}
		return answer, err
	})
	if err != nil && isUnknown {
		err = &UnknownError{IdempotencyKey: key, Err: err}
	}
	return data, err
}

// call sends a request and returns the data of the response. It repeats the request while a repetition is safe and can succeed. extra is added to the time
// limit of each attempt.
func call[T any](ctx context.Context, c *Client, s safety, extra time.Duration, send func(context.Context) (*http.Response, error)) (T, error) {
	data, _, err := attempts[T](ctx, c, s, extra, send)
	return data, err
}

// attempts works like call. It also reports whether a failed attempt was possibly executed.
func attempts[T any](
	ctx context.Context, c *Client, s safety, extra time.Duration, send func(context.Context) (*http.Response, error),
) (data T, isUnknown bool, err error) {
	for attempt := 0; ; attempt++ {
		data, err = try[T](ctx, c, extra, send)
		isUnknown = isUnknown || mayBeDone(err)
		if err == nil || ctx.Err() != nil || attempt >= c.retries || !mayRepeat(err, s) || !c.pause(ctx, err, attempt) {
			return data, isUnknown, err
		}
	}
}

// pause waits before another attempt. It returns false if the wait would be longer than longestWait or would pass the deadline of ctx, or if ctx ends.
func (c *Client) pause(ctx context.Context, err error, attempt int) bool {
	wait := backoff(attempt)
	if answer, ok := errors.AsType[*Error](err); ok && answer.RetryAfter > 0 {
		wait = answer.RetryAfter
	}
	if end, bounded := ctx.Deadline(); wait > longestWait || bounded && time.Until(end) <= wait {
		return false
	}
	if c.notice != nil {
		c.notice(err, wait)
	}
	return sleep(ctx, wait)
}

// backoff returns half a second for the first attempt. The time doubles for each further attempt, up to 16 seconds. backoff then subtracts a random part of
// up to a quarter.
func backoff(attempt int) time.Duration {
	d := 500 * time.Millisecond << min(attempt, 5)
	return d - time.Duration(dice.Int64N(int64(d)/4)) //nolint:gosec // random waits, so that clients do not retry together
}

// sleep waits for d. If ctx ends before, it returns false.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

func mayRepeat(err error, s safety) bool {
	if answer, ok := errors.AsType[*Error](err); ok {
		switch answer.Status {
		case http.StatusTooManyRequests:
			return answer.Reason != "recipient.limited" // the person has got enough messages, and the server is not overloaded
		case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return s == repeatable
		case http.StatusConflict:
			return s == repeatable && answer.Reason == "idempotency.in_flight" // the server still executes an earlier attempt of this call
		}
		return false
	}
	if !errors.Is(err, ErrUnreachable) || isUntrusted(err) {
		return false
	}
	if s == repeatable {
		return true
	}
	return isUnconnected(err)
}

// isUnconnected reports whether no connection was made, so that nothing was sent.
func isUnconnected(err error) bool {
	connection, ok := errors.AsType[*net.OpError](err)
	return ok && connection.Op == "dial"
}

// sentError marks the error of an attempt that wrote a request. The network error alone does not show this. If a reused connection breaks, net/http itself
// sends a request with an Idempotency-Key a second time. If the second try gets no connection, the error says "no connection", although the first try was sent.
type sentError struct{ err error }

func (e *sentError) Error() string { return e.err.Error() }
func (e *sentError) Unwrap() error { return e.err }

// mayBeDone reports whether the server possibly executed an attempt that failed with this error.
func mayBeDone(err error) bool {
	if answer, ok := errors.AsType[*Error](err); ok {
		return answer.Status >= http.StatusInternalServerError || answer.Reason == "idempotency.in_flight"
	}
	if _, isSent := errors.AsType[*sentError](err); isSent {
		return true
	}
	return err != nil && !errors.Is(err, errUnsent) && !isUnconnected(err) && !isUntrusted(err)
}

// errUnsent marks the error of an attempt that could not build its request.
var errUnsent = errors.New("make the request")

// envelope contains the common fields of every response.
type envelope struct {
	Code      int             `json:"code"`
	Message   string          `json:"message"`
	Data      json.RawMessage `json:"data"`
	Error     api.ErrorDetail `json:"error"`
	Docs      string          `json:"docs"`
	RequestID string          `json:"request_id"`
}

// nothing is the type of the data in responses without data.
type nothing struct{}

// UnmarshalJSON accepts and ignores any data, because a newer server can return data here.
func (nothing) UnmarshalJSON([]byte) error { return nil }

func try[T any](ctx context.Context, c *Client, extra time.Duration, send func(context.Context) (*http.Response, error)) (data T, err error) {
	attempt, cancel := context.WithTimeout(ctx, c.timeout+extra)
	defer cancel()
	answer, err := send(attempt)
	if err != nil {
		if _, ok := errors.AsType[*url.Error](err); !ok {
			return data, fmt.Errorf("%w: %w", errUnsent, err)
		}
		return data, lost(ctx, err)
	}
	defer answer.Body.Close() //nolint:errcheck // the body was read to its end, or failed
	body, err := io.ReadAll(io.LimitReader(answer.Body, answerLimit+1))
	switch {
	case err != nil:
		return data, lost(ctx, err)
	case len(body) > answerLimit:
		return data, fmt.Errorf("the answer is larger than %d bytes", answerLimit)
	}
	if answer.StatusCode != http.StatusOK {
		err := refusal(answer, body)
		if err.Reason != "" {
			c.setClock(answer.Header.Get("Date"))
		}
		return data, err
	}
	data, raw, err := decode[T](body)
	if err == nil { // sets the clock only from LKSMS: the clock of a proxy can differ
		c.reached.Store(true)
		c.setClock(answer.Header.Get("Date"))
		if c.answers != nil {
			c.answers(raw)
		}
	}
	return data, err
}

// decode returns the data of a response, decoded and as the server sent it.
func decode[T any](body []byte) (data T, raw json.RawMessage, err error) {
	var read envelope
	err = json.Unmarshal(body, &read)
	if _, isEmpty := any(data).(nothing); err == nil && !isEmpty {
		if len(read.Data) == 0 || string(read.Data) == "null" {
			err = errors.New("the response has no data")
		} else {
			err = json.Unmarshal(read.Data, &data)
		}
	}
	if err == nil && read.Code != http.StatusOK {
		err = errors.New("the response has no code")
	}
	if err != nil {
		var none T
		return none, nil, fmt.Errorf("the response is not from LKSMS, check the URL of the server: %w", err)
	}
	return data, read.Data, nil
}

// lost returns the error of an attempt that got no response. If the caller cancelled ctx, it returns only the error of ctx.
func lost(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	return fmt.Errorf("%w: %w", ErrUnreachable, err)
}

func refusal(answer *http.Response, body []byte) *Error {
	e := &Error{Status: answer.StatusCode, RetryAfter: retryAfter(answer.Header.Get("Retry-After"))}
	var read envelope
	if err := json.Unmarshal(body, &read); err != nil || read.Error.Reason == "" {
		e.Message = "the response is not from LKSMS: check the URL of the server, and the proxies in between"
		if to := answer.Header.Get("Location"); to != "" {
			e.Message = "the server redirects: use the URL of " + to
		}
		return e
	}
	e.Reason, e.Message, e.RequestID = read.Error.Reason, read.Message, read.RequestID
	e.Docs = pageOf(answer, read.Docs)
	if read.Error.Fields != nil {
		e.Fields = *read.Error.Fields
	}
	if read.Error.Oldest != nil {
		e.Oldest = *read.Error.Oldest
	}
	return e
}

// pageOf returns the full URL of the documentation page in a response. If docs is a path in the repository, pageOf returns it unchanged.
func pageOf(answer *http.Response, docs string) string {
	if !strings.HasPrefix(docs, "/") || answer.Request == nil {
		return docs
	}
	page, err := answer.Request.URL.Parse(docs)
	if err != nil {
		return docs
	}
	page.User = nil
	return page.String()
}

// retryAfter reads the seconds in the header. LKSMS sends no dates.
func retryAfter(text string) time.Duration {
	seconds, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(min(seconds, math.MaxInt32)) * time.Second
}

func (c *Client) setClock(date string) {
	if at, err := http.ParseTime(date); err == nil {
		c.offset.Store(int64(time.Until(at.Add(500 * time.Millisecond)))) // half a second is added because the header contains whole seconds
	}
}
