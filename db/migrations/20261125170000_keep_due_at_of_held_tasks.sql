-- migrate:up
-- A task of a paused batch keeps the time at which it may be sent, such as that of its next attempt. Adding a column without a default rewrites no row.
SET LOCAL lock_timeout = '5s';
ALTER TABLE queue ADD COLUMN due_when_resumed timestamptz;
COMMENT ON COLUMN queue.due_when_resumed IS
    'the due_at that a held task gets when its batch goes on, unless that is over by then; null: at once. A server that does not know this column leaves old values in it';
COMMENT ON COLUMN queue.entered_at IS
    'when the task first could be claimed: the due_at of its submission; of a requeued task when it was requeued; of one that was held before it was tried, the due_at of its release; null: it was submitted before this column existed';

-- migrate:down
SET LOCAL lock_timeout = '5s';
ALTER TABLE queue DROP COLUMN due_when_resumed;
COMMENT ON COLUMN queue.entered_at IS
    'when the task first could be claimed: the due_at of its submission; of a requeued task when it was requeued; of one that was held when it was released; null: it was submitted before this column existed';
