-- migrate:up transaction:false
-- Partial, so that lookups of a contact by its key cannot use it: with statistics of few contacts, such a lookup read the entries of all contacts of the company.
CREATE INDEX CONCURRENTLY IF NOT EXISTS contacts_user_id_folded_idx ON contacts (company_id, lower(user_id COLLATE "C"), user_id)
    WHERE lower(user_id COLLATE "C") IS NOT NULL;

-- migrate:down transaction:false
DROP INDEX CONCURRENTLY IF EXISTS contacts_user_id_folded_idx;
