package alert_test

import (
	"testing"

	"lksms/internal/testkit/apptest"
)

// BenchmarkEvaluate evaluates the shipped rules, and 50 rules about the failure rate of one sender within an hour. The database contains 1,000 constantly
// sending senders, 200 pools with routes, and a million waiting tasks. The run "quiet" finds nothing. In the run "trouble", all tasks are late, most senders
// are silent, and ten providers send no receipts.
func BenchmarkEvaluate(b *testing.B) {
	w := apptest.Open(b, apptest.DefaultRules, nil)
	w.Exec("SELECT task_partitions_ahead('day', now(), now() + interval '7 days')")
	w.Exec("INSERT INTO companies (company_no, name) SELECT 'c' || i, 'c' FROM generate_series(1, 200) i")
	w.Exec("INSERT INTO senders (sender_no, name, is_shared) SELECT 's' || i, 's', i % 2 = 0 FROM generate_series(1, 1000) i")
	w.Exec("INSERT INTO sender_states (sender_id, seen_at, sent_at, succeeded) SELECT id, now(), now(), 100 FROM senders")
	w.Exec("INSERT INTO pools (channel_id, company_id, message_type) SELECT 1, id, 1 FROM companies WHERE company_no <> 'default'")
	w.Exec("INSERT INTO routes (pool_id, sender_id) SELECT p.id, s.id FROM pools p JOIN senders s ON s.id % 200 = p.id % 200 WHERE p.company_id IS NOT NULL")
	w.Exec(`INSERT INTO queue (task_id, pool_id, lane, rank, due_at, company_id, message_type, priority, segments, phone_number, recipient, content)
		SELECT 'task_' || to_char(now(), 'YYYYMMDD') || '_' || lpad(i::text, 26, '0'), p.id, 160, i, now(), coalesce(p.company_id, 1), 1, 5, 1, '', '', 'x'
		FROM generate_series(1, 1000000) i
		JOIN (SELECT row_number() OVER (ORDER BY id) - 1 AS n, count(*) OVER () AS all_pools, id, company_id FROM pools WHERE channel_id = 1) p ON p.n = i % p.all_pools`)
	w.Exec(`INSERT INTO statistics (step, company_id, dimension, at, key, submitted, requeued, claimed, succeeded, failed, reported_failed, cancelled,
			delivered, undelivered, segments, waits, durations)
		SELECT 'minute', 0, d.dimension, date_trunc('minute', now(), 'UTC') - m * interval '1 minute', d.key, 0, 0, 100, 90, 10, 10, 0, 0, 0, 0, '', ''
		FROM generate_series(1, 1440) m,
			(SELECT 'sender' AS dimension, 's' || i AS key FROM generate_series(1, 1000) i UNION ALL VALUES ('total', ''), ('channel', 'sms')) d`)
	w.Exec(`INSERT INTO alert_rules (kind, level, threshold, window_seconds, for_seconds, resolve_seconds, repeat_seconds, sender_id)
		SELECT 'failure_rate', 'warning', 0.2, 3600, 0, 0, 0, id FROM senders ORDER BY id LIMIT 50`)
	w.Exec("VACUUM ANALYZE")
	if _, err := w.App.History.Fold(b.Context()); err != nil {
		b.Fatal(err)
	}
	evaluate := func(b *testing.B) {
		for b.Loop() {
			if _, err := w.App.Alerts.Evaluate(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("quiet", evaluate)
	w.Exec("UPDATE senders SET kind = 'http-sms', config = '{\"callback\":{}}' WHERE id % 100 = 0")
	w.Exec("UPDATE queue SET due_at = due_at - interval '1 hour'")
	w.Exec("UPDATE sender_states SET seen_at = now() - interval '1 hour', sent_at = now() - interval '1 hour' WHERE sender_id % 10 > 0")
	w.Exec("VACUUM ANALYZE")
	b.Run("trouble", evaluate)
}
