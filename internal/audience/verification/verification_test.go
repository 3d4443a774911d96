package verification_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"mime/quotedprintable"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/app"
	"lksms/internal/audience/verification"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/secret"
	"lksms/internal/testkit/apptest"
)

func TestMain(m *testing.M) { apptest.Main(m) }

const path = "/api/v1/verifications"

// newServer starts a server with a key for secrets.
func newServer(t *testing.T) *apptest.Bundle {
	t.Helper()
	return apptest.NewWith(t, apptest.DefaultRules, apptest.WithSecrets)
}

func request(more map[string]any) map[string]any {
	body := map[string]any{"phone_number": apptest.Phone, "purpose": "login"}
	for name, value := range more {
		if body[name] = value; value == nil {
			delete(body, name)
		}
	}
	return body
}

func start(b *apptest.Bundle, more map[string]any) api.VerificationStarted {
	b.T.Helper()
	return apptest.Decode[api.VerificationStarted](b.T, b.Expect(200, "", "POST", path, request(more)))
}

var digits = regexp.MustCompile(`\d{4,10}`)

// received claims the waiting message, and returns its text and code.
func received(b *apptest.Bundle) (text, code string) {
	b.T.Helper()
	tasks := b.Claim("app", 1)
	if len(tasks) != 1 {
		b.T.Fatalf("claimed %+v", tasks)
	}
	b.Report(tasks[0].TaskID, "app", 2, nil)
	return tasks[0].Content, digits.FindString(tasks[0].Content)
}

func check(b *apptest.Bundle, id, code string) apptest.Answer {
	b.T.Helper()
	return b.Call("POST", path+"/"+id+"/check", map[string]any{"code": code})
}

func outcome(a apptest.Answer) string {
	var data struct {
		Status       string
		AttemptsLeft int `json:"attempts_left"`
	}
	if a.Status != 200 {
		return fmt.Sprint(a.Status, " ", a.Body.Error.Reason)
	}
	if json.Unmarshal(a.Body.Data, &data) != nil {
		return a.Raw
	}
	return fmt.Sprint(data.Status, " ", data.AttemptsLeft)
}

// wrong returns a code that differs from code.
func wrong(code string) string {
	last := code[len(code)-1]
	return code[:len(code)-1] + string('0'+(last-'0'+1)%10)
}

func (w stepsOf) expect(id, code, want string) {
	w.T.Helper()
	if got := outcome(check(w.Bundle, id, code)); got != want {
		w.T.Errorf("check of %s: %s, want %s", code, got, want)
	}
}

type stepsOf struct{ *apptest.Bundle }

func TestTheRightCodeApprovesAVerificationOnce(t *testing.T) {
	b := stepsOf{newServer(t)}
	started := start(b.Bundle, nil)
	if left := time.Until(started.ExpiresAt); started.Status != api.VerificationPending || left < 4*time.Minute || left > 5*time.Minute {
		t.Errorf("started %+v", started)
	}
	if left := time.Until(started.ResendAfter); left < 50*time.Second || left > time.Minute {
		t.Errorf("resend after %v", left)
	}
	text, code := received(b.Bundle)
	if text != "您的验证码是"+code+"，5分钟内有效。请勿告诉他人。" || len(code) != 6 {
		t.Errorf("the person got %q", text)
	}
	b.expect(started.VerificationID, wrong(code), "pending 4")
	b.expect(started.VerificationID, code, "approved 3")
	b.expect(started.VerificationID, code, "409 verification.approved")
	b.expect("vrf_other", code, "404 verification.not_found")
	view := apptest.Decode[api.VerificationView](t, b.Expect(200, "", "GET", path+"/"+started.VerificationID, nil))
	if view.Status != api.VerificationApproved || view.TaskStatus == nil || *view.TaskStatus != api.TaskSuccess || view.EndedAt == nil || view.AttemptsLeft != 3 {
		t.Errorf("the verification is %+v", view)
	}
	if n := b.Count("SELECT count(*) FROM verifications WHERE digest IS NOT NULL OR sealed IS NOT NULL"); n != 0 {
		t.Errorf("%d verifications keep their code", n)
	}
}

func TestTooManyWrongCodesEndAVerification(t *testing.T) {
	b := stepsOf{newServer(t)}
	id := start(b.Bundle, nil).VerificationID
	_, code := received(b.Bundle)
	for left := 4; left > 0; left-- {
		b.expect(id, wrong(code), fmt.Sprint("pending ", left))
	}
	b.expect(id, wrong(code), "409 verification.exhausted")
	b.expect(id, code, "409 verification.exhausted")
	// The limits of the person do not lock the person out: after a minute, a new code can be sent.
	allowMore(b.Bundle)
	next := start(b.Bundle, nil).VerificationID
	_, code = received(b.Bundle)
	b.expect(next, code, "approved 4")
}

// allowMore acts as if a minute had passed since the last code.
func allowMore(b *apptest.Bundle) {
	b.T.Helper()
	b.Exec("UPDATE capped_recipients SET times = ARRAY(SELECT t - interval '61 seconds' FROM unnest(times) AS t)")
}

func TestAVerificationExpires(t *testing.T) {
	b := stepsOf{newServer(t)}
	id := start(b.Bundle, nil).VerificationID
	_, code := received(b.Bundle)
	b.Exec("UPDATE verifications SET expires_at = now() - interval '1 second'")
	b.expect(id, code, "409 verification.expired")
	b.Expect(409, "verification.expired", "POST", path+"/"+id+"/resend", nil)
	b.Expect(409, "verification.expired", "POST", path+"/"+id+"/cancel", nil)
	if n, err := b.App.Verifications.Expire(t.Context()); err != nil || n != 1 {
		t.Errorf("%d expired, %v", n, err)
	}
	b.expect(id, code, "409 verification.expired")
	if n := b.Count("SELECT count(*) FROM verifications WHERE sealed IS NULL AND digest IS NULL AND ended_at = expires_at"); n != 1 {
		t.Errorf("%d expired verifications", n)
	}
}

func TestANewVerificationReplacesThePendingOne(t *testing.T) {
	b := stepsOf{newServer(t)}
	first := start(b.Bundle, nil)
	allowMore(b.Bundle)
	other := start(b.Bundle, map[string]any{"purpose": "pay"})
	allowMore(b.Bundle)
	second := start(b.Bundle, nil)
	if task := b.Task(first.TaskID); task.Status != api.TaskCancelled {
		t.Errorf("the message of the first verification is %+v", task)
	}
	_, ofOther := received(b.Bundle)
	_, code := received(b.Bundle)
	b.expect(first.VerificationID, code, "409 verification.cancelled")
	b.expect(other.VerificationID, ofOther, "approved 4")
	b.expect(second.VerificationID, code, "approved 4")
}

func TestAReplacedVerificationNamesTheNewerOne(t *testing.T) {
	b := newServer(t)
	next := func() string {
		t.Helper()
		allowMore(b)
		return start(b, nil).VerificationID
	}
	replaced, cancelled := next(), next()
	b.Expect(200, "", "POST", path+"/"+cancelled+"/cancel", nil)
	expired := next()
	b.Exec("UPDATE verifications SET created_at = created_at - interval '1 hour', expires_at = expires_at - interval '1 hour' WHERE verification_id = $1", expired)
	last := next()
	for id, want := range map[string]string{replaced: "cancelled " + cancelled, cancelled: "cancelled ", expired: "expired ", last: "pending "} {
		v := apptest.Decode[api.VerificationView](t, b.Expect(200, "", "GET", path+"/"+id, nil))
		if got := fmt.Sprint(v.Status, " ", optional.Value(v.ReplacedBy)); got != want {
			t.Errorf("%s is %s, want %s", id, got, want)
		}
	}
}

func TestAResendRepeatsTheCode(t *testing.T) {
	b := stepsOf{newServer(t)}
	started := start(b.Bundle, nil)
	_, code := received(b.Bundle)
	a := b.Expect(429, "recipient.limited", "POST", path+"/"+started.VerificationID+"/resend", nil)
	if a.Header.Get("Retry-After") == "" || a.Fields() != "verification_id" {
		t.Errorf("the refusal is %s", a.Raw)
	}
	allowMore(b.Bundle)
	again := apptest.Decode[api.VerificationStarted](t, b.Expect(200, "", "POST", path+"/"+started.VerificationID+"/resend", nil))
	if again.VerificationID != started.VerificationID || again.TaskID == started.TaskID || !again.ExpiresAt.Equal(started.ExpiresAt) {
		t.Errorf("resent %+v, started %+v", again, started)
	}
	if _, got := received(b.Bundle); got != code {
		t.Errorf("the second message has the code %s, the first %s", got, code)
	}
	b.expect(started.VerificationID, code, "approved 4")
}

func TestACancelledVerificationSendsNothing(t *testing.T) {
	b := stepsOf{newServer(t)}
	started := start(b.Bundle, nil)
	b.Expect(200, "", "POST", path+"/"+started.VerificationID+"/cancel", nil)
	if task := b.Task(started.TaskID); task.Status != api.TaskCancelled {
		t.Errorf("the message is %+v", task)
	}
	b.expect(started.VerificationID, "123456", "409 verification.cancelled")
}

func TestAnExhaustedVerificationSendsNothing(t *testing.T) {
	b := newServer(t)
	started := start(b, nil)
	for range 5 {
		check(b, started.VerificationID, "wrong")
	}
	if task := b.Task(started.TaskID); task.Status != api.TaskCancelled {
		t.Errorf("the message is %+v", task)
	}
}

func TestACodeIsCheckedByItsPersonAndPurpose(t *testing.T) {
	b := stepsOf{newServer(t)}
	start(b.Bundle, nil)
	_, code := received(b.Bundle)
	for _, c := range []struct{ number, purpose, want string }{
		{apptest.Phone, "pay", "409 verification.expired"},
		{"13900139000", "login", "409 verification.expired"},
		{"+86 138-0013-8000", "login", "approved 4"},
		{apptest.Phone, "login", "409 verification.approved"},
	} {
		got := outcome(b.Call("POST", path+"/check", map[string]any{"phone_number": c.number, "purpose": c.purpose, "code": code}))
		if got != c.want {
			t.Errorf("%s %s: %s, want %s", c.number, c.purpose, got, c.want)
		}
	}
}

func TestAnotherCompanyCannotCheckACode(t *testing.T) {
	b := newServer(t)
	acme := b.AddCompany("acme", 1)
	id := start(b, nil).VerificationID
	_, code := received(b)
	for _, ending := range []string{"/check", "/resend", "/cancel"} {
		body := map[string]any{}
		if ending == "/check" {
			body["code"] = code
		}
		b.Expect(404, "verification.not_found", "POST", path+"/"+id+ending, body, acme...)
	}
	b.Expect(404, "verification.not_found", "GET", path+"/"+id, nil, acme...)
	b.Expect(409, "verification.expired", "POST", path+"/check", map[string]any{"phone_number": apptest.Phone, "purpose": "login", "code": code}, acme...)
	if got := outcome(check(b, id, code)); got != "approved 4" {
		t.Errorf("the own company: %s", got)
	}
}

func TestRequestsForCodesAreLimited(t *testing.T) {
	b := newServer(t)
	start(b, map[string]any{"client_ip": "203.0.113.9", "device": "d1"})
	if a := b.Expect(429, "recipient.limited", "POST", path, request(nil)); a.Fields() != "phone_number" {
		t.Errorf("wrong fields %s", a.Fields())
	}
	b.Expect(200, "", "PUT", "/api/v1/admin/settings", map[string]any{"verification": map[string]any{"client_per_hour": 2}})
	start(b, map[string]any{"phone_number": "13900139001", "client_ip": "203.0.113.9"})
	if a := b.Expect(429, "recipient.limited", "POST", path, request(map[string]any{"phone_number": "13900139002", "client_ip": "203.0.113.9"})); a.Fields() != "client_ip" {
		t.Errorf("wrong fields %s", a.Fields())
	}
	start(b, map[string]any{"phone_number": "13900139003", "device": "d1"})
	if a := b.Expect(429, "recipient.limited", "POST", path, request(map[string]any{"phone_number": "13900139004", "device": "d1"})); a.Fields() != "device" {
		t.Errorf("wrong fields %s", a.Fields())
	}
	if n := b.Count("SELECT count(*) FROM verifications"); n != 3 {
		t.Errorf("%d verifications", n)
	}
}

func TestTextsOfCodes(t *testing.T) {
	b := newServer(t)
	b.Expect(200, "", "POST", "/api/v1/admin/template", map[string]any{
		"template_no": "login", "template_name": "login", "template_content": "{code} for {minutes} minutes", "sign": "ACME",
	})
	b.Expect(200, "", "POST", "/api/v1/admin/template", map[string]any{"template_no": "bare", "template_name": "bare", "template_content": "hello {minutes}"})
	b.Expect(200, "", "PUT", "/api/v1/admin/settings", map[string]any{"verification": map[string]any{"countries": "DE"}})
	n := 0
	for name, c := range map[string]struct {
		more map[string]any
		want string
	}{
		"English":     {map[string]any{"language": "en"}, `^Your code is (\d{6})\. It expires in 5 minutes\. Do not share it\.$`},
		"abroad":      {map[string]any{"phone_number": "+4915112345678"}, `^Your code is (\d{6})\.`},
		"length, ttl": {map[string]any{"length": 8, "ttl_seconds": 90}, `^您的验证码是(\d{8})，2分钟内有效`},
		"template":    {map[string]any{"template_no": "login"}, `^【ACME】(\d{6}) for 5 minutes$`},
		"signature":   {map[string]any{"sign": "公司"}, `^【公司】您的验证码是(\d{6})`},
		"Android":     {map[string]any{"app_hash": "FA+9qCX9VSu"}, `^您的验证码是(\d{6}).*\nFA\+9qCX9VSu$`},
		"WebOTP":      {map[string]any{"domain": "example.com"}, `^您的验证码是(\d{6})[^\n]*\n\n@example\.com #\d{6}$`},
	} {
		if n++; c.more["phone_number"] == nil {
			c.more["phone_number"] = fmt.Sprint(13900139100 + n)
		}
		id := start(b, c.more).VerificationID
		text, code := received(b)
		if m := regexp.MustCompile(c.want).FindStringSubmatch(text); m == nil || m[1] != code {
			t.Errorf("%s: %q", name, text)
		}
		if got := outcome(check(b, id, code)); got != "approved 4" {
			t.Errorf("%s: %s", name, got)
		}
	}
	if a := b.Expect(422, "request.invalid", "POST", path, request(map[string]any{"template_no": "bare"})); a.Fields() != "template_no" {
		t.Errorf("wrong fields %s", a.Fields())
	}
}

func TestACodeByEMail(t *testing.T) {
	b := newServer(t)
	mail := b.AddMailbox("mail")
	b.PutContacts(map[string]any{"user_id": "u1", "email": "Ann@Example.com"})
	b.App.Pusher.Start()
	for _, body := range []map[string]any{
		{"phone_number": nil, "email": "ann@example.com", "language": "en", "length": 10},
		{"phone_number": nil, "user_id": "u1", "channel": "email", "purpose": "pay", "length": 10},
	} {
		started := start(b, body)
		b.AwaitStatus(started.TaskID, 2)
		text := strings.Join(sliceOf(mail.Of("ann@example.com")), "\n")
		code := regexp.MustCompile(`\b\d{10}\b`).FindString(text)
		if !strings.Contains(text, "verification") && !strings.Contains(text, "验证码") || code == "" {
			t.Errorf("the mail is %s", text)
		}
		if got := outcome(check(b, started.VerificationID, code)); got != "approved 4" {
			t.Errorf("%s: %s", code, got)
		}
		b.ExpectNowhere(code)
	}
}

// A stored text has a mask exactly where the person reads the code: digits of the code that occur elsewhere are not masked, and a text that is cut within the code
// has no digits of the code.
func TestTheMaskStandsExactlyAtTheCode(t *testing.T) {
	b := newServer(t)
	mail := b.AddMailbox("mail")
	b.App.Pusher.Start()
	for i, person := range []map[string]any{{}, {"phone_number": nil, "email": "ann@example.com"}} {
		isMail := i == 1
		person["template_no"] = fmt.Sprint("t", i)
		template := "/api/v1/admin/template/" + fmt.Sprint(apptest.Decode[api.Template](t, b.Expect(200, "", "POST", "/api/v1/admin/template", map[string]any{
			"template_no": person["template_no"], "template_name": "t", "template_content": "{code}",
		})).ID)
		started := start(b, person)
		read := func(taskID string) string {
			t.Helper()
			if !isMail {
				text, _ := received(b)
				return text
			}
			b.AwaitStatus(taskID, 2)
			text, err := io.ReadAll(quotedprintable.NewReader(strings.NewReader(mail.Of("ann@example.com")[1])))
			if err != nil {
				t.Fatal(err)
			}
			return strings.TrimSpace(string(text))
		}
		code := digits.FindString(read(started.TaskID))
		stored := func(text string) string {
			t.Helper()
			b.Expect(200, "", "PATCH", template, map[string]any{"template_content": text})
			allowMore(b)
			again := apptest.Decode[api.VerificationStarted](t, b.Expect(200, "", "POST", path+"/"+started.VerificationID+"/resend", nil))
			if got, want := read(again.TaskID), strings.ReplaceAll(text, "{code}", code); got != want {
				t.Errorf("the person got %q, want %q", got, want)
			}
			return apptest.Scan[string](b, "SELECT content FROM messages WHERE task_id = $1", again.TaskID)
		}
		if got, want := stored("© "+code+": {code}"), "© "+code+": ******"; got != want {
			t.Errorf("stored as %q, want %q", got, want)
		}
		if isMail {
			if n := b.Count("SELECT count(*) FROM renderings WHERE content = $1", "© "+code+": ${code}"); n != 1 {
				t.Error("the digits in the text of the template are replaced by a placeholder")
			}
			beginning := strings.Repeat("a", 197)
			if got, want := stored(beginning+"{code} is your code"), beginning+"***"; got != want {
				t.Errorf("stored as %q, want %q", got, want)
			}
		}
	}
}

func TestTheMaskOfACodeKeepsTheSegments(t *testing.T) {
	b := newServer(t)
	for i, template := range []string{strings.Repeat("a", 154) + "{code}", strings.Repeat("a", 155) + "{code}", strings.Repeat("验", 64) + "{code}", strings.Repeat("验", 65) + "{code}"} {
		no := fmt.Sprint("t", i)
		b.Expect(200, "", "POST", "/api/v1/admin/template", map[string]any{"template_no": no, "template_name": no, "template_content": template})
		started := start(b, map[string]any{"phone_number": fmt.Sprint(13900139200 + i), "template_no": no})
		if n := b.Task(started.TaskID).Segments; int(n) != 1+i%2 {
			t.Errorf("%d segments of %s", n, template)
		}
	}
}

// A provider can repeat a code in any notation.
func TestNoAnswerOfAProviderRevealsACode(t *testing.T) {
	b, p := apptest.NewPushing(t, nil)
	codes := make(chan string, 1)
	p.Does(func(w http.ResponseWriter, _ *http.Request) {
		seen := p.Seen()
		code := regexp.MustCompile(`码是(\d{10})`).FindStringSubmatch(seen[len(seen)-1])[1]
		_, _ = fmt.Fprintf(w, `{"code":"9","text":%q}`, strings.Join(notations(code), " "))
		codes <- code
	})
	id := start(b, map[string]any{"length": 10}).TaskID
	b.AwaitStatus(id, 3)
	for _, notation := range notations(<-codes) {
		b.ExpectNowhere(notation)
	}
	if got := optional.Value(b.Task(id).Result); got != "***" {
		t.Errorf("the result is %s", got)
	}
}

// notations returns notations of a code.
func notations(code string) []string {
	fullWidth := strings.Map(func(r rune) rune { return r - '0' + '０' }, code)
	return []string{
		code, base64.StdEncoding.EncodeToString([]byte("您的验证码是" + code)), strings.Join(strings.Split(code, ""), "-"), fullWidth, code[:5] + " " + code[5:],
	}
}

func sliceOf(texts [3]string) []string { return texts[:] }

func TestNothingContainsACode(t *testing.T) {
	b := newServer(t)
	b.Expect(200, "", "GET", "/api/v1/events", nil) // the feed records events from now on
	id := apptest.Decode[api.VerificationStarted](t, b.Expect(200, "", "POST", path, request(map[string]any{"length": 10}), "Idempotency-Key", "k")).VerificationID
	_, code := received(b)
	b.ExpectNowhere(code)
	check(b, id, wrong(code))
	b.ExpectNowhere(code)
	allowMore(b)
	b.Expect(200, "", "POST", path+"/"+id+"/resend", nil)
	b.ExpectNowhere(code)
	check(b, id, code)
	b.ExpectNowhere(code)
}

func TestConcurrentChecksApproveOnceAndCountEachWrongCode(t *testing.T) {
	b := newServer(t)
	servers, owner := []*app.App{b.App, apptest.Another(b)}, company(b)
	const checks, workers = 10_000, 50
	for name, everyRight := range map[string]int{"all codes are wrong": checks + 1, "each 4th code is right": 4, "all codes are right": 1} {
		id := start(b, map[string]any{"purpose": name}).VerificationID
		_, code := received(b)
		var next, approved, pending atomic.Int64
		apptest.Together(workers, func(int) {
			for i := int(next.Add(1)); i <= checks; i = int(next.Add(1)) {
				given := wrong(code)
				if i%everyRight == 0 {
					given = code
				}
				got, err := servers[i%2].Verifications.Check(t.Context(), owner, id, given)
				switch {
				case fault.Is(err, fault.VerificationApproved), fault.Is(err, fault.VerificationExhausted):
				case err != nil:
					t.Error(err)
				case got.Status == verification.Approved:
					approved.Add(1)
				default:
					pending.Add(1)
				}
			}
		})
		counted := b.Count("SELECT checks FROM verifications WHERE verification_id = $1", id)
		isApproved := approved.Load() == 1 && int(approved.Load()+pending.Load()) == counted && counted <= 5
		isExhausted := approved.Load() == 0 && pending.Load() == 4 && counted == 5
		if !isApproved && !isExhausted || isExhausted && everyRight == 1 || isApproved && everyRight > checks {
			t.Errorf("%s: %d approved, %d wrong, %d counted", name, approved.Load(), pending.Load(), counted)
		}
	}
}

func company(b *apptest.Bundle) int64 {
	b.T.Helper()
	return apptest.Scan[int64](b, "SELECT id FROM companies WHERE company_no = 'default'")
}

func TestConcurrentStartsLeaveOnePendingVerification(t *testing.T) {
	b := newServer(t)
	b.Expect(200, "", "PUT", "/api/v1/admin/settings", map[string]any{"verification": map[string]any{"per_minute": 0, "per_hour": 0, "per_day": 0, "unproven_per_day": 0}})
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			for range 2 {
				start(b, nil)
			}
		})
	}
	all.Wait()
	if n := b.Count("SELECT count(*) FROM verifications WHERE status = 'pending'"); n != 1 {
		t.Errorf("%d verifications are pending", n)
	}
	if n := b.Count("SELECT count(*) FROM verifications"); n != 40 {
		t.Errorf("%d verifications", n)
	}
	if n := b.Count("SELECT count(*) FROM queue"); n != 1 {
		t.Errorf("%d messages wait", n)
	}
}

func TestARefusedStartCountsNothing(t *testing.T) {
	b := newServer(t)
	b.Expect(200, "", "PUT", "/api/v1/admin/settings", map[string]any{"verification": map[string]any{"client_per_hour": 1}})
	start(b, map[string]any{"client_ip": "203.0.113.9"})
	other := map[string]any{"phone_number": "13900139001", "client_ip": "203.0.113.9", "device": "d1"}
	b.Expect(429, "recipient.limited", "POST", path, request(other))
	delete(other, "client_ip")
	b.Expect(422, "request.invalid", "POST", path, request(map[string]any{"phone_number": "13900139001", "device": "d1", "template_no": "none"}))
	start(b, other)
	b.Expect(429, "recipient.limited", "POST", path, request(map[string]any{"phone_number": "13900139002", "device": "d1"}))
}

func TestACancelledCodeRemainsCounted(t *testing.T) {
	b := newServer(t)
	id := start(b, map[string]any{"client_ip": "203.0.113.9"}).VerificationID
	b.Expect(200, "", "POST", path+"/"+id+"/cancel", nil)
	b.Expect(429, "recipient.limited", "POST", path, request(nil))
	b.Expect(200, "", "PUT", "/api/v1/admin/settings", map[string]any{"verification": map[string]any{"client_per_hour": 1}})
	a := b.Expect(429, "recipient.limited", "POST", path, request(map[string]any{"phone_number": "13900139001", "client_ip": "203.0.113.9"}))
	if a.Fields() != "client_ip" {
		t.Errorf("wrong fields %s", a.Fields())
	}
}

func TestNoCodeIsSentToPersonsWhoCannotGetIt(t *testing.T) {
	b := newServer(t)
	if a := b.Expect(422, "request.invalid", "POST", path, request(map[string]any{"phone_number": nil, "user_id": "nobody"})); a.Fields() != "user_id" {
		t.Errorf("wrong fields %s", a.Fields())
	}
	b.PutContacts(map[string]any{"user_id": "u1", "email": "ann@example.com"})
	if a := b.Expect(422, "request.invalid", "POST", path, request(map[string]any{"phone_number": nil, "user_id": "u1"})); a.Fields() != "user_id" {
		t.Errorf("wrong fields %s", a.Fields())
	}
	b.Expect(200, "", "POST", "/api/v1/blocks", map[string]any{"phone_number": apptest.Phone, "scope": "all"})
	b.Expect(409, "recipient.blocked", "POST", path, request(nil))
	acme := b.AddCompany("acme", 1)
	b.Expect(200, "", "PATCH", "/api/v1/admin/companies/acme", map[string]any{"status": "off"})
	b.Expect(409, "company.off", "POST", path, request(map[string]any{"phone_number": "13900139001"}), acme...)
	if n := b.Count("SELECT count(*) FROM verifications"); n != 0 {
		t.Errorf("%d verifications", n)
	}
}

func TestAnErasureDeletesVerifications(t *testing.T) {
	b := newServer(t)
	b.AddMailbox("mail")
	b.PutContacts(map[string]any{"user_id": "u1", "phone": apptest.Phone, "email": "Ann@Example.com"})
	start(b, nil)
	start(b, map[string]any{"phone_number": nil, "email": "ann@example.com"})
	other := start(b, map[string]any{"phone_number": "13900139001"})
	b.Expect(200, "", "POST", "/api/v1/contacts/erasures", map[string]any{"user_id": "u1"})
	b.RunErasures()
	if left := apptest.Scan[string](b, "SELECT string_agg(verification_id, ' ') FROM verifications"); left != other.VerificationID {
		t.Errorf("%s is left, want %s", left, other.VerificationID)
	}
}

func TestOldVerificationsAreDeleted(t *testing.T) {
	b := newServer(t)
	start(b, nil)
	b.Exec("UPDATE verifications SET created_at = now() - interval '31 days'")
	start(b, map[string]any{"phone_number": "13900139001"})
	if n, err := b.App.Verifications.DeleteExpired(t.Context()); n != 1 || err != nil {
		t.Errorf("%d deleted, %v", n, err)
	}
	if n := b.Count("SELECT count(*) FROM verifications"); n != 1 {
		t.Errorf("%d verifications are left", n)
	}
}

func TestCodesCanBeCheckedAfterARotationOfKeys(t *testing.T) {
	before, after := secret.NewKey(), secret.NewKey()
	b := apptest.NewWith(t, apptest.DefaultRules, func(o *app.Options) { o.Secrets = apptest.Secrets(before) })
	id := start(b, nil).VerificationID
	_, code := received(b)
	at := func(keys ...string) string { // checks a wrong code at a server with other keys
		t.Helper()
		b.Options.Secrets = apptest.Secrets(keys...)
		got, err := apptest.Another(b).Verifications.Check(t.Context(), company(b), id, wrong(code))
		if err != nil {
			t.Fatal(err)
		}
		return got.Status
	}
	if got := at(after, before); got != "pending" {
		t.Errorf("a wrong code is %s", got)
	}
	for _, want := range []int{1, 0} {
		if n, err := app.RotateSecrets(t.Context(), b.Options.DatabaseURL, apptest.Secrets(after, before)); n != want || err != nil {
			t.Errorf("changed %d codes, %v", n, err)
		}
	}
	if got := at(after); got != "pending" {
		t.Errorf("a wrong code is %s", got)
	}
	if got, err := apptest.Another(b).Verifications.Check(t.Context(), company(b), id, code); err != nil || got.Status != "approved" {
		t.Errorf("the code is %s, %v", got.Status, err)
	}
}

func TestAResendHasTheTextOfTheStart(t *testing.T) {
	b := newServer(t)
	id := start(b, map[string]any{"language": "EN-us", "sign": "ACME", "domain": "example.com"}).VerificationID
	first, _ := received(b)
	if !strings.HasPrefix(first, "【ACME】Your code is") || !strings.Contains(first, "@example.com #") {
		t.Errorf("the text is %q", first)
	}
	allowMore(b)
	b.Expect(422, "request.invalid", "POST", path+"/"+id+"/resend", map[string]any{"language": "zh"})
	b.Expect(200, "", "POST", path+"/"+id+"/resend", map[string]any{"device": "d1"})
	if second, _ := received(b); second != first {
		t.Errorf("the second text is %q, the first %q", second, first)
	}
}

func TestAServerWithoutTheKeyOfACodeCountsNothing(t *testing.T) {
	b := newServer(t)
	id := start(b, nil).VerificationID
	b.Options.Secrets = apptest.Secrets(secret.NewKey())
	other := apptest.Another(b)
	for range 6 {
		if _, err := other.Verifications.Check(t.Context(), company(b), id, "123456"); !fault.Is(err, fault.VerificationNoKey) {
			t.Fatalf("a check: %v", err)
		}
	}
	allowMore(b)
	_, err := other.Verifications.Resend(t.Context(), id, verification.Client{}, nil, submit.Origin{CompanyID: company(b)})
	if !fault.Is(err, fault.VerificationNoKey) {
		t.Errorf("a resend: %v", err)
	}
	_, code := received(b)
	if got := outcome(check(b, id, code)); got != "approved 4" {
		t.Errorf("the code is %s", got)
	}
}

func TestClientsAreLimitedByTheirNetwork(t *testing.T) {
	b := newServer(t)
	b.Expect(200, "", "PUT", "/api/v1/admin/settings", map[string]any{"verification": map[string]any{"client_per_hour": 1}})
	n := 0
	from := func(ip string) apptest.Answer {
		n++
		return b.Call("POST", path, request(map[string]any{"phone_number": fmt.Sprint(13900139200 + n), "client_ip": ip}))
	}
	for _, c := range []struct {
		ip   string
		want int
	}{
		{"203.0.113.9", 200}, {"::ffff:203.0.113.9", 429}, {"203.0.113.10", 200},
		{"2001:DB8::1", 200}, {"2001:db8:0:0:ffff::1", 429}, {"2001:db8:0:1::1", 200},
		{"203.0.113", 422}, {"1:2:3", 422}, {"300.1.1.1", 422},
	} {
		if a := from(c.ip); a.Status != c.want || a.Status != 200 && a.Fields() != "client_ip" {
			t.Errorf("%s: %s", c.ip, a.Raw)
		}
	}
}

func TestFaultsOfMessagesNameTheFieldsOfTheRequest(t *testing.T) {
	b := newServer(t)
	b.Expect(200, "", "POST", "/api/v1/admin/template", map[string]any{
		"template_no": "long", "template_name": "long", "template_content": "{code} " + strings.Repeat("x", 190),
	})
	b.Expect(200, "", "PUT", "/api/v1/admin/settings", map[string]any{"sms": map[string]any{"max_content_verification": 60}})
	for field, more := range map[string]map[string]any{
		"template_no":  {"template_no": "long"},
		"domain":       {"domain": strings.Repeat("a", 60) + ".example"},
		"phone_number": {"phone_number": "12"},
		"email":        {"phone_number": nil, "email": "nobody"},
	} {
		if a := b.Expect(422, "request.invalid", "POST", path, request(more)); a.Fields() != field {
			t.Errorf("the fault of %s names %s", field, a.Fields())
		}
	}
	id := start(b, nil).VerificationID
	allowMore(b)
	b.Exec("UPDATE verifications SET expires_at = clock_timestamp() + interval '500 milliseconds'")
	b.Expect(409, "verification.expired", "POST", path+"/"+id+"/resend", nil)
	b.Exec("UPDATE verifications SET expires_at = clock_timestamp() + interval '5 minutes'")
	b.Expect(200, "", "POST", "/api/v1/blocks", map[string]any{"phone_number": apptest.Phone, "scope": "all"})
	if a := b.Expect(409, "recipient.blocked", "POST", path+"/"+id+"/resend", nil); a.Fields() != "verification_id" {
		t.Errorf("the fault of a resend names %s", a.Fields())
	}
}

func TestResendAfterIsTheFirstTimeThatTheLimitsAllow(t *testing.T) {
	b := newServer(t)
	b.Expect(200, "", "PUT", "/api/v1/admin/settings", map[string]any{"verification": map[string]any{"per_minute": 1, "per_hour": 2}})
	started := start(b, nil)
	after := func(s api.VerificationStarted) time.Duration {
		return s.ResendAfter.Sub(s.ExpiresAt.Add(-5 * time.Minute)).Round(10 * time.Second)
	}
	if got := after(started); got != time.Minute {
		t.Errorf("the second code is allowed after %s", got)
	}
	allowMore(b)
	again := apptest.Decode[api.VerificationStarted](t, b.Expect(200, "", "POST", path+"/"+started.VerificationID+"/resend", nil))
	if got := after(again); got != time.Hour-time.Minute { // the first code was moved to a minute ago
		t.Errorf("the third code is allowed after %s", got)
	}
	if got := after(start(b, map[string]any{"phone_number": nil, "email": "ann@example.com"})); got != time.Minute {
		t.Errorf("by e-mail: the second code is allowed after %s", got)
	}
	b.Expect(200, "", "PUT", "/api/v1/admin/settings", map[string]any{
		"verification": map[string]any{"per_minute": 0, "per_hour": 0, "per_day": 0}, "recipient": map[string]any{"caps_verification_per_minute": 0},
	})
	if got := after(start(b, map[string]any{"phone_number": "13900139001"})); got != 0 {
		t.Errorf("without limits: the second code is allowed after %s", got)
	}
}

func TestAPendingVerificationIsFoundBeforeNewerOnes(t *testing.T) {
	b := newServer(t)
	first := start(b, nil).VerificationID
	received(b)
	allowMore(b)
	second := start(b, nil).VerificationID
	_, code := received(b)
	b.Exec("UPDATE verifications SET created_at = now() + interval '1 second' WHERE verification_id = $1", first) // the clock of its transaction was earlier
	if got := outcome(b.Call("POST", path+"/check", map[string]any{"phone_number": apptest.Phone, "purpose": "login", "code": code})); got != "approved 4" {
		t.Errorf("the code of %s is %s", second, got)
	}
}

func TestAResendCanGoAnotherWay(t *testing.T) {
	b := newServer(t)
	mail := b.AddMailbox("mail")
	b.PutContacts(map[string]any{"user_id": "u1", "phone": apptest.Phone, "email": "ann@example.com"})
	resendBy := func(by string) {
		t.Helper()
		b.Expect(200, "", "PUT", "/api/v1/admin/settings", map[string]any{"verification": map[string]any{"resend_by": by, "per_minute": 0, "per_hour": 0, "per_day": 0},
			"recipient": map[string]any{"caps_verification_per_minute": 0, "caps_verification_per_hour": 0}})
	}
	claim := func(app string, status int) string {
		t.Helper()
		tasks := b.Claim(app, 1)
		if len(tasks) == 0 {
			return ""
		}
		b.Report(tasks[0].TaskID, app, status, nil)
		return digits.FindString(tasks[0].Content)
	}
	again := func(id string) string {
		t.Helper()
		return apptest.Decode[api.VerificationStarted](t, b.Expect(200, "", "POST", path+"/"+id+"/resend", nil)).TaskID
	}
	claim("app", 2)
	claim("other", 2)
	b.Exec("UPDATE sender_states SET seen_at = now()") // both senders are ready

	resendBy("other_sender")
	id := start(b, nil).VerificationID
	code := claim("app", 2)
	again(id)
	if got := claim("app", 2); got != "" {
		t.Errorf("the first sender got the message again")
	}
	if got := claim("other", 2); got != code {
		t.Errorf("the other sender got %q, want %q", got, code)
	}

	resendBy("email")
	id = start(b, map[string]any{"phone_number": nil, "user_id": "u1", "language": "en", "length": 10}).VerificationID
	code = claim("app", 3)
	b.App.Pusher.Start()
	b.AwaitStatus(again(id), 2)
	if text := strings.Join(sliceOf(mail.Of("ann@example.com")), "\n"); !strings.Contains(text, code) || !strings.Contains(text, "Your") {
		t.Errorf("the code is %s, the mail %s", code, text)
	}
	b.ExpectNowhere(code)
	// A person who was named by a number has no other address, and a delivered message needs no other way.
	number := start(b, map[string]any{"phone_number": "13900139001"}).VerificationID
	code = claim("app", 2)
	again(number)
	if got := claim("app", 2); got != code {
		t.Errorf("the message to a number has the code %q, want %q", got, code)
	}
}

func TestAResendUsesABackup(t *testing.T) {
	b := newServer(t)
	b.Expect(200, "", "PUT", "/api/v1/admin/settings", map[string]any{"verification": map[string]any{"resend_by": "other_sender", "per_minute": 0},
		"recipient": map[string]any{"caps_verification_per_minute": 0}})
	for no, sort := range map[string]int{"first": 10, "backup": 5} {
		b.AddSender(map[string]any{"sender_no": no})
		b.AddRouteWith(map[string]any{"company_no": "default", "message_type": "verification", "sender_no": no, "sort": sort})
		b.Claim(no, 1)
	}
	b.Exec("UPDATE sender_states SET seen_at = now()")
	id := start(b, nil).VerificationID
	b.Report(b.Claim("first", 1)[0].TaskID, "first", 2, nil)
	b.Expect(200, "", "POST", path+"/"+id+"/resend", nil)
	if again := b.Claim("first", 1); len(again) != 0 {
		t.Errorf("the first sender got the message again")
	}
	if again := b.Claim("backup", 1); len(again) != 1 {
		t.Errorf("the backup got %+v", again)
	}
}

func TestAResendLeavesABrokenSender(t *testing.T) {
	b := newServer(t)
	b.Expect(200, "", "PUT", "/api/v1/admin/settings", map[string]any{"verification": map[string]any{"resend_by": "other_sender", "per_minute": 0},
		"recipient": map[string]any{"caps_verification_per_minute": 0}})
	b.Claim("app", 1)
	b.Claim("other", 1)
	b.Exec("UPDATE sender_states SET seen_at = now()") // both senders are ready
	id := start(b, nil).VerificationID
	b.Report(b.Claim("other", 1)[0].TaskID, "other", 2, nil)
	b.Expect(200, "", "POST", path+"/"+id+"/resend", nil) // waits for app, which claims nothing
	b.Expect(200, "", "POST", path+"/"+id+"/resend", nil)
	if again := b.Claim("other", 1); len(again) != 1 {
		t.Errorf("the first sender got %+v", again)
	}
}

// A shared sender with a route of another company can send the messages of all companies, but no other company can name it. The resend then goes the same way.
func TestAResendGoesTheSameWayIfNoOtherSenderCanBeNamed(t *testing.T) {
	b := newServer(t)
	b.Expect(200, "", "PUT", "/api/v1/admin/settings", map[string]any{"verification": map[string]any{"resend_by": "other_sender", "per_minute": 0},
		"recipient": map[string]any{"caps_verification_per_minute": 0}})
	b.AddCompany("acme", 1)
	b.Claim("app", 1)
	b.Claim("other", 1)
	b.AddRouteWith(map[string]any{"company_no": "acme", "message_type": "notification", "sender_no": "app"})
	b.Exec("UPDATE sender_states SET seen_at = now()")
	id := start(b, nil).VerificationID
	b.Report(b.Claim("other", 1)[0].TaskID, "other", 2, nil)
	b.Expect(200, "", "POST", path+"/"+id+"/resend", nil)
	if again := b.Claim("other", 1); len(again) != 1 {
		t.Errorf("the first sender got %+v", again)
	}
}

func TestAnUnknownChannelIsAWrongField(t *testing.T) {
	b := newServer(t)
	b.PutContacts(map[string]any{"user_id": "u1", "phone": apptest.Phone, "email": "ann@example.com"})
	if a := b.Expect(422, "request.invalid", "POST", path, request(map[string]any{"phone_number": nil, "user_id": "u1", "channel": "fax"})); a.Fields() != "channel" {
		t.Errorf("wrong fields %s", a.Fields())
	}
}

func TestAResendNamesATemplateThatChanged(t *testing.T) {
	b := newServer(t)
	made := apptest.Decode[api.Template](t, b.Expect(200, "", "POST", "/api/v1/admin/template", map[string]any{
		"template_no": "code", "template_name": "code", "template_content": "Code {code}",
	}))
	id := start(b, map[string]any{"template_no": "code"}).VerificationID
	allowMore(b)
	b.Expect(200, "", "PATCH", fmt.Sprint("/api/v1/admin/template/", made.ID), map[string]any{"template_content": "Hello"})
	if a := b.Expect(422, "request.invalid", "POST", path+"/"+id+"/resend", nil); a.Fields() != "template_no" {
		t.Errorf("wrong fields %s", a.Fields())
	}
}

func TestTheStarterSeesTheMessageOfAResendByAColleague(t *testing.T) {
	b := newServer(t)
	starter, colleague := b.AddUser("starter", "submit", nil), b.AddUser("colleague", "submit", nil)
	id := apptest.Decode[api.VerificationStarted](t, b.Expect(200, "", "POST", path, request(nil), starter...)).VerificationID
	allowMore(b)
	b.Expect(200, "", "POST", path+"/"+id+"/resend", nil, colleague...)
	for name, who := range map[string][]string{"starter": starter, "colleague": colleague} {
		if v := apptest.Decode[api.VerificationView](t, b.Expect(200, "", "GET", path+"/"+id, nil, who...)); v.TaskStatus == nil {
			t.Errorf("the %s does not see the state of the message", name)
		}
	}
}

func TestAResendStaysWithSMSWithoutAnEmailSender(t *testing.T) {
	b := newServer(t)
	b.Expect(200, "", "PUT", "/api/v1/admin/settings", map[string]any{"verification": map[string]any{"resend_by": "email", "per_minute": 0},
		"recipient": map[string]any{"caps_verification_per_minute": 0}})
	b.PutContacts(map[string]any{"user_id": "u1", "phone": apptest.Phone, "email": "ann@example.com"})
	id := start(b, map[string]any{"phone_number": nil, "user_id": "u1"}).VerificationID
	again := func(channel string) {
		t.Helper()
		task := apptest.Decode[api.VerificationStarted](t, b.Expect(200, "", "POST", path+"/"+id+"/resend", nil)).TaskID
		if got := apptest.Scan[string](b, "SELECT c.channel FROM queue q JOIN pools p ON p.id = q.pool_id JOIN channels c ON c.id = p.channel_id WHERE q.task_id = $1", task); got != channel {
			t.Errorf("the code is sent by %s, want %s", got, channel)
		}
	}
	again("sms")
	b.AddMailbox("mail")
	again("email")
	count(b)
	if n := b.Count("SELECT started FROM verification_hours WHERE subject = '+86'"); n != 2 {
		t.Errorf("%d codes are counted for the prefix, want the 2 by SMS", n)
	}
	b.Expect(200, "", "PATCH", "/api/v1/admin/channels/email", map[string]any{"status": "off"})
	again("sms")
}

func TestTheLanguageOfATemplateIsThatOfTheCountry(t *testing.T) {
	b := newServer(t)
	open(b)
	mail := b.AddMailbox("mail")
	for no, translations := range map[string]map[string]string{"en": {"en": "code {code}"}, "de": {"en": "code {code}", "de": "Code {code}."}, "none": {}} {
		b.Expect(200, "", "POST", "/api/v1/admin/template", map[string]any{
			"template_no": no, "template_name": no, "language": "zh", "template_content": "验证码{code}", "translations": translations,
		})
	}
	for no, want := range map[string]string{"en": "code %s", "de": "Code %s.", "none": "验证码%s"} {
		start(b, map[string]any{"phone_number": german, "template_no": no, "purpose": no})
		if text, code := received(b); text != fmt.Sprintf(want, code) {
			t.Errorf("%s: a German number gets %q", no, text)
		}
		allowMore(b)
	}
	start(b, map[string]any{"template_no": "de"})
	if text, code := received(b); text != "验证码"+code {
		t.Errorf("a Chinese number gets %q", text)
	}
	b.App.Pusher.Start()
	b.AwaitStatus(start(b, map[string]any{"phone_number": nil, "email": "ann@example.com", "template_no": "de"}).TaskID, 2)
	if text := strings.Join(sliceOf(mail.Of("ann@example.com")), "\n"); !strings.Contains(text, "验证码") || strings.Contains(text, "Your") {
		t.Errorf("the mail is %s", text)
	}
}

func TestCodesAreCheckedAsPeopleEnterThem(t *testing.T) {
	b := stepsOf{newServer(t)}
	b.Expect(200, "", "PUT", "/api/v1/admin/settings", map[string]any{"verification": map[string]any{"per_minute": 0, "per_hour": 0},
		"recipient": map[string]any{"caps_verification_per_minute": 0, "caps_verification_per_hour": 0}})
	for _, form := range []func(string) string{
		func(code string) string { return code + " " },
		func(code string) string { return code[:3] + " " + code[3:] },
		func(code string) string { return code[:3] + "-" + code[3:] },
		func(code string) string { return code[:2] + "\u00a0" + code[2:4] + "\u2011" + code[4:] },
		func(code string) string { return strings.Map(func(r rune) rune { return r - '0' + '０' }, code) },
	} {
		id := start(b.Bundle, nil).VerificationID
		_, code := received(b.Bundle)
		b.expect(id, form(code), "approved 4")
	}
	id := start(b.Bundle, nil).VerificationID
	_, code := received(b.Bundle)
	for n, other := range []string{"-", "code " + code, code + "0", "0" + code} {
		b.expect(id, other, fmt.Sprint("pending ", 4-n))
	}
}

func TestAnApprovalIsAnsweredEvenIfItsMessagesCannotBeCancelled(t *testing.T) {
	b := newServer(t)
	id := start(b, nil).VerificationID
	_, code := received(b)
	b.Exec("ALTER TABLE queue RENAME TO queue_renamed")
	got := outcome(check(b, id, code))
	b.Exec("ALTER TABLE queue_renamed RENAME TO queue")
	if got != "approved 4" {
		t.Errorf("the code is %s", got)
	}
}

func TestAnErasureOfAContactFindsItsCodes(t *testing.T) {
	b := newServer(t)
	b.AddMailbox("mail")
	for _, c := range []map[string]any{
		{"user_id": "capitals", "email": "Ann@Example.com"}, {"user_id": "moved", "phone": apptest.Phone, "email": "old@example.com"},
	} {
		b.PutContacts(c)
		start(b, map[string]any{"phone_number": nil, "user_id": c["user_id"], "channel": "email"})
	}
	start(b, map[string]any{"phone_number": nil, "user_id": "moved"})
	b.PutContacts(map[string]any{"user_id": "moved", "phone": "13900139001", "email": "new@example.com"})
	for _, user := range []string{"capitals", "moved"} {
		b.Expect(200, "", "POST", "/api/v1/contacts/erasures", map[string]any{"user_id": user})
	}
	b.RunErasures()
	if n := b.Count("SELECT count(*) FROM verifications") + b.Count("SELECT count(*) FROM queue"); n != 0 {
		t.Errorf("%d verifications and waiting messages are left", n)
	}
}

func TestACodeIsNotDeferredByItsTemplate(t *testing.T) {
	b := newServer(t)
	b.Expect(200, "", "POST", "/api/v1/admin/template", map[string]any{
		"template_no": "later", "template_name": "later", "template_content": "code {code}", "send_type": "scheduled",
	})
	start(b, map[string]any{"template_no": "later"})
	if text, code := received(b); text != "code "+code {
		t.Errorf("the text is %q", text)
	}
}
