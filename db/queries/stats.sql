-- TaskStatistics tells how many tasks, of a company or of all, are in each state (S0.13), exactly, from what every change of tasks left behind.
-- name: TaskStatistics :one
SELECT
    coalesce(sum(pending_new), 0)::bigint AS pending_new_tasks,
    coalesce(sum(pending_retry), 0)::bigint AS pending_retry_tasks,
    coalesce(sum(processing), 0)::bigint AS processing_tasks,
    coalesce(sum(success), 0)::bigint AS success_tasks,
    coalesce(sum(failed), 0)::bigint AS failed_tasks
FROM task_count_changes
WHERE sqlc.narg(company_id)::bigint IS NULL OR company_id = sqlc.narg(company_id)::bigint;

-- TaskCountFold makes one row of those of each company that has several. Two at once take different rows.
-- name: TaskCountFold :execrows
WITH gone AS (
    DELETE FROM task_count_changes
    WHERE company_id IN (SELECT c.company_id FROM task_count_changes c GROUP BY c.company_id HAVING count(*) > 1)
    RETURNING company_id, pending_new, pending_retry, processing, success, failed
),
folded AS (
    INSERT INTO task_count_changes (company_id, pending_new, pending_retry, processing, success, failed)
    SELECT g.company_id, sum(g.pending_new), sum(g.pending_retry), sum(g.processing), sum(g.success), sum(g.failed)
    FROM gone g
    GROUP BY g.company_id
)
SELECT FROM gone;

-- LongestWait is how many seconds the task that has been due for longest has waited, 0 when none is due. A task that is scheduled,
-- or whose retry is, waits from then on. Each kind of waiting task has an index by due_at, whose first entry is read: queued with
-- priority 0, queued with another priority, and not queued yet, which is looked up pool by pool.
-- name: LongestWait :one
WITH RECURSIVE unqueued AS (
    (
        SELECT t.pool_id, t.due_at FROM tasks t
        WHERE t.status = 0 AND t.lane IS NULL
        ORDER BY t.pool_id, t.due_at
        LIMIT 1
    )
    UNION ALL
    SELECT n.pool_id, n.due_at
    FROM unqueued u
    CROSS JOIN LATERAL (
        SELECT t.pool_id, t.due_at FROM tasks t
        WHERE t.status = 0 AND t.lane IS NULL AND t.pool_id > u.pool_id
        ORDER BY t.pool_id, t.due_at
        LIMIT 1
    ) n
)
SELECT coalesce(extract(epoch FROM now() - min(w.due_at)), 0)::float8 AS seconds
FROM (
    (SELECT t.due_at FROM tasks t WHERE t.status = 0 AND t.lane < 32 ORDER BY t.due_at LIMIT 1)
    UNION ALL
    (SELECT t.due_at FROM tasks t WHERE t.status = 0 AND t.lane >= 32 ORDER BY t.due_at LIMIT 1)
    UNION ALL
    SELECT u.due_at FROM unqueued u
) w
WHERE w.due_at <= now();
