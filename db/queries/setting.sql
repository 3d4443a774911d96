-- name: SettingList :many
SELECT * FROM settings ORDER BY category, name;

-- SettingPut changes a setting and adds an event with the user, the old and the new value. It does nothing if the value is the same.
-- name: SettingPut :exec
WITH old AS (
    SELECT s.value FROM settings s WHERE s.category = @category AND s.name = @name
),
changed AS (
    INSERT INTO settings (category, name, value, updated_by)
    VALUES (@category, @name, @value, @updated_by)
    ON CONFLICT (category, name) DO UPDATE
    SET value = excluded.value, updated_by = excluded.updated_by, updated_at = now()
    WHERE settings.value <> excluded.value
    RETURNING value
)
INSERT INTO events (event, subject, detail)
SELECT 'setting.changed', @category::text || '.' || @name::text,
    jsonb_build_object('by', @updated_by::text, 'from', coalesce((SELECT old.value FROM old), @default_value::jsonb), 'to', changed.value)
FROM changed;
