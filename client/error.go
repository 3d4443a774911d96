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

// ErrUnreachable is in each error of a call that got no answer: the server was not reached, or did not answer in time. Whether the server did
// what it was asked is unknown, unless there was no connection.
var ErrUnreachable = errors.New("the server was not reached, or did not answer in time")

// FieldError is what is wrong with one field of a request.
type FieldError = api.FieldError

// Error is an answer that says no.
type Error struct {
	Status     int           // the HTTP status
	Reason     string        // a stable word to branch on, such as "task.not_found"; empty if something else than LKSMS answered
	Message    string        // for people
	Fields     []FieldError  // what is wrong with which field
	Docs       string        // the address of the page that explains the answer, or the path of a document in the repository if the server has no pages
	RequestID  string        // quote it when you ask about the answer
	RetryAfter time.Duration // 0 if the server does not say
	Oldest     string        // of "events.cursor_gone": the oldest cursor that can be pulled from
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

// UnknownError is in the error of a call that creates something and may have done so: an attempt got no answer that settles it. Repeated with
// [WithIdempotencyKey] and this key, within 24 hours, the call creates nothing twice.
type UnknownError struct {
	IdempotencyKey string
	Err            error // of the last attempt
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("%v (it may be done: repeat it with the Idempotency-Key %s)", e.Err, e.IdempotencyKey)
}

func (e *UnknownError) Unwrap() error { return e.Err }

// IsTemporary reports whether the same call may succeed later: nothing answered, or the server has no room for it now. A certificate that is not
// trusted stays so until somebody acts.
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

// isUntrusted reports whether the certificate of the server was refused, before anything was sent.
func isUntrusted(err error) bool {
	_, ok := errors.AsType[*tls.CertificateVerificationError](err)
	return ok
}

// Reason returns the reason of the answer that is in err, or an empty text.
func Reason(err error) string {
	if answer, ok := errors.AsType[*Error](err); ok {
		return answer.Reason
	}
	return ""
}
