-- Adds an empty column: no row is rewritten. Locks queue (ACCESS EXCLUSIVE) for an instant.
-- migrate:up
ALTER TABLE queue ADD COLUMN sealed text;
COMMENT ON COLUMN queue.sealed IS
    'the text and the contact_values of a sensitive message, encrypted with SECRETS_KEY. They are deleted with the row when the task ends. null: the message is not sensitive';

-- migrate:down
ALTER TABLE queue DROP COLUMN sealed;
