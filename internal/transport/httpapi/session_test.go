package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	api "lksms/gen/client"
	"lksms/internal/app"
	"lksms/internal/testkit/apptest"
)

// page contains the headers of a browser on a page of this server before the sign-in.
var page = []string{"Authorization", "", "Sec-Fetch-Site", "same-origin", "X-Requested-With", "console"}

// signIn signs in from a page and returns the headers for further requests.
func signIn(b *apptest.Bundle, username, password string, headers ...string) (cookie *http.Cookie, further []string) {
	b.T.Helper()
	a := b.Expect(200, "", "POST", "/api/v1/session", map[string]string{"username": username, "password": password}, append(slices.Clone(page), headers...)...)
	cookie, err := http.ParseSetCookie(a.Header.Get("Set-Cookie"))
	if err != nil {
		b.T.Fatal(err)
	}
	return cookie, append(slices.Clone(page), append(headers, "Cookie", cookie.Name+"="+cookie.Value)...)
}

func TestRequestsWithASessionHaveTheRightsOfItsUser(t *testing.T) {
	b := apptest.New(t)
	b.Expect(200, "", "POST", "/api/v1/admin/companies", `{"company_no":"acme","name":"Acme"}`)
	for name, role := range map[string]string{"r": `"read","company_no":"acme"`, "all": `"read"`, "s": `"submit"`, "p": `"send","app_id":"phone"`, "a": `"admin"`} {
		b.Expect(200, "", "POST", "/api/v1/admin/users", fmt.Sprintf(`{"username":%q,"password":"a long password","role":%s}`, name, role))
		_, as := signIn(b, name, "a long password")
		a := b.Expect(200, "", "GET", "/api/v1/session", nil, as...)
		got := apptest.Decode[api.Session](t, a)
		companyNo, appID := map[string]string{"r": "acme", "s": "default"}[name], map[string]string{"p": "phone"}[name]
		if got.Username != name || got.ExpiresAt == nil || fmt.Sprint(pointed(got.CompanyNo), pointed(got.AppID)) != fmt.Sprint(companyNo, appID) {
			t.Errorf("%s: %s", name, a.Raw)
		}
		byBasic := apptest.Decode[api.Session](t, b.Expect(200, "", "GET", "/api/v1/session", nil, apptest.Basic(name, "a long password")...))
		if byBasic.ExpiresAt != nil || !slices.Equal(byBasic.Operations, got.Operations) {
			t.Errorf("%s by Basic: %+v", name, byBasic)
		}
		// The session can call exactly the operations that the response lists.
		for id, o := range apptest.Operations {
			if o.Roles == "callback" || o.Roles == "password" || id == "deleteSession" {
				continue
			}
			body, headers := o.Content(as...)
			a := b.Call(o.Method, o.Path, body, headers...)
			if may := slices.Contains(got.Operations, id); a.Status == 401 || may == (a.Status == 403 && a.Body.Error.Reason == "auth.forbidden") {
				t.Errorf("%s of %s, which it may call: %t: %s", id, name, may, a.Raw)
			}
		}
		b.Expect(200, "", "DELETE", "/api/v1/session", nil, as...)
		b.Expect(401, "auth.required", "GET", "/api/v1/session", nil, as...)
	}
}

func pointed(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func TestSessionCookieIsSecure(t *testing.T) {
	b := apptest.NewWith(t, apptest.DefaultRules, func(o *app.Options) { o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} })
	cookie, as := signIn(b, apptest.Username, apptest.Password)
	if cookie.Name != "lksms_session" || !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Path != "/" || cookie.Domain != "" || cookie.Secure ||
		cookie.MaxAge < 7*24*3600-60 || cookie.MaxAge > 7*24*3600 {
		t.Errorf("the cookie %s", cookie)
	}
	secure, asSecure := signIn(b, apptest.Username, apptest.Password, "X-Forwarded-Proto", "https")
	if secure.Name != "__Host-lksms_session" || !secure.Secure || !secure.HttpOnly || secure.SameSite != http.SameSiteStrictMode || secure.Path != "/" || secure.Domain != "" {
		t.Errorf("after a proxy that ends TLS: the cookie %s", secure)
	}
	b.Expect(200, "", "GET", "/api/v1/session", nil, as...)
	b.Expect(200, "", "GET", "/api/v1/session", nil, asSecure...)
	// Over TLS, the server rejects a cookie that another host of the site could have set.
	b.Expect(401, "auth.required", "GET", "/api/v1/session", nil, append(slices.Clone(as), "X-Forwarded-Proto", "https")...)
	if c := b.Expect(200, "", "DELETE", "/api/v1/session", nil, asSecure...).Header.Get("Set-Cookie"); !strings.HasPrefix(c, "__Host-lksms_session=; ") || !strings.Contains(c, "Max-Age=0") || !strings.Contains(c, "Secure") {
		t.Errorf("signed out: %s", c)
	}
	if n := b.Count("SELECT count(*) FROM sessions"); n != 1 {
		t.Errorf("%d sessions", n)
	}
	// Each proxy of a chain appends the scheme of its request.
	for schemes, isSecure := range map[string]bool{"https,http": true, "HTTPS , http": true, "http, https": false, "": false} {
		if cookie, _ := signIn(b, apptest.Username, apptest.Password, "X-Forwarded-Proto", schemes); cookie.Secure != isSecure {
			t.Errorf("after proxies with %q: the cookie %s", schemes, cookie)
		}
	}
}

func TestForwardedProtoIsTrustedOnlyFromProxies(t *testing.T) {
	b := apptest.New(t)
	if cookie, _ := signIn(b, apptest.Username, apptest.Password, "X-Forwarded-Proto", "https"); cookie.Secure {
		t.Errorf("the cookie %s", cookie)
	}
}

// The server always creates the token itself, and the previous session of the browser ends.
func TestSignInCreatesNewSession(t *testing.T) {
	b := apptest.New(t)
	first, as := signIn(b, apptest.Username, apptest.Password)
	for _, chosen := range []string{"chosen", first.Value, strings.Repeat("A", 43)} {
		second, _ := signIn(b, apptest.Username, apptest.Password, "Cookie", "lksms_session="+chosen)
		if second.Value == chosen || len(second.Value) != 43 {
			t.Errorf("the token %q", second.Value)
		}
	}
	b.Expect(401, "auth.required", "GET", "/api/v1/session", nil, as...)
	b.Expect(401, "auth.required", "GET", "/api/v1/session", nil, append(slices.Clone(page), "Cookie", "lksms_session="+strings.Repeat("A", 43))...)
	// A wrong password does not end a session.
	_, as = signIn(b, apptest.Username, apptest.Password)
	b.Expect(401, "auth.required", "POST", "/api/v1/session", `{"username":"admin","password":"wrong"}`, as...)
	b.Expect(200, "", "GET", "/api/v1/session", nil, as...)
}

// If a page of another site circumvents SameSite, the browser also adds the cookie to the requests of this page.
func TestOnlyPagesOfTheServerCanUseASession(t *testing.T) {
	const friend = "https://friend.example.com"
	b := apptest.NewWith(t, apptest.DefaultRules, func(o *app.Options) {
		o.CORSOrigins = []string{friend}
		o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	})
	host := strings.TrimPrefix(b.URL, "http://")
	cookie, _ := signIn(b, apptest.Username, apptest.Password)
	secure, _ := signIn(b, apptest.Username, apptest.Password, "X-Forwarded-Proto", "https")
	both := "lksms_session=" + cookie.Value + "; __Host-lksms_session=" + secure.Value
	changes := [][2]string{
		{"POST", "/api/v1/admin/recover-zombie-tasks"}, {"PUT", "/api/v1/admin/settings"}, {"PATCH", "/api/v1/admin/template/1"},
		{"GET", "/api/v1/sms/tasks/pending?app_id=a"}, {"GET", "/app/api/v1/sms/tasks/pending?app_id=a"}, {"DELETE", "/api/v1/session"},
	}
	for name, headers := range map[string][]string{
		"no header at all":                  {},
		"the address bar":                   {"Sec-Fetch-Site", "none"},
		"another site":                      {"Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example.com"},
		"a neighbour of the same site":      {"Sec-Fetch-Site", "same-site", "Origin", "http://evil." + host},
		"another port":                      {"Origin", "http://127.0.0.1:1"},
		"no origin":                         {"Origin", "null"},
		"an empty origin":                   {"Origin", "http://"},
		"a configured page":                 {"Sec-Fetch-Site", "cross-site", "Origin", friend},
		"a configured page, same site":      {"Sec-Fetch-Site", "same-site", "Origin", friend},
		"a configured page, an old browser": {"Origin", friend},
		"plain HTTP, for a server with TLS": {"Origin", "http://" + host, "X-Forwarded-Proto", "https"},
	} {
		headers = append([]string{"Authorization", "", "Cookie", both}, headers...)
		for _, c := range changes {
			if a := b.Call(c[0], c[1], nil, headers...); a.Status != 403 || a.Body.Error.Reason != "request.cross_site" {
				t.Errorf("%s: %s %s: %d %s", name, c[0], c[1], a.Status, a.Raw)
			}
		}
		a := b.Call("GET", "/api/v1/session", nil, headers...)
		if a.Status != 200 || a.Header.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%s: a read, which the page cannot read: %d %v", name, a.Status, a.Header)
		}
		if len(headers) > 4 && name != "the address bar" { // without such headers, the request can come from a program, which is allowed to sign in
			b.Expect(403, "request.cross_site", "POST", "/api/v1/session", map[string]string{"username": apptest.Username, "password": apptest.Password}, headers...)
		}
	}
	for name, headers := range map[string][]string{
		"a page":                          {"Sec-Fetch-Site", "same-origin", "Origin", b.URL},
		"a page without TLS":              {"Origin", b.URL},
		"a page behind a proxy with TLS":  {"Origin", "https://" + host, "X-Forwarded-Proto", "https"},
		"a page behind an unknown proxy":  {"Origin", "https://" + host},
		"a proxy that changes the host":   {"Origin", "https://sms.example.com", "Sec-Fetch-Site", "same-origin"},
		"a page that gives an own header": {"Sec-Fetch-Site", "same-origin", "X-Requested-With", "console"},
	} {
		headers = append([]string{"Authorization", ""}, headers...)
		a := b.Expect(200, "", "POST", "/api/v1/session", map[string]string{"username": apptest.Username, "password": apptest.Password}, headers...)
		cookie, _, _ := strings.Cut(a.Header.Get("Set-Cookie"), ";")
		for _, c := range changes { // the sign-out is the last change
			if a := b.Call(c[0], c[1], nil, append(headers, "Cookie", cookie)...); a.Status == 401 || a.Status == 403 {
				t.Errorf("%s: %s %s: %d %s", name, c[0], c[1], a.Status, a.Raw)
			}
		}
	}
	// The preflight response for a page of a configured origin does not allow cookies.
	a := b.Call("OPTIONS", "/api/v1/session", nil, "Authorization", "", "Origin", friend, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "content-type")
	if a.Header.Get("Access-Control-Allow-Origin") != friend || a.Header.Get("Access-Control-Allow-Credentials") != "" {
		t.Errorf("the preflight: %v", a.Header)
	}
}

func TestAuthorizationHeaderOverridesCookie(t *testing.T) {
	b := apptest.New(t)
	cookie, _ := signIn(b, apptest.Username, apptest.Password)
	reader := b.AddUser("reader", "read", nil)
	with := func(authorization string) []string {
		return []string{"Authorization", authorization, "Cookie", cookie.Name + "=" + cookie.Value, "Sec-Fetch-Site", "same-origin"}
	}
	if a := b.Expect(200, "", "GET", "/api/v1/session", nil, with(reader[1])...); !strings.Contains(a.Raw, `"username":"reader"`) {
		t.Errorf("the caller: %s", a.Raw)
	}
	for _, wrong := range []string{"Basic !", "Bearer x", "Negotiate x", apptest.Basic("reader", "wrong")[1]} {
		b.Expect(401, "auth.required", "GET", "/api/v1/session", nil, with(wrong)...)
	}
	b.Expect(200, "", "GET", "/api/v1/session", nil, with("")...)
}

// A browser opens its own password dialog if a response requests Basic credentials.
func TestPagesGetNoBasicAuthenticationChallenge(t *testing.T) {
	b := apptest.New(t)
	for _, c := range []struct{ method, path, header, value, want string }{
		{"GET", "/api/v1/sms/tasks", "X-Requested-With", "console", "Session "},
		{"POST", "/api/v1/session", "X-Requested-With", "console", "Session "},
		{"GET", "/api/v1/sms/tasks", "Accept", "text/event-stream", "Session "},
		{"GET", "/api/v1/sms/tasks", "Accept", "text/html", "Basic "},
		{"POST", "/api/v1/session", "Accept", "*/*", "Basic "},
	} {
		a := b.Call(c.method, c.path, map[string]string{"username": "nobody", "password": "wrong"}, "Authorization", "", c.header, c.value)
		if a.Status != 401 || !strings.HasPrefix(a.Header.Get("WWW-Authenticate"), c.want) {
			t.Errorf("%+v: %d %v", c, a.Status, a.Header["Www-Authenticate"])
		}
	}
}

func TestSignOutEverywhereEndsAllSessions(t *testing.T) {
	b := apptest.New(t)
	second := *b
	server := httptest.NewServer(apptest.CheckAnswers(t, apptest.Another(b).Handler))
	t.Cleanup(server.Close)
	second.URL = server.URL
	_, one := signIn(b, apptest.Username, apptest.Password)
	_, two := signIn(b, apptest.Username, apptest.Password)
	_, three := signIn(b, apptest.Username, apptest.Password)
	b.AddUser("other", "read", nil)
	_, other := signIn(b, "other", apptest.UserPassword)
	elsewhere := func(headers []string) int { return second.Call("GET", "/api/v1/session", nil, headers...).Status }
	for _, headers := range [][]string{one, two, three, other} {
		if got := elsewhere(headers); got != 200 {
			t.Fatalf("at the second server: %d", got)
		}
	}
	b.Expect(200, "", "DELETE", "/api/v1/session?everywhere=false", nil, one...)
	b.Expect(401, "auth.required", "GET", "/api/v1/session", nil, one...)
	b.Expect(200, "", "GET", "/api/v1/session", nil, two...)
	b.Expect(200, "", "DELETE", "/api/v1/session?everywhere=true", nil, two...)
	b.Expect(401, "auth.required", "GET", "/api/v1/session", nil, three...)
	b.Expect(200, "", "GET", "/api/v1/session", nil, other...)
	apptest.Eventually(t, "the second server notices", func() bool { return elsewhere(three) == 401 })
	if got := elsewhere(other); got != 200 {
		t.Errorf("another user at the second server: %d", got)
	}
	// A request with other credentials can also end all sessions of the user.
	_, one = signIn(b, apptest.Username, apptest.Password)
	b.Expect(200, "", "DELETE", "/api/v1/session?everywhere=true", nil)
	b.Expect(401, "auth.required", "GET", "/api/v1/session", nil, one...)
}

// Neither the log nor the database contains the token: a reader could use it to take over the session.
func TestSessionTokenIsNeitherLoggedNorStored(t *testing.T) {
	b := apptest.New(t)
	cookie, as := signIn(b, apptest.Username, apptest.Password)
	b.Expect(200, "", "GET", "/api/v1/session", nil, as...)
	if strings.Contains(b.Log.String(), cookie.Value) || strings.Contains(b.Log.String(), apptest.Password) {
		t.Error("the log has credentials")
	}
	var row map[string]any
	if err := json.Unmarshal([]byte(apptest.Scan[string](b, "SELECT row_to_json(s)::text FROM sessions s")), &row); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(fmt.Sprint(row), cookie.Value) || row["source_ip"] != "127.0.0.1" || row["user_agent"] != "Go-http-client/1.1" {
		t.Errorf("the row %v", row)
	}
}
