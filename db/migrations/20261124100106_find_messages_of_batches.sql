-- migrate:up
-- Tasks are listed by their batch. No message has one yet: building the index reads the table, and keeps writers out meanwhile.
SET LOCAL lock_timeout = '5s';
-- squawk-ignore require-concurrent-index-creation
CREATE INDEX messages_batch_idx ON messages (batch_id, task_id) WHERE batch_id IS NOT NULL;

-- migrate:down
DROP INDEX messages_batch_idx;
