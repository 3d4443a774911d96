-- migrate:up transaction:false
-- Receipts that match no message are listed, counted and watched; they are few among the others. The index is built while others write receipts; the
-- build waits for transactions that began before it.
-- squawk-ignore ban-concurrent-index-creation-in-transaction
CREATE INDEX CONCURRENTLY IF NOT EXISTS receipts_unmatched_idx ON receipts (sender_no, id) WHERE matched_at IS NULL;

-- migrate:down transaction:false
DROP INDEX CONCURRENTLY IF EXISTS receipts_unmatched_idx;
