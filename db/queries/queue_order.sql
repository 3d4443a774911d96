-- The order in which tasks wait, and what senders that wait look for. See the head of queue_claim.sql.

-- TaskWaits gives those of pools in which there is anything to claim.
-- name: TaskWaits :many
SELECT p.pool_id::bigint AS pool_id
FROM unnest(@pool_ids::bigint[]) AS p (pool_id)
WHERE (SELECT count(*) FROM (
        SELECT FROM tasks t
        WHERE t.pool_id = p.pool_id AND t.status = 0 AND t.lane IS NOT NULL
        ORDER BY t.lane, t.rank
        LIMIT 1
    ) q) > 0
    OR (SELECT count(*) FROM (
        SELECT FROM tasks t
        WHERE t.pool_id = p.pool_id AND t.status = 0 AND t.lane IS NULL AND t.due_at <= now()
        ORDER BY t.due_at
        LIMIT 1
    ) d) > 0
ORDER BY p.pool_id;

-- TaskWaitsQueued gives the next pools after after_id in which anything is queued, as many as most. Each costs one look into the
-- index of the queue, and those in which nothing is queued cost nothing.
-- name: TaskWaitsQueued :many
WITH RECURSIVE found AS (
    (
        SELECT t.pool_id, 1 AS place
        FROM tasks t
        WHERE t.pool_id > @after_id::bigint AND t.status = 0 AND t.lane IS NOT NULL
        ORDER BY t.pool_id, t.lane, t.rank
        LIMIT 1
    )
    UNION ALL
    SELECT n.pool_id, f.place + 1
    FROM found f
    CROSS JOIN LATERAL (
        SELECT t.pool_id
        FROM tasks t
        WHERE t.pool_id > f.pool_id AND t.status = 0 AND t.lane IS NOT NULL
        ORDER BY t.pool_id, t.lane, t.rank
        LIMIT 1
    ) n
    WHERE f.place < @most::integer
)
SELECT f.pool_id FROM found f ORDER BY f.place;

-- TaskQueue queues up to batch_size tasks that have come due, and tells how many. A task that was never queued gets its rank
-- now: its company's share begins to be used when it may go out. What has waited for priority_max_wait is queued as if it had the
-- highest priority, with a rank of that priority. Null is never.
-- Pools in which nothing is yet to be queued cost nothing.
-- name: TaskQueue :one
WITH RECURSIVE unqueued AS (
    (
        SELECT t.pool_id, t.due_at
        FROM tasks t
        WHERE t.status = 0 AND t.lane IS NULL
        ORDER BY t.pool_id, t.due_at
        LIMIT 1
    )
    UNION ALL
    SELECT n.pool_id, n.due_at
    FROM unqueued u
    CROSS JOIN LATERAL (
        SELECT t.pool_id, t.due_at
        FROM tasks t
        WHERE t.pool_id > u.pool_id AND t.status = 0 AND t.lane IS NULL
        ORDER BY t.pool_id, t.due_at
        LIMIT 1
    ) n
),
due AS MATERIALIZED (
    SELECT d.*
    FROM unqueued u
    CROSS JOIN LATERAL (
        SELECT t.task_id, t.pool_id, t.company_id, t.retry_count, t.created_at, e.priority,
            CASE WHEN e.priority = t.priority THEN t.rank END AS rank -- means nothing in another priority
        FROM tasks t
        CROSS JOIN LATERAL (
            SELECT CASE WHEN t.due_at <= now() - sqlc.narg(priority_max_wait)::interval THEN 0::smallint ELSE t.priority END AS priority
        ) e
        WHERE t.pool_id = u.pool_id AND t.status = 0 AND t.lane IS NULL AND t.due_at <= now()
        ORDER BY t.due_at
        LIMIT @batch_size::integer
        FOR UPDATE OF t SKIP LOCKED
    ) d
    WHERE u.due_at <= now()
    LIMIT @batch_size::integer
),
reserved AS (
    INSERT INTO fair_ranks AS f (pool_id, priority, company_id, start, finish)
    SELECT g.pool_id, g.priority, g.company_id, v.front, v.front + g.tasks / c.weight
    FROM (
        SELECT d.pool_id, d.priority, d.company_id, count(*) AS tasks FROM due d WHERE d.rank IS NULL
        GROUP BY d.pool_id, d.priority, d.company_id
    ) g
    JOIN companies c ON c.id = g.company_id
    CROSS JOIN LATERAL (SELECT task_queue_front(g.pool_id, g.priority) AS front OFFSET 0) v
    ORDER BY g.pool_id, g.priority, g.company_id
    ON CONFLICT (pool_id, priority, company_id) DO UPDATE
    SET start = greatest(f.finish, excluded.start),
        finish = greatest(f.finish, excluded.start) + (excluded.finish - excluded.start)
    RETURNING f.pool_id, f.priority, f.company_id, f.start
),
ranked AS MATERIALIZED (
    SELECT d.task_id, 32 * d.priority + d.retry_count AS lane,
        coalesce(d.rank, r.start + (row_number() OVER (
            PARTITION BY d.pool_id, d.priority, d.company_id, d.rank IS NULL ORDER BY d.created_at, d.task_id
        ) - 1) / c.weight) AS rank
    FROM due d
    JOIN companies c ON c.id = d.company_id
    LEFT JOIN reserved r ON r.pool_id = d.pool_id AND r.priority = d.priority AND r.company_id = d.company_id
),
put AS (
    UPDATE tasks t SET lane = r.lane, rank = r.rank FROM ranked r WHERE t.task_id = r.task_id
)
SELECT count(*) FROM due;

-- TaskAge lets up to batch_size tasks that have waited too long go before the others, and gives how many: retries as if they
-- were new, where their old rank is the first; and low priorities as if they were the highest: those leave the queue, and
-- TaskQueue gives them a rank of the highest priority. A rank means nothing in another priority. Null is never.
-- name: TaskAge :one
WITH retried AS MATERIALIZED (
    SELECT t.task_id, t.lane - t.lane % 32 AS lane FROM tasks t
    WHERE t.status = 0 AND t.lane % 32 > 0 AND t.due_at <= now() - sqlc.narg(retry_max_wait)::interval
    ORDER BY t.due_at
    LIMIT @batch_size::integer
    FOR UPDATE SKIP LOCKED
),
low AS MATERIALIZED (
    SELECT t.task_id FROM tasks t
    WHERE t.status = 0 AND t.lane >= 32 AND t.due_at <= now() - sqlc.narg(priority_max_wait)::interval
    ORDER BY t.due_at
    LIMIT @batch_size::integer
    FOR UPDATE SKIP LOCKED
),
moved AS MATERIALIZED (
    SELECT l.task_id, NULL::integer AS lane, true AS is_requeued FROM low l
    UNION ALL
    SELECT r.task_id, r.lane, false FROM retried r WHERE r.task_id NOT IN (SELECT l.task_id FROM low l)
),
put AS (
    UPDATE tasks t
    SET lane = m.lane, rank = CASE WHEN m.is_requeued THEN NULL ELSE t.rank END
    FROM moved m
    WHERE t.task_id = m.task_id AND t.status = 0
)
SELECT count(*) FROM moved;

-- TaskMove moves up to batch_size waiting tasks to the pools of the routes as they are now, and gives how many: all tasks of the
-- pools that serve nobody any more, because their routes are off or deleted; and, where a pool began to serve (unsettled_since), the
-- tasks in broader pools that it should have. A pool_id narrows both to one pool. Moved tasks are queued like those that have come
-- due: a rank means nothing in another pool.
-- name: TaskMove :one
WITH sources AS MATERIALIZED (
    SELECT p.id AS pool_id, NULL::bigint AS company_id, NULL::smallint AS message_type
    FROM pools p
    WHERE (
            p.retired_at IS NOT NULL
            OR (p.company_id IS NOT NULL AND NOT EXISTS (SELECT FROM routes r WHERE r.pool_id = p.id AND r.status = 'on'))
        )
        AND p.id = coalesce(sqlc.narg(pool_id)::bigint, p.id)
    UNION
    SELECT o.id, p.company_id, p.message_type
    FROM pools p
    JOIN pools o ON o.channel_id = p.channel_id AND o.retired_at IS NULL AND o.id <> p.id
        AND (o.company_id IS NULL OR (o.company_id = p.company_id AND o.message_type = p.message_type AND o.country_id IS NULL))
    WHERE p.unsettled_since IS NOT NULL AND p.retired_at IS NULL AND p.id = coalesce(sqlc.narg(pool_id)::bigint, p.id)
),
found AS MATERIALIZED (
    SELECT f.*
    FROM sources s
    CROSS JOIN LATERAL (
        SELECT q.task_id FROM (
            SELECT t.task_id FROM tasks t
            WHERE t.pool_id = s.pool_id AND t.status = 0 AND t.lane IS NOT NULL
                AND (s.company_id IS NULL OR (t.company_id = s.company_id AND t.message_type = s.message_type))
                AND pool_serving(t.pool_id, t.company_id, t.message_type, t.country_no) <> t.pool_id
            LIMIT @batch_size::integer
            FOR UPDATE SKIP LOCKED
        ) q
        UNION ALL
        SELECT w.task_id FROM (
            SELECT t.task_id FROM tasks t
            WHERE t.pool_id = s.pool_id AND t.status = 0 AND t.lane IS NULL
                AND (s.company_id IS NULL OR (t.company_id = s.company_id AND t.message_type = s.message_type))
                AND pool_serving(t.pool_id, t.company_id, t.message_type, t.country_no) <> t.pool_id
            LIMIT @batch_size::integer
            FOR UPDATE SKIP LOCKED
        ) w
    ) f
),
moved AS (
    UPDATE tasks t
    SET pool_id = pool_serving(t.pool_id, t.company_id, t.message_type, t.country_no), lane = NULL, rank = NULL
    WHERE t.task_id IN (SELECT f.task_id FROM found f) AND t.status = 0
    RETURNING t.task_id
)
SELECT count(*) FROM moved;

-- PoolSettle notes that the tasks of pools which began to serve longer ago than since have all been moved to them: since is longer than
-- the moving took and than a server places submissions by an older view of the routes. Nothing looks for them later.
-- name: PoolSettle :exec
UPDATE pools SET unsettled_since = NULL WHERE unsettled_since < clock_timestamp() - sqlc.arg(since)::interval;
