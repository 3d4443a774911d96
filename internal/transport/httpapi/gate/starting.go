package gate

import (
	"crypto/rand"
	"encoding/json"
	"maps"
	"net/http"
	"strings"

	"github.com/oklog/ulid/v2"

	"lksms/gen/api"
	"lksms/internal/platform/build"
	"lksms/internal/platform/fault"
	"lksms/internal/transport/httpapi/text"
)

// errStarting is the fault of a request during the start of the server.
var errStarting = &fault.Error{Kind: fault.Unavailable, Reason: fault.ServerStarting, RetryAfter: ErrUnavailable.RetryAfter}

// Health returns the response of a running process.
func Health() api.BuildInfoResponse {
	info := build.Read()
	health := api.BuildInfo{Version: info.Version}
	if info.Commit != "" {
		health.Commit = &info.Commit
	}
	if !info.Date.IsZero() {
		health.CommittedAt = &info.Date
	}
	return api.BuildInfoResponse{Code: http.StatusOK, Message: "success", Data: health}
}

// Starting returns a handler for all requests during the start of the server. It reports that the server is alive but not ready, so that no supervisor kills
// the server during a migration. The handler neither reads bodies nor authenticates callers. isTLS reports whether clients use TLS.
func Starting(isTLS bool) http.Handler {
	headers := headersOf(Options{TLS: isTLS})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get("X-Request-Id")
		if !goodRequestID.MatchString(id) {
			id = ulid.MustNew(ulid.Now(), rand.Reader).String()
		}
		texts, status := text.For(r.Header.Get("Accept-Language")), statuses[errStarting.Kind]
		var answer any = api.Error{
			Code: status, Message: texts.Reason(errStarting), RequestID: id, Error: texts.Detail(errStarting), Docs: pageOf("", texts, errStarting.Reason),
		}
		if (r.Method == http.MethodGet || r.Method == http.MethodHead) && strings.HasSuffix(r.URL.Path, "/health") { // the path possibly begins with the base path
			status = http.StatusOK
			answer = Health()
		} else {
			setFaultHeaders(w.Header(), r, errStarting)
		}
		body, err := json.Marshal(answer)
		if err != nil {
			panic(err) // impossible: the values are strings and numbers
		}
		maps.Copy(w.Header(), headers)
		w.Header().Set("X-Request-Id", id)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(status)
		_, _ = w.Write(append(body, '\n')) // an error means that the client disconnected
	})
}
