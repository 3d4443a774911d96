-- migrate:up
-- What is deleted by the day that was dropped: building these indexes holds writes to their tables. Rows of renderings are added in the order of
-- their time, so the small index is enough. A summary of the ledger has no lease.
-- squawk-ignore require-concurrent-index-creation
CREATE INDEX renderings_created_at_idx ON renderings USING brin (created_at);
ALTER TABLE business_ends ADD COLUMN recorded_at timestamptz NOT NULL DEFAULT now();
COMMENT ON COLUMN business_ends.recorded_at IS 'when this was stored; ended_at is the caller''s time, which may be long before';
-- squawk-ignore require-concurrent-index-creation
CREATE INDEX business_ends_recorded_at_idx ON business_ends (recorded_at);
COMMENT ON COLUMN sender_ledger.lease_id IS 'the charged or refunded lease; null: top-up, correction, thresholds, or the sum of a day';
COMMENT ON COLUMN sender_ledger.company_id IS 'whose tasks were charged or refunded; null: top-up, correction or thresholds';

-- migrate:down
COMMENT ON COLUMN sender_ledger.company_id IS 'whose task was charged or refunded; null: top-up, correction or thresholds';
COMMENT ON COLUMN sender_ledger.lease_id IS 'the charged or refunded lease; null: top-up, correction or thresholds';
DROP INDEX business_ends_recorded_at_idx;
ALTER TABLE business_ends DROP COLUMN recorded_at;
DROP INDEX renderings_created_at_idx;
