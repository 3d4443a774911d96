-- migrate:up
-- The batch of a task, and the only sender that may send it. This locks messages and its partitions for a moment, and rewrites nothing. See
-- add_dimensions_to_facts.
SET LOCAL lock_timeout = '5s';
ALTER TABLE messages
    ADD COLUMN batch_id bigint,
    ADD COLUMN sender_no text;
COMMENT ON COLUMN messages.batch_id IS 'the uploaded list that the task is from; null: none. No foreign key: each submission would lock the batch';
COMMENT ON COLUMN messages.sender_no IS 'the only sender that may send the task; null: any that serves its pool';

-- migrate:down
SET LOCAL lock_timeout = '5s';
ALTER TABLE messages DROP COLUMN batch_id, DROP COLUMN sender_no;
