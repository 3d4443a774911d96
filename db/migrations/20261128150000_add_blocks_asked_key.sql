-- migrate:up transaction:false
CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS blocks_asked_key ON blocks (recipient_hash, scope, coalesce(company_id, 0), (asked_at IS NULL));

-- migrate:down transaction:false
DROP INDEX CONCURRENTLY IF EXISTS blocks_asked_key;
