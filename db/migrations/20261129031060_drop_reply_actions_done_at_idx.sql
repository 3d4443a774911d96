-- migrate:up transaction:false
DROP INDEX CONCURRENTLY IF EXISTS reply_actions_done_at_idx;

-- migrate:down transaction:false
CREATE INDEX CONCURRENTLY IF NOT EXISTS reply_actions_done_at_idx ON reply_actions (done_at) WHERE done_at IS NOT NULL;
