-- migrate:up transaction:false
-- A submission finds the last waiting task of its flow. The index is empty while no company has two flows waiting.
-- squawk-ignore ban-concurrent-index-creation-in-transaction
CREATE INDEX CONCURRENTLY IF NOT EXISTS queue_flows_idx ON queue (pool_id, lane, company_id, task_flow(batch_id, submitted_by), flow_rank)
    WHERE lease_until IS NULL AND lane IS NOT NULL AND flow_rank IS NOT NULL;

-- migrate:down transaction:false
DROP INDEX CONCURRENTLY IF EXISTS queue_flows_idx;
