-- migrate:up
-- What is deleted by the day that was dropped: building these indexes holds writes to their tables. Rows of renderings are added in the order of
-- their time, so the small index is enough. A summary of the ledger has no lease.
-- squawk-ignore require-concurrent-index-creation
CREATE INDEX renderings_created_at_idx ON renderings USING brin (created_at);
-- squawk-ignore require-concurrent-index-creation
CREATE INDEX business_ends_ended_at_idx ON business_ends (ended_at);
COMMENT ON COLUMN sender_ledger.lease_id IS 'the charged or refunded lease; null: top-up, correction, thresholds, or the sum of a day';
COMMENT ON COLUMN sender_ledger.company_id IS 'whose tasks were charged or refunded; null: top-up, correction or thresholds';

-- migrate:down
COMMENT ON COLUMN sender_ledger.company_id IS 'whose task was charged or refunded; null: top-up, correction or thresholds';
COMMENT ON COLUMN sender_ledger.lease_id IS 'the charged or refunded lease; null: top-up, correction or thresholds';
DROP INDEX business_ends_ended_at_idx;
DROP INDEX renderings_created_at_idx;
