package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"lksms/gen/api"
	"lksms/internal/fault"
	"lksms/internal/postgres"
)

// statuses is the one place where a kind of failure becomes an HTTP status.
var statuses = map[fault.Kind]int{
	fault.Malformed:        http.StatusBadRequest,
	fault.Unauthorized:     http.StatusUnauthorized,
	fault.Forbidden:        http.StatusForbidden,
	fault.NotFound:         http.StatusNotFound,
	fault.MethodNotAllowed: http.StatusMethodNotAllowed,
	fault.Conflict:         http.StatusConflict,
	fault.TooLarge:         http.StatusRequestEntityTooLarge,
	fault.UnsupportedMedia: http.StatusUnsupportedMediaType,
	fault.Invalid:          http.StatusUnprocessableEntity,
	fault.TooMany:          http.StatusTooManyRequests,
	fault.Internal:         http.StatusInternalServerError,
	fault.Unavailable:      http.StatusServiceUnavailable,
}

// errUnavailable is what the caller is told when the database cannot be asked.
var errUnavailable = &fault.Error{Kind: fault.Unavailable, Reason: fault.ServiceUnavailable, RetryAfter: 2 * time.Second}

// fail answers any failure. A caller that has gone is told nothing, and nothing is wrong then.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	var expected *fault.Error
	if !errors.As(err, &expected) && r.Context().Err() != nil && !errors.Is(r.Context().Err(), context.DeadlineExceeded) {
		return
	}
	s.answerFault(w, r, s.told(r.Context(), err))
}

// told is what the caller is told of a failure: an expected one as it is, a database that cannot be asked, and everything
// else without a word of what it was; that goes into the log.
func (s *Server) told(ctx context.Context, err error) *fault.Error {
	var expected *fault.Error
	if errors.As(err, &expected) {
		return expected
	}
	s.options.Log.Error("request failed", "request_id", exchangeOf(ctx).origin.RequestID, "error", err)
	if postgres.IsUnavailable(err) {
		return errUnavailable
	}
	return fault.New(fault.Internal, fault.InternalError)
}

func (s *Server) answerFault(w http.ResponseWriter, r *http.Request, f *fault.Error) {
	x := exchangeOf(r.Context())
	status := statuses[f.Kind]
	answer := api.Error{
		Code: status, Message: x.text.reason(f), RequestID: x.origin.RequestID, Error: x.text.detail(f),
	}
	body, err := json.Marshal(answer)
	if err != nil {
		panic(err) // strings and numbers
	}
	s.keepRefusal(r.Context(), f.Kind, status, body)
	header := w.Header()
	header.Set("Content-Type", "application/json")
	if f.Kind == fault.Unauthorized {
		header.Set("WWW-Authenticate", `Basic realm="lksms", charset="UTF-8"`)
	}
	if f.RetryAfter > 0 {
		header.Set("Retry-After", strconv.Itoa(int(math.Ceil(f.RetryAfter.Seconds()))))
	}
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // a caller that has gone cannot be told
}

// refusal is a submission that was refused.
type refusal struct {
	status int
	answer []byte
}

// keepRefusal logs a submission that was refused before it is answered, so that the row is there when the caller looks
// (S0.14). Strangers leave no row, and neither does a failure of ours.
func (s *Server) keepRefusal(ctx context.Context, kind fault.Kind, status int, answer []byte) {
	x := exchangeOf(ctx)
	strangers := []fault.Kind{fault.Unauthorized, fault.TooMany}
	if !slices.Contains(submitOperations, x.operation) || x.dryRun || ours(kind) || slices.Contains(strangers, kind) {
		return
	}
	refused := refusal{status, answer}
	if x.inTransaction { // which is going to be rolled back, and which holds a connection: afterwards, then
		x.refused = &refused
		return
	}
	s.storeRefusal(ctx, x.body, refused)
}

// ours are the failures that are no refusal of what was sent.
func ours(kind fault.Kind) bool { return kind == fault.Internal || kind == fault.Unavailable }

func (s *Server) storeRefusal(ctx context.Context, raw []byte, r refusal) {
	x := exchangeOf(ctx)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := s.tasks.LogRefused(ctx, raw, x.origin, r.status, r.answer); err != nil {
		s.options.Log.Error("refusal not kept", "request_id", x.origin.RequestID, "error", err)
	}
}
