package kannel_test

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"lksms/internal/app"
	"lksms/internal/testkit/apptest"
)

func TestMain(m *testing.M) { apptest.Main(m) }

type bundle struct{ *apptest.Bundle }

// setup returns a server with Kannel enabled and two companies.
func setup(t *testing.T) bundle {
	t.Helper()
	b := bundle{apptest.NewWith(t, apptest.DefaultRules, func(o *app.Options) { o.Kannel = true })}
	b.AddCompany("acme", 1)
	b.AddCompany("beta", 1)
	return b
}

// with returns the parameters of a request of user-of-acme. extra contains names and values of further parameters; an empty value removes a parameter.
func with(extra ...string) url.Values {
	all := url.Values{"username": {"user-of-acme"}, "password": {apptest.UserPassword}, "to": {"13800138000"}, "text": {"您好"}}
	for i := 0; i < len(extra); i += 2 {
		if all.Del(extra[i]); extra[i+1] != "" {
			all.Set(extra[i], extra[i+1])
		}
	}
	return all
}

func (b bundle) do(req *http.Request, err error) (int, string) {
	b.T.Helper()
	if err != nil {
		b.T.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		b.T.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		b.T.Fatal(err)
	}
	return res.StatusCode, string(raw)
}

func (b bundle) get(all url.Values) (int, string) {
	b.T.Helper()
	return b.do(http.NewRequestWithContext(b.T.Context(), "GET", b.URL+"/cgi-bin/sendsms?"+all.Encode(), nil))
}

// expect sends a GET request, and fails the test unless the response has this status and contains text.
func (b bundle) expect(status int, text string, all url.Values) {
	b.T.Helper()
	if got, raw := b.get(all); got != status || !strings.Contains(raw, text) {
		b.T.Fatalf("%v: %d %q, want %d with %q", all, got, raw, status, text)
	}
}

const accepted = "0: Accepted for delivery"

// For each recipient, a GET or POST request creates one task of the user's company.
func TestEachRecipientGetsOneTask(t *testing.T) {
	b := setup(t)
	b.expect(202, accepted, with("to", "13800138000 13900139000,+8613700137000", "from", "1000", "priority", "3", "validity", "60", "deferred", "30"))
	if n := b.Count(`SELECT count(*) FROM messages WHERE content = '您好' AND source = 'kannel' AND submitted_by = 'user-of-acme' AND priority = 0
		AND request_data ->> 'from' = '1000' AND expires_at - created_at BETWEEN interval '59 minutes' AND interval '61 minutes'
		AND expect_send_time - created_at BETWEEN interval '29 minutes' AND interval '31 minutes'`); n != 3 {
		t.Errorf("%d tasks are as asked for, want 3", n)
	}
	form := with("username", "user-of-beta", "dlr-mask", "0", "dlr-url", "http://shop.example/dlr") // with mask 0, no delivery report is requested
	post := func(kind, body string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), "POST", b.URL+"/cgi-bin/sendsms", strings.NewReader(body))
		if err == nil {
			req.Header.Set("Content-Type", kind)
		}
		return b.do(req, err)
	}
	if status, raw := post("application/x-www-form-urlencoded; charset=utf-8", form.Encode()); status != 202 || raw != accepted {
		t.Errorf("a form: %d %q", status, raw)
	}
	if n := b.Count("SELECT count(*) FROM messages m JOIN companies c ON c.id = m.company_id WHERE c.company_no = 'beta' AND m.submitted_by = 'user-of-beta'"); n != 1 {
		t.Errorf("%d tasks of beta", n)
	}
	if status, _ := post("text/plain", "hello"); status != 403 { // the request contains no credentials
		t.Errorf("a text: %d", status)
	}
	if status, _ := post("application/x-www-form-urlencoded", strings.Repeat("x", 65<<10)); status != 413 {
		t.Errorf("a large body: %d", status)
	}
	req, err := http.NewRequestWithContext(t.Context(), "POST", b.URL+"/cgi-bin/sendsms?"+with().Encode(), strings.NewReader("<xml/>"))
	if status, raw := b.do(req, err); status != 400 || raw != "Unsupported content-type, rejected" {
		t.Errorf("XML: %d %q", status, raw)
	}
	req, err = http.NewRequestWithContext(t.Context(), "HEAD", b.URL+"/cgi-bin/sendsms?"+with().Encode(), nil)
	if status, _ := b.do(req, err); status != 405 {
		t.Errorf("HEAD: %d", status)
	}
	if n := b.Count("SELECT count(*) FROM messages"); n != 4 {
		t.Errorf("%d tasks, want 4", n)
	}
}

// Invalid requests are rejected with the error texts of Kannel, and create no message.
func TestRejectionsUseTheErrorTextsOfKannel(t *testing.T) {
	b := setup(t)
	many := make([]string, 101)
	for i := range many {
		many[i] = fmt.Sprintf("1380013%04d", i)
	}
	for _, c := range []struct {
		status int
		says   string
		all    url.Values
	}{
		{403, "Authorization failed for sendsms", with("password", "wrong")},
		{403, "Authorization failed for sendsms", with("username", "")},
		{403, "Authorization failed for sendsms", with("username", "nobody\x00")},
		{400, "Missing receiver number, rejected", with("to", "")},
		{400, "Empty receiver number not allowed, rejected", with("to", " , ")},
		{400, "Too many receivers", with("to", strings.Join(many, ","))},
		{400, "to ", with("to", "13800138000 12")},
		{400, "text ", with("text", strings.Repeat("x", 4000), "to", strings.Join(many[:100], ","))},
		{400, "Empty text", with("text", "")},
		{400, "text ", with("text", strings.Repeat("长", 2000))},
		{400, "smsc ", with("smsc", "nobody")},
		{400, "DLR-URL is not supported", with("dlr-mask", "31", "dlr-url", "http://shop.example/dlr")},
		{400, "DLR-URL is not supported", with("dlr-mask", "31")},
		{400, "DLR-URL is not supported", with("dlr-url", "http://shop.example/dlr")},
		{400, "DLR-Mask field misformed", with("dlr-mask", "all")},
		{400, "udh is not supported", with("udh", "\x06\x05\x04\x23\xf4\x00\x00")},
		{400, "mclass is not supported", with("mclass", "0")},
		{400, "8-bit", with("coding", "1")},
		{400, "Coding field misformed", with("coding", "7")},
		{400, "Charset or body misformed", with("charset", "EBCDIC")},
		{400, "Charset or body misformed", with("charset", "ASCII", "text", "\xe9")},
		{400, "Charset or body misformed", with("charset", "us-ascii", "text", "é")},
		{400, "Charset or body misformed", with("text", "\xff\xfe")},
		{400, "Charset or body misformed", with("text", "a\x00b")},
		{400, "misformed", with("smsc", "a\x00b")},
		{400, "Priority field misformed", with("priority", "4")},
		{400, "Validity field misformed", with("validity", "-5")},
		{400, "Deferred field misformed", with("deferred", "9999999999999999999")},
		{400, "validity ", with("validity", "10", "deferred", "20")},
	} {
		b.expect(c.status, c.says, c.all)
		if _, raw := b.get(c.all); c.status == 400 && !strings.HasSuffix(raw, ", rejected") {
			t.Errorf("%q does not end with \", rejected\"", raw)
		}
	}
	if n := b.Count("SELECT count(*) FROM messages"); n != 0 {
		t.Errorf("%d tasks of refused requests", n)
	}
	if n := b.Count("SELECT count(*) FROM fruitless_submissions WHERE phone_number = '12' AND status_code = 400"); n != 2 {
		t.Errorf("%d rows for the wrong number, want 2", n)
	}
	if n := b.Count("SELECT count(*) FROM fruitless_submissions WHERE length(request_data::text) > 2000"); n != 0 {
		t.Errorf("%d rows have a long text each", n)
	}
	b.AddCountry("CN", "86", map[string]any{"signature_required": true})
	b.expect(400, "sign ", with())
	b.AddUser("reader", "read", nil)
	b.expect(403, "not allowed", with("username", "reader"))
	// A deleted user is rejected.
	b.Exec("DELETE FROM users WHERE username = 'user-of-acme'")
	apptest.Eventually(t, "the user is refused", func() bool { status, _ := b.get(with("text", " ")); return status == 403 })
	// The header Authorization is rejected, because a page of another site could make a browser send it.
	req, err := http.NewRequestWithContext(t.Context(), "GET", b.URL+"/cgi-bin/sendsms?to=13800138000&text=x", nil)
	if err == nil {
		req.SetBasicAuth(apptest.Username, apptest.Password)
	}
	if status, _ := b.do(req, err); status != 403 {
		t.Errorf("Basic auth: %d", status)
	}
}

// A blocked number is a rejected message, which a Kannel client does not repeat.
func TestAMessageToABlockedNumberIsRejected(t *testing.T) {
	b := setup(t)
	b.Expect(200, "", "POST", "/api/v1/blocks", map[string]any{"phone_number": "13800138000", "scope": "all"})
	b.expect(400, "to ", with("to", "13800138000"))
	if _, text := b.get(with("to", "13800138000")); !strings.HasSuffix(text, ", rejected") {
		t.Error(text)
	}
	if n := b.Count("SELECT count(*) FROM fruitless_submissions WHERE status_code = 400"); n != 2 {
		t.Errorf("%d rows for the blocked number", n)
	}
}

// A company that is off gets 409. The same request is accepted when the company is on again.
func TestACompanyThatIsOffGetsAConflict(t *testing.T) {
	b := setup(t)
	b.Expect(200, "", "PATCH", "/api/v1/admin/companies/acme", map[string]any{"status": "off"})
	b.expect(409, "switched off", with())
	b.Expect(200, "", "PATCH", "/api/v1/admin/companies/acme", map[string]any{"status": "on"})
	b.expect(202, accepted, with())
}

// A text arrives unchanged in the charsets that Kannel clients use.
func TestTextsOfOtherCharsetsAreConverted(t *testing.T) {
	b := setup(t)
	for _, c := range [][3]string{
		{"", "2", "\x60\xa8\x59\x7d"}, {"UTF-16BE", "2", "\x60\xa8\x59\x7d"}, {"UTF-8", "2", "您好"}, {"utf-8", "0", "您好"}, {"GBK", "", "\xc4\xfa\xba\xc3"},
		{"US-ASCII", "0", "Hello"},
		// A byte order mark has precedence over the charset.
		{"", "2", "\xfe\xff\x60\xa8\x59\x7d"}, {"", "2", "\xff\xfe\xa8\x60\x7d\x59"}, {"UTF-16", "", "\xfe\xff\x60\xa8\x59\x7d"},
		{"UTF-16", "2", "\xff\xfe\xa8\x60\x7d\x59"}, {"UCS-2", "", "\xff\xfe\xa8\x60\x7d\x59"}, {"GBK", "", "\ufeff您好"}, {"", "", "\ufeff您好"},
	} {
		b.expect(202, accepted, with("charset", c[0], "coding", c[1], "text", c[2]))
	}
	b.expect(202, accepted, with("charset", "ISO-8859-1", "text", "caf\xe9"))
	if n := b.Count("SELECT count(*) FROM messages WHERE content = '您好'"); n != 12 {
		t.Errorf("%d texts arrived, want 12", n)
	}
	if n := b.Count("SELECT count(*) FROM messages WHERE content = 'café'"); n != 1 {
		t.Error("the text in ISO-8859-1 did not arrive")
	}
}

// Passwords and texts are part of the URL, and the log contains neither. Responses to wrong passwords are delayed.
func TestLogContainsNoQuery(t *testing.T) {
	b := setup(t)
	b.expect(202, accepted, with("text", "a text of its own"))
	for i := range 60 {
		if status, raw := b.get(with("username", "nobody", "password", fmt.Sprint("a guess of its own", i))); status == 429 {
			if raw != "Temporal failure, try again later." {
				t.Errorf("a guess too much: %q", raw)
			}
			break
		} else if status != 403 || i == 59 {
			t.Fatalf("guess %d: %d", i, status)
		}
	}
	apptest.Eventually(t, "the request is logged", func() bool { return strings.Contains(b.Log.String(), "/cgi-bin/sendsms") })
	for _, secret := range []string{"a password", "a text of its own", "a guess of its own", "13800138000"} {
		if strings.Contains(b.Log.String(), secret) || strings.Contains(b.Log.String(), url.QueryEscape(secret)) {
			t.Errorf("the log has %q", secret)
		}
	}
}

// The path does not exist unless Kannel is enabled.
func TestSendsmsIsDisabledByDefault(t *testing.T) {
	b := bundle{apptest.New(t)}
	b.AddCompany("acme", 1)
	if status, _ := b.get(with()); status != 404 {
		t.Errorf("status %d", status)
	}
	if n := b.Count("SELECT count(*) FROM messages"); n != 0 {
		t.Errorf("%d tasks", n)
	}
}

// raw sends parameters without escaping them.
func (b bundle) raw(text string) (int, string) {
	b.T.Helper()
	all := with()
	all.Del("to")
	all.Del("text")
	return b.do(http.NewRequestWithContext(b.T.Context(), "GET", b.URL+"/cgi-bin/sendsms?"+all.Encode()+"&"+text, nil))
}

// An unescaped plus begins a number or separates two numbers.
func TestUnescapedPlusIsReadAsThePlusOfANumber(t *testing.T) {
	b := setup(t)
	for i, c := range []struct{ to, want string }{
		{"+14155550123", "+14155550123"},
		{"+14155550123++14155550124", "+14155550123 +14155550124"},
		{"+14155550123,+14155550124", "+14155550123 +14155550124"},
		{"%2B14155550123+%2B14155550124", "+14155550123 +14155550124"},
		{"13800138000+13900139000", "+8613800138000 +8613900139000"},
		{"13800138000%2C+13900139000", "+8613800138000 +8613900139000"},
		{"+13800138000%20", ""}, // not a North American number
		{"8613800138000+", "+8613800138000"},
		{"+%E2%80%AA14155550123%E2%80%AC", "+14155550123"}, // with invisible marks
		{"%E2%80%AA+14155550123%E2%80%AC,13800138000", "+14155550123 +8613800138000"},
		{"13800138000+%E2%80%AA+14155550123", "+14155550123 +8613800138000"},
		{"+%EF%BC%91%EF%BC%94155550123", "+14155550123"}, // with full-width digits
		{"(+1)4155550123++1%E2%80%91415%C2%A05550124", "+14155550123 +14155550124"},
		{"+14155550123%2C13800138000", "+14155550123 +8613800138000"},
		{"%EF%BC%8B14155550123%E2%80%8B", "+14155550123"},
	} {
		status, raw := b.raw(fmt.Sprintf("to=%s&text=t%d", c.to, i))
		if c.want == "" && status == 400 {
			continue
		}
		if status != 202 {
			t.Errorf("to=%s: %d %q", c.to, status, raw)
			continue
		}
		got := apptest.Scan[string](b.Bundle, fmt.Sprintf("SELECT string_agg(recipient, ' ' ORDER BY recipient) FROM messages WHERE content = 't%d'", i))
		if got != c.want {
			t.Errorf("to=%s is sent to %s, want %s", c.to, got, c.want)
		}
	}
}

// A semicolon is part of a text. A value that cannot be decoded is not reported as a wrong password.
func TestUnescapedTextsAreReadLikeKannel(t *testing.T) {
	b := setup(t)
	if status, raw := b.raw("to=13800138000&text=a;b=c"); status != 202 {
		t.Errorf("a semicolon: %d %q", status, raw)
	}
	if n := b.Count("SELECT count(*) FROM messages WHERE content = 'a;b=c'"); n != 1 {
		t.Error("the text with a semicolon did not arrive")
	}
	if status, raw := b.raw("to=13800138000&text=50%"); status != 400 || raw != "Parameter misformed, rejected" {
		t.Errorf("a percent sign: %d %q", status, raw)
	}
	form := with()
	form.Del("text")
	for text, want := range map[string]int{"d;e": 202, "50%": 400} {
		req, err := http.NewRequestWithContext(t.Context(), "POST", b.URL+"/cgi-bin/sendsms", strings.NewReader(form.Encode()+"&text="+text))
		if err == nil {
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		if status, raw := b.do(req, err); status != want {
			t.Errorf("a form with %s: %d %q", text, status, raw)
		}
	}
	if n := b.Count("SELECT count(*) FROM messages WHERE content = 'd;e'"); n != 1 {
		t.Error("the text of the form did not arrive")
	}
}
