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

// fail answers any failure: an expected one as it is, a database that cannot be asked with 503, and everything else with
// 500 and no word of what it was; that goes into the log.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	var expected *fault.Error
	if errors.As(err, &expected) {
		s.answerFault(w, r, expected)
		return
	}
	if r.Context().Err() != nil && !errors.Is(r.Context().Err(), context.DeadlineExceeded) {
		return // the caller has gone; nobody reads an answer
	}
	expected = fault.New(fault.Internal, fault.InternalError)
	if postgres.IsUnavailable(err) {
		expected = errUnavailable
	}
	s.options.Log.Error("request failed", "request_id", exchangeOf(r.Context()).origin.RequestID, "error", err)
	s.answerFault(w, r, expected)
}

func (s *Server) answerFault(w http.ResponseWriter, r *http.Request, f *fault.Error) {
	x := exchangeOf(r.Context())
	status := statuses[f.Kind]
	answer := api.Error{
		Code: status, Message: x.text.reason(f.Reason), RequestID: x.origin.RequestID,
		Error: api.ErrorDetail{Reason: string(f.Reason)},
	}
	if len(f.Fields) > 0 {
		fields := make([]api.FieldError, len(f.Fields))
		for i, field := range f.Fields {
			fields[i] = api.FieldError{Field: field.Name, Message: x.text.rule(field)}
		}
		answer.Error.Fields = &fields
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
	ours := []fault.Kind{fault.Internal, fault.Unavailable}
	strangers := []fault.Kind{fault.Unauthorized, fault.TooMany}
	if x.operation != submitOperation || slices.Contains(ours, kind) || slices.Contains(strangers, kind) {
		return
	}
	refused := refusal{status, answer}
	if x.inTransaction { // which is going to be rolled back, and which holds a connection: afterwards, then
		x.refused = &refused
		return
	}
	s.storeRefusal(ctx, refused)
}

func (s *Server) storeRefusal(ctx context.Context, r refusal) {
	x := exchangeOf(ctx)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := s.tasks.LogRefused(ctx, x.body, x.origin, r.status, r.answer); err != nil {
		s.options.Log.Error("refusal not kept", "request_id", x.origin.RequestID, "error", err)
	}
}
