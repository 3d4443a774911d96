package httpapi

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A provider can send any Content-Type or no Content-Type. The configuration of the sender defines the format of the body.
func TestCallbackCanHaveAnyContentType(t *testing.T) {
	t.Parallel()
	handler := convertingHandler(t)
	for _, contentType := range []string{
		"", "json", "text", ";", "/", "application/", "foo/bar", "text/xml; charset=gbk", "text/plain; charset", "text/csv", "application/zip", "application/yaml",
		"application/json", "application/x-www-form-urlencoded", "multipart/form-data", "multipart/form-data; boundary=x", "application/octet-stream", "a\tb", "\xa8_",
	} {
		for _, body := range []string{`{"id":1}`, "id=1&state=%zz", "\xff\"", "a: ["} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/v1/callbacks/nobody?a=1", strings.NewReader(body))
			r.Header["Content-Type"] = []string{contentType}
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if w.Code != http.StatusNotFound { // status of a request that reached its handler
				t.Errorf("%q with %q: %d %s", contentType, body, w.Code, w.Body)
			}
		}
	}
}
