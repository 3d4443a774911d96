-- migrate:up
-- Locks the table for a moment: the column has a constant default, and no row is rewritten. A later migration checks the constraint. A server of the
-- version before does not write the column.
ALTER TABLE batches ADD COLUMN default_region text NOT NULL DEFAULT '';
ALTER TABLE batches ADD CONSTRAINT batches_default_region_form CHECK (default_region ~ '^([A-Z]{2})?$') NOT VALID;
COMMENT ON COLUMN batches.default_region IS 'ISO 3166-1 code of the region of numbers without a country code in the list; empty: the one of the company when the list is read';

-- migrate:down
ALTER TABLE batches DROP COLUMN default_region;
