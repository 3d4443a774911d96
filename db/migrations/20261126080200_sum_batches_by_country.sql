-- migrate:up
-- The estimate of a batch is computed from sums by country, which are made once, when its check ends: reading it costs the same for any number of rows.
-- Adding a column without a default rewrites no row.
SET LOCAL lock_timeout = '5s';
ALTER TABLE batches ADD COLUMN by_country jsonb;
COMMENT ON COLUMN batches.by_country IS
    'the valid rows and their segments by country when the check ended: [{"country_no", "rows", "segments"}]; null: it is being checked, or a server that does not know this column checked it';

-- migrate:down
SET LOCAL lock_timeout = '5s';
ALTER TABLE batches DROP COLUMN by_country;
