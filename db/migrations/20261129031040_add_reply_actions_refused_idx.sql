-- migrate:up transaction:false
CREATE INDEX CONCURRENTLY IF NOT EXISTS reply_actions_refused_idx ON reply_actions (company_id) WHERE refused IS NOT NULL;

-- migrate:down transaction:false
DROP INDEX CONCURRENTLY IF EXISTS reply_actions_refused_idx;
