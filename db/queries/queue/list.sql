-- Statements that read tasks. owner limits a statement to the tasks of one submitter; null: all submitters. company_id limits a statement to the tasks of one
-- company; null: all companies.

-- name: TaskGet :one
SELECT * FROM tasks
WHERE task_id = @task_id AND (sqlc.narg(owner)::text IS NULL OR submitted_by = sqlc.narg(owner)::text OR batch_id IS NOT NULL)
    AND (sqlc.narg(company_id)::bigint IS NULL OR company_id = sqlc.narg(company_id)::bigint);

-- TaskOrigins returns the company, the channel and the notification of tasks, in the order of the tasks. It also returns the provider's number of the last
-- attempt that has a number. The caller passes the keys that it has read from the tasks. rendering_ids contains 0 for a task without rendering. company_no and
-- channel are null if the company or the channel was deleted.
-- name: TaskOrigins :many
SELECT w.company_no, c.channel, r.notification_id, (
    SELECT d.provider_no FROM deliveries d WHERE d.task_id = t.task_id AND d.provider_no IS NOT NULL ORDER BY d.id DESC LIMIT 1
) AS provider_no
FROM (
    SELECT generate_series(1, cardinality(@company_ids::bigint[])) AS place, unnest(@task_ids::text[]) AS task_id,
        unnest(@company_ids::bigint[]) AS company_id, unnest(@pool_ids::bigint[]) AS pool_id, unnest(@rendering_ids::bigint[]) AS rendering_id
) t
LEFT JOIN companies w ON w.id = t.company_id
LEFT JOIN pools p ON p.id = t.pool_id
LEFT JOIN renderings r ON r.id = t.rendering_id
LEFT JOIN notifications n ON n.id = r.notification_id
LEFT JOIN channels c ON c.id = coalesce(p.channel_id, n.channel_id)
ORDER BY t.place;

-- TaskMarks returns the times from which the waiting time and the duration of a task are calculated. The rows are the ended leases, the end of the task, and
-- the row of the task in the queue (is_waiting), in the order of their times. seen_at is the current time.
-- name: TaskMarks :many
SELECT r.entered_at, r.leased_at, r.outcome, r.created_at AS at, false::boolean AS is_waiting, now()::timestamptz AS seen_at
FROM report_logs r
WHERE r.task_id = @task_id AND (r.leased_at IS NOT NULL OR r.outcome IS NOT NULL)
UNION ALL
SELECT q.entered_at, CASE WHEN q.lease_until IS NOT NULL THEN q.updated_at END, NULL, q.updated_at, true, now()
FROM queue q
WHERE q.task_id = @task_id
ORDER BY at;

-- TaskPartitions returns up to max_rows partitions that begin before before_id, newest first. It does not return partitions that begin in the future.
-- name: TaskPartitions :many
SELECT p.first_id, p.before_id, (p.history_at IS NOT NULL)::boolean AS is_history
FROM task_partitions p
WHERE p.dropped_at IS NULL AND p.first_id < @before_id::text AND p.first_day <= (now() AT TIME ZONE 'UTC')::date
ORDER BY p.first_id DESC
LIMIT @max_rows::integer;

-- TaskIDs returns the ids of all tasks. A list reads the ids of tasks in portions, by the index of its most selective filter. TaskListOf then applies all
-- filters to these ids. TaskIDs and each of the following statements return up to max_rows ids from from_id up to, but without, before_id. Newer tasks have
-- larger ids, and the newest task is first. The planner skips the partitions outside of this range.
-- name: TaskIDs :many
SELECT t.task_id FROM messages t
WHERE t.task_id < @before_id::text AND t.task_id >= @from_id::text
ORDER BY t.task_id DESC
LIMIT @max_rows::integer;

-- name: TaskIDsOfRecipient :many
SELECT t.task_id FROM messages t
WHERE t.recipient = @recipient::text AND t.task_id < @before_id::text AND t.task_id >= @from_id::text
ORDER BY t.task_id DESC
LIMIT @max_rows::integer;

-- name: TaskIDsOfBatch :many
SELECT t.task_id FROM messages t
WHERE t.batch_id = @batch_id::bigint AND t.task_id < @before_id::text AND t.task_id >= @from_id::text
ORDER BY t.task_id DESC
LIMIT @max_rows::integer;

-- name: TaskIDsOfSubmitter :many
SELECT t.task_id FROM messages t
WHERE t.company_id = @company_id AND t.submitted_by = @submitted_by::text AND t.task_id < @before_id::text AND t.task_id >= @from_id::text
ORDER BY t.task_id DESC
LIMIT @max_rows::integer;

-- TaskIDsOfSubmitterAnywhere returns the tasks of a submitter in all companies, because a submitter can have belonged to several companies. It probes
-- messages_submitted_by_idx once for each company in each partition.
-- name: TaskIDsOfSubmitterAnywhere :many
SELECT t.task_id
FROM companies c
CROSS JOIN LATERAL (
    SELECT m.task_id FROM messages m
    WHERE m.company_id = c.id AND m.submitted_by = @submitted_by::text AND m.task_id < @before_id::text AND m.task_id >= @from_id::text
    ORDER BY m.task_id DESC
    LIMIT @max_rows::integer
) t
ORDER BY t.task_id DESC
LIMIT @max_rows::integer;

-- TaskIDsOfProviderNo returns the tasks with a message that has one of these numbers at its provider. Messages of many tasks can have the same number. The statement
-- probes deliveries_provider_no_idx once for each sender.
-- name: TaskIDsOfProviderNo :many
SELECT DISTINCT d.task_id
FROM senders s
CROSS JOIN LATERAL (
    SELECT o.task_id FROM deliveries o
    WHERE o.sender_no = s.sender_no AND o.provider_no = ANY (@provider_nos::text[]) AND o.task_id < @before_id::text AND o.task_id >= @from_id::text
    OFFSET 0
) d
ORDER BY d.task_id DESC
LIMIT @max_rows::integer;

-- TaskIDsOfCompany returns the tasks of a company. It moves through the index from each submitter of the company to the next. It probes
-- messages_submitted_by_idx once for each submitter in each partition from start_id to end_id.
-- name: TaskIDsOfCompany :many
WITH RECURSIVE submitters AS (
    (
        SELECT t.submitted_by FROM messages t
        WHERE t.company_id = @company_id AND t.task_id < @end_id::text AND t.task_id >= @start_id::text
        ORDER BY t.submitted_by
        LIMIT 1
    )
    UNION ALL
    SELECT n.submitted_by
    FROM submitters s
    CROSS JOIN LATERAL (
        SELECT t.submitted_by FROM messages t
        WHERE t.company_id = @company_id AND t.submitted_by > s.submitted_by AND t.task_id < @end_id::text AND t.task_id >= @start_id::text
        ORDER BY t.submitted_by
        LIMIT 1
    ) n
)
SELECT t.task_id
FROM submitters s
CROSS JOIN LATERAL (
    SELECT m.task_id FROM messages m
    WHERE m.company_id = @company_id AND m.submitted_by = s.submitted_by AND m.task_id < @before_id::text AND m.task_id >= @from_id::text
    ORDER BY m.task_id DESC
    LIMIT @max_rows::integer
) t
ORDER BY t.task_id DESC
LIMIT @max_rows::integer;

-- TaskIDsPending returns PENDING tasks. It scans the queue by task_id, and skips leased tasks, which are few.
-- name: TaskIDsPending :many
SELECT q.task_id FROM queue q
WHERE q.lease_until IS NULL AND q.task_id < @before_id::text AND q.task_id >= @from_id::text
ORDER BY q.task_id DESC
LIMIT @max_rows::integer;

-- TaskIDsProcessing returns leased tasks. It sorts all leased tasks, which are few compared with waiting tasks.
-- name: TaskIDsProcessing :many
WITH leased AS MATERIALIZED (
    SELECT q.task_id FROM queue q WHERE q.lease_until IS NOT NULL AND q.lease_until > '-infinity' -- by queue_lease_idx
)
SELECT l.task_id::text AS task_id FROM leased l
WHERE l.task_id < @before_id::text AND l.task_id >= @from_id::text
ORDER BY l.task_id DESC
LIMIT @max_rows::integer;

-- TaskIDsSettled returns tasks that have ended. Lists of SUCCESS tasks use this statement, because almost all ended tasks are SUCCESS.
-- name: TaskIDsSettled :many
SELECT r.task_id FROM report_logs r
WHERE r.outcome IS NOT NULL AND r.task_id < @before_id::text AND r.task_id >= @from_id::text -- by report_logs_outcome_key
ORDER BY r.task_id DESC
LIMIT @max_rows::integer;

-- TaskIDsFailed returns tasks that are FAILED (outcome 3) or CANCELLED (4).
-- name: TaskIDsFailed :many
SELECT r.task_id FROM report_logs r
WHERE r.outcome = @outcome::smallint AND r.outcome IN (3, 4) AND r.task_id < @before_id::text AND r.task_id >= @from_id::text
ORDER BY r.task_id DESC
LIMIT @max_rows::integer;

-- name: TaskIDsOfCompanyFailed :many
SELECT r.task_id FROM report_logs r
WHERE r.company_id = @company_id AND r.outcome = @outcome::smallint AND r.outcome IN (3, 4)
    AND r.task_id < @before_id::text AND r.task_id >= @from_id::text
ORDER BY r.task_id DESC
LIMIT @max_rows::integer;

-- TaskIDsHeld returns the tasks whose leases a sender holds. It reads all leases. An index for this statement would add a quarter to the WAL of each claim.
-- name: TaskIDsHeld :many
SELECT q.task_id FROM queue q
WHERE q.processing_app_id = @sender_no::text AND q.lease_until IS NOT NULL AND q.lease_until > '-infinity' -- by queue_lease_idx
ORDER BY q.task_id;

-- TaskIDsOfSender returns the tasks that ended with a lease of a sender, and the tasks of `held`, which the sender holds. UNION removes duplicates, because a
-- task of `held` can have ended meanwhile.
-- name: TaskIDsOfSender :many
SELECT t.task_id::text AS task_id
FROM (
    (SELECT r.task_id FROM report_logs r
    WHERE r.app_id = @sender_no::text AND r.outcome IS NOT NULL AND r.task_id < @before_id::text AND r.task_id >= @from_id::text
    ORDER BY r.task_id DESC
    LIMIT @max_rows::integer)
    UNION
    SELECT h.task_id COLLATE "C" FROM unnest(@held::text[]) AS h (task_id)
    WHERE h.task_id COLLATE "C" < @before_id::text AND h.task_id COLLATE "C" >= @from_id::text
) t
ORDER BY t.task_id DESC
LIMIT @max_rows::integer;

-- TaskIDsOfReceipt returns tasks by their receipt: delivery 1 for delivered messages, delivery 2 for messages that were not delivered.
-- name: TaskIDsOfReceipt :many
SELECT r.task_id FROM report_logs r
WHERE r.effect = CASE @delivery::smallint WHEN 1 THEN 'delivered' ELSE 'undelivered' END AND r.event = 'receipt'
    AND r.task_id < @before_id::text AND r.task_id >= @from_id::text
ORDER BY r.task_id DESC
LIMIT @max_rows::integer;

-- TaskListOf returns the tasks of `ids` that match all filters, newest first. All ids are from from_id to to_id. OFFSET 0 forces one lookup for each id, newest
-- first, until page_limit tasks match. The joins of tasks_between are in an order that excludes a task as early as possible. template_no is compared with the
-- stored request, because only the request contains the template of a task.
-- name: TaskListOf :many
SELECT t.*
FROM (SELECT u.task_id COLLATE "C" AS task_id FROM unnest(@ids::text[]) AS u (task_id) ORDER BY 1 DESC) i
CROSS JOIN LATERAL (
    SELECT * FROM tasks_between(@from_id::text, @to_id::text) b
    WHERE b.task_id = i.task_id
        AND (sqlc.narg(owner)::text IS NULL OR b.submitted_by = sqlc.narg(owner)::text)
        AND (sqlc.narg(company_id)::bigint IS NULL OR b.company_id = sqlc.narg(company_id)::bigint)
        AND (sqlc.narg(recipient)::text IS NULL OR b.recipient = sqlc.narg(recipient)::text)
        AND (sqlc.narg(source)::text IS NULL OR b.source = sqlc.narg(source)::text)
        AND (sqlc.narg(message_type)::smallint IS NULL OR b.message_type = sqlc.narg(message_type)::smallint)
        AND (sqlc.narg(created_from)::timestamptz IS NULL OR b.created_at >= sqlc.narg(created_from)::timestamptz)
        AND (sqlc.narg(created_to)::timestamptz IS NULL OR b.created_at < sqlc.narg(created_to)::timestamptz)
        AND (sqlc.narg(status)::smallint IS NULL OR b.status = sqlc.narg(status)::smallint)
        AND (sqlc.narg(sender_no)::text IS NULL OR b.processing_app_id = sqlc.narg(sender_no)::text)
        AND (sqlc.narg(result)::text IS NULL OR starts_with(b.result, sqlc.narg(result)::text))
        AND (sqlc.narg(delivery)::smallint IS NULL OR b.delivery = sqlc.narg(delivery)::smallint)
        AND (sqlc.narg(batch_id)::bigint IS NULL OR b.batch_id = sqlc.narg(batch_id)::bigint)
        AND (sqlc.narg(is_test)::boolean IS NULL OR b.is_test = sqlc.narg(is_test)::boolean)
        AND (sqlc.narg(country_no)::text IS NULL OR b.country_no = sqlc.narg(country_no)::text)
        AND (sqlc.narg(submitted_by)::text IS NULL OR b.submitted_by = sqlc.narg(submitted_by)::text)
        AND (sqlc.narg(template_no)::text IS NULL OR EXISTS (
            SELECT FROM messages m
            WHERE m.task_id = b.task_id AND m.task_id BETWEEN @from_id::text AND @to_id::text
                AND m.request_data -> 'template' ->> 'template_no' = sqlc.narg(template_no)::text
        ))
    OFFSET 0
) t
ORDER BY i.task_id DESC
LIMIT @page_limit::integer;

-- TaskTimeline returns the events of one task, oldest first. Some kinds of rows are unlimited, so only the latest 500 rows of each kind are returned. These
-- kinds are repeated submissions, leases that ended, other log rows, reports that changed nothing, and unclear outcomes. content is the text that a claim
-- returned to the sender. sign is the signature that the provider of the sender adds.
-- name: TaskTimeline :many
SELECT e.event::text AS event, e.created_at::timestamptz AS created_at,
    e.app_id, e.attempt, e.lease_id, e.lease_until, e.status, e.effect, e.error_message, e.request_id, e.source_ip, e.by, e.template, e.answer,
    coalesce(CASE WHEN e.event = 'claimed' THEN handed_text(m.content, coalesce(m.sign, e.lease_sign), e.lease_sign_mode) END, '')::text AS content,
    coalesce(CASE WHEN e.lease_sign_mode = 'by_provider' THEN coalesce(m.sign, e.lease_sign) END, '')::text AS sign, e.lease_sim AS sim,
    (
        SELECT d.provider_no FROM deliveries d
        WHERE e.event = 'reported' AND d.task_id = @task_id AND d.lease_id = e.lease_id AND d.provider_no IS NOT NULL
        ORDER BY d.id DESC
        LIMIT 1
    ) AS provider_no
FROM (
    SELECT
        0 AS step, m.submission_id AS id, 'received' AS event, m.created_at,
        NULL::text AS app_id, NULL::smallint AS attempt, NULL::bigint AS lease_id, NULL::timestamptz AS lease_until,
        NULL::smallint AS status, NULL::text AS effect, NULL::text AS error_message, m.request_id, m.source_ip, NULL::text AS by,
        (m.request_data -> 'template')::jsonb AS template, NULL::text AS answer, NULL::text AS lease_sign, NULL::text AS lease_sign_mode,
        NULL::smallint AS lease_sim
    FROM messages m
    WHERE m.task_id = @task_id
    UNION ALL
    (SELECT 1, r.id, 'repeated', r.created_at, NULL, NULL, NULL, NULL, NULL, NULL, NULL, r.request_id, r.source_ip, NULL, NULL, NULL, NULL, NULL, NULL
    FROM fruitless_submissions r
    WHERE r.task_id = @task_id
    ORDER BY r.id DESC
    LIMIT 500)
    UNION ALL
    (SELECT 2, p.id, 'claimed', p.leased_at, p.app_id, p.retry_count + 1, p.lease_id, p.lease_until, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
        NULL, p.lease_sign, p.lease_sign_mode, p.lease_sim
    FROM report_logs p
    WHERE p.task_id = @task_id AND p.leased_at IS NOT NULL
    ORDER BY p.id DESC
    LIMIT 500)
    UNION ALL
    SELECT 2, q.lease_id, 'claimed', q.updated_at, q.processing_app_id, q.retry_count + 1, q.lease_id, q.lease_until, NULL, NULL, NULL,
        NULL, NULL, NULL, NULL, NULL, q.lease_sign, q.lease_sign_mode, q.lease_sim
    FROM queue q
    WHERE q.task_id = @task_id AND q.lease_until IS NOT NULL
    UNION ALL
    (SELECT 3, p.id, CASE p.event WHEN 'past_receipt' THEN 'receipt' ELSE p.event END, p.created_at, p.app_id, NULL, p.lease_id, NULL, p.status,
        p.effect, CASE WHEN p.event IN ('unreachable', 'simulated') THEN p.result ELSE p.error_message END, NULL, NULL,
        CASE WHEN p.event IN ('cancelled', 'requeued') THEN nullif(p.request_data ->> 'by', '') END, NULL,
        CASE WHEN p.event IN ('reported', 'released') THEN nullif(left(p.request_data ->> 'answer', 2000), '') END, NULL, NULL, NULL
    FROM report_logs p
    WHERE p.task_id = @task_id AND p.effect NOT IN ('ignored', 'refused')
    ORDER BY p.id DESC
    LIMIT 500)
    UNION ALL
    (SELECT 3, p.id, p.event, p.created_at, p.app_id, NULL, p.lease_id, NULL, p.status, p.effect, p.error_message, NULL, NULL, NULL, NULL,
        NULL, NULL, NULL, NULL
    FROM report_logs p
    WHERE p.task_id = @task_id AND p.effect IN ('ignored', 'refused')
    ORDER BY p.id DESC
    LIMIT 500)
    UNION ALL
    (SELECT 3, d.id, 'unclear', d.created_at, d.sender_no, NULL, d.lease_id, NULL, NULL, NULL, d.error, NULL, NULL, NULL, NULL, d.answer,
        NULL, NULL, NULL
    FROM deliveries d
    WHERE d.task_id = @task_id AND d.error IS NOT NULL
    ORDER BY d.id DESC
    LIMIT 500)
) e
LEFT JOIN messages m ON m.task_id = @task_id
ORDER BY e.created_at, e.step, e.id; -- step orders events of the same time: received, repeated, claimed, ended

-- TaskDue returns whether a task is due, and the pool that serves the task now. is_expiring is true if the task expires before a claim could lease it.
-- failed_app_id is the sender with which the task failed, while claims still prefer other senders for the task. Otherwise failed_app_id is empty. allowed_from
-- is the time from which the task could be claimed without quiet hours and caps, but never a time in the past.
-- name: TaskDue :one
SELECT coalesce(t.due_at <= now(), false)::boolean AS is_due, -- null: the task is held
    coalesce(q.expires_at <= greatest(t.due_at, now()) + @min_lease::interval, false)::boolean AS is_expiring,
    pool_serving(t.pool_id, t.company_id, t.message_type, t.country_no)::bigint AS pool_id, (SELECT c.channel FROM channels c WHERE c.id = task_channel(t.rendering_id)) AS channel,
    coalesce(
        CASE WHEN coalesce(t.due_at > now() - sqlc.narg(retry_max_wait)::interval, true) THEN t.failed_app_id END, ''
    )::text AS failed_app_id,
    (q.quiet_from IS NOT NULL)::boolean AS has_quiet_hours,
    greatest(coalesce(former_due_at(q), t.due_at), now())::timestamptz AS allowed_from
FROM tasks t
LEFT JOIN queue q ON q.task_id = t.task_id
WHERE t.task_id = @task_id;

-- TaskSwitches returns the switches, with their names, that hold tasks of the given pool, company, country, submitter and batch. A batch is also such a switch
-- if it is paused, or if it is cancelled and not all its tasks are cancelled yet (as in TaskReleaseSwitched).
-- name: TaskSwitches :many
SELECT w.switch::text AS switch, w.name::text AS name
FROM task_switches(@pool_id::bigint, @company_id::bigint, sqlc.narg(country_no)::text, @submitted_by::text) w
UNION ALL
SELECT 'batch', b.id::text FROM batches b WHERE b.id = sqlc.narg(batch_id)::bigint AND (b.status = 'paused' OR b.status = 'cancelled' AND NOT b.is_settled)
ORDER BY switch, name;

-- TaskStartUntil returns the time until which the sender must start its lease of a task. It returns no row if the task is not leased, if the lease is started,
-- or if the lease needs no start.
-- name: TaskStartUntil :one
SELECT q.start_until::timestamptz AS start_until FROM queue q WHERE q.task_id = @task_id AND q.start_until = q.lease_until;

-- TaskDropped returns whether the partition of a task id was dropped.
-- name: TaskDropped :one
SELECT EXISTS (
    SELECT FROM task_partitions p WHERE p.first_id <= @task_id::text AND p.before_id > @task_id::text AND p.dropped_at IS NOT NULL
)::boolean AS is_dropped;

-- name: SenderOnUnclear :one
SELECT on_unclear FROM senders WHERE sender_no = @sender_no;
