-- migrate:up
-- Several flows of a company that entered an empty queue in one statement did not take turns. task_flow_start saw the ranks that the statement had just
-- reserved as the front of the queue, so that each flow started after all of these ranks. Now a flow starts at the latest at the first of these ranks.
-- The order within flows is computed only for companies with several flows.
CREATE FUNCTION task_flow_start(
    of_pool bigint, of_priority smallint, of_company bigint, of_flow text, gap double precision, range_start double precision
) RETURNS double precision
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
            task_queue_front(of_pool, of_priority), -- in an empty queue, after the ranks that the caller has reserved
            range_start
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
COMMENT ON FUNCTION task_flow_start(bigint, smallint, bigint, text, double precision, double precision) IS
    'Returns the smallest flow_rank that a new task of a flow can receive. It is greater than every flow_rank in the flow, and not before the first waiting task of the company. gap is 1 / weight of the company. A null flow has no tasks. range_start is the first of the ranks that the caller has reserved for the company.';

CREATE OR REPLACE FUNCTION task_flow_start(of_pool bigint, of_priority smallint, of_company bigint, of_flow text, gap double precision) RETURNS double precision
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN task_flow_start(of_pool, of_priority, of_company, of_flow, gap, 'infinity');
END
$$;
COMMENT ON FUNCTION task_flow_start(bigint, smallint, bigint, text, double precision) IS
    'Returns the smallest flow_rank that a new task of a flow can receive, if the caller has reserved no ranks.';

CREATE OR REPLACE FUNCTION task_ranks_reserve(task_ids text[], pool_ids bigint[], priorities smallint[], company_ids bigint[], flows text[])
RETURNS TABLE (task_id text, rank double precision, flow_rank double precision)
LANGUAGE plpgsql VOLATILE STRICT ROWS 100 AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH asked AS MATERIALIZED (
        -- The collation of an argument becomes the collation of all texts of the function. task_flow_start needs the collation of queue_flows_idx.
        SELECT a.task_id, a.pool_id, a.priority, a.company_id, a.flow COLLATE "default" AS flow, 1 / c.weight AS gap,
            row_number() OVER (PARTITION BY a.pool_id, a.priority, a.company_id ORDER BY a.i) - 1 AS nth
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
    ),
    flow_ranks AS ( -- of companies with several flows; for the others, this reads nothing
        SELECT t.task_id,
            -- The first task of a flow determines where the flow starts.
            t.nth_of_flow * t.gap + max(CASE WHEN t.nth_of_flow = 0 THEN greatest(
                task_flow_start(t.pool_id, t.priority, t.company_id, t.flow, t.gap, t.start),
                CASE WHEN t.only_flow = t.flow OR t.only_flow IS NULL THEN t.flow_finish END
            ) END) OVER (PARTITION BY t.pool_id, t.priority, t.company_id, t.flow) AS flow_rank
        FROM (
            SELECT a.*, r.start, r.flow AS only_flow, r.flow_finish,
                row_number() OVER (PARTITION BY a.pool_id, a.priority, a.company_id, a.flow ORDER BY a.nth) - 1 AS nth_of_flow
            FROM reserved r
            JOIN asked a ON a.pool_id = r.pool_id AND a.priority = r.priority AND a.company_id = r.company_id
            WHERE r.flow_finish IS NOT NULL
        ) t
    )
    SELECT a.task_id, r.start + a.nth * a.gap, w.flow_rank
    FROM asked a
    JOIN reserved r ON r.pool_id = a.pool_id AND r.priority = a.priority AND r.company_id = a.company_id
    LEFT JOIN flow_ranks w ON w.task_id = a.task_id;
END
$$;

-- migrate:down
CREATE OR REPLACE FUNCTION task_ranks_reserve(task_ids text[], pool_ids bigint[], priorities smallint[], company_ids bigint[], flows text[])
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

CREATE OR REPLACE FUNCTION task_flow_start(of_pool bigint, of_priority smallint, of_company bigint, of_flow text, gap double precision) RETURNS double precision
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
    'Returns the smallest flow_rank that a new task of a flow can receive. It is greater than every flow_rank in the flow, and not before the first waiting task of the company. gap is 1 / weight of the company. A null flow has no tasks.';

DROP FUNCTION task_flow_start(bigint, smallint, bigint, text, double precision, double precision);
