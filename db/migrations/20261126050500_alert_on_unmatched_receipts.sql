-- migrate:up
-- Receipts that match no message are an alert. The kinds are declared in internal/alert only: the constraint of the table says how a kind is written, and
-- a server of the version before leaves rules of a kind alone that it does not know. Rules are few: the table is locked for a moment.
SET LOCAL lock_timeout = '5s';
ALTER TABLE alert_rules DROP CONSTRAINT alert_rules_kind_known;
-- squawk-ignore constraint-missing-not-valid
ALTER TABLE alert_rules ADD CONSTRAINT alert_rules_kind_known CHECK (kind ~ '^[a-z]+(_[a-z]+)*$');
ALTER TABLE alert_rules DISABLE TRIGGER audited; -- no administrator adds it
INSERT INTO alert_rules (kind, level, threshold, window_seconds, for_seconds, resolve_seconds, repeat_seconds)
VALUES ('receipts_unmatched', 'warning', 1, 3600, 300, 60, 86400); -- receipts
ALTER TABLE alert_rules ENABLE TRIGGER audited;

-- migrate:down
SET LOCAL lock_timeout = '5s';
ALTER TABLE alert_rules DISABLE TRIGGER audited;
DELETE FROM alert_rules WHERE kind = 'receipts_unmatched';
ALTER TABLE alert_rules ENABLE TRIGGER audited;
ALTER TABLE alert_rules DROP CONSTRAINT alert_rules_kind_known;
-- squawk-ignore constraint-missing-not-valid
ALTER TABLE alert_rules ADD CONSTRAINT alert_rules_kind_known CHECK (
    kind IN (
        'wait_time', 'queue_depth', 'failure_rate', 'pool_unserved', 'sender_silent', 'balance_low', 'provider_trouble', 'receipts_missing',
        'disk_low', 'partition_missing', 'webhook_failing', 'statement_differs'
    )
);
