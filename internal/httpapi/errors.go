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
	"lksms/internal/access"
	"lksms/internal/fault"
	"lksms/internal/postgres"
	"lksms/internal/queue"
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

// fail answers any failure. Of a caller that has gone nothing is wrong; one that only closed its sending side is told to come back.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	var expected *fault.Error
	if !errors.As(err, &expected) && r.Context().Err() != nil && !errors.Is(r.Context().Err(), context.DeadlineExceeded) {
		exchangeOf(r.Context()).isGone = true
		s.answerFault(w, r, errUnavailable)
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

// tellEach is told for the failures of one request. Of those that are not expected and follow each other with the same text it logs one.
func (s *Server) tellEach(ctx context.Context) func(error) *fault.Error {
	var last string
	var lastTold *fault.Error
	return func(err error) *fault.Error {
		var expected *fault.Error
		if errors.As(err, &expected) {
			return expected
		}
		if text := err.Error(); lastTold == nil || text != last {
			last, lastTold = text, s.told(ctx, err)
		}
		return lastTold
	}
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

// keepRefusal logs a submission that was refused before it is answered, so that the row is there when the caller looks
// (S0.14). Callers who may not submit leave no row, and neither does a failure of ours.
func (s *Server) keepRefusal(ctx context.Context, kind fault.Kind, status int, answer []byte) {
	x := exchangeOf(ctx)
	maySubmit := x.who.Role == access.RoleAdmin || slices.Contains(s.contract.roles[x.operation], x.who.Role)
	if !slices.Contains(submitOperations, x.operation) || x.dryRun || ours(kind) || kind == fault.TooMany || !maySubmit {
		return
	}
	refused := queue.Refused{Raw: x.body, Status: status, Answer: answer}
	if x.inTransaction { // which is going to be rolled back, and which holds a connection: afterwards, then
		x.refused = &refused
		return
	}
	s.storeRefusals(ctx, refused)
}

// ours are the failures that are no refusal of what was sent.
func ours(kind fault.Kind) bool { return kind == fault.Internal || kind == fault.Unavailable }

func (s *Server) storeRefusals(ctx context.Context, all ...queue.Refused) {
	x := exchangeOf(ctx)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := s.tasks.LogRefused(ctx, x.origin, all...); err != nil {
		s.options.Log.Error("refusal not kept", "request_id", x.origin.RequestID, "error", err)
	}
}
