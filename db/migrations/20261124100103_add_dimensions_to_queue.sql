-- migrate:up
-- This locks queue for a moment, and rewrites nothing. See add_dimensions_to_facts. Tests that wait or are leased already are not told apart.
SET LOCAL lock_timeout = '5s';
ALTER TABLE queue
    ADD COLUMN batch_id bigint,
    ADD COLUMN is_test boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN queue.batch_id IS 'as messages.batch_id';
COMMENT ON COLUMN queue.is_test IS 'as messages.is_test; false: also a task that is older than this column';

-- migrate:down
SET LOCAL lock_timeout = '5s';
ALTER TABLE queue DROP COLUMN batch_id, DROP COLUMN is_test;
