-- migrate:up transaction:false
-- Keys are deleted by their day. The index is small, because PostgreSQL stores each day once for many keys. It is built while others write keys; the build
-- waits for transactions that began before it.
-- squawk-ignore ban-concurrent-index-creation-in-transaction
CREATE INDEX CONCURRENTLY IF NOT EXISTS dedup_keys_made_on_idx ON dedup_keys (made_on);

-- migrate:down transaction:false
DROP INDEX CONCURRENTLY IF EXISTS dedup_keys_made_on_idx;
