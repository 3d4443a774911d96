-- Statements on the PENDING tasks of batches that are paused, resumed or cancelled. They process the tasks in portions, in the order of task_id. The rules at
-- the beginning of dispatch/claim.sql also apply here. A held task is not queued, and its due time is held_due_at(). Other statements treat a held task as not
-- due, so claims need no condition for held tasks. Statements that hold or release tasks first lock the row of the batch, and check its status. Without this
-- lock, a hold could begin before the batch is resumed and end after the release. The tasks would then be held forever.

-- TaskHold holds the next portion of the PENDING tasks of a paused batch after after_id. It returns the number of held tasks, and the last task of the portion.
-- The statement runs once a second, so it does not lock tasks that are already held.
-- name: TaskHold :one
WITH batch AS MATERIALIZED (
    SELECT b.id FROM batches b WHERE b.id = @batch_id AND b.status = 'paused' FOR SHARE
),
waiting AS MATERIALIZED (
    SELECT t.task_id FROM queue t
    WHERE t.batch_id = (SELECT b.id FROM batch b) AND t.lease_until IS NULL AND t.task_id > @after_id::text -- PENDING, by queue_batch_idx
        AND t.due_at < held_due_at()
    ORDER BY t.batch_id, t.task_id
    LIMIT @portion::integer
    FOR UPDATE
),
held AS (
    UPDATE queue t
    SET lane = NULL, rank = NULL, flow_rank = NULL, due_at = held_due_at(),
        due_when_resumed = CASE WHEN quiet_moved(t) THEN t.due_when_resumed ELSE t.due_at END,
        quiet_from = CASE WHEN quiet_moved(t) THEN 'epoch' ELSE t.quiet_from END -- the sweep then computes the quiet hours of the former due time
    WHERE t.task_id = ANY (ARRAY(SELECT w.task_id FROM waiting w))
    RETURNING t.task_id
)
SELECT coalesce(max(h.task_id), '')::text AS last_id, count(*) AS held FROM held h;

-- TaskUnhold releases the next portion of the held tasks of a running batch after after_id. Tasks that are also held by a switch are not released. It returns
-- the number of released tasks, and the last task of the portion. pool_ids has one entry for each task that is due at once: the pool of the task. A task with a
-- later due time, such as a retry, still waits for this time. Released tasks are queued like all tasks that become due. For a task without an attempt, the
-- waiting time begins again. If caps count the task, quiet_from becomes epoch, so that no claim returns the task before the sweep move-quiet-tasks has checked
-- the caps for the new due time. Otherwise, all messages that were due during the pause would be sent together.
-- name: TaskUnhold :one
WITH batch AS MATERIALIZED (
    SELECT b.id FROM batches b WHERE b.id = @batch_id AND b.status = 'running' FOR SHARE
),
waiting AS MATERIALIZED (
    SELECT t.task_id, t.company_id, t.message_type FROM queue t
    WHERE t.batch_id = (SELECT b.id FROM batch b) AND t.lease_until IS NULL AND t.task_id > @after_id::text -- PENDING, by queue_batch_idx
        AND t.due_at = held_due_at()
        AND NOT EXISTS (SELECT FROM task_switches(t.pool_id, t.company_id, t.country_no, coalesce(t.submitted_by, task_submitter(t.task_id))))
    ORDER BY t.batch_id, t.task_id
    LIMIT @portion::integer
    FOR UPDATE
),
moment AS MATERIALIZED (
    SELECT clock_timestamp() AS at FROM (SELECT count(*) FROM waiting) w -- depends on waiting, so the time is read after the rows are locked
),
capped AS MATERIALIZED (
    SELECT d.company_id, d.message_type
    FROM (SELECT DISTINCT w.company_id, w.message_type FROM waiting w OFFSET 0) d -- OFFSET 0: call has_caps after DISTINCT, not for each task
    WHERE has_caps(d.company_id, d.message_type)
),
released AS (
    UPDATE queue t
    SET (due_at, entered_at) = (
            -- entered_at of a task with an attempt does not change, because entered_at is part of the key by which a provider recognises a repeated message.
            SELECT d.at, CASE WHEN t.retry_count > 0 OR t.troubles > 0 THEN t.entered_at ELSE d.at END
            FROM (SELECT greatest(moment.at, t.due_when_resumed) AS at FROM moment) d
        ),
        due_when_resumed = NULL,
        quiet_from = CASE WHEN (t.company_id, t.message_type) IN (SELECT c.company_id, c.message_type FROM capped c) AND is_counted_by_caps(t)
            THEN 'epoch' ELSE t.quiet_from END
    WHERE t.task_id = ANY (ARRAY(SELECT w.task_id FROM waiting w))
    RETURNING t.task_id, t.pool_id, t.due_at
)
SELECT coalesce(max(r.task_id), '')::text AS last_id, count(*) AS released,
    coalesce(array_agg(r.pool_id) FILTER (WHERE r.due_at <= (SELECT moment.at FROM moment)), '{}')::bigint[] AS pool_ids
FROM released r;

-- The next statements hold the tasks to which a switch applies (task_switches), so that claims do not skip the same tasks again and again. They also release
-- tasks to which no switch applies any more. DirectoryHold runs first, in the same transaction. A change of the directory then waits until the tasks are held,
-- and a later release sees these tasks.

-- DirectoryHold locks the directory against changes until the end of the transaction. It returns whether any switch can hold tasks now.
-- name: DirectoryHold :one
SELECT coalesce((SELECT w.may_hold OR w.has_disabled_users FROM switches w), false)::boolean AS may_hold FROM directory_version v FOR SHARE OF v;

-- TaskHoldSwitched holds tasks to which a switch applies, and returns their number. The caller repeats the statement until it returns 0. The statement reads
-- the tasks that claims and LongestWait would read: (1) the first `portion` queued tasks of each pool, (2) the
-- first `portion` tasks of each pool that are not queued, (3) of all pools, the queued tasks that have been due longest: `portion` with priority 0, and `portion`
-- with another priority.
-- name: TaskHoldSwitched :one
WITH RECURSIVE queued_pools AS ( -- one probe of queue_order_idx for each pool
    (
        SELECT t.pool_id FROM queue t WHERE t.lease_until IS NULL AND t.lane IS NOT NULL -- PENDING and queued
        ORDER BY t.pool_id, t.lane, t.rank LIMIT 1
    )
    UNION ALL
    SELECT n.pool_id
    FROM queued_pools p
    CROSS JOIN LATERAL (
        SELECT t.pool_id FROM queue t WHERE t.pool_id > p.pool_id AND t.lease_until IS NULL AND t.lane IS NOT NULL
        ORDER BY t.pool_id, t.lane, t.rank LIMIT 1
    ) n
),
unqueued_pools AS ( -- one probe of queue_unqueued_idx for each pool
    (
        SELECT t.pool_id FROM queue t WHERE t.lease_until IS NULL AND t.lane IS NULL AND t.due_at < held_due_at() -- PENDING, neither queued nor held
        ORDER BY t.pool_id, t.due_at LIMIT 1
    )
    UNION ALL
    SELECT n.pool_id
    FROM unqueued_pools p
    CROSS JOIN LATERAL (
        SELECT t.pool_id FROM queue t WHERE t.pool_id > p.pool_id AND t.lease_until IS NULL AND t.lane IS NULL AND t.due_at < held_due_at()
        ORDER BY t.pool_id, t.due_at LIMIT 1
    ) n
),
met AS MATERIALIZED (
    SELECT f.*
    FROM queued_pools p
    CROSS JOIN LATERAL (
        SELECT t.task_id, t.pool_id, t.company_id, t.country_no, t.submitted_by FROM queue t
        WHERE t.pool_id = p.pool_id AND t.lease_until IS NULL AND t.lane IS NOT NULL
        ORDER BY t.lane, t.rank LIMIT @portion::integer
    ) f
    UNION ALL
    SELECT f.*
    FROM unqueued_pools p
    CROSS JOIN LATERAL (
        SELECT t.task_id, t.pool_id, t.company_id, t.country_no, t.submitted_by FROM queue t
        WHERE t.pool_id = p.pool_id AND t.lease_until IS NULL AND t.lane IS NULL AND t.due_at < held_due_at()
        ORDER BY t.due_at LIMIT @portion::integer
    ) f
    UNION ALL
    (
        SELECT t.task_id, t.pool_id, t.company_id, t.country_no, t.submitted_by FROM queue t
        WHERE t.lease_until IS NULL AND t.lane < 32 -- by queue_top_idx
        ORDER BY t.due_at LIMIT @portion::integer
    )
    UNION ALL
    (
        SELECT t.task_id, t.pool_id, t.company_id, t.country_no, t.submitted_by FROM queue t
        WHERE t.lease_until IS NULL AND t.lane >= 32 -- by queue_low_idx
        ORDER BY t.due_at LIMIT @portion::integer
    )
),
found AS MATERIALIZED (
    SELECT DISTINCT m.task_id FROM met m
    WHERE EXISTS (SELECT FROM task_switches(m.pool_id, m.company_id, m.country_no, coalesce(m.submitted_by, task_submitter(m.task_id))))
),
locked AS MATERIALIZED (
    SELECT t.task_id FROM queue t
    WHERE t.task_id = ANY (ARRAY(SELECT f.task_id FROM found f)) AND t.lease_until IS NULL AND t.due_at < held_due_at()
    ORDER BY t.task_id
    FOR UPDATE SKIP LOCKED
),
held AS (
    UPDATE queue t
    SET lane = NULL, rank = NULL, flow_rank = NULL, due_at = held_due_at(),
        due_when_resumed = CASE WHEN quiet_moved(t) THEN t.due_when_resumed ELSE t.due_at END,
        quiet_from = CASE WHEN quiet_moved(t) THEN 'epoch' ELSE t.quiet_from END
    WHERE t.task_id = ANY (ARRAY(SELECT l.task_id FROM locked l))
    RETURNING t.task_id
)
SELECT count(*) FROM held;

-- TaskReleaseSwitched releases held tasks that are held neither by a switch nor by their batch, by priority, up to `portion` for each pool. Due times change,
-- and caps are checked, as in TaskUnhold. It returns the number of released tasks. pool_ids has one entry for each task that is due at once: the pool of the
-- task. A batch that was paused and then cancelled holds its tasks until all its tasks are cancelled (is_settled). If the tasks were released earlier, they
-- would be sent.
-- name: TaskReleaseSwitched :one
WITH RECURSIVE held_pools AS ( -- one probe of queue_unqueued_idx for each pool with tasks that are not queued
    (
        SELECT t.pool_id FROM queue t WHERE t.lease_until IS NULL AND t.lane IS NULL
        ORDER BY t.pool_id, t.due_at
        LIMIT 1
    )
    UNION ALL
    SELECT n.pool_id
    FROM held_pools p
    CROSS JOIN LATERAL (
        SELECT t.pool_id FROM queue t WHERE t.pool_id > p.pool_id AND t.lease_until IS NULL AND t.lane IS NULL
        ORDER BY t.pool_id, t.due_at
        LIMIT 1
    ) n
),
free AS MATERIALIZED (
    SELECT f.*
    FROM held_pools p
    CROSS JOIN LATERAL (
        SELECT t.task_id, t.company_id, t.message_type FROM queue t
        WHERE t.pool_id = p.pool_id AND t.lease_until IS NULL AND t.lane IS NULL AND t.due_at = held_due_at()
            AND NOT EXISTS (SELECT FROM batches b WHERE b.id = t.batch_id AND (b.status = 'paused' OR b.status = 'cancelled' AND NOT b.is_settled))
            AND NOT EXISTS (SELECT FROM task_switches(t.pool_id, t.company_id, t.country_no, coalesce(t.submitted_by, task_submitter(t.task_id))))
        ORDER BY t.due_at, t.priority
        LIMIT @portion::integer
        FOR UPDATE OF t SKIP LOCKED
    ) f
),
moment AS MATERIALIZED (
    SELECT clock_timestamp() AS at FROM (SELECT count(*) FROM free) f -- depends on free, so the time is read after the rows are locked
),
capped AS MATERIALIZED (
    SELECT d.company_id, d.message_type
    FROM (SELECT DISTINCT f.company_id, f.message_type FROM free f OFFSET 0) d -- OFFSET 0: call has_caps after DISTINCT, not for each task
    WHERE has_caps(d.company_id, d.message_type)
),
released AS (
    UPDATE queue t
    SET (due_at, entered_at) = (
            -- The same rule as in TaskUnhold.
            SELECT d.at, CASE WHEN t.retry_count > 0 OR t.troubles > 0 THEN t.entered_at ELSE d.at END
            FROM (SELECT greatest(moment.at, t.due_when_resumed) AS at FROM moment) d
        ),
        due_when_resumed = NULL,
        quiet_from = CASE WHEN (t.company_id, t.message_type) IN (SELECT c.company_id, c.message_type FROM capped c) AND is_counted_by_caps(t)
            THEN 'epoch' ELSE t.quiet_from END
    WHERE t.task_id = ANY (ARRAY(SELECT f.task_id FROM free f))
    RETURNING t.pool_id, t.due_at
)
SELECT count(*) AS released,
    coalesce(array_agg(r.pool_id) FILTER (WHERE r.due_at <= (SELECT moment.at FROM moment)), '{}')::bigint[] AS pool_ids
FROM released r;

-- TasksHeld returns the switches that hold tasks, and the number of tasks that each switch holds, the largest number first. company_id null: tasks of all
-- companies. The statement counts only the first max_tasks held tasks of each pool. A task that is held by several switches counts for each of them.
-- name: TasksHeld :many
SELECT w.switch::text AS switch, w.name::text AS name, sum(g.tasks)::bigint AS tasks
FROM (
    SELECT p.id AS pool_id, h.company_id, h.country_no, h.submitted_by, count(*) AS tasks
    FROM pools p
    CROSS JOIN LATERAL (
        SELECT t.company_id, t.country_no, coalesce(t.submitted_by, '') AS submitted_by FROM queue t
        WHERE t.pool_id = p.id AND t.lease_until IS NULL AND t.lane IS NULL AND t.due_at = held_due_at() -- by queue_unqueued_idx
            AND (sqlc.narg(company_id)::bigint IS NULL OR t.company_id = sqlc.narg(company_id)::bigint)
        LIMIT @max_tasks::integer
    ) h
    GROUP BY p.id, h.company_id, h.country_no, h.submitted_by
) g
CROSS JOIN LATERAL task_switches(g.pool_id, g.company_id, g.country_no, g.submitted_by) w
GROUP BY w.switch, w.name
ORDER BY tasks DESC, w.switch, w.name
LIMIT @named::integer;

-- ClaimsOpen returns the open transactions that can contain a claim.
-- name: ClaimsOpen :many
SELECT o.transaction::text AS transaction FROM queue_transactions() o (transaction) ORDER BY o.transaction;

-- TaskIDsWaiting returns the next PENDING tasks of a batch after after_id.
-- name: TaskIDsWaiting :many
SELECT t.task_id FROM queue t
WHERE t.batch_id = @batch_id::bigint AND t.lease_until IS NULL AND t.task_id > @after_id::text -- by queue_batch_idx
ORDER BY t.batch_id, t.task_id
LIMIT @portion::integer;

-- TasksWaiting returns the number of PENDING tasks of a batch, and of those that are due. It counts at most max_tasks tasks. It takes 1 ms for 10,000 tasks, and
-- 20 ms for 100,000.
-- name: TasksWaiting :one
SELECT count(*) AS tasks, count(*) FILTER (WHERE w.due_at <= now()) AS due FROM (
    SELECT t.due_at FROM queue t WHERE t.batch_id = @batch_id::bigint AND t.lease_until IS NULL LIMIT @max_tasks::integer -- by queue_batch_idx
) w;
