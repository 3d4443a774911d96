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

// submitOperations are the operations whose rejected requests are stored (S0.14). The handler of the batch stores the messages that it
// rejects itself, and so does that of inbounds: an erasure finds messages by their number, and not the body of another program.
var submitOperations = []string{"POST /api/v1/sms/send", contract.SendBatch}

// Exchange holds what the server knows about a request. observe creates it, and the middlewares fill it in.
type Exchange struct {
	Operation     string // its pattern in the ServeMux of the operations; empty: no operation
	Origin        submit.Origin
	Text          *text.Catalogue
	Caller        Caller
	Body          Body
	DryRun        bool // the request only asks what would happen
	InTransaction bool // the handler runs in the transaction of an Idempotency-Key

	isSecure  bool            // the client speaks TLS
	basePath  string          // under which the client reaches the server
	request   *http.Request   // as it came: any part of a callback can hold the proof
	answering func()          // called when the answer begins; may be nil
	isFile    bool            // the answer is a file that everybody may read
	isCostly  bool            // the operation is of a foreign protocol, and needs a slot
	isStream  bool            // the answer goes on for as long as the caller reads it
	isGone    bool            // the caller has gone before the answer
	refused   *submit.Refused // a rejected submission that is stored after the transaction
	notes     []any           // additional attributes of the request's log line, as slog takes them
	deadline  *time.Timer     // cancels the context
	last      time.Time       // when it does at the latest
}

// Caller is the user that sent a request, or the provider that sent a callback.
type Caller struct {
	User access.Principal // empty until authenticated
	// Provider is the sender_no of a proven callback. guard sets it before the body is read, if the token or the source address proves the
	// call. The handler of callbacks sets it again once it has the body: it is then empty if the call is unproven, but not if an error kept
	// the server from checking the proof.
	Provider  string
	Authorise func() error // sets User anew and checks its roles; nil for a public operation

	SessionEnd *time.Time // when the session of the caller ends at the latest; nil: it has other credentials
	isRepeated bool       // Authorise was called: the server checks the caller again, without a request of its
}

// Body is the body of a request.
type Body struct {
	Raw    []byte          // as sent, as far as it could be read; of a form: its fields as JSON, and the hash of its file; nil: not read
	Plain  []byte          // Raw in the form that the generated types can read
	Value  any             // Plain as jsonbody.Parse reads it
	Items  []contract.Item // of a batch
	Form   *upload.Form    // nil: the body is no form
	Cut    error           // why Raw is incomplete; nil: it is complete
	Broken error           // why Plain is not JSON; nil: it is
}

// json returns what the contract checks of a body.
func (b Body) json() contract.JSON {
	return contract.JSON{Raw: b.Raw, Plain: b.Plain, Value: b.Value, Broken: b.Broken}
}

func (b Body) isWhole() bool { return b.Raw != nil && b.Cut == nil }

// Call returns the request as a callback for a sender.
func (x *Exchange) Call(senderNo string) callback.Call {
	return callback.Call{
		SenderNo: senderNo, SourceIP: x.Origin.SourceIP, Query: x.request.URL.Query(), Header: x.request.Header,
		Body: x.Body.Raw, Cut: x.Body.Cut,
	}
}

// Host returns the name, and the port if it is not the usual one, under which the caller reached the server. A caller can forge it.
func (x *Exchange) Host() string { return x.request.Host }

// Note adds attributes to the request's log line. Do not log message texts; mask phone numbers.
func (x *Exchange) Note(args ...any) { x.notes = append(x.notes, args...) }

type exchangeKey struct{}

// In returns a context of the request, which ends at the deadline of the request at the latest. Its cause is then
// context.DeadlineExceeded.
func (x *Exchange) In(ctx context.Context) (_ context.Context, cancel func()) {
	ctx, end := context.WithCancelCause(context.WithValue(ctx, exchangeKey{}, x))
	x.last = time.Now().Add(bodyLongest + LongestAnswer)
	x.deadline = time.AfterFunc(bodyLongest+LongestAnswer, func() { end(context.DeadlineExceeded) })
	return ctx, func() {
		x.deadline.Stop()
		end(nil)
	}
}

// within moves the deadline: the request ends after limit. A context for it would cost one more timer and one more copy of the request.
func (x *Exchange) within(limit time.Duration) { x.deadline.Reset(min(limit, time.Until(x.last))) }

// prolong moves the latest end of the request, because its body may take this long.
func (x *Exchange) prolong(longest time.Duration) { x.last = time.Now().Add(longest + LongestAnswer) }

// Stream says that the answer goes on for as long as the caller reads it: the request has no deadline, and no duration that says anything.
func (x *Exchange) Stream() {
	x.isStream = true
	x.deadline.Stop()
}

// isLate reports whether the deadline of a request has passed.
func isLate(ctx context.Context) bool { return errors.Is(context.Cause(ctx), context.DeadlineExceeded) }

// Of returns the exchange of a request.
func Of(ctx context.Context) *Exchange {
	x, ok := ctx.Value(exchangeKey{}).(*Exchange)
	if !ok {
		panic("httpapi: the request did not pass observe")
	}
	return x
}

// goodRequestID matches the request ids that a caller may choose. Any other id is replaced.
var goodRequestID = regexp.MustCompile(`^[0-9A-Za-z._-]{1,50}$`)

// observe gives every request an id and its final deadline, and counts and logs its answer. The log holds no query, header or
// body, because they carry phone numbers and texts.
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
		g.options.Log.Log(ctx, level, "request", append(x.notes, "request_id", x.Origin.RequestID, "method", r.Method,
			"path", r.URL.Path, "status", answer.status, "ms", float64(took.Microseconds())/1000,
			"ip", x.Origin.SourceIP, "user", x.Caller.User.Username)...)
	})
}

// untracedPaths are asked every few seconds by machines that watch the server.
var untracedPaths = []string{"/health", "/ready", "/metrics"}

// startSpan starts the span of a request; nil: none.
func (g *Gate) startSpan(r *http.Request, x *Exchange) (context.Context, trace.Span) {
	if !g.options.Tracer.IsOn() || slices.Contains(untracedPaths, r.URL.Path) {
		return r.Context(), nil
	}
	return g.options.Tracer.Start(r.Context(), x.Origin.Traceparent, r.Method, trace.SpanKindServer)
}

// endSpan ends the span of a request, if there is one.
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

// recoverPanic answers a panic with 500 and logs the stack, so that the server goes on.
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

// beginAnswer paces the answer and bounds the time that the request still takes: net/http reads some of an unread body before the
// answer goes out, and waits for callers that read slowly. The recorders of tests have no deadlines.
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
	if r.ContentLength != 0 && !x.Body.isWhole() { // after a whole body, net/http reads the connection to notice that the caller goes
		_ = connection.SetReadDeadline(time.Now().Add(leftoverWait))
	}
}

type statusWriter struct {
	http.ResponseWriter
	status int
	begin  func(status int) // called before anything of the answer is written
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

// Unwrap lets http.ResponseController reach the connection.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
