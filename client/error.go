package client

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	api "lksms/gen/client"
)

// ErrUnreachable is wrapped in each error of a call without a response: the server was not reached, or did not answer in time. If a connection existed, the
// server possibly executed the call.
var ErrUnreachable = errors.New("the server was not reached, or did not answer in time")

// FieldError describes the error in one field of a request.
type FieldError = api.FieldError

// Error is a response that rejects a request.
type Error struct {
	Status     int           // the HTTP status
	Reason     string        // a stable code that programs can compare, such as "task.not_found"; empty if the response is not from LKSMS
	Message    string        // for people
	Fields     []FieldError  // the invalid fields
	Docs       string        // the URL of the page that explains the error, or the path of a document in the repository if the server serves no manual
	RequestID  string        // quote this id when you ask about the response
	RetryAfter time.Duration // wait before the next attempt; 0 if the response contains no wait
	Oldest     string        // only for "events.cursor_gone": the oldest cursor that can be pulled from
}

func (e *Error) Error() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%d", e.Status)
	if e.Reason != "" {
		text.WriteString(" " + e.Reason)
	}
	if e.Message != "" {
		text.WriteString(": " + e.Message)
	}
	for _, field := range e.Fields {
		fmt.Fprintf(&text, " %s: %s.", field.Field, field.Message)
	}
	if e.RequestID != "" {
		fmt.Fprintf(&text, " (request %s)", e.RequestID)
	}
	return text.String()
}

// UnknownError is wrapped in the error of a call that possibly created something, because no attempt got a conclusive response. To repeat the call safely
// within 24 hours, use [WithIdempotencyKey] with this key.
type UnknownError struct {
	IdempotencyKey string
	Err            error // the error of the last attempt
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("%v (the server perhaps executed the call: repeat it with the Idempotency-Key %s)", e.Err, e.IdempotencyKey)
}

func (e *UnknownError) Unwrap() error { return e.Err }

// IsTemporary reports whether the same call can succeed later: no server answered, or the server is overloaded. An untrusted certificate is not temporary.
func IsTemporary(err error) bool {
	if answer, ok := errors.AsType[*Error](err); ok {
		switch answer.Status {
		case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return true
		}
		return false
	}
	return errors.Is(err, ErrUnreachable) && !isUntrusted(err)
}

// isUntrusted reports whether the certificate of the server was rejected, before anything was sent.
func isUntrusted(err error) bool {
	_, ok := errors.AsType[*tls.CertificateVerificationError](err)
	return ok
}

// Reason returns the reason of the [Error] in err. It returns "" if err contains no [Error].
func Reason(err error) string {
	if answer, ok := errors.AsType[*Error](err); ok {
		return answer.Reason
	}
	return ""
}
