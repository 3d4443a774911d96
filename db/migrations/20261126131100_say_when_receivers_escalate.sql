-- migrate:up
-- An alert that is not sent to a receiver escalates. The table is small; it is locked for a moment.
SET LOCAL lock_timeout = '5s';
ALTER TABLE alert_receivers ADD COLUMN escalate_seconds bigint NOT NULL DEFAULT 300;
-- squawk-ignore constraint-missing-not-valid
ALTER TABLE alert_receivers ADD CONSTRAINT alert_receivers_escalate_seconds_range CHECK (escalate_seconds BETWEEN 0 AND 86400);
COMMENT ON COLUMN alert_receivers.escalate_seconds IS 'after how many seconds an alert escalates that was not sent to the receiver; 0: never';

-- migrate:down
SET LOCAL lock_timeout = '5s';
ALTER TABLE alert_receivers DROP COLUMN escalate_seconds;
