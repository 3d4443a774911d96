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

// errStarting is the fault of a request that comes before the server can serve.
var errStarting = &fault.Error{Kind: fault.Unavailable, Reason: fault.ServerStarting, RetryAfter: ErrUnavailable.RetryAfter}

// Health is the answer of a process that answers.
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

// Starting answers every request before the server can serve. It is alive, so that nobody kills it within a migration, and it is not ready. It reads
// no bodies and knows no callers. isTLS: callers speak TLS.
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
		if (r.Method == http.MethodGet || r.Method == http.MethodHead) && strings.HasSuffix(r.URL.Path, "/health") { // with or without the base path
			status = http.StatusOK
			answer = Health()
		} else {
			setFaultHeaders(w.Header(), r, errStarting)
		}
		body, err := json.Marshal(answer)
		if err != nil {
			panic(err) // strings and numbers
		}
		maps.Copy(w.Header(), headers)
		w.Header().Set("X-Request-Id", id)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(status)
		_, _ = w.Write(append(body, '\n')) // fails only if the caller has gone
	})
}
