-- migrate:up transaction:false
-- Tasks that are released or become due at the same time are queued in the order of their priority. Until then, claims read them in this order, too.
CREATE INDEX CONCURRENTLY IF NOT EXISTS queue_unqueued_idx ON queue (pool_id, due_at, priority) WHERE lease_until IS NULL AND lane IS NULL;

-- migrate:down transaction:false
DROP INDEX CONCURRENTLY IF EXISTS queue_unqueued_idx;
