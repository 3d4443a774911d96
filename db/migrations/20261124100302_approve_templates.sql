-- migrate:up
-- A template has five states instead of two. is_active is read as before, and no longer written: servers of the version before cannot add or
-- change templates from here on. At most 10,000 rows are rewritten, under a lock that submissions with templates wait for.
DROP TRIGGER audited ON templates; -- moving the rows is no change by an administrator
ALTER TABLE templates ADD COLUMN status text NOT NULL DEFAULT 'active';
UPDATE templates SET status = 'disabled' WHERE NOT is_active;
-- squawk-ignore ban-drop-column
ALTER TABLE templates DROP COLUMN is_active;
-- squawk-ignore adding-required-field, adding-field-with-default
ALTER TABLE templates ADD COLUMN is_active boolean NOT NULL GENERATED ALWAYS AS (status = 'active') STORED;
-- squawk-ignore constraint-missing-not-valid
ALTER TABLE templates ADD CONSTRAINT templates_status_known CHECK (status IN ('draft', 'in_review', 'active', 'disabled', 'voided'));
COMMENT ON COLUMN templates.status IS 'only active ones are sent; voided is final';
CREATE TRIGGER audited AFTER INSERT OR UPDATE OR DELETE ON templates
FOR EACH ROW EXECUTE FUNCTION audit_change('template', 'id', 'is_active,given_no');

-- migrate:down
DROP TRIGGER audited ON templates;
ALTER TABLE templates DROP COLUMN is_active;
ALTER TABLE templates ADD COLUMN is_active boolean NOT NULL DEFAULT true;
UPDATE templates SET is_active = false WHERE status <> 'active';
ALTER TABLE templates DROP COLUMN status;
CREATE TRIGGER audited AFTER INSERT OR UPDATE OR DELETE ON templates
FOR EACH ROW EXECUTE FUNCTION audit_change('template', 'id');
