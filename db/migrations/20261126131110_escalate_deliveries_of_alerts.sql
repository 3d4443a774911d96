-- migrate:up
-- An alert is delivered when its message is sent, and escalates if it is not. The new columns are empty for deliveries of before, and for those of a
-- server of the version before: these count as delivered when they were handed over, and do not escalate. The table is small; it is locked for a moment.
SET LOCAL lock_timeout = '5s';
ALTER TABLE alert_deliveries ADD COLUMN awaits bigint[];
ALTER TABLE alert_deliveries ADD COLUMN sent_at timestamptz;
ALTER TABLE alert_deliveries ADD COLUMN end_awaits bigint[];
ALTER TABLE alert_deliveries ADD COLUMN end_sent_at timestamptz;
ALTER TABLE alert_deliveries ADD COLUMN escalate_at timestamptz;
ALTER TABLE alert_deliveries ADD COLUMN escalated_at timestamptz;
ALTER TABLE alert_deliveries ADD COLUMN escalated_from bigint;
COMMENT ON COLUMN alert_deliveries.told_at IS 'when the receiver was last told that the alert fires: a program; or the queue took the messages to people; null: not yet';
COMMENT ON COLUMN alert_deliveries.awaits IS 'notifications that tell that the alert fires and of which a message may still be sent; empty: none any more; null: told_at is the delivery';
COMMENT ON COLUMN alert_deliveries.sent_at IS 'when the first message of the last notifications that tell that the alert fires was sent; null: none was';
COMMENT ON COLUMN alert_deliveries.end_awaits IS 'as awaits, of the end of the alert';
COMMENT ON COLUMN alert_deliveries.end_sent_at IS 'as sent_at, of the end of the alert';
COMMENT ON COLUMN alert_deliveries.escalate_at IS 'when the delivery escalates, unless a message is sent before; null: never, or not any more';
COMMENT ON COLUMN alert_deliveries.escalated_at IS 'when it escalated to other channels of the receiver, or to other receivers; null: it did not';
COMMENT ON COLUMN alert_deliveries.escalated_from IS 'receiver whose delivery escalated to this one, which does not escalate; no foreign key, as receiver_id; null: the rule names the receiver';

-- migrate:down
SET LOCAL lock_timeout = '5s';
COMMENT ON COLUMN alert_deliveries.told_at IS 'when the receiver was last told that the alert fires; null: not yet';
ALTER TABLE alert_deliveries DROP COLUMN escalated_from;
ALTER TABLE alert_deliveries DROP COLUMN escalated_at;
ALTER TABLE alert_deliveries DROP COLUMN escalate_at;
ALTER TABLE alert_deliveries DROP COLUMN end_sent_at;
ALTER TABLE alert_deliveries DROP COLUMN end_awaits;
ALTER TABLE alert_deliveries DROP COLUMN sent_at;
ALTER TABLE alert_deliveries DROP COLUMN awaits;
