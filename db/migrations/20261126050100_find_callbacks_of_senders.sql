-- migrate:up transaction:false
-- Callbacks are listed by sender, newest first. The index is built while others write callbacks; the build waits for transactions that began before it.
-- squawk-ignore ban-concurrent-index-creation-in-transaction
CREATE INDEX CONCURRENTLY IF NOT EXISTS callbacks_sender_idx ON callbacks (sender_no, id);

-- migrate:down transaction:false
DROP INDEX CONCURRENTLY IF EXISTS callbacks_sender_idx;
