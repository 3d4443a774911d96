package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"lksms/internal/app"
	"lksms/internal/testkit/apptest"
)

// A browser also adds stored credentials to requests from pages of other sites.
func TestPagesOfOtherSitesCannotChangeState(t *testing.T) {
	b := apptest.New(t)
	host := strings.TrimPrefix(b.URL, "http://")
	id := b.Submit("x")
	cancel, claim, recoverPath := "/api/v1/sms/task/"+id+"/cancel", "/api/v1/sms/tasks/pending?app_id=a", "/api/v1/admin/recover-zombie-tasks"
	sites := map[string][]string{
		"another site":                  {"Origin", "https://evil.example.com", "Sec-Fetch-Site", "cross-site"},
		"another site, an old browser":  {"Origin", "https://evil.example.com"},
		"another site that names none":  {"Sec-Fetch-Site", "cross-site"},
		"a neighbour of the same site":  {"Origin", "http://evil." + host, "Sec-Fetch-Site", "same-site"},
		"another port of the same host": {"Origin", "http://127.0.0.1:1"},
		"a page without an origin":      {"Origin", "null"},
		"no origin at all":              {"Origin", "\xff"},
	}
	for name, headers := range sites {
		for _, request := range []struct{ method, path string }{
			{"POST", cancel}, {"POST", recoverPath}, {"POST", "/api/v1/admin/default-sms/1/reset"}, {"DELETE", "/api/v1/admin/template/1"},
			{"PATCH", "/api/v1/admin/users/admin"}, {"PUT", "/api/v1/admin/settings"},
		} {
			if a := b.Call(request.method, request.path, nil, headers...); a.Status != 403 || a.Body.Error.Reason != "request.cross_site" {
				t.Errorf("%s: %s %s: %d %s", name, request.method, request.path, a.Status, a.Raw)
			}
		}
	}
	for name, headers := range sites {
		for _, path := range []string{claim, "/app" + claim} {
			if a := b.Call("GET", path, nil, headers...); a.Status != 403 || a.Body.Error.Reason != "request.cross_site" {
				t.Errorf("%s: a claim: %d %s", name, a.Status, a.Raw)
			}
			if got := head(b, path, headers...); got != 403 {
				t.Errorf("%s: HEAD of a claim: %d", name, got)
			}
		}
		if a := b.Call("GET", "/api/v1/sms/tasks", nil, headers...); a.Status != 200 {
			t.Errorf("%s: a list, which the page cannot read: %d", name, a.Status)
		}
		if a := b.Call("GET", "/health", nil, headers...); a.Status != 200 {
			t.Errorf("%s: /health: %d", name, a.Status)
		}
	}
	if got := b.Task(id); got.Status != 0 || b.Count("SELECT count(*) FROM send_logs") != 0 {
		t.Errorf("the task was changed: %+v", got)
	}
	if a := b.Call("POST", cancel, nil, "Sec-Fetch-Site", "cross-site", "Accept-Language", "zh"); !strings.Contains(a.Body.Message, "CORS_ORIGINS") || !strings.Contains(a.Body.Message, "网站") {
		t.Errorf("in Chinese: %s", a.Body.Message)
	}
	// Callbacks come from providers, not from pages, and use other credentials.
	if a := b.Call("POST", "/api/v1/callbacks/none", "{}", "Authorization", "", "Origin", "https://provider.example.com"); a.Body.Error.Reason == "request.cross_site" {
		t.Errorf("a callback: %s", a.Raw)
	}
}

// head returns the status of a HEAD request.
func head(b *apptest.Bundle, path string, headers ...string) int {
	b.T.Helper()
	req, err := http.NewRequestWithContext(b.T.Context(), http.MethodHead, b.URL+path, nil)
	if err != nil {
		b.T.Fatal(err)
	}
	req.SetBasicAuth(apptest.Username, apptest.Password)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		b.T.Fatal(err)
	}
	res.Body.Close()
	return res.StatusCode
}

func TestRequestsFromPagesOfTheServerConfiguredPagesAndProgramsAreAccepted(t *testing.T) {
	const console = "https://Console.example.com"
	b := apptest.NewWith(t, apptest.DefaultRules, func(o *app.Options) { o.CORSOrigins = []string{console} })
	host := strings.TrimPrefix(b.URL, "http://")
	for name, headers := range map[string][]string{
		"a program":                              {},
		"Swagger UI":                             {"Origin", b.URL, "Sec-Fetch-Site", "same-origin"},
		"Swagger UI without TLS":                 {"Origin", b.URL},
		"behind a proxy that ends TLS":           {"Origin", "https://" + host},
		"behind a proxy that changes the host":   {"Origin", "https://sms.example.com", "Sec-Fetch-Site", "same-origin"},
		"the address bar":                        {"Sec-Fetch-Site", "none"},
		"a configured page":                      {"Origin", strings.ToLower(console), "Sec-Fetch-Site", "cross-site"},
		"a configured page, an old browser":      {"Origin", strings.ToLower(console)},
		"a configured page, without TLS":         {"Referer", strings.ToLower(console) + "/tasks"},
		"a configured page of our site, as POST": {"Origin", strings.ToLower(console), "Sec-Fetch-Site", "same-site"},
	} {
		b.Expect(200, "", "POST", "/api/v1/sms/task/"+b.Submit(name)+"/cancel", nil, headers...)
		b.Expect(200, "", "GET", "/api/v1/sms/tasks/pending?app_id=a", nil, headers...)
		b.Expect(200, "", "GET", "/app/api/v1/sms/tasks/pending?app_id=a", nil, headers...)
	}
	for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
		a := b.Call("OPTIONS", "/api/v1/admin/settings", nil, "Authorization", "", "Origin", strings.ToLower(console),
			"Sec-Fetch-Site", "cross-site", "Access-Control-Request-Method", method, "Access-Control-Request-Headers", "authorization,content-type")
		if a.Status >= 300 || a.Header.Get("Access-Control-Allow-Methods") != method {
			t.Errorf("a preflight of %s: %d %v", method, a.Status, a.Header)
		}
	}
}

// Other users of the same browser could read credentials in its localStorage.
func TestSwaggerUIStoresNoCredentials(t *testing.T) {
	b := apptest.New(t)
	page := b.Call("GET", "/docs/", nil, "Authorization", "").Raw
	if !strings.Contains(page, "persistAuthorization: false") {
		t.Error("credentials are stored")
	}
	if !strings.Contains(page, `<script>localStorage.removeItem("authorized")</script>`) {
		t.Error("credentials that were stored earlier are not removed")
	}
}
