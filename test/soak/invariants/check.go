// Package invariants compares the recorded responses of all clients with the database.
package invariants

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"lksms/internal/platform/optional"
	"lksms/internal/platform/result"
	"lksms/test/soak/check"
	"lksms/test/soak/crowds"
	"lksms/test/soak/load"
	"lksms/test/soak/stack"
)

// evidence creates the temporary tables. submissions, ids, claims, report_outcomes, cancelled, taken, lists and pauses contain the recorded history. taken
// contains the number of acceptances by the provider for each message. cancelled does not contain tasks that a client requeued.
//
// task_states and leases are copies of the views tasks and send_logs, so that each view is read only once. ends contains every log row that ended a lease or a
// task, or requeued the task. Its column life is the number of requeues of the task before this row.
const evidence = `
CREATE TEMP TABLE submissions (content text, answered int, unknown int);
CREATE TEMP TABLE ids (content text, task_id text COLLATE "C");
CREATE TEMP TABLE claims (
	task_id text COLLATE "C", app_id text, lease_id bigint, phone_number text, content text, attempt int, lease_until timestamptz
);
CREATE TEMP TABLE report_outcomes (task_id text COLLATE "C", answered int, unknown int);
CREATE TEMP TABLE cancelled (task_id text COLLATE "C");
CREATE TEMP TABLE taken (task_id text COLLATE "C", times int);
CREATE TEMP TABLE lists (batch_id bigint, rows bigint, valid bigint);
CREATE TEMP TABLE pauses (batch_id bigint, since timestamptz, until timestamptz);
CREATE TEMP TABLE task_states AS SELECT t.*, m.is_sensitive FROM tasks t JOIN messages m USING (task_id);
CREATE INDEX ON task_states (task_id);
CREATE TEMP TABLE requeues AS SELECT task_id, created_at FROM report_logs WHERE event = 'requeued';
CREATE INDEX ON requeues (task_id);
CREATE TEMP TABLE leases AS
	SELECT s.*, (SELECT count(*) FROM requeues r WHERE r.task_id = s.task_id AND r.created_at <= s.created_at) AS life FROM send_logs s;
CREATE INDEX ON leases (id);
CREATE INDEX ON leases (task_id);
CREATE TEMP TABLE ends AS
	SELECT id, task_id, app_id, lease_id, event, effect, created_at,
		count(*) FILTER (WHERE event = 'requeued') OVER (PARTITION BY task_id ORDER BY id) AS life,
		coalesce((request_data ->> 'retry_after_seconds')::int * interval '1 second', %s) AS wait
	FROM report_logs WHERE effect NOT IN ('ignored', 'refused', 'delivered', 'undelivered');
CREATE INDEX ON ends (lease_id);
CREATE INDEX ON ends (task_id);
ANALYZE task_states, leases, ends`

// snapshots must hold at any time, even while tasks wait or are leased. Each invariant therefore reads the tables in one statement.
var snapshots = []check.Invariant{
	{Name: "every message has exactly one place: a row of queue, or a log row with its outcome", SQL: `
		SELECT task_id || ' has ' || coalesce(p.queued, 0) || ' rows of queue and ' || coalesce(p.settled, 0) || ' outcomes'
			|| CASE WHEN m.created_at IS NULL THEN ', but no message' ELSE '' END
		FROM messages m
			FULL JOIN (
				SELECT task_id, count(*) FILTER (WHERE is_queued) AS queued, count(*) FILTER (WHERE NOT is_queued) AS settled
				FROM (
					SELECT task_id, true AS is_queued FROM queue
					UNION ALL
					SELECT task_id, false FROM report_logs WHERE outcome IS NOT NULL
				) x
				GROUP BY task_id
			) p USING (task_id)
		WHERE m.created_at IS NULL OR coalesce(p.queued + p.settled, 0) <> 1`},
	{Name: "every lease stores all of its facts exactly once: in queue, or in the log row that ended it", SQL: `
		WITH facts AS MATERIALIZED (
			SELECT lease_id, task_id, app_id, leased_at, lease_until, lease_segments, lease_limit FROM report_logs WHERE leased_at IS NOT NULL
			UNION ALL
			SELECT lease_id, task_id, processing_app_id, updated_at, lease_until, lease_segments, lease_limit FROM queue
			WHERE lease_until IS NOT NULL
		)
		SELECT 'lease ' || lease_id || ' has its facts ' || count(*) FILTER (WHERE is_fact) || ' times, of '
			|| count(DISTINCT task_id) || ' tasks'
		FROM (
			SELECT lease_id, task_id, true AS is_fact FROM facts
			UNION ALL
			SELECT lease_id, task_id, false FROM queue WHERE lease_id IS NOT NULL
			UNION ALL
			SELECT lease_id, task_id, false FROM report_logs WHERE lease_id IS NOT NULL AND effect <> 'refused'
			UNION ALL
			SELECT lease_id, task_id, false FROM deliveries WHERE lease_id IS NOT NULL
			UNION ALL
			SELECT lease_id, NULL, false FROM sender_ledger WHERE lease_id IS NOT NULL
		) named
		GROUP BY lease_id HAVING count(*) FILTER (WHERE is_fact) <> 1 OR count(DISTINCT task_id) <> 1
		UNION ALL
		SELECT 'lease ' || f.lease_id || ' of ' || f.app_id || ' has wrong facts: from ' || f.leased_at || ' until '
			|| f.lease_until || ', of ' || coalesce(f.lease_segments, 0) || ' segments, limit ' || coalesce(f.lease_limit, 0)
		FROM facts f LEFT JOIN senders s ON s.sender_no = f.app_id LEFT JOIN messages m USING (task_id)
		WHERE s.id IS NULL OR f.lease_limit IS NULL OR s.is_paced <> (f.lease_segments IS NOT NULL)
			OR f.lease_until < coalesce(m.expires_at, 'infinity') -- another invariant checks leases that end at expires_at
				AND f.lease_until <> f.leased_at + coalesce(make_interval(secs => s.lease_seconds), '` + stack.Lease.String() + `')
				AND NOT (starts_with(f.app_id, '` + crowds.StartPrefix + `') AND f.lease_until = f.leased_at + make_interval(secs => ` + strconv.Itoa(crowds.StartSeconds) + `))
				AND NOT (starts_with(f.app_id, '` + crowds.CarrierPrefix + `') AND f.lease_until > f.leased_at + make_interval(secs => s.lease_seconds))`},
	// Two columns are not compared. pool_id changes with the routes. expires_at of a notification's messages can differ, because the end of a notification
	// withdraws its leased messages.
	{Name: "queue and report_logs repeat the columns of their messages", SQL: `
		SELECT 'queue ' || q.task_id FROM queue q JOIN messages m USING (task_id)
		WHERE (
				q.phone_number, q.recipient, q.content, q.company_id, q.message_type, q.country_no, q.priority, q.segments, q.sign,
				q.rendering_id, q.user_id, q.on_unclear, q.created_at, q.batch_id, q.is_test, q.exemption
			) IS DISTINCT FROM (
				m.phone_number, m.recipient, m.content, m.company_id, m.message_type, m.country_no, m.priority, m.segments, m.sign,
				m.rendering_id, m.user_id, m.on_unclear, m.created_at, m.batch_id, m.is_test, m.exemption
			)
			OR q.rendering_id IS NULL AND q.expires_at IS DISTINCT FROM m.expires_at
				AND coalesce(q.expires_at > now(), true) -- a leased task of a person who opts out expires at once
		UNION ALL
		SELECT r.event || ' ' || r.effect || ' of ' || r.task_id FROM report_logs r LEFT JOIN messages m USING (task_id)
		WHERE (r.company_id, r.batch_id, r.country_no, r.is_test) IS DISTINCT FROM (m.company_id, m.batch_id, m.country_no, m.is_test)`},
}

// WhenIdle must hold when no client runs.
var WhenIdle = []check.Invariant{
	{Name: "every accepted message exists, under the id of the response", SQL: `
		SELECT i.content || ' ' || i.task_id FROM ids i LEFT JOIN task_states t ON t.task_id = i.task_id AND t.content = i.content
		WHERE t.task_id IS NULL`},
	{Name: "no message exists twice, and no refused message exists", SQL: `
		SELECT s.content || ' ' || t.n FROM submissions s JOIN (SELECT content, count(*) AS n FROM task_states WHERE NOT is_sensitive GROUP BY content, phone_number) t
			USING (content) -- a notification has one message per recipient
		WHERE t.n > 1 OR s.answered = 0 AND s.unknown = 0
		UNION ALL
		SELECT t.content FROM task_states t LEFT JOIN submissions s USING (content) WHERE s.content IS NULL AND NOT t.is_sensitive AND t.content <> '` + result.Erased + `'`},
	{Name: "a default content is consumed if and only if it has one task", SQL: `
		SELECT d.content || ' ' || coalesce(t.n, 0) FROM default_contents d
			LEFT JOIN (SELECT content, count(*) AS n FROM task_states GROUP BY content) t USING (content)
		WHERE d.is_sent::int <> coalesce(t.n, 0)`},
	{Name: "every message has its submission, and every dedup_key one message", SQL: `
		SELECT 'submission ' || id FROM receive_logs GROUP BY id HAVING count(*) > 1
		UNION ALL
		SELECT 'submission of ' || task_id FROM messages
		WHERE request_id IS NULL OR request_data IS NULL OR use_template IS NULL
			OR source_ip IS NULL AND NOT starts_with(request_id, 'sql-') -- SQL through a socket has none
		UNION ALL
		SELECT 'dedup_key ' || dedup_key FROM dedup_keys k
			FULL JOIN (SELECT * FROM messages WHERE dedup_key IS NOT NULL) m USING (company_id, submitted_by, dedup_key, task_id)
		WHERE k.task_id IS NULL OR m.task_id IS NULL
		UNION ALL
		SELECT 'repeated ' || f.task_id FROM fruitless_submissions f LEFT JOIN messages m USING (task_id)
		WHERE f.task_id IS NOT NULL AND m.task_id IS NULL`},
	{Name: "every lease that is held, was claimed or ended is in send_logs, with the values of the claim", SQL: `
		SELECT 'held ' || t.task_id FROM task_states t LEFT JOIN leases s ON s.id = t.lease_id AND s.task_id = t.task_id
		WHERE t.lease_id IS NOT NULL AND s.id IS NULL
		UNION ALL
		SELECT 'claimed ' || c.task_id FROM claims c
			LEFT JOIN leases s ON s.id = c.lease_id
		WHERE (c.task_id, c.app_id, c.attempt) IS DISTINCT FROM (s.task_id, s.app_id, s.attempt)
			OR s.content <> '` + result.Erased + `' AND (c.phone_number, c.content) IS DISTINCT FROM (s.phone_number, s.content)
			OR c.lease_until IS DISTINCT FROM s.lease_until AND NOT starts_with(c.app_id, '` + crowds.StartPrefix + `') -- a start extends the lease
		UNION ALL
		SELECT 'ended ' || e.task_id || ' ' || e.effect FROM ends e
			LEFT JOIN leases s ON s.id = e.lease_id AND s.task_id = e.task_id AND s.app_id = e.app_id
		WHERE e.event NOT IN ('cancelled', 'requeued', 'expired') AND s.id IS NULL`},
	{Name: "no task is leased after its expires_at, and no lease ends later", SQL: `
		SELECT s.task_id || ' leased at ' || s.created_at || ' until ' || s.lease_until || ', expires at ' || m.expires_at
		FROM leases s JOIN messages m USING (task_id)
		WHERE s.created_at >= m.expires_at OR s.lease_until > m.expires_at`},
	{Name: "leases of a task never overlap", SQL: `
		SELECT s.task_id || ' ' || s.id FROM (
			SELECT *, lead(id) OVER w AS next, lead(created_at) OVER w AS next_at, lead(life) OVER w AS next_life FROM leases
			WINDOW w AS (PARTITION BY task_id ORDER BY id)
		) s
		WHERE s.next IS NOT NULL AND NOT EXISTS (
			SELECT FROM ends e WHERE e.lease_id = s.id AND e.created_at <= s.next_at
				AND (e.effect IN ('retry', 'untried', 'troubled') OR s.next_life > s.life)
		)`},
	{Name: "attempts are 1, 2, 3 and at most MAX_RETRY_COUNT + 1 in each life, and a returned lease is not an attempt", SQL: `
		SELECT s.task_id || ' ' || s.attempt FROM (
			SELECT l.*, 1 + count(*) FILTER (WHERE NOT l.is_released) OVER (
				PARTITION BY l.task_id, l.life ORDER BY l.id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
			) AS n
			FROM (
				SELECT *, EXISTS (SELECT FROM ends e WHERE e.lease_id = s.id AND e.effect IN ('untried', 'troubled')) AS is_released FROM leases s
			) l
		) s
		WHERE s.attempt <> s.n OR s.n > $1 + 1`},
	{Name: "a lease ends once, except for a late SUCCESS of an expired lease", SQL: `
		SELECT e.task_id || ' ' || string_agg(e.event || ' ' || e.effect, ', ' ORDER BY e.id) FROM ends e
		WHERE e.lease_id IS NOT NULL GROUP BY e.task_id, e.lease_id
		HAVING count(*) > 1
			AND string_agg(e.event || ' ' || e.effect, ', ' ORDER BY e.id) NOT IN ('recovered retry, reported success', 'recovered untried, reported success')`},
	{Name: "a task ends once, and nothing happens to it afterwards unless it is requeued", SQL: `
		SELECT f.task_id || ' ' || f.effect FROM ends f
			JOIN (SELECT task_id, life, max(id) AS last_id FROM ends GROUP BY task_id, life) e USING (task_id, life)
			LEFT JOIN (SELECT task_id, life, max(created_at) AS last_at FROM leases GROUP BY task_id, life) s USING (task_id, life)
		WHERE f.effect NOT IN ('retry', 'untried', 'troubled', 'requeued') AND (e.last_id > f.id OR s.last_at > f.created_at)`},
	{Name: "only a task that is FAILED or CANCELLED is requeued, and it loses that outcome", SQL: `
		SELECT r.task_id || ' after ' || coalesce(r.before, 'nothing') FROM (
			SELECT *, lag(effect) OVER (PARTITION BY task_id ORDER BY id) AS before FROM ends
		) r
		WHERE r.event = 'requeued' AND coalesce(r.before, '') NOT IN ('failed', 'exhausted', 'unclear', 'cancelled', 'expired')
		UNION ALL
		SELECT l.task_id || ' has the outcome of an earlier life' FROM report_logs l JOIN ends e USING (task_id, id)
			JOIN (SELECT task_id, max(life) AS life FROM ends GROUP BY task_id) m USING (task_id)
		WHERE l.outcome IS NOT NULL AND e.life < m.life`},
	{Name: "replaying the logs since the last requeue gives the state", SQL: `
		SELECT t.task_id || ' is ' || coalesce(t.status, -1) || ' after ' || t.retry_count || ' retries' FROM task_states t
			LEFT JOIN (
				SELECT task_id, count(*) FILTER (WHERE effect = 'retry') AS retries,
					max(CASE WHEN effect = 'success' THEN 2 WHEN effect IN ('failed', 'exhausted', 'unclear', 'expired') THEN 3
						WHEN effect = 'cancelled' THEN 4 END) AS final,
					count(DISTINCT lease_id) AS ended
				FROM ends WHERE life = (SELECT count(*) FROM requeues r WHERE r.task_id = ends.task_id) GROUP BY task_id
			) e USING (task_id)
			LEFT JOIN (
				SELECT task_id, count(*) AS taken FROM leases WHERE life = (SELECT count(*) FROM requeues r WHERE r.task_id = leases.task_id)
				GROUP BY task_id
			) s USING (task_id)
		WHERE t.retry_count <> coalesce(e.retries, 0)
			OR t.status IS DISTINCT FROM coalesce(e.final, (coalesce(s.taken, 0) > coalesce(e.ended, 0))::int)`},
	{Name: "no task is leased before it is due, after its cancellation, or by an unknown sender", SQL: `
		SELECT 'early ' || s.task_id FROM leases s
			JOIN ends e ON e.task_id = s.task_id AND e.life = s.life AND e.event = 'reported' AND e.effect = 'retry' AND e.lease_id < s.id
		WHERE s.created_at < e.created_at + e.wait
		UNION ALL
		SELECT 'scheduled ' || s.task_id FROM leases s JOIN task_states t USING (task_id) WHERE s.created_at < t.expect_send_time
		UNION ALL
		SELECT 'cancelled ' || c.task_id FROM cancelled c JOIN task_states t USING (task_id)
		WHERE t.status <> 4 OR EXISTS (SELECT FROM leases s WHERE s.task_id = t.task_id AND s.attempt > t.retry_count
			AND NOT EXISTS (SELECT FROM ends e WHERE e.lease_id = s.id AND e.effect IN ('untried', 'troubled')))
		UNION ALL
		SELECT 'outside ' || s.app_id FROM leases s WHERE s.app_id NOT LIKE 'sender-%'`},
	{Name: "every report with a response is in the log once", SQL: `
		SELECT r.task_id || ' ' || r.answered || ' answered, ' || coalesce(l.n, 0) || ' logged' FROM report_outcomes r
			LEFT JOIN (SELECT task_id, count(*) AS n FROM report_logs WHERE event = 'reported' AND app_id NOT LIKE 'sender-push-%' GROUP BY task_id) l USING (task_id)
		WHERE coalesce(l.n, 0) NOT BETWEEN r.answered AND r.answered + r.unknown`},
	{Name: "no sender claims more than its interval and its limits allow", SQL: `
		SELECT 'interval ' || c.app_id || ' ' || c.created_at FROM (
			SELECT l.app_id, l.created_at, s.interval_ms * lag(count(*)) OVER w AS rest, lag(l.created_at) OVER w AS before
			FROM leases l JOIN senders s ON s.sender_no = l.app_id AND s.interval_ms > 0
			GROUP BY l.app_id, l.created_at, s.interval_ms
			WINDOW w AS (PARTITION BY l.app_id ORDER BY l.created_at)
		) c
		WHERE c.created_at < c.before + c.rest * interval '1 millisecond'
		UNION ALL
		SELECT 'limit ' || l.app_id || ' ' || sum(t.segments) FROM leases l
			JOIN senders s ON s.sender_no = l.app_id AND s.per_minute IS NOT NULL
			JOIN task_states t USING (task_id)
		WHERE NOT EXISTS (SELECT FROM ends e WHERE e.lease_id = l.id AND e.effect IN ('untried', 'troubled'))
		GROUP BY l.app_id, s.per_minute, date_trunc('minute', l.created_at)
		HAVING sum(t.segments) > s.per_minute`},
	{Name: "no balance is overdrawn, and each equals the sum of its ledger", SQL: `
		SELECT s.sender_no || ' has ' || st.balance || ', the ledger ' || coalesce(l.sum, 0) || ', at least ' || l.least FROM senders s
			JOIN sender_states st ON st.sender_id = s.id
			LEFT JOIN (SELECT sender_id, sum(change) AS sum, min(balance) AS least FROM sender_ledger GROUP BY sender_id) l
				ON l.sender_id = s.id
		WHERE s.has_balance AND (st.balance <> coalesce(l.sum, 0) OR l.least < 0)
		UNION ALL
		SELECT 'attempt ' || l.id || ' has ' || count(e.id) || ' entries' FROM leases l
			JOIN senders s ON s.sender_no = l.app_id AND s.has_balance
			LEFT JOIN sender_ledger e ON e.lease_id = l.id AND e.sender_id = s.id
			LEFT JOIN ends x ON x.lease_id = l.id AND x.effect IN ('untried', 'troubled')
		GROUP BY l.id HAVING count(DISTINCT e.id) FILTER (WHERE e.change < 0) <> 1 OR count(x.id) > 0 AND sum(e.change) <> 0`},
	{Name: "the statistics of a sender equal its log", SQL: `
		SELECT s.sender_no || ' ' || (u.attempts, u.succeeded, u.failed)::text || ' ' || (l.n, e.succeeded, e.failed)::text FROM senders s
			JOIN sender_totals u ON u.sender_id = s.id
			LEFT JOIN (SELECT app_id, count(*) AS n FROM leases GROUP BY app_id) l ON l.app_id = s.sender_no
			LEFT JOIN (
				SELECT app_id, count(*) FILTER (WHERE effect = 'success') AS succeeded, count(*) FILTER (WHERE effect <> 'success') AS failed
				FROM ends WHERE event = 'reported' GROUP BY app_id
			) e ON e.app_id = s.sender_no
		WHERE (u.attempts, u.succeeded, u.failed) <> (coalesce(l.n, 0), coalesce(e.succeeded, 0), coalesce(e.failed, 0))`},
	{Name: "every message that the provider accepted is a SUCCESS or has an expired lease for each repetition", SQL: `
		SELECT p.task_id || ' taken ' || p.times || ' times, ' || coalesce(e.n, 0) || ' leases expired, state ' || coalesce(t.status, -1) FROM taken p
			LEFT JOIN task_states t USING (task_id)
			LEFT JOIN (SELECT task_id, count(*) AS n FROM ends WHERE event = 'recovered' AND effect <> 'untried' GROUP BY task_id) e USING (task_id)
		WHERE p.times > coalesce(e.n, 0) + CASE WHEN t.status = 2 THEN 1 ELSE 0 END`},
	{Name: "the queue is empty", SQL: `SELECT task_id || ' is ' || status FROM task_states WHERE status IN (0, 1)`},
}

// analyze updates the statistics of the tables that the invariants read, because autovacuum can be far behind.
const analyze = "ANALYZE messages, queue, report_logs, fruitless_submissions, dedup_keys, deliveries, sender_ledger"

// CheckSnapshots checks the invariants that must hold at any time. It appends the suffix to their names.
func CheckSnapshots(ctx context.Context, conn *pgx.Conn, suffix string) (verdicts []check.Verdict, err error) {
	if _, err := conn.Exec(ctx, analyze); err != nil {
		return nil, fmt.Errorf("analyze: %w", err)
	}
	for _, i := range snapshots {
		v, err := i.Check(ctx, conn)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", i.Name, err)
		}
		v.Name += suffix
		verdicts = append(verdicts, v)
	}
	return verdicts, nil
}

// UnderLoad calls CheckSnapshots while the clients run. It also returns the numbers of waiting and of leased tasks.
func UnderLoad(ctx context.Context, s *stack.Stack) (verdicts []check.Verdict, waiting, held int, err error) {
	err = s.QueryWithin(ctx, CheckLimit, func(conn *pgx.Conn) (err error) {
		if verdicts, err = CheckSnapshots(ctx, conn, ", under load"); err != nil {
			return err
		}
		return conn.QueryRow(ctx, "SELECT count(*) - count(lease_until), count(lease_until) FROM queue").Scan(&waiting, &held)
	})
	if err != nil {
		err = fmt.Errorf("check under load: %w", err)
	}
	return verdicts, waiting, held, err
}

// CheckLimit is the time limit for all invariants together, which read every message of the soak.
const CheckLimit = 10 * time.Minute

// CopyHistory copies the history into temporary tables.
func CopyHistory(ctx context.Context, conn *pgx.Conn, h *load.History, p *load.Provider) error {
	if _, err := conn.Exec(ctx, fmt.Sprintf(evidence, fmt.Sprintf("interval '%d milliseconds'", stack.RetryDelay.Milliseconds()))); err != nil {
		return err
	}
	h.Mu.Lock()
	defer h.Mu.Unlock()
	var submissions, ids, claims, reportOutcomes, cancelled, taken, lists, pauses [][]any
	p.Mu.Lock()
	for id, n := range p.Accepted {
		taken = append(taken, []any{id, n})
	}
	p.Mu.Unlock()
	for text, m := range h.Messages {
		submissions = append(submissions, []any{text, m.Answered, m.Unknown})
		for id := range m.Ids {
			ids = append(ids, []any{text, id})
		}
	}
	for _, c := range h.Claims {
		claims = append(claims, []any{c.Task.TaskID, c.AppID, c.Task.LeaseID, c.Task.PhoneNumber, c.Task.Content, c.Task.Attempt, c.Task.LeaseUntil})
	}
	for id, r := range h.Reports {
		reportOutcomes = append(reportOutcomes, []any{id, r.Answered, r.Unknown})
	}
	for _, id := range h.Cancelled {
		if h.Requeued[id] {
			continue
		}
		cancelled = append(cancelled, []any{id})
	}
	for _, b := range h.Lists {
		lists = append(lists, []any{b.ID, b.Rows, b.Valid})
	}
	for _, p := range h.Pauses {
		pauses = append(pauses, []any{p.BatchID, p.Since, optional.NonZero(p.Until)})
	}
	for _, table := range []struct {
		name    string
		columns []string
		rows    [][]any
	}{
		{"submissions", []string{"content", "answered", "unknown"}, submissions},
		{"ids", []string{"content", "task_id"}, ids},
		{"claims", []string{"task_id", "app_id", "lease_id", "phone_number", "content", "attempt", "lease_until"}, claims},
		{"report_outcomes", []string{"task_id", "answered", "unknown"}, reportOutcomes},
		{"cancelled", []string{"task_id"}, cancelled},
		{"taken", []string{"task_id", "times"}, taken},
		{"lists", []string{"batch_id", "rows", "valid"}, lists},
		{"pauses", []string{"batch_id", "since", "until"}, pauses},
	} {
		if _, err := conn.CopyFrom(ctx, pgx.Identifier{table.name}, table.columns, pgx.CopyFromRows(table.rows)); err != nil {
			return err
		}
		if _, err := conn.Exec(ctx, "ANALYZE "+table.name); err != nil {
			return err
		}
	}
	return nil
}

// CountersEqualRows compares the task statistics of each server with the number of rows.
func CountersEqualRows(ctx context.Context, conn *pgx.Conn, s *stack.Stack) (check.Verdict, error) {
	v := check.Verdict{Name: "counters equal rows"}
	want := map[string]int{}
	for name, where := range map[string]string{
		"pending_new_tasks": "status = 0 AND retry_count = 0", "pending_retry_tasks": "status = 0 AND retry_count > 0",
		"processing_tasks": "status = 1", "success_tasks": "status = 2", "failed_tasks": "status = 3",
	} {
		var n int
		if err := conn.QueryRow(ctx, "SELECT count(*) FROM task_states WHERE "+where).Scan(&n); err != nil {
			return v, err
		}
		want[name] = n
	}
	var patience time.Duration
	if s.Cluster != nil {
		patience = crowds.StaleLimit // a replica can answer with an older state
	}
	began := time.Now()
	for _, srv := range s.Endpoints {
		got, err := srv.Statistics(ctx)
		for err == nil && !maps.Equal(got, want) && time.Since(began) < patience && stack.Pause(ctx, 100*time.Millisecond) {
			got, err = srv.Statistics(ctx)
		}
		if err != nil {
			return v, err
		}
		if !maps.Equal(got, want) {
			v.Add(fmt.Sprintf("%s says %v, the rows %v", srv.Name, got, want))
		}
	}
	return v, nil
}

// idleGoroutines and deadTuples are the limits of an idle server and table. For a minute after the load, connections stay open, and each connection needs two
// goroutines. A driven sender has at most 16 connections to its provider, and the webhooks have at most 64 connections to their receiver. A link to a carrier
// stays open. It has at most two sessions with five goroutines each, and three more.
const (
	idleGoroutines = 50 + 2*16*(load.Pushed+2) + 2*64 + 13*crowds.CarrierLinks // load.Pushed and two more driven senders (sick and well); 2*64 for the webhooks
	deadTuples     = 100
)

// Baseline waits until each server and table has been within its limit once. Once is enough: an idle server sometimes exceeds its limit for a moment, but with
// a leak it never returns to the limit.
func Baseline(ctx context.Context, conn *pgx.Conn, s *stack.Stack) (check.Verdict, error) {
	type measure func() (excess string, err error)
	var above []measure
	for _, srv := range s.Servers {
		above = append(above, func() (string, error) {
			goroutines, err := srv.Gauge(ctx, "go_goroutines")
			if goroutines <= idleGoroutines {
				return "", err
			}
			return fmt.Sprintf("%s has %g goroutines", srv.Name, goroutines), err
		}, func() (string, error) {
			used, err := srv.Gauge(ctx, `lksms_pool_connections{state="in_use"}`)
			if used <= 1 { // the scrape itself uses one connection
				return "", err
			}
			return fmt.Sprintf("%s uses %g connections", srv.Name, used), err
		}, func() (string, error) {
			var sessions, open int
			err := conn.QueryRow(ctx, `SELECT count(*), count(*) FILTER (WHERE state LIKE 'idle in transaction%')
				FROM pg_stat_activity WHERE application_name = $1`, srv.Name).Scan(&sessions, &open)
			if sessions <= stack.PoolSize && open == 0 {
				return "", err
			}
			return fmt.Sprintf("%s has %d sessions, %d of them in a transaction", srv.Name, sessions, open), err
		})
	}
	for _, table := range []string{"queue", "default_contents", "idempotency_keys"} {
		above = append(above, func() (string, error) {
			if _, err := conn.Exec(ctx, "VACUUM "+table); err != nil {
				return "", err
			}
			var dead int
			err := conn.QueryRow(ctx, "SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = $1", table).Scan(&dead)
			if dead <= deadTuples {
				return "", err
			}
			return fmt.Sprintf("%s keeps %d dead tuples after VACUUM", table, dead), err
		})
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		v := check.Verdict{Name: "connections, goroutines and dead tuples return to the baseline"}
		var still []measure
		for _, m := range above {
			excess, err := m()
			if err != nil {
				return v, err
			}
			if excess != "" {
				v.Add(excess)
				still = append(still, m)
			}
		}
		if above = still; v.Broken == 0 || time.Now().After(deadline) {
			return v, nil
		}
	}
}
