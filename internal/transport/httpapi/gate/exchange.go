package gate

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"lksms/internal/audience/upload"
	"lksms/internal/dispatch/callback"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/platform/access"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/tracing"
	"lksms/internal/transport/httpapi/gate/contract"
	"lksms/internal/transport/httpapi/text"
)

// submitOperations contains the operations whose rejected requests are stored (S0.14). The handlers of batches and inbounds themselves store each rejected
// message separately, because an erasure finds a rejected message by its phone number.
var submitOperations = []string{"POST /api/v1/sms/send", contract.SendBatch}

// Exchange contains the data of a request. observe creates it, and the middlewares fill it.
type Exchange struct {
	Operation     string // ServeMux pattern of the operation; empty: no operation
	Origin        submit.Origin
	Text          *text.Catalogue
	Caller        Caller
	Body          Body
	DryRun        bool // the request only previews a submission
	InTransaction bool // the handler runs in the transaction of an idempotency key

	isSecure  bool            // the client uses TLS
	basePath  string          // base path in the URLs that the client uses
	request   *http.Request   // original request: any part of a callback can contain the proof
	answering func()          // called when the response begins; can be nil
	isFile    bool            // the response is a public file
	isCostly  bool            // the operation belongs to a foreign protocol and needs a slot
	isStream  bool            // the response lasts as long as the client reads it
	isGone    bool            // the client disconnected before the response
	refused   *submit.Refused // a rejected submission, to be stored after the transaction
	logged    []any           // additional attributes of the log line, as slog expects them
	deadline  *time.Timer     // cancels the context
	last      time.Time       // latest time at which deadline can fire
}

// Caller is the user that made a request, or the provider that made a callback.
type Caller struct {
	User access.Principal // empty before authentication
	// Provider is the sender_no of a proven callback. If the token or the source address proves the call, guard sets Provider before the body is read. The
	// handler of callbacks sets Provider after it has checked the body. The handler clears Provider if the call is unproven, but not if an error prevented
	// the check.
	Provider  string
	Authorise func() error // authenticates User again and checks its roles; nil for a public operation

	SessionEnd *time.Time // when the caller's session expires; nil: the caller used other credentials
	isRepeated bool       // Authorise was called: the caller was already authenticated once in this request
}

// Body is the body of a request.
type Body struct {
	Raw    []byte          // original body, possibly incomplete; for a form: its fields as JSON and the hash of its file; nil: the body was not read
	Plain  []byte          // Raw in a form that the generated types can decode
	Value  any             // Plain, parsed by jsonbody.Parse
	Items  []contract.Item // of a batch
	Form   *upload.Form    // nil: the body is not a form
	Cut    error           // reason why Raw is incomplete; nil: Raw is complete
	Broken error           // reason why Plain is not valid JSON; nil: Plain is valid
}

// json returns the parts of the body that the contract checks.
func (b Body) json() contract.JSON {
	return contract.JSON{Raw: b.Raw, Plain: b.Plain, Value: b.Value, Broken: b.Broken}
}

func (b Body) isWhole() bool { return b.Raw != nil && b.Cut == nil }

// Call returns the request as a callback to a sender.
func (x *Exchange) Call(senderNo string) callback.Call {
	return callback.Call{
		SenderNo: senderNo, SourceIP: x.Origin.SourceIP, Query: x.request.URL.Query(), Header: x.request.Header,
		Body: x.Body.Raw, Cut: x.Body.Cut,
	}
}

// Address returns the address of the server as the client uses it, without its scheme: the Host header of the request, and the base path. A client can forge
// the header.
func (x *Exchange) Address() string { return x.request.Host + x.basePath }

// AddToLog adds attributes to the log line of the request. Callers must not add message texts, and must mask phone numbers.
func (x *Exchange) AddToLog(args ...any) { x.logged = append(x.logged, args...) }

type exchangeKey struct{}

// In returns a context of the request that ends at the deadline of the request, with the cause context.DeadlineExceeded.
func (x *Exchange) In(ctx context.Context) (_ context.Context, cancel func()) {
	ctx, end := context.WithCancelCause(context.WithValue(ctx, exchangeKey{}, x))
	x.last = time.Now().Add(bodyLongest + LongestAnswer)
	x.deadline = time.AfterFunc(bodyLongest+LongestAnswer, func() { end(context.DeadlineExceeded) })
	return ctx, func() {
		x.deadline.Stop()
		end(nil)
	}
}

// within sets the deadline of the request to limit from now. A new context would need one more timer and one more copy of the request.
func (x *Exchange) within(limit time.Duration) { x.deadline.Reset(min(limit, time.Until(x.last))) }

// extendDeadline extends the latest deadline of the request. longest is the maximum time in which its body can arrive.
func (x *Exchange) extendDeadline(longest time.Duration) {
	x.last = time.Now().Add(longest + LongestAnswer)
}

// Stream marks a response that lasts as long as the client reads it. Its request has no deadline, and its duration is not measured.
func (x *Exchange) Stream() {
	x.isStream = true
	x.deadline.Stop()
}

// isLate reports whether the deadline of a request has passed.
func isLate(ctx context.Context) bool { return errors.Is(context.Cause(ctx), context.DeadlineExceeded) }

// Of returns the Exchange of a request. It panics if the request did not pass observe.
func Of(ctx context.Context) *Exchange {
	x, ok := ctx.Value(exchangeKey{}).(*Exchange)
	if !ok {
		panic("httpapi: the request did not pass observe")
	}
	return x
}

// goodRequestID matches the request ids that clients can choose. Any other id is replaced.
var goodRequestID = regexp.MustCompile(`^[0-9A-Za-z._-]{1,50}$`)

// observe gives every request an id and a latest deadline, and counts and logs its response. The log contains no query, header or body, because these contain
// phone numbers and texts.
func (g *Gate) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		started := time.Now()
		x := &Exchange{
			Origin: submit.Origin{
				RequestID: r.Header.Get("X-Request-Id"), SourceIP: g.clientIP(r), UserAgent: r.UserAgent(),
				Traceparent: tracing.Traceparent(r.Header["Traceparent"]),
			},
			Text: text.For(r.Header.Get("Accept-Language")), isSecure: g.isSecure(r), basePath: g.options.BasePath, request: r,
		}
		if !goodRequestID.MatchString(x.Origin.RequestID) {
			x.Origin.RequestID = ulid.MustNew(ulid.Now(), rand.Reader).String()
		}
		w.Header().Set("X-Request-Id", x.Origin.RequestID)
		if isBusy(r.Context()) {
			w.Header().Set("Connection", "close")
		}
		maps.Copy(w.Header(), g.headers)

		traced, span := g.startSpan(r, x)
		ctx, cancel := x.In(traced)
		defer cancel()
		r = r.WithContext(ctx)
		answer := &statusWriter{ResponseWriter: w, status: http.StatusOK, begin: func(status int) { g.beginAnswer(w, r, x, status) }}
		next.ServeHTTP(answer, r)
		answer.start()

		route := x.Operation
		switch {
		case route != "":
		case r.Pattern != "" && r.Pattern != "/":
			route = r.Pattern
		default:
			route = "none"
		}
		endSpan(span, r.Method, route, answer.status, x)
		took := time.Since(started)
		g.requests.WithLabelValues(route, strconv.Itoa(answer.status)).Inc()
		if !x.isStream {
			g.durations.WithLabelValues(route).Observe(took.Seconds())
		}
		level := slog.LevelInfo
		if isFailure(answer.status) && !x.isGone {
			level = slog.LevelError
		}
		g.options.Log.Log(ctx, level, "request", append(x.logged, "request_id", x.Origin.RequestID, "method", r.Method,
			"path", r.URL.Path, "status", answer.status, "ms", float64(took.Microseconds())/1000,
			"ip", x.Origin.SourceIP, "user", x.Caller.User.Username)...)
	})
}

// untracedPaths contains the paths that monitoring polls every few seconds.
var untracedPaths = []string{"/health", "/ready", "/metrics"}

// startSpan starts the span of a request. The span is nil if tracing is off or the path is not traced.
func (g *Gate) startSpan(r *http.Request, x *Exchange) (context.Context, trace.Span) {
	if !g.options.Tracer.IsOn() || slices.Contains(untracedPaths, r.URL.Path) {
		return r.Context(), nil
	}
	return g.options.Tracer.Start(r.Context(), x.Origin.Traceparent, r.Method, trace.SpanKindServer)
}

// endSpan ends the span of a request. It ignores a nil span.
func endSpan(span trace.Span, method, route string, status int, x *Exchange) {
	if span == nil {
		return
	}
	span.SetName(route)
	span.SetAttributes(attribute.String("http.request.method", method), attribute.String("http.route", route),
		attribute.Int("http.response.status_code", status), attribute.String("lksms.request_id", x.Origin.RequestID))
	if isFailure(status) && !x.isGone {
		span.SetStatus(codes.Error, "")
	}
	span.End()
}

// recoverPanic answers a panic with 500 and logs the stack. The server continues.
func (g *Gate) recoverPanic(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if p := recover(); p != nil {
				g.options.Log.Error("panic", "request_id", Of(r.Context()).Origin.RequestID,
					"panic", p, "stack", string(debug.Stack()))
				g.answerFault(w, r, fault.New(fault.Internal, fault.InternalError))
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// beginAnswer delays the response as required and limits the remaining time of the request: net/http reads part of an unread body before the response, and
// waits for slow readers. The deadline calls fail on test recorders, which is ignored.
func (g *Gate) beginAnswer(w http.ResponseWriter, r *http.Request, x *Exchange, status int) {
	if x.answering != nil {
		x.answering()
	}
	g.paced(r.Context(), x, status)
	connection, limit := http.NewResponseController(w), answerLongest
	if x.Caller.User.Username == "" && !x.isFile {
		limit = strangersAnswer
	}
	_ = connection.SetWriteDeadline(time.Now().Add(limit))
	if r.ContentLength != 0 && !x.Body.isWhole() { // without a deadline after a complete body: net/http then reads the connection to detect that the client disconnects
		_ = connection.SetReadDeadline(time.Now().Add(leftoverWait))
	}
}

type statusWriter struct {
	http.ResponseWriter
	status int
	begin  func(status int) // called before the first byte of the response is written
	once   sync.Once
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.start()
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Write(p []byte) (int, error) {
	w.start()
	return w.ResponseWriter.Write(p)
}

func (w *statusWriter) start() { w.once.Do(func() { w.begin(w.status) }) }

// Unwrap gives http.ResponseController access to the connection.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
