-- migrate:up
-- The end of a business task, or of one of its nodes, as events told it: a start that is told later, of before the end, reminds nobody.
CREATE TABLE business_ends (
    company_id bigint NOT NULL REFERENCES companies (id) ON DELETE CASCADE,
    subject text NOT NULL,
    subject_id bigint NOT NULL,
    ended_at timestamptz NOT NULL,
    awaits_start boolean NOT NULL DEFAULT false,
    CONSTRAINT business_ends_pkey PRIMARY KEY (company_id, subject, subject_id),
    CONSTRAINT business_ends_subject_known CHECK (subject IN ('task', 'node'))
);
COMMENT ON TABLE business_ends IS 'a business task or node that is over; the row goes when it is begun again';
COMMENT ON COLUMN business_ends.awaits_start IS 'its end was told before its start: the next start without a time is that one';

-- A node that is begun again is reminded of under the same dedup key: the notification before it gives its name away. Building the index
-- holds writes to notifications.
ALTER TABLE notifications ADD COLUMN replaced_at timestamptz;
COMMENT ON COLUMN notifications.replaced_at IS 'when its dedup key was given to a later one: its node was begun again';
-- squawk-ignore require-concurrent-index-deletion
DROP INDEX notifications_dedup_key_idx;
-- squawk-ignore require-concurrent-index-creation
CREATE UNIQUE INDEX notifications_dedup_key_idx ON notifications (company_id, channel_id, dedup_key)
WHERE dedup_key IS NOT NULL AND deleted_at IS NULL AND replaced_at IS NULL;

INSERT INTO business_ends (company_id, subject, subject_id, ended_at)
SELECT n.company_id, 'node', n.biz_id, max(n.updated_at)
FROM notifications n
WHERE n.biz_type = 5 AND n.deleted_at IS NULL
GROUP BY n.company_id, n.biz_id
HAVING bool_and(coalesce(n.ended_as IN (3, 4), false));

-- migrate:down
DROP INDEX notifications_dedup_key_idx;
UPDATE notifications SET dedup_key = NULL WHERE replaced_at IS NOT NULL;
CREATE UNIQUE INDEX notifications_dedup_key_idx ON notifications (company_id, channel_id, dedup_key)
WHERE dedup_key IS NOT NULL AND deleted_at IS NULL;
ALTER TABLE notifications DROP COLUMN replaced_at;
DROP TABLE business_ends;
