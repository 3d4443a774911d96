-- migrate:up
-- queue.expires_at of a task that was taken back is the time at which it was taken back. The view shows the expiry that the submitter set.
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
    m.is_test, m.expect_send_time, coalesce(CASE WHEN q.taken_back_by IS NULL THEN q.expires_at END, m.expires_at) AS expires_at, q.failed_app_id, q.lane, q.rank,
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
        m.is_test, m.expect_send_time, coalesce(CASE WHEN q.taken_back_by IS NULL THEN q.expires_at END, m.expires_at) AS expires_at, q.failed_app_id, q.lane, q.rank,
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
COMMENT ON COLUMN queue.expires_at IS
    'no claim returns the task after this time; null: no limit. If taken_back_by is set, the time at which the task was taken back';

-- migrate:down
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
COMMENT ON COLUMN queue.expires_at IS NULL;
