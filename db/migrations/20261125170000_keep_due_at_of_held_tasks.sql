-- migrate:up
-- A task of a paused batch keeps the time at which it may be sent, such as that of its next attempt. Adding a column without a default rewrites no row.
SET LOCAL lock_timeout = '5s';
ALTER TABLE queue ADD COLUMN due_when_resumed timestamptz;
COMMENT ON COLUMN queue.due_when_resumed IS
    'the due_at that a held task gets when its batch goes on, unless that is over by then; null: none, or a server that does not know this column held it';

-- migrate:down
SET LOCAL lock_timeout = '5s';
ALTER TABLE queue DROP COLUMN due_when_resumed;
