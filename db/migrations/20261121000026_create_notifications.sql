-- migrate:up
-- One event of a business, to be told to some people on one channel. What its people were told, and when, is in its renderings
-- and their tasks.
CREATE TABLE notifications (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    company_id bigint NOT NULL REFERENCES companies (id),
    channel_id bigint NOT NULL REFERENCES channels (id),
    biz_type smallint NOT NULL,
    biz_id bigint NOT NULL,
    biz_task_id bigint,
    dedup_key text,
    payload jsonb NOT NULL,
    user_ids text[] NOT NULL,
    next_run_at timestamptz,
    repeat_minutes bigint,
    started_at timestamptz,
    ended_as smallint,
    remark text,
    operator text,
    submitted_by text NOT NULL,
    deleted_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT notifications_dedup_key_length CHECK (char_length(dedup_key) BETWEEN 1 AND 128),
    CONSTRAINT notifications_ended_as_known CHECK (ended_as IN (2, 3, 4)),
    CONSTRAINT notifications_repeat_minutes_range CHECK (repeat_minutes BETWEEN 1 AND 525600)
);
COMMENT ON COLUMN notifications.next_run_at IS 'when its people are told, or told again; null: they will not be';
COMMENT ON COLUMN notifications.started_at IS 'of a node that may take too long: since when it has been worked on';
COMMENT ON COLUMN notifications.ended_as IS '2: it could not be rendered; 3: cancelled; 4: ended abnormally; null: its tasks tell';
CREATE UNIQUE INDEX notifications_dedup_key_idx ON notifications (company_id, channel_id, dedup_key)
WHERE dedup_key IS NOT NULL AND deleted_at IS NULL;
CREATE INDEX notifications_biz_idx ON notifications (company_id, biz_type, biz_id);
CREATE INDEX notifications_biz_task_idx ON notifications (company_id, biz_task_id) WHERE biz_task_id IS NOT NULL;
CREATE INDEX notifications_due_idx ON notifications (next_run_at) WHERE next_run_at IS NOT NULL;
ALTER TABLE renderings ADD COLUMN notification_id bigint;
-- squawk-ignore require-concurrent-index-creation
CREATE INDEX renderings_notification_idx ON renderings (notification_id) WHERE notification_id IS NOT NULL;

-- migrate:down
DROP INDEX renderings_notification_idx;
ALTER TABLE renderings DROP COLUMN notification_id;
DROP TABLE notifications;
