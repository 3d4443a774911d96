-- migrate:up
-- This locks report_logs and its partitions for a moment, and rewrites nothing. See add_dimensions_to_facts.
SET LOCAL lock_timeout = '5s';
ALTER TABLE report_logs
    ADD COLUMN batch_id bigint,
    ADD COLUMN country_no text,
    ADD COLUMN is_test boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN report_logs.batch_id IS 'as messages.batch_id; null: none, or the row is older than this column';
COMMENT ON COLUMN report_logs.country_no IS 'as messages.country_no; null: none, or the row is older than this column';
COMMENT ON COLUMN report_logs.is_test IS 'as messages.is_test; false: also a row that is older than this column';

-- migrate:down
SET LOCAL lock_timeout = '5s';
ALTER TABLE report_logs DROP COLUMN batch_id, DROP COLUMN country_no, DROP COLUMN is_test;
