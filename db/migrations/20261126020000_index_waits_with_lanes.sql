-- migrate:up transaction:false
-- Tasks that waited too long are queued behind real-time messages, and so stay among the tasks below priority 0: the sweep that looks for others
-- passes them over by the lane in the index. The build waits for transactions that began before it. It also serves the statements of the version
-- before, which compare due_at alone.
-- squawk-ignore ban-concurrent-index-creation-in-transaction
CREATE INDEX CONCURRENTLY IF NOT EXISTS queue_waits_idx ON queue (due_at, lane) WHERE lease_until IS NULL AND lane >= 32;

-- migrate:down transaction:false
DROP INDEX CONCURRENTLY IF EXISTS queue_waits_idx;
