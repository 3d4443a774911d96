-- migrate:up transaction:false
CREATE INDEX CONCURRENTLY IF NOT EXISTS contacts_dingtalk_name_folded_idx ON contacts (company_id, (fold_case(dingtalk_name) COLLATE "C"), user_id) WHERE dingtalk_name IS NOT NULL;

-- migrate:down transaction:false
DROP INDEX CONCURRENTLY IF EXISTS contacts_dingtalk_name_folded_idx;
