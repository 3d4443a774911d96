-- migrate:up
-- The erasure of a person finds submissions by the last digits of their numbers, which callers write in many ways. No row is in the index yet: building
-- it reads the table, and keeps writers out meanwhile.
SET LOCAL lock_timeout = '5s';
-- squawk-ignore require-concurrent-index-creation
CREATE INDEX fruitless_submissions_number_idx
ON fruitless_submissions (company_id, right(regexp_replace(phone_number, '[^0-9]', '', 'g'), 8))
WHERE company_id IS NOT NULL AND phone_number IS NOT NULL;

-- migrate:down
DROP INDEX fruitless_submissions_number_idx;
