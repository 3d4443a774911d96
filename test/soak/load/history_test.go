package load

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"lksms/test/soak/stack"
)

func TestRejectionOfAnExpiredMessageBreaksNoPromise(t *testing.T) {
	t.Parallel()
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnprocessableEntity) }))
	t.Cleanup(provider.Close)
	for body, breaches := range map[string]int{
		`{"expires_at":"2026-01-01T00:00:00Z"}`: 0,
		`{"expires_at":"2126-01-01T00:00:00Z"}`: 1,
		`{}`:                                    1,
	} {
		h := NewHistory()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, provider.URL, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		res, err := Observer{History: h, Server: &stack.Server{}, Base: http.DefaultTransport}.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		if _ = res.Body.Close(); len(h.breaches) != breaches {
			t.Errorf("%s: %v, want %d breaches", body, h.breaches, breaches)
		}
	}
}
