-- migrate:up transaction:false
-- A claim finds the next task of a company whose flows take turns. The index is empty while no company has two flows waiting.
-- squawk-ignore ban-concurrent-index-creation-in-transaction
CREATE INDEX CONCURRENTLY IF NOT EXISTS queue_flow_ranks_idx ON queue (pool_id, lane, company_id, flow_rank, task_id)
    WHERE lease_until IS NULL AND lane IS NOT NULL AND flow_rank IS NOT NULL;

-- migrate:down transaction:false
DROP INDEX CONCURRENTLY IF EXISTS queue_flow_ranks_idx;
