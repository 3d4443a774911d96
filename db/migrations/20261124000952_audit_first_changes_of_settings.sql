-- migrate:up
-- The first change of a setting is recorded as a change of its default. Only the program knows the default: it stores the default and changes it, in
-- one transaction, and the row of the default is not recorded. All this locks the small table for a moment.
-- No committed row has null in updated_by, so older servers read it as before.
-- squawk-ignore ban-drop-not-null
ALTER TABLE settings ALTER COLUMN updated_by DROP NOT NULL;
COMMENT ON COLUMN settings.updated_by IS
    'null: nobody changed the value, which is the default; only inside the transaction of the first change. No foreign key: the configured user is in no table';
COMMENT ON TABLE settings IS
    'A setting that was changed from its default. Written by internal/setting, which knows the names, defaults and bounds.';
CREATE OR REPLACE TRIGGER audited AFTER UPDATE OR DELETE ON settings
FOR EACH ROW EXECUTE FUNCTION audit_change('setting', 'category,name', 'updated_by');
CREATE TRIGGER audited_adding AFTER INSERT ON settings
FOR EACH ROW WHEN (NEW.updated_by IS NOT NULL) EXECUTE FUNCTION audit_change('setting', 'category,name', 'updated_by');

-- migrate:down
DROP TRIGGER audited_adding ON settings;
CREATE OR REPLACE TRIGGER audited AFTER INSERT OR UPDATE OR DELETE ON settings
FOR EACH ROW EXECUTE FUNCTION audit_change('setting', 'category,name', 'updated_by');
COMMENT ON TABLE settings IS
    'A setting that was changed from its default. Written by internal/setting, which knows the names, defaults and bounds. updated_by has no foreign '
    'key: the configured user is in no table.';
COMMENT ON COLUMN settings.updated_by IS NULL;
ALTER TABLE settings ALTER COLUMN updated_by SET NOT NULL;
