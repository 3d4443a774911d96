-- migrate:up transaction:false
DROP INDEX CONCURRENTLY IF EXISTS contacts_dingtalk_name_idx;

-- migrate:down transaction:false
CREATE INDEX CONCURRENTLY IF NOT EXISTS contacts_dingtalk_name_idx ON contacts (company_id, lower(dingtalk_name COLLATE "C"), user_id) WHERE dingtalk_name IS NOT NULL;
