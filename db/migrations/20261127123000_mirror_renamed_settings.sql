-- migrate:up
-- A server of version 1.0.0 knows the limits of texts by their former names. While such servers may run, a trigger writes each change under both names, so
-- that an administrator may change the limits on any server, and a way back has no old values. The migration that deletes the rows of the former names drops
-- the trigger. Audit has each change once, under the name of today. Locks settings for a moment.
CREATE FUNCTION mirror_renamed_setting() RETURNS trigger LANGUAGE plpgsql AS $$
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

CREATE OR REPLACE TRIGGER audited AFTER DELETE OR UPDATE ON settings FOR EACH ROW
WHEN (NOT (old.category = 'sms' AND old.name ~ '^(content|segments)_most_'))
EXECUTE FUNCTION audit_change('setting', 'category,name', 'updated_by');
CREATE OR REPLACE TRIGGER audited_adding AFTER INSERT ON settings FOR EACH ROW
WHEN (new.updated_by IS NOT NULL AND NOT (new.category = 'sms' AND new.name ~ '^(content|segments)_most_'))
EXECUTE FUNCTION audit_change('setting', 'category,name', 'updated_by');

-- The rows of both names become equal: the later change counts.
INSERT INTO settings AS s (category, name, value, updated_by, updated_at)
SELECT r.category, regexp_replace(r.name, '^(content|segments)_most_', 'max_\1_'), r.value, r.updated_by, r.updated_at
FROM settings r
WHERE r.category = 'sms' AND r.name ~ '^(content|segments)_most_'
ON CONFLICT (category, name) DO UPDATE SET value = excluded.value, updated_by = excluded.updated_by, updated_at = excluded.updated_at
    WHERE s.updated_at < excluded.updated_at AND s.value <> excluded.value;
INSERT INTO settings AS s (category, name, value, updated_by, updated_at)
SELECT r.category, regexp_replace(r.name, '^max_(content|segments)_', '\1_most_'), r.value, r.updated_by, r.updated_at
FROM settings r
WHERE r.category = 'sms' AND r.name ~ '^max_(content|segments)_'
ON CONFLICT (category, name) DO UPDATE SET value = excluded.value, updated_by = excluded.updated_by, updated_at = excluded.updated_at
    WHERE s.value <> excluded.value;

CREATE TRIGGER mirrored AFTER INSERT OR UPDATE OR DELETE ON settings FOR EACH ROW WHEN (pg_trigger_depth() = 0)
EXECUTE FUNCTION mirror_renamed_setting();

-- migrate:down
DROP TRIGGER mirrored ON settings;
DROP FUNCTION mirror_renamed_setting();
CREATE OR REPLACE TRIGGER audited AFTER DELETE OR UPDATE ON settings FOR EACH ROW
EXECUTE FUNCTION audit_change('setting', 'category,name', 'updated_by');
CREATE OR REPLACE TRIGGER audited_adding AFTER INSERT ON settings FOR EACH ROW WHEN (new.updated_by IS NOT NULL)
EXECUTE FUNCTION audit_change('setting', 'category,name', 'updated_by');
