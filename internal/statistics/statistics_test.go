package statistics_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"lksms/gen/api"
	"lksms/internal/apptest"
	"lksms/internal/queue"
	"lksms/internal/receipt/callback"
	"lksms/internal/statistics"
)

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

// ripen lets the staged minutes be over, which moves their figures a minute back.
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

// events has a row for each event that the logs know: who, what (as in Counts), and how long it took. requeued has the requeued tasks.
const events = `
	WITH ended AS (
		SELECT r.*, CASE WHEN effect = 'success' THEN 'SUCCESS' WHEN effect = 'cancelled' THEN 'CANCELLED' ELSE 'FAILED' END AS ended_as
		FROM report_logs r
		WHERE effect IN ('success', 'failed', 'exhausted', 'unclear', 'expired', 'cancelled')
	),
	leases AS (
		SELECT task_id, company_id, pool_id, app_id, message_type, entered_at, leased_at, retry_count FROM report_logs WHERE leased_at IS NOT NULL
		UNION ALL
		SELECT task_id, company_id, pool_id, processing_app_id, message_type, entered_at, updated_at, retry_count FROM queue WHERE lease_until IS NOT NULL
	),
	firsts AS (
		SELECT DISTINCT ON (l.task_id) l.* FROM leases l
		WHERE NOT EXISTS (SELECT FROM requeued q WHERE q.task_id = l.task_id AND q.at <= l.leased_at)
		ORDER BY l.task_id, l.leased_at
	),
	events AS (
		SELECT company_id, pool_id, '' AS sender, message_type, '' AS outcome, 'submitted' AS what, 1 AS n, NULL::bytea AS took FROM messages
		UNION ALL SELECT q.company_id, q.pool_id, '', q.message_type, '', 'requeued', 1, NULL FROM requeued q
		UNION ALL SELECT company_id, pool_id, app_id, message_type, '', 'claimed', 1, NULL FROM leases
		UNION ALL SELECT company_id, pool_id, app_id, message_type, '', 'waits', 1, wait_bucket(leased_at - entered_at) FROM firsts WHERE retry_count = 0
		UNION ALL SELECT company_id, pool_id, coalesce(app_id, ''), message_type, ended_as,
			CASE ended_as WHEN 'SUCCESS' THEN 'succeeded' ELSE lower(ended_as) END, 1, NULL FROM ended
		UNION ALL SELECT company_id, pool_id, coalesce(app_id, ''), message_type, ended_as, 'durations', 1, wait_bucket(created_at - entered_at)
			FROM ended WHERE ended_as <> 'CANCELLED' AND event <> 'unreachable'
		UNION ALL SELECT company_id, pool_id, app_id, message_type, 'SUCCESS', 'segments', coalesce(lease_segments, segments), NULL FROM ended WHERE status = 2
		UNION ALL SELECT r.company_id, r.pool_id, r.app_id, r.message_type, '', r.effect, 1, NULL FROM report_logs r WHERE r.event = 'receipt'
	)`

// recount counts the events of a dimension, of one company or of all, as lines of text.
func recount(b *apptest.Bundle, by string, company *int64) string {
	b.T.Helper()
	key := map[string]string{
		statistics.ByNothing: "''", statistics.ByCompany: "e.company_id::text", statistics.ByChannel: "p.channel", statistics.BySender: "e.sender",
		statistics.ByMessageType: "e.message_type::text", statistics.ByOutcome: "e.outcome",
	}[by]
	return apptest.Scan[string](b, events+` SELECT coalesce(string_agg(x.line, E'\n' ORDER BY x.line COLLATE "C"), '') FROM (
		SELECT k.key || ' ' || k.what || ' ' || sum(k.n) || ' ' || coalesce(encode(string_agg(k.took, '' ORDER BY k.took), 'hex'), '') AS line
		FROM (
			SELECT `+key+` AS key, e.* FROM events e LEFT JOIN pool_channels p ON p.pool_id = e.pool_id
			WHERE $1::bigint IS NULL OR e.company_id = $1
		) k
		GROUP BY k.key, k.what) x`, company)
}

// lines returns the totals of an answer as recount does.
func lines(answer statistics.Answer) string {
	var all []string
	for _, s := range answer.Series {
		t := s.Totals
		for what, n := range map[string]int64{
			"submitted": t.Submitted, "requeued": t.Requeued, "claimed": t.Claimed, "succeeded": t.Succeeded, "failed": t.Failed,
			"cancelled": t.Cancelled, "delivered": t.Delivered, "undelivered": t.Undelivered, "segments": t.Segments,
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

// compare compares what readers see with the logs.
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

// requeue does to a settled task what an operator may do: it becomes PENDING again, and is settled no more.
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
	noted AS (
		INSERT INTO requeued SELECT m.task_id, m.company_id, m.pool_id, m.message_type, clock_timestamp() FROM messages m JOIN one ON one.task_id = m.task_id
	)
	INSERT INTO queue (task_id, pool_id, company_id, message_type, priority, segments, phone_number, recipient, content, was_claimed, entered_at, updated_at)
	SELECT m.task_id, m.pool_id, m.company_id, m.message_type, m.priority, m.segments, m.phone_number, m.recipient, m.content, true, now(), now()
	FROM messages m JOIN one ON one.task_id = m.task_id`

// Whatever happens to tasks of two companies, and whenever facts are folded and rolled up, figures equal a recount of the logs: by each
// dimension, of each company and of all.
func TestFiguresEqualTheLogs(t *testing.T) {
	b := apptest.New(t)
	seed := time.Now().UnixNano()
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(uint64(seed), 0))
	b.Exec("CREATE TABLE requeued (task_id text, company_id bigint, pool_id bigint, message_type smallint, at timestamptz)")
	headers := [][]string{nil, b.AddCompany("acme", 1)}
	b.AddSender(map[string]any{"sender_no": "mine", "is_shared": false, "balance": 100000})
	b.AddRouteWith(map[string]any{"company_no": "acme", "sender_no": "mine", "message_type": "marketing"})
	b.PutContacts(map[string]any{"user_id": "boss", "dingtalk_name": "ding-boss"})
	acme := int64(b.Count("SELECT id FROM companies WHERE company_no = 'acme'"))
	companies := []*int64{nil, new(int64(1)), &acme}
	apps := []string{"a", "b", "mine"}
	types := []string{"verification", "notification", "marketing"}
	type held struct {
		api.ClaimedTask
		app string
	}
	leases := []held{}
	withLease := func(do func(l held)) {
		if len(leases) > 0 {
			do(leases[random.IntN(len(leases))])
		}
	}
	may := func(a apptest.Answer) {
		t.Helper()
		if a.Status != 200 && a.Status != 409 { // 409: the task is in another state
			t.Fatal(a.Raw)
		}
	}
	ids := func() []string { // of some tasks
		return apptest.Scan[[]string](b, "SELECT coalesce(array_agg(x.task_id), '{}') FROM (SELECT task_id FROM messages ORDER BY hashtext(task_id || $1) LIMIT 4) x", strconv.Itoa(random.Int()))
	}
	steps := []struct {
		name string
		do   func()
	}{
		{"submit", func() {
			b.SubmitMany("x", 1+random.IntN(6), map[string]any{"message_type": types[random.IntN(3)]}, headers[random.IntN(2)]...)
		}},
		{"submit for later", func() { b.SubmitMany("x", 1, map[string]any{"expect_send_time": time.Now().Add(300 * time.Millisecond)}) }},
		{"notify", func() {
			b.Expect(200, "", "POST", "/api/v1/notifications", map[string]any{
				"biz_type": 0, "biz_id": random.IntN(1 << 30), "channels": []string{"dingtalk"}, "payload": map[string]any{"taskName": "x"}, "user_ids": []string{"boss", "ghost"},
			})
			if _, err := b.App.Notifications.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
		}},
		{"claim", func() {
			app := apps[random.IntN(len(apps))]
			for _, task := range b.Take(app, 1+random.IntN(8)) {
				leases = append(leases, held{task, app})
			}
		}},
		{"report", func() {
			withLease(func(l held) {
				may(b.Call("POST", "/api/v1/sms/report", apptest.ReportBody(l.TaskID, l.app, 2+random.IntN(2), apptest.Report{"should_retry": random.IntN(2) == 0})))
			})
		}},
		{"release", func() {
			withLease(func(l held) {
				if _, err := b.App.Tasks.Release(t.Context(), l.app, []queue.Unused{{TaskID: l.TaskID, LeaseID: l.LeaseID, Tried: random.IntN(2) == 0}}); err != nil {
					t.Fatal(err)
				}
			})
		}},
		{"recover", func() {
			b.Exec("UPDATE queue SET lease_until = now() - interval '1 second' WHERE lease_until IS NOT NULL AND hashtext(task_id || $1) % 3 = 0", strconv.Itoa(random.Int()))
			b.Recover()
			b.Exec("UPDATE queue SET due_at = now() WHERE due_at > now()")
		}},
		{"cancel", func() { withLease(func(l held) { may(b.Call("POST", "/api/v1/sms/task/"+l.TaskID+"/cancel", nil)) }) }},
		{"expire", func() {
			b.Exec("UPDATE queue SET expires_at = now() WHERE lease_until IS NULL AND hashtext(task_id || $1) % 9 = 0", strconv.Itoa(random.Int()))
			if _, err := b.App.Tasks.Expire(t.Context()); err != nil {
				t.Fatal(err)
			}
		}},
		{"receipts", func() {
			var finals []queue.Final
			for _, id := range ids() {
				finals = append(finals, queue.Final{TaskID: id, SenderNo: "a", State: callback.Delivered + int16(random.IntN(2))})
			}
			if _, err := b.App.Tasks.SettleReceipts(t.Context(), finals); err != nil {
				t.Fatal(err)
			}
		}},
		{"requeue", func() { b.Exec(requeue, strconv.Itoa(random.Int())) }},
		{"fold", func() { fold(b) }},
		{"roll up", func() { ripen(b); rollUp(b) }},
	}
	did := map[string]int{}
	for range 250 {
		step := steps[random.IntN(len(steps))]
		step.do()
		did[step.name]++
		if random.IntN(4) == 0 {
			compare(b, step.name, companies)
		}
	}
	compare(b, "all", companies)
	fold(b)
	ripen(b)
	rollUp(b)
	compare(b, "the last roll-up", companies)
	if n := b.Count("SELECT (SELECT count(*) FROM facts) + (SELECT count(*) FROM statistics_staged)"); n != 0 {
		t.Errorf("%d rows are left", n)
	}
	t.Log(did)
}

// While facts are folded and minutes rolled up, by several at once, every reader sees every event once.
func TestReadersSeeEachEventOnceWhileItMoves(t *testing.T) {
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
				// One fact at a time: what moves is staged, and rolled up with what others staged.
				b.Exec(`WITH one AS (DELETE FROM facts WHERE ctid IN (SELECT ctid FROM facts ORDER BY random() LIMIT 5 FOR UPDATE SKIP LOCKED) RETURNING *)
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

// The buckets of the database have the bounds of this package.
func TestBucketsOfTheDatabaseHaveTheseBounds(t *testing.T) {
	b := apptest.New(t)
	bucket := func(seconds float64) int {
		return b.Count("SELECT get_byte(wait_bucket(make_interval(secs => $1)), 0)", seconds)
	}
	for want, seconds := range map[int]float64{0: 0.001, 1: 0.00105, 255: 1e9} {
		if got := bucket(seconds); got != want {
			t.Errorf("%v s are in bucket %d, want %d", seconds, got, want)
		}
	}
	if got := bucket(-5); got != 0 { // the clock was set back
		t.Errorf("a negative time is in bucket %d", got)
	}
	for n := 10; n < 255; n += 7 { // an interval has microseconds
		bound := statistics.Bound(byte(n))
		if under, over := bucket(bound*0.9995), bucket(bound*1.0005); under != n || over != n+1 {
			t.Errorf("around %v s, the bound of %d, are the buckets %d and %d", bound, n, under, over)
		}
	}
}

func TestPercentilesAreAtMostATenthTooHigh(t *testing.T) {
	t.Parallel()
	var h statistics.Histogram
	if h.Percentile(0.5) != nil {
		t.Error("a percentile of nothing")
	}
	var buckets []byte
	for ms := 1; ms <= 10_000; ms++ {
		buckets = append(buckets, byte(math.Ceil(math.Log(float64(ms))/math.Log(1.1))))
	}
	rand.Shuffle(len(buckets), func(i, j int) { buckets[i], buckets[j] = buckets[j], buckets[i] })
	h.Add(buckets[:4000])
	var other statistics.Histogram
	other.Add(buckets[4000:])
	h.Merge(other)
	for share, exact := range map[float64]float64{0.01: 0.1, 0.5: 5, 0.95: 9.5, 0.99: 9.9, 1: 10} {
		if got := *h.Percentile(share); got < exact || got > exact*1.1+0.001 {
			t.Errorf("p%v is %v, exactly %v", 100*share, got, exact)
		}
	}
}
