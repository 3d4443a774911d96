-- migrate:up transaction:false
-- fruitless_submissions_digits_idx has the same rows by the digits of any notation.
DROP INDEX CONCURRENTLY IF EXISTS fruitless_submissions_number_idx;

-- migrate:down transaction:false
-- squawk-ignore ban-concurrent-index-creation-in-transaction
CREATE INDEX CONCURRENTLY IF NOT EXISTS fruitless_submissions_number_idx ON fruitless_submissions (company_id, right(regexp_replace(phone_number, '[^0-9]', '', 'g'), 8))
WHERE company_id IS NOT NULL AND phone_number IS NOT NULL;
