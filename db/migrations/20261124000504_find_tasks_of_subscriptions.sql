-- migrate:up
-- A requeue of a send-once message looks its task up. Writes of subscribe_messages wait while the index is built.
-- squawk-ignore require-concurrent-index-creation
CREATE INDEX subscribe_messages_task_idx ON subscribe_messages (task_id);

-- migrate:down
DROP INDEX subscribe_messages_task_idx;
