-- migrate:up
-- squawk-ignore-file prefer-bigint-over-int
-- The triggers count by all dimensions, and the view tasks shows them. This locks the view for a moment. See add_dimensions_to_facts.
SET LOCAL lock_timeout = '5s';
CREATE FUNCTION held_due_at() RETURNS timestamptz LANGUAGE sql IMMUTABLE RETURN '9999-01-01 00:00:00+00'::timestamptz;
COMMENT ON FUNCTION held_due_at() IS
    'The due_at of a task that waits until its batch is resumed. It is the largest that queue allows, so no statement takes such a task for due.';
COMMENT ON COLUMN queue.due_at IS 'the task can be claimed from then on; held_due_at(): its batch is paused';
COMMENT ON COLUMN queue.entered_at IS
    'when the task first could be claimed: the due_at of its submission; of a requeued task when it was requeued; of one that was held when it was '
    'released; null: it was submitted before this column existed';

-- For the comments on the rows that each function counts, see measure_waits and requeue_tasks. The task of a row 'simulated' never was in the queue,
-- as that of a row 'unreachable'.
CREATE OR REPLACE FUNCTION queue_facts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO facts (
            company_id, pool_id, message_type, country_no, batch_id, is_test, sender_no, at, pending_new, pending_retry, processing, submitted, requeued
        )
        SELECT company_id, pool_id, message_type, country_no, batch_id, is_test, processing_app_id, max(updated_at),
            count(*) FILTER (WHERE lease_until IS NULL AND retry_count = 0), count(*) FILTER (WHERE lease_until IS NULL AND retry_count > 0),
            count(lease_until), count(*) FILTER (WHERE NOT was_claimed), count(*) FILTER (WHERE was_claimed)
        FROM added
        GROUP BY company_id, pool_id, message_type, country_no, batch_id, is_test, processing_app_id;
    ELSIF TG_OP = 'UPDATE' THEN
        INSERT INTO facts (
            company_id, pool_id, message_type, country_no, batch_id, is_test, sender_no, at, pending_new, pending_retry, processing, leases, waits
        )
        SELECT c.company_id, c.pool_id, c.message_type, c.country_no, c.batch_id, c.is_test, c.processing_app_id, coalesce(c.at, clock_timestamp()),
            c.pending_new, c.pending_retry, c.processing, greatest(0, c.processing), CASE WHEN c.processing > 0 THEN c.waits END
        FROM (
            SELECT company_id, pool_id, message_type, country_no, batch_id, is_test, processing_app_id, max(updated_at) FILTER (WHERE n = 1) AS at,
                coalesce(sum(n) FILTER (WHERE lease_until IS NULL AND retry_count = 0), 0) AS pending_new,
                coalesce(sum(n) FILTER (WHERE lease_until IS NULL AND retry_count > 0), 0) AS pending_retry,
                coalesce(sum(n) FILTER (WHERE lease_until IS NOT NULL), 0) AS processing,
                string_agg(wait_bucket(updated_at - entered_at), '')
                    FILTER (WHERE n = 1 AND lease_until IS NOT NULL AND retry_count = 0 AND NOT was_claimed) AS waits
            FROM (
                SELECT company_id, pool_id, message_type, country_no, batch_id, is_test, processing_app_id, lease_until, retry_count, updated_at,
                    entered_at, was_claimed, 1 AS n
                FROM added
                UNION ALL
                SELECT company_id, pool_id, message_type, country_no, batch_id, is_test, processing_app_id, lease_until, retry_count, updated_at,
                    entered_at, was_claimed, -1
                FROM removed
            ) x
            GROUP BY company_id, pool_id, message_type, country_no, batch_id, is_test, processing_app_id
        ) c
        WHERE (c.pending_new, c.pending_retry, c.processing) <> (0, 0, 0);
    ELSE
        INSERT INTO facts (
            company_id, pool_id, message_type, country_no, batch_id, is_test, sender_no, at, pending_new, pending_retry, processing
        )
        SELECT company_id, pool_id, message_type, country_no, batch_id, is_test, processing_app_id, clock_timestamp(),
            -count(*) FILTER (WHERE lease_until IS NULL AND retry_count = 0), -count(*) FILTER (WHERE lease_until IS NULL AND retry_count > 0),
            -count(lease_until)
        FROM removed
        GROUP BY company_id, pool_id, message_type, country_no, batch_id, is_test, processing_app_id;
    END IF;
    RETURN NULL;
END
$$;

CREATE OR REPLACE FUNCTION report_logs_facts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO facts (
        company_id, pool_id, message_type, country_no, batch_id, is_test, sender_no, at, success, failed, cancelled, delivered, undelivered, submitted,
        reported_success, reported_failed, response_ms, segments, durations
    )
    SELECT company_id, pool_id, message_type, country_no, batch_id, is_test, app_id, max(created_at),
        count(*) FILTER (WHERE outcome = 2), count(*) FILTER (WHERE outcome = 3), count(*) FILTER (WHERE outcome = 4), -- SUCCESS, FAILED, CANCELLED
        count(*) FILTER (WHERE event = 'receipt' AND effect = 'delivered'), count(*) FILTER (WHERE event = 'receipt' AND effect = 'undelivered'),
        count(*) FILTER (WHERE event IN ('unreachable', 'simulated')), count(*) FILTER (WHERE status = 2), count(*) FILTER (WHERE status = 3),
        coalesce(sum(greatest(0, extract(epoch FROM created_at - coalesce(leased_at, due_at)) * 1000)) FILTER (WHERE status IS NOT NULL), 0),
        coalesce(sum(coalesce(lease_segments, segments)) FILTER (WHERE status = 2), 0),
        string_agg(wait_bucket(created_at - entered_at), '') FILTER (WHERE outcome IN (2, 3))
    FROM added
    WHERE outcome IS NOT NULL OR (status IS NOT NULL AND effect = 'retry') OR event = 'receipt'
    GROUP BY company_id, pool_id, message_type, country_no, batch_id, is_test, app_id, outcome;
    RETURN NULL;
END
$$;

-- A row that loses its outcome takes it from all that counted it, also from its sender.
CREATE OR REPLACE FUNCTION report_logs_outcome_facts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO facts (company_id, pool_id, message_type, country_no, batch_id, is_test, sender_no, at, success, failed)
    SELECT c.company_id, c.pool_id, c.message_type, c.country_no, c.batch_id, c.is_test, c.app_id, clock_timestamp(), c.success, c.failed
    FROM (
        SELECT x.company_id, x.pool_id, x.message_type, x.country_no, x.batch_id, x.is_test, x.app_id,
            coalesce(sum(x.n) FILTER (WHERE x.outcome = 2), 0) AS success, -- SUCCESS
            coalesce(sum(x.n) FILTER (WHERE x.outcome = 3), 0) AS failed -- FAILED
        FROM (
            SELECT company_id, pool_id, message_type, country_no, batch_id, is_test, app_id, outcome, 1 AS n FROM added
            UNION ALL
            SELECT company_id, pool_id, message_type, country_no, batch_id, is_test, app_id, outcome, -1 FROM removed
        ) x
        GROUP BY x.company_id, x.pool_id, x.message_type, x.country_no, x.batch_id, x.is_test, x.app_id
    ) c
    WHERE (c.success, c.failed) <> (0, 0);
    RETURN NULL;
END
$$;

-- A task that is held has no due time.
CREATE OR REPLACE VIEW tasks AS
SELECT m.task_id, m.phone_number, m.recipient, m.content,
    CASE WHEN q.task_id IS NULL THEN coalesce(e.outcome, 3) WHEN q.lease_until IS NULL THEN 0 ELSE 1 END::smallint AS status,
    m.source, m.submitted_by, m.dedup_key,
    coalesce(q.retry_count, e.retry_count, 0)::smallint AS retry_count,
    nullif(coalesce(q.due_at, e.due_at, m.created_at), held_due_at())::timestamptz AS due_at,
    coalesce(q.processing_app_id, CASE WHEN e.event = 'reported' AND e.effect <> 'exhausted' THEN e.app_id END) AS processing_app_id,
    coalesce(q.lease_id, e.lease_id) AS lease_id,
    q.lease_until, coalesce(q.result, e.result) AS result, m.created_at,
    coalesce(q.updated_at, e.created_at, m.created_at)::timestamptz AS updated_at,
    CASE WHEN e.outcome = 2 AND e.event = 'reported' THEN e.created_at END AS sent_at,
    CASE WHEN e.outcome IN (2, 3) THEN e.created_at END AS reported_at,
    m.company_id, coalesce(q.pool_id, m.pool_id)::bigint AS pool_id, m.message_type, m.country_no, m.priority, m.segments, m.sign,
    m.is_test, m.expect_send_time, coalesce(q.expires_at, m.expires_at) AS expires_at, q.failed_app_id, q.lane, q.rank,
    m.rendering_id, m.user_id,
    CASE WHEN d.task_id IS NOT NULL THEN 1 WHEN u.task_id IS NOT NULL THEN 2 END::smallint AS delivery,
    CASE WHEN d.task_id IS NOT NULL THEN d.result ELSE u.result END AS delivery_code, d.created_at AS delivered_at, m.on_unclear,
    m.batch_id, m.sender_no
-- Joins by the key only: with a task_id that is known, the planner finds the partition of each table.
FROM messages m
LEFT JOIN queue q ON q.task_id = m.task_id
LEFT JOIN report_logs e ON e.task_id = m.task_id AND e.outcome IS NOT NULL
LEFT JOIN report_logs d ON d.task_id = m.task_id AND d.event = 'receipt' AND d.effect = 'delivered'
LEFT JOIN report_logs u ON u.task_id = m.task_id AND u.event = 'receipt' AND u.effect = 'undelivered';
COMMENT ON VIEW tasks IS
    'The state of each task: what was submitted, from messages; what is waiting or leased, from queue; how it ended, from report_logs. Read it by '
    'task_id or rendering_id; nothing else is indexed. Of a settled task, pool_id and expires_at are those of its submission, and failed_app_id is '
    'null. due_at is null while the task is held, and of a task that ended while it was.';

CREATE OR REPLACE FUNCTION tasks_between(from_id text, to_id text) RETURNS SETOF tasks
LANGUAGE sql STABLE AS $$
    SELECT m.task_id, m.phone_number, m.recipient, m.content,
        CASE WHEN q.task_id IS NULL THEN coalesce(e.outcome, 3) WHEN q.lease_until IS NULL THEN 0 ELSE 1 END::smallint AS status,
        m.source, m.submitted_by, m.dedup_key,
        coalesce(q.retry_count, e.retry_count, 0)::smallint AS retry_count,
        nullif(coalesce(q.due_at, e.due_at, m.created_at), held_due_at())::timestamptz AS due_at,
        coalesce(q.processing_app_id, CASE WHEN e.event = 'reported' AND e.effect <> 'exhausted' THEN e.app_id END) AS processing_app_id,
        coalesce(q.lease_id, e.lease_id) AS lease_id,
        q.lease_until, coalesce(q.result, e.result) AS result, m.created_at,
        coalesce(q.updated_at, e.created_at, m.created_at)::timestamptz AS updated_at,
        CASE WHEN e.outcome = 2 AND e.event = 'reported' THEN e.created_at END AS sent_at,
        CASE WHEN e.outcome IN (2, 3) THEN e.created_at END AS reported_at,
        m.company_id, coalesce(q.pool_id, m.pool_id)::bigint AS pool_id, m.message_type, m.country_no, m.priority, m.segments, m.sign,
        m.is_test, m.expect_send_time, coalesce(q.expires_at, m.expires_at) AS expires_at, q.failed_app_id, q.lane, q.rank,
        m.rendering_id, m.user_id,
        CASE r.effect WHEN 'delivered' THEN 1 WHEN 'undelivered' THEN 2 END::smallint AS delivery,
        r.result AS delivery_code, CASE r.effect WHEN 'delivered' THEN r.created_at END AS delivered_at, m.on_unclear,
        m.batch_id, m.sender_no
    FROM messages m
    LEFT JOIN queue q ON q.task_id = m.task_id
    LEFT JOIN report_logs e ON e.task_id = m.task_id AND e.task_id BETWEEN from_id AND to_id AND e.outcome IS NOT NULL
    LEFT JOIN LATERAL (
        SELECT d.effect, d.result, d.created_at FROM report_logs d
        WHERE d.task_id = m.task_id AND d.task_id BETWEEN from_id AND to_id AND d.event = 'receipt' AND d.effect IN ('delivered', 'undelivered')
        ORDER BY d.effect -- delivered before undelivered
        LIMIT 1
    ) r ON true
    WHERE m.task_id BETWEEN from_id AND to_id
$$;

-- migrate:down
DROP FUNCTION tasks_between(text, text);
DROP VIEW notification_standings;
DROP VIEW tasks;
CREATE VIEW tasks AS
SELECT m.task_id, m.phone_number, m.recipient, m.content,
    CASE WHEN q.task_id IS NULL THEN coalesce(e.outcome, 3) WHEN q.lease_until IS NULL THEN 0 ELSE 1 END::smallint AS status,
    m.source, m.submitted_by, m.dedup_key,
    coalesce(q.retry_count, e.retry_count, 0)::smallint AS retry_count,
    coalesce(q.due_at, e.due_at, m.created_at)::timestamptz AS due_at,
    coalesce(q.processing_app_id, CASE WHEN e.event = 'reported' AND e.effect <> 'exhausted' THEN e.app_id END) AS processing_app_id,
    coalesce(q.lease_id, e.lease_id) AS lease_id,
    q.lease_until, coalesce(q.result, e.result) AS result, m.created_at,
    coalesce(q.updated_at, e.created_at, m.created_at)::timestamptz AS updated_at,
    CASE WHEN e.outcome = 2 THEN e.created_at END AS sent_at,
    CASE WHEN e.outcome IN (2, 3) THEN e.created_at END AS reported_at,
    m.company_id, coalesce(q.pool_id, m.pool_id)::bigint AS pool_id, m.message_type, m.country_no, m.priority, m.segments, m.sign,
    m.is_test, m.expect_send_time, coalesce(q.expires_at, m.expires_at) AS expires_at, q.failed_app_id, q.lane, q.rank,
    m.rendering_id, m.user_id,
    CASE WHEN d.task_id IS NOT NULL THEN 1 WHEN u.task_id IS NOT NULL THEN 2 END::smallint AS delivery,
    CASE WHEN d.task_id IS NOT NULL THEN d.result ELSE u.result END AS delivery_code, d.created_at AS delivered_at, m.on_unclear
-- Joins by the key only: with a task_id that is known, the planner finds the partition of each table.
FROM messages m
LEFT JOIN queue q ON q.task_id = m.task_id
LEFT JOIN report_logs e ON e.task_id = m.task_id AND e.outcome IS NOT NULL
LEFT JOIN report_logs d ON d.task_id = m.task_id AND d.event = 'receipt' AND d.effect = 'delivered'
LEFT JOIN report_logs u ON u.task_id = m.task_id AND u.event = 'receipt' AND u.effect = 'undelivered';
COMMENT ON VIEW tasks IS
    'The state of each task: what was submitted, from messages; what is waiting or leased, from queue; how it ended, from report_logs. Read it by '
    'task_id or rendering_id; nothing else is indexed. Of a settled task, pool_id and expires_at are those of its submission, and failed_app_id is '
    'null.';
CREATE VIEW notification_standings AS
SELECT n.id AS notification_id,
    CASE
        WHEN n.ended_as IS NOT NULL THEN n.ended_as::integer
        WHEN n.next_run_at IS NOT NULL OR told.waiting > 0 THEN 0
        WHEN told.succeeded = told.people THEN 1
        WHEN told.succeeded > 0 THEN 5
        WHEN told.cancelled = told.people THEN 3
        ELSE 2
    END::smallint AS status,
    least(n.next_run_at, told.next_try) AS next_run_time, told.people, told.succeeded, told.retries
FROM notifications n
CROSS JOIN LATERAL (
    SELECT count(*) AS people,
        count(*) FILTER (WHERE p.status = 2) AS succeeded, -- SUCCESS
        count(*) FILTER (WHERE p.status IN (0, 1)) AS waiting, -- PENDING, PROCESSING
        count(*) FILTER (WHERE p.status = 4) AS cancelled, -- CANCELLED
        coalesce(max(p.retry_count)::integer, 0)::smallint AS retries,
        min(p.due_at) FILTER (WHERE p.status = 0 AND (p.retry_count > 0 OR p.due_at > now())) AS next_try
    FROM (
        SELECT DISTINCT ON (t.user_id) t.status, t.retry_count, t.due_at
        FROM renderings r
        JOIN tasks t ON t.rendering_id = r.id
        WHERE r.notification_id = n.id
        ORDER BY t.user_id, t.task_id DESC
    ) p
) told;
CREATE FUNCTION tasks_between(from_id text, to_id text) RETURNS SETOF tasks
LANGUAGE sql STABLE AS $$
    SELECT m.task_id, m.phone_number, m.recipient, m.content,
        CASE WHEN q.task_id IS NULL THEN coalesce(e.outcome, 3) WHEN q.lease_until IS NULL THEN 0 ELSE 1 END::smallint AS status,
        m.source, m.submitted_by, m.dedup_key,
        coalesce(q.retry_count, e.retry_count, 0)::smallint AS retry_count,
        coalesce(q.due_at, e.due_at, m.created_at)::timestamptz AS due_at,
        coalesce(q.processing_app_id, CASE WHEN e.event = 'reported' AND e.effect <> 'exhausted' THEN e.app_id END) AS processing_app_id,
        coalesce(q.lease_id, e.lease_id) AS lease_id,
        q.lease_until, coalesce(q.result, e.result) AS result, m.created_at,
        coalesce(q.updated_at, e.created_at, m.created_at)::timestamptz AS updated_at,
        CASE WHEN e.outcome = 2 THEN e.created_at END AS sent_at,
        CASE WHEN e.outcome IN (2, 3) THEN e.created_at END AS reported_at,
        m.company_id, coalesce(q.pool_id, m.pool_id)::bigint AS pool_id, m.message_type, m.country_no, m.priority, m.segments, m.sign,
        m.is_test, m.expect_send_time, coalesce(q.expires_at, m.expires_at) AS expires_at, q.failed_app_id, q.lane, q.rank,
        m.rendering_id, m.user_id,
        CASE r.effect WHEN 'delivered' THEN 1 WHEN 'undelivered' THEN 2 END::smallint AS delivery,
        r.result AS delivery_code, CASE r.effect WHEN 'delivered' THEN r.created_at END AS delivered_at, m.on_unclear
    FROM messages m
    LEFT JOIN queue q ON q.task_id = m.task_id
    LEFT JOIN report_logs e ON e.task_id = m.task_id AND e.task_id BETWEEN from_id AND to_id AND e.outcome IS NOT NULL
    LEFT JOIN LATERAL (
        SELECT d.effect, d.result, d.created_at FROM report_logs d
        WHERE d.task_id = m.task_id AND d.task_id BETWEEN from_id AND to_id AND d.event = 'receipt' AND d.effect IN ('delivered', 'undelivered')
        ORDER BY d.effect -- delivered before undelivered
        LIMIT 1
    ) r ON true
    WHERE m.task_id BETWEEN from_id AND to_id
$$;
COMMENT ON FUNCTION tasks_between(text, text) IS
    'The rows of the view tasks with task_id from from_id to to_id, both included. It opens only the partitions of this range. It and the '
    'view say the same in two ways: change both together.';
CREATE OR REPLACE FUNCTION queue_facts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO facts (company_id, pool_id, message_type, sender_no, at, pending_new, pending_retry, processing, submitted, requeued)
        SELECT company_id, pool_id, message_type, processing_app_id, max(updated_at),
            count(*) FILTER (WHERE lease_until IS NULL AND retry_count = 0), count(*) FILTER (WHERE lease_until IS NULL AND retry_count > 0),
            count(lease_until), count(*) FILTER (WHERE NOT was_claimed), count(*) FILTER (WHERE was_claimed)
        FROM added
        GROUP BY company_id, pool_id, message_type, processing_app_id;
    ELSIF TG_OP = 'UPDATE' THEN
        INSERT INTO facts (company_id, pool_id, message_type, sender_no, at, pending_new, pending_retry, processing, leases, waits)
        SELECT c.company_id, c.pool_id, c.message_type, c.processing_app_id, coalesce(c.at, clock_timestamp()), c.pending_new,
            c.pending_retry, c.processing, greatest(0, c.processing), CASE WHEN c.processing > 0 THEN c.waits END
        FROM (
            SELECT company_id, pool_id, message_type, processing_app_id, max(updated_at) FILTER (WHERE n = 1) AS at,
                coalesce(sum(n) FILTER (WHERE lease_until IS NULL AND retry_count = 0), 0) AS pending_new,
                coalesce(sum(n) FILTER (WHERE lease_until IS NULL AND retry_count > 0), 0) AS pending_retry,
                coalesce(sum(n) FILTER (WHERE lease_until IS NOT NULL), 0) AS processing,
                string_agg(wait_bucket(updated_at - entered_at), '')
                    FILTER (WHERE n = 1 AND lease_until IS NOT NULL AND retry_count = 0 AND NOT was_claimed) AS waits
            FROM (
                SELECT company_id, pool_id, message_type, processing_app_id, lease_until, retry_count, updated_at, entered_at, was_claimed,
                    1 AS n
                FROM added
                UNION ALL
                SELECT company_id, pool_id, message_type, processing_app_id, lease_until, retry_count, updated_at, entered_at, was_claimed,
                    -1
                FROM removed
            ) x
            GROUP BY company_id, pool_id, message_type, processing_app_id
        ) c
        WHERE (c.pending_new, c.pending_retry, c.processing) <> (0, 0, 0);
    ELSE
        INSERT INTO facts (company_id, pool_id, message_type, sender_no, at, pending_new, pending_retry, processing)
        SELECT company_id, pool_id, message_type, processing_app_id, clock_timestamp(),
            -count(*) FILTER (WHERE lease_until IS NULL AND retry_count = 0), -count(*) FILTER (WHERE lease_until IS NULL AND retry_count > 0),
            -count(lease_until)
        FROM removed
        GROUP BY company_id, pool_id, message_type, processing_app_id;
    END IF;
    RETURN NULL;
END
$$;
CREATE OR REPLACE FUNCTION report_logs_facts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO facts (
        company_id, pool_id, message_type, sender_no, at, success, failed, cancelled, delivered, undelivered, submitted, reported_success,
        reported_failed, response_ms, segments, durations
    )
    SELECT company_id, pool_id, message_type, app_id, max(created_at),
        count(*) FILTER (WHERE outcome = 2), count(*) FILTER (WHERE outcome = 3), count(*) FILTER (WHERE outcome = 4), -- SUCCESS, FAILED, CANCELLED
        count(*) FILTER (WHERE event = 'receipt' AND effect = 'delivered'), count(*) FILTER (WHERE event = 'receipt' AND effect = 'undelivered'),
        count(*) FILTER (WHERE event = 'unreachable'), count(*) FILTER (WHERE status = 2), count(*) FILTER (WHERE status = 3),
        coalesce(sum(greatest(0, extract(epoch FROM created_at - coalesce(leased_at, due_at)) * 1000)) FILTER (WHERE status IS NOT NULL), 0),
        coalesce(sum(coalesce(lease_segments, segments)) FILTER (WHERE status = 2), 0),
        string_agg(wait_bucket(created_at - entered_at), '') FILTER (WHERE outcome IN (2, 3))
    FROM added
    WHERE outcome IS NOT NULL OR (status IS NOT NULL AND effect = 'retry') OR event = 'receipt'
    GROUP BY company_id, pool_id, message_type, app_id, outcome;
    RETURN NULL;
END
$$;
CREATE OR REPLACE FUNCTION report_logs_outcome_facts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO facts (company_id, at, success, failed)
    SELECT c.company_id, clock_timestamp(), c.success, c.failed
    FROM (
        SELECT x.company_id, coalesce(sum(x.n) FILTER (WHERE x.outcome = 2), 0) AS success, -- SUCCESS
            coalesce(sum(x.n) FILTER (WHERE x.outcome = 3), 0) AS failed -- FAILED
        FROM (
            SELECT company_id, outcome, 1 AS n FROM added
            UNION ALL
            SELECT company_id, outcome, -1 FROM removed
        ) x
        GROUP BY x.company_id
    ) c
    WHERE (c.success, c.failed) <> (0, 0);
    RETURN NULL;
END
$$;
COMMENT ON COLUMN queue.due_at IS 'the task can be claimed from then on';
COMMENT ON COLUMN queue.entered_at IS
    'when the task first could be claimed: the due_at of its submission; of a requeued task when it was requeued; null: it was submitted before '
    'this column existed';
UPDATE queue SET due_at = now() WHERE due_at = held_due_at();
DROP FUNCTION held_due_at();
