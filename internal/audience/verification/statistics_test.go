package verification_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
)

// statisticsOf returns the statistics of the last two hours as text: the totals, then each group.
func statisticsOf(b *apptest.Bundle, query string, headers ...string) string {
	b.T.Helper()
	from := time.Now().Add(-2 * time.Hour).UTC().Format(time.RFC3339)
	a := b.Expect(200, "", "GET", path+"/statistics?from="+from+query, nil, headers...)
	data := apptest.Decode[api.VerificationStatistics](b.T, a)
	text := func(f api.VerificationFigures) string {
		line := fmt.Sprint(f.Started, f.Approved, f.Expired, f.Exhausted, f.Cancelled)
		if f.Conversion != nil {
			line += fmt.Sprint(" ", *f.Conversion)
		}
		if f.ApprovalP50 != nil {
			line += fmt.Sprint(" ", *f.ApprovalP50, " ", *f.ApprovalP95)
		}
		return line
	}
	lines := []string{text(data.Totals)}
	for _, g := range data.Groups {
		key := "–"
		if g.Key != nil {
			key = *g.Key
		}
		lines = append(lines, key+": "+text(api.VerificationFigures{
			Started: g.Started, Approved: g.Approved, Expired: g.Expired, Exhausted: g.Exhausted, Cancelled: g.Cancelled, Conversion: g.Conversion,
			ApprovalP50: g.ApprovalP50, ApprovalP95: g.ApprovalP95,
		}))
	}
	if data.MoreGroups > 0 {
		lines = append(lines, fmt.Sprint("more: ", data.MoreGroups))
	}
	return strings.Join(lines, "\n")
}

// V5: verifications are counted at their start, by hour, country, company and sender. A sender is the one that last sent the code before the end.
func TestStatisticsOfVerifications(t *testing.T) {
	b := newServer(t)
	b.AddSender(map[string]any{"sender_no": "slow"})
	b.Exec("UPDATE sender_states SET seen_at = now()")
	send := func(app string) (code string) {
		t.Helper()
		tasks := b.Claim(app, 10)
		if len(tasks) != 1 {
			t.Fatalf("%s claimed %+v", app, tasks)
		}
		b.Report(tasks[0].TaskID, app, 2, nil)
		return digits.FindString(tasks[0].Content)
	}
	approve := func(seconds int) {
		t.Helper()
		v := start(b, nil)
		code := send("app")
		if got := outcome(check(b, v.VerificationID, code)); got != "approved 4" {
			t.Fatal(got)
		}
		b.Exec("UPDATE verifications SET created_at = ended_at - $2 * interval '1 second' WHERE verification_id = $1", v.VerificationID, seconds)
		allowMore(b)
	}
	approve(10)
	approve(20)
	both := start(b, nil) // the last sender counts
	send("app")
	allowMore(b)
	b.Expect(200, "", "POST", path+"/"+both.VerificationID+"/resend", nil)
	check(b, both.VerificationID, send("slow"))
	b.Exec("UPDATE verifications SET created_at = ended_at - interval '100 seconds' WHERE verification_id = $1", both.VerificationID)
	allowMore(b)
	exhausted := start(b, map[string]any{"purpose": "exhausted"})
	code := send("slow")
	for range 5 {
		check(b, exhausted.VerificationID, wrong(code))
	}
	cancelled := start(b, map[string]any{"purpose": "cancelled"})
	b.Expect(200, "", "POST", path+"/"+cancelled.VerificationID+"/cancel", nil)
	start(b, map[string]any{"purpose": "expired"})
	b.Exec("UPDATE verifications SET expires_at = now() - interval '1 second' WHERE status = 'pending'")
	start(b, map[string]any{"purpose": "pending"})
	b.Exec("UPDATE verifications SET created_at = now() - interval '1 minute' WHERE status <> 'approved'") // within one hour or two
	const totals = "7 3 1 1 1 0.429 20 100"
	for query, want := range map[string]string{
		"&by=country":                    totals + "\nCN: " + totals,
		"&by=company":                    totals + "\ndefault: " + totals,
		"&by=sender":                     totals + "\n–: 3 0 1 0 1 0\napp: 2 2 0 0 0 1 10 20\nslow: 2 1 0 1 0 0.5 100 100",
		"&by=sender&limit=1":             totals + "\n–: 3 0 1 0 1 0\nmore: 2",
		"&by=company&company_no=default": totals + "\ndefault: " + totals,
	} {
		if got := statisticsOf(b, query); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", query, got, want)
		}
	}
	b.Exec("UPDATE verifications SET created_at = date_trunc('hour', now())")
	hour := time.Now().UTC().Truncate(time.Hour).Format(time.RFC3339)
	if got := statisticsOf(b, ""); !strings.HasPrefix(got, "7 3 1 1 1 0.429 ") || !strings.Contains(got, "\n"+hour+": 7 3 1 1 1 0.429 ") {
		t.Errorf("by hour: got\n%s", got)
	}
}

// V5: a caller of a company gets only the figures of its company, and ranges are limited.
func TestStatisticsAreLimitedToTheCompanyAndTo31Days(t *testing.T) {
	b := newServer(t)
	start(b, nil)
	b.AddCompany("acme", 1)
	reader := b.AddUser("reader", "read", map[string]any{"company_no": "acme"})
	if got := statisticsOf(b, "&by=company", reader...); got != "0 0 0 0 0" {
		t.Errorf("another company gets %s", got)
	}
	at := func(days int) string { return time.Now().AddDate(0, 0, days).UTC().Format(time.RFC3339) }
	b.Expect(403, "auth.other_company", "GET", path+"/statistics?from="+at(-1)+"&company_no=default", nil, reader...)
	b.Expect(404, "company.not_found", "GET", path+"/statistics?from="+at(-1)+"&company_no=none", nil)
	for _, query := range []string{"", "&by=country", "&by=company"} {
		b.Expect(200, "", "GET", path+"/statistics?from="+at(-31)+query, nil)
	}
	for _, query := range []string{"from=" + at(-32), "from=" + at(-8) + "&by=sender", "from=" + at(1), "from=" + at(-1) + "&by=day", "by=hour"} {
		b.Expect(422, "request.invalid", "GET", path+"/statistics?"+query, nil)
	}
}

// V5: callers that see all companies find a verification of any company by its id.
func TestReadersFindAVerificationByItsID(t *testing.T) {
	b := newServer(t)
	acme := b.AddCompany("acme", 1)
	of := b.AddUser("of-default", "read", map[string]any{"company_no": "default"})
	id := apptest.Decode[api.VerificationStarted](t, b.Expect(200, "", "POST", path, request(nil), acme...)).VerificationID
	for _, who := range [][]string{nil, acme, b.AddUser("all", "read", nil)} {
		if v := apptest.Decode[api.VerificationView](t, b.Expect(200, "", "GET", path+"/"+id, nil, who...)); v.Status != "pending" || v.TaskStatus == nil {
			t.Errorf("%v: %+v", who, v)
		}
	}
	b.Expect(404, "verification.not_found", "GET", path+"/"+id, nil, of...)
}

// V5: countries come from the number, so other channels have none. They are known without an entry in the list of countries.
func TestCountriesOfVerificationsAreThoseOfTheNumbers(t *testing.T) {
	b := newServer(t)
	open(b)
	b.AddMailbox("mail")
	start(b, nil)
	start(b, map[string]any{"phone_number": german})
	start(b, map[string]any{"phone_number": nil, "email": "ann@example.com"})
	start(b, map[string]any{"phone_number": nil, "email": "bob@example.com"})
	if got := statisticsOf(b, "&by=country"); got != "4 0 0 0 0 0\n–: 2 0 0 0 0 0\nCN: 1 0 0 0 0 0\nDE: 1 0 0 0 0 0" {
		t.Errorf("got %s", got)
	}
}

// V5: the sender got the message before the end of the verification. Its report can follow.
func TestASenderThatReportsAfterTheApprovalCounts(t *testing.T) {
	b := newServer(t)
	v := start(b, nil)
	task := b.Claim("app", 1)[0]
	check(b, v.VerificationID, digits.FindString(task.Content))
	b.Report(task.TaskID, "app", 2, nil)
	if got := statisticsOf(b, "&by=sender"); !strings.HasPrefix(got, "1 1 0 0 0 1 ") || !strings.Contains(got, "\napp: 1 1 0 0 0 1 ") {
		t.Errorf("got %s", got)
	}
}
