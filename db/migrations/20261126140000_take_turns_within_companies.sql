-- migrate:up
-- The flows of a company (its submitters and batches) take turns within its share. Adding columns without a default rewrites no row. A server that does
-- not know the columns queues tasks without a flow_rank, and claims by rank alone.
SET LOCAL lock_timeout = '5s';
ALTER TABLE queue ADD COLUMN flow_rank double precision;
COMMENT ON COLUMN queue.rank IS
    'order between companies within a lane, by start-time fair queueing; valid only in the pool and priority in which it was given; a claim may exchange the ranks of two tasks of a company, see flow_rank; null: not given yet';
COMMENT ON COLUMN queue.flow_rank IS
    'order between the tasks of one company within its pool and lane, in the unit of rank and never larger: a claim that finds this task at its rank takes that task of the company with the smallest; null: equal to rank. A server that does not know this column leaves old values in it';

CREATE FUNCTION task_flow(batch_id bigint, submitted_by text) RETURNS text LANGUAGE sql IMMUTABLE
    RETURN coalesce('#' || batch_id::text, submitted_by, '');
COMMENT ON FUNCTION task_flow(bigint, text) IS
    'The flow of a task within its company: its batch, else its submitter. Package queue computes it too.';

CREATE FUNCTION task_flow_start(of_pool bigint, of_priority smallint, of_company bigint, of_flow text, gap double precision) RETURNS double precision
LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET jit = off
AS $$
BEGIN
    -- VOLATILE: it sees what was committed until the caller got the lock of the company's fair_ranks.
    RETURN greatest(
        least(
            (
                SELECT q.flow_rank FROM queue q
                WHERE q.pool_id = of_pool AND q.lane = 32 * of_priority AND q.company_id = of_company
                    AND q.lease_until IS NULL AND q.lane IS NOT NULL AND q.flow_rank IS NOT NULL
                ORDER BY q.flow_rank
                LIMIT 1
            ),
            task_queue_front(of_pool, of_priority)
        ),
        (
            -- The last entry of queue_flows_idx that is not behind the flow. The order names all columns of the index, so that no other one serves.
            SELECT CASE WHEN (l.pool_id, l.lane, l.company_id, l.flow) = (of_pool, 32 * of_priority, of_company, of_flow) THEN l.flow_rank + gap END
            FROM (
                SELECT q.pool_id, q.lane, q.company_id, task_flow(q.batch_id, q.submitted_by) AS flow, q.flow_rank FROM queue q
                WHERE (q.pool_id, q.lane, q.company_id, task_flow(q.batch_id, q.submitted_by)) <= (of_pool, 32 * of_priority, of_company, of_flow)
                    AND q.lease_until IS NULL AND q.lane IS NOT NULL AND q.flow_rank IS NOT NULL
                ORDER BY q.pool_id DESC, q.lane DESC, q.company_id DESC, task_flow(q.batch_id, q.submitted_by) DESC, q.flow_rank DESC
                LIMIT 1
            ) l
        )
    );
END
$$;
COMMENT ON FUNCTION task_flow_start(bigint, smallint, bigint, text, double precision) IS
    'The smallest flow_rank of a new task of a flow: behind the tasks of the flow that have a flow_rank, and not before the first waiting task of its company. gap is 1 / weight of the company; a null flow has no tasks.';

-- migrate:down
SET LOCAL lock_timeout = '5s';
DROP FUNCTION task_flow_start(bigint, smallint, bigint, text, double precision);
ALTER TABLE queue DROP COLUMN flow_rank;
DROP FUNCTION task_flow(bigint, text);
COMMENT ON COLUMN queue.rank IS
    'order within a lane, by start-time fair queueing; valid only in the pool and priority in which it was given; null: not given yet';
