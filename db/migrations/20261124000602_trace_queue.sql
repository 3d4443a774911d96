-- migrate:up
-- This locks queue for a moment, and rewrites nothing. See trace_messages.
SET LOCAL lock_timeout = '5s';
ALTER TABLE queue ADD COLUMN traceparent text;
COMMENT ON COLUMN queue.traceparent IS 'as messages.traceparent';

-- migrate:down
SET LOCAL lock_timeout = '5s';
ALTER TABLE queue DROP COLUMN traceparent;
