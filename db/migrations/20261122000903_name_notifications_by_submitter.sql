-- migrate:up
-- A dedup key that a caller chooses is its submitter's own; that of an event, which has a biz_task_id, stays its company's, whichever of
-- its users reports the event. Building the index holds writes to notifications.
-- squawk-ignore require-concurrent-index-creation
CREATE UNIQUE INDEX notifications_submitter_dedup_key_idx
ON notifications (company_id, channel_id, dedup_key, (CASE WHEN biz_task_id IS NULL THEN submitted_by ELSE '' END))
WHERE dedup_key IS NOT NULL AND deleted_at IS NULL AND replaced_at IS NULL;
-- squawk-ignore require-concurrent-index-deletion
DROP INDEX notifications_dedup_key_idx;

-- migrate:down
-- A name that was used twice stays with the first notification.
UPDATE notifications n SET dedup_key = NULL
WHERE n.dedup_key IS NOT NULL AND n.deleted_at IS NULL AND n.replaced_at IS NULL AND EXISTS (
    SELECT FROM notifications f
    WHERE f.company_id = n.company_id AND f.channel_id = n.channel_id AND f.dedup_key = n.dedup_key AND f.id < n.id
        AND f.deleted_at IS NULL AND f.replaced_at IS NULL
);
CREATE UNIQUE INDEX notifications_dedup_key_idx ON notifications (company_id, channel_id, dedup_key)
WHERE dedup_key IS NOT NULL AND deleted_at IS NULL AND replaced_at IS NULL;
DROP INDEX notifications_submitter_dedup_key_idx;
