-- migrate:up
-- The dedup_key of a caller names a notification for the whole company, whichever of its users gives it. Rows that exist may share a key, one for
-- each submitter: they keep it, and are outside of the new index. The server looks for them before it adds a row, and the oldest one counts.
-- A server of the version before adds rows with the default, under notifications_submitter_dedup_key_idx, which stays until the next version.
-- Adding the columns rewrites nothing. Building the index, which is empty, holds writes to notifications while it reads the table once.
ALTER TABLE notifications ADD COLUMN is_companys boolean NOT NULL DEFAULT false, ADD COLUMN changed_by text;
COMMENT ON COLUMN notifications.is_companys IS 'its dedup_key is unique in the company; false: the row is of a version in which each submitter had keys of its own';
COMMENT ON COLUMN notifications.changed_by IS 'the user of LKSMS who ended, deleted or resumed it last; null: nobody did, or before this column. No foreign key, as submitted_by';
COMMENT ON COLUMN notifications.dedup_key IS 'unique among the visible notifications of a channel and a company whose keys have the same owner, see dedup_key_owner; null: none';
COMMENT ON COLUMN notifications.replaced_at IS 'when its dedup_key was freed: its node started again, its orbit was planned for another time, or it had reached nobody and was announced again; null: it was not';

CREATE FUNCTION dedup_key_owner(biz_task_id bigint, submitted_by text) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN CASE WHEN biz_task_id IS NOT NULL THEN 'event' WHEN submitted_by LIKE 'system:%' THEN submitted_by ELSE '' END;
COMMENT ON FUNCTION dedup_key_owner(bigint, text) IS 'Whose the dedup_key of a notification is within its company: of business events, of the service itself (system:...), or of the callers (empty). Nobody can take the key of another owner.';

-- squawk-ignore require-concurrent-index-creation
CREATE UNIQUE INDEX notifications_company_dedup_key_idx
ON notifications (company_id, channel_id, dedup_key, dedup_key_owner(biz_task_id, submitted_by))
WHERE dedup_key IS NOT NULL AND deleted_at IS NULL AND replaced_at IS NULL AND is_companys;

-- migrate:down
DROP INDEX notifications_company_dedup_key_idx;
DROP FUNCTION dedup_key_owner(bigint, text);
ALTER TABLE notifications DROP COLUMN is_companys, DROP COLUMN changed_by;
COMMENT ON COLUMN notifications.dedup_key IS 'unique among the visible notifications of a channel: within the company for a business event, else for its submitter; null: none';
COMMENT ON COLUMN notifications.replaced_at IS 'when its dedup_key was freed because its node started again; null: it was not';
