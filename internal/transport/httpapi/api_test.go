package httpapi_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	contract "lksms/gen/api"
	api "lksms/gen/client"
	"lksms/internal/app"
	"lksms/internal/platform/config"
	"lksms/internal/platform/migrate"
	"lksms/internal/platform/pgserver"
	"lksms/internal/testkit/apptest"
	"lksms/internal/testkit/pgtest"
)

func TestMain(m *testing.M) { apptest.Main(m) }

func TestRejectionsAndFailuresAreCounted(t *testing.T) {
	b := apptest.New(t)
	const route = `lksms_http_requests_total{route="POST /api/v1/sms/send",status="%d"} 1`
	body := map[string]any{"phone_number": apptest.Phone, "content": "x"}
	b.Expect(401, "auth.required", "POST", "/api/v1/sms/send", body, "Authorization", "")
	b.Expect(422, "request.invalid", "POST", "/api/v1/sms/send", `{}`)
	b.Exec("ALTER TABLE queue RENAME TO queue_gone")
	b.Expect(500, "internal", "POST", "/api/v1/sms/send", body)
	b.Exec("ALTER TABLE queue_gone RENAME TO queue")
	metrics := b.Call("GET", "/metrics", nil).Raw
	for _, status := range []int{401, 422, 500} {
		if line := fmt.Sprintf(route, status); !strings.Contains(metrics, line+"\n") {
			t.Errorf("/metrics has no %s", line)
		}
	}
}

func TestReadinessFollowsDatabase(t *testing.T) {
	options := pgserver.Options{
		Dir: pgtest.Dir(t), Ephemeral: true, Log: slog.New(slog.DiscardHandler),
		BinDir: config.PostgresBin(), MoreBins: config.UnpackedPostgres(),
	}
	start := func() *pgserver.Server {
		server, err := pgserver.Start(t.Context(), options)
		if err != nil {
			t.Fatal(err)
		}
		return server
	}
	server := start()
	if _, err := migrate.Up(t.Context(), server.URL(), nil); err != nil {
		t.Fatal(err)
	}
	b := apptest.NewWith(t, apptest.DefaultRules, func(o *app.Options) { o.DatabaseURL = server.URL() })
	b.Expect(200, "", "GET", "/ready", nil)
	id := b.Submit("x")
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	b.Expect(503, "unavailable", "GET", "/ready", nil)
	b.Expect(200, "", "GET", "/health", nil)
	b.Expect(503, "unavailable", "POST", "/api/v1/sms/send", map[string]any{"phone_number": apptest.Phone, "content": "y"})
	server = start()
	defer server.Stop()
	apptest.Eventually(t, "the server is ready again", func() bool { return b.Call("GET", "/ready", nil).Status == http.StatusOK })
	if got := b.ClaimIDs(10); len(got) != 1 || got[0] != id {
		t.Errorf("claimed %v", got)
	}
}

func TestUserAgentOfAnyLengthIsAccepted(t *testing.T) {
	b := apptest.New(t)
	b.Expect(200, "", "POST", "/api/v1/sms/send", map[string]any{"phone_number": apptest.Phone, "content": "x"}, "User-Agent", strings.Repeat("浏", 5000))
	if n := b.Count("SELECT char_length(user_agent) FROM receive_logs"); n != 500 {
		t.Errorf("%d characters of the User-Agent are stored, want 500", n)
	}
}

func TestPasswordCanContainCharactersOfAnyLanguage(t *testing.T) {
	b := apptest.New(t)
	const secret = "秘密的密码 пароль:🔑"
	b.Expect(200, "", "POST", "/api/v1/admin/users", map[string]any{"username": "reader", "password": secret, "role": "read"})
	for given, status := range map[string]int{
		secret: 200, secret + "x": 401, secret[:len(secret)-1]: 401, "": 401, strings.Repeat(secret, 20): 401, "\xff": 401,
	} {
		if a := b.Call("GET", "/api/v1/admin/task-statistics", nil, apptest.Basic("reader", given)...); a.Status != status {
			t.Errorf("%q: %d, want %d", given, a.Status, status)
		}
		if a := b.Call("GET", "/api/v1/admin/task-statistics", nil, apptest.Basic(apptest.Username, strings.Replace(given, secret, apptest.Password, 1))...); a.Status != status && a.Status != 429 {
			t.Errorf("the configured user, %q: %d, want %d", given, a.Status, status)
		}
	}
}

func TestS0_7_EveryAPIRequiresBasicAuth(t *testing.T) {
	b := apptest.New(t)
	var contract struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal([]byte(b.Call("GET", "/openapi.json", nil).Raw), &contract); err != nil {
		t.Fatal(err)
	}
	calls := 0
	wrong := apptest.Basic(apptest.Username, "wrong")[1]
	for path, operations := range contract.Paths {
		path = strings.NewReplacer("{task_id}", "t", "{id}", "1").Replace(path)
		for method := range operations {
			if method == "parameters" || strings.HasPrefix(path, "/api/v1/callbacks/") || path+method == "/api/v1/sessionpost" {
				continue // these operations use other credentials or credentials in the body
			}
			calls++
			want := 401
			if path == "/health" || path == "/ready" {
				want = 200
			}
			for _, credentials := range []string{"", "Basic !", "Bearer x", wrong} {
				if credentials == wrong && path != "/api/v1/sms/tasks" {
					continue // the server would delay further wrong passwords
				}
				a := b.Call(strings.ToUpper(method), path, nil, "Authorization", credentials)
				if a.Status != want {
					t.Errorf("%s %s as %q: %d, want %d", method, path, credentials, a.Status, want)
				}
				if want == 401 && !strings.HasPrefix(a.Header.Get("WWW-Authenticate"), "Basic ") {
					t.Errorf("%s %s asks for %q", method, path, a.Header.Get("WWW-Authenticate"))
				}
			}
		}
	}
	if calls < 25 {
		t.Errorf("only %d operations were found in the contract", calls)
	}
	b.Expect(401, "auth.required", "GET", "/metrics", nil, "Authorization", "")
	b.Expect(200, "", "GET", "/api/v1/admin/task-statistics", nil)
	if n := b.Count("SELECT count(*) FROM receive_logs"); n != 0 {
		t.Errorf("callers without credentials left %d log rows", n)
	}
}

func TestS0_16_ServerServesContractAndSwaggerUI(t *testing.T) {
	b := apptest.New(t)
	if a := b.Call("GET", "/", nil, "Authorization", ""); a.Status != 302 || a.Header.Get("Location") != "/docs/" {
		t.Errorf("/ leads to %d %s", a.Status, a.Header.Get("Location"))
	}
	if a := b.Call("GET", "/", nil, "Authorization", "", "Accept", "text/html,application/xhtml+xml"); a.Status != 302 || a.Header.Get("Location") != "/console/" {
		t.Errorf("a browser is led from / to %d %s", a.Status, a.Header.Get("Location"))
	}
	if a := b.Call("GET", "/console", nil, "Authorization", ""); a.Status != 302 || a.Header.Get("Location") != "/console/" {
		t.Errorf("/console leads to %d %s", a.Status, a.Header.Get("Location"))
	}
	page := b.Call("GET", "/docs/", nil, "Authorization", "")
	if page.Status != 200 || !strings.Contains(page.Raw, "swagger-ui") {
		t.Errorf("/docs/ is %d: %.200s", page.Status, page.Raw)
	}
	for _, word := range []string{`src="http`, `href="http`, `src="//`} {
		if strings.Contains(page.Raw, word) {
			t.Errorf("the page loads from the network: %s", word)
		}
	}
	if a := b.Call("GET", "/openapi.json", nil, "Authorization", ""); a.Status != 200 || !strings.Contains(a.Raw, `"openapi":"3.0.3"`) {
		t.Errorf("/openapi.json is %d", a.Status)
	}
	if a := b.Call("GET", "/openapi.yaml", nil, "Authorization", ""); a.Status != 200 || !strings.HasPrefix(a.Raw, "openapi: 3.0.3") {
		t.Errorf("/openapi.yaml is %d", a.Status)
	}
}

func TestS0_16_DocsCanBeDisabled(t *testing.T) {
	b := apptest.NewWith(t, apptest.DefaultRules, func(o *app.Options) { o.EnableDocs = false })
	for _, path := range []string{"/", "/docs", "/docs/", "/openapi.json", "/openapi.yaml"} {
		b.Expect(404, "route.not_found", "GET", path, nil)
	}
	if a := b.Call("GET", "/", nil, "Authorization", "", "Accept", "text/html"); a.Header.Get("Location") != "/console/" {
		t.Errorf("a browser is led to %q", a.Header.Get("Location"))
	}
}

// The installed app calls three operations. It accepts only status 200 with code 200.
func TestS0_18_InstalledSenderAppIsSupported(t *testing.T) {
	b := apptest.New(t)
	ids := []string{b.Submit("一"), b.Submit("二")}
	a := b.Expect(200, "", "GET", "/app/api/v1/sms/tasks/pending?app_id=phone_1&limit=10", nil)
	var page map[string]any
	if err := json.Unmarshal(a.Body.Data, &page); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"total_count": 2.0, "app_id": "phone_1", "tasks": []any{
		map[string]any{"task_id": ids[0], "phone_number": apptest.Phone, "content": "一"},
		map[string]any{"task_id": ids[1], "phone_number": apptest.Phone, "content": "二"},
	}}
	if a.Body.Code != 200 || !reflect.DeepEqual(page, want) {
		t.Errorf("got  %v\nwant %v", page, want)
	}
	if a.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("Cache-Control %q", a.Header.Get("Cache-Control"))
	}
	for _, id := range ids {
		// Unknown fields from the app are ignored, and a repeated report is accepted.
		for range 2 {
			b.Expect(200, "", "POST", "/app/api/v1/sms/report", apptest.ReportBody(id, "phone_1", 2, apptest.Report{"error_message": nil, "should_retry": nil, "battery": 80}))
		}
	}
	counts := b.Expect(200, "", "GET", "/app/api/v1/admin/task-statistics", nil)
	if got := apptest.Decode[api.Statistics](t, counts); got.SuccessTasks != 2 || counts.Body.Code != 200 {
		t.Errorf("got %+v", got)
	}
	if a := b.Expect(200, "", "GET", "/app/api/v1/sms/tasks/pending?app_id=phone_1", nil); !strings.Contains(a.Raw, `"tasks":[]`) {
		t.Errorf("an empty queue answers %s", a.Raw)
	}
}

func TestRequestIDIsInResponseAndLog(t *testing.T) {
	b := apptest.New(t)
	a := b.Expect(422, "request.invalid", "POST", "/api/v1/sms/send", `{"phone_number":"13800138000","content":5}`, "X-Request-Id", "abc-1")
	if a.Body.RequestID != "abc-1" || a.Header.Get("X-Request-Id") != "abc-1" {
		t.Errorf("got %q and %q", a.Body.RequestID, a.Header.Get("X-Request-Id"))
	}
	if a := b.Call("GET", "/health", nil, "X-Request-Id", "bad id\t"); a.Header.Get("X-Request-Id") == "bad id\t" || a.Header.Get("X-Request-Id") == "" {
		t.Errorf("got %q", a.Header.Get("X-Request-Id"))
	}
	b.Submit("a secret text")
	b.Call("GET", "/api/v1/sms/tasks?phone_number="+apptest.Phone, nil)
	log := b.Log.String()
	for _, want := range []string{`"request_id":"abc-1"`, `"phone":"138****8000"`} {
		if !strings.Contains(log, want) {
			t.Errorf("the log has no %s", want)
		}
	}
	for _, secret := range []string{apptest.Phone, "a secret text", apptest.Password} {
		if strings.Contains(log, secret) {
			t.Errorf("the log holds %q", secret)
		}
	}
}

func TestErrorsUseLanguageOfCaller(t *testing.T) {
	b := apptest.New(t)
	for language, want := range map[string]string{
		"":                        "There is no such task.",
		"fr":                      "There is no such task.",
		"zh-CN,zh;q=0.9,en;q=0.8": "任务不存在。",
		"en-GB,zh;q=0.5":          "There is no such task.",
		"zh-TW":                   "任务不存在。",
		"nonsense;;;":             "There is no such task.",
		"zh-TW;q=0.9,en;q=0.5":    "任务不存在。",
		"zh-HK,en;q=0.9":          "任务不存在。",
		"zh-Hant, en":             "任务不存在。",
		"en;q=0.5, zh-TW;q=0.9":   "任务不存在。",
		"en,zh-TW;q=0.9":          "There is no such task.",
		"fr,zh-TW;q=0.5,en;q=0.4": "任务不存在。",
		"zh-TW;q=0,en":            "There is no such task.",
		"zh-CN,xq;q=0.5":          "任务不存在。", // xq is no language
		"zh-CN" + strings.Repeat(",de-AT;q=0.5", 30): "任务不存在。", // the end of the header is not read
	} {
		if a := b.Expect(404, "task.not_found", "GET", "/api/v1/sms/task/t", nil, "Accept-Language", language); a.Body.Message != want {
			t.Errorf("%q: %q", language, a.Body.Message)
		}
	}
}

// A time without a zone is rejected in bodies and queries, and the error names the missing zone.
func TestTimeWithoutZoneIsRejected(t *testing.T) {
	b := apptest.New(t)
	const says = "must be a time with its zone"
	for _, a := range []apptest.Answer{
		b.Call("POST", "/api/v1/sms/send", `{"phone_number":"13800138000","content":"x","expires_at":"2026-12-01T08:00:00"}`),
		b.Call("GET", "/api/v1/sms/tasks?created_from=2026-12-01T08:00:00", nil),
		b.Call("GET", "/smsgate/3rdparty/v1/messages?from=2026-12-01T08:00:00", nil),
	} {
		if a.Status/100 != 4 || !strings.Contains(a.Raw, says) {
			t.Errorf("%s", a.Raw)
		}
	}
}

func TestUnknownRoutesAndMethodsAreRejected(t *testing.T) {
	b := apptest.New(t)
	b.Expect(404, "route.not_found", "GET", "/api/v2/sms", nil)
	b.Expect(405, "route.method_not_allowed", "DELETE", "/api/v1/sms/send", nil)
	b.Expect(405, "route.method_not_allowed", "POST", "/api/v1/sms/tasks", `{}`)
}

// Every 405 response contains the allowed methods.
func TestStatus405NamesAllowedMethods(t *testing.T) {
	b := apptest.New(t)
	spec, err := contract.GetSpec()
	if err != nil {
		t.Fatal(err)
	}
	parameter := regexp.MustCompile(`\{[^}]*\}`)
	for path, item := range spec.Paths.Map() {
		want := slices.Sorted(maps.Keys(item.Operations()))
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
			if slices.Contains(want, method) {
				continue
			}
			a := b.Call(method, parameter.ReplaceAllString(path, "1"), nil)
			got := slices.DeleteFunc(strings.Split(a.Header.Get("Allow"), ", "), func(m string) bool { return m == "HEAD" })
			slices.Sort(got)
			if a.Status != 405 || !slices.Equal(got, want) {
				t.Errorf("%s %s: %d, Allow: %v, want %v", method, path, a.Status, got, want)
			}
		}
	}
}

// A 405 response for a path outside the contract also contains the allowed methods.
func TestStatus405OutsideContractNamesAllowedMethods(t *testing.T) {
	b := apptest.New(t)
	for path, want := range map[string]string{
		"/metrics": "GET, HEAD", "/docs/": "GET, HEAD", "/openapi.yaml": "GET, HEAD", "/console/": "GET, HEAD", "/smsgate/3rdparty/v1/health": "GET, HEAD", "/smsgate/3rdparty/v1/messages": "GET, POST", "/smsgate/mobile/v1/device": "GET, POST, PATCH",
	} {
		if a := b.Call("DELETE", path, nil); a.Status != 405 || a.Header.Get("Allow") != want {
			t.Errorf("%s: %d, Allow: %q, want %q", path, a.Status, a.Header.Get("Allow"), want)
		}
	}
	b.Expect(404, "route.not_found", "DELETE", "/metrics/x", nil)
	for path, status := range map[string]int{"/smsgate/3rdparty/v1/nothing": 404, "/smsgate/3rdparty/v1/messages": 405} {
		w, _ := b.Serve("HEAD", path, "", apptest.Basic(apptest.Username, apptest.Password)...)
		if w.Code != status || (w.Header().Get("Allow") == "") != (status == 404) {
			t.Errorf("HEAD %s: %d, Allow: %q", path, w.Code, w.Header().Get("Allow"))
		}
	}
}

func TestProbesCanUseHEAD(t *testing.T) {
	b := apptest.New(t)
	for _, path := range []string{"/health", "/ready", "/smsgate/3rdparty/v1/health", "/smsgate/3rdparty/v1/health/ready"} {
		if w, _ := b.Serve("HEAD", path, "", "Authorization", ""); w.Code != 200 {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	w, _ := b.Serve("HEAD", "/api/v1/sms/tasks/pending?app_id=app", "", apptest.Basic(apptest.Username, apptest.Password)...)
	if w.Code != 405 || w.Header().Get("Allow") != "GET" {
		t.Errorf("a HEAD that would claim: %d %v", w.Code, w.Header())
	}
}

func gzipped(t *testing.T, text string) string {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestGzippedBodiesAreAccepted(t *testing.T) {
	b := apptest.New(t)
	body := `{"phone_number":"13800138000","content":"x","use_template":false}`
	b.Expect(200, "", "POST", "/api/v1/sms/send", gzipped(t, body), "Content-Encoding", "gzip")
	b.Expect(200, "", "POST", "/api/v1/sms/send", body, "Content-Encoding", "identity")
	b.Expect(413, "request.too_large", "POST", "/api/v1/sms/send", gzipped(t, body+strings.Repeat(" ", 2<<20)), "Content-Encoding", "gzip")
	b.Expect(400, "request.malformed", "POST", "/api/v1/sms/send", body, "Content-Encoding", "gzip")
	b.Expect(400, "request.malformed", "POST", "/api/v1/sms/send", gzipped(t, body)[:40], "Content-Encoding", "gzip")
	a := b.Expect(415, "request.unsupported_coding", "POST", "/api/v1/sms/send", body, "Content-Encoding", "br")
	if a.Header.Get("Accept-Encoding") != "gzip" {
		t.Errorf("%v", a.Header)
	}
	b.Expect(415, "request.unsupported_coding", "POST", "/api/v1/lists/preview", apptest.Form("file", "a.csv", "phone\n1\n"), "Content-Type", apptest.FormType, "Content-Encoding", "gzip")
}

// A proxy can serve LKSMS below a base path, and either keep or remove this path in its requests.
func TestAllPathsAreServedBelowBasePath(t *testing.T) {
	b := apptest.NewWith(t, apptest.DefaultRules, func(o *app.Options) { o.BasePath = "/a/lksms" })
	b.AddSender(map[string]any{"sender_no": "phone"})
	for _, base := range []string{"/a/lksms", ""} {
		b.Expect(200, "", "GET", base+"/health", nil)
		paired := apptest.Decode[api.Pairing](t, b.Expect(200, "", "POST", base+"/api/v1/admin/senders/phone/pairing", map[string]any{}))
		if _, path, _ := strings.Cut(strings.TrimPrefix(paired.Address, "https://"), "/"); path != "a/lksms/smsgate/mobile/v1" || !strings.HasPrefix(paired.Qr, paired.Address) {
			t.Errorf("a phone is paired with the address %s", paired.Address)
		}
		b.Expect(200, "", "GET", base+"/api/v1/sms/tasks", nil)
		page := b.Call("GET", base+"/console/tasks/1", nil)
		script := regexp.MustCompile(`src="/a/lksms(/console/assets/[^"]*\.js)"`).FindStringSubmatch(page.Raw)
		if page.Status != 200 || script == nil || strings.Contains(page.Raw, `="./`) {
			t.Fatalf("the console is %s", page.Raw)
		}
		b.Expect(200, "", "GET", base+script[1], nil)
		if a := b.Call("GET", base+"/docs/", nil); a.Status != 200 || !strings.Contains(a.Raw, "/a/lksms/openapi.yaml") {
			t.Errorf("Swagger UI is %s", a.Raw)
		}
		if a := b.Call("GET", base+"/openapi.yaml", nil); a.Status != 200 || !strings.Contains(a.Raw, "- url: /a/lksms/\n") {
			t.Errorf("the contract does not name the base path")
		}
		if a := b.Call("GET", base+"/", nil, "Accept", "text/html"); a.Status != 302 && a.Status != 200 {
			t.Errorf("%s/: %d %s", base, a.Status, a.Header.Get("Location"))
		}
		a := b.Expect(200, "", "POST", base+"/api/v1/session", map[string]any{"username": apptest.Username, "password": apptest.Password})
		if cookie := a.Header.Get("Set-Cookie"); !strings.Contains(cookie, "Path=/a/lksms/;") {
			t.Errorf("the cookie is %s", cookie)
		}
		a = b.Call("GET", base+"//health", nil)
		if to := a.Header.Get("Location"); a.Status != 307 || to != "/a/lksms/health" {
			t.Errorf("%s//health leads to %d %s", base, a.Status, to)
		}
		a = b.Call("POST", base+"/smsgate/3rdparty/v1/messages", map[string]any{"phoneNumbers": []string{"+8613800138000"}, "message": "x"})
		if to := a.Header.Get("Location"); a.Status != 202 || !strings.HasPrefix(to, "/a/lksms/smsgate/3rdparty/v1/messages/") {
			t.Errorf("a message has the status %d %s", a.Status, to)
		}
	}
	b.Expect(404, "route.not_found", "GET", "/a/lksmsx/api/v1/sms/tasks", nil)
}

func TestHealthAndReadinessAreReported(t *testing.T) {
	b := apptest.New(t)
	info := apptest.Decode[api.BuildInfo](t, b.Expect(200, "", "GET", "/health", nil, "Authorization", ""))
	if info.Version != "devel" || (info.Commit == nil) != (info.CommittedAt == nil) {
		t.Errorf("built from %+v", info)
	}
	b.Expect(200, "", "GET", "/ready", nil, "Authorization", "")
	b.Exec("DELETE FROM schema_migrations WHERE version = (SELECT max(version) FROM schema_migrations)")
	a := b.Expect(503, "unavailable", "GET", "/ready", nil, "Authorization", "")
	if a.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	b.Expect(200, "", "GET", "/health", nil, "Authorization", "")
}

func TestServerAnswers503WithoutDatabase(t *testing.T) {
	b := apptest.NewWith(t, apptest.DefaultRules, func(o *app.Options) { o.DatabaseURL = "postgres://nobody@127.0.0.1:1/nothing" })
	b.Expect(200, "", "GET", "/health", nil)
	b.Expect(503, "unavailable", "GET", "/ready", nil)
	a := b.Expect(503, "unavailable", "POST", "/api/v1/sms/send", map[string]any{"phone_number": apptest.Phone, "content": "x"})
	if strings.Contains(a.Raw, "127.0.0.1") || a.Header.Get("Retry-After") == "" {
		t.Errorf("got %v %s", a.Header, a.Raw)
	}
}
