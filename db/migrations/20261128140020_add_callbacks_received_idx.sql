-- migrate:up transaction:false
CREATE INDEX CONCURRENTLY IF NOT EXISTS callbacks_received_idx ON callbacks USING gin (received_ids) WHERE received_ids IS NOT NULL;

-- migrate:down transaction:false
DROP INDEX CONCURRENTLY IF EXISTS callbacks_received_idx;
