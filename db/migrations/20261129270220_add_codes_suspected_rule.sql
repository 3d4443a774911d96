-- migrate:up
-- The audit does not contain the rules that are shipped.
ALTER TABLE alert_rules DISABLE TRIGGER audited;
INSERT INTO alert_rules (kind, level, threshold, window_seconds, for_seconds, resolve_seconds, repeat_seconds)
VALUES ('codes_suspected', 'warning', NULL, NULL, 0, 60, 86400);
ALTER TABLE alert_rules ENABLE TRIGGER audited;

-- migrate:down
ALTER TABLE alert_rules DISABLE TRIGGER audited;
DELETE FROM alert_rules WHERE kind = 'codes_suspected';
ALTER TABLE alert_rules ENABLE TRIGGER audited;
