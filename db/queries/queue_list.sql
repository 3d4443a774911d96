-- Reading tasks. owner limits a statement to the tasks that one user submitted, company_id to the tasks of one company; null means all.

-- name: TaskGet :one
SELECT * FROM tasks
WHERE task_id = @task_id AND (sqlc.narg(owner)::text IS NULL OR submitted_by = sqlc.narg(owner)::text)
    AND (sqlc.narg(company_id)::bigint IS NULL OR company_id = sqlc.narg(company_id)::bigint);

-- TaskNamed returns the task with a dedup_key of its submitter.
-- name: TaskNamed :one
SELECT t.* FROM tasks t
WHERE t.task_id = (
    SELECT k.task_id FROM dedup_keys k
    WHERE k.company_id = @company_id AND k.submitted_by = @submitted_by::text AND k.dedup_key = @dedup_key::text
);

-- TaskList returns tasks before before_id, newest first: task ids ascend with time. It reads at most scan_limit tasks.
-- name: TaskList :many
SELECT t.*
FROM (
    SELECT task_id FROM messages WHERE task_id < @before_id::text AND task_id >= @from_id::text ORDER BY task_id DESC LIMIT @scan_limit::integer
) m
CROSS JOIN LATERAL (SELECT * FROM tasks WHERE tasks.task_id = m.task_id OFFSET 0) t
WHERE (sqlc.narg(owner)::text IS NULL OR t.submitted_by = sqlc.narg(owner)::text)
    AND (sqlc.narg(company_id)::bigint IS NULL OR t.company_id = sqlc.narg(company_id)::bigint)
    AND (sqlc.narg(status)::smallint IS NULL OR t.status = sqlc.narg(status)::smallint)
    AND (sqlc.narg(source)::text IS NULL OR t.source = sqlc.narg(source)::text)
    AND (sqlc.narg(created_from)::timestamptz IS NULL OR t.created_at >= sqlc.narg(created_from)::timestamptz)
    AND (sqlc.narg(created_to)::timestamptz IS NULL OR t.created_at < sqlc.narg(created_to)::timestamptz)
ORDER BY t.task_id DESC
LIMIT @page_limit::integer;

-- TaskListEnd returns the last task that TaskList read if it stopped at scan_limit; otherwise no row.
-- name: TaskListEnd :one
SELECT task_id FROM messages WHERE task_id < @before_id::text AND task_id >= @from_id::text
ORDER BY task_id DESC
OFFSET -1 + @scan_limit::integer LIMIT 1;

-- TaskListByRecipient is TaskList for one recipient.
-- name: TaskListByRecipient :many
SELECT t.*
FROM (
    SELECT task_id FROM messages
    WHERE recipient = @recipient::text AND task_id < @before_id::text AND task_id >= @from_id::text
    ORDER BY task_id DESC
    LIMIT @scan_limit::integer
) r
CROSS JOIN LATERAL (SELECT * FROM tasks WHERE tasks.task_id = r.task_id OFFSET 0) t
WHERE (sqlc.narg(owner)::text IS NULL OR t.submitted_by = sqlc.narg(owner)::text)
    AND (sqlc.narg(company_id)::bigint IS NULL OR t.company_id = sqlc.narg(company_id)::bigint)
    AND (sqlc.narg(status)::smallint IS NULL OR t.status = sqlc.narg(status)::smallint)
    AND (sqlc.narg(source)::text IS NULL OR t.source = sqlc.narg(source)::text)
    AND (sqlc.narg(created_from)::timestamptz IS NULL OR t.created_at >= sqlc.narg(created_from)::timestamptz)
    AND (sqlc.narg(created_to)::timestamptz IS NULL OR t.created_at < sqlc.narg(created_to)::timestamptz)
ORDER BY r.task_id DESC
LIMIT @page_limit::integer;

-- TaskListByRecipientEnd is TaskListEnd for TaskListByRecipient.
-- name: TaskListByRecipientEnd :one
SELECT task_id FROM messages
WHERE recipient = @recipient::text AND task_id < @before_id::text AND task_id >= @from_id::text
ORDER BY task_id DESC
OFFSET -1 + @scan_limit::integer LIMIT 1;

-- TaskTimeline returns what happened to one task, oldest first. Three kinds of rows are unbounded, so only the latest 500 of each are
-- returned: repeated submissions; claims, and the rows that ended leases; reports that changed nothing.
-- name: TaskTimeline :many
SELECT e.event::text AS event, e.created_at::timestamptz AS created_at,
    e.app_id, e.attempt, e.lease_id, e.lease_until, e.status, e.effect, e.error_message, e.request_id, e.source_ip
FROM (
    SELECT
        0 AS step, m.submission_id AS id, 'received' AS event, m.created_at,
        NULL::text AS app_id, NULL::smallint AS attempt, NULL::bigint AS lease_id, NULL::timestamptz AS lease_until,
        NULL::smallint AS status, NULL::text AS effect, NULL::text AS error_message, m.request_id, m.source_ip
    FROM messages m
    WHERE m.task_id = @task_id
    UNION ALL
    (SELECT 1, r.id, 'repeated', r.created_at, NULL, NULL, NULL, NULL, NULL, NULL, NULL, r.request_id, r.source_ip
    FROM fruitless_submissions r
    WHERE r.task_id = @task_id
    ORDER BY r.id DESC
    LIMIT 500)
    UNION ALL
    (SELECT 2, p.id, 'claimed', p.leased_at, p.app_id, p.retry_count + 1, p.lease_id, p.lease_until, NULL, NULL, NULL, NULL, NULL
    FROM report_logs p
    WHERE p.task_id = @task_id AND p.leased_at IS NOT NULL
    ORDER BY p.id DESC
    LIMIT 500)
    UNION ALL
    SELECT 2, q.lease_id, 'claimed', q.updated_at, q.processing_app_id, q.retry_count + 1, q.lease_id, q.lease_until, NULL, NULL, NULL,
        NULL, NULL
    FROM queue q
    WHERE q.task_id = @task_id AND q.lease_until IS NOT NULL
    UNION ALL
    (SELECT 3, p.id, p.event, p.created_at, p.app_id, NULL, p.lease_id, NULL, p.status, p.effect,
        CASE p.event WHEN 'unreachable' THEN p.result ELSE p.error_message END, NULL, NULL
    FROM report_logs p
    WHERE p.task_id = @task_id AND p.effect NOT IN ('ignored', 'refused')
    ORDER BY p.id DESC
    LIMIT 500)
    UNION ALL
    (SELECT 3, p.id, p.event, p.created_at, p.app_id, NULL, p.lease_id, NULL, p.status, p.effect, p.error_message, NULL, NULL
    FROM report_logs p
    WHERE p.task_id = @task_id AND p.effect IN ('ignored', 'refused')
    ORDER BY p.id DESC
    LIMIT 500)
) e
ORDER BY e.created_at, e.step, e.id; -- step: received, repeated, claimed, ended

-- TaskDue returns whether a task is due, the pool that serves it now, and the sender with which it failed, as long as a claim prefers
-- other senders for it; otherwise an empty text.
-- name: TaskDue :one
SELECT (t.due_at <= now())::boolean AS is_due,
    pool_serving(t.pool_id, t.company_id, t.message_type, t.country_no)::bigint AS pool_id,
    coalesce(
        CASE WHEN coalesce(t.due_at > now() - sqlc.narg(retry_max_wait)::interval, true) THEN t.failed_app_id END, ''
    )::text AS failed_app_id
FROM tasks t
WHERE t.task_id = @task_id;
