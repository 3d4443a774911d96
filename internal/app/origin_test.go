package app_test

import (
	"net/http"
	"strings"
	"testing"

	"lksms/internal/app"
)

// What a web page of another site makes a browser ask for comes with the credentials that the browser remembers.
func TestPagesOfOtherSitesChangeNothing(t *testing.T) {
	b := setup(t)
	host := strings.TrimPrefix(b.url, "http://")
	id := b.submit("x")
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
			if a := b.call(request.method, request.path, nil, headers...); a.status != 403 || a.body.Error.Reason != "request.cross_site" {
				t.Errorf("%s: %s %s: %d %s", name, request.method, request.path, a.status, a.raw)
			}
		}
	}
	for name, headers := range sites {
		for _, path := range []string{claim, "/app" + claim} {
			if a := b.call("GET", path, nil, headers...); a.status != 403 || a.body.Error.Reason != "request.cross_site" {
				t.Errorf("%s: a claim: %d %s", name, a.status, a.raw)
			}
			if got := b.head(path, headers...); got != 403 {
				t.Errorf("%s: HEAD of a claim: %d", name, got)
			}
		}
		if a := b.call("GET", "/api/v1/sms/tasks", nil, headers...); a.status != 200 {
			t.Errorf("%s: a list, which the page cannot read: %d", name, a.status)
		}
		if a := b.call("GET", "/health", nil, headers...); a.status != 200 {
			t.Errorf("%s: /health: %d", name, a.status)
		}
	}
	if got := b.task(id); got.Status != 0 || b.count("SELECT count(*) FROM send_logs") != 0 {
		t.Errorf("the task was changed: %+v", got)
	}
	if a := b.call("POST", cancel, nil, "Sec-Fetch-Site", "cross-site", "Accept-Language", "zh"); !strings.Contains(a.body.Message, "CORS_ORIGINS") || !strings.Contains(a.body.Message, "网站") {
		t.Errorf("in Chinese: %s", a.body.Message)
	}
	// A provider is no page, and proves itself in another way.
	if a := b.call("POST", "/api/v1/callbacks/none", "{}", "Authorization", "", "Origin", "https://provider.example.com"); a.body.Error.Reason == "request.cross_site" {
		t.Errorf("a callback: %s", a.raw)
	}
}

// head gives the status of a HEAD, whose answer has no body.
func (b *testBundle) head(path string, headers ...string) int {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), http.MethodHead, b.url+path, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	req.SetBasicAuth(username, password)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	res.Body.Close()
	return res.StatusCode
}

func TestOwnPagesConfiguredOnesAndProgramsAreServed(t *testing.T) {
	const console = "https://Console.example.com"
	b := setupWith(t, defaultRules, func(o *app.Options) { o.CORSOrigins = []string{console} })
	host := strings.TrimPrefix(b.url, "http://")
	for name, headers := range map[string][]string{
		"a program":                              {},
		"Swagger UI":                             {"Origin", b.url, "Sec-Fetch-Site", "same-origin"},
		"Swagger UI without TLS":                 {"Origin", b.url},
		"behind a proxy that ends TLS":           {"Origin", "https://" + host},
		"behind a proxy that changes the host":   {"Origin", "https://sms.example.com", "Sec-Fetch-Site", "same-origin"},
		"the address bar":                        {"Sec-Fetch-Site", "none"},
		"a configured page":                      {"Origin", strings.ToLower(console), "Sec-Fetch-Site", "cross-site"},
		"a configured page, an old browser":      {"Origin", strings.ToLower(console)},
		"a configured page of our site, as POST": {"Origin", strings.ToLower(console), "Sec-Fetch-Site", "same-site"},
	} {
		b.expect(200, "", "POST", "/api/v1/sms/task/"+b.submit(name)+"/cancel", nil, headers...)
		b.expect(200, "", "GET", "/api/v1/sms/tasks/pending?app_id=a", nil, headers...)
		b.expect(200, "", "GET", "/app/api/v1/sms/tasks/pending?app_id=a", nil, headers...)
	}
	for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
		a := b.call("OPTIONS", "/api/v1/admin/settings", nil, "Authorization", "", "Origin", strings.ToLower(console),
			"Sec-Fetch-Site", "cross-site", "Access-Control-Request-Method", method, "Access-Control-Request-Headers", "authorization,content-type")
		if a.status >= 300 || a.header.Get("Access-Control-Allow-Methods") != method {
			t.Errorf("a preflight of %s: %d %v", method, a.status, a.header)
		}
	}
}

// What is kept in localStorage can be read by anybody who sits down at that browser.
func TestSwaggerUIKeepsNoCredentials(t *testing.T) {
	b := setup(t)
	page := b.call("GET", "/docs/", nil, "Authorization", "").raw
	if !strings.Contains(page, "persistAuthorization: false") {
		t.Error("credentials are kept")
	}
	if !strings.Contains(page, `<script>localStorage.removeItem("authorized")</script>`) {
		t.Error("credentials that were kept before stay")
	}
}
