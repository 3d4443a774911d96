-- migrate:up
-- A notification may expire, and may be set to success. The new check accepts every row that the old one did; its scan, like the index
-- on people, holds writes to notifications.
ALTER TABLE notifications ADD COLUMN expires_at timestamptz;
COMMENT ON COLUMN notifications.expires_at IS 'not after; null: never';
ALTER TABLE notifications DROP CONSTRAINT notifications_ended_as_known;
-- squawk-ignore constraint-missing-not-valid
ALTER TABLE notifications ADD CONSTRAINT notifications_ended_as_known CHECK (ended_as IN (1, 2, 3, 4));
COMMENT ON COLUMN notifications.ended_as IS '1: set to success; 2: it could not be told; 3: cancelled; 4: ended abnormally; null: its tasks tell';
-- squawk-ignore require-concurrent-index-creation
CREATE INDEX notifications_user_ids_idx ON notifications USING gin (user_ids);
-- squawk-ignore require-concurrent-index-creation
CREATE INDEX subscribe_messages_receiver_idx ON subscribe_messages (company_id, receiver_user_id, id);

-- The state that its tasks give a notification: 0 waiting, 1 success, 2 failed, 3 cancelled, 4 ended abnormally, 5 some failed. The tasks
-- counted are the last of each person. To be read by notification_id.
CREATE VIEW notification_standings AS
SELECT n.id AS notification_id,
    CASE
        WHEN n.ended_as IS NOT NULL THEN n.ended_as
        WHEN n.next_run_at IS NOT NULL OR told.waiting > 0 THEN 0
        WHEN told.succeeded = told.people THEN 1
        WHEN told.succeeded > 0 THEN 5
        WHEN told.cancelled = told.people THEN 3
        ELSE 2
    END::smallint AS status,
    least(n.next_run_at, told.next_try)::timestamptz AS next_run_time,
    told.people, told.succeeded, told.retries
FROM notifications n
CROSS JOIN LATERAL (
    SELECT count(*) AS people, count(*) FILTER (WHERE p.status = 2) AS succeeded, count(*) FILTER (WHERE p.status IN (0, 1)) AS waiting,
        count(*) FILTER (WHERE p.status = 4) AS cancelled, coalesce(max(p.retry_count), 0)::smallint AS retries,
        min(p.due_at) FILTER (WHERE p.status = 0 AND (p.retry_count > 0 OR p.due_at > now())) AS next_try
    FROM (
        SELECT DISTINCT ON (t.user_id) t.status, t.retry_count, t.due_at
        FROM renderings r
        JOIN tasks t ON t.rendering_id = r.id
        WHERE r.notification_id = n.id
        ORDER BY t.user_id, t.task_id DESC
    ) p
) told;

-- migrate:down
DROP VIEW notification_standings;
DROP INDEX subscribe_messages_receiver_idx;
DROP INDEX notifications_user_ids_idx;
UPDATE notifications SET ended_as = 3 WHERE ended_as = 1;
ALTER TABLE notifications DROP CONSTRAINT notifications_ended_as_known;
ALTER TABLE notifications ADD CONSTRAINT notifications_ended_as_known CHECK (ended_as IN (2, 3, 4));
ALTER TABLE notifications DROP COLUMN expires_at;
