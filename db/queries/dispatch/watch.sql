-- Statements on waiting times, for the alert rules. The rules at the beginning of dispatch/claim.sql also apply here.

-- TasksLate returns the longest waiting time in each channel and company, in seconds, if it is longer than after_seconds. Tasks with a rendering of `ignored`
-- are skipped. The statement reads the tasks that have been due for the longest time: up to max_tasks tasks with priority 0, and up to max_tasks tasks with
-- another priority. It also reads the first queued task of each pool and lane, and the first unqueued task of each pool. Therefore the statement finds a late
-- channel, or a late company with its own pool, even if other companies have many waiting tasks.
-- name: TasksLate :many
WITH RECURSIVE queued AS ( -- the first task of each pool and lane; one probe of queue_order_idx for each
    (
        SELECT t.pool_id, t.lane, t.company_id, t.due_at, 1 AS nth FROM queue t
        WHERE t.lease_until IS NULL AND t.lane IS NOT NULL -- PENDING and queued
            AND coalesce(t.rendering_id <> ALL (@ignored::bigint[]), true)
        ORDER BY t.pool_id, t.lane, t.rank
        LIMIT 1
    )
    UNION ALL
    SELECT n.pool_id, n.lane, n.company_id, n.due_at, q.nth + 1
    FROM queued q
    CROSS JOIN LATERAL (
        SELECT t.pool_id, t.lane, t.company_id, t.due_at FROM queue t
        WHERE t.lease_until IS NULL AND t.lane IS NOT NULL AND (t.pool_id, t.lane) > (q.pool_id, q.lane)
            AND coalesce(t.rendering_id <> ALL (@ignored::bigint[]), true)
        ORDER BY t.pool_id, t.lane, t.rank
        LIMIT 1
    ) n
    WHERE q.nth < @max_tasks::integer
),
unqueued AS ( -- the first unqueued task of each pool; one probe of queue_unqueued_idx for each pool
    (
        SELECT t.pool_id, t.company_id, t.due_at, 1 AS nth FROM queue t
        WHERE t.lease_until IS NULL AND t.lane IS NULL -- PENDING and not queued
            AND coalesce(t.rendering_id <> ALL (@ignored::bigint[]), true)
        ORDER BY t.pool_id, t.due_at
        LIMIT 1
    )
    UNION ALL
    SELECT n.pool_id, n.company_id, n.due_at, u.nth + 1
    FROM unqueued u
    CROSS JOIN LATERAL (
        SELECT t.pool_id, t.company_id, t.due_at FROM queue t
        WHERE t.lease_until IS NULL AND t.lane IS NULL AND t.pool_id > u.pool_id
            AND coalesce(t.rendering_id <> ALL (@ignored::bigint[]), true)
        ORDER BY t.pool_id, t.due_at
        LIMIT 1
    ) n
    WHERE u.nth < @max_tasks::integer
),
late AS MATERIALIZED (
    SELECT w.pool_id, w.company_id, min(w.due_at) AS due_at
    FROM (
        (
            -- lane / 32 is the priority. The conditions are those of queue_top_idx and queue_waits_idx.
            SELECT t.pool_id, t.company_id, t.due_at FROM queue t
            WHERE t.lease_until IS NULL AND t.lane < 32 AND t.due_at < now() - make_interval(secs => @after_seconds::double precision)
                AND coalesce(t.rendering_id <> ALL (@ignored::bigint[]), true)
            ORDER BY t.due_at
            LIMIT @max_tasks::integer
        )
        UNION ALL
        (
            SELECT t.pool_id, t.company_id, t.due_at FROM queue t
            WHERE t.lease_until IS NULL AND t.lane >= 32 AND t.due_at < now() - make_interval(secs => @after_seconds::double precision)
                AND coalesce(t.rendering_id <> ALL (@ignored::bigint[]), true)
            ORDER BY t.due_at
            LIMIT @max_tasks::integer
        )
        UNION ALL
        SELECT q.pool_id, q.company_id, q.due_at FROM queued q
        UNION ALL
        SELECT u.pool_id, u.company_id, u.due_at FROM unqueued u
    ) w
    WHERE w.due_at < now() - make_interval(secs => @after_seconds::double precision)
    GROUP BY w.pool_id, w.company_id
)
SELECT h.channel, c.company_no, extract(epoch FROM now() - min(l.due_at))::double precision AS seconds
FROM late l
JOIN pools p ON p.id = l.pool_id
JOIN channels h ON h.id = p.channel_id
JOIN companies c ON c.id = l.company_id
GROUP BY h.channel, c.company_no
ORDER BY h.channel, c.company_no;

-- PoolsWaiting returns the pools in which a task is due, and the waiting time of their first task in seconds. It reads the first max_pools pools with queued
-- tasks, and the first max_pools pools with unqueued tasks. Tasks with a rendering of `ignored` are skipped.
-- name: PoolsWaiting :many
WITH RECURSIVE queued AS (
    (
        SELECT t.pool_id, t.due_at, 1 AS nth FROM queue t
        WHERE t.lease_until IS NULL AND t.lane IS NOT NULL -- PENDING and queued
            AND coalesce(t.rendering_id <> ALL (@ignored::bigint[]), true)
        ORDER BY t.pool_id, t.lane, t.rank
        LIMIT 1
    )
    UNION ALL
    SELECT n.pool_id, n.due_at, q.nth + 1
    FROM queued q
    CROSS JOIN LATERAL (
        SELECT t.pool_id, t.due_at FROM queue t
        WHERE t.lease_until IS NULL AND t.lane IS NOT NULL AND t.pool_id > q.pool_id
            AND coalesce(t.rendering_id <> ALL (@ignored::bigint[]), true)
        ORDER BY t.pool_id, t.lane, t.rank
        LIMIT 1
    ) n
    WHERE q.nth < @max_pools::integer
),
unqueued AS (
    (
        SELECT t.pool_id, t.due_at, 1 AS nth FROM queue t
        WHERE t.lease_until IS NULL AND t.lane IS NULL -- PENDING and not queued
            AND coalesce(t.rendering_id <> ALL (@ignored::bigint[]), true)
        ORDER BY t.pool_id, t.due_at
        LIMIT 1
    )
    UNION ALL
    SELECT n.pool_id, n.due_at, u.nth + 1
    FROM unqueued u
    CROSS JOIN LATERAL (
        SELECT t.pool_id, t.due_at FROM queue t
        WHERE t.lease_until IS NULL AND t.lane IS NULL AND t.pool_id > u.pool_id
            AND coalesce(t.rendering_id <> ALL (@ignored::bigint[]), true)
        ORDER BY t.pool_id, t.due_at
        LIMIT 1
    ) n
    WHERE u.nth < @max_pools::integer
)
SELECT w.pool_id, extract(epoch FROM now() - min(w.due_at))::double precision AS seconds
FROM (
    SELECT q.pool_id, q.due_at FROM queued q
    UNION ALL
    SELECT u.pool_id, u.due_at FROM unqueued u
) w
WHERE w.due_at <= now()
GROUP BY w.pool_id
ORDER BY w.pool_id;

-- TasksLater counts the waiting tasks that are due later. It counts at most max_tasks tasks.
-- name: TasksLater :one
WITH RECURSIVE unqueued AS (
    (
        SELECT t.pool_id FROM queue t
        WHERE t.lease_until IS NULL AND t.lane IS NULL -- PENDING and not queued
        ORDER BY t.pool_id, t.due_at
        LIMIT 1
    )
    UNION ALL
    SELECT n.pool_id
    FROM unqueued u
    CROSS JOIN LATERAL (
        SELECT t.pool_id FROM queue t
        WHERE t.lease_until IS NULL AND t.lane IS NULL AND t.pool_id > u.pool_id
        ORDER BY t.pool_id, t.due_at
        LIMIT 1
    ) n
)
SELECT count(*) FROM (
    SELECT FROM unqueued u
    CROSS JOIN LATERAL (
        SELECT FROM queue t
        WHERE t.pool_id = u.pool_id AND t.lease_until IS NULL AND t.lane IS NULL AND t.due_at > now()
        ORDER BY t.due_at
        LIMIT @max_tasks::bigint
    ) l
    LIMIT @max_tasks::bigint
) n;

-- TasksDue counts the queued tasks: all due tasks, except those that became due within the last second. It counts at most max_tasks tasks.
-- name: TasksDue :one
SELECT count(*) FROM (
    SELECT FROM queue t
    WHERE t.lease_until IS NULL AND t.lane IS NOT NULL -- PENDING and queued
    ORDER BY t.pool_id, t.lane, t.rank
    LIMIT @max_tasks::bigint
) q;
