package verification_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/app"
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
	id := start(b, nil).VerificationID
	_, code := received(b)
	second := apptest.Another(b)
	var approved, counted, refused atomic.Int64
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			given := wrong(code)
			if i%4 == 3 {
				given = code
			}
			services := b.App.Verifications
			if i%2 == 0 {
				services = second.Verifications
			}
			got, err := services.Check(t.Context(), company(b), id, given)
			switch {
			case err != nil:
				refused.Add(1)
			case got.Status == "approved":
				approved.Add(1)
			default:
				counted.Add(1)
			}
		})
	}
	all.Wait()
	checks := b.Count("SELECT checks FROM verifications")
	if approved.Load() > 1 || checks > 5 || int(approved.Load()+counted.Load()) > checks {
		t.Errorf("%d approved, %d wrong, %d refused, %d counted", approved.Load(), counted.Load(), refused.Load(), checks)
	}
}

func company(b *apptest.Bundle) int64 {
	b.T.Helper()
	return apptest.Scan[int64](b, "SELECT id FROM companies WHERE company_no = 'default'")
}

func TestConcurrentStartsLeaveOnePendingVerification(t *testing.T) {
	b := newServer(t)
	b.Expect(200, "", "PUT", "/api/v1/admin/settings", map[string]any{"verification": map[string]any{"per_minute": 0, "per_hour": 0, "per_day": 0}})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 5 {
				start(b, nil)
			}
		})
	}
	all.Wait()
	if n := b.Count("SELECT count(*) FROM verifications WHERE status = 'pending'"); n != 1 {
		t.Errorf("%d verifications are pending", n)
	}
	if n := b.Count("SELECT count(*) FROM verifications"); n != 20 {
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

func TestACancelledCodeIsCountedOnlyIfASenderGotIt(t *testing.T) {
	b := newServer(t)
	cancel := func(id string) {
		t.Helper()
		b.Expect(200, "", "POST", path+"/"+id+"/cancel", nil)
	}
	cancel(start(b, map[string]any{"client_ip": "203.0.113.9"}).VerificationID)
	id := start(b, nil).VerificationID
	received(b)
	cancel(id)
	b.Expect(429, "recipient.limited", "POST", path, request(nil))
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
	for range 2 {
		b.Exec("UPDATE erasures SET next_at = now()")
		if _, err := b.App.Erasures.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
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
