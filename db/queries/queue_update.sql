-- Changes that do not settle a lease: late reports, cancelled and withdrawn tasks, receipts of providers, settled pools. The rules of guards, locks and times
-- at the head of dispatch/queue_claim.sql hold here too.

-- ReportsLate logs reports that TaskReport did not apply, and returns their effects: ignored if the app once held the task (a repeat, or
-- too late), refused if it never did. An unknown task gives no row. task_ids are distinct. The provider's number of the message is stored
-- even for a late report: a receipt may name it.
-- name: ReportsLate :many
WITH input AS MATERIALIZED (
    SELECT
        unnest(@task_ids::text[]) AS task_id, unnest(@sender_nos::text[]) AS app_id,
        unnest(@lease_ids::int8[]) AS lease_id, -- with NULLs, see sqlc.yaml
        unnest(@statuses::smallint[]) AS status, nullif(left(unnest(@error_messages::text[]), 500), '') AS error_message,
        unnest(@request_data::jsonb[]) AS request_data, nullif(left(unnest(@provider_nos::text[]), 200), '') AS provider_no
),
known AS MATERIALIZED (
    -- The partitions of an array's ids are found when the statement is planned; those of a join would all be opened.
    SELECT m.task_id, m.company_id, m.recipient FROM messages m WHERE m.task_id = ANY (@task_ids::text[])
),
leases AS MATERIALIZED (
    SELECT r.task_id, r.app_id, r.lease_id FROM report_logs r WHERE r.task_id = ANY (@task_ids::text[]) AND r.leased_at IS NOT NULL
    UNION ALL
    SELECT q.task_id, q.processing_app_id, q.lease_id FROM queue q WHERE q.task_id = ANY (@task_ids::text[]) AND q.lease_until IS NOT NULL
),
verdict AS MATERIALIZED (
    SELECT i.*, k.company_id, k.recipient,
        CASE WHEN EXISTS (
            SELECT FROM leases l
            WHERE l.task_id = i.task_id AND l.app_id = i.app_id AND (i.lease_id IS NULL OR l.lease_id = i.lease_id)
        ) THEN 'ignored' ELSE 'refused' END AS effect
    FROM input i
    JOIN known k ON k.task_id = i.task_id
),
logged AS (
    INSERT INTO report_logs (
        task_id, company_id, app_id, lease_id, event, status, effect, error_message, request_data, created_at
    )
    SELECT v.task_id, v.company_id, v.app_id, v.lease_id, 'reported', v.status, v.effect, v.error_message, v.request_data,
        clock_timestamp()
    FROM verdict v
),
accepted AS (
    INSERT INTO deliveries (task_id, lease_id, sender_no, recipient, provider_no)
    SELECT v.task_id, v.lease_id, v.app_id, v.recipient, v.provider_no
    FROM verdict v
    WHERE v.provider_no IS NOT NULL AND v.effect <> 'refused' AND v.lease_id IS NOT NULL
)
SELECT v.task_id::text AS task_id, v.effect::text AS effect FROM verdict v ORDER BY v.task_id;

-- TaskCancel ends a PENDING task. No row: the task does not exist, or it is not PENDING.
-- name: TaskCancel :execrows
WITH cancelled AS (
    DELETE FROM queue q WHERE q.task_id = @task_id::text AND q.lease_until IS NULL
    RETURNING q.task_id, q.company_id, q.retry_count, q.due_at, q.result, q.pool_id, q.message_type, q.segments, q.entered_at
)
INSERT INTO report_logs (
    task_id, company_id, event, effect, created_at, outcome, result, retry_count, due_at, request_data, pool_id, message_type, segments,
    entered_at
)
SELECT c.task_id, c.company_id, 'cancelled', 'cancelled', clock_timestamp(), 4, c.result, c.retry_count, c.due_at, @request_data, -- CANCELLED
    c.pool_id, c.message_type, c.segments, c.entered_at
FROM cancelled c;

-- TaskWithdraw cancels the PENDING tasks of notifications and returns how many there were. A task that a sender holds may still be sent,
-- but it expires now, so that it is not sent again.
-- name: TaskWithdraw :one
WITH unsettled AS MATERIALIZED (
    SELECT q.task_id, q.company_id, q.retry_count, q.due_at, q.result, q.pool_id, q.message_type, q.segments, q.entered_at,
        q.lease_until IS NULL AS is_pending
    FROM renderings r
    JOIN queue q ON q.rendering_id = r.id
    WHERE r.notification_id = ANY (@notification_ids::bigint[])
    ORDER BY q.task_id
    FOR UPDATE OF q
),
moment AS MATERIALIZED (
    SELECT clock_timestamp() AS at FROM (SELECT count(*) FROM unsettled) o -- depends on unsettled, so it is read after the rows are locked
),
expired AS (
    UPDATE queue q SET expires_at = (SELECT moment.at FROM moment)
    WHERE q.task_id = ANY (ARRAY(SELECT o.task_id FROM unsettled o WHERE NOT o.is_pending))
),
settled AS (
    DELETE FROM queue q WHERE q.task_id = ANY (ARRAY(SELECT o.task_id FROM unsettled o WHERE o.is_pending))
),
logged AS (
    INSERT INTO report_logs (
        task_id, company_id, event, effect, created_at, outcome, result, retry_count, due_at, request_data, pool_id, message_type, segments,
        entered_at
    )
    SELECT o.task_id, o.company_id, 'cancelled', 'cancelled', (SELECT moment.at FROM moment), 4, o.result, o.retry_count, o.due_at,
        @request_data, o.pool_id, o.message_type, o.segments, o.entered_at
    FROM unsettled o
    WHERE o.is_pending
)
SELECT count(*) FROM unsettled u WHERE u.is_pending;

-- TaskReceipt stores with tasks whether their messages were delivered (state 1) or not (2). Repeats and another order give the same
-- result: each state is stored once, none after delivered, and delivered wins.
-- name: TaskReceipt :exec
WITH results AS MATERIALIZED (
    SELECT i.task_id, min(i.state) AS state, (array_agg(i.code ORDER BY i.state, i.nth))[1] AS code, min(i.sender_no) AS sender_no
    FROM (
        SELECT unnest(@task_ids::text[]) AS task_id, unnest(@states::smallint[]) AS state, unnest(@codes::text[]) AS code,
            unnest(@sender_nos::text[]) AS sender_no, generate_series(1, cardinality(@task_ids::text[])) AS nth
    ) i
    GROUP BY i.task_id
),
known AS MATERIALIZED (
    -- The partitions of an array's ids are found when the statement is planned; those of a join would all be opened.
    SELECT m.task_id, m.company_id, m.pool_id, m.message_type, m.segments FROM messages m WHERE m.task_id = ANY (@task_ids::text[])
),
delivered AS MATERIALIZED (
    SELECT r.task_id FROM report_logs r WHERE r.task_id = ANY (@task_ids::text[]) AND r.event = 'receipt' AND r.effect = 'delivered'
)
INSERT INTO report_logs (
    task_id, company_id, app_id, event, created_at, effect, result, error_message, pool_id, message_type, segments
)
SELECT o.task_id, k.company_id, o.sender_no, 'receipt', clock_timestamp(), CASE o.state WHEN 1 THEN 'delivered' ELSE 'undelivered' END,
    nullif(o.code, ''), CASE o.state WHEN 2 THEN nullif(o.code, '') END, k.pool_id, k.message_type, k.segments
FROM results o
JOIN known k ON k.task_id = o.task_id
WHERE o.task_id NOT IN (SELECT d.task_id FROM delivered d)
ORDER BY o.task_id
ON CONFLICT (effect, task_id) WHERE event = 'receipt' DO NOTHING;

-- PoolSettle marks the pools that began to serve longer ago than since as settled: TaskMove has moved all their tasks, and no longer
-- searches for more. since must cover the duration of the move, and the time for which a server may still submit tasks by an older version
-- of the routes.
-- name: PoolSettle :exec
UPDATE pools SET unsettled_since = NULL WHERE unsettled_since < clock_timestamp() - sqlc.arg(since)::interval;
