-- migrate:up
-- Adds columns, which rewrites nothing: locks the table for a moment.
ALTER TABLE queue ADD COLUMN submitted_by text;
COMMENT ON COLUMN queue.submitted_by IS
    'the user whose task it is, as in messages; null: the task was stored by a server that did not know the column';

-- migrate:down
ALTER TABLE queue DROP COLUMN submitted_by;
