-- migrate:up
-- Adds a column without a value: locks the table for a moment.
SET LOCAL lock_timeout = '5s';
ALTER TABLE fruitless_submissions ADD COLUMN company_id bigint;
COMMENT ON COLUMN fruitless_submissions.company_id IS 'the company of the submitter; no foreign key, as in messages; null: stored before this column existed';

-- migrate:down
SET LOCAL lock_timeout = '5s';
ALTER TABLE fruitless_submissions DROP COLUMN company_id;
