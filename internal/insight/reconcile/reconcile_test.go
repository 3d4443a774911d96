package reconcile_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/dispatch/queue"
	"lksms/internal/testkit/apptest"
)

func TestMain(m *testing.M) { apptest.Main(m) }

const (
	totalsPath = "/api/v1/admin/daily-totals"
	path       = "/api/v1/admin/reconciliations"
)

// sent is a message that a sender has reported.
type sent struct {
	taskID  string
	leaseID int64
	number  string
}

// send submits n messages and reports them as accepted by the provider of app. The provider's numbers are prefix-1 to prefix-n.
func send(b *apptest.Bundle, prefix string, n int, more map[string]any, headers ...string) []sent {
	b.T.Helper()
	b.SubmitMany(prefix, n, more, headers...)
	return report(b, prefix, n, queue.Success)
}

// report makes app claim n messages and report them with the given status.
func report(b *apptest.Bundle, prefix string, n int, status int16) []sent {
	b.T.Helper()
	tasks := b.Take("app", n)
	if len(tasks) != n {
		b.T.Fatalf("claimed %d tasks, want %d", len(tasks), n)
	}
	var all []sent
	var reports []queue.Report
	for i, task := range tasks {
		one := sent{task.TaskID, task.LeaseID, fmt.Sprintf("%s-%d", prefix, i+1)}
		all = append(all, one)
		reports = append(reports, queue.Report{TaskID: one.taskID, SenderNo: "app", LeaseID: &one.leaseID, Status: status, ProviderNo: one.number})
	}
	outcomes, err := b.App.Queue.ReportAll(b.T.Context(), reports)
	for _, o := range outcomes {
		if o.Err != nil {
			err = o.Err
		}
	}
	if err != nil {
		b.T.Fatal(err)
	}
	return all
}

// receive stores receipts of messages. State 1 means delivered, 2 undelivered.
func receive(b *apptest.Bundle, sender string, state int16, messages ...sent) {
	b.T.Helper()
	var all []queue.Final
	for _, m := range messages {
		all = append(all, queue.Final{TaskID: m.taskID, SenderNo: sender, State: state, LeaseID: &m.leaseID})
	}
	if _, err := b.App.Queue.SettleReceipts(b.T.Context(), all); err != nil {
		b.T.Fatal(err)
	}
}

func fold(b *apptest.Bundle) {
	b.T.Helper()
	if _, err := b.App.History.Fold(b.T.Context()); err != nil {
		b.T.Fatal(err)
	}
}

// run compares files until all reconciliations have ended.
func run(b *apptest.Bundle) {
	b.T.Helper()
	if _, err := b.App.Reconcile.Run(b.T.Context()); err != nil {
		b.T.Fatal(err)
	}
}

// day returns the date of the database, ago days before today.
func day(b *apptest.Bundle, ago int) string {
	b.T.Helper()
	return apptest.Scan[string](b, "SELECT ((now() AT TIME ZONE 'Asia/Shanghai')::date - $1::integer)::text", ago)
}

// totals returns daily totals as sorted lines.
func totals(b *apptest.Bundle, query string, headers ...string) string {
	b.T.Helper()
	var lines []string
	for _, t := range apptest.Decode[api.DailyTotalPage](b.T, b.Expect(200, "", "GET", totalsPath+query, nil, headers...)).Items {
		kind, country := "?", "-"
		if t.MessageType != nil {
			kind = *t.MessageType
		}
		if t.CountryNo != nil {
			country = *t.CountryNo
		}
		lines = append(lines, fmt.Sprintf("%s %s %s %s %s: %d attempted, %d accepted, %d delivered, %d segments, %d cost", t.Day.Format(time.DateOnly), t.CompanyNo,
			t.SenderNo, kind, country, t.Attempted, t.Accepted, t.Delivered, t.Segments, t.Cost))
	}
	slices.Sort(lines) // totals of one day have no fixed order
	return strings.Join(lines, "\n")
}

func summary(r api.Reconciliation) string {
	d := r.Differences
	matches := "?"
	if r.Matches != nil {
		matches = fmt.Sprint(*r.Matches)
	}
	return fmt.Sprintf("%s %s: ours %d, theirs %d, tests %d; matched %d, here %d, there %d, status %d, segments %d, repeated %d, unreadable %d, midnight %d",
		r.Status, matches, d.Total.Ours, d.Total.Theirs, d.Total.Tests, r.Matched, d.MissingHere, d.MissingThere, d.StatusDiffers, d.SegmentsDiffer,
		d.Repeated, d.Unreadable, r.NearMidnight)
}

// compareTotal sends a total and returns the result.
func compareTotal(b *apptest.Bundle, body map[string]any, headers ...string) api.Reconciliation {
	b.T.Helper()
	return apptest.Decode[api.Reconciliation](b.T, b.Expect(200, "", "POST", path, body, headers...))
}

// upload sends a file and returns the new reconciliation.
func upload(b *apptest.Bundle, content string, fields ...string) api.Reconciliation {
	b.T.Helper()
	fields = append([]string{"sender_no", "app"}, fields...)
	return apptest.Decode[api.Reconciliation](b.T, b.Expect(200, "", "POST", path, apptest.Form("file", "statement.csv", content, fields...), "Content-Type", apptest.FormType))
}

func get(b *apptest.Bundle, id int64) api.Reconciliation {
	b.T.Helper()
	return apptest.Decode[api.Reconciliation](b.T, b.Expect(200, "", "GET", fmt.Sprintf("%s/%d", path, id), nil))
}

// compared sends a file and returns the finished reconciliation.
func compared(b *apptest.Bundle, content string, fields ...string) api.Reconciliation {
	b.T.Helper()
	r := upload(b, content, fields...)
	run(b)
	return get(b, r.ReconciliationID)
}

// differences returns the differences of a reconciliation as lines.
func differences(b *apptest.Bundle, id int64, query string) string {
	b.T.Helper()
	var lines []string
	text := func(s *string) string {
		if s == nil {
			return "-"
		}
		return *s
	}
	for _, d := range apptest.Decode[api.DifferencePage](b.T, b.Expect(200, "", "GET", fmt.Sprintf("%s/%d/differences%s", path, id, query), nil)).Items {
		row := "-"
		if d.Row != nil {
			row = fmt.Sprint(*d.Row)
		}
		lines = append(lines, fmt.Sprintf("%s %s row %s, task %t: %s, %s", d.Kind, text(d.Number), row, d.TaskID != nil, text(d.Ours), text(d.Theirs)))
	}
	return strings.Join(lines, "\n")
}

// S3.13: attempts of senders are counted by day, company, sender, message type and country, with their costs. Tests are excluded.
func TestDailyTotalsCountAttemptsOfSenders(t *testing.T) {
	b := apptest.New(t)
	b.AddCountry("CN", "86", nil)
	b.Claim("app", 1) // the app registers itself
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/app", map[string]any{"segment_price": 450})
	all := send(b, "m", 3, map[string]any{"message_type": "marketing"})
	send(b, "v", 1, map[string]any{"message_type": "verification"})
	send(b, "t", 2, map[string]any{"message_type": "marketing", "test": true})
	b.SubmitMany("f", 1, map[string]any{"message_type": "marketing"})
	report(b, "f", 1, queue.Failed)
	receive(b, "app", 1, all[0], all[1])
	receive(b, "app", 2, all[2])
	fold(b)
	today := day(b, 0)
	want := today + " default app marketing CN: 4 attempted, 3 accepted, 2 delivered, 3 segments, 1350 cost\n" +
		today + " default app verification CN: 1 attempted, 1 accepted, 0 delivered, 1 segments, 450 cost"
	if got := totals(b, ""); got != want {
		t.Errorf("totals are\n%s\nwant\n%s", got, want)
	}
	for query, want := range map[string]string{
		"?message_type=verification": today + " default app verification CN: 1 attempted, 1 accepted, 0 delivered, 1 segments, 450 cost",
		"?sender_no=other":           "", "?country_no=US": "", "?day_to=" + day(b, 1): "",
	} {
		if got := totals(b, query); got != want {
			t.Errorf("%s: totals are\n%s\nwant\n%s", query, got, want)
		}
	}
}

// S3.13: a total is compared with all messages that the provider accepted on the day. Tests are included, because the provider counts them.
func TestTotalIsComparedAndStored(t *testing.T) {
	b := apptest.New(t)
	send(b, "m", 3, nil)
	send(b, "t", 1, map[string]any{"test": true})
	today := day(b, 0)
	r := compareTotal(b, map[string]any{"sender_no": "app", "day": today, "total": 5}) // facts need not be folded before the comparison
	if got := summary(r); got != "finished false: ours 4, theirs 5, tests 1; matched 0, here 0, there 0, status 0, segments 0, repeated 0, unreadable 0, midnight 0" {
		t.Error(got)
	}
	fold(b)
	r = compareTotal(b, map[string]any{"sender_no": "app", "day": today, "total": 4, "unit": "segments"})
	if got := summary(r); !strings.HasPrefix(got, "finished true: ours 4, theirs 4, tests 1;") {
		t.Error(got)
	}
	if n := len(apptest.Decode[api.ReconciliationPage](t, b.Expect(200, "", "GET", path+"?sender_no=app&day="+today, nil)).Items); n != 2 {
		t.Errorf("%d reconciliations are kept, want both", n)
	}
}

// S3.13: a file is compared message by message.
func TestStatementIsComparedMessageByMessage(t *testing.T) {
	b := apptest.New(t)
	all := send(b, "m", 4, nil)
	receive(b, "app", 1, all[0])
	receive(b, "app", 2, all[1])
	b.Exec("UPDATE deliveries SET created_at = date_trunc('day', created_at AT TIME ZONE 'Asia/Shanghai') AT TIME ZONE 'Asia/Shanghai' + interval '9 hours'")
	fold(b)
	r := compared(b, "msgid,状态,条数\nm-1,DELIVRD,1\n m-2 ,DELIVRD,2\nm-3,,1\nx-9,DELIVRD,1\nm-3,,1\n1.38E+10,DELIVRD,1\n",
		"day", day(b, 0), "status_column", "状态", "segments_column", "条数")
	if got := summary(r); got != "finished false: ours 4, theirs 4, tests 0; matched 3, here 1, there 1, status 1, segments 2, repeated 1, unreadable 1, midnight 0" {
		t.Error(got)
	}
	want := `unreadable - row 7, task false: -, was shortened by the spreadsheet program, or could not be computed: format the column as text, and enter the value again
missing_here x-9 row 5, task false: -, DELIVRD
status_differs m-2 row 3, task true: undelivered, DELIVRD
segments_differ m-2 row 3, task true: 1, 2
segments_differ m-3 row 4, task true: 1, 2
repeated m-3 row 4, task true: 1, 2
missing_there m-4 row -, task true: accepted, -`
	if got := differences(b, r.ReconciliationID, ""); got != want {
		t.Errorf("differences are\n%s\nwant\n%s", got, want)
	}
	if n := b.Count("SELECT (SELECT count(*) FROM reconciliation_rows) + (SELECT count(*) FROM uploads)"); n != 0 {
		t.Errorf("%d rows and uploads are left", n)
	}
}
