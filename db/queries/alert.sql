-- What operators are told.

-- name: EventList :many
SELECT * FROM events
WHERE id < @before_id AND (sqlc.narg(event)::text IS NULL OR event = sqlc.narg(event)::text)
    AND (sqlc.narg(subject)::text IS NULL OR subject = sqlc.narg(subject)::text)
ORDER BY id DESC
LIMIT @page_limit::integer;

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

-- SlowQueue keeps that a task has waited too long, unless that was kept within the last five minutes.
-- name: SlowQueue :execrows
INSERT INTO events (event, subject, detail)
SELECT 'queue.slow', 'queue', jsonb_build_object('longest_wait_seconds', @seconds::bigint, 'wait_warning_seconds', @warning::bigint)
WHERE NOT EXISTS (SELECT FROM events e WHERE e.event = 'queue.slow' AND e.created_at > now() - interval '5 minutes');
