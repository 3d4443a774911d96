-- migrate:up
-- The limits of texts are called max_… like all others. Rows of the former names stay for servers of the version before, which ignore those of the new names;
-- this version ignores the former ones. Locks nothing but the new rows.
INSERT INTO settings (category, name, value, updated_by, updated_at)
SELECT s.category, regexp_replace(s.name, '^(content|segments)_most_', 'max_\1_'), s.value, s.updated_by, s.updated_at
FROM settings s
WHERE s.category = 'sms' AND s.name ~ '^(content|segments)_most_'
ON CONFLICT (category, name) DO NOTHING;

-- migrate:down
-- A value that was changed since goes back to its former name.
INSERT INTO settings (category, name, value, updated_by, updated_at)
SELECT s.category, regexp_replace(s.name, '^max_(content|segments)_', '\1_most_'), s.value, s.updated_by, s.updated_at
FROM settings s
WHERE s.category = 'sms' AND s.name ~ '^max_(content|segments)_'
ON CONFLICT (category, name) DO UPDATE SET value = excluded.value, updated_by = excluded.updated_by, updated_at = excluded.updated_at;
DELETE FROM settings s WHERE s.category = 'sms' AND s.name ~ '^max_(content|segments)_';
