package gate

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"

	"lksms/internal/platform/idempotency"
	"lksms/internal/transport/httpapi/gate/contract"
)

// errRefused rolls back the transaction of a request that was answered with an error.
var errRefused = errors.New("answered with an error")

// idempotent runs a request with an idempotency key at most once, and answers a repeat with the first response, byte for byte. An error response is not
// stored: its transaction is rolled back, and the request can be repeated.
func (g *Gate) idempotent(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := Of(r.Context())
		key := r.Header.Get(contract.IdempotencyHeader)
		asked, _ := g.contract.Operation(x.Operation)
		// A dry run creates nothing and needs no key.
		if key == "" || !asked.IsKeyed || x.DryRun {
			next.ServeHTTP(w, r)
			return
		}
		answer := &recorder{ResponseWriter: w}
		x.InTransaction = true
		scope := idempotency.Key{Username: x.Caller.User.Username, Operation: target(r), Key: key}
		stored, replayed, err := g.services.Idempotency.Do(r.Context(), scope, x.Body.Raw, func(ctx context.Context) ([]byte, error) {
			next.ServeHTTP(answer, r.WithContext(ctx))
			if answer.status != http.StatusOK {
				return nil, errRefused
			}
			return answer.body.Bytes(), nil
		})
		x.InTransaction = false
		if x.refused != nil {
			g.StoreRefusals(r.Context(), *x.refused)
		}
		switch {
		case errors.Is(err, errRefused):
			w.WriteHeader(answer.status)
			_, _ = w.Write(answer.body.Bytes()) // an error means that the client disconnected
		case err != nil:
			g.Fail(w, r, err)
		default:
			w.Header().Set("Content-Type", "application/json")
			if replayed {
				w.Header().Set("Idempotency-Replayed", "true")
			}
			_, _ = w.Write(stored) // an error means that the client disconnected
		}
	})
}

// maxTarget is the maximum length of a stored target in bytes. A longer target is replaced by its hash.
const maxTarget = 500

// target returns the method, path and query of a request in a canonical form. The same key with another target is a different key.
func target(r *http.Request) string {
	whole := r.Method + " " + r.URL.Path
	if query := r.URL.Query(); len(query) > 0 {
		query.Del("dry_run") // always false here, because a dry run needs no key
		if len(query) > 0 {
			whole += "?" + query.Encode()
		}
	}
	if len(whole) <= maxTarget {
		return whole
	}
	sum := sha256.Sum256([]byte(whole))
	return r.Method + " " + hex.EncodeToString(sum[:])
}

// recorder buffers a response until its transaction is committed.
type recorder struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (r *recorder) WriteHeader(status int) { r.status = status }

func (r *recorder) Write(p []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.body.Write(p)
}
