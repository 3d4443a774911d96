-- migrate:up
-- A rendering can be that of a batch, which names the channel. Rewrites no row, and locks the table for a moment.
ALTER TABLE renderings ADD COLUMN channel_id bigint;
COMMENT ON COLUMN renderings.channel_id IS 'of a batch: its channel; null: of a notification, or of a send-once message';
COMMENT ON COLUMN renderings.notification_id IS 'null: a send-once message, or a batch';
COMMENT ON TABLE renderings IS 'The text of one run of a notification, of one send-once message, or of one batch, which its tasks share. Written by internal/notification. notification_id has no foreign key: rows of notifications are never deleted.';

CREATE OR REPLACE FUNCTION task_channel(of_rendering bigint) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT CASE
        WHEN of_rendering IS NULL THEN (SELECT c.id FROM channels c WHERE c.channel = 'sms')
        ELSE coalesce(
            (SELECT n.channel_id FROM renderings r JOIN notifications n ON n.id = r.notification_id WHERE r.id = of_rendering),
            (SELECT c.id FROM renderings r JOIN channels c ON c.id = coalesce(
                r.channel_id, (SELECT w.id FROM channels w WHERE w.channel = 'wechat')
            ) WHERE r.id = of_rendering)
        )
    END
$$;

CREATE OR REPLACE FUNCTION task_is_withdrawn(of_task text, of_company bigint, of_rendering bigint, of_user text) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
DECLARE
    notification bigint;
    of_batch boolean;
BEGIN
    IF NOT EXISTS (SELECT FROM companies c WHERE c.id = of_company) THEN
        RETURN true;
    END IF;
    IF of_rendering IS NULL THEN
        RETURN false;
    END IF;
    SELECT r.notification_id, r.channel_id IS NOT NULL INTO notification, of_batch FROM renderings r WHERE r.id = of_rendering;
    IF NOT FOUND THEN
        RETURN true;
    END IF;
    IF of_batch THEN
        RETURN false;
    END IF;
    IF notification IS NULL THEN
        RETURN NOT EXISTS (SELECT FROM subscribe_messages s WHERE s.task_id = of_task);
    END IF;
    RETURN NOT EXISTS (
            SELECT FROM notifications n
            WHERE n.id = notification AND n.ended_as IS NULL AND n.deleted_at IS NULL AND n.replaced_at IS NULL AND n.forgotten_at IS NULL
        )
        OR EXISTS (
            SELECT FROM renderings l
            JOIN messages m ON m.rendering_id = l.id
            WHERE l.notification_id = notification AND l.id > of_rendering AND m.user_id = of_user
        );
END
$$;

-- migrate:down
CREATE OR REPLACE FUNCTION task_channel(of_rendering bigint) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT CASE
        WHEN of_rendering IS NULL THEN (SELECT c.id FROM channels c WHERE c.channel = 'sms')
        ELSE coalesce(
            (SELECT n.channel_id FROM renderings r JOIN notifications n ON n.id = r.notification_id WHERE r.id = of_rendering),
            (SELECT c.id FROM channels c WHERE c.channel = 'wechat')
        )
    END
$$;
CREATE OR REPLACE FUNCTION task_is_withdrawn(of_task text, of_company bigint, of_rendering bigint, of_user text) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
DECLARE
    notification bigint;
BEGIN
    IF NOT EXISTS (SELECT FROM companies c WHERE c.id = of_company) THEN
        RETURN true;
    END IF;
    IF of_rendering IS NULL THEN
        RETURN false;
    END IF;
    SELECT r.notification_id INTO notification FROM renderings r WHERE r.id = of_rendering;
    IF NOT FOUND THEN
        RETURN true;
    END IF;
    IF notification IS NULL THEN
        RETURN NOT EXISTS (SELECT FROM subscribe_messages s WHERE s.task_id = of_task);
    END IF;
    RETURN NOT EXISTS (
            SELECT FROM notifications n
            WHERE n.id = notification AND n.ended_as IS NULL AND n.deleted_at IS NULL AND n.replaced_at IS NULL AND n.forgotten_at IS NULL
        )
        OR EXISTS (
            SELECT FROM renderings l
            JOIN messages m ON m.rendering_id = l.id
            WHERE l.notification_id = notification AND l.id > of_rendering AND m.user_id = of_user
        );
END
$$;
ALTER TABLE renderings DROP COLUMN channel_id;
COMMENT ON COLUMN renderings.notification_id IS 'null: a send-once message';
COMMENT ON TABLE renderings IS 'The text of one run of a notification, or of one send-once message, which its tasks share. Written by internal/notification. notification_id has no foreign key: rows of notifications are never deleted.';
