-- Statements on jobs. A job cancels or requeues all tasks that match a filter.

-- JobPlan counts the tasks that match a filter, up to max_tasks + 1. If the count equals expected, the statement also creates a job for these tasks. The count and
-- the job use one snapshot. job_id is 0 if no job was created. action 'cancel' selects waiting tasks. action 'requeue' selects tasks that ended with `status`.
-- The conditions on a task are those of TaskListOf. The task ids are in the range from from_id up to, but without, before_id: see queue.List.
-- name: JobPlan :one
WITH numbered AS MATERIALIZED (
    SELECT d.task_id
    FROM senders s
    CROSS JOIN LATERAL (
        -- OFFSET 0 forces one lookup by deliveries_provider_no_idx for each sender.
        SELECT o.task_id FROM deliveries o WHERE o.sender_no = s.sender_no AND o.provider_no = ANY (@provider_nos::text[]) OFFSET 0
    ) d
),
matching AS MATERIALIZED (
    SELECT m.task_id
    FROM (
        SELECT q.task_id, q.processing_app_id AS sender_no, q.result
        FROM queue q
        WHERE @action::text = 'cancel' AND q.lease_until IS NULL -- PENDING
            AND q.task_id >= @from_id::text AND q.task_id < @before_id::text
            AND (sqlc.narg(batch_id)::bigint IS NULL OR q.batch_id = sqlc.narg(batch_id)::bigint)
        UNION ALL
        SELECT e.task_id, CASE WHEN e.event = 'reported' AND e.effect <> 'exhausted' THEN e.app_id END, e.result
        FROM report_logs e
        WHERE @action::text = 'requeue' AND e.outcome = @status::smallint AND e.outcome IN (3, 4) -- FAILED, CANCELLED
            AND e.task_id >= @from_id::text AND e.task_id < @before_id::text
            AND (sqlc.narg(company_id)::bigint IS NULL OR e.company_id = sqlc.narg(company_id)::bigint)
    ) x
    JOIN messages m ON m.task_id = x.task_id
    WHERE m.task_id >= @from_id::text AND m.task_id < @before_id::text
        AND (sqlc.narg(company_id)::bigint IS NULL OR m.company_id = sqlc.narg(company_id)::bigint)
        AND (sqlc.narg(recipient)::text IS NULL OR m.recipient = sqlc.narg(recipient)::text)
        AND (sqlc.narg(source)::text IS NULL OR m.source = sqlc.narg(source)::text)
        AND (sqlc.narg(message_type)::smallint IS NULL OR m.message_type = sqlc.narg(message_type)::smallint)
        AND (sqlc.narg(created_from)::timestamptz IS NULL OR m.created_at >= sqlc.narg(created_from)::timestamptz)
        AND (sqlc.narg(created_to)::timestamptz IS NULL OR m.created_at < sqlc.narg(created_to)::timestamptz)
        AND (sqlc.narg(batch_id)::bigint IS NULL OR m.batch_id = sqlc.narg(batch_id)::bigint)
        AND (sqlc.narg(is_test)::boolean IS NULL OR m.is_test = sqlc.narg(is_test)::boolean)
        AND (sqlc.narg(country_no)::text IS NULL OR m.country_no = sqlc.narg(country_no)::text)
        AND (sqlc.narg(submitted_by)::text IS NULL OR m.submitted_by = sqlc.narg(submitted_by)::text)
        AND (sqlc.narg(template_no)::text IS NULL OR m.request_data -> 'template' ->> 'template_no' = sqlc.narg(template_no)::text)
        AND (@provider_nos::text[] IS NULL OR m.task_id IN (SELECT n.task_id FROM numbered n))
        AND (sqlc.narg(sender_no)::text IS NULL OR x.sender_no = sqlc.narg(sender_no)::text)
        AND (sqlc.narg(result)::text IS NULL OR starts_with(x.result, sqlc.narg(result)::text))
        AND (sqlc.narg(delivery)::smallint IS NULL OR sqlc.narg(delivery)::smallint = (
            SELECT CASE min(d.effect) WHEN 'delivered' THEN 1 ELSE 2 END FROM report_logs d
            WHERE d.task_id = m.task_id AND d.task_id >= @from_id::text AND d.task_id < @before_id::text
                AND d.event = 'receipt' AND d.effect IN ('delivered', 'undelivered')
            HAVING count(*) > 0
        ))
    LIMIT sqlc.arg(max_tasks)::integer + 1
),
counted AS MATERIALIZED (
    SELECT count(*) AS tasks FROM matching
),
made AS (
    INSERT INTO task_jobs (action, filter, remark, total, created_by)
    SELECT @action::text, @filter::jsonb, nullif(@remark::text, ''), c.tasks, @created_by::text
    FROM counted c
    WHERE c.tasks = sqlc.narg(expected)::bigint AND c.tasks BETWEEN 1 AND @max_tasks::integer
    RETURNING id
),
parts AS (
    INSERT INTO task_job_parts (job_id, part, task_ids)
    SELECT j.id, o.part, array_agg(o.task_id ORDER BY o.task_id)
    FROM made j
    CROSS JOIN (
        SELECT x.task_id COLLATE "C" AS task_id, (row_number() OVER (ORDER BY x.task_id COLLATE "C") - 1) / @batch_size::integer AS part FROM matching x
    ) o
    GROUP BY j.id, o.part
)
SELECT c.tasks, coalesce((SELECT j.id FROM made j), 0)::bigint AS job_id FROM counted c;

-- JobsLock lets only one transaction at a time create a job, so that the counts of JobsRunning are exact.
-- name: JobsLock :exec
SELECT lock_table('lock_task_jobs');

-- JobsRunning returns three numbers of running jobs: all jobs (jobs), jobs with the given action and filter (same), and jobs for batches of one company
-- (of_company). This company is the company of the batch that the filter names.
-- name: JobsRunning :one
SELECT count(*) AS jobs, count(*) FILTER (WHERE j.action = @action::text AND j.filter = @filter::jsonb) AS same,
    count(*) FILTER (
        WHERE b.company_id = (SELECT o.company_id FROM batches o WHERE o.id = (@filter::jsonb ->> 'batch_id')::bigint)
    ) AS of_company
FROM task_jobs j
LEFT JOIN batches b ON b.id = (j.filter ->> 'batch_id')::bigint
WHERE j.status = 'running';

-- JobGet returns a job.
-- name: JobGet :one
SELECT * FROM task_jobs j WHERE j.id = @id;

-- JobList returns jobs with ids smaller than before_id, newest first.
-- name: JobList :many
SELECT * FROM task_jobs j WHERE j.id < @before_id::bigint ORDER BY j.id DESC LIMIT @page_limit::integer;

-- JobIDsRunning returns the running jobs, the oldest first. company_id: the company of the batch that the filter names; 0: the filter names no batch.
-- name: JobIDsRunning :many
SELECT j.id, coalesce(b.company_id, 0)::bigint AS company_id
FROM task_jobs j
LEFT JOIN batches b ON b.id = (j.filter ->> 'batch_id')::bigint
WHERE j.status = 'running'
ORDER BY j.id;

-- JobHold locks a running job until the end of the transaction. Meanwhile no other server can process the job, and no user can stop it. The statement returns
-- no row if the job has ended, or if another server is processing it.
-- name: JobHold :one
SELECT * FROM task_jobs j WHERE j.id = @id AND j.status = 'running' FOR UPDATE SKIP LOCKED;

-- JobPart returns the first remaining part of a job after the part `after`. It returns no row if no such part remains.
-- name: JobPart :one
SELECT p.part, p.task_ids FROM task_job_parts p WHERE p.job_id = @job_id AND p.part > @after::integer ORDER BY p.part LIMIT 1;

-- JobAdvance deletes a processed part of a job, and adds its tasks to the counts of the job. skipped_by: the number of skipped tasks for each reason. If no
-- other part remains, the job becomes finished.
-- name: JobAdvance :exec
WITH deleted AS (
    DELETE FROM task_job_parts p WHERE p.job_id = sqlc.arg(id) AND p.part = sqlc.arg(part)::integer
)
UPDATE task_jobs j
SET done = j.done + sqlc.arg(done)::integer, skipped = j.skipped + sqlc.arg(skipped)::integer, failed = j.failed + sqlc.arg(failed)::integer,
    skipped_by = (
        SELECT coalesce(jsonb_object_agg(x.reason, x.tasks), '{}')
        FROM (
            SELECT s.key AS reason, sum(s.value::bigint) AS tasks
            FROM (
                SELECT o.key, o.value FROM jsonb_each_text(j.skipped_by) o
                UNION ALL
                SELECT a.key, a.value FROM jsonb_each_text(sqlc.arg(skipped_by)::jsonb) a
            ) s
            GROUP BY s.key
        ) x
    ),
    status = CASE WHEN l.is_last THEN 'finished' ELSE 'running' END,
    finished_at = CASE WHEN l.is_last THEN clock_timestamp() END
FROM (
    SELECT NOT EXISTS (SELECT FROM task_job_parts o WHERE o.job_id = sqlc.arg(id) AND o.part <> sqlc.arg(part)::integer) AS is_last
) l
WHERE j.id = sqlc.arg(id) AND j.status = 'running';

-- JobStop stops a running job. It waits until the current part is processed.
-- name: JobStop :execrows
UPDATE task_jobs j SET status = 'stopped', stopped_by = @stopped_by::text, finished_at = clock_timestamp()
WHERE j.id = @id AND j.status = 'running';

-- JobPartsDelete deletes the remaining parts of a job.
-- name: JobPartsDelete :exec
DELETE FROM task_job_parts p WHERE p.job_id = @job_id;

-- JobsDeleteExpired deletes jobs that ended longer ago than `keep`. It checks only the batch_size oldest jobs.
-- name: JobsDeleteExpired :execrows
DELETE FROM task_jobs j
USING (SELECT o.id FROM task_jobs o ORDER BY o.id LIMIT @batch_size::integer FOR UPDATE SKIP LOCKED) old
WHERE j.id = old.id AND j.finished_at < now() - @keep::interval;
