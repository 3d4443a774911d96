-- migrate:up
-- A day that should be history, or dropped, for a day or longer is an alert. A server of the version before leaves rules of a kind alone that it does not
-- know. The rule is one row: nothing waits.
SET LOCAL lock_timeout = '5s';
ALTER TABLE alert_rules DISABLE TRIGGER audited; -- no administrator adds it
INSERT INTO alert_rules (kind, level, threshold, for_seconds, resolve_seconds, repeat_seconds)
VALUES ('history_overdue', 'warning', 1, 7200, 60, 86400); -- days
ALTER TABLE alert_rules ENABLE TRIGGER audited;

-- migrate:down
SET LOCAL lock_timeout = '5s';
ALTER TABLE alert_rules DISABLE TRIGGER audited;
DELETE FROM alert_rules WHERE kind = 'history_overdue';
ALTER TABLE alert_rules ENABLE TRIGGER audited;
