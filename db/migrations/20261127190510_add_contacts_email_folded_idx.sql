-- migrate:up transaction:false
CREATE INDEX CONCURRENTLY IF NOT EXISTS contacts_email_folded_idx ON contacts (company_id, (fold_case(email) COLLATE "C"), user_id) WHERE email IS NOT NULL;

-- migrate:down transaction:false
DROP INDEX CONCURRENTLY IF EXISTS contacts_email_folded_idx;
