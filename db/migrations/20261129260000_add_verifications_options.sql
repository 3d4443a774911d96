-- migrate:up
-- Adds a column with a constant default: PostgreSQL locks the table only for a moment, and rewrites no rows.
ALTER TABLE verifications ADD COLUMN options jsonb DEFAULT '{}' NOT NULL;
COMMENT ON COLUMN verifications.options IS
    'the template_no, language, sign, app_hash, domain and user_id of the request, which a resend repeats. A field that the request did not set is missing';

-- migrate:down
ALTER TABLE verifications DROP COLUMN options;
