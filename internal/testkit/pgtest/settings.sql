-- Marketing messages have no quiet hours, so that tests and benchmarks do not depend on the time of day.
ALTER TABLE settings DISABLE TRIGGER USER;
INSERT INTO settings (category, name, value, updated_by) VALUES ('recipient', 'quiet_hours_marketing', '""', 'test') ON CONFLICT DO NOTHING;
ALTER TABLE settings ENABLE TRIGGER USER;
DELETE FROM quiet_changes;
