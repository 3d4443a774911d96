-- Adds a column with a constant default: no row is rewritten. Locks messages and its partitions (ACCESS EXCLUSIVE) for an instant.
-- migrate:up
ALTER TABLE messages ADD COLUMN is_sensitive boolean DEFAULT false NOT NULL;
COMMENT ON COLUMN messages.is_sensitive IS
    'content, submitted_content, request_data and contact_values contain a mask instead of the sensitive text. While the message waits, queue.sealed contains this text';

-- migrate:down
ALTER TABLE messages DROP COLUMN is_sensitive;
