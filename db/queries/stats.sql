-- TaskStatistics tells how many tasks are in each state (S0.13), exactly, from what every change of tasks left behind.
-- name: TaskStatistics :one
SELECT
    coalesce(sum(pending_new), 0)::bigint AS pending_new_tasks,
    coalesce(sum(pending_retry), 0)::bigint AS pending_retry_tasks,
    coalesce(sum(processing), 0)::bigint AS processing_tasks,
    coalesce(sum(success), 0)::bigint AS success_tasks,
    coalesce(sum(failed), 0)::bigint AS failed_tasks
FROM task_count_changes;

-- TaskCountFold makes one row of those that are there. Two at once take different rows.
-- name: TaskCountFold :execrows
WITH gone AS (
    DELETE FROM task_count_changes
    WHERE (SELECT count(*) FROM (SELECT FROM task_count_changes LIMIT 2) c) > 1
    RETURNING pending_new, pending_retry, processing, success, failed
),
folded AS (
    INSERT INTO task_count_changes
    SELECT sum(pending_new), sum(pending_retry), sum(processing), sum(success), sum(failed) FROM gone
    HAVING count(*) > 0
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
