-- migrate:up transaction:false
CREATE INDEX CONCURRENTLY IF NOT EXISTS queue_quiet_idx ON queue (quiet_from, task_id) WHERE lease_until IS NULL AND quiet_from IS NOT NULL AND due_at < held_due_at();

-- migrate:down transaction:false
DROP INDEX CONCURRENTLY IF EXISTS queue_quiet_idx;
