-- name: SettingList :many
SELECT * FROM settings ORDER BY category, name;

-- SettingsLock blocks other changes of settings until the end of the transaction. Concurrent changes therefore cannot break a rule that compares several
-- settings.
-- name: SettingsLock :exec
LOCK TABLE settings IN SHARE ROW EXCLUSIVE MODE;

-- SettingStoreDefault stores the default of a setting before the first change of this setting. SettingPut then changes an existing row, so that the audit and
-- the event contain the old value.
-- name: SettingStoreDefault :exec
INSERT INTO settings (category, name, value)
SELECT @category::text, @name::text, @default_value::jsonb
WHERE @default_value::jsonb <> @value::jsonb
ON CONFLICT (category, name) DO NOTHING;

-- SettingPut changes a stored setting, and adds an event with the user, the old value and the new value. It changes nothing if the value is the same.
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

-- TimeZoneExists returns whether a time zone with this name exists. PostgreSQL also accepts abbreviations and POSIX offsets as time zones, but this statement
-- returns false for them. Abbreviations have no summer time. In POSIX offsets, UTC+8 is west of Greenwich. localtime and posixrules are files of the host of the
-- database: they name another time zone after a restore on another host.
-- name: TimeZoneExists :one
SELECT EXISTS (SELECT FROM pg_catalog.pg_timezone_names z WHERE z.name = @zone::text AND z.name NOT IN ('localtime', 'posixrules'));

-- TablespaceExists returns whether a tablespace with this name exists and can contain tables of a database.
-- name: TablespaceExists :one
SELECT EXISTS (SELECT FROM pg_catalog.pg_tablespace t WHERE t.spcname = @tablespace::text AND t.spcname <> 'pg_global');
