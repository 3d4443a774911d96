package gate

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
	"lksms/internal/httpapi/text"
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

// ErrUnavailable is what the caller is told when the database cannot be asked.
var ErrUnavailable = &fault.Error{Kind: fault.Unavailable, Reason: fault.ServiceUnavailable, RetryAfter: 2 * time.Second}

// Fail answers any failure. Of a caller that has gone nothing is wrong; one that only closed its sending side is told to come back.
func (g *Gate) Fail(w http.ResponseWriter, r *http.Request, err error) {
	var expected *fault.Error
	if !errors.As(err, &expected) && r.Context().Err() != nil && !errors.Is(r.Context().Err(), context.DeadlineExceeded) {
		Of(r.Context()).isGone = true
		g.answerFault(w, r, ErrUnavailable)
		return
	}
	g.answerFault(w, r, g.Told(r.Context(), err))
}

// Told is what the caller is told of a failure: an expected one as it is, a database that cannot be asked, and everything
// else without a word of what it was; that goes into the log.
func (g *Gate) Told(ctx context.Context, err error) *fault.Error {
	var expected *fault.Error
	if errors.As(err, &expected) {
		return expected
	}
	g.options.Log.Error("request failed", "request_id", Of(ctx).Origin.RequestID, "error", err)
	if postgres.IsUnavailable(err) {
		return ErrUnavailable
	}
	return fault.New(fault.Internal, fault.InternalError)
}

// TellEach is told for the failures of one request. Of those that are not expected and follow each other with the same text it logs one.
func (g *Gate) TellEach(ctx context.Context) func(error) *fault.Error {
	var last string
	var lastTold *fault.Error
	return func(err error) *fault.Error {
		var expected *fault.Error
		if errors.As(err, &expected) {
			return expected
		}
		if text := err.Error(); lastTold == nil || text != last {
			last, lastTold = text, g.Told(ctx, err)
		}
		return lastTold
	}
}

func (g *Gate) answerFault(w http.ResponseWriter, r *http.Request, f *fault.Error) {
	x := Of(r.Context())
	status := statuses[f.Kind]
	answer := api.Error{
		Code: status, Message: x.Text.Reason(f), RequestID: x.Origin.RequestID, Error: x.Text.Detail(f),
	}
	body, err := json.Marshal(answer)
	if err != nil {
		panic(err) // strings and numbers
	}
	g.keepRefusal(r.Context(), f.Kind, status, body)
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
func (g *Gate) keepRefusal(ctx context.Context, kind fault.Kind, status int, answer []byte) {
	x := Of(ctx)
	maySubmit := x.Who.Role == access.RoleAdmin || slices.Contains(g.contract.roles[x.Operation], x.Who.Role)
	if !slices.Contains(submitOperations, x.Operation) || x.DryRun || Ours(kind) || kind == fault.TooMany || !maySubmit {
		return
	}
	refused := queue.Refused{Raw: x.Body, Status: status, Answer: answer}
	if x.InTransaction { // which is going to be rolled back, and which holds a connection: afterwards, then
		x.refused = &refused
		return
	}
	g.StoreRefusals(ctx, refused)
}

// Ours are the failures that are no refusal of what was sent.
func Ours(kind fault.Kind) bool { return kind == fault.Internal || kind == fault.Unavailable }

// StoreRefusals logs refused submissions. A failure of that is only logged.
func (g *Gate) StoreRefusals(ctx context.Context, all ...queue.Refused) {
	x := Of(ctx)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := g.services.Queue.LogRefused(ctx, x.Origin, all...); err != nil {
		g.options.Log.Error("refusal not kept", "request_id", x.Origin.RequestID, "error", err)
	}
}

// Tell is a failure inside an answer that is a success as a whole.
func Tell(texts *text.Catalogue, f *fault.Error) (code int, message *string, detail *api.ErrorDetail) {
	reason, d := texts.Reason(f), texts.Detail(f)
	return statuses[f.Kind], &reason, &d
}
