-- The way of a task through its senders: claim, report, recover, cancel. Each is one statement, and each transition names
-- the state it leaves and the holder it expects, so two callers at once settle it here and nowhere else.
--
-- Rows are found and locked first, in MATERIALIZED CTEs, and updated by key: a LIMIT beside FOR UPDATE inside a join may be
-- run again by the planner and then gives more rows than it says. What is decided under the lock is what is logged, and it is
-- carried out by key alone: a condition on the row would be asked of the version that the statement's snapshot shows, which
-- the lock may have passed by. Where two statements may want the same rows and wait for each other, both lock them in the
-- order of task_id.
--
-- What is due and what ran out is judged by now(), which errs to the late side. What is written, in the task and in its log,
-- is one clock_timestamp() that was read while the rows were locked: a connection may stall between BEGIN and the statement,
-- and the statement wait for a lock. So the log of a task stands in the order in which things happened.

-- TaskClaim leases up to claim_limit tasks to app_id (S0.10): new ones by created_at; if there is room, due retries by
-- retry_count and created_at. The lease and its log row are one act: the log row's id is the lease.
--
-- A retry that has been due for retry_max_wait goes out as if it were new, by created_at: new tasks without end must not
-- starve it. Null is never.
--
-- Due retries are walked count by count in the order of tasks_retry_idx, in which those that are not due come last.
-- Up to 500 of them, or claim_limit, are put into the documented order; a longer queue of due retries is served in windows of
-- that size.
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
        LIMIT greatest(500, @claim_limit::integer)
        FOR UPDATE SKIP LOCKED
    ) r
    WHERE (SELECT count(*) FROM fresh) + (SELECT count(*) FROM aged) < @claim_limit::integer
    LIMIT greatest(500, @claim_limit::integer)
),
picked AS MATERIALIZED (
    SELECT c.task_id
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
moment AS MATERIALIZED (
    SELECT clock_timestamp() AS at FROM (SELECT count(*) FROM picked) p
),
leased AS (
    UPDATE tasks t
    SET status = 1,
        processing_app_id = @app_id::text,
        lease_id = nextval('send_logs_id_seq'),
        lease_until = (SELECT moment.at FROM moment) + @lease::interval,
        updated_at = (SELECT moment.at FROM moment)
    WHERE t.task_id = ANY (ARRAY(SELECT picked.task_id FROM picked)) AND t.status = 0
    RETURNING t.task_id, t.phone_number, t.content, t.retry_count, t.created_at, t.lease_id, t.lease_until,
        CASE WHEN t.due_at <= now() - sqlc.narg(retry_max_wait)::interval THEN 0 ELSE t.retry_count END AS turn
),
logged AS (
    INSERT INTO send_logs (
        id, task_id, app_id, phone_number, content, attempt, lease_until, created_at, request_data, response_data
    )
    SELECT
        l.lease_id, l.task_id, @app_id::text, l.phone_number, l.content, l.retry_count + 1, l.lease_until, (SELECT moment.at FROM moment),
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
ORDER BY l.turn, l.created_at, l.task_id;

-- TaskReport ends leases (S0.4, S0.11), each of another task, in the order of task_ids. A report changes its task when its
-- app holds it now, or, for a SUCCESS, when its app was the last to hold it, its lease ran out and nobody was given it since.
-- Anything else only writes the log: ignored where the app once held the task (a repeat, or too late), refused where it
-- never did. The log names the lease that was ended, also where the report did not. A lease_id of 0 is none.
-- A task that is not there gives no row.
-- name: TaskReport :many
WITH input AS MATERIALIZED (
    SELECT
        unnest(@task_ids::text[]) AS task_id,
        unnest(@app_ids::text[]) AS app_id,
        nullif(unnest(@lease_ids::bigint[]), 0) AS lease_id,
        unnest(@statuses::smallint[]) AS status,
        unnest(@wants_retries::boolean[]) AS wants_retry,
        make_interval(secs => unnest(@retry_delay_seconds::float8[])) AS retry_delay,
        nullif(left(unnest(@error_messages::text[]), 500), '') AS error_message,
        unnest(@request_data::jsonb[]) AS request_data
),
held AS MATERIALIZED (
    SELECT i.*, t.retry_count, t.lease_id AS held_lease_id, clock_timestamp() AS at,
        (i.lease_id IS NULL OR i.lease_id = t.lease_id) AND (
            (t.status = 1 AND t.processing_app_id = i.app_id)
            OR (t.status = 0 AND i.status = 2 AND (SELECT s.app_id FROM send_logs s WHERE s.id = t.lease_id) = i.app_id)
        ) AS settles
    FROM input i
    CROSS JOIN LATERAL (SELECT * FROM tasks WHERE task_id = i.task_id FOR UPDATE) t
),
verdict AS MATERIALIZED (
    SELECT h.*,
        CASE
            WHEN h.settles THEN CASE
                WHEN h.status = 2 THEN 'success'
                WHEN NOT h.wants_retry THEN 'failed'
                WHEN h.retry_count < @max_retry_count::smallint THEN 'retry'
                ELSE 'exhausted'
            END
            WHEN (
                SELECT true FROM send_logs s
                WHERE s.task_id = h.task_id AND s.app_id = h.app_id AND (h.lease_id IS NULL OR s.id = h.lease_id)
                LIMIT 1
            ) THEN 'ignored'
            ELSE 'refused'
        END AS effect
    FROM held h
),
settled AS (
    UPDATE tasks t
    SET status = CASE v.effect WHEN 'success' THEN 2 WHEN 'retry' THEN 0 ELSE 3 END,
        retry_count = CASE v.effect WHEN 'retry' THEN t.retry_count + 1 ELSE t.retry_count END,
        due_at = CASE v.effect WHEN 'retry' THEN v.at + v.retry_delay ELSE t.due_at END,
        lease_id = CASE v.effect WHEN 'retry' THEN NULL ELSE t.lease_id END,
        reported_at = CASE v.effect WHEN 'retry' THEN t.reported_at ELSE v.at END,
        sent_at = CASE v.effect WHEN 'success' THEN v.at ELSE t.sent_at END,
        processing_app_id = CASE WHEN v.wants_retry THEN NULL ELSE v.app_id END,
        lease_until = NULL,
        result = left(
            CASE v.effect WHEN 'exhausted' THEN '超过最大重试次数: ' ELSE '' END
            || coalesce(v.error_message, CASE v.effect WHEN 'success' THEN '发送成功' ELSE '发送失败' END),
            500
        ),
        updated_at = v.at
    FROM verdict v
    WHERE t.task_id = v.task_id AND v.settles
),
logged AS (
    INSERT INTO report_logs (task_id, app_id, lease_id, event, created_at, status, effect, error_message, request_data)
    SELECT
        v.task_id, v.app_id, coalesce(v.lease_id, CASE WHEN v.settles THEN v.held_lease_id END),
        'reported', v.at, v.status, v.effect, v.error_message, v.request_data
    FROM verdict v
)
SELECT v.task_id::text AS task_id, v.effect::text AS effect FROM verdict v ORDER BY v.task_id;

-- TaskExpired looks for up to batch_size leases that ran out, the oldest first, and passes over those that failed.
-- name: TaskExpired :many
SELECT t.task_id
FROM tasks t
WHERE t.status = 1 AND t.lease_until <= now() AND t.task_id <> ALL (@failed::text[])
ORDER BY t.lease_until
LIMIT @batch_size::integer;

-- TaskRecover takes back those of task_ids whose leases have run out (S0.12). What TaskExpired saw may be old: a report
-- that committed since has changed the row, and the row is passed over; a report that comes second finds no lease.
-- SKIP LOCKED: a sweep never waits for a report. lease_id stays, so that a late SUCCESS of this very lease can still settle
-- the task.
-- name: TaskRecover :one
WITH expired AS MATERIALIZED (
    SELECT t.task_id, t.processing_app_id, t.lease_id, t.retry_count < @max_retry_count::smallint AS again
    FROM tasks t
    WHERE t.task_id = ANY (@task_ids::text[]) AND t.status = 1 AND t.lease_until <= now()
    FOR UPDATE SKIP LOCKED
),
moment AS MATERIALIZED (
    SELECT clock_timestamp() AS at FROM (SELECT count(*) FROM expired) e
),
recovered AS (
    UPDATE tasks t
    SET status = CASE WHEN e.again THEN 0 ELSE 3 END,
        retry_count = CASE WHEN e.again THEN t.retry_count + 1 ELSE t.retry_count END,
        due_at = CASE WHEN e.again THEN (SELECT moment.at FROM moment) ELSE t.due_at END,
        reported_at = CASE WHEN e.again THEN t.reported_at ELSE (SELECT moment.at FROM moment) END,
        result = CASE WHEN e.again THEN '处理超时，自动重试' ELSE '处理超时，超过最大重试次数' END,
        processing_app_id = NULL,
        lease_until = NULL,
        updated_at = (SELECT moment.at FROM moment)
    FROM expired e
    WHERE t.task_id = e.task_id
),
logged AS (
    INSERT INTO report_logs (task_id, app_id, lease_id, event, created_at, effect)
    SELECT
        e.task_id, e.processing_app_id, e.lease_id, 'recovered', (SELECT moment.at FROM moment),
        CASE WHEN e.again THEN 'retry' ELSE 'exhausted' END
    FROM expired e
)
SELECT
    count(*) FILTER (WHERE e.again) AS retried,
    count(*) FILTER (WHERE NOT e.again) AS exhausted
FROM expired e;

-- TaskCancel ends a PENDING task. No row: it does not exist or is not PENDING.
-- name: TaskCancel :one
WITH cancelled AS (
    UPDATE tasks t
    SET status = 4, updated_at = clock_timestamp()
    WHERE t.task_id = @task_id AND t.status = 0
        AND (sqlc.narg(owner)::text IS NULL OR t.submitted_by = sqlc.narg(owner)::text)
    RETURNING t.*
),
logged AS (
    INSERT INTO report_logs (task_id, event, created_at, effect, request_data)
    SELECT c.task_id, 'cancelled', c.updated_at, 'cancelled', @request_data FROM cancelled c
)
SELECT c.* FROM cancelled c;

-- TaskWaits tells whether there is anything to claim.
-- name: TaskWaits :one
SELECT (
    EXISTS (SELECT FROM (SELECT FROM tasks t WHERE t.status = 0 AND t.retry_count = 0 ORDER BY t.created_at LIMIT 1) n)
    OR EXISTS (
        SELECT
        FROM generate_series(1, 20) AS attempts (retry_count)
        CROSS JOIN LATERAL (
            SELECT FROM tasks t
            WHERE t.status = 0 AND t.retry_count > 0 AND t.retry_count = attempts.retry_count AND t.due_at <= now()
            ORDER BY t.due_at
            LIMIT 1
        ) r
    )
)::boolean AS waits;
