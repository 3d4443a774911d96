-- migrate:up transaction:false
-- queue_waits_idx has the same rows in the same order.
DROP INDEX CONCURRENTLY IF EXISTS queue_low_idx;

-- migrate:down transaction:false
-- squawk-ignore ban-concurrent-index-creation-in-transaction
CREATE INDEX CONCURRENTLY IF NOT EXISTS queue_low_idx ON queue (due_at) WHERE lease_until IS NULL AND lane >= 32;
