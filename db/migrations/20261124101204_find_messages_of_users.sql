-- migrate:up
-- The erasure of a person finds the messages of notifications by their user. Only messages of notifications are in the index. Building it reads the table,
-- and keeps writers out meanwhile.
SET LOCAL lock_timeout = '5s';
-- squawk-ignore require-concurrent-index-creation
CREATE INDEX messages_user_idx ON messages (company_id, user_id, task_id) WHERE user_id IS NOT NULL;

-- migrate:down
DROP INDEX messages_user_idx;
