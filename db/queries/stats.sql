-- TaskStatistics counts by state in one pass (S0.13).
-- name: TaskStatistics :one
SELECT
    count(*) FILTER (WHERE status = 0 AND retry_count = 0) AS pending_new_tasks,
    count(*) FILTER (WHERE status = 0 AND retry_count > 0) AS pending_retry_tasks,
    count(*) FILTER (WHERE status = 1) AS processing_tasks,
    count(*) FILTER (WHERE status = 2) AS success_tasks,
    count(*) FILTER (WHERE status = 3) AS failed_tasks
FROM tasks;

-- QueueDepth is what waits or is being sent, without the settled tasks: what a scrape can afford.
-- oldest_pending_seconds is the age of the longest waiting task that is due, 0 when none is.
-- name: QueueDepth :one
SELECT
    count(*) FILTER (WHERE status = 0 AND retry_count = 0) AS pending_new_tasks,
    count(*) FILTER (WHERE status = 0 AND retry_count > 0) AS pending_retry_tasks,
    count(*) FILTER (WHERE status = 1) AS processing_tasks,
    coalesce(
        extract(epoch FROM now() - min(created_at) FILTER (WHERE status = 0 AND due_at <= now())), 0
    )::float8 AS oldest_pending_seconds
FROM tasks
WHERE status IN (0, 1);
