package gate

import (
	"context"
	"encoding/json"
	"errors"
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

// statuses maps each kind of failure to its HTTP status.
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

// Fail answers a request with an error. If the client has disconnected, the error is not logged as an error of the server. The response is written anyway,
// because the client possibly has closed only its sending side.
func (g *Gate) Fail(w http.ResponseWriter, r *http.Request, err error) {
	g.answerFault(w, r, g.faultOf(r, err))
}

// faultOf returns the fault for an error of a request.
func (g *Gate) faultOf(r *http.Request, err error) *fault.Error {
	var expected *fault.Error
	if !errors.As(err, &expected) && r.Context().Err() != nil && !isLate(r.Context()) {
		Of(r.Context()).isGone = true
		return ErrUnavailable
	}
	return g.toFault(r.Context(), err)
}

// toFault returns the fault for an error. A fault is returned unchanged. An unreachable database becomes ErrUnavailable, and any other error becomes
// internal. The text of an unexpected error is only logged.
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

// ToFaults returns a function that converts the errors of one request to faults in the same way as Fail. If consecutive unexpected errors have the same text,
// only the first error is logged.
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
		panic(err) // impossible: the values are strings and numbers
	}
	g.storeRefusal(r.Context(), f, status, body)
	w.Header().Set("Content-Type", "application/json")
	g.setHeaders(w.Header(), r, f)
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // an error means that the client disconnected
}

// pageOf returns the address of the page that explains a reason, in the language of the texts. Without a manual (see Options), the address is the path of the
// English document, because only the English document has the anchors.
func pageOf(manual string, texts *text.Catalogue, reason fault.Reason) *string {
	page := "docs/" + reason.Page()
	if manual != "" {
		page = manual + texts.Pages + reason.Page()
	}
	return &page
}

// setHeaders sets the headers that describe how the client can continue after a fault.
func (g *Gate) setHeaders(header http.Header, r *http.Request, f *fault.Error) {
	setFaultHeaders(header, r, f)
	if f.Kind == fault.MethodNotAllowed {
		header.Set("Allow", strings.Join(g.methods(r), ", "))
	}
}

// setFaultHeaders sets those headers of setHeaders that do not depend on the Gate.
func setFaultHeaders(header http.Header, r *http.Request, f *fault.Error) {
	if f.Kind == fault.Unauthorized {
		header.Set("WWW-Authenticate", challengeTo(r))
	}
	if f.RetryAfter > 0 {
		header.Set("Retry-After", strconv.FormatInt(f.RetryAfterSeconds(), 10))
	}
}

// storeRefusal stores a rejected submission before the response, so that the caller can find it (S0.14). It stores nothing for callers that are not allowed
// to submit, for dry runs, for rate-limited callers, and for failures of the server.
func (g *Gate) storeRefusal(ctx context.Context, f *fault.Error, status int, answer []byte) {
	x := Of(ctx)
	asked, _ := g.contract.Operation(x.Operation)
	maySubmit := x.Caller.User.Role == access.RoleAdmin || slices.Contains(asked.Roles, x.Caller.User.Role)
	if !slices.Contains(submitOperations, x.Operation) || x.DryRun || !IsRefusal(f) || !maySubmit {
		return
	}
	refused := submit.Refused{Raw: x.Body.Raw, Status: status, Answer: answer}
	if x.InTransaction { // the transaction will be rolled back and occupies a connection, so idempotent stores the submission afterwards
		x.refused = &refused
		return
	}
	g.StoreRefusals(ctx, refused)
}

// IsRefusal reports whether f rejects a message. Otherwise it rejects a caller that sends too much, or the server failed.
func IsRefusal(f *fault.Error) bool {
	return !IsServerError(f.Kind) && (f.Kind != fault.TooMany || f.Reason == fault.RecipientLimited)
}

// IsServerError reports whether the server itself failed. For a rejected request, it returns false.
func IsServerError(kind fault.Kind) bool { return kind == fault.Internal || kind == fault.Unavailable }

// isFailure reports whether a status means that the server failed. Foreign protocols use 501 for unsupported features, which is a rejection.
func isFailure(status int) bool {
	return status >= http.StatusInternalServerError && status != http.StatusNotImplemented
}

// StoreRefusals stores rejected submissions. It only logs an error.
func (g *Gate) StoreRefusals(ctx context.Context, all ...submit.Refused) {
	x := Of(ctx)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := g.services.Submissions.LogRefused(ctx, x.Origin, all...); err != nil {
		g.options.Log.Error("rejected submission not stored", "request_id", x.Origin.RequestID, "error", err)
	}
}

// ItemError returns the fields of a failed item in a response that is successful as a whole.
func ItemError(texts *text.Catalogue, f *fault.Error) (code int, message *string, detail *api.ErrorDetail) {
	reason, d := texts.Reason(f), texts.Detail(f)
	return statuses[f.Kind], &reason, &d
}
