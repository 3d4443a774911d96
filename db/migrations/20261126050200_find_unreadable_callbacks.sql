-- migrate:up transaction:false
-- Callbacks that could not be read, or not in full, are few among the others. The index is built while others write callbacks; the build waits for
-- transactions that began before it.
-- squawk-ignore ban-concurrent-index-creation-in-transaction
CREATE INDEX CONCURRENTLY IF NOT EXISTS callbacks_unreadable_idx ON callbacks (sender_no, id) WHERE refused IS NOT NULL OR left_out > 0;

-- migrate:down transaction:false
DROP INDEX CONCURRENTLY IF EXISTS callbacks_unreadable_idx;
