-- migrate:up transaction:false
DROP INDEX CONCURRENTLY IF EXISTS reply_actions_number_idx;

-- migrate:down transaction:false
CREATE INDEX CONCURRENTLY IF NOT EXISTS reply_actions_number_idx ON reply_actions (company_id, phone_number, done_at) WHERE outcome = 'done';
