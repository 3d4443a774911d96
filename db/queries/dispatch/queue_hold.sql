-- Batches that are paused, resumed and cancelled: their PENDING tasks, in portions in the order of task_id. The rules at the head of queue_claim.sql
-- hold here too. A held task waits unqueued, and is due at held_due_at(): no other statement takes it for due, so a claim does not know of it.
-- Holding and releasing lock the row of the batch in its status first: a hold that began before the batch was resumed must not end after it, or the
-- tasks would be held for ever.

-- TaskHold holds the next portion of the PENDING tasks of a paused batch after a task, and returns how many, and the last one. It looks at those that are
-- held already, but locks none: it runs once a second.
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
    UPDATE queue t SET lane = NULL, rank = NULL, due_when_resumed = t.due_at, due_at = held_due_at()
    WHERE t.task_id = ANY (ARRAY(SELECT w.task_id FROM waiting w))
    RETURNING t.task_id
)
SELECT coalesce(max(h.task_id), '')::text AS last_id, count(*) AS held FROM held h;

-- TaskUnhold releases the next portion of the held tasks of a running batch after a task, and returns how many, the last one, and the pools of those
-- that are due at once (pool_ids has one for each). A task that was to wait longer, such as a retry, does so. They are queued like all tasks that come
-- due. How long a task waited before does not count, unless it was tried.
-- name: TaskUnhold :one
WITH batch AS MATERIALIZED (
    SELECT b.id FROM batches b WHERE b.id = @batch_id AND b.status = 'running' FOR SHARE
),
waiting AS MATERIALIZED (
    SELECT t.task_id FROM queue t
    WHERE t.batch_id = (SELECT b.id FROM batch b) AND t.lease_until IS NULL AND t.task_id > @after_id::text -- PENDING, by queue_batch_idx
        AND t.due_at = held_due_at()
    ORDER BY t.batch_id, t.task_id
    LIMIT @portion::integer
    FOR UPDATE
),
moment AS MATERIALIZED (
    SELECT clock_timestamp() AS at FROM (SELECT count(*) FROM waiting) w -- depends on waiting, so it is read after the rows are locked
),
released AS (
    UPDATE queue t
    SET (due_at, entered_at) = (
            -- Of a task that was tried, entered_at stays: it is part of the key by which a provider knows a message again.
            SELECT d.at, CASE WHEN t.retry_count > 0 OR t.troubles > 0 THEN t.entered_at ELSE d.at END
            FROM (SELECT greatest(moment.at, t.due_when_resumed) AS at FROM moment) d
        ),
        due_when_resumed = NULL
    WHERE t.task_id = ANY (ARRAY(SELECT w.task_id FROM waiting w))
    RETURNING t.task_id, t.pool_id, t.due_at
)
SELECT coalesce(max(r.task_id), '')::text AS last_id, count(*) AS released,
    coalesce(array_agg(r.pool_id) FILTER (WHERE r.due_at <= (SELECT moment.at FROM moment)), '{}')::bigint[] AS pool_ids
FROM released r;

-- TaskIDsWaiting returns the next PENDING tasks of a batch after a task.
-- name: TaskIDsWaiting :many
SELECT t.task_id FROM queue t
WHERE t.batch_id = @batch_id::bigint AND t.lease_until IS NULL AND t.task_id > @after_id::text -- by queue_batch_idx
ORDER BY t.batch_id, t.task_id
LIMIT @portion::integer;

-- TasksWaiting returns how many tasks of a batch are PENDING, counted up to most.
-- name: TasksWaiting :one
SELECT count(*) FROM (
    SELECT FROM queue t WHERE t.batch_id = @batch_id::bigint AND t.lease_until IS NULL LIMIT @most::integer -- by queue_batch_idx
) w;
