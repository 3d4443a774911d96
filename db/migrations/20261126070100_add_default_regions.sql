-- migrate:up
-- Locks companies and batches for a moment each: both columns have a constant default, and no row is rewritten. The constraints are checked by
-- the next migration. A server of the version before writes neither column.
ALTER TABLE companies ADD COLUMN default_region text NOT NULL DEFAULT '';
ALTER TABLE batches ADD COLUMN default_region text NOT NULL DEFAULT '';
ALTER TABLE companies ADD CONSTRAINT companies_default_region_form CHECK (default_region ~ '^([A-Z]{2})?$') NOT VALID;
ALTER TABLE batches ADD CONSTRAINT batches_default_region_form CHECK (default_region ~ '^([A-Z]{2})?$') NOT VALID;
COMMENT ON COLUMN companies.default_region IS 'ISO 3166-1 code of the region of numbers without a country code; empty: such numbers are refused, except mobile numbers of mainland China';
COMMENT ON COLUMN batches.default_region IS 'the same of the list; empty: the one of the company when the list is read';

-- migrate:down
ALTER TABLE batches DROP COLUMN default_region;
ALTER TABLE companies DROP COLUMN default_region;
