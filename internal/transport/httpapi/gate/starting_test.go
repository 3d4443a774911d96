package gate

import (
	"net/http/httptest"
	"strings"
	"testing"
)

// During its start, a server answers in the language of the caller, as it does when it is ready.
func TestStartingServerUsesLanguageOfCaller(t *testing.T) {
	t.Parallel()
	for language, want := range map[string]string{"zh-TW;q=0.9,en;q=0.5": "启动", "en,zh-TW;q=0.9": "start"} {
		r, w := httptest.NewRequest("GET", "/api/v1/sms/tasks", nil), httptest.NewRecorder()
		r.Header.Set("Accept-Language", language)
		Starting(false).ServeHTTP(w, r)
		if w.Code != 503 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s", language, w.Code, w.Body)
		}
	}
}
