-- migrate:up
-- Some keys of a dimension are read in a range of time without the rows of all others. Roll-ups wait while the index is built: seconds for some
-- million rows.
-- squawk-ignore require-concurrent-index-creation
CREATE INDEX statistics_key_idx ON statistics (step, company_id, dimension, key, at);

-- migrate:down
DROP INDEX statistics_key_idx;
