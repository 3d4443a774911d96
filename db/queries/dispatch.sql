-- The way of a task through its senders: claim, report, recover. Each is one statement, and each transition names
-- the state it leaves and the holder it expects, so two callers at once settle it here and nowhere else.
--
-- Rows are picked in MATERIALIZED CTEs and updated by = ANY (ARRAY(...)): a LIMIT beside FOR UPDATE inside a join
-- may be run again by the planner and then gives more rows than it says.

-- TaskClaim leases up to claim_limit tasks to app_id (S0.10): new ones by created_at; if there is room, due retries by
-- retry_count and created_at. The lease and its log row are one act: the log row's id is the lease.
--
-- A retry that has been due for retry_max_wait goes out as if it were new, by created_at: new tasks without end must not
-- starve it. Null is never.
--
-- Due retries are walked count by count in the order of tasks_retry_idx, in which those that are not due come last.
-- Up to 500 of them are put into the documented order; a longer queue of due retries is served in windows of that size.
-- name: TaskClaim :many
WITH fresh AS MATERIALIZED (
    SELECT t.task_id, t.created_at
    FROM tasks t
    WHERE t.status = 0 AND t.retry_count = 0
    ORDER BY t.created_at, t.task_id
    LIMIT @claim_limit::integer
    FOR UPDATE SKIP LOCKED
),
aged AS MATERIALIZED (
    SELECT r.task_id, r.created_at
    FROM generate_series(1, 20) AS attempts (retry_count)
    CROSS JOIN LATERAL (
        SELECT t.task_id, t.created_at
        FROM tasks t
        WHERE t.status = 0 AND t.retry_count > 0
            AND t.retry_count = attempts.retry_count AND t.due_at <= now() - sqlc.narg(retry_max_wait)::interval
        ORDER BY t.due_at
        LIMIT @claim_limit::integer
        FOR UPDATE SKIP LOCKED
    ) r
),
due AS MATERIALIZED (
    SELECT r.task_id, r.retry_count, r.created_at
    FROM generate_series(1, 20) AS attempts (retry_count)
    CROSS JOIN LATERAL (
        SELECT t.task_id, t.retry_count, t.created_at
        FROM tasks t
        WHERE t.status = 0 AND t.retry_count > 0
            AND t.retry_count = attempts.retry_count AND t.due_at <= now()
            AND t.due_at > coalesce(now() - sqlc.narg(retry_max_wait)::interval, '-infinity')
        ORDER BY t.due_at
        LIMIT 500
        FOR UPDATE SKIP LOCKED
    ) r
    WHERE (SELECT count(*) FROM fresh) + (SELECT count(*) FROM aged) < @claim_limit::integer
    LIMIT 500
),
picked AS MATERIALIZED (
    SELECT c.task_id, c.turn, c.created_at
    FROM (
        SELECT fresh.task_id, 0 AS turn, fresh.created_at FROM fresh
        UNION ALL
        SELECT aged.task_id, 0, aged.created_at FROM aged
        UNION ALL
        SELECT due.task_id, due.retry_count, due.created_at FROM due
    ) c
    ORDER BY c.turn, c.created_at, c.task_id
    LIMIT @claim_limit::integer
),
leased AS (
    UPDATE tasks t
    SET status = 1,
        processing_app_id = @app_id::text,
        lease_id = nextval('send_logs_id_seq'),
        lease_until = now() + @lease::interval,
        updated_at = now()
    WHERE t.task_id = ANY (ARRAY(SELECT picked.task_id FROM picked)) AND t.status = 0
    RETURNING t.task_id, t.phone_number, t.content, t.retry_count, t.created_at, t.lease_id, t.lease_until
),
logged AS (
    INSERT INTO send_logs (id, task_id, app_id, phone_number, content, attempt, lease_until, request_data, response_data)
    SELECT
        l.lease_id, l.task_id, @app_id::text, l.phone_number, l.content, l.retry_count + 1, l.lease_until,
        jsonb_build_object('app_id', @app_id::text, 'limit', @claim_limit::integer),
        jsonb_build_object('lease_id', l.lease_id, 'attempt', l.retry_count + 1, 'lease_until', l.lease_until)
    FROM leased l
)
SELECT
    l.task_id, l.phone_number, l.content,
    l.lease_id::bigint AS lease_id,
    (l.retry_count + 1)::smallint AS attempt,
    l.lease_until::timestamptz AS lease_until
FROM leased l
JOIN picked p ON p.task_id = l.task_id
ORDER BY p.turn, p.created_at, p.task_id;

-- TaskReport ends a lease (S0.4, S0.11). It changes the task when app_id holds it now, or, for a SUCCESS, when app_id
-- was the last to hold it, its lease ran out and nobody was given it since. Anything else only writes the log:
-- ignored where app_id once held the task (a repeat, or too late), refused where it never did.
-- No row: there is no such task.
-- name: TaskReport :one
WITH settled AS (
    UPDATE tasks t
    SET status = CASE WHEN @wants_retry::boolean AND t.retry_count < @max_retry_count::smallint
            THEN 0 ELSE @status::smallint END,
        retry_count = CASE WHEN @wants_retry::boolean AND t.retry_count < @max_retry_count::smallint
            THEN t.retry_count + 1 ELSE t.retry_count END,
        due_at = CASE WHEN @wants_retry::boolean AND t.retry_count < @max_retry_count::smallint
            THEN now() + @retry_delay::interval ELSE t.due_at END,
        lease_id = CASE WHEN @wants_retry::boolean AND t.retry_count < @max_retry_count::smallint
            THEN NULL ELSE t.lease_id END,
        reported_at = CASE WHEN @wants_retry::boolean AND t.retry_count < @max_retry_count::smallint
            THEN t.reported_at ELSE now() END,
        sent_at = CASE WHEN @status::smallint = 2 THEN now() ELSE t.sent_at END,
        processing_app_id = CASE WHEN @wants_retry::boolean THEN NULL ELSE @app_id::text END,
        lease_until = NULL,
        result = left(
            CASE WHEN @wants_retry::boolean AND t.retry_count >= @max_retry_count::smallint
                THEN '超过最大重试次数: ' ELSE '' END
            || coalesce(
                nullif(sqlc.narg(error_message)::text, ''),
                CASE WHEN @status::smallint = 2 THEN '发送成功' ELSE '发送失败' END
            ), 500),
        updated_at = now()
    WHERE t.task_id = @task_id
        AND (sqlc.narg(lease_id)::bigint IS NULL OR t.lease_id = sqlc.narg(lease_id)::bigint)
        AND (
            (t.status = 1 AND t.processing_app_id = @app_id::text)
            OR (
                @status::smallint = 2 AND t.status = 0
                AND EXISTS (SELECT FROM send_logs s WHERE s.id = t.lease_id AND s.app_id = @app_id::text)
            )
        )
    RETURNING t.task_id, t.lease_id,
        CASE t.status
            WHEN 0 THEN 'retry'
            WHEN 2 THEN 'success'
            ELSE CASE WHEN @wants_retry::boolean THEN 'exhausted' ELSE 'failed' END
        END AS effect
),
logged AS (
    INSERT INTO report_logs (task_id, app_id, lease_id, event, status, effect, error_message, request_data)
    SELECT
        t.task_id, @app_id::text,
        coalesce(sqlc.narg(lease_id)::bigint, settled.lease_id),
        'reported', @status::smallint,
        coalesce(
            settled.effect,
            CASE WHEN EXISTS (
                SELECT FROM send_logs s
                WHERE s.task_id = t.task_id AND s.app_id = @app_id::text
                    AND (sqlc.narg(lease_id)::bigint IS NULL OR s.id = sqlc.narg(lease_id)::bigint)
            ) THEN 'ignored' ELSE 'refused' END
        ),
        left(sqlc.narg(error_message)::text, 500), @request_data
    FROM tasks t
    LEFT JOIN settled ON settled.task_id = t.task_id
    WHERE t.task_id = @task_id
    RETURNING effect
)
SELECT logged.effect FROM logged;

-- TaskRecover takes back up to batch_size leases that ran out (S0.12). A report that commits first has changed the row,
-- and the row is passed over; a report that comes second finds no lease. SKIP LOCKED: a sweep never waits for a report.
-- lease_id stays, so that a late SUCCESS of this very lease can still settle the task.
-- name: TaskRecover :one
WITH expired AS MATERIALIZED (
    SELECT t.task_id, t.processing_app_id
    FROM tasks t
    WHERE t.status = 1 AND t.lease_until <= now()
    ORDER BY t.lease_until
    LIMIT @batch_size::integer
    FOR UPDATE SKIP LOCKED
),
recovered AS (
    UPDATE tasks t
    SET status = CASE WHEN t.retry_count < @max_retry_count::smallint THEN 0 ELSE 3 END,
        retry_count = CASE WHEN t.retry_count < @max_retry_count::smallint THEN t.retry_count + 1 ELSE t.retry_count END,
        due_at = CASE WHEN t.retry_count < @max_retry_count::smallint THEN now() ELSE t.due_at END,
        reported_at = CASE WHEN t.retry_count < @max_retry_count::smallint THEN t.reported_at ELSE now() END,
        result = CASE WHEN t.retry_count < @max_retry_count::smallint
            THEN '处理超时，自动重试' ELSE '处理超时，超过最大重试次数' END,
        processing_app_id = NULL,
        lease_until = NULL,
        updated_at = now()
    WHERE t.task_id = ANY (ARRAY(SELECT expired.task_id FROM expired)) AND t.status = 1 AND t.lease_until <= now()
    RETURNING t.task_id, t.lease_id, t.status
),
logged AS (
    INSERT INTO report_logs (task_id, app_id, lease_id, event, effect)
    SELECT
        r.task_id, e.processing_app_id, r.lease_id, 'recovered',
        CASE WHEN r.status = 0 THEN 'retry' ELSE 'exhausted' END
    FROM recovered r
    JOIN expired e ON e.task_id = r.task_id
)
SELECT
    count(*) FILTER (WHERE r.status = 0) AS retried,
    count(*) FILTER (WHERE r.status = 3) AS exhausted
FROM recovered r;

-- TaskCancel ends a PENDING task. No row: it does not exist or is not PENDING.
-- name: TaskCancel :one
WITH cancelled AS (
    UPDATE tasks t
    SET status = 4, updated_at = now()
    WHERE t.task_id = @task_id AND t.status = 0
        AND (sqlc.narg(owner)::text IS NULL OR t.submitted_by = sqlc.narg(owner)::text)
    RETURNING t.*
),
logged AS (
    INSERT INTO report_logs (task_id, event, effect, request_data)
    SELECT c.task_id, 'cancelled', 'cancelled', @request_data FROM cancelled c
)
SELECT c.* FROM cancelled c;
