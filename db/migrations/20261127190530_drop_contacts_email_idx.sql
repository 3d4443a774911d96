-- migrate:up transaction:false
DROP INDEX CONCURRENTLY IF EXISTS contacts_email_idx;

-- migrate:down transaction:false
CREATE INDEX CONCURRENTLY IF NOT EXISTS contacts_email_idx ON contacts (company_id, lower(email COLLATE "C"), user_id) WHERE email IS NOT NULL;
