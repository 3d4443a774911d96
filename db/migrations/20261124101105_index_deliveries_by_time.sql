-- migrate:up transaction:false
-- The attempts of a day are found by their time. Rows are stored in the order of their times, so a summary of each few pages is enough: it costs an
-- insert next to nothing. The index is built while others report; the build waits for transactions that began before it.
-- squawk-ignore ban-concurrent-index-creation-in-transaction
CREATE INDEX CONCURRENTLY IF NOT EXISTS deliveries_created_at_idx ON deliveries USING brin (created_at) WITH (pages_per_range = 32, autosummarize = true);

-- migrate:down transaction:false
DROP INDEX CONCURRENTLY IF EXISTS deliveries_created_at_idx;
