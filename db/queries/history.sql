-- Counts of tasks, and the partitions of their history.

-- TaskStatistics returns the exact number of tasks in each state (S0.13), of one company or of all. Every statement that changes tasks
-- adds the difference to task_count_changes.
-- name: TaskStatistics :one
SELECT
    coalesce(sum(pending_new), 0)::bigint AS pending_new_tasks,
    coalesce(sum(pending_retry), 0)::bigint AS pending_retry_tasks,
    coalesce(sum(processing), 0)::bigint AS processing_tasks,
    coalesce(sum(success), 0)::bigint AS success_tasks,
    coalesce(sum(failed), 0)::bigint AS failed_tasks
FROM task_count_changes
WHERE sqlc.narg(company_id)::bigint IS NULL OR company_id = sqlc.narg(company_id)::bigint;

-- TaskCountFold replaces the rows of each company by their sum, if there are several. Two concurrent folds take different rows.
-- name: TaskCountFold :execrows
WITH removed AS (
    DELETE FROM task_count_changes
    WHERE company_id IN (SELECT c.company_id FROM task_count_changes c GROUP BY c.company_id HAVING count(*) > 1)
    RETURNING company_id, pending_new, pending_retry, processing, success, failed
),
folded AS (
    INSERT INTO task_count_changes (company_id, pending_new, pending_retry, processing, success, failed)
    SELECT g.company_id, sum(g.pending_new), sum(g.pending_retry), sum(g.processing), sum(g.success), sum(g.failed)
    FROM removed g
    GROUP BY g.company_id
)
SELECT FROM removed;

-- TaskPartitionsMake makes the partitions that are missing for tasks of now until ahead, and returns how many. Tasks of the last 30 days and of
-- those ahead that came before their partition existed move to it. If other partitions existed, this is an operator event.
-- name: TaskPartitionsMake :one
WITH strays AS MATERIALIZED (
    SELECT min(d.day) AS first_day
    FROM generate_series(
        date_trunc('day', now(), 'UTC') - interval '30 days', date_trunc('day', now() + @ahead::interval, 'UTC'), interval '1 day'
    ) AS d (day)
    CROSS JOIN LATERAL (SELECT (d.day AT TIME ZONE 'UTC')::date AS of_day) u
    WHERE EXISTS (
        SELECT FROM messages_default m WHERE m.task_id >= task_day_id(u.of_day) AND m.task_id < task_day_id(u.of_day + 1)
    )
),
noted AS (
    INSERT INTO events (event, subject, detail)
    SELECT 'partition.missing', 'messages', jsonb_build_object('since', s.first_day)
    FROM strays s
    WHERE s.first_day IS NOT NULL AND EXISTS (SELECT FROM task_partitions)
)
SELECT task_partitions_ahead(@width::text, least(now(), s.first_day), now() + @ahead::interval)::integer AS made FROM strays s;
