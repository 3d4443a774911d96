-- migrate:up transaction:false
DROP INDEX CONCURRENTLY IF EXISTS blocks_recipient_hash_key;

-- migrate:down transaction:false
CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS blocks_recipient_hash_key ON blocks (recipient_hash, scope, coalesce(company_id, 0), (received_id IS NULL));
