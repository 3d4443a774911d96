-- migrate:up
-- The place of a submission in its caller's trace stays with the task. Adding the column locks messages and its partitions for a moment, and
-- rewrites nothing. The server checks the form, so that no constraint has to read all messages. queue has a migration of its own: statements of
-- running servers lock both tables.
SET LOCAL lock_timeout = '5s';
ALTER TABLE messages ADD COLUMN traceparent text;
COMMENT ON COLUMN messages.traceparent IS 'the header traceparent of the submission (W3C Trace Context); null: it had none';

-- migrate:down
SET LOCAL lock_timeout = '5s';
ALTER TABLE messages DROP COLUMN traceparent;
