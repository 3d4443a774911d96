-- migrate:up transaction:false
CREATE INDEX CONCURRENTLY IF NOT EXISTS reply_actions_counted_idx ON reply_actions (company_id, phone_number, created_at) WHERE outcome IN ('done', 'partly');

-- migrate:down transaction:false
DROP INDEX CONCURRENTLY IF EXISTS reply_actions_counted_idx;
