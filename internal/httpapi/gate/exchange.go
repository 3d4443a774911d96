package gate

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"regexp"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"lksms/internal/access"
	"lksms/internal/fault"
	"lksms/internal/httpapi/text"
	"lksms/internal/queue"
	"lksms/internal/receipt/callback"
)

// submitOperations are those whose refusals are kept (S0.14). What a batch has refused of its messages it keeps itself.
var submitOperations = []string{"POST /api/v1/sms/send", "POST " + sendBatchPath}

// callbackOperation is the one whose bodies have the form that a provider gives them.
const (
	callbackPath      = "/api/v1/callbacks/{sender_no}"
	callbackOperation = "POST " + callbackPath
)

// Exchange is what is known of a request beside its content.
type Exchange struct {
	Operation     string // its pattern in the ServeMux of the operations; empty when it is for none
	Origin        queue.Origin
	Text          *text.Catalogue
	Who           access.Principal // empty until authenticated
	Authorise     func() error     // finds out anew who calls, and whether the operation is allowed; nil where everybody may call
	Body          []byte           // as it was sent, as far as it could be read
	Plain         []byte           // the same as the validator and the generated types read it
	Items         []Item           // of a batch
	DryRun        bool             // whether it only asks what would happen
	InTransaction bool             // whether its work is being done under an Idempotency-Key
	Provider      string           // the sender_no of a callback that is proven; until its body is verified, by token or address
	Cut           error            // of a callback: why no more of its body was read

	request   *http.Request  // of a callback: what proves who sends it stands anywhere in it
	answering func()         // called when the answer begins; may be nil
	isWhole   bool           // whether the body was read to its end
	isGone    bool           // whether the caller went before it was answered
	refused   *queue.Refused // a submission refused meanwhile, to be kept afterwards
	notes     []any          // more for the request's line in the log, as slog takes it
}

// Call is the request as a call of a provider for a sender.
func (x *Exchange) Call(senderNo string) callback.Call {
	return callback.Call{
		SenderNo: senderNo, SourceIP: x.Origin.SourceIP, Query: x.request.URL.Query(), Header: x.request.Header, Body: x.Body, Cut: x.Cut,
	}
}

// Note adds to the request's line in the log. Texts do not belong there, and phone numbers only masked.
func (x *Exchange) Note(args ...any) { x.notes = append(x.notes, args...) }

type exchangeKey struct{}

// In returns a context of the request.
func (x *Exchange) In(ctx context.Context) context.Context {
	return context.WithValue(ctx, exchangeKey{}, x)
}

// Of returns the exchange of a request.
func Of(ctx context.Context) *Exchange {
	x, ok := ctx.Value(exchangeKey{}).(*Exchange)
	if !ok {
		panic("httpapi: a request that did not come through observe")
	}
	return x
}

// goodRequestID is what a caller may choose; anything else is replaced.
var goodRequestID = regexp.MustCompile(`^[0-9A-Za-z._-]{1,50}$`)

// observe gives every request its id and a last deadline, and counts and logs its answer. The log holds no query,
// no header and no body: they carry phone numbers and texts.
func (g *Gate) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		started := time.Now()
		x := &Exchange{
			Origin: queue.Origin{
				RequestID: r.Header.Get("X-Request-Id"), SourceIP: g.clientIP(r), UserAgent: r.UserAgent(),
			},
			Text: text.For(r.Header.Get("Accept-Language")),
		}
		if !goodRequestID.MatchString(x.Origin.RequestID) {
			x.Origin.RequestID = ulid.MustNew(ulid.Now(), rand.Reader).String()
		}
		w.Header().Set("X-Request-Id", x.Origin.RequestID)
		if isBusy(r.Context()) {
			w.Header().Set("Connection", "close")
		}
		g.secureHeaders(w.Header())

		ctx, cancel := context.WithTimeout(x.In(r.Context()), bodyLongest+LongestAnswer)
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
		took := time.Since(started)
		g.requests.WithLabelValues(route, strconv.Itoa(answer.status)).Inc()
		g.durations.WithLabelValues(route).Observe(took.Seconds())
		level := slog.LevelInfo
		if answer.status >= http.StatusInternalServerError && !x.isGone {
			level = slog.LevelError
		}
		g.options.Log.Log(ctx, level, "request", append(x.notes, "request_id", x.Origin.RequestID, "method", r.Method,
			"path", r.URL.Path, "status", answer.status, "ms", float64(took.Microseconds())/1000,
			"ip", x.Origin.SourceIP, "user", x.Who.Username)...)
	})
}

// recoverPanic turns a panic into a 500 with a stack in the log, and leaves the server standing.
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

// beginAnswer bounds what is left of a request when its answer begins: net/http reads some of a body that was not read before the answer
// goes out, and waits for callers that read slowly. A recorder of a test has no deadlines.
func (g *Gate) beginAnswer(w http.ResponseWriter, r *http.Request, x *Exchange, status int) {
	if x.answering != nil {
		x.answering()
	}
	g.paced(r.Context(), x, status)
	connection, limit := http.NewResponseController(w), answerLongest
	if x.Who.Username == "" {
		limit = strangersAnswer
	}
	_ = connection.SetWriteDeadline(time.Now().Add(limit))
	if r.ContentLength != 0 && !x.isWhole { // of one that was read, the connection is watched for the caller's end
		_ = connection.SetReadDeadline(time.Now().Add(leftoverWait))
	}
}

type statusWriter struct {
	http.ResponseWriter
	status int
	begin  func(status int) // before anything of the answer is written
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
