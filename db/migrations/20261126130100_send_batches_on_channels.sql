-- migrate:up
-- A batch can be of another channel than short messages: its rows fill a rendering. Adds columns without values, or with one that PostgreSQL does not
-- write into the rows, and widens a constraint: locks batches, batch_rows and renderings for a moment. The next migration validates it.
-- A server of the version before reads the addresses of such a batch as phone numbers, and sends none of its rows.
SET LOCAL lock_timeout = '5s';
ALTER TABLE batches
    ADD COLUMN channel text NOT NULL DEFAULT 'sms',
    ADD COLUMN subject text,
    ADD COLUMN biz_type smallint,
    ADD COLUMN rendering_id bigint,
    DROP CONSTRAINT batches_content_length,
    ADD CONSTRAINT batches_content_length CHECK (char_length(content) BETWEEN 1 AND 20000) NOT VALID,
    ADD CONSTRAINT batches_rendering_of_channel CHECK ((rendering_id IS NULL) = (channel = 'sms')) NOT VALID;
ALTER TABLE batch_rows ADD COLUMN contact_values jsonb;
ALTER TABLE renderings ADD COLUMN channel_id bigint;
COMMENT ON COLUMN batches.channel IS 'the name of the channel; no foreign key: a batch may outlive its channel';
COMMENT ON COLUMN batches.subject IS 'the title with its placeholders; null: a short message, or none';
COMMENT ON COLUMN batches.biz_type IS 'of the notification template whose text it has; null: another text';
COMMENT ON COLUMN batches.rendering_id IS 'the text that its rows fill; null: short messages, whose texts are in batch_rows';
COMMENT ON COLUMN batches.phone_column IS 'the column with the addresses';
COMMENT ON COLUMN batch_rows.recipient IS 'the address on the channel: a phone number in E.164; as it is in the list if it is not valid';
COMMENT ON COLUMN batch_rows.content IS 'the text without signature, of another channel than sms its beginning; empty: it could not be made';
COMMENT ON COLUMN batch_rows.contact_values IS 'the values of the placeholders of the rendering; null: the text has none';
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
SET LOCAL lock_timeout = '5s';
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
UPDATE batches SET content = left(content, 1024) WHERE char_length(content) > 1024;
ALTER TABLE batches
    DROP COLUMN rendering_id, -- and its constraint
    DROP COLUMN biz_type,
    DROP COLUMN subject,
    DROP COLUMN channel,
    DROP CONSTRAINT batches_content_length,
    ADD CONSTRAINT batches_content_length CHECK (char_length(content) BETWEEN 1 AND 1024);
ALTER TABLE batch_rows DROP COLUMN contact_values;
ALTER TABLE renderings DROP COLUMN channel_id;
COMMENT ON COLUMN batch_rows.recipient IS 'the phone number in E.164; as it is in the list if it is not valid';
COMMENT ON COLUMN batch_rows.content IS 'the text without signature; empty: it could not be made';
COMMENT ON COLUMN batches.phone_column IS 'the column with the phone numbers';
COMMENT ON COLUMN renderings.notification_id IS 'null: a send-once message';
COMMENT ON TABLE renderings IS 'The text of one run of a notification, or of one send-once message, which its tasks share. Written by internal/notification. notification_id has no foreign key: rows of notifications are never deleted.';
