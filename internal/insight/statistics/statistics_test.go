package statistics_test

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/app"
	"lksms/internal/dispatch/callback"
	"lksms/internal/dispatch/queue"
	"lksms/internal/insight/statistics"
	"lksms/internal/platform/optional"
	"lksms/internal/testkit/apptest"
)

func TestMain(m *testing.M) { apptest.Main(m) }

func fold(b *apptest.Bundle) {
	b.T.Helper()
	if _, err := b.App.History.Fold(b.T.Context()); err != nil {
		b.T.Error(err)
	}
}

func rollUp(b *apptest.Bundle) int {
	b.T.Helper()
	n, err := b.App.Statistics.RollUp(b.T.Context())
	if err != nil {
		b.T.Error(err)
	}
	return n
}

// ripen moves the staged rows of the current minute to the previous minute, because only past minutes can be rolled up.
func ripen(b *apptest.Bundle) {
	b.T.Helper()
	b.Exec("UPDATE statistics_staged SET at = at - interval '1 minute' WHERE at >= date_trunc('minute', now(), 'UTC')")
}

func read(b *apptest.Bundle, q statistics.Query) statistics.Answer {
	b.T.Helper()
	if q.From.IsZero() {
		q.From = time.Now().Add(-20 * time.Hour)
		q.To = new(time.Now().Add(time.Hour))
	}
	if q.Step == "" {
		q.Step = statistics.Hour
	}
	if q.By == "" {
		q.By = statistics.ByNothing
	}
	if q.Limit == 0 {
		q.Limit = 100
	}
	answer, err := b.App.Statistics.Read(b.T.Context(), q)
	if err != nil {
		b.T.Fatal(err)
	}
	return answer
}

// events is an SQL query that returns one row for each event in the logs: the company, the event (named as in Counts), and its duration. kind is the message
// type or "test". The table requeued contains the requeued tasks.
const events = `
	WITH ended AS (
		SELECT r.*, CASE WHEN is_test THEN 'test' ELSE message_type::text END AS kind, CASE WHEN effect = 'success' THEN 'SUCCESS' WHEN effect = 'cancelled' THEN 'CANCELLED' ELSE 'FAILED' END AS ended_as
		FROM report_logs r
		WHERE effect IN ('success', 'failed', 'exhausted', 'unclear', 'expired', 'cancelled')
	),
	leases AS (
		SELECT task_id, company_id, pool_id, app_id, CASE WHEN is_test THEN 'test' ELSE message_type::text END AS kind, entered_at, leased_at, retry_count
		FROM report_logs WHERE leased_at IS NOT NULL
		UNION ALL
		SELECT task_id, company_id, pool_id, processing_app_id, CASE WHEN is_test THEN 'test' ELSE message_type::text END, entered_at, updated_at, retry_count
		FROM queue WHERE lease_until IS NOT NULL
	),
	firsts AS (
		SELECT DISTINCT ON (l.task_id) l.* FROM leases l
		WHERE NOT EXISTS (SELECT FROM requeued q WHERE q.task_id = l.task_id AND q.at <= l.leased_at)
		ORDER BY l.task_id, l.leased_at
	),
	events AS (
		SELECT m.company_id, m.pool_id, '' AS sender, CASE WHEN m.is_test THEN 'test' ELSE m.message_type::text END AS kind,
			coalesce(max(CASE r.event WHEN 'unreachable' THEN 'FAILED' WHEN 'simulated' THEN 'SUCCESS' END), '') AS outcome,
			'submitted' AS what, 1 AS n, NULL::bytea AS took
		FROM messages m LEFT JOIN report_logs r ON r.task_id = m.task_id GROUP BY m.task_id, m.company_id, m.pool_id, m.message_type, m.is_test
		UNION ALL SELECT q.company_id, q.pool_id, '', CASE WHEN m.is_test THEN 'test' ELSE q.message_type::text END, '', 'requeued', 1, NULL
			FROM requeued q JOIN messages m ON m.task_id = q.task_id
		UNION ALL SELECT company_id, pool_id, app_id, kind, '', 'claimed', 1, NULL FROM leases
		UNION ALL SELECT company_id, pool_id, app_id, kind, '', 'waits', 1, wait_bucket(leased_at - entered_at) FROM firsts WHERE retry_count = 0
		UNION ALL SELECT company_id, pool_id, coalesce(app_id, ''), kind, ended_as,
			CASE ended_as WHEN 'SUCCESS' THEN 'succeeded' ELSE lower(ended_as) END, 1, NULL FROM ended
		UNION ALL SELECT company_id, pool_id, app_id, CASE WHEN is_test THEN 'test' ELSE message_type::text END,
			CASE effect WHEN 'retry' THEN '' ELSE 'FAILED' END, 'reported_failed', 1, NULL
			FROM report_logs WHERE status = 3 AND effect IN ('failed', 'exhausted', 'retry')
		UNION ALL SELECT company_id, pool_id, app_id, CASE WHEN is_test THEN 'test' ELSE message_type::text END,
			CASE effect WHEN 'retry' THEN '' ELSE 'FAILED' END, 'unreported', 1, NULL
			FROM report_logs WHERE event = 'recovered' AND effect <> 'untried'
		UNION ALL SELECT company_id, pool_id, coalesce(app_id, ''), kind, ended_as, 'durations', 1, wait_bucket(created_at - entered_at)
			FROM ended WHERE ended_as <> 'CANCELLED' AND event NOT IN ('unreachable', 'simulated')
		UNION ALL SELECT company_id, pool_id, app_id, kind, 'SUCCESS', 'segments', coalesce(lease_segments, segments), NULL FROM ended WHERE status = 2
		UNION ALL SELECT r.company_id, r.pool_id, r.app_id, CASE WHEN r.is_test THEN 'test' ELSE r.message_type::text END, '', r.effect, 1, NULL
			FROM report_logs r WHERE r.event IN ('receipt', 'past_receipt')
		-- A submission counts for the sender that took it first.
		UNION ALL SELECT f.company_id, f.pool_id, x.sender, f.kind, '', 'submitted', x.n, NULL
			FROM firsts f CROSS JOIN LATERAL (VALUES (f.app_id, 1), ('', -1)) AS x (sender, n) WHERE f.retry_count = 0 AND $2 = 'sender'
	)`

// recount counts the events of a company by a dimension, as lines of text; a nil company means all companies.
func recount(b *apptest.Bundle, by string, company *int64) string {
	b.T.Helper()
	key := map[string]string{
		statistics.ByNothing: "''", statistics.ByCompany: "e.company_id::text", statistics.ByChannel: "p.channel", statistics.BySender: "e.sender",
		statistics.ByMessageType: "e.kind", statistics.ByOutcome: "e.outcome",
	}[by]
	return apptest.Scan[string](b, events+` SELECT coalesce(string_agg(x.line, E'\n' ORDER BY x.line COLLATE "C"), '') FROM (
		SELECT k.key || ' ' || k.what || ' ' || sum(k.n) || ' ' || coalesce(encode(string_agg(k.took, '' ORDER BY k.took), 'hex'), '') AS line
		FROM (
			SELECT `+key+` AS key, e.* FROM events e LEFT JOIN pool_channels p ON p.pool_id = e.pool_id
			WHERE ($1::bigint IS NULL OR e.company_id = $1) AND (e.kind <> 'test' OR $2 = 'message_type')
		) k
		GROUP BY k.key, k.what
		HAVING sum(k.n) <> 0) x`, company, by)
}

// lines returns the totals of an answer in the format of recount.
func lines(answer statistics.Answer) string {
	var all []string
	for _, s := range answer.Series {
		t := s.Totals
		for what, n := range map[string]int64{
			"submitted": t.Submitted, "requeued": t.Requeued, "claimed": t.Claimed, "succeeded": t.Succeeded, "failed": t.Failed,
			"reported_failed": t.ReportedFailed, "unreported": t.Unreported, "cancelled": t.Cancelled, "delivered": t.Delivered, "undelivered": t.Undelivered, "segments": t.Segments,
		} {
			if n != 0 {
				all = append(all, fmt.Sprintf("%s %s %d ", s.Key, what, n))
			}
		}
		for what, h := range map[string]statistics.Histogram{"waits": t.Waits, "durations": t.Durations} {
			if h.Count() > 0 {
				all = append(all, fmt.Sprintf("%s %s %d %x", s.Key, what, h.Count(), h.Buckets()))
			}
		}
	}
	slices.Sort(all)
	text := ""
	for i, line := range all {
		if i > 0 {
			text += "\n"
		}
		text += line
	}
	return text
}

var dimensions = []string{
	statistics.ByNothing, statistics.ByCompany, statistics.ByChannel, statistics.BySender, statistics.ByMessageType, statistics.ByOutcome,
}

// compare fails the test unless the figures equal the recount of the logs.
func compare(b *apptest.Bundle, when string, companies []*int64) {
	b.T.Helper()
	for _, company := range companies {
		for _, by := range dimensions {
			got, want := lines(read(b, statistics.Query{By: by, CompanyID: company, Step: []string{statistics.Minute, statistics.Hour, statistics.Day}[rand.IntN(3)]})), recount(b, by, company)
			if got != want {
				b.T.Fatalf("after %s, by %s, company %v:\n%s\nthe logs say:\n%s", when, by, company, got, want)
			}
		}
	}
}

// requeue is a statement that requeues a settled task as an operator does: the task becomes PENDING again.
const requeue = `
	WITH one AS (
		SELECT r.task_id FROM report_logs r WHERE r.outcome IN (3, 4) AND r.event <> 'unreachable' ORDER BY hashtext(r.task_id || $1) LIMIT 1
	),
	undone AS (
		UPDATE report_logs r SET outcome = NULL FROM one WHERE r.task_id = one.task_id AND r.outcome IS NOT NULL RETURNING r.company_id, 1
	),
	fewer AS (
		INSERT INTO facts (company_id, at, failed) SELECT company_id, clock_timestamp(), -1 FROM undone
	),
	inserted AS (
		INSERT INTO requeued SELECT m.task_id, m.company_id, m.pool_id, m.message_type, clock_timestamp() FROM messages m JOIN one ON one.task_id = m.task_id
	)
	INSERT INTO queue (task_id, pool_id, company_id, message_type, priority, segments, phone_number, recipient, content, was_claimed, entered_at, updated_at, is_test)
	SELECT m.task_id, m.pool_id, m.company_id, m.message_type, m.priority, m.segments, m.phone_number, m.recipient, m.content, true, now(), now(), m.is_test
	FROM messages m JOIN one ON one.task_id = m.task_id`

// lease is a lease of a sender app.
type lease struct {
	api.ClaimedTask
	app string
}

// randomWork is a server on which random actions change the tasks of two companies.
type randomWork struct {
	*apptest.Bundle
	random      *rand.Rand
	headers     [][]string // one element for each company
	companies   []*int64   // a nil element means all companies
	apps, types []string
	leases      []lease // includes ended leases
}

func newRandomWork(t *testing.T) *randomWork {
	t.Helper()
	b := apptest.New(t)
	seed := time.Now().UnixNano()
	t.Log("seed", seed)
	b.Exec("CREATE TABLE requeued (task_id text, company_id bigint, pool_id bigint, message_type smallint, at timestamptz)")
	headers := [][]string{nil, b.AddCompany("acme", 1)}
	b.AddSender(map[string]any{"sender_no": "mine", "is_shared": false, "balance": 100000})
	b.AddRouteWith(map[string]any{"company_no": "acme", "sender_no": "mine", "message_type": "marketing"})
	b.PutContacts(map[string]any{"user_id": "boss", "dingtalk_name": "ding-boss"}, map[string]any{"user_id": "ghost", "email": "g@example.com"})
	acme := int64(b.Count("SELECT id FROM companies WHERE company_no = 'acme'"))
	return &randomWork{
		Bundle: b, random: rand.New(rand.NewPCG(uint64(seed), 0)), headers: headers, companies: []*int64{nil, new(int64(1)), &acme},
		apps: []string{"a", "b", "mine"}, types: []string{"verification", "notification", "marketing"},
	}
}

// withLease calls do with a random lease. It does nothing if no lease exists.
func (w *randomWork) withLease(do func(l lease)) {
	if len(w.leases) > 0 {
		do(w.leases[w.random.IntN(len(w.leases))])
	}
}

// expectDoneOrRefused fails the test if a request failed for any reason except the state of the task.
func (w *randomWork) expectDoneOrRefused(a apptest.Answer) {
	w.T.Helper()
	if a.Status != 200 && a.Status != 409 {
		w.T.Fatal(a.Raw)
	}
}

// ids returns the ids of up to four random tasks.
func (w *randomWork) ids() []string {
	w.T.Helper()
	return apptest.Scan[[]string](w.Bundle, "SELECT coalesce(array_agg(x.task_id), '{}') FROM (SELECT task_id FROM messages ORDER BY hashtext(task_id || $1) LIMIT 4) x", strconv.Itoa(w.random.Int()))
}

type step struct {
	name string
	do   func()
}

// submissions returns the steps that add tasks.
func (w *randomWork) submissions() []step {
	return []step{
		{"submit", func() {
			w.SubmitMany("x", 1+w.random.IntN(6), map[string]any{"message_type": w.types[w.random.IntN(3)]}, w.headers[w.random.IntN(2)]...)
		}},
		{"submit tests", func() {
			w.SubmitMany("x", 1+w.random.IntN(6), map[string]any{"message_type": w.types[w.random.IntN(3)], "test": true}, w.headers[w.random.IntN(2)]...)
		}},
		{"simulate", func() {
			w.Expect(200, "", "PUT", "/api/v1/admin/settings/sms", map[string]any{"send_tests": false})
			w.SubmitMany("x", 1+w.random.IntN(3), map[string]any{"message_type": w.types[w.random.IntN(3)], "test": true}, w.headers[w.random.IntN(2)]...)
			w.Expect(200, "", "PUT", "/api/v1/admin/settings/sms", map[string]any{"send_tests": true})
		}},
		{"submit for later", func() {
			w.SubmitMany("x", 1, map[string]any{"expect_send_time": time.Now().Add(300 * time.Millisecond)})
		}},
		{"notify", func() {
			w.Expect(200, "", "POST", "/api/v1/notifications", map[string]any{
				"biz_type": 3, "biz_id": w.random.IntN(1 << 30), "channels": []string{"dingtalk"}, "payload": map[string]any{"taskName": "x"}, "user_ids": []string{"boss", "ghost"},
			})
			if _, err := w.App.Notifications.Run(w.T.Context()); err != nil {
				w.T.Fatal(err)
			}
		}},
	}
}

// dispatch returns the steps that claim and end tasks.
func (w *randomWork) dispatch() []step {
	return []step{
		{"claim", func() {
			app := w.apps[w.random.IntN(len(w.apps))]
			for _, task := range w.Take(app, 1+w.random.IntN(8)) {
				w.leases = append(w.leases, lease{task, app})
			}
		}},
		{"report", func() {
			w.withLease(func(l lease) {
				w.expectDoneOrRefused(w.Call("POST", "/api/v1/sms/report", apptest.ReportBody(l.TaskID, l.app, 2+w.random.IntN(2), apptest.Report{"should_retry": w.random.IntN(2) == 0})))
			})
		}},
		{"release", func() {
			w.withLease(func(l lease) {
				if _, err := w.App.Queue.Release(w.T.Context(), l.app, []queue.Unused{{TaskID: l.TaskID, LeaseID: l.LeaseID, Tried: w.random.IntN(2) == 0}}); err != nil {
					w.T.Fatal(err)
				}
			})
		}},
		{"recover", func() {
			w.Exec("UPDATE queue SET lease_until = now() - interval '1 second' WHERE lease_until IS NOT NULL AND hashtext(task_id || $1) % 3 = 0", strconv.Itoa(w.random.Int()))
			w.Recover()
			w.Exec("UPDATE queue SET due_at = now() WHERE due_at > now()")
		}},
		{"cancel", func() {
			w.withLease(func(l lease) { w.expectDoneOrRefused(w.Call("POST", "/api/v1/sms/task/"+l.TaskID+"/cancel", nil)) })
		}},
		{"expire", func() {
			w.Exec("UPDATE queue SET expires_at = now() WHERE lease_until IS NULL AND hashtext(task_id || $1) % 9 = 0", strconv.Itoa(w.random.Int()))
			if _, err := w.App.Queue.Expire(w.T.Context()); err != nil {
				w.T.Fatal(err)
			}
		}},
	}
}

// followUps returns the steps that change ended tasks or move their figures.
func (w *randomWork) followUps() []step {
	return []step{
		{"receipts", func() {
			var finals []queue.Final
			for _, id := range w.ids() {
				finals = append(finals, queue.Final{TaskID: id, SenderNo: "a", State: callback.Delivered + int16(w.random.IntN(2))})
			}
			if _, err := w.App.Queue.SettleReceipts(w.T.Context(), finals); err != nil {
				w.T.Fatal(err)
			}
		}},
		{"requeue", func() { w.Exec(requeue, strconv.Itoa(w.random.Int())) }},
		{"fold", func() { fold(w.Bundle) }},
		{"roll up", func() { ripen(w.Bundle); rollUp(w.Bundle) }},
	}
}

// Random actions change the tasks of two companies, with folds and roll-ups at random times. The figures equal a recount of the logs by each dimension, for
// each company and for all companies.
func TestStatisticsEqualARecountOfTheLogs(t *testing.T) {
	w := newRandomWork(t)
	steps, did := slices.Concat(w.submissions(), w.dispatch(), w.followUps()), map[string]int{}
	for range 250 {
		step := steps[w.random.IntN(len(steps))]
		step.do()
		did[step.name]++
		if w.random.IntN(4) == 0 {
			compare(w.Bundle, step.name, w.companies)
		}
	}
	compare(w.Bundle, "all", w.companies)
	fold(w.Bundle)
	ripen(w.Bundle)
	rollUp(w.Bundle)
	compare(w.Bundle, "the last roll-up", w.companies)
	if n := w.Count("SELECT (SELECT count(*) FROM facts) + (SELECT count(*) FROM statistics_staged)"); n != 0 {
		t.Errorf("%d rows are left", n)
	}
	if n := w.Count("SELECT count(*) FROM report_logs WHERE event = 'unreachable'"); n == 0 && did["notify"] > 0 {
		t.Error("nobody was unreachable")
	}
	t.Log(did)
}

// Test messages are counted only in the series of their own message type.
func TestTestMessagesAreCountedSeparately(t *testing.T) {
	b := apptest.New(t)
	b.SubmitMany("x", 2, map[string]any{"message_type": "marketing"})
	b.SubmitMany("x", 3, map[string]any{"message_type": "marketing", "test": true})
	for _, task := range b.Take("app", 10) {
		b.Report(task.TaskID, "app", 2, nil)
	}
	from := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	check := func(when string) {
		t.Helper()
		for query, want := range map[string]string{
			"": " 2", "&by=company": "default 2", "&by=channel": "sms 2", "&by=sender": "app 2", "&by=outcome": " 2,SUCCESS 2",
			"&by=message_type": "test 3,marketing 2", "&by=message_type&key=test": "test 3", "&by=message_type&key=marketing": "marketing 2",
		} {
			got := []string{}
			for _, s := range apptest.Decode[api.StatisticsRange](t, b.Expect(200, "", "GET", "/api/v1/admin/statistics?from="+from+query, nil)).Series {
				got = append(got, fmt.Sprint(optional.Value(s.Key), " ", max(s.Totals.Submitted, s.Totals.Claimed, s.Totals.Succeeded)))
			}
			if strings.Join(got, ",") != want {
				t.Errorf("%s, %s: %v, want %s", when, query, got, want)
			}
		}
		if n, err := b.App.Statistics.Events(t.Context(), nil, time.Now()); n.Submitted != 5 || err != nil {
			t.Errorf("%s: %d tasks were submitted, %v", when, n.Submitted, err)
		}
	}
	check("facts")
	fold(b)
	check("staged")
	ripen(b)
	rollUp(b)
	check("rolled up")
}

// Several goroutines fold facts and roll up minutes. Meanwhile, every reader counts every event once.
func TestReadersCountEachEventOnceDuringRollUp(t *testing.T) {
	b := apptest.New(t)
	b.Exec("CREATE TABLE requeued (task_id text, company_id bigint, pool_id bigint, message_type smallint, at timestamptz)")
	work := func() {
		for i := range 40 {
			b.SubmitMany("x", 3, nil)
			for _, task := range b.Take("app", 2) {
				b.Report(task.TaskID, "app", 2+i%2, nil)
			}
		}
	}
	work()
	b.Exec("UPDATE facts SET at = at - interval '1 minute' * (1 + random() * 60)")
	want := recount(b, statistics.BySender, nil)
	end := make(chan struct{})
	var movers, readers sync.WaitGroup
	for range 2 {
		movers.Go(func() {
			for range 10 {
				// Each goroutine consumes few facts at a time. Its rows are staged and rolled up together with the rows of the other goroutines.
				b.Exec(`SET LOCAL lksms.facts_version = '4'; WITH one AS (DELETE FROM facts WHERE ctid IN (SELECT ctid FROM facts ORDER BY random() LIMIT 5 FOR UPDATE SKIP LOCKED) RETURNING *)
					INSERT INTO facts SELECT * FROM one`)
				fold(b)
				rollUp(b)
			}
		})
	}
	for _, step := range []string{statistics.Minute, statistics.Hour, statistics.Day} {
		readers.Go(func() {
			for {
				if got := lines(read(b, statistics.Query{By: statistics.BySender, Step: step})); got != want {
					t.Errorf("by %s a reader sees\n%s\nwant\n%s", step, got, want)
					return
				}
				select {
				case <-end:
					return
				default:
				}
			}
		})
	}
	movers.Wait()
	close(end)
	readers.Wait()
	if n := b.Count("SELECT (SELECT count(*) FROM facts) + (SELECT count(*) FROM statistics_staged)"); n != 0 {
		t.Errorf("%d rows are left", n)
	}
}

// The buckets of the database have the same bounds as this package.
func TestHistogramsOfTheDatabaseAndOfGoHaveTheSameBuckets(t *testing.T) {
	b := apptest.New(t)
	bucket := func(seconds float64) int {
		return b.Count("SELECT get_byte(wait_bucket(make_interval(secs => $1)), 0)", seconds)
	}
	for want, seconds := range map[int]float64{0: 0.001, 1: 0.00105, 255: 1e9} {
		if got := bucket(seconds); got != want {
			t.Errorf("%v s are in bucket %d, want %d", seconds, got, want)
		}
	}
	if n := b.Count("SELECT count(wait_bucket(NULL))"); n != 0 {
		t.Error("null has a bucket")
	}
	if got := bucket(-5); got != 0 { // a negative wait occurs if the clock was set back
		t.Errorf("a negative time is in bucket %d", got)
	}
	for n := 10; n < 255; n += 7 { // the precision of an interval is a microsecond
		bound := statistics.Bound(byte(n))
		if under, over := bucket(bound*0.9995), bucket(bound*1.0005); under != n || over != n+1 {
			t.Errorf("around %v s, the bound of %d, are the buckets %d and %d", bound, n, under, over)
		}
	}
}

func TestPercentilesAreAtMostTenPercentTooHigh(t *testing.T) {
	t.Parallel()
	var h statistics.Histogram
	if none := (statistics.Percentiles{}); h.Percentiles() != none {
		t.Error("a percentile of nothing")
	}
	h.Add([]byte{80})
	if one := h.Percentiles(); *one.P50 != 2.048 || *one.P95 != 2.048 || *one.P99 != 2.048 {
		t.Errorf("one time of %v s has the percentiles %v, %v, %v", statistics.Bound(80), *one.P50, *one.P95, *one.P99)
	}
	h = nil
	var buckets []byte
	for ms := 1; ms <= 10_000; ms++ {
		buckets = append(buckets, byte(math.Ceil(math.Log(float64(ms))/math.Log(1.1))))
	}
	rand.Shuffle(len(buckets), func(i, j int) { buckets[i], buckets[j] = buckets[j], buckets[i] })
	h.Add(buckets[:4000])
	var other statistics.Histogram
	other.Add(buckets[4000:])
	h.Merge(other)
	all := h.Percentiles()
	for exact, got := range map[float64]float64{5: *all.P50, 9.5: *all.P95, 9.9: *all.P99} {
		if got < exact || got > exact*1.1+0.001 {
			t.Errorf("a percentile is %v, exactly %v", got, exact)
		}
	}
}

// stage inserts a staged row of a company for a minute, as a fold does. The wait of each task belongs to bucket 10.
func stage(b *apptest.Bundle, at time.Time, submitted int) {
	b.T.Helper()
	b.Exec(`INSERT INTO statistics_staged SELECT $1, 1, $2::integer, 0, 0, 0, 0, 0, 0, 0, 0, 0, 'sms', 'app', '1', '', decode(repeat('0a', $2::integer), 'hex'), ''`,
		at.Truncate(time.Minute), submitted)
}

// Two sweeps add to the same rows. The second sweep waits for the first, and adds to the histograms that the first has written.
func TestTwoSweepsAddToTheSameHistograms(t *testing.T) {
	b := apptest.New(t)
	at := time.Now().Add(-time.Hour)
	stage(b, at, 1)
	rollUp(b)
	stage(b, at, 2)
	second := make(chan int, 1)
	if err := b.App.DB.Tx(t.Context(), func(ctx context.Context) error {
		if _, err := b.App.Statistics.RollUp(ctx); err != nil {
			return err
		}
		stage(b, at, 4)
		go func() { second <- rollUp(b) }()
		b.AwaitLockWait()
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if n := <-second; n != 1 {
		t.Errorf("the second moved %d rows", n)
	}
	for _, step := range []string{statistics.Minute, statistics.Hour, statistics.Day} {
		if got := read(b, statistics.Query{Step: step}).Series[0].Totals; got.Submitted != 7 || got.Waits.Count() != 7 {
			t.Errorf("by %s: %d submitted, %d waits", step, got.Submitted, got.Waits.Count())
		}
	}
}

// points returns the points of the first series as lines: the time, and the number of submitted tasks.
func points(answer statistics.Answer) (text string) {
	for _, s := range answer.Series[:min(1, len(answer.Series))] {
		for _, p := range s.Points {
			text += fmt.Sprintf("%s %d\n", p.At.UTC().Format("02 15:04"), p.Submitted)
		}
	}
	return text
}

// A late fact counts in its own minute, hour and day, before and after the roll-up. Days follow the configured time zone. If the time zone changes, new days
// follow the new time zone, and no count is lost.
func TestLateFactsCountInTheirOwnMinuteHourAndDay(t *testing.T) {
	b := apptest.New(t)
	today := time.Now().UTC().Truncate(24 * time.Hour)
	from, to := today.AddDate(0, 0, -6), today.AddDate(0, 0, -2)
	day := func(ago int) string { return today.AddDate(0, 0, -ago).Format("02") }
	at := func(ago int, clock string) time.Time {
		t.Helper()
		d, err := time.Parse("15:04", clock)
		if err != nil {
			t.Fatal(err)
		}
		return today.AddDate(0, 0, -ago).Add(d.Sub(d.Truncate(24 * time.Hour)))
	}
	late := func(at time.Time, n int) {
		t.Helper()
		b.Exec("INSERT INTO facts (company_id, at, submitted) VALUES (1, $1, $2)", at, n)
	}
	expect := func(when, step, want string) {
		t.Helper()
		if got := points(read(b, statistics.Query{From: from, To: &to, Step: step})); got != want {
			t.Errorf("%s, by %s:\n%swant:\n%s", when, step, got, want)
		}
	}
	late(at(5, "15:59"), 1) // a minute before midnight in Shanghai
	late(at(5, "16:00"), 10)
	late(at(4, "15:30"), 100)
	for _, when := range []string{"unfolded", "staged", "rolled up"} {
		expect(when, statistics.Day, day(6)+" 16:00 1\n"+day(5)+" 16:00 110\n")
		expect(when, statistics.Hour, day(5)+" 15:00 1\n"+day(5)+" 16:00 10\n"+day(4)+" 15:00 100\n")
		if when == "unfolded" {
			fold(b)
		} else {
			rollUp(b)
		}
	}
	late(at(5, "15:10"), 1000)
	expect("with a late fact", statistics.Day, day(6)+" 16:00 1001\n"+day(5)+" 16:00 110\n")
	fold(b)
	rollUp(b)
	expect("with a late fact", statistics.Hour, day(5)+" 15:00 1001\n"+day(5)+" 16:00 10\n"+day(4)+" 15:00 100\n")

	b.Expect(200, "", "PUT", "/api/v1/admin/settings/monitoring", map[string]any{"time_zone": "America/New_York"})
	if zone := read(b, statistics.Query{}).TimeZone; zone != "America/New_York" {
		t.Errorf("the zone is %s", zone)
	}
	late(at(3, "12:00"), 10000)
	begins := at(3, "12:00").In(must(time.LoadLocation("America/New_York")))
	midnight := time.Date(begins.Year(), begins.Month(), begins.Day(), 0, 0, 0, 0, begins.Location()).UTC().Format("02 15:04")
	for _, when := range []string{"unfolded", "staged", "rolled up"} {
		expect("in New York, "+when, statistics.Day, day(6)+" 16:00 1001\n"+day(5)+" 16:00 110\n"+midnight+" 10000\n")
		if when == "unfolded" {
			fold(b)
		} else {
			rollUp(b)
		}
	}
	b.Expect(422, "request.invalid", "PUT", "/api/v1/admin/settings/monitoring", map[string]any{"time_zone": "Mars/Olympus"})
	b.Expect(422, "request.invalid", "PUT", "/api/v1/admin/settings/monitoring", map[string]any{"time_zone": "CST-8"})
	for _, ofHost := range []string{"Local", "localtime", "posixrules"} { // two servers can have different ones
		b.Expect(422, "request.invalid", "PUT", "/api/v1/admin/settings", map[string]any{"monitoring": map[string]any{"time_zone": ofHost}})
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// The points of minutes and hours are deleted after a time. The points of days are kept forever.
func TestPointsOfMinutesAndHoursAreDeletedButDaysAreKept(t *testing.T) {
	b := apptest.New(t)
	for _, ago := range []int{1, 3, 92, 94, 4000} {
		stage(b, time.Now().AddDate(0, 0, -ago), 1)
	}
	rollUp(b)
	rows := func(step string) int {
		return b.Count("SELECT count(DISTINCT at) FROM statistics WHERE step = $1", step)
	}
	if rows("minute") != 5 || rows("hour") != 5 || rows("day") != 5 {
		t.Fatalf("%d minutes, %d hours, %d days", rows("minute"), rows("hour"), rows("day"))
	}
	if n, err := b.App.Statistics.DeleteExpired(t.Context()); n == 0 || err != nil {
		t.Errorf("deleted %d, %v", n, err)
	}
	if rows("minute") != 1 || rows("hour") != 3 || rows("day") != 5 {
		t.Errorf("%d minutes, %d hours, %d days are left", rows("minute"), rows("hour"), rows("day"))
	}
}

// Figures keep the name of a deleted channel and the number of a deleted company, even if the deletion precedes the fold.
func TestFiguresOutliveDeletedChannelsAndCompanies(t *testing.T) {
	b := apptest.New(t)
	b.Expect(200, "", "POST", "/api/v1/admin/channels", map[string]any{"channel": "fax", "name": "Fax"})
	b.Exec(`INSERT INTO facts (company_id, pool_id, message_type, at, submitted) SELECT 77, p.id, 1, now(), 3 FROM pools p JOIN channels c ON c.id = p.channel_id WHERE c.channel = 'fax'`)
	b.Expect(200, "", "DELETE", "/api/v1/admin/channels/fax", nil)
	for range 2 {
		if got := read(b, statistics.Query{By: statistics.ByChannel}).Series; len(got) != 1 || got[0].Key != "fax" || got[0].Totals.Submitted != 3 {
			t.Errorf("by channel: %+v", got)
		}
		fold(b)
	}
	if got := b.Expect(200, "", "GET", path("hour", time.Now().Add(-time.Hour))+"&by=company", nil); !strings.Contains(got.Raw, `"key":"#77"`) {
		t.Error(got.Raw)
	}
	if got := b.Expect(200, "", "GET", path("hour", time.Now().Add(-time.Hour))+"&by=company&key=%2377", nil); !strings.Contains(got.Raw, `"key":"#77"`) || !strings.Contains(got.Raw, `"submitted":3`) {
		t.Error(got.Raw)
	}
}

func path(step string, from time.Time) string {
	return "/api/v1/admin/statistics?step=" + step + "&from=" + from.UTC().Format(time.RFC3339)
}

func TestStatisticsOperationReturnsSeries(t *testing.T) {
	b := apptest.New(t)
	acme := b.AddCompany("acme", 1)
	reader := b.AddUser("reader-of-acme", "read", map[string]any{"company_no": "acme"})
	b.SubmitMany("x", 3, nil)
	b.SubmitMany("x", 2, map[string]any{"message_type": "marketing"}, acme...)
	for _, task := range b.Take("app", 3) {
		b.Report(task.TaskID, "app", 2, nil)
	}
	get := func(query string, headers ...string) api.StatisticsRange {
		t.Helper()
		return apptest.Decode[api.StatisticsRange](t, b.Expect(200, "", "GET", path("minute", time.Now().Add(-time.Hour))+query, nil, headers...))
	}
	keys := func(r api.StatisticsRange) (text string) {
		for _, s := range r.Series {
			key := "-"
			if s.Key != nil {
				key = *s.Key
			}
			text += fmt.Sprintf("%s %d %d %d; ", key, s.Totals.Submitted, s.Totals.Claimed, s.Totals.Succeeded)
		}
		return text + fmt.Sprint(r.MoreSeries)
	}
	for query, want := range map[string]string{
		"": "- 5 3 3; 0", "&by=channel": "sms 5 3 3; 0", "&by=sender": "app 3 3 3; - 2 0 0; 0", "&by=sender&key=app": "app 3 3 3; 0", "&by=sender&limit=1": "app 3 3 3; 1",
		"&by=outcome": "- 5 3 0; SUCCESS 0 0 3; 0", "&by=channel&key=fax": "0", "&company_no=acme&by=message_type&key=verification": "0",
		"&company_no=acme&by=message_type": keys(get("&by=message_type", reader...)),
	} {
		if got := keys(get(query)); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	own := keys(get("", reader...))
	if !strings.HasPrefix(own, "- 2 ") {
		t.Errorf("acme sees %s", own)
	}
	for _, query := range []string{"&by=company", "&by=company&key=acme", "&by=company&company_no=acme"} {
		if got := keys(get(query, reader...)); got != "acme"+own[1:] {
			t.Errorf("%s: acme sees %s, and not %s", query, got, own)
		}
	}
	totals := get("").Series[0]
	if p := totals.Totals.WaitP99; p == nil || *p <= 0 || totals.Totals.DurationP50 == nil || len(totals.Points) == 0 {
		t.Errorf("%+v", totals)
	}
	now := time.Now()
	for query, field := range map[string]string{
		path("minute", now.AddDate(0, 0, -4)): "from", path("hour", now.AddDate(0, 0, -95)): "from", path("day", now.AddDate(-11, 0, 0)): "from",
		path("hour", now) + "&to=" + now.Add(-3*time.Hour).UTC().Format(time.RFC3339): "from", path("hour", now.Add(48*time.Hour)): "from",
		path("week", now): "step", path("hour", now) + "&by=phone": "by", path("hour", now) + "&key=app": "by", path("hour", now) + "&by=message_type&key=spam": "key",
		path("minute", now.Add(-49*time.Hour)): "from", path("hour", now.Add(-93*24*time.Hour-3*time.Hour)): "from",
		path("day", time.Date(9999, 12, 31, 1, 0, 0, 0, time.UTC)) + "&to=9999-12-31T23:59:59Z":  "to",
		path("hour", time.Date(9999, 12, 31, 1, 0, 0, 0, time.UTC)) + "&to=9999-12-31T23:59:59Z": "to",
		"/api/v1/admin/statistics?step=day&from=0001-01-01T00:00:00Z&to=0001-01-02T00:00:00Z":    "from",
		path("hour", now) + "&by=company&key=acme&company_no=default":                            "key",
		path("hour", now) + "&limit=101":                                                         "limit", "/api/v1/admin/statistics": "from",
	} {
		if a := b.Expect(422, "request.invalid", "GET", query, nil); !strings.Contains(a.Raw, `"`+field+`"`) {
			t.Errorf("%s does not name %s: %s", query, field, a.Raw)
		}
	}
	for _, query := range []string{
		path("minute", now.Add(-48*time.Hour)), path("hour", now.Add(-93*24*time.Hour)), path("day", now.Add(-3660*24*time.Hour)), "/api/v1/admin/statistics?step=day&from=0001-01-02T00:00:00Z&to=0001-01-03T00:00:00Z",
		path("hour", now) + "&by=company&key=acme&company_no=acme",
	} {
		b.Expect(200, "", "GET", query, nil)
	}
	b.Expect(404, "company.not_found", "GET", path("hour", now)+"&company_no=nobody", nil)
	for _, key := range []string{"nobody", "%23x", "%2399999999999999999999"} {
		b.Expect(404, "company.not_found", "GET", path("hour", now)+"&by=company&key="+key, nil)
	}
	b.Expect(403, "auth.other_company", "GET", path("hour", now)+"&by=company&key=%231", nil, reader...)
	b.Expect(403, "auth.other_company", "GET", path("hour", now)+"&company_no=default", nil, reader...)
}

// addYear adds a year of days with complete figures of 100 senders, day by day as roll-ups do. It also adds some current tasks.
func addYear(b *apptest.Bundle) {
	b.T.Helper()
	b.Exec(`INSERT INTO statistics SELECT 'day', c, d, date_trunc('day', now(), 'Asia/Shanghai') - x * interval '1 day', CASE d WHEN 'sender' THEN 'sender-' || k ELSE '' END,
			1000, 0, 1000, 990, 10, 12, 0, 900, 5, 1200, h.packed, h.packed
		FROM generate_series(0, 1) c, (VALUES ('total', 1), ('sender', 100)) AS v (d, n), generate_series(1, v.n) k, generate_series(0, 364) x,
			(SELECT string_agg(set_byte('\x0007', 0, i), '' ORDER BY i) AS packed FROM generate_series(20, 79) i) h
		ORDER BY x DESC, c, d, k::text COLLATE "C"`)
	b.Exec("ANALYZE statistics")
	b.SubmitMany("x", 100, nil)
}

// BenchmarkYearOfDays measures requests to the server without net/http. best-ms is the duration of the fastest request, because other programs disturb this
// request least.
func BenchmarkYearOfDays(b *testing.B) {
	server := apptest.Open(b, apptest.DefaultRules, func(o *app.Options) { o.Log = slog.New(slog.DiscardHandler) })
	addYear(server)
	for name, query := range map[string]string{
		"one series": "", "one of 100": "&by=sender&key=sender-7", "20 of 100": "&by=sender", "all 100": "&by=sender&limit=100",
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			best := time.Hour
			for b.Loop() {
				began := time.Now()
				r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, path("day", time.Now().AddDate(0, 0, -364))+query, nil)
				r.SetBasicAuth(apptest.Username, apptest.Password)
				w := &counted{header: http.Header{}}
				if server.App.Handler.ServeHTTP(w, r); w.status != http.StatusOK {
					b.Fatal(w.status)
				}
				b.SetBytes(w.bytes)
				best = min(best, time.Since(began))
			}
			b.ReportMetric(float64(best.Microseconds())/1000, "best-ms")
		})
	}
}

// counted is an http.ResponseWriter that only counts the bytes of the response.
type counted struct {
	header http.Header
	status int
	bytes  int64
}

func (c *counted) Header() http.Header { return c.header }

func (c *counted) WriteHeader(status int) { c.status = status }

func (c *counted) Write(p []byte) (int, error) {
	c.bytes += int64(len(p))
	return len(p), nil
}

// The statistics of one year by day contain a row for each day. BenchmarkYearOfDays measures the time.
func TestStatisticsOfOneYearContainEveryDay(t *testing.T) {
	b := apptest.New(t)
	addYear(b)
	from := time.Now().AddDate(0, 0, -364)
	for name, q := range map[string]struct {
		query statistics.Query
		rows  int
	}{
		"one series":    {statistics.Query{By: statistics.ByNothing}, 365},
		"20 series":     {statistics.Query{By: statistics.BySender, Limit: 20}, 20 * 365},
		"one of 100":    {statistics.Query{By: statistics.BySender, Key: new("sender-7")}, 365},
		"one company's": {statistics.Query{By: statistics.ByNothing, CompanyID: new(int64(1))}, 365},
		"many series":   {statistics.Query{By: statistics.BySender, Limit: 100}, 26 * 365}, // 10,000 points limit the number of series
	} {
		q.query.From, q.query.Step, q.query.To = from, statistics.Day, new(time.Now())
		n := 0
		for _, s := range read(b, q.query).Series {
			n += len(s.Points)
		}
		if n < q.rows || n > 10_000 {
			t.Errorf("%s: %d points, want %d", name, n, q.rows)
		}
	}
}
