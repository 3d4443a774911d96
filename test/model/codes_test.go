package model

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"lksms/internal/app"
	"lksms/internal/platform/secret"
)

// This file checks verifications against a third model (V1): two companies start, resend, check and cancel codes for the same persons, while time passes and
// keys are rotated. Limits are off, because caps have a model of their own.

// verification is a code that was sent to a person. status is the state that the API shows.
type verification struct {
	id, code          string
	company           *company
	person            *person
	purpose           string
	status            string
	checks, maxChecks int
	expires           time.Time
	tasks             []string
	isSwept           bool // a sweep has stored that it expired
}

// person is a person as requests name it. Two persons with the same address are the same recipient.
type person struct {
	fields  map[string]any
	channel string
	address string
}

var persons = []*person{
	{map[string]any{"phone_number": "13800138000"}, "sms", "+8613800138000"},
	{map[string]any{"phone_number": "+86 138-0013-8000"}, "sms", "+8613800138000"},
	{map[string]any{"user_id": "ann"}, "sms", "+8613800138000"},
	{map[string]any{"phone_number": "13900139001"}, "sms", "+8613900139001"},
	{map[string]any{"email": "Ann@Example.com"}, "email", "ann@example.com"},
	{map[string]any{"user_id": "ann", "channel": "email"}, "email", "ann@example.com"},
}

const (
	codePending   = "pending"
	codeApproved  = "approved"
	codeExpired   = "expired"
	codeExhausted = "exhausted"
	codeCancelled = "cancelled"
)

// slowest is the longest time of a request until the server checks whether its message can still be sent.
const slowest = 5 * time.Second

// signIns is the model of verifications.
type signIns struct {
	service   *service
	phone     string // another one in each sequence, because the service remembers known senders
	now       time.Time
	companies []*company
	all       []*verification
	waiting   map[string]*verification // by task: messages by SMS that no sender has claimed
	maxChecks int
	oldKey    string // the server still has this key; empty: it has only one key
	key       string // the first key of the server
	isRotated bool   // oldKey encrypts nothing any more
}

func TestVerificationsMatchTheModel(t *testing.T) {
	s := newService(t, 1)
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		q := newSignIns(t, s, n)
		t.Repeat(map[string]func(*rapid.T){
			"":                                q.checkRows,
			"start":                           q.step(q.start),
			"start again":                     q.step(q.start),
			"resend":                          q.step(q.resend),
			"check the right code":            q.step(q.checkRight),
			"check the right code as typed":   q.step(q.checkRightAsTyped),
			"check a wrong code":              q.step(q.checkWrong),
			"check another wrong code":        q.step(q.checkWrong),
			"check the code of another":       q.step(q.checkOther),
			"check by the person":             q.step(q.checkOfPerson),
			"cancel":                          q.step(q.cancel),
			"read":                            q.step(q.read),
			"claim":                           q.step(q.claim),
			"let time pass":                   q.pass,
			"let time pass until a code ends": q.passUntil,
			"expire":                          q.step(q.expire),
			"change the maximum of checks":    q.step(q.changeMaximum),
			"rotate the keys":                 q.step(q.rotate),
		})
	})
}

func newSignIns(t *rapid.T, s *service, n int) *signIns {
	s.empty(t)
	q := &signIns{service: s, phone: fmt.Sprint("code-phone", n), waiting: map[string]*verification{}, maxChecks: 5, key: secret.NewKey()}
	q.moveTo(t, time.Now().UTC().Truncate(24*time.Hour).Add(40*time.Hour)) // later than the clock of this process
	q.restart(t)
	q.set(t, map[string]any{"per_minute": 0, "per_hour": 0, "per_day": 0, "unproven_per_day": 0, "max_checks": q.maxChecks})
	for i := range 2 {
		no := fmt.Sprintf("codes%d-%d", n, i)
		admin := func(method, path string, body any) answer {
			a := s.call(t, "", method, path, body)
			if a.Status != http.StatusOK {
				t.Fatalf("%s %s: %s", method, path, a.Raw)
			}
			return a
		}
		admin(http.MethodPost, "/api/v1/admin/companies", map[string]any{"company_no": no, "name": no})
		admin(http.MethodPost, "/api/v1/admin/users", map[string]any{"username": no, "role": "submit", "company_no": no})
		key := dataOf[struct{ Key string }](t, admin(http.MethodPost, "/api/v1/admin/users/"+no+"/keys", map[string]any{"name": "key"})).Key
		c := &company{no: no, users: []*user{{no, key}}}
		q.companies = append(q.companies, c)
		if a := q.call(t, c, http.MethodPut, "/api/v1/admin/contacts", map[string]any{"contacts": []any{map[string]any{"user_id": "ann", "phone": "13800138000", "email": "ann@example.com"}}}); a.Status != http.StatusOK {
			t.Fatalf("contact: %s", a.Raw)
		}
	}
	return q
}

// restart replaces the server by one with the current keys.
func (q *signIns) restart(t *rapid.T) {
	keys := []string{q.key}
	if q.oldKey != "" {
		keys = append(keys, q.oldKey)
	}
	box, err := secret.NewBox(keys...)
	if err != nil {
		t.Fatal(err)
	}
	q.service.secrets = box
	q.service.servers[0].Close()
	if q.service.servers[0], err = q.service.start(); err != nil {
		t.Fatal(err)
	}
}

func (q *signIns) set(t *rapid.T, values map[string]any) {
	if a := q.service.call(t, "", http.MethodPut, "/api/v1/admin/settings", map[string]any{"verification": values}); a.Status != http.StatusOK {
		t.Fatalf("settings %v: %s", values, a.Raw)
	}
}

func (q *signIns) call(t *rapid.T, c *company, method, path string, body any) answer {
	t.Helper()
	return q.service.call(t, c.users[0].key, method, path, body)
}

// step returns a step that moves the time by a tick and then runs do.
func (q *signIns) step(do func(*rapid.T)) func(*rapid.T) {
	return func(t *rapid.T) {
		q.moveTo(t, q.now.Add(tick))
		do(t)
	}
}

// moveTo moves the clock. Verifications whose time has passed are expired from then on, although no sweep has run.
func (q *signIns) moveTo(t *rapid.T, at time.Time) {
	q.now = at
	q.service.set(t, at)
	for _, v := range q.all {
		if v.status == codePending && !at.Before(v.expires) {
			v.status = codeExpired
		}
	}
}

// end ends a pending verification, and takes back its messages.
func (q *signIns) end(v *verification, status string) {
	v.status = status
	for _, task := range v.tasks {
		delete(q.waiting, task)
	}
}

// newest returns the newest verification of a person for a purpose, or nil.
func (q *signIns) newest(c *company, p *person, purpose string) *verification {
	for _, v := range slices.Backward(q.all) {
		if v.company == c && v.person.channel == p.channel && v.person.address == p.address && v.purpose == purpose {
			return v
		}
	}
	return nil
}

// stored returns the verifications that are stored as pending: those that have expired are stored as pending until a sweep.
func (q *signIns) stored() []*verification {
	return slices.DeleteFunc(slices.Clone(q.all), func(v *verification) bool {
		return v.status != codePending && (v.status != codeExpired || v.isSwept)
	})
}

// some draws a verification, mostly one that is stored as pending.
func (q *signIns) some(t *rapid.T) *verification {
	if stored := q.stored(); len(stored) > 0 && oneOf(t, "only a stored one", true, true, true, false) {
		return oneOf(t, "verification", stored...)
	}
	return someOf(t, "verification", q.all)
}

// codeStarted is the response to a start or a resend.
type codeStarted struct {
	VerificationID string    `json:"verification_id"`
	Status         string    `json:"status"`
	ExpiresAt      time.Time `json:"expires_at"`
	TaskID         string    `json:"task_id"`
}

// drawn draws a company, a person and a purpose.
func (q *signIns) drawn(t *rapid.T) (*company, *person, string, map[string]any) {
	c, p, purpose := oneOf(t, "company", q.companies...), oneOf(t, "person", persons...), oneOf(t, "purpose", "login", "pay")
	body := map[string]any{"purpose": purpose}
	for name, value := range p.fields {
		body[name] = value
	}
	return c, p, purpose, body
}

func (q *signIns) start(t *rapid.T) {
	c, p, purpose, body := q.drawn(t)
	ttl := 5 * time.Minute
	if seconds := optional(t, "ttl", 30, 3600); seconds != nil {
		body["ttl_seconds"], ttl = *seconds, time.Duration(*seconds)*time.Second
	}
	if former := q.newest(c, p, purpose); former != nil && former.status == codePending {
		q.end(former, codeCancelled)
	} else if former != nil && former.status == codeExpired {
		q.end(former, codeExpired)
		former.isSwept = true
	}
	made := dataOf[codeStarted](t, q.call(t, c, http.MethodPost, "/api/v1/verifications", body))
	v := &verification{id: made.VerificationID, company: c, person: p, purpose: purpose, status: codePending, maxChecks: q.maxChecks, expires: q.now.Add(ttl)}
	if made.Status != codePending || !made.ExpiresAt.Equal(v.expires) {
		t.Fatalf("start of %v at %s with ttl %s: %+v", p.fields, q.now, ttl, made)
	}
	q.all = append(q.all, v)
	q.sent(t, v, made.TaskID)
	v.code = q.sealed(t, v)
	t.Logf("%s: %s starts %s for %v, %s: %s", q.now, c.no, v.id, p.fields, purpose, v.code)
}

// sent records a message of a verification. The server computes its expires_at with its own clock, which is earlier than the stopped clock of the database.
func (q *signIns) sent(t *rapid.T, v *verification, task string) {
	v.tasks = append(v.tasks, task)
	if _, err := q.service.db.Exec(t.Context(), "UPDATE queue SET expires_at = $2 WHERE task_id = $1", task, v.expires); err != nil {
		t.Fatal(err)
	}
	if v.person.channel == "sms" {
		q.waiting[task] = v
	}
}

// sealed returns the code of a pending verification from its encrypted column.
func (q *signIns) sealed(t *rapid.T, v *verification) string {
	var sealed string
	err := q.service.db.QueryRow(t.Context(), "SELECT sealed FROM verifications WHERE verification_id = $1", v.id).Scan(&sealed)
	if err != nil {
		t.Fatal(err)
	}
	code, err := q.service.secrets.Decrypt(sealed, "verification "+v.id)
	if err != nil {
		t.Fatal(err)
	}
	return code
}

func (q *signIns) resend(t *rapid.T) {
	v := q.some(t)
	a := q.call(t, v.company, http.MethodPost, "/api/v1/verifications/"+v.id+"/resend", nil)
	t.Logf("%s: resend of %s, which is %s", q.now, v.id, v.status)
	left := v.expires.Sub(q.now)
	switch {
	case v.status != codePending:
		q.expect(t, a, "409 verification."+v.status)
		return
	case left <= minLease, left < slowest && a.Status == http.StatusConflict: // the code would expire before a sender could send it
		q.expect(t, a, "409 verification."+codeExpired)
		return
	}
	made := dataOf[codeStarted](t, a)
	if made.VerificationID != v.id || !made.ExpiresAt.Equal(v.expires) || slices.Contains(v.tasks, made.TaskID) {
		t.Fatalf("resend of %+v: %+v", v, made)
	}
	q.sent(t, v, made.TaskID)
	if code := q.sealed(t, v); code != v.code {
		t.Fatalf("the code of %s changed from %s to %s", v.id, v.code, code)
	}
}

// given checks a code in the model, and returns the expected answer.
func (q *signIns) given(v *verification, code string) string {
	if v.status != codePending {
		return "409 verification." + v.status
	}
	v.checks++
	switch {
	case code == v.code:
		q.end(v, codeApproved)
		return fmt.Sprint("approved ", v.maxChecks-v.checks)
	case v.checks == v.maxChecks:
		q.end(v, codeExhausted)
		return "409 verification." + codeExhausted
	default:
		return fmt.Sprint("pending ", v.maxChecks-v.checks)
	}
}

// expect compares an answer with the expected one: a status and reason, or the outcome of a check.
func (q *signIns) expect(t *rapid.T, a answer, want string) {
	t.Helper()
	got := fmt.Sprint(a.Status, " ", a.Body.Error.Reason)
	if a.Status == http.StatusOK {
		outcome := dataOf[struct {
			Status string
			Left   int `json:"attempts_left"`
		}](t, a)
		got = fmt.Sprint(outcome.Status, " ", outcome.Left)
	}
	if got != want {
		t.Fatalf("the answer is %s, want %s: %s", got, want, a.Raw)
	}
}

func (q *signIns) checkCode(t *rapid.T, v *verification, code string) {
	t.Helper()
	t.Logf("%s: check of %s with %s", q.now, v.id, code)
	a := q.call(t, v.company, http.MethodPost, "/api/v1/verifications/"+v.id+"/check", map[string]any{"code": code})
	q.expect(t, a, q.given(v, code))
}

func (q *signIns) checkRight(t *rapid.T) {
	v := q.some(t)
	q.checkCode(t, v, v.code)
}

// checkRightAsTyped checks the right code in another notation.
func (q *signIns) checkRightAsTyped(t *rapid.T) {
	v := q.some(t)
	code := oneOf(t, "notation", " "+v.code+" ", v.code[:1]+"-"+v.code[1:], string('０'+rune(v.code[0]-'0'))+v.code[1:])
	a := q.call(t, v.company, http.MethodPost, "/api/v1/verifications/"+v.id+"/check", map[string]any{"code": code})
	q.expect(t, a, q.given(v, v.code))
}

// checkWrong checks codes that differ from the right one: a changed digit, a part, more digits, another character, or no digits at all.
func (q *signIns) checkWrong(t *rapid.T) {
	v := q.some(t)
	changed := string('0'+(v.code[0]-'0'+1)%10) + v.code[1:]
	q.checkCode(t, v, oneOf(t, "code", changed, changed, v.code[1:], v.code+"0", "x"+v.code, "code"))
}

// checkOther checks the code of another verification, or checks a code as another company.
func (q *signIns) checkOther(t *rapid.T) {
	v, other := q.some(t), someOf(t, "another verification", q.all)
	if v.company == other.company {
		q.checkCode(t, v, other.code)
		return
	}
	for _, act := range []string{"check", "resend", "cancel"} {
		var body any
		if act == "check" {
			body = map[string]any{"code": v.code}
		}
		q.expect(t, q.call(t, other.company, http.MethodPost, "/api/v1/verifications/"+v.id+"/"+act, body), "404 verification.not_found")
	}
}

// checkOfPerson checks a code of a person without the id: only the newest verification of the person and the purpose counts.
func (q *signIns) checkOfPerson(t *rapid.T) {
	c, p, purpose, body := q.drawn(t)
	code, want := "000000", "409 verification.expired"
	if len(q.all) > 0 {
		code = oneOf(t, "code of", q.all...).code
	}
	newest := q.newest(c, p, purpose)
	if newest != nil {
		code = oneOf(t, "code", code, newest.code)
		want = q.given(newest, code)
	}
	body["code"] = code
	t.Logf("%s: %s checks %s of %v, %s", q.now, c.no, code, p.fields, purpose)
	q.expect(t, q.call(t, c, http.MethodPost, "/api/v1/verifications/check", body), want)
}

func (q *signIns) cancel(t *rapid.T) {
	v := q.some(t)
	t.Logf("%s: cancel %s, which is %s", q.now, v.id, v.status)
	a := q.call(t, v.company, http.MethodPost, "/api/v1/verifications/"+v.id+"/cancel", nil)
	switch {
	case v.status != codePending:
		q.expect(t, a, "409 verification."+v.status)
	case a.Status != http.StatusOK:
		t.Fatalf("cancel: %s", a.Raw)
	default:
		q.end(v, codeCancelled)
	}
}

func (q *signIns) read(t *rapid.T) {
	v := q.some(t)
	got := dataOf[struct {
		Status, Purpose, Channel string
		Left                     int        `json:"attempts_left"`
		ExpiresAt                time.Time  `json:"expires_at"`
		EndedAt                  *time.Time `json:"ended_at"`
		TaskIDs                  []string   `json:"task_ids"`
	}](t, q.call(t, v.company, http.MethodGet, "/api/v1/verifications/"+v.id, nil))
	if got.Status != v.status || got.Purpose != v.purpose || got.Channel != v.person.channel || got.Left != v.maxChecks-v.checks || !got.ExpiresAt.Equal(v.expires) ||
		!slices.Equal(got.TaskIDs, v.tasks) || (got.EndedAt == nil) != (v.status == codePending) {
		t.Fatalf("the verification is %+v, want %+v", got, v)
	}
}

// claim claims all messages. It gets each waiting message of a pending verification, with its code, and no other message.
func (q *signIns) claim(t *rapid.T) {
	rows := dataOf[[]claimedTask](t, q.service.call(t, "", http.MethodPost, "/api/v1/sms/tasks/claim", map[string]any{"app_id": q.phone, "limit": 500}))
	t.Logf("%s: %d claimed", q.now, len(rows))
	for _, row := range rows {
		v := q.waiting[row.TaskID]
		if v == nil || v.status != codePending || !strings.Contains(row.Content, v.code) {
			t.Fatalf("claimed %+v, of the verification %+v", row, v)
		}
		delete(q.waiting, row.TaskID)
		body := map[string]any{"task_id": row.TaskID, "app_id": q.phone, "lease_id": row.LeaseID, "status": success}
		if a := q.service.call(t, "", http.MethodPost, "/api/v1/sms/report", body); a.Status != http.StatusOK {
			t.Fatalf("report: %s", a.Raw)
		}
	}
	for task, v := range q.waiting {
		if q.now.Add(minLease).Before(v.expires) {
			t.Fatalf("the message %s of %+v was not claimed", task, v)
		}
	}
}

func (q *signIns) pass(t *rapid.T) {
	q.moveTo(t, q.now.Add(time.Duration(rapid.IntRange(1, 90).Draw(t, "seconds"))*time.Second))
}

// passUntil moves the clock to the expiry of a pending verification, or to a moment shortly before it.
func (q *signIns) passUntil(t *rapid.T) {
	at := someOf(t, "verification", q.stored()).expires.Add(oneOf(t, "distance", -minLease-2*tick, -minLease, -2*tick, -tick, 0, tick))
	if at.After(q.now) {
		q.moveTo(t, at)
	}
}

func (q *signIns) expire(t *rapid.T) {
	want := 0
	for _, v := range q.all {
		if v.status == codeExpired && !v.isSwept {
			v.isSwept = true
			want++
		}
	}
	if got, err := q.service.any().Verifications.Expire(t.Context()); got != want || err != nil {
		t.Fatalf("%d expired, want %d, %v", got, want, err)
	}
}

func (q *signIns) changeMaximum(t *rapid.T) {
	q.maxChecks = oneOf(t, "maximum", 1, 2, 3, 5)
	q.set(t, map[string]any{"max_checks": q.maxChecks})
}

// rotate does the next steps of a rotation.
func (q *signIns) rotate(t *rapid.T) {
	for range rapid.IntRange(1, 3).Draw(t, "steps") {
		q.rotateOnce(t)
	}
}

// rotateOnce adds a key, encrypts everything with it, or removes the former key.
func (q *signIns) rotateOnce(t *rapid.T) {
	switch {
	case q.oldKey == "":
		q.oldKey, q.key, q.isRotated = q.key, secret.NewKey(), false
		q.restart(t)
	case !q.isRotated:
		q.isRotated = true
		if _, err := app.RotateSecrets(t.Context(), q.service.url, q.service.secrets); err != nil {
			t.Fatal(err)
		}
	default:
		q.oldKey = ""
		q.restart(t)
	}
}

// checkRows compares all verifications with the model. Only pending ones have secrets, and a person has one pending verification for each purpose.
func (q *signIns) checkRows(t *rapid.T) {
	rows, err := q.service.db.Query(t.Context(), `SELECT verification_id, status, checks, num_nonnulls(digest, sealed),
		count(*) FILTER (WHERE status = 'pending') OVER (PARTITION BY company_id, channel, recipient, purpose) FROM verifications ORDER BY created_at`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	i := 0
	for ; rows.Next(); i++ {
		var id, status string
		var checks, secrets, pending int
		if err := rows.Scan(&id, &status, &checks, &secrets, &pending); err != nil {
			t.Fatal(err)
		}
		v := q.all[i]
		want, wantSecrets := v.status, 0
		if v.status == codeExpired && !v.isSwept {
			want = codePending
		}
		if want == codePending {
			wantSecrets = 2
		}
		if id != v.id || status != want || checks != v.checks || checks > v.maxChecks || secrets != wantSecrets || pending > 1 {
			t.Fatalf("%s is %s after %d checks, with %d secrets, and %d pending; want %+v", id, status, checks, secrets, pending, v)
		}
	}
	if rows.Err() != nil || i != len(q.all) {
		t.Fatalf("%d verifications, want %d, %v", i, len(q.all), rows.Err())
	}
}
