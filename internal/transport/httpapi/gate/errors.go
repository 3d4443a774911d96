package gate

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"lksms/gen/api"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/platform/access"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/postgres"
	"lksms/internal/transport/httpapi/gate/capacity"
	"lksms/internal/transport/httpapi/text"
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

// StatusOf returns the HTTP status of a kind of failure.
func StatusOf(kind fault.Kind) int { return statuses[kind] }

// ErrUnavailable is the fault of a server that cannot serve a request now.
var ErrUnavailable = capacity.ErrUnavailable

// Fail answers any failure. If the caller has gone, the failure is not logged as an error of the server. The answer is written
// nevertheless: the caller may have closed only its sending side.
func (g *Gate) Fail(w http.ResponseWriter, r *http.Request, err error) {
	g.answerFault(w, r, g.faultOf(r, err))
}

// faultOf returns the fault that answers a failure of a request.
func (g *Gate) faultOf(r *http.Request, err error) *fault.Error {
	var expected *fault.Error
	if !errors.As(err, &expected) && r.Context().Err() != nil && !isLate(r.Context()) {
		Of(r.Context()).isGone = true
		return ErrUnavailable
	}
	return g.toFault(r.Context(), err)
}

// toFault returns the fault that answers a failure: an expected failure is answered as it is, an unreachable database by
// ErrUnavailable, any other failure by internal. The text of an unexpected failure goes only into the log.
func (g *Gate) toFault(ctx context.Context, err error) *fault.Error {
	var expected *fault.Error
	if errors.As(err, &expected) {
		return expected
	}
	g.options.Log.Error("request failed", "request_id", Of(ctx).Origin.RequestID, "error", err)
	if isLate(ctx) || postgres.IsUnavailable(err) {
		return ErrUnavailable
	}
	return fault.New(fault.Internal, fault.InternalError)
}

// ToFaults returns a function that turns the failures of one request into faults, as Fail does. If unexpected failures with the same
// text follow each other, only the first is logged.
func (g *Gate) ToFaults(ctx context.Context) func(error) *fault.Error {
	var last string
	var lastFault *fault.Error
	return func(err error) *fault.Error {
		var expected *fault.Error
		if errors.As(err, &expected) {
			return expected
		}
		if text := err.Error(); lastFault == nil || text != last {
			last, lastFault = text, g.toFault(ctx, err)
		}
		return lastFault
	}
}

func (g *Gate) answerFault(w http.ResponseWriter, r *http.Request, f *fault.Error) {
	x := Of(r.Context())
	status := statuses[f.Kind]
	answer := api.Error{
		Code: status, Message: x.Text.Reason(f), RequestID: x.Origin.RequestID, Error: x.Text.Detail(f), Docs: pageOf(g.options.Manual, x.Text, f.Reason),
	}
	body, err := json.Marshal(answer)
	if err != nil {
		panic(err) // strings and numbers
	}
	g.storeRefusal(r.Context(), f.Kind, status, body)
	w.Header().Set("Content-Type", "application/json")
	g.setHeaders(w.Header(), r, f)
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // fails only if the caller has gone
}

// pageOf returns the address of the page that explains a reason, in the language of the texts. manual: see Options. Without one, the address is the
// path of the English document: only its own sections have the anchors.
func pageOf(manual string, texts *text.Catalogue, reason fault.Reason) *string {
	page := "docs/" + reason.Page()
	if manual != "" {
		page = manual + texts.Pages + reason.Page()
	}
	return &page
}

// setHeaders sets the headers that say how to go on after a fault.
func (g *Gate) setHeaders(header http.Header, r *http.Request, f *fault.Error) {
	setFaultHeaders(header, r, f)
	if f.Kind == fault.MethodNotAllowed {
		header.Set("Allow", strings.Join(g.methods(r), ", "))
	}
}

// setFaultHeaders sets those of them that need no Gate.
func setFaultHeaders(header http.Header, r *http.Request, f *fault.Error) {
	if f.Kind == fault.Unauthorized {
		header.Set("WWW-Authenticate", challengeTo(r))
	}
	if f.RetryAfter > 0 {
		header.Set("Retry-After", strconv.Itoa(int(math.Ceil(f.RetryAfter.Seconds()))))
	}
}

// storeRefusal stores a rejected submission before it is answered, so that the caller finds its row (S0.14). Callers that may not
// submit, dry runs, rate-limited requests and failures of the server leave no row.
func (g *Gate) storeRefusal(ctx context.Context, kind fault.Kind, status int, answer []byte) {
	x := Of(ctx)
	asked, _ := g.contract.Operation(x.Operation)
	maySubmit := x.Caller.User.Role == access.RoleAdmin || slices.Contains(asked.Roles, x.Caller.User.Role)
	if !slices.Contains(submitOperations, x.Operation) || x.DryRun || IsServerError(kind) || kind == fault.TooMany || !maySubmit {
		return
	}
	refused := submit.Refused{Raw: x.Body.Raw, Status: status, Answer: answer}
	if x.InTransaction { // it will be rolled back, and holds a connection: idempotent stores the refusal afterwards
		x.refused = &refused
		return
	}
	g.StoreRefusals(ctx, refused)
}

// IsServerError reports whether a failure is the server's own, and not a rejection of the request.
func IsServerError(kind fault.Kind) bool { return kind == fault.Internal || kind == fault.Unavailable }

// isFailure reports whether a status says that the server failed. What it does not have (501, of foreign protocols) is a rejection.
func isFailure(status int) bool {
	return status >= http.StatusInternalServerError && status != http.StatusNotImplemented
}

// StoreRefusals stores rejected submissions. If that fails, the error is only logged.
func (g *Gate) StoreRefusals(ctx context.Context, all ...submit.Refused) {
	x := Of(ctx)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := g.services.Submissions.LogRefused(ctx, x.Origin, all...); err != nil {
		g.options.Log.Error("rejected submission not stored", "request_id", x.Origin.RequestID, "error", err)
	}
}

// ItemError returns the fields that describe the failure of one item, inside an answer that is a success as a whole.
func ItemError(texts *text.Catalogue, f *fault.Error) (code int, message *string, detail *api.ErrorDetail) {
	reason, d := texts.Reason(f), texts.Detail(f)
	return statuses[f.Kind], &reason, &d
}
