-- migrate:up
-- A notification is over when it was ended, or when it has no further run and its last task has ended. The first is staged here. Of the second, what
-- may be the last cause is staged, a task by the trigger of report_logs, and a run without a next one here: internal/feed looks when it moves it.
SET LOCAL lock_timeout = '5s';
CREATE FUNCTION notifications_feed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF feed_is_heard(NEW.company_id) THEN
        INSERT INTO feed_staged (company_id, submitted_by, type, at, data)
        VALUES (NEW.company_id, NEW.submitted_by, 'notification.finished', now(), jsonb_build_object('notification_id', NEW.id));
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION notifications_feed() IS 'Trigger of notifications: stages that a notification may be over, if its company listens.';

CREATE TRIGGER notifications_feed_inserted AFTER INSERT ON notifications
    FOR EACH ROW WHEN (NEW.ended_as IS NOT NULL) EXECUTE FUNCTION notifications_feed();
-- Forgetting its texts keeps the state that a notification had, and ends nothing.
CREATE TRIGGER notifications_feed_updated AFTER UPDATE OF ended_as, next_run_at ON notifications
    FOR EACH ROW WHEN (
        NEW.deleted_at IS NULL AND NEW.forgotten_at IS NULL AND (
            NEW.ended_as IS NOT NULL AND NEW.ended_as IS DISTINCT FROM OLD.ended_as
            OR NEW.ended_as IS NULL AND NEW.next_run_at IS NULL AND OLD.next_run_at IS NOT NULL
        )
    )
    EXECUTE FUNCTION notifications_feed();

-- Is an end of a task of a notification staged? The table is emptied each second, so the index is built in a moment.
-- squawk-ignore require-concurrent-index-creation
CREATE INDEX feed_staged_task_idx ON feed_staged (task_id) WHERE task_id IS NOT NULL;

-- migrate:down
SET LOCAL lock_timeout = '5s';
DROP INDEX feed_staged_task_idx;
DROP TRIGGER notifications_feed_updated ON notifications;
DROP TRIGGER notifications_feed_inserted ON notifications;
DROP FUNCTION notifications_feed();
-- A version before would tell what is only a cause.
DELETE FROM feed_staged WHERE type = 'notification.finished';
