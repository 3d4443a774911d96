-- Changes that no sender makes: cancelled and withdrawn tasks, receipts of providers, settled pools. The rules of guards, locks and times
-- at the head of dispatch/queue_claim.sql hold here too.

-- TaskCancel ends a PENDING task. No row: the task does not exist, the caller may not see it, or it is not PENDING.
-- name: TaskCancel :one
WITH cancelled AS (
    UPDATE tasks t
    SET status = 4, updated_at = clock_timestamp() -- CANCELLED
    WHERE t.task_id = @task_id AND t.status = 0 -- PENDING
        AND (sqlc.narg(owner)::text IS NULL OR t.submitted_by = sqlc.narg(owner)::text)
        AND (sqlc.narg(company_id)::bigint IS NULL OR t.company_id = sqlc.narg(company_id)::bigint)
    RETURNING t.*
),
logged AS (
    INSERT INTO report_logs (task_id, event, created_at, effect, request_data)
    SELECT c.task_id, 'cancelled', c.updated_at, 'cancelled', @request_data FROM cancelled c
)
SELECT c.* FROM cancelled c;

-- TaskWithdraw cancels the PENDING tasks of notifications and returns how many there were. A task that a sender holds may still be sent,
-- but it expires now, so that it is not sent again.
-- name: TaskWithdraw :one
WITH unsettled AS MATERIALIZED (
    SELECT t.task_id, t.status
    FROM renderings r
    JOIN tasks t ON t.rendering_id = r.id
    WHERE r.notification_id = ANY (@notification_ids::bigint[]) AND t.status IN (0, 1) -- PENDING, PROCESSING
    ORDER BY t.task_id
    FOR UPDATE OF t
),
moment AS MATERIALIZED (
    SELECT clock_timestamp() AS at FROM (SELECT count(*) FROM unsettled) o -- depends on unsettled, so it is read after the rows are locked
),
ended AS (
    UPDATE tasks t
    SET status = CASE o.status WHEN 0 THEN 4 ELSE t.status END, -- PENDING to CANCELLED
        expires_at = CASE o.status WHEN 0 THEN t.expires_at ELSE (SELECT moment.at FROM moment) END,
        updated_at = (SELECT moment.at FROM moment)
    FROM unsettled o
    WHERE t.task_id = o.task_id
),
logged AS (
    INSERT INTO report_logs (task_id, event, created_at, effect, request_data)
    SELECT o.task_id, 'cancelled', (SELECT moment.at FROM moment), 'cancelled', @request_data FROM unsettled o WHERE o.status = 0
)
SELECT count(*) FROM unsettled u WHERE u.status = 0;

-- TaskReceipt stores with tasks whether their messages were delivered (state 1) or not (2). Repeats and another order give the same
-- result: a smaller state replaces a larger one, so delivered wins.
-- name: TaskReceipt :exec
WITH results AS MATERIALIZED (
    SELECT i.task_id, min(i.state) AS state, (array_agg(i.code ORDER BY i.state, i.nth))[1] AS code, min(i.sender_no) AS sender_no
    FROM (
        SELECT unnest(@task_ids::text[]) AS task_id, unnest(@states::smallint[]) AS state, unnest(@codes::text[]) AS code,
            unnest(@sender_nos::text[]) AS sender_no, generate_series(1, cardinality(@task_ids::text[])) AS nth
    ) i
    GROUP BY i.task_id
),
held AS MATERIALIZED (
    SELECT o.*
    FROM results o
    JOIN tasks t ON t.task_id = o.task_id
    WHERE t.delivery IS NULL OR t.delivery > o.state -- 1 delivered, 2 undelivered
    ORDER BY o.task_id
    FOR UPDATE OF t
),
moment AS MATERIALIZED (
    SELECT clock_timestamp() AS at FROM (SELECT count(*) FROM held) h -- depends on held, so it is read after the rows are locked
),
stored AS (
    UPDATE tasks t
    SET delivery = h.state, delivery_code = nullif(h.code, ''),
        delivered_at = CASE h.state WHEN 1 THEN (SELECT moment.at FROM moment) END
    FROM held h
    WHERE t.task_id = h.task_id
)
INSERT INTO report_logs (task_id, app_id, event, created_at, effect, error_message)
SELECT h.task_id, h.sender_no, 'receipt', (SELECT moment.at FROM moment), CASE h.state WHEN 1 THEN 'delivered' ELSE 'undelivered' END,
    CASE h.state WHEN 2 THEN nullif(h.code, '') END
FROM held h;

-- PoolSettle marks the pools that began to serve longer ago than since as settled: TaskMove has moved all their tasks, and no longer
-- searches for more. since must cover the duration of the move, and the time for which a server may still submit tasks by an older version
-- of the routes.
-- name: PoolSettle :exec
UPDATE pools SET unsettled_since = NULL WHERE unsettled_since < clock_timestamp() - sqlc.arg(since)::interval;
