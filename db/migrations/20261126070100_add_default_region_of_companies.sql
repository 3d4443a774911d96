-- migrate:up
-- Locks the table for a moment: the column has a constant default, and no row is rewritten. A later migration checks the constraint. A server of the
-- version before does not write the column.
ALTER TABLE companies ADD COLUMN default_region text NOT NULL DEFAULT '';
ALTER TABLE companies ADD CONSTRAINT companies_default_region_form CHECK (default_region ~ '^([A-Z]{2})?$') NOT VALID;
COMMENT ON COLUMN companies.default_region IS 'ISO 3166-1 code of the region of numbers without a country code; empty: such numbers are refused, except mobile numbers of mainland China';

-- migrate:down
ALTER TABLE companies DROP COLUMN default_region;
