-- migrate:up
ALTER TABLE report_logs ADD COLUMN lease_sim smallint;
COMMENT ON COLUMN report_logs.lease_sim IS 'see queue.lease_sim';

-- migrate:down
ALTER TABLE report_logs DROP COLUMN lease_sim;
