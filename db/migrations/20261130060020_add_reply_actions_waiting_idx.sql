-- Locks no table: writers of reply_actions continue.
-- migrate:up transaction:false
-- ReplyActionCompanies and ReplyActionsDue find the messages of each company to which rules are still to be applied.
CREATE INDEX CONCURRENTLY IF NOT EXISTS reply_actions_waiting_idx ON reply_actions (company_id, received_id) WHERE outcome IS NULL;

-- migrate:down transaction:false
DROP INDEX CONCURRENTLY IF EXISTS reply_actions_waiting_idx;
