-- migrate:up transaction:false
DROP INDEX CONCURRENTLY IF EXISTS contacts_user_id_idx;

-- migrate:down transaction:false
CREATE INDEX CONCURRENTLY IF NOT EXISTS contacts_user_id_idx ON contacts (company_id, lower(user_id COLLATE "C"), user_id);
