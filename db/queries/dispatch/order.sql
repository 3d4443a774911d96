-- Statements on the order of waiting tasks, on waiting times, and on the search for pools with waiting tasks. The rules at the beginning of dispatch/claim.sql
-- also apply here.

-- TaskWaits returns the pools of pool_ids in which a task can be claimed now.
-- name: TaskWaits :many
SELECT p.pool_id::bigint AS pool_id
FROM unnest(@pool_ids::bigint[]) AS p (pool_id)
WHERE (SELECT count(*) FROM (
        -- PENDING and queued. A count with LIMIT 1 keeps the ORDER BY, which forces queue_order_idx; an EXISTS would drop the ORDER BY.
        SELECT FROM queue t
        WHERE t.pool_id = p.pool_id AND t.lease_until IS NULL AND t.lane IS NOT NULL
        ORDER BY t.lane, t.rank
        LIMIT 1
    ) q) > 0
    OR (SELECT count(*) FROM (
        -- PENDING and not queued yet, by queue_unqueued_idx
        SELECT FROM queue t
        WHERE t.pool_id = p.pool_id AND t.lease_until IS NULL AND t.lane IS NULL AND t.due_at <= now()
        ORDER BY t.due_at
        LIMIT 1
    ) d) > 0
ORDER BY p.pool_id;

-- TaskWaitsQueued returns the next max_pools pools after after_id that have queued tasks. The statement probes queue_order_idx once for each returned pool, and
-- never for a pool without queued tasks.
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
    WHERE f.nth < @max_pools::integer
)
SELECT f.pool_id FROM found f ORDER BY f.nth;

-- TaskQueue queues up to batch_size tasks that have become due, and returns their number. Tasks with earlier due times are first. Tasks with the same due time
-- are ordered by priority. A task that was never queued receives its ranks now, from task_ranks_reserve. So a scheduled task uses no share of its company
-- before its due time. If a task has been due for priority_max_wait, it is queued with aged_priority, the first priority after real-time messages, and receives
-- ranks of this priority. If priority_max_wait is null, each task keeps its priority. The statement reads nothing in pools whose tasks are all queued.
-- name: TaskQueue :one
WITH RECURSIVE unqueued AS ( -- the first unqueued task of each pool; one probe of queue_unqueued_idx for each pool
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
        SELECT t.task_id, t.pool_id, t.company_id, t.retry_count, t.created_at, e.priority, task_flow(t.batch_id, t.submitted_by) AS flow,
            CASE WHEN e.priority = t.priority THEN t.rank END AS rank, -- the rank is valid only in the priority in which it was assigned
            CASE WHEN e.priority = t.priority AND t.rank IS NOT NULL THEN t.flow_rank END AS flow_rank
        FROM queue t
        CROSS JOIN LATERAL (
            SELECT CASE WHEN t.due_at <= now() - sqlc.narg(priority_max_wait)::interval
                THEN least(t.priority, sqlc.arg(aged_priority)::smallint) ELSE t.priority END AS priority
        ) e
        WHERE t.pool_id = u.pool_id AND t.lease_until IS NULL AND t.lane IS NULL AND t.due_at <= now()
        ORDER BY t.due_at, t.priority
        LIMIT @batch_size::integer
        FOR UPDATE OF t SKIP LOCKED
    ) d
    WHERE u.due_at <= now()
    LIMIT @batch_size::integer
),
ranks AS MATERIALIZED (
    SELECT k.task_id, k.rank, k.flow_rank
    FROM (
        SELECT array_agg(d.task_id) AS task_ids, array_agg(d.pool_id) AS pool_ids, array_agg(d.priority) AS priorities,
            array_agg(d.company_id) AS company_ids, array_agg(d.flow) AS flows
        FROM (SELECT * FROM due u WHERE u.rank IS NULL ORDER BY u.created_at, u.task_id) d
    ) a
    CROSS JOIN LATERAL task_ranks_reserve(a.task_ids, a.pool_ids, a.priorities, a.company_ids, a.flows) AS k (task_id, rank, flow_rank)
),
ranked AS MATERIALIZED (
    SELECT d.task_id, 32 * d.priority + d.retry_count AS lane, -- new tasks first, then retries by their count
        coalesce(d.rank, k.rank) AS rank, CASE WHEN d.rank IS NULL THEN k.flow_rank ELSE d.flow_rank END AS flow_rank
    FROM due d
    LEFT JOIN ranks k ON k.task_id = d.task_id
),
columns AS MATERIALIZED (
    SELECT array_agg(r.task_id) AS task_ids, array_agg(r.lane) AS lanes, array_agg(r.rank) AS ranks, array_agg(r.flow_rank) AS flow_ranks FROM ranked r
),
queued AS (
    UPDATE queue t
    SET (lane, rank, flow_rank) = (
        SELECT c.lanes[i.i], c.ranks[i.i], c.flow_ranks[i.i] FROM columns c CROSS JOIN LATERAL (SELECT array_position(c.task_ids, t.task_id) AS i OFFSET 0) i
    )
    WHERE t.task_id = ANY ((SELECT c.task_ids FROM columns c)::text[])
)
SELECT count(*) FROM due;

-- TaskAge moves tasks that have waited too long ahead of other tasks: up to batch_size retries, and up to batch_size tasks of low priority. It returns the
-- total number of moved tasks. A retry is queued in the lane of new tasks of its priority, where its old rank is still valid. A task of low priority becomes
-- unqueued. TaskQueue then assigns aged_priority to the task, and a rank of this priority. retry_max_wait null: no retry is moved. priority_max_wait null: no
-- task of low priority is moved.
--
-- queue_waits_idx contains the lane and the due time. A scan of this index therefore skips tasks that were already moved, without reading the table.
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
    UPDATE queue t SET lane = NULL, rank = NULL, flow_rank = NULL WHERE t.task_id = ANY (ARRAY(SELECT l.task_id FROM low l))
),
requeued AS (
    UPDATE queue t SET lane = t.lane - t.lane % 32 -- the lane of new tasks of the same priority
    WHERE t.task_id = ANY (ARRAY(SELECT r.task_id FROM retried r WHERE r.task_id NOT IN (SELECT l.task_id FROM low l)))
)
SELECT ((SELECT count(*) FROM low) + count(*))::bigint FROM retried r WHERE r.task_id NOT IN (SELECT l.task_id FROM low l);

-- TaskMove moves waiting tasks to the pools of the current routes, and returns their number. From each pool, it moves up to batch_size queued tasks and up to
-- batch_size unqueued tasks. pool_id restricts the statement to one pool. A pool without active routes loses all its waiting tasks. After a pool received its
-- first active route (unsettled_since), the statement moves the tasks that belong to this pool, but still wait in broader pools. A moved task is queued again
-- like a task that becomes due, because a rank is valid only in its pool.
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
            WHERE t.pool_id = s.pool_id AND t.lease_until IS NULL AND t.lane IS NULL -- PENDING and not queued, by queue_unqueued_idx
                AND (s.company_id IS NULL OR (t.company_id = s.company_id AND t.message_type = s.message_type))
                AND pool_serving(t.pool_id, t.company_id, t.message_type, t.country_no) <> t.pool_id
            LIMIT @batch_size::integer
            FOR UPDATE SKIP LOCKED
        ) w
    ) f
),
moved AS (
    UPDATE queue t
    SET pool_id = pool_serving(t.pool_id, t.company_id, t.message_type, t.country_no), lane = NULL, rank = NULL,
        flow_rank = NULL
    WHERE t.task_id = ANY (ARRAY(SELECT f.task_id FROM found f)) AND t.lease_until IS NULL
    RETURNING t.task_id
)
SELECT count(*) FROM moved;

-- The next three statements close gaps in the ranks of companies. A task receives its rank when it is queued. If tasks of a company are cancelled, held, moved
-- or expire, their ranks remain unused. Without these statements, the later tasks of the company would wait until the other companies have used as many ranks.

-- RankGaps returns the companies that have a gap in a pool and priority. A company has a gap if its next rank is more than four of its tasks behind the front,
-- and none of its tasks waits within this distance of the front. RankGapClose closes the gaps. If only one company waits in a pool, the statement only probes
-- each lane once. It ignores a lane in which at least max_tasks tasks wait within the distance. Many companies wait in such a lane, so the distance is normal.
-- name: RankGaps :many
WITH RECURSIVE lanes AS ( -- the first task of each lane; one probe of queue_order_idx for each lane
    (
        SELECT t.pool_id, t.lane, t.rank, t.company_id FROM queue t
        WHERE t.lease_until IS NULL AND t.lane IS NOT NULL -- PENDING and queued
        ORDER BY t.pool_id, t.lane, t.rank
        LIMIT 1
    )
    UNION ALL
    SELECT n.*
    FROM lanes l
    CROSS JOIN LATERAL (
        SELECT t.pool_id, t.lane, t.rank, t.company_id FROM queue t
        WHERE (t.pool_id, t.lane) > (l.pool_id, l.lane) AND t.lease_until IS NULL AND t.lane IS NOT NULL
        ORDER BY t.pool_id, t.lane, t.rank
        LIMIT 1
    ) n
),
given AS MATERIALIZED (
    SELECT l.pool_id, l.lane, f.priority, f.company_id, x.reach
    FROM lanes l
    CROSS JOIN LATERAL ( -- OFFSET 0 forces one range of the primary key for each lane
        SELECT r.priority, r.company_id, r.finish FROM fair_ranks r
        WHERE r.pool_id = l.pool_id AND r.priority = l.lane / 32 AND r.company_id <> l.company_id AND r.finish > l.rank + 4
        OFFSET 0
    ) f
    JOIN companies c ON c.id = f.company_id
    CROSS JOIN LATERAL (SELECT l.rank + 4 * greatest(1, 1 / c.weight) AS reach) x
    WHERE l.lane % 32 = 0 AND f.finish > x.reach -- new tasks only, because retries do not receive new ranks
),
first AS MATERIALIZED ( -- the first tasks of these lanes
    SELECT w.pool_id, w.lane, n.company_id, n.rank, count(*) OVER (PARTITION BY w.pool_id, w.lane) AS tasks
    FROM (SELECT g.pool_id, g.lane, max(g.reach) AS reach FROM given g GROUP BY g.pool_id, g.lane) w
    CROSS JOIN LATERAL (
        SELECT t.company_id, t.rank FROM queue t
        WHERE t.pool_id = w.pool_id AND t.lane = w.lane AND t.lease_until IS NULL AND t.lane IS NOT NULL AND t.rank <= w.reach
        ORDER BY t.pool_id, t.lane, t.rank
        LIMIT @max_tasks::integer
    ) n
),
seen AS MATERIALIZED (
    SELECT s.pool_id, s.lane, s.company_id, min(s.rank) AS rank, max(s.tasks) AS tasks FROM first s GROUP BY s.pool_id, s.lane, s.company_id
)
SELECT g.pool_id, g.priority, g.company_id
FROM given g
WHERE NOT EXISTS (SELECT FROM seen s WHERE s.pool_id = g.pool_id AND s.lane = g.lane AND s.company_id = g.company_id AND s.rank <= g.reach)
    AND NOT EXISTS (SELECT FROM seen s WHERE s.pool_id = g.pool_id AND s.lane = g.lane AND s.tasks >= @max_tasks::integer)
ORDER BY g.pool_id, g.priority, g.company_id;

-- RankGapLock locks the ranks of a company in a pool and priority. Until the end of the transaction, no other transaction can submit tasks of the company to
-- this pool and priority, and RankGapClose sees all earlier submissions. The statement returns no row if a submission holds the lock.
-- name: RankGapLock :many
SELECT f.company_id FROM fair_ranks f
WHERE f.pool_id = @pool_id AND f.priority = @priority AND f.company_id = @company_id
ORDER BY f.company_id
FOR UPDATE SKIP LOCKED;

-- RankGapClose assigns new ranks, beginning at the front, to the first `portion` waiting tasks of a company in a pool and priority. The order of the tasks does
-- not change. It returns the number of moved tasks. If the portion contains all tasks, the next task of the company receives a rank after them.
--
-- Existing flow ranks do not change. If several flows wait, a task without flow rank receives the flow rank of a new task. Without it, the new rank would count
-- as the flow rank, and the task would wait behind all tasks of the other flows.
-- name: RankGapClose :one
WITH front AS MATERIALIZED (
    SELECT task_queue_front(@pool_id::bigint, @priority::smallint) AS rank, 1 / c.weight AS step,
        (
            SELECT count(*) FROM (
                SELECT FROM queue t
                WHERE t.pool_id = @pool_id::bigint AND t.lane = 32 * @priority::smallint AND t.company_id = @company_id::bigint
                    AND t.lease_until IS NULL AND t.lane IS NOT NULL AND t.flow_rank IS NOT NULL -- by queue_flow_ranks_idx
                ORDER BY t.pool_id, t.lane, t.company_id, t.flow_rank, t.task_id
                LIMIT 1
            ) w
        ) > 0 AS has_flows
    FROM companies c
    WHERE c.id = @company_id::bigint
),
waiting AS MATERIALIZED (
    SELECT t.task_id FROM queue t
    WHERE t.pool_id = @pool_id::bigint AND t.lane = 32 * @priority::smallint AND t.company_id = @company_id::bigint
        AND t.lease_until IS NULL AND t.lane IS NOT NULL -- PENDING and queued, by queue_order_idx
    ORDER BY t.pool_id, t.lane, t.rank
    LIMIT @portion::integer
),
locked AS MATERIALIZED (
    SELECT t.task_id, t.rank, t.flow_rank, task_flow(t.batch_id, t.submitted_by) AS flow FROM queue t
    WHERE t.task_id = ANY (ARRAY(SELECT w.task_id FROM waiting w)) AND t.lease_until IS NULL AND t.lane = 32 * @priority::smallint
        AND t.pool_id = @pool_id::bigint
    ORDER BY t.task_id
    FOR UPDATE SKIP LOCKED
),
numbered AS MATERIALIZED (
    SELECT l.task_id, l.flow, l.flow_rank, f.step, f.has_flows, least(l.rank, f.rank + f.step * (row_number() OVER (ORDER BY l.rank, l.task_id) - 1)) AS rank,
        row_number() OVER (PARTITION BY l.flow, l.flow_rank IS NULL ORDER BY l.rank, l.task_id) - 1 AS nth_of_flow
    FROM locked l
    CROSS JOIN front f
),
ranked AS MATERIALIZED (
    SELECT n.task_id, n.rank, coalesce(n.flow_rank, n.nth_of_flow * n.step + max(CASE
            WHEN n.nth_of_flow = 0 AND n.flow_rank IS NULL AND n.has_flows
            THEN task_flow_start(@pool_id::bigint, @priority::smallint, @company_id::bigint, n.flow, n.step)
        END) OVER (PARTITION BY n.flow, n.flow_rank IS NULL)) AS flow_rank
    FROM numbered n
),
columns AS MATERIALIZED (
    SELECT array_agg(n.task_id) AS task_ids, array_agg(n.rank) AS ranks, array_agg(n.flow_rank) AS flow_ranks FROM ranked n
),
moved AS (
    UPDATE queue t
    SET (rank, flow_rank) = (
        SELECT c.ranks[i.i], c.flow_ranks[i.i] FROM columns c CROSS JOIN LATERAL (SELECT array_position(c.task_ids, t.task_id) AS i OFFSET 0) i
    )
    WHERE t.task_id = ANY ((SELECT c.task_ids FROM columns c)::text[])
),
finished AS (
    UPDATE fair_ranks r
    SET (start, finish, flow_finish) = (
        SELECT least(r.start, e.finish), least(r.finish, e.finish), CASE WHEN r.flow_finish IS NOT NULL THEN least(r.flow_finish, e.finish) END
        FROM (SELECT coalesce((SELECT max(n.rank) + f.step FROM numbered n), f.rank) AS finish FROM front f) e
    )
    WHERE r.pool_id = @pool_id::bigint AND r.priority = @priority::smallint AND r.company_id = @company_id::bigint
        AND (SELECT count(*) FROM waiting) < @portion::integer AND (SELECT count(*) FROM waiting) = (SELECT count(*) FROM locked)
)
SELECT count(*) FROM numbered;

-- TaskAhead counts the tasks that are claimed before a queued task. It counts at most max_tasks tasks. If two tasks have the same rank, the older task is claimed
-- first. If several flows of the company wait, the task is claimed at the rank of another task of the company. If n tasks of the company are claimed before the
-- task, the task is claimed at the rank of task n + 1 of the company.
-- name: TaskAhead :one
WITH me AS MATERIALIZED (
    SELECT q.*, least(q.flow_rank, q.rank) AS own_rank
    FROM (SELECT * FROM queue WHERE task_id = @task_id::text OFFSET 0) q -- OFFSET 0 forces a lookup by primary key; the planner could otherwise use an index of waiting tasks
    WHERE q.lease_until IS NULL AND q.lane IS NOT NULL -- PENDING and queued
),
waiting AS MATERIALIZED ( -- in the order of claims, by queue_order_idx
    SELECT w.*, row_number() OVER (ORDER BY w.lane, w.rank, w.created_at, w.task_id) AS nth
    FROM me
    CROSS JOIN LATERAL (
        SELECT t.task_id, t.lane, t.rank, t.flow_rank, t.created_at, t.company_id = me.company_id AND t.lane = me.lane AS is_own
        FROM queue t
        WHERE t.pool_id = me.pool_id AND t.lease_until IS NULL AND t.lane IS NOT NULL AND t.lane <= me.lane
        ORDER BY t.pool_id, t.lane, t.rank
        LIMIT @max_tasks::integer
    ) w
),
before AS ( -- the tasks of the same company that are claimed before this task
    SELECT count(*) AS tasks
    FROM (
        SELECT FROM waiting w
        CROSS JOIN me
        WHERE w.is_own AND w.flow_rank IS NULL AND (w.rank, w.task_id) < (me.own_rank, me.task_id)
        UNION ALL
        SELECT FROM me
        CROSS JOIN LATERAL (
            SELECT FROM queue t
            WHERE t.pool_id = me.pool_id AND t.lane = me.lane AND t.company_id = me.company_id
                AND t.lease_until IS NULL AND t.lane IS NOT NULL AND t.flow_rank IS NOT NULL AND (t.flow_rank, t.task_id) < (me.own_rank, me.task_id)
            ORDER BY t.pool_id, t.lane, t.company_id, t.flow_rank, t.task_id -- by queue_flow_ranks_idx
            LIMIT @max_tasks::integer
        ) f
    ) b
),
taken_at AS (
    SELECT w.nth FROM waiting w
    WHERE w.is_own
    ORDER BY w.nth
    OFFSET (SELECT b.tasks FROM before b)
    LIMIT 1
)
SELECT least(@max_tasks::integer, coalesce((SELECT a.nth - 1 FROM taken_at a), (SELECT count(*) FROM waiting w)))::bigint AS ahead;

-- LongestWait returns the longest waiting time of all due tasks, in seconds. It returns 0 if no task is due. It reads the first entry, by due_at, of three
-- indexes: tasks queued with priority 0, tasks queued with another priority, and, for each pool, tasks that are not queued yet.
-- name: LongestWait :one
WITH RECURSIVE unqueued AS ( -- the first unqueued task of each pool; one probe of queue_unqueued_idx for each pool
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
    -- lane / 32 is the priority. The conditions are those of queue_top_idx and queue_waits_idx.
    (SELECT t.due_at FROM queue t WHERE t.lease_until IS NULL AND t.lane < 32 ORDER BY t.due_at LIMIT 1)
    UNION ALL
    (SELECT t.due_at FROM queue t WHERE t.lease_until IS NULL AND t.lane >= 32 ORDER BY t.due_at LIMIT 1)
    UNION ALL
    SELECT u.due_at FROM unqueued u
) w
WHERE w.due_at <= now();

-- CompanyLongestWait returns the longest waiting time of the due tasks of a company, in seconds. It reads the first max_rows entries of queue_top_idx and of
-- queue_waits_idx, for all companies. It returns null if these entries contain no task of the company.
-- name: CompanyLongestWait :one
SELECT extract(epoch FROM now() - min(w.due_at) FILTER (WHERE w.company_id = @company_id::bigint))::float8 AS seconds
FROM (
    (SELECT t.due_at, t.company_id FROM queue t WHERE t.lease_until IS NULL AND t.lane < 32 ORDER BY t.due_at LIMIT @max_rows::integer)
    UNION ALL
    (SELECT t.due_at, t.company_id FROM queue t WHERE t.lease_until IS NULL AND t.lane >= 32 ORDER BY t.due_at LIMIT @max_rows::integer)
) w
WHERE w.due_at <= now();
