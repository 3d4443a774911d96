-- migrate:up
-- Adds columns without values: locks each table for a moment.
SET LOCAL lock_timeout = '5s';
ALTER TABLE announcements ADD COLUMN tag text;
COMMENT ON COLUMN announcements.tag IS 'the contacts of this tag get it, and user_ids is empty; null: user_ids get it';
ALTER TABLE notifications
    ADD COLUMN run_rendering_id bigint,
    ADD COLUMN run_after text;
COMMENT ON COLUMN notifications.run_rendering_id IS 'of a notification to a tag: the text of the run that goes on; null: none does';
COMMENT ON COLUMN notifications.run_after IS 'the last contact who got a task of this run';

-- migrate:down
SET LOCAL lock_timeout = '5s';
ALTER TABLE notifications DROP COLUMN run_rendering_id, DROP COLUMN run_after;
ALTER TABLE announcements DROP COLUMN tag;
