-- Notifications: what people are told of a business event, once on each channel.

-- Now is the time by which everything is judged.
-- name: Now :one
SELECT now()::timestamptz AS at;

-- BusinessLock makes the events of a business task wait for each other until the end of the transaction. Statements after it see what
-- the others did.
-- name: BusinessLock :exec
SELECT pg_advisory_xact_lock(hashtextextended('business ' || @company_id::bigint || ' ' || @task_id::bigint, 0));

-- BusinessEnds gives the ends of a business task and of one of its nodes, of those that are over.
-- name: BusinessEnds :many
SELECT e.subject, e.ended_at, e.awaits_start
FROM business_ends e
WHERE e.company_id = @company_id AND (
    (e.subject = 'task' AND e.subject_id = @task_id) OR (e.subject = 'node' AND e.subject_id = sqlc.narg(node_id)::bigint)
)
ORDER BY e.subject;

-- BusinessEndPut says that a task or a node is over.
-- name: BusinessEndPut :exec
INSERT INTO business_ends AS e (company_id, subject, subject_id, ended_at, awaits_start)
VALUES (@company_id, @subject, @subject_id, @ended_at, @awaits_start)
ON CONFLICT (company_id, subject, subject_id) DO UPDATE
SET ended_at = greatest(e.ended_at, excluded.ended_at), awaits_start = excluded.awaits_start;

-- BusinessEndNodes says that the nodes of a task are over of which people would be reminded.
-- name: BusinessEndNodes :exec
INSERT INTO business_ends (company_id, subject, subject_id, ended_at)
SELECT DISTINCT n.company_id, 'node', n.biz_id, @ended_at::timestamptz
FROM notifications n
WHERE n.company_id = @company_id AND n.biz_task_id = @task_id AND n.biz_type = 5 AND n.deleted_at IS NULL AND n.replaced_at IS NULL
ORDER BY n.biz_id
ON CONFLICT DO NOTHING;

-- name: BusinessEndDelete :exec
DELETE FROM business_ends e WHERE e.company_id = @company_id AND e.subject = @subject AND e.subject_id = @subject_id;

-- NodeReminders tells whether a node has reminders, and the latest start that callers gave a time for, of the reminders that go on.
-- A start without a time is stored with the time of its transaction, as is created_at. Such a start may be later than what the
-- caller's clock says of its end, so it is not compared with an end.
-- name: NodeReminders :one
SELECT (count(*) > 0)::boolean AS has_any,
    coalesce(max(n.started_at) FILTER (WHERE n.ended_as IS NULL AND n.started_at <> n.created_at), 'epoch')::timestamptz AS started_at
FROM notifications n
WHERE n.company_id = @company_id AND n.biz_type = 5 AND n.biz_id = @node_id AND n.deleted_at IS NULL AND n.replaced_at IS NULL;

-- NodeRemindersReplace lets the reminders of a node give their names to those of its next start.
-- name: NodeRemindersReplace :exec
UPDATE notifications n SET replaced_at = now()
WHERE n.company_id = @company_id AND n.biz_type = 5 AND n.biz_id = @node_id AND n.deleted_at IS NULL AND n.replaced_at IS NULL;

-- NotificationCreate adds a notification, unless its dedup_key names one that is there (S1.3): then there is no row, and, if two
-- came at once, the other has committed. The dedup_key of an event, which has a biz_task_id, is its company's; any other is its
-- submitter's. Callers choose only their own, so they cannot name an event before it happens. Without announcement_id, it makes an
-- announcement of payload and user_ids; the foreign key is checked at the end of the statement.
-- name: NotificationCreate :one
WITH made AS (
    INSERT INTO notifications (
        company_id, channel_id, biz_type, biz_id, biz_task_id, dedup_key, announcement_id, own_payload, next_run_at, repeat_minutes,
        started_at, ended_as, operator, submitted_by, sign, expires_at
    )
    SELECT @company_id, c.id, @biz_type, @biz_id, sqlc.narg(biz_task_id), sqlc.narg(dedup_key),
        coalesce(sqlc.narg(announcement_id)::bigint, nextval('announcements_id_seq')), @own_payload,
        CASE WHEN sqlc.narg(ended_as)::smallint IS NULL THEN coalesce(sqlc.narg(next_run_at)::timestamptz, now()) END,
        sqlc.narg(repeat_minutes), sqlc.narg(started_at), sqlc.narg(ended_as)::smallint, sqlc.narg(operator), @submitted_by, sqlc.narg(sign),
        sqlc.narg(expires_at)
    FROM channels c
    WHERE c.channel = @channel
    ON CONFLICT (company_id, channel_id, dedup_key, (CASE WHEN biz_task_id IS NULL THEN submitted_by ELSE '' END))
    WHERE dedup_key IS NOT NULL AND deleted_at IS NULL AND replaced_at IS NULL DO NOTHING
    RETURNING id, announcement_id
),
announced AS (
    INSERT INTO announcements (id, payload, user_ids)
    SELECT m.announcement_id, @payload::jsonb, @user_ids::text[] FROM made m WHERE sqlc.narg(announcement_id)::bigint IS NULL
)
SELECT m.id, m.announcement_id FROM made m;

-- NotificationsWaiting counts the notifications of a company that wait for their time, up to most.
-- name: NotificationsWaiting :one
SELECT count(*) FROM (
    SELECT FROM notifications n WHERE n.company_id = @company_id AND n.next_run_at IS NOT NULL LIMIT @most::bigint
) w;

-- NotificationFind gives the notification that a dedup_key names: that of an event with a biz_task_id, else that of a submitter.
-- name: NotificationFind :one
SELECT n.id
FROM notifications n
JOIN channels c ON c.id = n.channel_id
WHERE n.company_id = @company_id AND c.channel = @channel AND n.dedup_key = @dedup_key::text
    AND CASE WHEN n.biz_task_id IS NULL THEN n.submitted_by ELSE '' END
        = CASE WHEN sqlc.narg(biz_task_id)::bigint IS NULL THEN @submitted_by::text ELSE '' END
    AND n.deleted_at IS NULL AND n.replaced_at IS NULL;

-- NotificationDue takes up to batch_size notifications whose time has come, or the one of id, and holds them. Of one that is told
-- again, wait says how long it has to wait yet, in seconds: its people are told again repeat_minutes after the last of them
-- was reached, or was given up (S1.5).
-- name: NotificationDue :many
WITH due AS MATERIALIZED (
    SELECT n.*
    FROM notifications n
    WHERE n.next_run_at <= now() AND n.deleted_at IS NULL AND n.ended_as IS NULL
        AND (sqlc.narg(id)::bigint IS NULL OR n.id = sqlc.narg(id)::bigint)
    ORDER BY n.next_run_at
    LIMIT @batch_size::integer
    FOR UPDATE SKIP LOCKED
)
SELECT d.id, d.company_id, c.channel, d.biz_type, (a.payload || d.own_payload)::jsonb AS payload, a.user_ids, d.repeat_minutes, d.submitted_by, t.title, t.content,
    t.external_id, coalesce(d.sign, t.sign, '')::text AS sign,
    coalesce(floor(extract(epoch FROM now() - d.started_at) / 60), 0)::bigint AS elapsed_minutes,
    (d.started_at IS NOT NULL)::boolean AS is_timed, d.expires_at, coalesce(d.expires_at <= now(), false)::boolean AS is_expired,
    last.was_told,
    CASE
        WHEN last.is_open THEN 60
        WHEN last.ended_at IS NULL THEN 0
        ELSE greatest(0, extract(epoch FROM last.ended_at + make_interval(mins => d.repeat_minutes::integer) - now()))
    END::double precision AS wait
FROM due d
JOIN channels c ON c.id = d.channel_id
JOIN announcements a ON a.id = d.announcement_id
LEFT JOIN notification_templates t ON t.biz_type = d.biz_type AND t.channel_id = d.channel_id AND t.is_enabled
LEFT JOIN LATERAL (
    SELECT (count(*) > 0)::boolean AS was_told, bool_or(t.status IN (0, 1)) AS is_open, max(t.reported_at) AS ended_at
    FROM renderings r
    JOIN tasks t ON t.rendering_id = r.id
    WHERE r.notification_id = d.id
) last ON true
ORDER BY d.next_run_at;

-- NotificationDueIDs names up to batch_size notifications whose time has come.
-- name: NotificationDueIDs :many
SELECT n.id FROM notifications n
WHERE n.next_run_at <= now() AND n.deleted_at IS NULL AND n.ended_as IS NULL
ORDER BY n.next_run_at
LIMIT @batch_size::integer;

-- NotificationNext plans the next run of a notification, in seconds from now; null is never. No run is planned for after its expiry.
-- The remark of an earlier round is over.
-- name: NotificationNext :exec
UPDATE notifications n
SET next_run_at = CASE WHEN r.at >= n.expires_at THEN NULL ELSE r.at END, remark = NULL, updated_at = now()
FROM (SELECT now() + make_interval(secs => sqlc.narg(seconds)::double precision) AS at) r
WHERE n.id = @id;

-- NotificationFail notes why a notification cannot be told. If it repeats and has been told before, it keeps its outcome, and the next
-- run is after its interval, unless it expires first. Otherwise it has failed (2). is_failed says which; one that ended meanwhile has
-- no row.
-- name: NotificationFail :one
UPDATE notifications n
SET ended_as = CASE WHEN NOT r.goes_on THEN 2 END,
    next_run_at = CASE WHEN r.goes_on AND r.at < coalesce(n.expires_at, 'infinity') THEN r.at END,
    remark = left(@remark::text, 255), updated_at = now()
FROM (
    SELECT f.id, now() + make_interval(mins => f.repeat_minutes::integer) AS at,
        f.repeat_minutes IS NOT NULL AND EXISTS (
            SELECT FROM renderings r JOIN tasks t ON t.rendering_id = r.id WHERE r.notification_id = f.id
        ) AS goes_on
    FROM notifications f
    WHERE f.id = @id
) r
WHERE n.id = r.id AND n.ended_as IS NULL AND n.deleted_at IS NULL
RETURNING (n.ended_as IS NOT NULL)::boolean AS is_failed;

-- NotificationStatuses gives the states of notifications for a list that is narrowed by them: up to scan_limit are looked at.
-- name: NotificationStatuses :many
SELECT n.id, o.status
FROM notifications n
JOIN channels c ON c.id = n.channel_id
CROSS JOIN LATERAL (SELECT s.status FROM notification_standings s WHERE s.notification_id = n.id OFFSET 0) o
WHERE n.company_id = coalesce(sqlc.narg(company_id)::bigint, n.company_id) AND n.deleted_at IS NULL AND n.id < @before_id
    AND (sqlc.narg(owner)::text IS NULL OR n.submitted_by = sqlc.narg(owner)::text)
    AND (sqlc.narg(biz_type)::smallint IS NULL OR n.biz_type = sqlc.narg(biz_type)::smallint)
    AND (sqlc.narg(biz_id)::bigint IS NULL OR n.biz_id = sqlc.narg(biz_id)::bigint)
    AND (sqlc.narg(channel)::text IS NULL OR c.channel = sqlc.narg(channel)::text)
    AND (sqlc.narg(user_id)::text IS NULL OR n.announcement_id IN (
        SELECT a.id FROM announcements a WHERE a.user_ids @> ARRAY[sqlc.narg(user_id)::text]
    ))
ORDER BY n.id DESC
LIMIT @scan_limit::integer;

-- NotificationOutcomes gives what became of notifications that somebody asked for, in the order of their ids. The reasons are told of
-- those that the same user submitted.
-- name: NotificationOutcomes :many
SELECT n.id, o.status, CASE WHEN n.submitted_by = @submitted_by::text THEN coalesce(n.remark, '') ELSE '' END::text AS remark
FROM notifications n
CROSS JOIN LATERAL (SELECT s.status FROM notification_standings s WHERE s.notification_id = n.id OFFSET 0) o
WHERE n.id = ANY (@ids::bigint[])
ORDER BY n.id;

-- NotificationFailures gives people whom notifications of a user cannot reach, and why.
-- name: NotificationFailures :many
SELECT l.notification_id::bigint AS notification_id, coalesce(l.user_id, '')::text AS user_id, coalesce(l.result, '')::text AS reason
FROM (
    SELECT DISTINCT ON (r.notification_id, t.user_id) r.notification_id, t.user_id, t.status, t.result
    FROM renderings r
    JOIN tasks t ON t.rendering_id = r.id
    WHERE r.notification_id = ANY (@ids::bigint[]) AND t.submitted_by = @submitted_by::text
    ORDER BY r.notification_id, t.user_id, t.task_id DESC
) l
WHERE l.status = 3
ORDER BY l.notification_id, l.user_id
LIMIT @most::integer;

-- NotificationAnnouncement gives what a notification says, and to whom.
-- name: NotificationAnnouncement :one
SELECT (a.payload || n.own_payload)::jsonb AS payload, a.user_ids
FROM notifications n
JOIN announcements a ON a.id = n.announcement_id
WHERE n.id = @id;

-- NotificationList shows notifications with the state that their tasks give them.
-- name: NotificationList :many
SELECT n.id, c.channel, n.biz_type, n.biz_id, n.dedup_key, n.repeat_minutes, n.started_at, n.expires_at, n.sign,
    n.remark, n.operator, n.created_at, n.updated_at, told.status, told.next_run_time, told.people, told.succeeded, told.retries
FROM notifications n
JOIN channels c ON c.id = n.channel_id
CROSS JOIN LATERAL (
    SELECT s.status, s.next_run_time, s.people, s.succeeded, s.retries FROM notification_standings s WHERE s.notification_id = n.id OFFSET 0
) told
WHERE n.company_id = coalesce(sqlc.narg(company_id)::bigint, n.company_id) AND n.deleted_at IS NULL AND n.id < @before_id
    AND (sqlc.narg(owner)::text IS NULL OR n.submitted_by = sqlc.narg(owner)::text)
    AND (sqlc.narg(id)::bigint IS NULL OR n.id = sqlc.narg(id)::bigint)
    AND (sqlc.narg(biz_type)::smallint IS NULL OR n.biz_type = sqlc.narg(biz_type)::smallint)
    AND (sqlc.narg(biz_id)::bigint IS NULL OR n.biz_id = sqlc.narg(biz_id)::bigint)
    AND (sqlc.narg(channel)::text IS NULL OR c.channel = sqlc.narg(channel)::text)
    AND (sqlc.narg(user_id)::text IS NULL OR n.announcement_id IN (
        SELECT a.id FROM announcements a WHERE a.user_ids @> ARRAY[sqlc.narg(user_id)::text]
    ))
    AND (sqlc.narg(ids)::bigint[] IS NULL OR n.id = ANY (sqlc.narg(ids)::bigint[]))
ORDER BY n.id DESC
LIMIT @page_limit::integer;

-- NotificationPeople tells what became of each person's message, the last of each, in the codes of notifications: 0 waiting, 1 success,
-- 2 failed, 3 cancelled, 4 ended abnormally. A person who has no task yet has the state and the reason of the notification.
-- name: NotificationPeople :many
WITH latest AS MATERIALIZED (
    SELECT DISTINCT ON (t.user_id) t.user_id, t.task_id, t.recipient, t.status, t.retry_count, t.due_at, t.sent_at, t.result,
        count(*) OVER (PARTITION BY t.user_id) AS times
    FROM renderings r
    JOIN tasks t ON t.rendering_id = r.id
    WHERE r.notification_id = @id::bigint
    ORDER BY t.user_id, t.task_id DESC
)
SELECT u.user_id::text AS user_id, coalesce(l.task_id, '')::text AS task_id, coalesce(l.recipient, '')::text AS recipient,
    CASE l.status
        WHEN 2 THEN 1
        WHEN 3 THEN 2
        WHEN 4 THEN CASE n.ended_as WHEN 4 THEN 4 ELSE 3 END
        ELSE CASE WHEN l.task_id IS NULL THEN coalesce(n.ended_as, 0) ELSE 0 END
    END::smallint AS status,
    coalesce(l.retry_count, 0)::smallint AS retry_count, coalesce(l.due_at, n.next_run_at, n.created_at)::timestamptz AS due_at, l.sent_at,
    CASE WHEN l.status = 2 THEN '' WHEN l.task_id IS NULL THEN coalesce(n.remark, '') ELSE coalesce(l.result, '') END::text AS last_error,
    (SELECT d.provider_no FROM deliveries d WHERE d.task_id = l.task_id AND d.provider_no IS NOT NULL ORDER BY d.id DESC LIMIT 1) AS provider_no,
    coalesce(l.times, 0)::bigint AS times
FROM notifications n
JOIN announcements a ON a.id = n.announcement_id
CROSS JOIN LATERAL unnest(a.user_ids) AS u (user_id)
LEFT JOIN latest l ON l.user_id = u.user_id
WHERE n.id = @id::bigint
ORDER BY u.user_id;

-- NotificationReached names the people whom a notification has reached, or may still reach.
-- name: NotificationReached :many
SELECT DISTINCT t.user_id::text AS user_id
FROM renderings r
JOIN tasks t ON t.rendering_id = r.id
WHERE r.notification_id = @id::bigint AND t.status IN (0, 1, 2)
ORDER BY user_id;

-- NotificationLock holds those of a business that are among biz_ids, or that belong to a business task. What a run that holds them
-- is about to make is there when it has them.
-- name: NotificationLock :many
SELECT n.id FROM notifications n
WHERE n.company_id = @company_id AND n.deleted_at IS NULL AND n.biz_type = ANY (@biz_types::smallint[])
    AND (n.biz_id = ANY (@biz_ids::bigint[]) OR n.biz_task_id = sqlc.narg(biz_task_id)::bigint)
    AND (sqlc.narg(owner)::text IS NULL OR n.submitted_by = sqlc.narg(owner)::text)
ORDER BY n.id
FOR UPDATE;

-- NotificationSet gives those of ids that are in one of the states expected another one, and tells which that were (S1.6). Set to waiting,
-- a notification is told now; its name must not have been given to a later one. Tasks are withdrawn apart.
-- name: NotificationSet :many
WITH changed AS (
    UPDATE notifications n
    SET ended_as = nullif(@target::smallint, 0), next_run_at = CASE WHEN @target::smallint = 0 THEN now() END,
        remark = CASE WHEN @target::smallint = 0 THEN NULL ELSE n.remark END, operator = coalesce(sqlc.narg(operator), n.operator),
        updated_at = now()
    FROM notification_standings s
    WHERE n.id = ANY (@ids::bigint[]) AND s.notification_id = n.id AND s.status = ANY (@expected::smallint[])
        AND (@target::smallint > 0 OR (s.status > 0 AND n.replaced_at IS NULL))
    RETURNING n.id
)
SELECT c.id FROM changed c ORDER BY c.id;

-- NotificationDelete hides notifications; their dedup_keys are free again.
-- name: NotificationDelete :execrows
UPDATE notifications n
SET deleted_at = now(), next_run_at = NULL, operator = coalesce(sqlc.narg(operator), n.operator), updated_at = now()
WHERE n.id = ANY (@ids::bigint[]) AND n.deleted_at IS NULL;

-- RenderingCreate keeps what the tasks of one telling have in common.
-- name: RenderingCreate :one
INSERT INTO renderings (notification_id, title, content, template_id, params, page)
VALUES (sqlc.narg(notification_id), @title, @content, @template_id, @params, @page)
RETURNING id;

-- name: NotificationTemplatePut :one
INSERT INTO notification_templates (biz_type, channel_id, title, content, external_id, sign, is_enabled)
SELECT @biz_type, c.id, @title, @content, @external_id, sqlc.narg(sign), @is_enabled FROM channels c WHERE c.channel = @channel
ON CONFLICT (biz_type, channel_id) DO UPDATE
SET title = excluded.title, content = excluded.content, external_id = excluded.external_id, sign = excluded.sign, is_enabled = excluded.is_enabled,
    updated_at = now()
RETURNING id;

-- name: NotificationTemplateList :many
SELECT t.biz_type, c.channel, t.title, t.content, t.external_id, t.sign, t.is_enabled, t.created_at, t.updated_at
FROM notification_templates t
JOIN channels c ON c.id = t.channel_id
WHERE (sqlc.narg(biz_type)::smallint IS NULL OR t.biz_type = sqlc.narg(biz_type)::smallint)
    AND (sqlc.narg(channel)::text IS NULL OR c.channel = sqlc.narg(channel)::text)
ORDER BY t.biz_type, c.channel;

-- name: NotificationTemplateDelete :execrows
DELETE FROM notification_templates t USING channels c WHERE c.id = t.channel_id AND c.channel = @channel AND t.biz_type = @biz_type;

-- SubscribeCreate opens a message, unless there is one of the name: then there is no row, and, if two came at once, the other has
-- committed.
-- name: SubscribeCreate :one
INSERT INTO subscribe_messages (
    company_id, submitted_by, business_type, business_id, template_type, receiver_user_id, template_id, task_id
)
VALUES (@company_id, @submitted_by, @business_type, @business_id, @template_type, @receiver_user_id, @template_id, '')
ON CONFLICT (company_id, business_type, business_id, template_type, receiver_user_id, submitted_by) DO NOTHING
RETURNING id;

-- SubscribeHold finds the message of a submitter's name and holds it.
-- name: SubscribeHold :one
SELECT m.id FROM subscribe_messages m
WHERE m.company_id = @company_id AND m.business_type = @business_type AND m.business_id = @business_id
    AND m.template_type = @template_type AND m.receiver_user_id = @receiver_user_id AND m.submitted_by = @submitted_by
FOR UPDATE;

-- SubscribeSend says which task sends a message now.
-- name: SubscribeSend :exec
UPDATE subscribe_messages
SET sends = sends + CASE WHEN task_id = '' THEN 0 ELSE 1 END, task_id = @task_id, template_id = @template_id, updated_at = now()
WHERE id = @id;

-- SubscribeList shows messages, newest first, with the state that their tasks give them: 0 sending, 1 sent, 2 failed.
-- name: SubscribeList :many
SELECT m.id, m.business_type, m.business_id, m.template_type, m.receiver_user_id, m.template_id, m.task_id, m.sends, m.created_at,
    t.sent_at, t.reported_at, t.updated_at AS changed_at, coalesce(t.on_unclear, 'retry')::text AS on_unclear, x.send_status,
    CASE WHEN x.send_status = 2 THEN coalesce(t.result, '') ELSE '' END::text AS error_message,
    coalesce(CASE WHEN x.send_status = 2 THEN (
        SELECT l.request_data ->> 'error_code' FROM report_logs l WHERE l.task_id = m.task_id ORDER BY l.id DESC LIMIT 1
    ) END, '')::text AS error_code
FROM subscribe_messages m
JOIN tasks t ON t.task_id = m.task_id
CROSS JOIN LATERAL (
    SELECT CASE t.status WHEN 2 THEN 1 WHEN 3 THEN 2 WHEN 4 THEN 2 ELSE 0 END::smallint AS send_status,
        CASE WHEN t.status IN (3, 4) THEN coalesce(t.reported_at, t.updated_at) END AS failed_at
) x
WHERE m.company_id = coalesce(sqlc.narg(company_id)::bigint, m.company_id) AND m.id < @before_id
    AND (sqlc.narg(owner)::text IS NULL OR t.submitted_by = sqlc.narg(owner)::text)
    AND (sqlc.narg(id)::bigint IS NULL OR m.id = sqlc.narg(id)::bigint)
    AND (sqlc.narg(business_type)::text IS NULL OR m.business_type = sqlc.narg(business_type)::text)
    AND (sqlc.narg(business_id)::bigint IS NULL OR m.business_id = sqlc.narg(business_id)::bigint)
    AND (sqlc.narg(receiver_user_id)::text IS NULL OR m.receiver_user_id = sqlc.narg(receiver_user_id)::text)
    AND (sqlc.narg(send_status)::smallint IS NULL OR x.send_status = sqlc.narg(send_status)::smallint)
ORDER BY m.id DESC
LIMIT @page_limit::integer;

-- SubscribeFailures is SubscribeList of those that failed, the latest failure first.
-- name: SubscribeFailures :many
SELECT m.id, m.business_type, m.business_id, m.template_type, m.receiver_user_id, m.template_id, m.task_id, m.sends, m.created_at,
    t.sent_at, t.reported_at, t.updated_at AS changed_at, coalesce(t.on_unclear, 'retry')::text AS on_unclear, x.send_status,
    CASE WHEN x.send_status = 2 THEN coalesce(t.result, '') ELSE '' END::text AS error_message,
    coalesce(CASE WHEN x.send_status = 2 THEN (
        SELECT l.request_data ->> 'error_code' FROM report_logs l WHERE l.task_id = m.task_id ORDER BY l.id DESC LIMIT 1
    ) END, '')::text AS error_code
FROM subscribe_messages m
JOIN tasks t ON t.task_id = m.task_id
CROSS JOIN LATERAL (
    SELECT CASE t.status WHEN 2 THEN 1 WHEN 3 THEN 2 WHEN 4 THEN 2 ELSE 0 END::smallint AS send_status,
        CASE WHEN t.status IN (3, 4) THEN coalesce(t.reported_at, t.updated_at) END AS failed_at
) x
WHERE m.company_id = coalesce(sqlc.narg(company_id)::bigint, m.company_id)
    AND x.send_status = 2 AND (x.failed_at, m.id) < (@before_failed_at::timestamptz, @before_id::bigint)
    AND (sqlc.narg(owner)::text IS NULL OR t.submitted_by = sqlc.narg(owner)::text)
    AND (sqlc.narg(business_type)::text IS NULL OR m.business_type = sqlc.narg(business_type)::text)
    AND (sqlc.narg(business_id)::bigint IS NULL OR m.business_id = sqlc.narg(business_id)::bigint)
    AND (sqlc.narg(receiver_user_id)::text IS NULL OR m.receiver_user_id = sqlc.narg(receiver_user_id)::text)
ORDER BY x.failed_at DESC, m.id DESC
LIMIT @page_limit::integer;

-- SubscribeStatistics counts messages by template type (S2.4).
-- name: SubscribeStatistics :many
SELECT m.template_type, count(*) AS total, count(*) FILTER (WHERE t.status = 2) AS success, count(*) FILTER (WHERE t.status IN (3, 4)) AS failed
FROM subscribe_messages m
JOIN tasks t ON t.task_id = m.task_id
WHERE m.company_id = coalesce(sqlc.narg(company_id)::bigint, m.company_id)
    AND (sqlc.narg(owner)::text IS NULL OR t.submitted_by = sqlc.narg(owner)::text)
GROUP BY m.template_type
ORDER BY m.template_type;
