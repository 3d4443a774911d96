-- migrate:up transaction:false
-- Events are forgotten, and posted again, by their time. Ids follow times only roughly: the clock may be set back. The index is built while others record;
-- the build waits for transactions that began before it.
-- squawk-ignore ban-concurrent-index-creation-in-transaction
CREATE INDEX CONCURRENTLY IF NOT EXISTS feed_at_idx ON feed (at, id);

-- migrate:down transaction:false
DROP INDEX CONCURRENTLY IF EXISTS feed_at_idx;
