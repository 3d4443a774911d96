-- Alerts: the table events, which keeps what operators should know, and the longest wait in the queue.

-- name: EventList :many
SELECT * FROM events
WHERE id < @before_id AND (sqlc.narg(event)::text IS NULL OR event = sqlc.narg(event)::text)
    AND (sqlc.narg(subject)::text IS NULL OR subject = sqlc.narg(subject)::text)
ORDER BY id DESC
LIMIT @page_limit::integer;

-- LongestWait returns how many seconds the task that has been due for longest has waited; 0: no task is due. Each group of waiting tasks
-- has an index by due_at, of which the first entry is read: tasks queued with priority 0, tasks queued with another priority, and tasks
-- that are not queued yet, pool by pool.
-- name: LongestWait :one
WITH RECURSIVE unqueued AS ( -- the first unqueued task of each pool, one probe of tasks_due_idx for each
    (
        SELECT t.pool_id, t.due_at FROM tasks t
        WHERE t.status = 0 AND t.lane IS NULL -- PENDING and not queued
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
    -- lane / 32 is the priority: these are tasks_queued_top_idx and tasks_queued_low_idx.
    (SELECT t.due_at FROM tasks t WHERE t.status = 0 AND t.lane < 32 ORDER BY t.due_at LIMIT 1)
    UNION ALL
    (SELECT t.due_at FROM tasks t WHERE t.status = 0 AND t.lane >= 32 ORDER BY t.due_at LIMIT 1)
    UNION ALL
    SELECT u.due_at FROM unqueued u
) w
WHERE w.due_at <= now();

-- SlowQueue adds the event queue.slow, unless there was one within the last five minutes.
-- name: SlowQueue :execrows
INSERT INTO events (event, subject, detail)
SELECT 'queue.slow', 'queue', jsonb_build_object('longest_wait_seconds', @seconds::bigint, 'wait_warning_seconds', @warning::bigint)
WHERE NOT EXISTS (SELECT FROM events e WHERE e.event = 'queue.slow' AND e.created_at > now() - interval '5 minutes');
