-- migrate:up
-- Alerts whose end is to be told are found by alerts.resolved_at, which ends after a day. This index kept deliveries whose end could not be told.
-- Dropping it locks alert_deliveries for a moment.
-- squawk-ignore require-concurrent-index-deletion
DROP INDEX alert_deliveries_end_idx;

-- migrate:down
CREATE INDEX alert_deliveries_end_idx ON alert_deliveries (next_at) WHERE told_at IS NOT NULL AND end_told_at IS NULL;
