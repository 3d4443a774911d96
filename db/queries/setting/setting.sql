-- name: SettingList :many
SELECT * FROM settings ORDER BY category, name;

-- SettingsLock lets no other change of settings begin before the end of the transaction: a rule between settings holds for what both leave.
-- name: SettingsLock :exec
LOCK TABLE settings IN SHARE ROW EXCLUSIVE MODE;

-- SettingStoreDefault stores the default of a setting that is about to get another value for the first time, so that SettingPut changes it: audit
-- and events have the value before.
-- name: SettingStoreDefault :exec
INSERT INTO settings (category, name, value)
SELECT @category::text, @name::text, @default_value::jsonb
WHERE @default_value::jsonb <> @value::jsonb
ON CONFLICT (category, name) DO NOTHING;

-- SettingPut changes a stored setting and adds an event with the user, the old and the new value. It does nothing if the value is the same.
-- name: SettingPut :exec
WITH old AS MATERIALIZED (
    SELECT s.category, s.name, s.value FROM settings s WHERE s.category = @category AND s.name = @name FOR UPDATE
),
changed AS (
    UPDATE settings s
    SET value = @value, updated_by = @updated_by::text, updated_at = now()
    FROM old o
    WHERE s.category = o.category AND s.name = o.name AND o.value <> @value
    RETURNING o.value AS value_before, s.value
)
INSERT INTO events (event, subject, detail)
SELECT 'setting.changed', @category::text || '.' || @name::text,
    jsonb_build_object('by', @updated_by::text, 'from', c.value_before, 'to', c.value)
FROM changed c;

-- TimeZoneExists is whether a time zone has a name. PostgreSQL also takes abbreviations, which know no summer time, and offsets in the notation of
-- POSIX, in which UTC+8 is west of Greenwich.
-- name: TimeZoneExists :one
SELECT EXISTS (SELECT FROM pg_catalog.pg_timezone_names z WHERE z.name = @zone::text);

-- TablespaceExists is whether a tablespace has a name, and may hold tables of a database.
-- name: TablespaceExists :one
SELECT EXISTS (SELECT FROM pg_catalog.pg_tablespace t WHERE t.spcname = @tablespace::text AND t.spcname <> 'pg_global');
