-- TaskSubmit stores tasks, each with the log row of the submission that made it, and gives the ids of those it made: there
-- is a task with the dedup_key of the others already. All or none. An empty source or dedup_key is none.
--
-- In the order of their dedup_keys: two statements that wait for each other's names would wait for ever.
-- name: TaskSubmit :many
WITH input AS MATERIALIZED (
    SELECT
        unnest(@task_ids::text[]) AS task_id,
        unnest(@phone_numbers::text[]) AS phone_number,
        unnest(@recipients::text[]) AS recipient,
        unnest(@final_contents::text[]) AS final_content,
        nullif(unnest(@sources::text[]), '') AS source,
        unnest(@submitters::text[]) AS submitted_by,
        nullif(unnest(@dedup_keys::text[]), '') AS dedup_key,
        unnest(@request_ids::text[]) AS request_id,
        unnest(@contents::text[]) AS content,
        unnest(@use_templates::boolean[]) AS use_template,
        unnest(@source_ips::text[]) AS source_ip,
        unnest(@user_agents::text[]) AS user_agent,
        unnest(@request_data::jsonb[]) AS request_data
),
made AS (
    INSERT INTO tasks (task_id, phone_number, recipient, content, source, submitted_by, dedup_key)
    SELECT i.task_id, i.phone_number, i.recipient, i.final_content, i.source, i.submitted_by, i.dedup_key
    FROM input i
    ORDER BY i.dedup_key, i.task_id
    ON CONFLICT (dedup_key) WHERE dedup_key IS NOT NULL DO NOTHING
    RETURNING task_id, phone_number, content, status
),
logged AS (
    INSERT INTO receive_logs (
        request_id, task_id, phone_number, content, use_template, source_ip, user_agent, request_data, response_data, status_code
    )
    SELECT
        i.request_id, m.task_id, m.phone_number, i.content, i.use_template, i.source_ip, i.user_agent, i.request_data,
        jsonb_build_object(
            'code', 200, 'message', 'success',
            'data', jsonb_build_object('task_id', m.task_id, 'status', m.status, 'final_content', m.content)
        ),
        200
    FROM made m
    JOIN input i ON i.task_id = m.task_id
)
SELECT m.task_id FROM made m ORDER BY m.task_id;

-- SubmissionRepeated gives the task that a dedup_key names already and keeps the submission that repeated it.
-- name: SubmissionRepeated :one
WITH first AS (
    SELECT task_id, status, content FROM tasks WHERE dedup_key = @dedup_key::text
),
logged AS (
    INSERT INTO receive_logs (
        request_id, task_id, phone_number, content, use_template, source_ip, user_agent, request_data, response_data, status_code
    )
    SELECT
        @request_id::text, f.task_id, @phone_number::text, sqlc.narg(content), @use_template::boolean, @source_ip::text,
        @user_agent::text, @request_data,
        jsonb_build_object(
            'code', 200, 'message', 'success', 'data', jsonb_build_object(
                'task_id', f.task_id, 'status', f.status, 'final_content', f.content, 'deduplicated', true
            )
        ),
        200
    FROM first f
)
SELECT f.task_id, f.status, f.content FROM first f;

-- SubmissionRefused keeps what was refused and why.
-- name: SubmissionRefused :exec
INSERT INTO receive_logs (
    request_id, phone_number, content, use_template, source_ip, user_agent, request_data, response_data, status_code
)
VALUES (
    @request_id::text, sqlc.narg(phone_number), sqlc.narg(content), sqlc.narg(use_template), @source_ip::text, @user_agent::text,
    @request_data, @response_data, @status_code
);

-- owner, here and below, narrows to the tasks that one user submitted; null is every task.

-- name: TaskGet :one
SELECT * FROM tasks
WHERE task_id = @task_id AND (sqlc.narg(owner)::text IS NULL OR submitted_by = sqlc.narg(owner)::text);

-- TaskList pages backwards from before_id by key, which is also by time.
-- name: TaskList :many
SELECT * FROM tasks
WHERE task_id < @before_id
    AND (sqlc.narg(owner)::text IS NULL OR submitted_by = sqlc.narg(owner)::text)
    AND (sqlc.narg(status)::smallint IS NULL OR status = sqlc.narg(status)::smallint)
    AND (sqlc.narg(recipient)::text IS NULL OR recipient = sqlc.narg(recipient)::text)
    AND (sqlc.narg(source)::text IS NULL OR source = sqlc.narg(source)::text)
    AND (sqlc.narg(created_from)::timestamptz IS NULL OR created_at >= sqlc.narg(created_from)::timestamptz)
    AND (sqlc.narg(created_to)::timestamptz IS NULL OR created_at < sqlc.narg(created_to)::timestamptz)
ORDER BY task_id DESC
LIMIT @page_limit::integer;

-- TaskTimeline is every log row of one task, oldest first. The submission's row is found by its time, which is the
-- task's own: both were written by one transaction.
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
    WHERE t.task_id = @task_id
    UNION ALL
    SELECT 1, s.id, 'claimed', s.created_at, s.app_id, s.attempt, s.id, s.lease_until, NULL, NULL, NULL, NULL, NULL
    FROM send_logs s
    WHERE s.task_id = @task_id
    UNION ALL
    SELECT 2, p.id, p.event, p.created_at, p.app_id, NULL, p.lease_id, NULL, p.status, p.effect, p.error_message, NULL, NULL
    FROM report_logs p
    WHERE p.task_id = @task_id
) e
ORDER BY e.created_at, e.step, e.id;
