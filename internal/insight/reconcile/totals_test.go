package reconcile_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/app"
	"lksms/internal/dispatch/queue"
	"lksms/internal/testkit/apptest"
)

// S3.13: readers of a company see only the totals of their own company. A statement about a sender of several companies is compared with the sum of all
// companies.
func TestCompaniesSharingSenderSeeOwnTotals(t *testing.T) {
	b := apptest.New(t)
	acme := b.AddCompany("acme", 1)
	reader := b.AddUser("reader-of-acme", "read", map[string]any{"company_no": "acme"})
	submitter := b.AddUser("submitter", "submit", map[string]any{"company_no": "acme"})
	send(b, "d", 2, nil)
	send(b, "a", 3, nil, acme...)
	fold(b)
	today := day(b, 0)
	mine := today + " acme app notification -: 3 attempted, 3 accepted, 0 delivered, 3 segments, 0 cost"
	if got := totals(b, "", reader...); got != mine {
		t.Errorf("the reader of acme sees\n%s", got)
	}
	if got := totals(b, "?company_no=acme"); got != mine {
		t.Errorf("of acme are\n%s", got)
	}
	if got := strings.Count(totals(b, ""), "\n"); got != 1 {
		t.Errorf("all have %d lines", got+1)
	}
	b.Expect(403, "auth.other_company", "GET", totalsPath+"?company_no=default", nil, reader...)
	b.Expect(403, "auth.other_company", "GET", totalsPath+".csv?company_no=default", nil, reader...)
	b.Expect(403, "auth.forbidden", "GET", totalsPath, nil, submitter...)
	b.Expect(404, "company.not_found", "GET", totalsPath+"?company_no=nobody", nil)
	b.Expect(404, "company.not_found", "GET", totalsPath+".csv?company_no=nobody", nil)
	b.Expect(403, "auth.forbidden", "GET", path, nil, reader...)
	if r := compareTotal(b, map[string]any{"sender_no": "app", "day": today, "total": 5}); !*r.Matches {
		t.Error(summary(r))
	}
}

// A page continues after the previous page, even within a day. The exported file contains all rows, and costs with decimals.
func TestDailyTotalsAreListedInPagesAndExported(t *testing.T) {
	b := apptest.New(t)
	b.Exec(`INSERT INTO daily_totals (day, company_id, sender_no, message_type, country_no, is_test, attempted, accepted, delivered, segments, cost)
		SELECT '2026-01-01'::date + d, 1, 's' || n, '2', 'CN', n = 5, 1, 1, 1, 1, 123456 FROM generate_series(0, 2) d, generate_series(1, 5) n`)
	var got []string
	for cursor := ""; ; {
		a := b.Expect(200, "", "GET", totalsPath+"?limit=5"+cursor, nil)
		page := apptest.Decode[api.DailyTotalPage](t, a)
		for _, i := range page.Items {
			got = append(got, i.Day.Format("02")+i.SenderNo)
		}
		if page.Currency != "CNY" {
			t.Error(page.Currency)
		}
		if page.NextCursor == nil {
			break
		}
		cursor = "&cursor=" + *page.NextCursor
	}
	if s := strings.Join(got, " "); s != "03s4 03s3 03s2 03s1 02s4 02s3 02s2 02s1 01s4 01s3 01s2 01s1" {
		t.Error(s)
	}
	b.Expect(422, "request.invalid", "GET", totalsPath+"?cursor=x", nil)
	b.Expect(422, "request.invalid", "GET", totalsPath+"?day_from=yesterday", nil)
	b.Expect(422, "request.invalid", "GET", totalsPath+".csv?day_from=yesterday", nil)
	b.Expect(200, "", "PUT", "/api/v1/admin/settings/monitoring", map[string]any{"currency": "EUR"})
	file := b.Call("GET", totalsPath+".csv?day_from=2026-01-02&day_to=2026-01-02&sender_no=s2", nil).Raw
	if want := "\uFEFFday,company_no,sender_no,message_type,country_no,attempted,accepted,delivered,segments,cost,currency\r\n2026-01-02,default,s2,marketing,CN,1,1,1,1,12.3456,EUR\r\n"; file != want {
		t.Errorf("%q, want %q", file, want)
	}
	b.Expect(422, "request.invalid", "PUT", "/api/v1/admin/settings/monitoring", map[string]any{"currency": "euro"})
}

// S3.13: a message counts on the day of its acceptance. Its receipt counts on the same day, even if the receipt arrives later.
func TestMessageCountsOnDayOfAcceptance(t *testing.T) {
	b := apptest.New(t)
	all := send(b, "m", 2, nil)
	// Both messages were accepted a minute before midnight. A repeated report and a later lease do not change this time.
	b.Exec("UPDATE report_logs SET created_at = " + midnight + " - interval '1 minute' WHERE status = 2")
	b.Exec("UPDATE facts SET at = " + midnight + " - interval '1 minute' WHERE reported_success > 0")
	b.Exec("INSERT INTO deliveries (task_id, lease_id, sender_no, recipient, provider_no) SELECT task_id, lease_id, sender_no, recipient, 'again' FROM deliveries")
	receive(b, "app", 1, all[0])
	fold(b)
	receive(b, "app", 1, all[1])
	fold(b)
	if got, want := totals(b, ""), day(b, 1)+" default app notification -: 2 attempted, 2 accepted, 2 delivered, 2 segments, 0 cost"; got != want {
		t.Errorf("totals are\n%s\nwant\n%s", got, want)
	}
	// A receipt counts even if the provider gave no number. A receipt of another sender does not count if the report of this sender did not settle the task.
	b.SubmitMany("x", 2, nil)
	for i, task := range b.Take("app", 2) {
		b.Report(task.TaskID, "app", 2, nil)
		receive(b, []string{"app", "two"}[i], 1, sent{task.TaskID, task.LeaseID, ""})
	}
	fold(b)
	if got, want := totals(b, "?day_from="+day(b, 0)), day(b, 0)+" default app notification -: 2 attempted, 2 accepted, 1 delivered, 2 segments, 0 cost"; got != want {
		t.Errorf("totals are\n%s\nwant\n%s", got, want)
	}
}

// midnight is an SQL expression for the start of today in the default time zone.
const midnight = "(date_trunc('day', now() AT TIME ZONE 'Asia/Shanghai') AT TIME ZONE 'Asia/Shanghai')"

// Segments cost the price that their sender had when they were counted.
func TestCostsUsePriceAtCountingTime(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "app", "name": "A", "segment_price": 450})
	b.Expect(422, "request.invalid", "PATCH", "/api/v1/admin/senders/app", map[string]any{"segment_price": -1})
	b.Expect(422, "request.invalid", "PATCH", "/api/v1/admin/senders/app", map[string]any{"segment_price": 1000000001})
	for i, price := range []any{450, 1_000_000_000, nil} {
		b.Expect(200, "", "PATCH", "/api/v1/admin/senders/app", map[string]any{"segment_price": price})
		send(b, fmt.Sprint("m", i), 2, map[string]any{"content": strings.Repeat("字", 71)})
		fold(b)
	}
	if got := b.GetSender("app").SegmentPrice; got != nil {
		t.Errorf("the price is %d", *got)
	}
	if got, want := totals(b, ""), day(b, 0)+" default app notification -: 6 attempted, 6 accepted, 0 delivered, 12 segments, 4000001800 cost"; got != want {
		t.Errorf("totals are\n%s\nwant\n%s", got, want)
	}
}

// The signature of a sender counts in segments and costs, with and without limits of the sender.
func TestSignatureOfSenderIsCountedWithAndWithoutLimits(t *testing.T) {
	b := apptest.New(t)
	for no, more := range map[string]map[string]any{"free": {}, "limited": {"balance": 10}} {
		body := map[string]any{"sender_no": no, "name": no, "segment_price": 450, "sign": "示例签名", "is_shared": false} // 6 characters with brackets
		for k, v := range more {
			body[k] = v
		}
		b.AddSender(body)
		b.AddCompany("of-"+no, 1)
		b.AddRoute("of-"+no, no, 1)
	}
	b.AddSender(map[string]any{"sender_no": "bare", "name": "bare", "segment_price": 450})
	var want []string
	for _, c := range []struct{ no, company, cost string }{{"bare", "default", "1 segments, 450 cost"}, {"free", "of-free", "2 segments, 900 cost"}, {"limited", "of-limited", "2 segments, 900 cost"}} {
		body := map[string]any{"phone_number": apptest.Phone, "content": strings.Repeat("字", 68)}
		if c.company == "default" {
			b.SubmitBody(body)
		} else {
			b.Expect(200, "", "POST", "/api/v1/sms/send", body, b.AddUser("user-"+c.no, "submit", map[string]any{"company_no": c.company})...)
		}
		for _, task := range b.Take(c.no, 1) {
			b.Report(task.TaskID, c.no, 2, nil)
		}
		want = append(want, day(b, 0)+" "+c.company+" "+c.no+" notification -: 1 attempted, 1 accepted, 0 delivered, "+c.cost)
	}
	fold(b)
	slices.Sort(want)
	got := strings.Split(totals(b, ""), "\n")
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("totals are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A simulated test is attempted by no sender.
func TestSimulatedTestsAreNotCountedInTotals(t *testing.T) {
	b := apptest.New(t)
	b.Expect(200, "", "PUT", "/api/v1/admin/settings/sms", map[string]any{"send_tests": false})
	b.SubmitMany("t", 2, map[string]any{"test": true})
	fold(b)
	if n := b.Count("SELECT count(*) FROM daily_totals"); n != 0 {
		t.Errorf("%d totals", n)
	}
}

// S3.13: each fact counts exactly once, even if folds are interrupted or several servers fold.
func TestTotalsCountEachFactOnce(t *testing.T) {
	b := apptest.New(t)
	servers := []*app.App{b.App, apptest.Another(b)}
	all := send(b, "m", 40, nil)
	b.Exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused by the test'; END $$`)
	b.Exec("CREATE TRIGGER refuse AFTER INSERT ON daily_totals FOR EACH STATEMENT EXECUTE FUNCTION refuse()")
	if _, err := b.App.History.Fold(t.Context()); err == nil {
		t.Fatal("the fold was not broken off")
	}
	if n := b.Count("SELECT count(*) FROM daily_totals"); n != 0 {
		t.Fatalf("%d totals of a fold that was broken off", n)
	}
	b.Exec("DROP TRIGGER refuse ON daily_totals")
	apptest.Together(4, func(i int) {
		for n := range 5 {
			m := all[5*i+n]
			if _, err := servers[i%2].Queue.SettleReceipts(t.Context(), []queue.Final{{TaskID: m.taskID, SenderNo: "app", State: 1, LeaseID: &m.leaseID}}); err != nil {
				t.Error(err)
			}
			if _, err := servers[i%2].History.Fold(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
	fold(b)
	if got, want := totals(b, ""), day(b, 0)+" default app notification -: 40 attempted, 40 accepted, 20 delivered, 40 segments, 0 cost"; got != want {
		t.Errorf("totals are\n%s\nwant\n%s", got, want)
	}
}

// Days begin at midnight in the configured time zone.
func TestDaysFollowConfiguredTimeZone(t *testing.T) {
	b := apptest.New(t)
	zone := "Etc/GMT+12"               // 12 hours behind UTC
	if time.Now().UTC().Hour() >= 12 { // from this hour on, Etc/GMT+12 and UTC have the same date
		zone = "Etc/GMT-14"
	}
	b.Expect(200, "", "PUT", "/api/v1/admin/settings/monitoring", map[string]any{"time_zone": zone})
	send(b, "m", 1, nil)
	fold(b)
	if n := b.Count("SELECT count(*) FROM daily_totals WHERE day = (now() AT TIME ZONE $1)::date AND day <> (now() AT TIME ZONE 'UTC')::date", zone); n != 1 {
		t.Error("the day is another one")
	}
}

// A receipt of a message that a previous version accepted counts. The day of this receipt does not become the first day with totals.
func TestDailyTotalsBeginWithTheFirstAttempt(t *testing.T) {
	b := apptest.New(t)
	all := send(b, "m", 1, nil)
	b.Exec("UPDATE report_logs SET created_at = " + midnight + " - interval '3 days'")
	b.Exec("TRUNCATE facts") // the previous version stored no daily totals
	receive(b, "app", 1, all[0])
	fold(b)
	if got, want := totals(b, ""), day(b, 3)+" default app notification -: 0 attempted, 0 accepted, 1 delivered, 0 segments, 0 cost"; got != want {
		t.Errorf("totals are\n%s\nwant\n%s", got, want)
	}
	for _, ago := range []int{3, 2} {
		b.Expect(422, "request.invalid", "POST", path, map[string]any{"sender_no": "app", "day": day(b, ago), "total": 0})
	}
}
