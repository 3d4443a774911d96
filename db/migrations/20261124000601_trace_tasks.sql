-- migrate:up
-- The place of a submission in its caller's trace stays with the task. Adding the columns locks queue and all partitions of messages for a moment,
-- and rewrites nothing. The server checks the form, so that no constraint has to read all messages.
ALTER TABLE messages ADD COLUMN traceparent text;
COMMENT ON COLUMN messages.traceparent IS 'the header traceparent of the submission (W3C Trace Context); null: it had none';
ALTER TABLE queue ADD COLUMN traceparent text;
COMMENT ON COLUMN queue.traceparent IS 'as messages.traceparent';

-- migrate:down
ALTER TABLE queue DROP COLUMN traceparent;
ALTER TABLE messages DROP COLUMN traceparent;
