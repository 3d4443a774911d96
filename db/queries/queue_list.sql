-- Reading tasks. owner limits a statement to the tasks that one user submitted, company_id to the tasks of one company; null means all.

-- name: TaskGet :one
SELECT * FROM tasks
WHERE task_id = @task_id AND (sqlc.narg(owner)::text IS NULL OR submitted_by = sqlc.narg(owner)::text)
    AND (sqlc.narg(company_id)::bigint IS NULL OR company_id = sqlc.narg(company_id)::bigint);

-- TaskNamed returns the task with a dedup_key of its submitter.
-- name: TaskNamed :one
SELECT * FROM tasks WHERE company_id = @company_id AND submitted_by = @submitted_by::text AND dedup_key = @dedup_key::text;

-- TaskList returns tasks before before_id, newest first: task ids ascend with time. It reads at most scan_limit tasks.
-- name: TaskList :many
SELECT t.*
FROM (SELECT * FROM tasks WHERE task_id < @before_id::text AND task_id >= @from_id::text ORDER BY task_id DESC LIMIT @scan_limit::integer) t
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
SELECT task_id FROM tasks WHERE task_id < @before_id::text AND task_id >= @from_id::text
ORDER BY task_id DESC
OFFSET -1 + @scan_limit::integer LIMIT 1;

-- TaskListByRecipient is TaskList for one recipient. It uses the index on receive_logs: tasks has none on recipient.
-- name: TaskListByRecipient :many
SELECT t.*
FROM (
    SELECT task_id FROM receive_logs
    WHERE recipient = @recipient::text AND task_id < @before_id::text AND task_id >= @from_id::text
    ORDER BY task_id DESC
    LIMIT @scan_limit::integer
) r
JOIN tasks t ON t.task_id = r.task_id
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
SELECT coalesce(task_id, '')::text FROM receive_logs
WHERE recipient = @recipient::text AND task_id < @before_id::text AND task_id >= @from_id::text
ORDER BY task_id DESC
OFFSET -1 + @scan_limit::integer LIMIT 1;

-- TaskTimeline returns the log rows of one task, oldest first. The submission that created the task is found by created_at: one
-- transaction wrote both rows with the same now(). A row with deduplicated in its answer is a submission that repeated the dedup_key.
-- Three kinds of rows are unbounded, so only the latest 500 of each are returned: repeated submissions; claims, and the rows that ended
-- leases; reports that changed nothing.
-- name: TaskTimeline :many
SELECT e.event::text AS event, e.created_at::timestamptz AS created_at,
    e.app_id, e.attempt, e.lease_id, e.lease_until, e.status, e.effect, e.error_message, e.request_id, e.source_ip
FROM (
    SELECT
        0 AS step, r.id, 'received' AS event, t.created_at,
        NULL::text AS app_id, NULL::smallint AS attempt, NULL::bigint AS lease_id, NULL::timestamptz AS lease_until,
        NULL::smallint AS status, NULL::text AS effect, NULL::text AS error_message, r.request_id, r.source_ip
    FROM tasks t
    LEFT JOIN receive_logs r ON r.created_at = t.created_at AND r.task_id = t.task_id
        AND r.response_data #> '{data,deduplicated}' IS DISTINCT FROM 'true'::jsonb
    WHERE t.task_id = @task_id
    UNION ALL
    (SELECT 1, r.id, 'repeated', r.created_at, NULL, NULL, NULL, NULL, NULL, NULL, NULL, r.request_id, r.source_ip
    FROM receive_logs r
    WHERE r.task_id = @task_id AND r.response_data #> '{data,deduplicated}' = 'true'::jsonb
    ORDER BY r.id DESC
    LIMIT 500)
    UNION ALL
    (SELECT 2, s.id, 'claimed', s.created_at, s.app_id, s.attempt, s.id, s.lease_until, NULL, NULL, NULL, NULL, NULL
    FROM send_logs s
    WHERE s.task_id = @task_id
    ORDER BY s.id DESC
    LIMIT 500)
    UNION ALL
    (SELECT 3, p.id, p.event, p.created_at, p.app_id, NULL, p.lease_id, NULL, p.status, p.effect, p.error_message, NULL, NULL
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
