-- Statements that erase a person. Each statement skips data that is already erased. Therefore a statement can be repeated, and counts each row once.

-- ErasureAnnouncements returns up to `portion` announcements of a company that name one of user_ids.
-- name: ErasureAnnouncements :many
SELECT DISTINCT a.id
FROM announcements a
JOIN notifications n ON n.announcement_id = a.id
WHERE a.user_ids && @user_ids::text[] AND n.company_id = @company_id
ORDER BY a.id
LIMIT @portion::integer;

-- ErasureAnnounced locks the notifications of announcements. A run of a notification holds the same lock. After the wait for the lock, the tasks of this run
-- are visible.
-- name: ErasureAnnounced :many
SELECT n.id FROM notifications n WHERE n.announcement_id = ANY (@ids::bigint[]) ORDER BY n.id FOR UPDATE;

-- ErasureAnnouncement removes user ids from announcements. If no user id remains, it also deletes the payload of the announcement.
-- name: ErasureAnnouncement :exec
WITH left_over AS (
    SELECT a.id, ARRAY(
        SELECT u.user_id FROM unnest(a.user_ids) WITH ORDINALITY AS u (user_id, place) WHERE u.user_id <> ALL (@user_ids::text[]) ORDER BY u.place
    ) AS user_ids
    FROM announcements a
    WHERE a.id = ANY (@ids::bigint[])
),
silenced AS (
    UPDATE notifications n SET own_payload = '{}' FROM left_over l WHERE n.announcement_id = l.id AND l.user_ids = '{}'
)
UPDATE announcements a
SET user_ids = l.user_ids, payload = CASE WHEN l.user_ids = '{}' THEN '{}' ELSE a.payload END
FROM left_over l
WHERE a.id = l.id;

-- ErasureRenderings erases each rendering of the given tasks whose messages have all been erased. The content is replaced by a note about the erasure.
-- name: ErasureRenderings :execrows
UPDATE renderings r
SET title = '', content = @erased, html = '', params = '{}', page = ''
WHERE r.id IN (SELECT m.rendering_id FROM messages m WHERE m.task_id = ANY (@task_ids::text[])) AND r.content <> @erased
    AND NOT EXISTS (SELECT FROM messages m WHERE m.rendering_id = r.id AND m.content <> @erased);

-- ErasureOnce replaces the receivers of send-once messages by pseudonyms.
-- name: ErasureOnce :execrows
UPDATE subscribe_messages m
SET receiver_user_id = @pseudonym::text || array_position(@user_ids::text[], m.receiver_user_id)
WHERE m.company_id = @company_id AND m.receiver_user_id = ANY (@user_ids::text[]);
