-- Locks no table. reply_actions_waiting_idx contains the same rows, so servers of the former version sort only these rows.
-- migrate:up transaction:false
DROP INDEX CONCURRENTLY IF EXISTS reply_actions_due_idx;

-- migrate:down transaction:false
CREATE INDEX CONCURRENTLY IF NOT EXISTS reply_actions_due_idx ON reply_actions (received_id) WHERE outcome IS NULL;
