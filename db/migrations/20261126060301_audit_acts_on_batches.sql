-- migrate:up
-- Who pauses, resumes, confirms or cancels a batch is recorded in the transaction of the act. Adding the column rewrites nothing, and the triggers
-- lock the table for a moment.
ALTER TABLE batches ADD COLUMN changed_by text;
COMMENT ON COLUMN batches.changed_by IS 'the user who confirmed, paused, resumed or cancelled it last; null: nobody did, or before this column. No foreign key, as submitted_by';

CREATE FUNCTION note_changer() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    NEW.changed_by := current_setting('lksms.actor', true);
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION note_changer() IS 'Notes the user who asked for a change of a row, see postgres.As.';
CREATE TRIGGER changer_noted BEFORE UPDATE OF status ON batches
FOR EACH ROW WHEN (current_setting('lksms.actor', true) <> '' AND OLD.status <> NEW.status) EXECUTE FUNCTION note_changer();

CREATE TRIGGER audited AFTER UPDATE OF status ON batches
FOR EACH ROW WHEN (current_setting('lksms.actor', true) <> '')
EXECUTE FUNCTION audit_change(
    'batch', 'id',
    'is_held,is_settled,is_read,last_row,rows,valid,invalid,duplicate,blocked,segments,fed_row,fed,fault,upload_id,confirmed_at,started_at,ended_at,changed_by'
);

-- migrate:down
DROP TRIGGER audited ON batches;
DROP TRIGGER changer_noted ON batches;
DROP FUNCTION note_changer();
ALTER TABLE batches DROP COLUMN changed_by;
