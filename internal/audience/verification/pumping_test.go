package verification_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/audience/verification"
	"lksms/internal/dispatch/queue"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/platform/fault"
	"lksms/internal/testkit/apptest"
)

const (
	german = "+4915112345678"
	french = "+33612345678"
)

func refused(b *apptest.Bundle, reason, number string, headers ...string) {
	b.T.Helper()
	if a := b.Expect(409, reason, "POST", path, request(map[string]any{"phone_number": number}), headers...); a.Fields() != "phone_number" {
		b.T.Errorf("wrong fields %s", a.Fields())
	}
}

func patchCompany(b *apptest.Bundle, no string, change map[string]any) {
	b.T.Helper()
	b.Expect(200, "", "PATCH", "/api/v1/admin/companies/"+no, change)
}

func TestCodesGoToOpenCountriesOnly(t *testing.T) {
	b := newServer(t)
	acme := b.AddCompany("acme", 1)
	refused(b, "recipient.country_closed", german)
	start(b, nil)
	b.Expect(200, "", "PUT", "/api/v1/admin/settings", map[string]any{"verification": map[string]any{"countries": "DE,ID"}})
	started := start(b, map[string]any{"phone_number": german})
	refused(b, "recipient.country_closed", french)
	// A company's own list replaces the list of the settings. The country of the company stays open.
	patchCompany(b, "acme", map[string]any{"recipient": map[string]any{"verification_countries": []string{"FR"}}})
	refused(b, "recipient.country_closed", german, acme...)
	b.Expect(200, "", "POST", path, request(map[string]any{"phone_number": french}), acme...)
	b.Expect(200, "", "POST", path, request(nil), acme...)
	patchCompany(b, "acme", map[string]any{"default_region": "DE", "recipient": map[string]any{"verification_countries": []string{}}})
	b.Expect(200, "", "POST", path, request(map[string]any{"phone_number": german}), acme...)
	refused(b, "recipient.country_closed", "+8613800138001", acme...)
	patchCompany(b, "acme", map[string]any{"recipient": map[string]any{"verification_countries": nil}})
	b.Expect(200, "", "POST", path, request(map[string]any{"phone_number": "+6281234567890"}), acme...)
	// A resend is refused, too, after the country was closed. Other channels have no countries.
	b.Expect(200, "", "PUT", "/api/v1/admin/settings", map[string]any{"verification": map[string]any{"countries": ""}})
	b.Expect(409, "recipient.country_closed", "POST", path+"/"+started.VerificationID+"/resend", nil)
	b.AddMailbox("mail")
	start(b, map[string]any{"phone_number": nil, "email": "ann@example.com"})
	if n := b.Count("SELECT count(*) FROM verifications"); n != 7 {
		t.Errorf("%d verifications", n)
	}
}

func TestAnUnknownCountryIsNamed(t *testing.T) {
	b := newServer(t)
	for _, a := range []apptest.Answer{
		b.Expect(422, "request.invalid", "PATCH", "/api/v1/admin/companies/default", map[string]any{"recipient": map[string]any{"verification_countries": []string{"DE", "XY"}}}),
		b.Expect(422, "request.invalid", "PUT", "/api/v1/admin/settings", map[string]any{"verification": map[string]any{"countries": "DE,XY"}}),
	} {
		if !strings.Contains(a.Raw, "XY") {
			t.Errorf("the fault does not name the country: %s", a.Raw)
		}
	}
}

func TestListsOfCountriesAreChecked(t *testing.T) {
	b := newServer(t)
	for _, countries := range []string{"XX", "DE,XX", "de", "DE, FR", "DE,"} {
		if a := b.Expect(422, "request.invalid", "PUT", "/api/v1/admin/settings", map[string]any{"verification": map[string]any{"countries": countries}}); a.Fields() != "verification.countries" {
			t.Errorf("%s: wrong fields %s", countries, a.Fields())
		}
	}
	a := b.Expect(422, "request.invalid", "PATCH", "/api/v1/admin/companies/default", map[string]any{"recipient": map[string]any{"verification_countries": []string{"DE", "XX"}}})
	if a.Fields() != "recipient.verification_countries.1" {
		t.Errorf("wrong fields %s", a.Fields())
	}
}

func TestNoCodesGoToFixedLinesAndServiceNumbers(t *testing.T) {
	b := newServer(t)
	b.Expect(200, "", "PUT", "/api/v1/admin/settings", map[string]any{"verification": map[string]any{"countries": "DE,GB,US"}})
	for kind, number := range map[string]string{
		"fixed line": "+493012345678", "fixed line of China": "+861062552266", "premium": "+19002345678", "toll free": "+498001234567", "shared cost": "+4918012345678",
		"universal": "+443001234567", "pager": "+447640123456", "personal": "+447012345678",
	} {
		a := b.Expect(422, "request.invalid", "POST", path, request(map[string]any{"phone_number": number}))
		if a.Fields() != "phone_number" || !strings.Contains(a.Raw, "fixed line or a service number") {
			t.Errorf("%s: %s", kind, a.Raw)
		}
	}
	for kind, number := range map[string]string{"mobile": german, "fixed or mobile": "+12015550123", "VoIP": "+445612345678"} {
		if a := b.Call("POST", path, request(map[string]any{"phone_number": number})); a.Status != 200 {
			t.Errorf("%s: %s", kind, a.Raw)
		}
	}
}

// cold starts n verifications for numbers of a prefix, and returns how many started. Each number and client is another one.
func cold(b *apptest.Bundle, prefix string, first, n int, headers ...string) (started int) {
	b.T.Helper()
	for i := range n {
		number := fmt.Sprintf("%s%0*d", prefix, len(german)-len(prefix), (first+i)*97)
		a := b.Call("POST", path, request(map[string]any{"phone_number": number}), headers...)
		switch {
		case a.Status == 200:
			started++
		case a.Status != 409 || a.Body.Error.Reason != "recipient.suspected":
			b.T.Fatalf("%s: %s", number, a.Raw)
		}
	}
	return started
}

// approveSome approves the pending verifications of a prefix, and counts them.
func approveSome(b *apptest.Bundle, prefix string, n int) {
	b.T.Helper()
	storeApproved(b, apptest.Scan[[]string](b, `SELECT coalesce(array_agg(o.verification_id), '{}') FROM (
		SELECT v.verification_id FROM verifications v WHERE v.status = 'pending' AND starts_with(v.recipient, $1) ORDER BY v.created_at LIMIT $2) o`, prefix, n))
	count(b)
}

// storeApproved approves pending verifications as VerificationCheck does.
func storeApproved(b *apptest.Bundle, ids []string) {
	b.T.Helper()
	b.Exec(`WITH approved AS (
			UPDATE verifications SET status = 'approved', ended_at = clock_timestamp(), digest = NULL, sealed = NULL
			WHERE verification_id = ANY ($1) AND status = 'pending' RETURNING *
		)
		INSERT INTO verification_hours_staged (company_id, hour, subjects, started, approved)
		SELECT company_id, date_trunc('hour', created_at, 'UTC'), subjects, 0, 1 FROM approved`, ids)
}

func count(b *apptest.Bundle) {
	b.T.Helper()
	if _, err := b.App.Verifications.Count(b.T.Context()); err != nil {
		b.T.Fatal(err)
	}
}

// later acts as if hours had passed.
func later(b *apptest.Bundle, hours int) {
	b.T.Helper()
	b.Exec(`UPDATE verification_hours SET hour = hour - make_interval(hours => $1)`, hours)
	b.Exec(`UPDATE verifications SET created_at = created_at - make_interval(hours => $1), expires_at = expires_at - make_interval(hours => $1)`, hours)
	b.Exec(`UPDATE verification_subjects SET derived_at = derived_at - make_interval(hours => $1)`, hours)
	b.Exec(`UPDATE capped_recipients SET times = ARRAY(SELECT t - make_interval(hours => $1) FROM unnest(times) AS t)`, hours)
}

// open opens Germany, without the limits of clients.
func open(b *apptest.Bundle) {
	b.T.Helper()
	b.Expect(200, "", "PUT", "/api/v1/admin/settings", map[string]any{"verification": map[string]any{"countries": "DE", "client_per_hour": 0, "client_per_day": 0}})
}

func TestAnUnprovenPrefixGetsTwentyCodes(t *testing.T) {
	b := newServer(t)
	open(b)
	acme := b.AddCompany("acme", 1)
	if n := cold(b, "+491511", 0, 25); n != 20 {
		t.Errorf("%d codes, want 20", n)
	}
	refused(b, "recipient.suspected", "+4915190000001")
	start(b, nil) // another country
	if n := b.Count("SELECT count(*) FROM verifications"); n != 21 {
		t.Errorf("%d verifications, want 21", n)
	}
	// The codes of one company say nothing about the codes of another one.
	if n := cold(b, "+491511", 0, 3, acme...); n != 3 {
		t.Errorf("%d codes of the other company, want 3", n)
	}
	b.Expect(200, "", "PUT", "/api/v1/admin/settings", map[string]any{"verification": map[string]any{"unproven_per_day": 0}})
	if n := cold(b, "+491512", 0, 3); n != 3 {
		t.Errorf("%d codes without a maximum, want 3", n)
	}
	b.Expect(200, "", "PUT", "/api/v1/admin/settings", map[string]any{"verification": map[string]any{"unproven_per_day": 20}})
	later(b, 25)
	if n := cold(b, "+491513", 0, 2); n != 2 {
		t.Errorf("%d codes after a day, want 2", n)
	}
}

func TestApprovedCodesProveTheirPrefixes(t *testing.T) {
	b := newServer(t)
	open(b)
	acme := b.AddCompany("acme", 1)
	cold(b, "+491511", 0, 20)
	approveSome(b, "+491511", 1)
	refused(b, "recipient.suspected", "+4915190000001")
	approveSome(b, "+491511", 1)
	if n := cold(b, "+491511", 20, 30); n != 30 {
		t.Errorf("%d codes for a proven prefix, want 30", n)
	}
	// A cold prefix of a proven country still gets 20 codes.
	cold(b, "+491728", 0, 25)
	if n := b.Count("SELECT count(*) FROM verifications WHERE recipient LIKE '+491728%'"); n != 20 {
		t.Errorf("%d codes for a cold prefix, want 20", n)
	}
	if n := cold(b, "+491511", 0, 25, acme...); n != 20 {
		t.Errorf("%d codes of the other company, want 20", n)
	}
	// With the 51st code for each approved one, the prefix is not proven any more: less than a tenth is approved.
	count(b)
	if n := b.Count("SELECT count(*) FROM verification_subjects WHERE subject = '+49' AND is_proven"); n != 0 {
		t.Errorf("a prefix with 2 of 70 codes approved is proven")
	}
}

func TestAProvenPrefixLosesItsProof(t *testing.T) {
	b := newServer(t)
	open(b)
	proven := func(want int) {
		t.Helper()
		if n := b.Count("SELECT count(*) FROM verification_subjects WHERE subject = '+49' AND is_proven"); n != want {
			t.Errorf("+49: %d proven rows, want %d", n, want)
		}
	}
	cold(b, "+491511", 0, 20)
	approveSome(b, "+491511", 20)
	later(b, 3)
	count(b)
	proven(1)
	hour := func(started, approved int) {
		t.Helper()
		b.Exec(`INSERT INTO verification_hours (company_id, subject, hour, started, approved) VALUES ($1, '+49', date_trunc('hour', now(), 'UTC'), $2, $3)
			ON CONFLICT (company_id, subject, hour) DO UPDATE SET started = excluded.started, approved = excluded.approved`, company(b), started, approved)
		b.Exec("UPDATE verification_subjects SET derived_at = now() - interval '1 hour'")
		count(b)
	}
	hour(19, 1)
	proven(1)
	hour(20, 2)
	proven(1)
	hour(20, 1)
	proven(0)
	refused(b, "recipient.suspected", "+4915190000001")
	hour(30, 3)
	proven(1)
	// The volume must have risen, too.
	b.Exec("UPDATE verification_hours SET started = 220, approved = 200 WHERE hour < now() - interval '2 hours' AND subject = '+49'")
	hour(20, 0)
	proven(1)
	hour(21, 0)
	proven(0)
	// A prefix without codes within a day is deleted.
	later(b, 25)
	count(b)
	if n := b.Count("SELECT count(*) FROM verification_subjects"); n != 0 {
		t.Errorf("%d subjects are left", n)
	}
}

func TestAnUnprovenNetworkGetsTwentyCodes(t *testing.T) {
	b := newServer(t)
	open(b)
	b.Exec(`INSERT INTO verification_safe (subject, created_by) VALUES ('+491511', 'test')`)
	from := func(ip string, n int) apptest.Answer {
		t.Helper()
		number := fmt.Sprintf("+4917%09d", n*1_000_003)
		b.Exec(`INSERT INTO verification_subjects (company_id, subject, started, approved, is_proven)
			SELECT $1, left($2, n), 9, 9, true FROM generate_series(2, length($2)) AS n ON CONFLICT DO NOTHING`, company(b), number)
		return b.Call("POST", path, request(map[string]any{"phone_number": number, "client_ip": ip}))
	}
	b.Expect(200, "", "PUT", "/api/v1/admin/settings", map[string]any{"verification": map[string]any{"unproven_per_day": 2}})
	for n, ip := range []string{"203.0.113.1", "203.0.113.200", "2001:db8:1::1", "2001:db8:1:ffff::1", "203.0.114.1"} {
		if a := from(ip, 10+n); a.Status != 200 {
			t.Errorf("%s: %s", ip, a.Raw)
		}
	}
	for n, ip := range []string{"203.0.113.77", "::ffff:203.0.113.77", "2001:db8:1:2::3"} {
		if a := from(ip, 20+n); a.Status != 409 || a.Body.Error.Reason != "recipient.suspected" || a.Fields() != "client_ip" {
			t.Errorf("%s: %s", ip, a.Raw)
		}
	}
	b.Exec(`INSERT INTO verification_safe (subject, created_by) VALUES ('203.0.113.0/24', 'test')`)
	if a := from("203.0.113.77", 30); a.Status != 200 {
		t.Errorf("a safe network: %s", a.Raw)
	}
	if a := from("2001:db8:1:2::3", 31); a.Status != 409 {
		t.Errorf("another network: %s", a.Raw)
	}
	b.Expect(200, "", "POST", path, request(map[string]any{"phone_number": "+4915119000001", "client_ip": "2001:db8:1:2::3"})) // a safe prefix
}

func TestNumbersThatAscendAreSuspected(t *testing.T) {
	b := newServer(t)
	b.Expect(200, "", "PUT", "/api/v1/admin/settings", map[string]any{"verification": map[string]any{"unproven_per_day": 1000}})
	number := func(n int) map[string]any { return map[string]any{"phone_number": fmt.Sprintf("+86138%08d", 10000+n)} }
	for n := range 5 {
		start(b, number(n))
	}
	b.Expect(409, "recipient.suspected", "POST", path, request(number(20)))
	start(b, number(24)) // only four codes went to numbers within 20
	if n := b.Count("SELECT count(*) FROM verifications"); n != 6 {
		t.Errorf("%d verifications", n)
	}
	acme := b.AddCompany("acme", 1)
	b.Expect(200, "", "POST", path, request(number(20)), acme...)
	b.Exec("UPDATE verifications SET created_at = created_at - interval '1 hour' WHERE recipient = '+8613800010000'")
	start(b, number(-16)) // one of the five codes was sent an hour ago
	b.Expect(409, "recipient.suspected", "POST", path, request(number(-15)))
	approveSome(b, "+8613800010001", 1)
	start(b, number(-15))
}

func TestABurstAtTwoServersGetsTwentyCodes(t *testing.T) {
	b := newServer(t)
	open(b)
	second := apptest.Another(b)
	var all sync.WaitGroup
	var passed, suspected atomic.Int64
	for i := range 100 {
		all.Go(func() {
			services := b.App.Verifications
			if i%2 == 0 {
				services = second.Verifications
			}
			number := fmt.Sprintf("+491511%07d", i*1000)
			_, err := services.Start(t.Context(), verification.Request{
				Person: verification.Person{PhoneNumber: &number}, Purpose: "login", Client: verification.Client{IP: fmt.Sprintf("10.1.%d.1", i)},
			}, submit.Origin{CompanyID: company(b), User: "admin"})
			switch {
			case err == nil:
				passed.Add(1)
			case fault.Is(err, fault.RecipientSuspected):
				suspected.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	all.Wait()
	if passed.Load() != 20 || suspected.Load() != 80 {
		t.Errorf("%d passed, %d suspected, want 20 and 80", passed.Load(), suspected.Load())
	}
	if n := b.Count("SELECT count(*) FROM verifications"); n != 20 {
		t.Errorf("%d verifications", n)
	}
	for range 2 { // each server counts, and each code counts once
		count(b)
		if _, err := second.Verifications.Count(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := b.Count("SELECT started FROM verification_hours WHERE subject = '+491511'"); n != 20 {
		t.Errorf("%d codes are counted", n)
	}
}

func TestAResendCountsForItsPrefix(t *testing.T) {
	b := newServer(t)
	b.Expect(200, "", "PUT", "/api/v1/admin/settings", map[string]any{"verification": map[string]any{"unproven_per_day": 2, "per_minute": 0}})
	id := start(b, nil).VerificationID
	b.Expect(200, "", "POST", path+"/"+id+"/resend", nil)
	if a := b.Expect(409, "recipient.suspected", "POST", path+"/"+id+"/resend", nil); a.Fields() != "verification_id" {
		t.Errorf("wrong fields %s", a.Fields())
	}
	b.Exec(`INSERT INTO verification_safe (subject, created_by) VALUES ('+86', 'test')`)
	b.Expect(200, "", "POST", path+"/"+id+"/resend", nil)
}

func TestAResendCountsForTheNetworkOfItsClient(t *testing.T) {
	b := newServer(t)
	b.Expect(200, "", "PUT", "/api/v1/admin/settings", map[string]any{"verification": map[string]any{"per_minute": 0}})
	id := start(b, map[string]any{"client_ip": "203.0.113.9"}).VerificationID
	_, code := received(b)
	for _, ip := range []string{"203.0.113.10", "198.51.100.7", "198.51.100.8"} {
		b.Expect(200, "", "POST", path+"/"+id+"/resend", map[string]any{"client_ip": ip})
		received(b)
	}
	check(b, id, code)
	count(b)
	for subject, want := range map[string]string{"+86": "4 1", "203.0.113.0/24": "4 1", "198.51.100.0/24": "4 1"} { // a verification counts for all its subjects
		got := apptest.Scan[string](b, "SELECT coalesce(string_agg(started || ' ' || approved, ','), '') FROM verification_hours WHERE subject = $1", subject)
		if got != want {
			t.Errorf("%s: started and approved are %q, want %q", subject, got, want)
		}
	}
}

// countedFor returns how many codes count for a prefix.
func countedFor(b *apptest.Bundle, prefix string) int {
	b.T.Helper()
	count(b)
	return b.Count("SELECT coalesce(sum(started), 0) FROM verification_hours WHERE subject = $1", prefix)
}

func TestCodesThatNoSenderGotDoNotCount(t *testing.T) {
	for name, end := range map[string]func(b *apptest.Bundle, id string) (want int){
		"cancelled": func(b *apptest.Bundle, id string) int {
			b.Expect(200, "", "POST", path+"/"+id+"/cancel", nil)
			return 0
		},
		"cancelled after a resend": func(b *apptest.Bundle, id string) int {
			b.Expect(200, "", "POST", path+"/"+id+"/resend", nil)
			b.Expect(200, "", "POST", path+"/"+id+"/cancel", nil)
			return 0
		},
		"cancelled after only the first message was sent": func(b *apptest.Bundle, id string) int {
			received(b)
			b.Expect(200, "", "POST", path+"/"+id+"/resend", nil)
			b.Expect(200, "", "POST", path+"/"+id+"/cancel", nil)
			return 1
		},
		"cancelled while a sender has it": func(b *apptest.Bundle, id string) int {
			b.Take("app", 1)
			b.Expect(200, "", "POST", path+"/"+id+"/cancel", nil)
			return 1
		},
		"replaced": func(b *apptest.Bundle, _ string) int {
			start(b, nil)
			return 1
		},
		"replaced after its expiry": func(b *apptest.Bundle, _ string) int {
			expireCodes(b)
			start(b, nil)
			return 1
		},
		"expired in the queue": func(b *apptest.Bundle, _ string) int {
			expireCodes(b)
			return expireVerifications(b)
		},
		"expired before its task was": func(b *apptest.Bundle, _ string) int {
			b.Exec("UPDATE verifications SET expires_at = now() - interval '1 second'")
			return expireVerifications(b)
		},
		"returned by its sender": func(b *apptest.Bundle, _ string) int {
			task := b.Take("app", 1)[0]
			if n, err := b.App.Queue.Release(b.T.Context(), "app", []queue.Unused{{TaskID: task.TaskID, LeaseID: task.LeaseID}}); n != 1 || err != nil {
				b.T.Fatalf("returned %d, %v", n, err)
			}
			expireCodes(b)
			return expireVerifications(b)
		},
		"sent and expired": func(b *apptest.Bundle, _ string) int {
			received(b)
			expireCodes(b)
			return expireVerifications(b) + 1
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newServer(t)
			b.Expect(200, "", "PUT", "/api/v1/admin/settings", map[string]any{"verification": map[string]any{"per_minute": 0}})
			id := start(b, nil).VerificationID
			if want, got := end(b, id), countedFor(b, "+86"); got != want {
				t.Errorf("%d codes count, want %d", got, want)
			}
		})
	}
}

// expireCodes acts as if the codes had expired, and ends their tasks that no sender has.
func expireCodes(b *apptest.Bundle) {
	b.T.Helper()
	b.Exec("UPDATE verifications SET expires_at = now() - interval '1 second'")
	b.Exec("UPDATE queue SET expires_at = now() - interval '1 second'")
	if _, err := b.App.Queue.Expire(b.T.Context()); err != nil {
		b.T.Fatal(err)
	}
}

// expireVerifications ends one expired verification. It returns 0, the number of its codes that count if no sender got one.
func expireVerifications(b *apptest.Bundle) int {
	b.T.Helper()
	if n, err := b.App.Verifications.Expire(b.T.Context()); n != 1 || err != nil {
		b.T.Fatalf("%d expired, %v", n, err)
	}
	return 0
}

func TestAnOutageUsesUpNoPrefix(t *testing.T) {
	b := newServer(t)
	open(b)
	if n := cold(b, "+491511", 0, 20); n != 20 {
		t.Fatalf("%d codes, want 20", n)
	}
	if n := cold(b, "+491511", 20, 1); n != 0 {
		t.Error("a code was started while twenty wait")
	}
	expireCodes(b)
	if n := cold(b, "+491511", 21, 25); n != 20 {
		t.Errorf("%d codes after the outage, want 20", n)
	}
}

func TestVerificationsAreCountedByHour(t *testing.T) {
	b := newServer(t)
	open(b)
	b.AddMailbox("mail")
	start(b, map[string]any{"phone_number": nil, "email": "ann@example.com"})
	ids, codes := make([]string, 5), make([]string, 5)
	for n := range ids {
		ids[n] = start(b, map[string]any{"phone_number": fmt.Sprintf("+49151100000%d7", n), "client_ip": "203.0.113.9"}).VerificationID
		_, codes[n] = received(b)
	}
	count(b)
	steps := stepsOf{b}
	steps.expect(ids[0], codes[0], "approved 4")
	steps.expect(ids[0], codes[0], "409 verification.approved")
	steps.expect(ids[1], wrong(codes[1]), "pending 4")
	steps.expect(ids[2], codes[2], "approved 4")
	b.Expect(200, "", "POST", path+"/"+ids[3]+"/cancel", nil)
	allowMore(b)
	b.Expect(200, "", "POST", path+"/"+ids[4]+"/resend", nil)
	b.Exec("DELETE FROM verifications WHERE verification_id = $1", ids[2]) // an erasure
	count(b)
	count(b)
	want := "+49 6 2|+4915 6 2|+491511 6 2|+4915110 6 2|+49151100 6 2|+491511000 6 2|203.0.113.0/24 6 2"
	if got := apptest.Scan[string](b, `SELECT string_agg(concat_ws(' ', subject, started, approved), '|' ORDER BY subject) FROM verification_hours`); got != want {
		t.Errorf("counted %s, want %s", got, want)
	}
	later(b, 49)
	if _, err := b.App.Verifications.DeleteExpired(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := b.Count("SELECT count(*) FROM verification_hours"); n != 0 {
		t.Errorf("%d rows are left", n)
	}
}

const admin = "/api/v1/admin/verifications"

func suspects(b *apptest.Bundle, query string) []api.Suspect {
	b.T.Helper()
	return apptest.Decode[struct{ Items []api.Suspect }](b.T, b.Expect(200, "", "GET", admin+"/suspects"+query, nil)).Items
}

// alerts evaluates the rules of alerts, and returns the alerts about suspects.
func alerts(b *apptest.Bundle) string {
	b.T.Helper()
	if _, err := b.App.Alerts.Evaluate(b.T.Context()); err != nil {
		b.T.Fatal(err)
	}
	return apptest.Scan[string](b, "SELECT coalesce(string_agg(concat_ws(' ', subject, company_no, value), ',' ORDER BY subject), '') FROM alerts WHERE kind = 'codes_suspected' AND cleared_at IS NULL")
}

func TestALowerMaximumMakesFormerCodesSuspected(t *testing.T) {
	b := newServer(t)
	open(b)
	cold(b, "+491511", 0, 5)
	count(b)
	b.Expect(200, "", "PUT", "/api/v1/admin/settings", map[string]any{"verification": map[string]any{"unproven_per_day": 3}})
	refused(b, "recipient.suspected", "+4915190000001")
	count(b)
	if all, fired := suspects(b, ""), alerts(b); len(all) != 6 || all[0].Subject != "+49" || all[0].Started != 5 || fired != "default/+491511000 default 5" {
		t.Errorf("suspected are %+v, alerts %s", all, fired)
	}
}

func TestASuspectIsAlertedBesidesASafeLongerPrefix(t *testing.T) {
	b := newServer(t)
	open(b)
	cold(b, "+491511", 0, 20)
	count(b)
	b.Expect(200, "", "POST", admin+"/suspects/release", map[string]any{"company_no": "default", "subject": "+491511"})
	refused(b, "recipient.suspected", "+4917090000001")
	if all, fired := suspects(b, ""), alerts(b); len(all) != 2 || fired != "default/+4915 default 20" {
		t.Errorf("suspected are %+v, alerts %s", all, fired)
	}
}

func TestASuspectIsListedAndReleased(t *testing.T) {
	b := newServer(t)
	open(b)
	acme := b.AddCompany("acme", 1)
	cold(b, "+491511", 0, 19)
	count(b)
	suspects := func(query string) []api.Suspect { t.Helper(); return suspects(b, query) }
	alerts := func() string { t.Helper(); return alerts(b) }
	if all, fired := suspects(""), alerts(); len(all) != 0 || fired != "" {
		t.Errorf("after 19 codes, %+v are suspected, alerts %s", all, fired)
	}
	cold(b, "+491511", 19, 5)
	count(b)
	all := suspects("")
	if len(all) != 6 || all[0].CompanyNo != "default" || all[0].Subject != "+49" || all[0].Started != 20 || all[0].Approved != 0 {
		t.Errorf("suspected are %+v", all)
	}
	if got := alerts(); got != "default/+491511000 default 20" {
		t.Errorf("the alerts are %s", got)
	}
	if n := len(suspects("?limit=2")) + len(suspects("?company_no=acme")); n != 2 {
		t.Errorf("%d suspects, want 2 of the first page, and none of the other company", n)
	}
	b.Expect(403, "auth.forbidden", "POST", admin+"/suspects/release", map[string]any{"company_no": "default", "subject": "+49"}, acme...)
	safe := apptest.Decode[api.Safe](t, b.Expect(200, "", "POST", admin+"/suspects/release", map[string]any{"company_no": "default", "subject": "+49"}))
	if left := time.Until(*safe.ExpiresAt); left < 23*time.Hour || left > 24*time.Hour || *safe.CompanyNo != "default" {
		t.Errorf("released %+v", safe)
	}
	if all, fired := suspects(""), alerts(); len(all) != 0 || fired != "" {
		t.Errorf("after the release, %+v are suspected, alerts %s", all, fired)
	}
	if n := cold(b, "+491511", 30, 10); n != 10 {
		t.Errorf("%d codes after the release, want 10", n)
	}
	if n := cold(b, "+491511", 30, 22, acme...); n != 20 {
		t.Errorf("%d codes of the other company, want 20", n)
	}
	// When the release ends, the counts begin anew.
	b.Exec("UPDATE verification_safe SET expires_at = now()")
	if n, err := b.App.Verifications.DeleteExpired(t.Context()); n != 1 || err != nil {
		t.Errorf("%d rows deleted, %v", n, err)
	}
	later(b, 25)
	if n := cold(b, "+491511", 60, 25); n != 20 {
		t.Errorf("%d codes after the end of the release, want 20", n)
	}
	if n := b.Count("SELECT count(*) FROM audit WHERE entity = 'verification_safe'"); n < 2 {
		t.Errorf("%d changes of safe prefixes are in the audit", n)
	}
}

func TestSafePrefixesAreListedChangedAndDeleted(t *testing.T) {
	b := newServer(t)
	add := func(body map[string]any) api.Safe {
		t.Helper()
		return apptest.Decode[api.Safe](t, b.Expect(200, "", "POST", admin+"/safe", body))
	}
	first := add(map[string]any{"subject": "+8613", "note": "test numbers"})
	own := add(map[string]any{"subject": "+8613", "company_no": "default", "expires_at": time.Now().Add(time.Hour)})
	network := add(map[string]any{"subject": "203.0.113.7/24"})
	if again := add(map[string]any{"subject": "+8613"}); again.SafeID != first.SafeID || again.Note != nil || own.SafeID == first.SafeID || network.Subject != "203.0.113.0/24" {
		t.Errorf("added %+v, %+v, %+v", again, own, network)
	}
	for _, body := range []map[string]any{
		{"subject": "8613"}, {"subject": "203.0.113.0/16"}, {"subject": "2001:db8::/32"}, {"subject": "+86", "expires_at": time.Now().Add(-time.Hour)},
	} {
		b.Expect(422, "request.invalid", "POST", admin+"/safe", body)
	}
	b.Expect(404, "company.not_found", "POST", admin+"/safe", map[string]any{"subject": "+86", "company_no": "none"})
	b.Expect(404, "company.not_found", "POST", admin+"/suspects/release", map[string]any{"subject": "+86", "company_no": "none"})
	for _, list := range []string{"/safe", "/suspects"} {
		b.Expect(404, "company.not_found", "GET", admin+list+"?company_no=none", nil)
	}
	page := apptest.Decode[api.SafePage](t, b.Expect(200, "", "GET", admin+"/safe?limit=2", nil))
	if len(page.Items) != 2 || page.Items[0].SafeID != network.SafeID || page.NextCursor == nil {
		t.Errorf("the first page is %+v", page)
	}
	b.Expect(200, "", "DELETE", fmt.Sprint(admin, "/safe/", first.SafeID), nil)
	b.Expect(404, "safe.not_found", "DELETE", fmt.Sprint(admin, "/safe/", first.SafeID), nil)
}

func TestTheSafeListOfACompanyContainsThoseOfAllCompanies(t *testing.T) {
	b := newServer(t)
	b.AddCompany("acme", 1)
	for _, safe := range []map[string]any{{"subject": "+491"}, {"subject": "+492", "company_no": "acme"}, {"subject": "+493", "company_no": "default"}} {
		b.Expect(200, "", "POST", admin+"/safe", safe)
	}
	list := func(query string, headers ...string) string {
		t.Helper()
		items := apptest.Decode[api.SafePage](t, b.Expect(200, "", "GET", admin+"/safe"+query, nil, headers...)).Items
		subjects := make([]string, len(items))
		for i, safe := range items {
			subjects[i] = safe.Subject
		}
		return strings.Join(subjects, " ")
	}
	reader := b.AddUser("reader", "read", map[string]any{"company_no": "acme"})
	for who, got := range map[string]string{"the admin": list("?company_no=acme"), "a reader of the company": list("", reader...)} {
		if got != "+492 +491" {
			t.Errorf("for %s, the list of acme is %s", who, got)
		}
	}
	if got := list(""); got != "+493 +492 +491" {
		t.Errorf("the whole list is %s", got)
	}
}

func TestCodesThatAreSentAgainMakeAPrefixSuspected(t *testing.T) {
	b := newServer(t)
	b.Expect(200, "", "PUT", "/api/v1/admin/settings", map[string]any{"verification": map[string]any{"unproven_per_day": 4, "per_minute": 0}})
	for n := range 2 {
		id := start(b, map[string]any{"phone_number": fmt.Sprint(13900139001 + n)}).VerificationID
		count(b)
		b.Expect(200, "", "POST", path+"/"+id+"/resend", nil)
	}
	refused(b, "recipient.suspected", "+8613900139009")
	count(b)
	all := apptest.Decode[struct{ Items []api.Suspect }](t, b.Expect(200, "", "GET", admin+"/suspects", nil)).Items
	if len(all) == 0 || all[0].Started != 4 {
		t.Errorf("suspected are %+v", all)
	}
}

func TestAReleaseNeverShortensASafeTime(t *testing.T) {
	b := newServer(t)
	release := func(subject string) api.Safe {
		t.Helper()
		return apptest.Decode[api.Safe](t, b.Expect(200, "", "POST", admin+"/suspects/release", map[string]any{"company_no": "default", "subject": subject}))
	}
	later, soon := time.Now().Add(72*time.Hour).Truncate(time.Second), time.Now().Add(time.Hour)
	for _, safe := range []map[string]any{{"subject": "+491", "note": "ours"}, {"subject": "+492", "expires_at": later}, {"subject": "+493", "expires_at": soon}} {
		safe["company_no"] = "default"
		b.Expect(200, "", "POST", admin+"/safe", safe)
	}
	if safe := release("+491"); safe.ExpiresAt != nil || *safe.Note != "ours" {
		t.Errorf("safe without end, it becomes %+v", safe)
	}
	if safe := release("+492"); !safe.ExpiresAt.Equal(later) {
		t.Errorf("safe for three days, it becomes %+v", safe)
	}
	if safe := release("+493"); time.Until(*safe.ExpiresAt) < 23*time.Hour {
		t.Errorf("safe for an hour, it becomes %+v", safe)
	}
}

func TestAWholeNumberIsNotASafePrefix(t *testing.T) {
	b := newServer(t)
	for _, subject := range []string{"+8613812345678", "+12015550123", "+4915123456789"} {
		if a := b.Expect(422, "request.invalid", "POST", admin+"/safe", map[string]any{"subject": subject}); a.Fields() != "subject" {
			t.Errorf("%s: wrong fields %s", subject, a.Fields())
		}
		b.Expect(422, "request.invalid", "POST", admin+"/suspects/release", map[string]any{"subject": subject, "company_no": "default"})
	}
	for _, subject := range []string{"+861381234567", "+86138", "+1201555", "+491512345678"} {
		b.Expect(200, "", "POST", admin+"/safe", map[string]any{"subject": subject})
	}
}

func TestAResendNamesTheSignatureThatIsMissing(t *testing.T) {
	b := newServer(t)
	id := start(b, nil).VerificationID
	allowMore(b)
	b.Expect(200, "", "PATCH", "/api/v1/admin/channels/sms", map[string]any{"signature_required": true})
	if a := b.Expect(422, "request.invalid", "POST", path+"/"+id+"/resend", nil); a.Fields() != "sign" {
		t.Errorf("wrong fields %s", a.Raw)
	}
}
