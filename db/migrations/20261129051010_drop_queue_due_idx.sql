-- migrate:up transaction:false
-- queue_unqueued_idx has the same columns and one more.
DROP INDEX CONCURRENTLY IF EXISTS queue_due_idx;

-- migrate:down transaction:false
CREATE INDEX CONCURRENTLY IF NOT EXISTS queue_due_idx ON queue (pool_id, due_at) WHERE lease_until IS NULL AND lane IS NULL;
