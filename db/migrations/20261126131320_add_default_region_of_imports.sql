-- migrate:up
-- An import of contacts may say of which region its phone numbers without a country code are. The table is small; it is locked for a moment.
SET LOCAL lock_timeout = '5s';
ALTER TABLE contact_imports ADD COLUMN default_region text NOT NULL DEFAULT '';
COMMENT ON COLUMN contact_imports.default_region IS 'region (ISO 3166-1) of phone numbers without a country code; empty: that of the company';

-- migrate:down
SET LOCAL lock_timeout = '5s';
ALTER TABLE contact_imports DROP COLUMN default_region;
