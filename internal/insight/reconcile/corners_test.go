package reconcile_test

import (
	"fmt"
	"strings"
	"testing"

	api "lksms/gen/client"
	"lksms/internal/app"
	"lksms/internal/dispatch/queue"
	"lksms/internal/testkit/apptest"
)

// began makes the daily totals begin 40 days ago.
func began(b *apptest.Bundle) {
	b.T.Helper()
	b.Exec(`INSERT INTO daily_totals (day, company_id, sender_no, message_type, country_no, is_test, attempted, accepted, delivered, segments, cost)
		SELECT (now() AT TIME ZONE 'Asia/Shanghai')::date - 40, 1, 'first', '0', '', false, 1, 1, 0, 1, 0`)
}

// at sets the acceptance time of the attempts whose numbers begin with prefix. distance is relative to the last midnight.
func at(b *apptest.Bundle, prefix, distance string) {
	b.T.Helper()
	b.Exec("UPDATE deliveries SET created_at = "+midnight+" + $2::text::interval WHERE provider_no LIKE $1 || '-%'", prefix, distance)
}

// S3.13: a statement that cannot be compared is rejected with the reason.
func TestStatementThatCannotBeComparedIsRejected(t *testing.T) {
	b := apptest.New(t)
	b.Claim("app", 1)
	reader := b.AddUser("reader", "read", nil)
	ask := func(status int, reason, fields string, body any, headers ...string) {
		t.Helper()
		if a := b.Expect(status, reason, "POST", path, body, headers...); a.Fields() != fields {
			t.Errorf("%v: the fields are %s, want %s", body, a.Fields(), fields)
		}
	}
	total := func(sender, day string) map[string]any {
		return map[string]any{"sender_no": sender, "day": day, "total": 1}
	}
	ask(422, "request.invalid", "sender_no", total("nobody", day(b, 0)))
	ask(422, "request.invalid", "day", total("app", day(b, -1)))
	ask(422, "request.invalid", "day", total("app", day(b, 1))) // this day has no totals
	ask(422, "request.invalid", "total", map[string]any{"sender_no": "app", "day": day(b, 0)})
	ask(422, "request.invalid", "total", map[string]any{"sender_no": "app", "day": day(b, 0), "total": -1})
	ask(422, "request.invalid", "unit", map[string]any{"sender_no": "app", "day": day(b, 0), "total": 1, "unit": "yuan"})
	ask(422, "request.invalid", "day", total("app", "2026-02-30"))
	ask(422, "request.invalid", "day", total("app", "0000-01-01"))
	ask(422, "request.invalid", "day", total("app", "9999-12-31"))
	ask(403, "auth.forbidden", "", total("app", day(b, 0)), reader...)
	began(b)
	ask(422, "request.invalid", "day", total("app", day(b, 41)))
	ask(200, "", "", total("app", day(b, 40)))

	form := func(content string, fields ...string) (body string) {
		return apptest.Form("file", "statement.csv", content, append([]string{"sender_no", "app"}, fields...)...)
	}
	for field, body := range map[string]string{
		"file":            form("", "day", day(b, 0)),
		"number_column":   form("a,b\n1,2\n", "day", day(b, 0)),
		"day":             form("msgid\n1\n", "day", day(b, -1)),
		"status_column":   form("msgid\n1\n", "day", day(b, 0), "status_column", "state"),
		"segments_column": form("msgid\n1\n", "day", day(b, 0), "segments_column", "n"),
		"unit":            form("msgid\n1\n", "day", day(b, 0), "unit", "segments"), // a file cannot have a unit
	} {
		ask(422, "request.invalid", field, body, "Content-Type", apptest.FormType)
	}
	ask(422, "request.invalid", "day", form("msgid\n1\n", "day", "2026-02-30"), "Content-Type", apptest.FormType)
	// Nobody checks the rows of a statement, so a doubtful encoding must be named.
	latin := "msgid,\xe9tat\n1,d\xe9livr\xe9\n2,d\xe9livr\xe9\n"
	ask(422, "request.invalid", "encoding", form(latin, "day", day(b, 0)), "Content-Type", apptest.FormType)
	ask(422, "request.invalid", "encoding", form(latin, "day", day(b, 0), "status_column", "état"), "Content-Type", apptest.FormType)
	ask(200, "", "", form(latin, "day", day(b, 0), "status_column", "état", "encoding", "Windows-1252"), "Content-Type", apptest.FormType)
	// Two columns have usual names, so it is unknown which one contains the number.
	ask(422, "request.invalid", "number_column", form("msgid,sid\n1,2\n", "day", day(b, 0)), "Content-Type", apptest.FormType)
	// Messages of the day or of the previous day in UTC were dropped. The day overlaps both days in UTC.
	b.Exec("INSERT INTO task_partitions (first_day, last_day, dropped_at) SELECT d, d + 1, now() FROM (SELECT (now() AT TIME ZONE 'UTC')::date - 10 AS d) x ON CONFLICT (first_day) DO UPDATE SET dropped_at = now()")
	for _, ago := range []int{10, 9} {
		ask(422, "request.invalid", "day", form("msgid\n1\n", "day", day(b, ago)), "Content-Type", apptest.FormType)
		ask(200, "", "", total("app", day(b, ago)))
	}
	ask(200, "", "", form("msgid\n1\n", "day", day(b, 7)), "Content-Type", apptest.FormType)
	if n := b.Count("SELECT count(*) FROM uploads WHERE used_by IS NULL"); n != 0 {
		t.Errorf("%d files of refused requests are left", n)
	}
	b.Expect(404, "reconciliation.not_found", "GET", path+"/999", nil)
	b.Expect(404, "reconciliation.not_found", "GET", path+"/999/differences", nil)
	b.Expect(404, "reconciliation.not_found", "GET", path+"/999/differences.csv", nil)
	b.Expect(422, "request.invalid", "GET", path+"/1/differences?kind=x", nil)
	b.Expect(422, "request.invalid", "GET", path+"/1/differences.csv?kind=x", nil)
	b.Expect(422, "request.invalid", "GET", path+"/x", nil)
	for _, day := range []string{"x", "2026-02-30", "2026-01-011", "0000-01-01"} {
		b.Expect(422, "request.invalid", "GET", path+"?day="+day, nil)
		b.Expect(422, "request.invalid", "GET", totalsPath+"?day_to="+day, nil)
	}
	for _, day := range []string{"0001-01-01", "9999-12-31"} {
		b.Expect(200, "", "GET", path+"?day="+day, nil)
		b.Expect(200, "", "GET", totalsPath+"?day_to="+day, nil)
	}
}

// A provider's statement is compared even if the sender was disabled or retired meanwhile.
func TestStatementOfDisabledSenderIsCompared(t *testing.T) {
	b := apptest.New(t)
	send(b, "m", 2, nil)
	fold(b)
	for _, status := range []string{"off", "retired"} {
		b.Expect(200, "", "PATCH", "/api/v1/admin/senders/app", map[string]any{"status": status})
		if r := compareTotal(b, map[string]any{"sender_no": "app", "day": day(b, 0), "total": 2}); !*r.Matches {
			t.Errorf("%s: %s", status, summary(r))
		}
		if r := compared(b, "msgid\nm-1\nm-2\n", "day", day(b, 0)); !*r.Matches {
			t.Errorf("%s: %s", status, summary(r))
		}
	}
}

// S3.13: clocks differ. A message in the file matches an attempt that was accepted up to an hour before or after the day. A message that was accepted within
// minutes of midnight can be in the statement of the neighbouring day.
func TestMessagesNearMidnightMatchNeighbouringDay(t *testing.T) {
	b := apptest.New(t)
	began(b)
	for prefix, distance := range map[string]string{
		"before": "-24 hours -59 minutes", "after": "59 minutes", "earlier": "-26 hours", "first": "-24 hours", "last": "-1 second", "noon": "-12 hours",
		"next": "0 seconds",
	} {
		send(b, prefix, 1, nil)
		at(b, prefix, distance)
	}
	yesterday := day(b, 1)
	r := compared(b, "provider_no\nbefore-1\nafter-1\nnoon-1\nearlier-1\n", "day", yesterday)
	if got := summary(r); got != "finished false: ours 3, theirs 4, tests 0; matched 3, here 1, there 0, status 0, segments 0, repeated 0, unreadable 0, midnight 2" {
		t.Error(got)
	}
	want := "missing_here earlier-1 row 5, task true: -, -\nnear_midnight first-1 row -, task true: accepted, -\nnear_midnight last-1 row -, task true: accepted, -"
	if got := differences(b, r.ReconciliationID, ""); got != want {
		t.Errorf("differences are\n%s\nwant\n%s", got, want)
	}
	if got := differences(b, r.ReconciliationID, "?kind=missing_here"); !strings.HasPrefix(got, "missing_here") || strings.Contains(got, "near_midnight") {
		t.Error(got)
	}
	if r := compared(b, "provider_no\nbefore-1\nafter-1\nnoon-1\n", "day", yesterday); !*r.Matches || r.NearMidnight != 2 {
		t.Error(summary(r))
	}
}

// Numbers can contain white space, marks and copies, and some values are lossy or missing. The server never guesses a value.
func TestInvalidRowsOfStatementAreReported(t *testing.T) {
	b := apptest.New(t)
	send(b, "m", 6, nil)
	at(b, "m", "9 hours")
	r := compared(b, strings.Join([]string{
		"流水号,计费条数", " m-1\u00A0,1", "'m-2,1", "\"\tm-3\",1", "\u200Bm-4,one", ",1", "m-5,1,x", "1.38E+10,1", strings.Repeat("9", 201) + ",1", "", "M-6,1",
	}, "\n"), "day", day(b, 0), "segments_column", "计费条数")
	if got := summary(r); got != "finished false: ours 6, theirs 5, tests 0; matched 4, here 1, there 2, status 0, segments 0, repeated 0, unreadable 5, midnight 0" {
		t.Error(got)
	}
	want := []string{
		"unreadable m-4 row 5", "unreadable - row 6", "unreadable - row 7", "unreadable - row 8", "unreadable - row 9", "missing_here M-6 row 11",
		"missing_there m-5 row -", "missing_there m-6 row -",
	}
	got := strings.Split(differences(b, r.ReconciliationID, ""), "\n")
	for i, line := range want {
		if len(got) != len(want) || !strings.HasPrefix(got[i], line) {
			t.Errorf("differences are %q, want %q", got, want)
			break
		}
	}
	file := b.Call("GET", fmt.Sprintf("%s/%d/differences.csv?kind=unreadable", path, r.ReconciliationID), nil, "Accept-Language", "zh-CN").Raw
	if !strings.HasPrefix(file, "\uFEFFkind,number,row,task_id,accepted_at,ours,theirs\r\nunreadable,m-4,5,,,,") || strings.Count(file, "\r\n") != 6 || !strings.Contains(file, "被表格软件缩短") {
		t.Error(file)
	}
}

// A file without rows means that the provider accepted nothing. Tests are compared like other messages.
func TestStatementWithoutRowsReportsAllMessagesMissing(t *testing.T) {
	b := apptest.New(t)
	b.Claim("app", 1) // the app registers itself
	if r := compared(b, "msgid\n", "day", day(b, 0)); !*r.Matches {
		t.Error(summary(r))
	}
	send(b, "m", 1, nil)
	send(b, "t", 1, map[string]any{"test": true})
	at(b, "m", "9 hours")
	at(b, "t", "9 hours")
	if r := compared(b, "msgid\n", "day", day(b, 0)); *r.Matches || r.Differences.MissingThere != 2 {
		t.Error(summary(r))
	}
	if r := compared(b, `[{"msgid":"m-1"},{"msgid":"t-1"}]`, "day", day(b, 0)); !*r.Matches || r.Matched != 2 {
		t.Error(summary(r))
	}
}

// States are compared by the words that the request contains. Without such words, the words in the sender's callbacks are used. Without these, the usual words
// are used.
func TestStatesAreComparedByConfiguredWords(t *testing.T) {
	b := apptest.NewWith(t, apptest.DefaultRules, apptest.WithSecrets)
	b.AddSender(map[string]any{"sender_no": "app", "name": "A"})
	all := send(b, "m", 5, nil)
	receive(b, "app", 1, all[0], all[1])
	receive(b, "app", 2, all[2], all[3])
	b.SubmitMany("f", 1, nil)
	report(b, "f", 1, queue.Failed)
	at(b, "m", "9 hours")
	at(b, "f", "9 hours")
	check := func(r api.Reconciliation, want string) {
		t.Helper()
		var got []string
		for _, line := range strings.Split(differences(b, r.ReconciliationID, "?kind=status_differs"), "\n") {
			if fields := strings.Fields(line); len(fields) > 1 {
				got = append(got, fields[1])
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("other states have %q, want %s", got, want)
		}
	}
	const file = "msgid,state\nm-1,Delivrd\nm-2,MK:0001\nm-3,REJECTD\nm-4,UNKNOWN\nm-5,DELIVRD\nf-1,UNDELIV\n"
	check(compared(b, file, "day", day(b, 0), "status_column", "state"), "m-2 m-5")
	check(compared(b, file, "day", day(b, 0), "status_column", "state", "delivered_values", "unknown", "pending_values", "Rejectd", "pending_values", "DELIVRD"), "m-2 m-4")
	// A file without states means that the provider has accepted its messages. The sender reported one of them as FAILED.
	check(compared(b, "msgid\nm-1\nm-2\nm-3\nm-4\nm-5\nf-1\n", "day", day(b, 0)), "f-1")
	if r := compared(b, "msgid\nm-1\nm-2\nm-3\nm-4\nm-5\n", "day", day(b, 0)); !*r.Matches {
		t.Error(summary(r)) // the provider has not accepted the failed message
	}
	p := apptest.NewProvider(t)
	b.AddSender(map[string]any{"sender_no": "driven", "kind": "http-sms", "status": "off", "config": apptest.ReceiverConfig(p, map[string]any{"delivered": []string{"OK"}})})
	b.Expect(200, "", "POST", path, apptest.Form("file", "x.csv", file, "sender_no", "driven", "day", day(b, 0)), "Content-Type", apptest.FormType)
	if n := b.Count("SELECT count(*) FROM reconciliations WHERE sender_no = 'driven' AND delivered_values = '{ok}' AND pending_values = '{enroute}'"); n != 1 {
		t.Error("the words of the callbacks are not those of the file")
	}
}

// Two senders can both have sent the message of a task. A receipt belongs to the attempt whose provider sent it.
func TestReceiptOfAnotherSenderIsIgnored(t *testing.T) {
	b := apptest.New(t)
	all := send(b, "m", 4, nil)
	at(b, "m", "9 hours")
	for _, batch := range [][]queue.Final{
		{{TaskID: all[0].taskID, SenderNo: "app", State: 2}},
		{
			{TaskID: all[0].taskID, SenderNo: "two", State: 1},
			{TaskID: all[1].taskID, SenderNo: "app", State: 2}, {TaskID: all[1].taskID, SenderNo: "two", State: 1}, // both receipts arrive together, and only one of them is stored
			{TaskID: all[2].taskID, SenderNo: "two", State: 1}, {TaskID: all[3].taskID, SenderNo: "two", State: 2},
		},
		{{TaskID: all[2].taskID, SenderNo: "app", State: 1}}, // not stored, because the task is delivered already
	} {
		if _, err := b.App.Queue.SettleReceipts(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
	}
	if n := b.Count("SELECT count(*) FROM report_logs WHERE event = 'receipt' AND (app_id, effect) = ('app', 'delivered')"); n != 0 {
		t.Errorf("%d receipts have the sender of another one", n)
	}
	r := compared(b, "msgid,state\nm-1,UNDELIV\nm-2,UNDELIV\nm-3,DELIVRD\nm-4,DELIVRD\n", "day", day(b, 0), "status_column", "state")
	if got, want := differences(b, r.ReconciliationID, ""), "status_differs m-4 row 5, task true: accepted, DELIVRD"; got != want {
		t.Errorf("differences are %s, want %s", got, want)
	}
}

// Several messages can have the same number. If the rows of this number have different states, the states are not compared.
func TestMessagesWithSameNumberAreComparedTogether(t *testing.T) {
	b := apptest.New(t)
	all := send(b, "m", 4, nil)
	b.SubmitMany("f", 1, nil)
	report(b, "f", 1, queue.Failed)
	at(b, "m", "9 hours")
	at(b, "f", "9 hours")
	b.Exec("UPDATE deliveries SET provider_no = CASE provider_no WHEN 'm-1' THEN 'a' WHEN 'm-2' THEN 'a' WHEN 'm-3' THEN 'b' ELSE 'c' END")
	receive(b, "app", 1, all[0], all[2])
	receive(b, "app", 2, all[1])
	const apart = "x,DELIVRD\n"
	for name, file := range map[string]string{
		"together": "a,DELIVRD\na,UNDELIV\nc,UNDELIV\nc,ACCEPTD\n",
		"apart":    "a,DELIVRD\nc,UNDELIV\n" + strings.Repeat(apart, 5000) + "a,UNDELIV\nc,ACCEPTD\n", // the rows of each number are in different portions
	} {
		r := compared(b, "msgid,state\n"+file+"b,UNDELIV\n", "day", day(b, 0), "status_column", "state")
		if got, want := differences(b, r.ReconciliationID, "?kind=status_differs"), "status_differs b row"; !strings.HasPrefix(got, want) || strings.Contains(got, "\n") {
			t.Errorf("%s: differences are %s, want one of b", name, got)
		}
	}
}

// A provider can reuse a number. An attempt in a neighbouring hour matches only if the day has fewer messages with this number than the file.
func TestReusedNumberNearMidnightMatchesOnlyMissingMessages(t *testing.T) {
	b := apptest.New(t)
	began(b)
	for prefix, distance := range map[string]string{"day": "-12 hours", "near": "5 minutes", "far": "50 minutes"} {
		send(b, prefix, 2, map[string]any{"content": strings.Repeat("字", map[string]int{"day": 10, "near": 71, "far": 140}[prefix])})
		at(b, prefix, distance)
	}
	b.Exec("DELETE FROM deliveries WHERE provider_no LIKE 'day-2'")
	b.Exec("UPDATE deliveries SET provider_no = CASE WHEN provider_no LIKE '%-1' THEN 'a' ELSE 'b' END")
	r := compared(b, "msgid,segments\na,1\nb,2\n", "day", day(b, 1), "segments_column", "segments")
	if !*r.Matches || r.Matched != 2 {
		t.Errorf("%s\n%s", summary(r), differences(b, r.ReconciliationID, ""))
	}
	if r := compared(b, "msgid,segments\na,1\na,2\na,3\na,1\n", "day", day(b, 1), "segments_column", "segments"); r.Differences.Repeated != 1 {
		t.Errorf("%s\n%s", summary(r), differences(b, r.ReconciliationID, ""))
	}
}

// statement returns a file with the numbers prefix-from to prefix-to.
func statement(prefix string, from, to int) string {
	var text strings.Builder
	text.WriteString("msgid\n")
	for i := from; i <= to; i++ {
		fmt.Fprintf(&text, "%s-%d\n", prefix, i)
	}
	return text.String()
}

// accept stores n attempts that the provider of app accepted in the same second. Their numbers are prefix-1 to prefix-n.
func accept(b *apptest.Bundle, prefix string, n int) {
	b.T.Helper()
	b.Exec(`INSERT INTO deliveries (task_id, lease_id, sender_no, recipient, provider_no, created_at)
		SELECT 'task_' || i, i, 'app', 'x', $1 || '-' || i, `+midnight+` + interval '9 hours' FROM generate_series(1, $2::integer) i`, prefix, n)
}

// A portion reads a bounded number of attempts, even if a provider gives the same number to many messages.
func TestNumberWithTooManyMessagesIsUnreadable(t *testing.T) {
	b := apptest.New(t)
	b.Claim("app", 1)
	var file strings.Builder
	file.WriteString("msgid\nb-4001\n0\n")
	for i, n := range []int{10_001, 4000, 4000, 4000} { // the first number is a constant, which identifies no message
		b.Exec(`INSERT INTO deliveries (task_id, lease_id, sender_no, recipient, provider_no, created_at)
			SELECT 'task_' || $1::integer || '_' || i, i, 'app', 'x', $1::integer, `+midnight+` + interval '9 hours' FROM generate_series(1, $2::integer) i`, i, n)
		if i > 0 {
			file.WriteString(strings.Repeat(fmt.Sprintln(i), n))
		}
	}
	r := compared(b, file.String(), "day", day(b, 0))
	if got := summary(r); got != "finished false: ours 3, theirs 5, tests 0; matched 3, here 1, there 0, status 0, segments 0, repeated 0, unreadable 1, midnight 0" {
		t.Error(got)
	}
	if got, want := differences(b, r.ReconciliationID, "?kind=unreadable"),
		"unreadable 0 row 3, task false: -, identifies no message: more than 10,000 attempts of the sender have this number"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// refuse makes the database reject changes of a table until allow is called. A non-empty condition limits this to matching rows.
func refuse(b *apptest.Bundle, table, condition string) (allow func()) {
	b.T.Helper()
	b.Exec(`CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused by the test'; END $$`)
	b.Exec("CREATE TRIGGER refuse BEFORE INSERT OR UPDATE OR DELETE ON " + table + " FOR EACH ROW EXECUTE FUNCTION refuse()")
	if condition != "" {
		b.Exec("DROP TRIGGER refuse ON " + table)
		b.Exec("CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON " + table + " FOR EACH ROW WHEN (" + condition + ") EXECUTE FUNCTION refuse()")
	}
	return func() {
		b.T.Helper()
		b.Exec("DROP TRIGGER refuse ON " + table)
	}
}

// S3.13: a server can be killed in any phase. Another server continues there, and nothing is counted twice.
func TestAnotherServerContinuesInterruptedComparison(t *testing.T) {
	b := apptest.New(t)
	b.Claim("app", 1)
	servers := []*app.App{b.App, apptest.Another(b)}
	accept(b, "m", 13_000)
	r := upload(b, statement("m", 5001, 17_000), "day", day(b, 0)) // 8,000 match, 4,000 are missing here, and 5,000 there
	for i, stop := range []struct{ table, condition string }{
		{"reconciliation_rows", "NEW.provider_no = 'm-11000'"},                                      // in the second portion of the file
		{"reconciliation_differences", "NEW.kind = 'missing_here' AND NEW.provider_no = 'm-15000'"}, // in the matching phase
		{"reconciliation_differences", "NEW.kind = 'missing_there'"},                                // in the searching phase
		{"reconciliations", "NEW.status = 'finished'"},                                              // at the end
	} {
		allow := refuse(b, stop.table, stop.condition)
		if _, err := servers[i%2].Reconcile.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "refused by the test") {
			t.Errorf("%s: %v", stop.condition, err)
		}
		if got := get(b, r.ReconciliationID); got.Status != "running" || got.Matches != nil {
			t.Errorf("%s: %s", stop.condition, summary(got))
		}
		allow()
	}
	if _, err := servers[0].Reconcile.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := summary(get(b, r.ReconciliationID)); got != "finished false: ours 13000, theirs 12000, tests 0; matched 8000, here 4000, there 5000, status 0, segments 0, repeated 0, unreadable 0, midnight 0" {
		t.Error(got)
	}
	if n := b.Count("SELECT count(DISTINCT provider_no) FROM reconciliation_differences WHERE reconciliation_id = $1", r.ReconciliationID); n != 9000 {
		t.Errorf("%d differences are kept, want 9000", n)
	}
	if n := b.Count("SELECT (SELECT count(*) FROM reconciliation_rows) + (SELECT count(*) FROM uploads)"); n != 0 {
		t.Errorf("%d rows and uploads are left", n)
	}
}

// Two servers compare the same files at the same time. Each message counts once. At most 10,000 differences of each kind are stored.
func TestTwoServersComparingSameFilesCountOnce(t *testing.T) {
	b := apptest.New(t)
	b.Claim("app", 1)
	servers := []*app.App{b.App, apptest.Another(b)}
	accept(b, "m", 10_500)
	first := upload(b, statement("m", 1, 6000), "day", day(b, 0))
	second := upload(b, statement("x", 1, 10_050), "day", day(b, 0))
	apptest.Together(4, func(i int) {
		if _, err := servers[i%2].Reconcile.Run(t.Context()); err != nil {
			t.Error(err)
		}
	})
	run(b)
	if got := summary(get(b, first.ReconciliationID)); !strings.HasPrefix(got, "finished false: ours 10500, theirs 6000, tests 0; matched 6000, here 0, there 4500,") {
		t.Error(got)
	}
	if got := summary(get(b, second.ReconciliationID)); !strings.HasPrefix(got, "finished false: ours 10500, theirs 10050, tests 0; matched 0, here 10050, there 10500,") {
		t.Error(got)
	}
	if n := b.Count("SELECT count(*) FROM reconciliation_differences WHERE reconciliation_id = $1", second.ReconciliationID); n != 20_000 {
		t.Errorf("%d differences are kept, want 10,000 of each kind", n)
	}
}

// A file that is unreadable at some row has no result. The rows before it are deleted.
func TestUnreadableStatementFails(t *testing.T) {
	b := apptest.New(t)
	b.Claim("app", 1)
	r := compared(b, statement("m", 1, 5500)+"\"m-x\n", "day", day(b, 0))
	if r.Status != "failed" || r.Matches != nil || r.Failure == nil || !strings.Contains(*r.Failure, "5502") || r.FinishedAt == nil {
		t.Errorf("%s %v", summary(r), r.Failure)
	}
	if n := b.Count("SELECT (SELECT count(*) FROM reconciliation_rows) + (SELECT count(*) FROM uploads)"); n != 0 {
		t.Errorf("%d rows and uploads are left", n)
	}
}

// Attempts are dropped during the comparison. The comparison fails, because their messages would wrongly be reported as missing_here.
func TestComparisonFailsIfDayIsDroppedMeanwhile(t *testing.T) {
	b := apptest.New(t)
	began(b)
	b.Claim("app", 1)
	r := upload(b, "msgid\nm-1\n", "day", day(b, 10))
	b.Exec("INSERT INTO task_partitions (first_day, last_day, dropped_at) SELECT d, d + 1, now() FROM (SELECT (now() AT TIME ZONE 'UTC')::date - 10 AS d) x ON CONFLICT (first_day) DO UPDATE SET dropped_at = now()")
	run(b)
	if r = get(b, r.ReconciliationID); r.Status != "failed" || r.Matches != nil || r.Failure == nil || !strings.Contains(*r.Failure, "were dropped") {
		t.Errorf("%s %v", summary(r), r.Failure)
	}
}

// A repeated request with the same Idempotency-Key returns the first response. At most ten files are compared at the same time.
func TestRepeatedStatementIsAcceptedOnce(t *testing.T) {
	b := apptest.New(t)
	b.Claim("app", 1)
	key := []string{"Idempotency-Key", "k"}
	body := map[string]any{"sender_no": "app", "day": day(b, 0), "total": 0}
	if one, two := compareTotal(b, body, key...), compareTotal(b, body, key...); one.ReconciliationID != two.ReconciliationID {
		t.Error("a total was taken twice")
	}
	form := func(content string) string {
		return apptest.Form("file", "s.csv", content, "sender_no", "app", "day", day(b, 0))
	}
	headers := []string{"Content-Type", apptest.FormType, "Idempotency-Key", "f"}
	one := apptest.Decode[api.Reconciliation](t, b.Expect(200, "", "POST", path, form("msgid\n1\n"), headers...))
	two := apptest.Decode[api.Reconciliation](t, b.Expect(200, "", "POST", path, form("msgid\n1\n"), headers...))
	if one.ReconciliationID != two.ReconciliationID {
		t.Error("a file was taken twice")
	}
	for range 9 {
		b.Expect(200, "", "POST", path, form("msgid\n1\n"), "Content-Type", apptest.FormType)
	}
	b.Expect(409, "limit.reached", "POST", path, form("msgid\n1\n"), "Content-Type", apptest.FormType)
	run(b)
	b.Expect(200, "", "POST", path, form("msgid\n1\n"), "Content-Type", apptest.FormType)
}

func TestOldReconciliationsAreDeleted(t *testing.T) {
	b := apptest.New(t)
	b.Claim("app", 1)
	old := compared(b, "msgid\nx\n", "day", day(b, 0))
	running := upload(b, "msgid\nx\n", "day", day(b, 0))
	b.Exec("UPDATE reconciliations SET finished_at = now() - interval '181 days' WHERE id = $1", old.ReconciliationID)
	b.Exec("UPDATE reconciliations SET created_at = now() - interval '181 days'")
	compareTotal(b, map[string]any{"sender_no": "app", "day": day(b, 0), "total": 0})
	if n, err := b.App.Reconcile.DeleteExpired(t.Context()); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	b.Expect(404, "reconciliation.not_found", "GET", fmt.Sprintf("%s/%d", path, old.ReconciliationID), nil)
	get(b, running.ReconciliationID)
	if n := b.Count("SELECT count(*) FROM reconciliation_differences"); n != 0 {
		t.Errorf("%d differences are left", n)
	}
}

// S3.13: a statement with differences raises an alert. The alert ends after a later statement of the day without differences, or after a week.
func TestStatementWithDifferencesRaisesAlert(t *testing.T) {
	b := apptest.New(t)
	began(b)
	send(b, "m", 3, nil)
	fold(b)
	expect := func(want string) {
		t.Helper()
		if _, err := b.App.Alerts.Evaluate(t.Context()); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, a := range apptest.Decode[api.AlertPage](t, b.Expect(200, "", "GET", "/api/v1/admin/alerts?status=firing", nil)).Items {
			if a.Kind == "statement_differs" {
				got = append(got, fmt.Sprintf("%s %v %s %s", a.Subject, a.Value, *a.Channel, *a.SenderNo))
			}
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("alerts are %q, want %q", got, want)
		}
	}
	today := map[string]any{"sender_no": "app", "day": day(b, 0), "total": 5}
	compareTotal(b, today)
	expect("app/" + day(b, 0) + " 2 sms app")
	compareTotal(b, map[string]any{"sender_no": "app", "day": day(b, 1), "total": 0}) // this statement is about another day
	expect("app/" + day(b, 0) + " 2 sms app")
	compared(b, "msgid\n\"1\n", "day", day(b, 0)) // an unreadable file does not end the alert
	expect("app/" + day(b, 0) + " 2 sms app")
	today["total"] = 3
	compareTotal(b, today)
	expect("")
	today["total"] = 2
	compareTotal(b, today)
	expect("app/" + day(b, 0) + " 1 sms app")
	b.Exec("UPDATE reconciliations SET finished_at = finished_at - interval '7 days'")
	expect("")
	// A rule can tolerate some differences.
	b.Exec("UPDATE alert_rules SET threshold = 1 WHERE kind = 'statement_differs'")
	compareTotal(b, today)
	expect("")
	at(b, "m", "9 hours")
	compared(b, "msgid\nx\n", "day", day(b, 0))
	expect("app/" + day(b, 0) + " 4 sms app")
}
