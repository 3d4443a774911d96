-- migrate:up
-- task_ranks_reserve is the start-time fair queueing of TaskSubmit and TaskQueue. It is plpgsql because the plan of an SQL function is not kept between calls.
CREATE FUNCTION task_ranks_reserve(task_ids text[], pool_ids bigint[], priorities smallint[], company_ids bigint[], flows text[])
RETURNS TABLE (task_id text, rank double precision, flow_rank double precision)
LANGUAGE plpgsql VOLATILE STRICT ROWS 100 AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH asked AS MATERIALIZED (
        -- The collation of an argument becomes the collation of all texts of the function. task_flow_start needs the collation of queue_flows_idx.
        SELECT a.task_id, a.pool_id, a.priority, a.company_id, a.flow COLLATE "default" AS flow, 1 / c.weight AS gap,
            row_number() OVER (PARTITION BY a.pool_id, a.priority, a.company_id ORDER BY a.i) - 1 AS nth,
            row_number() OVER (PARTITION BY a.pool_id, a.priority, a.company_id, a.flow ORDER BY a.i) - 1 AS nth_of_flow
        FROM unnest(task_ids, pool_ids, priorities, company_ids, flows) WITH ORDINALITY AS a (task_id, pool_id, priority, company_id, flow, i)
        JOIN companies c ON c.id = a.company_id
    ),
    reserved AS (
        INSERT INTO fair_ranks AS f (pool_id, priority, company_id, start, finish, flow, flow_finish)
        SELECT g.pool_id, g.priority, g.company_id, v.front, v.front + g.width, g.flow, CASE WHEN g.flow IS NULL THEN v.front END
        FROM (
            SELECT a.pool_id, a.priority, a.company_id, count(*) * a.gap AS width, CASE WHEN min(a.flow) = max(a.flow) THEN min(a.flow) END AS flow
            FROM asked a
            GROUP BY a.pool_id, a.priority, a.company_id, a.gap
        ) g
        CROSS JOIN LATERAL (SELECT task_queue_front(g.pool_id, g.priority) AS front OFFSET 0) v -- OFFSET 0: task_queue_front is called once for each group
        ORDER BY g.pool_id, g.priority, g.company_id
        ON CONFLICT (pool_id, priority, company_id) DO UPDATE
        SET start = greatest(f.finish, excluded.start),
            finish = greatest(f.finish, excluded.start) + (excluded.finish - excluded.start),
            flow = CASE WHEN f.finish <= excluded.start THEN excluded.flow ELSE f.flow END, -- if finish is before the front, no task of the company waits
            flow_finish = CASE
                WHEN f.finish <= excluded.start AND excluded.flow IS NOT NULL THEN NULL
                WHEN f.flow = excluded.flow THEN f.flow_finish
                ELSE coalesce(f.flow_finish, f.finish)
            END
        RETURNING f.pool_id, f.priority, f.company_id, f.start, f.flow, f.flow_finish
    )
    SELECT a.task_id, r.start + a.nth * a.gap,
        -- The first task of a flow determines where the flow starts.
        a.nth_of_flow * a.gap + max(CASE WHEN a.nth_of_flow = 0 AND r.flow_finish IS NOT NULL THEN greatest(
            task_flow_start(a.pool_id, a.priority, a.company_id, a.flow, a.gap), CASE WHEN r.flow = a.flow OR r.flow IS NULL THEN r.flow_finish END
        ) END) OVER (PARTITION BY a.pool_id, a.priority, a.company_id, a.flow)
    FROM asked a
    JOIN reserved r ON r.pool_id = a.pool_id AND r.priority = a.priority AND r.company_id = a.company_id;
END
$$;
COMMENT ON FUNCTION task_ranks_reserve(text[], bigint[], smallint[], bigint[], text[]) IS
    'Reserves the ranks of tasks by start-time fair queueing, and returns the rank and the flow_rank of each task. The arrays have one element for each task, in the order of the tasks. A group is the tasks of one pool, priority and company. A group receives the next range of ranks of its company, but never a range before the head of the queue. A task uses 1 / weight of its company. While tasks of one flow of a company wait, tasks of its other flows receive a flow_rank, by start-time fair queueing within the company. The rows of fair_ranks are locked in one order until the transaction ends, so that ranks ascend in the order in which tasks become visible.';
COMMENT ON FUNCTION task_flow(bigint, text) IS
    'Returns the flow of a task within its company: its batch, or else its submitter.';

-- migrate:down
COMMENT ON FUNCTION task_flow(bigint, text) IS
    'Returns the flow of a task within its company: its batch, or else its submitter. Package queue computes the same value.';
DROP FUNCTION task_ranks_reserve(text[], bigint[], smallint[], bigint[], text[]);
