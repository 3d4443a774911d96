-- The order in which tasks wait, how long they wait, and the search for pools with work. The rules at the head of queue_claim.sql hold
-- here too.

-- TaskWaits returns those pools of pool_ids in which a task can be claimed.
-- name: TaskWaits :many
SELECT p.pool_id::bigint AS pool_id
FROM unnest(@pool_ids::bigint[]) AS p (pool_id)
WHERE (SELECT count(*) FROM (
        -- PENDING and queued. Count with LIMIT 1 instead of EXISTS: it keeps the ORDER BY, which forces queue_order_idx.
        SELECT FROM queue t
        WHERE t.pool_id = p.pool_id AND t.lease_until IS NULL AND t.lane IS NOT NULL
        ORDER BY t.lane, t.rank
        LIMIT 1
    ) q) > 0
    OR (SELECT count(*) FROM (
        -- PENDING and not queued yet, by queue_due_idx.
        SELECT FROM queue t
        WHERE t.pool_id = p.pool_id AND t.lease_until IS NULL AND t.lane IS NULL AND t.due_at <= now()
        ORDER BY t.due_at
        LIMIT 1
    ) d) > 0
ORDER BY p.pool_id;

-- TaskWaitsQueued returns the next pools after after_id with queued tasks, up to most. Each costs one probe of the index queue_order_idx.
-- Pools without queued tasks cost nothing.
-- name: TaskWaitsQueued :many
WITH RECURSIVE found AS (
    (
        SELECT t.pool_id, 1 AS nth
        FROM queue t
        WHERE t.pool_id > @after_id::bigint AND t.lease_until IS NULL AND t.lane IS NOT NULL -- PENDING and queued
        ORDER BY t.pool_id, t.lane, t.rank
        LIMIT 1
    )
    UNION ALL
    SELECT n.pool_id, f.nth + 1
    FROM found f
    CROSS JOIN LATERAL (
        SELECT t.pool_id
        FROM queue t
        WHERE t.pool_id > f.pool_id AND t.lease_until IS NULL AND t.lane IS NOT NULL
        ORDER BY t.pool_id, t.lane, t.rank
        LIMIT 1
    ) n
    WHERE f.nth < @most::integer
)
SELECT f.pool_id FROM found f ORDER BY f.nth;

-- TaskQueue queues up to batch_size tasks that have come due, and returns how many. A task that was never queued gets its rank now: it
-- uses the share of its company from the moment at which it may be sent. A task that has been due for priority_max_wait is queued with
-- aged_priority, the first one behind real-time messages, and a rank of that priority; null means never. Pools in which every task is queued
-- cost nothing.
-- name: TaskQueue :one
WITH RECURSIVE unqueued AS ( -- the first unqueued task of each pool, one probe of queue_due_idx for each
    (
        SELECT t.pool_id, t.due_at
        FROM queue t
        WHERE t.lease_until IS NULL AND t.lane IS NULL -- PENDING and not queued
        ORDER BY t.pool_id, t.due_at
        LIMIT 1
    )
    UNION ALL
    SELECT n.pool_id, n.due_at
    FROM unqueued u
    CROSS JOIN LATERAL (
        SELECT t.pool_id, t.due_at
        FROM queue t
        WHERE t.pool_id > u.pool_id AND t.lease_until IS NULL AND t.lane IS NULL
        ORDER BY t.pool_id, t.due_at
        LIMIT 1
    ) n
),
due AS MATERIALIZED (
    SELECT d.*
    FROM unqueued u
    CROSS JOIN LATERAL (
        SELECT t.task_id, t.pool_id, t.company_id, t.retry_count, t.created_at, e.priority,
            CASE WHEN e.priority = t.priority THEN t.rank END AS rank -- valid only in its priority
        FROM queue t
        CROSS JOIN LATERAL (
            SELECT CASE WHEN t.due_at <= now() - sqlc.narg(priority_max_wait)::interval
                THEN least(t.priority, sqlc.arg(aged_priority)::smallint) ELSE t.priority END AS priority
        ) e
        WHERE t.pool_id = u.pool_id AND t.lease_until IS NULL AND t.lane IS NULL AND t.due_at <= now()
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
    CROSS JOIN LATERAL (SELECT task_queue_front(g.pool_id, g.priority) AS front OFFSET 0) v -- OFFSET 0: called once per group
    ORDER BY g.pool_id, g.priority, g.company_id
    ON CONFLICT (pool_id, priority, company_id) DO UPDATE
    SET start = greatest(f.finish, excluded.start),
        finish = greatest(f.finish, excluded.start) + (excluded.finish - excluded.start)
    RETURNING f.pool_id, f.priority, f.company_id, f.start
),
ranked AS MATERIALIZED (
    SELECT d.task_id, 32 * d.priority + d.retry_count AS lane, -- new tasks first, then retries by their count
        coalesce(d.rank, r.start + (row_number() OVER (
            PARTITION BY d.pool_id, d.priority, d.company_id, d.rank IS NULL ORDER BY d.created_at, d.task_id
        ) - 1) / c.weight) AS rank
    FROM due d
    JOIN companies c ON c.id = d.company_id
    LEFT JOIN reserved r ON r.pool_id = d.pool_id AND r.priority = d.priority AND r.company_id = d.company_id
),
columns AS MATERIALIZED (
    SELECT array_agg(r.task_id) AS task_ids, array_agg(r.lane) AS lanes, array_agg(r.rank) AS ranks FROM ranked r
),
queued AS (
    UPDATE queue t
    SET (lane, rank) = (
        SELECT c.lanes[i.i], c.ranks[i.i] FROM columns c CROSS JOIN LATERAL (SELECT array_position(c.task_ids, t.task_id) AS i OFFSET 0) i
    )
    WHERE t.task_id = ANY ((SELECT c.task_ids FROM columns c)::text[])
)
SELECT count(*) FROM due;

-- TaskAge moves up to batch_size retries and up to batch_size tasks of low priority that have waited too long ahead of the others, and
-- returns how many in all. A retry is queued as a new task of its priority; its old rank is still valid there. A task of low priority
-- leaves the queue, and TaskQueue gives it aged_priority and a rank of that priority. A null wait means never.
--
-- queue_waits_idx has the lane beside the time, so that the tasks that were moved before are passed over without a look at the table.
-- name: TaskAge :one
WITH retried AS MATERIALIZED (
    SELECT t.task_id FROM queue t
    WHERE t.lease_until IS NULL AND t.lane % 32 > 0 AND t.due_at <= now() - sqlc.narg(retry_max_wait)::interval -- PENDING; a retry
    ORDER BY t.due_at
    LIMIT @batch_size::integer
    FOR UPDATE SKIP LOCKED
),
low AS MATERIALIZED (
    SELECT t.task_id FROM queue t
    WHERE t.lease_until IS NULL AND t.lane >= 32 AND t.lane >= 32 * (sqlc.arg(aged_priority)::smallint + 1) -- PENDING; lane / 32 is the priority
        AND t.due_at <= now() - sqlc.narg(priority_max_wait)::interval
    ORDER BY t.due_at
    LIMIT @batch_size::integer
    FOR UPDATE SKIP LOCKED
),
moved AS (
    UPDATE queue t SET lane = NULL, rank = NULL WHERE t.task_id = ANY (ARRAY(SELECT l.task_id FROM low l))
),
requeued AS (
    UPDATE queue t SET lane = t.lane - t.lane % 32 -- the lane of new tasks of the same priority
    WHERE t.task_id = ANY (ARRAY(SELECT r.task_id FROM retried r WHERE r.task_id NOT IN (SELECT l.task_id FROM low l)))
)
SELECT ((SELECT count(*) FROM low) + count(*))::bigint FROM retried r WHERE r.task_id NOT IN (SELECT l.task_id FROM low l);

-- TaskMove moves waiting tasks to the pools of the current routes, and returns how many. It moves up to batch_size queued and as many
-- unqueued tasks from each of these pools: pools that no route serves any more, because their routes are off or deleted; and, for a pool
-- that began to serve (unsettled_since), the broader pools in which its tasks may still wait. pool_id restricts both to one pool. A moved
-- task is queued anew, like a task that comes due: a rank is valid only in its pool.
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
    JOIN pools o ON o.channel_id = p.channel_id AND o.retired_at IS NULL AND o.sender_id IS NULL AND o.id <> p.id
        AND (o.company_id IS NULL OR (o.company_id = p.company_id AND o.message_type = p.message_type AND o.country_id IS NULL))
    WHERE p.unsettled_since IS NOT NULL AND p.retired_at IS NULL AND p.id = coalesce(sqlc.narg(pool_id)::bigint, p.id)
),
found AS MATERIALIZED (
    SELECT f.*
    FROM sources s
    CROSS JOIN LATERAL (
        SELECT q.task_id FROM (
            SELECT t.task_id FROM queue t
            WHERE t.pool_id = s.pool_id AND t.lease_until IS NULL AND t.lane IS NOT NULL -- PENDING and queued, by queue_order_idx
                AND (s.company_id IS NULL OR (t.company_id = s.company_id AND t.message_type = s.message_type))
                AND pool_serving(t.pool_id, t.company_id, t.message_type, t.country_no) <> t.pool_id
            LIMIT @batch_size::integer
            FOR UPDATE SKIP LOCKED
        ) q
        UNION ALL
        SELECT w.task_id FROM (
            SELECT t.task_id FROM queue t
            WHERE t.pool_id = s.pool_id AND t.lease_until IS NULL AND t.lane IS NULL -- PENDING and not queued, by queue_due_idx
                AND (s.company_id IS NULL OR (t.company_id = s.company_id AND t.message_type = s.message_type))
                AND pool_serving(t.pool_id, t.company_id, t.message_type, t.country_no) <> t.pool_id
            LIMIT @batch_size::integer
            FOR UPDATE SKIP LOCKED
        ) w
    ) f
),
moved AS (
    UPDATE queue t
    SET pool_id = pool_serving(t.pool_id, t.company_id, t.message_type, t.country_no), lane = NULL, rank = NULL
    WHERE t.task_id = ANY (ARRAY(SELECT f.task_id FROM found f)) AND t.lease_until IS NULL
    RETURNING t.task_id
)
SELECT count(*) FROM moved;

-- TaskAhead counts the tasks that are claimed before a queued task, up to most. Of equal rank, the older task comes first.
-- name: TaskAhead :one
SELECT count(*) FROM (
    SELECT FROM queue t
    WHERE t.pool_id = @pool_id AND t.lease_until IS NULL AND t.lane IS NOT NULL -- PENDING and queued
        -- The first comparison ends the scan of queue_order_idx, the second one orders equal ranks.
        AND (t.lane, t.rank) <= (@lane::smallint, @rank::double precision)
        AND (t.lane, t.rank, t.created_at, t.task_id) < (@lane::smallint, @rank::double precision, @created_at::timestamptz, @task_id::text)
    ORDER BY t.pool_id, t.lane, t.rank
    LIMIT @most::integer
) q;

-- LongestWait returns how many seconds the task that has been due for longest has waited; 0: no task is due. Each group of waiting tasks
-- has an index by due_at, of which the first entry is read: tasks queued with priority 0, tasks queued with another priority, and tasks
-- that are not queued yet, pool by pool.
-- name: LongestWait :one
WITH RECURSIVE unqueued AS ( -- the first unqueued task of each pool, one probe of queue_due_idx for each
    (
        SELECT t.pool_id, t.due_at FROM queue t
        WHERE t.lease_until IS NULL AND t.lane IS NULL -- PENDING and not queued
        ORDER BY t.pool_id, t.due_at
        LIMIT 1
    )
    UNION ALL
    SELECT n.pool_id, n.due_at
    FROM unqueued u
    CROSS JOIN LATERAL (
        SELECT t.pool_id, t.due_at FROM queue t
        WHERE t.lease_until IS NULL AND t.lane IS NULL AND t.pool_id > u.pool_id
        ORDER BY t.pool_id, t.due_at
        LIMIT 1
    ) n
)
SELECT coalesce(extract(epoch FROM now() - min(w.due_at)), 0)::double precision AS seconds
FROM (
    -- lane / 32 is the priority: these are queue_top_idx and queue_waits_idx.
    (SELECT t.due_at FROM queue t WHERE t.lease_until IS NULL AND t.lane < 32 ORDER BY t.due_at LIMIT 1)
    UNION ALL
    (SELECT t.due_at FROM queue t WHERE t.lease_until IS NULL AND t.lane >= 32 ORDER BY t.due_at LIMIT 1)
    UNION ALL
    SELECT u.due_at FROM unqueued u
) w
WHERE w.due_at <= now();

-- CompanyLongestWait returns how many seconds the task of a company that has been due for longest has waited; null: none of its tasks is among
-- the most queued tasks of all companies that have been due for longest. It reads the beginnings of queue_top_idx and queue_waits_idx.
-- name: CompanyLongestWait :one
SELECT extract(epoch FROM now() - min(w.due_at) FILTER (WHERE w.company_id = @company_id::bigint))::float8 AS seconds
FROM (
    (SELECT t.due_at, t.company_id FROM queue t WHERE t.lease_until IS NULL AND t.lane < 32 ORDER BY t.due_at LIMIT @most::integer)
    UNION ALL
    (SELECT t.due_at, t.company_id FROM queue t WHERE t.lease_until IS NULL AND t.lane >= 32 ORDER BY t.due_at LIMIT @most::integer)
) w
WHERE w.due_at <= now();
