-- migrate:up transaction:false
CREATE INDEX CONCURRENTLY IF NOT EXISTS receipts_other_nos_idx ON receipts USING gin (other_nos) WHERE matched_at IS NULL;

-- migrate:down transaction:false
DROP INDEX CONCURRENTLY IF EXISTS receipts_other_nos_idx;
