-- migrate:up transaction:false
-- The erasure of a person finds submissions by the last digits of their numbers. The index is built while others write submissions; the build waits for
-- transactions that began before it.
-- squawk-ignore ban-concurrent-index-creation-in-transaction
CREATE INDEX CONCURRENTLY IF NOT EXISTS fruitless_submissions_digits_idx ON fruitless_submissions (company_id, right(number_digits(phone_number), 8))
WHERE company_id IS NOT NULL AND phone_number IS NOT NULL;

-- migrate:down transaction:false
DROP INDEX CONCURRENTLY IF EXISTS fruitless_submissions_digits_idx;
