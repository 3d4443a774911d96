-- migrate:up
-- A statement that writes both names of a renamed setting swapped their values: each row was copied to the other name. The row of the present name now counts.
CREATE OR REPLACE FUNCTION mirror_renamed_setting() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    changed CONSTANT settings := coalesce(NEW, OLD);
    is_present CONSTANT boolean := changed.name ~ '^max_';
    other CONSTANT text := CASE
        WHEN is_present THEN regexp_replace(changed.name, '^max_(content|segments)_', '\1_most_')
        ELSE regexp_replace(changed.name, '^(content|segments)_most_', 'max_\1_')
    END;
BEGIN
    IF changed.category <> 'sms' OR other = changed.name THEN
        RETURN NULL; -- it was not renamed
    ELSIF TG_OP = 'DELETE' THEN
        DELETE FROM settings s WHERE s.category = changed.category AND s.name = other;
    ELSIF NOT is_present AND EXISTS (
        SELECT FROM settings own
        JOIN settings present ON present.category = own.category AND present.name = other
        WHERE own.category = changed.category AND own.name = changed.name
            -- The row of the present name has replaced this row, or the same statement wrote both rows: they have the same transaction and command.
            AND (own.value <> changed.value OR own.xmin = present.xmin AND own.cmin = present.cmin)
    ) THEN
        RETURN NULL;
    ELSE
        INSERT INTO settings (category, name, value, updated_by, updated_at)
        VALUES (changed.category, other, changed.value, changed.updated_by, changed.updated_at)
        ON CONFLICT (category, name) DO UPDATE SET value = excluded.value, updated_by = excluded.updated_by, updated_at = excluded.updated_at;
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION mirror_renamed_setting() IS
    'Writes a change of a renamed setting under its other name too, for servers of version 1.0.0 beside later ones. If a statement writes both names, the '
    'present name counts. The function is dropped with the rows of the former names.';

-- migrate:down
CREATE OR REPLACE FUNCTION mirror_renamed_setting() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    changed CONSTANT settings := coalesce(NEW, OLD);
    other CONSTANT text := CASE
        WHEN changed.name ~ '^max_' THEN regexp_replace(changed.name, '^max_(content|segments)_', '\1_most_')
        ELSE regexp_replace(changed.name, '^(content|segments)_most_', 'max_\1_')
    END;
BEGIN
    IF changed.category <> 'sms' OR other = changed.name THEN
        RETURN NULL; -- it was not renamed
    ELSIF TG_OP = 'DELETE' THEN
        DELETE FROM settings s WHERE s.category = changed.category AND s.name = other;
    ELSE
        INSERT INTO settings (category, name, value, updated_by, updated_at)
        VALUES (changed.category, other, changed.value, changed.updated_by, changed.updated_at)
        ON CONFLICT (category, name) DO UPDATE SET value = excluded.value, updated_by = excluded.updated_by, updated_at = excluded.updated_at;
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION mirror_renamed_setting() IS
    'Writes a change of a renamed setting under its other name too, for servers of version 1.0.0 beside later ones. It goes with the rows of the former names.';
