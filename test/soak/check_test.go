package main

import (
	"context"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"lksms/internal/testkit/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// sound are four messages: a waits after an expired lease, b is held, c was sent in its second lease, and d was cancelled.
const sound = `
INSERT INTO senders (id, sender_no, name) VALUES (1, 'app', 'app');
INSERT INTO messages (task_id, submitted_by, phone_number, recipient, content, company_id, pool_id, message_type, priority, segments, created_at)
	SELECT id, 'u', '13800138000', '+8613800138000', id, 1, 1, 1, 5, 1, '2026-01-01 08:00+08' FROM unnest('{a,b,c,d}'::text[]) id;
INSERT INTO queue (
		task_id, phone_number, recipient, content, company_id, pool_id, message_type, priority, segments, created_at, updated_at,
		retry_count, failed_app_id, processing_app_id, lease_id, lease_until, lease_limit
	)
	SELECT q.task_id, m.phone_number, m.recipient, m.content, 1, 1, 1, 5, 1, m.created_at, '2026-01-01 08:01+08', q.retries, q.failed, q.holder,
		q.lease, q.until, q.most
	FROM messages m JOIN (VALUES
		('a', 1, 'app', NULL, 1, NULL::timestamptz, NULL::smallint),
		('b', 0, NULL, 'app', 2, '2026-01-01 08:01:03+08', 20)
	) q (task_id, retries, failed, holder, lease, until, most) USING (task_id);
INSERT INTO report_logs (
		task_id, company_id, app_id, lease_id, event, status, effect, outcome, retry_count, due_at, leased_at, lease_until, lease_limit
	) VALUES
	('a', 1, 'app', 1, 'recovered', NULL, 'retry', NULL, 0, now(), '2026-01-01 08:00+08', '2026-01-01 08:00:03+08', 20),
	('c', 1, 'app', 3, 'reported', 3, 'retry', NULL, 0, now(), '2026-01-01 08:00+08', '2026-01-01 08:00:03+08', 20),
	('c', 1, 'app', 4, 'reported', 2, 'success', 2, 1, now(), '2026-01-01 08:02+08', '2026-01-01 08:02:03+08', 20),
	('c', 1, 'app', 4, 'reported', 2, 'ignored', NULL, NULL, NULL, NULL, NULL, NULL),
	('d', 1, NULL, NULL, 'cancelled', NULL, 'cancelled', 4, 0, now(), NULL, NULL, NULL),
	('d', 1, 'stranger', 99, 'reported', 2, 'refused', NULL, NULL, NULL, NULL, NULL, NULL)`

func TestTheSnapshotInvariantsFindWhatTheyName(t *testing.T) {
	t.Parallel()
	conn, err := pgx.Connect(t.Context(), pgtest.New(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	const place, facts, copies = 0, 1, 2
	for what, c := range map[string]struct {
		sql  string
		find []int // the invariants that are broken
	}{
		"nothing":                              {sql: "SELECT"},
		"a message without a place":            {"DELETE FROM queue WHERE task_id = 'a'", []int{place}},
		"a message without an outcome":         {"DELETE FROM report_logs WHERE effect = 'cancelled'", []int{place}},
		"a settled message in the queue":       {"UPDATE report_logs SET outcome = 3 WHERE task_id = 'a'", []int{place}},
		"two outcomes":                         {"DROP INDEX report_logs_outcome_key; UPDATE report_logs SET outcome = 3 WHERE task_id = 'c'", []int{place}},
		"an outcome without a message":         {"DELETE FROM messages WHERE task_id = 'd'", []int{place, copies}},
		"a row of queue without a message":     {"DELETE FROM messages WHERE task_id = 'b'", []int{place}},
		"a lease without facts":                {"UPDATE report_logs SET leased_at = NULL WHERE lease_id = 3", []int{facts}},
		"a lease with facts in two log rows":   {"UPDATE report_logs SET lease_id = 3 WHERE lease_id = 4", []int{facts}},
		"a lease with facts in both tables":    {"UPDATE report_logs SET lease_id = 2 WHERE lease_id = 1", []int{facts}},
		"a lost lease of an ignored report":    {"UPDATE report_logs SET lease_id = 98 WHERE effect = 'ignored'", []int{facts}},
		"a charge for no lease":                {"INSERT INTO sender_ledger (sender_id, change, balance, lease_id) VALUES (1, -1, 9, 98)", []int{facts}},
		"a lease without its limit":            {"UPDATE queue SET lease_limit = NULL WHERE task_id = 'b'", []int{facts}},
		"a lease from another time":            {"UPDATE queue SET updated_at = created_at WHERE task_id = 'b'", []int{facts}},
		"a lease of an unknown sender":         {"UPDATE report_logs SET app_id = 'stranger' WHERE task_id = 'a'", []int{facts}},
		"a lease without its cost":             {"UPDATE senders SET has_balance = true", []int{facts}},
		"another content":                      {"UPDATE queue SET content = 'x' WHERE task_id = 'a'", []int{copies}},
		"another recipient":                    {"UPDATE queue SET recipient = 'x' WHERE task_id = 'a'", []int{copies}},
		"a signature that the message has not": {"UPDATE queue SET sign = 'x' WHERE task_id = 'a'", []int{copies}},
		"another company":                      {"UPDATE queue SET company_id = 2 WHERE task_id = 'b'", []int{copies}},
		"another company in the log":           {"UPDATE report_logs SET company_id = 2 WHERE effect = 'refused'", []int{copies}},
	} {
		t.Run(what, func(t *testing.T) {
			tx, err := conn.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback(context.Background())
			if _, err := tx.Exec(t.Context(), sound+";"+c.sql); err != nil {
				t.Fatal(err)
			}
			verdicts, err := checkSnapshots(t.Context(), conn, "")
			if err != nil {
				t.Fatal(err)
			}
			for i, v := range verdicts {
				if is, want := v.broken > 0, slices.Contains(c.find, i); is != want {
					t.Errorf("%s: broken %t, want %t: %v", v.name, is, want, v.samples)
				}
			}
		})
	}
}
