-- migrate:up
-- The tasks of a batch that are PENDING, to hold, release and cancel them. A leased task is not in the index: a claim adds nothing to it. Building it
-- reads the queue, and keeps writers out meanwhile.
SET LOCAL lock_timeout = '5s';
-- squawk-ignore require-concurrent-index-creation
CREATE INDEX queue_batch_idx ON queue (batch_id, task_id) WHERE batch_id IS NOT NULL AND lease_until IS NULL;

-- migrate:down
DROP INDEX queue_batch_idx;
