// Package checktest contains the initial rows for the tests of several packages.
package checktest

// Sound inserts rows that break no invariant, with four messages: a waits again after an expired lease, b is leased, c was sent in its second lease, and d was cancelled.
const Sound = `
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
